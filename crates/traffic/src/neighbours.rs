//! Answers that let a gateway find the generator's gNBs and servers, and believe them alive.

use std::net::IpAddr;

use wire::icmp6::{self, kind};
use wire::ndp::{self, neighbour_flag};
use wire::{Mac, Outer, arp, ethernet, ethertype, fast, ip6, protocol};

use crate::direction::Direction;
use crate::echo;
use crate::profile::Profile;

/// Answers ARP requests (RFC 826) and IPv6 neighbour solicitations (RFC 4861) for the addresses on the generator's side
/// of one link, and GTP-U echo requests (TS 29.281, 7.2.1) to its gNBs.
pub struct Neighbours {
    mac: Mac,
    ranges: Vec<(IpAddr, u32)>,
}

impl Neighbours {
    /// For the link that packets of a direction leave the generator by: gNBs on the uplink's, servers on the
    /// downlink's, and [`crate::Segment::answers`] on either.
    pub fn new(profile: &Profile, direction: Direction) -> Self {
        let segment = profile.entry(direction);
        let mut ranges: Vec<_> = segment.answers.iter().map(|address| (*address, 1)).collect();
        match direction {
            Direction::Uplink => ranges.push((profile.gnb_first, profile.gnbs)),
            Direction::Downlink => {
                ranges.push((profile.server_first.into(), profile.servers));
                ranges.push((profile.server6_first.into(), profile.servers));
            }
        }
        Self { mac: segment.own, ranges }
    }

    /// Answers the frame in the first `len` bytes of `space` by turning it into its answer, whose length is returned;
    /// none when there is nothing to answer.
    pub fn answer(&self, space: &mut [u8], len: usize) -> Option<usize> {
        let l2 = Outer::parse(space.get(..len)?).ok()?;
        let l3 = usize::from(l2.l3);
        match l2.ethertype {
            ethertype::ARP => self.arp(space, l3),
            ethertype::IP6 if fast::be8(space, l3 + 6) == Some(protocol::ICMP6) => self.solicited(space, len, l3),
            ethertype::IP4 | ethertype::IP6 => echo::answer(space, len, l3, |address| self.has(address)),
            _ => None,
        }
    }

    fn arp(&self, space: &mut [u8], l3: usize) -> Option<usize> {
        let question = arp::Repr::parse(space.get(l3..)?).ok()?;
        if question.operation != arp::REQUEST || !self.has(question.target_ip.into()) {
            return None;
        }
        let len = question.answered_by(self.mac).emit(space.get_mut(l3..)?).ok()?;
        fast::put(space, ethernet::field::DST, question.sender_mac.0)?;
        fast::put(space, ethernet::field::SRC, self.mac.0)?;
        Some(l3 + len)
    }

    fn solicited(&self, space: &mut [u8], len: usize, l3: usize) -> Option<usize> {
        let ip = space.get(l3..len)?;
        let head = ip6::Repr::parse(ip).ok()?;
        let message = ip.get(ip6::HEADER_LEN..ip6::HEADER_LEN + usize::from(head.payload_len))?;
        // Who probes for a duplicate (RFC 4862, 5.4) has no address to answer to.
        if head.src.is_unspecified() || *message.first()? != kind::NEIGHBOUR_SOLICIT {
            return None;
        }
        let icmp6::Repr::Ndp(ndp::Repr::NeighbourSolicit { target, .. }) = icmp6::Repr::parse(&head, message).ok()?
        else {
            return None;
        };
        if !self.has(target.into()) {
            return None;
        }
        let flags = neighbour_flag::SOLICITED | neighbour_flag::OVERRIDE;
        let advert = icmp6::Repr::Ndp(ndp::Repr::NeighbourAdvert { flags, target, address: Some(self.mac) });
        let payload_len = advert.message_len() as u16;
        let answer = ip6::Repr { src: target, dst: head.src, hop_limit: 255, payload_len, ..head };
        let out = space.get_mut(l3..)?;
        answer.emit(out).ok()?;
        let len = advert.emit(&answer, out.get_mut(ip6::HEADER_LEN..)?).ok()?;
        let asker: [u8; 6] = fast::array(space, ethernet::field::SRC)?;
        fast::put(space, ethernet::field::DST, asker)?;
        fast::put(space, ethernet::field::SRC, self.mac.0)?;
        Some(l3 + ip6::HEADER_LEN + len)
    }

