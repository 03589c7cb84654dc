//! A packet in a line, for people who compare two.

use std::fmt::Write as _;

use wire::{L3L4, Outer, arp, ethertype, fast, gtpu, protocol};

/// What the bytes of a frame say, in a line. Never fails; what cannot be read is told.
pub fn describe(frame: &[u8]) -> String {
    let Ok(outer) = Outer::parse(frame) else { return format!("{} bytes that are no frame", frame.len()) };
    let mac = |at: usize| wire::Mac(fast::array(frame, at).unwrap_or_default());
    let mut text = format!("{} > {}", mac(6), mac(0));
    if let Some(tag) = outer.outer_vlan() {
        let _ = write!(text, " vlan {}", tag.id());
    }
    let inside = frame.get(usize::from(outer.l3)..).unwrap_or_default();
    text.push_str(" | ");
    match outer.ethertype {
        ethertype::ARP => match arp::Repr::parse(inside) {
            Ok(r) if r.operation == arp::REQUEST => {
                let _ = write!(text, "arp: who has {}? tell {}", r.target_ip, r.sender_ip);
            }
            Ok(r) => {
                let _ = write!(text, "arp: {} is at {}", r.sender_ip, r.sender_mac);
            }
            Err(why) => {
                let _ = write!(text, "arp, malformed: {why}");
            }
        },
        ethertype::IP4 | ethertype::IP6 => network(inside, &mut text),
        other => {
            let _ = write!(text, "type {other:#06x}");
        }
    }
    let _ = write!(text, " ({} bytes)", frame.len());
    text
}

fn network(packet: &[u8], text: &mut String) {
    let ip = match L3L4::parse(packet) {
        Ok(ip) => ip,
        Err(why) => {
            let _ = write!(text, "ip, malformed: {why}");
            return;
        }
    };
    let (src, dst): (std::net::IpAddr, std::net::IpAddr) = if ip.version == 4 {
        (ip.src.to_be_bytes().into(), ip.dst.to_be_bytes().into())
    } else {
        (ip.src6(packet).to_be_bytes().into(), ip.dst6(packet).to_be_bytes().into())
    };
    let _ = write!(text, "{src} > {dst} ttl {} tos {:#04x} len {}", ip.ttl, ip.tos, ip.total_len);
    let l4 = packet.get(usize::from(ip.l4)..).unwrap_or_default();
    match ip.protocol {
        _ if ip.fragment == wire::Fragment::Later => text.push_str(" later fragment"),
        protocol::UDP if ip.dst_port == gtpu::PORT => tunnel(l4.get(8..).unwrap_or_default(), text),
        protocol::UDP => {
            let _ = write!(text, " udp {} > {}", ip.src_port, ip.dst_port);
        }
        protocol::TCP => {
            let _ = write!(text, " tcp {} > {}", ip.src_port, ip.dst_port);
        }
        protocol::ICMP4 | protocol::ICMP6 => {
            let (kind, code) = (l4.first().copied().unwrap_or(0), l4.get(1).copied().unwrap_or(0));
            let _ = write!(text, " icmp {kind}/{code} rest {:#x}", fast::be32(l4, 4).unwrap_or(0));
        }
        other => {
            let _ = write!(text, " protocol {other}");
        }
    }
}

fn tunnel(message: &[u8], text: &mut String) {
    match gtpu::Header::parse(message) {
        Err(why) => {
            let _ = write!(text, " | gtp-u, malformed: {why}");
        }
        Ok(header) => {
            let _ = write!(text, " | gtp-u {} {}", header.message_type, header.teid);
            if header.has_seq {
                let _ = write!(text, " seq {}", header.seq);
            }
            if let Some(qfi) = header.qfi {
                let _ = write!(text, " qfi {qfi}");
            }
            if header.message_type == gtpu::message_type::G_PDU {
                text.push_str(" | ");
                network(header.payload(message), text);
            }
        }
    }
}

/// The bytes sixteen a line; those that differ from `other` stand in brackets.
pub fn hex(bytes: &[u8], other: &[u8]) -> String {
    let mut text = String::new();
    for (line, chunk) in bytes.chunks(16).enumerate() {
        let _ = write!(text, "    {:04x} ", line * 16);
        for (n, byte) in chunk.iter().enumerate() {
            let same = other.get(line * 16 + n) == Some(byte);
            let _ = if same { write!(text, "  {byte:02x} ") } else { write!(text, " [{byte:02x}]") };
        }
        text.push('\n');
    }
    text
}
