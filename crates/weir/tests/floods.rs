//! A control plane is answered as quickly while another, or a stranger, floods N4 with 50,000 datagrams a second.
//!
//! ```text
//!   127.0.0.3  asks one thing after the other: heartbeats, sessions that come, change and go
//!   127.0.0.4  an associated control plane with sessions of its own, floods      ──►  127.0.0.1  weir run, with a ledger
//!   127.0.0.9  a stranger, floods
//! ```
//!
//! `FLOOD_SECONDS` sets how long each flood lasts, `WEIR_BINARY` another build of weir; the table is printed.

mod net;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use net::{Net, user_plane};
use pfcp::control::{Profile, Session};
use pfcp::group::{ApplicationIdsPfds, PfdContext};
use pfcp::ie::{Cause, FqCsid, NodeId, OuterHeaderCreation, PfdContents, RecoveryTimeStamp};
use pfcp::message::{
    AssociationReleaseRequest, AssociationSetupRequest, AssociationUpdateRequest, HeartbeatRequest, HeartbeatResponse,
    Message, PfdManagementRequest, SessionDeletionRequest, SessionReportResponse, SessionSetDeletionRequest,
};
use pfcp::{Header, Packet};
use wire::Teid;

const UP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), pfcp::PORT);
/// Datagrams a second.
const RATE: u64 = 50_000;
/// The promise: how much later than without a flood 99 of 100 answers may come.
const MOVED: Duration = Duration::from_millis(10);
/// Sessions of the control plane that floods.
const SESSIONS: u32 = 2000;
/// A machine that does something else meanwhile fails no test: a kind is tried so often.
const TRIES: usize = 10;

/// Messages in a datagram of many.
const BUNDLE: u32 = 80;

/// A message that others follow in its datagram (FO, 7.2.2.1), but for the last.
fn in_bundle(n: u32, message: Message) -> Vec<u8> {
    let header = Header { follow_on: n + 1 < BUNDLE, ..Header::node(sequences(1)) };
    Packet { header, message }.to_vec().unwrap()
}

/// Sequence numbers, none of which is used twice: answers to a flood come late.
static SEQUENCE: AtomicU32 = AtomicU32::new(1);

fn sequences(count: u32) -> u32 {
    SEQUENCE.fetch_add(count, Ordering::Relaxed)
}

fn gnb(teid: u32) -> OuterHeaderCreation {
    OuterHeaderCreation::gtp_u(Teid(teid), Some(Ipv4Addr::new(10, 0, 3, 100)), None)
}

/// A control plane, one exchange at a time.
struct Peer {
    socket: UdpSocket,
    address: IpAddr,
    profile: Profile,
}

impl Peer {
    fn new(net: &Net, last: u8) -> Self {
        let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        let socket = port::netns::within(&net.gateway, || UdpSocket::bind((address, pfcp::PORT))).unwrap().unwrap();
        socket.connect(UP).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        Self { socket, address, profile: Profile { dnn: "internet".into(), ..Profile::default() } }
    }

    fn node(&self) -> NodeId {
        self.address.into()
    }

    fn stamp(&self) -> RecoveryTimeStamp {
        RecoveryTimeStamp(3_900_000_000)
    }

    /// Asks; sent again after a second. The answer, and how long it took.
    fn ask(&mut self, seid: Option<u64>, message: Message) -> (Message, Duration) {
        let sequence = sequences(1);
        let header = seid.map_or(Header::node(sequence), |seid| Header::session(seid, sequence));
        let octets = Packet { header, message }.to_vec().unwrap();
        let begin = Instant::now();
        let mut space = [0; 8192];
        for _ in 0..10 {
            self.socket.send(&octets).unwrap();
            while let Ok(len) = self.socket.recv(&mut space) {
                let Ok(packet) = Packet::parse(&space[..len]) else { continue };
                match packet.message {
                    Message::HeartbeatRequest(_) => answer(&self.socket, packet.header.sequence, self.stamp()),
                    Message::SessionReportRequest(_) => {}
                    message if packet.header.sequence == sequence => return (message, begin.elapsed()),
                    _ => {}
                }
            }
        }
        panic!("no answer in ten seconds");
    }

    fn associate(&mut self) {
        let request = AssociationSetupRequest {
            node_id: self.node(),
            recovery_time_stamp: self.stamp(),
            ..AssociationSetupRequest::default()
        };
        let (Message::AssociationSetupResponse(response), _) = self.ask(None, request.into()) else { panic!() };
        assert_eq!(response.cause, Cause::REQUEST_ACCEPTED);
    }