    fn has(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|&(first, count)| match (first, address) {
            (IpAddr::V4(first), IpAddr::V4(a)) => a.to_bits().wrapping_sub(first.to_bits()) < count,
            (IpAddr::V6(first), IpAddr::V6(a)) => a.to_bits().wrapping_sub(first.to_bits()) < u128::from(count),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;
    use wire::gtpu::{self, Message};
    use wire::{L3L4, checksum, udp};

    const GATEWAY: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn frame(dst: Mac, kind: u16, tag: bool) -> Vec<u8> {
        let mut frame = [dst.0, GATEWAY.0].concat();
        if tag {
            frame.extend([0x81, 0, 0, 100]);
        }
        frame.extend(kind.to_be_bytes());
        frame
    }

    fn answered(who: &Neighbours, frame: &[u8]) -> Option<Vec<u8>> {
        let mut space = frame.to_vec();
        space.resize(256, 0xee);
        let len = who.answer(&mut space, frame.len())?;
        space.truncate(len);
        Some(space)
    }

    /// Asks for an address over a link with a tag, with or without saying the asker's hardware address.
    fn solicitation(target: Ipv6Addr, source: Option<Mac>, src: Ipv6Addr) -> Vec<u8> {
        let group = ndp::solicited_node(target);
        let message = icmp6::Repr::Ndp(ndp::Repr::NeighbourSolicit { target, source });
        let ip = ip6::Repr {
            src,
            dst: group,
            next_header: protocol::ICMP6,
            payload_len: message.message_len() as u16,
            hop_limit: 255,
            traffic_class: 0,
            flow_label: 0,
        };
        let mut bytes = frame(Mac::multicast6(group.to_bits()), ethertype::IP6, true);
        let at = bytes.len();
        bytes.resize(at + 40 + message.message_len(), 0);
        ip.emit(&mut bytes[at..]).unwrap();
        message.emit(&ip, &mut bytes[at + 40..]).unwrap();
        bytes
    }

    #[test]
    fn neighbour_solicitations_are_answered() {
        let profile = Profile { servers: 3, ..Profile::default() };
        let who = Neighbours::new(&profile, Direction::Downlink);
        let asker: Ipv6Addr = "fe80::1".parse().unwrap();
        let target = Ipv6Addr::from_bits(profile.server6_first.to_bits() + 2);
        for source in [None, Some(GATEWAY)] {
            let answer = answered(&who, &solicitation(target, source, asker)).unwrap();
            assert_eq!(
                (&answer[..6], &answer[6..12], answer[12..18].to_vec()),
                (&GATEWAY.0[..], &profile.core.own.0[..], vec![0x81, 0, 0, 100, 0x86, 0xdd])
            );
            let ip = ip6::Repr::parse(&answer[18..]).unwrap();
            assert_eq!((ip.src, ip.dst, ip.hop_limit), (target, asker, 255));
            let flags = neighbour_flag::SOLICITED | neighbour_flag::OVERRIDE;
            let advert = ndp::Repr::NeighbourAdvert { flags, target, address: Some(profile.core.own) };
            // Parsing verifies the checksum.
            assert_eq!(icmp6::Repr::parse(&ip, &answer[58..]), Ok(icmp6::Repr::Ndp(advert)));
        }
        let other = Ipv6Addr::from_bits(profile.server6_first.to_bits() + 3);
        assert_eq!(answered(&who, &solicitation(other, None, asker)), None);
        assert_eq!(answered(&who, &solicitation(target, None, Ipv6Addr::UNSPECIFIED)), None);
    }

    #[test]
    fn echo_requests_to_gnbs_are_answered() {
        for transport6 in [false, true] {
            let mut profile = Profile { gnbs: 2, ..Profile::default() };
            if transport6 {
                profile.gnb_first = "2001:db8::1".parse().unwrap();
                profile.upf_n3 = "2001:db8:f::1".parse().unwrap();
            }
            let who = Neighbours::new(&profile, Direction::Uplink);
            let request = |gnb| {
                let mut datagram = vec![0; 8 + 12];
                udp::Repr { src_port: 40_000, dst_port: gtpu::PORT, payload_len: 12 }.emit(&mut datagram).unwrap();
                Message::EchoRequest { seq: 7 }.emit(&mut datagram[8..]).unwrap();
                let mut head = [0; 40];
                let (kind, len) = match (profile.upf_n3, profile.gnb(gnb)) {
                    (IpAddr::V4(src), IpAddr::V4(dst)) => {
                        (ethertype::IP4, wire::ip4::Repr::new(src, dst, protocol::UDP, 20).emit(&mut head).unwrap())
                    }
                    (IpAddr::V6(src), IpAddr::V6(dst)) => {
                        let next_header = protocol::UDP;
                        let repr = ip6::Repr {
                            src,
                            dst,
                            next_header,
                            payload_len: 20,
                            hop_limit: 9,
                            traffic_class: 0,
                            flow_label: 0,
                        };
                        (ethertype::IP6, repr.emit(&mut head).unwrap())
                    }
                    mixed => unreachable!("{mixed:?}"),
                };
                [frame(profile.access.own, kind, false), head[..len].to_vec(), datagram].concat()
            };
            let answer = answered(&who, &request(1)).unwrap();
            assert_eq!((&answer[..6], &answer[6..12]), (&GATEWAY.0[..], &profile.access.own.0[..]));
            let ip = &answer[14..];
            let head = L3L4::parse(ip).unwrap();
            assert_eq!((head.src_port, head.dst_port, head.total_len as usize), (gtpu::PORT, 40_000, ip.len()));
            let l4 = usize::from(head.l4);
            assert_eq!(Message::parse(&ip[l4 + 8..]), Ok(Message::EchoResponse { seq: 7, recovery: 0 }));
            let pseudo = match head.version {
                4 => checksum::pseudo4(head.src, head.dst, protocol::UDP, 22),
                _ => checksum::pseudo6(head.src6(ip), head.dst6(ip), protocol::UDP, 22),
            };
            assert!(checksum::is_valid(checksum::combine(pseudo, checksum::sum(&ip[l4..]))));
            assert_eq!(answered(&who, &request(2)), None);
        }
    }

    #[test]
    fn anything_else_is_left_alone() {
        let who = Neighbours::new(&Profile::default(), Direction::Uplink);
        assert_eq!(answered(&who, &[]), None);
        assert_eq!(answered(&who, &frame(GATEWAY, ethertype::ARP, false)), None);
        assert_eq!(answered(&who, &frame(GATEWAY, ethertype::IP6, false)), None);
        assert_eq!(answered(&who, &frame(GATEWAY, 0x1234, true)), None);
    }
}
