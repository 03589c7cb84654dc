//! A port that sends no faster than told: `pace=100000pps` or `pace=1Gbit/s` on any port.
//!
//! Bits are those of Ethernet frames without preamble, check sequence and gap. What is too early stays with the caller
//! (counted as `tx_full`), who offers it again or drops it. Up to [`TOLERANCE`] of sending saved up goes at once.

use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::time::{Duration, Instant};

use frame::{BURST, Batch, Caps, Pool, Port, PortCounters, PortHandover};
use quantity::Unit;

/// How much unused sending time is saved up.
pub const TOLERANCE: Duration = Duration::from_millis(1);

/// A rate of sending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Packets a second.
    Packets(f64),
    /// Bits a second.
    Bits(f64),
}

impl FromStr for Pace {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let lower = text.to_lowercase();
        let has = |names: &[&str]| names.iter().any(|name| lower.ends_with(name));
        let rate = |unit: Unit| unit.parse_fraction(text).ok().filter(|rate| *rate >= 1.0).ok_or(());
        if has(&["pps", "packets/s", "packet/s", "p/s"]) {
            rate(Unit::PacketsPerSecond).map(Self::Packets)
        } else if has(&["bit/s", "bits/s", "bps", "b/s"]) {
            rate(Unit::BitsPerSecond).map(Self::Bits)
        } else {
            Err(())
        }
    }
}

/// When the next packet may go. Time in picoseconds, so that millions of packets a second do not round.
#[derive(Clone, Copy, Debug)]
struct Pacer {
    pace: Pace,
    free_at: u64,
}

const PICO: f64 = 1e12;

impl Pacer {
    fn new(pace: Pace) -> Self {
        Self { pace, free_at: 0 }
    }

    /// What a packet costs in picoseconds.
    fn cost(&self, bytes: usize) -> u64 {
        match self.pace {
            Pace::Packets(rate) => (PICO / rate) as u64,
            Pace::Bits(rate) => (bytes as f64 * 8.0 * PICO / rate) as u64,
        }
    }

    /// How many of the packets may go now.
    fn allowed(&self, now: u64, sizes: impl Iterator<Item = usize>) -> usize {
        let mut free_at = self.start(now);
        sizes.take_while(|bytes| (free_at <= now, free_at += self.cost(*bytes)).0).count()
    }

    /// Takes a packet that went into account.
    fn charge(&mut self, now: u64, bytes: usize) {
        self.free_at = self.start(now) + self.cost(bytes);
    }

    fn start(&self, now: u64) -> u64 {
        self.free_at.max(now.saturating_sub(TOLERANCE.as_nanos() as u64 * 1000))
    }
}

/// A paced port.
pub struct Paced {
    inner: Box<dyn Port>,
    pacer: Pacer,
    start: Instant,
    some: Batch,
    early: u64,
}

impl Paced {
    /// Paces what a port sends.
    pub fn new(inner: Box<dyn Port>, pace: Pace) -> Self {
        Self { inner, pacer: Pacer::new(pace), start: Instant::now(), some: Batch::new(), early: 0 }
    }

    fn send(&mut self, now: u64, pool: &mut Pool, batch: &mut Batch) -> usize {
        let mut sizes = [0; BURST];
        sizes.iter_mut().zip(batch.frames()).for_each(|(size, frame)| *size = frame.len());
        let allowed = self.pacer.allowed(now, sizes[..batch.len()].iter().copied());
        self.early += (batch.len() - allowed) as u64;
        let sent = if allowed == batch.len() {
            self.inner.tx_burst(pool, batch)
        } else {
            let some = &mut self.some;
            batch.drain_front(allowed, |frame| some.push(frame).expect("it was empty"));
            let sent = self.inner.tx_burst(pool, some);
            if !some.is_empty() {
                batch.drain(|frame| some.push(frame).expect("they came from one batch"));
                std::mem::swap(batch, some);
            }
            sent
        };
        sizes[..sent].iter().for_each(|bytes| self.pacer.charge(now, *bytes));
        sent
    }
}

