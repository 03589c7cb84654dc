//! The far sides of a CMTS against each other: a framer of thirty lines stands for the gateway.

use std::net::Ipv4Addr;

use crypto::Key;
use crypto::bpi::{Schedule, crc32};
use proptest::prelude::*;
use traffic::cable::{Cuts, Downstream, Group, Heard, Hosts, Mix, Modem, Plant, Upstream, Workload};
use wire::docsis::{Element, Header, Kind, Privacy, emit_frame};
use wire::l2tp::{self, Carrier, Cookie};
use wire::psp::{self, Word};
use wire::{Mac, ccf, ethernet, ethertype, ip4, uepi};

const MODEMS: u32 = 7;

fn plant(carrier: Carrier, cookies: [Cookie; 2]) -> Plant {
    let modem = |group: u8, n: u8| Modem {
        mac: Mac([2, 0xca, 0, 0, group, n]),
        addresses: (0..4).map(|host| Ipv4Addr::new(10, group, n, host)).collect(),
        said: 0x100 + u16::from(n),
        sid: 1 + u16::from(n),
        keys: [0, 1].map(|odd| (n != 3).then(|| Key::aes128([n; 16], [odd + group; 16]))),
        sequence: 4 + n % 2,
    };
    let group = |n: u8| Group {
        addresses: [Ipv4Addr::new(172, 16, n, 1), Ipv4Addr::new(172, 16, n, 2)],
        downstream: (0..6).map(|channel| 0x1000 + u32::from(n) * 16 + channel).collect(),
        upstream: (0..4).map(|channel| 0x2000 + u32::from(n) * 16 + channel).collect(),
        requests: Some(0x3000 + u32::from(n)),
        modems: (0..MODEMS as u8).map(|number| modem(n, number)).collect(),
    };
    Plant {
        carrier,
        cookies,
        word: Word::Present,
        mtu: 1500,
        macs: [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])],
        core_macs: [Mac([2, 0, 0, 0, 1, 1]), Mac([2, 0, 0, 0, 1, 2])],
        gateway: Mac([2, 0, 0, 0, 2, 1]),
        groups: (0..2).map(group).collect(),
    }
}

/// Stands for the gateway, downstream: frames go round all channels of their group, split where a packet is full.
struct Framer {
    plant: Plant,
    schedules: Vec<Option<[Schedule; 2]>>,
    dsid: Vec<u16>,
    sequences: Vec<u16>,
    next: usize,
    /// For each group and channel, what waits for a packet: bytes, begins, ends.
    open: Vec<Vec<(Vec<u8>, bool, bool)>>,
}

impl Framer {
    fn new(plant: &Plant) -> Self {
        let modems = plant.modems().count();
        Self {
            schedules: plant
                .modems()
                .map(|(_, m)| {
                    m.keys[0].is_some().then(|| [0, 1].map(|n: usize| Schedule::new(&m.keys[n].expect("both"))))
                })
                .collect(),
            plant: plant.clone(),
            dsid: vec![0xfff0; modems],
            sequences: vec![0xfffe; 12],
            next: 0,
            open: vec![Vec::new(); 12],
        }
    }

    fn frame(&mut self, modem: usize, packet: &[u8]) -> Vec<u8> {
        let (group, spec) = self.plant.modems().nth(modem).expect("a modem");
        let mut ethernet = packet.to_vec();
        ethernet[..6].copy_from_slice(&spec.mac.0);
        ethernet[6..12].copy_from_slice(&self.plant.gateway.0);
        let crc = crc32(&ethernet);
        ethernet.extend(crc);
        let stream = Some((0x100 + modem as u32 + 0x1_0000 * group as u32, Some(self.dsid[modem])));
        self.dsid[modem] = self.dsid[modem].wrapping_add(1);
        let service = Element::DsService { priority: 3, change: false, stream };
        let mut header = [0; 32];
        let len = match &self.schedules[modem] {
            Some(schedules) => {
                let sequence = (self.dsid[modem] / 7 % 16) as u8;
                schedules[usize::from(sequence & 1)].encrypt(&mut ethernet[12..]);
                let privacy = Element::BpDown(Privacy::encrypted(sequence, spec.said));
                emit_frame(Kind::Packet, &[privacy, service], ethernet.len(), &mut header)
            }
            None => emit_frame(Kind::Packet, &[service], ethernet.len(), &mut header),
        };
        [&header[..len.expect("room")], &ethernet].concat()
    }

