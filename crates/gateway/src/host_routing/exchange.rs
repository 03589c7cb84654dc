//! The kernel's routes and the gateway's: what daemons have found goes into the forwarding tables, what the gateway serves
//! into the kernel's.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use dataplane::forward::{InstanceId, Plan, PortView, Route, Via};
use engine::PortId;
use port::host_tap::{HostRoute, PROTOCOL, Prefix};

use super::view::{Announced, Exchanged, Learnt};
use super::{HostPort, MOST_ROUTES, SHARE, ServedPrefix, Turn};
use crate::shell::Product;
use crate::tables::many;

/// After a failure routes are exchanged again so much later.
const AGAIN: Duration = Duration::from_secs(1);
/// Tables are compiled anew no more often than this, however routes flap.
const APART: Duration = Duration::from_millis(200);

/// What was reported last.
#[derive(Debug, Default)]
pub(super) struct Told {
    learnt: usize,
    refused: usize,
    failed: bool,
}

/// Next hops of a prefix at most.
const MOST_NEXT_HOPS: usize = 64;

/// A route of the kernel's as the gateway takes it: with one next hop, or several that share its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) routes: Vec<Route>,
    pub(super) learnt: Learnt,
}

/// Routes that the gateway takes, the best to each prefix, and how many next hops and routes there are that it cannot. What
/// several ports see of one route of the kernel, which has several next hops, is taken together; of others the first port's.
pub(super) fn take(plan: &Plan, routes: &[(PortId, HostRoute)]) -> (Vec<Taken>, usize) {
    let mut best: BTreeMap<(InstanceId, IpAddr, u8), Taken> = BTreeMap::new();
    let mut refused = 0;
    for (port, found) in routes {
        let HostRoute { to, len, metric, protocol, next_hops, .. } = *found;
        let view = plan.ports.get(usize::from(*port)).filter(|view| !plan.is_connected(view.instance, to, len));
        let route = |view: &PortView, router: IpAddr| {
            Some(Route { instance: view.instance, to, len, via: via(plan, *port, view, router)? })
        };
        let of = |view| found.routers.iter().filter_map(move |router| route(view, *router)).collect();
        let routes: Vec<Route> = view.map(of).unwrap_or_default();
        refused += found.routers.len().max(1) - routes.len();
        let Some(instance) = routes.first().map(|route| route.instance) else { continue };
        let learnt = Learnt { protocol, metric, next_hops, port: *port };
        let entry = best.entry((instance, to, len)).or_insert_with(|| Taken { routes: Vec::new(), learnt });
        let is_part = next_hops > 1 && (entry.learnt.next_hops, entry.learnt.protocol) == (next_hops, protocol);
        match metric.cmp(&entry.learnt.metric) {
            _ if entry.routes.is_empty() => entry.routes = routes,
            Ordering::Less => *entry = Taken { routes, learnt },
            Ordering::Equal if is_part => routes.into_iter().for_each(|route| {
                if !entry.routes.contains(&route) {
                    entry.routes.push(route);
                }
            }),
            Ordering::Equal | Ordering::Greater => {}
        }
        refused += entry.routes.len().saturating_sub(MOST_NEXT_HOPS);
        entry.routes.truncate(MOST_NEXT_HOPS);
    }
    (best.into_values().collect(), refused)
}

/// The way to a router by a port; none: it is not on the port's link.
fn via(plan: &Plan, port: PortId, view: &PortView, router: IpAddr) -> Option<Via> {
    if plan.on_link(view.instance, router) == Some(port) {
        return Some(Via::Gateway(router));
    }
    // Link-local addresses are on the link of every port.
    let is_link_local = matches!(router, IpAddr::V6(router) if router.is_unicast_link_local());
    (is_link_local && !view.v6.is_empty()).then_some(Via::Neighbour { port, address: router })
}

