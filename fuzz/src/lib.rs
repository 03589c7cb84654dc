//! What every fuzz target does with its bytes, on any compiler; `crates/wire/tests/replay.rs` includes this file.
//!
//! A function here may look at anything `wire` offers and asserts what the documentation promises.

use std::hint::black_box;
use wire::{
    L3L4, Malformed, Outer, arp, ccf, checksum, crc, docsis, ethernet, gtpu, icmp, icmp4, icmp6, ip4, ip6, l2tp, ndp,
    option, psp, tcp, udp, uepi,
};

/// The outside of a frame: the hot parser and the view agree, and layer 3 lies within.
pub fn wire_outer(bytes: &[u8]) {
    let hot = Outer::parse(bytes);
    let view = ethernet::Packet::new_checked(bytes);
    assert_eq!(hot.err(), view.err());
    let (Ok(outer), Ok(view)) = (hot, view) else { return };
    assert_eq!(view.payload(), &bytes[usize::from(outer.l3)..]);
    assert_eq!(usize::from(outer.l3), 14 + view.tags().len());
    let repr = ethernet::Repr::parse(bytes).expect("the view was good");
    let mut out = [0; 22];
    let len = repr.emit(&mut out).expect("22 bytes hold two tags");
    assert_eq!(&out[..len], &bytes[..len]);
}

/// An IP packet: offsets in order, and agreement with the views.
pub fn wire_l3l4(bytes: &[u8]) {
    let hot = L3L4::parse(bytes);
    let Ok(x) = hot else { return };
    assert!(u32::from(x.l4) <= x.total_len && x.total_len as usize <= bytes.len());
    black_box((x.dscp(), x.ecn()));
    if x.version == 4 {
        let p = ip4::Packet::new_checked(bytes).expect("the hot parser was content");
        assert!(p.is_checksum_right());
        assert_eq!((p.src().to_bits(), p.dst().to_bits()), (x.src, x.dst));
        assert_eq!((p.protocol(), p.ttl(), p.header_len()), (x.protocol, x.ttl, usize::from(x.l4)));
        let mut copy = bytes.to_vec();
        if ip4::decrement_ttl(&mut copy).is_some() {
            assert_eq!(L3L4::parse(&copy), Ok(L3L4 { ttl: x.ttl - 1, ..x }));
        }
    } else {
        let p = ip6::Packet::new_checked(bytes).expect("the hot parser was content");
        let chain = p.chain().expect("the hot parser was content");
        assert_eq!((p.src().to_bits(), p.dst().to_bits()), (x.src6(bytes), x.dst6(bytes)));
        assert_eq!((chain.protocol, chain.l4, p.hop_limit()), (x.protocol, x.l4, x.ttl));
    }
}

/// A GTP-U message: the hot parser, the view, the extension walk and the messages agree.
pub fn wire_gtpu(bytes: &[u8]) {
    let hot = gtpu::Header::parse(bytes);
    let view = gtpu::Packet::new_checked(bytes);
    assert_eq!(hot.err(), view.err());
    let (Ok(h), Ok(view)) = (hot, view) else {
        assert_eq!(gtpu::Message::parse(bytes).err(), hot.err());
        return;
    };
    assert!(usize::from(h.payload_offset) <= h.end() && h.end() <= bytes.len());
    assert_eq!(h.payload(bytes), view.payload());
    assert_eq!((h.message_type, h.teid, h.has_seq.then_some(h.seq)), (view.message_type(), view.teid(), view.seq()));
    let walked: usize = view.extensions().map(|e| e.expect("the hot parser was content").content.len() + 2).sum();
    let optional = if view.flags() & gtpu::flag::OPTIONAL != 0 { gtpu::OPTIONAL_LEN } else { 0 };
    assert_eq!(usize::from(h.payload_offset), gtpu::HEADER_LEN + optional + walked);
    black_box((view.n_pdu(), view.container(), h.rqi, h.unsupported));

    let repr = gtpu::Repr::parse(bytes).expect("the view was good");
    let mut out = vec![0; repr.header_len() + usize::from(repr.payload_len)];
    if repr.emit(&mut out).is_ok() {
        assert_eq!(gtpu::Repr::parse(&out), Ok(repr));
    }
    if let Ok(message) = gtpu::Message::parse(bytes) {
        let mut out = vec![0; message.message_len()];
        if let Ok(len) = message.emit(&mut out) {
            let again = gtpu::Message::parse(&out[..len]);
            assert!(
                again == Ok(message) || matches!(message, gtpu::Message::Unknown(_)),
                "{message:?} became {again:?}"
            );
        }
    }
}

