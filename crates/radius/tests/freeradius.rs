//! FreeRADIUS as judge: authentication, accounting, and CoA by its radclient. Needs root and the packages of `scripts/setup`;
//! a missing one is a failure.
//!
//! The test starts itself again in a network namespace, in which the daemon, radclient and the crate meet on the loopback.

use radius::accounting::{Counters, Report, Status};
use radius::client::{Client, Config, Event, Server as AuthServer};
use radius::coa::{ErrorCause, Received, Server};
use radius::dictionary::number;
use radius::{Attribute, Code, Secret};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

const SECRET: &str = "testing123";

/// Runs the test of that name in a namespace of its own; returns whether this is the process inside.
fn is_inside(test: &str) -> bool {
    if std::env::var_os("WEIR_INSIDE").is_some() {
        return true;
    }
    let exe = std::env::current_exe().expect("a path");
    let script = "ip link set lo up && exec \"$0\" --exact \"$1\" --nocapture";
    let status = Command::new("unshare")
        .args(["--net", "sh", "-c", script])
        .arg(exe)
        .arg(test)
        .env("WEIR_INSIDE", "1")
        .status()
        .expect("unshare is there");
    assert!(status.success(), "{test} in its namespace: {status}");
    false
}

/// A daemon with its folder, both gone when dropped.
struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("weir-freeradius-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a writable folder");
        let config = include_str!("freeradius/radiusd.conf").replace("DIR", folder.to_str().expect("UTF-8"));
        let files =
            [("radiusd.conf", config.as_str()), ("users", include_str!("freeradius/users")), ("dictionary", "")];
        for (name, text) in files {
            std::fs::write(folder.join(name), text).expect("writable");
        }
        let mut command = Command::new("freeradius");
        command.args(["-f", "-d"]).arg(&folder).stderr(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().expect("freeradius is installed by scripts/setup");
        Self { child, folder }
    }

    fn detail(&self) -> String {
        std::fs::read_to_string(self.folder.join("detail")).unwrap_or_default()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// A client with its sockets and clock.
struct Rig {
    client: Client,
    sockets: Vec<UdpSocket>,
    begin: Instant,
}

impl Rig {
    fn new(port: u16) -> Self {
        let server = AuthServer { address: SocketAddr::from(([127, 0, 0, 1], port)), secret: Secret(SECRET.into()) };
        let config = Config { sources: 2, timeout: Duration::from_millis(200), tries: 12, ..Config::default() };
        let mut seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
        let random = move |out: &mut [u8]| {
            for byte in out {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *byte = (seed >> 56) as u8;
            }
        };
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.set_nonblocking(true).expect("a socket");
            socket
        };
        Self {
            client: Client::new(config, vec![server], random),
            sockets: vec![socket(), socket()],
            begin: Instant::now(),
        }
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_millis() as u64
    }

    /// Runs until there are `n` events, at most twenty seconds.
    fn events(&mut self, n: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < n && self.begin.elapsed() < Duration::from_secs(20) {
            self.client.tick(self.now());
            while let Some(transmit) = self.client.next_transmit() {
                // The daemon may still be starting; then the request goes again.
                self.sockets[usize::from(transmit.source)].send_to(&transmit.octets, transmit.to).ok();
            }
            let mut bytes = [0; 4096];
            for source in 0..self.sockets.len() {
                while let Ok((len, from)) = self.sockets[source].recv_from(&mut bytes) {
                    self.client.receive(self.now(), source as u16, from, &bytes[..len]).expect("a good response");
                }
            }
            events.extend(std::iter::from_fn(|| self.client.next_event()));
            std::thread::sleep(Duration::from_millis(1));
        }
        events
    }
}

fn subscriber(name: &str) -> Vec<Attribute> {
    vec![
        Attribute::octets(number::USER_NAME, name),
        Attribute::octets(number::NAS_IDENTIFIER, "weir"),
        Attribute::octets(number::NAS_PORT_ID, "olt7 eth 1/3/12:5"),
        Attribute::vendor(number::BBF, number::BBF_CIRCUIT_ID, "olt7 eth 1/3/12:5"),
        Attribute::vendor(number::BBF, number::BBF_REMOTE_ID, "cpe-7"),
        Attribute::vendor(number::BBF, number::BBF_ACTUAL_DOWN, 50_000_000u32.to_be_bytes()),
    ]
}

