use proptest::prelude::*;
use testkit::packet::{ip4, ip6};
use wire::{L3L4, ip4::Packet, protocol};

use super::datagrams::{Config, Datagrams, Refused, Unfit, Whose};
use super::*;

use crate::drops;

const SECOND: u64 = 1_000_000_000;
const A: [u8; 4] = [10, 60, 0, 1];
const B: [u8; 4] = [198, 51, 100, 7];

fn config() -> Config {
    Config { bytes: 1 << 20, packets: 64, packets_per_owner: 20, largest: 9000, ..Config::default() }
}

fn push(datagrams: &mut Datagrams, packet: &[u8], now: u64) -> Result<(), Refused> {
    let ip = L3L4::parse(packet).expect("a packet");
    datagrams.push(packet, &ip, Whose { domain: 1, owner: 5, tag: 77 }, now)
}

fn pop(datagrams: &mut Datagrams, now: u64) -> Option<Vec<u8>> {
    let mut out = vec![0; LONGEST];
    let whole = datagrams.pop(now, &mut out)?;
    assert_eq!(whole.tag, 77);
    out.truncate(whole.len);
    Some(out)
}

/// A fragment of bytes `from..to` of a payload of 0, 1, 2, ….
fn piece(ident: u16, from: u16, to: u16, more: bool) -> Vec<u8> {
    let bytes: Vec<u8> = (from..to).map(|n| n as u8).collect();
    let mut packet = ip4(A, B).ident(ident).fragment(from, more).payload(bytes).poke(9, [253]).build();
    Packet::new_checked(&mut packet[..]).expect("IPv4").fill_checksum();
    packet
}

/// An IPv6 packet cut into fragments: `unfragmentable` bytes of header stay with each, `next` is what follows them.
fn cut6(packet: &[u8], unfragmentable: usize, field: usize, ident: u32, size: usize) -> Vec<Vec<u8>> {
    let (head, data) = packet.split_at(unfragmentable);
    let count = data.len().div_ceil(size);
    let cut = |(at, part): (usize, &[u8])| {
        let mut bytes = head.to_vec();
        let next = std::mem::replace(&mut bytes[field], protocol::FRAGMENT);
        let mut fragment = [0; 8];
        let more = at + 1 < count;
        wire::ip6::emit_fragment(&mut fragment, next, (at * size) as u16, more, ident).expect("room");
        bytes.extend(fragment);
        bytes.extend(part);
        let payload = (bytes.len() - 40) as u16;
        bytes[4..6].copy_from_slice(&payload.to_be_bytes());
        bytes
    };
    data.chunks(size).enumerate().map(cut).collect()
}

fn cut4(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    let each = |piece: crate::fragment::Piece<'_>| {
        let mut out = vec![0; piece.len()];
        piece.write(&mut out).expect("room");
        pieces.push(out);
    };
    crate::fragment::fragment(packet, mtu, each).expect("it can be cut");
    pieces
}

#[test]
fn teardrop_is_condemned_whole() {
    let mut datagrams = Datagrams::new(config(), 1);
    push(&mut datagrams, &piece(1, 0, 40, true), 0).expect("taken");
    let refused = push(&mut datagrams, &piece(1, 24, 60, false), 0).expect_err("it overlaps");
    assert_eq!((refused.why, refused.packets), (drops::REASSEMBLY_OVERLAP, 1));
    // What is still to come of it (RFC 5722).
    let refused = push(&mut datagrams, &piece(1, 40, 60, false), 0).expect_err("condemned");
    assert_eq!(refused, drops::REASSEMBLY_OVERLAP.into());
    assert_eq!((datagrams.fragments(), pop(&mut datagrams, 0)), (0, None));
    datagrams.expire(SECOND);
    assert!(datagrams.is_pristine());
}

