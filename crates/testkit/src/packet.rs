//! Packets by description.
//!
//! ```
//! use testkit::packet::{eth, ip4};
//! let user = ip4([10, 60, 0, 1], [198, 51, 100, 7]).udp(1000, 7000).payload(b"hello");
//! let frame = eth([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 3])
//!     .vlan(7)
//!     .ip4([10, 0, 3, 100], [10, 0, 3, 1])
//!     .gtpu(0x0100_0000)
//!     .container_up(9)
//!     .carrying(&user)
//!     .build();
//! assert_eq!(frame.len(), 18 + 20 + 8 + 16 + 20 + 8 + 5);
//! ```
//!
//! Layers are added outermost first; types, lengths and checksums follow from what is inside. A method that changes a
//! field (`ttl`, `length`, `checksum`, …) changes the last layer that has such a field, so it stands behind the layer
//! it is about.

mod describe;
mod emit;
mod layer;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::gtpu::{self, Container, extension_type, message_type};
use wire::{Mac, Qfi, Teid, Vlan, arp, ethertype, icmp4, icmp6, ip4, ip6, ndp, tcp};

pub use describe::{describe, hex};
use layer::{Gtpu, Icmp, Ip4, Ip6, Layer, Tcp, Udp};

/// A packet as a list of layers, not yet bytes.
#[derive(Clone, Debug, Default)]
pub struct Packet {
    layers: Vec<Layer>,
    /// Least length of the whole, reached with zeros.
    pad: usize,
    /// Bytes to overwrite in the finished packet.
    pokes: Vec<(usize, Vec<u8>)>,
    cut: Option<usize>,
}

/// A frame from `src` to `dst`.
pub fn eth(src: impl Into<[u8; 6]>, dst: impl Into<[u8; 6]>) -> Packet {
    let (src, dst) = (Mac(src.into()), Mac(dst.into()));
    Packet::default().add(Layer::Eth { src, dst, kind: None })
}

/// An IPv4 packet without a link header.
pub fn ip4(src: impl Into<Ipv4Addr>, dst: impl Into<Ipv4Addr>) -> Packet {
    Packet::default().ip4(src, dst)
}

/// An IPv6 packet without a link header.
pub fn ip6(src: impl Into<Ipv6Addr>, dst: impl Into<Ipv6Addr>) -> Packet {
    Packet::default().ip6(src, dst)
}

/// An IP packet of the addresses' family, without a link header.
pub fn ip(src: impl Into<IpAddr>, dst: impl Into<IpAddr>) -> Packet {
    Packet::default().ip(src, dst)
}

/// Bytes as they are.
pub fn raw(bytes: impl AsRef<[u8]>) -> Packet {
    Packet::default().payload(bytes)
}