/// The prefixes that the kernel is to have routes to by each of the ports' interfaces: of each VRF, and each namespace, the
/// first one's.
pub(super) fn wanted(
    ports: &[(PortId, Option<&str>)],
    views: &[PortView],
    served: &[ServedPrefix],
) -> Vec<BTreeSet<Prefix>> {
    let mut seen = BTreeSet::new();
    let of_port = |(port, netns): &(PortId, Option<&str>)| {
        let Some(instance) = views.get(usize::from(*port)).map(|view| view.instance) else { return BTreeSet::new() };
        if !seen.insert((instance, netns.map(str::to_owned))) {
            return BTreeSet::new();
        }
        served.iter().filter(|prefix| prefix.instance == instance).map(|prefix| (prefix.to, prefix.len)).collect()
    };
    ports.iter().map(of_port).collect()
}

impl<P: Product> Turn<P> {
    /// Reads the kernel's routes, gives them to the gateway, and brings those to what it serves up to date.
    pub(super) fn exchange(&mut self) {
        let began = Instant::now();
        let (mut found, mut ours, mut count) = (Vec::new(), Vec::new(), 0);
        for HostPort { port, tap } in &self.ports {
            match tap.routes().list(MOST_ROUTES) {
                Ok((routes, all)) => {
                    let (own, others): (Vec<_>, Vec<_>) = routes.into_iter().partition(|r| r.protocol == PROTOCOL);
                    count += all - own.len();
                    ours.push(own.into_iter().map(|route| (route.to, route.len)).collect::<BTreeSet<Prefix>>());
                    found.extend(others.into_iter().map(|route| (*port, route)));
                }
                Err(error) => {
                    let error = format!("reading routes of {}: {error}", tap.place());
                    return self.failed(&error, began);
                }
            }
        }
        let mut left = [MOST_ROUTES; 2];
        found.retain(|(_, route)| {
            let left = &mut left[usize::from(route.to.is_ipv6())];
            let is_taken = *left > 0;
            *left = left.saturating_sub(1);
            is_taken
        });
        let mut taken = (Vec::new(), 0);
        let now = self.observer.shell().now_ns();
        self.observer.with_neighbourhood(&mut |neighbourhood| {
            taken = take(neighbourhood.plan(), &found);
            if neighbourhood.set_learnt(taken.0.iter().flat_map(|taken| taken.routes.iter().copied()).collect()) {
                // Their routers are asked for before the first packet needs them.
                neighbourhood.want_next_hops(now);
            }
        });
        self.observer.shell().call_control();
        let (taken, unusable) = taken;
        self.report(taken.len(), unusable + count.saturating_sub(found.len()));
        let (announced, failed) = self.announce(&ours);
        self.announces = !announced.is_empty();
        let each = |Taken { routes, learnt }: Taken| routes.into_iter().map(move |route| (route, learnt));
        let learnt = taken.into_iter().flat_map(each).collect();
        self.observer.shell().host().set(Exchanged { learnt, announced, refused: self.told.refused });
        if let Some(error) = failed {
            return self.failed(&error, began);
        }
        self.told.failed = false;
        self.not_before = Instant::now() + APART.max(began.elapsed() * SHARE);
    }

    /// Adds and removes routes to what is served; `ours` are those that are there. With the first failure: interfaces that
    /// had one are left out of what is announced.
    fn announce(&self, ours: &[BTreeSet<Prefix>]) -> (Vec<Announced>, Option<String>) {
        let ports: Vec<_> = self.ports.iter().map(|host| (host.port, host.tap.place().netns.as_deref())).collect();
        let wanted = wanted(&ports, &self.views, &self.served);
        let (mut announced, mut failed) = (Vec::new(), None);
        for ((HostPort { tap, .. }, wanted), ours) in self.ports.iter().zip(wanted).zip(ours) {
            let gone: Vec<Prefix> = ours.difference(&wanted).copied().collect();
            let new: Vec<Prefix> = wanted.difference(ours).copied().collect();
            let done = [(false, &gone), (true, &new)].map(|(add, prefixes)| tap.change_routes(add, prefixes));
            if let Some(error) = done.into_iter().find_map(Result::err) {
                failed.get_or_insert(error.to_string());
                continue;
            }
            if !gone.is_empty() || !new.is_empty() {
                tracing::info!(
                    target: "port", event = "prefixes_announced", interface = %tap.place(),
                    added = new.len(), removed = gone.len(), prefixes = wanted.len(),
                    "{} by {}: {} added, {} removed",
                    many(wanted.len(), "route"), tap.place(), new.len(), gone.len()
                );
            }
            let interface = tap.place().to_string();
            announced.extend(wanted.into_iter().map(|(to, len)| Announced { interface: interface.clone(), to, len }));
        }
        (announced, failed)
    }

