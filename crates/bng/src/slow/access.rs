//! Control packets of lines: ARP and neighbour solicitations are answered from the record, the rest goes to control.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dataplane::neighbour::{NeighbourMessage, Station, arp_reply, neighbour_advertisement};
use dataplane::parse::malformed;
use dataplane::slow::make;
use engine::{Drop, Env, Punt};
use frame::Frame;
use table::records::LineId;
use wire::{L3L4, Mac, fast};

use super::{ControlPacket, Event, SlowPath};
use crate::config::Class;
use crate::lane::State;
use crate::link::Line;
use crate::record::Head;
use crate::steps::{forget, learn, may_move};
use crate::{drops, punts};

/// What became of a control packet that was not dropped.
pub(super) enum Done {
    /// It was answered, or went to control.
    Consumed,
    /// It is to be turned into its echo reply.
    Pong,
}

/// A control packet, its line, and the subscriber on it.
struct Received<'a> {
    class: Class,
    line: Line,
    group: u16,
    record: Option<LineId>,
    /// Its source address.
    mac: [u8; 6],
    bytes: &'a [u8],
    /// Where its network layer begins.
    l3: usize,
}

impl SlowPath {
    pub(super) fn answer(
        &mut self,
        punt: Punt,
        class: Class,
        line: Line,
        frame: &Frame,
        state: &mut State,
        env: &mut Env,
    ) -> Result<Done, Drop> {
        let arena = env.pool.arena().clone();
        let bytes = arena.bytes(frame);
        let mac = fast::array(bytes, 6).unwrap_or_default();
        let record = state.subscribers.of_line(line, mac);
        let entry = state.subscribers.vlans(line.port).get(usize::from(line.s_vlan));
        let group = entry.map(|entry| entry.group).ok_or(drops::UNKNOWN_VLAN)?;
        let l3 = usize::from(frame.meta.l3);
        let from = Received { class, line, group, record, mac, bytes, l3 };
        match punt {
            punts::ARP | punts::NEIGHBOUR => {
                let message = NeighbourMessage::parse(bytes).map_err(malformed)?;
                self.neighbour(&from, message, state, env)
            }
            punts::PING => {
                let packet = bytes.get(l3..).unwrap_or_default();
                let ip = L3L4::parse(packet).map_err(malformed)?;
                let head = record.and_then(|record| state.subscribers.head(record)).ok_or(drops::UNKNOWN_LINE)?;
                let is_own = match ip.version {
                    4 => ip.src == head.ipv4,
                    _ => is_own6(head, ip.src6(packet).into()),
                };
                if is_own && head.mac().is_none_or(|known| known == mac) {
                    Ok(Done::Pong)
                } else {
                    Err(drops::SPOOFED_SOURCE)
                }
            }
            _ => self.punt_to_control(&from, state),
        }
    }

    fn punt_to_control(&mut self, from: &Received<'_>, state: &State) -> Result<Done, Drop> {
        let head = from.record.and_then(|record| state.subscribers.head(record));
        let packet = ControlPacket {
            class: from.class,
            line: from.line,
            group: from.group,
            subscriber: head.map(|head| head.handle),
            frame: from.bytes.to_vec(),
        };
        if self.report_once(Event::Control(Box::new(packet))) { Ok(Done::Consumed) } else { Err(drops::CONTROL_FULL) }
    }

    fn neighbour(
        &mut self,
        from: &Received<'_>,
        message: NeighbourMessage,
        state: &mut State,
        env: &mut Env,
    ) -> Result<Done, Drop> {
        let Some(record) = from.record else {
            // A line without a subscriber: control decides what becomes of it.
            return self.punt_to_control(from, state);
        };
        guard(record, from, &message, state, env.now)?;
        let us = state.subscribers.group(from.group).map(|group| group.mac(from.line.port)).unwrap_or_default();
        let us = Station::untagged(Mac(us));
        let reply = match message {
            NeighbourMessage::ArpRequest { sender, sender_ip, target } => {
                let probe = sender_ip.is_unspecified();
                if !is_answered(from, record, target.into(), probe, state) {
                    return Ok(Done::Consumed);
                }
                make(env, |space| tagged(space, from, |out| arp_reply(out, &us, target, sender, sender_ip)))
            }
            NeighbourMessage::NeighbourSolicitation { source, link, target } => {
                let probe = source.is_unspecified();
                if !is_answered(from, record, target.into(), probe, state) {
                    return Ok(Done::Consumed);
                }
                let to = (link.unwrap_or(Mac(from.mac)), source);
                let to = Some(to).filter(|_| !probe);
                make(env, |space| tagged(space, from, |out| neighbour_advertisement(out, &us, target, to, true)))
            }
            NeighbourMessage::RouterSolicitation { .. } => {
                return self.punt_to_control(from, state);
            }
            _ => return Ok(Done::Consumed),
        };
        if let Some(reply) = reply {
            env.send(from.line.port, reply);
        }
        Ok(Done::Consumed)
    }
}