#[test]
fn another_process_puts_together_what_this_one_began() {
    let mut here = Datagrams::new(config(), 1);
    for ident in 1..=4 {
        push(&mut here, &piece(ident, 24, 40, false), 7).expect("taken");
    }
    push(&mut here, &piece(2, 8, 24, true), 8).expect("taken");
    push(&mut here, &piece(3, 0, 24, true), 8).expect("complete");
    push(&mut here, &piece(4, 0, 32, true), 8).expect_err("it overlaps");
    let mut octets = Vec::new();
    here.export(&mut octets);
    let mut there = Datagrams::new(config(), 2);
    assert_eq!(there.import(&octets), Ok(()));
    assert_eq!((there.fragments(), there.next_deadline()), (here.fragments(), here.next_deadline()));
    // The complete one goes on, copies of it and of the condemned one do not begin anew.
    assert_eq!(pop(&mut there, 9), pop(&mut here, 9));
    assert_eq!(push(&mut there, &piece(3, 0, 24, true), 9), Err(drops::REASSEMBLY_DUPLICATE.into()));
    assert_eq!(push(&mut there, &piece(4, 0, 24, true), 9), Err(drops::REASSEMBLY_OVERLAP.into()));
    push(&mut there, &piece(1, 0, 24, true), 9).expect("the rest of it");
    push(&mut there, &piece(2, 0, 8, true), 9).expect("the rest of it");
    for _ in 0..2 {
        let whole = pop(&mut there, 9).expect("a whole packet");
        assert_eq!(whole[20..], (0..40).collect::<Vec<u8>>());
    }
    there.expire(10 * SECOND);
    assert!(there.is_pristine());
    // Of what is not completed the time is the same.
    here.export(&mut Vec::new());
    assert_eq!(here.expire(10 * SECOND + 7).packets, 3);
}

#[test]
fn fragments_that_find_no_room_are_not_taken_in() {
    let mut here = Datagrams::new(config(), 1);
    (1..=9).for_each(|ident| push(&mut here, &piece(ident, 24, 40, false), 7).expect("taken"));
    let mut octets = Vec::new();
    here.export(&mut octets);
    for less in [
        Config { packets: 8, ..config() },
        Config { bytes: 8 * 256, ..config() },
        Config { packets_per_owner: 8, ..config() },
    ] {
        assert_eq!(Datagrams::new(less, 2).import(&octets), Err(Unfit::Full));
    }
    let cut = (1..octets.len()).filter(|len| Datagrams::new(config(), 2).import(&octets[..*len]).is_ok());
    assert_eq!(cut.count(), 8, "whole records only");
    assert_eq!(Datagrams::new(config(), 2).import(&[&octets[..], &octets].concat()), Err(Unfit::Garbled));
}

#[test]
fn contradictions_are_overlaps() {
    for other in [piece(1, 40, 56, true), piece(1, 32, 48, false), piece(1, 16, 30, false)] {
        let mut datagrams = Datagrams::new(config(), 1);
        push(&mut datagrams, &piece(1, 24, 40, false), 0).expect("taken");
        assert_eq!(push(&mut datagrams, &other, 0).map_err(|refused| refused.why), Err(drops::REASSEMBLY_OVERLAP));
    }
    let mut changed = piece(1, 24, 40, false);
    *changed.last_mut().expect("data") ^= 1;
    let mut datagrams = Datagrams::new(config(), 1);
    push(&mut datagrams, &piece(1, 24, 40, false), 0).expect("taken");
    let copy = push(&mut datagrams, &piece(1, 24, 40, false), 0).expect_err("a copy");
    assert_eq!(copy, drops::REASSEMBLY_DUPLICATE.into(), "its packet goes on");
    assert_eq!(push(&mut datagrams, &changed, 0).map_err(|refused| refused.why), Err(drops::REASSEMBLY_OVERLAP));
}

