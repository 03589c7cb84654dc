//! Filters as the packet path matches them: flat, pointer-free, part of the session's hot record.

use wire::{Fragment, L3L4, fast, protocol};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bits of a key's and a filter's `state`: what is known of a packet beyond its values.
pub mod state {
    /// The packet's ports are known. Later fragments and protocols without ports have none, so a filter that names
    /// ports never matches them (RFC 6733, 4.3.1).
    pub const PORTS: u8 = 1;
    /// The packet is a fragment other than the first.
    pub const LATER_FRAGMENT: u8 = 2;
    /// The packet is IPsec's: where others have ports, the halves of its Security Parameter Index stand.
    pub const SPI: u8 = 4;
}

/// Bits of a filter's `inverted`.
const NOT_REMOTE: u8 = 1;
const NOT_LOCAL: u8 = 2;

/// What an IPv4 packet is matched by; all values in host order. In place of an IPsec packet's ports there is its Security
/// Parameter Index, upper half first, whichever way it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key4 {
    /// The network's address: the destination of what the subscriber sends.
    pub remote: u32,
    /// The subscriber's address.
    pub local: u32,
    /// The network's port.
    pub remote_port: u16,
    /// The subscriber's port.
    pub local_port: u16,
    /// The IP protocol.
    pub protocol: u8,
    /// Type of service.
    pub tos: u8,
    /// See [`state`].
    pub state: u8,
}

/// What an IPv6 packet is matched by; as [`Key4`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key6 {
    /// The network's address.
    pub remote: u128,
    /// The subscriber's address.
    pub local: u128,
    /// The network's port.
    pub remote_port: u16,
    /// The subscriber's port.
    pub local_port: u16,
    /// The upper-layer protocol, behind the extension headers.
    pub protocol: u8,
    /// Traffic class.
    pub tos: u8,
    /// See [`state`].
    pub state: u8,
    /// Flow label.
    pub flow_label: u32,
}

/// `bit` if `is`, else nothing.
#[inline(always)]
pub(super) const fn bit(is: bool, bit: u8) -> u8 {
    is as u8 * bit
}

/// The state of a packet that is no later fragment, by its protocol.
const STATE: [u8; 256] = {
    let mut table = [0; 256];
    let ported = [protocol::TCP, protocol::UDP, protocol::SCTP, protocol::DCCP, protocol::UDP_LITE];
    let mut n = 0;
    while n < ported.len() {
        table[ported[n] as usize] = state::PORTS;
        n += 1;
    }
    table
};

#[inline(always)]
pub(super) fn state_of(h: &L3L4) -> u8 {
    static TABLE: [u8; 256] = STATE;
    if h.fragment == Fragment::Later { state::LATER_FRAGMENT } else { TABLE[usize::from(h.protocol)] }
}

/// The Security Parameter Index of an IPsec packet (RFC 4303, 2.1; RFC 4302, 2.4) that begins at `ip`.
#[inline(always)]
fn spi_of(h: &L3L4, ip: &[u8]) -> Option<u32> {
    let at = match h.protocol {
        protocol::ESP => 0,
        protocol::AH => 4,
        _ => return None,
    };
    if h.fragment == Fragment::Later { None } else { fast::be32(ip, usize::from(h.l4) + at) }
}

/// Ports, the network's first, and state: or what stands in their place.
#[inline(always)]
fn ports_and_state(h: &L3L4, ip: &[u8], [remote, local]: [u16; 2]) -> ([u16; 2], u8) {
    match spi_of(h, ip) {
        Some(spi) => (halves(spi), state::SPI),
        None => ([remote, local], state_of(h)),
    }
}

/// A Security Parameter Index as it stands in the place of ports.
pub(super) fn halves(spi: u32) -> [u16; 2] {
    [(spi >> 16) as u16, spi as u16]
}

impl Key4 {
    /// The key of `ip`, a packet on its way to the subscriber, from which `h` was read.
    #[inline(always)]
    pub fn downlink(h: &L3L4, ip: &[u8]) -> Key4 {
        Key4 { remote: h.src, local: h.dst, ..Self::of(h, ip, [h.src_port, h.dst_port]) }
    }

    /// The key of `ip`, a packet the subscriber sent, from which `h` was read.
    #[inline(always)]
    pub fn uplink(h: &L3L4, ip: &[u8]) -> Key4 {
        Key4 { remote: h.dst, local: h.src, ..Self::of(h, ip, [h.dst_port, h.src_port]) }
    }

