//! How fast control planes can bring sessions up, while traffic runs: `pfcp-sessions`.
//!
//! One core does everything here: it reads the requests, compiles the rules, has the worker take them in, carries packets
//! of a running subscriber, and writes the answers; only the pages of what grows are made present by another thread, as in
//! a gateway that runs ([`pages::prepare_growth`]). Requests are made beforehand; sockets are left out, for the kernel's
//! part is the same for all.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use engine::{Idle, Time, Tsc, Worker, WorkerConfig};
use frame::{Arena, ArenaConfig, Caps, Pool, Port};
use ledger::{Ledger, LedgerError, Pace};
use pfcp::control::{Profile, Session};
use pfcp::ie::{Mbr, NodeId, OuterHeaderCreation, Qfi, RecoveryTimeStamp};
use pfcp::message::{AssociationSetupRequest, Message};
use pfcp::{Header, Packet};
use port::memory::{Memory, Wire};
use schemars::JsonSchema;
use serde::{Deserialize as _, Serialize};
use upf::assemble::assemble;
use upf::compile::Compiled;
use upf::config::Config;
use upf::control::Control;
use upf::gateway::UserPlane;
use upf::n4::endpoint::{self, Endpoint};
use upf::n4::metering::WallClock;
use wire::Teid;

use crate::error::BenchError;
use crate::experiment::{Progress, Steps};
use crate::host::CpuTime;
use crate::noise::{Gathered, Noise, ThreadNoise};
use crate::text::{Table, bytes, count};

const CP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 4, 9)), pfcp::PORT);
const GNB: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 100);
/// Time between two packets of the running subscriber: 100,000 a second, 91 Mbit/s.
const PACKET_NS: u64 = 10_000;
/// Sessions that come a second, and as many that go, while it is seen whether the running subscriber loses a packet.
const CHURN: u32 = 5_000;
/// What a session may send and receive, in kbit/s.
const RATE: Mbr = Mbr { uplink: 1_000_000, downlink: 1_000_000 };
const FIRST_UE: u32 = 0x0a2d_0001; // 10.45.0.1

const CONFIG: &str = r#"
gateway = "upf"
frames = { packet_buffers = 4096, packet_buffer_bytes = 2048 }
route = [{ to = "0.0.0.0/0", next_hop = "10.0.6.254" }]
neighbour = [
  { port = "n3", address = "10.0.3.100", mac = "02:00:00:00:03:64" },
  { port = "n6", address = "10.0.6.254", mac = "02:00:00:00:06:fe" },
]
port = [
  { name = "n3", uri = "memory:n3", role = "access", addresses = ["10.0.3.1/24"] },
  { name = "n6", uri = "memory:n6", role = "core", addresses = ["10.0.6.1/24"] },
]
n4 = { address = "10.0.4.1", heartbeat_seconds = 0, sessions = 4_000_000, messages_per_second = 4_000_000 }
"#;

/// What was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PfcpSessions {
    /// Sessions brought up.
    pub sessions: u32,
    /// PDRs of each.
    pub pdrs: usize,
    /// Sessions brought up a second, as fast as one core can.
    pub sessions_per_second: f64,
    /// Bytes a session takes in all: its record and keys on the worker, its rules and accounts at control.
    pub bytes_per_session: f64,
    /// Time from request to answer when half as many come a second.
    pub response_ms: Response,
    /// Packets of a running subscriber meanwhile: more requests come than one core can answer, so that packets wait.
    pub traffic: Traffic,
    /// The same while 5,000 sessions come and 5,000 go a second, below what the core can do.
    pub churn: Traffic,
    /// Sessions that end a second, as fast as one core can.
    pub deletions_per_second: f64,
    /// Sessions brought up so that each is on the disk before it is acknowledged.
    pub stored_sessions: u32,
    /// How many of those a second.
    pub stored_sessions_per_second: f64,
    /// Sessions that were so kept, and were there again after a restart.
    pub restored_sessions: usize,
    /// From nothing to the first packet through one of them.
    pub restore_seconds: f64,
    /// What disturbed it, from the first session to the last packet.
    pub noise: Noise,
}

