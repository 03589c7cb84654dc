//! Clients that others wrote, against the DHCPv4 server: udhcpc and perfdhcp in a namespace, tshark as reader. Needs root,
//! and the packages of `scripts/setup`; a missing one is a failure.
//!
//! ```text
//!   namespace A                      namespace B
//!   udhcpc, perfdhcp [ left ]─ veth ─[ right ] AF_PACKET port, Dhcp4Server
//! ```

#[path = "../../port/tests/net/mod.rs"]
mod net;

use access::dhcp4::{Config, Destination, Dhcp4Server, Group, Options, Outcome, Reply, Request};
use access::guard::{self, Session4, Verdict};
use access::pool::{Limits, Pools, Range};
use access::{Action, Line, Time};
use net::{Door, Net};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use wire::{Mac, arp, ethernet, ethertype, ip4, udp};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const SERVER_MAC: Mac = Mac(net::RIGHT_MAC);

fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    Time(since.as_millis() as u64)
}

/// The server on the far end of the pair, and every frame that it sent or received.
struct Served {
    door: Door,
    server: Dhcp4Server,
    pools: Pools,
    frames: Vec<Vec<u8>>,
}

impl Served {
    fn new(net: &Net, lease: Duration) -> Self {
        let range = Range::ip4(1, [10, 9, 1, 0].into(), [10, 9, 255, 254].into());
        let options = Options {
            prefix_len: 16,
            routers: vec![SERVER],
            dns: vec![[9, 9, 9, 9].into()],
            domain: "example.net".into(),
            ntp: vec![SERVER],
            routes: vec![([0, 0, 0, 0].into(), 0, SERVER), ([192, 0, 2, 0].into(), 24, SERVER)],
            ..Options::default()
        };
        let group = Group { server: SERVER, lease, options };
        let limits = Limits { per_line: u32::MAX, ..Limits::default() };
        Self {
            door: Door::open(&format!("packet:right?netns={}&mode=mmsg", net.b)),
            server: Dhcp4Server::new(Config::default(), [(1, group)]).expect("good options"),
            pools: Pools::new(&[range], limits).expect("a good pool"),
            frames: Vec::new(),
        }
    }

    /// Serves on a thread until told to stop.
    fn run(mut self, stop: Arc<AtomicBool>) -> JoinHandle<Self> {
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let came = self.door.poll();
                if came.is_empty() {
                    std::thread::sleep(Duration::from_micros(200));
                }
                for (frame, _) in came {
                    self.receive(&frame);
                    self.frames.push(frame);
                }
                self.act();
                access::expire(&mut self.pools, Some(&mut self.server), None, now(), 100);
            }
            self
        })
    }

    fn receive(&mut self, frame: &[u8]) {
        let Ok(ethernet) = ethernet::Packet::new_checked(frame) else { return };
        match ethernet.ethertype() {
            ethertype::ARP => self.arp(ethernet.src(), ethernet.payload()),
            ethertype::IP4 => {
                let Ok(ip) = ip4::Packet::new_checked(ethernet.payload()) else { return };
                let Ok(udp) = udp::Packet::new_checked(ip.payload()) else { return };
                if (ip.protocol(), udp.dst_port()) != (17, 67) {
                    return;
                }
                let (source, from, octets) = (ethernet.src(), ip.src(), udp.payload());
                let request = Request { line: Line::default(), group: 1, source, from, routed: false, octets };
                let outcome = self.server.receive(&mut self.pools, now(), &request);
                assert_ne!(outcome, Outcome::Malformed);
            }
            _ => {}
        }
    }

    fn arp(&mut self, mac: Mac, payload: &[u8]) {
        let Ok(message) = arp::Repr::parse(payload) else { return };
        let session = Session4 { mac, address: message.sender_ip, gateway: SERVER, proxy: false };
        if guard::arp(&session, &message) != Verdict::Answer {
            return;
        }
        let answer = arp::Repr {
            operation: arp::REPLY,
            sender_mac: SERVER_MAC,
            sender_ip: SERVER,
            target_mac: mac,
            target_ip: message.sender_ip,
        };
        let mut out = head(mac, ethertype::ARP);
        out.resize(14 + arp::LEN, 0);
        answer.emit(&mut out[14..]).expect("room");
        self.send(out);
    }

    /// Every record is durable at once.
    fn act(&mut self) {
        while let Some(action) = self.server.next_action() {
            match action {
                Action::Send(reply) => {
                    let frame = self.frame(&reply);
                    self.send(frame);
                }
                Action::Store(ticket, _) => self.server.durable(ticket),
                Action::Erase(_) => {}
            }
        }
    }

    fn frame(&self, reply: &Reply) -> Vec<u8> {
        let (mac, address, port) = match reply.to {
            Destination::Relay(address) => (Mac(net::LEFT_MAC), address, 67),
            Destination::Unicast(mac, address) => (mac, address, 68),
            Destination::Broadcast => (Mac([0xff; 6]), Ipv4Addr::BROADCAST, 68),
        };
        let mut out = head(mac, ethertype::IP4);
        let len = reply.octets.len() as u16;
        let ip = ip4::Repr {
            src: reply.server,
            dst: address,
            protocol: 17,
            payload_len: len + 8,
            ttl: 64,
            tos: 0xc0,
            ident: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
        };
        out.resize(14 + 28, 0);
        ip.emit(&mut out[14..]).expect("room");
        udp::Repr { src_port: 67, dst_port: port, payload_len: len }.emit(&mut out[34..]).expect("room");
        out.extend_from_slice(&reply.octets);
        udp::Packet::new_checked(&mut out[34..]).expect("whole").fill_checksum(ip.pseudo(len + 8));
        out
    }

    fn send(&mut self, frame: Vec<u8>) {
        self.door.send(std::slice::from_ref(&frame));
        self.frames.push(frame);
    }
}