#[test]
fn the_ping_of_death_and_what_fits_no_frame() {
    let mut datagrams = Datagrams::new(config(), 1);
    let refused = push(&mut datagrams, &piece(1, 8984, 9000, true), 0).expect_err("too long with its header");
    assert_eq!(refused.why, drops::REASSEMBLY_TOO_BIG);
    let mut datagrams = Datagrams::new(Config { largest: usize::MAX, ..config() }, 1);
    push(&mut datagrams, &piece(1, 65_000, 65_512, true), 0).expect("taken");
    let refused = push(&mut datagrams, &piece(1, 65_512, 65_528, false), 0).expect_err("beyond 65,535 with its header");
    assert_eq!((refused.why, refused.packets), (drops::REASSEMBLY_TOO_BIG, 1));
    // The parser itself refuses data beyond 65,535.
    let mut packet = piece(1, 65_528, 65_535, false);
    packet.extend([0; 9]);
    packet[3] += 9;
    Packet::new_checked(&mut packet[..]).expect("IPv4").fill_checksum();
    assert!(L3L4::parse(&packet).is_err());
}

#[test]
fn bounds_hold_for_packets_owners_bytes_and_fragments() {
    let mut datagrams = Datagrams::new(Config { packets_per_owner: 3, ..config() }, 1);
    (0..3).for_each(|ident| push(&mut datagrams, &piece(ident, 0, 8, true), 0).expect("taken"));
    assert_eq!(push(&mut datagrams, &piece(3, 0, 8, true), 0), Err(drops::REASSEMBLY_FULL.into()));
    push(&mut datagrams, &piece(2, 8, 16, false), 0).expect("taken");
    push(&mut datagrams, &piece(2, 8, 16, false), 0).expect_err("complete");
    assert!(pop(&mut datagrams, 0).is_some());
    push(&mut datagrams, &piece(3, 0, 8, true), 0).expect("one is done");

    let mut datagrams = Datagrams::new(Config { packets: 2, ..config() }, 1);
    (0..2).for_each(|ident| push(&mut datagrams, &piece(ident, 0, 8, true), 0).expect("taken"));
    assert_eq!(push(&mut datagrams, &piece(2, 0, 8, true), 0), Err(drops::REASSEMBLY_FULL.into()));
    push(&mut datagrams, &piece(0, 8, 16, false), 0).expect("taken");
    assert!(pop(&mut datagrams, 0).is_some());
    push(&mut datagrams, &piece(2, 0, 8, true), 0).expect("one that is only remembered gives way");

    let mut datagrams = Datagrams::new(Config { bytes: 512, ..config() }, 1);
    (0..2).for_each(|n| push(&mut datagrams, &piece(1, n * 8, n * 8 + 8, true), 0).expect("taken"));
    assert_eq!(push(&mut datagrams, &piece(1, 16, 24, false), 0), Err(drops::REASSEMBLY_FULL.into()));
    assert_eq!(push(&mut datagrams, &piece(2, 16, 24, false), 0), Err(drops::REASSEMBLY_FULL.into()));
    assert_eq!(datagrams.clear().packets, 2);
    assert!(datagrams.is_pristine());

    let mut datagrams = Datagrams::new(Config { fragments_per_packet: 4, ..config() }, 1);
    (0..4).for_each(|n| push(&mut datagrams, &piece(1, n * 8, n * 8 + 8, true), 0).expect("taken"));
    let refused = push(&mut datagrams, &piece(1, 32, 40, true), 0).expect_err("one too many");
    assert_eq!((refused.why, refused.packets), (drops::REASSEMBLY_FULL, 4));
}

#[test]
fn late_ones_are_given_up_and_counted() {
    let mut datagrams = Datagrams::new(config(), 1);
    push(&mut datagrams, &piece(1, 0, 8, true), SECOND).expect("taken");
    push(&mut datagrams, &piece(1, 8, 16, true), 2 * SECOND).expect("taken");
    assert_eq!(datagrams.expire(11 * SECOND - 1).packets, 0);
    assert_eq!(datagrams.expire(11 * SECOND).packets, 2, "ten seconds from the first");
    assert!(datagrams.is_pristine());
}

