//! Runs of Open5GS with its own user plane, replayed in the order of the capture: what its SMF asks for, and the packets
//! of gNBs, SMF and data network. What this user plane answers and sends is compared with what that one did: causes,
//! which PDRs share an F-TEID, tunnels, QoS flows, packets, and the bytes of usage reports.
//!
//! The captures have no link headers: PFCP between 127.0.0.4 and .7, GTP-U of 10.3.0.7 with gNBs (.2, .3) and SMF (.4),
//! and bare IP of the data network.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use pfcp::ie::{Cause, FTeid, ReportType};
use pfcp::message::{Message, SessionReportResponse};
use pfcp::{Header, Packet};
use wire::Teid;

use crate::n4_bench::Bench;

const OURS: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 7);
const UP: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 7);
const CP: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 4);
/// The SMF's for GTP-U.
const SMF: Ipv4Addr = Ipv4Addr::new(10, 3, 0, 4);
const CONFIG: &str = r#"
gateway = "upf"
frames = { packet_buffers = 2048, packet_buffer_bytes = 2048 }
route = [{ to = "0.0.0.0/0", next_hop = "10.6.0.1" }, { to = "::/0", next_hop = "fd00:6::1" }]
neighbour = [
  { port = "n3", address = "10.3.0.2", mac = "02:00:00:00:03:02" },
  { port = "n3", address = "10.3.0.3", mac = "02:00:00:00:03:03" },
  { port = "n3", address = "10.3.0.4", mac = "02:00:00:00:03:04" },
  { port = "n6", address = "10.6.0.1", mac = "02:00:00:00:06:fe" },
  { port = "n6", address = "fd00:6::1", mac = "02:00:00:00:06:fe" },
]
port = [
  { name = "n3", uri = "memory:n3", role = "access", addresses = ["10.3.0.7/24"] },
  { name = "n6", uri = "memory:n6", role = "core", addresses = ["10.6.0.7/24", "fd00:6::7/64"] },
]
n4.address = "127.0.0.7"
"#;

/// A tunnel: peer and TEID there. The data network has none.
type Tunnel = Option<(Ipv4Addr, u32)>;
/// Packets by tunnel, in order: message type, QoS flow, packet without what routers change.
type Sent = BTreeMap<Tunnel, Vec<(u8, Option<u8>, Vec<u8>)>>;
/// By CP SEID and URR: uplink and downlink octets, and whether the capture has them at all.
type Usage = BTreeMap<(u64, u32), (u64, u64)>;

/// IP packets of a capture with their times in microseconds since the first.
fn packets(name: &str) -> Vec<(u64, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures/open5gs").join(name);
    let file = std::fs::read(path).expect("a capture");
    let word = |at: usize| u32::from_le_bytes(*file[at..].first_chunk().expect("whole"));
    assert_eq!((word(0), word(20)), (0xa1b2_c3d4, 101), "microseconds, no link header");
    let (mut all, mut at) = (Vec::new(), 24);
    while at < file.len() {
        let (time, len) = (u64::from(word(at)) * 1_000_000 + u64::from(word(at + 4)), word(at + 8) as usize);
        all.push((time, file[at + 16..at + 16 + len].to_vec()));
        at += 16 + len;
    }
    let first = all[0].0;
    all.iter_mut().for_each(|(time, _)| *time -= first);
    all
}

fn u16_at(octets: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(*octets[at..].first_chunk().expect("there"))
}

fn u32_at(octets: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(*octets[at..].first_chunk().expect("there"))
}

/// Sender, receiver and payload, if it is UDP over IPv4 to or from a port.
fn udp(ip: &[u8], port: u16) -> Option<(Ipv4Addr, Ipv4Addr, &[u8])> {
    let is = ip[0] == 0x45 && ip[9] == 17 && (u16_at(ip, 20) == port || u16_at(ip, 22) == port);
    let address = |at: usize| Ipv4Addr::from(u32_at(ip, at));
    is.then(|| (address(12), address(16), &ip[28..20 + usize::from(u16_at(ip, 24))]))
}

