//! What happens to a packet.

use engine::Drop;
use table::bulk::Hash;
use table::records::LineId;
use wire::{Fragment, L3L4, fast, ip4, tcp};

use super::blocks::NONE;
use super::fragments::Whole;
use super::icmp::Quoted;
use super::kind::{Kind, Protocol};
use super::mapping::{Mapping, key};
use super::rewrite::{self, End};
use super::tables::{Flow, Nat};

use crate::drops;

/// Where a packet goes after its source was translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Out.
    Forward,
    /// To another subscriber here: its destination is translated too.
    Hairpin,
}

/// What is known of a packet between the passes over a burst.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    kind: Kind,
    domain: u16,
    /// The end it is looked up by; 0: it is not.
    key: u64,
    hash: Hash,
    /// The mapping that was found, to be trusted only if it still has the key.
    found: LineId,
}

impl Default for Ticket {
    fn default() -> Self {
        Self { kind: Kind::Foreign, domain: 0, key: 0, hash: Hash::default(), found: LineId(NONE) }
    }
}

impl Ticket {
    /// Whether the packet is to be translated at all.
    pub(super) fn is_ours(&self) -> bool {
        self.kind != Kind::Foreign
    }
}

impl Nat {
    /// The first look at a packet: what it is, and its mapping's bucket is asked for. `side`: by which end of it the
    /// mapping is found.
    #[inline(always)]
    pub(super) fn look(&self, domain: u16, ip: &L3L4, packet: &[u8], side: End) -> Ticket {
        let (kind, src_port, dst_port) = Kind::of(ip, packet);
        let Kind::Flow(protocol) = kind else { return Ticket { kind, domain, ..Ticket::default() } };
        let (address, port, index) = match side {
            End::Source => (ip.src, src_port, &self.inside),
            End::Destination => (ip.dst, dst_port, &self.outside),
        };
        let key = key(domain, protocol, address, port);
        Ticket { kind, domain, key, hash: index.prefetch(key), found: LineId(NONE) }
    }

    /// The second look: the mapping's line is asked for.
    #[inline(always)]
    pub(super) fn find(&self, ticket: &mut Ticket, side: End) {
        let index = if side == End::Source { &self.inside } else { &self.outside };
        if ticket.key != 0
            && let Some(id) = index.get_hashed(ticket.hash, ticket.key)
        {
            ticket.found = LineId(id);
            self.mappings.prefetch(ticket.found, 0);
        }
    }

    /// Translates a subscriber's packet: its source, and its destination too when that is another subscriber.
    #[inline(always)]
    pub(super) fn outward(
        &mut self,
        ticket: &Ticket,
        session: u32,
        ip: &mut L3L4,
        packet: &mut [u8],
    ) -> Result<Outcome, Drop> {
        match ticket.kind {
            Kind::Flow(protocol) => self.flow_out(ticket, protocol, session, ip, packet)?,
            Kind::Error => self.error_out(ticket.domain, ip, packet)?,
            Kind::Later => self.later_out(ticket.domain, ip, packet)?,
            Kind::Foreign => return Ok(Outcome::Forward),
            Kind::Short => return Err(drops::NAT_FRAGMENT),
            Kind::Other => return Err(drops::NAT_PROTOCOL),
        }
        if self.blocks.is_public(ticket.domain, ip.dst) {
            self.back(ticket.domain, ip, packet)
        } else {
            Ok(Outcome::Forward)
        }
    }

    #[inline(always)]
    fn flow_out(
        &mut self,
        ticket: &Ticket,
        protocol: Protocol,
        session: u32,
        ip: &mut L3L4,
        packet: &mut [u8],
    ) -> Result<(), Drop> {
        let known = self.mapping(ticket.found).is_some_and(|m| m.out_key == ticket.key && m.session == session);
        let id = if known {
            ticket.found
        } else {
            let port = (ticket.key >> 32) as u16; // as the key has it
            self.map(&Flow { key: ticket.key, domain: ticket.domain, protocol, private: ip.src, port, session })?
        };
        let (flags, now) = (flags(protocol, ip, packet), self.now);
        if flags & tcp::flag::SYN != 0 {
            // What was seen before is of the connection before.
            self.use_elsewhere(id);
        }
        let mapping = self.mapping_mut(id).ok_or(drops::NAT_TABLE_FULL)?;
        let shorter = mapping.went_out(flags, now);
        let new = (mapping.public, mapping.public_port);
        self.mapping_changed(id);
        rewrite::end(packet, ip.l4.into(), protocol, End::Source, new).ok_or(drops::MALFORMED)?;
        ip.src = new.0;
        if protocol != Protocol::Icmp {
            ip.src_port = new.1;
        }
        if shorter {
            self.hasten(id);
        }
        Ok(())
    }

    /// An ICMP error of a subscriber, about a packet that came to it.
    #[cold]
    fn error_out(&mut self, domain: u16, ip: &mut L3L4, packet: &mut [u8]) -> Result<(), Drop> {
        let quoted = Quoted::read(ip, packet).filter(|quoted| quoted.dst.0 == ip.src).ok_or(drops::NAT_NO_MAPPING)?;
        let key = key(domain, quoted.protocol, quoted.dst.0, quoted.dst.1);
        let found = self.inside.get(key).and_then(|id| self.mapping(LineId(id)));
        let new = found.map(|mapping| (mapping.public, mapping.public_port)).ok_or(drops::NAT_NO_MAPPING)?;
        quoted.replace(ip, packet, End::Source, new).ok_or(drops::MALFORMED)?;
        ip.src = new.0;
        Ok(())
    }

