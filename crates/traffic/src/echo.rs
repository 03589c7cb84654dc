//! The answer to a GTP-U echo request (3GPP TS 29.281, 7.2.2): without it a gateway that supervises its paths gives
//! the gNB up.

use std::net::IpAddr;

use wire::gtpu::{self, Message};
use wire::{L3L4, checksum, ethernet, fast, ip4, ip6, protocol, udp};

/// Turns the echo request in the first `len` bytes of `space`, whose IP header begins at `l3`, into its response if it
/// is for an address that `has` knows; returns the response's length.
pub(crate) fn answer(space: &mut [u8], len: usize, l3: usize, has: impl Fn(IpAddr) -> bool) -> Option<usize> {
    let ip = space.get(l3..len)?;
    let head = L3L4::parse(ip).ok()?;
    if head.protocol != protocol::UDP || head.dst_port != gtpu::PORT {
        return None;
    }
    let Message::EchoRequest { seq } = Message::parse(ip.get(usize::from(head.l4) + udp::HEADER_LEN..)?).ok()? else {
        return None;
    };
    let response = Message::EchoResponse { seq, recovery: 0 };
    let datagram =
        udp::Repr { src_port: gtpu::PORT, dst_port: head.src_port, payload_len: response.message_len() as u16 };
    let udp_len = udp::HEADER_LEN as u16 + datagram.payload_len;
    let (pseudo, header) = if head.version == 4 {
        let (us, them) = (head.dst, head.src);
        has(IpAddr::V4(us.into())).then_some(())?;
        let answer = ip4::Repr::new(us.into(), them.into(), protocol::UDP, udp_len);
        let pseudo = checksum::pseudo4(us, them, protocol::UDP, udp_len);
        (pseudo, answer.emit(space.get_mut(l3..)?).ok()?)
    } else {
        let asked = ip6::Repr::parse(ip).ok()?;
        has(IpAddr::V6(asked.dst)).then_some(())?;
        let answer = ip6::Repr {
            src: asked.dst,
            dst: asked.src,
            next_header: protocol::UDP,
            payload_len: udp_len,
            hop_limit: 64,
            ..asked
        };
        (answer.pseudo(protocol::UDP, udp_len.into()), answer.emit(space.get_mut(l3..)?).ok()?)
    };
    let out = space.get_mut(l3 + header..)?;
    datagram.emit(out).ok()?;
    response.emit(out.get_mut(udp::HEADER_LEN..)?).ok()?;
    udp::Packet::new_checked(out.get_mut(..udp_len.into())?).ok()?.fill_checksum(pseudo);
    let (to, from) = (fast::array::<6>(space, ethernet::field::SRC)?, fast::array::<6>(space, ethernet::field::DST)?);
    fast::put(space, ethernet::field::DST, to)?;
    fast::put(space, ethernet::field::SRC, from)?;
    Some(l3 + header + usize::from(udp_len))
}
