//! The control plane of the measurement: one association over loopback in the gateway's namespace. It brings sessions up,
//! deletes them and adds up the usage that is reported.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pfcp::group::UsageReport;
use pfcp::ie::{Cause, CpFunctionFeatures, NodeId, RecoveryTimeStamp, UsageReportTrigger};
use pfcp::message::{Message, SessionDeletionRequest, SessionEstablishmentRequest, SessionReportResponse};
use pfcp::node::{Config, Event, Node, Role};

use crate::error::BenchError;

/// Where the control plane is, in the gateway's namespace.
pub const SMF: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Where the user plane is reached.
pub const UPF: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Requests under way at a time.
const WINDOW: usize = 32;
/// Time to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest datagram.
const LONGEST: usize = 65_535;

/// Usage of one session, all reports together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Octets, as the user plane counts them: uplink, downlink.
    pub octets: [u64; 2],
    /// Packets: uplink, downlink; none when not reported.
    pub packets: Option<[u64; 2]>,
    /// Reports by what made them.
    pub reports: BTreeMap<&'static str, u64>,
}

impl Usage {
    fn add(&mut self, report: &UsageReport) {
        for trigger in report.usage_report_trigger.names() {
            *self.reports.entry(trigger).or_default() += 1;
        }
        let Some(volume) = report.volume_measurement else { return };
        self.octets[0] += volume.uplink.unwrap_or(0);
        self.octets[1] += volume.downlink.unwrap_or(0);
        if let (Some(up), Some(down)) = (volume.uplink_packets, volume.downlink_packets) {
            let [all_up, all_down] = self.packets.get_or_insert_default();
            *all_up += up;
            *all_down += down;
        }
    }
}

/// The control plane.
pub struct ControlPlane {
    socket: UdpSocket,
    node: Node,
    began: Instant,
    peer: SocketAddr,
    is_up: bool,
    /// Numbers of the sessions at the user plane, by UE.
    seids: HashMap<u32, u64>,
    usage: HashMap<u32, Usage>,
    /// Reports that have come, by UE, URR ID and UR-SEQN: a report that was not acknowledged in time is sent again, in a new
    /// request, too (TS 29.244 §5.2.2.1).
    seen: HashSet<(u32, u32, u32)>,
    sent_again: u64,
    under_way: usize,
    refused: BTreeMap<String, u64>,
    buffer: Vec<u8>,
}

impl ControlPlane {
    /// Associates with the user plane in a namespace.
    ///
    /// # Errors
    /// No answer within 30 s.
    pub fn associate(netns: &str, stop: &AtomicBool) -> Result<Self, BenchError> {
        let bound = port::netns::within(netns, || UdpSocket::bind((SMF, pfcp::PORT)));
        let bound = bound.map_err(|source| BenchError::Port { uri: format!("namespace {netns}"), source })?;
        let socket = bound.map_err(|error| BenchError::system("a socket for PFCP", error))?;
        let set = socket.set_read_timeout(Some(Duration::from_millis(1)));
        set.map_err(|error| BenchError::system("a socket for PFCP", error))?;
        let features = CpFunctionFeatures::LOAD | CpFunctionFeatures::OVRL;
        let config = Config {
            t1: Duration::from_secs(1),
            n1: 30,
            heartbeat_interval: None,
            ..Config::new(NodeId::from(std::net::IpAddr::V4(SMF)), Role::ControlPlane(features))
        };
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut control = Self {
            socket,
            node: Node::new(config, RecoveryTimeStamp::from_unix(started)),
            began: Instant::now(),
            peer: (UPF, pfcp::PORT).into(),
            is_up: false,
            seids: HashMap::new(),
            usage: HashMap::new(),
            seen: HashSet::new(),
            sent_again: 0,
            under_way: 0,
            refused: BTreeMap::new(),
            buffer: vec![0; LONGEST],
        };
        let _ = control.node.associate(control.peer, Duration::ZERO);
        let until = Instant::now() + PATIENCE;
        while !control.is_up {
            control.wait(until, stop, "association setup")?;
        }
        Ok(control)
    }

    /// Brings up one session for each UE.
    ///
    /// # Errors
    /// Requests refused, by cause, or not answered.
    pub fn establish(
        &mut self,
        ues: std::ops::Range<u32>,
        stop: &AtomicBool,
        request: impl Fn(u32) -> SessionEstablishmentRequest,
    ) -> Result<(), BenchError> {
        self.all(ues, stop, "session establishment", |_, ue| Some((0, request(ue).into())))
    }

    /// Deletes the sessions of UEs; their last usage is added to what was reported before.
    ///
    /// # Errors
    /// As [`establish`](Self::establish).
    pub fn delete(&mut self, ues: impl IntoIterator<Item = u32>, stop: &AtomicBool) -> Result<(), BenchError> {
        self.all(ues, stop, "session deletion", |control, ue| {
            Some((control.seids.remove(&ue)?, SessionDeletionRequest::default().into()))
        })
    }

    /// What was reported of a UE's session so far.
    pub fn usage(&self, ue: u32) -> Usage {
        self.usage.get(&ue).cloned().unwrap_or_default()
    }

    /// Reports that came more than once; they count once.
    pub fn sent_again(&self) -> u64 {
        self.sent_again
    }

    /// Answers what the user plane has asked, and sends again what was not answered.
    pub fn serve(&mut self) {
        let until = Instant::now() + Duration::from_millis(20);
        while self.turn() && Instant::now() < until {}
    }

