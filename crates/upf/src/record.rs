//! The hot record of a session: one run of cache lines, flat and free of pointers.
//!
//! ```text
//! line 0   Head (32 bytes) | Quad4                 packet detection, where all IPv4 filters are plain: four filters, by
//!      …   Quad4 …                                 precedence, behind the head and in further pairs of lines
//!      …   [Treatment; 4] …                        what rules do with packets that the quads' filters match: uplink, then
//!                                                  downlink
//!      …   Action …                                the actions they name, four a line
//!      …   Match …                                 packet detection of other packets, uplink rules first, then downlink
//!      …   Filter4 …                               SDF filters of these, two a line
//!      …   Filter6 …                               one a line
//!      …   cells: Meter or Tally …                 a QER's bucket or a URR's count, per direction, two a line  (state)
//!      …   [cell, Members] …                       among them: what rules with many QERs or URRs have, one a line; cold
//!      …   Bounds …                                what a URR may count, one a line, for those that have some; cold
//!      …   Row …                                   which cells are which QER's and URR's; cold
//! ```
//! Rules are replaced whole; cells are carried over by rule ID. Cells that a packet touches together stand together:
//! a flow's bucket and its count in one line, the session's two buckets in another. A packet so touches the head and its
//! quad, treatments and actions, and two lines of cells, all asked for ahead of use. Both directions usually share a
//! quad. Records begin at even lines: memory comes by pairs of lines.

use stages::filter::{Filter4, Filter6, Quad4, WAYS};
use stages::forward::NONE;
use table::bucket;
use table::records::{Line, MAX_RECORD, Window};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute_mut, transmute_ref};

use crate::rules::Volumes;

/// QERs that can apply to one packet.
pub const MAX_QERS: usize = 16;
/// URRs that can apply to one packet.
pub const MAX_URRS: usize = 16;
/// Cells of either kind that a [`Treatment`] has places for; where there are more, one of them is a [`GROUP`]'s.
pub const PLACES: usize = 2;
/// Added to a cell's position: behind it are the [`Members`] that it stands for.
pub const GROUP: u8 = 0x80;
/// Added to the position of a [`Members`]' bucket: it is the session's aggregate.
pub const OF_SESSION: u8 = 0x80;
/// Duplicates of a packet.
pub const MAX_DUPLICATES: usize = 15;
/// No QER, URR or QFI in a field of eight bits.
pub const NONE8: u8 = u8::MAX;
/// The pair of lines that the head is in, and the first quad.
pub const HEAD_PAIR: usize = 0;
/// The pair of lines that treatments and actions are in, in the usual session.
pub const ACTION_PAIR: usize = 1;
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
    /// Uplink rules.
    pub up: u8,
    /// The subscriber's IPv6 prefix; 0: none.
    pub ue6: u64,
    /// Downlink rules, after the uplink ones.
    pub down: u8,
    /// Where `Match`es begin.
    pub rules: u8,
    /// Quads, from the record's start; 0: there are none.
    pub quads: u8,
    /// Quads for uplink packets: the first ones.
    pub up_quads: u8,
    /// Quads for downlink packets: the last ones, often the same.
    pub down_quads: u8,
    /// Where `Row`s begin.
    pub rows: u8,
    /// QERs: the first rows.
    pub qers: u8,
    /// URRs: the rows after them.
    pub urrs: u8,
}

/// Bits of [`Treatment::flags`].
pub mod match_flags {
    /// The rule has SDF filters: one of them must match.
    pub const FILTERED: u16 = 1;
    /// The first QER's bucket is the session's aggregate.
    pub const SESSION0: u16 = 2;
    /// The second QER's bucket is the session's aggregate.
    pub const SESSION1: u16 = 4;
    /// A QER's gate is closed in this direction.
    pub const CLOSED: u16 = 8;
    /// Packets come from the subscriber itself: their source is checked.
    pub const FROM_UE: u16 = 16;
    /// What counts in the first place counts packets before gates and rates.
    pub const BEFORE_QOS0: u16 = 32;
    /// What counts in the second place counts packets before gates and rates.
    pub const BEFORE_QOS1: u16 = 64;
    /// The packet's IP header is a tunnel's and taken off.
    pub const REMOVES_IP: u16 = 128;
    /// The packet's UDP and IP headers are a tunnel's and taken off.
    pub const REMOVES_UDP: u16 = 256;
}

