//! A bad wire made of a good port: `loss=0.01&dup=…&reorder=…&corrupt=…&truncate=…&seed=1` on any port.
//!
//! Each is the chance of a packet, received and sent alike (or as `faults=rx|tx|both` says), to be lost, doubled,
//! overtaken by the next one, have a bit flipped, or its end cut off. The same seed gives the same faults to the same
//! packets. `rx_packets` and `tx_packets` are what the worker got and gave; the differences to the wire are told by
//! [`Port::extras`].

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use frame::{Batch, Caps, Frame, Pool, Port, PortCounters, PortHandover, flags};

use crate::{PortError, Uri};

/// Chances of faults, each from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// To be lost.
    pub loss: f64,
    /// To come twice.
    pub dup: f64,
    /// To be overtaken by the packet behind.
    pub reorder: f64,
    /// To have one bit flipped.
    pub corrupt: f64,
    /// To lose its end.
    pub truncate: f64,
    /// What the faults are drawn from.
    pub seed: u64,
    /// Spare received packets.
    pub spare_rx: bool,
    /// Spare sent packets.
    pub spare_tx: bool,
}

impl Faults {
    /// What a URI asks for; none when it asks for no faults.
    ///
    /// # Errors
    /// [`PortError::BadValue`] for what is no chance.
    pub fn of(uri: &Uri) -> Result<Option<Self>, PortError> {
        let mut any = false;
        let mut chance = |key| {
            let want = "a chance from 0 to 1";
            let chance: f64 = uri.number(key, 0.0, want)?;
            any |= uri.get(key).is_some();
            if (0.0..=1.0).contains(&chance) { Ok(chance) } else { Err(uri.bad_value(key, want)) }
        };
        let (loss, dup, reorder) = (chance("loss")?, chance("dup")?, chance("reorder")?);
        let (corrupt, truncate) = (chance("corrupt")?, chance("truncate")?);
        let ways = [("both", (false, false)), ("rx", (false, true)), ("tx", (true, false))];
        let (spare_rx, spare_tx) = uri.choice("faults", &ways)?;
        let seed = uri.number("seed", 1, "a number")?;
        Ok(any.then_some(Self { loss, dup, reorder, corrupt, truncate, seed, spare_rx, spare_tx }))
    }
}

/// Shortest packet that truncation leaves: an Ethernet header.
const SHORTEST: usize = 14;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn chance(&mut self, chance: f64) -> bool {
        // Always thrown, so that one chance changed leaves the others' luck as it was.
        ((self.throw() >> 11) as f64) < chance * (1u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.throw() % n.max(1) as u64) as usize
    }
}

/// What befell packets, in the order of the names below.
type Tally = [u64; 5];
const RX: [&str; 5] = ["rx_fault_lost", "rx_fault_doubled", "rx_fault_overtaken", "rx_fault_corrupted", "rx_fault_cut"];
const TX: [&str; 5] = ["tx_fault_lost", "tx_fault_doubled", "tx_fault_overtaken", "tx_fault_corrupted", "tx_fault_cut"];

/// One direction of the wire.
struct Lane {
    faults: Faults,
    dice: Dice,
    late: Option<Frame>,
    ready: VecDeque<Frame>,
    tally: Tally,
}

impl Lane {
    fn new(faults: Faults, spare: bool, salt: u64) -> Self {
        let dice = Dice(faults.seed ^ salt);
        let faults = if spare { Faults::default() } else { faults };
        Self { faults, dice, late: None, ready: VecDeque::with_capacity(4 * frame::BURST), tally: Tally::default() }
    }

    /// Puts a packet on the wire.
    fn pass(&mut self, pool: &mut Pool, mut frame: Frame) {
        let Faults { loss, dup, reorder, corrupt, truncate, .. } = self.faults;
        let [lost, doubled, overtaken, corrupted, cut] =
            [loss, dup, reorder, corrupt, truncate].map(|chance| self.dice.chance(chance));
        let len = frame.len();
        let (bit, end) = (self.dice.below(len * 8), SHORTEST + self.dice.below(len.saturating_sub(SHORTEST)));
        if lost {
            self.tally[0] += 1;
            return pool.give(frame);
        }
        if corrupted && len > 0 {
            pool.arena().bytes_mut(&mut frame)[bit / 8] ^= 1 << (bit % 8);
            self.tally[3] += 1;
        }
        // Fits: shorter than before.
        if cut && end < len && frame.truncate(end as u16).is_ok() {
            self.tally[4] += 1;
        }
        let twin = if doubled { twin(pool, &frame) } else { None };
        self.tally[1] += u64::from(twin.is_some());
        if overtaken && self.late.is_none() {
            self.tally[2] += 1;
            self.late = Some(frame);
            self.ready.extend(twin);
        } else {
            self.ready.push_back(frame);
            self.ready.extend(twin);
            self.ready.extend(self.late.take());
        }
    }

