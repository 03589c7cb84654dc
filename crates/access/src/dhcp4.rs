//! DHCPv4 server (RFC 2131, RFC 2132) for clients on access lines, direct or behind a relay agent.
//!
//! ```text
//! DISCOVER ─► offered (volatile) ─► REQUEST ─► Store(ticket) ─► durable(ticket) ─► ACK
//!                                   renewal ─► ACK at once, unless the stored expiry would be too early
//! ```
//! What is stored ends one lease later than what the client is told, so that two of three renewals at T1 write nothing.

mod message;
mod reply;
#[cfg(test)]
mod tests;

pub(crate) use message::{MAGIC, Options as Tlvs};
pub use message::{Malformed, Message, Type, class};
pub use reply::{BadOption, Destination, Options, Reply};

use crate::action::Place;
use crate::lease::{Kind, LeaseKey, LeaseRecord};
use crate::option82::RelayAgent;
use crate::pool::{NotRestored, Pools, Refusal, State};
use crate::{Action, Actions, ClientKey, Line, Ticket, Time, identifier_hash};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::Mac;

/// What one subscriber group is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Server identifier (option 54) and source of replies.
    pub server: Ipv4Addr,
    /// Lease time (option 51).
    pub lease: Duration,
    /// Options that every OFFER and ACK of the group carries.
    pub options: Options,
}

/// Settings of a server that do not depend on the subscriber group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long an offered address is held for its client.
    pub offer: Duration,
    /// Whether unknown clients that ask for an address are refused at once (NAK) instead of left without an answer.
    pub authoritative: bool,
    /// Most replies that wait for the store; REQUESTs beyond are dropped, and renewed by the client.
    pub max_waiting: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { offer: Duration::from_secs(10), authoritative: true, max_waiting: 65_536 }
    }
}

/// A datagram received on UDP port 67, with the line that it came by.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Port and VLAN pair that the frame came by.
    pub line: Line,
    /// Number of the subscriber group that the line belongs to.
    pub group: u16,
    /// Source MAC address of the frame.
    pub source: Mac,
    /// Source address of the IP packet.
    pub from: Ipv4Addr,
    /// Relay agents on the line are trusted: a router may have forwarded what clients send to the server's address.
    pub routed: bool,
    /// UDP payload, from the `op` octet on (RFC 2131, 2).
    pub octets: &'a [u8],
}

macro_rules! counters {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $id:literal $help:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $(#[doc = $help] $variant,)* }

        impl $name {
            /// Every reason, in the order of the counters.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Identifier in counters, snake_case; it does not change between releases.
            pub fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }

            /// Meaning of the counter, one sentence.
            pub fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)* }
            }
        }
    };
}
pub(crate) use counters;

counters! {
    /// What became of a request. Every request is counted under exactly one of these.
    Outcome {
        Offered "offered" "A DISCOVER was answered by an OFFER.";
        Acknowledged "acknowledged" "A REQUEST was answered by an ACK at once.";
        Stored "stored" "The ACK to a REQUEST waits until the lease is stored.";
        Refused "refused" "A REQUEST was answered by a NAK.";
        Informed "informed" "An INFORM was answered.";
        Released "released" "A lease was given back.";
        Declined "declined" "A client found its address in use: the address is in quarantine.";
        Malformed "malformed" "Dropped: the message can't be read.";
        NotARequest "not_a_request" "Dropped: not a BOOTREQUEST of an Ethernet client with a known message type.";
        UnknownGroup "unknown_group" "Dropped: DHCP is not configured for the line's subscriber group.";
        HardwareAddress "hardware_address" "Dropped: chaddr is not the frame's source address, and no lease tells whose the message is.";
        OtherServer "other_server" "Dropped: the client chose another server.";
        UnknownClient "unknown_client" "Dropped: no lease of this client; another server may have it.";
        NotTheLease "not_the_lease" "Dropped: RELEASE or DECLINE of an address that is not the client's, from another address, or by another circuit ID.";
        NoPool "no_pool" "Dropped: the subscriber group has no IPv4 pool.";
        Exhausted "exhausted" "Dropped: all addresses of the subscriber group are leased.";
        LineLimit "line_limit" "Dropped: the line has as many leases as it may.";
        PairLimit "pair_limit" "Dropped: the shared VLAN pair has as many leases as it may.";
        PortLimit "port_limit" "Dropped: the port has as many leases as it may.";
        StoreFull "store_full" "Dropped: too many replies wait for the store.";
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoPool => Self::NoPool,
            Refusal::Exhausted => Self::Exhausted,
            Refusal::LineLimit => Self::LineLimit,
            Refusal::PairLimit => Self::PairLimit,
            Refusal::PortLimit => Self::PortLimit,
        }
    }
}