/// What a packet must be for a rule to apply, and which lines it then needs.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Match {
    /// Our tunnel endpoint (uplink rules).
    pub teid: u32,
    /// First of its IPv4 filters, in units of [`Filter4`] from the record's start.
    pub first4: u8,
    /// How many.
    pub count4: u8,
    /// First of its IPv6 filters, in units of [`Filter6`] from the record's start.
    pub first6: u8,
    /// How many.
    pub count6: u8,
    /// What is done with its packets.
    pub then: Treatment,
}

/// What is done with a rule's packets, in one word.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(8))]
pub struct Treatment {
    /// The QoS flow the packets must carry; [`NONE8`]: any.
    pub qfi: u8,
    /// Its action, in units of [`Action`] from the record's start.
    pub action: u8,
    /// See [`match_flags`].
    pub flags: u16,
    /// Its QERs' buckets of the rule's direction, in cells from the record's start; 0: none. See [`GROUP`].
    pub meters: [u8; PLACES],
    /// Its URRs' counts of the rule's direction, in cells from the record's start; 0: none. See [`GROUP`].
    pub tallies: [u8; PLACES],
}

impl Treatment {
    /// Its counts, parted: those that count before gates and rates, and those that count behind them.
    pub fn tallies_parted(&self) -> [[u8; PLACES]; 2] {
        const FLAGS: [u16; PLACES] = [match_flags::BEFORE_QOS0, match_flags::BEFORE_QOS1];
        let of = |before: bool| {
            std::array::from_fn(|n| if (self.flags & FLAGS[n] != 0) == before { self.tallies[n] } else { 0 })
        };
        [of(true), of(false)]
    }
}

/// The cells that one stands for, in the cell behind it: where a rule has more of them than a treatment has places, or
/// limits on the number of packets. The cell before calls for a closer look at every packet, for it is a bucket without
/// credit or a count beyond its trip; so what is usual pays nothing for what is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Members {
    /// Buckets (see [`OF_SESSION`]) or counts, in cells from the record's start; 0: none.
    pub cells: [u8; MAX_URRS],
    /// Limits on the number of packets, likewise.
    pub limits: [u8; MAX_QERS],
}

/// Four of a direction's filters by precedence of their rules, in the place where it is: behind the head, or in a pair of
/// lines alone. By the PDI's tunnel endpoint, QFI and SDF filter; a rule without filters has one for everything.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Quad {
    /// The head, or nothing.
    pub before: [u8; size_of::<Head>()],
    /// The filters.
    pub filters: Quad4,
}

/// What is done with packets that match a quad's filters.
pub type Treatments = [Treatment; WAYS];

/// Values of [`Action::apply`].
pub mod apply {
    /// Send it on.
    pub const FORWARD: u8 = 0;
    /// End it.
    pub const DROP: u8 = 1;
    /// Keep it until the subscriber is back.
    pub const BUFFER: u8 = 2;
    /// Answer it with the page whose number stands in the place of the far end's tunnel endpoint.
    pub const REDIRECT: u8 = 3;
    /// End it, but let pass what is of our own making.
    pub const CLOSED: u8 = 4;

    /// How many duplicates of it are made first stands in the bits from here on; the actions behind say where they go.
    pub const DUPLICATES: u32 = 4;
}

/// Values of [`Action::qfi`] beyond those of QoS flows and [`NONE8`]: what tunnels have in place of GTP-U.
pub mod outer {
    /// Nothing behind UDP; its port stands in the place of the far end's tunnel endpoint.
    pub const UDP: u8 = 0xfe;
    /// Nothing behind IP.
    pub const IP: u8 = 0xfd;
    /// No header at all: the far end is but the next hop.
    pub const NOTHING: u8 = 0xfc;

    /// Whether it is one of these.
    #[inline(always)]
    pub const fn is_other(qfi: u8) -> bool {
        qfi >= NOTHING && qfi != super::NONE8
    }
}

/// What a rule does with its packets: the FAR and the markings, compiled.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Action {
    /// The tunnel to put packets in; [`NONE`]: none.
    pub tunnel: u32,
    /// The far end's tunnel endpoint.
    pub teid: u32,
    /// The PDR's rule ID, for reports.
    pub pdr: u16,
    /// The network instance to forward in.
    pub instance: u16,
    /// See [`apply`].
    pub apply: u8,
    /// DSCP to mark; [`NONE8`]: leave.
    pub dscp: u8,
    /// QFI to put in the PDU session container; [`NONE8`]: no container; else see [`outer`].
    pub qfi: u8,
    /// How many packets wait at most, with [`apply::BUFFER`]; 0: as many as there is room for.
    pub keep: u8,
}

impl Action {
    /// See [`apply`], without the number of duplicates.
    pub fn kind(&self) -> u8 {
        self.apply & ((1 << apply::DUPLICATES) - 1)
    }

