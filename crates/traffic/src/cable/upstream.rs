//! A Remote-PHY device with its modems as a sender.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use crypto::bpi::{Schedule, crc32};
use wire::docsis::{Element, Kind, Privacy, emit_frame, emit_request};
use wire::l2tp::{self, Carrier};
use wire::{Mac, ccf, ethernet, ethertype, ip4, psp, udp, uepi};

use super::hosts::write;
use super::workload::{Decided, Workload};
use super::{Group, Plant};
use crate::direction::Direction;
use crate::signature::Signature;

/// Bytes of a grant: what the published workload pre-allocates.
pub const GRANT: usize = 2048;

/// How bursts are cut into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// As few segments as there can be.
    Few,
    /// Anywhere, by numbers of this seed: segments of any length, data units over several packets, channels' packets out
    /// of step.
    Anywhere(u64),
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Packets of hosts behind modems.
    pub packets: u64,
    /// Bytes of their Ethernet frames, without CRC.
    pub bytes: u64,
    /// Bursts of modems: grants.
    pub bursts: u64,
    /// UEPI packets.
    pub uepi: u64,
    /// Requests within streams.
    pub requests: u64,
    /// Requests on the session for them.
    pub heads: u64,
}

impl Said {
    /// Adds what others have sent.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.bursts += other.bursts;
        self.uepi += other.uepi;
        self.requests += other.requests;
        self.heads += other.heads;
    }
}

struct Stream {
    group: usize,
    hosts: Vec<(Ipv4Addr, Mac)>,
    sid: u16,
    schedule: Option<(Schedule, u8)>,
    sequence: u16,
    /// MAC frames that are not in a segment yet; offsets in it of those that begin.
    bytes: VecDeque<u8>,
    begins: VecDeque<usize>,
    seq: u32,
}

/// Sends the bursts of modems as UEPI packets: a grant a burst, one modem after the other.
pub struct Upstream {
    plant: Plant,
    streams: Vec<Stream>,
    workload: Workload,
    cuts: Cuts,
    random: u64,
    next_modem: usize,
    next_channel: Vec<usize>,
    sequences: Vec<Vec<u16>>,
    request_sequences: Vec<u16>,
    ready: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    said: Said,
}

impl Upstream {
    /// For all modems of a plant.
    pub fn new(plant: &Plant, workload: Workload, cuts: Cuts) -> Self {
        let stream = |(group, modem): (usize, &super::Modem)| Stream {
            group,
            hosts: modem.hosts.clone(),
            sid: modem.sid,
            schedule: modem.keys[usize::from(modem.sequence & 1)]
                .as_ref()
                .map(|key| (Schedule::new(key), modem.sequence)),
            sequence: 0,
            bytes: VecDeque::new(),
            begins: VecDeque::new(),
            seq: 0,
        };
        let channels = |group: &Group| vec![0; group.upstream.len()];
        Self {
            streams: plant.modems().map(stream).collect(),
            sequences: plant.groups.iter().map(channels).collect(),
            request_sequences: vec![0; plant.groups.len()],
            next_channel: vec![0; plant.groups.len()],
            plant: plant.clone(),
            workload,
            cuts,
            random: match cuts {
                Cuts::Few => 1,
                Cuts::Anywhere(seed) => seed | 1,
            },
            next_modem: 0,
            ready: VecDeque::new(),
            spare: Vec::new(),
            said: Said::default(),
        }
    }

    /// What was sent since counting began.
    pub fn said(&self) -> Said {
        self.said
    }

    /// Packets made so far, and how many of them rules match.
    pub fn decided(&self) -> Decided {
        self.workload.decided()
    }

    /// Forgets counts.
    pub fn count_from(&mut self) {
        self.said = Said::default();
    }

    /// Changes the key that a modem sends by; none: in clear.
    pub fn rekey(&mut self, modem: usize, key: Option<(&crypto::Key, u8)>) {
        if let Some(stream) = self.streams.get_mut(modem) {
            stream.schedule = key.map(|(key, sequence)| (Schedule::new(key), sequence));
        }
    }

    /// The next UEPI packet, as an Ethernet frame. Give it back with [`Upstream::recycle`], or keep it.
    pub fn next(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        while self.ready.is_empty() {
            if self.streams.is_empty() {
                return None;
            }
            self.burst(now_ns, false);
        }
        self.ready.pop_front()
    }

    /// Ends every stream: what its last segment cut goes into packets, with fill behind it. As many are ready as is
    /// returned, for [`Upstream::next`]; after those nothing is on its way.
    pub fn finish(&mut self, now_ns: u64) -> usize {
        for modem in 0..self.streams.len() {
            while !self.streams[modem].bytes.is_empty() {
                self.next_modem = modem;
                self.burst(now_ns, true);
            }
        }
        self.ready.len()
    }

