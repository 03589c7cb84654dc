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