    /// Whether packets leave without a tunnel's headers.
    pub fn is_plain(&self) -> bool {
        self.tunnel == NONE || self.qfi == outer::NOTHING
    }

    /// How many actions behind this one say where duplicates go.
    pub fn duplicates(&self) -> u8 {
        self.apply >> apply::DUPLICATES
    }
}

/// A QER's rate and bucket in one direction: a cell.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Meter {
    /// What may pass.
    pub config: bucket::Config,
    /// What may pass now.
    pub state: bucket::State,
}

impl Meter {
    /// Lets nothing pass.
    pub const CLOSED: Self = Self {
        config: bucket::Config { rate: bucket::Rate(0), depth: -1 },
        state: bucket::State { credit: -1, last_ns: 0 },
    };
}

/// A QER's limit on the number of packets in one direction: a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct PacketQuota {
    /// Packets that may pass in a period; 0 with a period of 0: any number.
    pub most: u32,
    /// Packets that have passed in this one.
    pub passed: u32,
    /// How long a period is, in nanoseconds.
    pub period_ns: u64,
    /// When this one ends.
    pub ends_ns: u64,
    /// Room to a cell.
    pub spare: u64,
}

impl PacketQuota {
    /// Whether a packet may pass now; [`take`](Self::take) counts it.
    pub fn affords(&self, now: u64) -> bool {
        self.period_ns == 0 || self.passed_by(now) < self.most
    }

    /// Counts a packet. A period begins with its first one.
    pub fn take(&mut self, now: u64) {
        if now >= self.ends_ns {
            (self.passed, self.ends_ns) = (0, now.saturating_add(self.period_ns));
        }
        self.passed += 1;
    }

    /// Packets that have passed in the period that holds now.
    pub fn passed_by(&self, now: u64) -> u32 {
        if now < self.ends_ns { self.passed } else { 0 }
    }
}

/// What a URR has measured in one direction: a cell.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Tally {
    /// Octets of user packets.
    pub bytes: u64,
    /// The octets at which the URR's [`Bounds`] are to be looked at; `u64::MAX`: it has none.
    pub trip: u64,
    /// Packets.
    pub packets: u64,
    /// Time of the first packet since the last report, as a [`stamp`]; 0: none.
    pub first: u32,
    /// Time of the last packet, as a [`stamp`].
    pub last: u32,
}

impl Tally {
    /// Counts a packet; true when the URR's bounds are to be looked at.
    #[inline(always)]
    pub fn count(&mut self, bytes: u64, now: u32) -> bool {
        self.bytes += bytes;
        self.packets += 1;
        self.first = if self.first == 0 { now } else { self.first };
        self.last = now;
        self.is_tripped()
    }

    /// Whether they are to be looked at now.
    #[inline(always)]
    pub fn is_tripped(&self) -> bool {
        self.bytes >= self.trip
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self { bytes: 0, trip: u64::MAX, packets: 0, first: 0, last: 0 }
    }
}

const STAMP_SHIFT: u32 = 20;

/// A time in nanoseconds as a tally keeps it: in units of 2^20 ns, about a millisecond, modulo 2^32; 0 stands for none.
#[inline(always)]
pub fn stamp(ns: u64) -> u32 {
    ((ns >> STAMP_SHIFT) as u32).max(1) // modulo 2^32
}

/// The time of a stamp made before `now`, by 52 days at most.
pub fn unstamp(stamp: u32, now: u64) -> u64 {
    let ago = ((now >> STAMP_SHIFT) as u32).wrapping_sub(stamp); // modulo 2^32
    if stamp == 0 { 0 } else { (now >> STAMP_SHIFT).saturating_sub(ago.into()) << STAMP_SHIFT }
}

/// What a URR may count before something happens, in octets from its beginning: of both directions together, uplink,
/// downlink; `u64::MAX`: no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Bounds {
    /// Control is told.
    pub threshold: [u64; 3],
    /// Packets are dropped.
    pub quota: [u64; 3],
    /// Control has been told that the threshold (bit 0) or the quota (bit 1) was reached.
    pub told: u64,
    /// Room to a line.
    pub spare: u64,
}

impl Bounds {
    /// Of a rule's volumes.
    pub fn of(threshold: Volumes, quota: Volumes) -> Self {
        let list = |v: Volumes| [v.total, v.up, v.down].map(|bound| bound.unwrap_or(u64::MAX));
        Self { threshold: list(threshold), quota: list(quota), told: 0, spare: 0 }
    }

