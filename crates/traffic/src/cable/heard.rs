//! What a Remote-PHY device and its modems have heard.

use crate::sequence::{Arrival, Window};

/// What the device and its modems have heard. Every packet of the wire is counted once in the first group, every frame
/// once in the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// DEPI packets of our sessions, whole.
    pub packets: u64,
    /// Other packets: ARP, control messages, strangers' sessions, wrong cookies.
    pub foreign: u64,
    /// Packets of our sessions that contradict themselves.
    pub malformed: u64,

    /// Packets that never came, by the sessions' sequence numbers.
    pub packets_lost: u64,
    /// Packets out of sequence: late or twice.
    pub packets_late: u64,
    pub segments: u64,
    /// Packets that carried this many segments: 0 to 6, 7 and more.
    pub segments_by_count: [u64; 8],
    /// Frames that came in more than one segment.
    pub split: u64,
    /// Pieces without a beginning or an end.
    pub pieces: u64,

    /// Whole frames.
    pub frames: u64,
    /// Of those: header or HCS wrong, or a length that is not the frame's.
    pub bad_header: u64,
    /// MAC management and other frames that are no data.
    pub management: u64,
    /// For no modem of ours: unknown security association or address.
    pub strangers: u64,
    /// Under a key that is not there.
    pub no_key: u64,
    /// In clear, though the modem has keys.
    pub clear: u64,
    /// Decrypted, and the CRC32 is wrong.
    pub bad_crc: u64,
    /// Too late for their DSID's order, or twice.
    pub late: u64,
    /// No memory to hold them: our own fault.
    pub no_memory: u64,
    /// To everybody, or a group.
    pub group: u64,
    /// Delivered to a host behind a modem, not signed.
    pub unsigned: u64,
    /// Delivered to a modem or service flow that is not theirs.
    pub misdelivered: u64,
    /// Delivered in order.
    pub in_order: u64,
    /// Delivered after a later one of their service flow.
    pub reordered: u64,
    /// Delivered again.
    pub duplicated: u64,
    /// Signed before counting began.
    pub early: u64,
    /// Bytes of Ethernet frames delivered, without CRC; of those signed before counting began, too.
    pub bytes: u64,
    /// Of those, bytes signed before counting began.
    pub early_bytes: u64,
    /// Packets signed since counting began and delivered to modems that are sent more than they may.
    pub excess: u64,
}

impl Heard {
    /// Adds what others have heard.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.foreign += other.foreign;
        self.malformed += other.malformed;
        self.packets_lost += other.packets_lost;
        self.packets_late += other.packets_late;
        self.segments += other.segments;
        self.segments_by_count.iter_mut().zip(other.segments_by_count).for_each(|(sum, n)| *sum += n);
        self.split += other.split;
        self.pieces += other.pieces;
        self.frames += other.frames;
        self.bad_header += other.bad_header;
        self.management += other.management;
        self.strangers += other.strangers;
        self.no_key += other.no_key;
        self.clear += other.clear;
        self.bad_crc += other.bad_crc;
        self.late += other.late;
        self.no_memory += other.no_memory;
        self.group += other.group;
        self.unsigned += other.unsigned;
        self.misdelivered += other.misdelivered;
        self.in_order += other.in_order;
        self.reordered += other.reordered;
        self.duplicated += other.duplicated;
        self.early += other.early;
        self.bytes += other.bytes;
        self.early_bytes += other.early_bytes;
        self.excess += other.excess;
    }

    /// Packets, pieces and frames that were not what a gateway should have sent, or were not taken: identifier of the fault, and how many.
    pub fn wrong(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("malformed_packets", self.malformed),
            ("pieces", self.pieces),
            ("header_or_hcs", self.bad_header),
            ("unknown_modem", self.strangers),
            ("no_key", self.no_key),
            ("in_clear", self.clear),
            ("crc32", self.bad_crc),
            ("misdelivered", self.misdelivered),
            ("no_memory", self.no_memory),
        ]
        .into_iter()
    }
}

/// What one service flow has heard.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowHeard {
    window: Window,
    /// Packets delivered.
    pub packets: u64,
    /// Their bytes from after the HCS through the CRC: what rates of service flows count.
    pub bytes: u64,
    /// Bytes of packets that were signed before counting began.
    pub early_bytes: u64,
    /// Packets that have not come, by its sequence numbers: between the first that came and the last.
    pub lost: u64,
    /// Packets that came after a later one, or again.
    pub out_of_order: u64,
    /// Nanoseconds from making the packet to its place in order, of all together and of the slowest.
    pub latency_ns: u64,
    /// See `latency_ns`.
    pub longest_ns: u64,
    /// Traffic priority of the last.
    pub priority: u8,
}

impl FlowHeard {
    /// Takes note of a packet's sequence number, and counts it if it `counts`.
    pub(super) fn note(&mut self, seq: u32, counts: bool) -> Arrival {
        let passed_over = self.window.passed_over_by(seq);
        let arrival = self.window.note(seq);
        if counts {
            // One that is late was passed over before.
            let late = u64::from(arrival == Arrival::Reordered);
            self.lost = (self.lost + u64::from(passed_over)).saturating_sub(late);
            self.out_of_order += u64::from(arrival != Arrival::InOrder);
            self.packets += 1;
        }
        arrival
    }

    /// What it is when counting begins anew: nothing but the sequence is known.
    pub(super) fn forgotten(&self) -> Self {
        Self { window: self.window, ..Self::default() }
    }
}
