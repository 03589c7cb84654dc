//! Neighbours as control keeps them: resolution, announcements of our own addresses, changes of the plan.

use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::Mac;

use super::{Forwarding, InstanceId, Plan, Route};
use crate::neighbour::{self, Action, Config, Heard, NeighbourCache, NeighbourMessage, Request, Station, Wanted};

/// A plan, and the neighbours it needs resolved.
pub struct Neighbourhood {
    plan: Plan,
    cache: NeighbourCache,
    actions: Vec<Action>,
    /// Routes of the configuration.
    configured: Vec<Route>,
    /// Routes that routing protocols have told.
    learnt: Vec<Route>,
    /// Next hops of routes that have several.
    alternates: HashSet<(u8, IpAddr)>,
    /// Those of them that are to be asked for, and when, in nanoseconds: no packet would have them asked for while others
    /// answer.
    unasked: (BTreeSet<(u8, IpAddr)>, u64),
    /// The plan has changed since it was published.
    dirty: bool,
}

/// A neighbour that was asked for: the port, its address, and whether it has answered.
pub type Settled = ((u16, IpAddr), bool);

impl Neighbourhood {
    /// Of a plan; its static neighbours are never resolved.
    pub fn new(plan: Plan) -> Self {
        let (mut cache, mut actions) = (NeighbourCache::new(Config::default()), Vec::new());
        for (port, address, mac) in plan.neighbours() {
            cache.set_static((*port).into(), *address, *mac, &mut actions);
        }
        let (configured, alternates) = (plan.routes.clone(), plan.alternates());
        let unasked = (alternates.iter().copied().collect(), 0);
        Self { plan, cache, actions, configured, learnt: Vec::new(), alternates, unasked, dirty: false }
    }

    /// Ports, routes and neighbours as they are.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Replaces the configured routes beside the connected ones; neighbours and tunnels keep their numbers.
    pub fn set_routes(&mut self, routes: Vec<Route>) {
        self.configured = routes;
        self.merge();
    }

    /// Replaces the routes that routing protocols have told. A configured route to the same prefix stands before them,
    /// and so does a port's own prefix. Whether something changed.
    pub fn set_learnt(&mut self, routes: Vec<Route>) -> bool {
        let is_new = self.learnt != routes;
        if is_new {
            self.learnt = routes;
            self.merge();
        }
        is_new
    }

    /// The configured routes, and those in use that were learnt.
    pub fn routes(&self) -> (&[Route], &[Route]) {
        self.plan.routes.split_at(self.configured.len().min(self.plan.routes.len()))
    }

    fn merge(&mut self) {
        let configured: HashSet<_> = self.configured.iter().map(Route::prefix).collect();
        let stands_back = |route: &Route| {
            configured.contains(&route.prefix()) || self.plan.is_connected(route.instance, route.to, route.len)
        };
        let learnt = self.learnt.iter().filter(|route| !stands_back(route));
        let routes: Vec<Route> = self.configured.iter().chain(learnt).copied().collect();
        self.dirty |= self.plan.routes != routes;
        self.plan.routes = routes;
        self.alternates = self.plan.alternates();
        let unknown = self.alternates.iter().filter(|(port, address)| !self.plan.knows(*port, *address));
        self.unasked = (unknown.copied().collect(), 0);
    }

    /// Takes on the hardware address that the interface of a port has now; returns the frames that tell its link so, with
    /// their port. None: it has it already. The link-local address stays what it was: neighbours may route to it.
    pub fn set_port_mac(&mut self, port: u8, mac: Mac) -> Option<Vec<(u8, Vec<u8>)>> {
        let view = self.plan.ports.get_mut(usize::from(port)).filter(|view| view.peer.is_none() && view.mac != mac.0);
        view?.mac = mac.0;
        self.dirty = true;
        Some(self.plan.announcements_of(port.into()))
    }

    /// Neighbours: port, address, state, hardware address.
    pub fn cache(&self) -> &NeighbourCache {
        &self.cache
    }