/// Drops what claims another's address (RFC 5227; RFC 4862), and takes the hardware address of a subscriber whose own is
/// not configured.
fn guard(
    record: LineId,
    from: &Received<'_>,
    message: &NeighbourMessage,
    state: &mut State,
    now: u64,
) -> Result<(), Drop> {
    let mac = from.mac;
    if state.subscribers.head(record).and_then(Head::mac).is_some_and(|known| known != mac) {
        // How long nothing came from it is the worker's to tell.
        state.subscribers.take_back(record);
    }
    let idle = state.subscribers.is_idle(record, now);
    let Some(head) = state.subscribers.head_mut(record) else { return Err(drops::UNKNOWN_LINE) };
    let (own, sender, claimed) = match message {
        NeighbourMessage::ArpRequest { sender, sender_ip, .. }
        | NeighbourMessage::ArpReply { sender, sender_ip, .. } => {
            let is_own = u32::from(*sender_ip) == head.ipv4 && head.ipv4 != 0;
            (if sender_ip.is_unspecified() { None } else { Some(is_own) }, Some(*sender), None)
        }
        NeighbourMessage::NeighbourSolicitation { source, link, .. }
        | NeighbourMessage::RouterSolicitation { source, link } => (own6(head, *source), *link, Some(*source)),
        NeighbourMessage::NeighbourAdvertisement { target, link, .. } => (own6(head, *target), *link, Some(*target)),
        // A subscriber is no router of ours.
        NeighbourMessage::RouterAdvertisement { .. } => return Err(drops::SPOOFED_SOURCE),
    };
    if own == Some(false) || sender.is_some_and(|sender| sender.0 != mac) {
        return Err(drops::SPOOFED_SOURCE);
    }
    // Link-local addresses are anybody's: they say nothing of whose frame it is.
    let says_whose = own == Some(true) && !claimed.is_some_and(is_link_local);
    if head.mac().is_some_and(|known| known != mac) {
        if !says_whose || !may_move(head, idle) {
            return Err(drops::SPOOFED_SOURCE);
        }
        forget(head);
    }
    if says_whose || own == Some(true) && head.mac().is_some() {
        let before = head.link;
        let is_new = learn(from.bytes, head);
        let is_changed = head.link != before;
        state.counts.learnt += u64::from(is_new);
        if is_changed {
            state.note_record(record);
            state.subscribers.link_changed(record);
        }
    }
    Ok(())
}

/// Whether an IPv6 source is the subscriber's; none: it is nobody's.
fn own6(head: &Head, address: Ipv6Addr) -> Option<bool> {
    (!address.is_unspecified()).then(|| is_own6(head, address))
}

fn is_own6(head: &Head, address: Ipv6Addr) -> bool {
    is_link_local(address) || head.has6((u128::from(address) >> 64) as u64)
}

fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// Whether the gateway answers for an address: its own, or, as a proxy, that of another subscriber of the group. A probe
/// for a duplicate is answered for addresses in use only.
fn is_answered(from: &Received<'_>, record: LineId, target: IpAddr, probe: bool, state: &State) -> bool {
    let Some(group) = state.subscribers.group(from.group) else { return false };
    let plan = &group.plan;
    if plan.gateways.contains(&target) {
        return true;
    }
    let in_slices = match target {
        IpAddr::V4(address) => {
            let address = Ipv4Addr::to_bits(address);
            plan.v4.iter().any(|slice| (slice.first..=slice.last).contains(&address))
        }
        IpAddr::V6(address) => {
            let upper = (address.to_bits() >> 64) as u64;
            plan.v6.iter().any(|slice| (slice.first..=slice.last).contains(&upper))
        }
    };
    if !plan.proxy || !in_slices {
        return false;
    }
    let other = state.subscribers.of_address(plan.instance, target);
    other != Some(record) && (other.is_some() || !probe)
}

/// Writes a frame that `write` makes without tags, with the tags of what was received.
fn tagged(space: &mut [u8], received: &Received<'_>, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<usize> {
    let tags = received.l3.checked_sub(14)?;
    let len = write(space.get_mut(tags..)?)?;
    space.copy_within(tags..tags + 12, 0);
    space.get_mut(12..12 + tags)?.copy_from_slice(received.bytes.get(12..12 + tags)?);
    Some(len + tags)
}
