//! TCP segments of a burst, joined into super-packets for the kernel: what its own GRO does, with its rules.
//!
//! Segments of one flow are joined when they follow each other without a gap, and nothing but what segmentation restores
//! tells them apart. A segment whose checksum is wrong is never joined: joined segments go as checked.

use frame::BURST;
use wire::{checksum, fast, protocol};

use super::segment::{ACK, CWR, FIN, GSO_TCPV4, GSO_TCPV6, NEEDS_CSUM, PSH, RST, SYN, URG, VnetHeader, pseudo};

/// Longest IP packet.
const LONGEST: usize = 65_535;
/// Groups of a burst that a segment is compared with: flows that may be interleaved.
const FLOWS: usize = 8;
/// Longest headers of a TCP packet that is joined: 40 and 60 bytes.
pub(super) const HEADERS: usize = 100;

/// Where things are in a TCP segment that may be joined with others.
#[derive(Clone, Copy, Debug)]
struct Tcp {
    l4: usize,
    payload: usize,
    len: usize,
    sequence: u32,
    flags: u8,
}

/// A segment with payload, with no IP options, extension headers or fragments, and no flags but those of data.
fn parse(packet: &[u8]) -> Option<Tcp> {
    let (l4, len, transport) = match packet.first()? {
        0x45 if fast::be16(packet, 6)? & 0x3fff == 0 => (20, usize::from(fast::be16(packet, 2)?), *packet.get(9)?),
        first if first >> 4 == 6 => (40, 40 + usize::from(fast::be16(packet, 4)?), *packet.get(6)?),
        _ => return None,
    };
    let head = packet.get(l4..)?.first_chunk::<20>()?;
    let (payload, flags) = (l4 + usize::from(head[12] >> 4) * 4, head[13]);
    let is_data = flags & (ACK | SYN | RST | URG | CWR) == ACK && head[12] & 1 == 0;
    let is_whole = transport == protocol::TCP && len == packet.len() && payload >= l4 + 20 && payload < len;
    let sequence = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    (is_data && is_whole).then_some(Tcp { l4, payload, len, sequence, flags })
}

/// Whether the checksums of a segment are right.
fn is_sound(packet: &[u8], tcp: &Tcp) -> bool {
    let header = tcp.l4 != 20 || checksum::is_valid(checksum::sum(&packet[..20]));
    let pseudo = pseudo(packet, protocol::TCP, tcp.len - tcp.l4);
    header && pseudo.is_some_and(|sum| checksum::is_valid(checksum::combine(sum, checksum::sum(&packet[tcp.l4..]))))
}

/// Packets that leave together, as places in the burst.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    first: u8,
    last: u8,
    count: u8,
    /// None: not to be joined with others, or no longer.
    open: Option<Open>,
    /// The first's, where there are others.
    tcp: Option<Tcp>,
    total: usize,
    /// FIN and PSH of the last.
    flags: u8,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    /// Payload of each segment but the last.
    size: usize,
    next: u32,
}

impl Group {
    /// How many packets it has.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.count.into()
    }

    fn takes(&self, first: &[u8], packet: &[u8], tcp: &Tcp) -> bool {
        let (Some(head), Some(open)) = (&self.tcp, &self.open) else { return false };
        let added = tcp.len - tcp.payload;
        let same = |from: usize, to: usize| first[from..to] == packet[from..to];
        let network = match head.l4 {
            // Version, marks, flags, TTL, protocol, addresses. Identifications count up, or mean nothing (RFC 6864, 4.1).
            20 => {
                let is_next = || {
                    let id = |packet: &[u8]| u16::from_be_bytes([packet[4], packet[5]]);
                    id(packet) == id(first).wrapping_add(self.count.into())
                };
                tcp.l4 == 20 && same(0, 2) && same(6, 10) && same(12, 20) && (first[6] & 0x40 != 0 || is_next())
            }
            _ => tcp.l4 == 40 && same(0, 4) && same(6, 40),
        };
        let l4 = head.l4;
        let transport = head.payload == tcp.payload
            && same(l4, l4 + 4)
            && same(l4 + 8, l4 + 13)
            && (first[l4 + 13] ^ packet[l4 + 13]) & !(FIN | PSH) == 0
            && same(l4 + 14, l4 + 16)
            && same(l4 + 18, head.payload);
        network && transport && tcp.sequence == open.next && added <= open.size && self.total + added <= LONGEST
    }
}

/// A burst's groups, in the order they leave.
pub(super) struct Groups {
    groups: Vec<Group>,
    next: [u8; BURST],
}

