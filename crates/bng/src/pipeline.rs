//! The broadband gateway as lists of stages.
//!
//! ```text
//! access ─► Upstream ─► core                      control protocols ─► slow path: answered, or to control
//! core   ─► Downstream ─► access                  a subscriber's line is its route
//! ```

use dataplane::acl::{Direction, Hits};
use dataplane::mss::ClampMss;
use dataplane::rewrite::RewriteL2;
use dataplane::route::Route;
use engine::{Layout, pipeline};

use crate::lane::Bng;
use crate::steps::{
    Admit, CheckLists, CheckSource, Deliver, FindByAddress, FindByLine, Hairpin, Mark, Meter, ParseAccess, ParseCore,
};

pipeline! {
    /// From subscribers to the core.
    pub struct Upstream("upstream") for Bng {
        rx: ParseAccess, lookup: FindByLine, source: CheckSource, acl: CheckLists, meter: Meter, mark: Mark,
        hairpin: Hairpin, route: Route, mss: ClampMss, out: RewriteL2,
    }
}

pipeline! {
    /// From the core to subscribers.
    pub struct Downstream("downstream") for Bng {
        rx: ParseCore, lookup: FindByAddress, admit: Admit, acl: CheckLists, meter: Meter, mss: ClampMss, out: Deliver,
    }
}

pipeline! {
    /// Messages and fragments of the gateway's own to the core.
    pub struct Answers("answers") for Bng { route: Route, out: RewriteL2 }
}

/// All of them.
pub struct Pipelines {
    /// From subscribers.
    pub upstream: Upstream,
    /// From the core.
    pub downstream: Downstream,
    /// From the gateway itself to the core.
    pub answers: Answers,
}

/// What stages take from the configuration.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Counters of access lists' rules.
    pub hits: Hits,
    /// Largest TCP segment in bytes, by port.
    pub mss: Vec<Option<u16>>,
    /// Some profile marks DSCP.
    pub marks: bool,
}

impl Pipelines {
    /// Assembles the pipelines, their stages entered in `l`.
    pub fn new(l: &mut Layout, with: &Choices) -> Self {
        let lists = |direction| CheckLists::new(direction, &with.hits);
        let mss = || ClampMss::new(&with.mss);
        Self {
            upstream: Upstream::new(
                l,
                ParseAccess,
                FindByLine,
                CheckSource,
                lists(Direction::Up),
                Meter::UP,
                Mark(with.marks),
                Hairpin,
                Route::default(),
                mss(),
                RewriteL2,
            ),
            downstream: Downstream::new(
                l,
                ParseCore,
                FindByAddress,
                Admit,
                lists(Direction::Down),
                Meter::DOWN,
                mss(),
                Deliver,
            ),
            answers: Answers::new(l, Route::default(), RewriteL2),
        }
    }
}
