//! A noisy neighbour on purpose: `weir bench … --disturb`.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cost::Cost;
use crate::error::BenchError;
use crate::noise::Noise;
use crate::real::stats::Ratio;
use crate::thread::{Urgency, cpus, pin, urge};
use crate::window::{Window, median};

/// What a neighbour does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Takes the first worker's CPU for 1 ms of every 10, as a hypervisor that gives a tenth of it to others.
    Cpu,
    /// Writes 64 MiB over and over on a CPU that neither workers nor load have: it shares caches and memory channels.
    Memory,
}

impl Kind {
    /// As results name it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}

/// A neighbour: what it does, and the CPU it does it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// What it does.
    pub kind: Kind,
    /// The CPU that it is pinned to.
    pub cpu: usize,
}

impl Neighbour {
    /// Of a measurement that has those CPUs, the first worker's first.
    ///
    /// # Errors
    /// There is no CPU for it.
    pub fn of(kind: Kind, taken: &[usize]) -> Result<Self, BenchError> {
        let cpu = match kind {
            Kind::Cpu => taken.first().copied(),
            Kind::Memory => cpus().into_iter().find(|cpu| !taken.contains(cpu)),
        };
        let cpu = cpu.ok_or_else(|| {
            BenchError::Asked(
                "--disturb memory wants a CPU that neither workers nor load have: fewer workers, or --port memory"
                    .to_owned(),
            )
        })?;
        Ok(Self { kind, cpu })
    }
}

/// Of every turn, the neighbour on a worker's CPU runs so long.
const TAKEN: Duration = Duration::from_millis(1);
const TURN: Duration = Duration::from_millis(10);
/// Beyond the last-level cache of most machines.
const WRITTEN: usize = 64 << 20;
/// Bytes of a cache line.
const LINE: usize = 64;

/// A neighbour at work, until it is dropped.
pub(crate) struct AtWork {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl AtWork {
    /// Starts it; none: there is no thread.
    pub fn start(neighbour: Neighbour) -> Option<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let run = {
            let stop = stop.clone();
            move || {
                // Workers come before all ordinary threads, this one before workers. First of all, or it would wait on
                // their CPU to become so.
                urge(if neighbour.kind == Kind::Cpu { Urgency::Conductor } else { Urgency::Brisk });
                pin(neighbour.cpu);
                match neighbour.kind {
                    Kind::Cpu => take_turns(&stop),
                    Kind::Memory => write_memory(&stop),
                }
            }
        };
        let thread = std::thread::Builder::new().name("neighbour".into()).spawn(run).ok()?;
        Some(Self { stop, thread: Some(thread) })
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn take_turns(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        while begun.elapsed() < TAKEN {
            black_box(0);
        }
        std::thread::sleep(TURN.saturating_sub(begun.elapsed()));
    }
}

fn write_memory(stop: &AtomicBool) {
    let mut space = vec![0u8; WRITTEN];
    let mut value = 0u8;
    while !stop.load(Ordering::Relaxed) {
        value = value.wrapping_add(1);
        for piece in space.chunks_mut(1 << 20) {
            piece.iter_mut().step_by(LINE).for_each(|byte| *byte = value);
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        black_box(&space);
    }
}

/// What a neighbour did to a result: windows with it and without, in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbed {
    /// What the neighbour did.
    pub neighbour: Kind,
    /// The CPU it did it on.
    pub cpu: usize,
    /// Windows with it.
    pub windows: usize,
    /// Forwarded, millions of packets a second: the median window.
    pub mpps: f64,
    /// The rate with it by that without, of windows in pairs: geometric mean.
    pub mpps_ratio: f64,
    /// Its 95 % confidence interval; none of fewer than three pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpps_ratio_ci95: Option<[f64; 2]>,
    /// Processing time of a packet with it, in nanoseconds.
    pub tc_ns: f64,
    /// Slowest hundredth of the packets with it, in microseconds: the median window, the slower direction. 0 where latency
    /// is not measured.
    pub p99_us: f64,
    /// The same without it.
    pub p99_us_without: f64,
    /// What it did to the workers.
    pub noise: Noise,
}

impl Disturbed {
    /// Of windows with a neighbour and those without in the same rounds.
    pub fn of(neighbour: Neighbour, with: &[Window], without: &[Window]) -> Self {
        let rates = with.iter().zip(without).map(|(with, without)| (with.traffic.mpps, without.traffic.mpps));
        let ratio = Ratio::of(rates);
        Self {
            neighbour: neighbour.kind,
            cpu: neighbour.cpu,
            windows: with.len(),
            mpps: median(with.iter().map(|window| window.traffic.mpps)),
            mpps_ratio: ratio.map_or(0.0, |ratio| ratio.mean),
            mpps_ratio_ci95: ratio.and_then(|ratio| ratio.ci95),
            tc_ns: Cost::of(with).tc_ns,
            p99_us: p99(with),
            p99_us_without: p99(without),
            noise: Noise::of(with),
        }
    }

