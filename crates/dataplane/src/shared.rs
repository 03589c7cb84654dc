//! Ports that share a device: which of them a frame is for.

use wire::{Outer, ethertype, fast, protocol};

use crate::forward::{Forwarding, PortView};

/// Neighbour solicitation and advertisement (RFC 4861, 4.3 and 4.4), whose target stands behind eight bytes.
const ABOUT_A_TARGET: std::ops::RangeInclusive<u8> = 135..=136;
/// Bytes of a header of IPv6.
const IP6: usize = 40;
/// Where destinations stand in headers of IPv4 and IPv6, and the target's protocol address in a message of ARP.
const TO4: usize = 16;
const TO6: usize = 24;
const ARP_TARGET: usize = 24;
/// fe80::/10 (RFC 4291, 2.5.6).
const LINK_LOCAL_SHIFT: u32 = 118;
const LINK_LOCAL: u128 = 0xfe80 >> 6;

/// Of the ports on the device of port `device`, the one that takes a frame that came in there: by its tags, and, of several
/// with the same, by the address it is to. No port takes it: `device`, which drops it by name.
#[inline]
pub fn port_of(tables: &Forwarding, device: u8, frame: &[u8]) -> u8 {
    let Ok(outer) = Outer::parse(frame) else { return device };
    let mut takes = taking(tables, device, &outer);
    match (takes.next(), takes.next()) {
        (None, _) => device,
        (Some((port, _)), None) => port,
        (Some((port, _)), Some(_)) => by_address(tables, device, &outer, frame).unwrap_or(port),
    }
}

/// The ports on a device that take frames with those tags.
fn taking<'a>(tables: &'a Forwarding, device: u8, outer: &'a Outer) -> impl Iterator<Item = (u8, &'a PortView)> {
    let on_it = move |(n, view): &(u8, &PortView)| *n == device || view.on == Some(device);
    (0..).zip(&tables.ports).filter(on_it).filter(|(_, view)| view.has_tags(outer))
}

/// Of those, the one that a frame is to; none: it has what is to none of their addresses.
#[inline(never)]
fn by_address(tables: &Forwarding, device: u8, outer: &Outer, frame: &[u8]) -> Option<u8> {
    let packet = frame.get(usize::from(outer.l3)..).unwrap_or_default();
    let mut takes = taking(tables, device, outer);
    let to = match outer.ethertype {
        ethertype::IP4 => fast::be32(packet, TO4).and_then(|to| takes.find(|(_, view)| view.is_mine4(to))),
        ethertype::ARP => fast::be32(packet, ARP_TARGET).and_then(|to| takes.find(|(_, view)| view.is_mine4(to))),
        // All ports of a device have one link-local address, at which no tunnel ends.
        ethertype::IP6 => asked6(packet)
            .filter(|to| to >> LINK_LOCAL_SHIFT != LINK_LOCAL)
            .and_then(|to| takes.find(|(_, view)| view.is_mine6(to))),
        _ => None,
    };
    to.or_else(|| taking(tables, device, outer).find(|(_, view)| view.has_rest)).map(|(port, _)| port)
}

/// The address that a packet of IPv6 is to, or about, where it is to a group that asks for it.
fn asked6(packet: &[u8]) -> Option<u128> {
    let address = |at: usize| packet.get(at..)?.first_chunk().map(|bytes| u128::from_be_bytes(*bytes));
    let to = address(TO6)?;
    let is_about = fast::be8(packet, 6) == Some(protocol::ICMP6)
        && fast::be8(packet, IP6).is_some_and(|kind| ABOUT_A_TARGET.contains(&kind));
    if to >> 120 == 0xff && is_about { address(IP6 + 8) } else { Some(to) }
}

#[cfg(test)]
mod tests {
    use testkit::packet::{eth, ip4};
    use wire::Vlan;
    use wire::ethernet::{Tag, Tags};

    use super::*;
    use crate::forward::Plan;

    const HOST: [u8; 4] = [10, 0, 0, 9];
    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    /// The first has a device of its own, the last too; those between are on the first one's.
    fn tables(tags: [Tags; 3]) -> Forwarding {
        let mut plan = Plan::default();
        let v6 = |last: u128| vec![(0xfd00_u128 << 112 | last, 64), (0xfe80 << 112 | 1, 64)];
        for (n, tags) in (0..).zip(tags) {
            let on = (n > 0).then_some(0);
            let v4 = vec![(0x0a00_0001 + n, 24)];
            plan.ports.push(PortView { tags, on, has_rest: n > 0, v4, v6: v6(n.into()), ..PortView::default() });
        }
        plan.ports.push(PortView { v4: vec![(0x0a00_0001, 24)], ..PortView::default() });
        plan.compile()
    }

    fn one(id: u16) -> Tags {
        Tags::One(Tag::customer(Vlan::of(id)))
    }

    #[test]
    fn tags_tell_ports_on_a_device_apart() {
        let stack = Tags::Two(Tag::service(Vlan::of(200)), Tag::customer(Vlan::of(7)));
        let tables = tables([one(100), one(200), stack]);
        let packet = ip4(HOST, [10, 0, 0, 1]).udp(1, 2).filled(9);
        let of = |head: testkit::packet::Packet| port_of(&tables, 0, &head.carrying(&packet).build());
        assert_eq!(of(eth(MAC, MAC).vlan(100)), 0);
        assert_eq!(of(eth(MAC, MAC).vlan(200)), 1);
        assert_eq!(of(eth(MAC, MAC).service_vlan(200).vlan(7)), 2);
        for none in [eth(MAC, MAC), eth(MAC, MAC).vlan(300), eth(MAC, MAC).vlan(100).vlan(7)] {
            assert_eq!(of(none), 0, "the device's own port drops it");
        }
        assert_eq!(port_of(&tables, 3, &eth(MAC, MAC).carrying(&packet).build()), 3);
        assert_eq!(port_of(&tables, 0, &[]), 0);
    }

    #[test]
    fn addresses_tell_ports_with_the_same_tags_apart() {
        let tables = tables([one(100), one(100), one(300)]);
        let of = |frame: testkit::packet::Packet| port_of(&tables, 0, &frame.build());
        let link = || eth(MAC, MAC).vlan(100);
        let to = |last: u8| link().ip4(HOST, [10, 0, 0, last]).udp(1, 2).filled(9);
        assert_eq!([1, 2, 77].map(|last| of(to(last))), [0, 1, 1]);
        let asked = |last: u8| link().arp_request(MAC, HOST, [10, 0, 0, last]);
        assert_eq!([1, 2, 77].map(|last| of(asked(last))), [0, 1, 1]);
        let address = |last: u16| [0xfd00, 0, 0, 0, 0, 0, 0, last];
        let to6 = |last| link().ip6(address(9), address(last)).udp(1, 2).filled(9);
        assert_eq!([0, 1, 77].map(|last| of(to6(last))), [0, 1, 1]);
        let local = |last| link().ip6(address(9), [0xfe80, 0, 0, 0, 0, 0, 0, last]).udp(1, 2).filled(9);
        assert_eq!([1, 77].map(|last| of(local(last))), [1, 1], "next hops of the core are asked for from there");
        let group = [0xff02, 0, 0, 0, 0, 1, 0xff00, 0];
        for (last, port) in [(0, 0), (1, 1), (77, 1)] {
            let target: Vec<u8> = address(last).iter().flat_map(|part| part.to_be_bytes()).collect();
            assert_eq!(of(link().ip6(address(9), group).icmp6(135, 0, 0).payload(target)), port, "{last}");
        }
    }
}
