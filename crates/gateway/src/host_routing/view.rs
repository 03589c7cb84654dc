//! `weir show routes`: every route in use and where it is from, and what is announced.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};

use dataplane::forward::{InstanceId, Neighbourhood, Route, Via, prefix4, prefix6};
use engine::PortId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::frames::FromHost;
use crate::shell::Product;
use crate::tables::{Style, Table, count};

/// What a route of the kernel's says beside its next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Learnt {
    /// Who entered it, as rt_protos has it.
    pub protocol: u8,
    pub metric: u32,
    /// Next hops it has in the kernel.
    pub next_hops: u32,
    pub port: PortId,
}

/// A route of the gateway's in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    pub interface: String,
    pub to: IpAddr,
    pub len: u8,
}

/// What was exchanged last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchanged {
    pub learnt: Vec<(Route, Learnt)>,
    pub announced: Vec<Announced>,
    pub refused: usize,
}

/// The same, shared with whoever shows it.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<(Exchanged, FramesView)>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, (Exchanged, FramesView)> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn set(&self, exchanged: Exchanged) {
        self.lock().0 = exchanged;
    }

    pub(super) fn note_frames(&self, FromHost { sent, limited, refused, .. }: &FromHost) {
        self.lock().1 = FramesView { sent: *sent, limited: *limited, refused: *refused };
    }
}

/// Routes in use, and what is announced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoutesView {
    /// Connected, configured and learnt routes, in this order.
    pub routes: Vec<RouteView>,
    /// Prefixes that the gateway serves and has routes to in the kernel, for routing daemons to redistribute.
    pub announced: Vec<AnnouncedView>,
    /// Routes of routing daemons that were not taken: more than 65,536, or with a next hop that is not on the port's link.
    pub refused_routes: u64,
    /// Frames that routing daemons sent.
    pub from_host: FramesView,
}

/// A route in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteView {
    /// The VRF.
    pub instance: String,
    /// Its destination.
    pub prefix: String,
    /// The router; none: the destination is on the port's link.
    pub next_hop: Option<IpAddr>,
    /// The port that packets leave by.
    pub port: Option<String>,
    /// `connected`, `configured`, or the protocol that the kernel has it from: `bgp`, `ospf`, `isis`, `static`, or a number
    /// of rt_protos.
    pub source: String,
    /// The kernel's metric of a learnt one.
    pub metric: Option<u32>,
    /// Next hops that a learnt one has in the kernel, by all interfaces; each that is used has a row.
    pub kernel_next_hops: Option<u32>,
    /// The router's hardware address is known.
    pub is_resolved: bool,
}

/// A prefix that the gateway serves, as a route in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnnouncedView {
    /// The prefix.
    pub prefix: String,
    /// The host interface that the route is by.
    pub host_interface: String,
}

/// Frames that routing daemons sent by host interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FramesView {
    /// Sent on by the ports.
    #[serde(rename = "sent_packets")]
    pub sent: u64,
    /// Dropped: more than 20,000 a second.
    #[serde(rename = "limited_packets")]
    pub limited: u64,
    /// Dropped: not from the port's hardware address, or autoconfiguration of the host.
    #[serde(rename = "refused_packets")]
    pub refused: u64,
}

/// What a gateway's tables have, beside what was exchanged with the host.
pub(crate) fn answer(product: &impl Product) -> RoutesView {
    let (exchanged, from_host) = product.shell().host().lock().clone();
    let names = product.instances();
    let mut routes = Vec::new();
    product.with_neighbourhood(&mut |neighbourhood| routes = list(neighbourhood, &names, &exchanged));
    let announced = exchanged.announced.iter().map(|announced| AnnouncedView {
        prefix: format!("{}/{}", announced.to, announced.len),
        host_interface: announced.interface.clone(),
    });
    RoutesView { routes, announced: announced.collect(), refused_routes: exchanged.refused as u64, from_host }
}

