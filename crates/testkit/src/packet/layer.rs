//! The layers, and what they say.

use wire::gtpu::extension_type;
use wire::{Mac, Teid, Vlan, arp, ip4, ip6, protocol, tcp};

use super::Facts;

/// One header, or bytes.
#[derive(Clone, Debug)]
pub(super) enum Layer {
    Eth { src: Mac, dst: Mac, kind: Option<u16> },
    Vlan { kind: u16, tag: Vlan },
    Arp(arp::Repr),
    Ip4(Ip4),
    Ip6(Ip6),
    Extension6 { kind: u8, content: Vec<u8> },
    Fragment6 { offset: u16, more: bool, id: u32 },
    Udp(Udp),
    Tcp(Tcp),
    Icmp4(Icmp),
    Icmp6(Icmp),
    Gtpu(Gtpu),
    Bytes(Vec<u8>),
}

#[derive(Clone, Debug)]
pub(super) struct Ip4 {
    pub repr: ip4::Repr,
    pub options: Vec<u8>,
    pub protocol: Option<u8>,
    pub length: Option<u16>,
    pub checksum: Option<u16>,
    pub version: Option<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Ip6 {
    pub repr: ip6::Repr,
    pub next: Option<u8>,
    pub length: Option<u16>,
    pub version: Option<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Udp {
    pub src: u16,
    pub dst: u16,
    pub length: Option<u16>,
    pub checksum: Option<u16>,
}

#[derive(Clone, Debug)]
pub(super) struct Tcp {
    pub repr: tcp::Repr,
    pub checksum: Option<u16>,
}

#[derive(Clone, Debug)]
pub(super) struct Icmp {
    pub kind: u8,
    pub code: u8,
    pub rest: u32,
    pub checksum: Option<u16>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Gtpu {
    pub kind: u8,
    pub teid: Teid,
    pub seq: Option<u16>,
    pub n_pdu: Option<u8>,
    pub extensions: Vec<(u8, Vec<u8>)>,
    pub flags: Option<u8>,
    pub length: Option<u16>,
}

impl Layer {
    /// The IP protocol number of this layer, behind an IPv4 or IPv6 header.
    pub fn protocol(&self) -> Option<u8> {
        match self {
            Layer::Extension6 { kind, .. } => Some(*kind),
            Layer::Fragment6 { .. } => Some(protocol::FRAGMENT),
            Layer::Udp(_) => Some(protocol::UDP),
            Layer::Tcp(_) => Some(protocol::TCP),
            Layer::Icmp4(_) => Some(protocol::ICMP4),
            Layer::Icmp6(_) => Some(protocol::ICMP6),
            Layer::Ip4(_) => Some(4),
            Layer::Ip6(_) => Some(41),
            _ => None,
        }
    }
}

/// What the layers say. An ICMP error's quotation is not looked into.
pub(super) fn facts(layers: &[Layer]) -> Facts {
    let mut facts = Facts::default();
    for layer in layers {
        match layer {
            Layer::Vlan { tag, .. } => facts.vlan = Some(tag.id()),
            Layer::Ip4(ip) => {
                facts.addresses.push((ip.repr.src.to_string(), ip.repr.dst.to_string()));
                facts.dscp.push(ip.repr.tos >> 2);
                facts.ttl.push(ip.repr.ttl);
            }
            Layer::Ip6(ip) => {
                facts.addresses.push((ip.repr.src.to_string(), ip.repr.dst.to_string()));
                facts.dscp.push(ip.repr.traffic_class >> 2);
                facts.ttl.push(ip.repr.hop_limit);
            }
            Layer::Udp(udp) => facts.ports = Some((udp.src, udp.dst)),
            Layer::Tcp(tcp) => facts.ports = Some((tcp.repr.src_port, tcp.repr.dst_port)),
            Layer::Gtpu(g) => {
                (facts.message, facts.teid, facts.seq) = (Some(g.kind), Some(g.teid.0), g.seq);
                let container = g.extensions.iter().find(|(kind, _)| *kind == extension_type::PDU_SESSION_CONTAINER);
                facts.container = container.map(|(_, content)| (content[0] >> 4, content[1] & 0x3f));
            }
            Layer::Icmp4(icmp) | Layer::Icmp6(icmp) => {
                (facts.icmp, facts.ports) = (Some((icmp.kind, icmp.code)), None);
                break;
            }
            _ => {}
        }
    }
    facts
}