fn head(to: Mac, kind: u16) -> Vec<u8> {
    [&to.0[..], &SERVER_MAC.0, &kind.to_be_bytes()].concat()
}

fn client(net: &Net, args: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &net.a]).args(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(mut command: Command) -> (String, Option<i32>) {
    let out = command.output().expect("ip is there");
    let text = [out.stdout, out.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), out.status.code())
}

/// tshark's reading of frames: what it calls malformed or wrong, and each message's type.
fn dissect(frames: &[Vec<u8>]) -> String {
    let path = std::env::temp_dir().join(format!("weir-access-{}.pcap", std::process::id()));
    let mut pcap = [0xa1b2_c3d4u32, 0, 0, 0, 65_535, 1].iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    pcap[4..8].copy_from_slice(&[2, 0, 4, 0]);
    for frame in frames {
        let len = frame.len() as u32;
        [0, 0, len, len].iter().for_each(|word| pcap.extend_from_slice(&word.to_le_bytes()));
        pcap.extend_from_slice(frame);
    }
    std::fs::write(&path, pcap).expect("a writable folder");
    let fields = ["-T", "fields", "-e", "dhcp.option.dhcp", "-e", "_ws.malformed", "-e", "_ws.expert.message"];
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&path).args(fields).stdout(Stdio::piped()).stderr(Stdio::null());
    let out = tshark.output().expect("tshark is installed by scripts/setup");
    std::fs::remove_file(&path).ok();
    assert!(out.status.success());
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn udhcpc_gets_renews_and_releases_a_lease() {
    let net = Net::new();
    let stop = Arc::new(AtomicBool::new(false));
    let served = Served::new(&net, Duration::from_secs(3600)).run(stop.clone());
    let script = std::env::temp_dir().join(format!("weir-udhcpc-{}.sh", std::process::id()));
    let commands = "#!/bin/sh\n\
        echo \"$1 $ip/$mask $router $dns $domain $ntpsrv $staticroutes $lease\"\n\
        case $1 in bound|renew) ip addr replace $ip/$mask dev left;; deconfig) ip addr flush dev left;; esac\n";
    std::fs::write(&script, commands).expect("a writable folder");
    assert!(Command::new("chmod").arg("+x").arg(&script).status().expect("chmod").success());
    let path = script.to_str().expect("a UTF-8 path");
    // udhcpc itself renews after a minute at the earliest: a signal has it renew at once.
    let run = "udhcpc -f -R -i left -s \"$0\" -O router -O ntpsrv -O staticroutes & pid=$!
        sleep 3; kill -USR1 $pid; sleep 5; kill -TERM $pid; wait $pid";
    let (text, _) = output(client(&net, &["sh", "-c", run, path]));
    stop.store(true, Ordering::Relaxed);
    let served = served.join().expect("the server ran");
    std::fs::remove_file(&script).ok();
    let bound = "bound 10.9.1.0/16 10.9.0.1 9.9.9.9 example.net 10.9.0.1 0.0.0.0/0 10.9.0.1 192.0.2.0/24 10.9.0.1 3600";
    assert!(text.contains(bound), "{text}");
    assert!(text.contains("renew 10.9.1.0"), "{text}");
    let count = |outcome| served.server.count(outcome);
    assert!(count(Outcome::Stored) + count(Outcome::Acknowledged) >= 2, "{text}");
    assert_eq!((count(Outcome::Released), served.pools.bound()), (1, 0), "{text}");
    let read = dissect(&served.frames);
    assert!(!read.to_lowercase().contains("malformed"), "{read}");
    assert!(read.lines().any(|line| line.starts_with('5')), "an ACK is read: {read}");
    served.door.close();
}

#[test]
fn perfdhcp_completes_every_exchange() {
    let net = Net::new();
    net.ip_a(&["addr", "add", "10.9.0.2/16", "dev", "left"]);
    let stop = Arc::new(AtomicBool::new(false));
    let served = Served::new(&net, Duration::from_secs(3600)).run(stop.clone());
    let args = ["perfdhcp", "-4", "-l", "left", "-r", "400", "-R", "2000", "-n", "2000", "-W", "1000000", "10.9.0.1"];
    let (text, code) = output(client(&net, &args));
    stop.store(true, Ordering::Relaxed);
    let served = served.join().expect("the server ran");
    assert_eq!(code, Some(0), "{text}");
    let drops: Vec<_> = text.lines().filter(|line| line.starts_with("drops:")).collect();
    assert_eq!(drops.len(), 2, "{text}");
    assert!(drops.iter().all(|line| line.trim_end() == "drops: 0"), "{text}");
    assert!(served.pools.bound() >= 1900, "{} leases: {text}", served.pools.bound());
    let read = dissect(&served.frames[..served.frames.len().min(2000)]);
    assert!(!read.to_lowercase().contains("malformed"), "{read}");
    served.door.close();
}