/// Time from request to answer, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Response {
    /// Half of them are answered by then.
    pub p50: f64,
    /// 99 in 100 are.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// Packets of a running subscriber.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Traffic {
    /// Offered to the gateway.
    pub sent: u64,
    /// Carried by it.
    pub received: u64,
    /// Lost.
    pub lost: u64,
    /// Why, by the gateway's counters.
    pub drops: BTreeMap<String, u64>,
}

/// The gateway with its control, turned by hand on one thread.
struct Plant {
    worker: Worker<UserPlane>,
    control: Control,
    endpoint: Endpoint,
    time: Time,
    n3: Wire,
    n6: Wire,
    traffic: Traffic,
    /// Packets dropped when [`Plant::traffic`] looked last.
    dropped: BTreeMap<String, u64>,
    packet: Vec<u8>,
    /// When the next packet of the running subscriber is due.
    next_packet: u64,
    answered: Vec<(u32, bool, u64)>,
    /// Control planes: requests are theirs in turn.
    peers: Vec<SocketAddr>,
}

impl Plant {
    /// With the sessions a ledger in that folder keeps, if there is one; and how many they were.
    fn new(folder: Option<&Path>) -> Result<(Self, usize), BenchError> {
        let wrong = |what: String| BenchError::system("making the user plane", std::io::Error::other(what));
        let table: toml::Table = CONFIG.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        let config = Config::deserialize(table).map_err(|error| wrong(error.to_string()))?;
        let mac = |side| [2, 0, 0, 0, side, 1];
        let caps = [3, 6].map(|side| Caps { kind: "memory", mac: mac(side), mtu: 1500, ..Caps::default() });
        let (mut control, mut seats) = assemble(&config, &caps).map_err(|error| wrong(error.to_string()))?;
        let mut seat = seats.pop().ok_or_else(|| wrong("no worker".into()))?;
        let slots = config.frames.packet_buffers;
        let shape = ArenaConfig { slots, slot_bytes: config.frames.packet_buffer_bytes, headroom: frame::HEADROOM };
        let arena = Arena::new(shape).map_err(|error| BenchError::system("packet memory", error))?;
        let (n3, n6) = (Wire::default(), Wire::default());
        let door = |name: &str, side, wire: &Wire| -> Box<dyn Port> { Box::new(Memory::new(name, mac(side), wire)) };
        let doors = vec![door("n3", 3, &n3), door("n6", 6, &n6)];
        let time = Time::real();
        let run = WorkerConfig { time: time.clone(), idle: Idle::POLL, ..WorkerConfig::default() };
        let clock = WallClock { now: time.now_ns(<Tsc as engine::Clock>::cycles()), epoch_ns: 0 };
        let kept = folder.map(Ledger::open).transpose().map_err(|error| wrong(error.to_string()))?;
        let began = kept.as_ref().and_then(|ledger| ledger.status().ok()?.recovery);
        let endpoint = upf::n4::assemble::endpoint(&config, &clock, began);
        let mut endpoint = endpoint.ok_or_else(|| wrong("no N4".into()))?;
        let mut restored = 0;
        if let Some(ledger) = kept {
            let read = || {
                let (stored, places) = endpoint::Stored::read(&ledger)?;
                Ok((stored, Arc::new(ledger.writer_after(places, Pace::default(), |_| {})?)))
            };
            let (stored, writer) = read().map_err(|error: LedgerError| wrong(error.to_string()))?;
            let sessions = seat.plane.sessions_mut();
            sessions.reserve(stored.sessions());
            let mut install =
                |_: u16, handle: u32, session: &Compiled| sessions.install(handle, session, clock.now).is_ok();
            restored = endpoint.restore(stored, writer, &mut control, &clock, &mut install).sessions;
        }
        let worker = Worker::new(seat.plane, seat.layout, Pool::new(&arena, slots as usize), doors, run);
        let (traffic, packet, answered) = (Traffic::default(), downlink_packet(FIRST_UE), Vec::new());
        let next_packet = clock.now;
        let dropped = BTreeMap::new();
        let peers = vec![CP];
        let plant =
            Self { worker, control, endpoint, time, n3, n6, traffic, dropped, packet, next_packet, answered, peers };
        Ok((plant, restored))
    }

    fn now(&self) -> u64 {
        self.time.now_ns(<Tsc as engine::Clock>::cycles())
    }

