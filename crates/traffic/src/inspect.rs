//! Finding the signature in a packet that came out of a gateway.

use wire::gtpu::{self, message_type};
use wire::{L3L4, Outer, Teid, checksum, ethertype, protocol};

use crate::signature::Signature;

/// A signed packet, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    pub mark: Signature,
    /// The tunnel it came in, if any.
    pub tunnel: Option<Tunnel>,
    /// The user's IP packet, without padding.
    pub packet: &'a [u8],
    /// What its headers say.
    pub head: L3L4,
}

/// What a GTP-U tunnel's headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Tunnel endpoint identifier.
    pub teid: Teid,
    /// QoS flow identifier, if there is a PDU Session Container.
    pub qfi: Option<u8>,
    /// Where it was sent to; IPv4 addresses in the lower 32 bits.
    pub to: u128,
}

/// Why a packet is not one of ours, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Headers that can't be read: damaged.
    Malformed,
    /// Readable, but not a signed packet.
    Unsigned,
}

/// Takes a frame apart: Ethernet with up to two tags, IP, UDP, and either the signature or GTP-U, IP, UDP and the
/// signature. IPv4 header checksums are verified.
///
/// # Errors
/// Why it is not a packet of ours.
#[inline]
pub fn inspect(frame: &[u8]) -> Result<Found<'_>, Lack> {
    let l2 = Outer::parse(frame).map_err(|_| Lack::Malformed)?;
    let ip = frame.get(usize::from(l2.l3)..).ok_or(Lack::Malformed)?;
    let (head, payload) = match l2.ethertype {
        ethertype::IP4 => udp(ip, L3L4::parse4(ip))?,
        ethertype::IP6 => udp(ip, L3L4::parse6(ip))?,
        _ => return Err(Lack::Unsigned),
    };
    if head.dst_port != gtpu::PORT {
        return signed(ip, head, payload, None);
    }
    let gtp = gtpu::Header::parse(payload).map_err(|_| Lack::Malformed)?;
    if gtp.message_type != message_type::G_PDU {
        return Err(Lack::Unsigned);
    }
    let end = gtpu::HEADER_LEN + usize::from(gtp.length);
    let user = payload.get(usize::from(gtp.payload_offset)..end).ok_or(Lack::Malformed)?;
    let to = if head.version == 4 { u128::from(head.dst) } else { head.dst6(ip) };
    let tunnel = Tunnel { teid: gtp.teid, qfi: gtp.qfi, to };
    let (head, payload) = udp(user, L3L4::parse(user))?;
    signed(user, head, payload, Some(tunnel))
}

/// The payload of a whole UDP datagram whose length fits its packet.
#[inline(always)]
fn udp(ip: &[u8], head: Result<L3L4, wire::Malformed>) -> Result<(L3L4, &[u8]), Lack> {
    let head = head.map_err(|_| Lack::Malformed)?;
    if head.protocol != protocol::UDP || head.fragment != wire::Fragment::Whole {
        return Err(Lack::Unsigned);
    }
    let l4 = usize::from(head.l4);
    let len = wire::fast::be16(ip, l4 + 4).ok_or(Lack::Malformed)?;
    if l4 + usize::from(len) > head.total_len as usize {
        return Err(Lack::Malformed);
    }
    let payload = ip.get(l4 + 8..l4 + usize::from(len)).ok_or(Lack::Malformed)?;
    Ok((head, payload))
}

#[inline(always)]
fn signed<'a>(ip: &'a [u8], head: L3L4, payload: &[u8], tunnel: Option<Tunnel>) -> Result<Found<'a>, Lack> {
    let mark = Signature::read(payload).ok_or(Lack::Unsigned)?;
    let packet = ip.get(..head.total_len as usize).ok_or(Lack::Malformed)?;
    Ok(Found { mark, tunnel, packet, head })
}

impl Found<'_> {
    /// Whether the user's UDP checksum is right, or rightly left out (IPv4 only). Reads the whole payload.
    pub fn checksum_holds(&self) -> bool {
        let l4 = usize::from(self.head.l4);
        let Some(udp) = self.packet.get(l4..) else { return false };
        let pseudo = if self.head.version == 4 {
            if wire::fast::be16(udp, 6) == Some(0) {
                return true;
            }
            checksum::pseudo4(self.head.src, self.head.dst, protocol::UDP, udp.len() as u16)
        } else {
            let (src, dst) = (self.head.src6(self.packet), self.head.dst6(self.packet));
            checksum::pseudo6(src, dst, protocol::UDP, udp.len() as u32)
        };
        checksum::is_valid(checksum::combine(pseudo, checksum::sum(udp)))
    }

    /// Source and destination of the user's packet; IPv4 addresses in the lower 32 bits.
    pub fn addresses(&self) -> (u128, u128) {
        if self.head.version == 4 {
            (self.head.src.into(), self.head.dst.into())
        } else {
            (self.head.src6(self.packet), self.head.dst6(self.packet))
        }
    }
}