    /// Whether there are none at all.
    pub fn is_none(&self) -> bool {
        self.threshold == [u64::MAX; 3] && self.quota == [u64::MAX; 3]
    }

    /// Whether the quota is used up.
    pub fn is_spent(&self, up: u64, down: u64) -> bool {
        is_reached(&self.quota, up, down)
    }

    /// What control has not been told and should be: bits as of [`told`](Self::told).
    pub fn news(&self, up: u64, down: u64) -> u64 {
        let threshold = u64::from(is_reached(&self.threshold, up, down));
        let quota = u64::from(self.is_spent(up, down)) << 1;
        (threshold | quota) & !self.told
    }

    /// The counts of either direction at which to look again. A bound on the sum is approached by halves, for each
    /// direction counts by itself: some twenty looks for a gigabyte, and the bound is met to the packet.
    pub fn trips(&self, up: u64, down: u64) -> [u64; 2] {
        if self.is_spent(up, down) {
            return [0; 2];
        }
        let open = if self.told & 1 == 0 { self.threshold } else { [u64::MAX; 3] };
        let nearest = |n: usize| open[n].min(self.quota[n]);
        let half = nearest(0).saturating_sub(up + down).div_ceil(2);
        let on_sum = |count: u64| if nearest(0) == u64::MAX { u64::MAX } else { count.saturating_add(half) };
        [on_sum(up).min(nearest(1)), on_sum(down).min(nearest(2))]
    }
}

fn is_reached(bounds: &[u64; 3], up: u64, down: u64) -> bool {
    up.saturating_add(down) >= bounds[0] || up >= bounds[1] || down >= bounds[2]
}

/// Which cells are a QER's or URR's, in cells from the record's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Row {
    /// The rule's ID.
    pub id: u32,
    /// Its cell for packets from the subscriber; 0: none, for there is no limit.
    pub up: u8,
    /// Its cell for packets to the subscriber; as `up`.
    pub down: u8,
    /// The line its [`Bounds`] are in, of a URR that has some; 0: none.
    pub bounds: u8,
    /// 1: its cells are [`PacketQuota`]s, of a QER that has a row of its own for its rates.
    pub limits: u8,
}

/// Actions of a line.
pub const ACTIONS: usize = LINE / size_of::<Action>();
/// Cells of a line.
pub const CELLS: usize = LINE / size_of::<Meter>();

const _: () = {
    assert!(size_of::<Head>() == 32 && size_of::<Match>() == 16 && size_of::<Action>() == 16);
    assert!(
        size_of::<PacketQuota>() == 32 && size_of::<Meter>() == 32 && size_of::<Tally>() == 32 && size_of::<Row>() == 8
    );
    assert!(size_of::<Members>() == 32 && size_of::<Treatment>() == 8);
    // A cell's position leaves a bit for what it is.
    assert!(MAX_CELLS <= GROUP as usize);
    assert!(size_of::<Quad>() == 2 * LINE && size_of::<Treatments>() == 32);
    assert!(size_of::<Filter4>() == 32 && size_of::<Filter6>() == LINE && size_of::<Bounds>() == LINE);
    // Positions in units of 16 bytes and more must fit eight bits.
    assert!(MAX_RECORD * ACTIONS <= 256);
};

// A window is seen as an array of whatever is wanted; a position of eight bits then needs no bounds check.

/// The head of the record a window begins with.
#[inline(always)]
pub fn head_in(window: &Window) -> &Head {
    let all: &[Head; MAX_RECORD * LINE / size_of::<Head>()] = transmute_ref!(window);
    &all[0]
}

/// A window as rules.
#[inline(always)]
pub fn matches_in(window: &Window) -> &[Match; MAX_RECORD * LINE / size_of::<Match>()] {
    transmute_ref!(window)
}

/// The place of a direction's first rule among the window's [`matches_in`], and how many rules there are.
#[inline(always)]
pub fn rules_of(head: &Head, uplink: bool) -> (u8, u8) {
    const MATCHES: u8 = (LINE / size_of::<Match>()) as u8;
    let first = head.rules.wrapping_mul(MATCHES);
    if uplink { (first, head.up) } else { (first.wrapping_add(head.up), head.down) }
}

/// Quads of the longest record.
pub const MAX_QUADS: usize = MAX_RECORD * LINE / size_of::<Quad>();

/// A window as quads.
#[inline(always)]
pub fn quads_in(window: &Window) -> &[Quad; MAX_QUADS] {
    transmute_ref!(window)
}

/// A window as what is done with the packets of quads.
#[inline(always)]
pub fn treatments_in(window: &Window) -> &[Treatments; MAX_RECORD * LINE / size_of::<Treatments>()] {
    transmute_ref!(window)
}

