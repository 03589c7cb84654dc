//! An IP packet in one pass, down to the ports: what a router must check, once (RFC 1812, 5.2.2; RFC 8200).

use crate::{Malformed, checksum, ip6, protocol};

/// Whether a packet is a fragment, and which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// Not a fragment.
    #[default]
    Whole,
    /// The first of several: it carries the transport header.
    First,
    /// Any other: no transport header, the ports are unknown.
    Later,
}

/// What a packet's network and transport headers say, for either version of IP.
///
/// Offsets and lengths are in bytes from the start of the IP header. Neighbours in a header are neighbours here, last
/// first, so that a word read from it and turned into host order is written whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct L3L4 {
    /// The IPv4 destination address; zero for IPv6, whose addresses stay in the packet at [`L3L4::V6_DST`].
    pub dst: u32,
    /// The IPv4 source address; zero for IPv6, whose addresses stay in the packet at [`L3L4::V6_SRC`].
    pub src: u32,
    /// Destination port, or 0 where the protocol has none or the fragment does not carry it.
    pub dst_port: u16,
    /// Source port, or 0 where the protocol has none or the fragment does not carry it.
    pub src_port: u16,
    /// The packet's length: header and payload, without padding the link added.
    pub total_len: u32,
    /// Where the transport header begins; in a later fragment, where its data begin.
    pub l4: u16,
    /// 4 or 6.
    pub version: u8,
    /// Whether this is a fragment, and which.
    pub fragment: Fragment,
    /// The transport protocol: in IPv6, what the extension headers lead to.
    pub protocol: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// DSCP and ECN together: IPv4's type of service, IPv6's traffic class.
    pub tos: u8,
}

impl L3L4 {
    /// Where an IPv6 source address is.
    pub const V6_SRC: usize = ip6::field::SRC;
    /// Where an IPv6 destination address is.
    pub const V6_DST: usize = ip6::field::DST;

    /// Read an IP packet; bytes behind its total length are padding and ignored.
    ///
    /// Guarantees that `l4 <= total_len <= ip.len()`, that an IPv4 header checksum is right, and that ports, where
    /// the protocol has them and the fragment is not a later one, were there to be read.
    #[inline(always)]
    pub fn parse(ip: &[u8]) -> Result<L3L4, Malformed> {
        match ip.first() {
            Some(b) if b >> 4 == 4 => Self::parse4(ip),
            Some(b) if b >> 4 == 6 => Self::parse6(ip),
            Some(_) => Err(Malformed::BadVersion),
            None => Err(Malformed::Short),
        }
    }

    /// What nearly every packet is, read with hardly a branch: IPv4 without options, whole, TCP or UDP. Whatever else it
    /// may be, right or wrong, is none; [`L3L4::parse`] tells.
    #[inline(always)]
    pub fn usual(ip: &[u8]) -> Option<L3L4> {
        let mut headers = Self::default();
        headers.read_usual(ip).then_some(headers)
    }

    /// As [`usual`](Self::usual), into place: field by field, where a whole that is handed on would be put together out of
    /// words first. False, and nothing read: it is another packet.
    #[inline(always)]
    pub fn read_usual(&mut self, ip: &[u8]) -> bool {
        let Some(head) = ip.first_chunk::<24>() else { return false };
        let first = u64::from_be_bytes(crate::fast::at(head, 0));
        // Version, header length, More Fragments and the offset in one comparison.
        if first & 0xff00_0000_0000_3fff != 0x4500_0000_0000_0000 {
            return false;
        }
        let (total, protocol) = ((first >> 32) as u16, head[9]);
        let ported = protocol == protocol::UDP || protocol == protocol::TCP;
        let fits = usize::from(total).wrapping_sub(head.len()) <= ip.len() - head.len();
        if !ported || !fits || !head.first_chunk().is_some_and(checksum::is_valid20) {
            return false;
        }
        let addresses = u64::from_be_bytes(crate::fast::at(head, 12));
        (self.src, self.dst) = ((addresses >> 32) as u32, addresses as u32);
        let ports = u32::from_be_bytes(crate::fast::at(head, 20));
        (self.src_port, self.dst_port) = ((ports >> 16) as u16, ports as u16);
        self.total_len = total.into();
        (self.l4, self.version, self.fragment) = (20, 4, Fragment::Whole);
        (self.protocol, self.ttl, self.tos) = (protocol, head[8], head[1]);
        true
    }

