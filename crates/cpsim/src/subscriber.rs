//! One subscriber's session, and what is being done with it.

use pfcp::control::{Profile, Session};
use pfcp::ie::{FTeid, OuterHeaderCreation};
use pfcp::node::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::Teid;

use super::charging::Account;
use super::spec::Places;

/// How far a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// There is none.
    #[default]
    Down,
    /// The user plane has refused it.
    Refused,
    /// It is there and the subscriber is reached.
    Up,
    /// It is there and the subscriber sleeps.
    Idle,
}

/// A request about a session that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It is being brought up.
    Establish,
    /// It gets its gNB.
    Connect,
    /// The subscriber falls asleep.
    Sleep,
    /// The subscriber has been paged.
    Wake,
    /// The subscriber moves.
    HandOver,
    /// It gets another rate.
    Limit,
    /// It is asked for its usage.
    Query,
    /// It gets another quota.
    Grant,
    /// It is being deleted.
    Delete,
}

/// A subscriber.
#[derive(Debug, Default)]
pub struct Subscriber {
    /// Its session, as rules go.
    pub session: Session,
    /// How far it is.
    pub state: State,
    /// What waits for an answer, and since when: one thing at a time.
    pub doing: Option<(Doing, Time)>,
    /// At its second gNB.
    pub away: bool,
    /// Its quota is used up.
    pub wants_grant: bool,
    /// To be made anew once it is deleted.
    pub comes_again: bool,
    /// The number of its charging.
    pub charging_id: u32,
    /// Its records.
    pub account: Account,
    /// Where it was last reached, for the record of one that sleeps.
    pub last_node: Option<IpAddr>,
}

impl Subscriber {
    /// Subscriber `i`, whose session has the number after that.
    pub fn new(i: u32, places: &Places) -> Self {
        let ip4 = places.ip4.map(|first| Ipv4Addr::from_bits(first.to_bits().wrapping_add(i)));
        let ip6 = places.ip6.map(|first| Ipv6Addr::from_bits(first.to_bits().wrapping_add(u128::from(i) << 64)));
        let core = places.core.map(|core| tunnel((Teid(places.gnb_teid_first.wrapping_add(i)), core)));
        Self { session: Session { cp_seid: u64::from(i) + 1, ip4, ip6, core, ..Session::default() }, ..Self::default() }
    }

    /// The same with another number than the session before, or any of another run: reports of those may still come. The
    /// number's lower half says whose it is.
    pub fn after(mut self, before: &Self, run: u32) -> Self {
        self.session.cp_seid = match before.charging_id {
            0 => u64::from(run) << 32 | self.session.cp_seid,
            _ => before.session.cp_seid.wrapping_add(1 << 32),
        };
        self
    }

    /// Whether the user plane has its session and nothing is being done with it.
    pub fn is_free(&self) -> bool {
        matches!(self.state, State::Up | State::Idle) && self.doing.is_none()
    }

    /// Both ends of its tunnel, for the traffic generator.
    pub fn line(&self, i: u32, profile: &Profile) -> Line {
        let (uplink_teid, upf) = match (self.session.uplink_f_teid, profile.own_teids) {
            (Some(FTeid::Given { teid, ip4, ip6 }), _) => (Some(teid.0), ip4.map(IpAddr::V4).or(ip6.map(IpAddr::V6))),
            (_, Some(own)) => (Some(own.first.wrapping_add(i)), Some(own.address)),
            _ => (None, None),
        };
        let access = self.session.access;
        let at = access.and_then(|access| access.ip4.map(IpAddr::V4).or(access.ip6.map(IpAddr::V6)));
        Line {
            ue: i,
            ue_ip4: self.session.ip4,
            ue_ip6: self.session.ip6,
            upf,
            uplink_teid,
            gnb: at,
            downlink_teid: access.and_then(|access| access.teid).map(|teid| teid.0),
            up_seid: self.session.up_f_seid.map_or(0, |f_seid| f_seid.seid),
        }
    }
}

/// The far end of a tunnel, as rules say it.
pub fn tunnel((teid, address): (Teid, IpAddr)) -> OuterHeaderCreation {
    match address {
        IpAddr::V4(ip4) => OuterHeaderCreation::gtp_u(teid, Some(ip4), None),
        IpAddr::V6(ip6) => OuterHeaderCreation::gtp_u(teid, None, Some(ip6)),
    }
}

/// What a traffic generator needs to know of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// The subscriber's number.
    pub ue: u32,
    /// Its address.
    pub ue_ip4: Option<Ipv4Addr>,
    /// Its prefix.
    pub ue_ip6: Option<Ipv6Addr>,
    /// The user plane's end of the tunnel.
    pub upf: Option<IpAddr>,
    /// The identifier there.
    pub uplink_teid: Option<u32>,
    /// The gNB's end.
    pub gnb: Option<IpAddr>,
    /// The identifier there.
    pub downlink_teid: Option<u32>,
    /// The session, as the user plane numbers it.
    pub up_seid: u64,
}
