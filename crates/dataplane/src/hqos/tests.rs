//! The scheduler in virtual time, over one link.

use frame::{Arena, ArenaConfig, Pool};
use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;

/// A link without overhead.
struct Wire {
    rate: u64,
    busy_until: u64,
}

impl Links for Wire {
    type Link = Self;

    fn groups(&self) -> usize {
        1
    }

    fn choose(&mut self, _group: usize, _current: &mut Option<u16>, until: u64) -> Option<(u16, &mut Self)> {
        (self.busy_until < until).then_some((0, self))
    }

    fn give(link: &mut Self, bytes: u32, now: u64) {
        link.busy_until = link.busy_until.max(now) + u64::from(bytes) * 8_000_000_000 / link.rate;
    }

    fn capacity(&self, _group: usize) -> u64 {
        self.rate
    }
}

/// The number of the next packet.
#[derive(Clone, Copy)]
struct Number(u16);

impl Label for Number {
    const NONE: Self = Self(0);

    fn pulled(&mut self) -> Self {
        self.0 += 1;
        Self(self.0 - 1)
    }
}

struct Rig {
    pool: Pool,
    scheduler: Scheduler<Wire, Number>,
    now: u64,
    refused: u64,
    pulled: Vec<(u32, u16)>,
}

impl Rig {
    fn new(rate: u64, flows: &[FlowSpec]) -> Self {
        let arena = Arena::new(ArenaConfig { slots: 2048, ..ArenaConfig::default() }).expect("memory");
        let mut scheduler = Scheduler::new(Limits::default(), Wire { rate, busy_until: 0 }, flows.len(), 0);
        for (id, spec) in flows.iter().enumerate() {
            scheduler.install(id as u32, *spec, Number(0), 0);
        }
        Self { pool: Pool::new(&arena, 2048), scheduler, now: 0, refused: 0, pulled: Vec::new() }
    }

    fn push(&mut self, flow: u32, bytes: usize) {
        let Some(mut frame) = self.pool.make(&vec![0; bytes - 4]) else { return };
        if self.scheduler.push(flow, &mut frame, self.now).is_err() {
            self.refused += 1;
            self.pool.give(frame);
        }
    }

    /// Fills the flows' queues with frames of those lengths, CRC included, for a time in ms.
    fn backlogged(&mut self, ms: u64, lengths: &[usize]) {
        for step in 0..ms * 10 {
            for (flow, bytes) in lengths.iter().enumerate() {
                while self.scheduler.flows()[flow].packets < 100 {
                    self.push(flow as u32, *bytes);
                }
            }
            self.step(step);
        }
    }

    fn step(&mut self, step: u64) {
        let (pool, pulled) = (&mut self.pool, &mut self.pulled);
        while self.scheduler.pull(self.now, 32, |packet| {
            pulled.push((packet.flow, packet.label.0));
            pool.give(packet.frame.take());
        }) > 0
        {}
        if step.is_multiple_of(10) {
            self.scheduler.tick(self.now);
        }
        self.now += MS / 10;
    }

    /// What each flow has sent, in bit/s over `ms`.
    fn rates(&self, ms: u64) -> Vec<f64> {
        self.scheduler.flows().iter().map(|flow| flow.counts.bytes as f64 * 8000.0 / ms as f64).collect()
    }
}

fn near(value: f64, wanted: f64) -> bool {
    (value / wanted - 1.0).abs() <= 0.01
}

#[test]
fn shaped_flow_keeps_its_rate() {
    let spec = FlowSpec { sustained: Some(20_000_000), ..FlowSpec::default() };
    let mut rig = Rig::new(1_000_000_000, &[spec]);
    rig.backlogged(1000, &[1500]);
    assert!(near(rig.rates(1000)[0], 20e6), "{:?}", rig.rates(1000));
}

#[test]
fn backlogged_flows_share_a_link_by_bytes() {
    let mut rig = Rig::new(100_000_000, &[FlowSpec::default(); 3]);
    rig.backlogged(1000, &[1500, 500, 64]);
    for rate in rig.rates(1000) {
        assert!(near(rate, 100e6 / 3.0), "{:?}", rig.rates(1000));
    }
}

#[test]
fn higher_priority_starves_lower() {
    let high = FlowSpec { priority: 7, ..FlowSpec::default() };
    let mut rig = Rig::new(100_000_000, &[FlowSpec::default(), high]);
    rig.backlogged(200, &[1000, 1000]);
    assert_eq!(rig.scheduler.flows()[0].counts.packets, 0);
    assert!(near(rig.rates(200)[1], 100e6), "{:?}", rig.rates(200));
}

#[test]
fn reserved_rate_goes_before_priority() {
    let reserved = FlowSpec { reserved: Some(30_000_000), ..FlowSpec::default() };
    let high = FlowSpec { priority: 7, ..FlowSpec::default() };
    let mut rig = Rig::new(100_000_000, &[reserved, high]);
    rig.backlogged(1000, &[1000, 1000]);
    let rates = rig.rates(1000);
    assert!(near(rates[0], 30e6) && near(rates[1], 70e6), "{rates:?}");
}

#[test]
fn frames_too_many_are_refused_by_name() {
    let spec = FlowSpec { buffer: 3000, ..FlowSpec::default() };
    let mut rig = Rig::new(1_000_000, &[spec]);
    let mut frame = rig.pool.make(&[0; 60]).expect("a buffer");
    assert_eq!(rig.scheduler.push(9, &mut frame, 0), Err(Refused::Gone));
    rig.pool.give(frame);
    (0..3).for_each(|_| rig.push(0, 1500));
    assert_eq!((rig.refused, rig.scheduler.flows()[0].counts.full, rig.scheduler.waiting()), (1, 1, 2));
}

proptest! {
    /// Every frame is refused, waits or leaves, in order of its flow, and no buffer is lost.
    #[test]
    fn frames_are_conserved_and_in_order(
        steps in prop::collection::vec((0u32..4, 64usize..1500, any::<bool>()), 1..300),
        rate in 1_000_000u64..1_000_000_000,
    ) {
        let shaped = FlowSpec { sustained: Some(5_000_000), buffer: 20_000, ..FlowSpec::default() };
        let managed = FlowSpec { aqm: Some(PieConfig::default()), ..FlowSpec::default() };
        let reserved = FlowSpec { reserved: Some(1_000_000), priority: 3, ..FlowSpec::default() };
        let mut rig = Rig::new(rate, &[FlowSpec::default(), shaped, managed, reserved]);
        let free = rig.pool.free();
        for (n, (flow, bytes, serve)) in steps.iter().enumerate() {
            rig.push(*flow, *bytes);
            if *serve {
                rig.step(n as u64);
            }
        }
        let sent = rig.pulled.len() as u64;
        prop_assert_eq!(sent + rig.refused + rig.scheduler.waiting() as u64, steps.len() as u64);
        for flow in 0..4 {
            let numbers: Vec<u16> = rig.pulled.iter().filter(|(of, _)| *of == flow).map(|(_, number)| *number).collect();
            prop_assert!(numbers.iter().zip(0..).all(|(number, n)| *number == n), "{numbers:?}");
        }
        let pool = &mut rig.pool;
        rig.scheduler.close(|frame| pool.give(frame));
        prop_assert_eq!((pool.free(), rig.scheduler.waiting()), (free, 0));
    }
}
