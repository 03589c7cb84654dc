//! DHCPv6 server (RFC 8415) for addresses (IA_NA) and delegated prefixes (IA_PD), direct or behind relay agents and LDRAs.
//!
//! Leases follow the rules of [`crate::dhcp4`]: ADVERTISE is volatile, a REPLY with a new lease waits for its record.

pub(crate) mod message;
#[cfg(test)]
mod tests;

pub use message::{HOP_COUNT_LIMIT, Ia, MAX_IAS, Malformed, Message, Relay, Type, class, is_relayed};

use crate::action::Place;
use crate::dhcp4::counters;
use crate::lease::{Kind, LeaseKey, LeaseRecord};
use crate::pool::{Pools, State};
use crate::{Action, Actions, ClientKey, Line, Ticket, Time, identifier_hash};
pub(crate) use message::{ETHERNET, Options, RELAY_FORW, RELAY_REPL, address};
pub(crate) use message::{code, put};
use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::time::Duration;
use wire::Mac;

/// Longest DUID in bytes, its type included (RFC 8415, 11.1). Replies repeat it, and must fit into a frame.
const MAX_DUID: usize = 130;

/// UDP port of clients (RFC 8415, 7.2).
pub const CLIENT_PORT: u16 = 546;
/// UDP port of servers and relay agents.
pub const SERVER_PORT: u16 = 547;

/// What one subscriber group is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Valid lifetime of addresses and prefixes.
    pub valid: Duration,
    /// Preferred lifetime, at most the valid one. T1 is half of it, T2 is 0.8 of it.
    pub preferred: Duration,
    /// Recursive DNS servers (option 23, RFC 3646), in order of preference.
    pub dns: Vec<Ipv6Addr>,
    /// Whether a SOLICIT with Rapid Commit is granted at once.
    pub rapid_commit: bool,
    /// Whether addresses are leased (IA_NA): not, where they are made from advertised prefixes.
    pub addresses: bool,
}

/// Settings of a server that do not depend on the subscriber group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// DUID of the server (RFC 8415, 11).
    pub duid: Vec<u8>,
    /// How long what was advertised is held for its client.
    pub offer: Duration,
    /// Most records that wait for the store.
    pub max_waiting: usize,
}

/// A datagram received on UDP port 547, with the line that it came by.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Port and VLAN pair that the frame came by.
    pub line: Line,
    /// Number of the subscriber group that the line belongs to.
    pub group: u16,
    /// Source MAC address of the frame, which the reply goes back to: the client's, or a relay agent's that is no LDRA.
    pub source: Mac,
    /// The client's hardware address, by which its leases are kept: that of [`Message::client_mac`] where relay agents are
    /// trusted, else `source`.
    pub client: Mac,
    /// Source address of the IP packet: link-local, or that of a relay agent.
    pub from: Ipv6Addr,
    /// UDP payload, from the `msg-type` octet on (RFC 8415, 8).
    pub octets: &'a [u8],
}

/// A reply to be sent from UDP port 547.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Port and VLAN pair that the reply leaves by.
    pub line: Line,
    /// Where to: the source of the request.
    pub to: (Mac, Ipv6Addr, u16),
    /// Type of the innermost message: Advertise or Reply.
    pub kind: Type,
    /// UDP payload, inside Relay-reply messages where the request came by relay agents.
    pub octets: Vec<u8>,
}

/// Status codes (RFC 8415 clause 21.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Success = 0,
    NoAddrsAvail = 2,
    NoBinding = 3,
    NotOnLink = 4,
    NoPrefixAvail = 6,
}

counters! {
    /// What became of a request. Every request is counted under exactly one of these.
    Outcome {
        Advertised "advertised" "A SOLICIT was answered by an ADVERTISE.";
        Replied "replied" "A REPLY was sent at once.";
        Stored "stored" "The REPLY waits until its leases are stored.";
        Malformed "malformed" "Dropped: the message can't be read.";
        NotARequest "not_a_request" "Dropped: not a message that clients send to servers.";
        NoClientId "no_client_id" "Dropped: no client identifier where there must be one, or one that is too long.";
        OtherServer "other_server" "Dropped: for another server, or with or without a server identifier against RFC 8415 clause 16.";
        UnknownGroup "unknown_group" "Dropped: DHCPv6 is not configured for the line's subscriber group.";
        NothingToConfirm "nothing_to_confirm" "Dropped: a CONFIRM without an address.";
        StoreFull "store_full" "Dropped: too many records wait for the store.";
    }
}

