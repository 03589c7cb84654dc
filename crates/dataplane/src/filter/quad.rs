//! Four plain IPv4 filters side by side: a packet is compared with all of them at once.

use wire::L3L4;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::compiled::{Filter4, Traits, state, state_of};

/// Filters of a [`Quad4`].
pub const WAYS: usize = 4;

/// Tunnel endpoints of a subscriber that a [`Quad4`] tells apart; by their place among the subscriber's own, so that what
/// is asked of packets is the same for many subscribers.
pub const ENDS: usize = 16;

/// What a packet is matched by in a [`Quad4`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuadKey {
    remote: u32,
    traits: u32,
    remote_port: u16,
    /// Which bits of the traits are compared at all.
    mask: u32,
}

impl QuadKey {
    /// The key of a packet on its way to the subscriber, from wherever and of whatever class.
    #[inline(always)]
    pub fn downlink(h: &L3L4) -> Self {
        let traits = word([h.protocol, h.tos, state_of(h), 0]);
        Self { remote: h.src, traits, remote_port: h.src_port, mask: word([0xff, 0xff, !END_BITS, 0]) }
    }

    /// The key of a packet the subscriber sent, with the tunnel endpoint (below [`ENDS`]) and the class (QoS flow) it came
    /// by.
    #[inline(always)]
    pub fn uplink(h: &L3L4, end: u8, class: u8) -> Self {
        let traits = word([h.protocol, h.tos, state_of(h) | end << END_SHIFT, class]);
        Self { remote: h.dst, traits, remote_port: h.dst_port, mask: u32::MAX }
    }
}

/// Four filters, each the other's neighbour in every array: 80 bytes. Written so that compilers make vectors of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(16))]
pub struct Quad4 {
    remote: [u32; WAYS],
    remote_mask: [u32; WAYS],
    traits: [u32; WAYS],
    traits_mask: [u32; WAYS],
    port_lo: [u16; WAYS],
    port_span: [u16; WAYS],
}

const _: () = assert!(size_of::<Quad4>() == 80);

/// Above these bits of the state stands the tunnel endpoint.
const END_SHIFT: u32 = 4;
/// The bits it takes.
const END_BITS: u8 = ((ENDS - 1) << END_SHIFT) as u8;
const _: () = assert!((state::PORTS | state::LATER_FRAGMENT | state::SPI) & END_BITS == 0);

/// Protocol, type of service, state with tunnel endpoint, and class as they are compared.
#[inline(always)]
fn word(bytes: [u8; 4]) -> u32 {
    u32::from_ne_bytes(bytes)
}

impl Quad4 {
    /// Matches nothing: no packet is in such a state.
    pub const NOTHING: Self = Self {
        remote: [0; WAYS],
        remote_mask: [0; WAYS],
        traits: [u32::MAX; WAYS],
        traits_mask: [u32::MAX; WAYS],
        port_lo: [0; WAYS],
        port_span: [0; WAYS],
    };

    /// Lets place `n` match what comes by that tunnel endpoint (below [`ENDS`]), is of that class (none: of any) and
    /// matches `filter`, which must be [plain](Filter4::is_plain).
    ///
    /// # Panics
    /// When there is no such place.
    pub fn set(&mut self, n: usize, filter: &Filter4, end: u8, class: Option<u8>) {
        let bytes = |traits: Traits, end: u8, class: u8| word([traits.protocol, traits.tos, traits.state | end, class]);
        self.remote[n] = filter.remote;
        self.remote_mask[n] = filter.remote_mask;
        self.traits[n] = bytes(filter.traits, end << END_SHIFT, class.unwrap_or(0));
        self.traits_mask[n] = bytes(filter.traits_mask, END_BITS, if class.is_some() { 0xff } else { 0 });
        self.port_lo[n] = filter.ports.remote_lo;
        self.port_span[n] = filter.ports.remote_span;
    }

    /// The places that match the packet, a bit each.
    #[inline(always)]
    pub fn hits(&self, key: &QuadKey) -> u32 {
        let mut hits = 0;
        for n in 0..WAYS {
            let remote = (key.remote ^ self.remote[n]) & self.remote_mask[n];
            let traits = (key.traits ^ self.traits[n]) & self.traits_mask[n] & key.mask;
            // How far the port is behind the range; ports before it are far behind.
            let port = key.remote_port.wrapping_sub(self.port_lo[n]).saturating_sub(self.port_span[n]);
            hits |= u32::from(remote | traits | u32::from(port) == 0) << n;
        }
        hits
    }
}
