//! What both sides agree on, and a framer that stands for the gateway.

use std::net::Ipv4Addr;

use crypto::Key;
use crypto::bpi::{Schedule, crc32};
use traffic::cable::{Group, Hosts, Mix, Modem, Plant, Workload};
use wire::docsis::{Element, Kind, Privacy, emit_frame};
use wire::l2tp::{self, Carrier, Cookie};
use wire::psp::{self, Word};
use wire::{Mac, ethernet, ethertype, ip4};

/// When everything happens, in nanoseconds.
pub const NOW: u64 = 1_000_000_000;

/// Of a service group.
pub const MODEMS: u32 = 7;

/// Two service groups.
pub fn plant(carrier: Carrier, cookies: [Cookie; 2]) -> Plant {
    let modem = |group: u8, n: u8| Modem {
        hosts: (0..4).map(|host| (Ipv4Addr::new(10, group, n, host), Mac([2, 0xca, 0, host, group, n]))).collect(),
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
        let host = spec.hosts.iter().find(|host| host.0.octets() == packet[30..34]).expect("a host");
        ethernet[..6].copy_from_slice(&host.1.0);
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

/// `count` packets of the workload through the framer.
pub fn depi(plant: &Plant, count: usize) -> Vec<Vec<u8>> {
    let mut hosts = Hosts::new(plant, Workload::new(&Mix::downstream(), MODEMS, true));
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
