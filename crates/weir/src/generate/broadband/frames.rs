//! Frames of subscribers and of the core's host: DHCP (RFC 2131, RFC 2132), ARP (RFC 826), signed packets in UDP.

use std::net::Ipv4Addr;

use traffic::Signature;
use wire::{Mac, checksum, ethertype, fast};

/// TTL of what is sent.
pub const TTL: u8 = 64;
/// The discard port (RFC 863): a host that has no generator answers nothing useful.
pub(super) const PORT: u16 = 9;
const COOKIE: [u8; 4] = [99, 130, 83, 99];
const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const REQUEST: u8 = 3;
const ACK: u8 = 5;
const NAK: u8 = 6;
const RELEASE: u8 = 7;

/// Where a subscriber is: the tags of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Two tags (IEEE 802.1ad, or 802.1Q twice).
    Double {
        /// EtherType of the outer tag.
        tpid: u16,
        /// Outer VLAN.
        s_vlan: u16,
        /// Inner VLAN.
        c_vlan: u16,
    },
    /// One tag (IEEE 802.1Q), with this VLAN.
    Single(u16),
    /// No tags.
    Untagged,
}

impl Place {
    /// Bytes behind a frame's hardware addresses, up to its EtherType.
    pub fn tags(self) -> Vec<u8> {
        let words = match self {
            Self::Double { tpid, s_vlan, c_vlan } => vec![tpid, s_vlan, ethertype::VLAN, c_vlan],
            Self::Single(vlan) => vec![ethertype::VLAN, vlan],
            Self::Untagged => vec![],
        };
        words.into_iter().flat_map(u16::to_be_bytes).collect()
    }

    /// Whether a frame has exactly these tags; priorities do not matter (IEEE 802.1Q, 9.6).
    pub fn is_of(self, frame: &[u8]) -> bool {
        let word = |at| fast::be16(frame, at).unwrap_or(0);
        let (tag, number) = (|n: usize| word(12 + 4 * n), |n: usize| word(14 + 4 * n) & 0xfff);
        let ends = |n| !matches!(tag(n), ethertype::VLAN | ethertype::SERVICE_VLAN);
        match self {
            Self::Double { tpid, s_vlan, c_vlan } => {
                (tag(0), number(0), tag(1), number(1)) == (tpid, s_vlan, ethertype::VLAN, c_vlan) && ends(2)
            }
            Self::Single(vlan) => (tag(0), number(0)) == (ethertype::VLAN, vlan) && ends(1),
            Self::Untagged => ends(0),
        }
    }
}

/// A frame's beginning: hardware addresses, tags if it has any, EtherType.
pub(super) fn ethernet(to: Mac, from: Mac, place: Option<Place>, kind: u16) -> Vec<u8> {
    let mut frame = [to.0, from.0].concat();
    if let Some(place) = place {
        frame.extend(place.tags());
    }
    frame.extend(kind.to_be_bytes());
    frame
}

/// Adds IPv4 and UDP headers and a payload (RFC 791, RFC 768; without a UDP checksum).
fn udp(frame: &mut Vec<u8>, (from, to): (Ipv4Addr, Ipv4Addr), (sport, dport): (u16, u16), payload: &[u8]) {
    let at = frame.len();
    let total = (28 + payload.len()) as u16;
    frame.extend([0x45, 0, (total >> 8) as u8, total as u8, 0, 1, 0x40, 0, TTL, 17, 0, 0]);
    frame.extend(from.octets());
    frame.extend(to.octets());
    let sum = checksum::of(&frame[at..at + 20]);
    frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    for word in [sport, dport, total - 20, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
}

/// What a server has offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The subscriber's address.
    pub address: Ipv4Addr,
    /// The server's identifier (option 54).
    pub server: Ipv4Addr,
    /// The first router (option 3).
    pub router: Option<Ipv4Addr>,
    /// Seconds of the lease (option 51).
    pub lease_seconds: Option<u32>,
}