    fn held(&self) -> usize {
        self.ready.len() + usize::from(self.late.is_some())
    }

    fn release(&mut self, pool: &mut Pool) {
        self.ready.drain(..).chain(self.late.take()).for_each(|frame| pool.give(frame));
    }
}

fn twin(pool: &mut Pool, frame: &Frame) -> Option<Frame> {
    let mut twin = pool.take()?;
    let arena = pool.arena();
    if !arena.write(&mut twin, arena.bytes(frame)) {
        pool.give(twin);
        return None;
    }
    twin.meta = frame.meta;
    Some(twin)
}

/// A port with faults.
pub struct Faulty {
    inner: Box<dyn Port>,
    rx: Lane,
    tx: Lane,
    batch: Batch,
    counters: PortCounters,
}

impl Faulty {
    /// Makes a port's wire bad.
    pub fn new(inner: Box<dyn Port>, faults: Faults) -> Self {
        let (rx, tx) = (Lane::new(faults, faults.spare_rx, 0), Lane::new(faults, faults.spare_tx, 1 << 63));
        Self { inner, rx, tx, batch: Batch::new(), counters: PortCounters::default() }
    }

    /// Sends what is ready as far as the port takes it.
    fn push(&mut self, pool: &mut Pool) {
        while !self.tx.ready.is_empty() || !self.batch.is_empty() {
            while self.batch.room() > 0
                && let Some(frame) = self.tx.ready.pop_front()
            {
                self.batch.push(frame).expect("there is room");
            }
            self.inner.tx_burst(pool, &mut self.batch);
            if !self.batch.is_empty() {
                break;
            }
        }
    }
}

