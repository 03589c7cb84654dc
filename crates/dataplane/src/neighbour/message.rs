//! What neighbours say, read from bytes and checked as RFC 826 and RFC 4861 (6.1, 7.1) ask.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::{Mac, Malformed, Outer, checksum, ethertype, fast, ip6, protocol};

use super::{flag, kind, option};

/// A message that passed all checks its standard names. Link addresses given are always a single station's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeighbourMessage {
    /// Who has `target`? A probe if `sender_ip` is unspecified, an announcement if it is `target` (RFC 5227).
    ArpRequest {
        /// The asker's link address.
        sender: Mac,
        /// The asker's address.
        sender_ip: Ipv4Addr,
        /// The address asked for.
        target: Ipv4Addr,
    },
    /// `sender` has `sender_ip`.
    ArpReply {
        /// The answerer's link address.
        sender: Mac,
        /// The answerer's address.
        sender_ip: Ipv4Addr,
        /// Whom it is for; the same address in an announcement.
        target: Ipv4Addr,
    },
    /// Who has `target`? Duplicate address detection if `source` is unspecified (RFC 4862, 5.4).
    NeighbourSolicitation {
        /// The asker's address.
        source: Ipv6Addr,
        /// The asker's link address, if it says.
        link: Option<Mac>,
        /// The address asked for.
        target: Ipv6Addr,
    },
    /// `target` is at `link`.
    NeighbourAdvertisement {
        /// The address told about.
        target: Ipv6Addr,
        /// Where it is, if it says.
        link: Option<Mac>,
        /// The neighbour is a router.
        router: bool,
        /// It answers a solicitation: the path works both ways.
        solicited: bool,
        /// It is to replace what is known.
        overrides: bool,
    },
    /// Which routers are there?
    RouterSolicitation {
        /// The asker's address, or unspecified.
        source: Ipv6Addr,
        /// The asker's link address, if it says.
        link: Option<Mac>,
    },
    /// Here is a router.
    RouterAdvertisement {
        /// The router's link-local address.
        source: Ipv6Addr,
        /// The router's link address, if it says.
        link: Option<Mac>,
        /// For how long it may be a default router, in seconds; 0 if it is none.
        lifetime: u16,
        /// The link's MTU in bytes, if it says.
        mtu: Option<u32>,
        /// The first prefix announced and its length, if there is one.
        prefix: Option<(Ipv6Addr, u8)>,
    },
}

impl NeighbourMessage {
    /// Reads a whole Ethernet frame, tags or none. [`Malformed::BadType`]: it is something else altogether.
    pub fn parse(frame: &[u8]) -> Result<NeighbourMessage, Malformed> {
        let outer = Outer::parse(frame)?;
        let inside = frame.get(usize::from(outer.l3)..).ok_or(Malformed::Short)?;
        match outer.ethertype {
            ethertype::ARP => Self::parse_arp(inside),
            ethertype::IP6 => Self::parse_nd(inside),
            _ => Err(Malformed::BadType),
        }
    }

    /// Reads an ARP message (RFC 826); what the link padded is ignored. Requests and replies only.
    ///
    /// A sender must be a single station, and its address one host's, or unspecified in a request.
    pub(crate) fn parse_arp(arp: &[u8]) -> Result<NeighbourMessage, Malformed> {
        let arp: &[u8; 28] = arp.first_chunk().ok_or(Malformed::Short)?;
        let address = |at: usize| fast::be32(arp, at).map(Ipv4Addr::from_bits).ok_or(Malformed::Short);
        let sender = Mac(fast::array(arp, 8).ok_or(Malformed::Short)?);
        let (sender_ip, target) = (address(14)?, address(24)?);
        // Ethernet, IPv4, six and four bytes.
        if arp[..6] != [0, 1, 0x08, 0x00, 6, 4] || !sender.is_station() {
            return Err(Malformed::BadType);
        }
        let many = |ip: Ipv4Addr| ip.is_multicast() || ip.is_broadcast() || ip.is_loopback();
        if many(sender_ip) || many(target) {
            return Err(Malformed::BadType);
        }
        match (arp[6], arp[7]) {
            (0, 1) => Ok(NeighbourMessage::ArpRequest { sender, sender_ip, target }),
            (0, 2) if !sender_ip.is_unspecified() => Ok(NeighbourMessage::ArpReply { sender, sender_ip, target }),
            _ => Err(Malformed::BadType),
        }
    }

    /// Reads an IPv6 packet that holds a message of neighbour discovery right behind its fixed header.
    ///
    /// The hop limit must be 255, so nobody beyond the link can have sent it (RFC 4861, 3.1), and all other checks of
    /// sections 6.1 and 7.1 are made; unknown options are passed over.
    pub(crate) fn parse_nd(ip: &[u8]) -> Result<NeighbourMessage, Malformed> {
        let packet = ip6::Packet::new_checked(ip)?;
        let message = packet.payload();
        if packet.next_header() != protocol::ICMP6 {
            return Err(Malformed::BadType);
        }
        let head: &[u8; 8] = message.first_chunk().ok_or(Malformed::Short)?;
        if !(kind::ROUTER_SOLICITATION..=kind::ADVERTISEMENT).contains(&head[0]) {
            return Err(Malformed::BadType);
        }
        if packet.hop_limit() != 255 {
            return Err(Malformed::BadHopLimit);
        }
        let (source, dst) = (packet.src(), packet.dst());
        let len = message.len() as u32; // at most 65,535
        let pseudo = checksum::pseudo6(source.to_bits(), dst.to_bits(), protocol::ICMP6, len);
        if !checksum::is_valid(checksum::combine(pseudo, checksum::sum(message))) {
            return Err(Malformed::BadChecksum);
        }
        if head[1] != 0 || source.is_multicast() {
            return Err(Malformed::BadType);
        }
        let nd = Nd { head, message, source, dst };
        match head[0] {
            kind::ROUTER_SOLICITATION => nd.router_solicitation(),
            kind::ROUTER_ADVERTISEMENT => nd.router_advertisement(),
            kind::SOLICITATION => nd.solicitation(),
            _ => nd.advertisement(),
        }
    }
}

