//! Headers of tunnels of every kind (Outer Header Creation, 3GPP TS 29.244, 8.2.56), for what does not go the usual way.

use dataplane::forward::Tunnel;
use wire::gtpu::{flag, message_type};
use wire::{checksum, fast, gtpu, ip6, protocol};

use super::Checksum6;
use crate::record::encap;

/// UDP's.
const UDP: usize = 8;

/// Where a packet goes, and how it is marked.
pub(crate) struct Outwards<'a> {
    /// The headers of all packets that go there.
    pub tunnel: &'a Tunnel,
    /// One of [`encap`]'s values that have a header. GTP-U's has no container.
    pub encap: u8,
    /// The far end's TEID, or with [`encap::UDP`] its port.
    pub id: u32,
    /// Type of service or traffic class.
    pub tos: u8,
}

impl Outwards<'_> {
    /// Bytes before the user's packet.
    pub fn len(&self) -> usize {
        let ip = usize::from(self.tunnel.len).saturating_sub(UDP);
        match self.encap {
            encap::IP => ip,
            encap::UDP => ip + UDP,
            _ => ip + UDP + gtpu::HEADER_LEN,
        }
    }

    /// Writes the headers into the [`len`](Self::len) bytes before a user's packet. None when there is no room.
    #[cold]
    pub fn write(&self, packet: &mut [u8], checksum6: Checksum6) -> Option<()> {
        let total = u16::try_from(packet.len()).ok()?;
        let ip = usize::from(self.tunnel.len).checked_sub(UDP)?;
        let inner = packet.get(self.len())? >> 4;
        let template = if self.encap == encap::IP { ip } else { ip + UDP };
        packet.get_mut(..template)?.copy_from_slice(self.tunnel.header.get(..template)?);
        if self.encap != encap::IP {
            fast::put16(packet, ip + 4, total - ip as u16)?; // not shorter than its headers
        }
        match self.encap {
            encap::IP => {
                let number = if inner == 4 { protocol::IP4 } else { protocol::IP6 };
                fast::put8(packet, if self.tunnel.version == 4 { 9 } else { ip6::field::NEXT }, number)?;
            }
            encap::UDP => fast::put16(packet, ip + 2, self.id as u16)?, // a port
            _ => {
                let header = packet.get_mut(ip + UDP..ip + UDP + gtpu::HEADER_LEN)?;
                header[..2].copy_from_slice(&[flag::VERSION_1, message_type::G_PDU]);
                header[2..4].copy_from_slice(&(total - self.len() as u16).to_be_bytes());
                header[4..].copy_from_slice(&self.id.to_be_bytes());
            }
        }
        if self.tunnel.version == 4 {
            fast::put8(packet, 1, self.tos)?;
            fast::put16(packet, 2, total)?;
            fast::put16(packet, 10, 0)?;
            let check = checksum::of(packet.get(..ip)?);
            return fast::put16(packet, 10, check);
        }
        fast::put8(packet, 0, 0x60 | self.tos >> 4)?;
        fast::put8(packet, 1, self.tos << 4)?;
        fast::put16(packet, 4, total - ip as u16)?;
        if self.encap != encap::IP && checksum6 == Checksum6::Full {
            let datagram = packet.get(ip..)?;
            let sum = checksum::combine(checksum::sum(datagram), checksum::combine(self.tunnel.sum, total - ip as u16));
            fast::put16(packet, ip + 6, checksum::finish_udp(sum))?;
        }
        Some(())
    }
}
