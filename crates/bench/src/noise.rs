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
        Self::read("/proc/thread-self")
    }

    /// Of a thread of this process, by its number in it.
    pub fn of(thread: i32) -> Self {
        Self::read(&format!("/proc/self/task/{thread}"))
    }

    fn read(folder: &str) -> Self {
        let read = |name: &str| read_to_string(format!("{folder}/{name}")).unwrap_or_default();
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
    let workers: Vec<ThreadNoise> = window.workers.iter().map(|slice| slice.noise).collect();
    causes(window.steal_ratio, window.traffic.seconds, &workers)
}

fn causes(steal_ratio: f64, seconds: f64, workers: &[ThreadNoise]) -> Vec<Disturbance> {
    let mut all = Vec::new();
    if steal_ratio > MOST_STEAL {
        all.push(Disturbance::Steal);
    }
    if workers.iter().any(|noise| noise.waited_ns as f64 > MOST_WAITED * seconds * 1e9) {
        all.push(Disturbance::Preempted);
    }
    if workers.iter().any(|noise| noise.major_faults > 0) {
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

/// What disturbed windows, trials or rounds, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Ratios, switches and faults are sums until the end.
    sums: Noise,
    /// Seconds of all workers.
    worked: f64,
    waited_ns: u64,
    rates: Vec<f64>,
}

impl Gathered {
    /// Adds a time of so many seconds: the part of it that the hypervisor took, what kept workers from their CPUs, and
    /// the rate, where it should be the same each time.
    pub fn add(&mut self, steal_ratio: f64, seconds: f64, workers: &[ThreadNoise], rate: Option<f64>) {
        let sums = &mut self.sums;
        sums.windows += 1;
        sums.steal_ratio += steal_ratio;
        self.worked += seconds * workers.len() as f64;
        for noise in workers {
            self.waited_ns += noise.waited_ns;
            sums.involuntary_switches += noise.involuntary_switches;
            sums.minor_faults += noise.minor_faults;
            sums.major_faults += noise.major_faults;
        }
        self.rates.extend(rate);
        let causes = causes(steal_ratio, seconds, workers);
        sums.disturbed_windows += usize::from(!causes.is_empty());
        for cause in causes {
            *sums.causes.entry(cause.word().to_owned()).or_default() += 1;
        }
    }

    /// Adds a window of a load unlike others.
    pub fn add_window(&mut self, window: &Window) {
        let workers: Vec<ThreadNoise> = window.workers.iter().map(|slice| slice.noise).collect();
        self.add(window.steal_ratio, window.traffic.seconds, &workers, None);
    }

    /// Those of another run after these.
    pub fn append(&mut self, other: &Self) {
        let (sums, more) = (&mut self.sums, &other.sums);
        sums.windows += more.windows;
        sums.disturbed_windows += more.disturbed_windows;
        sums.steal_ratio += more.steal_ratio;
        sums.involuntary_switches += more.involuntary_switches;
        sums.minor_faults += more.minor_faults;
        sums.major_faults += more.major_faults;
        for (cause, count) in &more.causes {
            *sums.causes.entry(cause.clone()).or_default() += count;
        }
        self.worked += other.worked;
        self.waited_ns += other.waited_ns;
        self.rates.extend(&other.rates);
    }

    /// All of them.
    pub fn noise(&self) -> Noise {
        let mut noise = self.sums.clone();
        noise.steal_ratio /= noise.windows.max(1) as f64;
        noise.waited_ratio = if self.worked > 0.0 { self.waited_ns as f64 / 1e9 / self.worked } else { 0.0 };
        noise.spread_ratio = spread(self.rates.iter().copied());
        noise.is_disturbed =
            noise.disturbed_windows as f64 > MOST_WINDOWS * noise.windows as f64 || noise.spread_ratio > MOST_SPREAD;
        noise
    }
}

impl Noise {
    /// Of windows that were alike.
    pub fn of(windows: &[Window]) -> Self {
        let mut all = Gathered::default();
        for window in windows {
            all.add_window(window);
            all.rates.push(window.traffic.mpps);
        }
        all.noise()
    }

    /// As people read it.
    pub fn text(&self) -> String {
        let percent = |part: f64| format!("{:.1} %", part * 100.0);
        let mut out = format!(
            "noise: stolen {}, workers waited {} of their time for a CPU, {} involuntary switches, {} page faults",
            percent(self.steal_ratio),
            percent(self.waited_ratio),
            self.involuntary_switches,
            self.minor_faults + self.major_faults
        );
        // Trials at different loads have none.
        if self.spread_ratio > 0.0 {
            out += &format!(", windows spread by {}", percent(self.spread_ratio));
        }
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
