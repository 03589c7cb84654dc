//! From layers to bytes, innermost first.

use wire::gtpu::{self, flag};
use wire::{arp, checksum, ethernet, ethertype, fast, icmp, ip6, protocol, udp};

use super::layer::{Gtpu, Icmp, Ip4, Ip6, Layer, Tcp, Udp};

/// The bytes of `layers`.
pub(super) fn emit(layers: &[Layer]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for at in (0..layers.len()).rev() {
        let around = Around { outside: &layers[..at], inside: layers.get(at + 1) };
        bytes = around.wrap(&layers[at], bytes);
    }
    bytes
}

/// A layer's neighbours.
struct Around<'a> {
    outside: &'a [Layer],
    inside: Option<&'a Layer>,
}

/// `header` bytes written by `emit`, then `body`.
fn before(header: usize, body: &[u8], emit: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; header];
    emit(&mut bytes);
    bytes.extend_from_slice(body);
    bytes
}

fn short(len: usize) -> u16 {
    u16::try_from(len).expect("a packet is at most 65535 bytes")
}

impl Around<'_> {
    fn wrap(&self, layer: &Layer, body: Vec<u8>) -> Vec<u8> {
        match layer {
            Layer::Eth { src, dst, kind } => {
                let kind = kind.unwrap_or_else(|| self.ethertype());
                let repr = ethernet::Repr { src: *src, dst: *dst, tags: ethernet::Tags::None, ethertype: kind };
                before(repr.header_len(), &body, |out| {
                    repr.emit(out).expect("a buffer of its length");
                })
            }
            Layer::Vlan { tag, .. } => before(4, &body, |out| {
                fast::put16(out, 0, tag.0);
                fast::put16(out, 2, self.ethertype());
            }),
            Layer::Arp(repr) => before(arp::LEN, &body, |out| {
                repr.emit(out).expect("a buffer of its length");
            }),
            Layer::Ip4(ip) => self.ip4(ip, &body),
            Layer::Ip6(ip) => self.ip6(ip, &body),
            Layer::Extension6 { content, .. } => {
                let len = (content.len() + 2).next_multiple_of(8);
                before(len, &body, |out| {
                    out[0] = self.next_header();
                    out[1] = (len / 8 - 1) as u8;
                    out[2..2 + content.len()].copy_from_slice(content);
                })
            }
            Layer::Fragment6 { offset, more, id } => before(ip6::FRAGMENT_LEN, &body, |out| {
                ip6::emit_fragment(out, self.next_header(), *offset, *more, *id).expect("a buffer of its length");
            }),
            Layer::Udp(header) => self.udp(header, &body),
            Layer::Tcp(header) => self.tcp(header, &body),
            Layer::Icmp4(icmp) => icmp_message(icmp, &body, icmp::NO_PSEUDO_HEADER),
            Layer::Icmp6(icmp) => {
                icmp_message(icmp, &body, self.pseudo(protocol::ICMP6, icmp::HEADER_LEN + body.len()))
            }
            Layer::Gtpu(header) => gtpu_message(header, &body),
            Layer::Bytes(bytes) => [&bytes[..], &body].concat(),
        }
    }

    fn ethertype(&self) -> u16 {
        match self.inside {
            Some(Layer::Vlan { kind, .. }) => *kind,
            Some(Layer::Arp(_)) => ethertype::ARP,
            Some(Layer::Ip6(_)) => ethertype::IP6,
            _ => ethertype::IP4,
        }
    }

    fn next_header(&self) -> u8 {
        self.inside.and_then(Layer::protocol).unwrap_or(protocol::NONE)
    }

    fn ip4(&self, ip: &Ip4, body: &[u8]) -> Vec<u8> {
        let header = 20 + ip.options.len().next_multiple_of(4);
        let next = self.inside.and_then(Layer::protocol);
        let mut repr = ip.repr;
        repr.protocol = ip.protocol.or(next).unwrap_or(253); // for experiments (RFC 3692)
        repr.payload_len = short(body.len());
        before(header, body, |out| {
            repr.emit_with_options(&ip.options, out).expect("a buffer of its length");
            if let Some(length) = ip.length {
                fast::put16(out, 2, length);
            }
            if let Some(version) = ip.version {
                out[0] = version;
            }
            fast::put16(out, 10, 0);
            let check = ip.checksum.unwrap_or(checksum::of(out));
            fast::put16(out, 10, check);
        })
    }

    fn ip6(&self, ip: &Ip6, body: &[u8]) -> Vec<u8> {
        let mut repr = ip.repr;
        repr.next_header = ip.next.unwrap_or_else(|| self.next_header());
        repr.payload_len = ip.length.unwrap_or_else(|| short(body.len()));
        before(ip6::HEADER_LEN, body, |out| {
            repr.emit(out).expect("a buffer of its length");
            if let Some(version) = ip.version {
                out[0] = version;
            }
        })
    }

    fn udp(&self, header: &Udp, body: &[u8]) -> Vec<u8> {
        let len = udp::HEADER_LEN + body.len();
        let mut bytes = before(udp::HEADER_LEN, body, |out| {
            fast::put16(out, 0, header.src);
            fast::put16(out, 2, header.dst);
            fast::put16(out, 4, header.length.unwrap_or(short(len)));
        });
        let sum = checksum::combine(self.pseudo(protocol::UDP, len), checksum::sum(&bytes));
        fast::put16(&mut bytes, 6, header.checksum.unwrap_or(checksum::finish_udp(sum)));
        bytes
    }

    fn tcp(&self, header: &Tcp, body: &[u8]) -> Vec<u8> {
        let mut bytes = before(header.repr.header_len(), body, |out| {
            header.repr.emit(out).expect("a buffer of its length");
        });
        fast::put16(&mut bytes, 16, 0);
        let sum = checksum::combine(self.pseudo(protocol::TCP, bytes.len()), checksum::sum(&bytes));
        fast::put16(&mut bytes, 16, header.checksum.unwrap_or(checksum::finish(sum)));
        bytes
    }

    /// The pseudo header's sum under the nearest IP header outside.
    fn pseudo(&self, protocol: u8, len: usize) -> u16 {
        let found = self.outside.iter().rev().find_map(|layer| match layer {
            Layer::Ip4(ip) => {
                Some(checksum::pseudo4(ip.repr.src.to_bits(), ip.repr.dst.to_bits(), protocol, short(len)))
            }
            Layer::Ip6(ip) => {
                Some(checksum::pseudo6(ip.repr.src.to_bits(), ip.repr.dst.to_bits(), protocol, short(len).into()))
            }
            _ => None,
        });
        found.unwrap_or(0)
    }
}