    /// Takes a packet for a modem; gives the DEPI packets that are full.
    fn take(&mut self, modem: usize, packet: &[u8]) -> Vec<Vec<u8>> {
        let group = modem / MODEMS as usize;
        self.next = (self.next * 5 + 1) % 6;
        let slot = group * 6 + self.next;
        let mut frame = self.frame(modem, packet);
        let mut out = Vec::new();
        let mut begin = true;
        loop {
            let used: usize = self.open[slot].iter().map(|(bytes, ..)| bytes.len() + 2).sum();
            let room = 1440 - used;
            if frame.len() + 2 <= room {
                self.open[slot].push((frame, begin, true));
                break;
            }
            if room > 20 {
                let rest = frame.split_off(room - 2);
                self.open[slot].push((frame, begin, false));
                (frame, begin) = (rest, false);
            }
            out.push(self.close(slot));
        }
        out
    }

    fn close(&mut self, slot: usize) -> Vec<u8> {
        let (group, channel) = (slot / 6, slot % 6);
        let pieces = std::mem::take(&mut self.open[slot]);
        let table: Vec<_> = pieces.iter().map(|(bytes, b, e)| psp::Entry::of(*b, *e, bytes.len())).collect();
        let (plant, group) = (&self.plant, &self.plant.groups[group]);
        let l2tp = l2tp::Repr { carrier: plant.carrier, session: group.downstream[channel], cookie: plant.cookies[0] };
        let psp = psp::Repr { flow: 0, sequence: self.sequences[slot], word: Some(0x40) };
        self.sequences[slot] = self.sequences[slot].wrapping_add(1);
        let mut body = vec![0; l2tp.header_len() + psp.header_len(table.len())];
        l2tp.emit(&mut body).expect("room");
        psp.emit(&table, &mut body[l2tp.header_len()..]).expect("room");
        body.extend(pieces.iter().flat_map(|(bytes, ..)| bytes));
        let [ours, theirs] = group.addresses;
        let mut out = vec![0; 34];
        ethernet::Repr {
            dst: plant.macs[1],
            src: plant.macs[0],
            tags: ethernet::Tags::None,
            ethertype: ethertype::IP4,
        }
        .emit(&mut out)
        .expect("room");
        let udp = [&1701u16.to_be_bytes()[..], &1701u16.to_be_bytes(), &(body.len() as u16 + 8).to_be_bytes(), &[0, 0]]
            .concat();
        let (protocol, body) = match plant.carrier {
            Carrier::Ip => (115, body),
            Carrier::Udp => (17, [udp, body].concat()),
        };
        ip4::Repr::new(ours, theirs, protocol, body.len() as u16).emit(&mut out[14..]).expect("room");
        out.extend(body);
        out
    }

    fn finish(&mut self) -> Vec<Vec<u8>> {
        (0..12)
            .filter(|slot| !self.open[*slot].is_empty())
            .collect::<Vec<_>>()
            .into_iter()
            .map(|s| self.close(s))
            .collect()
    }
}

const NOW: u64 = 1_000_000_000;

/// `count` packets of the workload through the framer.
fn depi(plant: &Plant, count: usize) -> Vec<Vec<u8>> {
    let mut hosts = Hosts::new(plant, Workload::new(&Mix::downstream(), true));
    let mut framer = Framer::new(plant);
    let mut packets = Vec::new();
    let mut space = [0x5a; 2000];
    for n in 0..count {
        let len = hosts.make(&mut space, NOW);
        assert!(len > 0);
        packets.extend(framer.take(n % (2 * MODEMS as usize), &space[..len]));
    }
    packets.extend(framer.finish());
    packets
}

fn hear(plant: &Plant, soft: bool, packets: &[Vec<u8>]) -> Downstream {
    let mut device = Downstream::new(plant, soft);
    for (n, packet) in packets.iter().enumerate() {
        device.take(packet, NOW);
        if n % 20 == 0 {
            device.settle(NOW);
        }
    }
    device.idle(NOW);
    // Nothing more will come: what gathered goes, what lacks is lost.
    device.idle(NOW + 20_000_000);
    // A frame whose last piece is lost waits for the next one of its session.
    assert!(device.held() <= 12);
    device
}

#[test]
fn what_is_framed_rightly_is_heard_rightly() {
    for (carrier, cookies) in [(Carrier::Ip, [Cookie::None; 2]), (Carrier::Udp, [Cookie::Short(7), Cookie::Long(9)])] {
        let plant = plant(carrier, cookies);
        let packets = depi(&plant, 3000);
        for soft in [true, false] {
            let device = hear(&plant, soft, &packets);
            let heard = device.heard();
            let expected = Heard {
                packets: packets.len() as u64,
                segments: heard.segments,
                segments_by_count: heard.segments_by_count,
                split: heard.split,
                frames: 3000,
                in_order: 3000,
                bytes: 15 * 20 * 84 + 10 * 30 * 256 + 75 * 30 * 1280 + 150 * 84,
                ..Heard::default()
            };
            assert_eq!((heard, device.held()), (expected, 0));
            assert!(heard.split > 1000 && heard.segments == 3000 + heard.split, "{heard:?}");
            assert_eq!((device.resequenced().0, device.latencies().count()), (0, 3000));
            assert_eq!(device.flows().iter().map(|flow| flow.packets).sum::<u64>(), 3000);
            assert_eq!(device.flows().iter().map(|flow| flow.bytes).sum::<u64>(), heard.bytes + 3000 * 4);
        }
    }
}

