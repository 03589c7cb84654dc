//! What a rule does with its packets: the FAR and the markings, compiled.
//!
//! The layout is shared with programs outside this one (`docs/decisions/004-link-encapsulation-and-tagged-action.md`):
//! what a field means is told by tags alone, [`Action::kind`] and [`Encap::kind`], never by a reserved value of another
//! field.

use dataplane::forward::NONE;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What a rule does with its packets, in 16 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Action {
    /// The tunnel or next hop to put packets in; with [`kind::CONTROL`], control's number of the control plane's function.
    /// [`NONE`]: none.
    pub tunnel: u32,
    /// The far end's TEID with [`encap::GTPU`], [`encap::CONTAINER`] and [`kind::CONTROL`]; its UDP port with
    /// [`encap::UDP`]; the page's number with [`kind::REDIRECT`] and [`encap::NONE`]. Else 0. See [`Action::id`].
    pub id: u32,
    /// The PDR's rule ID, for reports.
    pub pdr: u16,
    /// The network instance to forward in: [`dataplane::forward::InstanceId`], of which a gateway has at most 256.
    pub instance: u8,
    /// One of [`kind`]'s values in the low four bits, the number of duplicates in the high four.
    pub kind: u8,
    /// The headers put before the packet.
    pub encap: Encap,
    /// DSCP of the outer header, or of a packet without one; [`NONE8`](super::NONE8): the packet's own.
    pub dscp: u8,
    /// With [`kind::BUFFER`]: packets that wait at most, 0: as many as there is room for. With [`kind::MARKED`]: the user
    /// packet's DSCP. With [`container::PPP`] in [`Encap::qfi`]: the paging policy indicator, 0 to 7.
    pub value: u8,
}

/// The headers put before a packet, in two bytes that are read as one word ([`Encap::word`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Encap {
    /// With [`encap::CONTAINER`]: the QFI with [`container`]'s flags. Else 0.
    pub qfi: u8,
    /// One of [`encap`]'s values.
    pub kind: u8,
}

const _: () = {
    assert!(size_of::<Action>() == 16 && align_of::<Action>() == 4 && size_of::<Encap>() == 2);
    assert!(std::mem::offset_of!(Action, kind) == 11 && std::mem::offset_of!(Action, encap) == 12);
};

impl Encap {
    /// No outer header.
    pub const NONE: Self = Self::of(encap::NONE);

    /// Of a kind without container.
    #[inline(always)]
    pub const fn of(kind: u8) -> Self {
        Self { qfi: 0, kind }
    }

    /// GTP-U with a PDU session container; `qfi` with [`container`]'s flags.
    #[inline(always)]
    pub const fn container(qfi: u8) -> Self {
        Self { qfi, kind: encap::CONTAINER }
    }

    /// Both bytes, the kind above the QFI: one comparison tells a range of kinds.
    #[inline(always)]
    pub const fn word(self) -> u16 {
        u16::from_le_bytes([self.qfi, self.kind])
    }

    /// Whether the container has a paging policy.
    #[inline(always)]
    pub(crate) const fn has_policy(self) -> bool {
        self.kind == encap::CONTAINER && self.qfi & container::PPP != 0
    }

    /// Whether the headers are another tunnel's than GTP-U's.
    #[inline(always)]
    pub const fn is_other(self) -> bool {
        self.kind > encap::CONTAINER
    }
}

/// What [`Action::id`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// The action has no identifier.
    None,
    /// The far end's tunnel endpoint identifier.
    Teid(u32),
    /// The far end's UDP port.
    UdpPort(u16),
    /// The number of the page that subscribers are sent to.
    Page(u32),
}

impl Action {
    /// One of [`kind`]'s values, without the number of duplicates.
    #[inline(always)]
    pub fn what(&self) -> u8 {
        self.kind & kind::MASK
    }

    /// How many actions behind this one say where duplicates go.
    #[inline(always)]
    pub fn duplicates(&self) -> u8 {
        self.kind >> kind::DUPLICATES
    }

    /// Whether packets leave without a tunnel's headers.
    pub fn is_plain(&self) -> bool {
        self.tunnel == NONE || self.encap.kind == encap::NEXT_HOP
    }

    /// The tunnel or port at the far end, or the page, as the tags tell.
    pub fn id(&self) -> Id {
        match (self.what(), self.encap.kind) {
            (_, encap::GTPU | encap::CONTAINER) | (kind::CONTROL, _) => Id::Teid(self.id),
            (_, encap::UDP) => Id::UdpPort(self.id as u16), // compiled from a port
            (kind::REDIRECT, encap::NONE) => Id::Page(self.id),
            _ => Id::None,
        }
    }

