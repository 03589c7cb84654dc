//! What a record keeps of its session: buckets, counts and their bounds, and which rule each is of.

use table::bucket;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{MAX_QERS, MAX_URRS};
use crate::rules::Volumes;

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
    pub(crate) fn passed_by(&self, now: u64) -> u32 {
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
    pub(crate) fn is_tripped(&self) -> bool {
        self.bytes >= self.trip
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self { bytes: 0, trip: u64::MAX, packets: 0, first: 0, last: 0 }
    }
}

/// The cells that one stands for, in the cell behind it: where a rule has more of them than a treatment has places, or
/// limits on the number of packets. The cell before calls for a closer look at every packet, for it is a bucket without
/// credit or a counter beyond its report threshold; usual packets pay nothing for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Members {
    /// Buckets (see [`OF_SESSION`](super::OF_SESSION)) or counts, in cells from the record's start; 0: none.
    pub cells: [u8; MAX_URRS],
    /// Limits on the number of packets, likewise.
    pub limits: [u8; MAX_QERS],
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
    /// An event is sent to control.
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
