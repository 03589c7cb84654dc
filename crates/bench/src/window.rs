//! Windows of measurement: short, repeated, compared in turns; medians of them are what results show.

use std::io::{IsTerminal, Write};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use traffic::{LatencySummary, TrialResult};

use crate::crew::Slice;
use crate::error::BenchError;
use crate::host::CpuTime;
use crate::neighbour::{AtWork, Neighbour};
use crate::power::Meter;

/// How a window is to be played.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Time before counting.
    pub warm: Duration,
    /// Counting time.
    pub measure: Duration,
    /// Packets a second, both directions together; none: as many as can be.
    pub pps: Option<f64>,
    /// Whether stages are charged by the clock.
    pub clocked: bool,
    /// In memory: packets that a port gives at a time, at most.
    pub burst: usize,
    /// In memory: whether the packets' headers are to be in no cache.
    pub cold: bool,
    /// A noisy neighbour beside it.
    pub neighbour: Option<Neighbour>,
}

impl How {
    /// As many packets as can be, stages charged.
    pub fn most(measure: Duration) -> Self {
        Self {
            warm: Duration::from_millis(30),
            measure,
            pps: None,
            clocked: true,
            burst: frame::BURST,
            cold: false,
            neighbour: None,
        }
    }
}

/// What happened in one.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// What generator and checker found.
    pub traffic: TrialResult,
    /// What each worker did; empty for what has no engine.
    pub workers: Vec<Slice>,
    /// What each load offered by outer VLAN, where that is told: see [`MemoryLoad::offered`](crate::under_test::MemoryLoad).
    pub offered: Vec<(Vec<u64>, u64)>,
    /// Packets sent and arrived from the begin of counting until nothing is on its way any more, where the kernel is the
    /// load. What is on its way at the begin arrives beside: so many losses less are seen, some tens.
    pub whole: Option<(u64, u64)>,
    /// The part of the processors' time, 0 to 1, that the hypervisor gave to others during it, as far as ticks of 10 ms
    /// tell. Of windows that were played in turns.
    pub steal_ratio: f64,
    /// Watts of all processors during it, with the time before it in which it was warmed; none: not available. Of windows
    /// that were played in turns.
    pub watts: Option<f64>,
}

impl Window {
    /// The clock of the workers' cores in it, in Hz, where that can be told: of several, the mean.
    pub fn core_hz(&self) -> Option<f64> {
        let each: Vec<f64> = self.workers.iter().filter_map(|slice| slice.core_hz).collect();
        (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64)
    }
}

impl Window {
    /// Millions of packets for each second in which the workers were busy with packets: its rate where they were busy
    /// all the time, what it might come to where the load had no more to give.
    pub fn busy_mpps(&self) -> f64 {
        let busy: f64 = self.workers.iter().map(|slice| slice.measured.utilisation()).sum();
        let busy = busy / self.workers.len().max(1) as f64;
        if busy > 0.0 { self.traffic.mpps / busy } else { self.traffic.mpps }
    }
}

/// Something whose windows can be measured: a gateway or a reference on some ports.
pub trait Rig {
    /// Plays one window.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`], or what broke.
    fn window(&mut self, how: &How, stop: &AtomicBool) -> Result<Window, BenchError>;

    /// Ends it, and says whether everything came back.
    ///
    /// # Errors
    /// A thread of it that ended early, with its reason.
    fn close(self: Box<Self>) -> Result<Closing, BenchError>;
}

/// What the conservation laws say at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// Slots of packet memory that did not come back.
    pub frames_lost: i64,
    /// Packets that went in and neither came out nor were named.
    pub packets_missing: i64,
}

/// Rest between windows, in which the machine's ordinary threads get what they waited for.
const REST: Duration = Duration::from_millis(80);

/// One rig's turn: which of the rigs, and how.
pub type Turn = (usize, How);

/// Plays windows of several rigs (or of one in several ways) in turns, so that whatever else the machine does falls on
/// all of them alike. Returns each turn's windows.
///
/// # Errors
/// What broke, or [`BenchError::Interrupted`].
pub fn in_turns(
    rigs: &mut [&mut dyn Rig],
    turns: &[Turn],
    rounds: usize,
    stop: &AtomicBool,
) -> Result<Vec<Vec<Window>>, BenchError> {
    let mut windows: Vec<Vec<Window>> = turns.iter().map(|_| Vec::with_capacity(rounds)).collect();
    let round: Duration = turns.iter().map(|(_, how)| how.measure + how.warm + REST).sum();
    let left = TimeLeft::of(round * u32::try_from(rounds).unwrap_or(u32::MAX));
    let all = (rounds * turns.len()).max(1) as f64;
    let meter = Meter::new().ok();
    for round in 0..rounds {
        for n in 0..turns.len() {
            // Forth and back: nobody is always first.
            let n = if round % 2 == 0 { n } else { turns.len() - 1 - n };
            let (rig, how) = turns[n];
            let (before, neighbour) = (CpuTime::now(), how.neighbour.and_then(AtWork::start));
            let energy = meter.as_ref().and_then(Meter::read);
            let window = rigs[rig].window(&how, stop)?;
            let watts = meter.as_ref().zip(energy).and_then(|(meter, earlier)| meter.watts(&earlier));
            drop(neighbour);
            windows[n].push(Window { steal_ratio: CpuTime::now().since(&before).0, watts, ..window });
            std::thread::sleep(REST);
            left.show(windows.iter().map(Vec::len).sum::<usize>() as f64 / all);
        }
    }
    Ok(windows)
}