    /// Reports how many routes there are, when that has changed.
    fn report(&mut self, learnt: usize, refused: usize) {
        if learnt != self.told.learnt {
            tracing::info!(
                target: "port", event = "routes_learnt", routes = learnt,
                "{} of routing daemons in use", many(learnt, "route")
            );
        }
        if refused > self.told.refused {
            tracing::warn!(
                target: "port", event = "routes_refused", routes = refused, most = MOST_ROUTES,
                "{} of routing daemons not taken: the next hop is not on the port's link, the prefix is a port's own, or \
                 there are more than {MOST_ROUTES} routes of a family",
                many(refused, "route")
            );
        }
        (self.told.learnt, self.told.refused) = (learnt, refused);
    }

    /// Tries again in a while.
    fn failed(&mut self, error: &str, began: Instant) {
        if !std::mem::replace(&mut self.told.failed, true) {
            tracing::warn!(target: "port", event = "host_routes_failed", %error, "routes are not exchanged: {error}");
        }
        let now = Instant::now();
        (self.due, self.not_before) = (Some(now), now + AGAIN.max(began.elapsed() * SHARE));
    }

    /// Takes away the routes to what was served.
    pub(super) fn withdraw(&mut self) {
        for HostPort { tap, .. } in &self.ports {
            let Ok((routes, _)) = tap.routes().list(usize::MAX) else { continue };
            let ours = routes.into_iter().filter(|route| route.protocol == PROTOCOL);
            let ours: Vec<Prefix> = ours.map(|route| (route.to, route.len)).collect();
            // With the interface they go in any case.
            let _ = tap.change_routes(false, &ours);
        }
    }
}

/// The fewest prefixes that cover those IPv4 addresses and no others.
pub fn cover4(first: u32, last: u32) -> Vec<Prefix> {
    let bits = |value: u32| u128::from(value) << 96;
    let address = |bits: u128| IpAddr::V4(Ipv4Addr::from((bits >> 96) as u32)); // the upper 32 bits
    cover(bits(first), bits(last) | u128::MAX >> 32, 32).into_iter().map(|(to, len)| (address(to), len)).collect()
}

/// The fewest prefixes that cover those IPv6 addresses and no others.
pub fn cover6(first: u128, last: u128) -> Vec<Prefix> {
    cover(first, last, 128).into_iter().map(|(to, len)| (Ipv6Addr::from(to).into(), len)).collect()
}

/// Over numbers of 128 bits, prefixes of at most `longest` bits.
fn cover(mut first: u128, last: u128, longest: u32) -> Vec<(u128, u8)> {
    let mut prefixes = Vec::new();
    while first <= last {
        let fits = |bits: &u32| {
            let rest = u128::MAX.checked_shr(*bits).unwrap_or(0);
            first & rest == 0 && last - first >= rest
        };
        let len = (0..=longest).find(fits).unwrap_or(longest);
        let rest = u128::MAX.checked_shr(len).unwrap_or(0);
        prefixes.push((first, len as u8)); // 128 at most
        match first.checked_add(rest).and_then(|end| end.checked_add(1)) {
            Some(next) => first = next,
            None => break,
        }
    }
    prefixes
}
