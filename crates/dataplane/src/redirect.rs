//! Sends subscribers' HTTP requests elsewhere: answers TCP in the server's stead with `302 Found`, and keeps nothing
//! between packets.
//!
//! ```text
//! SYN ───────────► ◄─── SYN, ACK        our sequence number is made of the addresses and a secret (as RFC 4987, 3.6)
//! GET … ─────────► ◄─── 302 Found, FIN  to whoever acknowledges that number
//! FIN ───────────► ◄─── ACK
//! data ──────────► ◄─── RST             of a connection that was there before: it is made anew
//! ```

use wire::tcp::{self, Packet, Repr, flag};
use wire::{Fragment, L3L4, checksum, ip6, protocol};

/// The port that HTTP is served at (RFC 9110, 4.2.1).
pub const PORT: u16 = 80;

/// The longest address to be sent to, so that the answer is one segment anywhere.
const LONGEST: usize = 1000;
/// The most bytes of a segment we ask for.
const MSS: u16 = 1220;
const HOPS: u8 = 64;

/// The answer that sends a client to `url`; none if that is no address of a web page.
pub fn page(url: &str) -> Option<Box<[u8]>> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    if rest.is_empty() || url.len() > LONGEST || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let head = "HTTP/1.1 302 Found\r\nCache-Control: no-store\r\nContent-Length: 0\r\nConnection: close\r\nLocation: ";
    Some([head.as_bytes(), url.as_bytes(), b"\r\n\r\n"].concat().into())
}

/// Whether a subscriber's packet can be answered at all: a whole TCP segment to [`PORT`].
pub fn is_http(ip: &L3L4) -> bool {
    ip.protocol == protocol::TCP && ip.dst_port == PORT && ip.fragment == Fragment::Whole
}

/// Writes the answer to a packet for which [`is_http`] holds; its length. `secret` makes a number of the bytes that name a
/// connection. None: nothing is to be said.
pub fn answer(space: &mut [u8], packet: &[u8], page: &[u8], secret: impl FnOnce(&[u8]) -> u32) -> Option<usize> {
    let ip = L3L4::parse(packet).ok().filter(is_http)?;
    let l4 = usize::from(ip.l4);
    let segment = Packet::new_checked(packet.get(l4..ip.total_len as usize)?).ok()?;
    let addresses = packet.get(if ip.version == 4 { 12..20 } else { 8..40 })?;
    if !segment.is_checksum_right(pseudo(addresses, ip.total_len - u32::from(ip.l4))) {
        return None;
    }
    let mut name = [0; 34];
    name[..addresses.len()].copy_from_slice(addresses);
    name[32..].copy_from_slice(&segment.src_port().to_be_bytes());
    let ours = secret(&name);
    let (flags, data) = (segment.flags(), segment.payload());
    let fin = u32::from(flags & flag::FIN != 0);
    let behind = segment.seq().wrapping_add(data.len() as u32).wrapping_add(fin);
    let reply = |flags, seq, ack, mss| Repr {
        src_port: PORT,
        dst_port: segment.src_port(),
        seq,
        ack,
        flags,
        window: u16::MAX,
        mss,
    };
    let (head, page): (Repr, &[u8]) = if flags & flag::RST != 0 {
        return None;
    } else if flags & flag::SYN != 0 {
        let opens = flags & flag::ACK == 0;
        let head = reply(flag::SYN | flag::ACK, ours, segment.seq().wrapping_add(1), Some(MSS));
        (Some(head).filter(|_| opens)?, &[])
    } else if segment.ack() == ours.wrapping_add(1) && !data.is_empty() {
        // What follows a long request's first segment is part of what was answered.
        let all = flag::PSH | flag::ACK | flag::FIN;
        (Some(reply(all, segment.ack(), behind, None)).filter(|_| is_request(data))?, page)
    } else if !data.is_empty() && segment.ack().wrapping_sub(ours) as usize != page.len() + 2 {
        (reply(flag::RST, segment.ack(), 0, None), &[])
    } else if fin == 1 {
        (reply(flag::ACK, segment.ack(), behind, None), &[])
    } else {
        return None;
    };
    write(space, packet, ip.version, &head, page)
}

/// Methods a browser begins with (RFC 9110, 9).
fn is_request(data: &[u8]) -> bool {
    [&b"GET "[..], b"HEAD ", b"POST ", b"PUT ", b"OPTIONS ", b"DELETE ", b"PATCH "].iter().any(|m| data.starts_with(m))
}

/// The pseudo header's sum: the same in both directions.
fn pseudo(addresses: &[u8], len: u32) -> u16 {
    let rest = [(len >> 16) as u16, len as u16, u16::from(protocol::TCP)]; // two halves
    rest.into_iter().fold(checksum::sum(addresses), checksum::combine)
}