impl Port for Faulty {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let before = out.len();
        if self.rx.ready.len() < out.room() {
            let mut fresh = Batch::new();
            let got = self.inner.rx_burst(pool, &mut fresh);
            fresh.drain(|mut frame| {
                // It will not be what the device has seen.
                frame.meta.flags &= !flags::UDP_VERIFIED;
                self.rx.pass(pool, frame);
            });
            // Nothing behind it: it is late enough.
            if got == 0 {
                self.rx.ready.extend(self.rx.late.take());
            }
        }
        while out.room() > 0
            && let Some(frame) = self.rx.ready.pop_front()
        {
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += frame.len() as u64;
            out.push(frame).expect("there is room");
        }
        out.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        self.push(pool);
        if !self.tx.ready.is_empty() || !self.batch.is_empty() {
            self.counters.tx_full += batch.len() as u64;
            return 0;
        }
        let taken = batch.len();
        batch.drain(|frame| {
            self.counters.tx_packets += 1;
            self.counters.tx_bytes += frame.len() as u64;
            self.tx.pass(pool, frame);
        });
        self.push(pool);
        taken
    }

    fn service(&mut self, pool: &mut Pool) {
        self.tx.ready.extend(self.tx.late.take());
        self.push(pool);
        self.inner.service(pool);
    }

    /// Packets are whole when they come here.
    fn caps(&self) -> Caps {
        Caps { completes_udp6: false, ..self.inner.caps() }
    }

    fn counters(&self) -> PortCounters {
        let PortCounters { rx_packets, rx_bytes, tx_packets, tx_bytes, tx_full, .. } = self.counters;
        PortCounters { rx_packets, rx_bytes, tx_packets, tx_bytes, tx_full, ..self.inner.counters() }
    }

    fn extras(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.inner.extras(tell);
        let names = RX.iter().chain(&TX);
        names.zip(self.rx.tally.iter().chain(&self.tx.tally)).for_each(|(name, value)| tell(name, *value));
    }

    fn held(&self) -> usize {
        self.inner.held() + self.rx.held() + self.tx.held() + self.batch.len()
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
        Err("ports with faults cannot be handed over".to_owned())
    }

    fn close(&mut self, pool: &mut Pool) {
        self.rx.release(pool);
        self.tx.release(pool);
        pool.give_all(&mut self.batch);
        self.inner.close(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, Wire};
    use frame::{Arena, ArenaConfig};

    const SLOTS: u32 = 512;

    /// Sends and receives `n` packets each way; what arrived there and here, and the extras.
    fn run(keys: &str, n: u32) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, Vec<u64>) {
        let uri: Uri = format!("memory:x?{keys}").parse().unwrap();
        let faults = Faults::of(&uri).unwrap().unwrap();
        let arena = Arena::new(ArenaConfig { slots: SLOTS, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, SLOTS as usize);
        let wire = Wire::default();
        let mut port = Faulty::new(Box::new(Memory::new("m", [2; 6], &wire)), faults);
        let (mut here, mut batch) = (Vec::new(), Batch::new());
        for n in 0..n {
            let packet = [&n.to_be_bytes()[..], &[0; 60]].concat();
            wire.send(packet.clone());
            batch.push(pool.make(&packet).unwrap()).unwrap();
            assert_eq!(port.tx_burst(&mut pool, &mut batch), 1);
        }
        for _ in 0..n {
            port.rx_burst(&mut pool, &mut batch);
            here.extend(batch.frames().iter().map(|frame| arena.bytes(frame).to_vec()));
            pool.give_all(&mut batch);
            port.service(&mut pool);
            assert_eq!(pool.free() + arena.in_depot() + port.held(), SLOTS as usize);
        }
        assert_eq!(port.held(), 0);
        let counters = port.counters();
        assert_eq!((counters.rx_packets, counters.tx_packets), (here.len() as u64, n.into()));
        let mut extras = Vec::new();
        port.extras(&mut |_, value| extras.push(value));
        (wire.received(), here, extras)
    }

    fn number(packet: &[u8]) -> u32 {
        u32::from_be_bytes(packet[..4].try_into().unwrap())
    }

    #[test]
    fn each_fault_is_what_it_says_and_counted() {
        let about = |count: u64| (150..=250).contains(&count);
        let (there, here, extras) = run("loss=0.2", 1000);
        assert!(about(extras[0]) && about(extras[5]) && extras[0] != extras[5]);
        assert_eq!((there.len() as u64, here.len() as u64), (1000 - extras[5], 1000 - extras[0]));

        let (there, _, extras) = run("dup=0.2", 1000);
        assert!(about(extras[6]));
        assert_eq!(there.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64, extras[6]);

        let (there, here, extras) = run("reorder=0.2", 1000);
        assert!(about(extras[2]) && about(extras[7]));
        for list in [there, here] {
            assert!(list.windows(2).any(|pair| number(&pair[0]) > number(&pair[1])));
            let mut numbers: Vec<_> = list.iter().map(|packet| number(packet)).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
        }

        let (_, here, extras) = run("corrupt=0.2", 1000);
        let whole = |(n, packet): &(usize, &Vec<u8>)| **packet == [&(*n as u32).to_be_bytes()[..], &[0; 60]].concat();
        assert_eq!(here.iter().enumerate().filter(|one| !whole(one)).count() as u64, extras[3]);
        assert!(about(extras[3]));

        let (_, here, extras) = run("truncate=0.2", 1000);
        assert_eq!(here.iter().filter(|packet| packet.len() < 64).count() as u64, extras[4]);
        assert!(here.iter().all(|packet| packet.len() >= SHORTEST) && about(extras[4]));
    }

    #[test]
    fn the_seed_decides() {
        let all = "loss=0.1&dup=0.1&reorder=0.1&corrupt=0.1&truncate=0.1";
        assert_eq!(run(&format!("{all}&seed=5"), 300), run(&format!("{all}&seed=5"), 300));
        assert_ne!(run(&format!("{all}&seed=5"), 300), run(&format!("{all}&seed=6"), 300));
    }

    #[test]
    fn one_way_may_be_spared() {
        let (there, here, _) = run("loss=1&faults=rx", 50);
        assert_eq!((there.len(), here.len()), (50, 0));
        let (there, here, _) = run("loss=1&faults=tx", 50);
        assert_eq!((there.len(), here.len()), (0, 50));
    }

    #[test]
    fn only_chances_are_taken() {
        for bad in ["loss=2", "dup=-1", "corrupt=x", "faults=some&loss=0.1", "loss=NaN"] {
            let uri: Uri = format!("memory:x?{bad}").parse().unwrap();
            assert!(matches!(Faults::of(&uri), Err(PortError::BadValue { .. })), "{bad}");
        }
        assert_eq!(Faults::of(&"memory:x?seed=3".parse().unwrap()).unwrap(), None);
    }
}