    /// Session `n` of this control plane, as it is asked for.
    fn session(&self, n: u32) -> Session {
        let IpAddr::V4(address) = self.address else { unreachable!() };
        let ip4 = Ipv4Addr::from(0x0a40_0000 + (u32::from(address.octets()[3]) << 16) + n);
        Session { cp_seid: u64::from(n) + 1, ip4: Some(ip4), access: Some(gnb(n + 1)), ..Session::default() }
    }

    fn establishment(&self, n: u32) -> Message {
        let mut request = self.session(n).establish(&self.profile, &self.node(), self.address);
        if n.is_multiple_of(2) {
            request.fq_csids = vec![FqCsid::new(self.address, &[1])];
        }
        request.into()
    }

    /// Brings a session up; the user plane's number for it.
    fn establish(&mut self, n: u32) -> (u64, Duration) {
        let (answer, took) = self.ask(Some(0), self.establishment(n));
        let Message::SessionEstablishmentResponse(response) = answer else { panic!() };
        assert_eq!(response.cause, Cause::REQUEST_ACCEPTED);
        (response.up_f_seid.unwrap().seid, took)
    }

    /// Brings all its sessions up, some at a time; the user plane's numbers for them.
    fn establish_all(&mut self) -> Vec<u64> {
        let mut seids = vec![0; SESSIONS as usize];
        let mut space = [0; 8192];
        for first in (0..SESSIONS).step_by(100) {
            let mut missing = 100;
            let base = sequences(100);
            while missing > 0 {
                for n in first..first + 100 {
                    if seids[n as usize] == 0 {
                        let header = Header::session(0, base + n - first);
                        let message = self.establishment(n);
                        self.socket.send(&Packet { header, message }.to_vec().unwrap()).unwrap();
                    }
                }
                while missing > 0
                    && let Ok(len) = self.socket.recv(&mut space)
                {
                    let Ok(Packet { header, message }) = Packet::parse(&space[..len]) else { continue };
                    match message {
                        Message::HeartbeatRequest(_) => answer(&self.socket, header.sequence, self.stamp()),
                        Message::SessionEstablishmentResponse(response)
                            if (base..base + 100).contains(&header.sequence) =>
                        {
                            let n = (header.sequence - base + first) as usize;
                            assert_eq!(response.cause, Cause::REQUEST_ACCEPTED);
                            missing -= usize::from(seids[n] == 0);
                            seids[n] = response.up_f_seid.unwrap().seid;
                        }
                        _ => {}
                    }
                }
            }
        }
        seids
    }

    /// Heartbeats, and sessions that come, change and go, for so long. How long answers took, by what was asked.
    fn exchange(&mut self, time: Duration) -> HashMap<&'static str, Vec<Duration>> {
        let mut took: HashMap<&'static str, Vec<Duration>> = HashMap::new();
        let end = Instant::now() + time;
        while Instant::now() < end {
            let heartbeat = HeartbeatRequest { recovery_time_stamp: self.stamp(), ..HeartbeatRequest::default() };
            took.entry("heartbeat").or_default().push(self.ask(None, heartbeat.into()).1);
            let (seid, after) = self.establish(0);
            took.entry("establishment").or_default().push(after);
            let (answer, after) = self.ask(Some(seid), self.session(0).connect(gnb(77)).into());
            assert!(matches!(answer, Message::SessionModificationResponse(response) if response.cause.is_acceptance()));
            took.entry("modification").or_default().push(after);
            let (answer, after) = self.ask(Some(seid), SessionDeletionRequest::default().into());
            assert!(matches!(answer, Message::SessionDeletionResponse(response) if response.cause.is_acceptance()));
            took.entry("deletion").or_default().push(after);
            std::thread::sleep(Duration::from_micros(500));
        }
        took
    }
}

fn answer(socket: &UdpSocket, sequence: u32, stamp: RecoveryTimeStamp) {
    let message = HeartbeatResponse { recovery_time_stamp: stamp, ..HeartbeatResponse::default() }.into();
    let octets = Packet { header: Header::node(sequence), message }.to_vec().unwrap();
    drop(socket.send(&octets));
}