/// A packet back to where `to` came from.
fn write(space: &mut [u8], to: &[u8], version: u8, head: &Repr, data: &[u8]) -> Option<usize> {
    let l4 = if version == 4 { 20 } else { ip6::HEADER_LEN };
    let end = l4 + head.header_len();
    let total = end + data.len();
    let out = space.get_mut(..total)?;
    out[..l4].fill(0);
    if version == 4 {
        out[0] = 0x45;
        out[2..4].copy_from_slice(&(total as u16).to_be_bytes()); // some thousand bytes at most
        out[6] = 0x40;
        (out[8], out[9]) = (HOPS, protocol::TCP);
        out[12..16].copy_from_slice(to.get(16..20)?);
        out[16..20].copy_from_slice(to.get(12..16)?);
        let check = checksum::of(&out[..l4]);
        out[10..12].copy_from_slice(&check.to_be_bytes());
    } else {
        out[0] = 0x60;
        out[4..6].copy_from_slice(&((total - l4) as u16).to_be_bytes());
        (out[6], out[7]) = (protocol::TCP, HOPS);
        out[8..24].copy_from_slice(to.get(24..40)?);
        out[24..40].copy_from_slice(to.get(8..24)?);
    }
    head.emit(&mut out[l4..end]).ok()?;
    out[end..].copy_from_slice(data);
    let addresses = if version == 4 { 12..20 } else { 8..40 };
    let sum = pseudo(&out[addresses], (total - l4) as u32);
    tcp::Packet::new_checked(&mut out[l4..]).ok()?.fill_checksum(sum);
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: [u8; 4] = [10, 45, 0, 1];
    const SERVER: [u8; 4] = [198, 51, 100, 7];
    const SECRET: u32 = 0xffff_fff0;

    /// The client's segment, over IPv4 or IPv6.
    fn segment(version: u8, flags: u8, seq: u32, ack: u32, data: &[u8]) -> Vec<u8> {
        let mut around = vec![0; 40];
        if version == 4 {
            around[12..16].copy_from_slice(&SERVER);
            around[16..20].copy_from_slice(&CLIENT);
        } else {
            around[8..24].fill(7);
            around[24..40].fill(9);
        }
        let head = Repr { src_port: 40_000, dst_port: PORT, seq, ack, flags, window: 1000, mss: None };
        let mut space = vec![0; 2000];
        let len = write(&mut space, &around, version, &head, data).unwrap();
        space.truncate(len);
        space
    }

    /// Flags, sequence, acknowledgment and data of the answer, whose sums are right.
    fn answered(packet: &[u8], page: &[u8]) -> Option<(u8, u32, u32, Vec<u8>)> {
        let mut space = [0xee; 2000];
        let len = answer(&mut space, packet, page, |_| SECRET)?;
        let ip = L3L4::parse(&space[..len]).unwrap();
        assert_eq!((ip.src_port, ip.dst_port, ip.total_len as usize), (PORT, 40_000, len));
        let addresses = if ip.version == 4 { 12..20 } else { 8..40 };
        let tcp = Packet::new_checked(&space[usize::from(ip.l4)..len]).unwrap();
        assert!(tcp.is_checksum_right(pseudo(&space[addresses], (len - usize::from(ip.l4)) as u32)));
        Some((tcp.flags(), tcp.seq(), tcp.ack(), tcp.payload().to_vec()))
    }

    #[test]
    fn a_connection_from_syn_to_fin() {
        let page = page("https://top-up.example/?who=me").unwrap();
        assert!(page.ends_with(b"Location: https://top-up.example/?who=me\r\n\r\n"));
        for version in [4, 6] {
            let syn = answered(&segment(version, flag::SYN, 7, 0, b""), &page);
            assert_eq!(syn, Some((flag::SYN | flag::ACK, SECRET, 8, vec![])));
            let mine = SECRET.wrapping_add(1);
            assert_eq!(answered(&segment(version, flag::ACK, 8, mine, b""), &page), None);
            let get = segment(version, flag::PSH | flag::ACK, 8, mine, b"GET / HTTP/1.1\r\n\r\n");
            let told = (flag::PSH | flag::ACK | flag::FIN, mine, 26, page.to_vec());
            assert_eq!(answered(&get, &page), Some(told.clone()));
            assert_eq!(answered(&get, &page), Some(told), "sent again, answered again");
            assert_eq!(answered(&segment(version, flag::ACK, 26, mine, b"Cookie: x"), &page), None, "the rest of it");
            let end = mine.wrapping_add(page.len() as u32 + 1);
            let fin = answered(&segment(version, flag::FIN | flag::ACK, 26, end, b""), &page);
            assert_eq!(fin, Some((flag::ACK, end, 27, vec![])));
        }
    }

    #[test]
    fn others_connections_are_reset_and_nothing_answers_a_reset() {
        let page = page("http://a/").unwrap();
        let before = answered(&segment(4, flag::ACK | flag::PSH, 500, 900, b"GET / "), &page);
        assert_eq!(before, Some((flag::RST, 900, 0, vec![])));
        for flags in [flag::RST, flag::RST | flag::ACK, flag::SYN | flag::ACK, flag::ACK] {
            assert_eq!(answered(&segment(4, flags, 500, 900, b""), &page), None);
        }
        let mut broken = segment(4, flag::SYN, 7, 0, b"");
        broken[24] ^= 1;
        assert_eq!(answered(&broken, &page), None, "its sum is wrong");
        for len in 0..broken.len() {
            let _ = answer(&mut [0; 100], &broken[..len], &page, |_| 0);
        }
    }

    #[test]
    fn an_address_that_would_write_its_own_header_is_none() {
        let long = format!("http://a/{}", "a".repeat(LONGEST));
        for url in ["", "http://", "ftp://a/", "top-up.example", "http://a/ b", "http://a/\r\nSet-Cookie: x", &long] {
            assert_eq!(page(url), None, "{url:?}");
        }
    }
}