/// A direction's quads: how many, the place of the first among the window's [`quads_in`], and the place of what is done
/// with the first one's packets among the [`treatments_in`].
#[inline(always)]
pub fn quads_of(head: &Head, uplink: bool) -> (u8, u8, u8) {
    const TREATMENTS: u8 = (size_of::<Quad>() / size_of::<Treatments>()) as u8;
    let then = head.quads.wrapping_mul(TREATMENTS);
    if uplink {
        (head.up_quads, 0, then)
    } else {
        (head.down_quads, head.quads.wrapping_sub(head.down_quads), then.wrapping_add(head.up_quads))
    }
}

/// A window as IPv4 filters.
#[inline(always)]
pub fn filters4_in(window: &Window) -> &[Filter4; MAX_RECORD * LINE / size_of::<Filter4>()] {
    transmute_ref!(window)
}

/// A window as IPv6 filters.
#[inline(always)]
pub fn filters6_in(window: &Window) -> &[Filter6; MAX_RECORD] {
    transmute_ref!(window)
}

/// A window as actions.
#[inline(always)]
pub fn actions_in(window: &Window) -> &[Action; MAX_RECORD * ACTIONS] {
    transmute_ref!(window)
}

/// Cells of the longest record.
pub const MAX_CELLS: usize = MAX_RECORD * CELLS;

/// A window as cells of either kind.
#[inline(always)]
pub fn cells_in(window: &Window) -> &[[u8; LINE / CELLS]; MAX_CELLS] {
    transmute_ref!(window)
}

/// A window as cells with buckets, to change; see [`cell_at`].
#[inline(always)]
pub fn meters_in(window: &mut Window) -> &mut [Meter; MAX_CELLS] {
    transmute_mut!(window)
}

/// A window as cells with limits, to change; see [`cell_at`].
pub fn quotas_in(window: &mut Window) -> &mut [PacketQuota; MAX_CELLS] {
    transmute_mut!(window)
}

/// What the cell at a position with [`GROUP`] stands for.
pub fn members_in(window: &Window, place: u8) -> Members {
    let all: &[Members; MAX_CELLS] = transmute_ref!(window);
    all[cell_at(place.wrapping_add(1))]
}

/// A window as cells with counts, to change; see [`cell_at`].
#[inline(always)]
pub fn tallies_in(window: &mut Window) -> &mut [Tally; MAX_CELLS] {
    transmute_mut!(window)
}

/// A cell's position as an index that needs no bounds check: positions are below [`MAX_CELLS`] anyway.
#[inline(always)]
pub fn cell_at(position: u8) -> usize {
    usize::from(position) % MAX_CELLS
}

/// The head of a record.
#[inline]
pub fn head(lines: &[Line]) -> Option<&Head> {
    Head::ref_from_prefix(lines.first()?.as_bytes()).ok().map(|(head, _)| head)
}

/// All rules of a record, uplink first.
#[inline]
pub fn matches<'a>(lines: &'a [Line], head: &Head) -> &'a [Match] {
    let count = usize::from(head.up) + usize::from(head.down);
    let bytes = lines.as_bytes().get(usize::from(head.rules) * LINE..).unwrap_or_default();
    <[Match]>::ref_from_prefix_with_elems(bytes, count).map_or(&[], |(list, _)| list)
}

/// QERs' and URRs' rows.
pub fn rows<'a>(lines: &'a [Line], head: &Head) -> (&'a [Row], &'a [Row]) {
    let count = usize::from(head.qers) + usize::from(head.urrs);
    let bytes = lines.as_bytes().get(usize::from(head.rows) * LINE..).unwrap_or_default();
    let all = <[Row]>::ref_from_prefix_with_elems(bytes, count).map_or(&[][..], |(rows, _)| rows);
    all.split_at_checked(head.qers.into()).unwrap_or_default()
}

/// The cell at a position of a record's line.
pub fn cell<T: FromBytes + KnownLayout + Immutable>(line: &Line, at: u8) -> Option<&T> {
    let all = <[T; CELLS]>::ref_from_bytes(line.as_bytes()).ok()?;
    Some(&all[usize::from(at) % CELLS])
}

/// The cell at a position of a record's line, to change.
pub fn cell_mut<T: FromBytes + IntoBytes + KnownLayout + Immutable>(line: &mut Line, at: u8) -> Option<&mut T> {
    let all = <[T; CELLS]>::mut_from_bytes(line.as_mut_bytes()).ok()?;
    Some(&mut all[usize::from(at) % CELLS])
}
