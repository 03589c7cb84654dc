//! Hosts beyond the network side: they send to the hosts behind modems, and look at what comes from those.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use table::histogram::Histogram;
use wire::{Mac, Outer, ethernet, ethertype, ip4, udp};

use super::Plant;
use super::rules::SERVERS;
use super::workload::{CLASSES, Decided, Next, Workload};
use crate::direction::Direction;
use crate::sequence::{Arrival, Window};
use crate::signature::Signature;

/// Somewhere in the network.
pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const HEADERS: usize = 14 + 20 + 8;

/// A signed packet's marks.
pub(super) struct Signed {
    pub signature: Signature,
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
}

/// Reads the signature of an Ethernet frame with IPv4 and UDP in it, whose lengths and header checksum must be right.
pub(super) fn signature(frame: &[u8], direction: Direction) -> Option<Signed> {
    let outer = Outer::parse(frame).ok()?;
    let packet = ip4::Packet::new_checked(frame.get(outer.l3.into()..)?).ok()?;
    if !packet.is_checksum_right() || packet.protocol() != 17 {
        return None;
    }
    let datagram = udp::Packet::new_checked(packet.payload()).ok()?;
    let signature = Signature::read(datagram.payload()).filter(|found| found.direction == direction)?;
    Some(Signed { signature, src: packet.src(), dst: packet.dst() })
}

/// Writes a signed packet of `next.size` bytes into `out`, which has them; what is behind the signature stays as it is.
pub(super) fn write(out: &mut [u8], macs: [Mac; 2], ends: [Ipv4Addr; 2], next: &Next, signature: &Signature) {
    let size = usize::from(next.size);
    let payload_len = (size - HEADERS) as u16;
    let head = ethernet::Repr { dst: macs[1], src: macs[0], tags: ethernet::Tags::None, ethertype: ethertype::IP4 };
    let ip = ip4::Repr { tos: next.tos, ..ip4::Repr::new(ends[0], ends[1], 17, payload_len + 8) };
    let ports = udp::Repr { src_port: next.src_port, dst_port: next.dst_port, payload_len };
    let written = head.emit(out).and_then(|_| ip.emit(&mut out[14..])).and_then(|_| ports.emit(&mut out[34..]));
    assert!(written.is_ok(), "a packet has room for its headers");
    if let Some(place) = out[HEADERS..size].first_chunk_mut() {
        signature.write(place);
    }
}

/// What has come from the modems' hosts. Every packet is one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostsHeard {
    pub in_order: u64,
    /// After a later one of their service flow.
    pub reordered: u64,
    /// Again.
    pub duplicated: u64,
    /// From an address that is not their modem's, or to somebody else.
    pub misdelivered: u64,
    /// Without a signature, or damaged.
    pub foreign: u64,
    /// Signed before counting began.
    pub early: u64,
    /// Bytes of their Ethernet frames.
    pub bytes: u64,
}

impl HostsHeard {
    /// Adds what others have heard.
    pub fn add(&mut self, other: &Self) {
        self.in_order += other.in_order;
        self.reordered += other.reordered;
        self.duplicated += other.duplicated;
        self.misdelivered += other.misdelivered;
        self.foreign += other.foreign;
        self.early += other.early;
        self.bytes += other.bytes;
    }
}

/// Modems that are sent more than their service flows may carry, whatever the others get.
#[derive(Clone, Debug)]
pub struct Excess {
    /// Their numbers among all modems.
    pub modems: Vec<u32>,
    /// Bits a second that each is sent, of Ethernet frames with CRC.
    pub rate: f64,
}

/// An [`Excess`] as it is paced.
struct Pace {
    excess: Excess,
    /// The next of its modems.
    at: usize,
    /// Bytes that are due to all of them; negative: sent ahead.
    credit: f64,
    /// When it was looked at last.
    now_ns: Option<u64>,
    /// The last packet was one of these: at most every second one is.
    was_last: bool,
}

/// Bytes that may be due at most; what is not sent in time is not sent at all.
const LATE: f64 = 64.0 * 1024.0;

impl Pace {
    /// The modem that a packet is due to.
    fn due(&mut self, now_ns: u64) -> Option<u32> {
        let passed = now_ns.saturating_sub(self.now_ns.unwrap_or(now_ns)) as f64 / 1e9;
        self.now_ns = Some(now_ns);
        let all = self.excess.rate / 8.0 * self.excess.modems.len() as f64;
        self.credit = (self.credit + all * passed).min(LATE);
        (self.credit > 0.0).then(|| self.excess.modems.get(self.at).copied())?
    }

    /// A packet was sent to it.
    fn sent(&mut self, size: usize) {
        self.credit -= size as f64 + 4.0;
        self.at = (self.at + 1) % self.excess.modems.len().max(1);
    }
}

/// Sender and receiver of the network side.
pub struct Hosts {
    macs: [Mac; 2],
    modems: Vec<(Vec<Ipv4Addr>, [u32; CLASSES as usize])>,
    by_address: HashMap<Ipv4Addr, u32>,
    workload: Workload,
    next_modem: u32,
    excess: Option<Pace>,
    /// Which modems are of `excess`.
    is_excess: Vec<bool>,
    /// Nothing but the excess is sent.
    only_excess: bool,
    sent: u64,
    sent_bytes: u64,
    sent_excess: (u64, u64),
    windows: Vec<Window>,
    heard: HostsHeard,
    latencies: Histogram,
    since_ns: u64,
}