/// A DHCPDISCOVER, or the DHCPREQUEST for an offer (RFC 2131, 4.4.1).
pub fn dhcp(mac: Mac, place: Place, xid: u32, offer: Option<&Offer>) -> Vec<u8> {
    let mut message = bootp(mac, xid, if offer.is_some() { REQUEST } else { DISCOVER });
    if let Some(offer) = offer {
        message.extend([50, 4]);
        message.extend(offer.address.octets());
        message.extend([54, 4]);
        message.extend(offer.server.octets());
    }
    message.extend([55, 3, 1, 3, 6]);
    let mut frame = ethernet(Mac::BROADCAST, mac, Some(place), ethertype::IP4);
    udp(&mut frame, (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST), (68, 67), &ended(message));
    frame
}

/// A DHCPRELEASE to the server, by way of the router (RFC 2131, 4.4.6).
pub fn release(mac: Mac, router: Mac, place: Place, xid: u32, offer: &Offer) -> Vec<u8> {
    let mut message = bootp(mac, xid, RELEASE);
    message[12..16].copy_from_slice(&offer.address.octets());
    message.extend([54, 4]);
    message.extend(offer.server.octets());
    let mut frame = ethernet(router, mac, Some(place), ethertype::IP4);
    udp(&mut frame, (offer.address, offer.server), (68, 67), &ended(message));
    frame
}

/// A client's message up to its first options.
fn bootp(mac: Mac, xid: u32, kind: u8) -> Vec<u8> {
    let mut message = vec![0; 236];
    message[..3].copy_from_slice(&[1, 1, 6]);
    message[4..8].copy_from_slice(&xid.to_be_bytes());
    message[28..34].copy_from_slice(&mac.0);
    message.extend(COOKIE);
    message.extend([53, 1, kind]);
    message
}

/// A message with its end. Some relays want one of at least BOOTP's size (RFC 1542, 2.1).
fn ended(mut message: Vec<u8>) -> Vec<u8> {
    message.push(255);
    message.resize(message.len().max(300), 0);
    message
}

/// An answer of DHCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// DHCPOFFER.
    Offer(Offer),
    /// DHCPACK.
    Ack(Offer),
    /// DHCPNAK.
    Nak,
}

/// What a DHCP server answers in an IP packet, and to which transaction.
pub fn dhcp_answer(packet: &[u8]) -> Option<(u32, Answer)> {
    let is_dhcp = fast::be8(packet, 9)? == 17 && fast::be16(packet, 20)? == 67 && fast::be16(packet, 22)? == 68;
    let message = packet.get(28..).filter(|message| is_dhcp && message.first() == Some(&2))?;
    let address = Ipv4Addr::from(fast::be32(message, 16)?);
    let mut options = message.get(236..)?.strip_prefix(&COOKIE)?;
    let (mut kind, mut server, mut router, mut lease_seconds) = (0, None, None, None);
    loop {
        // Padding may stand anywhere (RFC 2132, 3.1).
        let (code, len, rest) = match options {
            [0, rest @ ..] => {
                options = rest;
                continue;
            }
            [code @ 1..=254, len, rest @ ..] => (code, len, rest),
            _ => break,
        };
        let (data, rest) = rest.split_at_checked(usize::from(*len))?;
        options = rest;
        let ip = || fast::be32(data, 0).map(Ipv4Addr::from);
        match code {
            53 => kind = *data.first()?,
            54 => server = ip(),
            3 => router = ip(),
            51 => lease_seconds = fast::be32(data, 0),
            _ => {}
        }
    }
    let offer = Offer { address, server: server?, router, lease_seconds };
    let xid = fast::be32(message, 4)?;
    match kind {
        OFFER => Some((xid, Answer::Offer(offer))),
        ACK => Some((xid, Answer::Ack(offer))),
        NAK => Some((xid, Answer::Nak)),
        _ => None,
    }
}

/// An ARP message: a request for `theirs.1`, or the reply to `theirs` (RFC 826).
pub fn arp(is_reply: bool, ours: (Mac, Ipv4Addr), theirs: (Mac, Ipv4Addr), place: Option<Place>) -> Vec<u8> {
    let to = if is_reply { theirs.0 } else { Mac::BROADCAST };
    let mut frame = ethernet(to, ours.0, place, ethertype::ARP);
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1 + u8::from(is_reply)]);
    frame.extend(ours.0.0);
    frame.extend(ours.1.octets());
    frame.extend(if is_reply { theirs.0.0 } else { [0; 6] });
    frame.extend(theirs.1.octets());
    frame
}

