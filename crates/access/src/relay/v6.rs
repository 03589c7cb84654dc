//! The DHCPv6 relay agent (RFC 8415, 19) for clients on access lines, and for LDRAs and relay agents in front of them.

use super::codec6::{ForwardedBy, RelayReply, forward6};
use super::transactions::{Full, TransactionLimits, Transactions};
use super::{NotForwarded, Order, Servers, may_end, takes_over};
use crate::dhcp4::counters;
use crate::dhcp6::{self, CLIENT_PORT, MAX_IAS, Message, Reply, Request, SERVER_PORT, Type};
use crate::lease::{Kind, LeaseKey};
use crate::pool::{Learnt, NotClaimed, Pools, Refusal, Replaced, State};
use crate::subscriber::{Identity, Vlans};
use crate::{Action, Actions, ClientKey, Line, Ticket, Time, identifier_hash};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use wire::Mac;

/// How long a claimed lease is held until it is granted, which is at once.
const HOLD: Duration = Duration::from_secs(10);
/// Longest DUID in bytes, its type included (RFC 8415, 11.1).
const MAX_DUID: usize = 130;

/// How messages of one subscriber group are relayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Number of the VRF that servers are reached in, and of the pools.
    pub instance: usize,
    /// How lines identify subscribers.
    pub vlans: Vlans,
    /// Servers, in order of preference.
    pub servers: Vec<Ipv6Addr>,
    /// Which of them get a request.
    pub order: Order,
    /// The gateway's address that requests are sent from, and servers reply to.
    pub source: Ipv6Addr,
    /// Link-address: by it servers know the clients' link (RFC 8415, 19.1.1).
    pub link: Ipv6Addr,
    /// A client may take the lease that it has on another line.
    pub moves: bool,
}

counters! {
    /// What became of a message. Every message is counted under exactly one of these.
    Outcome {
        Forwarded "forwarded" "A client's request was sent to servers.";
        Released "released" "A RELEASE or DECLINE was passed on; the leases have ended.";
        Advertised "advertise" "A server's ADVERTISE was passed on.";
        Replied "reply" "A server's REPLY was passed on; its leases are learnt.";
        Moved "reply_moved" "A server's REPLY was passed on; a lease was the same station's, on another line or by another DUID.";
        Informed "reply_other" "A server's REPLY without leases was passed on: to a RELEASE, CONFIRM, INFORMATION-REQUEST and the like.";
        Malformed "malformed" "Dropped: a client's message that can't be read.";
        NotARequest "not_a_request" "Dropped: not a message that clients send to servers.";
        NoClientId "no_client_id" "Dropped: no client identifier where there must be one, or one that is too long.";
        UnknownGroup "unknown_group" "Dropped: DHCPv6 is not relayed for the line's subscriber group.";
        Hops "hops" "Dropped: the message has passed too many relay agents.";
        TooLong "too_long" "Dropped: with the relay agent's options the message does not fit into a packet.";
        NotTheLease "not_the_lease" "Dropped: RELEASE or DECLINE of an address or prefix that is not the client's.";
        LineRequests "line_requests" "Dropped: too many requests of the line wait for a server.";
        AllRequests "all_requests" "Dropped: too many requests of all lines wait for a server.";
        ReplyMalformed "reply_malformed" "Dropped: a server's message that can't be read, or is no RELAY-REPLY.";
        Stranger "reply_stranger" "Dropped: a reply of an address that is no server of the group.";
        UnknownRequest "reply_unknown" "Dropped: no request that waits has this reply's transaction, peer and Interface-Id.";
        NotOurs "reply_client" "Dropped: a reply with another client identifier than its request's.";
        Outside "address_outside" "Dropped: a server gave an address or prefix that is in no slice of the group, has another length, or is the gateway's or a static subscriber's.";
        Taken "address_taken" "Dropped: a server gave a prefix, or an address of a /64, that another subscriber has.";
        SeveralLeases "several_leases" "Dropped: a reply with several valid leases in one identity association, two of one identity association, or a temporary address (IA_TA).";
        OtherServer "reply_other_server" "Dropped: a reply that ends a lease which another server has granted.";
        LineLimit "line_limit" "Dropped: the line has as many leases as it may.";
        PairLimit "pair_limit" "Dropped: the shared VLAN pair has as many leases as it may.";
        PortLimit "port_limit" "Dropped: the port has as many leases as it may.";
        StoreFull "store_full" "Dropped: too many records wait for the store.";
    }
}

