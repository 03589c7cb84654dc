//! Packets that wait until their next hop's hardware address is known (RFC 1122, 2.3.2.2; RFC 4861, 7.2.2).
//!
//! A worker keeps a few for each address, tells control whom to ask for, and routes them anew when it has tables that know
//! the neighbour. Those that wait longer than a neighbour is asked are dropped, and their senders told.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use engine::{Env, Io};

use crate::forward::{Forwarding, Hop, InstanceId, NoHop};
use crate::hold::Hold;
use crate::limit::{Allowance, Limit};
use crate::{drops, punts};

/// Memory of all packets that wait.
const BYTES: usize = 256 << 10;
/// Packets that wait, at most; and of these for one address.
const MOST: usize = 512;
const EACH: usize = 16;
/// Addresses that control is told to ask for a second, and at once.
const ASKS: Allowance = Allowance::new(1000, 500);
/// An address is asked for again after this time.
const AGAIN_NS: u64 = 1_000_000_000;
/// No packet waits longer: a neighbour is asked three times, a second apart.
const LONGEST_NS: u64 = 4_000_000_000;
/// Bytes of the longest packet.
const LONGEST: usize = 16 << 10;

/// Packets of one worker that wait for neighbours.
pub struct Unresolved {
    hold: Hold,
    asks: Limit,
    /// Who was asked for last, and when, by key; two with the same place are asked for more often.
    asked: Box<[(u32, u64)]>,
    /// Makes keys that nobody can guess. Two addresses with the same key wait together.
    seed: RandomState,
    /// The tables that were looked at last.
    tables: u64,
    /// Addresses that are resolved, by key: their packets go on.
    ready: VecDeque<u32>,
    space: Vec<u8>,
}

impl Default for Unresolved {
    fn default() -> Self {
        Self {
            hold: Hold::new(BYTES, MOST, EACH),
            asks: Limit::new(ASKS),
            asked: vec![(0, 0); MOST].into(),
            seed: RandomState::new(),
            tables: 0,
            ready: VecDeque::with_capacity(MOST),
            space: vec![0; LONGEST],
        }
    }
}

impl Unresolved {
    /// Keeps a copy of a packet, from its IP header, or counts it as dropped. `ask` tells control to ask for the address,
    /// once a second while packets come; false: it cannot be told now. A packet that nobody is asked for is dropped.
    pub fn put(
        &mut self,
        instance: InstanceId,
        address: IpAddr,
        packet: &[u8],
        env: &mut Env,
        ask: impl FnOnce() -> bool,
    ) {
        let key = self.seed.hash_one((instance, address)) as u32;
        let asked = &mut self.asked[key as usize % MOST];
        let is_due = asked.0 != key || env.now.saturating_sub(asked.1) >= AGAIN_NS;
        if is_due && self.asks.allow(env.now) && ask() {
            *asked = (key, env.now);
        } else if is_due && self.hold.packets_of(key) == 0 {
            return env.stats.drop_outside(drops::LIMITED, packet.len());
        }
        match self.hold.push(key, instance.into(), packet, env.now) {
            Ok(()) => env.stats.terminated(punts::RESOLVE),
            Err(_) => env.stats.drop_outside(drops::NEIGHBOUR_QUEUE_FULL, packet.len()),
        }
    }

    /// Shows all packets that wait: VRF, since when, and octets from the IP header; the oldest first.
    pub fn each(&mut self, mut show: impl FnMut(InstanceId, u64, &[u8])) {
        let Self { hold, space, .. } = self;
        hold.each(space, |_, held, packet| show(held.tag as InstanceId, held.at, packet));
    }

    /// Takes in a packet that [waited](Self::each) in another process for the way to an address, and has it asked for. False:
    /// there is no room.
    pub fn take_in(
        &mut self,
        (instance, address): (InstanceId, IpAddr),
        packet: &[u8],
        at: u64,
        ask: impl FnOnce() -> bool,
    ) -> bool {
        let key = self.seed.hash_one((instance, address)) as u32;
        let asked = &mut self.asked[key as usize % MOST];
        if asked.0 != key && ask() {
            *asked = (key, at);
        }
        self.hold.push(key, instance.into(), packet, at).is_ok()
    }

    /// Takes note of new tables: what waits for a neighbour that they know goes on, before packets that come now.
    pub fn tables_changed(&mut self, tables: &Forwarding) {
        if self.hold.packets() == 0 || self.tables == tables.version() {
            return;
        }
        self.tables = tables.version();
        let Self { hold, ready, .. } = self;
        ready.clear();
        ready.extend(hold.keys().filter(|key| {
            hold.front(*key).is_some_and(|held| is_resolved(tables, held.tag as InstanceId, hold.front_bytes(*key)))
        }));
    }

    /// Whether packets go on that others of the same flows could overtake.
    pub fn is_releasing(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Packets that wait.
    pub fn held(&self) -> usize {
        self.hold.packets()
    }

    /// The next packet that goes on, from its IP header, and its VRF. Whoever sends it counts it as released.
    pub fn take_ready(&mut self) -> Option<(InstanceId, &[u8])> {
        while let Some(key) = self.ready.front().copied() {
            match self.hold.pop(key, &mut self.space) {
                Some(held) => return Some((held.tag as InstanceId, &self.space[..held.len])),
                None => self.ready.pop_front(),
            };
        }
        None
    }

    /// When the packet that waits longest is dropped; none waits: never.
    pub fn next_deadline(&self) -> Option<u64> {
        self.hold.oldest().map(|at| at.saturating_add(LONGEST_NS))
    }

    /// Drops a packet that has waited too long: it comes back with its VRF, for its sender to be told. None: there is none.
    pub fn expire(&mut self, env: &mut Env) -> Option<(InstanceId, &[u8])> {
        let key = self.hold.due(env.now, LONGEST_NS)?;
        let held = self.hold.pop(key, &mut self.space)?;
        env.stats.add(Io::Released, 1);
        env.stats.drop_outside(drops::NEIGHBOUR_UNRESOLVED, held.len);
        Some((held.tag as InstanceId, &self.space[..held.len]))
    }

    /// Drops everything: the worker ends.
    pub fn close(&mut self, env: &mut Env) {
        let stats = &env.stats;
        self.hold.expire(u64::MAX, 0, |_, held| {
            stats.add(Io::Released, 1);
            stats.drop_outside(drops::NEIGHBOUR_UNRESOLVED, held.len);
        });
    }
}

/// Whether tables know the way of a packet up to its neighbour's hardware address. A packet without a way goes on, too: to
/// be refused.
fn is_resolved(tables: &Forwarding, instance: InstanceId, packet: &[u8]) -> bool {
    let hop = match packet.first().map_or(0, |first| first >> 4) {
        6 => {
            let to = packet.get(24..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
            tables.hop6(instance, u128::from_be_bytes(to))
        }
        _ => {
            let to = packet.get(16..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
            tables.hop4(instance, u32::from_be_bytes(to))
        }
    };
    match hop {
        Ok(hop) => tables.hop(hop).is_none_or(Hop::is_resolved),
        Err(NoHop::NoRoute) => true,
        Err(NoHop::Unresolved { .. }) => false,
    }
}
