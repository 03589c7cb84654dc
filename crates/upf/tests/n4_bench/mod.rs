//! A user plane between memory wires with its end of N4, and a control plane to talk to it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use frame::Caps;
use ledger::{Ledger, Pace};
use pfcp::control::{Kind, Profile, Session};
use pfcp::ie::{Cause, NodeId, OuterHeaderCreation, Qfi, RecoveryTimeStamp, UsageReportTrigger};
use pfcp::message::*;
use pfcp::{Header, Packet};
use serde::Deserialize as _;
use testkit::rig::{Clock, Memories, PortSpec, Rig};
use upf::assemble::assemble;
use upf::compile::Compiled;
use upf::config::{Config, ConfigError};
use upf::control::{Control, LIMITS};
use upf::gateway::UserPlane;
use upf::n4::N4;
use upf::n4::assemble::endpoint;
use upf::n4::endpoint::{Endpoint, Restored, Stored};
use upf::n4::metering::WallClock;
use upf::sessions::Room;
use wire::Teid;

/// The control plane's address.
pub const CP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 4, 9)), pfcp::PORT);
/// Commands that a worker's ring holds.
pub const COMMANDS: usize = 1024;
/// 2023.
const EPOCH: u64 = 1_700_000_000;

const BASE: &str = r#"
gateway = "upf"
frames = { packet_buffers = 2048, packet_buffer_bytes = 2048 }
route = [{ to = "0.0.0.0/0", next_hop = "10.0.6.254" }, { to = "::/0", next_hop = "fd00:6::254" }]
neighbour = [
  { port = "n3", address = "10.0.3.100", mac = "02:00:00:00:03:64" },
  { port = "n3", address = "10.0.3.101", mac = "02:00:00:00:03:65" },
  { port = "n6", address = "10.0.6.254", mac = "02:00:00:00:06:fe" },
  { port = "n6", address = "fd00:6::254", mac = "02:00:00:00:06:fe" },
]
port = [
  { name = "n3", uri = "memory:n3", role = "access", addresses = ["10.0.3.1/24", "fd00:3::1/64"] },
  { name = "n6", uri = "memory:n6", role = "core", addresses = ["10.0.6.1/24", "fd00:6::1/64"] },
]
n4.address = "10.0.4.1"
"#;

/// The bench.
pub struct Bench {
    rig: Rig<UserPlane>,
    control: Control,
    endpoint: Endpoint,
    clock: Clock,
    sequence: u32,
    /// What came from the user plane and was not asked for.
    unasked: Vec<Packet>,
    /// All it has ever said.
    said: Vec<Vec<u8>>,
    /// Control planes that answer heartbeats, with their Recovery Time Stamps.
    alive: HashMap<IpAddr, RecoveryTimeStamp>,
    /// Those that associate are among them.
    answers: bool,
    /// Its configuration, without the lines beside the usual ones.
    base: String,
}

fn parsed(base: &str, more: &str) -> Config {
    // Heartbeats would come between, where they are not what it is about.
    let quiet = if more.contains("heartbeat_seconds") { "" } else { "n4.heartbeat_seconds = 0\n" };
    let table: toml::Table = format!("{base}{quiet}{more}\n").parse().expect("TOML");
    Config::deserialize(table).expect("a configuration")
}

/// A tunnel's far end.
pub fn access(address: Ipv4Addr, teid: u32) -> OuterHeaderCreation {
    OuterHeaderCreation::gtp_u(Teid(teid), Some(address), None)
}

/// What an SMF asks for.
pub fn smf() -> Profile {
    Profile { kind: Kind::Smf, dnn: "internet".into(), qfi: Some(Qfi(9)), ..Profile::default() }
}

/// Volumes and triggers of a report.
pub fn usage_of(report: &SessionReportRequest) -> Vec<(u64, UsageReportTrigger)> {
    let one = |usage: &pfcp::group::UsageReport| {
        (usage.volume_measurement.and_then(|v| v.total).unwrap_or(0), usage.usage_report_trigger)
    };
    report.usage_reports.iter().map(one).collect()
}

