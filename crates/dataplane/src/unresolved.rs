//! Packets that wait until their next hop's hardware address is known (RFC 1122, 2.3.2.2; RFC 4861, 7.2.2).
//!
//! A worker keeps a few for each address, tells control whom to ask for, and routes them anew when it has tables that know
//! the neighbour. Those that wait longer than a neighbour is asked are dropped.

use std::collections::VecDeque;
use std::net::IpAddr;

use engine::Env;

use crate::forward::{Forwarding, Hop, InstanceId, NoHop};
use crate::hold::Hold;
use crate::{drops, punts};

/// Memory of all packets that wait.
const BYTES: usize = 256 << 10;
/// Packets that wait, at most; and of these for one address.
const MOST: usize = 512;
const EACH: usize = 16;
/// No packet waits longer: a neighbour is asked three times, a second apart.
const LONGEST_NS: u64 = 4_000_000_000;
/// Bytes of the longest packet.
const LONGEST: usize = 16 << 10;

/// Packets of one worker that wait for neighbours.
pub struct Unresolved {
    hold: Hold,
    /// The tables that were looked at last.
    tables: u64,
    /// Addresses that are resolved, by key: their packets go on.
    ready: VecDeque<u32>,
    space: Vec<u8>,
}

impl Default for Unresolved {
    fn default() -> Self {
        let ready = VecDeque::with_capacity(MOST);
        Self { hold: Hold::new(BYTES, MOST, EACH), tables: 0, ready, space: vec![0; LONGEST] }
    }
}

impl Unresolved {
    /// Whether no packet for that address waits: control is to ask for it, before one does.
    pub fn is_first(&self, instance: InstanceId, address: IpAddr) -> bool {
        self.hold.packets_of(key_of(instance, address)) == 0
    }

    /// Keeps a copy of a packet, from its IP header, or counts it as dropped.
    pub fn put(&mut self, instance: InstanceId, address: IpAddr, packet: &[u8], env: &mut Env) {
        match self.hold.push(key_of(instance, address), instance.into(), packet, env.now) {
            Ok(()) => env.stats.terminated(punts::RESOLVE),
            Err(_) => env.stats.drop_outside(drops::NEIGHBOUR_QUEUE_FULL, packet.len()),
        }
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

    /// Drops what has waited too long.
    pub fn expire(&mut self, env: &mut Env) {
        self.drop_older(env, env.now, LONGEST_NS);
    }

    /// Drops everything: the worker ends.
    pub fn close(&mut self, env: &mut Env) {
        self.drop_older(env, u64::MAX, 0);
    }

    fn drop_older(&mut self, env: &mut Env, now: u64, age: u64) {
        let stats = &env.stats;
        self.hold.expire(now, age, |_, held| {
            stats.add(engine::Io::Released, 1);
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

/// Two addresses with the same key wait together; each packet is routed by itself.
fn key_of(instance: InstanceId, address: IpAddr) -> u32 {
    let bits = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    };
    let mixed = (bits as u64 ^ (bits >> 64) as u64 ^ u64::from(instance) << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}