/// What a flood is made of, by name: as many different datagrams as there are sessions, or one.
fn kinds(peer: &Peer, seids: &[u64]) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let node_id = peer.node();
    let emit = |seid: Option<u64>, message: Message| {
        let header = seid.map_or(Header::node(0), |seid| Header::session(seid, 0));
        Packet { header, message }.to_vec().unwrap()
    };
    let one = |message: Message| vec![emit(None, message)];
    let each = |make: &dyn Fn(usize, u64) -> Message| {
        seids.iter().enumerate().map(|(n, seid)| emit(Some(*seid), make(n, *seid))).collect::<Vec<_>>()
    };
    let stamp = peer.stamp();
    let heartbeat = HeartbeatRequest { recovery_time_stamp: stamp, ..HeartbeatRequest::default() };
    let bundle: Vec<u8> = (0..BUNDLE).flat_map(|n| in_bundle(n, heartbeat.clone().into())).collect();
    let unasked = HeartbeatResponse { recovery_time_stamp: stamp, ..HeartbeatResponse::default() };
    let setup = AssociationSetupRequest {
        node_id: node_id.clone(),
        recovery_time_stamp: stamp,
        ..AssociationSetupRequest::default()
    };
    let update = AssociationUpdateRequest { node_id: node_id.clone(), ..AssociationUpdateRequest::default() };
    let pfds = ApplicationIdsPfds {
        application_id: "video".into(),
        pfd_contexts: vec![PfdContext {
            pfd_contents: vec![PfdContents::flows(&["permit out 6 from 203.0.113.0/24 443 to assigned"])],
            ..PfdContext::default()
        }],
        ..ApplicationIdsPfds::default()
    };
    let pfds = PfdManagementRequest { application_ids_pfds: vec![pfds], ..PfdManagementRequest::default() };
    let set = |csid: u16| SessionSetDeletionRequest {
        node_id: node_id.clone(),
        fq_csids: vec![FqCsid::new(peer.address, &[csid])],
        ..SessionSetDeletionRequest::default()
    };
    let release = AssociationReleaseRequest { node_id: node_id.clone(), ..AssociationReleaseRequest::default() };
    vec![
        ("garbage", vec![vec![0x5a; 200]]),
        ("another version", vec![vec![0x40, 1, 0, 4, 0, 0, 0, 0]]),
        ("heartbeat", one(heartbeat.into())),
        ("heartbeats, 80 in a datagram", vec![bundle]),
        ("heartbeat response", one(unasked.into())),
        ("association update", one(update.into())),
        ("PFD management", one(pfds.into())),
        ("session establishment", (0..SESSIONS).map(|n| emit(Some(0), peer.establishment(n))).collect()),
        ("session modification", each(&|n, _| peer.session(n as u32).connect(gnb(n as u32 + 9)).into())),
        ("session report response", each(&|_, _| SessionReportResponse::default().into())),
        ("session set deletion, unknown", one(set(99).into())),
        ("session set deletion", one(set(1).into())),
        ("session deletion", each(&|_, _| SessionDeletionRequest::default().into())),
        ("association release", one(release.into())),
        // Who has sent that is no stranger any more.
        ("association setup", one(setup.into())),
    ]
}

/// Somebody who sends the same datagrams again and again, each time as a new request.
struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    began: Instant,
    thread: JoinHandle<()>,
}

