//! The DHCPv4 relay agent (RFC 1542, RFC 2131, RFC 3046) for clients on access lines.

use super::codec4::{Agent, NotForwarded, ServerMessage, forward4, to_client4};
use super::transactions::{Full, TransactionLimits, Transactions};
use super::{Order, Servers, may_end, takes_over};
use crate::dhcp4::{self, Destination, Malformed, Message, Reply, Request, Type, counters};
use crate::lease::{Kind, LeaseKey};
use crate::pool::{Learnt, NotClaimed, Pools, Refusal, Replaced, State};
use crate::subscriber::{Identity, Vlans};
use crate::{Action, Actions, ClientKey, Line, Ticket, Time, identifier_hash};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use wire::Mac;

/// How long a claimed address is held until its lease is granted, which is at once.
const HOLD: Duration = Duration::from_secs(10);

/// Offers to one request that are remembered.
const MOST_OFFERS: usize = 16;

/// What becomes of option 82 in a client's message (RFC 3046, 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentPolicy {
    /// An access node has inserted it: it is kept.
    Keep,
    /// A subscriber may have: it is replaced.
    Replace,
    /// The message is dropped.
    Drop,
}

/// How messages of one subscriber group are relayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Number of the VRF that servers are reached in, and of the pools.
    pub instance: usize,
    /// How lines identify subscribers.
    pub vlans: Vlans,
    /// Servers, in order of preference.
    pub servers: Vec<Ipv4Addr>,
    /// Which of them get a request.
    pub order: Order,
    /// The relay agent's address, by which servers choose the subnet and which they reply to.
    pub giaddr: Ipv4Addr,
    /// The gateway's address towards the clients: source of replies. If it is not giaddr, servers choose the subnet
    /// by it (RFC 3527).
    pub gateway: Ipv4Addr,
    /// Servers give `gateway` as their identifier (RFC 5107).
    pub server_override: bool,
    /// Option 82 in clients' messages.
    pub agent: AgentPolicy,
    /// A client may take the lease that it has on another line.
    pub moves: bool,
    /// Relay agents that a message may have passed before.
    pub most_hops: u8,
}

counters! {
    /// What became of a message. Every message is counted under exactly one of these.
    Outcome {
        Forwarded "forwarded" "A client's request was sent to servers.";
        Released "released" "A RELEASE was passed on; the lease has ended.";
        Declined "declined" "A DECLINE was passed on; the lease has ended.";
        Offered "offer" "A server's OFFER was passed on.";
        Acknowledged "ack" "A server's ACK was passed on; the lease is learnt.";
        Moved "ack_moved" "A server's ACK was passed on; the lease was the same station's, on another line or by another client identifier.";
        Informed "ack_inform" "A server's ACK to an INFORM was passed on.";
        Refused "nak" "A server's NAK was passed on; a lease of that client that it had granted has ended.";
        Malformed "malformed" "Dropped: a client's message that can't be read.";
        NotARequest "not_a_request" "Dropped: not a BOOTREQUEST of an Ethernet client with a known message type.";
        UnknownGroup "unknown_group" "Dropped: DHCPv4 is not relayed for the line's subscriber group.";
        HardwareAddress "hardware_address" "Dropped: chaddr is not the frame's source address.";
        RelayAddress "relay_address" "Dropped: a subscriber's message has a relay agent's address in it.";
        UntrustedAgent "untrusted_option82" "Dropped: option 82 of a line whose access node is not trusted (RFC 3046, 2.1).";
        Hops "hops" "Dropped: the message has passed too many relay agents.";
        TooLong "too_long" "Dropped: no room for option 82, or with it the message does not fit into a packet.";
        NotTheLease "not_the_lease" "Dropped: RELEASE or DECLINE of an address that is not the client's, from another address, or by another circuit ID.";
        LineRequests "line_requests" "Dropped: too many requests of the line wait for a server.";
        AllRequests "all_requests" "Dropped: too many requests of all lines wait for a server.";
        ReplyMalformed "reply_malformed" "Dropped: a server's message that can't be read, or is no reply to a client.";
        Stranger "reply_stranger" "Dropped: a reply of an address that is no server of the group.";
        UnknownRequest "reply_unknown" "Dropped: no request that waits has this reply's transaction, client and option 82.";
        NotOurs "reply_giaddr" "Dropped: a reply to another relay agent.";
        Outside "address_outside" "Dropped: a server gave an address that is in no slice of the group, or is the gateway's or a static subscriber's.";
        Taken "address_taken" "Dropped: a server gave an address that another subscriber has.";
        LineLimit "line_limit" "Dropped: the line has as many leases as it may.";
        PairLimit "pair_limit" "Dropped: the shared VLAN pair has as many leases as it may.";
        PortLimit "port_limit" "Dropped: the port has as many leases as it may.";
        OtherServer "nak_other_server" "Dropped: a NAK to a client that has a lease of another server.";
        OtherCircuit "other_circuit" "Dropped: a reply that would end a lease which is used by another circuit ID.";
        NoLeaseTime "no_lease_time" "Dropped: an ACK without a lease time, or of 0 s.";
        StoreFull "store_full" "Dropped: too many replies wait for the store.";
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
            NotClaimed::Taken(_) | NotClaimed::Rests | NotClaimed::Twice | NotClaimed::Limit(Refusal::Exhausted) => {
                Self::Taken
            }
            NotClaimed::Limit(Refusal::LineLimit) => Self::LineLimit,
            NotClaimed::Limit(Refusal::PairLimit) => Self::PairLimit,
            NotClaimed::Limit(Refusal::PortLimit) => Self::PortLimit,
        }
    }
}

