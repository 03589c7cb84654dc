//! Frames of dual-stack subscribers: router discovery (RFC 4861), DHCPv6 with an address and a delegated prefix
//! (RFC 8415), signed packets in IPv6.

use std::net::Ipv6Addr;

use traffic::Signature;
use wire::{Mac, checksum, ethertype, fast};

use super::frames::{PORT, Place, TTL, ethernet};
use super::numbering::link_local;

/// All_DHCP_Relay_Agents_and_Servers (RFC 8415, 7.1).
const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const HEADER: usize = 40;
/// Bytes of the shortest packet that has room for a signature.
pub const SHORTEST: usize = HEADER + 8 + Signature::LEN;
const UDP: u8 = 17;
const ICMP6: u8 = 58;
const CLIENT_ID: u16 = 1;
const SERVER_ID: u16 = 2;
const IA_NA: u16 = 3;
const IA_ADDRESS: u16 = 5;
const OPTIONS_WANTED: u16 = 6;
const ELAPSED: u16 = 8;
const STATUS: u16 = 13;
const DNS: u16 = 23;
const IA_PD: u16 = 25;
const IA_PREFIX: u16 = 26;

/// Messages of a client (RFC 8415, 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Which servers are there?
    Solicit = 1,
    /// What one of them has advertised.
    Request = 3,
    /// The same for longer.
    Renew = 5,
    /// It is not needed any more.
    Release = 8,
}

/// An address and a delegated prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease6 {
    /// Of the IA_NA.
    pub address: Option<Ipv6Addr>,
    /// Of the IA_PD, with its length.
    pub prefix: Option<(Ipv6Addr, u8)>,
    /// The shortest valid lifetime, seconds.
    pub valid_seconds: u32,
    /// The server's DUID.
    pub server: Box<[u8]>,
}

/// What a DHCPv6 server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer6 {
    /// Advertise.
    Advertise(Lease6),
    /// Reply.
    Reply(Lease6),
}

/// Adds an IPv6 header (RFC 8200, 3).
fn header(out: &mut Vec<u8>, (from, to): (Ipv6Addr, Ipv6Addr), next: u8, limit: u8, len: usize) {
    out.extend([0x60, 0, 0, 0]);
    out.extend((len as u16).to_be_bytes());
    out.extend([next, limit]);
    out.extend(from.octets());
    out.extend(to.octets());
}

/// Fills in the checksum of an upper layer that begins at `at` (RFC 8200, 8.1).
fn seal(frame: &mut [u8], at: usize, field: usize, addresses: (Ipv6Addr, Ipv6Addr), protocol: u8) {
    let len = (frame.len() - at) as u32;
    let pseudo = checksum::pseudo6(addresses.0.to_bits(), addresses.1.to_bits(), protocol, len);
    let sum = checksum::combine(pseudo, checksum::sum(&frame[at..]));
    // A sum of zero stands for none in UDP; ICMPv6 has no such rule, and both forms are right there.
    frame[at + field..at + field + 2].copy_from_slice(&checksum::finish_udp(sum).to_be_bytes());
}

