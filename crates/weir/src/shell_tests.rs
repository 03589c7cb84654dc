//! Both ends of the socket over a gateway on memory ports.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use engine::Io;
use port::Wires;

use gateway::load::Text;
use gateway::metrics;
use gateway::shell::{Gateway, Process};
use gateway::snapshot::Snapshot;
use gateway::socket::{Answers, Client, ClientError, RawAnswer, RawRequest, Reply, Request, Server, ServerError};
use gateway::watch::{Watch, serve};
use upf::product::observer::Observer;
use upf::product::{Loaded, UpfGateway, protocol};

pub const GATEWAY: &str = r#"
gateway = "upf"
[[port]]
name = "n3"
uri = "memory:n3?mac=02:00:00:00:03:00"
role = "access"
addresses = ["10.0.3.1/24"]
[[port]]
name = "n6"
uri = "memory:n6?mac=02:00:00:00:06:00"
role = "core"
addresses = ["10.0.6.1/24"]
[[route]]
to = "0.0.0.0/0"
next_hop = "10.0.6.254"
[[neighbour]]
port = "n6"
address = "10.0.6.254"
mac = "02:00:00:00:06:fe"
[[neighbour]]
port = "n3"
address = "10.0.3.100"
mac = "02:00:00:00:03:64"
[frames]
packet_buffers = 2048
[simulate]
ues = 10
ue_first = "10.60.0.1"
ue6_first = "2001:db8:7::"
ambr_down = "100 Mbit/s"
[[simulate.bearer]]
qfi = 9
filters = ["permit out 17 from any 20000-20099 to assigned"]
[[simulate.bearer]]
"#;

/// A path of its own in the temporary folder, cleared away at the end.
struct Spot(PathBuf);

impl Spot {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("weir-test-{}-{n}.sock", std::process::id())))
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub fn gateway(wires: &Wires) -> Process<Observer> {
    start(GATEWAY, wires)
}

fn start(config: &str, wires: &Wires) -> Process<Observer> {
    let text = Text { name: "gw.toml".into(), text: config.into() };
    UpfGateway::started_from(&Loaded::of(text).unwrap(), wires).unwrap()
}

/// A packet of the first subscriber, as its gNB sends it.
fn uplink() -> Vec<u8> {
    uplink_of(0)
}

/// A packet of a subscriber.
pub fn uplink_of(ue: u8) -> Vec<u8> {
    let profile = traffic::Profile {
        ues: 1,
        ue_first: [10, 60, 0, 1 + ue].into(),
        uplink_teids: (0x0100_0000 + u32::from(ue)).into(),
        gnbs: 1,
        gnb_first: std::net::IpAddr::from([10, 0, 3, 100]),
        upf_n3: std::net::IpAddr::from([10, 0, 3, 1]),
        ..traffic::Profile::default()
    };
    let plan = traffic::Plan::new(profile).unwrap();
    let mut generator = traffic::Generator::new(&plan, traffic::Direction::Uplink).unwrap();
    let mut space = vec![0; 2048];
    let len = generator.next(&mut space, 0).unwrap();
    space.truncate(len);
    space
}