struct Served {
    group: Group,
    /// Encoded options that do not depend on the client.
    fixed: Vec<u8>,
}

/// The server. Addresses come from [`Pools`], which DHCPv6 shares.
pub struct Dhcp4Server {
    config: Config,
    groups: HashMap<u16, Served>,
    actions: Actions<Reply>,
    counts: [u64; Outcome::ALL.len()],
    received: u64,
}

impl Dhcp4Server {
    /// A server without leases, which serves the subscriber groups of these numbers.
    pub fn new(config: Config, groups: impl IntoIterator<Item = (u16, Group)>) -> Result<Self, BadOption> {
        let groups = groups
            .into_iter()
            .map(|(id, group)| {
                let fixed = group.options.encode(group.lease)?;
                Ok((id, Served { group, fixed }))
            })
            .collect::<Result<_, BadOption>>()?;
        Ok(Self { config, groups, actions: Actions::default(), counts: [0; Outcome::ALL.len()], received: 0 })
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

    /// ACKs that wait for the store.
    pub fn waiting(&self) -> usize {
        self.actions.waiting()
    }

    /// Records up to `ticket` survive a crash: their ACKs go out.
    pub fn durable(&mut self, ticket: Ticket) {
        self.actions.durable(ticket);
    }

    /// The store refused a record: the client gets no ACK, and asks again.
    pub fn not_stored(&mut self, pools: &mut Pools, ticket: Ticket) {
        if let Some((_, slot)) = self.actions.failed(ticket) {
            pools.not_stored(slot);
        }
    }

    /// Takes over stored IPv4 leases at start.
    pub fn restore(&self, pools: &mut Pools, record: &LeaseRecord, now: Time) -> Result<(), NotRestored> {
        pools.restore(record, now).map(|_| ())
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

    /// Handles one request; replies and records come out of [`Dhcp4Server::next_action`].
    pub fn receive(&mut self, pools: &mut Pools, now: Time, request: &Request<'_>) -> Outcome {
        self.received += 1;
        let outcome = self.handle(pools, now, request).unwrap_or_else(|dropped| dropped);
        self.counts[outcome as usize] += 1;
        outcome
    }

    fn handle(&mut self, pools: &mut Pools, now: Time, request: &Request<'_>) -> Result<Outcome, Outcome> {
        let message = Message::parse(request.octets).map_err(|error| match error {
            Malformed::Unreadable => Outcome::Malformed,
            Malformed::NotARequest => Outcome::NotARequest,
        })?;
        if !self.groups.contains_key(&request.group) {
            return Err(Outcome::UnknownGroup);
        }
        let identifier = message.client_id.map_or(0, |id| identifier_hash(&[id]));
        let client = ClientKey { line: request.line, mac: message.chaddr.0, identifier };
        let key = LeaseKey { kind: Kind::Ip4, client };
        if message.giaddr.is_unspecified()
            && message.chaddr != request.source
            && !is_routed(pools, request, &message, &key)
        {
            return Err(Outcome::HardwareAddress);
        }
        match message.kind {
            Type::Discover => self.discover(pools, now, request, &message, key),
            Type::Request => self.request(pools, now, request, &message, key),
            Type::Release => self.release(pools, request, &message, &key),
            Type::Decline => self.decline(pools, now, request, &message, &key),
            Type::Inform => {
                let reply = self.reply(request, &message, Type::Ack).inform();
                self.actions.send(reply);
                Ok(Outcome::Informed)
            }
            Type::Offer | Type::Ack | Type::Nak => Err(Outcome::NotARequest),
        }
    }

    /// Answers a DISCOVER with an OFFER (RFC 2131, 4.3.1).
    fn discover(
        &mut self,
        pools: &mut Pools,
        now: Time,
        request: &Request<'_>,
        message: &Message<'_>,
        key: LeaseKey,
    ) -> Result<Outcome, Outcome> {
        if let Some(slot) = pools.find(&key).filter(|slot| pools.group(*slot) != request.group) {
            self.give_back(pools, slot);
        }
        let wanted = message.requested.map(Into::into);
        let slot = pools.offer(key, request.group, wanted, now, self.config.offer)?;
        let address = pools.ip4(slot).ok_or(Outcome::NoPool)?;
        let reply = self.reply(request, message, Type::Offer).lease(address);
        self.actions.send(reply);
        Ok(Outcome::Offered)
    }

    /// RFC 2131 clause 4.3.2: which state the client is in follows from the fields it filled.
    fn request(
        &mut self,
        pools: &mut Pools,
        now: Time,
        request: &Request<'_>,
        message: &Message<'_>,
        key: LeaseKey,
    ) -> Result<Outcome, Outcome> {
        let live = pools.find(&key).filter(|slot| pools.lease(*slot).state() != State::Idle);
        if let Some(server) = message.server
            && server != self.groups[&request.group].group.server
        {
            // SELECTING: the client took another server's offer.
            if let Some(slot) = live.filter(|slot| pools.lease(*slot).state() == State::Offered) {
                pools.release(slot);
            }
            return Err(Outcome::OtherServer);
        }
        let asked = if message.ciaddr.is_unspecified() { message.requested } else { Some(message.ciaddr) };
        let asked = asked.ok_or(Outcome::NotARequest)?;
        let mut slot = live.filter(|slot| pools.ip4(*slot) == Some(asked));
        if slot.is_none() && live.is_none() && message.server.is_none() {
            // INIT-REBOOT, RENEWING or REBINDING after the lease ended: the same address again, if it is still free.
            let remembered = pools.find(&key).is_some_and(|slot| pools.ip4(slot) == Some(asked));
            if remembered {
                slot = Some(pools.offer(key, request.group, None, now, self.config.offer)?);
            }
        }
        let Some(slot) = slot else {
            let known = live.is_some() || message.server.is_some();
            let here = pools.has(request.group, Kind::Ip4, asked.into());
            if known || !here || self.config.authoritative {
                let reply = self.reply(request, message, Type::Nak).refuse();
                self.actions.send(reply);
                return Ok(Outcome::Refused);
            }
            return Err(Outcome::UnknownClient);
        };
        self.grant(pools, now, request, message, slot, asked)
    }

    fn grant(
        &mut self,
        pools: &mut Pools,
        now: Time,
        request: &Request<'_>,
        message: &Message<'_>,
        slot: u32,
        address: Ipv4Addr,
    ) -> Result<Outcome, Outcome> {
        let lease = self.groups[&request.group].group.lease;
        let expiry = (now + lease).secs();
        if self.actions.waiting() >= self.config.max_waiting && pools.lease(slot).stored() < expiry {
            return Err(Outcome::StoreFull);
        }
        let reply = self.reply(request, message, Type::Ack).lease(address);
        mark(request, message).into_iter().for_each(|mark| pools.mark(slot, mark));
        pools.take_from_server(slot);
        if pools.grant(slot, expiry, (Time::default() + lease).secs()) {
            self.actions.store(pools.place(slot), pools.record(slot), Some(reply));
            Ok(Outcome::Stored)
        } else if self.actions.is_waiting(pools.place(slot)) {
            // The client repeated its REQUEST: the ACK that waits answers both.
            self.actions.replace(&[pools.place(slot)], reply);
            Ok(Outcome::Stored)
        } else {
            self.actions.send(reply);
            Ok(Outcome::Acknowledged)
        }
    }

    /// RFC 2131 clause 4.3.4; there is no reply. Its client has the address still, and sends from it (clause 4.4.6).
    fn release(
        &mut self,
        pools: &mut Pools,
        request: &Request<'_>,
        message: &Message<'_>,
        key: &LeaseKey,
    ) -> Result<Outcome, Outcome> {
        if message.server.is_some_and(|server| server != self.groups[&request.group].group.server) {
            return Err(Outcome::OtherServer);
        }
        if message.giaddr.is_unspecified() && request.from != message.ciaddr {
            return Err(Outcome::NotTheLease);
        }
        let slot = lease_of(pools, key, message.ciaddr).filter(|slot| is_of_line(pools, *slot, request, message));
        self.give_back(pools, slot.ok_or(Outcome::NotTheLease)?);
        Ok(Outcome::Released)
    }

    /// RFC 2131 clause 4.3.3; there is no reply.
    fn decline(
        &mut self,
        pools: &mut Pools,
        now: Time,
        request: &Request<'_>,
        message: &Message<'_>,
        key: &LeaseKey,
    ) -> Result<Outcome, Outcome> {
        let address = message.requested.ok_or(Outcome::NotTheLease)?;
        let slot = lease_of(pools, key, address).filter(|slot| is_of_line(pools, *slot, request, message));
        let slot = slot.ok_or(Outcome::NotTheLease)?;
        if pools.lease(slot).state() != State::Bound {
            // A client tries an address when it was acknowledged: what was only offered is no reason for a quarantine.
            self.give_back(pools, slot);
            return Ok(Outcome::Released);
        }
        self.actions.cancel(pools.place(slot));
        self.actions.erase(pools.record(slot));
        pools.decline(slot, now);
        Ok(Outcome::Declined)
    }

    fn give_back(&mut self, pools: &mut Pools, slot: u32) {
        self.actions.cancel(pools.place(slot));
        if pools.lease(slot).state() == State::Bound {
            self.actions.erase(pools.record(slot));
        }
        pools.release(slot);
    }

    fn reply<'a>(&'a self, request: &'a Request<'_>, message: &'a Message<'a>, kind: Type) -> reply::Draft<'a> {
        let Served { group, fixed } = &self.groups[&request.group];
        let (line, source) = (request.line, request.source);
        reply::Draft { line, source, server: group.server, message, kind, lease: group.lease, fixed }
    }
}