/// The server. Addresses and prefixes come from [`Pools`], which DHCPv4 shares.
pub struct Dhcp6Server {
    config: Config,
    groups: HashMap<u16, Group>,
    actions: Actions<Reply>,
    counts: [u64; Outcome::ALL.len()],
    received: u64,
}

/// What one request asks, with all that its handlers need.
struct Exchange<'a> {
    now: Time,
    request: &'a Request<'a>,
    message: &'a Message<'a>,
    group: &'a Group,
    client: &'a [u8],
}

impl Exchange<'_> {
    fn key(&self, ia: &Ia) -> LeaseKey {
        let identifier = identifier_hash(&[&ia.iaid.to_be_bytes(), self.client]);
        let client = ClientKey { line: self.request.line, mac: self.request.client.0, identifier };
        LeaseKey { kind: ia.kind, client }
    }

    /// An identity association with what was granted.
    fn granted(&self, out: &mut Vec<u8>, pools: &Pools, ia: &Ia, slot: u32) {
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        let preferred = self.group.preferred.min(self.group.valid);
        let mut data = ia.iaid.to_be_bytes().to_vec();
        data.extend_from_slice(&seconds(preferred / 2).to_be_bytes());
        data.extend_from_slice(&seconds(preferred / 5 * 4).to_be_bytes());
        let times = [seconds(preferred).to_be_bytes(), seconds(self.group.valid).to_be_bytes()].concat();
        let address = pools.address(slot).octets();
        match ia.kind {
            Kind::Pd => {
                let prefix = [&times[..], &[pools.prefix_len(slot)], &address].concat();
                put(&mut data, code::IA_PREFIX, &prefix);
                put(out, code::IA_PD, &data);
            }
            _ => {
                put(&mut data, code::IA_ADDR, &[&address[..], &times].concat());
                put(out, code::IA_NA, &data);
            }
        }
    }

    /// An identity association with nothing but a status.
    fn denied(&self, out: &mut Vec<u8>, ia: &Ia, status: Status) {
        let mut data = ia.iaid.to_be_bytes().to_vec();
        data.extend_from_slice(&[0; 8]);
        put(&mut data, code::STATUS, &(status as u16).to_be_bytes());
        put(out, if ia.kind == Kind::Pd { code::IA_PD } else { code::IA_NA }, &data);
    }
}

impl Dhcp6Server {
    /// A server without leases, which serves the subscriber groups of these numbers.
    pub fn new(config: Config, groups: impl IntoIterator<Item = (u16, Group)>) -> Self {
        let groups = groups.into_iter().collect();
        Self { config, groups, actions: Actions::default(), counts: [0; Outcome::ALL.len()], received: 0 }
    }

    /// Goes by the configuration and groups of another server from now on. Leases, counters and what waits for the store stay.
    pub fn follow(&mut self, other: Self) {
        (self.config, self.groups) = (other.config, other.groups);
    }