    #[inline(always)]
    fn of(h: &L3L4, ip: &[u8], ports: [u16; 2]) -> Key4 {
        let ([remote_port, local_port], state) = ports_and_state(h, ip, ports);
        Key4 { remote: 0, local: 0, remote_port, local_port, protocol: h.protocol, tos: h.tos, state }
    }
}

impl Key6 {
    /// The key of `ip`, a packet on its way to the subscriber, from which `h` was read.
    #[inline(always)]
    pub fn downlink(h: &L3L4, ip: &[u8]) -> Key6 {
        Key6 { remote: h.src6(ip), local: h.dst6(ip), ..Self::of(h, ip, [h.src_port, h.dst_port]) }
    }

    /// The key of `ip`, a packet the subscriber sent, from which `h` was read.
    #[inline(always)]
    pub fn uplink(h: &L3L4, ip: &[u8]) -> Key6 {
        Key6 { remote: h.dst6(ip), local: h.src6(ip), ..Self::of(h, ip, [h.dst_port, h.src_port]) }
    }

    #[inline(always)]
    fn of(h: &L3L4, ip: &[u8], ports: [u16; 2]) -> Key6 {
        let ([remote_port, local_port], state) = ports_and_state(h, ip, ports);
        let flow_label = fast::be32(ip, 0).unwrap_or(0) & FLOW_LABEL;
        Key6 { remote_port, local_port, protocol: h.protocol, tos: h.tos, state, flow_label, ..Key6::default() }
    }
}

/// The bits of an IPv6 header's first word that are the flow label (RFC 8200, 3).
pub(super) const FLOW_LABEL: u32 = 0x000f_ffff;

/// An IPv4 filter: 32 bytes, all values in host order, ordered so that what is compared together lies together. All
/// zeroes match next to nothing; [`Filter4::ANY`] everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Filter4 {
    /// The network's address, the bits that count.
    pub remote: u32,
    /// Protocol, type of service, state.
    pub traits: Traits,
    /// Which bits of the network's address count.
    pub remote_mask: u32,
    /// Which bits of protocol, type of service and state count.
    pub traits_mask: Traits,
    /// Ports.
    pub ports: Ranges,
    /// The subscriber's address, the bits that count.
    pub local: u32,
    /// Which bits of it count.
    pub local_mask: u32,
}

/// An IPv6 filter: 64 bytes, one cache line; as [`Filter4`], but with prefix lengths instead of address masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Filter6 {
    /// The network's address: its upper and lower half.
    pub remote: [u64; 2],
    /// The subscriber's address: its upper and lower half.
    pub local: [u64; 2],
    /// Ports.
    pub ports: Ranges,
    /// Protocol, traffic class, state.
    pub traits: Traits,
    /// Which bits of them count.
    pub traits_mask: Traits,
    /// Leading bits of the network's address that count, 0 to 128.
    pub remote_len: u8,
    /// Leading bits of the subscriber's address that count, 0 to 128.
    pub local_len: u8,
    /// Nothing, zero.
    pub reserved: [u8; 2],
    /// The flow label.
    pub flow_label: u32,
    /// Which bits of it count.
    pub flow_label_mask: u32,
    /// Nothing, zero.
    pub spare: u32,
}

/// Ranges of ports, or the halves of a Security Parameter Index: see [`state::SPI`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Ranges {
    /// The network's first port.
    pub remote_lo: u16,
    /// The distance to its last.
    pub remote_span: u16,
    /// The subscriber's first port.
    pub local_lo: u16,
    /// The distance to its last.
    pub local_span: u16,
}

/// What is compared bit by bit beside addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Traits {
    /// The protocol; in IPv6 the upper-layer one. Its mask is 0 (any) or 0xff.
    pub protocol: u8,
    /// Type of service or traffic class.
    pub tos: u8,
    /// What the packet's [`state`] must be.
    pub state: u8,
    /// Bit 0: any other remote address; bit 1: any other local address. No mask.
    pub inverted: u8,
}

const _: () = assert!(size_of::<Filter4>() == 32 && align_of::<Filter4>() == 4);
const _: () = assert!(size_of::<Filter6>() == 64 && align_of::<Filter6>() == 8);

/// Whether two addresses agree in their first `len` bits.
#[inline(always)]
fn agree(a: u128, b: [u64; 2], len: u8) -> bool {
    let differing = a ^ (u128::from(b[0]) << 64 | u128::from(b[1]));
    // A shift by all 128 bits is undefined, two by half of that are not.
    let shift = 128 - u32::from(len.min(128));
    differing >> (shift / 2) >> (shift - shift / 2) == 0
}

