//! From MAC frames to DEPI packets: PSP segments, L2TPv3, IP (CM-SP-R-DEPI, PSP pseudowire).
//!
//! A channel has one packet that is being filled. A frame that begins a packet *is* the packet: its slot goes on, and
//! later frames are copied behind it until the MTU is reached; what does not fit begins the next packet, in its own
//! slot. So at most about half of all bytes are copied. Headers go in front when the packet is closed.

use std::collections::VecDeque;
use std::net::IpAddr;

use engine::{Drop, Env, Io};
use frame::{Arena, Frame};
use wire::psp::{self, Entry};
use wire::{L3L4, checksum, fast, l2tp, protocol};

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
/// Time to live, or hop limit, of DEPI packets.
const TTL: u8 = 64;
/// Longest header: IPv6, UDP, L2TPv3 with cookie.
const MAX_HEADER: usize = 40 + 8 + 16;
/// The most that stands before the segments: the header, the table, the word behind it.
const MAX_FRONT: usize = MAX_HEADER + psp::HEADER_LEN + MAX_SEGMENTS * psp::ENTRY_LEN + psp::WORD_LEN;

/// What a channel has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

struct Channel {
    /// What stands before the segments: the header as all packets have it, and the table of the packet that is being
    /// filled.
    front: [u8; MAX_FRONT],
    header_len: usize,
    /// What is read in the packets' IP header, but for the length.
    ip: L3L4,
    carrier: l2tp::Carrier,
    sum: u16,
    /// Bytes that fit into a packet of one segment.
    whole: usize,
    flow: u8,
    word: ChannelWord,
    max_segments: usize,
    open: Option<Frame>,
    /// Bytes that still fit into it with one more segment.
    room: usize,
    count: usize,
    since: u64,
    sequence: u16,
    counts: WireCounts,
}

impl Channel {
    fn new(spec: &WireSpec) -> Self {
        let mut header = [0; MAX_FRONT];
        let udp = spec.carrier == l2tp::Carrier::Udp;
        let protocol = if udp { protocol::UDP } else { protocol::L2TP };
        let (mut at, version, sum) = match (spec.local, spec.remote) {
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                header[0] = 0x60 | spec.tos >> 4;
                header[1] = spec.tos << 4;
                (header[6], header[7]) = (protocol, TTL);
                header[8..24].copy_from_slice(&local.octets());
                header[24..40].copy_from_slice(&remote.octets());
                (40, 6, 0)
            }
            (local, remote) => {
                (header[0], header[1]) = (0x45, spec.tos);
                // Atomic, as all our tunnels (RFC 6864, 4.1).
                header[6] = 0x40;
                (header[8], header[9]) = (TTL, protocol);
                let octets = |address| if let IpAddr::V4(address) = address { address.octets() } else { [0; 4] };
                header[12..16].copy_from_slice(&octets(local));
                header[16..20].copy_from_slice(&octets(remote));
                (20, 4, checksum::sum(&header[..20]))
            }
        };
        if udp {
            for port in 0..2 {
                fast::put16(&mut header, at + port * 2, l2tp::PORT);
            }
            at += 8;
        }
        let repr = l2tp::Repr { carrier: spec.carrier, session: spec.session, cookie: spec.cookie };
        let l4 = if version == 4 { 20 } else { 40 };
        at += repr.emit(&mut header[at..]).unwrap_or(0);
        let word = if spec.word == ChannelWord::None { 0 } else { psp::WORD_LEN };
        let port = if udp { l2tp::PORT } else { 0 };
        let v4 = |address| if let IpAddr::V4(address) = address { address.into() } else { 0 };
        let ip = L3L4 {
            dst: v4(spec.remote),
            src: v4(spec.local),
            dst_port: port,
            src_port: port,
            l4,
            version,
            protocol,
            ttl: TTL,
            tos: spec.tos,
            ..L3L4::default()
        };
        Self {
            front: header,
            header_len: at,
            ip,
            carrier: spec.carrier,
            sum,
            whole: usize::from(spec.mtu).saturating_sub(at + psp::HEADER_LEN + psp::ENTRY_LEN + word),
            flow: spec.flow,
            word: spec.word,
            max_segments: spec.segments.clamp(1, MAX_SEGMENTS),
            open: None,
            room: 0,
            count: 0,
            since: 0,
            sequence: 0,
            counts: WireCounts::default(),
        }
    }

    /// Begins a packet: it is that frame, or piece of one.
    fn start(&mut self, begin: bool, end: bool, frame: Frame, arena: &Arena) {
        self.room = self.whole.min(usize::from(arena.shape().slot_bytes) - frame.headroom());
        self.count = 0;
        self.enter(begin, end, frame.len());
        self.open = Some(frame);
    }

    /// Enters a segment in the table.
    fn enter(&mut self, begin: bool, end: bool, len: usize) {
        let at = self.header_len + psp::HEADER_LEN + self.count * psp::ENTRY_LEN;
        if fast::put(&mut self.front, at, Entry::of(begin, end, len).to_bytes()).is_some() {
            self.count += 1;
        }
        let more = self.count < self.max_segments;
        self.room = if more { self.room.saturating_sub(len + psp::ENTRY_LEN) } else { 0 };
    }

    /// Completes what stands before the segments of a packet, `payload` bytes of them; returns its length.
    fn complete(&mut self, payload: usize) -> usize {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        let word = match self.word {
            ChannelWord::None => None,
            ChannelWord::Observed => Some((sequence & 0x0f) << 4),
            ChannelWord::Fixed(word) => Some(word),
        };
        let repr = psp::Repr { flow: self.flow, sequence, word };
        let len = self.header_len + repr.header_len(self.count);
        fast::put(&mut self.front, self.header_len, repr.head(self.count as u8)); // at most [`MAX_SEGMENTS`]
        if let Some(word) = word {
            fast::put16(&mut self.front, len - psp::WORD_LEN, word);
        }
        let (total, network) = (len + payload, usize::from(self.ip.l4));
        if self.ip.version == 4 {
            fast::put16(&mut self.front, 2, total as u16); // within a slot
            let sum = checksum::combine(self.sum, total as u16);
            fast::put16(&mut self.front, 10, checksum::finish(sum));
        } else {
            fast::put16(&mut self.front, 4, (total - network) as u16);
        }
        if self.carrier == l2tp::Carrier::Udp {
            fast::put16(&mut self.front, network + 4, (total - network) as u16);
        }
        len
    }
}