    /// Requests received so far, dropped ones included.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How many requests had this outcome.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.counts[outcome as usize]
    }

    /// Takes the oldest action that is ready: a reply to send, or a lease to store before its reply is released.
    pub fn next_action(&mut self) -> Option<Action<Reply>> {
        self.actions.next_action()
    }

    /// Records up to `ticket` survive a crash: their REPLYs go out.
    pub fn durable(&mut self, ticket: Ticket) {
        self.actions.durable(ticket);
    }

    /// The store refused a record: the client gets no REPLY, and asks again.
    pub fn not_stored(&mut self, pools: &mut Pools, ticket: Ticket) {
        if let Some((_, slot)) = self.actions.failed(ticket) {
            pools.not_stored(slot);
        }
    }

    /// A granted lease has expired: its record is erased.
    pub(crate) fn expired(&mut self, place: Place, lease: LeaseRecord) {
        self.actions.cancel(place);
        self.actions.erase(lease);
    }

    /// Ends a lease for a reason of the gateway: an administrator, a Disconnect-Request.
    pub fn end(&mut self, pools: &mut Pools, key: &LeaseKey) -> bool {
        let slot = pools.find(key).filter(|slot| pools.lease(*slot).state() != State::Idle);
        let Some(slot) = slot else { return false };
        self.give_back(pools, slot);
        true
    }

    /// Handles one request; replies and records come out of [`Dhcp6Server::next_action`].
    pub fn receive(&mut self, pools: &mut Pools, now: Time, request: &Request<'_>) -> Outcome {
        self.received += 1;
        let outcome = self.handle(pools, now, request).unwrap_or_else(|dropped| dropped);
        self.counts[outcome as usize] += 1;
        outcome
    }

    fn handle(&mut self, pools: &mut Pools, now: Time, request: &Request<'_>) -> Result<Outcome, Outcome> {
        let message = Message::parse(request.octets).map_err(|_| Outcome::Malformed)?;
        let kind = message.kind.ok_or(Outcome::NotARequest)?;
        // RFC 8415 clauses 16.2 to 16.12.
        let ours = message.server.map(|duid| duid == self.config.duid);
        let fits = match kind {
            Type::Solicit | Type::Confirm | Type::Rebind => ours.is_none(),
            Type::InformationRequest => ours != Some(false),
            _ => ours == Some(true),
        };
        if !fits {
            return Err(Outcome::OtherServer);
        }
        let is_duid = |duid: &[u8]| (1..=MAX_DUID).contains(&duid.len());
        if !message.client.is_some_and(is_duid) && (message.client.is_some() || kind != Type::InformationRequest) {
            return Err(Outcome::NoClientId);
        }
        let group = self.groups.get(&request.group).ok_or(Outcome::UnknownGroup)?.clone();
        let client = message.client.unwrap_or_default();
        let exchange = Exchange { now, request, message: &message, group: &group, client };
        match kind {
            Type::Solicit if !(message.rapid_commit && group.rapid_commit) => Ok(self.solicit(pools, &exchange)),
            Type::Solicit | Type::Request => self.bind(pools, &exchange, true),
            Type::Renew | Type::Rebind => self.bind(pools, &exchange, false),
            Type::Release | Type::Decline => Ok(self.give_up(pools, &exchange, kind == Type::Decline)),
            Type::Confirm => self.confirm(pools, &exchange),
            _ => {
                let reply = self.reply(&exchange, Type::Reply, &[]);
                self.actions.send(reply);
                Ok(Outcome::Replied)
            }
        }
    }

    fn reply(&self, exchange: &Exchange<'_>, kind: Type, body: &[u8]) -> Reply {
        let Exchange { request, message, group, client, .. } = exchange;
        let [a, b, c] = message.xid;
        let mut out = vec![kind as u8, a, b, c];
        put(&mut out, code::SERVER_ID, &self.config.duid);
        if message.client.is_some() {
            put(&mut out, code::CLIENT_ID, client);
        }
        out.extend_from_slice(body);
        let dns: Vec<u8> = group.dns.iter().flat_map(|address| address.octets()).collect();
        if !dns.is_empty() {
            put(&mut out, code::DNS, &dns);
        }
        let port = if message.relays.is_empty() { CLIENT_PORT } else { SERVER_PORT };
        let to = (request.source, request.from, port);
        Reply { line: request.line, to, kind, octets: message.wrap(out) }
    }

    /// A slot for an identity association, or why there is none.
    fn offer(&mut self, pools: &mut Pools, exchange: &Exchange<'_>, ia: &Ia) -> Result<u32, Status> {
        let (key, group) = (exchange.key(ia), exchange.request.group);
        if let Some(slot) = pools.find(&key).filter(|slot| pools.group(*slot) != group) {
            self.give_back(pools, slot);
        }
        let none = if ia.kind == Kind::Pd { Status::NoPrefixAvail } else { Status::NoAddrsAvail };
        if ia.kind == Kind::Na && !exchange.group.addresses {
            return Err(none);
        }
        pools.offer(key, group, ia.address.map(Into::into), exchange.now, self.config.offer).map_err(|_| none)
    }

    /// Answers a Solicit with an Advertise, or a Reply with Rapid Commit (RFC 8415, 18.3.9).
    fn solicit(&mut self, pools: &mut Pools, exchange: &Exchange<'_>) -> Outcome {
        let mut body = Vec::new();
        for ia in &exchange.message.ias {
            match self.offer(pools, exchange, ia) {
                Ok(slot) => exchange.granted(&mut body, pools, ia, slot),
                Err(status) => exchange.denied(&mut body, ia, status),
            }
        }
        let reply = self.reply(exchange, Type::Advertise, &body);
        self.actions.send(reply);
        Outcome::Advertised
    }

    /// REQUEST and rapid SOLICIT (`new`), RENEW and REBIND (RFC 8415 clauses 18.3.2, 18.3.4 and 18.3.5).
    fn bind(&mut self, pools: &mut Pools, exchange: &Exchange<'_>, new: bool) -> Result<Outcome, Outcome> {
        if self.actions.waiting() >= self.config.max_waiting {
            return Err(Outcome::StoreFull);
        }
        let valid = exchange.group.valid;
        let (expiry, ahead) = ((exchange.now + valid).secs(), (Time::default() + valid).secs());
        let (mut body, mut places, mut to_store) = (Vec::new(), Vec::new(), Vec::new());
        if new && exchange.message.kind == Some(Type::Solicit) {
            put(&mut body, code::RAPID_COMMIT, &[]);
        }
        for ia in &exchange.message.ias {
            let known = pools.find(&exchange.key(ia)).is_some_and(|slot| {
                let is_same = ia.address.is_none_or(|address| address == pools.address(slot));
                pools.lease(slot).state() != State::Idle || is_same
            });
            if !new && !known {
                exchange.denied(&mut body, ia, Status::NoBinding);
                continue;
            }
            let slot = match self.offer(pools, exchange, ia) {
                Ok(slot) => slot,
                Err(status) => {
                    exchange.denied(&mut body, ia, status);
                    continue;
                }
            };
            pools.take_from_server(slot);
            if pools.grant(slot, expiry, ahead) {
                to_store.push(slot);
            }
            places.push(pools.place(slot));
            exchange.granted(&mut body, pools, ia, slot);
        }
        let reply = self.reply(exchange, Type::Reply, &body);
        if let Some((last, others)) = to_store.split_last() {
            others.iter().for_each(|slot| self.actions.store(pools.place(*slot), pools.record(*slot), None));
            self.actions.store(pools.place(*last), pools.record(*last), Some(reply));
            return Ok(Outcome::Stored);
        }
        if places.iter().any(|place| self.actions.is_waiting(*place)) {
            self.actions.replace(&places, reply);
            return Ok(Outcome::Stored);
        }
        self.actions.send(reply);
        Ok(Outcome::Replied)
    }

    fn give_back(&mut self, pools: &mut Pools, slot: u32) {
        self.actions.cancel(pools.place(slot));
        if pools.lease(slot).state() == State::Bound {
            self.actions.erase(pools.record(slot));
        }
        pools.release(slot);
    }

    /// RELEASE and DECLINE (RFC 8415 clauses 18.3.7 and 18.3.8).
    fn give_up(&mut self, pools: &mut Pools, exchange: &Exchange<'_>, declined: bool) -> Outcome {
        let mut body = Vec::new();
        put(&mut body, code::STATUS, &(Status::Success as u16).to_be_bytes());
        for ia in &exchange.message.ias {
            let key = exchange.key(ia);
            let slot = pools.find(&key).filter(|slot| pools.lease(*slot).state() != State::Idle);
            match slot.filter(|slot| ia.address == Some(pools.address(*slot))) {
                None => exchange.denied(&mut body, ia, Status::NoBinding),
                Some(slot) if declined && ia.kind == Kind::Na && pools.lease(slot).state() == State::Bound => {
                    self.actions.cancel(pools.place(slot));
                    self.actions.erase(pools.record(slot));
                    pools.decline(slot, exchange.now);
                }
                Some(slot) => self.give_back(pools, slot),
            }
        }
        let reply = self.reply(exchange, Type::Reply, &body);
        self.actions.send(reply);
        Outcome::Replied
    }

    /// Answers a Confirm: whether the addresses are on the client's link (RFC 8415, 18.3.3).
    fn confirm(&mut self, pools: &Pools, exchange: &Exchange<'_>) -> Result<Outcome, Outcome> {
        let addresses = || exchange.message.ias.iter().filter(|ia| ia.kind == Kind::Na).filter_map(|ia| ia.address);
        if addresses().next().is_none() {
            return Err(Outcome::NothingToConfirm);
        }
        let here = addresses().all(|address| pools.has(exchange.request.group, Kind::Na, address.into()));
        let status = if here { Status::Success } else { Status::NotOnLink };
        let mut body = Vec::new();
        put(&mut body, code::STATUS, &(status as u16).to_be_bytes());
        let reply = self.reply(exchange, Type::Reply, &body);
        self.actions.send(reply);
        Ok(Outcome::Replied)
    }
}
