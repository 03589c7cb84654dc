//! The hot record of a session: one run of cache lines, flat and free of pointers.
//!
//! ```text
//! line 0   Head (32 bytes) | Match, Match …        packet detection, uplink rules first, then downlink, by precedence
//!      …   Filter4 …                               SDF filters of all rules, two a line
//!      …   Filter6 …                               one a line
//!      …   Action …                                what a rule does, one line each
//!      …   Meters …                                rates and token buckets of a QER, one line each   (state)
//!      …   Tally …                                 what a URR measured, one line each               (state)
//!      …   ids                                     QER and URR rule IDs, cold
//! ```
//! Rules are replaced whole; lines marked state are carried over by rule ID. A packet touches the head, its rule's
//! filters, one action, the meters and tallies of its rule: six to eight lines, all asked for ahead of use.

use stages::filter::{Filter4, Filter6};
use table::bucket;
use table::records::Line;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// QERs that can apply to one packet.
pub const MAX_QERS: usize = 2;
/// URRs that can apply to one packet.
pub const MAX_URRS: usize = 2;
/// No QER, URR or QFI in a field of eight bits.
pub const NONE8: u8 = u8::MAX;
/// Bytes of a line.
pub const LINE: usize = size_of::<Line>();

/// What identifies the session and where its parts are. Positions are in lines from the record's start.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Head {
    /// Increases with every use of the place and every change of rules: tells a stale reference.
    pub generation: u32,
    /// Control's number of the session on this worker.
    pub handle: u32,
    /// The subscriber's IPv4 address; 0: none.
    pub ue4: u32,
    /// Its data network.
    pub instance: u16,
    /// Lines of the whole record.
    pub lines: u8,
    /// Whether `ue6` counts.
    pub has_v6: u8,
    /// The subscriber's IPv6 prefix.
    pub ue6: u64,
    /// Uplink rules.
    pub up: u8,
    /// Downlink rules, after the uplink ones.
    pub down: u8,
    /// Where `Filter4`s begin.
    pub filters4: u8,
    /// Where `Filter6`s begin.
    pub filters6: u8,
    /// Where `Action`s begin.
    pub actions: u8,
    /// Where `Meters` begin.
    pub meters: u8,
    /// Where `Tally`s begin.
    pub tallies: u8,
    /// Where ids begin.
    pub ids: u8,
}

/// Bits of [`Match::flags`].
pub mod match_flags {
    /// The rule has SDF filters: one of them must match.
    pub const FILTERED: u16 = 1;
    /// The first QER is the session's aggregate.
    pub const SESSION0: u16 = 2;
    /// The second QER is the session's aggregate.
    pub const SESSION1: u16 = 4;
    /// A QER's gate is closed in this direction.
    pub const CLOSED: u16 = 8;
}

/// What a packet must be for a rule to apply, and which lines it then needs.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Match {
    /// Our tunnel endpoint (uplink rules).
    pub teid: u32,
    /// First of its IPv4 filters.
    pub first4: u8,
    /// How many.
    pub count4: u8,
    /// First of its IPv6 filters.
    pub first6: u8,
    /// How many.
    pub count6: u8,
    /// The QoS flow the packet must carry; [`NONE8`]: any.
    pub qfi: u8,
    /// Its action.
    pub action: u8,
    /// See [`match_flags`].
    pub flags: u16,
    /// Its QERs; [`NONE8`]: none.
    pub qers: [u8; MAX_QERS],
    /// Its URRs; [`NONE8`]: none.
    pub urrs: [u8; MAX_URRS],
}

/// Values of [`Action::apply`].
pub mod apply {
    /// Send it on.
    pub const FORWARD: u8 = 0;
    /// End it.
    pub const DROP: u8 = 1;
    /// Keep it until the subscriber is back.
    pub const BUFFER: u8 = 2;
}

