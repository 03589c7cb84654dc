//! A Remote-PHY device with its modems as a receiver.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;

use crypto::{Crc, Direction as Way, Engine, Job, KeyId, Outcome};
use frame::{Arena, ArenaConfig, Frame, Pool};
use table::histogram::Histogram;
use wire::docsis::{Element, Header, Kind};
use wire::l2tp::{Carrier, Message};
use wire::{Mac, Outer, psp};

use super::heard::{FlowHeard, Heard};
use super::hosts::{Signed, signature};
use super::workload::CLASSES;
use super::{Plant, Resequencer};
use crate::direction::Direction;
use crate::sequence::Arrival;

/// Frames in reassembly, in the engine, waiting for others: no more.
const SLOTS: u32 = 8192;
/// How long the first frames of a stream gather at least, in nanoseconds: what channels are apart in sending.
const GATHER_NS: u64 = 500_000;
/// The largest MAC frame: header, extended header, Ethernet frame with tags and CRC.
const LARGEST: usize = 2048;

struct Session {
    group: u16,
    channel: u16,
    next: Option<u16>,
    partial: Option<Frame>,
    bytes: u64,
}

struct Keys {
    modem: u32,
    keys: [Option<KeyId>; 2],
}

/// What is known of a frame while its bytes are elsewhere.
#[derive(Clone, Copy)]
struct Known {
    group: u16,
    modem: Option<u32>,
    stream: Option<(u32, Option<u16>)>,
    priority: u8,
    header: u16,
}

/// Receives DEPI packets, of any number of service groups. Give it packets with [`Downstream::take`], tell it when a
/// burst is over with [`Downstream::settle`], and that there is nothing with [`Downstream::idle`].
pub struct Downstream {
    carrier: Carrier,
    cookie: wire::l2tp::Cookie,
    word: psp::Word,
    mac: Mac,
    pool: Pool,
    arena: Arc<Arena>,
    engine: Engine,
    sessions: HashMap<u32, Session>,
    keys: HashMap<(u16, u16), Keys>,
    by_mac: HashMap<Mac, u32>,
    by_address: HashMap<Ipv4Addr, (Mac, u32)>,
    has_keys: Vec<bool>,
    orders: HashMap<(u16, u32), Resequencer<(Frame, Known)>>,
    decrypting: VecDeque<Known>,
    flows: Vec<FlowHeard>,
    /// Which modems are sent more than they may.
    is_excess: Vec<bool>,
    heard: Heard,
    latencies: Histogram,
    since_ns: u64,
    /// Every whole frame, as it came, when somebody wants them.
    tap: Option<Vec<Vec<u8>>>,
}

