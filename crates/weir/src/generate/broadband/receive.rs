//! What becomes of frames that arrive: answers move subscribers on, signed packets are checked.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use dataplane::neighbour::NeighbourMessage;
use table::histogram::Histogram;
use traffic::{Arrival, Direction, Signature};
use wire::{Mac, ethertype, fast};

use super::line::{KINDS, Line};
use super::numbering::{self, Numbering, mac};
use super::{BroadbandCounts, LineArgs, frames, frames6};

/// The subscribers, and how far they are.
#[derive(Default)]
pub struct Subscribers {
    pub numbering: Numbering,
    /// They ask for IPv6, too.
    pub dual: bool,
    pub lines: Vec<Line>,
    /// Who has an address: IPv4, or a WAN address of IPv6.
    owners: HashMap<IpAddr, u32>,
    /// Those that have something else to ask now.
    pub advanced: Vec<u32>,
    /// Those that have all they ask for.
    pub up: u32,
    pub leases: u64,
    pub routers: u64,
    pub leases6: u64,
    pub routers6: u64,
}

impl Subscribers {
    /// Lines by their numbers, without anything yet.
    pub fn new(numbering: Numbering, count: u32, dual: bool) -> Self {
        let lines = (0..count).map(|_| Line::default()).collect();
        Self { numbering, dual, lines, ..Self::default() }
    }

    /// Changes a subscriber and keeps count. `change` returns whether it has something else to ask now.
    fn change(&mut self, n: u32, change: impl FnOnce(&mut Line) -> bool) {
        let Some(line) = self.lines.get_mut(n as usize) else { return };
        let state = |line: &Line| {
            [line.is_bound, line.router.is_some(), line.is_bound6, line.router6.is_some(), line.is_up(self.dual)]
        };
        let before = state(line);
        let has_moved = change(line);
        let rose = |at: usize| u64::from(state(line)[at] && !before[at]);
        self.leases += rose(0);
        self.routers += rose(1);
        self.leases6 += rose(2);
        self.routers6 += rose(3);
        self.up += rose(4) as u32;
        if line.is_bound
            && let Some(offer) = &line.offer
        {
            self.owners.insert(offer.address.into(), n);
        }
        if line.is_bound6
            && let Some(address) = line.address6(1)
        {
            self.owners.insert(address.into(), n);
        }
        if has_moved && !line.is_up(self.dual) {
            // What comes next is due now.
            line.asked = None;
            self.advanced.push(n);
        }
    }
}

/// Both ends' side of what arrives.
pub struct Receiver<'a> {
    pub args: &'a LineArgs,
    /// The hardware address of the core's host.
    pub core: Mac,
    /// The gateway's hardware address in the core.
    pub gateway: Option<Mac>,
    /// When times of signatures began.
    pub begin: Instant,
    pub subscribers: Subscribers,
    /// Frames to be sent at the access lines and in the core.
    pub replies: [Vec<Vec<u8>>; 2],
    pub control_wrong_tags: u64,
    pub counts: [BroadbandCounts; 2],
    /// Latencies in nanoseconds.
    pub waited: [Histogram; 2],
}