    /// Takes in what a neighbour said, to us or to everybody.
    pub fn hear(&mut self, port: u8, message: &NeighbourMessage, for_us: bool, now: u64) {
        let Some(heard) = Heard::from_message(message) else { return };
        if for_us {
            self.cache.learn(port.into(), &heard, now, &mut self.actions);
        } else {
            self.cache.heard(port.into(), &heard, now, &mut self.actions);
        }
    }

    /// Wants the neighbour through which an address is reached; which one, and how that stands. None: no way leads there.
    pub fn want(&mut self, instance: InstanceId, address: IpAddr, now: u64) -> Option<((u16, IpAddr), Wanted)> {
        let (port, via) = self.plan.next_hop(instance, address)?;
        if let Some(peer) = self.plan.ports.get(usize::from(port)).and_then(|view| view.peer) {
            return Some(((port.into(), via), Wanted::Known(Mac(peer))));
        }
        let wanted = self.cache.want(port.into(), via, now, &mut self.actions);
        if let Wanted::Known(mac) = wanted {
            self.dirty |= self.plan.set_neighbour(port, via, mac);
        }
        Some(((port.into(), via), wanted))
    }

    /// Wants every neighbour that routes and tunnels lead through, before the first packet needs it; returns those that are
    /// not known yet. As many are asked for at a time as the cache allows: to be called again until none is left, or for as
    /// long as is worth waiting.
    pub fn want_next_hops(&mut self, now: u64) -> Vec<(u8, IpAddr)> {
        let mut unknown = Vec::new();
        let is_resolved = |port: u8| self.plan.ports.get(usize::from(port)).is_some_and(|view| view.peer.is_none());
        for (port, address) in
            self.plan.next_hops().into_iter().filter(|(port, _)| is_resolved(*port)).collect::<Vec<_>>()
        {
            match self.cache.want(port.into(), address, now, &mut self.actions) {
                Wanted::Known(mac) => self.dirty |= self.plan.set_neighbour(port, address, mac),
                Wanted::Asked | Wanted::Unreachable | Wanted::Full => unknown.push((port, address)),
            }
        }
        unknown
    }

    /// Asks again for neighbours that have not answered yet, sooner than RFC 4861 has it: after a start, when links have
    /// just come up.
    pub fn ask_again(&mut self) {
        self.cache.ask_again(&mut self.actions);
    }

