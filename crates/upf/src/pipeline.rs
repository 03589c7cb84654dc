//! The user plane as lists of stages.

use engine::{Layout, pipeline};
use stages::rewrite::RewriteL2;
use stages::route::Route;

use crate::lane::Upf;
use crate::steps::{
    ApplyFar, CheckSource, Checksum6, FindByAddress, FindByTeid, GateAndPolice, GtpuDecap, GtpuEncap, MatchPdr,
    MeasureUsage, ParseOuter, ParsePlain, ParseUser, Resume,
};

pipeline! {
    /// From access (N3, S1-U): out of the tunnel, checked, policed, measured, on to the data network.
    pub struct Uplink("uplink") for Upf {
        outer:   ParseOuter,
        decap:   GtpuDecap,
        session: FindByTeid,
        user:    ParseUser,
        pdr:     MatchPdr,
        source:  CheckSource,
        police:  GateAndPolice,
        far:     ApplyFar,
        usage:   MeasureUsage,
        route:   Route,
        encap:   GtpuEncap,
        out:     RewriteL2,
    }
}

pipeline! {
    /// From the core (N6, SGi): to its subscriber, policed, measured, into the tunnel.
    pub struct Downlink("downlink") for Upf {
        user:    ParsePlain,
        session: FindByAddress,
        pdr:     MatchPdr,
        police:  GateAndPolice,
        far:     ApplyFar,
        usage:   MeasureUsage,
        route:   Route,
        encap:   GtpuEncap,
        out:     RewriteL2,
    }
}

pipeline! {
    /// What was held (for a paged subscriber, for a neighbour's address) or is of our own making: on its way. What waited
    /// for its subscriber is measured as it goes: usage is what is forwarded.
    pub struct Released("released") for Upf {
        resume: Resume,
        usage:  MeasureUsage,
        route:  Route,
        encap:  GtpuEncap,
        out:    RewriteL2,
    }
}

/// The three of them.
pub struct Pipelines {
    /// From access.
    pub uplink: Uplink,
    /// From the core.
    pub downlink: Downlink,
    /// From ourselves.
    pub released: Released,
}

impl Pipelines {
    /// Assembles the pipelines, their stages entered in `layout`.
    pub fn new(layout: &mut Layout, checksum6: Checksum6) -> Self {
        let encap = || GtpuEncap { checksum6 };
        let (up, down) = (true, false);
        Self {
            uplink: Uplink::new(
                layout,
                ParseOuter,
                GtpuDecap,
                FindByTeid,
                ParseUser,
                MatchPdr::new(up),
                CheckSource,
                GateAndPolice,
                ApplyFar,
                MeasureUsage,
                Route,
                encap(),
                RewriteL2,
            ),
            downlink: Downlink::new(
                layout,
                ParsePlain,
                FindByAddress,
                MatchPdr::new(down),
                GateAndPolice,
                ApplyFar,
                MeasureUsage,
                Route,
                encap(),
                RewriteL2,
            ),
            released: Released::new(layout, Resume, MeasureUsage, Route, encap(), RewriteL2),
        }
    }
}
