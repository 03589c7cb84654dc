//! A gateway whose control has no state of its own but ports, routes and neighbours: it brings stages, a configuration and a
//! report, and this module the rest. `examples/toy` is one, and its README the tutorial.
//!
//! | file | idea |
//! |---|---|
//! | `plane.rs` | a worker's gateway |
//! | `slow.rs` | what leaves its pipelines: ARP, neighbour discovery, pings, ICMP errors, fragments |
//! | `router.rs` | control: neighbours, routes, the workers' report |
//! | `report.rs` | that report as a view of `weir show` |

mod plane;
mod report;
mod router;
mod slow;

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use dataplane::config::{ConfigError, Links};
use dataplane::forward::{Forwarding, Tables};
use dataplane::route::{HasForwarding, HasHop};
use engine::{Burst, Clock, Ctx, Kind, Layout, PortId, Time};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::metrics::Page;
use crate::shell::reload::LiveKey;
use crate::shell::rest::ControlWaker;
use crate::shell::{Gateway, Loaded, Opened, PortSection, Process, Sections, StartError, WorkerInit, WorkerInits};
use crate::show::View;
use crate::socket::{RawAnswer, RawRequest};
use crate::watch::Vitals;

pub use plane::Plane;
pub use report::Report;
pub use router::{AssembleError, Control, Router, assemble};

/// A gateway of this kind. What has a default is not needed.
pub trait Routed: Sized + Send + Sync + 'static {
    /// What configurations call it.
    const NAME: &'static str;
    /// What it is, in words, with an article: `a policing router`.
    const TITLE: &'static str;
    /// Topics that it adds to `weir show`.
    const VIEWS: &'static [View] = &[];
    /// Subsystems of its own that emit events, each with a level.
    const LOG_TARGETS: &'static [&'static str] = &[];
    /// Configurations that the reference is illustrated from.
    const EXAMPLES: &'static [&'static str] = &[];
    /// What an operator writes, as [`configuration!`](crate::configuration) declares it.
    type Config: Sections + DeserializeOwned + Serialize + JsonSchema + Clone + Send + Sync;
    /// Its family of pipelines. Its [`Kind::Config`] is what stages are built from.
    type Kind: Kind<State = State<Self>, Lane: HasHop>;
    /// Its pipelines, one for each [`Origin`].
    type Pipelines: Send;
    /// What each worker owns beside forwarding tables.
    type Own: Send;
    /// Topic and help of [`Report`], if it is among the views.
    const REPORT: (&'static str, &'static str) = ("report", "What the workers count beside packets");
    /// A row of what workers report: metrics and the view [`Report`] are made from these. Of a gateway without, `()`.
    type Row: Serialize + DeserializeOwned + JsonSchema + Send;

    /// Checks what types and the shell do not.
    ///
    /// # Errors
    /// The first thing that is invalid, by key.
    fn check(_config: &Self::Config) -> Result<(), ConfigError> {
        Ok(())
    }

    /// A worker's pipelines, entered in `layout`, and what it owns.
    fn build(config: &Self::Config, worker: u16, layout: &mut Layout) -> (Self::Pipelines, Self::Own);

    /// Runs a burst through the pipeline for its origin.
    fn run<C: Clock>(
        pipelines: &mut Self::Pipelines,
        origin: Origin,
        burst: &mut Burst<Self::Kind>,
        cx: &mut Ctx<'_, Self::Kind>,
    );

    /// The worker that owns an IP packet, among several; none: whichever received it. Called for every packet.
    fn owner(_own: &Self::Own, _packet: &[u8]) -> Option<u16> {
        None
    }

    /// The report's rows before any worker has added to them.
    fn rows(_config: &Self::Config) -> Vec<Self::Row> {
        Vec::new()
    }

    /// Adds what a worker knows to the rows. Runs on the worker: without allocation.
    fn add(_own: &Self::Own, _rows: &mut [Self::Row]) {}

    /// The answer to a request that only this gateway has; none: it is unknown.
    fn answer(_router: &Router<Self>, _asked: &RawRequest) -> Option<RawAnswer> {
        None
    }

    /// The metric families that only this gateway has.
    fn metrics(_rows: &[Self::Row], _page: &mut Page) {}
}

/// Where a burst comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Received by this port.
    Port(PortId),
    /// The gateway itself: IP packets without link header, their lane filled in, to be routed and sent.
    Us,
}

/// What a worker's stages share.
pub struct State<R: Routed> {
    /// Forwarding tables as this worker has taken them.
    pub tables: Tables,
    /// What the gateway adds.
    pub own: R::Own,
}

impl<R: Routed> HasForwarding for State<R> {
    #[inline]
    fn forwarding(&self) -> &Forwarding {
        self.tables.in_hand()
    }
}

crate::port_section! {
    /// A `[[port]]` section with nothing of a gateway's own.
    pub struct Port {}
}

/// The only VRF.
const CORE: &str = "core";

impl PortSection for Port {
    fn role(&self) -> &'static str {
        CORE
    }

    fn instance(&self) -> &str {
        CORE
    }
}

/// The links around a gateway with one VRF.
fn links(config: &impl Sections) -> Links<'_> {
    config.links_among(vec![CORE.to_owned()], CORE)
}

/// A [`Routed`] gateway as the shell starts it.
pub struct RoutedGateway<R>(PhantomData<R>);

impl<R: Routed> Gateway for RoutedGateway<R> {
    const NAME: &'static str = R::NAME;
    const TITLE: &'static str = R::TITLE;
    const VIEWS: &'static [View] = R::VIEWS;
    const LOG_TARGETS: &'static [&'static str] = R::LOG_TARGETS;
    const LIVE: &'static [LiveKey] = &[LiveKey { key: "route", help: "Forwarding tables are published anew." }];
    const EXAMPLES: &'static [&'static str] = R::EXAMPLES;
    const SHARES_DEVICES: Result<(), &'static str> = Ok(());
    type Config = R::Config;
    type Product = Router<R>;

    fn check(config: &R::Config) -> Result<(), ConfigError> {
        config.check_sections::<Self>()?;
        links(config).check()?;
        R::check(config)
    }

    fn begin(
        _loaded: &Loaded<Self>,
        standby: bool,
        _stop: &AtomicBool,
    ) -> anyhow::Result<Option<(Self, Option<Instant>)>> {
        anyhow::ensure!(!standby, "{} has no standby: run it without --standby", R::TITLE);
        Ok(Some((Self(PhantomData), None)))
    }

    fn start(
        &mut self,
        loaded: &Loaded<Self>,
        opened: Opened,
        vitals: Arc<Vitals>,
    ) -> Result<Process<Router<R>>, StartError> {
        let (control, workers) = assemble::<R>(&loaded.config, opened.caps()).map_err(|error| match error {
            AssembleError::Config(error) => StartError::Config(loaded.wrong(&error)),
            AssembleError::Waker(error) => StartError::Descriptors(error),
        })?;
        let all = WorkerInits {
            workers,
            time: Time::real(),
            waker: ControlWaker::new(control.waker().clone()),
            sockets: Vec::new(),
            vitals,
        };
        let process = opened.start(loaded, all, |shell| Router::new(shell, loaded.config.clone(), control))?;
        // Its addresses are announced at once.
        process.turn();
        Ok(process)
    }

    fn apply(config: &R::Config, _keys: &[&str], router: &Router<R>, check: bool) -> Result<(), ConfigError> {
        router.apply_routes(config, check)
    }
}

/// A worker before it has ports.
pub type Init<R> = WorkerInit<Plane<R>>;
