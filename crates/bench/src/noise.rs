//! What kept a measurement from having the machine for itself: steal, preemption, page faults, spread of equal windows.

use std::collections::BTreeMap;
use std::fs::read_to_string;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::search::Disturbance;
use crate::window::Window;

/// Steal, or waiting of a worker for its CPU, beyond this part of a window disturbs it. One tick of `/proc/stat` (10 ms)
/// on two CPUs is 2 % of a window of a quarter of a second, and says nothing yet.
const MOST_STEAL: f64 = 0.03;
const MOST_WAITED: f64 = 0.01;
/// A result is disturbed if more than this part of its windows is,
const MOST_WINDOWS: f64 = 0.1;
/// or if the standard deviation of their rates is more than this part of the mean.
const MOST_SPREAD: f64 = 0.05;

/// What kept a thread from its CPU, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadNoise {
    /// Times that the kernel took the CPU away from it.
    pub involuntary_switches: u64,
    /// Page faults served from memory.
    pub minor_faults: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Nanoseconds in which it could have run and had no CPU; 0 where the kernel does not count them.
    pub waited_ns: u64,
}

impl ThreadNoise {
    /// Of the calling thread (proc(5): `stat`, `status`, `schedstat`).
    pub fn now() -> Self {
        let read = |name: &str| read_to_string(format!("/proc/thread-self/{name}")).unwrap_or_default();
        Self::parse(&read("stat"), &read("status"), &read("schedstat"))
    }

    fn parse(stat: &str, status: &str, schedstat: &str) -> Self {
        // The name, in parentheses, may have spaces; state follows as the third field.
        let fields: Vec<&str> = stat.rsplit_once(')').map_or(vec![], |(_, rest)| rest.split_whitespace().collect());
        let field = |number: usize| fields.get(number - 3).and_then(|word| word.parse().ok()).unwrap_or(0);
        let switches = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        Self {
            involuntary_switches: switches.and_then(|text| text.trim().parse().ok()).unwrap_or(0),
            minor_faults: field(10),
            major_faults: field(12),
            waited_ns: schedstat.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0),
        }
    }

    /// What has come since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            waited_ns: self.waited_ns.saturating_sub(earlier.waited_ns),
        }
    }
}

/// Why a window says little of the gateway; empty: it was not disturbed.
pub fn disturbances(window: &Window) -> Vec<Disturbance> {
    let mut all = Vec::new();
    if window.steal_ratio > MOST_STEAL {
        all.push(Disturbance::Steal);
    }
    let most_ns = MOST_WAITED * window.traffic.seconds * 1e9;
    if window.workers.iter().any(|slice| slice.noise.waited_ns as f64 > most_ns) {
        all.push(Disturbance::Preempted);
    }
    if window.workers.iter().any(|slice| slice.noise.major_faults > 0) {
        all.push(Disturbance::Faults);
    }
    all
}

/// What disturbed a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Noise {
    /// The part of the processors' time, 0 to 1, that the hypervisor gave to others during the windows.
    pub steal_ratio: f64,
    /// The part of their time, 0 to 1, in which workers could have run and had no CPU.
    pub waited_ratio: f64,
    /// Times that the kernel took the CPU away from a worker, in all windows.
    pub involuntary_switches: u64,
    /// Page faults of workers, served from memory.
    pub minor_faults: u64,
    /// Page faults of workers that waited for a disk.
    pub major_faults: u64,
    /// Standard deviation of the windows' rates by their mean.
    pub spread_ratio: f64,
    /// Windows that the result is made of.
    pub windows: usize,
    /// Windows that were disturbed.
    pub disturbed_windows: usize,
    /// Windows by what disturbed them: `steal`, `preempted`, `faults`.
    pub causes: BTreeMap<String, usize>,
    /// More than a tenth of the windows was disturbed, or their rates spread by more than 5 %: do not rely on the result.
    pub is_disturbed: bool,
}

impl Noise {
    /// Of windows that were alike.
    pub fn of(windows: &[Window]) -> Self {
        let slices = || windows.iter().flat_map(|window| &window.workers);
        let sum = |of: fn(&ThreadNoise) -> u64| slices().map(|slice| of(&slice.noise)).sum::<u64>();
        let worked: f64 = windows.iter().map(|w| w.traffic.seconds * w.workers.len() as f64).sum();
        let mut noise = Self {
            steal_ratio: mean(windows.iter().map(|window| window.steal_ratio)),
            waited_ratio: if worked > 0.0 { sum(|noise| noise.waited_ns) as f64 / 1e9 / worked } else { 0.0 },
            involuntary_switches: sum(|noise| noise.involuntary_switches),
            minor_faults: sum(|noise| noise.minor_faults),
            major_faults: sum(|noise| noise.major_faults),
            spread_ratio: spread(windows.iter().map(|window| window.traffic.mpps)),
            windows: windows.len(),
            ..Self::default()
        };
        for causes in windows.iter().map(disturbances).filter(|causes| !causes.is_empty()) {
            noise.disturbed_windows += 1;
            for cause in causes {
                *noise.causes.entry(cause.word().to_owned()).or_default() += 1;
            }
        }
        noise.is_disturbed =
            noise.disturbed_windows as f64 > MOST_WINDOWS * windows.len() as f64 || noise.spread_ratio > MOST_SPREAD;
        noise
    }

