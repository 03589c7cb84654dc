//! From MAC frames to DEPI packets: PSP segments, L2TPv3, IP (CM-SP-R-DEPI, PSP pseudowire).
//!
//! A channel has one packet that is being filled. A frame that begins a packet *is* the packet: its slot goes on, and
//! later frames are copied behind it until the MTU is reached; what does not fit begins the next packet, in its own
//! slot. So at most about half of all bytes are copied. Headers go in front when the packet is closed.

mod channel; // a packet as it is filled, what stands before it
mod ready; // packets that are to leave

use std::net::IpAddr;

use engine::{Drop, Env, Io};
use frame::Frame;
use serde::{Deserialize, Serialize};
use wire::{L3L4, l2tp};

use channel::Channel;
use ready::Ready;

use crate::drops;

/// What stands behind the table of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelWord {
    /// Nothing.
    None,
    /// The number of the packet modulo 16, in bits 4 to 7: what a CCAP core was observed to send. What the bits mean is
    /// not settled: a profile identifier, by one patent.
    #[default]
    Observed,
    /// Always this value.
    Fixed(u16),
}

/// A channel's pseudowire to its device; made by control.
#[derive(Clone, Debug)]
pub struct WireSpec {
    /// The device's number of the session.
    pub session: u32,
    /// What it wants to see behind the number.
    pub cookie: l2tp::Cookie,
    /// IP or UDP.
    pub carrier: l2tp::Carrier,
    /// Our address.
    pub local: IpAddr,
    /// The device's.
    pub remote: IpAddr,
    /// Type of service of the packets.
    pub tos: u8,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// Flow identifier in the PSP header, 0 to 7.
    pub flow: u8,
    /// See [`ChannelWord`].
    pub word: ChannelWord,
    /// Segments of a packet at most.
    pub segments: usize,
}

/// The most segments we put into one packet.
pub const MAX_SEGMENTS: usize = 16;
/// A piece of a frame smaller than that is not worth a segment: the packet is closed instead.
const LEAST_PIECE: usize = 64;

/// What a channel has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCounts {
    /// DEPI packets sent.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
    /// MAC frames in them.
    pub frames: u64,
    /// Packets closed because nothing more fitted; the others waited long enough.
    pub full: u64,
    /// Packets by number of segments: 0 (none), 1 … 6, 7 and more.
    pub segments: [u64; 8],
}

/// All channels of a worker, and the packets of theirs that are ready.
pub struct Depi {
    channels: Vec<Channel>,
    ready: Ready,
    open: usize,
    /// Nanoseconds a packet may wait to be filled.
    hold_ns: u64,
}

impl Depi {
    /// Pseudowires of those channels, whose packets wait `hold_ns` at most to be filled.
    pub fn new(wires: &[WireSpec], hold_ns: u64) -> Self {
        let channels = wires.iter().map(Channel::new).collect();
        Self { channels, ready: Ready::default(), open: 0, hold_ns }
    }

    /// Slots it has: packets that are being filled, and that are ready.
    pub fn held(&self) -> usize {
        self.open + self.ready.len()
    }

    /// What a channel has counted.
    pub fn counts(&self, channel: usize) -> Option<&WireCounts> {
        self.channels.get(channel).map(|channel| &channel.counts)
    }

    /// The number of a channel's next packet.
    pub fn sequence(&self, channel: usize) -> u16 {
        self.channels.get(channel).map_or(0, |channel| channel.sequence)
    }

    /// Numbers a channel's packets from there on.
    pub(crate) fn set_sequence(&mut self, channel: usize, next: u16) {
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.sequence = next;
        }
    }

    /// Goes on with the number of a channel's next packet, and its counts, as they were elsewhere.
    pub(crate) fn carry_on(&mut self, channel: usize, next: u16, counts: WireCounts) {
        if let Some(channel) = self.channels.get_mut(channel) {
            (channel.sequence, channel.counts) = (next, counts);
        }
    }

    /// Whether more frames may come before packets leave.
    pub fn has_room(&self) -> bool {
        self.ready.room() > 256
    }

    /// Moves the next packet that is ready to `to`, which is none. Returns what its IP header says but for the length: it
    /// begins with it.
    #[inline(always)]
    pub fn pop(&mut self, to: &mut Frame) -> Option<&L3L4> {
        let channel = self.ready.pop(to)?;
        // Only channels' packets get there.
        self.channels.get(usize::from(channel)).map(|wire| &wire.ip)
    }

    /// Puts a MAC frame into its channel's packets. It is taken: the packet's from now on, or back in the pool.
    #[inline(always)]
    pub fn push(&mut self, channel: u16, frame: &mut Frame, env: &mut Env) {
        let Some(wire) = self.channels.get_mut(usize::from(channel)) else {
            return lost(drops::UNKNOWN_PSEUDOWIRE, frame.take(), env);
        };
        wire.counts.frames += 1;
        let mut begin = true;
        if wire.is_open() {
            let went = wire.add(frame, env.pool.arena());
            if went == frame.len() {
                return env.pool.give(frame.take());
            }
            if went > 0 {
                let _ = frame.pull_front(went as u16); // less than the frame's length
                begin = false;
            }
            self.open -= 1;
            self.ready.take_in(wire, channel, true, env);
        }
        if frame.len() > wire.whole {
            return self.push_long(channel, begin, frame.take(), env);
        }
        wire.start(begin, true, frame, env.pool.arena());
        wire.since = env.now;
        self.open += 1;
    }

    /// A frame that is longer than a packet: its front goes in packets of its own.
    #[cold]
    fn push_long(&mut self, channel: u16, mut begin: bool, mut frame: Frame, env: &mut Env) {
        let wire = &mut self.channels[usize::from(channel)];
        let room = wire.whole;
        while frame.len() > room {
            let Some(mut piece) = env.pool.take().filter(|_| room >= LEAST_PIECE) else {
                return lost(drops::NO_FRAME, frame, env);
            };
            let arena = env.pool.arena();
            if !arena.write(&mut piece, &arena.bytes(&frame)[..room]) {
                env.pool.give(piece);
                return lost(drops::NO_FRAME, frame, env);
            }
            let _ = frame.pull_front(room as u16); // less than the frame's length
            wire.start(begin, false, &mut piece, arena);
            begin = false;
            self.ready.take_in(wire, channel, true, env);
        }
        wire.start(begin, true, &mut frame, env.pool.arena());
        wire.since = env.now;
        self.open += 1;
    }

    /// Closes packets that have waited long enough; with `all`, all. Says whether any was.
    pub fn expire(&mut self, all: bool, env: &mut Env) -> bool {
        if self.open == 0 {
            return false;
        }
        let before = self.ready.len();
        for (at, wire) in self.channels.iter_mut().enumerate() {
            if wire.is_open() && (all || env.now.saturating_sub(wire.since) >= self.hold_ns) {
                self.open -= 1;
                self.ready.take_in(wire, at as u16, false, env); // came as one
            }
        }
        self.ready.len() > before
    }

    /// Gives everything up: the worker ends.
    pub(crate) fn close_all(&mut self, env: &mut Env) {
        self.expire(true, env);
        let mut frame = Frame::none();
        while self.pop(&mut frame).is_some() {
            env.stats.drop_outside(drops::FLOW_GONE, frame.len());
            env.pool.give(frame.take());
        }
    }
}

/// A frame that had gone into its queue and does not come out by a packet.
pub fn lost(reason: Drop, frame: Frame, env: &mut Env) {
    env.stats.add(Io::Released, 1);
    env.stats.drop_outside(reason, frame.len());
    env.pool.give(frame);
}