    fn all(
        &mut self,
        ues: impl IntoIterator<Item = u32>,
        stop: &AtomicBool,
        doing: &str,
        request: impl Fn(&mut Self, u32) -> Option<(u64, Message)>,
    ) -> Result<(), BenchError> {
        let mut until = Instant::now() + PATIENCE;
        for ue in ues {
            let Some((seid, message)) = request(self, ue) else { continue };
            let now = self.began.elapsed();
            let asked = self.node.request(self.peer, Some(seid), message, ue.into(), now);
            asked.map_err(|error| BenchError::Load(format!("{doing} for UE {ue}: {error}")))?;
            self.under_way += 1;
            until = Instant::now() + PATIENCE;
            self.send();
            while self.under_way >= WINDOW {
                self.wait(until, stop, doing)?;
            }
        }
        while self.under_way > 0 {
            self.wait(until, stop, doing)?;
        }
        match self.refused.is_empty() {
            true => Ok(()),
            false => {
                let causes: Vec<String> = self.refused.iter().map(|(cause, n)| format!("{n} × {cause}")).collect();
                Err(BenchError::Load(format!("{doing} refused by the user plane: {}", causes.join(", "))))
            }
        }
    }

    fn wait(&mut self, until: Instant, stop: &AtomicBool, doing: &str) -> Result<(), BenchError> {
        if stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        if Instant::now() > until {
            return Err(BenchError::Load(format!("{doing}: no answer within {} s", PATIENCE.as_secs())));
        }
        self.turn();
        Ok(())
    }

    fn send(&mut self) {
        // A datagram that is lost is sent again.
        self.node.drain(|to, octets| _ = self.socket.send_to(octets, to));
    }

    /// Takes in a datagram and reacts to it, or waits a millisecond for one. Says whether there was one.
    fn turn(&mut self) -> bool {
        let received = match self.socket.recv_from(&mut self.buffer) {
            Ok((length, from)) => {
                self.node.receive(from, &self.buffer[..length], self.began.elapsed());
                true
            }
            Err(error) => error.kind() == ErrorKind::Interrupted,
        };
        self.node.tick(self.began.elapsed());
        while let Some(event) = self.node.next_event() {
            self.react(event);
        }
        self.send();
        received
    }

    fn react(&mut self, event: Event) {
        match event {
            Event::Up(_) => self.is_up = true,
            Event::NotSetUp { .. } => _ = self.node.associate(self.peer, self.began.elapsed()),
            Event::Response { token, packet } => {
                self.under_way = self.under_way.saturating_sub(1);
                self.answered(token as u32, packet.message);
            }
            Event::Failed { why, .. } => {
                self.under_way = self.under_way.saturating_sub(1);
                *self.refused.entry(why.to_string()).or_default() += 1;
            }
            Event::Request { ticket, packet, .. } => {
                let ue = packet.header.seid.and_then(|seid| u32::try_from(seid.checked_sub(1)?).ok());
                if let (Some(ue), Message::SessionReportRequest(request)) = (ue, packet.message) {
                    self.add(ue, &request.usage_reports);
                    let seid = self.seids.get(&ue).copied().unwrap_or(0);
                    let response = SessionReportResponse { cause: Cause::REQUEST_ACCEPTED, ..Default::default() };
                    self.node.respond(ticket, Some(seid), response.into(), self.began.elapsed());
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, ue: u32, message: Message) {
        let cause = match message {
            Message::SessionEstablishmentResponse(response) => {
                if let Some(f_seid) = response.up_f_seid {
                    self.seids.insert(ue, f_seid.seid);
                }
                response.cause
            }
            Message::SessionDeletionResponse(response) => {
                self.add(ue, &response.usage_reports);
                response.cause
            }
            _ => return,
        };
        if !cause.is_acceptance() {
            *self.refused.entry(cause.to_string()).or_default() += 1;
        }
    }

    fn add(&mut self, ue: u32, reports: &[UsageReport]) {
        let usage = self.usage.entry(ue).or_default();
        for report in reports {
            match self.seen.insert((ue, report.urr_id.0, report.ur_seqn.0)) {
                true => usage.add(report),
                false => self.sent_again += 1,
            }
        }
    }
}

/// Triggers that the audit expects of a user plane, by name.
pub(crate) fn expected_triggers() -> Vec<&'static str> {
    (UsageReportTrigger::PERIO | UsageReportTrigger::VOLTH | UsageReportTrigger::TERMR).names().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pfcp::ie::VolumeMeasurement;

    #[test]
    fn usage_of_all_reports_adds_up() {
        let volume = VolumeMeasurement { uplink: Some(60), downlink: Some(20), ..Default::default() };
        let with_packets = VolumeMeasurement { uplink_packets: Some(3), downlink_packets: Some(1), ..volume };
        let mut usage = Usage::default();
        for (volume, trigger) in [(volume, UsageReportTrigger::PERIO), (with_packets, UsageReportTrigger::TERMR)] {
            let report = UsageReport {
                usage_report_trigger: trigger,
                volume_measurement: Some(volume),
                ..UsageReport::default()
            };
            usage.add(&report);
        }
        assert_eq!((usage.octets, usage.packets), ([120, 40], Some([3, 1])));
        assert_eq!(usage.reports.into_iter().collect::<Vec<_>>(), [("PERIO", 1), ("TERMR", 1)]);
        assert_eq!(expected_triggers().len(), 3);
    }
}