/// A datagram to be sent from UDP port 67.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// To a server.
    ToServer {
        /// Number of the subscriber group.
        group: u16,
        /// Source address: giaddr.
        from: Ipv4Addr,
        /// The server that it goes to.
        to: Ipv4Addr,
        /// The DHCP message, without UDP header.
        octets: Vec<u8>,
    },
    /// To the client.
    ToClient(Reply),
}

/// A datagram that a server has sent to UDP port 67 of the gateway.
#[derive(Clone, Copy, Debug)]
pub struct FromServer<'a> {
    /// Number of the VRF that it came in.
    pub instance: usize,
    /// Source address of the datagram.
    pub from: Ipv4Addr,
    /// The DHCP message, without UDP header.
    pub octets: &'a [u8],
}

/// A request that waits for a reply.
#[derive(Clone, Debug)]
struct Waiting<C> {
    line: Line,
    group: u16,
    /// The frame's source.
    source: Mac,
    kind: Type,
    key: LeaseKey,
    /// Option 82 as an access node has sent it.
    kept: Option<Vec<u8>>,
    /// Option 82 as servers have it.
    agent: Vec<u8>,
    mark: Option<u32>,
    /// Servers that have made an offer, and the addresses.
    offers: Vec<(Ipv4Addr, Ipv4Addr)>,
    context: C,
}

impl<C> Waiting<C> {
    /// Whether a lease is used, as far as is known, by the circuit that the request came by: hardware addresses of a
    /// VLAN pair of many lines may be invented.
    fn is_of_circuit(&self, pools: &Pools, slot: u32) -> bool {
        self.mark.is_none_or(|mark| pools.is_marked(slot, mark))
    }

    /// Whether the client could have an address; what it takes the place of.
    fn may_have(&self, pools: &Pools, group: &Group, address: Ipv4Addr) -> Result<Replaced, Outcome> {
        let of_circuit = |slot| group.moves || self.is_of_circuit(pools, slot);
        let takes_over = |holder, key: &LeaseKey| takes_over(pools, holder, key, group.moves) && of_circuit(holder);
        let wanted = [(self.key, address.to_ipv6_mapped(), 128)];
        let replaced = pools.may_claim_all(self.group, &wanted, takes_over)?;
        if replaced.ended.iter().all(|slot| of_circuit(*slot)) { Ok(replaced) } else { Err(Outcome::OtherCircuit) }
    }
}