/// Every view and every representation, on the same bytes.
pub fn wire_views(bytes: &[u8]) {
    assert_eq!(checksum::sum(bytes), {
        let (a, b) = bytes.split_at(bytes.len() / 2);
        checksum::combine_after(checksum::sum(a), a.len(), checksum::sum(b))
    });
    if let Ok(repr) = arp::Repr::parse(bytes) {
        emitted(arp::LEN, |out| repr.emit(out), |out| assert_eq!(arp::Repr::parse(out), Ok(repr)));
    }
    if let Ok(p) = ip4::Packet::new_checked(bytes) {
        black_box((p.payload().len(), p.options().count(), p.is_checksum_right(), p.fragment_offset()));
        assert!(p.payload().len() + p.header_len() == usize::from(p.total_len()));
    }
    if let Ok(p) = ip6::Packet::new_checked(bytes) {
        black_box((p.chain().ok(), p.flow_label(), p.traffic_class()));
        let repr = ip6::Repr::parse(bytes).expect("the view was good");
        let mut out = bytes.to_vec();
        repr.emit(&mut out).expect("the view was good");
        assert_eq!(out, bytes);
    }
    if let Ok(p) = udp::Packet::new_checked(bytes) {
        assert_eq!(p.payload().len() + udp::HEADER_LEN, usize::from(p.length()));
        black_box((p.is_checksum_right(0), udp::Repr::parse(bytes).ok()));
    }
    tcp_views(bytes);
    icmp_views(bytes);
    assert!(option::Options::new(bytes).count() <= bytes.len());
}

fn tcp_views(bytes: &[u8]) {
    let view = tcp::Packet::new_checked(bytes);
    assert!(view.is_ok() || tcp::mss_at(bytes).is_none());
    let Ok(p) = view else { return };
    black_box((p.options().count(), p.payload().len(), p.is_checksum_right(0), tcp::Repr::parse(bytes).ok()));
    let mut sealed = bytes.to_vec();
    tcp::Packet::new_checked(&mut sealed[..]).expect("still good").fill_checksum(6);
    tcp::clamp_mss(&mut sealed, 1200);
    assert!(tcp::Packet::new_checked(&sealed).expect("still good").is_checksum_right(6));
}

fn icmp_views(bytes: &[u8]) {
    // Fuzzers rarely guess checksums: seal the bytes so that what lies behind is reached.
    let ip = ip6::Repr {
        src: 1.into(),
        dst: 2.into(),
        next_header: 58,
        payload_len: 0,
        hop_limit: 255,
        traffic_class: 0,
        flow_label: 0,
    };
    let mut sealed = bytes.to_vec();
    if let Ok(mut p) = icmp4::Packet::new_checked(&mut sealed[..]) {
        p.fill_checksum(icmp::NO_PSEUDO_HEADER);
        black_box((p.ident(), p.seq(), p.payload().len()));
        if let Ok(repr) = icmp4::Repr::parse(&sealed) {
            emitted(repr.message_len(), |out| repr.emit(out), |out| assert!(icmp4::Repr::parse(out).is_ok()));
        }
    }
    if let Ok(mut p) = icmp6::Packet::new_checked(&mut sealed[..]) {
        p.fill_checksum(ip.pseudo(58, bytes.len() as u32));
        black_box((p.ident(), p.seq(), p.rest(), p.payload().len()));
        let parsed = icmp6::Repr::parse(&ip, &sealed);
        assert_ne!(parsed.err(), Some(Malformed::BadChecksum));
        if let Ok(repr) = parsed {
            let same = |out: &[u8]| assert_eq!(icmp6::Repr::parse(&ip, out).is_ok(), parsed.is_ok());
            emitted(repr.message_len(), |out| repr.emit(&ip, out), same);
        }
    }
    if let Ok(p) = ndp::Packet::new_checked(bytes) {
        assert!(p.options().all(|o| o.is_ok()));
        if let Ok(repr) = ndp::Repr::parse(bytes) {
            emitted(repr.message_len(), |out| repr.emit(out), |out| assert_eq!(ndp::Repr::parse(out), Ok(repr)));
        }
    }
}

/// Emit into exactly `len` bytes, then look at them; one byte less must not do.
fn emitted(len: usize, mut emit: impl FnMut(&mut [u8]) -> Result<usize, wire::NoRoom>, look: impl FnOnce(&[u8])) {
    let mut out = vec![0xee; len];
    assert_eq!(emit(&mut out), Ok(len));
    look(&out);
    assert!(emit(&mut out[..len - 1]).is_err());
}