fn icmp_message(icmp: &Icmp, body: &[u8], pseudo: u16) -> Vec<u8> {
    let mut bytes = before(icmp::HEADER_LEN, body, |out| {
        fast::put(out, icmp::field::TYPE, [icmp.kind, icmp.code]);
        fast::put32(out, icmp::field::REST, icmp.rest);
    });
    let mut view = icmp::Packet::new_checked(&mut bytes[..]).expect("eight bytes");
    view.fill_checksum(pseudo);
    icmp.checksum.inspect(|value| view.set_checksum(*value));
    bytes
}

/// TS 29.281, 5.1 and 5.2.
fn gtpu_message(header: &Gtpu, body: &[u8]) -> Vec<u8> {
    let mut flags = flag::VERSION_1;
    flags |= if header.extensions.is_empty() { 0 } else { flag::E };
    flags |= if header.seq.is_some() { flag::S } else { 0 };
    flags |= if header.n_pdu.is_some() { flag::PN } else { 0 };
    let mut rest = Vec::new();
    if flags & flag::OPTIONAL != 0 {
        rest.extend(header.seq.unwrap_or(0).to_be_bytes());
        rest.push(header.n_pdu.unwrap_or(0));
        rest.push(header.extensions.first().map_or(0, |(kind, _)| *kind));
        for (at, (_, content)) in header.extensions.iter().enumerate() {
            assert!(content.len() % 4 == 2, "an extension header's content is 2, 6, 10, … bytes");
            rest.push(((content.len() + 2) / 4) as u8);
            rest.extend(content);
            rest.push(header.extensions.get(at + 1).map_or(0, |(kind, _)| *kind));
        }
    }
    rest.extend_from_slice(body);
    before(gtpu::HEADER_LEN, &rest, |out| {
        fast::put(out, 0, [header.flags.unwrap_or(flags), header.kind]);
        fast::put16(out, 2, header.length.unwrap_or(short(rest.len())));
        fast::put32(out, 4, header.teid.0);
    })
}