#[test]
fn congestion_is_told_and_contradictions_are_not() {
    for (ecn, expected) in [([2, 3], Some(3)), ([1, 2], Some(1)), ([0, 3], None), ([0, 0], Some(0))] {
        let mut datagrams = Datagrams::new(config(), 1);
        let marked = |mut packet: Vec<u8>, ecn: u8| {
            packet[1] |= ecn;
            Packet::new_checked(&mut packet[..]).expect("IPv4").fill_checksum();
            packet
        };
        push(&mut datagrams, &marked(piece(1, 0, 8, true), ecn[0]), 0).expect("taken");
        let last = push(&mut datagrams, &marked(piece(1, 8, 9, false), ecn[1]), 0);
        assert_eq!(pop(&mut datagrams, 0).map(|packet| packet[1] & 3), expected);
        assert_eq!(
            last.err().map(|refused| (refused.why, refused.packets)),
            match expected {
                None => Some((drops::REASSEMBLY_OVERLAP, 1)),
                Some(_) => None,
            }
        );
    }
}

#[test]
fn fragments_without_data_or_of_odd_length_are_malformed() {
    let mut datagrams = Datagrams::new(config(), 1);
    for packet in [piece(1, 0, 7, true), piece(1, 8, 8, true), piece(1, 8, 8, false)] {
        assert_eq!(push(&mut datagrams, &packet, 0), Err(drops::MALFORMED.into()));
    }
    assert!(datagrams.is_pristine());
}

/// A packet, and its fragments.
fn packet() -> impl Strategy<Value = (Vec<u8>, Vec<Vec<u8>>)> {
    (0usize..4, 30usize..3000, 1usize..40, any::<u16>()).prop_map(|(kind, len, size, ident)| {
        let size = (size * 16).max(len / 40).next_multiple_of(8);
        match kind {
            0 | 1 => {
                let ip = ip4(A, B).ident(ident).may_fragment();
                let ip = if kind == 0 { ip.options([148, 4, 0, 0, 7, 3, 0]) } else { ip };
                let packet = ip.udp(5, 6).filled(len + size).build();
                let pieces = cut4(&packet, 28 + size);
                (packet, pieces)
            }
            2 => {
                let packet = ip6(1, 2).udp(5, 6).filled(len + size).build();
                let pieces = cut6(&packet, 40, 6, ident.into(), size);
                (packet, pieces)
            }
            _ => {
                let packet = ip6(1, 3).extension6(0, [1, 4, 0, 0, 0, 0]).udp(5, 6).filled(len + size).build();
                let pieces = cut6(&packet, 48, 40, ident.into(), size);
                (packet, pieces)
            }
        }
    })
}

