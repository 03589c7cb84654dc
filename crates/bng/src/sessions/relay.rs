//! DHCP relay: requests of lines go to servers in the core, and the leases that those grant become the subscribers'.

use std::net::IpAddr;

use access::dhcp4;
use access::dhcp6::{self, SERVER_PORT};
use access::lease::Kind;
use access::pool::Pools;
use access::relay::{Event, Servers, TransactionLimits, v4, v6};
use access::subscriber::Identity;
use access::{Action, Time};
use wire::Mac;

use super::frames::{Carried, Link, Tags};
use super::{Pending, ReplyPath, Requester, Sessions, frames, served};
use crate::config::{Config, Layout};
use crate::control::Control;
use crate::slow::ControlPacket;

/// Seconds that a restored lease of a server lasts at most.
pub(super) const LONGEST: u32 = 31_536_000;
/// Bytes of a link header without tags.
const LINK_HEADER: usize = 14;

/// The groups whose messages are relayed.
pub(super) struct Groups {
    v4: Vec<(u16, v4::Group)>,
    v6: Vec<(u16, v6::Group)>,
}

impl Groups {
    /// Of a configuration that has been checked.
    pub fn new(config: &Config, layout: &Layout) -> Self {
        let plans = (0..layout.groups.len()).map(|n| config.relay_plan(n, &layout.groups).unwrap_or_default());
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (plan, n) in plans.zip(0..) {
            v4.extend(plan.v4.map(|group| (n, group)));
            v6.extend(plan.v6.map(|group| (n, group)));
        }
        Self { v4, v6 }
    }

    fn servers(&self) -> Vec<(usize, IpAddr)> {
        let v4 = self.v4.iter().flat_map(|(_, group)| group.servers.iter().map(|to| (group.instance, (*to).into())));
        let v6 = self.v6.iter().flat_map(|(_, group)| group.servers.iter().map(|to| (group.instance, (*to).into())));
        v4.chain(v6).collect()
    }
}

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    line: access::Line,
    /// The client's hardware address.
    client: Mac,
    path: ReplyPath,
}

/// The relay agents of both families, and their servers.
pub struct Relays {
    /// The relay agent of DHCPv4.
    pub v4: v4::Relay<Origin>,
    /// The relay agent of DHCPv6.
    pub v6: v6::Relay<Origin>,
    /// Servers of all groups, and which of them answer.
    pub servers: Servers,
    /// Servers whose next hop is still to be asked for.
    unresolved: Vec<(usize, IpAddr)>,
}

impl Relays {
    pub(super) fn new(groups: Groups) -> Self {
        let all = groups.servers();
        let mut servers = Servers::default();
        servers.set(all.iter().copied());
        let limits = TransactionLimits::default();
        Self {
            v4: v4::Relay::new(groups.v4, limits, served::WAITING),
            v6: v6::Relay::new(groups.v6, limits, served::WAITING),
            servers,
            unresolved: all,
        }
    }

    /// Goes by other groups from now on.
    pub(super) fn follow(&mut self, groups: Groups) {
        let all = groups.servers();
        self.servers.set(all.iter().copied());
        self.v4.follow(groups.v4);
        self.v6.follow(groups.v6);
        self.unresolved = all;
    }

    /// The lease in a slot ends without a message: no reply that grants it goes out.
    pub(super) fn cancel(&mut self, pools: &Pools, slot: u32) {
        match pools.lease(slot).key().kind {
            Kind::Ip4 => self.v4.cancel(pools, slot),
            Kind::Na | Kind::Pd => self.v6.cancel(pools, slot),
        }
    }

    /// When requests that wait are looked at.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.v4.next_due().into_iter().chain(self.v6.next_due()).min()
    }
}

impl Sessions {
    /// The relay agents, for their counters.
    pub fn relays(&self) -> &Relays {
        &self.relays
    }

    /// Servers of the core that have granted what a subscriber has.
    pub fn granted_by(&self, handle: u32) -> Vec<IpAddr> {
        let subscriber = self.by_handle.get(&handle).and_then(|identity| self.records.get(identity));
        let mut servers: Vec<_> = subscriber.into_iter().flat_map(|has| has.servers).flatten().collect();
        servers.dedup();
        servers
    }

    /// A turn: what waits for too long is given up, and servers that have become silent are told of.
    pub(super) fn turn_relays(&mut self, control: &mut Control, clock_ns: u64, now: Time) {
        for (instance, server) in std::mem::take(&mut self.relays.unresolved) {
            // Its first request is not to wait for an ARP reply.
            let _ = control.neighbourhood().want(instance as u16, server, clock_ns); // there are no more VRFs
        }
        self.relays.v4.expire(now);
        self.relays.v6.expire(now);
        for event in self.relays.servers.events() {
            match event {
                Event::Silent(server, requests) => tracing::warn!(
                    target: "sessions", event = "dhcp_server_silent", server = %server, requests,
                    "no reply from the DHCP server {server} to {requests} requests"
                ),
                Event::Answers(server) => tracing::info!(
                    target: "sessions", event = "dhcp_server_answers", server = %server,
                    "the DHCP server {server} replies again"
                ),
            }
        }
    }

    /// What the gateway calls a line, to servers.
    fn circuit(&self, control: &Control, line: access::Line) -> String {
        self.line_name(control, &Identity { line, mac: None })
    }

