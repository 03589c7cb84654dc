use proptest::prelude::*;
use wire::ethernet::Tag;
use wire::{Malformed, Vlan};

use super::*;
use crate::neighbour::NeighbourMessage as M;

const US: Station = Station::untagged(Mac([2, 0, 0, 0, 0, 1]));
const TAGGED: Station = Station { mac: US.mac, tags: Tags::One(Tag::customer(Vlan(0x2064))) };
const THEM: Mac = Mac([2, 0, 0, 0, 0, 9]);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const OURS6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const THEIRS6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x12, 0x3456);

fn built(build: impl Fn(&mut [u8]) -> Option<usize>) -> Vec<u8> {
    let mut out = vec![0xee; MAX_FRAME];
    let len = build(&mut out).unwrap();
    assert!((0..len).all(|room| build(&mut vec![0; room]).is_none()));
    out.truncate(len);
    out
}

#[test]
fn an_arp_request_byte_by_byte() {
    let frame = built(|out| arp_request(out, &TAGGED, OURS, THEIRS, None));
    assert_eq!(frame[..18], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x81, 0, 0x20, 0x64, 8, 6]);
    assert_eq!(frame[18..32], [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1]);
    assert_eq!(frame[32..46], [10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 9]);
    assert_eq!(frame[46..], [0; 14]);
}

#[test]
fn arp_is_read_as_it_was_written() {
    let request = M::ArpRequest { sender: US.mac, sender_ip: OURS, target: THEIRS };
    for to in [None, Some(THEM)] {
        let frame = built(|out| arp_request(out, &US, OURS, THEIRS, to));
        assert_eq!(M::parse(&frame), Ok(request));
        assert_eq!(frame[..6], to.unwrap_or(Mac::BROADCAST).0);
    }
    let frame = built(|out| arp_reply(out, &TAGGED, OURS, THEM, THEIRS));
    assert_eq!(M::parse(&frame), Ok(M::ArpReply { sender: US.mac, sender_ip: OURS, target: THEIRS }));
    assert_eq!((&frame[..6], &frame[36..42]), (&THEM.0[..], &THEM.0[..]));
    let frame = built(|out| arp_announcement(out, &US, OURS));
    assert_eq!(M::parse(&frame), Ok(M::ArpRequest { sender: US.mac, sender_ip: OURS, target: OURS }));
}

#[test]
fn bad_arp_is_refused() {
    let good = built(|out| arp_reply(out, &US, OURS, THEM, THEIRS));
    for (at, value) in [(14, 1), (15, 6), (16, 9), (18, 7), (19, 5), (20, 1), (21, 3), (22, 3), (28, 224), (38, 255)] {
        let mut bad = good.clone();
        bad[at] = value;
        if at == 38 {
            bad[38..42].fill(255);
        }
        assert_eq!(M::parse(&bad), Err(Malformed::BadType), "byte {at}");
    }
    let mut nobody = good.clone();
    nobody[28..32].fill(0);
    assert_eq!(M::parse(&nobody), Err(Malformed::BadType));
    nobody[21] = 1;
    assert!(M::parse(&nobody).is_ok(), "a probe");
    assert_eq!(M::parse(&good[..41]), Err(Malformed::Short));
}

