//! ICMP errors and the packet they quote (RFC 5508, 4).

use wire::{L3L4, checksum, fast, icmp4, ip4};

use super::kind::Protocol;
use super::rewrite::{self, End};

/// The packet an error is about, as far as it is quoted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quoted {
    /// Where it begins, from the start of the error's IP header.
    at: usize,
    /// Its transport header, from its own start.
    l4: usize,
    pub protocol: Protocol,
    /// Its addresses and ports.
    pub src: (u32, u16),
    pub dst: (u32, u16),
}

/// The bytes of a transport header that must be quoted (RFC 792).
const LEAST: usize = 8;

impl Quoted {
    /// Reads the error `packet`: its checksum must be right (RFC 5508 REQ-3), the quoted one's need not. `None` when it
    /// is a fragment, broken, or quotes nothing that was ever translated.
    pub(super) fn read(ip: &L3L4, packet: &[u8]) -> Option<Quoted> {
        let error = packet.get(usize::from(ip.l4)..ip.total_len as usize)?;
        if ip.fragment != wire::Fragment::Whole || !checksum::is_valid(checksum::sum(error)) {
            return None;
        }
        let quoted = error.get(icmp4::HEADER_LEN..)?;
        let head: &[u8; ip4::HEADER_LEN] = quoted.first_chunk()?;
        // Options are stepped over (RFC 5508 REQ-3 c); of a later fragment the ports are not known.
        let l4 = usize::from(head[0] & 15) * 4;
        let later = fast::be16(head, ip4::field::FRAGMENT)? & 0x1fff != 0;
        if head[0] >> 4 != 4 || l4 < ip4::HEADER_LEN || later {
            return None;
        }
        let transport = quoted.get(l4..)?;
        let protocol = Protocol::of(head[ip4::field::PROTOCOL]).filter(|_| transport.len() >= LEAST)?;
        let (src_port, dst_port) = match protocol {
            Protocol::Icmp => {
                let (ident, _) = icmp4::echo_of(transport)?;
                (ident, ident)
            }
            _ => (fast::be16(transport, 0)?, fast::be16(transport, 2)?),
        };
        let (src, dst) = (fast::be32(head, ip4::field::SRC)?, fast::be32(head, ip4::field::DST)?);
        let at = usize::from(ip.l4) + icmp4::HEADER_LEN;
        Some(Quoted { at, l4, protocol, src: (src, src_port), dst: (dst, dst_port) })
    }

    /// Gives the error another address at `outer`, and the quoted packet another address and port at the other end; all
    /// checksums follow.
    pub(super) fn replace(&self, ip: &L3L4, packet: &mut [u8], outer: End, new: (u32, u16)) -> Option<()> {
        let inner = if outer == End::Source { End::Destination } else { End::Source };
        let total = ip.total_len as usize;
        rewrite::address(packet, outer, new.0)?;
        rewrite::end(packet.get_mut(self.at..total)?, self.l4, self.protocol, inner, new)?;
        // It was right before, so it may be made anew.
        let error = packet.get_mut(usize::from(ip.l4)..total)?;
        fast::put16(error, icmp4::field::CHECKSUM, 0)?;
        let check = checksum::of(error);
        fast::put16(error, icmp4::field::CHECKSUM, check)
    }
}