/// Message type, QoS flow and payload of a GTP-U message.
fn gtpu(message: &[u8]) -> (u8, Option<u8>, &[u8]) {
    let (mut at, mut qfi) = (8, None);
    if message[0] & 7 != 0 {
        let mut next = message[11];
        at = 12;
        while next != 0 {
            if next == 0x85 {
                qfi = Some(message[at + 2] & 0x3f);
            }
            let len = usize::from(message[at]) * 4;
            next = message[at + len - 1];
            at += len;
        }
    }
    (message[1], qfi, &message[at..])
}

/// A packet without what a router changes. Neighbour discovery keeps its hop limit: 254 would be refused (RFC 4861, 6.1).
fn routed(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    match packet.first().map(|first| first >> 4) {
        Some(4) => packet[8] = 0,
        Some(6) if packet[6] != 58 || !(133..=137).contains(&packet[40]) => packet[7] = 0,
        _ => {}
    }
    if packet.first().is_some_and(|first| first >> 4 == 4) {
        packet[10..12].fill(0);
    }
    packet
}

fn note(sent: &mut Sent, ip: &[u8]) {
    match udp(ip, 2152) {
        Some((_, to, message)) => note_gtpu(sent, to, message),
        None => sent.entry(None).or_default().push((255, None, routed(ip))),
    }
}

fn note_gtpu(sent: &mut Sent, to: Ipv4Addr, message: &[u8]) {
    let (kind, qfi, payload) = gtpu(message);
    // Neither SMFs nor End Markers need a QoS flow; Open5GS's user plane gives the latter one.
    let qfi = qfi.filter(|_| to != SMF && kind != 254);
    sent.entry(Some((to, u32_at(message, 4)))).or_default().push((kind, qfi, routed(payload)));
}

/// The sum of an IPv4 header.
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|two| u32::from(u16_at(two, 0))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum + (sum >> 16)) as u16)
}

struct Replay {
    bench: Bench,
    /// Our TEIDs and SEIDs by those of the capture's user plane.
    teids: HashMap<u32, u32>,
    seids: HashMap<u64, u64>,
    /// Our SEIDs by the control plane's.
    by_cp: HashMap<u64, u64>,
    /// Requests that wait for the capture's answer: ours, by sequence number.
    answers: HashMap<u32, Packet>,
    reports: [Vec<(ReportType, u64)>; 2],
    sent: [Sent; 2],
    usage: [Usage; 2],
    /// URRs of which Open5GS's user plane has reported another's volume.
    unreadable: BTreeSet<(u64, u32)>,
}

impl Replay {
    fn control(&self) -> SocketAddr {
        SocketAddr::new(CP.into(), pfcp::PORT)
    }

    /// What came from the user plane unasked: reports are answered.
    fn take_reports(&mut self, packets: Vec<Packet>) {
        for Packet { header, message } in packets {
            let Message::SessionReportRequest(report) = message else { continue };
            let cp = header.seid.expect("of a session");
            self.reports[1].push((report.report_type, cp));
            let response = SessionReportResponse { cause: Cause::REQUEST_ACCEPTED, ..Default::default() };
            let answer =
                Packet { header: Header { seid: self.by_cp.get(&cp).copied(), ..header }, message: response.into() };
            let more = self.bench.datagram_from(self.control(), &answer.to_vec().expect("fits"));
            self.take_reports(more);
        }
    }

    /// A request of the control plane, to our SEID instead of theirs.
    fn ask(&mut self, packet: Packet) {
        let sequence = packet.header.sequence;
        let header = Header {
            seid: packet.header.seid.map(|seid| self.seids.get(&seid).copied().unwrap_or(seid)),
            ..packet.header
        };
        let request = Packet { header, message: packet.message }.to_vec().expect("fits");
        let sent = self.bench.datagram_from(self.control(), &request);
        let (answer, others): (Vec<_>, Vec<_>) = sent.into_iter().partition(|sent| !sent.message.is_request());
        assert_eq!(answer.len(), 1, "one answer to {sequence}");
        self.answers.extend(answer.into_iter().map(|answer| (sequence, answer)));
        self.take_reports(others);
    }