/// Whether an ACK has no lease and answers an INFORM; one of the same transaction as a REQUEST has no lease time
/// either.
fn is_of_inform<C>(request: &Waiting<C>, message: &ServerMessage<'_>) -> bool {
    let is_of_kind = match request.kind {
        Type::Inform => true,
        Type::Request => message.lease.is_none(),
        _ => false,
    };
    is_of_kind && message.yiaddr.is_unspecified()
}

/// Whether a client that asks for a lease may have one more, if it has none: servers keep what they grant, also if the
/// ACK is dropped here. One that asks for an address which it takes over needs no further one.
fn may_ask(
    pools: &Pools,
    (group, number): (&Group, u16),
    message: &Message<'_>,
    key: &LeaseKey,
) -> Result<(), Outcome> {
    let asked = message.requested.or(Some(message.ciaddr).filter(|address| !address.is_unspecified()));
    let holder = asked.and_then(|address| pools.holder(number, Kind::Ip4, address.to_ipv6_mapped()));
    let is_another = |slot: &u32| pools.lease(*slot).key() != *key && takes_over(pools, *slot, key, group.moves);
    let ended = holder.filter(is_another);
    let has_room = pools.has_room(number, ended.as_slice(), &[*key]);
    has_room.map_err(|refusal| NotClaimed::Limit(refusal).into())
}

/// The relay agent. `C` is what the caller needs to send a reply to where its request came from.
pub struct Relay<C> {
    groups: HashMap<u16, Arc<Group>>,
    waiting: Transactions<(u32, [u8; 6]), Waiting<C>>,
    actions: Actions<Output>,
    most_stored: usize,
    counts: [u64; Outcome::ALL.len()],
    unanswered: u64,
}

impl<C: Copy> Relay<C> {
    /// A relay agent of the groups of these numbers; at most `most_stored` replies wait for the store.
    pub fn new(groups: impl IntoIterator<Item = (u16, Group)>, limits: TransactionLimits, most_stored: usize) -> Self {
        Self {
            groups: groups.into_iter().map(|(number, group)| (number, Arc::new(group))).collect(),
            waiting: Transactions::new(limits),
            actions: Actions::default(),
            most_stored,
            counts: [0; Outcome::ALL.len()],
            unanswered: 0,
        }
    }