    /// Carries out what the cache has decided; `send` is given frames and the ports they go by. Returns who was resolved
    /// and who never answered.
    pub fn act(&mut self, now: u64, mut send: impl FnMut(u8, Vec<u8>)) -> Vec<Settled> {
        self.cache.tick(now, &mut self.actions);
        self.ask_for_alternates(now);
        let mut settled = Vec::new();
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::Send(request) => {
                    if let Some((port, frame)) = self.plan.request(&request) {
                        send(port, frame);
                    }
                }
                Action::Resolved { port, address, mac } => {
                    // Ports are few; the cache was given these numbers by us.
                    self.dirty |= self.plan.set_neighbour(port as u8, address, mac);
                    settled.push(((port, address), true));
                }
                Action::Failed { port, address } => {
                    self.dirty |= self.plan.remove_neighbour(port as u8, address);
                    settled.push(((port, address), false));
                    self.miss(port, address);
                }
                Action::Forgotten { port, address } => {
                    self.dirty |= self.plan.remove_neighbour(port as u8, address);
                    self.miss(port, address);
                }
            }
        }
        settled
    }

    /// Packets go by the other next hops of a route while one is away: its return is noticed by asking again and again.
    fn miss(&mut self, port: u16, address: IpAddr) {
        if self.alternates.contains(&(port as u8, address)) {
            self.unasked.0.insert((port as u8, address));
        }
    }

    fn ask_for_alternates(&mut self, now: u64) {
        const AGAIN: u64 = 1_000_000_000;
        if self.unasked.0.is_empty() || now < self.unasked.1 {
            return;
        }
        let is_link = |port: u8| self.plan.ports.get(usize::from(port)).is_some_and(|view| view.peer.is_none());
        let all = std::mem::take(&mut self.unasked.0);
        for (port, address) in all.into_iter().filter(|(port, _)| is_link(*port)).collect::<Vec<_>>() {
            match self.cache.want(port.into(), address, now, &mut self.actions) {
                Wanted::Known(mac) => self.dirty |= self.plan.set_neighbour(port, address, mac),
                // It is forgotten when it has not answered for a while, and asked for again then.
                Wanted::Asked | Wanted::Unreachable => {}
                Wanted::Full => drop(self.unasked.0.insert((port, address))),
            }
        }
        self.unasked.1 = now + AGAIN;
    }

    /// When [`act`](Self::act) or [`tables`](Self::tables) has something to do next, in nanoseconds; 0: now.
    pub fn next_deadline(&self) -> Option<u64> {
        let is_now = self.dirty || !self.actions.is_empty();
        let unasked = (!self.unasked.0.is_empty()).then_some(self.unasked.1);
        if is_now { Some(0) } else { self.cache.next_deadline().into_iter().chain(unasked).min() }
    }

    /// The number of the tunnel to an address, as [`Plan::tunnel`]; a new one is in the next [`tables`](Self::tables).
    pub fn tunnel(&mut self, instance: InstanceId, to: IpAddr, udp_port: u16) -> Option<u32> {
        let (id, new) = self.plan.tunnel(instance, to, udp_port)?;
        self.dirty |= new;
        Some(id)
    }

    /// Takes a neighbour to be where another gateway found it; it is asked whether it is.
    pub fn suppose(&mut self, port: u8, address: IpAddr, mac: Mac) {
        if usize::from(port) < self.plan.ports.len() {
            self.cache.suppose(port.into(), address, mac, &mut self.actions);
            if let Some((_, Some(mac))) = self.cache.get(port.into(), address) {
                self.dirty |= self.plan.set_neighbour(port, address, mac);
            }
        }
    }

    /// The tables to publish, if the plan has changed since this was asked last.
    pub fn tables(&mut self) -> Option<Forwarding> {
        std::mem::take(&mut self.dirty).then(|| self.plan.compile())
    }
}

impl Plan {
    /// The frame that asks for a neighbour, and its port.
    fn request(&self, request: &Request) -> Option<(u8, Vec<u8>)> {
        let (port, view) = (request.port as u8, self.ports.get(usize::from(request.port))?); // fewer than 256 ports
        let us = Station { mac: Mac(view.mac), tags: self.tags_to(port, request.address) };
        let ours = view.source_for(request.address)?;
        Some((port, neighbour::request(&us, ours, request.address, request.to)?))
    }

    /// Frames that tell the neighbourhood where our addresses are, with their ports: a restart or fail-over may have
    /// changed the hardware address behind them.
    pub fn announcements(&self) -> Vec<(u8, Vec<u8>)> {
        (0..self.ports.len() as u16).flat_map(|port| self.announcements_of(port)).collect() // fewer than 256 ports
    }

    /// The same on one port.
    fn announcements_of(&self, port: u16) -> Vec<(u8, Vec<u8>)> {
        let view = self.ports.get(usize::from(port)).filter(|view| view.peer.is_none());
        let Some(view) = view else { return Vec::new() };
        let mut frames = Vec::new();
        for tags in [view.tags].iter().chain(&view.also) {
            let us = Station { mac: Mac(view.mac), tags: *tags };
            let v4 = view.v4.iter().map(|(address, _)| Ipv4Addr::from(*address).into());
            let v6 = view.v6.iter().map(|(address, _)| Ipv6Addr::from(*address).into());
            let announced = v4.chain(v6).filter_map(|ours| neighbour::announcement(&us, ours));
            frames.extend(announced.map(|frame| (port as u8, frame))); // fewer than 256 ports
        }
        frames
    }
}