impl Downstream {
    /// For all groups of a plant. `soft`: decrypted by RustCrypto; else by whatever is fastest here.
    ///
    /// # Panics
    /// When there is no memory.
    pub fn new(plant: &Plant, soft: bool) -> Self {
        let arena = Arena::new(ArenaConfig { slots: SLOTS, slot_bytes: LARGEST as u16 + 64, headroom: 64 })
            .expect("memory for frames");
        let mut engine = if soft { Engine::soft(Way::Decrypt) } else { Engine::new(Way::Decrypt) };
        let (mut sessions, mut keys, mut by_mac, mut by_address) =
            (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
        for (number, group) in (0u16..).zip(&plant.groups) {
            for (channel, session) in (0u16..).zip(&group.downstream) {
                let new = Session { group: number, channel, next: None, partial: None, bytes: 0 };
                sessions.insert(*session, new);
            }
        }
        let mut has_keys = Vec::new();
        for (modem, (group, spec)) in (0u32..).zip(plant.modems()) {
            let ids = [0, 1].map(|n: usize| spec.keys[n].as_ref().map(|key| engine.insert(key)));
            has_keys.push(ids.iter().any(Option::is_some));
            keys.insert((group as u16, spec.said), Keys { modem, keys: ids });
            by_mac.extend(spec.hosts.iter().map(|(_, mac)| (*mac, modem)));
            by_address.extend(spec.hosts.iter().map(|(address, mac)| (*address, (*mac, modem))));
        }
        let modems = has_keys.len();
        let flows = vec![FlowHeard::default(); modems * CLASSES as usize];
        Self {
            carrier: plant.carrier,
            cookie: plant.cookies[0],
            word: plant.word,
            mac: plant.macs[1],
            pool: Pool::new(&arena, SLOTS as usize),
            arena,
            engine,
            sessions,
            keys,
            by_mac,
            by_address,
            has_keys,
            orders: HashMap::new(),
            decrypting: VecDeque::new(),
            flows,
            is_excess: vec![false; modems],
            heard: Heard::default(),
            latencies: Histogram::new(),
            since_ns: 0,
            tap: None,
        }
    }

    /// Has packets to those modems counted apart: they are sent more than they may ([`super::Hosts::exceed`]).
    pub fn exceed(&mut self, modems: &[u32]) {
        for modem in modems {
            if let Some(is) = self.is_excess.get_mut(*modem as usize) {
                *is = true;
            }
        }
    }

    /// What has come.
    pub fn heard(&self) -> Heard {
        self.heard
    }

    /// By service flow: modem × [`CLASSES`] + class.
    pub fn flows(&self) -> &[FlowHeard] {
        &self.flows
    }

    /// Bytes of frames by service group and channel, headers included.
    pub fn channels(&self) -> Vec<((u16, u16), u64)> {
        let mut all: Vec<_> = self.sessions.values().map(|one| ((one.group, one.channel), one.bytes)).collect();
        all.sort_unstable();
        all
    }

    /// Latencies of what was delivered, in nanoseconds, from making the packet to its place in order.
    pub fn latencies(&self) -> &Histogram {
        &self.latencies
    }

    /// Forgets latencies, and nothing else.
    pub fn clear_latencies(&mut self) {
        self.latencies.clear();
    }

    /// Packets that never came in the order of their DSIDs, and the most that one of them held.
    pub fn resequenced(&self) -> (u64, usize) {
        let lost = self.orders.values().map(|order| order.lost).sum();
        (lost, self.orders.values().map(|order| order.deepest).max().unwrap_or(0))
    }

    /// Forgets counts; packets signed before `now_ns` are early from now on. What is known of sequences stays.
    pub fn count_from(&mut self, now_ns: u64) {
        self.heard = Heard::default();
        self.orders.values_mut().for_each(|order| (order.lost, order.late) = (0, 0));
        self.latencies.clear();
        self.since_ns = now_ns;
        self.flows.iter_mut().for_each(|flow| *flow = flow.forgotten());
        self.sessions.values_mut().for_each(|session| session.bytes = 0);
    }

    /// Changes a modem's key, even or odd; none takes it away.
    pub fn rekey(&mut self, group: u16, said: u16, odd: bool, key: Option<&crypto::Key>) {
        let arena = self.arena.clone();
        if let Some(keys) = self.keys.get_mut(&(group, said)) {
            let place = &mut keys.keys[usize::from(odd)];
            if let Some(old) = place.take() {
                self.engine.remove(&arena, old);
            }
            *place = key.map(|key| self.engine.insert(key));
        }
    }

    /// Takes an Ethernet frame off the wire.
    pub fn take(&mut self, packet: &[u8], now_ns: u64) {
        let Some((session, payload)) = self.peel(packet) else {
            self.heard.foreign += 1;
            return;
        };
        let Ok(psp) = psp::Packet::new_checked(payload, self.word) else {
            self.heard.malformed += 1;
            return;
        };
        self.heard.packets += 1;
        let session_number = session;
        let Some(session) = self.sessions.get_mut(&session) else { return };
        if let Some(sequence) = psp.sequence() {
            let ahead = session.next.map_or(0, |next| sequence.wrapping_sub(next));
            if ahead >= 0x8000 {
                self.heard.packets_late += 1;
                return;
            }
            self.heard.packets_lost += u64::from(ahead);
            session.next = Some(sequence.wrapping_add(1));
            if ahead > 0
                && let Some(partial) = session.partial.take()
            {
                self.heard.pieces += 1;
                self.pool.give(partial);
            }
        }
        let count = psp.count();
        if self.pool.free() < count {
            self.begin(now_ns);
            if self.pool.free() < count {
                // Nobody is waited for any longer: frames that wait would keep out those they wait for.
                self.finish(u64::MAX, now_ns);
            }
        }
        self.heard.segments += count as u64;
        self.heard.segments_by_count[count.min(7)] += 1;
        for segment in psp.segments() {
            self.segment(session_number, &segment, now_ns);
        }
    }

    /// The session of ours that a packet is of, and what follows its cookie.
    fn peel<'a>(&self, packet: &'a [u8]) -> Option<(u32, &'a [u8])> {
        let ethernet = Outer::parse(packet).ok()?;
        let at = usize::from(ethernet.l3);
        let ip = wire::ip4::Packet::new_checked(packet.get(at..)?).ok()?;
        if packet[..6] != self.mac.0 || !ip.is_checksum_right() || ip.fragment_offset() > 0 || ip.more_fragments() {
            return None;
        }
        let (from, to) = (at + ip.header_len(), at + usize::from(ip.total_len()));
        let body = match (self.carrier, ip.protocol()) {
            (Carrier::Ip, 115) => packet.get(from..to)?,
            (Carrier::Udp, 17) => {
                let udp = wire::udp::Packet::new_checked(packet.get(from..to)?).ok()?;
                if udp.dst_port() != wire::l2tp::PORT {
                    return None;
                }
                packet.get(from + 8..from + usize::from(udp.length()))?
            }
            _ => return None,
        };
        let Ok(Message::Data(header)) = Message::parse(body, self.carrier) else { return None };
        self.sessions.contains_key(&header.session).then_some(())?;
        Some((header.session, header.payload(body, self.cookie)?))
    }