    fn associate(&mut self) {
        for peer in self.peers.clone() {
            let hello = AssociationSetupRequest {
                node_id: NodeId::from(peer.ip()),
                recovery_time_stamp: RecoveryTimeStamp::from_unix(1_700_000_000),
                ..AssociationSetupRequest::default()
            };
            let hello = Packet { header: Header::node(1), message: hello.into() }.to_vec().unwrap_or_default();
            self.say(peer, &hello);
        }
    }

    fn say(&mut self, peer: SocketAddr, octets: &[u8]) {
        let clock = WallClock { now: self.now(), epoch_ns: 0 };
        self.endpoint.receive(peer, octets, &mut self.control, &clock);
    }

    /// A turn of everything; answers are noted with the time they left at.
    fn turn(&mut self, with_traffic: bool) {
        // As many packets as are due; what a busy core comes late for is made up for, a burst a turn.
        let now = self.now();
        for _ in 0..frame::BURST {
            if !with_traffic || now < self.next_packet {
                break;
            }
            self.n6.send(self.packet.clone());
            self.traffic.sent += 1;
            self.next_packet += PACKET_NS;
        }
        self.worker.turn();
        let clock = WallClock { now: self.now(), epoch_ns: 0 };
        self.control.poll(clock.now);
        self.endpoint.turn(&mut self.control, &clock);
        let answered = &mut self.answered;
        self.endpoint.drain(|_, datagram| answered.extend(answer(datagram).map(|(n, ok)| (n, ok, clock.now))));
        self.traffic.received += self.n3.received().len() as u64;
    }

    /// What became of the running subscriber's packets since the last time, those under way included.
    fn traffic(&mut self) -> Traffic {
        (0..100).for_each(|_| self.turn(false));
        let mut traffic = std::mem::take(&mut self.traffic);
        traffic.lost = traffic.sent.saturating_sub(traffic.received);
        let dropped: Vec<_> = self.worker.env().stats.view().drops();
        let mut before = std::mem::take(&mut self.dropped);
        for (stage, reason, packets, _) in dropped {
            let key = format!("{stage} {}", reason.name());
            let new = packets - before.remove(&key).unwrap_or(0);
            if new > 0 {
                traffic.drops.insert(key.clone(), new);
            }
            self.dropped.insert(key, packets);
        }
        self.next_packet = self.now();
        traffic
    }

    /// Says requests as they come due (`gap_ns` apart; 0: as fast as possible), until all are answered. Returns the time
    /// it took and the time each waited.
    fn play(
        &mut self,
        requests: &[Vec<u8>],
        gap_ns: u64,
        stop: &AtomicBool,
    ) -> Result<(Duration, Vec<u64>), BenchError> {
        /// Requests under way at a time, at most.
        const WINDOW: usize = 256;
        self.answered.clear();
        self.answered.reserve(requests.len());
        let mut asked = Vec::with_capacity(requests.len());
        let begun = Instant::now();
        let start = self.now();
        while self.answered.len() < requests.len() {
            if stop.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            if begun.elapsed() > Duration::from_secs(120) {
                return Err(BenchError::Died("run of session requests"));
            }
            for _ in 0..32 {
                let (next, now) = (asked.len(), self.now());
                let due = start + next as u64 * gap_ns;
                if next == requests.len() || now < due || next - self.answered.len() >= WINDOW {
                    break;
                }
                // Late is late: a request waits from when it was due.
                asked.push(if gap_ns > 0 { due } else { now });
                self.say(self.peers[next % self.peers.len()], &requests[next]);
            }
            self.turn(true);
        }
        let took = begun.elapsed();
        if let Some((n, _, _)) = self.answered.iter().find(|(_, accepted, _)| !accepted) {
            let what = format!("request {n} was refused");
            return Err(BenchError::system("session requests", std::io::Error::other(what)));
        }
        let first = sequence(&requests[0]);
        let waited = self.answered.iter().map(|(n, _, at)| at.saturating_sub(asked[(n - first) as usize]));
        Ok((took, waited.collect()))
    }
}

/// The sequence number of a response, and whether it accepts.
fn answer(datagram: &[u8]) -> Option<(u32, bool)> {
    let packet = Packet::parse(datagram).ok()?;
    let cause = match packet.message {
        Message::SessionEstablishmentResponse(response) => response.cause,
        Message::SessionDeletionResponse(response) => response.cause,
        Message::SessionModificationResponse(response) => response.cause,
        _ => return None,
    };
    Some((packet.header.sequence, cause.is_acceptance()))
}