#[test]
fn faults_are_named() {
    let plant = plant(Carrier::Ip, [Cookie::None; 2]);
    let packets = depi(&plant, 1000);
    let heard = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut packets = packets.clone();
        change(&mut packets);
        let device = hear(&plant, true, &packets);
        (device.heard(), device.resequenced().0)
    };
    let at = 34 + 4 + 4;
    // A packet is lost: its frames, and those that were in part in it.
    let (lost, missing) = heard(&|packets| drop(packets.remove(100)));
    assert_eq!(lost.packets_lost, 1);
    assert_eq!(lost.in_order + missing, 1000);
    assert!(lost.pieces > 0 && missing >= 1 && lost.reordered == 0, "{lost:?}");
    // Two packets of a session change places: the first of them is late.
    let (swapped, _) = heard(&|packets| {
        let session = |packet: &Vec<u8>| packet[34..38].to_vec();
        let later = (101..).find(|n| session(&packets[*n]) == session(&packets[100])).expect("another");
        packets.swap(100, later);
    });
    assert_eq!((swapped.packets_late, swapped.packets_lost), (1, 1));
    // A table that promises more than there is; a session nobody knows; a wrong address.
    let (broken, _) = heard(&|packets| {
        packets[0][at] = 0xff;
        packets[1][34] = 9;
        packets[2][3] ^= 1;
        packets[3].truncate(36);
    });
    assert_eq!((broken.malformed, broken.foreign), (1, 3));
    // One bit of a frame's header, one of its body.
    let whole = (0..packets.len()).find(|n| packets[*n][39] == 1 && packets[*n][at] & 0xc0 == 0xc0);
    let n = whole.unwrap_or(0);
    let body = at + 2 * usize::from(packets[n][39]) + 2;
    let (flipped, _) = heard(&|packets| packets[n][body + 400] ^= 4);
    assert_eq!(flipped.bad_crc + flipped.bad_header, 1, "{flipped:?}");
}

#[test]
fn keys_that_do_not_match_are_noticed() {
    let plant = plant(Carrier::Ip, [Cookie::None; 2]);
    let packets = depi(&plant, 1400);
    let mut other = plant.clone();
    other.groups[0].modems[0].keys[1] = Some(Key::aes128([0xee; 16], [1; 16]));
    other.groups[0].modems[1].keys[0] = None;
    other.groups[0].modems[2].said = 0x3ff;
    other.groups[0].modems[4].mac = Mac([2, 9, 9, 9, 9, 9]);
    other.groups[0].modems[3].keys = [Some(Key::aes128([1; 16], [1; 16])); 2];
    let heard = hear(&other, true, &packets).heard();
    assert!(heard.bad_crc > 20 && heard.no_key > 20, "{heard:?}");
    assert_eq!((heard.strangers, heard.misdelivered, heard.clear), (100, 100, 100));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever is on the wire: it is counted, and no frame is kept for good.
    #[test]
    fn garbage_is_survived(
        changes in prop::collection::vec((0usize..200, 0usize..1500, any::<u8>()), 1..60),
        cut in prop::collection::vec((0usize..200, 0usize..1500), 0..10),
    ) {
        let plant = plant(Carrier::Ip, [Cookie::None; 2]);
        let mut packets = depi(&plant, 200);
        for (n, at, value) in changes {
            let n = n % packets.len();
            if let Some(byte) = packets[n].get_mut(at) {
                *byte = value;
            }
        }
        for (n, len) in cut {
            let n = n % packets.len();
            packets[n].truncate(len);
        }
        let device = hear(&plant, true, &packets);
        prop_assert!(device.heard().in_order <= 200);
    }
}

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
        let mut upstream = Upstream::new(&plant, Workload::new(&Mix::upstream(), true), cuts);
        let mut packets: Vec<_> = (0..800).map(|_| upstream.next(NOW).expect("always something")).collect();
        packets.extend(upstream.finish(NOW));
        assert!(packets.iter().all(|packet| packet.len() <= 14 + plant.mtu));
        let (frames, requests) = unframed(&plant, &packets);
        let said = upstream.said();
        assert_eq!((frames.len() as u64, requests as u64), (said.packets, said.requests));
        let mut hosts = Hosts::new(&plant, Workload::new(&Mix::downstream(), false));
        for mut frame in frames {
            frame[..6].copy_from_slice(&plant.core_macs[1].0);
            hosts.take(&frame, NOW);
        }
        assert_eq!((hosts.heard().in_order, hosts.heard().bytes), (said.packets, said.bytes), "{:?}", hosts.heard());
    }
}