impl From<NotForwarded> for Outcome {
    fn from(why: NotForwarded) -> Self {
        match why {
            NotForwarded::Malformed => Self::Malformed,
            NotForwarded::Hops => Self::Hops,
            NotForwarded::TooLong => Self::TooLong,
        }
    }
}

impl From<Full> for Outcome {
    fn from(full: Full) -> Self {
        match full {
            Full::Line => Self::LineRequests,
            Full::Total => Self::AllRequests,
        }
    }
}

impl From<NotClaimed> for Outcome {
    fn from(why: NotClaimed) -> Self {
        match why {
            NotClaimed::Outside | NotClaimed::Limit(Refusal::NoPool) => Self::Outside,
            NotClaimed::Taken(_) | NotClaimed::Rests | NotClaimed::Limit(Refusal::Exhausted) => Self::Taken,
            NotClaimed::Twice => Self::SeveralLeases,
            NotClaimed::Limit(Refusal::LineLimit) => Self::LineLimit,
            NotClaimed::Limit(Refusal::PairLimit) => Self::PairLimit,
            NotClaimed::Limit(Refusal::PortLimit) => Self::PortLimit,
        }
    }
}

/// A datagram to be sent from UDP port 547.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// To a server.
    ToServer {
        /// Number of the subscriber group.
        group: u16,
        /// Source address of the datagram.
        from: Ipv6Addr,
        /// The server that it goes to.
        to: Ipv6Addr,
        /// UDP payload: a Relay-forward.
        octets: Vec<u8>,
    },
    /// To the client, or the agent in front of it.
    ToClient(Reply),
}

/// A datagram that a server has sent to UDP port 547 of the gateway.
#[derive(Clone, Copy, Debug)]
pub struct FromServer<'a> {
    /// Number of the VRF that it came in.
    pub instance: usize,
    /// Source address of the datagram.
    pub from: Ipv6Addr,
    /// The DHCPv6 message, without UDP header.
    pub octets: &'a [u8],
}

/// A request that waits for a reply.
#[derive(Clone, Debug)]
struct Waiting<C> {
    line: Line,
    group: u16,
    /// The frame's source, the packet's, and the port that a reply goes to.
    to: (Mac, Ipv6Addr, u16),
    /// The client's hardware address.
    client: Mac,
    kind: Type,
    duid: Vec<u8>,
    interface_id: String,
    answered: bool,
    context: C,
}

impl<C> Waiting<C> {
    /// The key of the client's lease of that kind and IAID.
    fn key(&self, kind: Kind, iaid: u32) -> LeaseKey {
        let identifier = identifier_hash(&[&iaid.to_be_bytes(), &self.duid]);
        LeaseKey { kind, client: ClientKey { line: self.line, mac: self.client.0, identifier } }
    }
}

/// The relay agent. `C` is what the caller needs to send a reply to where its request came from.
pub struct Relay<C> {
    groups: HashMap<u16, Arc<Group>>,
    waiting: Transactions<([u8; 3], Ipv6Addr), Waiting<C>>,
    /// The identifiers by which clients name servers, by VRF and address.
    identifiers: HashMap<(usize, Ipv6Addr), Vec<u8>>,
    actions: Actions<Output>,
    most_stored: usize,
    counts: [u64; Outcome::ALL.len()],
    unanswered: u64,
}