fn sequence(message: &[u8]) -> u32 {
    Packet::parse(message).map_or(0, |packet| packet.header.sequence)
}

/// A UDP packet from the data network to a subscriber, 128 bytes.
fn downlink_packet(ue: u32) -> Vec<u8> {
    let mut packet = vec![0; 14 + 114];
    packet[..14].copy_from_slice(&[2, 0, 0, 0, 6, 1, 2, 0, 0, 0, 6, 0xfe, 8, 0]);
    let ip = &mut packet[14..];
    ip[..10].copy_from_slice(&[0x45, 0, 0, 114, 0, 0, 0x40, 0, 64, 17]);
    ip[12..16].copy_from_slice(&[198, 51, 100, 7]);
    ip[16..20].copy_from_slice(&ue.to_be_bytes());
    let sum = wire::checksum::of(&ip[..20]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip[20..28].copy_from_slice(&[0xc3, 0x50, 0x9c, 0x40, 0, 94, 0, 0]);
    packet
}

/// The requests that bring up sessions `first..first + count`, connected at once.
fn establishments(first: u32, count: u32) -> Vec<Vec<u8>> {
    (first..first + count).map(|n| established(n, n + 2, RATE)).collect()
}

/// A control plane, by its number.
fn peer(n: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from(0x0a00_0509 + u32::from(n)).into(), pfcp::PORT)
}

/// What one gateway's core did for its control planes.
pub(crate) struct Established {
    /// When the first request came, and when the last was answered, of those as fast as possible.
    pub time: (Instant, Instant),
    /// Sessions established between the two.
    pub sessions: u32,
    /// Milliseconds from request to answer at half the rate, sorted.
    pub waited_ms: Vec<f64>,
    /// What kept the gateway from its CPU while they were established.
    pub noise: ThreadNoise,
    /// The part of the processors' time that the hypervisor took meanwhile.
    pub steal_ratio: f64,
}

/// Brings sessions up for so many control planes in turn: half of them as fast as can be, half at half of that rate.
/// `start` is where gateways wait for each other.
///
/// # Errors
/// When memory is short, or a request is refused.
pub(crate) fn establish(
    sessions: u32,
    control_planes: u16,
    start: &Barrier,
    stop: &AtomicBool,
) -> Result<Established, BenchError> {
    let half = (sessions / 2).max(1);
    let peers: Vec<SocketAddr> = (0..control_planes.max(1)).map(peer).collect();
    let by = |n: u32| peers[((n - 1) as usize) % peers.len()];
    let requests = |first: u32| -> Vec<Vec<u8>> {
        // Each list begins with the first control plane.
        (0..half).map(|n| established_by(by(n + 1), first + n, first + n + 2, RATE)).collect()
    };
    let (fast, paced, plant) = (requests(1), requests(1 + half), Plant::new(None));
    start.wait();
    let (mut plant, _) = plant?;
    plant.peers.clone_from(&peers);
    plant.associate();
    let (begun, cpu, noise) = (Instant::now(), CpuTime::now(), ThreadNoise::now());
    let (took, _) = plant.play(&fast, 0, stop)?;
    let (noise, steal_ratio) = (ThreadNoise::now().since(&noise), CpuTime::now().since(&cpu).0);
    let rate = f64::from(half) / took.as_secs_f64();
    let (_, waited) = plant.play(&paced, (2e9 / rate) as u64, stop)?;
    let mut waited_ms: Vec<f64> = waited.into_iter().map(|ns| ns as f64 / 1e6).collect();
    waited_ms.sort_by(f64::total_cmp);
    plant.worker.close();
    Ok(Established { time: (begun, begun + took), sessions: half, waited_ms, noise, steal_ratio })
}

/// The request for session `n`, with a rate in kbit/s.
fn established(n: u32, sequence: u32, rate: Mbr) -> Vec<u8> {
    established_by(CP, n, sequence, rate)
}

