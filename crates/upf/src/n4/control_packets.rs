//! Packets between subscribers and control planes' functions by GTP-U at the N4 address (N4-u; 3GPP TS 29.244, 5.3.3; TS
//! 29.281): router solicitations leave, router advertisements come. No socket: datagrams are passed in and taken out.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use dataplane::limit::{Allowance, Limit};
use pfcp::ie::{FTeid, SourceInterface};
use wire::Teid;
use wire::gtpu::{self, Header, message_type};

use super::N4;
use super::store::Key;
use super::translate::local_f_teid;
use crate::control::Control;

/// Datagrams that wait for their socket.
const WAITING: usize = 1024;
/// Packets a second from control planes' functions: some for each of many subscribers that attach at once.
const FROM_CONTROL: Allowance = Allowance::new(10_000, 2000);
/// Echo Responses and Error Indications a second.
const ANSWERS: Allowance = Allowance::new(100, 100);

/// What became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlPacketCounters {
    /// Subscribers' packets handed to the socket.
    pub sent: u64,
    /// Those that found too many others waiting for it.
    pub send_queue_full: u64,
    /// Packets for subscribers handed to their workers.
    pub received: u64,
    /// G-PDUs for tunnel endpoints of no session, or of none that a control plane's function sends to.
    pub unknown_teid: u64,
    /// Datagrams that are no GTP-U, or of a type not expected here.
    pub malformed: u64,
    /// Packets for subscribers over the rate limit, or whose worker's command ring was full.
    pub limited: u64,
    /// Datagrams from addresses that `n4.allow` does not have.
    pub not_allowed: u64,
    /// Echo Requests answered.
    pub echoes: u64,
}

impl ControlPacketCounters {
    /// Names, values and sentences.
    pub fn all(&self) -> [(&'static str, u64, &'static str); 8] {
        [
            ("control_packets_sent", self.sent, "Subscribers' packets sent to control planes from the N4 address."),
            ("control_packets_send_queue_full", self.send_queue_full, "Those dropped: too many waited for the socket."),
            ("control_packets_received", self.received, "Packets for subscribers from control planes, by GTP-U."),
            ("control_packets_unknown_teid", self.unknown_teid, "Those dropped: no session has their TEID for N4-u."),
            ("control_packets_malformed", self.malformed, "Datagrams at the N4 address that are no GTP-U we expect."),
            ("control_packets_limited", self.limited, "Those dropped by rate limit or for a full command ring."),
            ("control_packets_not_allowed", self.not_allowed, "GTP-U dropped: its source is not in n4.allow."),
            ("control_packets_echoes", self.echoes, "GTP-U Echo Requests answered at the N4 address."),
        ]
    }
}

/// Their queues and limits.
pub(super) struct ControlPackets {
    out: VecDeque<(SocketAddr, Vec<u8>)>,
    from_control: Limit,
    answers: Limit,
    pub counters: ControlPacketCounters,
}

impl Default for ControlPackets {
    fn default() -> Self {
        Self {
            out: VecDeque::new(),
            from_control: Limit::new(FROM_CONTROL),
            answers: Limit::new(ANSWERS),
            counters: ControlPacketCounters::default(),
        }
    }
}

impl ControlPackets {
    /// A subscriber's packet is for a control plane's function.
    pub fn send(&mut self, to: IpAddr, teid: u32, packet: &[u8]) {
        if self.out.len() >= WAITING {
            self.counters.send_queue_full += 1;
            return;
        }
        let flags = gtpu::flag::VERSION_1;
        let mut datagram = Vec::with_capacity(gtpu::HEADER_LEN + packet.len());
        datagram.extend([flags, message_type::G_PDU]);
        datagram.extend((packet.len() as u16).to_be_bytes()); // an IP packet's length has 16 bits
        datagram.extend(teid.to_be_bytes());
        datagram.extend(packet);
        self.out.push_back((SocketAddr::new(to, gtpu::PORT), datagram));
        self.counters.sent += 1;
    }
}

impl N4 {
    /// The next GTP-U datagram to be sent from the N4 address.
    pub(crate) fn take_gtpu(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.control_packets.out.pop_front()
    }

    /// What became of packets between subscribers and control planes' functions.
    pub fn control_packets(&self) -> ControlPacketCounters {
        self.control_packets.counters
    }

    /// Takes in a GTP-U datagram that came to the N4 address.
    pub fn receive_gtpu(&mut self, from: SocketAddr, datagram: &[u8], control: &mut Control, now: u64) {
        let Ok(header) = Header::parse(datagram) else {
            self.control_packets.counters.malformed += 1;
            return;
        };
        match header.message_type {
            message_type::ECHO_REQUEST => self.answer_echo(from, datagram, now),
            message_type::G_PDU if header.unsupported == 0 => {
                let packet = datagram.get(usize::from(header.payload_offset)..).unwrap_or_default();
                self.pass_to_subscriber(header.teid, packet, control, now);
            }
            // A control plane that no longer knows its tunnel says so by PFCP as well.
            message_type::ERROR_INDICATION | message_type::ECHO_RESPONSE | message_type::END_MARKER => {}
            _ => self.control_packets.counters.malformed += 1,
        }
    }

    /// A datagram came from an address that may not send any.
    pub(crate) fn refuse_gtpu(&mut self) {
        self.control_packets.counters.not_allowed += 1;
    }

    /// Answers an Echo Request with its sequence number and Recovery 0 (TS 29.281, 7.2.2, 8.2).
    fn answer_echo(&mut self, from: SocketAddr, request: &[u8], now: u64) {
        let sequence = request.get(8..10).filter(|_| request[0] & gtpu::flag::S != 0);
        let packets = &mut self.control_packets;
        match sequence {
            Some(sequence) if packets.out.len() < WAITING && packets.answers.allow(now) => {
                let flags = gtpu::flag::VERSION_1 | gtpu::flag::S;
                let head = [flags, message_type::ECHO_RESPONSE, 0, 6, 0, 0, 0, 0];
                let answer = [&head[..], sequence, &[0, 0, 14, 0]].concat();
                packets.out.push_back((from, answer));
                packets.counters.echoes += 1;
            }
            Some(_) => packets.counters.limited += 1,
            None => packets.counters.malformed += 1,
        }
    }

    /// Only into tunnels of control planes' functions: what comes this way is not access.
    fn pass_to_subscriber(&mut self, teid: Teid, packet: &[u8], control: &mut Control, now: u64) {
        let found = self.store.lookup(Key::Teid(teid.0)).and_then(|number| self.store.get(number));
        let counters = &mut self.control_packets.counters;
        let is_theirs = |entry: &super::store::StoredSession| {
            let rules = entry.rules();
            let of_control =
                rules.create_pdrs.iter().filter(|pdr| pdr.pdi.source_interface == SourceInterface::CpFunction);
            let mut ends = of_control.filter_map(|pdr| local_f_teid(&rules, &pdr.pdi));
            ends.any(|end| matches!(end, FTeid::Given { teid: own, .. } if own == teid))
        };
        let Some(entry) = found.filter(|entry| is_theirs(entry)) else {
            counters.unknown_teid += 1;
            return;
        };
        let passes = self.control_packets.from_control.allow(now);
        if passes && control.from_control(entry.worker, teid.0, packet).is_ok() {
            counters.received += 1;
        } else {
            counters.limited += 1;
        }
    }
}