    /// A client's DHCPv4 message. False: it is not relayed.
    pub(super) fn relay4(
        &mut self,
        control: &mut Control,
        request: &dhcp4::Request<'_>,
        path: ReplyPath,
        now: Time,
    ) -> bool {
        let Some(instance) = self.relays.v4.group(request.group).map(|group| group.instance) else { return false };
        let circuit = self.circuit(control, request.line);
        let Some(pools) = self.pools.get_mut(instance) else { return false };
        let relays = &mut self.relays;
        let origin = Origin { line: request.line, client: request.source, path };
        relays.v4.receive_client((pools, &mut relays.servers), now, request, (&circuit, origin));
        self.act_relay4(control, Some(path), now);
        true
    }

    /// As [`relay4`](Self::relay4), of DHCPv6.
    pub(super) fn relay6(
        &mut self,
        control: &mut Control,
        request: &dhcp6::Request<'_>,
        path: ReplyPath,
        now: Time,
    ) -> bool {
        let Some(instance) = self.relays.v6.group(request.group).map(|group| group.instance) else { return false };
        let circuit = self.circuit(control, request.line);
        let Some(pools) = self.pools.get_mut(instance) else { return false };
        let relays = &mut self.relays;
        let origin = Origin { line: request.line, client: request.client, path };
        relays.v6.receive_client((pools, &mut relays.servers), now, request, (&circuit, origin));
        self.act_relay6(control, Some(path), now);
        true
    }

    /// A message of a server.
    pub(super) fn server_replied(&mut self, control: &mut Control, packet: &ControlPacket, now: Time) {
        let port = control.neighbourhood().plan().ports.get(usize::from(packet.line.port));
        let Some(instance) = port.map(|view| usize::from(view.instance)) else { return };
        let relays = &mut self.relays;
        match frames::read(&packet.frame) {
            Some(Carried::Dhcp4(from, octets)) => {
                let received = v4::FromServer { instance, from, octets };
                let (outcome, origin) =
                    relays.v4.receive_server((&mut self.pools, &mut relays.servers), now, &received);
                self.act_relay4(control, origin.map(|origin| origin.path), now);
                let is_granted = matches!(outcome, v4::Outcome::Acknowledged | v4::Outcome::Moved);
                self.renew_prefix_of(origin.filter(|_| is_granted), now);
            }
            Some(Carried::Dhcp6(from, octets)) => {
                let received = v6::FromServer { instance, from, octets };
                let (outcome, origin) =
                    relays.v6.receive_server((&mut self.pools, &mut relays.servers), now, &received);
                self.act_relay6(control, origin.map(|origin| origin.path), now);
                let is_granted = matches!(outcome, v6::Outcome::Replied | v6::Outcome::Moved);
                self.renew_prefix_of(origin.filter(|_| is_granted), now);
            }
            _ => self.counts.unreadable += 1,
        }
    }

    /// A client has a lease of a server: the prefix that it is advertised lasts, too.
    fn renew_prefix_of(&mut self, origin: Option<Origin>, now: Time) {
        if let Some(Origin { line, client, path }) = origin {
            self.renew_prefix(line, path.group, client, path, now);
        }
    }

    /// Carries out what the DHCPv4 relay agent decided; `path` leads back to the client, if there is one to reply to.
    pub(super) fn act_relay4(&mut self, control: &mut Control, path: Option<ReplyPath>, now: Time) {
        while let Some(action) = self.relays.v4.next_action() {
            match (action, path) {
                (Action::Send(v4::Output::ToServer { group, from, to, octets }), _) => {
                    let made = frames::datagram4(&NO_LINK, (from, 67), (to, 67), &octets);
                    to_core(control, group, made);
                }
                (Action::Send(v4::Output::ToClient(reply)), Some(path)) => self.send4(control, &reply, path),
                (Action::Send(v4::Output::ToClient(_)), None) => {}
                (Action::Store(ticket, record), path) => {
                    let path = path.unwrap_or_else(|| ReplyPath::none(record.group));
                    self.put(Pending { requester: Requester::Relay4(ticket), record, path });
                }
                (Action::Erase(record), _) => self.ended(control, &record, now),
            }
        }
    }

    /// As [`act_relay4`](Self::act_relay4).
    pub(super) fn act_relay6(&mut self, control: &mut Control, path: Option<ReplyPath>, now: Time) {
        while let Some(action) = self.relays.v6.next_action() {
            match (action, path) {
                (Action::Send(v6::Output::ToServer { group, from, to, octets }), _) => {
                    let made = frames::datagram6(&NO_LINK, (from, SERVER_PORT), (to, SERVER_PORT), &octets);
                    to_core(control, group, made);
                }
                (Action::Send(v6::Output::ToClient(reply)), Some(path)) => self.send6(control, &reply, path),
                (Action::Send(v6::Output::ToClient(_)), None) => {}
                (Action::Store(ticket, record), path) => {
                    let path = path.unwrap_or_else(|| ReplyPath::none(record.group));
                    self.put(Pending { requester: Requester::Relay6(ticket), record, path });
                }
                (Action::Erase(record), _) => self.ended(control, &record, now),
            }
        }
    }
}

/// A packet to the core has a link header when it has been routed.
const NO_LINK: Link = Link { from: Mac([0; 6]), to: Mac([0; 6]), tags: Tags::NONE };

fn to_core(control: &mut Control, group: u16, frame: Option<Vec<u8>>) {
    if let Some(packet) = frame.and_then(|mut frame| (frame.len() > LINK_HEADER).then(|| frame.split_off(LINK_HEADER)))
    {
        let _ = control.originate(group, packet); // its group is there
    }
}
