//! What became of the packets.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use table::histogram::Histogram;

use crate::direction::Direction;
use crate::inspect::{Found, Lack, inspect};
use crate::plan::Plan;
use crate::sequence::{Arrival, Window};

/// What is looked at beyond the signature and the lengths and IPv4 checksums of all headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verify {
    /// Downlink: tunnel identifier, QoS flow identifier and gNB are those of the flow. Uplink: there is no tunnel.
    pub tunnel: bool,
    /// Addresses and ports are those of the flow: not where the gateway translates, or with new flows.
    pub addresses: bool,
    /// The user's UDP checksum is right. Reads the whole packet.
    pub payload: bool,
}

impl Default for Verify {
    fn default() -> Self {
        Self { tunnel: true, addresses: false, payload: false }
    }
}

impl Verify {
    /// Everything.
    pub const ALL: Self = Self { tunnel: true, addresses: true, payload: true };
    /// Signatures only.
    pub const NONE: Self = Self { tunnel: false, addresses: false, payload: false };
}

/// What a checker has seen. Every packet that came is exactly one of the first eight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Arrived in order.
    pub in_order: u64,
    /// Arrived after a later one of their flow.
    pub reordered: u64,
    /// Arrived again.
    pub duplicated: u64,
    /// Arrived so late that nothing more is known of them: 32 or more behind the latest of their flow.
    pub stale: u64,
    /// Ours, but damaged: headers that contradict themselves, wrong checksums, impossible marks.
    pub corrupt: u64,
    /// Ours and whole, but in the wrong tunnel, QoS flow or place.
    pub misdelivered: u64,
    /// Not ours: no signature of this direction.
    pub foreign: u64,
    /// Signed before counting began.
    pub early: u64,
    /// Bytes of the users' IP packets received, without duplicates.
    pub ip_bytes: u64,
}

impl Seen {
    /// Packets received, each once.
    pub fn received(&self) -> u64 {
        self.in_order + self.reordered
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        Self {
            in_order: self.in_order + other.in_order,
            reordered: self.reordered + other.reordered,
            duplicated: self.duplicated + other.duplicated,
            stale: self.stale + other.stale,
            corrupt: self.corrupt + other.corrupt,
            misdelivered: self.misdelivered + other.misdelivered,
            foreign: self.foreign + other.foreign,
            early: self.early + other.early,
            ip_bytes: self.ip_bytes + other.ip_bytes,
        }
    }

    /// Everything that came.
    pub fn all(&self) -> u64 {
        let Self { in_order, reordered, duplicated, stale, corrupt, misdelivered, foreign, early, ip_bytes: _ } = self;
        in_order + reordered + duplicated + stale + corrupt + misdelivered + foreign + early
    }
}

/// Checks the packets of one direction that came out of a gateway. Owned by whoever receives; 8 bytes a flow.
pub struct Checker {
    plan: Arc<Plan>,
    direction: Direction,
    /// What tells the direction at the exit: packets that a [`crate::reflect`] turned around keep their mark.
    tunnelled: bool,
    verify: Verify,
    flows: Box<[Window]>,
    seen: Seen,
    latencies: Histogram,
    since_ns: u64,
    /// How far the clocks of sender and receiver may be apart.
    skew_ns: u64,
}

/// Of two cores.
const SKEW_NS: u64 = 1_000_000;

impl Checker {
    /// For packets sent in that direction.
    pub fn new(plan: &Arc<Plan>, direction: Direction, verify: Verify) -> Self {
        Self {
            plan: plan.clone(),
            direction,
            tunnelled: direction == Direction::Downlink,
            verify,
            flows: vec![Window::default(); plan.flow_count() as usize].into(),
            seen: Seen::default(),
            latencies: Histogram::new(),
            since_ns: 0,
            skew_ns: SKEW_NS,
        }
    }

    /// For a sender whose clock may be so far ahead; 1 ms if this is not called.
    #[must_use]
    pub fn within(self, skew: Duration) -> Self {
        Self { skew_ns: u64::try_from(skew.as_nanos()).unwrap_or(u64::MAX), ..self }
    }

    /// For packets sent up, turned around by a responder, and received as downlink: latencies are round trips.
    pub fn round_trip(plan: &Arc<Plan>, verify: Verify) -> Self {
        Self { tunnelled: true, ..Self::new(plan, Direction::Uplink, verify) }
    }

    /// What has come.
    pub fn seen(&self) -> Seen {
        self.seen
    }