#[test]
fn freeradius_authenticates_subscribers() {
    if !is_inside("freeradius_authenticates_subscribers") {
        return;
    }
    let _daemon = Daemon::start();
    let mut rig = Rig::new(1812);
    rig.client.authenticate(0, 1, subscriber("line-7"), Some(b"geheim")).expect("taken");
    let Some(Event::Answer(1, accept)) = rig.events(1).pop() else { panic!("no answer") };
    assert_eq!(accept.code, Code::AccessAccept);
    let text = |code| accept.get(code).and_then(Attribute::to_text);
    assert_eq!(accept.get(number::FRAMED_IP_ADDRESS).and_then(Attribute::to_ip4), Some([192, 0, 2, 77].into()));
    let prefix = |code| accept.get(code).and_then(Attribute::to_prefix6).map(|(p, len)| format!("{p}/{len}"));
    assert_eq!(prefix(number::FRAMED_IPV6_PREFIX).as_deref(), Some("2001:db8:7::/64"));
    assert_eq!(prefix(number::DELEGATED_IPV6_PREFIX).as_deref(), Some("2001:db8:700::/56"));
    assert_eq!((text(number::FRAMED_POOL), text(number::FRAMED_IPV6_POOL)), (Some("gold"), Some("gold6")));
    assert_eq!(text(number::DELEGATED_IPV6_PREFIX_POOL), Some("goldpd"));
    assert_eq!(text(number::FRAMED_ROUTE), Some("198.51.100.0/24 192.0.2.77 1"));
    assert_eq!(text(number::FILTER_ID), Some("gold-acl"));
    assert_eq!(accept.get(number::SESSION_TIMEOUT).and_then(Attribute::to_integer), Some(86_400));
    assert_eq!(accept.get(number::CLASS).map(|a| &a.value[..]), Some(&b"gold\x00\xff"[..]));
    let rate = accept.get_of(number::BBF, number::BBF_ACTUAL_DOWN).and_then(Attribute::to_integer);
    assert_eq!(rate, Some(50_000_000));
    rig.client.authenticate(rig.now(), 2, subscriber("line-7"), Some(b"wrong")).expect("taken");
    let Some(Event::Answer(2, reject)) = rig.events(1).pop() else { panic!("no answer") };
    assert_eq!(reject.code, Code::AccessReject);
}

#[test]
fn freeradius_accounts_what_was_measured() {
    if !is_inside("freeradius_accounts_what_was_measured") {
        return;
    }
    let daemon = Daemon::start();
    let mut rig = Rig::new(1813);
    let ip4 = Counters { input_octets: 5_000_000_000, output_octets: 7, input_packets: 3, output_packets: 2 };
    let ip6 = Counters { input_octets: 1, output_octets: 9_000_000_000, input_packets: 1, output_packets: 1 };
    let class = [b"gold\x00\xff".to_vec()];
    let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs() as u32;
    for (n, status) in [Status::On, Status::Start, Status::Interim, Status::Stop, Status::Off].into_iter().enumerate() {
        let report = Report {
            status,
            session: "s-77",
            class: &class,
            at,
            duration: 60,
            counters: (ip4, ip6),
            ip6_apart: true,
            cause: Some(1),
        };
        let attributes = [subscriber("line-7"), report.attributes()].concat();
        rig.client.account(rig.now(), n as u64, attributes).expect("taken");
        assert_eq!(rig.events(1), [Event::Acknowledged(n as u64)]);
    }
    let detail = daemon.detail();
    for line in [
        "Acct-Status-Type = Accounting-On",
        "Acct-Status-Type = Start",
        "Acct-Status-Type = Interim-Update",
        "Acct-Status-Type = Stop",
        "Acct-Status-Type = Accounting-Off",
        "Acct-Session-Id = \"s-77\"",
        "Class = 0x676f6c6400ff",
        "Acct-Input-Octets = 705032705",
        "Acct-Input-Gigawords = 1",
        "Acct-Output-Octets = 410065415",
        "Acct-Output-Gigawords = 2",
        "ERX-IPv6-Acct-Output-Gigawords = 2",
        "Acct-Input-Packets = 4",
        "Acct-Session-Time = 60",
        "Acct-Terminate-Cause = User-Request",
        "NAS-Port-Id = \"olt7 eth 1/3/12:5\"",
        "Actual-Data-Rate-Downstream = 50000000",
    ] {
        assert!(detail.contains(line), "{line} is not in\n{detail}");
    }
}

/// Runs radclient against our server; what it printed.
fn radclient(kind: &str, attributes: &str, result: Result<(), ErrorCause>) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    let to = socket.local_addr().expect("bound");
    let mut server = Server::new([(to.ip(), Secret(SECRET.into()))], Duration::from_secs(300), true, 16);
    let mut command = Command::new("radclient");
    command.args(["-x", "-r", "1", "-t", "5", &to.to_string(), kind, SECRET]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("freeradius-utils is installed by scripts/setup");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(attributes.as_bytes()).expect("radclient reads");
    drop(input);
    let mut bytes = [0; 4096];
    let (len, from) = socket.recv_from(&mut bytes).expect("radclient sends");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let Received::Request(ticket, packet) = server.receive(from, &bytes[..len], now, now).expect("a good request")
    else {
        panic!("new, not repeated")
    };
    assert_eq!(packet.get(number::ACCT_SESSION_ID).and_then(Attribute::to_text), Some("s-77"));
    let (to, answer) = server.answer(ticket, result).expect("known");
    socket.send_to(&answer, to).expect("sent");
    let out = child.wait_with_output().expect("radclient ends");
    String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
}

#[test]
fn radclient_changes_and_ends_sessions() {
    if !is_inside("radclient_changes_and_ends_sessions") {
        return;
    }
    assert!(Path::new("/usr/share/freeradius/dictionary").exists(), "freeradius-common is installed by scripts/setup");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    let session = format!("Acct-Session-Id=s-77,Event-Timestamp={now},Message-Authenticator=0x00,Filter-Id=silver\n");
    let text = radclient("coa", &session, Ok(()));
    assert!(text.contains("Received CoA-ACK"), "{text}");
    let text = radclient("disconnect", &session, Ok(()));
    assert!(text.contains("Received Disconnect-ACK"), "{text}");
    let text = radclient("disconnect", &session, Err(ErrorCause::SessionContextNotFound));
    assert!(text.contains("Received Disconnect-NAK"), "{text}");
    assert!(text.contains("Error-Cause = Session-Context-Not-Found"), "{text}");
}