impl Hosts {
    /// For all modems of a plant; packets by `workload`.
    pub fn new(plant: &Plant, workload: Workload) -> Self {
        let modems: Vec<_> = plant
            .modems()
            .map(|(_, modem)| (modem.hosts.iter().map(|host| host.0).collect::<Vec<_>>(), [0; CLASSES as usize]))
            .collect();
        let mut by_address = HashMap::new();
        for (number, (addresses, _)) in (0u32..).zip(&modems) {
            by_address.extend(addresses.iter().map(|address| (*address, number)));
        }
        Self {
            macs: [plant.core_macs[1], plant.core_macs[0]],
            windows: vec![Window::default(); modems.len()],
            is_excess: vec![false; modems.len()],
            excess: None,
            only_excess: false,
            sent_excess: (0, 0),
            modems,
            by_address,
            workload,
            next_modem: 0,
            sent: 0,
            sent_bytes: 0,
            heard: HostsHeard::default(),
            latencies: Histogram::new(),
            since_ns: 0,
        }
    }

    /// Sends some modems more than their service flows may carry: they are paced by the clock, and the others get what
    /// is sent beside, in turn.
    pub fn exceed(&mut self, excess: Excess) {
        for modem in &excess.modems {
            if let Some(is) = self.is_excess.get_mut(*modem as usize) {
                *is = true;
            }
        }
        let has_any = !excess.modems.is_empty();
        self.excess = has_any.then_some(Pace { excess, at: 0, credit: 0.0, now_ns: None, was_last: false });
    }

    /// From now on nothing is sent but to the modems of [`Hosts::exceed`]; or everything again.
    pub fn send_only_excess(&mut self, only: bool) {
        self.only_excess = only;
    }

    /// Packets, and bytes with CRC, sent to modems of [`Hosts::exceed`] since counting began.
    pub fn sent_excess(&self) -> (u64, u64) {
        self.sent_excess
    }

    /// Packets made so far, and how many of them rules match.
    pub fn decided(&self) -> Decided {
        self.workload.decided()
    }

    /// Packets and bytes sent since counting began.
    pub fn sent(&self) -> (u64, u64) {
        (self.sent, self.sent_bytes)
    }

    /// What has come.
    pub fn heard(&self) -> HostsHeard {
        self.heard
    }

    /// Latencies of what has come, in nanoseconds.
    pub fn latencies(&self) -> &Histogram {
        &self.latencies
    }

    /// Forgets latencies, and nothing else.
    pub fn clear_latencies(&mut self) {
        self.latencies.clear();
    }

    /// Forgets counts; packets signed before `now_ns` are early from now on.
    pub fn count_from(&mut self, now_ns: u64) {
        (self.sent, self.sent_bytes, self.heard, self.since_ns) = (0, 0, HostsHeard::default(), now_ns);
        self.sent_excess = (0, 0);
        self.latencies.clear();
    }

    /// Writes the next packet into `out`; returns its length. 0: there is nobody, or `out` is too small.
    pub fn make(&mut self, out: &mut [u8], now_ns: u64) -> usize {
        let Some((number, is_excess)) = self.turn(now_ns) else { return 0 };
        let Some((addresses, sequences)) = self.modems.get_mut(number as usize) else { return 0 };
        let next = self.workload.next(number);
        let size = usize::from(next.size);
        if out.len() < size || addresses.is_empty() {
            return 0;
        }
        let seq = &mut sequences[next.class as usize];
        let address = addresses[*seq as usize % addresses.len()];
        let flow = number * CLASSES + next.class;
        let signature = Signature { direction: Direction::Downlink, flow, seq: *seq, sent_ns: now_ns };
        *seq = seq.wrapping_add(1);
        write(out, self.macs, [next.server, address], &next, &signature);
        if is_excess {
            self.sent_excess = (self.sent_excess.0 + 1, self.sent_excess.1 + size as u64 + 4);
            self.excess.iter_mut().for_each(|pace| pace.sent(size));
        }
        self.sent += 1;
        self.sent_bytes += size as u64;
        size
    }

    /// The modem that the next packet goes to, and whether it is of the excess. None: there is none, or nothing is due.
    fn turn(&mut self, now_ns: u64) -> Option<(u32, bool)> {
        if let Some(pace) = &mut self.excess {
            let due = pace.due(now_ns).filter(|_| self.only_excess || !pace.was_last);
            pace.was_last = due.is_some();
            if let Some(number) = due {
                return Some((number, true));
            }
        }
        if self.only_excess {
            return None;
        }
        let modems = self.modems.len() as u32;
        // One that is not of the excess.
        for _ in 0..modems {
            let number = self.next_modem;
            self.next_modem = (number + 1) % modems;
            if !self.is_excess[number as usize] {
                return Some((number, false));
            }
        }
        None
    }

    /// Takes a packet that came from the gateway.
    pub fn take(&mut self, frame: &[u8], now_ns: u64) {
        let heard = &mut self.heard;
        let Some(Signed { signature, src, dst }) = signature(frame, Direction::Uplink) else {
            heard.foreign += 1;
            return;
        };
        let is_server = dst == SERVER || dst.octets()[..2] == SERVERS;
        let is_theirs = self.by_address.get(&src) == Some(&signature.flow);
        let right = frame[..6] == self.macs[0].0 && is_server && is_theirs;
        match self.windows.get_mut(signature.flow as usize) {
            Some(window) if right => {
                let arrival = window.note(signature.seq);
                if signature.sent_ns < self.since_ns {
                    heard.early += 1;
                    return;
                }
                match arrival {
                    Arrival::InOrder => heard.in_order += 1,
                    Arrival::Reordered | Arrival::Stale => heard.reordered += 1,
                    Arrival::Duplicate => heard.duplicated += 1,
                }
                heard.bytes += frame.len() as u64;
                self.latencies.record(now_ns.saturating_sub(signature.sent_ns));
            }
            _ => heard.misdelivered += 1,
        }
    }
}