impl Flood {
    fn begin(socket: UdpSocket, mut datagrams: Vec<Vec<u8>>, stamp: RecoveryTimeStamp) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count, began) = (stop.clone(), sent.clone(), Instant::now());
        let thread = std::thread::spawn(move || {
            run_like_others();
            socket.set_nonblocking(true).unwrap();
            let mut space = [0; 8192];
            let mut done = 0_usize;
            while !stopped.load(Ordering::Relaxed) {
                let due = (began.elapsed().as_micros() as u64 * RATE / 1_000_000).saturating_sub(done as u64);
                // What could not be sent in time is not made up for: no bursts.
                for _ in 0..due.min(RATE / 500) {
                    let len = datagrams.len();
                    let datagram = &mut datagrams[done % len];
                    done += 1;
                    let sequence = sequences(1);
                    let at = if datagram[0] & 1 == 1 { 12 } else { 4 };
                    datagram[at..at + 3].copy_from_slice(&sequence.to_be_bytes()[1..]);
                    match socket.send(datagram) {
                        Ok(_) => drop(count.fetch_add(1, Ordering::Relaxed)),
                        Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                        Err(_) => {}
                    }
                }
                while let Ok(len) = socket.recv(&mut space) {
                    if let Ok(Packet { header, message: Message::HeartbeatRequest(_) }) = Packet::parse(&space[..len]) {
                        answer(&socket, header.sequence, stamp);
                    }
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        Self { stop, sent, began, thread }
    }

    /// Ends it; datagrams it sent a second.
    fn end(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.sent.load(Ordering::Relaxed) as f64 / self.began.elapsed().as_secs_f64()
    }
}

/// Has this thread, and those and the processes it starts from here on, run before whatever else the machine does: how long
/// an answer waits for a CPU is not the gateway's doing. Where that is not allowed the test is only stricter. Not by nice:
/// that is of the whole session, of whatever is beside it, and would come before the kernel's own threads for the disk.
fn run_before_others() {
    schedule("--fifo", "1");
}

/// Has this thread share CPUs with all others: a flood does not come before its victim.
fn run_like_others() {
    schedule("--other", "0");
}

fn schedule(class: &str, priority: &str) {
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let _ = Command::new("chrt").args([class, "-p", priority]).arg(thread.file_name().unwrap()).output();
}

/// What the gateway has done with requests about sessions, those refused, and datagrams lost in queues.
fn counted(net: &Net) -> [u64; 3] {
    let peers = net.show("peers");
    let of = |names: &[&str]| {
        let all = peers["counters"].as_object().unwrap().iter();
        all.filter(|(name, _)| names.contains(&name.as_str())).map(|(_, counter)| net::number(&counter["value"])).sum()
    };
    [
        of(&["established", "modified", "deleted"]),
        of(&["requests_refused", "refused", "no_association"]),
        of(&["queue_lost_peers", "queue_lost_strangers", "socket_lost_peers", "socket_lost_strangers"]),
    ]
}

fn p99(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[(times.len() * 99).div_ceil(100) - 1]
}

#[test]
fn floods_do_not_delay_other_control_planes() {
    let seconds = std::env::var("FLOOD_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(0.4);
    let time = Duration::from_secs_f64(seconds);
    let net = Net::new("floods");
    let ledger = format!("[n4]\nledger = \"{}\"", net.file("ledger").display());
    run_before_others();
    let config = user_plane().replace("\"10.0.4.1\"", "\"127.0.0.1\"").replace("[\"10.0.4.0/24\"]", "[]");
    let gateway = net.start(&config.replace("[n4]", &ledger));
    let mut quiet = Peer::new(&net, 3);
    quiet.associate();
    let stranger = Peer::new(&net, 9);
    let mut late = Vec::new();
    let mut before = quiet.exchange(time);
    println!(
        "{:30} {:9} {:>8} {:>7} {:>7} {:>7} {:>6}  p99 in ms without and with it",
        "flood of", "from", "sent/s", "done", "refused", "lost", "asked"
    );
    let names: Vec<&str> = kinds(&stranger, &[1]).into_iter().map(|(name, _)| name).collect();
    for (n, name) in names.into_iter().enumerate() {
        for from in ["peer", "stranger"] {
            for tried in 1..=TRIES {
                let mut peer;
                let foe = if from == "peer" {
                    // Floods may have ended its sessions: it begins anew.
                    peer = Peer::new(&net, 4);
                    peer.associate();
                    &mut peer
                } else {
                    peer =
                        Peer { socket: stranger.socket.try_clone().unwrap(), profile: Profile::default(), ..stranger };
                    &mut peer
                };
                let seids: Vec<u64> = match from {
                    "peer" if name.starts_with("session") => foe.establish_all(),
                    _ => (1..=u64::from(SESSIONS)).collect(),
                };
                if tried > 1 {
                    before = quiet.exchange(time);
                }
                let counts = counted(&net);
                let flood =
                    Flood::begin(foe.socket.try_clone().unwrap(), kinds(foe, &seids).swap_remove(n).1, foe.stamp());
                std::thread::sleep(Duration::from_millis(100));
                let during = quiet.exchange(time);
                let rate = flood.end();
                let asked: usize = during.values().map(Vec::len).sum();
                let after = counted(&net);
                let [done, refused, lost]: [u64; 3] = std::array::from_fn(|n| after[n] - counts[n]);
                print!("{name:30} {from:9} {rate:8.0} {done:7} {refused:7} {lost:7} {asked:6} ");
                let mut worst = Duration::ZERO;
                for what in ["heartbeat", "establishment", "modification", "deletion"] {
                    let (quiet, flooded) = (p99(&before[what]), p99(&during[what]));
                    print!(" {what} {:.1} {:.1}", quiet.as_secs_f64() * 1e3, flooded.as_secs_f64() * 1e3);
                    worst = worst.max(flooded.saturating_sub(quiet));
                }
                println!();
                foe.socket.set_nonblocking(false).unwrap();
                let was_flood = rate >= RATE as f64 / 5.0;
                if was_flood && worst <= MOVED {
                    break;
                }
                if tried == TRIES {
                    late.push(format!("{name} from a {from}: {worst:?} later, {rate:.0} datagrams a second"));
                }
            }
        }
    }
    // A gateway that is flooded ends when it is told to.
    let foe = kinds(&stranger, &[1]).pop().unwrap().1;
    let flood = Flood::begin(stranger.socket.try_clone().unwrap(), foe, stranger.stamp());
    let begin = Instant::now();
    net::ends_well(gateway);
    let took = begin.elapsed();
    flood.end();
    println!("ended {:.1} s after it was told to, under a flood", took.as_secs_f64());
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(late.is_empty(), "{late:#?}");
}