impl<C: Copy> Relay<C> {
    /// A relay agent of the groups of these numbers; at most `most_stored` records wait for the store.
    pub fn new(groups: impl IntoIterator<Item = (u16, Group)>, limits: TransactionLimits, most_stored: usize) -> Self {
        Self {
            groups: groups.into_iter().map(|(number, group)| (number, Arc::new(group))).collect(),
            waiting: Transactions::new(limits),
            identifiers: HashMap::new(),
            actions: Actions::default(),
            most_stored,
            counts: [0; Outcome::ALL.len()],
            unanswered: 0,
        }
    }

    /// Has other groups from now on. Requests and leases stay.
    pub fn follow(&mut self, groups: impl IntoIterator<Item = (u16, Group)>) {
        self.groups = groups.into_iter().map(|(number, group)| (number, Arc::new(group))).collect();
        let has = |group: &Group, (instance, server): &(usize, Ipv6Addr)| {
            group.instance == *instance && group.servers.contains(server)
        };
        self.identifiers.retain(|server, _| self.groups.values().any(|group| has(group, server)));
    }

    /// How messages of a group are relayed; none: they are not.
    pub fn group(&self, number: u16) -> Option<&Group> {
        self.groups.get(&number).map(AsRef::as_ref)
    }

    /// How many messages had this outcome.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.counts[outcome as usize]
    }

    /// Requests that no server has answered in time.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Requests that wait for a reply, or have one and may get another.
    pub fn requests(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the oldest action that is ready.
    pub fn next_action(&mut self) -> Option<Action<Output>> {
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

    /// Drops requests whose time is over.
    pub fn expire(&mut self, now: Time) {
        self.unanswered += self.waiting.expire(now, |request| !request.answered);
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn next_due(&self) -> Option<Time> {
        self.waiting.next_due()
    }

    /// Handles a message of a client, or of an LDRA or relay agent. `interface_id` is what the gateway calls the line.
    pub fn receive_client(
        &mut self,
        (pools, servers): (&mut Pools, &mut Servers),
        now: Time,
        request: &Request<'_>,
        (interface_id, context): (&str, C),
    ) -> Outcome {
        let outcome = self.client((pools, servers), now, request, (interface_id, context));
        let outcome = outcome.unwrap_or_else(|dropped| dropped);
        self.counts[outcome as usize] += 1;
        outcome
    }

    fn client(
        &mut self,
        (pools, servers): (&mut Pools, &mut Servers),
        now: Time,
        request: &Request<'_>,
        (interface_id, context): (&str, C),
    ) -> Result<Outcome, Outcome> {
        let message = Message::parse(request.octets).map_err(|_| Outcome::Malformed)?;
        let kind = message.kind.ok_or(Outcome::NotARequest)?;
        let group = self.groups.get(&request.group).ok_or(Outcome::UnknownGroup)?.clone();
        let is_duid = |duid: &[u8]| (1..=MAX_DUID).contains(&duid.len());
        if !message.client.is_some_and(is_duid) && (message.client.is_some() || kind != Type::InformationRequest) {
            return Err(Outcome::NoClientId);
        }
        let is_told = message.relays.iter().all(dhcp6::Relay::is_lightweight);
        let by = ForwardedBy {
            link: group.link,
            peer: request.from,
            interface_id: interface_id.as_bytes(),
            remote_id: (crate::option82::BBF, &request.client.0),
            client: is_told.then_some(request.client),
        };
        let octets = forward6(request.octets, &by)?;
        let duid = message.client.unwrap_or_default();
        let port = if message.relays.is_empty() { CLIENT_PORT } else { SERVER_PORT };
        let waiting = Waiting {
            line: request.line,
            group: request.group,
            to: (request.source, request.from, port),
            client: request.client,
            kind,
            duid: duid.to_vec(),
            interface_id: interface_id.to_owned(),
            answered: false,
            context,
        };
        let gives_up = matches!(kind, Type::Release | Type::Decline);
        let keys: Vec<_> = message.ias.iter().map(|ia| waiting.key(ia.kind, ia.iaid)).collect();
        let given_up = if gives_up { given_up(pools, &message, &keys)? } else { Vec::new() };
        if matches!(kind, Type::Solicit | Type::Request | Type::Renew | Type::Rebind) {
            may_ask(pools, (&group, request.group), &message, &keys)?;
        }
        let chosen = self.chosen((pools, servers), &group, &message, &keys);
        let owner = ClientKey { line: request.line, mac: request.client.0, identifier: 0 };
        let owner = Identity::of(&owner, group.vlans);
        self.waiting.insert(now, (message.xid, request.from), owner, waiting)?;
        for slot in given_up {
            self.end(pools, slot);
            if kind == Type::Decline { pools.decline_elsewhere(slot, now) } else { pools.release(slot) }
        }
        // Servers leave what names another one unanswered, and may what names none but a SOLICIT.
        let expects = kind == Type::Solicit || !chosen.is_empty();
        let (to, order) = if chosen.is_empty() { (&group.servers, group.order) } else { (&chosen, Order::All) };
        for to in servers.choose((group.instance, &to[..]), order, expects, now) {
            let from = group.source;
            self.actions.send(Output::ToServer { group: request.group, from, to, octets: octets.clone() });
        }
        Ok(if gives_up { Outcome::Released } else { Outcome::Forwarded })
    }

    /// The servers that a message which names one is for; none: those of the group. Several have the same identifier.
    fn chosen(
        &self,
        (pools, servers): (&Pools, &Servers),
        group: &Group,
        message: &Message<'_>,
        keys: &[LeaseKey],
    ) -> Vec<Ipv6Addr> {
        let Some(named) = message.server else { return Vec::new() };
        let is_named = |server: &&Ipv6Addr| {
            self.identifiers.get(&(group.instance, **server)).is_some_and(|identifier| identifier == named)
        };
        let named = || group.servers.iter().filter(is_named).copied();
        let of_lease = || {
            let lessor = keys.iter().filter_map(|key| pools.live(key)).find_map(|slot| pools.server(slot))?;
            group.servers.iter().copied().find(|server| IpAddr::V6(*server) == lessor)
        };
        let mut chosen: Vec<_> = match message.kind {
            Some(Type::Request) => named().collect(),
            _ => of_lease().into_iter().collect(),
        };
        if chosen.is_empty() {
            chosen = match message.kind {
                Some(Type::Request) => of_lease().into_iter().collect(),
                _ => named().collect(),
            };
        }
        if message.kind == Some(Type::Renew) {
            chosen.retain(|server| !servers.is_silent((group.instance, (*server).into())));
        }
        chosen
    }

    fn give_back(&mut self, pools: &mut Pools, slot: u32) {
        self.end(pools, slot);
        pools.release(slot);
    }

    fn end(&mut self, pools: &Pools, slot: u32) {
        self.actions.cancel(pools.place(slot));
        if pools.lease(slot).state() == State::Bound {
            self.actions.erase(pools.record(slot));
        }
    }

    /// The lease in a slot ends by other means than a message: its REPLY, if one waits for the store, does not go out.
    pub fn cancel(&mut self, pools: &Pools, slot: u32) {
        self.actions.cancel(pools.place(slot));
    }

    /// Handles a server's message. Also returns what its request came with, if there is one.
    pub fn receive_server(
        &mut self,
        (pools, servers): (&mut [Pools], &mut Servers),
        now: Time,
        received: &FromServer<'_>,
    ) -> (Outcome, Option<C>) {
        let (outcome, context) = match self.server((pools, servers), now, received) {
            Ok((outcome, context)) => (outcome, Some(context)),
            Err(dropped) => (dropped, None),
        };
        self.counts[outcome as usize] += 1;
        (outcome, context)
    }

    fn server(
        &mut self,
        (pools, servers): (&mut [Pools], &mut Servers),
        now: Time,
        received: &FromServer<'_>,
    ) -> Result<(Outcome, C), Outcome> {
        let message = RelayReply::parse(received.octets).ok_or(Outcome::ReplyMalformed)?;
        let server = (received.instance, received.from.into());
        if !servers.has(server) {
            return Err(Outcome::Stranger);
        }
        let id = (message.xid, message.peer);
        let is_it = |request: &Waiting<C>| message.interface_id == Some(request.interface_id.as_bytes());
        let request = self.waiting.find(&id, is_it).ok_or(Outcome::UnknownRequest)?.clone();
        let group = self.groups.get(&request.group).ok_or(Outcome::UnknownRequest)?.clone();
        if group.instance != received.instance || !group.servers.contains(&received.from) {
            return Err(Outcome::Stranger);
        }
        if message.client.unwrap_or_default() != request.duid {
            return Err(Outcome::NotOurs);
        }
        servers.answered(server);
        let pools = pools.get_mut(group.instance).ok_or(Outcome::Outside)?;
        const ADVERTISE: u8 = Type::Advertise as u8;
        const REPLY: u8 = Type::Reply as u8;
        let kind = match message.kind {
            ADVERTISE => Type::Advertise,
            REPLY => Type::Reply,
            _ => return Err(Outcome::ReplyMalformed),
        };
        if let Some(identifier) = message.server.filter(|duid| duid.len() <= MAX_DUID) {
            let known = self.identifiers.entry((group.instance, received.from)).or_default();
            if known != identifier {
                *known = identifier.to_vec();
            }
        }
        let reply = Reply { line: request.line, to: request.to, kind, octets: message.inner.to_vec() };
        let reply = Output::ToClient(reply);
        // A lease in whatever REPLY is one that the client may take.
        let binds = matches!(request.kind, Type::Solicit | Type::Request | Type::Renew | Type::Rebind)
            || message.temporary
            || message.ias.iter().any(|ia| ia.lease.is_some());
        let outcome = match kind {
            Type::Advertise => {
                may_claim_all(pools, &group, &request, &message)?;
                self.actions.send(reply);
                Outcome::Advertised
            }
            _ if binds => self.learn((pools, now), (&group, &request), (&message, received.from), reply)?,
            _ => {
                self.actions.send(reply);
                Outcome::Informed
            }
        };
        if kind == Type::Advertise {
            self.waiting.find_mut(&id, is_it).into_iter().for_each(|known| known.answered = true);
            // What follows a SOLICIT is a REQUEST of its own transaction.
            self.waiting.shorten(now, &id, |known| is_it(known) && known.kind == Type::Solicit);
        } else {
            self.waiting.take(&id, is_it);
        }
        Ok((outcome, request.context))
    }

    /// A REPLY with leases: they take their places in the pools, and the REPLY goes on when they are stored.
    fn learn(
        &mut self,
        (pools, now): (&mut Pools, Time),
        (group, request): (&Group, &Waiting<C>),
        (message, server): (&RelayReply<'_>, Ipv6Addr),
        reply: Output,
    ) -> Result<Outcome, Outcome> {
        if self.actions.waiting() >= self.most_stored {
            return Err(Outcome::StoreFull);
        }
        let replaced = may_claim_all(pools, group, request, message)?;
        let without = message.ias.iter().filter(|ia| ia.lease.is_none() && ia.ended);
        let over: Vec<_> = without.filter_map(|ia| pools.live(&request.key(ia.kind, ia.iaid))).collect();
        if over.iter().any(|slot| !may_end(pools, *slot, server.into(), &group.servers)) {
            return Err(Outcome::OtherServer);
        }
        let outcome = if replaced.takes_over { Outcome::Moved } else { Outcome::Replied };
        let ended = over.into_iter().chain(replaced.ended);
        ended.for_each(|slot| {
            if pools.lease(slot).state() != State::Idle {
                self.give_back(pools, slot);
            }
        });
        let mut claimed = Vec::new();
        for ia in &message.ias {
            let Some((address, prefix_len, valid)) = ia.lease else { continue };
            let learnt = Learnt { server: Some(server.into()), address };
            let key = request.key(ia.kind, ia.iaid);
            let slot = pools.claim(key, request.group, (learnt, prefix_len), now, HOLD)?;
            claimed.push((slot, (now + Duration::from_secs(valid.into())).secs()));
        }
        let stored = claimed.iter().filter(|(slot, expiry)| pools.grant(*slot, *expiry, 0));
        let stored: Vec<u32> = stored.map(|(slot, _)| *slot).collect();
        let places: Vec<_> = claimed.iter().map(|(slot, _)| pools.place(*slot)).collect();
        if let Some((last, others)) = stored.split_last() {
            others.iter().for_each(|slot| self.actions.store(pools.place(*slot), pools.record(*slot), None));
            self.actions.store(pools.place(*last), pools.record(*last), Some(reply));
        } else if places.iter().any(|place| self.actions.is_waiting(*place)) {
            self.actions.replace(&places, reply);
        } else {
            self.actions.send(reply);
        }
        Ok(outcome)
    }
}

/// Whether all leases of a server's message have a place; what they take the place of.
fn may_claim_all<C>(
    pools: &Pools,
    group: &Group,
    request: &Waiting<C>,
    message: &RelayReply<'_>,
) -> Result<Replaced, Outcome> {
    if message.temporary || message.ias.iter().any(|ia| ia.several) {
        return Err(Outcome::SeveralLeases);
    }
    let leases = message.ias.iter().filter_map(|ia| Some((ia, ia.lease?)));
    let wanted = leases.map(|(ia, (address, len, _))| (request.key(ia.kind, ia.iaid), address, len));
    let takes_over = |holder, key: &LeaseKey| takes_over(pools, holder, key, group.moves);
    Ok(pools.may_claim_all(request.group, &wanted.collect::<Vec<_>>(), takes_over)?)
}

/// The leases that a RELEASE or DECLINE gives up: each of its identity associations is one of the client. Of a message
/// with [`MAX_IAS`] some may not have been read.
fn given_up(pools: &Pools, message: &Message<'_>, keys: &[LeaseKey]) -> Result<Vec<u32>, Outcome> {
    if keys.is_empty() || keys.len() >= MAX_IAS {
        return Err(Outcome::NotTheLease);
    }
    let own = keys.iter().zip(&message.ias).map(|(key, ia)| {
        let slot = pools.live(key).filter(|slot| ia.address == Some(pools.address(*slot)));
        slot.ok_or(Outcome::NotTheLease)
    });
    let mut slots = own.collect::<Result<Vec<_>, _>>()?;
    slots.sort_unstable();
    slots.dedup();
    Ok(slots)
}

/// Whether a client that asks for leases may have those of them that it has not: servers keep what they grant, also if
/// the REPLY is dropped here. What it takes over needs no room.
fn may_ask(
    pools: &Pools,
    (group, number): (&Group, u16),
    message: &Message<'_>,
    keys: &[LeaseKey],
) -> Result<(), Outcome> {
    let ended = keys.iter().zip(&message.ias).filter_map(|(key, ia)| {
        let holder = pools.holder(number, ia.kind, ia.address?)?;
        (takes_over(pools, holder, key, group.moves) && pools.lease(holder).key() != *key).then_some(holder)
    });
    let mut ended: Vec<_> = ended.collect();
    ended.sort_unstable();
    ended.dedup();
    pools.has_room(number, &ended, keys).map_err(|refusal| NotClaimed::Limit(refusal).into())
}