/// The time left, on a line of standard error where that is a terminal and it is longer than some seconds.
struct TimeLeft {
    begun: Instant,
    is_shown: bool,
}

/// What takes longer shows how long.
const SHOWN: Duration = Duration::from_secs(2);

impl TimeLeft {
    /// Of something that takes so long.
    fn of(all: Duration) -> Self {
        Self { begun: Instant::now(), is_shown: all > SHOWN && std::io::stderr().is_terminal() }
    }

    /// So much of it is done, 0 to 1.
    fn show(&self, done: f64) {
        if self.is_shown && done > 0.0 {
            let left = self.begun.elapsed().as_secs_f64() * (1.0 / done - 1.0);
            // Whoever closed standard error has seen enough.
            let _ = write!(std::io::stderr(), "\r\x1b[Kmeasuring: {:.0} %, {left:.0} s left", done * 100.0);
        }
    }
}

impl Drop for TimeLeft {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// The median over rounds of the first turn's packets a second by the second's in the same round.
pub fn ratio(these: &[Window], those: &[Window]) -> f64 {
    let pairs = these.iter().zip(those).filter(|(_, that)| that.traffic.mpps > 0.0);
    median(pairs.map(|(this, that)| this.traffic.mpps / that.traffic.mpps))
}

/// As [`ratio`], of packets for the workers' busy time: the same where both were busy all the time.
pub(crate) fn ratio_of_time(these: &[Window], those: &[Window]) -> f64 {
    let pairs = these.iter().zip(those).filter(|(_, that)| that.traffic.mpps > 0.0);
    median(pairs.map(|(this, that)| this.busy_mpps() / that.busy_mpps()))
}

/// The middle of some numbers; 0 of none.
pub fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.into_iter().filter(|n| n.is_finite()).collect();
    numbers.sort_by(f64::total_cmp);
    match numbers.len() {
        0 => 0.0,
        n if n % 2 == 1 => numbers[n / 2],
        n => f64::midpoint(numbers[n / 2 - 1], numbers[n / 2]),
    }
}

/// Medians of the windows' quantiles, and the slowest packet of all.
pub fn latency<'a>(windows: impl Iterator<Item = &'a LatencySummary> + Clone) -> LatencySummary {
    LatencySummary {
        p50: median(windows.clone().map(|l| l.p50)),
        p99: median(windows.clone().map(|l| l.p99)),
        p999: median(windows.clone().map(|l| l.p999)),
        max: windows.map(|l| l.max).fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod tests {
    use engine::Io;

    use super::*;

    #[test]
    fn the_middle_of_numbers() {
        assert_eq!((median([]), median([3.0]), median([4.0, 1.0])), (0.0, 3.0, 2.5));
        assert_eq!(median([9.0, 1.0, 2.0, f64::NAN]), 2.0);
    }

    #[test]
    fn packets_for_the_busy_time() {
        let traffic = TrialResult { mpps: 3.0, ..TrialResult::default() };
        let worker = |busy, idle| {
            let mut slice = Slice::default();
            slice.measured.put(Io::TxCycles, busy);
            slice.measured.put(Io::IdleCycles, idle);
            slice
        };
        let window = |workers| Window { traffic, workers, ..Window::default() };
        assert_eq!(window(vec![]).busy_mpps(), 3.0);
        assert_eq!(window(vec![worker(60, 0)]).busy_mpps(), 3.0);
        assert_eq!(window(vec![worker(60, 20)]).busy_mpps(), 4.0);
        let half = window(vec![worker(60, 20), worker(20, 60)]);
        assert_eq!((half.busy_mpps(), ratio_of_time(&[half], &[window(vec![worker(1, 0)])])), (6.0, 2.0));
    }

    struct Fake(Vec<usize>, usize);

    impl Rig for Fake {
        fn window(&mut self, _: &How, _: &AtomicBool) -> Result<Window, BenchError> {
            self.0.push(self.1);
            let traffic = TrialResult { mpps: self.1 as f64, ..TrialResult::default() };
            Ok(Window { traffic, ..Window::default() })
        }
        fn close(self: Box<Self>) -> Result<Closing, BenchError> {
            Ok(Closing::default())
        }
    }

    #[test]
    fn rigs_take_turns() {
        let how = How::most(Duration::ZERO);
        let (mut a, mut b) = (Fake(vec![], 1), Fake(vec![], 2));
        let windows = in_turns(&mut [&mut a, &mut b], &[(0, how), (1, how)], 3, &AtomicBool::new(false));
        let windows = windows.expect("nothing breaks");
        assert_eq!(
            windows.iter().map(|w| w.iter().map(|w| w.traffic.mpps).sum::<f64>()).collect::<Vec<_>>(),
            [3.0, 6.0]
        );
        assert_eq!(ratio(&windows[0], &windows[1]), 0.5);
        assert_eq!((a.0.len(), b.0.len()), (3, 3));
    }
}