    /// Has other groups from now on. Requests and leases stay.
    pub fn follow(&mut self, groups: impl IntoIterator<Item = (u16, Group)>) {
        self.groups = groups.into_iter().map(|(number, group)| (number, Arc::new(group))).collect();
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

    /// Drops requests whose time is over.
    pub fn expire(&mut self, now: Time) {
        self.unanswered += self.waiting.expire(now, |request| request.offers.is_empty());
    }

    /// When [`expire`](Self::expire) has something to do.
    pub fn next_due(&self) -> Option<Time> {
        self.waiting.next_due()
    }

    /// Handles a client's message. `circuit_id` is what the gateway calls the line.
    pub fn receive_client(
        &mut self,
        (pools, servers): (&mut Pools, &mut Servers),
        now: Time,
        request: &Request<'_>,
        (circuit_id, context): (&str, C),
    ) -> Outcome {
        let outcome = self.client((pools, servers), now, request, (circuit_id, context));
        let outcome = outcome.unwrap_or_else(|dropped| dropped);
        self.counts[outcome as usize] += 1;
        outcome
    }

    fn client(
        &mut self,
        (pools, servers): (&mut Pools, &mut Servers),
        now: Time,
        request: &Request<'_>,
        (circuit_id, context): (&str, C),
    ) -> Result<Outcome, Outcome> {
        let message = Message::parse(request.octets).map_err(|error| match error {
            Malformed::Unreadable => Outcome::Malformed,
            Malformed::NotARequest => Outcome::NotARequest,
        })?;
        let group = self.groups.get(&request.group).ok_or(Outcome::UnknownGroup)?.clone();
        if !message.giaddr.is_unspecified() {
            return Err(Outcome::RelayAddress);
        }
        if message.chaddr != request.source {
            return Err(Outcome::HardwareAddress);
        }
        let kept = match group.agent {
            AgentPolicy::Keep => message.agent,
            AgentPolicy::Drop if message.agent.is_some() => return Err(Outcome::UntrustedAgent),
            AgentPolicy::Drop | AgentPolicy::Replace => None,
        };
        let (gateway, giaddr) = (group.gateway, group.giaddr);
        let agent = Agent {
            kept,
            circuit_id: circuit_id.as_bytes(),
            remote_id: &message.chaddr.0,
            link_selection: (gateway != giaddr).then_some(gateway),
            server_override: group.server_override.then_some(gateway),
        };
        let agent = agent.content()?;
        let octets = forward4(request.octets, giaddr, &agent, group.most_hops)?;
        let identifier = message.client_id.map_or(0, |id| identifier_hash(&[id]));
        let client = ClientKey { line: request.line, mac: message.chaddr.0, identifier };
        let key = LeaseKey { kind: Kind::Ip4, client };
        let id = (message.xid, message.chaddr.0);
        let chosen = self.chosen((pools, servers), &group, (&message, request.line), &key);
        let outcome = match message.kind {
            Type::Release => self.give_up((pools, now), request, &message, (&key, message.ciaddr))?,
            Type::Decline => {
                let address = message.requested.ok_or(Outcome::NotTheLease)?;
                self.give_up((pools, now), request, &message, (&key, address))?
            }
            kind => {
                if kind != Type::Inform {
                    may_ask(pools, (&group, request.group), &message, &key)?;
                }
                let known = self.waiting.find(&id, |known| known.line == request.line);
                // A REQUEST may still get a lease, whatever follows it with its transaction.
                let kind = known.map(|known| known.kind).filter(|known| *known == Type::Request).unwrap_or(kind);
                let waiting = Waiting {
                    line: request.line,
                    group: request.group,
                    source: request.source,
                    kind,
                    key,
                    kept: kept.map(<[u8]>::to_vec),
                    agent,
                    mark: dhcp4::mark(request, &message),
                    offers: self.offers(&id, request.line),
                    context,
                };
                self.waiting.insert(now, id, Identity::of(&client, group.vlans), waiting)?;
                Outcome::Forwarded
            }
        };
        // Servers may leave all but a DISCOVER, and a REQUEST to themselves, unanswered.
        let expects = message.kind == Type::Discover || (message.kind == Type::Request && chosen.is_some());
        let (to, order) = chosen.as_ref().map_or((&group.servers[..], group.order), |one| (&one[..], Order::All));
        for to in servers.choose((group.instance, to), order, expects, now) {
            self.actions.send(Output::ToServer { group: request.group, from: giaddr, to, octets: octets.clone() });
        }
        Ok(outcome)
    }

    /// Offers that a client's request has had.
    fn offers(&self, id: &(u32, [u8; 6]), line: Line) -> Vec<(Ipv4Addr, Ipv4Addr)> {
        self.waiting.find(id, |request| request.line == line).map(|request| request.offers.clone()).unwrap_or_default()
    }

    /// The one server that a message is for; none: for those of the group. Servers that share an identifier (RFC
    /// 5107) would all take a REQUEST for theirs, and one that does not know a lease would refuse to renew it.
    fn chosen(
        &self,
        (pools, servers): (&Pools, &Servers),
        group: &Group,
        (message, line): (&Message<'_>, Line),
        key: &LeaseKey,
    ) -> Option<[Ipv4Addr; 1]> {
        let live = pools.live(key);
        let of_lease = || match pools.server(live?)? {
            IpAddr::V4(server) => Some(server),
            IpAddr::V6(_) => None,
        };
        let answers = |server: &Ipv4Addr| !servers.is_silent((group.instance, (*server).into()));
        // INIT-REBOOT (RFC 2131, 4.3.2): of an address that the client has.
        let reboots = message.server.is_none() && live.is_some_and(|slot| pools.ip4(slot) == message.requested);
        let of_offer = |address: Ipv4Addr| {
            let offers = self.offers(&(message.xid, message.chaddr.0), line);
            offers.iter().find(|(_, offered)| *offered == address).map(|(server, _)| *server)
        };
        let chosen = match message.kind {
            Type::Request if message.ciaddr.is_unspecified() => {
                let named = message.server.filter(|server| group.servers.contains(server));
                let named = named.or_else(|| message.server.and(message.requested).and_then(of_offer));
                named.or_else(|| of_lease().filter(|server| reboots && answers(server)))
            }
            Type::Request => of_lease().filter(answers),
            Type::Release | Type::Decline => of_lease(),
            _ => None,
        };
        chosen.filter(|server| group.servers.contains(server)).map(|server| [server])
    }

    /// RELEASE and DECLINE (RFC 2131, 4.4.4 and 4.4.6): there is no reply, so the lease ends now. A declined address
    /// rests at its server.
    fn give_up(
        &mut self,
        (pools, now): (&mut Pools, Time),
        request: &Request<'_>,
        message: &Message<'_>,
        (key, address): (&LeaseKey, Ipv4Addr),
    ) -> Result<Outcome, Outcome> {
        if message.kind == Type::Release && request.from != message.ciaddr {
            return Err(Outcome::NotTheLease);
        }
        let slot = dhcp4::lease_of(pools, key, address);
        let slot = slot.filter(|slot| dhcp4::is_of_line(pools, *slot, request, message));
        let slot = slot.ok_or(Outcome::NotTheLease)?;
        if message.kind == Type::Release {
            self.give_back(pools, slot);
            return Ok(Outcome::Released);
        }
        self.end(pools, slot);
        pools.decline_elsewhere(slot, now);
        Ok(Outcome::Declined)
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

    /// The lease in a slot ends by other means than a message: its ACK, if one waits for the store, does not go out.
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
        let message = ServerMessage::parse(received.octets).ok_or(Outcome::ReplyMalformed)?;
        let server = (received.instance, received.from.into());
        if !servers.has(server) {
            return Err(Outcome::Stranger);
        }
        let id = (message.xid, message.chaddr);
        // A server repeats option 82 (RFC 3046, 2.2); one that knows none leaves it out.
        let is_it = |request: &Waiting<C>| message.agent == Some(&request.agent[..]);
        let found = match message.agent {
            Some(_) => self.waiting.find(&id, is_it),
            None => self.waiting.only(&id),
        };
        let request = found.ok_or(Outcome::UnknownRequest)?.clone();
        let group = self.groups.get(&request.group).ok_or(Outcome::UnknownRequest)?.clone();
        if group.instance != received.instance || !group.servers.contains(&received.from) {
            return Err(Outcome::Stranger);
        }
        if message.giaddr != group.giaddr {
            return Err(Outcome::NotOurs);
        }
        servers.answered(server);
        let pools = pools.get_mut(group.instance).ok_or(Outcome::Outside)?;
        let reply = reply(&group, &request, &message, received.octets).ok_or(Outcome::ReplyMalformed)?;
        let outcome = match message.kind {
            Type::Offer => self.offered(pools, &group, &request, &message, reply)?,
            Type::Ack if is_of_inform(&request, &message) => {
                self.actions.send(Output::ToClient(reply));
                Outcome::Informed
            }
            Type::Ack => self.learn((pools, now), (&group, &request), (&message, received.from), reply)?,
            _ => self.refused(pools, (&group, &request), received.from, reply)?,
        };
        let is_same = |known: &Waiting<C>| known.key == request.key && known.agent == request.agent;
        if message.kind == Type::Offer {
            if let Some(known) = self.waiting.find_mut(&id, is_same).filter(|known| known.offers.len() < MOST_OFFERS) {
                known.offers.push((received.from, message.yiaddr));
            }
        } else if outcome != Outcome::Informed || request.kind == Type::Inform {
            self.waiting.take(&id, is_same);
        }
        Ok((outcome, request.context))
    }

    /// A NAK ends the lease that its server has granted.
    fn refused(
        &mut self,
        pools: &mut Pools,
        (group, request): (&Group, &Waiting<C>),
        server: Ipv4Addr,
        reply: Reply,
    ) -> Result<Outcome, Outcome> {
        if let Some(slot) = pools.live(&request.key).filter(|_| request.kind == Type::Request) {
            if !request.is_of_circuit(pools, slot) {
                return Err(Outcome::OtherCircuit);
            }
            if !may_end(pools, slot, server.into(), &group.servers) {
                return Err(Outcome::OtherServer);
            }
            self.give_back(pools, slot);
        }
        self.actions.send(Output::ToClient(reply));
        Ok(Outcome::Refused)
    }

    fn offered(
        &mut self,
        pools: &Pools,
        group: &Group,
        request: &Waiting<C>,
        message: &ServerMessage<'_>,
        reply: Reply,
    ) -> Result<Outcome, Outcome> {
        request.may_have(pools, group, message.yiaddr)?;
        self.actions.send(Output::ToClient(reply));
        Ok(Outcome::Offered)
    }

    /// An ACK: the lease takes its place in the pools, and the ACK goes on when it is stored.
    fn learn(
        &mut self,
        (pools, now): (&mut Pools, Time),
        (group, request): (&Group, &Waiting<C>),
        (message, server): (&ServerMessage<'_>, Ipv4Addr),
        reply: Reply,
    ) -> Result<Outcome, Outcome> {
        let lease = message.lease.filter(|seconds| *seconds > 0).ok_or(Outcome::NoLeaseTime)?;
        if self.actions.waiting() >= self.most_stored {
            return Err(Outcome::StoreFull);
        }
        let (key, address) = (request.key, message.yiaddr.to_ipv6_mapped());
        let replaced = request.may_have(pools, group, message.yiaddr)?;
        let outcome = if replaced.takes_over { Outcome::Moved } else { Outcome::Acknowledged };
        replaced.ended.into_iter().for_each(|slot| self.give_back(pools, slot));
        let learnt = Learnt { server: Some(server.into()), address };
        let slot = pools.claim(key, request.group, (learnt, 128), now, HOLD)?;
        request.mark.into_iter().for_each(|mark| pools.mark(slot, mark));
        let expiry = (now + Duration::from_secs(lease.into())).secs();
        let (place, reply) = (pools.place(slot), Output::ToClient(reply));
        if pools.grant(slot, expiry, 0) {
            self.actions.store(place, pools.record(slot), Some(reply));
        } else if self.actions.is_waiting(place) {
            self.actions.replace(&[place], reply);
        } else {
            self.actions.send(reply);
        }
        Ok(outcome)
    }
}

/// A server's message for its client (RFC 2131, 4.1).
fn reply<C>(group: &Group, request: &Waiting<C>, message: &ServerMessage<'_>, octets: &[u8]) -> Option<Reply> {
    let octets = to_client4(octets, request.kept.as_deref())?;
    let client = if message.ciaddr.is_unspecified() { message.yiaddr } else { message.ciaddr };
    let is_for_all = message.ciaddr.is_unspecified() && message.broadcast;
    let to = if message.kind == Type::Nak || is_for_all || client.is_unspecified() {
        Destination::Broadcast
    } else {
        Destination::Unicast(request.source, client)
    };
    let (line, server) = (request.line, group.gateway);
    Some(Reply { line, server, to, kind: message.kind, address: message.yiaddr, octets })
}