fn until<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(got) = what() {
            return got;
        }
        assert!(Instant::now() < end, "waited too long");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn counters(client: &mut Client) -> Snapshot {
    match client.ask(&Request::Counters).unwrap() {
        Reply::Counters(snapshot) => snapshot,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_running_gateway_answers_every_question() {
    let (spot, wires) = (Spot::new(), Wires::default());
    let process = gateway(&wires);
    let server = Server::start(&spot.0, process.observer().clone()).unwrap();
    assert_eq!(std::fs::metadata(&spot.0).unwrap().permissions().mode() & 0o777, 0o600);
    let mut client = Client::connect(&spot.0).unwrap();
    for _ in 0..7 {
        wires.wire("n3").send(uplink());
    }
    // What is sent is counted last: counters read amid a turn know only half of it.
    let snapshot = until(|| Some(counters(&mut client)).filter(|s| s.io(Io::TxPackets) == 7));
    assert_eq!((snapshot.io(Io::RxPackets), &snapshot.workers[0].drops), (7, &Vec::new()));
    assert_eq!((snapshot.gateway.as_str(), snapshot.workers.len(), snapshot.frames.slots), ("upf", 1, 2048));
    let decap = snapshot.workers[0].stages.iter().find(|s| s.name == "gtpu_decap").unwrap();
    assert_eq!((decap.packets, snapshot.workers[0].missing), (7, 0));

    let Reply::Ports(ports) = client.ask(&Request::Ports).unwrap() else { panic!() };
    assert_eq!((ports[0].name.as_str(), ports[1].role.as_str(), ports[0].kind.as_str()), ("n3", "core", "memory"));
    assert!(ports[0].counters.contains(&("rx_packets".to_owned(), 7)), "{:?}", ports[0]);

    let protocol::Reply::Sessions(view) = client.ask(&protocol::Request::Sessions).unwrap() else { panic!() };
    assert_eq!(view.workers[0].sessions, 10);
    assert!(view.workers[0].bytes > 1000);

    let ask = |ue: &str| protocol::Request::Session { ue: ue.parse().unwrap() };
    let protocol::Reply::Session(one) = client.ask(&ask("10.60.0.1")).unwrap() else { panic!() };
    assert_eq!(one.usage.iter().map(|usage| usage.up_packets).sum::<u64>(), 7);
    let says: Vec<&str> = one.rules.iter().map(|rule| rule.text.as_str()).collect();
    assert!(says.iter().any(|says| says.contains("permit out 17 from any 20000-20099")), "{says:?}");
    assert!(says.iter().any(|says| says.contains("down 100 Mbit/s, whole session")), "{says:?}");
    let protocol::Reply::Session(same) = client.ask(&ask("2001:db8:7::99")).unwrap() else { panic!() };
    assert_eq!(same.addresses, one.addresses);
    let error = client.ask(&ask("10.60.9.9")).unwrap_err().to_string();
    assert_eq!(error, "no session has the address 10.60.9.9");

    drop(server);
    assert!(!spot.0.exists());
    let ended = process.stop();
    assert_eq!((ended.slots_missing, ended.crashed, ended.last.workers[0].missing), (0, 0, 0));
}

#[test]
fn workers_hand_each_other_what_came_to_the_wrong_one() {
    let two = GATEWAY.replace("[frames]", "[workers]\ncount = 2\n[frames]");
    let two = two.replace("memory:n3", "memory:n3-{worker}").replace("memory:n6", "memory:n6-{worker}");
    let wires = Wires::default();
    let process = start(&two, &wires);
    // Subscribers 0 to 4 are worker 0's, 5 to 9 worker 1's; all of them come in by worker 0.
    (0..10).for_each(|ue| wires.wire("n3-0").send(uplink_of(ue)));
    let snapshot = until(|| Some(process.shell().snapshot()).filter(|s| s.io(Io::TxPackets) == 10));
    let per_worker = |what| snapshot.workers.iter().map(|worker| worker.io(what)).collect::<Vec<_>>();
    assert_eq!((per_worker(Io::RxPackets), per_worker(Io::TxPackets)), (vec![10, 0], vec![5, 5]));
    assert_eq!((per_worker(Io::HandedOut), per_worker(Io::HandedIn)), (vec![5, 0], vec![0, 5]));
    let ended = process.stop();
    let missing: Vec<i64> = ended.last.workers.iter().map(|worker| worker.missing).collect();
    assert_eq!((missing, ended.slots_missing), (vec![0, 0], 0));
}

#[test]
fn a_trace_belongs_to_its_connection() {
    let (spot, wires) = (Spot::new(), Wires::default());
    let process = gateway(&wires);
    let _server = Server::start(&spot.0, process.observer().clone()).unwrap();
    let mut first = Client::connect(&spot.0).unwrap();
    let ue = "10.60.0.1".parse().unwrap();
    let Reply::Trace(begun) = first.ask(&Request::Trace { ue, packets: 1 }).unwrap() else { panic!() };
    assert!(begun.rules.iter().any(|(pdr, rules)| pdr == "PDR 1" && rules.starts_with("FAR ")), "{begun:?}");
    let mut second = Client::connect(&spot.0).unwrap();
    let refused = second.ask(&Request::Trace { ue, packets: 1 }).unwrap_err().to_string();
    assert!(refused.contains("another `weir trace` follows 10.60.0.1"), "{refused}");
    wires.wire("n3").send(uplink());
    wires.wire("n3").send(uplink());
    let mut lines = Vec::new();
    until(|| {
        let Ok(Reply::Trace(view)) = first.ask(&Request::Traced) else { panic!() };
        lines.extend(view.lines);
        lines.iter().any(|line| line.stage == "rewrite_l2").then_some(())
    });
    assert_eq!(lines.iter().filter(|line| line.stage == "rx").count(), 1, "one packet was asked for");
    let matched = lines.iter().find(|line| line.stage == "match_pdr").unwrap();
    assert!(matched.detail.contains("session 0, PDR ") && matched.stage_ns.is_some_and(|ns| ns > 0.0), "{matched:?}");
    let last = lines.iter().find(|line| line.stage == "rewrite_l2").unwrap();
    assert_eq!((lines[0].port.as_deref(), last.port.as_deref()), (Some("n3"), Some("n6")));
    assert!(lines[0].raw().len() > 100 && lines[0].unix_ns > 1_600_000_000_000_000_000);
    drop(first);
    until(|| second.ask(&Request::Trace { ue, packets: 1 }).ok());
}

/// Answers when the gate is open: with how many questions there were.
#[derive(Default)]
struct Gated {
    open: Mutex<bool>,
    opened: Condvar,
    asked: AtomicU32,
}

impl Answers for Gated {
    fn answer(&self, _: u64, _: &RawRequest) -> RawAnswer {
        drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
        Err(format!("answer {}", self.asked.fetch_add(1, Ordering::Relaxed) + 1))
    }
}

#[test]
fn a_late_answer_is_named_and_waited_for() {
    let spot = Spot::new();
    let gated = Arc::new(Gated::default());
    let _server = Server::start(&spot.0, gated.clone()).unwrap();
    let mut client = Client::connect(&spot.0).unwrap().with_timeout(Duration::from_millis(50));
    let error = client.ask(&Request::Counters).unwrap_err().to_string();
    assert!(error.starts_with("no answer within 0.05 s"), "{error}");
    let mut waited = 0;
    let answer = client.ask_while(&Request::Ports, |_| {
        waited += 1;
        *gated.open.lock().unwrap() = true;
        gated.opened.notify_all();
        true
    });
    // The answer to the first question is not taken for the second's.
    assert_eq!(answer.unwrap_err().to_string(), "answer 2");
    assert!(waited > 0);
}

#[test]
fn a_closed_connection_is_no_late_answer() {
    let spot = Spot::new();
    let listener = UnixListener::bind(&spot.0).unwrap();
    let mut client = Client::connect(&spot.0).unwrap();
    drop(listener.accept().unwrap());
    let error = client.ask_while(&Request::Counters, |_| true).unwrap_err().to_string();
    assert_eq!(error, "connection closed by the running weir");
}

#[test]
fn nonsense_is_answered_with_a_sentence() {
    let spot = Spot::new();
    struct Deaf;
    impl Answers for Deaf {
        fn answer(&self, _: u64, _: &RawRequest) -> RawAnswer {
            Err("no".to_owned())
        }
    }
    let server = Server::start(&spot.0, Arc::new(Deaf)).unwrap();
    let mut stream = BufReader::new(UnixStream::connect(&spot.0).unwrap());
    stream.get_mut().write_all(b"{\"tell\": \"everything\"}\n").unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    assert!(line.starts_with("{\"error\":\"not a question: "), "{line}");
    // A line without an end is not kept for ever.
    stream.get_mut().write_all(&[b'x'; 20_000]).unwrap();
    line.clear();
    assert_eq!(stream.read_line(&mut line).unwrap_or(0), 0, "{line}");
    let taken = Server::start(&spot.0, Arc::new(Deaf)).err().unwrap();
    assert!(matches!(taken, ServerError::InUse { .. }), "{taken}");
    assert!(taken.to_string().contains("another weir answers at"));
    drop(server);
    assert!(matches!(Client::connect(&spot.0), Err(ClientError::NoServer { .. })));
}

#[test]
fn a_stale_socket_is_replaced_and_a_file_is_not() {
    let spot = Spot::new();
    let server = || Server::start(&spot.0, gateway(&Wires::default()).observer().clone());
    drop(UnixListener::bind(&spot.0).unwrap());
    assert!(spot.0.exists());
    drop(server().unwrap());
    assert!(!spot.0.exists());
    std::fs::write(&spot.0, "precious").unwrap();
    assert!(matches!(server().err().unwrap(), ServerError::NotASocket { .. }));
    assert_eq!(std::fs::read_to_string(&spot.0).unwrap(), "precious");
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

#[test]
fn probes_answer_beside_a_hundred_slow_scrapers() {
    let process = gateway(&Wires::default());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let vitals = process.shell().vitals().clone();
    let health = serve(any, vitals.clone()).unwrap();
    let scraped = metrics::serve(any, process.observer().clone()).unwrap();
    assert!(get(health.address(), "/readyz").ends_with("starting\n"));
    let watch = Watch::start(process.observer().clone()).unwrap();
    vitals.run();
    let slow = |n: usize| {
        let address = if n.is_multiple_of(2) { scraped.address() } else { health.address() };
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ").unwrap();
        stream
    };
    let slow: Vec<_> = (0..200).map(slow).collect();
    let until = Instant::now() + Duration::from_secs(10);
    while !get(health.address(), "/readyz").starts_with("HTTP/1.1 200 ") {
        assert!(Instant::now() < until, "{}", get(health.address(), "/readyz"));
        process.turn();
        std::thread::sleep(Duration::from_millis(5));
    }
    let begin = Instant::now();
    for _ in 0..10 {
        process.turn();
        assert!(get(health.address(), "/healthz").ends_with("alive\n"));
        assert!(get(health.address(), "/readyz").ends_with("ready\n"));
        assert!(get(scraped.address(), "/readyz").ends_with("ready\n"), "/metrics' listener answers, too");
    }
    // Far from the five seconds that slow connections have.
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(
        get(health.address(), "/metrics").contains("404 ")
            && get(scraped.address(), "/metrics").contains("weir_ready 1")
    );
    assert!(vitals.drain(true));
    assert!(get(health.address(), "/readyz").ends_with("draining: no new sessions are taken\n"));
    drop((slow, watch));
}