    /// Takes a packet's memory back.
    pub fn recycle(&mut self, packet: Vec<u8>) {
        if self.spare.len() < 64 {
            self.spare.push(packet);
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % n.max(1)
    }

    /// One grant of the next modem: `ending` makes no new packets.
    fn burst(&mut self, now_ns: u64, ending: bool) {
        let modem = self.next_modem;
        self.next_modem = (modem + 1) % self.streams.len();
        let wild = matches!(self.cuts, Cuts::Anywhere(_));
        let most = GRANT - ccf::HEADER_LEN;
        // Sometimes a modem has less than its grant.
        let wanted = if wild && self.below(8) == 0 { self.below(most) } else { most };
        while !ending && self.streams[modem].bytes.len() < wanted {
            if wild && self.below(16) == 0 {
                self.request(modem);
            }
            if !self.packet(modem, now_ns) {
                break;
            }
        }
        let request = self.below(200) as u16;
        let stream = &mut self.streams[modem];
        let take = stream.bytes.len().min(most);
        let mut segment = self.spare.pop().unwrap_or_default();
        segment.clear();
        segment.resize(ccf::HEADER_LEN, 0);
        // A frame that ends with the segment leaves nothing that begins; the next segment's first byte does.
        let pointer = stream.begins.front().copied().filter(|at| *at < take);
        segment.extend(stream.bytes.drain(..take));
        stream.begins.retain_mut(|at| match at.checked_sub(take) {
            Some(left) => {
                *at = left;
                true
            }
            None => false,
        });
        if wild || ending {
            segment.resize(GRANT, ccf::FILL);
        }
        let header = ccf::Repr { pointer: pointer.map(|at| at as u16), sequence: stream.sequence, cluster: 0, request };
        stream.sequence = (stream.sequence + 1) % ccf::SEQUENCES;
        assert!(header.emit(&mut segment).is_ok(), "room for the header");
        let (group, sid) = (stream.group, stream.sid);
        self.said.bursts += 1;
        self.unit(group, sid, &segment, modem as u32);
        self.recycle(segment);
        if request > 190 {
            self.head(group, sid, request);
        }
    }

    /// A queue-depth request in a modem's stream (CM-SP-MULPI, request frames).
    fn request(&mut self, modem: usize) {
        let stream = &mut self.streams[modem];
        let mut out = [0; 8];
        let len = emit_request(300, stream.sid, &mut out).expect("room for a request");
        stream.begins.push_back(stream.bytes.len());
        stream.bytes.extend(&out[..len]);
        self.said.requests += 1;
    }

    /// A packet of a host behind the modem, framed, at the end of the modem's stream.
    fn packet(&mut self, modem: usize, now_ns: u64) -> bool {
        let next = self.workload.next(modem as u32);
        let stream = &mut self.streams[modem];
        if stream.hosts.is_empty() {
            return false;
        }
        let mut ethernet = [0u8; 2000];
        let size = usize::from(next.size);
        let (address, mac) = stream.hosts[stream.seq as usize % stream.hosts.len()];
        let signature =
            Signature { direction: Direction::Uplink, flow: modem as u32, seq: stream.seq, sent_ns: now_ns };
        write(&mut ethernet, [mac, self.plant.gateway], [address, next.server], &next, &signature);
        let crc = crc32(&ethernet[..size]);
        ethernet[size..size + 4].copy_from_slice(&crc);
        let mut header = [0; 16];
        let len = match &stream.schedule {
            Some((schedule, sequence)) => {
                schedule.encrypt(&mut ethernet[12..size + 4]);
                let privacy = Element::BpUp2(Privacy::encrypted(*sequence, stream.sid));
                emit_frame(Kind::Packet, &[privacy], size + 4, &mut header)
            }
            None => emit_frame(Kind::Packet, &[], size + 4, &mut header),
        };
        stream.seq = stream.seq.wrapping_add(1);
        stream.begins.push_back(stream.bytes.len());
        stream.bytes.extend(&header[..len.expect("room for a header")]);
        stream.bytes.extend(&ethernet[..size + 4]);
        self.said.packets += 1;
        self.said.bytes += size as u64;
        true
    }

    /// A data unit: header, payload cut into segments, trailer, in as many packets as they take.
    fn unit(&mut self, group: usize, sid: u16, payload: &[u8], minislot: u32) {
        let channel = self.next_channel[group];
        let channels = self.plant.groups[group].upstream.len();
        self.next_channel[group] = (channel + 1) % channels.max(1);
        let room = self.plant.mtu - 20 - 8 - 12 - psp::HEADER_LEN;
        let mut pieces: Vec<(Vec<u8>, bool, bool)> = Vec::with_capacity(8);
        let mut head = vec![0; uepi::Header::LEN];
        let header = uepi::Header { no_burst: false, iuc: 9, sid, minislot };
        assert!(header.emit(&mut head).is_ok(), "room for the header");
        pieces.push((head, true, false));
        let mut rest = payload;
        while !rest.is_empty() {
            let len = match self.cuts {
                Cuts::Few => room - 4 * psp::ENTRY_LEN - uepi::Header::LEN,
                Cuts::Anywhere(_) => match self.below(4) {
                    0 => 1 + self.below(16),
                    1 => 1 + self.below(120),
                    _ => 1 + self.below(room - 64),
                },
            };
            let (piece, more) = rest.split_at(len.min(rest.len()));
            pieces.push((piece.to_vec(), false, false));
            rest = more;
        }
        let mut tail = vec![0; uepi::Trailer::LEN];
        let trailer = uepi::Trailer { good: (payload.len() / 200) as u16, ..uepi::Trailer::default() };
        assert!(trailer.emit(&mut tail).is_ok(), "room for the trailer");
        pieces.push((tail, false, true));
        let session = self.plant.groups[group].upstream[channel];
        let mut at = 0;
        while at < pieces.len() {
            let (mut end, mut bytes) = (at, 0);
            while end < pieces.len() && bytes + pieces[end].0.len() + psp::ENTRY_LEN <= room && end - at < 100 {
                bytes += pieces[end].0.len() + psp::ENTRY_LEN;
                end += 1;
                if matches!(self.cuts, Cuts::Anywhere(_)) && self.below(6) == 0 {
                    break;
                }
            }
            let sequence = &mut self.sequences[group][channel];
            let number = *sequence;
            *sequence = sequence.wrapping_add(1);
            let packet = self.wrap(group, session, number, &pieces[at..end]);
            self.said.uepi += 1;
            self.ready.push_back(packet);
            at = end;
        }
    }

    /// A request on the session for them.
    fn head(&mut self, group: usize, sid: u16, size: u16) {
        let Some(session) = self.plant.groups[group].requests else { return };
        let mut bytes = vec![0; uepi::Request::LEN];
        let request = uepi::Request { size, sid, scheduled_sid: sid, piggybacked: true, ..uepi::Request::default() };
        assert!(request.emit(&mut bytes).is_ok(), "room for a request");
        let number = self.request_sequences[group];
        self.request_sequences[group] = number.wrapping_add(1);
        let packet = self.wrap(group, session, number, &[(bytes, true, true)]);
        self.said.heads += 1;
        self.ready.push_back(packet);
    }

    /// Ethernet, IPv4, perhaps UDP, L2TPv3 and PSP around segments.
    fn wrap(&mut self, group: usize, session: u32, sequence: u16, pieces: &[(Vec<u8>, bool, bool)]) -> Vec<u8> {
        let plant = &self.plant;
        let [ours, theirs] = plant.groups[group].addresses;
        let l2tp = l2tp::Repr { carrier: plant.carrier, session, cookie: plant.cookies[1] };
        let psp = psp::Repr { flow: 0, sequence, word: None };
        let table: Vec<_> = pieces.iter().map(|(bytes, b, e)| psp::Entry::of(*b, *e, bytes.len())).collect();
        let body =
            l2tp.header_len() + psp.header_len(table.len()) + pieces.iter().map(|(p, ..)| p.len()).sum::<usize>();
        let (protocol, extra) = match plant.carrier {
            Carrier::Ip => (115, 0),
            Carrier::Udp => (17, 8),
        };
        let mut out = self.spare.pop().unwrap_or_default();
        out.clear();
        out.resize(14 + 20 + extra + body, 0);
        let head = ethernet::Repr {
            dst: plant.macs[0],
            src: plant.macs[1],
            tags: ethernet::Tags::None,
            ethertype: ethertype::IP4,
        };
        let ip = ip4::Repr::new(theirs, ours, protocol, (body + extra) as u16);
        let ports = udp::Repr { src_port: l2tp::PORT, dst_port: l2tp::PORT, payload_len: body as u16 };
        let mut at = 34;
        let mut written = head.emit(&mut out).and_then(|_| ip.emit(&mut out[14..]));
        if extra > 0 {
            written = written.and_then(|_| ports.emit(&mut out[at..]));
            at += extra;
        }
        written = written.and_then(|_| l2tp.emit(&mut out[at..]));
        at += l2tp.header_len();
        written = written.and_then(|_| psp.emit(&table, &mut out[at..]));
        assert!(written.is_ok(), "room for what was counted");
        at += psp.header_len(table.len());
        for (piece, ..) in pieces {
            out[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        out
    }
}
