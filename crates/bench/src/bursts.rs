//! What a packet costs by how many come at a time, and by where its frame is: `--bursts`.
//!
//! A core that is not overloaded gets one to ten packets at a time, written by another CPU. In memory frames come 64 at a
//! time and were written by the core itself a moment ago; here they come in bursts of chosen sizes, and their headers are
//! in the core's caches (warm) or in none (cold: read from memory, which is farther than another CPU's cache).

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use frame::{BURST, Batch, Caps, Pool, Port, PortCounters};
use schemars::JsonSchema;
use serde::Serialize;
use table::hint::{can_forget, forget};

use crate::cost::{Cost, StageCost};
use crate::error::BenchError;
use crate::host::{CpuTime, Host, date};
use crate::memory::MemoryRig;
use crate::options::Options;
use crate::report::{Report, VERSION};
use crate::text::{Table, count};
use crate::thread::cpus;
use crate::under_test::UnderTest;
use crate::window::{How, Rig, in_turns};

/// Bytes at the front of a frame that are made cold: its headers, those of a tunnel included.
const HEADERS: usize = 128;

/// How ports are to give packets, shared by all of a rig and whoever plays its windows.
#[derive(Debug)]
pub(crate) struct Giving {
    most: AtomicUsize,
    cold: AtomicBool,
}

impl Default for Giving {
    fn default() -> Self {
        Self { most: AtomicUsize::new(BURST), cold: AtomicBool::new(false) }
    }
}

impl Giving {
    pub fn set(&self, how: &How) {
        self.most.store(how.burst.clamp(1, BURST), Ordering::Relaxed);
        self.cold.store(how.cold, Ordering::Relaxed);
    }
}

/// A port that gives so many packets at a time at most.
pub(crate) struct SmallBursts {
    port: Box<dyn Port>,
    giving: Arc<Giving>,
    /// Received and not given yet.
    stock: Batch,
}

impl SmallBursts {
    pub fn new(port: Box<dyn Port>, giving: &Arc<Giving>) -> Self {
        Self { port, giving: giving.clone(), stock: Batch::new() }
    }
}

impl Port for SmallBursts {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let (most, cold) = (self.giving.most.load(Ordering::Relaxed), self.giving.cold.load(Ordering::Relaxed));
        if self.stock.is_empty() {
            if most >= BURST && !cold {
                return self.port.rx_burst(pool, out);
            }
            self.port.rx_burst(pool, &mut self.stock);
            if cold {
                for frame in self.stock.frames() {
                    let bytes = pool.arena().bytes(frame);
                    forget(&bytes[..bytes.len().min(HEADERS)]);
                }
            }
        }
        let n = most.min(self.stock.len()).min(out.room());
        self.stock.drain_front(n, |frame| {
            if let Err(frame) = out.push(frame) {
                pool.give(frame);
            }
        });
        n
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.port.tx_burst(pool, batch)
    }

    fn service(&mut self, pool: &mut Pool) {
        self.port.service(pool);
    }

    fn kick(&mut self, pool: &mut Pool) {
        self.port.kick(pool);
    }

    fn unkicked(&self) -> usize {
        self.port.unkicked()
    }

    fn caps(&self) -> Caps {
        self.port.caps()
    }

    fn counters(&self) -> PortCounters {
        self.port.counters()
    }

    fn extras(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.port.extras(tell);
    }

    fn held(&self) -> usize {
        self.port.held() + self.stock.len()
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.wait_fd()
    }

    fn fall_asleep(&mut self) -> bool {
        self.port.fall_asleep()
    }

    fn change_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.change_fd()
    }

    fn changed(&mut self) {
        self.port.changed();
    }

    fn unchanged(&mut self) {
        self.port.unchanged();
    }

    fn service_within(&self) -> Option<Duration> {
        self.port.service_within()
    }

    fn close(&mut self, pool: &mut Pool) {
        pool.give_all(&mut self.stock);
        self.port.close(pool);
    }
}