fn list(neighbourhood: &Neighbourhood, names: &[String], exchanged: &Exchanged) -> Vec<RouteView> {
    let plan = neighbourhood.plan();
    let key = |route: &Route| (route.instance, route.to, route.len);
    let learnt: HashMap<(InstanceId, IpAddr, u8), Learnt> =
        exchanged.learnt.iter().map(|(route, learnt)| (key(route), *learnt)).collect();
    let name = |id: InstanceId| names.get(usize::from(id)).cloned().unwrap_or_else(|| id.to_string());
    let port_name = |port: u8| plan.ports.get(usize::from(port)).map(|view| view.name.clone());
    let mut views = Vec::new();
    for port in &plan.ports {
        let v4 = port.v4.iter().map(|(to, len)| (IpAddr::from(prefix4(*to, *len).to_be_bytes()), *len));
        let v6 = port.v6.iter().map(|(to, len)| (IpAddr::from(prefix6(*to, *len).to_be_bytes()), *len));
        views.extend(v4.chain(v6).map(|(to, len)| RouteView {
            instance: name(port.instance),
            prefix: format!("{to}/{len}"),
            next_hop: None,
            port: Some(port.name.clone()),
            source: "connected".to_owned(),
            metric: None,
            kernel_next_hops: None,
            is_resolved: true,
        }));
    }
    let (configured, others) = neighbourhood.routes();
    let all = configured.iter().map(|route| (route, true)).chain(others.iter().map(|route| (route, false)));
    for (route, is_configured) in all {
        let (port, next_hop) = match route.via {
            Via::Gateway(router) => (plan.on_link(route.instance, router), Some(router)),
            Via::Neighbour { port, address } => (Some(port), Some(address)),
            Via::Port(port) => (Some(port), None),
        };
        let known = learnt.get(&key(route)).filter(|_| !is_configured);
        let is_resolved = match (port, next_hop) {
            (Some(port), Some(router)) => plan.knows(port, router),
            (port, _) => port.is_some(),
        };
        let source =
            if is_configured { "configured".to_owned() } else { protocol(known.map_or(0, |known| known.protocol)) };
        views.push(RouteView {
            instance: name(route.instance),
            prefix: format!("{}/{}", route.to, route.len),
            next_hop,
            port: port.and_then(port_name),
            source,
            metric: known.map(|known| known.metric),
            kernel_next_hops: known.map(|known| known.next_hops),
            is_resolved,
        });
    }
    views
}

/// The name of a protocol number, as iproute2's rt_protos has it.
fn protocol(number: u8) -> String {
    let name = match number {
        3 => "boot",
        4 | 196 => "static",
        11 => "zebra",
        12 => "bird",
        16 => "dhcp",
        42 => "babel",
        186 => "bgp",
        187 => "isis",
        188 => "ospf",
        189 => "rip",
        192 => "eigrp",
        other => return format!("protocol {other}"),
    };
    name.to_owned()
}

/// The tables of `weir show routes`.
pub(crate) fn text(view: &RoutesView, style: Style) -> String {
    let mut table = Table::new(&["VRF", "prefix", "next hop", "port", "from", ">metric", ">next hops", "neighbour"]);
    for route in &view.routes {
        let number = |value: Option<u32>| value.map(|value| value.to_string()).unwrap_or_default();
        table.row([
            route.instance.clone(),
            route.prefix.clone(),
            route.next_hop.map(|router| router.to_string()).unwrap_or_default(),
            route.port.clone().unwrap_or_default(),
            route.source.clone(),
            number(route.metric),
            number(route.kernel_next_hops),
            if route.is_resolved { "known" } else { "not known" }.to_owned(),
        ]);
    }
    let mut out = table.render(style);
    if !view.announced.is_empty() {
        let mut table = Table::new(&["announced prefix", "by host interface"]);
        for announced in &view.announced {
            table.row([announced.prefix.clone(), announced.host_interface.clone()]);
        }
        out.push('\n');
        out += &table.render(style);
    }
    let FramesView { sent, limited, refused } = view.from_host;
    if sent + limited + refused > 0 {
        let [sent, limited, refused] = [sent, limited, refused].map(count);
        out += &format!("\nframes of routing daemons: {sent} sent, {limited} over the limit, {refused} refused\n");
    }
    if view.refused_routes > 0 {
        out += &format!("routes of routing daemons not taken: {}\n", count(view.refused_routes));
    }
    out
}
