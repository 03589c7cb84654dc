//! A channel's packet as it is filled, and what stands before its segments.

use std::net::IpAddr;

use frame::{Arena, Frame};
use wire::psp::{self, Entry};
use wire::{L3L4, checksum, fast, l2tp, protocol};

use super::{ChannelWord, LEAST_PIECE, MAX_SEGMENTS, WireCounts, WireSpec};

/// Time to live, or hop limit, of DEPI packets.
const TTL: u8 = 64;
/// Longest header: IPv6, UDP, L2TPv3 with cookie.
const MAX_HEADER: usize = 40 + 8 + 16;
/// The most that stands before the segments: the header, the table, the word behind it.
const MAX_FRONT: usize = MAX_HEADER + psp::HEADER_LEN + MAX_SEGMENTS * psp::ENTRY_LEN + psp::WORD_LEN;

pub(super) struct Channel {
    /// What stands before the segments: the header as all packets have it, and the table of the packet that is being
    /// filled.
    front: [u8; MAX_FRONT],
    header_len: usize,
    /// What is read in the packets' IP header, but for the length.
    pub ip: L3L4,
    carrier: l2tp::Carrier,
    sum: u16,
    /// Bytes that fit into a packet of one segment.
    pub whole: usize,
    flow: u8,
    /// What stands behind the table: bits of the packet's number, others, and its length in bytes.
    word: (u16, u16, usize),
    /// The packet that is being filled, or none.
    open: Frame,
    /// Bytes that still fit into it with one more segment.
    room: usize,
    /// Where the next segment is entered, and where the last may be.
    end: usize,
    /// See `end`.
    last: usize,
    /// When it was begun.
    pub since: u64,
    /// The number of the next one.
    pub sequence: u16,
    /// What it has counted.
    pub counts: WireCounts,
}

impl Channel {
    pub fn new(spec: &WireSpec) -> Self {
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
        let word = match spec.word {
            ChannelWord::None => (0, 0, 0),
            ChannelWord::Observed => (0x0f << 4, 0, psp::WORD_LEN),
            ChannelWord::Fixed(word) => (0, word, psp::WORD_LEN),
        };
        let table = at + psp::HEADER_LEN;
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
            whole: usize::from(spec.mtu).saturating_sub(at + psp::HEADER_LEN + psp::ENTRY_LEN + word.2),
            flow: spec.flow,
            word,
            open: Frame::none(),
            room: 0,
            end: table,
            last: table + (spec.segments.clamp(1, MAX_SEGMENTS) - 1) * psp::ENTRY_LEN,
            since: 0,
            sequence: 0,
            counts: WireCounts::default(),
        }
    }

    /// Whether a packet is being filled.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        !self.open.is_none()
    }

    /// Begins a packet: it is that frame, or piece of one, which is taken.
    #[inline(always)]
    pub fn start(&mut self, begin: bool, end: bool, frame: &mut Frame, arena: &Arena) {
        self.end = self.header_len + psp::HEADER_LEN;
        self.room = self.whole.min(usize::from(arena.shape().slot_bytes) - frame.headroom());
        self.enter(begin, end, frame.len());
        self.narrow(frame.len());
        // Is none.
        std::mem::swap(&mut self.open, frame);
    }

    /// Puts a frame into the packet, or as much of it as is worth it: then the packet is to be closed. Returns how much.
    #[inline(always)]
    pub fn add(&mut self, frame: &Frame, arena: &Arena) -> usize {
        let bytes = arena.bytes(frame);
        let whole = bytes.len() <= self.room;
        let len = if whole { bytes.len() } else { self.room };
        if !whole && len < LEAST_PIECE {
            return 0;
        }
        arena.append(&mut self.open, &bytes[..len]);
        self.enter(true, whole, len);
        if whole {
            self.narrow(len);
        }
        len
    }

    /// Enters a segment in the table.
    #[inline(always)]
    fn enter(&mut self, begin: bool, end: bool, len: usize) {
        let _ = fast::put(&mut self.front, self.end, Entry::of(begin, end, len).to_bytes()); // at most `last`
        self.end += psp::ENTRY_LEN;
    }

    /// Takes the room of a segment that was entered.
    #[inline(always)]
    fn narrow(&mut self, len: usize) {
        let more = self.end <= self.last;
        self.room = if more { self.room.saturating_sub(len + psp::ENTRY_LEN) } else { 0 };
    }

    /// Puts the headers before the packet and moves it to `to`, which is none. False: there is no room for them.
    #[inline(always)]
    pub fn close(&mut self, full: bool, arena: &Arena, to: &mut Frame) -> bool {
        let count = (self.end - self.header_len - psp::HEADER_LEN) / psp::ENTRY_LEN;
        let before = self.complete(count, self.open.len());
        // At most 64 + 38 bytes.
        if self.open.push_front(before as u16).is_err() {
            return false;
        }
        let bytes = arena.bytes_mut(&mut self.open);
        put_front(bytes, &self.front, before);
        if self.carrier == l2tp::Carrier::Udp && self.ip.version == 6 {
            // Over IPv6 there must be a checksum (RFC 8200, 8.1).
            seal6(bytes, (bytes.len() - usize::from(self.ip.l4)) as u16);
        }
        self.counts.packets += 1;
        self.counts.bytes += self.open.len() as u64;
        self.counts.full += u64::from(full);
        self.counts.segments[count.min(7)] += 1;
        self.open.meta.l3 = 0;
        std::mem::swap(&mut self.open, to);
        true
    }

    /// Gives the packet up.
    pub fn give_up(&mut self) -> Frame {
        self.open.take()
    }

    /// Completes what stands before `count` segments, `payload` bytes of them; returns its length.
    #[inline(always)]
    fn complete(&mut self, count: usize, payload: usize) -> usize {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        let repr = psp::Repr { flow: self.flow, sequence, word: None };
        fast::put(&mut self.front, self.header_len, repr.head(count as u8)); // at most [`MAX_SEGMENTS`]
        let (number, fixed, word_len) = self.word;
        if word_len > 0 {
            fast::put16(&mut self.front, self.end, (sequence << 4) & number | fixed);
        }
        let len = self.end + word_len;
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

/// Copies what stands before the segments: `len` bytes.
#[inline(always)]
fn put_front(packet: &mut [u8], front: &[u8; MAX_FRONT], len: usize) {
    const HALF: usize = 32;
    let Some(to) = packet.get_mut(..len) else { return };
    let Some(from) = front.get(..len) else { return };
    // Nearly all there are: two copies of a fixed size, which overlap, are a few moves.
    if (HALF..=2 * HALF).contains(&len)
        && let (Some(first), Some(from)) = (to.first_chunk_mut::<HALF>(), from.first_chunk())
    {
        *first = *from;
    } else {
        return to.copy_from_slice(from);
    }
    if let (Some(last), Some(from)) = (to.last_chunk_mut::<HALF>(), from.last_chunk()) {
        *last = *from;
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