proptest! {
    #[test]
    fn in_any_order_and_however_often_every_packet_comes_out_once(
        packets in prop::collection::vec(packet(), 1..8), order in any::<u64>(), copies in 1usize..3,
    ) {
        let mut datagrams = Datagrams::new(config(), order);
        // Each is a packet of its own: numbered by its place.
        let numbered = packets.iter().enumerate().flat_map(|(n, (_, pieces))| {
            (0..copies).flat_map(move |_| pieces.iter().map(move |piece| (n, piece.clone())))
        });
        let mut pieces: Vec<_> = numbered.collect();
        let mut random = order | 1;
        for at in (1..pieces.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            pieces.swap(at, (random >> 33) as usize % (at + 1));
        }
        let mut out = vec![0; LONGEST];
        let mut came = vec![0; packets.len()];
        for (n, piece) in pieces {
            let ip = L3L4::parse(&piece).expect("a packet");
            if ip.fragment == wire::Fragment::Whole {
                came[n] = 1;
                continue;
            }
            let done = datagrams.push(&piece, &ip, Whose { domain: n as u16, owner: 1, tag: n as u64 }, 0);
            prop_assert!(done.is_ok() || done == Err(drops::REASSEMBLY_DUPLICATE.into()), "{:?}", done);
            while let Some(whole) = datagrams.pop(0, &mut out) {
                let n = whole.tag as usize;
                came[n] += 1;
                prop_assert_eq!(&out[..whole.len], &packets[n].0[..]);
            }
        }
        prop_assert!(came.iter().all(|count| *count == 1), "{:?}", came);
        prop_assert_eq!(datagrams.fragments(), 0);
        datagrams.expire(SECOND);
        prop_assert!(datagrams.is_pristine());
    }

    /// Pieces of one packet that may overlap, against a model with a byte map.
    #[test]
    fn what_overlaps_is_condemned_and_nothing_else(
        pieces in prop::collection::vec((0u16..12, 1u16..5, prop::bool::weighted(0.8)), 1..20),
    ) {
        let mut datagrams = Datagrams::new(config(), 3);
        let (mut held, mut total, mut over) = (Vec::<(u16, u16, bool)>::new(), None, None);
        for (at, eights, more) in pieces {
            let (from, to) = (at * 8, (at + eights) * 8);
            let done = push(&mut datagrams, &piece(9, from, to, more), 0).map_err(|refused| refused.why);
            let expected = if let Some(why) = over {
                Err(why)
            } else if held.contains(&(from, to, more)) {
                Err(drops::REASSEMBLY_DUPLICATE)
            } else {
                let overlaps = held.iter().any(|(f, t, _)| *f < to && from < *t);
                let behind = held.iter().any(|(_, t, _)| *t > to);
                let beyond = total.is_some_and(|total| to >= total);
                if overlaps || !more && (total.is_some() || behind) || beyond {
                    over = Some(drops::REASSEMBLY_OVERLAP);
                    Err(drops::REASSEMBLY_OVERLAP)
                } else {
                    held.push((from, to, more));
                    if !more {
                        total = Some(to);
                    }
                    Ok(())
                }
            };
            prop_assert_eq!(done, expected);
            let got: u16 = held.iter().map(|(f, t, _)| t - f).sum();
            if over.is_none() && total == Some(got) {
                over = Some(drops::REASSEMBLY_DUPLICATE);
                let whole = pop(&mut datagrams, 0).expect("complete");
                let payload: Vec<u8> = (0..got).map(|n| n as u8).collect();
                prop_assert_eq!(&whole[20..], &payload[..]);
                prop_assert!(L3L4::parse(&whole).is_ok_and(|ip| ip.fragment == wire::Fragment::Whole));
            }
            prop_assert!(pop(&mut datagrams, 0).is_none());
        }
        datagrams.clear();
        prop_assert!(datagrams.is_pristine());
    }

    #[test]
    fn garbage_leaves_nothing_behind(
        acts in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..120), any::<bool>(), 0u64..2), 0..80),
    ) {
        let mut datagrams = Datagrams::new(Config { bytes: 4096, packets: 8, packets_per_owner: 4, ..config() }, 3);
        let (mut now, mut out) = (0, vec![0; LONGEST]);
        for (bytes, v6, seconds) in acts {
            now += seconds * SECOND;
            let mut packet = if v6 { ip6(1, 2).payload(&bytes).build() } else { ip4(A, B).payload(&bytes).build() };
            // Few identifications and offsets, so that fragments meet.
            let first = bytes.first().copied().unwrap_or(0);
            if v6 {
                packet[6] = protocol::FRAGMENT;
                if let Some(head) = packet.get_mut(40..48) {
                    head.copy_from_slice(&[17, 0, 0, (first & 7) << 3 | first >> 7, 0, 0, 0, first >> 6 & 1]);
                }
            } else {
                packet[4..8].copy_from_slice(&[0, first >> 6 & 1, if first & 128 != 0 { 0x20 } else { 0 }, first & 7]);
                Packet::new_checked(&mut packet[..]).expect("IPv4").fill_checksum();
            }
            let Ok(ip) = L3L4::parse(&packet) else { continue };
            let _ = datagrams.push(&packet, &ip, Whose { owner: u64::from(first & 3), ..Whose::default() }, now);
            if first & 32 != 0 {
                datagrams.pop(now, &mut out);
            }
            datagrams.expire(now);
        }
        datagrams.clear();
        prop_assert!(datagrams.is_pristine());
    }
}