impl Packet {
    fn add(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// A VLAN tag (802.1Q).
    pub fn vlan(self, id: u16) -> Self {
        self.add(Layer::Vlan { kind: ethertype::VLAN, tag: Vlan::of(id) })
    }

    /// A service tag (802.1ad).
    pub fn service_vlan(self, id: u16) -> Self {
        self.add(Layer::Vlan { kind: ethertype::SERVICE_VLAN, tag: Vlan::of(id) })
    }

    /// An IPv4 header: time to live 64, not to be fragmented unless [`Packet::may_fragment`] says so.
    pub fn ip4(self, src: impl Into<Ipv4Addr>, dst: impl Into<Ipv4Addr>) -> Self {
        let repr = ip4::Repr::new(src.into(), dst.into(), 0, 0);
        self.add(Layer::Ip4(Ip4 { repr, options: vec![], protocol: None, length: None, checksum: None, version: None }))
    }

    /// An IPv6 header: hop limit 64.
    pub fn ip6(self, src: impl Into<Ipv6Addr>, dst: impl Into<Ipv6Addr>) -> Self {
        let repr = ip6::Repr {
            src: src.into(),
            dst: dst.into(),
            next_header: 0,
            payload_len: 0,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        };
        self.add(Layer::Ip6(Ip6 { repr, next: None, length: None, version: None }))
    }

    /// An IP header of the addresses' family.
    ///
    /// # Panics
    /// When the addresses are of two families.
    pub fn ip(self, src: impl Into<IpAddr>, dst: impl Into<IpAddr>) -> Self {
        match (src.into(), dst.into()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => self.ip4(src, dst),
            (IpAddr::V6(src), IpAddr::V6(dst)) => self.ip6(src, dst),
            (src, dst) => panic!("{src} and {dst} are of two families"),
        }
    }

    /// An IPv6 extension header of this type; `content` is what follows the next-header and length bytes.
    pub fn extension6(self, kind: u8, content: impl AsRef<[u8]>) -> Self {
        self.add(Layer::Extension6 { kind, content: content.as_ref().to_vec() })
    }

    /// An IPv6 fragment header; `offset` in bytes.
    pub fn fragment6(self, offset: u16, more: bool, id: u32) -> Self {
        self.add(Layer::Fragment6 { offset, more, id })
    }

    /// A UDP header.
    pub fn udp(self, src: u16, dst: u16) -> Self {
        self.add(Layer::Udp(Udp { src, dst, length: None, checksum: None }))
    }

    /// A TCP header: SYN, if nothing else is said.
    pub fn tcp(self, src: u16, dst: u16) -> Self {
        let repr = tcp::Repr {
            src_port: src,
            dst_port: dst,
            seq: 1,
            ack: 0,
            flags: tcp::flag::SYN,
            window: 0xffff,
            mss: None,
        };
        self.add(Layer::Tcp(Tcp { repr, checksum: None }))
    }

    /// The flags of a TCP header.
    pub fn flags(self, value: u8) -> Self {
        self.change(|layer| {
            match layer {
                Layer::Tcp(tcp) => tcp.repr.flags = value,
                _ => return false,
            }
            true
        })
    }

    /// The maximum segment size that a TCP header announces.
    pub fn mss(self, value: u16) -> Self {
        self.change(|layer| {
            match layer {
                Layer::Tcp(tcp) => tcp.repr.mss = Some(value),
                _ => return false,
            }
            true
        })
    }

    /// An ICMP message (v4): type, code and the second word.
    pub fn icmp4(self, kind: u8, code: u8, rest: u32) -> Self {
        self.add(Layer::Icmp4(Icmp { kind, code, rest, checksum: None }))
    }

    /// An ICMPv6 message: type, code and the second word.
    pub fn icmp6(self, kind: u8, code: u8, rest: u32) -> Self {
        self.add(Layer::Icmp6(Icmp { kind, code, rest, checksum: None }))
    }

    /// An echo request of the family of the IP header before it.
    pub fn ping(self, id: u16, seq: u16) -> Self {
        self.echo(icmp4::kind::ECHO_REQUEST, icmp6::kind::ECHO_REQUEST, id, seq)
    }

    /// An echo reply of the family of the IP header before it.
    pub fn pong(self, id: u16, seq: u16) -> Self {
        self.echo(icmp4::kind::ECHO_REPLY, icmp6::kind::ECHO_REPLY, id, seq)
    }

    fn echo(self, four: u8, six: u8, id: u16, seq: u16) -> Self {
        let rest = u32::from(id) << 16 | u32::from(seq);
        match self.layers.iter().rev().find(|l| matches!(l, Layer::Ip4(_) | Layer::Ip6(_))) {
            Some(Layer::Ip6(_)) => self.icmp6(six, 0, rest),
            _ => self.icmp4(four, 0, rest),
        }
    }

    /// An ARP request.
    pub fn arp_request(self, mac: impl Into<[u8; 6]>, ip: impl Into<Ipv4Addr>, target: impl Into<Ipv4Addr>) -> Self {
        self.add(Layer::Arp(arp::Repr::request(Mac(mac.into()), ip.into(), target.into())))
    }

    /// An ARP reply.
    pub fn arp_reply(
        self,
        mac: impl Into<[u8; 6]>,
        ip: impl Into<Ipv4Addr>,
        to_mac: impl Into<[u8; 6]>,
        to: impl Into<Ipv4Addr>,
    ) -> Self {
        self.add(Layer::Arp(arp::Repr {
            operation: arp::REPLY,
            sender_mac: Mac(mac.into()),
            sender_ip: ip.into(),
            target_mac: Mac(to_mac.into()),
            target_ip: to.into(),
        }))
    }

    /// A message of neighbour discovery; the hop limit becomes 255.
    pub fn ndp(self, repr: ndp::Repr) -> Self {
        let mut bytes = vec![0; repr.message_len()];
        repr.emit(&mut bytes).expect("a buffer of its length");
        let rest = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        self.ttl(255).icmp6(bytes[0], 0, rest).payload(&bytes[8..])
    }

    /// A neighbour solicitation.
    pub fn solicit(self, target: impl Into<Ipv6Addr>, source: Option<Mac>) -> Self {
        self.ndp(ndp::Repr::NeighbourSolicit { target: target.into(), source })
    }

    /// A neighbour advertisement.
    pub fn advertise(self, target: impl Into<Ipv6Addr>, mac: Mac, flags: u8) -> Self {
        self.ndp(ndp::Repr::NeighbourAdvert { flags, target: target.into(), address: Some(mac) })
    }

    /// UDP on GTP-U's port and a G-PDU header for the tunnel `teid`.
    pub fn gtpu(self, teid: u32) -> Self {
        self.udp(gtpu::PORT, gtpu::PORT).gtpu_message(message_type::G_PDU, teid)
    }

    /// As [`Packet::gtpu`], without UDP checksum, as is usual over IPv4.
    pub fn gtpu_unsummed(self, teid: u32) -> Self {
        self.udp(gtpu::PORT, gtpu::PORT).checksum(0).gtpu_message(message_type::G_PDU, teid)
    }

    /// A GTP-U header alone.
    pub fn gtpu_message(self, kind: u8, teid: u32) -> Self {
        let header = Gtpu { kind, teid: Teid(teid), ..Gtpu::default() };
        self.add(Layer::Gtpu(header))
    }

    /// A GTP-U sequence number.
    pub fn seq(self, value: u16) -> Self {
        self.change(|layer| {
            match layer {
                Layer::Gtpu(g) => g.seq = Some(value),
                Layer::Tcp(t) => t.repr.seq = value.into(),
                _ => return false,
            }
            true
        })
    }

    /// A GTP-U N-PDU number.
    pub fn n_pdu(self, value: u8) -> Self {
        self.gtpu_change(|g| g.n_pdu = Some(value))
    }

    /// A GTP-U extension header; `content` is 2 bytes, or 4 more for each unit of its length.
    pub fn extension(self, kind: u8, content: impl AsRef<[u8]>) -> Self {
        self.gtpu_change(|g| g.extensions.push((kind, content.as_ref().to_vec())))
    }

    /// A PDU session container for the uplink.
    pub fn container_up(self, qfi: u8) -> Self {
        self.container(Container::up(Qfi(qfi)))
    }

    /// A PDU session container for the downlink.
    pub fn container_down(self, qfi: u8) -> Self {
        self.container(Container::down(Qfi(qfi)))
    }

    fn container(self, container: Container) -> Self {
        let mut bytes = [0; 4];
        container.emit_extension(0, &mut bytes).expect("a container without options is four bytes");
        self.extension(extension_type::PDU_SESSION_CONTAINER, &bytes[1..3])
    }

    /// The GTP-U header's first byte.
    pub fn gtpu_flags(self, flags: u8) -> Self {
        self.gtpu_change(|g| g.flags = Some(flags))
    }

    fn gtpu_change(self, change: impl FnOnce(&mut Gtpu)) -> Self {
        let mut change = Some(change);
        self.change(|layer| {
            match layer {
                Layer::Gtpu(g) => change.take().expect("once")(g),
                _ => return false,
            }
            true
        })
    }

    /// Time to live, or hop limit.
    pub fn ttl(self, value: u8) -> Self {
        self.change(|layer| {
            match layer {
                Layer::Ip4(ip) => ip.repr.ttl = value,
                Layer::Ip6(ip) => ip.repr.hop_limit = value,
                _ => return false,
            }
            true
        })
    }

    /// The priority code point of the last VLAN tag, 0 to 7.
    pub fn pcp(self, value: u8) -> Self {
        self.change(|layer| {
            let Layer::Vlan { tag, .. } = layer else { return false };
            *tag = tag.with_priority(value);
            true
        })
    }

    /// Type of service, or traffic class.
    pub fn tos(self, value: u8) -> Self {
        self.change(|layer| {
            match layer {
                Layer::Ip4(ip) => ip.repr.tos = value,
                Layer::Ip6(ip) => ip.repr.traffic_class = value,
                _ => return false,
            }
            true
        })
    }

    /// IPv4 identification.
    pub fn ident(self, value: u16) -> Self {
        self.ip4_change(|ip| ip.repr.ident = value)
    }

    /// Clears IPv4's "don't fragment".
    pub fn may_fragment(self) -> Self {
        self.ip4_change(|ip| ip.repr.dont_fragment = false)
    }

    /// Makes the IPv4 packet a fragment; `offset` in bytes.
    pub fn fragment(self, offset: u16, more: bool) -> Self {
        self.ip4_change(|ip| {
            (ip.repr.dont_fragment, ip.repr.fragment_offset, ip.repr.more_fragments) = (false, offset, more);
        })
    }

    /// IPv4 options, padded to a multiple of four.
    pub fn options(self, bytes: impl AsRef<[u8]>) -> Self {
        self.ip4_change(|ip| ip.options = bytes.as_ref().to_vec())
    }

    fn ip4_change(self, change: impl FnOnce(&mut Ip4)) -> Self {
        let mut change = Some(change);
        self.change(|layer| {
            match layer {
                Layer::Ip4(ip) => change.take().expect("once")(ip),
                _ => return false,
            }
            true
        })
    }

    /// IPv6 flow label.
    pub fn flow_label(self, value: u32) -> Self {
        self.change(|layer| {
            match layer {
                Layer::Ip6(ip) => ip.repr.flow_label = value,
                _ => return false,
            }
            true
        })
    }

    /// The first byte of the last IP header: version and, for IPv4, header length.
    pub fn version_byte(self, value: u8) -> Self {
        self.change(|layer| {
            match layer {
                Layer::Ip4(ip) => ip.version = Some(value),
                Layer::Ip6(ip) => ip.version = Some(value),
                _ => return false,
            }
            true
        })
    }

    /// What the last header says of what follows: the type of an Ethernet frame, an IP header's protocol.
    pub fn says(self, value: u16) -> Self {
        let last = self.layers.len().saturating_sub(1);
        let mut packet = self;
        match packet.layers.get_mut(last) {
            Some(Layer::Eth { kind, .. }) => *kind = Some(value),
            Some(Layer::Ip4(ip)) => ip.protocol = Some(value as u8),
            Some(Layer::Ip6(ip)) => ip.next = Some(value as u8),
            other => panic!("{other:?} does not say what follows"),
        }
        packet
    }

    /// The length field of the last layer that has one, whatever is right.
    pub fn length(self, value: u16) -> Self {
        self.change(|layer| {
            match layer {
                Layer::Ip4(ip) => ip.length = Some(value),
                Layer::Ip6(ip) => ip.length = Some(value),
                Layer::Udp(udp) => udp.length = Some(value),
                Layer::Gtpu(g) => g.length = Some(value),
                _ => return false,
            }
            true
        })
    }

    /// The checksum of the last layer that has one, whatever is right.
    pub fn checksum(self, value: u16) -> Self {
        self.change(|layer| {
            match layer {
                Layer::Ip4(ip) => ip.checksum = Some(value),
                Layer::Udp(udp) => udp.checksum = Some(value),
                Layer::Tcp(tcp) => tcp.checksum = Some(value),
                Layer::Icmp4(icmp) | Layer::Icmp6(icmp) => icmp.checksum = Some(value),
                _ => return false,
            }
            true
        })
    }

    fn change(mut self, mut change: impl FnMut(&mut Layer) -> bool) -> Self {
        let changed = self.layers.iter_mut().rev().any(&mut change);
        assert!(changed, "no layer has that field: {:?}", self.layers);
        self
    }

    /// Bytes behind the last header.
    pub fn payload(self, bytes: impl AsRef<[u8]>) -> Self {
        self.add(Layer::Bytes(bytes.as_ref().to_vec()))
    }

    /// `len` bytes behind the last header: 0, 1, 2, ….
    pub fn filled(self, len: usize) -> Self {
        let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
        self.payload(bytes)
    }

    /// Another packet's layers inside this one.
    pub fn carrying(mut self, inner: &Packet) -> Self {
        self.layers.extend(inner.layers.iter().cloned());
        self
    }

    /// Zeros up to the least length of an Ethernet frame.
    pub fn padded(mut self) -> Self {
        self.pad = wire::ethernet::MIN_FRAME;
        self
    }

    /// Zeros up to that length.
    pub fn padded_to(mut self, len: usize) -> Self {
        self.pad = len;
        self
    }

    /// Overwrites bytes of the finished packet.
    pub fn poke(mut self, at: usize, bytes: impl AsRef<[u8]>) -> Self {
        self.pokes.push((at, bytes.as_ref().to_vec()));
        self
    }

    /// Cuts the finished packet's end off, leaving `len` bytes.
    pub fn cut(mut self, len: usize) -> Self {
        self.cut = Some(len);
        self
    }

    /// The bytes.
    ///
    /// # Panics
    /// When they are more than any header can say, or a poke lies outside of them.
    pub fn build(&self) -> Vec<u8> {
        let mut bytes = emit::emit(&self.layers);
        if bytes.len() < self.pad {
            bytes.resize(self.pad, 0);
        }
        for (at, with) in &self.pokes {
            bytes[*at..*at + with.len()].copy_from_slice(with);
        }
        bytes.truncate(self.cut.unwrap_or(usize::MAX));
        bytes
    }

    /// What a reader of the packet should find in it, for a judge that reads it by other means.
    pub fn facts(&self) -> Facts {
        layer::facts(&self.layers)
    }
}

/// What a packet says of itself where it matters most.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Facts {
    /// The VLAN tag.
    pub vlan: Option<u16>,
    /// Addresses of each IP header, outermost first.
    pub addresses: Vec<(String, String)>,
    /// DSCP of each IP header.
    pub dscp: Vec<u8>,
    /// TTL or hop limit of each IP header.
    pub ttl: Vec<u8>,
    /// GTP-U message type.
    pub message: Option<u8>,
    /// Tunnel endpoint identifier.
    pub teid: Option<u32>,
    /// GTP-U sequence number.
    pub seq: Option<u16>,
    /// The PDU session container's type (0 down, 1 up) and QoS flow.
    pub container: Option<(u8, u8)>,
    /// UDP or TCP ports of the innermost transport header.
    pub ports: Option<(u16, u16)>,
    /// ICMP type and code of the outermost such header.
    pub icmp: Option<(u8, u8)>,
}

#[cfg(test)]
mod tests;