    /// As [`L3L4::parse`], for a packet announced as IPv4: another version is refused (RFC 1812, 5.2.2).
    #[inline(always)]
    pub fn parse4(ip: &[u8]) -> Result<L3L4, Malformed> {
        let head: &[u8; 20] = ip.first_chunk().ok_or(Malformed::Short)?;
        if head[0] >> 4 != 4 {
            return Err(Malformed::BadVersion);
        }
        let header = usize::from(head[0] & 15) * 4;
        let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
        if header < 20 {
            return Err(Malformed::BadHeaderLength);
        }
        if total < header || total > ip.len() {
            return Err(Malformed::BadLength);
        }
        let sum = if header == 20 { checksum::sum20(head) } else { sum_with_options(&ip[..header]) };
        if !checksum::is_valid(sum) {
            return Err(Malformed::BadHeaderChecksum);
        }
        let word = u16::from_be_bytes([head[6], head[7]]);
        let fragment = match word & 0x3fff {
            0 => Fragment::Whole,
            0x2000 => Fragment::First,
            _ => Fragment::Later,
        };
        if fragment == Fragment::Later && usize::from(word & 0x1fff) * 8 + (total - header) > 0xffff {
            return Err(Malformed::BadFragment);
        }
        let (src_port, dst_port) = ports(&ip[..total], header, head[9], fragment)?;
        Ok(L3L4 {
            src: u32::from_be_bytes([head[12], head[13], head[14], head[15]]),
            dst: u32::from_be_bytes([head[16], head[17], head[18], head[19]]),
            total_len: total as u32,
            l4: header as u16,
            src_port,
            dst_port,
            version: 4,
            protocol: head[9],
            tos: head[1],
            ttl: head[8],
            fragment,
        })
    }

    /// As [`L3L4::parse`], for a packet announced as IPv6: another version is refused.
    #[inline(always)]
    pub fn parse6(ip: &[u8]) -> Result<L3L4, Malformed> {
        let head: &[u8; 40] = ip.first_chunk().ok_or(Malformed::Short)?;
        if head[0] >> 4 != 6 {
            return Err(Malformed::BadVersion);
        }
        let total = ip6::HEADER_LEN + usize::from(u16::from_be_bytes([head[4], head[5]]));
        if total > ip.len() {
            return Err(Malformed::BadLength);
        }
        let ip = &ip[..total];
        // Nearly every packet has no extension header; only the others pay for the walk.
        let (protocol, l4, fragment) = match head[6] {
            next @ (protocol::TCP | protocol::UDP | protocol::ICMP6) => (next, ip6::HEADER_LEN as u16, Fragment::Whole),
            next => walk6(ip, next)?,
        };
        let (src_port, dst_port) = ports(ip, usize::from(l4), protocol, fragment)?;
        Ok(L3L4 {
            src: 0,
            dst: 0,
            total_len: total as u32,
            l4,
            src_port,
            dst_port,
            version: 6,
            protocol,
            tos: head[0] << 4 | head[1] >> 4,
            ttl: head[7],
            fragment,
        })
    }

    /// Differentiated services code point, 0 to 63 (RFC 2474).
    #[inline]
    pub const fn dscp(&self) -> u8 {
        self.tos >> 2
    }

    /// Explicit congestion notification, 0 to 3 (RFC 3168).
    #[inline]
    pub const fn ecn(&self) -> u8 {
        self.tos & 3
    }

    /// The IPv6 source address of the packet this was read from; zero for IPv4.
    #[inline]
    pub fn src6(&self, ip: &[u8]) -> u128 {
        if self.version == 6 { u128::from_be_bytes(crate::fast::at(ip, Self::V6_SRC)) } else { 0 }
    }

    /// The IPv6 destination address of the packet this was read from; zero for IPv4.
    #[inline]
    pub fn dst6(&self, ip: &[u8]) -> u128 {
        if self.version == 6 { u128::from_be_bytes(crate::fast::at(ip, Self::V6_DST)) } else { 0 }
    }
}

#[cold]
#[inline(never)]
fn sum_with_options(head: &[u8]) -> u16 {
    checksum::sum(head)
}

