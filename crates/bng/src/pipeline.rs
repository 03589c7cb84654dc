//! The broadband gateway as lists of stages.
//!
//! ```text
//! access ─► Upstream ─► core                      control protocols ─► slow path: answered, or to control
//! core   ─► Downstream ─► access                  a subscriber's line is its route; shaped packets wait in hqos before
//! ```

use dataplane::StageConfig;
use dataplane::acl::Hits;
use dataplane::mss::ClampMss;
use dataplane::nat::{TranslateIn, TranslateOut};
use dataplane::rewrite::RewriteL2;
use dataplane::route::Route;
use engine::pipelines;

use crate::lane::Bng;
use crate::steps::{
    Admit, CheckLists, CheckSource, Deliver, FindByAddress, FindByLine, Garden, Hairpin, Mark, Meter, ParseAccess,
    ParseCore, Shape,
};

const UPSTREAM: bool = true;
const DOWNSTREAM: bool = false;
const HELD: bool = true;

pipelines! {
    /// All pipelines of the broadband gateway.
    pub struct Pipelines for Bng {
        /// From subscribers to the core.
        upstream: Upstream("upstream") {
            rx: ParseAccess, lookup: FindByLine, source: CheckSource, acl: CheckLists<UPSTREAM>, garden: Garden<UPSTREAM>, meter: Meter<UPSTREAM>,
            mark: Mark, hairpin: Hairpin, nat: TranslateOut, route: Route, mss: ClampMss, out: RewriteL2,
        }
        /// From the core to subscribers.
        downstream: Downstream("downstream") {
            rx: ParseCore, nat: TranslateIn, lookup: FindByAddress, admit: Admit, acl: CheckLists<DOWNSTREAM>, garden: Garden<DOWNSTREAM>,
            meter: Meter<DOWNSTREAM>, mss: ClampMss, out: Deliver, shape: Shape,
        }
        /// Messages and fragments of the gateway's own to the core, and packets that have waited for a neighbour.
        answers: Answers("answers") { route: Route, mss: ClampMss<HELD>, out: RewriteL2 }
    }
    between("between") { scheduler: "hqos" }
}

/// What stages are built from.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Counters of access lists' rules; none: no list is configured.
    pub hits: Option<Hits>,
    /// Largest TCP segment in bytes, by port.
    pub mss: Vec<Option<u16>>,
    /// Some profile marks DSCP.
    pub marks: bool,
    /// Some profile has a walled garden.
    pub gardens: bool,
    /// Some profile is shaped.
    pub shapes: bool,
    /// Addresses are translated.
    pub translates: bool,
}

impl StageConfig for Choices {
    fn mss(&self) -> &[Option<u16>] {
        &self.mss
    }

    fn translates(&self) -> bool {
        self.translates
    }
}