/// What was found.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Bursts {
    /// Version of these keys.
    pub schema: u32,
    /// Name of the workload, as on the command line: `upf-embb`.
    pub profile: String,
    /// Subscribers with sessions in the gateway.
    pub subscribers: u64,
    /// By size, warm before cold.
    pub rows: Vec<BurstRow>,
    /// What bursts of any size take, warm: the line of least squares; none of a single size.
    pub warm: Option<Line>,
    /// The same, cold; none where caches cannot be told to forget, either.
    pub cold: Option<Line>,
    /// Packets sent and not received.
    pub packets_lost: u64,
    /// Packets dropped by the gateway, by `pipeline.stage.reason`.
    pub drops: BTreeMap<String, u64>,
    /// Slots of packet memory that did not come back.
    pub frames_lost: i64,
    /// Packets that went in and neither came out nor were named.
    pub packets_missing: i64,
    /// Processor, kernel and what else ran on the machine meanwhile.
    pub host: Host,
    /// Day and time of the measurement, UTC, RFC 3339.
    pub date: String,
    /// Version of weir that was measured.
    pub version: String,
}

/// Processing time at one number of packets a burst, headers warm or cold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct BurstRow {
    /// Packets at a time, of each port.
    pub burst: usize,
    /// Whether their headers were in no cache.
    pub cold: bool,
    /// Processing time of a packet, in nanoseconds.
    pub tc_ns: f64,
    /// The same in the quietest tenth of the windows.
    pub tc_quiet_ns: f64,
    /// The part of it that is charged to stages.
    pub stages_ns: f64,
    /// Commands, timers, statistics, of a packet, in nanoseconds.
    pub other_ns: f64,
    /// Every stage that packets reached.
    pub stages: Vec<StageCost>,
}

/// Processing time: so much a burst, and so much for each of its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Line {
    /// Nanoseconds a packet.
    pub packet_ns: f64,
    /// Nanoseconds a burst.
    pub burst_ns: f64,
}