/// All channels of a worker, and the packets of theirs that are ready.
pub struct Depi {
    channels: Vec<Channel>,
    /// With the channel.
    ready: VecDeque<(Frame, u16)>,
    open: usize,
    /// Nanoseconds a packet may wait to be filled.
    hold_ns: u64,
}

/// Packets ready at most before they must leave.
const READY: usize = 1024;

impl Depi {
    /// Pseudowires of those channels, whose packets wait `hold_ns` at most to be filled.
    pub fn new(wires: &[WireSpec], hold_ns: u64) -> Self {
        let channels = wires.iter().map(Channel::new).collect();
        Self { channels, ready: VecDeque::with_capacity(READY), open: 0, hold_ns }
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
    pub fn set_sequence(&mut self, channel: usize, next: u16) {
        if let Some(channel) = self.channels.get_mut(channel) {
            channel.sequence = next;
        }
    }

    /// Whether more frames may come before packets leave.
    pub fn has_room(&self) -> bool {
        self.ready.len() + 256 < READY
    }

    /// The next packet that is ready, and what its IP header says but for the length: it begins with it.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<(Frame, &L3L4)> {
        let Some((frame, channel)) = self.ready.pop_front() else {
            // Begins at its front again, which is in the nearest cache.
            self.ready.clear();
            return None;
        };
        // Only channels' packets get there.
        self.channels.get(usize::from(channel)).map(|wire| (frame, &wire.ip))
    }