    /// As people read it; `tc_ns` is that without it.
    pub fn text(&self, tc_ns: f64) -> String {
        let interval = self
            .mpps_ratio_ci95
            .map_or(String::new(), |[low, high]| format!(" [{:.1}, {:.1}]", low * 100.0, high * 100.0));
        let what = match self.neighbour {
            Kind::Cpu => "that takes a worker's CPU for 1 ms of every 10",
            Kind::Memory => "that writes 64 MiB over and over",
        };
        let mut out = format!(
            "beside a neighbour {what} (CPU {}): {:.1} %{interval} of the rate, Tc {:.1} ns instead of {tc_ns:.1}",
            self.cpu,
            self.mpps_ratio * 100.0,
            self.tc_ns
        );
        if self.p99_us > 0.0 {
            out += &format!(", p99 {:.1} µs instead of {:.1}", self.p99_us, self.p99_us_without);
        }
        out + &format!("\n    with it, {}", self.noise.text().replace('\n', "\n  "))
    }
}

fn p99(windows: &[Window]) -> f64 {
    median(windows.iter().map(|window| {
        let directions = &window.traffic.directions;
        directions.uplink.latency_us.p99.max(directions.downlink.latency_us.p99)
    }))
}

#[cfg(test)]
mod tests {
    use traffic::TrialResult;

    use super::*;
    use crate::noise::ThreadNoise;

    /// The kernel itself says that a thread waits for a CPU that a neighbour takes.
    #[test]
    fn a_neighbour_on_the_cpu_keeps_a_thread_waiting() {
        let cpu = cpus()[0];
        let waited = |neighbour: Option<Neighbour>| {
            let _at_work = neighbour.and_then(AtWork::start);
            let run = move || {
                pin(cpu);
                let (begun, before) = (Instant::now(), ThreadNoise::now());
                while begun.elapsed() < Duration::from_millis(200) {
                    black_box(0);
                }
                ThreadNoise::now().since(&before)
            };
            std::thread::spawn(run).join().unwrap()
        };
        let found = waited(Some(Neighbour::of(Kind::Cpu, &[cpu]).unwrap()));
        // 1 ms of 10, of 200 ms; a busy machine only adds to it.
        assert!(found.waited_ns > 5_000_000 && found.involuntary_switches >= 5, "{found:?}");
        assert_eq!(Neighbour::of(Kind::Memory, &[99]).unwrap().cpu, cpu);
        assert!(Neighbour::of(Kind::Memory, &cpus()).unwrap_err().to_string().contains("fewer workers"));
    }

    #[test]
    fn its_effect_is_a_ratio_of_pairs() {
        let window = |mpps| Window { traffic: TrialResult { mpps, ..TrialResult::default() }, ..Window::default() };
        let with = [0.9, 1.8, 0.45].map(window);
        let without = [1.0, 2.0, 0.5].map(window);
        let found = Disturbed::of(Neighbour { kind: Kind::Memory, cpu: 3 }, &with, &without);
        assert!((found.mpps_ratio - 0.9).abs() < 1e-9 && found.windows == 3, "{found:?}");
        assert!(found.text(50.0).contains("90.0 % [90.0, 90.0] of the rate"), "{}", found.text(50.0));
        drop(AtWork::start(Neighbour { kind: Kind::Memory, cpu: cpus()[0] }));
    }
}