/// A message whose hop limit, checksum and code are right.
struct Nd<'a> {
    head: &'a [u8; 8],
    message: &'a [u8],
    source: Ipv6Addr,
    dst: Ipv6Addr,
}

impl Nd<'_> {
    fn router_solicitation(&self) -> Result<NeighbourMessage, Malformed> {
        let link = self.options(8)?.link(option::SOURCE_LINK)?;
        if self.source.is_unspecified() && link.is_some() {
            return Err(Malformed::BadOption); // RFC 4861, 6.1.1
        }
        Ok(NeighbourMessage::RouterSolicitation { source: self.source, link })
    }

    fn router_advertisement(&self) -> Result<NeighbourMessage, Malformed> {
        if !self.source.is_unicast_link_local() {
            return Err(Malformed::BadType); // RFC 4861, 6.1.2
        }
        let options = self.options(16)?;
        let prefix = match options.find(option::PREFIX)? {
            Some(o) => {
                let bits = fast::be128(o, 16).ok_or(Malformed::BadOption)?;
                let len = o.get(2).copied().filter(|len| *len <= 128).ok_or(Malformed::BadOption)?;
                Some((Ipv6Addr::from_bits(bits), len))
            }
            None => None,
        };
        Ok(NeighbourMessage::RouterAdvertisement {
            source: self.source,
            link: options.link(option::SOURCE_LINK)?,
            lifetime: u16::from_be_bytes([self.head[6], self.head[7]]),
            mtu: options.find(option::MTU)?.and_then(|o| fast::be32(o, 4)),
            prefix,
        })
    }

    fn target(&self) -> Result<Ipv6Addr, Malformed> {
        let target = fast::be128(self.message, 8).map(Ipv6Addr::from_bits).ok_or(Malformed::Short)?;
        if target.is_multicast() || target.is_unspecified() {
            return Err(Malformed::BadType);
        }
        Ok(target)
    }

    fn solicitation(&self) -> Result<NeighbourMessage, Malformed> {
        let target = self.target()?;
        let link = self.options(24)?.link(option::SOURCE_LINK)?;
        if self.source.is_unspecified() {
            // Detection of duplicates asks the target's group and names no link address (RFC 4861, 7.1.1).
            if link.is_some() {
                return Err(Malformed::BadOption);
            }
            if self.dst != super::solicited_node(target) {
                return Err(Malformed::BadType);
            }
        }
        Ok(NeighbourMessage::NeighbourSolicitation { source: self.source, link, target })
    }

    fn advertisement(&self) -> Result<NeighbourMessage, Malformed> {
        let target = self.target()?;
        let has = |bit: u8| self.head[4] & bit != 0;
        // A multicast advertisement is not solicited (RFC 4861, 7.1.2).
        if self.dst.is_multicast() && has(flag::SOLICITED) {
            return Err(Malformed::BadType);
        }
        Ok(NeighbourMessage::NeighbourAdvertisement {
            target,
            link: self.options(24)?.link(option::TARGET_LINK)?,
            router: has(flag::ROUTER),
            solicited: has(flag::SOLICITED),
            overrides: has(flag::OVERRIDE),
        })
    }

    /// The options from byte `from`; their lengths must all be right and none zero (RFC 4861, 7.1).
    fn options(&self, from: usize) -> Result<NdOptions<'_>, Malformed> {
        let bytes = self.message.get(from..).ok_or(Malformed::Short)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = usize::from(fast::be8(rest, 1).ok_or(Malformed::BadOption)?) * 8;
            if len == 0 {
                return Err(Malformed::BadOption);
            }
            rest = rest.get(len..).ok_or(Malformed::BadOption)?;
        }
        Ok(NdOptions(bytes))
    }
}

/// Options whose lengths are right.
struct NdOptions<'a>(&'a [u8]);

impl<'a> NdOptions<'a> {
    /// The first option of this kind, its two leading bytes included.
    fn find(&self, kind: u8) -> Result<Option<&'a [u8]>, Malformed> {
        let mut rest = self.0;
        while let [found, units, ..] = *rest {
            let (option, behind) = rest.split_at_checked(usize::from(units) * 8).ok_or(Malformed::BadOption)?;
            if found == kind {
                return Ok(Some(option));
            }
            rest = behind;
        }
        Ok(None)
    }

    /// A link-layer address option: six bytes on Ethernet, and a single station's.
    fn link(&self, kind: u8) -> Result<Option<Mac>, Malformed> {
        let Some(option) = self.find(kind)? else { return Ok(None) };
        let mac = fast::array(option, 2).map(Mac).filter(|mac| option.len() == 8 && mac.is_station());
        mac.map(Some).ok_or(Malformed::BadOption)
    }
}
