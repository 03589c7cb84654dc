//! The user plane as lists of stages.

use dataplane::acl::{CheckAcl, Direction, Hits};
use dataplane::mss::ClampMss;
use dataplane::nat::{TranslateIn, TranslateOut};
use dataplane::reassemble::CatchFragments;
use dataplane::rewrite::RewriteL2;
use dataplane::route::Route;
use engine::{Layout, pipeline};

use crate::lane::Upf;
use crate::steps::{
    ApplyFar, CheckSource, Checksum6, FindByAddress, FindByTeid, GateAndPolice, GtpuDecap, GtpuEncap, MatchPdr,
    MeasureUsage, ParseOuter, ParsePlain, ParseUser, Resume,
};

pipeline! {
    /// From access (N3, S1-U): out of the tunnel, checked, policed, measured, on to the data network.
    pub struct Uplink("uplink") for Upf {
        outer: ParseOuter, decap: GtpuDecap, session: FindByTeid, user: ParseUser, whole: CatchFragments,
        pdr: MatchPdr, source: CheckSource, police: GateAndPolice, far: ApplyFar, acl: CheckAcl, usage: MeasureUsage,
        nat: TranslateOut, route: Route, mss: ClampMss, encap: GtpuEncap, out: RewriteL2,
    }
}

pipeline! {
    /// From the core (N6, SGi): to its subscriber, policed, measured, into the tunnel.
    pub struct Downlink("downlink") for Upf {
        user: ParsePlain, whole: CatchFragments, nat: TranslateIn, acl: CheckAcl, session: FindByAddress,
        pdr: MatchPdr, police: GateAndPolice, far: ApplyFar, usage: MeasureUsage,
        route: Route, mss: ClampMss, encap: GtpuEncap, out: RewriteL2,
    }
}

pipeline! {
    /// From access, put together of fragments: the rest of the uplink.
    pub struct UplinkWhole("uplink_whole") for Upf {
        session: FindByTeid, pdr: MatchPdr, source: CheckSource, police: GateAndPolice, far: ApplyFar, acl: CheckAcl,
        usage: MeasureUsage, nat: TranslateOut, route: Route, mss: ClampMss, encap: GtpuEncap, out: RewriteL2,
    }
}

pipeline! {
    /// From the core, put together of fragments: the rest of the downlink.
    pub struct DownlinkWhole("downlink_whole") for Upf {
        nat: TranslateIn, acl: CheckAcl, session: FindByAddress, pdr: MatchPdr, police: GateAndPolice, far: ApplyFar,
        usage: MeasureUsage, route: Route, mss: ClampMss, encap: GtpuEncap, out: RewriteL2,
    }
}

pipeline! {
    /// From a subscriber to the public end of another, translated on both sides: as if it had come from the core.
    pub struct Turned("turned") for Upf {
        acl: CheckAcl, session: FindByAddress, pdr: MatchPdr, police: GateAndPolice, far: ApplyFar,
        usage: MeasureUsage, route: Route, mss: ClampMss, encap: GtpuEncap, out: RewriteL2,
    }
}

pipeline! {
    /// What was held (for a paged subscriber, for a neighbour's address) or is of our own making: on its way. What waited
    /// for its subscriber is measured as it goes: usage is what is forwarded.
    pub struct Released("released") for Upf {
        resume: Resume, usage: MeasureUsage, nat: TranslateOut,
        route: Route, mss: ClampMss, encap: GtpuEncap, out: RewriteL2,
    }
}

/// All of them.
pub struct Pipelines {
    /// From access.
    pub uplink: Uplink,
    /// From the core.
    pub downlink: Downlink,
    /// From access, put together.
    pub uplink_whole: UplinkWhole,
    /// From the core, put together.
    pub downlink_whole: DownlinkWhole,
    /// From subscriber to subscriber.
    pub turned: Turned,
    /// From ourselves.
    pub released: Released,
}

/// What stages are told of the configuration.
#[derive(Clone, Debug)]
pub struct Choices {
    /// UDP checksum of tunnels over IPv6.
    pub checksum6: Checksum6,
    /// Where access lists count.
    pub hits: Hits,
    /// The most bytes of a TCP segment, by port.
    pub mss: Vec<Option<u16>>,
    /// Users' fragments are put together.
    pub reassemble: bool,
}

impl Pipelines {
    /// Assembles the pipelines, their stages entered in `layout`.
    #[rustfmt::skip]
    pub fn new(layout: &mut Layout, with: &Choices) -> Self {
        let l = layout;
        let encap = || GtpuEncap { checksum6: with.checksum6 };
        let whole = || CatchFragments(with.reassemble);
        let (up, down) = (|| MatchPdr::new(true), || MatchPdr::new(false));
        let acl_up = || CheckAcl::new(Direction::Up, &with.hits);
        let acl_down = || CheckAcl::new(Direction::Down, &with.hits);
        let (nat_out, nat_in) = (TranslateOut::default, TranslateIn::default);
        let mss = || ClampMss::new(&with.mss);
        Self {
            uplink: Uplink::new(
                l, ParseOuter, GtpuDecap, FindByTeid, ParseUser, whole(), up(), CheckSource, GateAndPolice, ApplyFar,
                acl_up(), MeasureUsage, nat_out(), Route::default(), mss(), encap(), RewriteL2,
            ),
            downlink: Downlink::new(
                l, ParsePlain, whole(), nat_in(), acl_down(), FindByAddress, down(), GateAndPolice, ApplyFar,
                MeasureUsage, Route::default(), mss(), encap(), RewriteL2,
            ),
            uplink_whole: UplinkWhole::new(
                l, FindByTeid, up(), CheckSource, GateAndPolice, ApplyFar, acl_up(), MeasureUsage, nat_out(), Route::default(),
                mss(), encap(), RewriteL2,
            ),
            downlink_whole: DownlinkWhole::new(
                l, nat_in(), acl_down(), FindByAddress, down(), GateAndPolice, ApplyFar, MeasureUsage, Route::default(), mss(),
                encap(), RewriteL2,
            ),
            turned: Turned::new(
                l, acl_down(), FindByAddress, down(), GateAndPolice, ApplyFar, MeasureUsage, Route::default(), mss(), encap(),
                RewriteL2,
            ),
            released: Released::new(
                l, Resume, MeasureUsage, TranslateOut::again(), Route::default(), ClampMss::released(&with.mss), encap(),
                RewriteL2,
            ),
        }
    }
}
