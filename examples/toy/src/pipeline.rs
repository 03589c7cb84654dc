//! The gateway as lists of stages.
//!
//! ```text
//! port ─► Routed ─► port        ARP, pings, errors ─► slow path of the shell ─► Ours ─► port
//! ```

use dataplane::forward::NONE;
use dataplane::parse::HasIp;
use dataplane::receive::ReceiveIp;
use dataplane::rewrite::RewriteL2;
use dataplane::route::Route;
use engine::{Burst, Drop, Kind, Punt, Reason, pipelines};
use gateway::routed::State;

use crate::Toy;
use crate::police::Police;

pipelines! {
    /// All pipelines of the toy gateway.
    pub struct Pipelines for ToyKind {
        /// From port to port.
        routed: Routed("routed") { rx: ReceiveIp, police: Police, route: Route, out: RewriteL2 }
        /// ICMP errors and fragments of the gateway's own.
        ours: Ours("ours") { route: Route, out: RewriteL2 }
    }
}

dataplane::lane! {
    /// What the gateway keeps of each packet beside its burst.
    pub struct Lane {
        /// The entry of its source prefix; [`NONE`]: none matches.
        source: u32 = NONE,
    }
}

/// The toy gateway's family of pipelines.
pub struct ToyKind;

impl Kind for ToyKind {
    type Lane = Lane;
    type State = State<Toy>;
    type Config = ();

    const DROPS: &'static [&'static [Reason<Drop>]] = &[engine::drops::ALL, dataplane::drops::ALL, crate::drops::ALL];
    const PUNTS: &'static [&'static [Reason<Punt>]] = &[dataplane::punts::ALL];

    fn describe(burst: &Burst<Self>, i: usize, _: &Self::State) -> String {
        let (ip, source) = (burst.lane.ip(i), burst.lane.source[i]);
        let source = if source == NONE { "no source prefix".to_owned() } else { format!("source prefix {source}") };
        format!("ipv{} len {}, {source}", ip.version, ip.total_len)
    }

    fn forget(lane: &mut Lane, i: usize) {
        lane.source[i] = NONE;
    }
}
