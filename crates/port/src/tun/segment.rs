//! Super-packets of the kernel, cut into segments: what a network adapter does with TSO and USO.
//!
//! The kernel describes each packet by a `struct virtio_net_hdr` (linux/virtio_net.h) ahead of it. Where segmentation was
//! left to us it has headers, more payload than the path carries, and the payload bytes of a segment (`gso_size`).

use wire::{checksum, fast, protocol};

/// Bits of [`VnetHeader::flags`] and values of [`VnetHeader::gso_type`].
pub(super) const NEEDS_CSUM: u8 = 1;
pub(super) const GSO_NONE: u8 = 0;
pub(super) const GSO_TCPV4: u8 = 1;
pub(super) const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

pub(super) const FIN: u8 = 0x01;
pub(super) const SYN: u8 = 0x02;
pub(super) const RST: u8 = 0x04;
pub(super) const PSH: u8 = 0x08;
pub(super) const ACK: u8 = 0x10;
pub(super) const URG: u8 = 0x20;
pub(super) const CWR: u8 = 0x80;

/// What the kernel says of a packet, and we of one to the kernel. Fields are in the host's byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VnetHeader {
    pub(super) flags: u8,
    pub(super) gso_type: u8,
    /// Bytes of all headers; a hint.
    pub(super) hdr_len: u16,
    /// Payload bytes of a segment.
    pub(super) gso_size: u16,
    /// Where the checksum begins to count.
    pub(super) csum_start: u16,
    /// Where it is to be put, from `csum_start`.
    pub(super) csum_offset: u16,
}

impl VnetHeader {
    pub(super) const LEN: usize = 10;

    pub(super) fn read(bytes: &[u8; Self::LEN]) -> Self {
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let [flags, gso_type, ..] = *bytes;
        Self { flags, gso_type, hdr_len: half(2), gso_size: half(4), csum_start: half(6), csum_offset: half(8) }
    }

    pub(super) fn bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [self.flags, self.gso_type, 0, 0, 0, 0, 0, 0, 0, 0];
        let halves = [self.hdr_len, self.gso_size, self.csum_start, self.csum_offset];
        for (to, half) in bytes[2..].as_chunks_mut::<2>().0.iter_mut().zip(halves) {
            *to = half.to_ne_bytes();
        }
        bytes
    }
}

/// Completes a checksum that the kernel left to us. False: the header points outside of the packet.
pub(super) fn complete(header: &VnetHeader, packet: &mut [u8]) -> bool {
    let (start, offset) = (usize::from(header.csum_start), usize::from(header.csum_offset));
    let Some(part) = packet.get_mut(start..).filter(|part| offset + 2 <= part.len()) else { return false };
    // The field holds the sum of the pseudo header.
    let sum = checksum::sum(part);
    let sum = if offset == 6 { checksum::finish_udp(sum) } else { checksum::finish(sum) };
    part[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// The sum of the pseudo header of an IP packet's transport of `len` bytes.
pub(super) fn pseudo(packet: &[u8], transport: u8, len: usize) -> Option<u16> {
    Some(if packet.first()? >> 4 == 4 {
        // Fits: the length of an IPv4 packet is 16 bits.
        checksum::pseudo4(fast::be32(packet, 12)?, fast::be32(packet, 16)?, transport, len as u16)
    } else {
        let (from, to) = (packet.get(8..24)?, packet.get(24..40)?);
        let word = |bytes: &[u8]| bytes.first_chunk().copied().map(u128::from_be_bytes);
        checksum::pseudo6(word(from)?, word(to)?, transport, len as u32)
    })
}

/// A super-packet that is being cut.
#[derive(Debug)]
pub(super) struct Cut {
    transport: u8,
    /// Where the transport's header begins, and the payload.
    l4: usize,
    payload: usize,
    /// Payload bytes of a segment.
    size: usize,
    /// The next byte of payload, and the packet's end.
    at: usize,
    end: usize,
}

impl Cut {
    /// Of a packet that the kernel describes so. None: of a kind that is not ours to cut, or it contradicts itself.
    pub(super) fn new(header: &VnetHeader, packet: &[u8]) -> Option<Self> {
        let version = packet.first()? >> 4;
        let (transport, of_version) = match header.gso_type & !GSO_ECN {
            GSO_TCPV4 => (protocol::TCP, version == 4),
            GSO_TCPV6 => (protocol::TCP, version == 6),
            GSO_UDP_L4 => (protocol::UDP, version == 4 || version == 6),
            _ => return None,
        };
        let l4 = usize::from(header.csum_start);
        let (ip_fits, len) = match version {
            4 => (l4 == usize::from(packet[0] & 15) * 4 && l4 >= 20, usize::from(fast::be16(packet, 2)?)),
            _ => (l4 >= 40, 40 + usize::from(fast::be16(packet, 4)?)),
        };
        let own = match transport {
            protocol::TCP => usize::from(packet.get(l4 + 12)? >> 4) * 4,
            _ => 8,
        };
        let (payload, size) = (l4 + own, usize::from(header.gso_size));
        let sound =
            of_version && ip_fits && header.flags & NEEDS_CSUM != 0 && (transport == protocol::UDP || own >= 20);
        (sound && len == packet.len() && payload < len && size > 0).then_some(Self {
            transport,
            l4,
            payload,
            size,
            at: payload,
            end: len,
        })
    }

    /// Whether all was cut.
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// Bytes of the next segment, its headers included.
    pub(super) fn next_len(&self) -> usize {
        self.payload + self.size.min(self.end - self.at)
    }

    /// Leaves the next segment out.
    pub(super) fn skip(&mut self) {
        self.at += self.size;
    }

    /// Writes the next segment of `packet`; `out` is as long as [`next_len`](Self::next_len) says.
    pub(super) fn write(&mut self, packet: &[u8], out: &mut [u8]) {
        let (head, rest) = out.split_at_mut(self.payload);
        head.copy_from_slice(&packet[..self.payload]);
        rest.copy_from_slice(&packet[self.at..self.at + rest.len()]);
        let (before, index) = (self.at - self.payload, ((self.at - self.payload) / self.size) as u16);
        self.at += rest.len();
        let len = self.payload + rest.len();
        if head[0] >> 4 == 4 {
            let id = u16::from_be_bytes([head[4], head[5]]).wrapping_add(index);
            head[2..4].copy_from_slice(&(len as u16).to_be_bytes()); // fits: no longer than the packet
            head[4..6].copy_from_slice(&id.to_be_bytes());
            head[10..12].fill(0);
            let sum = checksum::of(&head[..self.l4]);
            head[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            head[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        }
        let (l4, field) = match self.transport {
            protocol::TCP => {
                let tcp = &mut head[self.l4..];
                let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(before as u32);
                tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
                // The end of data is the last segment's to tell; that the window was reduced, the first's (RFC 3168, 6.1.2).
                let not_last = if self.at < self.end { FIN | PSH } else { 0 };
                let not_first = if index > 0 { CWR } else { 0 };
                tcp[13] &= !(not_last | not_first);
                (self.l4, 16)
            }
            _ => {
                let udp_len = (len - self.l4) as u16;
                head[self.l4 + 4..self.l4 + 6].copy_from_slice(&udp_len.to_be_bytes());
                (self.l4, 6)
            }
        };
        out[l4 + field..l4 + field + 2].fill(0);
        let sum = checksum::combine(pseudo(out, self.transport, len - l4).unwrap_or(0), checksum::sum(&out[l4..]));
        let sum = if field == 6 { checksum::finish_udp(sum) } else { checksum::finish(sum) };
        out[l4 + field..l4 + field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}