/// What a rule does with its packets: the FAR and the markings, compiled.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct Action {
    /// The tunnel to put packets in; [`stages::forward::NONE`]: none.
    pub tunnel: u32,
    /// The far end's tunnel endpoint.
    pub teid: u32,
    /// The FAR's rule ID, for reports.
    pub far: u32,
    /// The network instance to forward in.
    pub instance: u16,
    /// The PDR's rule ID, for reports.
    pub pdr: u16,
    /// See [`apply`].
    pub apply: u8,
    /// DSCP to mark; [`NONE8`]: leave.
    pub dscp: u8,
    /// QFI to put in the PDU session container; [`NONE8`]: no container.
    pub qfi: u8,
    /// Room to a line.
    pub spare: [u8; 45],
}

/// A direction's rate and bucket.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Meter {
    /// What may pass.
    pub config: bucket::Config,
    /// What may pass now.
    pub state: bucket::State,
}

/// A QER's rates and buckets: half a line a direction.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct Meters {
    /// From the subscriber.
    pub up: Meter,
    /// To the subscriber.
    pub down: Meter,
}

/// What a URR has measured.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct Tally {
    /// Octets from the subscriber.
    pub up_bytes: u64,
    /// Octets to the subscriber.
    pub down_bytes: u64,
    /// Packets from the subscriber.
    pub up_packets: u64,
    /// Packets to the subscriber.
    pub down_packets: u64,
    /// Time of the first packet in nanoseconds; 0: none.
    pub first_ns: u64,
    /// Time of the last packet in nanoseconds.
    pub last_ns: u64,
    /// Room to a line.
    pub spare: [u64; 2],
}

const _: () = {
    assert!(size_of::<Head>() == 32 && size_of::<Match>() == 16);
    assert!(size_of::<Action>() == LINE && size_of::<Meters>() == LINE && size_of::<Tally>() == LINE);
    assert!(size_of::<Filter4>() == 32 && size_of::<Filter6>() == LINE);
};

/// The head of a record.
#[inline]
pub fn head(lines: &[Line]) -> Option<&Head> {
    Head::ref_from_prefix(lines.first()?.as_bytes()).ok().map(|(head, _)| head)
}

/// All rules of a record, uplink first.
#[inline]
pub fn matches<'a>(lines: &'a [Line], head: &Head) -> &'a [Match] {
    let count = usize::from(head.up) + usize::from(head.down);
    let bytes = lines.as_bytes().get(size_of::<Head>()..).unwrap_or_default();
    <[Match]>::ref_from_prefix_with_elems(bytes, count).map_or(&[], |(list, _)| list)
}

/// A rule's IPv4 filters.
#[inline]
pub fn filters4<'a>(lines: &'a [Line], head: &Head, rule: &Match) -> &'a [Filter4] {
    let at = usize::from(head.filters4) * LINE + usize::from(rule.first4) * size_of::<Filter4>();
    let bytes = lines.as_bytes().get(at..).unwrap_or_default();
    <[Filter4]>::ref_from_prefix_with_elems(bytes, rule.count4.into()).map_or(&[], |(list, _)| list)
}

/// A rule's IPv6 filters.
#[inline]
pub fn filters6<'a>(lines: &'a [Line], head: &Head, rule: &Match) -> &'a [Filter6] {
    let at = usize::from(head.filters6) * LINE + usize::from(rule.first6) * size_of::<Filter6>();
    let bytes = lines.as_bytes().get(at..).unwrap_or_default();
    <[Filter6]>::ref_from_prefix_with_elems(bytes, rule.count6.into()).map_or(&[], |(list, _)| list)
}

/// A line as what it is known to hold.
#[inline]
pub fn view<T: FromBytes + KnownLayout + Immutable>(line: &Line) -> Option<&T> {
    T::ref_from_bytes(line.as_bytes()).ok()
}

/// A line as what it is known to hold, to change.
#[inline]
pub fn view_mut<T: FromBytes + IntoBytes + KnownLayout + Immutable>(line: &mut Line) -> Option<&mut T> {
    T::mut_from_bytes(line.as_mut_bytes()).ok()
}
