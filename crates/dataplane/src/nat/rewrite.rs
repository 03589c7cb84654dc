//! Another address and port in a packet, and the checksums mended (RFC 1624; RFC 3022, 4.1).

use wire::{checksum, fast, icmp4, ip4, tcp, udp};

use super::kind::Protocol;

/// One of a packet's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Destination,
}

impl End {
    /// Where the address is in an IPv4 header.
    #[inline(always)]
    const fn address(self) -> usize {
        match self {
            End::Source => ip4::field::SRC,
            End::Destination => ip4::field::DST,
        }
    }

    /// Where the port is in a transport header. An echo has one identifier for both ends.
    #[inline(always)]
    const fn port(self, protocol: Protocol) -> usize {
        match (protocol, self) {
            (Protocol::Icmp, _) => icmp4::field::REST,
            (_, End::Source) => tcp::field::SRC_PORT,
            (_, End::Destination) => tcp::field::DST_PORT,
        }
    }
}

/// Gives the IPv4 packet another address at one end; the IP checksum follows. Returns the address it had.
#[inline(always)]
pub(super) fn address(packet: &mut [u8], end: End, new: u32) -> Option<u32> {
    let head: &mut [u8] = packet.first_chunk_mut::<{ ip4::HEADER_LEN }>()?;
    let old = fast::be32(head, end.address())?;
    let check = fast::be16(head, ip4::field::CHECKSUM)?;
    fast::put32(head, end.address(), new)?;
    fast::put16(head, ip4::field::CHECKSUM, checksum::adjust32(check, old, new))?;
    Some(old)
}

/// Gives the IPv4 packet another address and port at one end; its transport header is at `l4`. The checksums follow as
/// far as they are there: of a quoted packet the transport's may not be.
#[inline(always)]
pub(super) fn end(packet: &mut [u8], l4: usize, protocol: Protocol, end: End, new: (u32, u16)) -> Option<()> {
    let old = address(packet, end, new.0)?;
    let transport = packet.get_mut(l4..)?;
    let at = end.port(protocol);
    let old = (old, fast::be16(transport, at)?);
    fast::put16(transport, at, new.1)?;
    let sum = |end: (u32, u16)| checksum::combine(checksum::sum32(end.0), end.1);
    match protocol {
        Protocol::Tcp => {
            if let Some(check) = fast::be16(transport, tcp::field::CHECKSUM) {
                fast::put16(transport, tcp::field::CHECKSUM, checksum::adjust(check, sum(old), sum(new)));
            }
        }
        Protocol::Udp => {
            if let Some(check) = fast::be16(transport, udp::field::CHECKSUM) {
                fast::put16(transport, udp::field::CHECKSUM, checksum::adjust_udp(check, sum(old), sum(new)));
            }
        }
        // ICMP has no pseudo header.
        Protocol::Icmp => {
            let check = fast::be16(transport, icmp4::field::CHECKSUM)?;
            fast::put16(transport, icmp4::field::CHECKSUM, checksum::adjust16(check, old.1, new.1))?;
        }
    }
    Some(())
}