/// Writes a signed packet of `size` bytes.
pub fn signed(
    frame: &mut Vec<u8>,
    (to, from): (Mac, Mac),
    place: Option<Place>,
    addresses: (Ipv4Addr, Ipv4Addr),
    signature: Signature,
    size: u16,
) {
    *frame = ethernet(to, from, place, ethertype::IP4);
    let mut payload = [0; 1500];
    let len = usize::from(size).saturating_sub(28).clamp(Signature::LEN, payload.len());
    if let Some(space) = payload.first_chunk_mut() {
        signature.write(space);
    }
    udp(frame, addresses, (PORT, PORT), &payload[..len]);
}

/// The signature of an IP packet, if it is one of ours.
pub fn signature(packet: &[u8]) -> Option<Signature> {
    let is_ours = fast::be8(packet, 9)? == 17 && fast::be16(packet, 22)? == PORT;
    packet.get(28..).filter(|_| is_ours).and_then(Signature::read)
}

/// Source and destination of an IP packet that was forwarded once: TTL and header checksum are right.
pub fn forwarded(packet: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let is_right = fast::be8(packet, 8)? == TTL - 1 && checksum::is_valid20(packet.first_chunk()?);
    let at = |at| fast::be32(packet, at).map(Ipv4Addr::from);
    Some((at(12)?, at(16)?)).filter(|_| is_right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use traffic::Direction;

    const PLACE: Place = Place::Double { tpid: 0x88a8, s_vlan: 100, c_vlan: 7 };

    #[test]
    fn tags_are_compared_exactly() {
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let mark = Signature { direction: Direction::Downlink, flow: 1, seq: 2, sent_ns: 3 };
        let addresses = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let signed = |place| {
            let mut frame = Vec::new();
            super::signed(&mut frame, (mac, mac), place, addresses, mark, 100);
            frame
        };
        let frame = signed(Some(PLACE));
        assert!(PLACE.is_of(&frame) && frame.len() == 122 && signature(&frame[22..]) == Some(mark));
        let double = |tpid, s_vlan, c_vlan| Place::Double { tpid, s_vlan, c_vlan };
        let others = [double(0x88a8, 101, 7), double(0x88a8, 100, 8), double(0x8100, 100, 7)];
        for other in others.into_iter().chain([Place::Single(100), Place::Single(7), Place::Untagged]) {
            assert!(!other.is_of(&frame));
        }
        let untagged = signed(None);
        assert!(!PLACE.is_of(&untagged) && Place::Untagged.is_of(&untagged) && !Place::Single(7).is_of(&untagged));
        let single = signed(Some(Place::Single(7)));
        assert!(Place::Single(7).is_of(&single) && !Place::Single(8).is_of(&single) && !Place::Untagged.is_of(&single));
        // As it was sent: not forwarded, its TTL is unchanged.
        assert_eq!(forwarded(&frame[22..]), None);
    }

    #[test]
    fn answers_of_dhcp_are_read() {
        let offer = Offer {
            address: [10, 0, 0, 9].into(),
            server: [10, 0, 0, 1].into(),
            router: Some([10, 0, 0, 1].into()),
            lease_seconds: None,
        };
        let request = dhcp(Mac([2, 0, 0, 0, 0, 1]), PLACE, 77, Some(&offer));
        assert_eq!(dhcp_answer(&request[22..]), None, "a request is no answer");
        let mut message = vec![0; 236];
        message[0] = 2;
        message[4..8].copy_from_slice(&77_u32.to_be_bytes());
        message[16..20].copy_from_slice(&offer.address.octets());
        message.extend(COOKIE);
        message.extend([53, 1, ACK, 54, 4, 10, 0, 0, 1, 3, 4, 10, 0, 0, 1, 255]);
        let mut packet = Vec::new();
        udp(&mut packet, (offer.server, offer.address), (67, 68), &message);
        assert_eq!(dhcp_answer(&packet), Some((77, Answer::Ack(offer))));
        for len in 0..packet.len() {
            dhcp_answer(&packet[..len]);
        }
    }
}
