//! The cable gateway as a device of searches. Its packets wait in queues and are taken apart by far ends that count over
//! all windows: after each trial all of them arrive, and the difference of the counters is the trial's.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::device::Bench;
use crate::cmts::{Cable, CableRig, CableSettings};
use crate::error::BenchError;
use crate::host::CpuTime;
use crate::noise::Gathered;
use crate::options::{Options, PortKind, cut};
use crate::report::Report;
use crate::run::blank;
use crate::search::{Disturbance, Outcome, Trial, slower};
use crate::window::{Closing, How, Rig, in_turns};

/// A cable gateway with its far ends.
pub(super) struct CableDevice<'s> {
    rig: Box<CableRig<'s>>,
    blank: Report,
    port: PortKind,
    stop: &'s AtomicBool,
    /// Packets sent and delivered before this trial.
    before: [u64; 2],
    noise: Gathered,
}

impl<'s> CableDevice<'s> {
    /// Sets it up, and warms it.
    ///
    /// # Errors
    /// What cannot be, or what the system refused.
    pub fn new(under: &'s Cable, port: PortKind, stop: &'s AtomicBool) -> Result<Self, BenchError> {
        let mut rig = Box::new(CableRig::new(under, CableSettings::macs(), port, 1)?);
        rig.warm(Duration::from_millis(60), true, stop)?;
        let mut blank = blank(under, &Options { port, ..Options::default() });
        blank.host.nic.clone_from(&rig.nic);
        "generator".clone_into(&mut blank.load.source);
        let mut device = Self { rig, blank, port, stop, before: [0; 2], noise: Gathered::default() };
        device.arrived()?;
        Ok(device)
    }

    /// Lets everything arrive. Packets sent, and delivered or dropped by queues whose service flows are offered more
    /// than their rate, since the last time.
    fn arrived(&mut self) -> Result<[u64; 2], BenchError> {
        let totals = self.rig.drain(self.stop)?;
        let dropped = totals.expected(self.rig.queue_drops().iter().sum());
        let ((down_sent, down), (up_sent, up)) = (totals.down, totals.up);
        let now = [down_sent + up_sent.packets, down.in_order + down.reordered + up.in_order + up.reordered + dropped];
        let since = [0, 1].map(|n: usize| now[n].saturating_sub(self.before[n]));
        self.before = now;
        Ok(since)
    }

    /// Stops gateway and far ends, and counts what is left of packets and slots.
    ///
    /// # Errors
    /// A thread of it that ended early, with its reason.
    pub fn close(self) -> Result<Closing, BenchError> {
        self.rig.close()
    }
}

impl Trial for CableDevice<'_> {
    type Error = BenchError;

    fn measure(&mut self, load: f64, duration: Duration) -> Result<Outcome, BenchError> {
        let (begin, cpu) = (Instant::now(), CpuTime::now());
        let (windows, mut all) = ((duration.as_secs_f64() / 0.25 - 1e-9).ceil().max(1.0) as u32, Outcome::default());
        for _ in 0..windows {
            self.rig.latencies();
            let before = CpuTime::now();
            let mut window = self.rig.window(&How { pps: Some(load), ..How::most(duration / windows) }, self.stop)?;
            window.steal_ratio = CpuTime::now().since(&before).0;
            self.noise.add_window(&window);
            let directions = [&window.traffic.directions.uplink, &window.traffic.directions.downlink];
            let measured: u64 = directions.iter().map(|d| d.sent_packets).sum();
            let unsent = ((load * window.traffic.seconds) as u64).saturating_sub(measured);
            // What the gateway was not ready to take; a hundredth is the begin and the end of a window.
            let waits = if unsent * 100 > measured { unsent } else { 0 };
            let [sent, delivered] = self.arrived()?;
            all = all.plus(Outcome {
                intended_packets: sent + waits,
                sent_packets: if self.port == PortKind::Memory { sent + waits } else { sent },
                forwarded_packets: (delivered as f64 * measured as f64 / sent.max(1) as f64) as u64,
                lost_packets: sent.saturating_sub(delivered) + waits,
                counted_seconds: window.traffic.seconds,
                latency_us: slower(self.rig.latencies()),
                ..Outcome::default()
            });
        }
        if CpuTime::now().since(&cpu).0 > 0.01 {
            all.disturbed.push(Disturbance::Steal);
        }
        all.elapsed_seconds = begin.elapsed().as_secs_f64();
        Ok(all)
    }
}

impl Bench for CableDevice<'_> {
    fn overload(&mut self) -> Result<(f64, f64), BenchError> {
        let mut most = 0.0_f64;
        for _ in 0..3 {
            let window = self.rig.window(&How::most(Duration::from_millis(250)), self.stop)?;
            let directions = [&window.traffic.directions.uplink, &window.traffic.directions.downlink];
            let forwarded: u64 = directions.iter().map(|d| d.forwarded_packets).sum();
            // By the wall's clock: trials are paced by it.
            most = most.max(forwarded as f64 / window.traffic.seconds.max(1e-9));
            self.arrived()?;
        }
        Ok((most, most * 1.5))
    }

    fn noise(&self) -> &Gathered {
        &self.noise
    }

    fn has_links(&self) -> bool {
        // Its generator stops by itself where packets would be lost on the links: no burst can be sent.
        false
    }

    fn check_each(&mut self) -> Result<(), BenchError> {
        Ok(())
    }

    fn bursts(&mut self, _are: bool) {}

    fn report_at(&mut self, pps: f64) -> Result<Report, BenchError> {
        let mut report = self.blank.clone();
        let before = CpuTime::now();
        let (measure, rounds) = cut(2.0);
        let how = How { pps: Some(pps), ..How::most(measure) };
        let windows = in_turns(&mut [&mut *self.rig], &[(0, how)], rounds, self.stop)?;
        report.take(&windows[0]);
        (report.host.steal_ratio, report.host.busy_ratio) = CpuTime::now().since(&before);
        self.arrived()?;
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was sent before a trial, at another rate, is not taken off it.
    #[test]
    fn trials_upstream_alone_offer_as_much_each_time() {
        let settings = CableSettings { groups: 1, modems: 60, downstream: false, ..CableSettings::default() };
        let under = Cable::new(&settings, PortKind::Memory).unwrap();
        let stop = AtomicBool::new(false);
        let mut device = CableDevice::new(&under, PortKind::Memory, &stop).unwrap();
        device.overload().unwrap();
        for _ in 0..2 {
            let outcome = device.measure(200_000.0, Duration::from_millis(250)).unwrap();
            // By the gateway's own time.
            let intended = 200_000.0 * outcome.counted_seconds;
            assert!(outcome.forwarded_packets as f64 > 0.7 * intended && intended > 1000.0, "{outcome:?}");
        }
        device.close().unwrap();
    }
}