impl Line {
    /// The line of least squares through times of a packet over 1/burst; none through one size.
    fn through(points: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Self> {
        let n = points.clone().count() as f64;
        let mean = |of: &dyn Fn((f64, f64)) -> f64| points.clone().map(of).sum::<f64>() / n.max(1.0);
        let (x, y) = (mean(&|p| p.0), mean(&|p| p.1));
        let square = mean(&|p| (p.0 - x) * (p.0 - x));
        let burst_ns = mean(&|p| (p.0 - x) * (p.1 - y)) / square;
        (square > 1e-9).then_some(Self { packet_ns: y - burst_ns * x, burst_ns })
    }
}

/// Measures a workload in memory, all sizes in turns.
///
/// # Errors
/// What cannot be, what broke, or [`BenchError::Interrupted`].
pub fn bursts<U: UnderTest>(
    under: &U,
    options: &Options,
    sizes: &[usize],
    stop: &AtomicBool,
) -> Result<Bursts, BenchError> {
    let mut cpus = cpus();
    // The first CPU has the machine's interrupts.
    cpus.reverse();
    let mut rig = Box::new(MemoryRig::new(under, 1, options.workers, &cpus)?);
    let (measure, rounds) = options.windows();
    let kinds: &[bool] = if can_forget() { &[false, true] } else { &[false] };
    let each: Vec<(usize, bool)> = kinds.iter().flat_map(|cold| sizes.iter().map(|size| (*size, *cold))).collect();
    let how = |(burst, cold)| How { pps: options.pps, burst, cold, ..How::most(measure) };
    let turns: Vec<_> = each.iter().map(|kind| (0, how(*kind))).collect();
    let before = CpuTime::now();
    let windows = in_turns(&mut [&mut *rig], &turns, rounds, stop)?;
    let mut host = Host::this();
    (host.steal_ratio, host.busy_ratio) = CpuTime::now().since(&before);
    let row = |((burst, cold), windows): (&(usize, bool), &Vec<_>)| {
        let Cost { tc_ns, tc_quiet_ns, stages_ns, other_ns, stages, .. } = Cost::of(windows);
        BurstRow { burst: *burst, cold: *cold, tc_ns, tc_quiet_ns, stages_ns, other_ns, stages }
    };
    let rows: Vec<BurstRow> = each.iter().zip(&windows).map(row).collect();
    let line =
        |cold| Line::through(rows.iter().filter(move |r| r.cold == cold).map(|r| (1.0 / r.burst as f64, r.tc_ns)));
    let mut report = Report::default();
    report.take(&windows.concat());
    let closing = rig.close()?;
    Ok(Bursts {
        schema: 1,
        profile: under.profile().to_owned(),
        subscribers: under.size().0.into(),
        warm: line(false),
        cold: line(true),
        rows,
        packets_lost: report.lost_packets(),
        drops: report.drops,
        frames_lost: closing.frames_lost,
        packets_missing: closing.packets_missing,
        host,
        date: date(),
        version: VERSION.to_owned(),
    })
}

impl Bursts {
    /// As people read it.
    pub fn text(&self) -> String {
        let mut out = format!(
            "{} in memory, {} subscribers: processing time of a packet by packets at a time, ns\n\n",
            self.profile,
            count(self.subscribers)
        );
        let mut table = Table::new(&["burst", "headers", "Tc", "quietest", "stages", "other"]);
        for row in &self.rows {
            let [tc, quiet, stages, other] =
                [row.tc_ns, row.tc_quiet_ns, row.stages_ns, row.other_ns].map(|ns| format!("{ns:.1}"));
            let headers = if row.cold { "cold" } else { "warm" };
            table.row([row.burst.to_string(), headers.to_owned(), tc, quiet, stages, other]);
        }
        out += &table.text();
        let lines = [("warm", self.warm), ("cold", self.cold)];
        for (word, line) in lines.into_iter().filter_map(|(word, line)| Some((word, line?))) {
            out += &format!("\n  {word}: {:.1} ns a packet and {:.0} ns a burst", line.packet_ns, line.burst_ns);
        }
        if self.packets_lost > 0 || !self.drops.is_empty() {
            out += &format!("\n  {} packets lost; dropped: {:?}", count(self.packets_lost), self.drops);
        }
        out += &format!("\n  {}, Linux {}\n", self.host.cpu, self.host.kernel);
        out
    }
}

#[cfg(test)]
mod tests {
    use frame::{Arena, ArenaConfig};
    use port::memory::{Memory, Wire};

    use super::*;

    #[test]
    fn packets_are_given_a_few_at_a_time() {
        let arena = Arena::new(ArenaConfig { slots: 64, ..ArenaConfig::default() }).expect("memory");
        let mut pool = Pool::new(&arena, 64);
        let (wire, giving) = (Wire::default(), Arc::new(Giving::default()));
        let mut port = SmallBursts::new(Box::new(Memory::new("m", [2; 6], &wire)), &giving);
        (0..10u8).for_each(|n| wire.send(vec![n; 60]));
        for cold in [false, true] {
            giving.set(&How { burst: 3, cold, ..How::most(Duration::ZERO) });
            let mut out = Batch::new();
            assert_eq!(port.rx_burst(&mut pool, &mut out), 3);
            let first: Vec<u8> = out.frames().iter().map(|frame| arena.bytes(frame)[0]).collect();
            assert_eq!(first, if cold { [3, 4, 5] } else { [0, 1, 2] });
            pool.give_all(&mut out);
        }
        assert_eq!(port.held(), 4, "given to nobody yet");
        port.close(&mut pool);
        drop(pool);
        assert_eq!(arena.in_depot(), 64);
    }

    #[test]
    fn a_line_tells_packets_from_bursts() {
        let line = Line::through([1.0, 4.0, 64.0].into_iter().map(|n: f64| (1.0 / n, 50.0 + 600.0 / n)));
        let line = line.expect("three sizes");
        assert!((line.packet_ns - 50.0).abs() < 1e-6 && (line.burst_ns - 600.0).abs() < 1e-6, "{line:?}");
        assert_eq!(Line::through([(1.0, 50.0), (1.0, 60.0)].into_iter()), None, "one size tells nothing of another");
    }
}
