//! The user plane as lists of stages.

use dataplane::StageConfig;
use dataplane::acl::{CheckAcl, Hits};
use dataplane::mss::ClampMss;
use dataplane::nat::{TranslateIn, TranslateOut};
use dataplane::reassemble::CatchFragments;
use dataplane::rewrite::RewriteL2;
use dataplane::route::Route;
use engine::pipelines;

use crate::lane::Upf;
use crate::steps::{
    ApplyFar, CheckSource, Checksum6, FindByAddress, FindByTeid, GateAndPolice, GtpuDecap, GtpuEncap, MatchPdr,
    MeasureUsage, ParseOuter, ParsePlain, ParseUser, Resume,
};

const UPLINK: bool = true;
const DOWNLINK: bool = false;
/// Of packets that were held.
const HELD: bool = true;

pipelines! {
    /// All pipelines of the user plane.
    pub struct Pipelines for Upf {
        /// From access (N3, S1-U): out of the tunnel, checked, policed, measured, on to the data network.
        uplink: Uplink("uplink") {
            outer: ParseOuter, decap: GtpuDecap, session: FindByTeid, user: ParseUser, whole: CatchFragments,
            pdr: MatchPdr<UPLINK>, source: CheckSource, police: GateAndPolice, far: ApplyFar, acl: CheckAcl<UPLINK>,
            usage: MeasureUsage, nat: TranslateOut, route: Route, mss: ClampMss, encap: GtpuEncap, out: RewriteL2,
        }
        /// From the core (N6, SGi): to its subscriber, policed, measured, into the tunnel.
        downlink: Downlink("downlink") {
            user: ParsePlain, whole: CatchFragments, nat: TranslateIn, acl: CheckAcl<DOWNLINK>, session: FindByAddress,
            pdr: MatchPdr<DOWNLINK>, police: GateAndPolice, far: ApplyFar, usage: MeasureUsage,
            route: Route, mss: ClampMss, encap: GtpuEncap, out: RewriteL2,
        }
        /// From access, put together of fragments: the rest of the uplink.
        uplink_whole: UplinkWhole("uplink_whole") {
            session: FindByTeid, pdr: MatchPdr<UPLINK>, source: CheckSource, police: GateAndPolice, far: ApplyFar,
            acl: CheckAcl<UPLINK>, usage: MeasureUsage, nat: TranslateOut, route: Route, mss: ClampMss,
            encap: GtpuEncap, out: RewriteL2,
        }
        /// From the core, put together of fragments: the rest of the downlink.
        downlink_whole: DownlinkWhole("downlink_whole") {
            nat: TranslateIn, acl: CheckAcl<DOWNLINK>, session: FindByAddress, pdr: MatchPdr<DOWNLINK>,
            police: GateAndPolice, far: ApplyFar, usage: MeasureUsage, route: Route, mss: ClampMss, encap: GtpuEncap,
            out: RewriteL2,
        }
        /// From a subscriber to the public end of another, translated on both sides: as if it had come from the core.
        hairpin: Hairpin("turned") {
            acl: CheckAcl<DOWNLINK>, session: FindByAddress, pdr: MatchPdr<DOWNLINK>, police: GateAndPolice,
            far: ApplyFar, usage: MeasureUsage, route: Route, mss: ClampMss, encap: GtpuEncap, out: RewriteL2,
        }
        /// What was held (for a paged subscriber, for a neighbour's address) or is of our own making: on its way. What
        /// waited for its subscriber is measured as it goes: usage is what is forwarded.
        released: Released("released") {
            resume: Resume, usage: MeasureUsage, nat: TranslateOut<HELD>, route: Route, mss: ClampMss<HELD>,
            encap: GtpuEncap, out: RewriteL2,
        }
    }
}

/// What stages are built from.
#[derive(Clone, Debug)]
pub struct Choices {
    /// UDP checksum of tunnels over IPv6.
    pub checksum6: Checksum6,
    /// Where access lists count; none: there are no lists.
    pub hits: Option<Hits>,
    /// The most bytes of a TCP segment, by port.
    pub mss: Vec<Option<u16>>,
    /// Users' fragments are put together.
    pub reassemble: bool,
    /// Users' addresses are translated.
    pub translate: bool,
}

impl StageConfig for Choices {
    fn acl_hits(&self) -> Option<&Hits> {
        self.hits.as_ref()
    }

    fn mss(&self) -> &[Option<u16>] {
        &self.mss
    }

    fn reassembles(&self) -> bool {
        self.reassemble
    }

    fn translates(&self) -> bool {
        self.translate
    }
}