    fn segment(&mut self, number: u32, segment: &psp::Segment<'_>, now_ns: u64) {
        let Some(session) = self.sessions.get_mut(&number) else { return };
        if segment.begin
            && let Some(partial) = session.partial.take()
        {
            self.heard.pieces += 1;
            self.pool.give(partial);
        }
        let mut frame = match (segment.begin, session.partial.take()) {
            (false, Some(frame)) => frame,
            (false, None) => {
                self.heard.pieces += 1;
                return;
            }
            (true, _) => match self.pool.take() {
                Some(frame) => frame,
                None => {
                    self.heard.no_memory += 1;
                    return;
                }
            },
        };
        self.heard.split += u64::from(segment.end && !segment.begin);
        let len = frame.len();
        if self.arena.set_len(&mut frame, len + segment.bytes.len()) < len + segment.bytes.len() {
            // Longer than any frame.
            self.heard.pieces += 1;
            self.pool.give(frame);
            return;
        }
        self.arena.bytes_mut(&mut frame)[len..].copy_from_slice(segment.bytes);
        if !segment.end {
            session.partial = Some(frame);
            return;
        }
        session.bytes += frame.len() as u64;
        let group = session.group;
        if let Some(tap) = &mut self.tap {
            tap.push(self.arena.bytes(&frame).to_vec());
        }
        self.whole(group, frame, now_ns);
    }