impl Port for Paced {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        self.inner.rx_burst(pool, out)
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        // Lasts 213 days.
        let now = self.start.elapsed().as_nanos() as u64 * 1000;
        self.send(now, pool, batch)
    }

    fn service(&mut self, pool: &mut Pool) {
        self.inner.service(pool);
    }

    fn caps(&self) -> Caps {
        self.inner.caps()
    }

    fn counters(&self) -> PortCounters {
        let inner = self.inner.counters();
        PortCounters { tx_full: inner.tx_full + self.early, ..inner }
    }

    fn extras(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.inner.extras(tell);
        tell("paced_early", self.early);
    }

    fn held(&self) -> usize {
        self.inner.held()
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wait_fd()
    }

    fn fall_asleep(&mut self) -> bool {
        self.inner.fall_asleep()
    }

    fn kick(&mut self, pool: &mut Pool) {
        self.inner.kick(pool);
    }

    fn unkicked(&self) -> usize {
        self.inner.unkicked()
    }

    fn change_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.change_fd()
    }

    fn changed(&mut self) {
        self.inner.changed();
    }

    fn unchanged(&mut self) {
        self.inner.unchanged();
    }

    fn service_within(&self) -> Option<Duration> {
        self.inner.service_within()
    }

    fn hand_over(&mut self) -> Result<PortHandover, String> {
        Err("ports with pace= cannot be handed over".to_owned())
    }

    fn close(&mut self, pool: &mut Pool) {
        self.inner.close(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, Wire};
    use frame::{Arena, ArenaConfig};

    const MILLI: u64 = 1_000_000_000;

    #[test]
    fn rates_read() {
        for (text, pace) in [
            ("100000pps", Pace::Packets(1e5)),
            ("1.5Mpps", Pace::Packets(1.5e6)),
            ("1Gbit/s", Pace::Bits(1e9)),
            ("64kbps", Pace::Bits(64e3)),
        ] {
            assert_eq!(text.parse(), Ok(pace), "{text}");
        }
        for bad in ["", "fast", "1", "0pps", "-1pps", "1.2.3pps", "1pps "] {
            assert_eq!(bad.parse::<Pace>(), Err(()), "{bad}");
        }
    }

    #[test]
    fn over_time_the_rate_is_kept() {
        let arena = Arena::new(ArenaConfig { slots: 128, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, 128);
        for (pace, each_milli) in [(Pace::Packets(10_000.0), 10), (Pace::Bits(8e6), 10)] {
            let wire = Wire::default();
            let mut port = Paced::new(Box::new(Memory::new("m", [2; 6], &wire)), pace);
            let (mut sent, mut offered) = (0, 0);
            for round in 0..1000u64 {
                let mut batch = Batch::new();
                (0..16u8).for_each(|n| batch.push(pool.make(&[n; 100]).unwrap()).unwrap());
                let got = port.send(round * MILLI, &mut pool, &mut batch);
                let order: Vec<u8> = batch.frames().iter().map(|f| arena.bytes(f)[0]).collect();
                assert_eq!(order, (got as u8..16).collect::<Vec<_>>());
                pool.give_all(&mut batch);
                (sent, offered) = (sent + got as u64, offered + 16);
            }
            assert!((999 * each_milli..=1001 * each_milli + 16).contains(&sent), "{sent}");
            assert_eq!(port.counters().tx_full, offered - sent);
            assert_eq!(port.counters().tx_packets, sent);
        }
        assert_eq!(pool.free() + arena.in_depot(), 128);
    }

    #[test]
    fn a_port_that_is_full_keeps_order_and_costs_nothing() {
        let arena = Arena::new(ArenaConfig { slots: 128, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, 128);
        let wire = Wire::default();
        let mut port = Paced::new(Box::new(Memory::new("m", [2; 6], &wire)), Pace::Packets(10_000.0));
        let mut batch = Batch::new();
        (0..16u8).for_each(|n| batch.push(pool.make(&[n; 100]).unwrap()).unwrap());
        wire.limit(Some(2));
        assert_eq!(port.send(100 * MILLI, &mut pool, &mut batch), 2);
        let order: Vec<u8> = batch.frames().iter().map(|f| arena.bytes(f)[0]).collect();
        assert_eq!(order, (2..16).collect::<Vec<_>>());
        wire.limit(None);
        assert_eq!(port.send(100 * MILLI, &mut pool, &mut batch), 9);
        pool.give_all(&mut batch);
    }
}
