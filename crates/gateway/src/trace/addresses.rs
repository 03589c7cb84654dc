//! Addresses of a packet, from the outermost header to the innermost.

use std::net::{Ipv4Addr, Ipv6Addr};

use wire::fast::{array, be8, be16, be32};

/// GTP-U's port (TS 29.281, 4.4.2).
const GTPU: u16 = 2152;
const UDP: u8 = 17;

/// `10.0.3.100:2152 → 10.0.3.1:2152, teid 0x00000001, 10.60.0.1:5000 → 203.0.113.9:80`; empty: no IP packet.
pub fn of(frame: &[u8]) -> String {
    let mut parts = Vec::new();
    // A frame, or of ports without link layer an IP packet.
    let l3 = match wire::Outer::parse(frame) {
        Ok(outer) if matches!(outer.ethertype, 0x0800 | 0x86dd) => usize::from(outer.l3),
        _ if matches!(be8(frame, 0).map(|byte| byte >> 4), Some(4 | 6)) => 0,
        _ => return String::new(),
    };
    ip(frame.get(l3..).unwrap_or_default(), &mut parts);
    parts.join(", ")
}

/// Adds a packet's addresses, and those of the packet in its tunnel.
fn ip(packet: &[u8], parts: &mut Vec<String>) -> Option<()> {
    let (protocol, from, to, l4) = match be8(packet, 0)? >> 4 {
        4 => {
            let [from, to] = [12, 16].map(|at| array::<4>(packet, at).map(Ipv4Addr::from));
            (be8(packet, 9)?, from?.to_string(), to?.to_string(), usize::from(be8(packet, 0)? & 15) * 4)
        }
        6 => {
            let [from, to] = [8, 24].map(|at| array::<16>(packet, at).map(Ipv6Addr::from));
            (be8(packet, 6)?, format!("[{}]", from?), format!("[{}]", to?), 40)
        }
        _ => return None,
    };
    let is_ported = matches!(protocol, 6 | UDP | 132 | 136);
    let ports = be16(packet, l4).zip(be16(packet, l4 + 2)).filter(|_| is_ported);
    parts.push(match ports {
        Some((source, destination)) => format!("{from}:{source} → {to}:{destination}"),
        None => format!("{from} → {to}"),
    });
    if protocol == UDP && ports.is_some_and(|(_, destination)| destination == GTPU) {
        gtpu(packet.get(l4 + 8..)?, parts)?;
    }
    Some(())
}

/// Adds a tunnel's endpoint and what is in it (TS 29.281, 5.1): optional fields and extension headers are passed.
fn gtpu(packet: &[u8], parts: &mut Vec<String>) -> Option<()> {
    parts.push(format!("teid {:#010x}", be32(packet, 4)?));
    let flags = be8(packet, 0)?;
    let mut at = 8;
    if flags & 7 != 0 {
        at = 12;
        let mut next = if flags & 4 != 0 { be8(packet, 11)? } else { 0 };
        while next != 0 {
            let len = usize::from(be8(packet, at)?) * 4;
            if len == 0 {
                return None;
            }
            next = be8(packet, at + len - 1)?;
            at += len;
        }
    }
    ip(packet.get(at..)?, parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, from: [u8; 4], to: [u8; 4], payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend(from.iter().chain(&to).chain(payload));
        packet
    }

    #[test]
    fn addresses_of_a_tunnel_are_named() {
        let inner = ipv4(17, [10, 60, 0, 1], [203, 0, 113, 9], &[0x13, 0x88, 0, 80, 0, 8, 0, 0]);
        // GTP-U with an extension header: a PDU session container (TS 38.415).
        let mut outer = vec![8, 0x68, 8, 0x68, 0, 0, 0, 0, 0x34, 0xff, 0, 0, 0, 0, 0, 31, 0, 0, 0, 0x85, 1, 16, 1, 0];
        outer.extend(inner);
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        frame.extend(ipv4(17, [10, 0, 3, 100], [10, 0, 3, 1], &outer));
        let wanted = "10.0.3.100:2152 → 10.0.3.1:2152, teid 0x0000001f, 10.60.0.1:5000 → 203.0.113.9:80";
        assert_eq!(of(&frame), wanted);
        for len in 0..frame.len() {
            of(&frame[..len]);
        }
        assert_eq!(of(&[0xff; 60]), "");
    }
}