    /// Latencies of what was received, in nanoseconds, from making the packet to its check.
    pub fn latencies(&self) -> &Histogram {
        &self.latencies
    }

    /// Forgets all counts and latencies, and from now on counts packets signed before `now_ns` as early. What is
    /// known of the flows' sequences stays.
    pub fn count_from(&mut self, now_ns: u64) {
        self.seen = Seen::default();
        self.latencies.clear();
        self.since_ns = now_ns;
    }

    /// Since when counted, see [`Checker::count_from`].
    pub(crate) fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// Takes note of a frame that came at `now_ns`.
    #[inline]
    pub fn check(&mut self, frame: &[u8], now_ns: u64) {
        if !self.check_signed(frame, now_ns) {
            self.seen.foreign += 1;
        }
    }

    /// As [`Checker::check`], but a frame without a signature of this direction is not counted: false, and it is the
    /// caller's to look at.
    #[inline]
    pub fn check_signed(&mut self, frame: &[u8], now_ns: u64) -> bool {
        match inspect(frame) {
            Ok(found) if found.mark.direction == self.direction => self.note(&found, now_ns),
            Ok(_) | Err(Lack::Unsigned) => return false,
            Err(Lack::Malformed) => self.seen.corrupt += 1,
        }
        true
    }

    /// Counts a frame that is not of the trial.
    pub(crate) fn note_foreign(&mut self) {
        self.seen.foreign += 1;
    }

    #[inline]
    fn note(&mut self, found: &Found<'_>, now_ns: u64) {
        let index = found.mark.flow.wrapping_sub(self.plan.flow_base());
        let (Some(window), true) =
            (self.flows.get_mut(index as usize), found.mark.sent_ns <= now_ns.saturating_add(self.skew_ns))
        else {
            self.seen.corrupt += 1;
            return;
        };
        let age = now_ns.saturating_sub(found.mark.sent_ns);
        if self.verify.payload && !found.checksum_holds() {
            self.seen.corrupt += 1;
            return;
        }
        if (self.verify.tunnel || self.verify.addresses)
            && !delivered(&self.plan, self.tunnelled, self.verify, index, found)
        {
            self.seen.misdelivered += 1;
            return;
        }
        let arrival = window.note(found.mark.seq);
        if found.mark.sent_ns < self.since_ns {
            self.seen.early += 1;
            return;
        }
        match arrival {
            Arrival::InOrder => self.seen.in_order += 1,
            Arrival::Reordered => self.seen.reordered += 1,
            Arrival::Duplicate => self.seen.duplicated += 1,
            Arrival::Stale => self.seen.stale += 1,
        }
        if matches!(arrival, Arrival::InOrder | Arrival::Reordered) {
            self.seen.ip_bytes += found.packet.len() as u64;
            self.latencies.record(age);
        }
    }
}

/// Whether a packet came where its flow belongs.
#[inline]
fn delivered(plan: &Plan, tunnelled: bool, verify: Verify, index: u32, found: &Found<'_>) -> bool {
    let (place, lane) = plan.place_of(index);
    let place = place as usize;
    let who = plan.at(place, lane);
    let profile = plan.profile();
    if verify.tunnel {
        if found.tunnel.is_some() != tunnelled {
            return false;
        }
        if let Some(tunnel) = found.tunnel {
            let teid = plan.teid_at(Direction::Downlink, place, who.ue, who.bearer);
            let qfi = profile.qfis.get(usize::from(who.bearer)).copied();
            let gnb = match profile.gnb_first {
                IpAddr::V4(first) => u128::from(first.to_bits().wrapping_add(who.gnb)),
                IpAddr::V6(first) => first.to_bits().wrapping_add(who.gnb.into()),
            };
            if tunnel.teid.0 != teid || tunnel.qfi != qfi || tunnel.to != gnb {
                return false;
            }
        }
    }
    if verify.addresses {
        let (ue, server) = if who.v6 {
            let server = profile.server6_first.to_bits().wrapping_add(who.server.into());
            (profile.ue6(who.ue).to_bits(), server)
        } else {
            let server = profile.server_first.to_bits().wrapping_add(who.server);
            (profile.ue4(who.ue).to_bits().into(), server.into())
        };
        let (from, to) = ((ue, who.ue_port), (server, who.server_port));
        let (from, to) = if tunnelled { (to, from) } else { (from, to) };
        let (src, dst) = found.addresses();
        return (src, found.head.src_port) == from && (dst, found.head.dst_port) == to;
    }
    true
}