    /// Puts a MAC frame into its channel's packets. The frame is the packet's from now on, or goes back to the pool.
    pub fn push(&mut self, channel: u16, mut frame: Frame, env: &mut Env) {
        let at = usize::from(channel);
        let Some(wire) = self.channels.get_mut(at) else {
            return lost(Drop::UnknownPseudowire, frame, env);
        };
        wire.counts.frames += 1;
        let mut begin = true;
        if let Some(open) = &mut wire.open {
            let (arena, room) = (env.pool.arena(), wire.room);
            let bytes = arena.bytes(&frame);
            if bytes.len() <= room {
                append(open, bytes, arena);
                wire.enter(true, true, frame.len());
                env.pool.give(frame);
                return;
            }
            if room >= LEAST_PIECE {
                append(open, &bytes[..room], arena);
                wire.enter(true, false, room);
                let _ = frame.pull_front(room as u16); // less than the frame's length
                begin = false;
            }
            self.close(at, true, env);
        }
        loop {
            let wire = &mut self.channels[at];
            let room = wire.whole;
            if frame.len() <= room {
                wire.start(begin, true, frame, env.pool.arena());
                wire.since = env.now;
                self.open += 1;
                return;
            }
            // Longer than a packet: its front goes in a packet of its own.
            let Some(mut piece) = env.pool.take().filter(|_| room >= LEAST_PIECE) else {
                return lost(Drop::NoFrame, frame, env);
            };
            let arena = env.pool.arena();
            if !arena.write(&mut piece, &arena.bytes(&frame)[..room]) {
                env.pool.give(piece);
                return lost(Drop::NoFrame, frame, env);
            }
            let _ = frame.pull_front(room as u16); // less than the frame's length
            self.channels[at].start(begin, false, piece, arena);
            self.open += 1;
            begin = false;
            self.close(at, true, env);
        }
    }

    /// Closes packets that have waited long enough; with `all`, all. Says whether any was.
    pub fn expire(&mut self, all: bool, env: &mut Env) -> bool {
        if self.open == 0 {
            return false;
        }
        let before = self.ready.len();
        for at in 0..self.channels.len() {
            let channel = &self.channels[at];
            if channel.open.is_some() && (all || env.now.saturating_sub(channel.since) >= self.hold_ns) {
                self.close(at, false, env);
            }
        }
        self.ready.len() > before
    }

    /// Puts the headers before a channel's packet and has it leave.
    fn close(&mut self, at: usize, full: bool, env: &mut Env) {
        let wire = &mut self.channels[at];
        let Some(mut frame) = wire.open.take() else { return };
        self.open -= 1;
        env.stats.add(Io::Originated, 1);
        let before = wire.complete(frame.len());
        let arena = env.pool.arena();
        // At most 64 + 38 bytes.
        if frame.push_front(before as u16).is_err() || self.ready.len() >= READY {
            env.stats.drop_outside(Drop::NoHeadroom, frame.len());
            env.pool.give(frame);
            return;
        }
        let bytes = arena.bytes_mut(&mut frame);
        let total = bytes.len();
        if let (Some(to), Some(front)) = (bytes.get_mut(..before), wire.front.get(..before)) {
            to.copy_from_slice(front);
        }
        if wire.carrier == l2tp::Carrier::Udp && wire.ip.version == 6 {
            // Over IPv6 there must be one (RFC 8200, 8.1).
            seal6(bytes, (total - usize::from(wire.ip.l4)) as u16);
        }
        wire.counts.packets += 1;
        wire.counts.bytes += total as u64;
        wire.counts.full += u64::from(full);
        wire.counts.segments[wire.count.min(7)] += 1;
        frame.meta.l3 = 0;
        self.ready.push_back((frame, at as u16)); // came as one
    }

    /// Gives everything up: the worker ends.
    pub fn close_all(&mut self, env: &mut Env) {
        self.expire(true, env);
        while let Some((frame, _)) = self.pop() {
            env.stats.drop_outside(Drop::FlowGone, frame.len());
            env.pool.give(frame);
        }
    }
}

/// A frame that had gone into its queue and does not come out by a packet.
pub fn lost(reason: Drop, frame: Frame, env: &mut Env) {
    env.stats.add(Io::Released, 1);
    env.stats.drop_outside(reason, frame.len());
    env.pool.give(frame);
}

/// Copies bytes behind the packet that is being filled; there is room.
#[inline(always)]
fn append(open: &mut Frame, bytes: &[u8], arena: &Arena) {
    let from = open.len();
    arena.set_len(open, from + bytes.len());
    if let Some(space) = arena.bytes_mut(open).get_mut(from..).filter(|space| space.len() == bytes.len()) {
        space.copy_from_slice(bytes);
    }
}

/// Fills the UDP checksum of a packet over IPv6.
fn seal6(packet: &mut [u8], len: u16) {
    let addresses = |at| u128::from_be_bytes(fast::array(packet, at).unwrap_or([0; 16]));
    let pseudo = checksum::pseudo6(addresses(8), addresses(24), protocol::UDP, len.into());
    if let Ok(mut datagram) = wire::udp::Packet::new_checked(packet.get_mut(40..).unwrap_or_default()) {
        datagram.fill_checksum(pseudo);
    }
}