/// The hardware address of a multicast group (RFC 2464, 7).
fn group(address: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = address.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

/// A router solicitation (RFC 4861, 4.1).
pub fn router_solicitation(n: u32, mac: Mac, place: Place) -> Vec<u8> {
    let mut frame = ethernet(group(ROUTERS), mac, Some(place), ethertype::IP6);
    let addresses = (link_local(n), ROUTERS);
    header(&mut frame, addresses, ICMP6, 255, 16);
    let at = frame.len();
    frame.extend([133, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
    frame.extend(mac.0);
    seal(&mut frame, at, 2, addresses, ICMP6);
    frame
}

/// A neighbour advertisement that answers `to`; or, to a multicast group, an unsolicited one (RFC 4861, 4.4).
pub fn neighbour_advertisement((mac, ours): (Mac, Ipv6Addr), to: (Mac, Ipv6Addr), place: Option<Place>) -> Vec<u8> {
    let mut frame = ethernet(to.0, mac, place, ethertype::IP6);
    header(&mut frame, (ours, to.1), ICMP6, 255, 32);
    let at = frame.len();
    let flags = if to.1.is_multicast() { 0x20 } else { 0x60 };
    frame.extend([136, 0, 0, 0, flags, 0, 0, 0]);
    frame.extend(ours.octets());
    frame.extend([2, 1]);
    frame.extend(mac.0);
    seal(&mut frame, at, 2, (ours, to.1), ICMP6);
    frame
}

/// Adds an option whose content `fill` writes.
fn option(out: &mut Vec<u8>, code: u16, fill: impl FnOnce(&mut Vec<u8>)) {
    out.extend(code.to_be_bytes());
    let at = out.len();
    out.extend([0, 0]);
    fill(out);
    let len = (out.len() - at - 2) as u16;
    out[at..at + 2].copy_from_slice(&len.to_be_bytes());
}

/// A client's message for an address and a prefix: to all servers (RFC 8415, 18.2).
pub fn dhcp6(n: u32, mac: Mac, place: Place, ask: Ask, lease: Option<&Lease6>) -> Vec<u8> {
    let mut message = vec![ask as u8];
    message.extend(&n.to_be_bytes()[1..]);
    option(&mut message, CLIENT_ID, |out| {
        out.extend([0, 3, 0, 1]); // DUID-LL of Ethernet (RFC 8415, 11.4)
        out.extend(mac.0);
    });
    if let Some(lease) = lease {
        option(&mut message, SERVER_ID, |out| out.extend(&lease.server));
    }
    let association = |out: &mut Vec<u8>| {
        out.extend(n.to_be_bytes());
        out.extend([0; 8]);
    };
    option(&mut message, IA_NA, |out| {
        association(out);
        if let Some(address) = lease.and_then(|lease| lease.address) {
            option(out, IA_ADDRESS, |out| {
                out.extend(address.octets());
                out.extend([0; 8]);
            });
        }
    });
    option(&mut message, IA_PD, |out| {
        association(out);
        if let Some((prefix, len)) = lease.and_then(|lease| lease.prefix) {
            option(out, IA_PREFIX, |out| {
                out.extend([0; 8]);
                out.push(len);
                out.extend(prefix.octets());
            });
        }
    });
    option(&mut message, ELAPSED, |out| out.extend([0, 0]));
    if ask != Ask::Release {
        option(&mut message, OPTIONS_WANTED, |out| out.extend(DNS.to_be_bytes()));
    }
    let mut frame = ethernet(group(SERVERS), mac, Some(place), ethertype::IP6);
    udp(&mut frame, (link_local(n), SERVERS), (546, 547), 1, &message);
    frame
}

/// Adds IPv6 and UDP headers and a payload.
fn udp(frame: &mut Vec<u8>, addresses: (Ipv6Addr, Ipv6Addr), (from, to): (u16, u16), limit: u8, payload: &[u8]) {
    header(frame, addresses, UDP, limit, 8 + payload.len());
    let at = frame.len();
    for word in [from, to, 8 + payload.len() as u16, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    seal(frame, at, 6, addresses, UDP);
}

/// The options of a message, an association or an address: code and content.
fn options(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (code, len) = (fast::be16(bytes, 0)?, fast::be16(bytes, 2)?);
        let (content, rest) = bytes.get(4..)?.split_at_checked(usize::from(len))?;
        bytes = rest;
        Some((code, content))
    })
}

/// What a DHCPv6 server answers in an IP packet, and to which transaction. None: it refuses, or is no answer.
pub fn dhcp6_answer(packet: &[u8]) -> Option<(u32, Answer6)> {
    let is_dhcp = fast::be8(packet, 6)? == UDP && fast::be16(packet, 40)? == 547 && fast::be16(packet, 42)? == 546;
    let message = packet.get(48..).filter(|_| is_dhcp)?;
    let (kind, xid) = (fast::be8(message, 0)?, fast::be32(message, 0)? & 0xff_ffff);
    let mut lease = Lease6 { address: None, prefix: None, valid_seconds: u32::MAX, server: Box::default() };
    let address = |bytes: &[u8]| bytes.first_chunk().map(|octets: &[u8; 16]| Ipv6Addr::from(*octets));
    for (code, content) in options(message.get(4..)?) {
        match code {
            SERVER_ID => lease.server = content.into(),
            STATUS if fast::be16(content, 0)? != 0 => return None,
            IA_NA => {
                for (_, content) in options(content.get(12..)?).filter(|(code, _)| *code == IA_ADDRESS) {
                    // Not valid any more (RFC 8415, 18.2.10.1).
                    if fast::be32(content, 20)? == 0 {
                        continue;
                    }
                    lease.address = address(content);
                    lease.valid_seconds = lease.valid_seconds.min(fast::be32(content, 20)?);
                }
            }
            IA_PD => {
                for (_, content) in options(content.get(12..)?).filter(|(code, _)| *code == IA_PREFIX) {
                    if fast::be32(content, 4)? == 0 {
                        continue;
                    }
                    lease.prefix = address(content.get(9..)?).zip(content.get(8).copied());
                    lease.valid_seconds = lease.valid_seconds.min(fast::be32(content, 4)?);
                }
            }
            _ => {}
        }
    }
    match kind {
        2 => Some((xid, Answer6::Advertise(lease))),
        7 => Some((xid, Answer6::Reply(lease))),
        _ => None,
    }
}

/// Writes a signed packet of `size` bytes.
pub fn signed6(
    frame: &mut Vec<u8>,
    (to, from): (Mac, Mac),
    place: Option<Place>,
    addresses: (Ipv6Addr, Ipv6Addr),
    signature: Signature,
    size: u16,
) {
    *frame = ethernet(to, from, place, ethertype::IP6);
    let mut payload = [0; 1500];
    let len = usize::from(size).saturating_sub(HEADER + 8).clamp(Signature::LEN, payload.len());
    if let Some(space) = payload.first_chunk_mut() {
        signature.write(space);
    }
    udp(frame, addresses, (PORT, PORT), TTL, &payload[..len]);
}

/// The signature of an IPv6 packet, if it is one of ours.
pub fn signature6(packet: &[u8]) -> Option<Signature> {
    let is_ours = fast::be8(packet, 6)? == UDP && fast::be16(packet, 42)? == PORT;
    packet.get(48..).filter(|_| is_ours).and_then(Signature::read)
}

/// Source and destination of an IPv6 packet that was forwarded once: hop limit and UDP checksum are right.
pub fn forwarded6(packet: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr)> {
    let at = |at: usize| packet.get(at..)?.first_chunk().map(|octets: &[u8; 16]| Ipv6Addr::from(*octets));
    let addresses = (at(8)?, at(24)?);
    let segment = packet.get(HEADER..HEADER + usize::from(fast::be16(packet, 4)?))?;
    let pseudo = checksum::pseudo6(addresses.0.to_bits(), addresses.1.to_bits(), UDP, segment.len() as u32);
    let is_right = checksum::is_valid(checksum::combine(pseudo, checksum::sum(segment)));
    (fast::be8(packet, 7)? == TTL - 1 && is_right).then_some(addresses)
}

#[cfg(test)]
mod tests {
    use dhcproto::v6::{DhcpOption, DhcpOptions, IAAddr, IANA, IAPD, IAPrefix, Message, MessageType, OptionCode};
    use dhcproto::{Decodable, Decoder, Encodable, Encoder};
    use traffic::Direction;

    use super::*;

    const PLACE: Place = Place::Double { tpid: 0x88a8, s_vlan: 100, c_vlan: 7 };
    const MAC: Mac = Mac([2, 0xb0, 0, 0, 0, 9]);

    fn lease() -> Lease6 {
        Lease6 {
            address: Some("2001:db8:100::5".parse().unwrap()),
            prefix: Some(("2001:db8:4000::".parse().unwrap(), 56)),
            valid_seconds: 1200,
            server: [0, 3, 0, 1, 2, 0, 0, 0, 0, 1].into(),
        }
    }

    /// Whether an independent reader finds in our messages what they are to say.
    #[test]
    fn messages_are_read_by_dhcproto() {
        let kinds = [
            (Ask::Solicit, MessageType::Solicit),
            (Ask::Request, MessageType::Request),
            (Ask::Renew, MessageType::Renew),
        ];
        for (ask, kind) in kinds.into_iter().chain([(Ask::Release, MessageType::Release)]) {
            let known = lease();
            let known = (ask != Ask::Solicit).then_some(&known);
            let frame = dhcp6(9, MAC, PLACE, ask, known);
            let segment = &frame[22 + HEADER..];
            let pseudo = checksum::pseudo6(link_local(9).to_bits(), SERVERS.to_bits(), UDP, segment.len() as u32);
            assert!(checksum::is_valid(checksum::combine(pseudo, checksum::sum(segment))));
            let message = Message::decode(&mut Decoder::new(&segment[8..])).unwrap();
            assert_eq!((message.msg_type(), message.xid_num()), (kind, 9));
            assert_eq!(message.opts().get(OptionCode::ServerId).is_some(), known.is_some());
            let Some(DhcpOption::IANA(na)) = message.opts().get(OptionCode::IANA) else { panic!("{message:?}") };
            let Some(DhcpOption::IAPD(pd)) = message.opts().get(OptionCode::IAPD) else { panic!("{message:?}") };
            assert_eq!((na.id, pd.id), (9, 9));
            let address = match na.opts.get(OptionCode::IAAddr) {
                Some(DhcpOption::IAAddr(address)) => Some(address.addr),
                _ => None,
            };
            let prefix = match pd.opts.get(OptionCode::IAPrefix) {
                Some(DhcpOption::IAPrefix(prefix)) => Some((prefix.prefix_ip, prefix.prefix_len)),
                _ => None,
            };
            assert_eq!(address, known.and_then(|lease| lease.address));
            assert_eq!(prefix, known.and_then(|lease| lease.prefix));
        }
    }

    /// An answer that an independent writer has made.
    fn answer(kind: MessageType) -> Vec<u8> {
        let lease = lease();
        let mut message = Message::new(kind);
        message.set_xid_num(77);
        let mut inner = DhcpOptions::new();
        inner.insert(DhcpOption::IAAddr(IAAddr {
            addr: lease.address.unwrap(),
            preferred_life: 600,
            valid_life: 1200,
            opts: DhcpOptions::new(),
        }));
        let mut prefixes = DhcpOptions::new();
        let (prefix_ip, prefix_len) = lease.prefix.unwrap();
        prefixes.insert(DhcpOption::IAPrefix(IAPrefix {
            preferred_lifetime: 600,
            valid_lifetime: 1800,
            prefix_len,
            prefix_ip,
            opts: DhcpOptions::new(),
        }));
        let options = message.opts_mut();
        options.insert(DhcpOption::ServerId(lease.server.to_vec()));
        options.insert(DhcpOption::IANA(IANA { id: 77, t1: 0, t2: 0, opts: inner }));
        options.insert(DhcpOption::IAPD(IAPD { id: 77, t1: 0, t2: 0, opts: prefixes }));
        let mut bytes = Vec::new();
        message.encode(&mut Encoder::new(&mut bytes)).unwrap();
        let mut packet = Vec::new();
        udp(&mut packet, ("fe80::1".parse().unwrap(), link_local(77)), (547, 546), 64, &bytes);
        packet
    }

    #[test]
    fn answers_of_dhcproto_are_read() {
        let reply = answer(MessageType::Reply);
        assert_eq!(dhcp6_answer(&reply), Some((77, Answer6::Reply(lease()))));
        assert_eq!(dhcp6_answer(&answer(MessageType::Advertise)), Some((77, Answer6::Advertise(lease()))));
        assert_eq!(dhcp6_answer(&answer(MessageType::Renew)), None, "a client's message");
        for len in 0..reply.len() {
            dhcp6_answer(&reply[..len]);
        }
    }

    #[test]
    fn packets_are_checked_after_one_hop() {
        let mark = Signature { direction: Direction::Uplink, flow: 1, seq: 2, sent_ns: 3 };
        let addresses = ("2001:db8::1".parse().unwrap(), "fd00::2".parse().unwrap());
        let mut frame = Vec::new();
        signed6(&mut frame, (MAC, MAC), Some(PLACE), addresses, mark, 101);
        assert_eq!((frame.len(), signature6(&frame[22..])), (123, Some(mark)));
        assert_eq!(forwarded6(&frame[22..]), None, "as it was sent");
        frame[22 + 7] = TTL - 1;
        assert_eq!(forwarded6(&frame[22..]), Some(addresses));
        frame[122] ^= 1;
        assert_eq!(forwarded6(&frame[22..]), None, "changed on its way");
    }
}
