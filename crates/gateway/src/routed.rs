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

use dataplane::config::{ConfigError, Link, Links, VlanStack};
use dataplane::forward::{Forwarding, Tables};
use dataplane::route::{HasForwarding, HasHop};
use engine::{Burst, Clock, Ctx, Kind, Layout, PortId, Time};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::metrics::Page;
use crate::shell::ports::PortEntry;
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

/// A `[[port]]` section with nothing of a gateway's own.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// What the rest of the configuration calls it.
    pub name: String,
    /// What it is: `packet:eth0`, `xdp:eth0`, …. `{worker}` stands for the worker's number.
    pub uri: String,
    /// Take the interface though the host's default route leads by it or the host has addresses on it.
    #[serde(default)]
    pub claim_interface: bool,
    /// Addresses on it, with prefix length: `10.0.3.1/24`.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// VLAN tags of its frames: one, `100`, or two, the outermost first, `["0x88a8:100", 200]`. Left out: none.
    #[serde(default)]
    pub vlan: Option<VlanStack>,
    /// Priority code point of the tags of frames sent, by class selector (DSCP / 8); left out: 0.
    #[serde(default)]
    pub pcp: Option<[u8; 8]>,
    /// Largest IP packet in bytes; default: the interface's.
    #[serde(default)]
    pub mtu: Option<u16>,
    /// An interface of the host's with the port's addresses, made if there is none: `core0`, or `namespace/core0`. Routing
    /// daemons (FRR) speak over it to the routers of the port's link: BGP, OSPF, IS-IS, BFD. Their routes by it are the
    /// gateway's, and prefixes that the gateway serves are routes of the kernel's for them to redistribute.
    #[serde(default)]
    pub host_interface: Option<String>,
    /// Packets a second to the port's addresses that nothing of the gateway's listens for, such as SSH or SNMP, which the
    /// host gets by `host_interface`; more are dropped as `host_limited`. 0: none of them.
    #[serde(default)]
    #[schemars(range(max = dataplane::config::MOST_HOST_PACKETS))]
    pub host_packets_per_second: u32,
}

/// The only VRF.
const CORE: &str = "core";

impl PortSection for Port {
    fn entry(&self) -> PortEntry<'_> {
        let Self { name, uri, addresses, claim_interface, .. } = self;
        PortEntry {
            name,
            uri,
            role: CORE,
            addresses,
            claim_interface: *claim_interface,
            host_interface: self.host_interface.as_deref(),
            host_packets_per_second: self.host_packets_per_second,
            mtu: self.mtu,
            offloads: Default::default(),
        }
    }

    fn link(&self) -> Link<'_> {
        let Self { name, addresses, vlan, pcp, mtu, host_interface, host_packets_per_second, .. } = self;
        let point_to_point = self.uri.starts_with("tun:");
        let host_interface = host_interface.as_deref();
        Link {
            name,
            instance: CORE,
            addresses,
            point_to_point,
            vlan: vlan.as_ref(),
            pcp: *pcp,
            mtu: *mtu,
            host_interface,
            host_packets_per_second: *host_packets_per_second,
        }
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