/// The same of a control plane.
fn established_by(peer: SocketAddr, n: u32, sequence: u32, rate: Mbr) -> Vec<u8> {
    let profile = Profile {
        dnn: "internet".into(),
        qfi: Some(Qfi(9)),
        maximum_bitrate: Some(rate),
        volume_threshold: Some(100 << 20),
        control_tunnel: Some(tunnel(0x00ff_ffff)),
        ..Profile::default()
    };
    let session = Session {
        cp_seid: u64::from(n) + 1,
        ip4: Some(Ipv4Addr::from(FIRST_UE + n)),
        access: Some(tunnel(n + 1)),
        ..Session::default()
    };
    let message = session.establish(&profile, &NodeId::from(peer.ip()), peer.ip()).into();
    Packet { header: Header::session(0, sequence), message }.to_vec().unwrap_or_default()
}

/// The request that ends a session.
fn deletion(seid: u64, sequence: u32) -> Vec<u8> {
    let message = pfcp::message::SessionDeletionRequest::default().into();
    Packet { header: Header::session(seid, sequence), message }.to_vec().unwrap_or_default()
}

fn tunnel(teid: u32) -> OuterHeaderCreation {
    OuterHeaderCreation::gtp_u(Teid(teid), Some(GNB), None)
}

/// Measures it with that many sessions. `show` is told how far it is.
///
/// # Errors
/// When memory is short, or a request is refused.
pub fn pfcp_sessions(
    sessions: u32,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<PfcpSessions, BenchError> {
    let mut steps = Steps::new(5, show, stop);
    steps.next("sessions come as fast as they can")?;
    let (begun, cpu, noise) = (Instant::now(), CpuTime::now(), ThreadNoise::now());
    let (mut plant, _) = Plant::new(None)?;
    plant.associate();
    // The running subscriber. What a busy core is late with comes all at once, and is not to be taken for too fast.
    plant.play(&[established(0, 2, Mbr { uplink: 1_000_000_000, downlink: 1_000_000_000 })], 0, stop)?;
    plant.traffic();

    let half = sessions / 2;
    let requests = establishments(1, half);
    let pdrs = match Packet::parse(&requests[0]).map(|packet| packet.message) {
        Ok(Message::SessionEstablishmentRequest(request)) => request.create_pdrs.len(),
        _ => 0,
    };
    let (took, _) = plant.play(&requests, 0, stop)?;
    let rate = f64::from(half) / took.as_secs_f64();
    steps.next("at half of that rate")?;
    let requests = establishments(1 + half, half);
    let (_, mut waited) = plant.play(&requests, (2e9 / rate) as u64, stop)?;
    waited.sort_unstable();
    let at = |share: f64| waited[((waited.len() - 1) as f64 * share) as usize] as f64 / 1e6;
    let response_ms = Response { p50: at(0.5), p99: at(0.99), max: at(1.0) };
    let mut traffic = plant.traffic();

    let book = plant.endpoint.sessions().store();
    let up = book.len() as f64;
    let held = book.bytes() + plant.worker.gateway().sessions().bytes();
    let seids = book.iter().filter(|(_, entry)| entry.cp_seid > 1).filter_map(|(number, _)| book.seid(number));
    let seids: Vec<u64> = seids.collect();
    let (going, staying) = seids.split_at((CHURN as usize).min(seids.len() / 2));
    // One comes and one goes, in turn.
    let both: Vec<Vec<u8>> = (going.iter().zip(sessions + 1..).zip((0x00a0_0000..).step_by(2)))
        .flat_map(|((seid, n), sequence)| [deletion(*seid, sequence), established(n, sequence + 1, RATE)])
        .collect();
    let ends: Vec<Vec<u8>> = staying.iter().zip(0x0080_0000..).map(|(seid, n)| deletion(*seid, n)).collect();
    steps.next("5,000 come and go a second")?;
    plant.play(&both, 500_000_000 / u64::from(CHURN), stop)?;
    let churn = plant.traffic();
    steps.next("sessions end as fast as they can")?;
    let (ended, _) = plant.play(&ends, 0, stop)?;
    let last = plant.traffic();
    traffic.add(last);
    plant.worker.close();
    let stored_sessions = sessions.min(100_000);
    steps.next("each on the disk first, and a restart")?;
    let stored = stored(stored_sessions, stop)?;
    let mut gathered = Gathered::default();
    let own = [ThreadNoise::now().since(&noise)];
    gathered.add(CpuTime::now().since(&cpu).0, begun.elapsed().as_secs_f64(), &own, None);
    Ok(PfcpSessions {
        sessions,
        pdrs,
        sessions_per_second: rate,
        bytes_per_session: held as f64 / up,
        response_ms,
        traffic,
        churn,
        deletions_per_second: ends.len() as f64 / ended.as_secs_f64(),
        stored_sessions,
        stored_sessions_per_second: stored.rate,
        restored_sessions: stored.restored,
        restore_seconds: stored.seconds,
        noise: gathered.noise(),
    })
}

impl Traffic {
    fn add(&mut self, other: Traffic) {
        self.sent += other.sent;
        self.received += other.received;
        self.lost += other.lost;
        for (reason, packets) in other.drops {
            *self.drops.entry(reason).or_default() += packets;
        }
    }

    fn text(&self) -> String {
        let reasons: Vec<String> =
            self.drops.iter().map(|(why, packets)| format!("{why} {}", count(*packets))).collect();
        let why = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
        format!("{} packets, {} lost{why}", count(self.sent), count(self.lost))
    }
}

/// Sessions that are kept.
struct Stored {
    rate: f64,
    restored: usize,
    seconds: f64,
}

/// Brings up sessions on a ledger, ends, and goes on with them.
fn stored(sessions: u32, stop: &AtomicBool) -> Result<Stored, BenchError> {
    let folder = Folder(std::env::temp_dir().join(format!("weir-bench-ledger-{}", std::process::id())));
    let (mut plant, _) = Plant::new(Some(&folder.0))?;
    plant.associate();
    plant.play(&establishments(0, 1), 0, stop)?;
    let (took, _) = plant.play(&establishments(1, sessions), 0, stop)?;
    let Plant { worker, endpoint, .. } = plant;
    worker.close();
    // With it goes the ledger's writer.
    drop(endpoint);

    let begun = Instant::now();
    let (mut plant, restored) = Plant::new(Some(&folder.0))?;
    while plant.traffic.received == 0 {
        if stop.load(Ordering::Relaxed) || begun.elapsed() > Duration::from_secs(120) {
            return Err(BenchError::Died("restart"));
        }
        plant.turn(true);
    }
    let seconds = begun.elapsed().as_secs_f64();
    plant.worker.close();
    Ok(Stored { rate: f64::from(sessions) / took.as_secs_f64(), restored, seconds })
}

/// Removed when dropped.
struct Folder(std::path::PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl PfcpSessions {
    /// As a table.
    pub fn text(&self) -> String {
        let mut table = Table::new(&["PFCP sessions, one core", ""]);
        let Response { p50, p99, max } = self.response_ms;
        table.row([format!("sessions with {} PDRs each", self.pdrs), count(self.sessions.into())]);
        table.row(["brought up a second".to_owned(), count(self.sessions_per_second as u64)]);
        table.row(["on the disk first".to_owned(), count(self.stored_sessions_per_second as u64)]);
        table.row(["taken down a second".to_owned(), count(self.deletions_per_second as u64)]);
        table.row(["bytes a session, in all".to_owned(), bytes(self.bytes_per_session)]);
        table.row([
            "answered, at half the rate".to_owned(),
            format!("p50 {p50:.3} ms  p99 {p99:.3} ms  max {max:.3} ms"),
        ]);
        let (restored, seconds) = (count(self.restored_sessions as u64), self.restore_seconds);
        table.row(["restart to first packet".to_owned(), format!("{restored} sessions in {seconds:.2} s")]);
        table.row(["running traffic, 5,000 come and go a second".to_owned(), self.churn.text()]);
        table.row(["running traffic beyond what the core can do".to_owned(), self.traffic.text()]);
        format!("{}{}\n", table.text(), self.noise.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_come_and_go_and_traffic_runs_on() {
        let found = pfcp_sessions(400, &AtomicBool::new(false), &mut |_| {}).expect("measured");
        assert_eq!((found.pdrs, found.traffic.lost, found.churn.lost), (4, 0, 0), "{found:?}");
        assert!(found.churn.sent > 0);
        assert!(found.traffic.sent > 0 && found.sessions_per_second > 0.0 && found.bytes_per_session > 500.0);
        assert!(
            found.restored_sessions == 401 && found.stored_sessions_per_second > 0.0 && found.restore_seconds > 0.0
        );
        assert!(found.text().contains("401 sessions in"));
    }
}