#[test]
fn a_solicitation_byte_by_byte() {
    let frame = built(|out| neighbour_solicitation(out, &US, OURS6, THEIRS6, None));
    assert_eq!(frame[..14], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56, 2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
    assert_eq!(frame[14..22], [0x60, 0, 0, 0, 0, 32, 58, 255]);
    assert_eq!(frame[38..54], "ff02::1:ff12:3456".parse::<Ipv6Addr>().unwrap().octets());
    assert_eq!(frame[54..56], [135, 0]);
    assert_eq!(frame[62..78], THEIRS6.octets());
    assert_eq!(frame[78..], [1, 1, 2, 0, 0, 0, 0, 1]);
}

#[test]
fn discovery_is_read_as_it_was_written() {
    let frame = built(|out| neighbour_solicitation(out, &TAGGED, OURS6, THEIRS6, None));
    let asked = M::NeighbourSolicitation { source: OURS6, link: Some(US.mac), target: THEIRS6 };
    assert_eq!(M::parse(&frame), Ok(asked));
    let frame = built(|out| neighbour_solicitation(out, &US, OURS6, THEIRS6, Some(THEM)));
    assert_eq!(M::parse(&frame), Ok(asked));
    assert_eq!((&frame[..6], &frame[38..54]), (&THEM.0[..], &THEIRS6.octets()[..]));
    let frame = built(|out| neighbour_solicitation(out, &US, Ipv6Addr::UNSPECIFIED, OURS6, None));
    let probed = M::NeighbourSolicitation { source: Ipv6Addr::UNSPECIFIED, link: None, target: OURS6 };
    assert_eq!(M::parse(&frame), Ok(probed));

    let said = |solicited, router| M::NeighbourAdvertisement {
        target: OURS6,
        link: Some(US.mac),
        router,
        solicited,
        overrides: true,
    };
    let frame = built(|out| neighbour_advertisement(out, &TAGGED, OURS6, Some((THEM, THEIRS6)), true));
    assert_eq!(M::parse(&frame), Ok(said(true, true)));
    for to in [None, Some((THEM, Ipv6Addr::UNSPECIFIED))] {
        let frame = built(|out| neighbour_advertisement(out, &US, OURS6, to, false));
        assert_eq!(M::parse(&frame), Ok(said(false, false)));
        assert_eq!((&frame[..6], &frame[38..54]), (&[0x33, 0x33, 0, 0, 0, 1][..], &ALL_NODES.octets()[..]));
    }

    for (ours, link) in [(link_local(US.mac), Some(US.mac)), (Ipv6Addr::UNSPECIFIED, None)] {
        let frame = built(|out| router_solicitation(out, &US, ours));
        assert_eq!(M::parse(&frame), Ok(M::RouterSolicitation { source: ours, link }));
    }
    assert_eq!(link_local(Mac([0, 0x11, 0x22, 0x33, 0x44, 0x55])).to_string(), "fe80::211:22ff:fe33:4455");
}

/// The IPv6 packet of a frame with something changed and its checksum right again.
fn forged(frame: &[u8], change: impl Fn(&mut Vec<u8>)) -> Result<M, Malformed> {
    let mut ip = frame[14..].to_vec();
    change(&mut ip);
    let payload = ip.len() - 40;
    ip[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
    ip[42..44].fill(0);
    let h = ip6::Repr::parse(&ip).unwrap();
    let sum = checksum::combine(h.pseudo(58, payload as u32), checksum::sum(&ip[40..]));
    fast::put16(&mut ip, 42, checksum::finish(sum)).unwrap();
    M::parse_nd(&ip)
}

#[test]
fn bad_discovery_is_refused() {
    let asks = built(|out| neighbour_solicitation(out, &US, OURS6, THEIRS6, None));
    let tells = built(|out| neighbour_advertisement(out, &US, OURS6, Some((THEM, THEIRS6)), true));
    let probe = built(|out| neighbour_solicitation(out, &US, Ipv6Addr::UNSPECIFIED, OURS6, None));
    assert!(forged(&asks, |_| ()).is_ok());
    assert_eq!(forged(&asks, |ip| ip[7] = 254), Err(Malformed::BadHopLimit));
    assert_eq!(forged(&asks, |ip| ip[41] = 1), Err(Malformed::BadType), "a code");
    assert_eq!(forged(&asks, |ip| ip[8] = 0xff), Err(Malformed::BadType), "from many");
    assert_eq!(forged(&asks, |ip| ip[48] = 0xff), Err(Malformed::BadType), "for many");
    assert_eq!(forged(&asks, |ip| ip[65] = 0), Err(Malformed::BadOption), "an option of no length");
    assert_eq!(forged(&asks, |ip| ip[65] = 2), Err(Malformed::BadOption), "an option too long");
    assert_eq!(forged(&asks, |ip| ip[66] = 3), Err(Malformed::BadOption), "a group's link address");
    assert_eq!(forged(&asks, |ip| ip.truncate(63)), Err(Malformed::Short));
    assert_eq!(forged(&asks, |ip| ip.truncate(65)), Err(Malformed::BadOption));
    assert_eq!(forged(&asks, |ip| ip[40] = 128), Err(Malformed::BadType), "a ping");
    assert_eq!(forged(&asks, |ip| ip[8..24].fill(0)), Err(Malformed::BadOption), "a probe that says where from");
    assert_eq!(forged(&probe, |ip| ip[39] ^= 1), Err(Malformed::BadType), "a probe to another group");
    assert_eq!(forged(&tells, |ip| ip[24] = 0xff), Err(Malformed::BadType), "an answer to many");
    // An option nobody knows is passed over.
    assert_eq!(forged(&asks, |ip| ip.extend([14, 1, 0, 0, 0, 0, 0, 0])), M::parse(&asks));
    let mut damaged = asks.clone();
    damaged[70] ^= 1;
    assert_eq!(M::parse(&damaged), Err(Malformed::BadChecksum));
}

#[test]
fn a_router_advertisement() {
    let mut frame = built(|out| router_solicitation(out, &US, link_local(US.mac)));
    frame.truncate(54);
    let mut message = vec![134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    message.extend([1, 1, 2, 0, 0, 0, 0, 1, 5, 1, 0, 0, 0, 0, 5, 0xdc]);
    message.extend([3, 4, 64, 0xc0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0]);
    message.extend(OURS6.octets());
    frame.extend(message);
    let said = M::RouterAdvertisement {
        source: link_local(US.mac),
        link: Some(US.mac),
        lifetime: 0x708,
        mtu: Some(1500),
        prefix: Some((OURS6, 64)),
    };
    assert_eq!(forged(&frame, |_| ()), Ok(said));
    assert_eq!(forged(&frame, |ip| ip[8] = 0x20), Err(Malformed::BadType), "not link-local");
    assert_eq!(forged(&frame, |ip| ip[74] = 129), Err(Malformed::BadOption), "a prefix of 129 bits");
    assert_eq!(forged(&frame, |ip| ip.truncate(55)), Err(Malformed::Short));
}

proptest! {
    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..120), at in 0usize..120, value: u8) {
        let _ = (M::parse(&bytes), M::parse_arp(&bytes), M::parse_nd(&bytes));
        let mut frame = built(|out| neighbour_solicitation(out, &US, OURS6, THEIRS6, None));
        let at = at % frame.len();
        frame[at] = value;
        let _ = M::parse(&frame);
        let _ = forged(&built(|out| neighbour_solicitation(out, &US, OURS6, THEIRS6, None)), |ip| {
            let at = 44 + at % (ip.len() - 44);
            ip[at] = value;
        });
    }
}