/// Whether a port is in the range of `span` ports behind `lo`, in one comparison.
#[inline(always)]
fn within(port: u16, lo: u16, span: u16) -> bool {
    port.wrapping_sub(lo) <= span
}

impl Ranges {
    /// All ports.
    pub const ANY: Ranges = Ranges { remote_lo: 0, remote_span: 0xffff, local_lo: 0, local_span: 0xffff };

    #[inline(always)]
    fn hold(&self, remote: u16, local: u16) -> bool {
        within(remote, self.remote_lo, self.remote_span) & within(local, self.local_lo, self.local_span)
    }
}

impl Traits {
    /// None in particular.
    pub const NONE: Traits = Traits { protocol: 0, tos: 0, state: 0, inverted: 0 };

    #[inline(always)]
    fn word(self) -> u32 {
        u32::from_ne_bytes([self.protocol, self.tos, self.state, self.inverted])
    }

    #[inline(always)]
    fn agree(self, mask: Traits, protocol: u8, tos: u8, state: u8) -> bool {
        let key = Traits { protocol, tos, state, inverted: self.inverted };
        (key.word() ^ self.word()) & mask.word() == 0
    }
}

impl Filter4 {
    /// Matches every packet.
    pub const ANY: Filter4 = Filter4 {
        remote: 0,
        traits: Traits::NONE,
        remote_mask: 0,
        traits_mask: Traits::NONE,
        ports: Ranges::ANY,
        local: 0,
        local_mask: 0,
    };

    /// Whether the packet belongs to the flow. Everything is compared, without a branch: a mispredicted one costs more.
    #[inline(always)]
    pub fn matches(&self, key: &Key4) -> bool {
        let remote = (key.remote ^ self.remote) & self.remote_mask == 0;
        let local = (key.local ^ self.local) & self.local_mask == 0;
        (remote ^ (self.traits.inverted & NOT_REMOTE != 0))
            & (local ^ (self.traits.inverted & NOT_LOCAL != 0))
            & self.traits.agree(self.traits_mask, key.protocol, key.tos, key.state)
            & self.ports.hold(key.remote_port, key.local_port)
    }

    /// Whether the filter asks for nothing but what a [`Quad4`](super::Quad4) compares: any subscriber's address and
    /// port, no address inverted. Most are so, for the subscriber is known by other means.
    pub fn is_plain(&self) -> bool {
        self.local_mask == 0 && self.ports.local_span == u16::MAX && self.traits.inverted == 0
    }

    /// Whether any of `filters` matches.
    #[inline]
    pub fn any(filters: &[Filter4], key: &Key4) -> bool {
        // All are compared: a few nanoseconds each, where leaving early would cost a mispredicted branch.
        filters.iter().fold(false, |found, filter| found | filter.matches(key))
    }
}

impl Filter6 {
    /// Matches every packet.
    pub const ANY: Filter6 = Filter6 {
        remote: [0; 2],
        local: [0; 2],
        ports: Ranges::ANY,
        traits: Traits::NONE,
        traits_mask: Traits::NONE,
        remote_len: 0,
        local_len: 0,
        reserved: [0; 2],
        flow_label: 0,
        flow_label_mask: 0,
        spare: 0,
    };

    /// Whether the packet belongs to the flow.
    #[inline(always)]
    pub fn matches(&self, key: &Key6) -> bool {
        let remote = agree(key.remote, self.remote, self.remote_len);
        let local = agree(key.local, self.local, self.local_len);
        let label = (key.flow_label ^ self.flow_label) & self.flow_label_mask == 0;
        label
            & (remote ^ (self.traits.inverted & NOT_REMOTE != 0))
            & (local ^ (self.traits.inverted & NOT_LOCAL != 0))
            & self.traits.agree(self.traits_mask, key.protocol, key.tos, key.state)
            & self.ports.hold(key.remote_port, key.local_port)
    }

    /// As [`Filter4::is_plain`]; nor does it ask for a flow label.
    pub fn is_plain(&self) -> bool {
        let any_local = self.local_len == 0 && self.ports.local_span == u16::MAX;
        any_local && self.traits.inverted == 0 && self.flow_label_mask == 0
    }

    /// Whether any of `filters` matches.
    #[inline]
    pub fn any(filters: &[Filter6], key: &Key6) -> bool {
        filters.iter().fold(false, |found, filter| found | filter.matches(key))
    }
}

/// The `inverted` field for two ends.
pub(super) fn inverted(remote: bool, local: bool) -> u8 {
    bit(remote, NOT_REMOTE) | bit(local, NOT_LOCAL)
}