impl Bench {
    /// With lines beside the usual ones in its configuration; a control plane is associated.
    pub fn new(more: &str) -> Self {
        let mut bench = Self::without_peer(more);
        bench.associate(0);
        bench
    }

    /// As [`new`](Self::new), without the control plane.
    pub fn without_peer(more: &str) -> Self {
        Self::made(BASE, more, None).0
    }

    /// As [`new`](Self::new), where N6's network has a name: `internet`.
    pub fn with_named_core(more: &str) -> Self {
        let base = BASE.replace(r#"role = "core""#, r#"role = "core", instance = "internet""#);
        let routed = base.replace("{ to = ", r#"{ instance = "internet", to = "#);
        let mut bench = Self::made(&routed, more, None).0;
        bench.associate(0);
        bench
    }

    /// As [`without_peer`](Self::without_peer), with what a ledger kept; tells what that was.
    pub fn on_ledger(more: &str, folder: &std::path::Path) -> (Self, Restored) {
        Self::made(BASE, more, Some(folder))
    }

    /// With a configuration of its own, with ports `n3` and `n6`; no control plane is associated.
    pub fn configured(text: &str) -> Self {
        Self::made(text, "", None).0
    }

    fn made(base: &str, more: &str, folder: Option<&std::path::Path>) -> (Self, Restored) {
        let config = parsed(base, more);
        let mac = |side| [2, 0, 0, 0, side, 1];
        let ports = [
            PortSpec { name: "n3".into(), mac: mac(3), on: None },
            PortSpec { name: "n6".into(), mac: mac(6), on: None },
        ];
        let caps = ports.iter().map(|port| Caps { kind: "memory", mac: port.mac, mtu: 1500, ..Caps::default() });
        let (mut control, mut seats) = assemble(&config, &caps.collect::<Vec<_>>()).expect("a gateway");
        let mut seat = seats.pop().expect("one worker");
        let clock = Clock::at(1);
        let memory = Memories { slots: config.frames.packet_buffers, slot_bytes: config.frames.packet_buffer_bytes };
        let wall = WallClock { now: 1, epoch_ns: EPOCH * 1_000_000_000 };
        let kept = folder.map(|folder| Ledger::open(folder).expect("a ledger"));
        let began = kept.as_ref().and_then(|ledger| ledger.status().expect("readable").recovery);
        let mut endpoint = endpoint(&config, &wall, began).expect("N4 is configured");
        let restored = kept.map_or(Restored::default(), |ledger| {
            let sessions = seat.plane.sessions_mut();
            let mut install = |_: u16, handle: u32, session: &Compiled| sessions.install(handle, session, 1).is_ok();
            let (stored, places) = Stored::read(&ledger).expect("readable");
            let writer = Arc::new(ledger.writer_after(places, Pace::default(), |_| {}).expect("nobody else writes"));
            endpoint.restore(stored, writer, &mut control, &wall, &mut install)
        });
        let rig = Rig::new(seat.plane, seat.layout, &ports, memory, &clock);
        let mut bench = Self {
            rig,
            control,
            endpoint,
            clock,
            sequence: 0,
            unasked: Vec::new(),
            said: Vec::new(),
            alive: HashMap::new(),
            answers: !more.contains("heartbeat_seconds"),
            base: base.to_owned(),
        };
        bench.unasked = bench.settle();
        bench.received("n3");
        bench.received("n6");
        (bench, restored)
    }

    /// Reads its configuration again, with other lines beside the usual ones.
    ///
    /// # Errors
    /// It is refused: nothing has changed.
    pub fn reload(&mut self, more: &str) -> Result<(), ConfigError> {
        let config = parsed(&self.base, more);
        config.check()?;
        let change = self.control.prepare(&config, &[&LIMITS[..], &["nat.pool"]].concat())?;
        self.endpoint.check_reconfiguration(&config, &self.control.public_ranges(&change))?;
        self.control.apply(change);
        let wall = self.wall();
        self.endpoint.reconfigure(&config, &mut self.control, &wall);
        let sent = self.settle();
        self.unasked.extend(sent);
        Ok(())
    }

    fn wall(&self) -> WallClock {
        WallClock { now: self.clock.now(), epoch_ns: EPOCH * 1_000_000_000 }
    }

    /// Runs until nothing moves; what the endpoint sends is parsed.
    pub fn settle(&mut self) -> Vec<Packet> {
        let wall = self.wall();
        let (mut sent, mut spins) = (Vec::new(), 0);
        let (control, endpoint, said) = (&mut self.control, &mut self.endpoint, &mut self.said);
        let alive = &self.alive;
        self.rig.settle(|_, now| {
            control.poll(now);
            endpoint.turn(control, &wall);
            let before = sent.len();
            let mut heartbeats = Vec::new();
            endpoint.drain(|to, datagram| {
                said.push(datagram.to_vec());
                let packet = Packet::parse(datagram).expect("the endpoint speaks PFCP");
                match (&packet.message, alive.get(&to.ip())) {
                    (Message::HeartbeatRequest(_), Some(stamp)) => heartbeats.push((to, packet.header, *stamp)),
                    _ => sent.push(packet),
                }
            });
            let is_probed = !heartbeats.is_empty();
            for (from, header, recovery_time_stamp) in heartbeats {
                let message = HeartbeatResponse { recovery_time_stamp, ..Default::default() }.into();
                endpoint.receive(from, &Packet { header, message }.to_vec().expect("fits"), control, &wall);
            }
            spins = if endpoint.is_waiting() { spins + 1 } else { 0 };
            if spins > 64 {
                // For the disk; the worker would have answered.
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
            sent.len() > before || is_probed || endpoint.is_waiting()
        });
        sent
    }

    /// The time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.clock.now()
    }

    /// When control has something to do next, if nothing comes before.
    pub fn next_deadline(&self) -> Option<u64> {
        [self.control.next_deadline(), self.endpoint.next_deadline()].into_iter().flatten().min()
    }

    /// What came from the user plane and was not asked for, and is not taken yet.
    pub fn heard(&self) -> &[Packet] {
        &self.unasked
    }

    /// Turns the clock.
    pub fn turn_to(&mut self, ns: u64) {
        self.clock.turn_to(ns);
        let sent = self.settle();
        self.unasked.extend(sent);
    }

    /// Hands in a datagram; returns what was sent then.
    pub fn datagram(&mut self, octets: &[u8]) -> Vec<Packet> {
        self.datagram_from(CP, octets)
    }

    /// As [`datagram`](Self::datagram), from another control plane.
    pub fn datagram_from(&mut self, from: SocketAddr, octets: &[u8]) -> Vec<Packet> {
        if let Ok(Packet { message: Message::AssociationSetupRequest(request), .. }) = Packet::parse(octets)
            && self.answers
        {
            self.alive.insert(from.ip(), request.recovery_time_stamp);
        }
        self.forged_from(from, octets)
    }

    /// As [`datagram_from`](Self::datagram_from), by somebody else who writes that address into it.
    pub fn forged_from(&mut self, from: SocketAddr, octets: &[u8]) -> Vec<Packet> {
        let wall = self.wall();
        self.endpoint.receive(from, octets, &mut self.control, &wall);
        self.settle()
    }

    /// A control plane that answers heartbeats with that Recovery Time Stamp, or answers none.
    pub fn answer_heartbeats(&mut self, address: IpAddr, stamp: Option<RecoveryTimeStamp>) {
        match stamp {
            Some(stamp) => self.alive.insert(address, stamp),
            None => self.alive.remove(&address),
        };
    }

    /// The endpoint under test, to look at.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Says something and returns the answer.
    pub fn say(&mut self, seid: Option<u64>, message: Message) -> Packet {
        self.say_from(CP, seid, message)
    }

    /// As [`say`](Self::say), by another control plane.
    pub fn say_from(&mut self, from: SocketAddr, seid: Option<u64>, message: Message) -> Packet {
        self.sequence += 1;
        let header = Header { seid, sequence: self.sequence, ..Header::default() };
        let sent = self.datagram_from(from, &Packet { header, message }.to_vec().expect("fits"));
        let (mut answers, others) = sent.into_iter().partition::<Vec<_>, _>(|packet| !packet.message.is_request());
        self.unasked.extend(others);
        assert_eq!(answers.len(), 1, "one answer: {answers:?}");
        answers.remove(0)
    }

    /// As [`say_from`](Self::say_from), and the answer may take up to ten seconds.
    pub fn say_patiently(&mut self, from: SocketAddr, message: Message) -> Packet {
        self.sequence += 1;
        let header = Header { seid: None, sequence: self.sequence, ..Header::default() };
        let mut sent = self.datagram_from(from, &Packet { header, message }.to_vec().expect("fits"));
        let is_answer = |packet: &Packet| !packet.message.is_request() && packet.header.sequence == header.sequence;
        for _ in 0..10 {
            if let Some(at) = sent.iter().position(is_answer) {
                let answer = sent.remove(at);
                self.unasked.extend(sent);
                return answer;
            }
            self.unasked.extend(sent);
            self.clock.turn_to(self.clock.now() + 1_000_000_000);
            sent = self.settle();
        }
        panic!("no answer within ten seconds")
    }

    /// Sets up the association, by a control plane that began at `started`.
    pub fn associate(&mut self, started: u64) {
        self.associate_from(CP, started);
    }

    /// As [`associate`](Self::associate), by another control plane.
    pub fn associate_from(&mut self, from: SocketAddr, started: u64) {
        let request = AssociationSetupRequest {
            node_id: NodeId::from(from.ip()),
            recovery_time_stamp: RecoveryTimeStamp::from_unix(EPOCH + started / 1_000_000_000),
            ..AssociationSetupRequest::default()
        };
        match self.say_from(from, None, request.into()).message {
            Message::AssociationSetupResponse(response) => assert_eq!(response.cause, Cause::REQUEST_ACCEPTED),
            other => panic!("no association: {other:?}"),
        }
        self.settle();
    }

    /// Brings up a session.
    pub fn establish(&mut self, session: &Session, profile: &Profile) -> SessionEstablishmentResponse {
        let request = session.establish(profile, &NodeId::from(CP.ip()), CP.ip());
        match self.say(Some(0), request.into()) {
            Packet { header, message: Message::SessionEstablishmentResponse(response) } => {
                assert_eq!(header.seid, Some(session.cp_seid));
                response
            }
            other => panic!("no answer: {other:?}"),
        }
    }

    /// Changes a session.
    pub fn modify(&mut self, session: &Session, request: SessionModificationRequest) -> SessionModificationResponse {
        let seid = session.up_f_seid.expect("it is up").seid;
        match self.say(Some(seid), request.into()) {
            Packet { header, message: Message::SessionModificationResponse(response) } => {
                assert_eq!(header.seid, Some(session.cp_seid));
                response
            }
            other => panic!("no answer: {other:?}"),
        }
    }

    /// Asks for many things of a session before its worker has a turn; the answers, in the order of the requests.
    pub fn say_together(&mut self, session: &Session, messages: Vec<Message>) -> Vec<Packet> {
        for message in messages {
            self.hear(session, message);
        }
        self.answers()
    }

    /// Something is asked of a session, and its worker has no turn yet.
    pub fn hear(&mut self, session: &Session, message: Message) {
        self.sequence += 1;
        let seid = session.up_f_seid.map(|up| up.seid);
        self.hear_packet(Packet { header: Header { seid, sequence: self.sequence, ..Header::default() }, message });
    }

    /// As [`hear`](Self::hear), with its header: an answer.
    pub fn hear_packet(&mut self, packet: Packet) {
        self.hear_from(CP, packet);
    }

    /// As [`hear_packet`](Self::hear_packet), from another control plane.
    pub fn hear_from(&mut self, from: SocketAddr, packet: Packet) {
        let wall = self.wall();
        self.endpoint.receive(from, &packet.to_vec().expect("fits"), &mut self.control, &wall);
    }

    /// The worker has its turns; what it was asked for, answered in the order of the requests.
    pub fn answers(&mut self) -> Vec<Packet> {
        let sent = self.settle();
        let (mut answers, others) = sent.into_iter().partition::<Vec<_>, _>(|packet| !packet.message.is_request());
        self.unasked.extend(others);
        answers.sort_by_key(|answer| answer.header.sequence);
        answers
    }

    /// Turns the clock and has control see to what is due; its worker has no turn before what is said next.
    pub fn due_at(&mut self, ns: u64) {
        self.clock.turn_to(ns);
        let wall = self.wall();
        self.control.poll(ns);
        self.endpoint.turn(&mut self.control, &wall);
    }

    /// Something about no session is asked, and the worker has no turn yet.
    pub fn hear_node(&mut self, message: Message) {
        self.sequence += 1;
        self.hear_packet(Packet { header: Header::node(self.sequence), message });
    }

    /// As [`hear_node`](Self::hear_node), and the control plane answers the heartbeat that confirms it.
    pub fn hear_confirmed(&mut self, message: Message) {
        self.hear_node(message);
        let (wall, alive) = (self.wall(), &self.alive);
        let mut answers = Vec::new();
        self.endpoint.drain(|to, datagram| {
            let Packet { header, message } = Packet::parse(datagram).expect("the endpoint speaks PFCP");
            if let (Message::HeartbeatRequest(_), Some(stamp)) = (message, alive.get(&to.ip())) {
                let response = HeartbeatResponse { recovery_time_stamp: *stamp, ..Default::default() };
                answers.push((to, Packet { header, message: response.into() }.to_vec().expect("fits")));
            }
        });
        for (from, answer) in answers {
            self.endpoint.receive(from, &answer, &mut self.control, &wall);
        }
    }

    /// The worker's command ring is full: as many questions as there is room for come before what it is asked next. Returns
    /// how many that was.
    pub fn keep_busy(&mut self) -> usize {
        (0..).take_while(|_| self.control.measure(0, u32::MAX).is_ok()).count()
    }

    /// The worker's sessions have no more memory than that.
    pub fn set_room(&mut self, room: Room) {
        self.rig.gateway_mut().sessions_mut().set_room(room);
    }

    /// Takes a session down.
    pub fn delete(&mut self, session: &Session) -> SessionDeletionResponse {
        let seid = session.up_f_seid.expect("it is up").seid;
        match self.say(Some(seid), SessionDeletionRequest::default().into()).message {
            Message::SessionDeletionResponse(response) => response,
            other => panic!("no answer: {other:?}"),
        }
    }

    /// GTP-U datagrams sent from the N4 address since the last call.
    pub fn gtpu_sent(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut sent = Vec::new();
        self.endpoint.drain_gtpu(|to, datagram| sent.push((to, datagram.to_vec())));
        sent
    }

    /// A GTP-U datagram comes to the N4 address.
    pub fn gtpu_from(&mut self, from: SocketAddr, datagram: &[u8]) {
        let wall = self.wall();
        self.endpoint.receive_gtpu(from, datagram, &mut self.control, &wall);
        let sent = self.settle();
        self.unasked.extend(sent);
    }

    /// There is no GTP-U socket at the N4 address.
    pub fn close_control_path(&mut self) {
        self.endpoint.close_control_path();
    }

    /// What happened to associations, as the operator reads it.
    pub fn news(&self) -> Vec<String> {
        self.endpoint.news().map(|news| news.what.clone()).collect()
    }

    /// The operator wants it empty within a minute, or takes that back.
    pub fn drain(&mut self, on: bool) {
        let wall = self.wall();
        self.endpoint.set_draining(on, std::time::Duration::from_secs(60), &wall);
        let sent = self.settle();
        self.unasked.extend(sent);
    }

    /// What came from the user plane and was not asked for.
    pub fn unasked(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.unasked)
    }

    /// A packet comes in.
    pub fn send(&mut self, port: &str, packet: &[u8]) {
        self.rig.wire(port).send(packet);
        let sent = self.settle();
        self.unasked.extend(sent);
    }

    /// So many of the same come in at once.
    pub fn send_many(&mut self, port: &str, packet: &[u8], count: usize) {
        let wire = self.rig.wire(port);
        (0..count).for_each(|_| wire.send(packet));
        let sent = self.settle();
        self.unasked.extend(sent);
    }

    /// As [`send_many`](Self::send_many), while control is at something else.
    pub fn send_unheard(&mut self, port: &str, packet: &[u8], count: usize) {
        let wire = self.rig.wire(port);
        (0..count).for_each(|_| wire.send(packet));
        self.rig.settle(|_, _| false);
    }

    /// Packets that went out since the last call.
    pub fn received(&mut self, port: &str) -> Vec<Vec<u8>> {
        self.rig.wire(port).received()
    }

    /// Session reports since the last call; each is answered.
    pub fn reports(&mut self) -> Vec<SessionReportRequest> {
        self.reports_answered(|_| {})
    }

    /// As [`reports`](Self::reports), with more in the answers.
    pub fn reports_answered(&mut self, more: impl Fn(&mut SessionReportResponse)) -> Vec<SessionReportRequest> {
        let mut reports = Vec::new();
        for Packet { header, message } in std::mem::take(&mut self.unasked) {
            let Message::SessionReportRequest(report) = message else { continue };
            reports.push(report);
            let mut response = SessionReportResponse { cause: Cause::REQUEST_ACCEPTED, ..Default::default() };
            more(&mut response);
            let seid = self.endpoint.sessions().store().iter().find_map(|(number, entry)| {
                (Some(entry.cp_seid) == header.seid).then(|| self.endpoint.sessions().store().seid(number)).flatten()
            });
            let header = Header { seid: Some(seid.unwrap_or(0)), ..header };
            let answer = Packet { header, message: response.into() }.to_vec().expect("fits");
            let sent = self.datagram(&answer);
            self.unasked.extend(sent);
        }
        reports
    }

    /// Node reports since the last call; each is answered.
    pub fn node_reports(&mut self) -> Vec<NodeReportRequest> {
        let (reports, others) = std::mem::take(&mut self.unasked)
            .into_iter()
            .partition::<Vec<_>, _>(|packet| matches!(packet.message, Message::NodeReportRequest(_)));
        self.unasked = others;
        let mut told = Vec::new();
        for Packet { header, message } in reports {
            let Message::NodeReportRequest(report) = message else { continue };
            told.push(report);
            let node_id = NodeId::from(CP.ip());
            let response = NodeReportResponse { node_id, cause: Cause::REQUEST_ACCEPTED, ..Default::default() };
            let sent = self.datagram(&Packet { header, message: response.into() }.to_vec().expect("fits"));
            self.unasked.extend(sent);
        }
        told
    }

    /// All that the user plane has ever said, as octets.
    pub fn said(&self) -> &[Vec<u8>] {
        &self.said
    }

    /// The sessions as control keeps them.
    pub fn sessions(&self) -> &N4 {
        self.endpoint.sessions()
    }

    /// Associations: their numbers and where their requests go.
    pub fn associations(&self) -> impl Iterator<Item = (u32, SocketAddr)> + '_ {
        self.endpoint.node().associations().map(|(id, association)| (id.0, association.address))
    }

    /// Whether there is an association of that number.
    pub fn is_associated(&self, id: u32) -> bool {
        self.endpoint.node().association(pfcp::node::AssociationId(id)).is_some()
    }

    /// What a worker of several is asked to steer a packet by.
    pub fn steer_key(&self, port: u8, packet: &[u8]) -> Option<engine::SteerKey> {
        use engine::Gateway as _;
        self.rig.gateway().steer_key(port, packet)
    }

    /// Packets dropped so far: where, why, how many.
    pub fn drops(&self) -> Vec<(String, &'static str, u64)> {
        self.rig.stats().drops().into_iter().map(|(at, why, packets, _)| (at, why.name(), packets)).collect()
    }

    /// Sessions on the worker.
    pub fn worker_sessions(&self) -> usize {
        self.rig.gateway().sessions().len()
    }

    /// Ends it as an operator does: what was counted is written down.
    pub fn stop(mut self) {
        let (wall, now) = (self.wall(), self.clock.now());
        let sessions = self.rig.gateway().sessions();
        self.endpoint.close(&wall, &mut |_, handle| sessions.usage(handle, now));
        self.close();
    }

    /// Ends it; the conservation laws hold.
    pub fn close(self) {
        self.rig.close().expect("nothing is missing");
    }
}