    /// What their user plane answered, beside ours.
    fn compare(&mut self, theirs: &Packet) {
        let Some(ours) = self.answers.remove(&theirs.header.sequence) else { return };
        let pdrs = match (&theirs.message, &ours.message) {
            (Message::SessionEstablishmentResponse(t), Message::SessionEstablishmentResponse(o)) => {
                assert_eq!(t.cause, o.cause);
                let (t_seid, o_seid) = (t.up_f_seid.expect("theirs").seid, o.up_f_seid.expect("ours").seid);
                self.seids.insert(t_seid, o_seid);
                self.by_cp.insert(theirs.header.seid.expect("the control plane's"), o_seid);
                (&t.created_pdrs, &o.created_pdrs)
            }
            (Message::SessionModificationResponse(t), Message::SessionModificationResponse(o)) => {
                assert_eq!(t.cause, o.cause);
                self.note_usage(theirs, &t.usage_reports, &o.usage_reports);
                (&t.created_pdrs, &o.created_pdrs)
            }
            (Message::SessionDeletionResponse(t), Message::SessionDeletionResponse(o)) => {
                assert_eq!(t.cause, o.cause);
                return self.note_usage(theirs, &t.usage_reports, &o.usage_reports);
            }
            _ => return,
        };
        for theirs in pdrs.0 {
            let Some(FTeid::Given { teid: Teid(t), .. }) = theirs.local_f_teid else { continue };
            let ours = pdrs.1.iter().find(|ours| ours.pdr_id == theirs.pdr_id).expect("the same PDRs");
            let Some(FTeid::Given { teid: Teid(o), .. }) = ours.local_f_teid else { panic!("none chosen: {ours:?}") };
            let known = *self.teids.entry(t).or_insert(o);
            assert_eq!(known, o, "{:?} shares its F-TEID, in this request or one before", theirs.pdr_id);
            let twice = self.teids.iter().filter(|(_, ours)| **ours == o).count();
            assert_eq!(twice, 1, "{:?} has an F-TEID of its own", theirs.pdr_id);
        }
    }

    /// Of several reports in one message, each of Open5GS's has the volume of the last: `lib/pfcp/build.c` encodes all of
    /// them into one buffer before it builds the message. So the last is compared.
    fn note_usage(&mut self, packet: &Packet, theirs: &[pfcp::group::UsageReport], ours: &[pfcp::group::UsageReport]) {
        let session = packet.header.seid.unwrap_or(0);
        let octets = |report: &pfcp::group::UsageReport| {
            let volume = report.volume_measurement.unwrap_or_default();
            (volume.uplink.unwrap_or(0), volume.downlink.unwrap_or(0))
        };
        let mut note = |side: usize, report: &pfcp::group::UsageReport| {
            let (sum, more) = (self.usage[side].entry((session, report.urr_id.0)).or_default(), octets(report));
            *sum = (sum.0 + more.0, sum.1 + more.1);
        };
        ours.iter().for_each(|report| note(1, report));
        let Some((last, others)) = theirs.split_last() else { return };
        note(0, last);
        assert!(others.iter().all(|report| octets(report) == octets(last)), "{theirs:?}");
        self.unreadable.extend(others.iter().map(|report| (session, report.urr_id.0)));
    }