    /// The far end's tunnel endpoint, where it has one.
    pub fn teid(&self) -> Option<u32> {
        match self.id() {
            Id::Teid(teid) => Some(teid),
            _ => None,
        }
    }
}

/// Values of [`Action::kind`] (Apply Action, TS 29.244, 8.2.26). Part of the record's layout: values are never used anew.
pub mod kind {
    /// Send it on.
    pub const FORWARD: u8 = 0;
    /// Drop it (DROP).
    pub const DROP: u8 = 1;
    /// Keep it until the subscriber is back.
    pub const BUFFER: u8 = 2;
    /// Answer it with a page.
    pub const REDIRECT: u8 = 3;
    /// End it, but let pass what is of our own making.
    pub const CLOSED: u8 = 4;
    /// Send it to the control plane.
    pub const CONTROL: u8 = 5;
    /// Send it on, the user's packet marked.
    pub const MARKED: u8 = 6;

    /// The number of duplicates stands in the bits from here on; the actions behind say where they go.
    pub const DUPLICATES: u32 = 4;
    /// The bits of the values above.
    pub const MASK: u8 = (1 << DUPLICATES) - 1;
}

/// Values of [`Encap::kind`] (Outer Header Creation, TS 29.244, 8.2.56), GTP-U's below the others. Part of the record's
/// layout: values are never used anew.
pub mod encap {
    /// No header: the packet goes by its own destination.
    pub const NONE: u8 = 0;
    /// IP, UDP and GTP-U without extension header.
    pub const GTPU: u8 = 1;
    /// IP, UDP and GTP-U with a PDU session container.
    pub const CONTAINER: u8 = 2;
    /// IP and UDP.
    pub const UDP: u8 = 3;
    /// An outer IP header alone.
    pub const IP: u8 = 4;
    /// No header: the far end is but the next hop.
    pub const NEXT_HOP: u8 = 5;
}

/// Flags beside the QoS flow in [`Encap::qfi`], as in DL PDU SESSION INFORMATION (TS 38.415, 5.5.2.1).
pub mod container {
    /// Reflective QoS Indicator.
    pub const RQI: u8 = 0x40;
    /// Paging Policy Presence: the container is 4 bytes longer.
    pub const PPP: u8 = 0x80;
    /// Bytes that a paging policy takes.
    pub const PPI_LEN: u16 = 4;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(kind: u8, encap: Encap) -> Action {
        Action { tunnel: 3, id: 2152, pdr: 1, instance: 0, kind, encap, dscp: 0, value: 0 }
    }

    #[test]
    fn tags_alone_tell_what_the_id_is() {
        let of = |kind, encap| action(kind, encap).id();
        for qfi in [0, 63, 63 | container::RQI | container::PPP] {
            assert_eq!(of(kind::FORWARD, Encap::container(qfi)), Id::Teid(2152));
            assert!(!Encap::container(qfi).is_other());
        }
        assert_eq!(of(kind::BUFFER | 2 << kind::DUPLICATES, Encap::of(encap::GTPU)), Id::Teid(2152));
        assert_eq!(of(kind::FORWARD, Encap::of(encap::UDP)), Id::UdpPort(2152));
        assert_eq!(of(kind::REDIRECT | 1 << kind::DUPLICATES, Encap::NONE), Id::Page(2152));
        assert_eq!(of(kind::REDIRECT, Encap::of(encap::GTPU)), Id::Teid(2152));
        assert_eq!(of(kind::CONTROL, Encap::NONE), Id::Teid(2152));
        for other in [Encap::NONE, Encap::of(encap::IP), Encap::of(encap::NEXT_HOP)] {
            assert_eq!(of(kind::FORWARD, other), Id::None);
        }
    }

    #[test]
    fn only_containers_have_a_paging_policy() {
        assert!(Encap::container(container::PPP).has_policy() && !Encap::container(63).has_policy());
        for kind in [encap::NONE, encap::GTPU, encap::UDP, encap::IP, encap::NEXT_HOP] {
            assert!(!Encap::of(kind).has_policy());
        }
    }

    #[test]
    fn duplicates_stand_beside_the_kind() {
        let action = action(kind::MARKED | 15 << kind::DUPLICATES, Encap::NONE);
        assert_eq!((action.what(), action.duplicates()), (kind::MARKED, 15));
    }
}
