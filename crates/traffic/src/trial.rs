//! A trial: start, run, stop, drain, and only then read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use frame::Port;
use table::histogram::Histogram;

use crate::checker::Seen;
use crate::load::{Downlink, Load};
use crate::result::{Account, TrialResult};
use crate::sender::Schedule;

/// Turns without a packet after which the processor is offered to others.
const IDLE_TURNS: u32 = 64;

impl Load {
    /// Begins to send by that schedule, and to count.
    pub fn start(&mut self, schedule: &Schedule) {
        let now_ns = self.clock.now_ns();
        self.start_since(schedule, now_ns);
    }

    /// The same where packets count that were signed at `since_ns` of its clock or later: another host's clock may be
    /// behind.
    pub fn start_since(&mut self, schedule: &Schedule, since_ns: u64) {
        let now_ns = self.clock.now_ns();
        for sender in self.senders.iter_mut().flatten() {
            sender.start(schedule, now_ns);
        }
        self.count_from(since_ns);
    }

    /// Counts from now on: what was sent before is forgotten, and what of it still arrives is not counted.
    pub fn mark(&mut self) {
        let now_ns = self.clock.now_ns();
        for sender in self.senders.iter_mut().flatten() {
            sender.mark(now_ns);
        }
        self.count_from(now_ns);
    }

    fn count_from(&mut self, now_ns: u64) {
        for checker in self.checkers.iter_mut().flatten() {
            checker.count_from(now_ns);
        }
        (self.turned, self.turned_sent) = (0, 0);
        self.missed_before = self.missed();
    }

    /// By door, packets that came and found the port's ring or memory full, as far as the port has asked the kernel.
    fn missed(&self) -> [u64; 2] {
        self.ports().map(|port| {
            let counters = port.map(Port::counters).unwrap_or_default();
            counters.rx_ring_full + counters.rx_no_frame + counters.rx_too_long
        })
    }

    /// Sends no more. What the ports have not taken yet is counted as offered and not sent.
    pub fn stop(&mut self) {
        let now_ns = self.clock.now_ns();
        for (door, sender) in self.doors.iter_mut().zip(&mut self.senders) {
            let Some(sender) = sender else { continue };
            sender.stop(now_ns);
            if let Some(door) = door {
                sender.give_up(door.pending.len() as u64);
                self.pool.give_all(&mut door.pending);
            }
        }
    }

    /// Whether nothing will be sent any more: stopped, or all packets of the schedule are sent.
    pub fn is_done(&self) -> bool {
        let sent = self.doors.iter().flatten().all(|door| door.pending.is_empty());
        sent && self.senders.iter().flatten().all(|sender| !sender.is_running())
    }

    /// Turns until `duration` has passed, everything is sent, or `stop` is set, telling `progress` what was found so
    /// far about once a second. A load without senders turns until then too.
    pub fn run(&mut self, duration: Duration, stop: &AtomicBool, mut progress: impl FnMut(&TrialResult)) {
        let start = self.clock.now_ns();
        let end = start.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
        let sends = self.senders.iter().any(Option::is_some);
        let (mut tell, mut idle) = (start + 1_000_000_000, 0);
        loop {
            let now_ns = self.clock.now_ns();
            if now_ns >= end || stop.load(Ordering::Relaxed) || (sends && self.is_done()) {
                return;
            }
            if now_ns >= tell {
                tell += 1_000_000_000;
                progress(&self.result());
            }
            idle = if self.turn() > 0 { 0 } else { idle + 1 };
            if idle > IDLE_TURNS {
                std::thread::yield_now();
            }
        }
    }

    /// Stops sending and receives until nothing came for `quiet`, at most for `max`.
    pub fn stop_and_drain(&mut self, quiet: Duration, max: Duration) -> TrialResult {
        self.stop();
        let start = self.clock.now_ns();
        let ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let mut last = start;
        loop {
            let moved = self.turn();
            let now_ns = self.clock.now_ns();
            if moved > 0 {
                last = now_ns;
            }
            if now_ns - last >= ns(quiet) || now_ns - start >= ns(max) {
                return self.result();
            }
            if moved == 0 {
                std::thread::yield_now();
            }
        }
    }

    /// A whole trial: starts, runs for `duration` or until `stop` is set, drains (quiet for 100 ms, at most 2 s).
    pub fn trial(
        &mut self,
        schedule: &Schedule,
        duration: Duration,
        stop: &AtomicBool,
        progress: impl FnMut(&TrialResult),
    ) -> TrialResult {
        self.start(schedule);
        self.run(duration, stop, progress);
        self.stop_and_drain(Duration::from_millis(100), Duration::from_secs(2))
    }

    /// What was found since counting began. Losses are right after draining only.
    pub fn result(&self) -> TrialResult {
        let now_ns = self.clock.now_ns();
        let elapsed = self.senders.iter().flatten().map(|sender| sender.elapsed_ns(now_ns)).max();
        // A receiving half counts its own time; so does a sender that has nothing to send.
        let elapsed = elapsed.filter(|ns| *ns > 0).unwrap_or_else(|| {
            self.checkers.iter().flatten().map(|c| now_ns.saturating_sub(c.since_ns())).max().unwrap_or(0)
        });
        let nothing = Histogram::new();
        let seen = |door: usize| self.checkers[door].as_ref().map_or(Seen::default(), |c| c.seen());
        let latencies = |door: usize| self.checkers[door].as_ref().map_or(&nothing, |c| c.latencies());
        let sent = |direction: usize| match (&self.senders[direction], &self.doors[direction]) {
            (Some(sender), Some(door)) => {
                let made = sender.made();
                let unsent = door.pending.len() as u64 + sender.given_up();
                let sent = made.packets.saturating_sub(unsent);
                let sent_ip_bytes = (made.ip_bytes as f64 / made.packets.max(1) as f64 * sent as f64) as u64;
                Account { offered: sender.offered(now_ns), sent, sent_ip_bytes, ..Account::default() }
            }
            _ => Account::default(),
        };
        let missed = self.missed();
        let missed = |door: usize| match &self.checkers[door] {
            Some(_) => missed[door].saturating_sub(self.missed_before[door]),
            None => 0,
        };
        let mut up = Account { seen: seen(1), missed: missed(1), ..sent(0) };
        let mut down = Account { seen: seen(0), missed: missed(0), ..sent(1) };
        match self.downlink {
            Downlink::Generated => {}
            Downlink::Returned => {
                (up.seen, down.seen) = (down.seen, up.seen);
                (up.missed, down.missed) = (down.missed, up.missed);
                return TrialResult::of(
                    self.plan.profile(),
                    elapsed as f64 / 1e9,
                    [(up, latencies(0)), (down, latencies(1))],
                );
            }
            Downlink::Mirrored => {
                let sent_ip_bytes = up.sent_ip_bytes / up.sent.max(1) * self.turned_sent;
                down = Account { offered: self.turned, sent: self.turned_sent, sent_ip_bytes, ..down };
            }
            Downlink::MirroredElsewhere => {
                let back = Seen { duplicated: 0, foreign: 0, ..down.seen };
                let sent = back.received();
                down = Account { offered: sent, sent, sent_ip_bytes: back.ip_bytes, ..down };
                up.seen = back;
            }
        }
        TrialResult::of(self.plan.profile(), elapsed as f64 / 1e9, [(up, latencies(1)), (down, latencies(0))])
    }
}