/// A DOCSIS frame: header, elements and what it carries lie within each other and are written back as they were.
pub fn wire_docsis(bytes: &[u8]) {
    // Fuzzers do not guess check sequences: behind the bytes as they are, a header that is sealed.
    let mut sealed = bytes.to_vec();
    if sealed.len() >= 6 {
        let parm = if sealed[0] & 0xfe == 0xc8 { 1 } else { usize::from(sealed[0] & 1) * usize::from(sealed[1]) };
        let covered = 4 + parm.min(sealed.len() - 6);
        let check = crc::hcs(&sealed[..covered]).to_le_bytes();
        sealed[covered..covered + 2].copy_from_slice(&check);
    }
    for bytes in [bytes, &sealed] {
        let Ok(header) = docsis::Header::parse(bytes) else { continue };
        assert!(usize::from(header.header_len) <= bytes.len() && u32::from(header.header_len) <= header.frame_len);
        assert!(header.payload(bytes).len() <= header.frame_len as usize - usize::from(header.header_len));
        let elements: Vec<_> = header.elements(bytes).map_while(Result::ok).collect();
        let whole: usize = elements.iter().map(docsis::Element::len).sum();
        assert!(whole <= usize::from(header.extended_len));
        for element in elements {
            emitted(
                element.len(),
                |out| element.emit(out),
                |out| {
                    assert_eq!(docsis::Elements::of(out).next(), Some(Ok(element)));
                },
            );
        }
    }
    if let Ok(message) = docsis::management::Message::new_checked(bytes) {
        assert!(message.payload().len() + docsis::management::HEADER_LEN <= bytes.len());
        black_box((message.dst(), message.src(), message.version(), message.message_type()));
    }
    assert_eq!(crc::is_frame_right(bytes), bytes.len() >= 4 && crc::ethernet(bytes) == crc::RESIDUE);
}

/// An L2TPv3 message of a Remote-PHY device: PSP packets, their segments, what UEPI puts in them.
pub fn wire_psp(bytes: &[u8]) {
    for carrier in [l2tp::Carrier::Ip, l2tp::Carrier::Udp] {
        if let Ok(l2tp::Message::Data(header)) = l2tp::Message::parse(bytes, carrier) {
            assert_ne!(header.session, 0);
            let cookie = l2tp::Cookie::Short(7);
            assert!(header.payload(bytes, cookie).is_none_or(|rest| rest.len() + 8 <= bytes.len()));
        }
    }
    for word in [psp::Word::Absent, psp::Word::Present] {
        let Ok(packet) = psp::Packet::new_checked(bytes, word) else { continue };
        let segments: Vec<_> = packet.segments().collect();
        let sum: usize = segments.iter().map(|segment| segment.bytes.len()).sum();
        assert!(segments.len() == packet.count() && packet.segments().offset() + sum <= bytes.len());
        assert_eq!(packet.word().is_some(), word == psp::Word::Present);
        let entry = |s: &psp::Segment<'_>| psp::Entry::of(s.begin, s.end, s.bytes.len());
        let entries: Vec<_> = segments.iter().map(entry).collect();
        let repr = psp::Repr { flow: packet.flow(), sequence: packet.sequence().unwrap_or(0), word: packet.word() };
        let head = repr.header_len(entries.len());
        emitted(
            head,
            |out| repr.emit(&entries, out),
            |out| {
                assert_eq!(out[psp::HEADER_LEN..], bytes[psp::HEADER_LEN..head]);
            },
        );
    }
    if let Ok(header) = uepi::Header::parse(bytes) {
        emitted(8, |out| header.emit(out), |out| assert_eq!(uepi::Header::parse(out), Ok(header)));
    }
    if let Ok(trailer) = uepi::Trailer::parse(bytes) {
        emitted(16, |out| trailer.emit(out), |out| assert_eq!(out, &bytes[..16]));
    }
    if let Ok(request) = uepi::Request::parse(bytes) {
        emitted(16, |out| request.emit(out), |out| assert_eq!(uepi::Request::parse(out), Ok(request)));
    }
    let mut sealed = bytes.to_vec();
    if sealed.len() >= 8 {
        let check = crc::hcs(&sealed[..6]).to_le_bytes();
        sealed[6..8].copy_from_slice(&check);
    }
    for bytes in [bytes, &sealed] {
        let Ok(segment) = ccf::Repr::parse(bytes) else { continue };
        assert!(usize::from(segment.pointer.unwrap_or(0)) + ccf::HEADER_LEN <= bytes.len());
        assert!(segment.sequence < ccf::SEQUENCES);
        emitted(8, |out| segment.emit(out), |out| assert_eq!(out[2..6], bytes[2..6]));
    }
}