    /// A packet for the user plane, in by a port.
    fn carry(&mut self, port: &str, mut ip: Vec<u8>) {
        let mac = |side, end| [2, 0, 0, 0, side, end];
        let (ours, peer) = if port == "n3" { (mac(3, 1), mac(3, ip[15])) } else { (mac(6, 1), mac(6, 0xfe)) };
        if port == "n3" {
            let teid = u32_at(&ip, 32);
            let ours = self.teids.get(&teid).copied().unwrap_or(teid);
            ip[32..36].copy_from_slice(&ours.to_be_bytes());
            ip[26..28].fill(0);
            ip[10..12].fill(0);
            let sum = checksum(&ip[..20]);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let kind: [u8; 2] = if ip[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        self.bench.send(port, &[&ours[..], &peer, &kind, &ip].concat());
    }

    fn collect(&mut self) {
        for port in ["n3", "n6"] {
            for frame in self.bench.received(port) {
                // ARP and neighbour discovery of our own are the link's.
                if matches!(u16_at(&frame, 12), 0x0800 | 0x86dd) && frame[0] & 1 == 0 {
                    note(&mut self.sent[1], &frame[14..]);
                }
            }
        }
        for (to, message) in self.bench.gtpu_sent() {
            let std::net::IpAddr::V4(to) = to.ip() else { panic!("IPv4") };
            note_gtpu(&mut self.sent[1], to, &message);
        }
        let unasked = self.bench.unasked();
        self.take_reports(unasked);
    }
}

fn replay(name: &str) -> Replay {
    let mut it = Replay {
        bench: Bench::configured(CONFIG),
        teids: HashMap::new(),
        seids: HashMap::new(),
        by_cp: HashMap::new(),
        answers: HashMap::new(),
        reports: Default::default(),
        sent: Default::default(),
        usage: Default::default(),
        unreadable: BTreeSet::new(),
    };
    for (time, ip) in packets(name) {
        it.bench.turn_to(1_000_000_000 + time * 1000);
        if let Some((from, to, message)) = udp(&ip, pfcp::PORT) {
            let packet = Packet::parse(message).expect("PFCP");
            match (from == CP && to == UP, from == UP && to == CP, packet.message.is_request()) {
                (true, _, true) if !matches!(packet.message, Message::HeartbeatRequest(_)) => it.ask(packet),
                (_, true, false) => it.compare(&packet),
                (_, true, true) => {
                    if let Message::SessionReportRequest(report) = &packet.message {
                        it.reports[0].push((report.report_type, packet.header.seid.expect("of a session")));
                    }
                }
                _ => {}
            }
        } else if let Some((from, to, _)) = udp(&ip, 2152) {
            if to == OURS && from == SMF {
                let mut message = ip[28..].to_vec();
                let teid = it.teids[&u32_at(&message, 4)];
                message[4..8].copy_from_slice(&teid.to_be_bytes());
                it.bench.gtpu_from(SocketAddr::new(SMF.into(), 2152), &message);
            } else if to == OURS {
                it.carry("n3", ip);
            } else if from == OURS {
                note(&mut it.sent[0], &ip);
            }
        } else if is_ue(&ip) {
            note(&mut it.sent[0], &ip);
        } else {
            it.carry("n6", ip);
        }
        it.collect();
    }
    let [theirs, ours] = &it.sent;
    for (tunnel, packets) in theirs {
        assert_eq!(ours.get(tunnel), Some(packets), "{name}: {tunnel:?}");
    }
    assert_eq!(ours.len(), theirs.len(), "{name}: no other tunnels");
    assert_eq!(it.reports[1], it.reports[0], "{name}: reports");
    // URRs that are removed are reported here, and not by Open5GS's user plane.
    for (urr, octets) in it.usage[0].iter().filter(|(urr, _)| !it.unreadable.contains(urr)) {
        let ours = it.usage[1].get(urr).copied().unwrap_or_default();
        assert_eq!(*octets, ours, "{name}: session and URR {urr:?}");
    }
    it
}

/// Whether a packet of the data network came from a subscriber.
fn is_ue(ip: &[u8]) -> bool {
    match ip[0] >> 4 {
        4 => ip[12..14] == [10, 45] && ip[14..16] != [0, 1],
        _ => ip[8..12] != [0x20, 1, 0x0d, 0xb8] || ip[14..16] != [0, 0] || ip[22..24] != [0, 1],
    }
}

fn count(sent: &Sent) -> (usize, usize) {
    let network = sent.get(&None).map_or(0, Vec::len);
    (sent.values().map(Vec::len).sum::<usize>() - network, network)
}

#[test]
fn vonr_flow_router_solicitation_and_paging() {
    let it = replay("vonr.pcap");
    assert_eq!(count(&it.sent[1]), (6, 4));
    it.bench.close();
}

#[test]
fn dedicated_flows_share_the_session_tunnel() {
    for name in ["qos-flow.pcap", "vonr-session.pcap"] {
        replay(name).bench.close();
    }
}

#[test]
fn idle_subscribers_are_paged_and_served() {
    let it = replay("idle-paging.pcap");
    assert!(it.reports[1].iter().any(|(report, _)| report.contains(ReportType::DLDR)));
    it.bench.close();
}

#[test]
fn registration_again_and_again() {
    replay("registration.pcap").bench.close();
}

#[test]
fn handover_over_n2_and_xn() {
    for name in ["handover-n2.pcap", "handover-xn.pcap"] {
        let it = replay(name);
        assert!(it.sent[1].values().flatten().any(|(kind, ..)| *kind == 254), "{name}: an End Marker");
        it.bench.close();
    }
}
