//! Hosts beyond the network side: they send to the hosts behind modems, and look at what comes from those.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use table::histogram::Histogram;
use wire::{Mac, Outer, ethernet, ethertype, ip4, udp};

use super::Plant;
use super::workload::{CLASSES, Next, Workload};
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
    let ip = ip4::Repr::new(ends[0], ends[1], 17, payload_len + 8);
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

/// Sender and receiver of the network side.
pub struct Hosts {
    macs: [Mac; 2],
    modems: Vec<(Vec<Ipv4Addr>, [u32; CLASSES as usize])>,
    by_address: HashMap<Ipv4Addr, u32>,
    workload: Workload,
    next_modem: u32,
    sent: u64,
    sent_bytes: u64,
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

    /// Forgets counts; packets signed before `now_ns` are early from now on.
    pub fn count_from(&mut self, now_ns: u64) {
        (self.sent, self.sent_bytes, self.heard, self.since_ns) = (0, 0, HostsHeard::default(), now_ns);
        self.latencies.clear();
    }

    /// Writes the next packet into `out`; returns its length. 0: there is nobody, or `out` is too small.
    pub fn make(&mut self, out: &mut [u8], now_ns: u64) -> usize {
        let number = self.next_modem;
        let modems = self.modems.len() as u32;
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
        write(out, self.macs, [SERVER, address], &next, &signature);
        self.next_modem = (number + 1) % modems;
        self.sent += 1;
        self.sent_bytes += size as u64;
        size
    }

    /// Takes a packet that came from the gateway.
    pub fn take(&mut self, frame: &[u8], now_ns: u64) {
        let heard = &mut self.heard;
        let Some(Signed { signature, src, dst }) = signature(frame, Direction::Uplink) else {
            heard.foreign += 1;
            return;
        };
        let right = frame[..6] == self.macs[0].0 && dst == SERVER && self.by_address.get(&src) == Some(&signature.flow);
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