impl Receiver<'_> {
    /// A frame at the access lines.
    pub fn at_lines(&mut self, frame: &[u8]) {
        let Ok(outer) = wire::Outer::parse(frame) else { return };
        let packet = frame.get(usize::from(outer.l3)..).unwrap_or_default();
        let is_6 = outer.ethertype == ethertype::IP6;
        if outer.ethertype == ethertype::ARP || is_6 && fast::be8(packet, 6) == Some(58) {
            return self.neighbour_at_lines(frame);
        }
        let mark = if is_6 { frames6::signature6(packet) } else { frames::signature(packet) };
        let Some(mark) = mark.filter(|mark| mark.direction == Direction::Downlink) else {
            return self.dhcp(frame, packet, is_6);
        };
        let counts = &mut self.counts[Direction::Downlink.index()];
        let n = mark.flow / KINDS as u32;
        if n >= self.args.subscribers {
            counts.misdelivered_packets += 1;
        } else if !self.subscribers.numbering.place(n).is_of(frame) {
            counts.wrong_tags_packets += 1;
        } else {
            self.check(mark, frame[..6] == mac(n).0, packet);
        }
    }

    /// An answer of a DHCP server, to the subscriber that its transaction names.
    fn dhcp(&mut self, frame: &[u8], packet: &[u8], is_6: bool) {
        let numbering = self.subscribers.numbering;
        let mut is_right = |n: u32| {
            // Of somebody else's client.
            if n >= self.args.subscribers {
                return false;
            }
            let is_right =
                numbering.place(n).is_of(frame) && (frame[..6] == mac(n).0 || frame[..6] == Mac::BROADCAST.0);
            self.control_wrong_tags += u64::from(!is_right);
            is_right
        };
        if is_6 {
            let answer = frames6::dhcp6_answer(packet).filter(|(n, _)| is_right(*n));
            answer.into_iter().for_each(|(n, answer)| self.subscribers.change(n, |line| line.answered6(answer)));
        } else {
            let answer = frames::dhcp_answer(packet).filter(|(n, _)| is_right(*n));
            answer.into_iter().for_each(|(n, answer)| self.subscribers.change(n, |line| line.answered(&answer)));
        }
    }

    /// ARP and neighbour discovery at the access lines: a router's answer is of the line whose tags it has, and a
    /// subscriber is asked for by its line's.
    fn neighbour_at_lines(&mut self, frame: &[u8]) {
        let Ok(message) = NeighbourMessage::parse(frame) else { return };
        let numbering = self.subscribers.numbering;
        match message {
            NeighbourMessage::ArpRequest { sender, sender_ip, target } => {
                let Some(n) = self.owner(target.into(), frame) else { return };
                let reply = frames::arp(true, (mac(n), target), (sender, sender_ip), Some(numbering.place(n)));
                self.replies[0].push(reply);
            }
            NeighbourMessage::NeighbourSolicitation { source, link, target } if !source.is_unspecified() => {
                let Some(n) = self.owner(target.into(), frame) else { return };
                let to = (link.unwrap_or(source_of(frame)), source);
                let place = Some(numbering.place(n));
                self.replies[0].push(frames6::neighbour_advertisement((mac(n), target), to, place));
            }
            NeighbourMessage::ArpReply { sender, sender_ip, target } => {
                let Some(n) = self.subscribers.owners.get(&target.into()).copied() else { return };
                if !numbering.place(n).is_of(frame) {
                    self.control_wrong_tags += 1;
                    return;
                }
                self.subscribers.change(n, |line| {
                    let is_router = line.offer.and_then(|offer| offer.router) == Some(sender_ip);
                    let is_new = is_router && line.router != Some(sender);
                    line.router = if is_router { Some(sender) } else { line.router };
                    is_new
                });
            }
            NeighbourMessage::RouterAdvertisement { link, lifetime: 1.., .. } => {
                let sender = link.unwrap_or(source_of(frame));
                let Some(n) = numbering::number(&frame[..6]).filter(|n| *n < self.args.subscribers) else { return };
                if !numbering.place(n).is_of(frame) {
                    self.control_wrong_tags += 1;
                    return;
                }
                // One that comes early is of use once there is an address.
                self.subscribers.change(n, |line| line.router6.replace(sender) != Some(sender) && line.is_bound6);
            }
            _ => {}
        }
    }

    /// The subscriber that has an address, if it is on the line that a frame came by.
    fn owner(&self, address: IpAddr, frame: &[u8]) -> Option<u32> {
        let n = match address {
            IpAddr::V6(address) if address.segments()[0] == 0xfe80 => {
                let n = address.to_bits() as u32;
                Some(n).filter(|n| numbering::link_local(*n) == address && *n < self.args.subscribers)
            }
            address => self.subscribers.owners.get(&address).copied(),
        }?;
        self.subscribers.numbering.place(n).is_of(frame).then_some(n)
    }

    /// A frame in the core.
    pub fn in_core(&mut self, frame: &[u8]) {
        let kind = fast::be16(frame, 12).unwrap_or(0);
        let packet = frame.get(14..).unwrap_or_default();
        match kind {
            ethertype::ARP => return self.neighbour_in_core(frame),
            ethertype::IP6 if fast::be8(packet, 6) == Some(58) => return self.neighbour_in_core(frame),
            ethertype::IP4 | ethertype::IP6 => {}
            _ => return,
        }
        let mark = if kind == ethertype::IP6 { frames6::signature6(packet) } else { frames::signature(packet) };
        if let Some(mark) = mark.filter(|mark| mark.direction == Direction::Uplink) {
            self.check(mark, frame[..6] == self.core.0, packet);
        }
    }

    /// ARP and neighbour solicitations for hosts of the core are answered; the gateway's answer is taken in.
    fn neighbour_in_core(&mut self, frame: &[u8]) {
        match NeighbourMessage::parse(frame) {
            Ok(NeighbourMessage::ArpReply { sender, sender_ip, .. }) if sender_ip == self.args.gateway => {
                self.gateway = Some(sender);
            }
            Ok(NeighbourMessage::ArpRequest { sender, sender_ip, target }) if self.args.is_server(target) => {
                self.replies[1].push(frames::arp(true, (self.core, target), (sender, sender_ip), None));
            }
            Ok(NeighbourMessage::NeighbourSolicitation { source, link, target })
                if self.args.is_server6(target) && !source.is_unspecified() =>
            {
                let to = (link.unwrap_or(source_of(frame)), source);
                self.replies[1].push(frames6::neighbour_advertisement((self.core, target), to, None));
            }
            _ => {}
        }
    }

    /// Counts a signed packet of a flow; `is_ours`: its hardware address is right.
    fn check(&mut self, mark: Signature, is_ours: bool, packet: &[u8]) {
        let at = mark.direction.index();
        let counts = &mut self.counts[at];
        let (n, kind) = (mark.flow / KINDS as u32, mark.flow as usize % KINDS);
        let line = self.subscribers.lines.get_mut(n as usize);
        let pair = |pair: (IpAddr, IpAddr)| match mark.direction {
            Direction::Uplink => pair,
            Direction::Downlink => (pair.1, pair.0),
        };
        let (found, subscriber, server): (_, Option<IpAddr>, IpAddr) = match kind {
            0 => (
                frames::forwarded(packet).map(addresses4),
                line.as_ref().and_then(|line| line.offer).map(|offer| offer.address.into()),
                self.args.server(n).into(),
            ),
            _ => (
                frames6::forwarded6(packet).map(addresses6),
                line.as_ref().and_then(|line| line.address6(kind)).map(IpAddr::from),
                self.args.server6(n).into(),
            ),
        };
        let Some(found) = found else {
            counts.corrupt_packets += 1;
            return;
        };
        let is_right = is_ours && subscriber.is_some_and(|subscriber| pair((subscriber, server)) == found);
        let Some(line) = line.filter(|_| is_right) else {
            counts.misdelivered_packets += 1;
            return;
        };
        match line.windows[kind][at].note(mark.seq) {
            Arrival::InOrder => {}
            Arrival::Reordered | Arrival::Stale => counts.reordered_packets += 1,
            Arrival::Duplicate => {
                counts.duplicated_packets += 1;
                return;
            }
        }
        counts.received_packets += 1;
        let waited = (self.begin.elapsed().as_nanos() as u64).saturating_sub(mark.sent_ns);
        self.waited[at].record(waited);
    }
}

/// A frame's source address.
fn source_of(frame: &[u8]) -> Mac {
    Mac(frame.get(6..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default())
}

fn addresses4((from, to): (Ipv4Addr, Ipv4Addr)) -> (IpAddr, IpAddr) {
    (from.into(), to.into())
}

fn addresses6((from, to): (Ipv6Addr, Ipv6Addr)) -> (IpAddr, IpAddr) {
    (from.into(), to.into())
}
