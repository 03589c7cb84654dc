//! What modems send, put together again.

use crypto::bpi::{Schedule, crc32};
use traffic::cable::{Cuts, Hosts, Mix, Plant, Upstream, Workload};
use wire::docsis::{Element, Header, Kind};
use wire::l2tp::{Carrier, Cookie};
use wire::psp::{self, Word};
use wire::{ccf, uepi};

use crate::framer::{MODEMS, NOW, plant};

/// Stands for the gateway, upstream: a modem's segments in order are one stream of frames.
fn unframed(plant: &Plant, packets: &[Vec<u8>]) -> (Vec<Vec<u8>>, usize) {
    let mut units: std::collections::HashMap<u32, Vec<u8>> = Default::default();
    let mut streams: Vec<std::collections::BTreeMap<u16, Vec<u8>>> = vec![Default::default(); plant.modems().count()];
    for packet in packets {
        let body = &packet[34..];
        let session = u32::from_be_bytes([body[0], body[1], body[2], body[3]]);
        let Some(group) = plant.groups.iter().position(|group| group.upstream.contains(&session)) else { continue };
        let psp = psp::Packet::new_checked(&body[4..], Word::Absent).expect("a whole packet");
        for segment in psp.segments() {
            let unit = units.entry(session).or_default();
            if segment.begin {
                assert!(unit.is_empty());
            }
            unit.extend(segment.bytes);
            if segment.end {
                let unit = std::mem::take(unit);
                let header = uepi::Header::parse(&unit).expect("a header");
                let modem = plant.groups[group].modems.iter().position(|m| m.sid == header.sid).expect("a modem");
                let payload = &unit[uepi::Header::LEN..unit.len() - uepi::Trailer::LEN];
                let segment = ccf::Repr::parse(payload).expect("a segment");
                streams[group * MODEMS as usize + modem].insert(segment.sequence, payload.to_vec());
            }
        }
    }
    let (mut frames, mut requests) = (Vec::new(), 0);
    for (modem, stream) in streams.iter().enumerate() {
        let mut bytes = Vec::new();
        let mut begins = Vec::new();
        for (n, segment) in (0u16..).zip(stream) {
            assert_eq!(*segment.0, n, "no gap");
            let header = ccf::Repr::parse(segment.1).expect("a segment");
            begins.extend(header.pointer.map(|at| bytes.len() + usize::from(at)));
            bytes.extend(&segment.1[ccf::HEADER_LEN..]);
        }
        let spec = plant.modems().nth(modem).expect("a modem").1;
        let mut starts = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at] == ccf::FILL {
                at += 1;
                continue;
            }
            starts.push(at);
            let header = Header::parse(&bytes[at..]).expect("a frame");
            if header.kind == Kind::QueueDepth {
                assert_eq!(header.sid, spec.sid);
                requests += 1;
                at += usize::from(header.header_len);
                continue;
            }
            let mut ethernet = header.payload(&bytes[at..]).to_vec();
            if let Some(Ok(Element::BpUp2(privacy))) = header.elements(&bytes[at..]).next() {
                let key = spec.keys[usize::from(privacy.toggle)].as_ref().expect("a key");
                assert_eq!(privacy.id, spec.sid);
                Schedule::new(key).decrypt(&mut ethernet[12..]);
            }
            let end = ethernet.len() - 4;
            assert_eq!(crc32(&ethernet[..end]), ethernet[end..]);
            ethernet.truncate(end);
            frames.push(ethernet);
            at += header.frame_len as usize;
        }
        assert!(begins.iter().all(|begin| starts.contains(begin)), "pointers lead to frames");
    }
    (frames, requests)
}

#[test]
fn bursts_carry_what_hosts_send() {
    for cuts in [Cuts::Few, Cuts::Anywhere(3), Cuts::Anywhere(99)] {
        let plant = plant(Carrier::Ip, [Cookie::None; 2]);
        let mut upstream = Upstream::new(&plant, Workload::new(&Mix::upstream(), MODEMS, true), cuts);
        let mut packets: Vec<_> = (0..800).map(|_| upstream.next(NOW).expect("always something")).collect();
        packets.extend((0..upstream.finish(NOW)).filter_map(|_| upstream.next(NOW)));
        assert!(packets.iter().all(|packet| packet.len() <= 14 + plant.mtu));
        let (frames, requests) = unframed(&plant, &packets);
        let said = upstream.said();
        assert_eq!((frames.len() as u64, requests as u64), (said.packets, said.requests));
        let mut hosts = Hosts::new(&plant, Workload::new(&Mix::downstream(), MODEMS, false));
        for mut frame in frames {
            frame[..6].copy_from_slice(&plant.core_macs[1].0);
            hosts.take(&frame, NOW);
        }
        assert_eq!((hosts.heard().in_order, hosts.heard().bytes), (said.packets, said.bytes), "{:?}", hosts.heard());
    }
}