#[cold]
#[inline(never)]
fn walk6(ip: &[u8], next: u8) -> Result<(u8, u16, Fragment), Malformed> {
    let chain = ip6::walk(ip, next)?;
    let fragment = match chain.fragment {
        None => Fragment::Whole,
        Some(f) if f.is_atomic() => Fragment::Whole,
        Some(f) if f.offset == 0 => Fragment::First,
        Some(_) => Fragment::Later,
    };
    Ok((chain.protocol, chain.l4, fragment))
}

/// Both ports of a packet cut to its total length.
#[inline(always)]
fn ports(ip: &[u8], l4: usize, protocol: u8, fragment: Fragment) -> Result<(u16, u16), Malformed> {
    let has_ports =
        matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP | protocol::UDP_LITE | protocol::DCCP);
    if !has_ports || fragment == Fragment::Later {
        return Ok((0, 0));
    }
    // A first fragment too small for its ports is how filters are evaded (RFC 1858, 3; RFC 7112, 5).
    let word = crate::fast::be32(ip, l4).ok_or(Malformed::ShortTransport)?;
    Ok(((word >> 16) as u16, word as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// 192.168.0.1:1234 to 10.0.0.2:53, UDP, with a right header checksum.
    fn udp4() -> Vec<u8> {
        let mut p = std::vec![
            0x45, 0xb9, 0, 32, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 192, 168, 0, 1, 10, 0, 0, 2, 0x04, 0xd2, 0, 53, 0,
            12, 0, 0, 1, 2, 3, 4,
        ];
        seal(&mut p);
        p
    }

    fn seal(p: &mut [u8]) {
        let header = usize::from(p[0] & 15) * 4;
        p[10..12].fill(0);
        let check = checksum::of(&p[..header]);
        p[10..12].copy_from_slice(&check.to_be_bytes());
    }

    fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Result<L3L4, Malformed> {
        let mut p = udp4();
        change(&mut p);
        L3L4::parse(&p)
    }

    #[test]
    fn reads_ipv4_udp() {
        let mut p = udp4();
        p.extend([0; 14]); // padding to the smallest frame
        let x = L3L4::parse(&p).unwrap();
        assert_eq!((x.version, x.l4, x.total_len, x.protocol, x.ttl), (4, 20, 32, 17, 64));
        assert_eq!((x.src, x.dst, x.src_port, x.dst_port), (0xc0a8_0001, 0x0a00_0002, 1234, 53));
        assert_eq!((x.tos, x.dscp(), x.ecn(), x.fragment), (0xb9, 46, 1, Fragment::Whole));
    }

    #[test]
    fn the_usual_packet_is_read_alike() {
        let usual = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut p = udp4();
            change(&mut p);
            seal(&mut p);
            let usual = L3L4::usual(&p);
            assert!(usual.is_none() || usual == L3L4::parse(&p).ok());
            usual.is_some()
        };
        assert!(usual(&|_| {}) && usual(&|p| p[9] = 6) && usual(&|p| p.extend([0; 14])) && usual(&|p| p[3] = 24));
        assert!(!usual(&|p| p[9] = 1) && !usual(&|p| p[9] = 64 + 17) && !usual(&|p| p[9] = 132));
        assert!(!usual(&|p| p[3] = 23) && !usual(&|p| p[3] = 33) && !usual(&|p| p[2] = 1));
        assert!(!usual(&|p| p[6] = 0x20) && !usual(&|p| p[7] = 1) && usual(&|p| p[6] = 0x80));
        assert!(!usual(&|p| p[0] = 0x46) && !usual(&|p| p[0] = 0x65) && !usual(&|p| p.truncate(23)));
        let mut p = udp4();
        p[8] = 63;
        assert_eq!(L3L4::usual(&p), None);
    }

    #[test]
    fn refuses_what_a_router_must() {
        assert_eq!(L3L4::parse(&[]), Err(Malformed::Short));
        assert_eq!(L3L4::parse(&udp4()[..19]), Err(Malformed::Short));
        assert_eq!(changed(|p| p[0] = 0x55), Err(Malformed::BadVersion));
        assert_eq!(changed(|p| p[0] = 0x44), Err(Malformed::BadHeaderLength));
        assert_eq!(changed(|p| p[3] = 19), Err(Malformed::BadLength));
        assert_eq!(changed(|p| p[3] = 33), Err(Malformed::BadLength));
        assert_eq!(changed(|p| p[0] = 0x49), Err(Malformed::BadLength));
        assert_eq!(changed(|p| p[8] = 63), Err(Malformed::BadHeaderChecksum));
        assert_eq!(L3L4::parse6(&[0x45; 60]), Err(Malformed::BadVersion));
        assert_eq!(L3L4::parse4(&[0x60; 60]), Err(Malformed::BadVersion));
    }

    #[test]
    fn fragments_of_ipv4() {
        let at = |word: u16| {
            changed(|p| {
                p[6..8].copy_from_slice(&word.to_be_bytes());
                seal(p);
            })
        };
        let first = at(0x2000).unwrap();
        assert_eq!((first.fragment, first.dst_port), (Fragment::First, 53));
        let later = at(0x2001).unwrap();
        assert_eq!((later.fragment, later.src_port, later.dst_port, later.l4), (Fragment::Later, 0, 0, 20));
        assert_eq!(at(0x0001).unwrap().fragment, Fragment::Later);
        assert_eq!(at(0x1fff), Err(Malformed::BadFragment));
    }

    #[test]
    fn ports_must_be_there() {
        let cut = |len: u8, protocol: u8| {
            changed(|p| {
                p[3] = len;
                p[9] = protocol;
                seal(p);
            })
        };
        assert_eq!(cut(23, 6), Err(Malformed::ShortTransport));
        assert_eq!(cut(24, 132).unwrap().dst_port, 53);
        assert_eq!(cut(20, 1).unwrap().dst_port, 0);
    }

    #[test]
    fn options_are_stepped_over() {
        let mut p = udp4();
        p.splice(20..20, [0x94, 4, 0, 0]); // router alert
        p[0] = 0x46;
        p[3] = 36;
        seal(&mut p);
        let x = L3L4::parse(&p).unwrap();
        assert_eq!((x.l4, x.src_port, x.dst_port), (24, 1234, 53));
        p[20] ^= 1;
        assert_eq!(L3L4::parse(&p), Err(Malformed::BadHeaderChecksum));
    }

    #[test]
    fn reads_ipv6_with_and_without_extensions() {
        let mut p = std::vec![0x6b, 0x90, 0, 0, 0, 8, 6, 7];
        p.extend((1..=32).collect::<Vec<u8>>());
        p.extend([0x01, 0xbb, 0x30, 0x39, 0, 0, 0, 0]);
        let x = L3L4::parse(&p).unwrap();
        assert_eq!((x.version, x.l4, x.total_len, x.protocol, x.ttl, x.tos), (6, 40, 48, 6, 7, 0xb9));
        assert_eq!((x.src_port, x.dst_port, x.src, x.dst), (443, 12345, 0, 0));
        assert_eq!(x.src6(&p), 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);
        assert_eq!(x.dst6(&p), 0x1112_1314_1516_1718_191a_1b1c_1d1e_1f20);

        p[5] = 16;
        p[6] = 44;
        p.splice(40..40, [6, 0, 0, 1, 0, 0, 0, 9]);
        let x = L3L4::parse(&p).unwrap();
        assert_eq!((x.l4, x.protocol, x.fragment, x.src_port), (48, 6, Fragment::First, 443));
        p[43] = 8;
        let x = L3L4::parse(&p).unwrap();
        assert_eq!((x.l4, x.protocol, x.fragment, x.src_port), (48, 6, Fragment::Later, 0));
        p[43] = 0;
        assert_eq!(L3L4::parse(&p).unwrap().fragment, Fragment::Whole);
        assert_eq!(L3L4::parse(&p[..55]), Err(Malformed::BadLength));
        assert_eq!(L3L4::parse(&p[..39]), Err(Malformed::Short));
    }

    proptest! {
        #[test]
        fn what_is_read_lies_within(mut bytes in prop::collection::vec(any::<u8>(), 0..120), first in 0x40u8..0x70, len: u8, good: bool) {
            if let Some(b) = bytes.get_mut(0) { *b = first; }
            if let Some(b) = bytes.get_mut(2) { *b = 0; }
            if let Some(b) = bytes.get_mut(3) { *b = len & 127; }
            if good && bytes.len() >= 60 { seal(&mut bytes); }
            if let Some(usual) = L3L4::usual(&bytes) {
                prop_assert_eq!(L3L4::parse(&bytes), Ok(usual));
            }
            if let Ok(x) = L3L4::parse(&bytes) {
                prop_assert!(u32::from(x.l4) <= x.total_len && x.total_len as usize <= bytes.len());
                let _ = (x.src6(&bytes), x.dst6(&bytes));
            }
        }
    }
}