    /// A whole frame: header, then to the engine.
    fn whole(&mut self, group: u16, frame: Frame, now_ns: u64) {
        self.heard.frames += 1;
        let bytes = self.arena.bytes(&frame);
        let header = match Header::parse(bytes) {
            Ok(header) if header.frame_len as usize == bytes.len() => header,
            _ => {
                self.heard.bad_header += 1;
                self.pool.give(frame);
                return;
            }
        };
        if header.kind != Kind::Packet {
            self.heard.management += 1;
            self.pool.give(frame);
            return;
        }
        let mut known = Known { group, modem: None, stream: None, priority: 0, header: header.header_len };
        let (mut privacy, mut sane) = (None, true);
        for (n, element) in header.elements(bytes).enumerate() {
            match element {
                // The privacy element goes first (CM-SP-SEC).
                Ok(Element::BpDown(found)) if n == 0 => privacy = Some(found),
                Ok(Element::DsService { priority, stream, .. }) => (known.priority, known.stream) = (priority, stream),
                Ok(Element::Other { .. }) => {}
                _ => sane = false,
            }
        }
        let to = Mac(bytes.get(usize::from(known.header)..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default());
        let key = match privacy.filter(|privacy| privacy.enabled) {
            _ if !sane => {
                self.heard.bad_header += 1;
                None
            }
            Some(privacy) => match self.keys.get(&(group, privacy.id)) {
                None => {
                    self.heard.strangers += 1;
                    None
                }
                Some(keys) => {
                    known.modem = Some(keys.modem);
                    let key = keys.keys[usize::from(privacy.toggle)];
                    let right = privacy.version == 1 && privacy.toggle == (privacy.key_sequence & 1 != 0);
                    self.heard.no_key += u64::from(key.is_none() || !right);
                    key.filter(|_| right)
                }
            },
            None => {
                known.modem = self.by_mac.get(&to).copied();
                match known.modem {
                    None if !to.is_group() => {
                        self.heard.strangers += 1;
                        None
                    }
                    Some(modem) if self.has_keys[modem as usize] => {
                        self.heard.clear += 1;
                        None
                    }
                    _ => Some(KeyId::CLEAR),
                }
            }
        };
        let Some(key) = key else {
            self.pool.give(frame);
            return;
        };
        let job = Job { key, at: known.header, crc: Crc::Done, tag: 0 };
        if self.engine.room() == 0 {
            self.engine.flush(&self.arena);
            self.decrypted(now_ns);
        }
        match self.engine.push(frame, job) {
            Ok(()) => self.decrypting.push_back(known),
            Err(frame) => {
                self.heard.no_memory += 1;
                self.pool.give(frame);
            }
        }
    }

    /// A burst is over: decrypts, restores order, delivers.
    pub fn settle(&mut self, now_ns: u64) {
        self.engine.run(&self.arena);
        self.decrypted(now_ns);
    }

    /// Nothing comes: finishes what waits in the engine, and gives up what is waited for too long.
    pub fn idle(&mut self, now_ns: u64) {
        self.finish(now_ns, now_ns);
    }

    /// Streams that have gathered for a moment begin, and what is in order goes: at a high rate memory does not last as long
    /// as the first could be late.
    fn begin(&mut self, now_ns: u64) {
        self.engine.flush(&self.arena);
        self.decrypted(now_ns);
        self.orders.values_mut().for_each(|order| order.begin(now_ns, GATHER_NS));
        let streams: Vec<_> = self.orders.iter().filter(|(_, order)| order.held() > 0).map(|(key, _)| *key).collect();
        for stream in streams {
            self.ordered(stream, now_ns, now_ns);
        }
    }

    /// Finishes what waits in the engine, and what waits for others if it has done so long enough at `until_ns`.
    fn finish(&mut self, until_ns: u64, now_ns: u64) {
        self.engine.flush(&self.arena);
        self.decrypted(now_ns);
        let streams: Vec<_> = self.orders.iter().filter(|(_, order)| order.held() > 0).map(|(key, _)| *key).collect();
        for stream in streams {
            self.ordered(stream, until_ns, now_ns);
        }
    }

    /// Frames held: in pieces, in the engine, waiting for others.
    pub fn held(&self) -> usize {
        SLOTS as usize - self.pool.free()
    }

    fn decrypted(&mut self, now_ns: u64) {
        while let Some(done) = self.engine.pop() {
            let Some(known) = self.decrypting.pop_front() else { unreachable!("as many as were pushed") };
            match done.outcome {
                Outcome::Done => {}
                Outcome::Short => self.heard.bad_header += 1,
                Outcome::BadCrc | Outcome::NoRoom | Outcome::NoKey => self.heard.bad_crc += 1,
            }
            let frame = done.frame;
            match (done.outcome, known.stream) {
                (Outcome::Done, Some((dsid, Some(sequence)))) => {
                    let order = self.orders.entry((known.group, dsid)).or_default();
                    match order.take(sequence, (frame, known), now_ns) {
                        Ok(()) => self.ordered((known.group, dsid), now_ns, now_ns),
                        Err((frame, _)) => {
                            self.heard.late += 1;
                            self.pool.give(frame);
                        }
                    }
                }
                (Outcome::Done, _) => self.deliver(frame, &known, now_ns),
                _ => self.pool.give(frame),
            }
        }
    }

    /// Delivers what is in order, or has waited long enough at `until_ns`.
    fn ordered(&mut self, stream: (u16, u32), until_ns: u64, now_ns: u64) {
        while let Some((frame, known)) = self.orders.get_mut(&stream).and_then(|order| order.next(until_ns)) {
            self.deliver(frame, &known, now_ns);
        }
    }

    /// A frame in its modem's hands, clear, its CRC right.
    fn deliver(&mut self, frame: Frame, known: &Known, now_ns: u64) {
        let all = self.arena.bytes(&frame);
        let ethernet = &all[usize::from(known.header)..all.len() - 4];
        let heard = &mut self.heard;
        heard.bytes += ethernet.len() as u64;
        let to = Mac(*ethernet.first_chunk().expect("not shorter than its header"));
        let signed = signature(ethernet, Direction::Downlink);
        match signed {
            _ if to.is_group() => heard.group += 1,
            None => heard.unsigned += 1,
            Some(Signed { signature, dst: address, .. }) => {
                let modem = signature.flow / CLASSES;
                let right = known.modem == Some(modem) && self.by_address.get(&address) == Some(&(to, modem));
                match self.flows.get_mut(signature.flow as usize) {
                    Some(flow) if right => {
                        let is_early = signature.sent_ns < self.since_ns;
                        let arrival = flow.note(signature.seq, !is_early);
                        if is_early {
                            heard.early += 1;
                            heard.early_bytes += ethernet.len() as u64;
                            flow.early_bytes += ethernet.len() as u64 + 4;
                        } else {
                            heard.excess += u64::from(self.is_excess[modem as usize]);
                            match arrival {
                                Arrival::InOrder => heard.in_order += 1,
                                Arrival::Reordered | Arrival::Stale => heard.reordered += 1,
                                Arrival::Duplicate => heard.duplicated += 1,
                            }
                            let latency = now_ns.saturating_sub(signature.sent_ns);
                            flow.latency_ns += latency;
                            flow.longest_ns = flow.longest_ns.max(latency);
                            flow.bytes += ethernet.len() as u64 + 4;
                            flow.priority = known.priority;
                            // Packets that are offered beyond a rate wait on purpose.
                            if !self.is_excess[modem as usize] {
                                self.latencies.record(latency);
                            }
                        }
                    }
                    _ => heard.misdelivered += 1,
                }
            }
        }
        self.pool.give(frame);
    }
}
