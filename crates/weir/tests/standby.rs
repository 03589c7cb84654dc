//! A standby goes on for a cable gateway that is killed, and for one that hands over, before the Remote-PHY device and the
//! modems of `traffic`:
//!
//! ```text
//!   far                          gateway
//!   [ net0 ] hosts ── veth ──[ eth0 ] nsi
//!   [ rpd0 ] device ─ veth ──[ eth1 ] cin     weir run, weir run --standby
//! ```

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Batch, Pool, Port};
use port::{OpenContext, Uri};
use traffic::cable::{Downstream, Group, Hosts, Mix, Modem, Plant, Workload};
use wire::Mac;
use wire::l2tp::{Carrier, Cookie};
use wire::psp::Word;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

struct Net {
    far: String,
    gateway: String,
    folder: PathBuf,
    children: Vec<Child>,
}

fn ok(line: &str) -> String {
    let mut words = line.split_whitespace();
    let out = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Net {
    fn new(test: &str) -> Self {
        let name = |end: &str| format!("weir-stb-{}-{test}{end}", std::process::id());
        let net = Self {
            far: name("f"),
            gateway: name("g"),
            folder: std::env::temp_dir().join(name("dir")),
            children: Vec::new(),
        };
        fs::create_dir_all(&net.folder).unwrap();
        let (far, gateway) = (&net.far, &net.gateway);
        for ns in [far, gateway] {
            ok(&format!("ip netns add {ns}"));
            ok(&format!("ip netns exec {ns} sysctl -qw net.ipv6.conf.default.disable_ipv6=1"));
        }
        for (ours, theirs) in [("eth0", "net0"), ("eth1", "rpd0")] {
            ok(&format!("ip -n {gateway} link add {ours} type veth peer name {theirs} netns {far}"));
            ok(&format!("ip -n {gateway} link set {ours} up"));
            ok(&format!("ip -n {far} link set {theirs} up"));
        }
        ok(&format!("ip -n {far} addr add 198.18.0.1/24 dev net0"));
        ok(&format!("ip -n {far} addr add 172.16.0.2/24 dev rpd0"));
        let text = include_str!("../../../examples/cmts.toml");
        let text = text.replace("packet:eth1", "packet:eth9").replace("packet:eth2", "packet:eth1");
        let standby = format!("gateway = \"cmts\"\n[standby]\nsocket = \"{}\"\n", net.file("standby").display());
        let text = text.replace("packet:eth9", "packet:eth0").replace("gateway = \"cmts\"\n", &standby);
        fs::write(net.file("cmts.toml"), text).unwrap();
        net
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts a gateway, the nth, and waits until it says so.
    fn start(&mut self, n: usize, more: &[&str], ready: &str) {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.gateway, WEIR, "run"]).arg(self.file("cmts.toml")).args(more);
        command.arg("--socket").arg(self.file(&format!("{n}.sock"))).stdout(Stdio::null());
        command.stderr(fs::File::create(self.file(&format!("{n}.err"))).unwrap());
        self.children.push(command.spawn().unwrap());
        until(ready, || self.said(n).contains(ready).then_some(()));
    }

    fn said(&self, n: usize) -> String {
        fs::read_to_string(self.file(&format!("{n}.err"))).unwrap()
    }

    fn weir(&self, n: usize, args: &[&str]) -> String {
        let socket = self.file(&format!("{n}.sock"));
        let out = Command::new(WEIR).args(args).arg("--socket").arg(socket).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for ns in [&self.far, &self.gateway] {
            let _ = Command::new("ip").args(["netns", "del", ns]).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The far sides: hosts that send, and the device with its modems that judges what comes.
struct Far {
    pool: Pool,
    ports: [Box<dyn Port>; 2],
    hosts: Hosts,
    device: Downstream,
    began: Instant,
    /// When the device last got a packet, and the longest it got none.
    last: Instant,
    gap: Duration,
}

impl Far {
    fn new(net: &Net) -> Self {
        let mac = |ns: &str, device: &str| -> Mac {
            ok(&format!("ip netns exec {ns} cat /sys/class/net/{device}/address")).trim().parse().unwrap()
        };
        let config: cmts::config::Config = toml::from_str(&fs::read_to_string(net.file("cmts.toml")).unwrap()).unwrap();
        let layout = config.layout().unwrap();
        let modem = |named: &cmts::config::Named| {
            let host = |(address, mac): &(IpAddr, Mac)| match address {
                IpAddr::V4(address) => Some((*address, *mac)),
                IpAddr::V6(_) => None,
            };
            let security = named.spec.security.as_ref().unwrap();
            Modem {
                hosts: named.spec.hosts.iter().filter_map(host).collect(),
                said: security.said,
                sid: named.spec.clusters[0].sids[0],
                keys: security.keys.map(|key| key.map(|(_, key)| key)),
                sequence: 0,
            }
        };
        let plant = Plant {
            carrier: Carrier::Ip,
            cookies: [Cookie::None; 2],
            word: Word::Present,
            mtu: 1500,
            macs: [mac(&net.gateway, "eth1"), mac(&net.far, "rpd0")],
            core_macs: [mac(&net.gateway, "eth0"), mac(&net.far, "net0")],
            gateway: Mac([2, 0, 0, 0, 0xcc, 0]),
            groups: vec![Group {
                addresses: [Ipv4Addr::new(172, 16, 0, 1), Ipv4Addr::new(172, 16, 0, 2)],
                downstream: layout.channels.iter().map(|channel| channel.session).collect(),
                upstream: Vec::new(),
                requests: None,
                modems: layout.modems.iter().filter(|named| named.spec.security.is_some()).map(modem).collect(),
            }],
        };
        let arena = Arena::new(ArenaConfig { slots: 4096, slot_bytes: 2048, ..ArenaConfig::default() }).unwrap();
        let mut pool = Pool::new(&arena, 4096);
        let mut open = |device: &str| {
            let uri: Uri = format!("packet:{device}?mode=tpacket2").parse().unwrap();
            port::netns::within(&net.far, || port::open(&uri, &mut OpenContext::new(&mut pool)).unwrap()).unwrap()
        };
        let ports = [open("net0"), open("rpd0")];
        Self {
            ports,
            pool,
            hosts: Hosts::new(&plant, Workload::new(&Mix::downstream(), 300, false)),
            device: Downstream::new(&plant, true),
            began: Instant::now(),
            last: Instant::now(),
            gap: Duration::ZERO,
        }
    }

    /// A millisecond or so: a few packets towards modems, and whatever comes.
    fn turn(&mut self, packets: usize) {
        let now = self.began.elapsed().as_nanos() as u64;
        let mut batch = Batch::new();
        for _ in 0..packets {
            let mut frame = self.pool.take().unwrap();
            let arena = self.pool.arena().clone();
            let len = self.hosts.make(arena.space_mut(&mut frame), now);
            arena.set_len(&mut frame, len);
            let _ = batch.push(frame);
        }
        self.ports[0].tx_burst(&mut self.pool, &mut batch);
        self.pool.give_all(&mut batch);
        for n in 0..2 {
            self.ports[n].service(&mut self.pool);
            self.ports[n].rx_burst(&mut self.pool, &mut batch);
            let (arena, before) = (self.pool.arena().clone(), self.device.heard().packets);
            batch.drain(|frame| {
                if n == 1 {
                    self.device.take(arena.bytes(&frame), now);
                }
                self.pool.give(frame);
            });
            if self.device.heard().packets > before {
                self.gap = self.gap.max(self.last.elapsed());
                self.last = Instant::now();
            }
        }
        self.device.settle(now);
        std::thread::sleep(Duration::from_millis(1));
    }

    /// Traffic until the device has got so many packets more.
    fn run(&mut self, packets: u64) {
        let wanted = self.device.heard().packets + packets;
        until("packets at the device", || {
            (0..10).for_each(|_| self.turn(4));
            (self.device.heard().packets >= wanted).then_some(())
        });
    }

    /// Nothing more is sent; all that is under way arrives.
    fn rest(&mut self) {
        (0..300).for_each(|_| self.turn(0));
        let now = self.began.elapsed().as_nanos() as u64;
        self.device.idle(now);
        self.device.idle(now + 20_000_000);
    }
}

#[test]
fn a_standby_goes_on_for_one_that_is_killed_and_for_one_that_hands_over() {
    let mut net = Net::new("a");
    net.start(0, &[], "ready after");
    let mut far = Far::new(&net);
    far.run(200);
    net.start(1, &["--standby"], "standing by");
    // What is changed now is in no configuration.
    let key = "00112233445566778899aabbccddeeff";
    let key_bytes = u128::from_str_radix(key, 16).unwrap().to_be_bytes();
    far.device.rekey(0, 1, true, Some(&crypto::Key::aes128(key_bytes, [0; 16])));
    net.weir(0, &["cmts", "key", "set", "02:cb:00:00:00:01", "1", "--key", key]);
    net.weir(0, &["cmts", "key", "use", "02:cb:00:00:00:01", "1"]);
    net.weir(0, &["cmts", "service-flow", "add", "02:cb:00:00:00:02", "game", "--rate", "20 Mbit/s"]);
    far.run(500);
    let alive = far.gap;
    far.gap = Duration::ZERO;
    // Killed with traffic flowing.
    net.children[0].kill().unwrap();
    far.last = Instant::now();
    far.run(500);
    let killed = far.gap;
    assert!(net.said(1).contains("the active gateway is dead"), "{}", net.said(1));
    let flows = net.weir(1, &["show", "service-flows", "--modem", "02:cb:00:00:00:02"]);
    assert!(flows.contains("game"), "{flows}");
    far.rest();
    let heard = far.device.heard();
    assert_eq!((heard.packets_late, heard.late, heard.reordered, heard.duplicated), (0, 0, 0, 0), "{heard:?}");
    assert_eq!((heard.bad_crc, heard.no_key, heard.strangers, heard.bad_header), (0, 0, 0, 0), "{heard:?}");
    assert!(heard.packets_lost > 0, "numbers were left out: {heard:?}");
    // Handed over with traffic flowing.
    net.start(2, &["--standby"], "standing by");
    far.run(200);
    far.gap = Duration::ZERO;
    // In a moment: until then the standby may not have been told all.
    until("a standby that is known", || {
        far.turn(4);
        let socket = net.file("1.sock");
        let out = Command::new(WEIR).args(["cmts", "takeover", "--socket"]).arg(socket).output().unwrap();
        out.status.success().then_some(())
    });
    far.last = Instant::now();
    until("the second to take over", || {
        far.turn(4);
        net.said(2).contains("ready after").then_some(())
    });
    far.run(500);
    let handed = far.gap;
    assert!(net.said(1).contains("handed over to the standby"), "{}", net.said(1));
    assert!(net.said(2).contains("the active gateway is handed over"), "{}", net.said(2));
    far.rest();
    let after = far.device.heard();
    assert_eq!(after.packets_lost, heard.packets_lost, "no number was left out: {after:?}");
    assert_eq!((after.packets_late, after.late, after.reordered, after.duplicated), (0, 0, 0, 0), "{after:?}");
    assert_eq!((after.bad_crc, after.no_key, after.strangers, after.bad_header), (0, 0, 0, 0), "{after:?}");
    let (sent, got) = (far.hosts.sent().0, after.in_order);
    // One that hangs, with traffic flowing: it is ended, and does not speak again.
    net.start(3, &["--standby"], "standing by");
    far.run(200);
    let hung = net.children[2].id().to_string();
    ok(&format!("kill -STOP {hung}"));
    far.last = Instant::now();
    until("the third to take over", || {
        far.turn(4);
        net.said(3).contains("ready after").then_some(())
    });
    assert!(net.said(3).contains("the active gateway is silent for 500 ms"), "{}", net.said(3));
    assert_eq!(net.children[2].wait().unwrap().signal(), Some(9), "it was ended");
    far.run(500);
    far.rest();
    let last = far.device.heard();
    assert_eq!((last.packets_late, last.late, last.reordered, last.duplicated), (0, 0, 0, 0), "{last:?}");
    println!(
        "longest without a packet: {alive:?} alone, {killed:?} when killed, {handed:?} when handed over; {got} of {sent} \
         packets arrived"
    );
    assert!(killed < Duration::from_secs(30) && handed < Duration::from_secs(30), "{killed:?}, {handed:?}");
}

/// Processes that take a CPU as long as this lives, and two minutes of it at most.
struct Busy(Vec<Child>);

impl Busy {
    fn on(cpu: &str, count: usize) -> Self {
        let spin =
            || Command::new("taskset").args(["-c", cpu, "sh", "-c", "ulimit -t 120; while :; do :; done"]).spawn();
        Self((0..count).map(|_| spin().unwrap()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Looks on for so long; returns the longest that a process was not given a CPU, as its run time stood still.
fn starved(pid: u32, looked: Duration) -> Duration {
    let ran = || -> u64 {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("schedstat")).unwrap();
        tasks.map(|task| of(task.unwrap()).split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    let (begun, mut last, mut longest) = (Instant::now(), (Instant::now(), ran()), Duration::ZERO);
    while begun.elapsed() < looked {
        std::thread::sleep(Duration::from_millis(5));
        let now = ran();
        longest = longest.max(last.0.elapsed());
        if now != last.1 {
            last = (Instant::now(), now);
        }
    }
    longest
}

#[test]
fn a_gateway_that_others_keep_from_running_is_not_taken_for_dead() {
    let mut net = Net::new("b");
    net.start(0, &[], "ready after");
    let mut far = Far::new(&net);
    far.run(200);
    net.start(1, &["--standby"], "standing by");
    far.run(200);
    let allowed = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let cpu = allowed.trim().split([',', '-']).next().unwrap().to_owned();
    let pid = net.children[0].id();
    // It has a CPU only when nobody else wants it, and many always do: for longer, each time, than a gateway that hangs is
    // waited for. How long exactly is the kernel's affair.
    ok(&format!("taskset -a -p -c {cpu} {pid}"));
    ok(&format!("chrt -a -i -p 0 {pid}"));
    let busy = Busy::on(&cpu, 8);
    println!("without a CPU for {:?}", starved(pid, Duration::from_secs(6)));
    drop(busy);
    // As before, or it would take minutes to end beside whatever else keeps this CPU busy.
    ok(&format!("chrt -a -o -p 0 {pid}"));
    ok(&format!("taskset -a -p -c {} {pid}", allowed.trim()));
    assert_eq!(net.said(1).matches("taking over").count(), 0, "{}", net.said(1));
    assert!(net.children[0].try_wait().unwrap().is_none(), "and it was not ended");
    far.run(200);
    // Still it is stood by for.
    net.children[0].kill().unwrap();
    until("the standby to take over", || {
        far.turn(4);
        net.said(1).contains("ready after").then_some(())
    });
    far.run(200);
}