/// The slot of a client's lease, if it is of that address and has not ended.
pub(crate) fn lease_of(pools: &Pools, key: &LeaseKey, address: Ipv4Addr) -> Option<u32> {
    let slot = pools.find(key)?;
    (pools.lease(slot).state() != State::Idle && pools.ip4(slot) == Some(address)).then_some(slot)
}

/// Whether a message that no relay agent has forwarded is, for certain, of a client behind a router: it comes from the
/// address that the client has (RFC 2131 clause 4.3.2, RENEWING).
pub(crate) fn is_routed(pools: &Pools, request: &Request<'_>, message: &Message<'_>, key: &LeaseKey) -> bool {
    let has_address = || {
        let slot = lease_of(pools, key, message.ciaddr);
        slot.is_some_and(|slot| pools.lease(slot).state() == State::Bound)
    };
    request.routed && !message.ciaddr.is_unspecified() && request.from == message.ciaddr && has_address()
}

/// A number of what the access node calls the line (option 82), also if there is none, never 0. None: the message came by
/// a relay agent or router, which does not name the line each time.
pub(crate) fn mark(request: &Request<'_>, message: &Message<'_>) -> Option<u32> {
    if !message.giaddr.is_unspecified() || message.chaddr != request.source {
        return None;
    }
    let agent = message.agent.map(RelayAgent::parse).and_then(Result::ok).unwrap_or_default();
    let [circuit, remote] = [agent.circuit_id, agent.remote_id].map(Option::unwrap_or_default);
    Some(identifier_hash(&[circuit, remote]) as u32 | 1) // as good as any half
}

/// Whether a message came by the line that the lease is used by, as far as access nodes tell lines apart: in a VLAN pair of
/// many, hardware addresses may be invented.
pub(crate) fn is_of_line(pools: &Pools, slot: u32, request: &Request<'_>, message: &Message<'_>) -> bool {
    mark(request, message).is_none_or(|mark| pools.is_marked(slot, mark))
}