    /// As people read it.
    pub fn text(&self) -> String {
        let percent = |part: f64| format!("{:.1} %", part * 100.0);
        let mut out = format!(
            "noise: stolen {}, workers waited {} of their time for a CPU, {} involuntary switches, {} page faults, windows \
             spread by {}",
            percent(self.steal_ratio),
            percent(self.waited_ratio),
            self.involuntary_switches,
            self.minor_faults + self.major_faults,
            percent(self.spread_ratio)
        );
        if self.is_disturbed {
            out += &format!("\n  DISTURBED, do not rely on it: {}", self.why());
        }
        out
    }

    /// What disturbed it, in words.
    pub fn why(&self) -> String {
        let mut words = Vec::new();
        if self.disturbed_windows > 0 {
            let causes: Vec<String> = self.causes.iter().map(|(cause, n)| format!("{cause} {n}")).collect();
            words.push(format!("{} of {} windows ({})", self.disturbed_windows, self.windows, causes.join(", ")));
        }
        if self.spread_ratio > MOST_SPREAD {
            words.push(format!("rates of equal windows spread by {:.1} %", self.spread_ratio * 100.0));
        }
        words.join("; ")
    }
}

fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (n, sum) = numbers.fold((0u32, 0.0), |(n, sum), number| (n + 1, sum + number));
    sum / f64::from(n.max(1))
}

/// Standard deviation by mean.
fn spread(numbers: impl Iterator<Item = f64> + Clone) -> f64 {
    let (n, mean) = (numbers.clone().count(), mean(numbers.clone()));
    if n < 2 || mean <= 0.0 {
        return 0.0;
    }
    let squares: f64 = numbers.map(|number| (number - mean).powi(2)).sum();
    (squares / (n - 1) as f64).sqrt() / mean
}

#[cfg(test)]
mod tests {
    use traffic::TrialResult;

    use super::*;
    use crate::crew::Slice;

    #[test]
    fn the_files_of_a_thread_are_read() {
        let stat = "12 (a (b) c) R 1 2 3 4 5 6 700 0 8 0 10 11";
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t42\n";
        let found = ThreadNoise::parse(stat, status, "1000 250000 3\n");
        let expected = ThreadNoise { involuntary_switches: 42, minor_faults: 700, major_faults: 8, waited_ns: 250_000 };
        assert_eq!(found, expected);
        assert_eq!(found.since(&ThreadNoise { minor_faults: 699, ..expected }).minor_faults, 1);
        assert_eq!(ThreadNoise::parse("", "", ""), ThreadNoise::default());
    }

    #[test]
    fn faults_of_this_thread_are_counted() {
        let before = ThreadNoise::now();
        let mut space = vec![0u8; 4 << 20];
        space.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        std::hint::black_box(&space);
        let found = ThreadNoise::now().since(&before);
        assert!(found.minor_faults > 0, "{found:?}");
    }

    fn window(mpps: f64, noise: ThreadNoise, steal_ratio: f64) -> Window {
        let traffic = TrialResult { mpps, seconds: 0.25, ..TrialResult::default() };
        Window { traffic, workers: vec![Slice { noise, ..Slice::default() }], steal_ratio, ..Window::default() }
    }

    #[test]
    fn disturbed_windows_are_flagged_by_cause() {
        let quiet = ThreadNoise { involuntary_switches: 2, waited_ns: 100_000, ..ThreadNoise::default() };
        let windows = |n: usize, other: Window| {
            let mut all = vec![window(1.0, quiet, 0.0); n];
            all.push(other);
            Noise::of(&all)
        };
        let calm = windows(19, window(1.01, quiet, 0.02));
        assert!(!calm.is_disturbed && calm.disturbed_windows == 0 && calm.involuntary_switches == 40, "{calm:?}");
        assert!(!calm.text().contains("DISTURBED"));
        let waits = ThreadNoise { waited_ns: 5_000_000, ..quiet };
        let one = windows(19, window(1.0, waits, 0.0));
        assert!(!one.is_disturbed && one.causes["preempted"] == 1, "one of twenty: {one:?}");
        let some = windows(4, window(1.0, ThreadNoise { major_faults: 1, ..waits }, 0.1));
        assert!(some.is_disturbed && some.disturbed_windows == 1, "{some:?}");
        assert!(some.text().contains("1 of 5 windows (faults 1, preempted 1, steal 1)"), "{}", some.text());
        let slow = windows(9, window(0.7, quiet, 0.0));
        assert!(slow.is_disturbed && slow.why() == "rates of equal windows spread by 9.8 %", "{}", slow.why());
        assert_eq!(Noise::of(&[]), Noise::default());
    }
}