impl Default for Groups {
    fn default() -> Self {
        Self { groups: Vec::with_capacity(BURST), next: [0; BURST] }
    }
}

impl Groups {
    /// Divides `count` packets into groups; the order within a flow is kept. With `join` off each is alone.
    pub(super) fn divide<'a>(&mut self, count: usize, join: bool, packet: impl Fn(usize) -> &'a [u8]) {
        self.groups.clear();
        for i in 0..count.min(BURST) {
            let bytes = packet(i);
            let tcp = if join { parse(bytes) } else { None };
            if tcp.is_none_or(|tcp| !self.joined(i, &tcp, bytes, &packet)) {
                let open = tcp.filter(|tcp| tcp.flags & (FIN | PSH) == 0).map(|tcp| {
                    let size = tcp.len - tcp.payload;
                    Open { size, next: tcp.sequence.wrapping_add(size as u32) }
                });
                let (first, total, flags) = (i as u8, bytes.len(), tcp.map_or(0, |tcp| tcp.flags));
                self.groups.push(Group { first, last: first, count: 1, open, tcp, total, flags });
            }
        }
    }

    /// Puts a segment to the group of its flow; false when it has to go by itself.
    fn joined<'a>(&mut self, i: usize, tcp: &Tcp, bytes: &[u8], packet: &impl Fn(usize) -> &'a [u8]) -> bool {
        for group in self.groups.iter_mut().rev().take(FLOWS) {
            let (Some(head), first) = (group.tcp, packet(group.first.into())) else { continue };
            let addresses = if head.l4 == 20 { 12..20 } else { 8..40 };
            let is_its_flow = head.l4 == tcp.l4
                && first[addresses.clone()] == bytes[addresses]
                && first[head.l4..head.l4 + 4] == bytes[head.l4..head.l4 + 4];
            if !is_its_flow {
                continue;
            }
            let alone = group.count == 1;
            if !group.takes(first, bytes, tcp) || (alone && !is_sound(first, &head)) || !is_sound(bytes, tcp) {
                group.open = None;
                return false;
            }
            let size = tcp.len - tcp.payload;
            self.next[usize::from(group.last)] = i as u8;
            group.last = i as u8;
            group.count += 1;
            group.total += size;
            group.flags |= tcp.flags & (FIN | PSH);
            let goes_on = tcp.flags & (FIN | PSH) == 0;
            group.open = group.open.filter(|open| goes_on && size == open.size);
            if let Some(open) = &mut group.open {
                open.next = open.next.wrapping_add(size as u32);
            }
            return true;
        }
        false
    }

    /// Groups of segments, in the order of their first.
    pub(super) fn list(&self) -> &[Group] {
        &self.groups
    }

    /// The packets of a group, as places in the burst.
    pub(super) fn members(&self, group: &Group) -> impl Iterator<Item = usize> + '_ {
        let next = |i: &usize| Some(usize::from(self.next[*i]));
        std::iter::successors(Some(usize::from(group.first)), next).take(group.count.into())
    }
}

/// The headers of a group of several as one packet, its checksum left to the kernel, and the description of it.
/// Returns how many bytes of `headers` count. Payloads begin at the same place in each of the group's packets.
pub(super) fn head(group: &Group, first: &[u8], headers: &mut [u8; HEADERS]) -> Option<(VnetHeader, usize)> {
    let tcp = group.tcp.filter(|_| group.count > 1)?;
    let bytes = headers.get_mut(..tcp.payload)?;
    bytes.copy_from_slice(first.get(..tcp.payload)?);
    let gso_type = if tcp.l4 == 20 {
        bytes[2..4].copy_from_slice(&(group.total as u16).to_be_bytes()); // fits: at most LONGEST
        bytes[10..12].fill(0);
        let sum = checksum::of(&bytes[..20]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        GSO_TCPV4
    } else {
        bytes[4..6].copy_from_slice(&((group.total - 40) as u16).to_be_bytes());
        GSO_TCPV6
    };
    bytes[tcp.l4 + 13] |= group.flags & (FIN | PSH);
    let sum = pseudo(bytes, protocol::TCP, group.total - tcp.l4)?;
    bytes[tcp.l4 + 16..tcp.l4 + 18].copy_from_slice(&sum.to_be_bytes());
    let header = VnetHeader {
        flags: NEEDS_CSUM,
        gso_type,
        hdr_len: tcp.payload as u16, // at most HEADERS
        gso_size: (tcp.len - tcp.payload) as u16,
        csum_start: tcp.l4 as u16,
        csum_offset: 16,
    };
    Some((header, tcp.payload))
}
