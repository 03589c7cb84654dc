//! Four plain IPv4 filters side by side: a packet is compared with all of them at once.

use wire::L3L4;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::compiled::{Filter4, Traits, state_of};

/// Filters of a [`Quad4`].
pub const WAYS: usize = 4;

/// What a packet is matched by in a [`Quad4`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuadKey {
    tunnel: u32,
    remote: u32,
    traits: u32,
    remote_port: u16,
    /// Which bits of tunnel and traits are compared at all.
    masks: [u32; 2],
}

impl QuadKey {
    /// The key of a packet on its way to the subscriber, from wherever and of whatever class.
    #[inline(always)]
    pub fn downlink(h: &L3L4) -> Self {
        let traits = word([h.protocol, h.tos, state_of(h), 0]);
        let masks = [0, word([0xff, 0xff, 0xff, 0])];
        Self { tunnel: 0, remote: h.src, traits, remote_port: h.src_port, masks }
    }

    /// The key of a packet the subscriber sent, with the tunnel endpoint and the class (QoS flow) it came by.
    #[inline(always)]
    pub fn uplink(h: &L3L4, tunnel: u32, class: u8) -> Self {
        let traits = word([h.protocol, h.tos, state_of(h), class]);
        Self { tunnel, remote: h.dst, traits, remote_port: h.dst_port, masks: [u32::MAX; 2] }
    }
}

/// Four filters, each the other's neighbour in every array: 96 bytes. Written so that compilers make vectors of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(16))]
pub struct Quad4 {
    tunnel: [u32; WAYS],
    remote: [u32; WAYS],
    remote_mask: [u32; WAYS],
    traits: [u32; WAYS],
    traits_mask: [u32; WAYS],
    port_lo: [u16; WAYS],
    port_span: [u16; WAYS],
}

const _: () = assert!(size_of::<Quad4>() == 96);

/// Protocol, type of service, state and class as they are compared.
#[inline(always)]
fn word(bytes: [u8; 4]) -> u32 {
    u32::from_ne_bytes(bytes)
}

impl Quad4 {
    /// Matches nothing: no packet is in such a state.
    pub const NOTHING: Self = Self {
        tunnel: [0; WAYS],
        remote: [0; WAYS],
        remote_mask: [0; WAYS],
        traits: [u32::MAX; WAYS],
        traits_mask: [u32::MAX; WAYS],
        port_lo: [0; WAYS],
        port_span: [0; WAYS],
    };

    /// Lets place `n` match what comes by that tunnel, is of that class (none: of any) and matches `filter`, which must be [plain](Filter4::is_plain).
    ///
    /// # Panics
    /// When there is no such place.
    pub fn set(&mut self, n: usize, filter: &Filter4, tunnel: u32, class: Option<u8>) {
        let bytes = |traits: Traits, class: u8| word([traits.protocol, traits.tos, traits.state, class]);
        self.tunnel[n] = tunnel;
        self.remote[n] = filter.remote;
        self.remote_mask[n] = filter.remote_mask;
        self.traits[n] = bytes(filter.traits, class.unwrap_or(0));
        self.traits_mask[n] = bytes(filter.traits_mask, if class.is_some() { 0xff } else { 0 });
        self.port_lo[n] = filter.ports.remote_lo;
        self.port_span[n] = filter.ports.remote_span;
    }

    /// The places that match the packet, a bit each.
    #[inline(always)]
    pub fn hits(&self, key: &QuadKey) -> u32 {
        let mut hits = 0;
        for n in 0..WAYS {
            let tunnel = (key.tunnel ^ self.tunnel[n]) & key.masks[0];
            let remote = (key.remote ^ self.remote[n]) & self.remote_mask[n];
            let traits = (key.traits ^ self.traits[n]) & self.traits_mask[n] & key.masks[1];
            // How far the port is behind the range; ports before it are far behind.
            let port = key.remote_port.wrapping_sub(self.port_lo[n]).saturating_sub(self.port_span[n]);
            hits |= u32::from(tunnel | remote | traits | u32::from(port) == 0) << n;
        }
        hits
    }
}
