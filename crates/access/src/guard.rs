//! Decisions about ARP and neighbour discovery from subscribers: a sender may speak for leased addresses only.

use std::net::{Ipv4Addr, Ipv6Addr};
use wire::{Mac, arp, ndp};

/// Decision about an ARP or neighbour-discovery message of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer from the gateway's (virtual) MAC: for the gateway's own address, or as proxy (RFC 1027, RFC 4389).
    Answer,
    /// Nothing to do; also for duplicate address detection, which must stay unanswered (RFC 5227, RFC 4862).
    Ignore,
    /// Drop and count under the reason.
    Drop(Reason),
}

/// Reason for which a message was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The sender's hardware address is not that of the subscriber's session.
    SenderMac,
    /// The sender's address is not the subscriber's.
    SenderAddress,
    /// The sender claims the gateway's address.
    GatewayAddress,
    /// Only the gateway advertises routers and redirects on an access line.
    RouterMessage,
}

impl Reason {
    /// Identifier in counters, snake_case; it does not change between releases.
    pub fn id(self) -> &'static str {
        match self {
            Self::SenderMac => "guard_sender_mac",
            Self::SenderAddress => "guard_sender_address",
            Self::GatewayAddress => "guard_gateway_address",
            Self::RouterMessage => "guard_router_message",
        }
    }
}

/// The addresses of one session against which its messages are judged.
#[derive(Clone, Copy, Debug)]
pub struct Session4 {
    /// The subscriber's MAC, from its session.
    pub mac: Mac,
    /// The subscriber's address.
    pub address: Ipv4Addr,
    /// The gateway's address on this line.
    pub gateway: Ipv4Addr,
    /// Whether the gateway answers for every other address of the subnet (proxy ARP).
    pub proxy: bool,
}

/// Judges an ARP message of a subscriber (RFC 826, RFC 5227).
pub fn arp(session: &Session4, message: &arp::Repr) -> Verdict {
    let sender = message.sender_ip;
    if message.sender_mac != session.mac {
        return Verdict::Drop(Reason::SenderMac);
    }
    if sender == session.gateway {
        return Verdict::Drop(Reason::GatewayAddress);
    }
    // A probe has no sender address (RFC 5227 clause 2.1.1); it may be for the own address or for the gateway's.
    if !sender.is_unspecified() && sender != session.address {
        return Verdict::Drop(Reason::SenderAddress);
    }
    if message.operation != arp::REQUEST || message.target_ip == session.address || message.target_ip == sender {
        return Verdict::Ignore;
    }
    if message.target_ip == session.gateway || session.proxy { Verdict::Answer } else { Verdict::Ignore }
}

/// The addresses of one session against which its neighbour discovery is judged.
#[derive(Clone, Copy, Debug)]
pub struct Session6 {
    /// The subscriber's MAC.
    pub mac: Mac,
    /// Its IA_NA address, if any.
    pub address: Option<Ipv6Addr>,
    /// Its SLAAC prefix (/64), if any.
    pub prefix: Option<Ipv6Addr>,
    /// The gateway's link-local address.
    pub gateway: Ipv6Addr,
}

impl Session6 {
    fn owns(&self, address: Ipv6Addr) -> bool {
        address.is_unicast_link_local()
            || Some(address) == self.address
            || self.prefix.is_some_and(|prefix| prefix.to_bits() >> 64 == address.to_bits() >> 64)
    }
}

/// Judges a neighbour discovery message of a subscriber (RFC 4861, RFC 6620); `source` is the IPv6 source address.
pub fn nd(session: &Session6, source: Ipv6Addr, message: &ndp::Repr) -> Verdict {
    let stated = match *message {
        ndp::Repr::RouterSolicit { source } | ndp::Repr::NeighbourSolicit { source, .. } => source,
        ndp::Repr::NeighbourAdvert { address, .. } => address,
        ndp::Repr::RouterAdvert { .. } => return Verdict::Drop(Reason::RouterMessage),
    };
    if stated.is_some_and(|mac| mac != session.mac) {
        return Verdict::Drop(Reason::SenderMac);
    }
    let claimed = match *message {
        ndp::Repr::NeighbourAdvert { target, .. } => target,
        _ => source,
    };
    if claimed == session.gateway {
        return Verdict::Drop(Reason::GatewayAddress);
    }
    if !claimed.is_unspecified() && !session.owns(claimed) {
        return Verdict::Drop(Reason::SenderAddress);
    }
    match *message {
        ndp::Repr::RouterSolicit { .. } => Verdict::Answer,
        // Detection of duplicates asks from the unspecified address: the gateway defends its own address only.
        ndp::Repr::NeighbourSolicit { target, .. } if target == session.gateway => Verdict::Answer,
        _ => Verdict::Ignore,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn request(sender: [u8; 4], target: [u8; 4]) -> arp::Repr {
        arp::Repr {
            operation: arp::REQUEST,
            sender_mac: MAC,
            sender_ip: sender.into(),
            target_mac: Mac([0; 6]),
            target_ip: target.into(),
        }
    }

    #[test]
    fn arp_speaks_for_the_lease_only() {
        let gateway = Ipv4Addr::new(10, 0, 0, 1);
        let session = Session4 { mac: MAC, address: [10, 0, 0, 9].into(), gateway, proxy: false };
        assert_eq!(arp(&session, &request([10, 0, 0, 9], [10, 0, 0, 1])), Verdict::Answer);
        assert_eq!(arp(&session, &request([0; 4], [10, 0, 0, 9])), Verdict::Ignore);
        assert_eq!(arp(&session, &request([10, 0, 0, 8], [10, 0, 0, 1])), Verdict::Drop(Reason::SenderAddress));
        assert_eq!(arp(&session, &request([10, 0, 0, 1], [10, 0, 0, 1])), Verdict::Drop(Reason::GatewayAddress));
        let other = arp::Repr { sender_mac: Mac([2; 6]), ..request([10, 0, 0, 9], [10, 0, 0, 1]) };
        assert_eq!(arp(&session, &other), Verdict::Drop(Reason::SenderMac));
        assert_eq!(arp(&session, &request([10, 0, 0, 9], [10, 0, 0, 7])), Verdict::Ignore);
        let proxy = Session4 { proxy: true, ..session };
        assert_eq!(arp(&proxy, &request([10, 0, 0, 9], [10, 0, 0, 7])), Verdict::Answer);
    }

    #[test]
    fn subscribers_do_not_advertise_routers() {
        let gateway = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let own = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
        let session = Session6 { mac: MAC, address: None, prefix: Some("2001:db8::".parse().unwrap()), gateway };
        let solicit = ndp::Repr::RouterSolicit { source: Some(MAC) };
        assert_eq!(nd(&session, own, &solicit), Verdict::Answer);
        let claim = |target| ndp::Repr::NeighbourAdvert { flags: 0, target, address: Some(MAC) };
        assert_eq!(nd(&session, own, &claim(gateway)), Verdict::Drop(Reason::GatewayAddress));
        assert_eq!(nd(&session, own, &claim("2001:db8::5".parse().unwrap())), Verdict::Ignore);
        let foreign = claim("2001:db8:0:1::5".parse().unwrap());
        assert_eq!(nd(&session, own, &foreign), Verdict::Drop(Reason::SenderAddress));
    }
}
