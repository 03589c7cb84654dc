//! Putting fragmented packets of users together (RFC 791, 3.2; RFC 8200, 4.5).
//!
//! ```text
//! … ─► CatchFragments ─ punt(Reassemble) ─► Reassembly::hold ─► [datagrams: fragments in order: blocks of 256 bytes]
//!                                                                   │ all there
//!      the pipeline that goes on behind it  ◄─ Reassembly::poll ◄───┘
//! ```
//!
//! Fragments are copied into memory of their own, so that waiting ones pin no frames. All of it is taken at the start,
//! and it is bounded three times: in all, by owner (a subscriber), and in fragments of a packet.
//!
//! - **Overlaps**: fragments that overlap or contradict each other condemn their packet, all that is held of it and all
//!   that is still to come, for IPv6 (RFC 5722) and IPv4 alike; so end teardrop and its kin. An exact copy of a fragment
//!   is dropped alone.
//! - **Once**: a packet that was put together, or condemned, is remembered for half a second; copies of its fragments that
//!   come late do not begin it anew.
//! - **Size**: a packet longer than 65,535 bytes or than the frames here is given up as soon as one of its fragments shows
//!   it. No packet may have more than so many fragments: the tiny ones are an attack.
//! - **Atomic** fragments are whole packets and are not caught (RFC 6946).
//! - **Time**: who is not complete after the timeout is given up, silently: ICMP's time exceeded is left to the end host
//!   that would have put it together (RFC 1122, 3.3.2).
//! - **ECN**: one fragment with congestion experienced marks the whole (RFC 3168, 5.3); with one that knows no ECN beside
//!   it, the packet is dropped as contradicting itself.
//!
//! When memory is full new packets are refused, not old ones given up: what is held has the better chance.

mod blocks;
mod datagrams;
mod piece;
mod stage;

use engine::{Burst, Drop, Env, Io, Kind};
use frame::BURST;
use wire::L3L4;

use crate::parse::HasIp;
use crate::{drops, punts};
use datagrams::Datagrams;
pub use datagrams::{Config, Unfit, Whose};
pub use stage::CatchFragments;

/// The longest packet there is.
const LONGEST: usize = u16::MAX as usize;

/// The element that holds fragments: it ends one pipeline and begins the next. Owned by one worker.
pub struct Reassembly {
    datagrams: Datagrams,
    scratch: Box<[u8]>,
}

impl Reassembly {
    /// An empty one; all memory is taken here. `seed` should be random, lest senders choose their neighbours.
    pub fn new(config: Config, seed: u64) -> Self {
        Self { datagrams: Datagrams::new(config, seed), scratch: vec![0; LONGEST].into() }
    }

    /// Takes a copy of a fragment that was punted as [`punts::REASSEMBLE`]; its frame is the caller's to give back.
    /// Counts it, one way or the other.
    pub fn hold(&mut self, packet: &[u8], ip: &L3L4, whose: Whose, env: &Env) {
        match self.datagrams.push(packet, ip, whose, env.now) {
            Ok(()) => env.stats.terminated(punts::REASSEMBLE),
            Err(refused) => {
                env.stats.drop_outside(refused.why, ip.total_len as usize);
                count_lost(env, refused.why, refused.packets, refused.bytes);
            }
        }
    }

    /// Adds packets that are complete to the burst, as far as it has room and they are of one network: each begins with
    /// its IP header, which is parsed, and `each` gets its place and the tag of its first fragment. Says whether more
    /// wait.
    pub fn poll<K: Kind>(
        &mut self,
        burst: &mut Burst<K>,
        env: &mut Env,
        mut each: impl FnMut(&mut Burst<K>, usize, u64),
    ) -> bool
    where
        K::Lane: HasIp,
    {
        let network = self.datagrams.next_domain();
        while burst.len() < BURST && self.datagrams.next_domain() == network {
            let Some(whole) = self.datagrams.pop(env.now, &mut self.scratch) else { break };
            env.stats.add(Io::Released, 1);
            let bytes = self.scratch.get(..whole.len).unwrap_or_default();
            let Ok(ip) = L3L4::parse(bytes) else {
                env.stats.drop_outside(drops::MALFORMED, bytes.len());
                continue;
            };
            let made = env.pool.make(bytes).and_then(|mut frame| {
                frame.meta.l3 = 0;
                burst.push(frame).map_err(|frame| env.pool.give(frame)).ok()
            });
            match made {
                Some(i) => {
                    *burst.lane.ip_mut(i) = ip;
                    each(burst, i, whole.tag);
                }
                None => env.stats.drop_outside(drops::NO_FRAME, bytes.len()),
            }
        }
        self.datagrams.has_whole()
    }

    /// Whether a packet is complete.
    pub fn is_ready(&self) -> bool {
        self.datagrams.has_whole()
    }

    /// Gives up what is late. To be called every millisecond or so.
    pub fn tick(&mut self, env: &Env) {
        let late = self.datagrams.expire(env.now);
        count_lost(env, drops::REASSEMBLY_TIMEOUT, late.packets, late.bytes);
    }

    /// When [`Reassembly::tick`] has something to do next, in nanoseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.datagrams.next_deadline()
    }

    /// Fragments it holds.
    pub fn held(&self) -> usize {
        self.datagrams.fragments()
    }

    /// Adds all it holds and remembers, for another process that goes on for this one.
    pub fn export(&self, out: &mut Vec<u8>) {
        self.datagrams.export(out);
    }

    /// Takes in what another process has [exported](Self::export); it holds nothing yet.
    ///
    /// # Errors
    /// It is not taken in as a whole: give this one up.
    pub fn import(&mut self, octets: &[u8]) -> Result<(), Unfit> {
        self.datagrams.import(octets)
    }

    /// Gives up everything: the worker ends.
    pub fn close(&mut self, env: &Env) {
        let all = self.datagrams.clear();
        count_lost(env, drops::REASSEMBLY_TIMEOUT, all.packets, all.bytes);
    }
}

/// Counts fragments that were held and are no more.
fn count_lost(env: &Env, why: Drop, packets: usize, bytes: usize) {
    env.stats.add(Io::Released, packets as u64);
    for n in 0..packets {
        env.stats.drop_outside(why, if n == 0 { bytes } else { 0 });
    }
}

#[cfg(test)]
mod tests;