    /// A later fragment of a subscriber: its address is the same for all ports.
    #[cold]
    fn later_out(&mut self, domain: u16, ip: &mut L3L4, packet: &mut [u8]) -> Result<(), Drop> {
        let found = self.find_subscriber(domain, ip.src).and_then(|id| self.subscriber(id));
        let public = found.map(|subscriber| self.blocks.public(subscriber.address)).ok_or(drops::NAT_FRAGMENT)?;
        rewrite::address(packet, End::Source, public).ok_or(drops::MALFORMED)?;
        ip.src = public;
        Ok(())
    }

    /// A translated packet to a public address: back to the subscriber there, if it is this worker's.
    #[cold]
    fn back(&mut self, domain: u16, ip: &mut L3L4, packet: &mut [u8]) -> Result<Outcome, Drop> {
        if !self.blocks.is_mine(domain, ip.dst) {
            return Ok(Outcome::Forward);
        }
        let mut ticket = self.look(domain, ip, packet, End::Destination);
        self.find(&mut ticket, End::Destination);
        self.inward(&ticket, ip, packet)?;
        Ok(Outcome::Hairpin)
    }

    /// Translates the destination of a packet from outside.
    #[inline(always)]
    pub(super) fn inward(&mut self, ticket: &Ticket, ip: &mut L3L4, packet: &mut [u8]) -> Result<(), Drop> {
        match ticket.kind {
            Kind::Flow(protocol) => self.flow_in(ticket, protocol, ip, packet),
            Kind::Error => self.error_in(ticket.domain, ip, packet),
            Kind::Later => self.later_in(ticket.domain, ip, packet),
            Kind::Foreign => Ok(()),
            Kind::Short => Err(drops::NAT_FRAGMENT),
            Kind::Other => Err(drops::NAT_PROTOCOL),
        }
    }

    #[inline(always)]
    fn flow_in(&mut self, ticket: &Ticket, protocol: Protocol, ip: &mut L3L4, packet: &mut [u8]) -> Result<(), Drop> {
        let id = ticket.found;
        let (flags, refresh) = (flags(protocol, ip, packet), self.refresh.then_some(self.now));
        let found = self.mapping_mut(id).filter(|mapping| mapping.in_key == ticket.key);
        let mapping = found.ok_or(drops::NAT_NO_MAPPING)?;
        let shorter = mapping.came_in(flags, refresh);
        let (new, session) = ((mapping.private, mapping.private_port), mapping.session);
        self.mapping_changed(id);
        if ip.fragment == Fragment::First {
            let whole = whole(ticket.domain, ip, packet);
            self.fragments.learn(whole, id, session, self.now_ns);
        }
        rewrite::end(packet, ip.l4.into(), protocol, End::Destination, new).ok_or(drops::MALFORMED)?;
        ip.dst = new.0;
        if protocol != Protocol::Icmp {
            ip.dst_port = new.1;
        }
        if shorter {
            self.hasten(id);
        }
        Ok(())
    }

    /// An ICMP error about a packet that a subscriber sent.
    #[cold]
    fn error_in(&mut self, domain: u16, ip: &mut L3L4, packet: &mut [u8]) -> Result<(), Drop> {
        let quoted = Quoted::read(ip, packet).filter(|quoted| quoted.src.0 == ip.dst).ok_or(drops::NAT_NO_MAPPING)?;
        let key = key(domain, quoted.protocol, quoted.src.0, quoted.src.1);
        let found = self.outside.get(key).and_then(|id| self.mapping(LineId(id)));
        let new = found.map(|mapping| (mapping.private, mapping.private_port)).ok_or(drops::NAT_NO_MAPPING)?;
        quoted.replace(ip, packet, End::Destination, new).ok_or(drops::MALFORMED)?;
        ip.dst = new.0;
        Ok(())
    }

    /// A later fragment from outside follows its first.
    #[cold]
    fn later_in(&mut self, domain: u16, ip: &mut L3L4, packet: &mut [u8]) -> Result<(), Drop> {
        let recalled = self.fragments.recall(&whole(domain, ip, packet), self.now_ns);
        let (id, session) = recalled.ok_or(drops::NAT_FRAGMENT)?;
        // The mapping may have ended meanwhile, and its place be another's.
        let same = |mapping: &&Mapping| mapping.session == session && mapping.public == ip.dst;
        let private = self.mapping(id).filter(same).ok_or(drops::NAT_FRAGMENT)?.private;
        rewrite::address(packet, End::Destination, private).ok_or(drops::MALFORMED)?;
        ip.dst = private;
        Ok(())
    }
}

/// The flags of a TCP segment; none for other protocols.
#[inline(always)]
fn flags(protocol: Protocol, ip: &L3L4, packet: &[u8]) -> u8 {
    let at = usize::from(ip.l4) + tcp::field::FLAGS;
    if protocol == Protocol::Tcp { fast::be8(packet, at).unwrap_or(0) } else { 0 }
}

/// What all fragments of a packet have in common.
fn whole(domain: u16, ip: &L3L4, packet: &[u8]) -> Whole {
    let ident = fast::be16(packet, ip4::field::IDENT).unwrap_or(0);
    Whole { src: ip.src, dst: ip.dst, domain, ident, protocol: ip.protocol }
}
