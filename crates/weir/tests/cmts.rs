//! A cable gateway as a process, between a network and a Remote-PHY device that count packets:
//!
//! ```text
//!   far                          gateway
//!   [ net0 ]──── veth ────[ eth0 ] nsi
//!   [ rpd0 ]──── veth ────[ eth1 ] cin     weir run
//! ```
//!
//! Both namespaces are the test's own and go with it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crypto::Key;
use crypto::bpi::{Schedule, crc32};
use wire::docsis::{Element, Kind, Privacy, emit_frame};
use wire::{ccf, checksum, psp, uepi};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

struct Net {
    far: String,
    gateway: String,
    folder: PathBuf,
    running: Option<Child>,
}

fn ok(args: &[&str]) -> String {
    let out = Command::new(args[0]).args(&args[1..]).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

impl Net {
    fn new() -> Self {
        let name = |end: &str| format!("weir-cmts-{}-{end}", std::process::id());
        let folder = std::env::temp_dir().join(name("dir"));
        fs::create_dir_all(&folder).unwrap();
        let net = Self { far: name("f"), gateway: name("g"), folder, running: None };
        for ns in [&net.far, &net.gateway] {
            ok(&["ip", "netns", "add", ns]);
            ok(&["ip", "netns", "exec", ns, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"]);
        }
        for (ours, theirs) in [("eth0", "net0"), ("eth1", "rpd0")] {
            let pair = ["link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", &net.far];
            ok(&[&["ip", "-n", &net.gateway][..], &pair].concat());
            ok(&["ip", "-n", &net.gateway, "link", "set", ours, "up"]);
            ok(&["ip", "-n", &net.far, "link", "set", theirs, "up"]);
        }
        // Both ends answer ARP: what the gateway needs it asks for.
        ok(&["ip", "-n", &net.gateway, "link", "set", "lo", "up"]);
        ok(&["ip", "-n", &net.far, "addr", "add", "198.18.0.1/24", "dev", "net0"]);
        ok(&["ip", "-n", &net.far, "addr", "add", "172.16.0.2/24", "dev", "rpd0"]);
        net
    }

    fn start(&mut self) {
        let text = include_str!("../../../examples/cmts.toml").replace("packet:eth1", "packet:eth9");
        let text = text.replace("packet:eth2", "packet:eth1").replace("packet:eth9", "packet:eth0")
            + "\n[metrics]\naddress = \"127.0.0.1:9464\"\n";
        let path = self.folder.join("cmts.toml");
        fs::write(&path, text).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.gateway, WEIR, "run"]).arg(&path);
        command.arg("--socket").arg(self.folder.join("weir.sock"));
        self.running = Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let until = Instant::now() + Duration::from_secs(20);
        while !self.folder.join("weir.sock").exists() {
            assert!(Instant::now() < until, "no control socket");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn weir(&self, args: &[&str]) -> Result<String, String> {
        let out = Command::new(WEIR).args(args).arg("--socket").arg(self.folder.join("weir.sock")).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if out.status.success() { Ok(text(&out.stdout)) } else { Err(text(&out.stderr)) }
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.weir(&[args, &["--json"]].concat()).unwrap()).unwrap()
    }

    /// Sends UDP packets to hosts behind modems; returns how many L2TPv3 packets the device got, and its last one.
    fn send(&self, packets: u32) -> (u32, Vec<u8>) {
        let script = r#"
import socket, struct, sys, time
gw = bytes.fromhex(sys.argv[1]); n = int(sys.argv[2])
tx = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); tx.bind(("net0", 0))
rx = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)); rx.bind(("rpd0", 0x0800)); rx.settimeout(1.0)
def checksum(b):
    s = sum(struct.unpack("!%dH" % (len(b) // 2), b))
    s = (s & 0xffff) + (s >> 16); s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff
got, last = 0, b""
for i in range(n):
    body = struct.pack("!HHHH", 1000, 2000, 8 + 400, 0) + bytes(400)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 0, 0x4000, 64, 17, 0, bytes([198, 18, 0, 1]), bytes([10, 64, 0, 1 + i % 8]))
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    tx.send(gw + bytes.fromhex("020000000101") + b"\x08\x00" + head + body)
    if i % 10 == 9: time.sleep(0.002)
try:
    while True:
        packet = rx.recv(2048)
        if packet[23] == 115: got, last = got + 1, packet
except TimeoutError:
    pass
print(got, last.hex())
"#;
        let mac = ok(&["ip", "netns", "exec", &self.gateway, "cat", "/sys/class/net/eth0/address"]);
        let mac = mac.trim().replace(':', "");
        let said = ok(&["ip", "netns", "exec", &self.far, "python3", "-c", script, &mac, &packets.to_string()]);
        let (count, bytes) = said.trim().split_once(' ').unwrap_or((said.trim(), ""));
        let byte = |n: usize| u8::from_str_radix(&bytes[n * 2..n * 2 + 2], 16).unwrap();
        (count.parse().unwrap(), (0..bytes.len() / 2).map(byte).collect())
    }
}

impl Net {
    /// Sends frames from the device; returns how many UDP packets of hosts the network got of it.
    fn send_up(&self, frames: &[Vec<u8>]) -> u32 {
        let script = r#"
import socket, sys
tx = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); tx.bind(("rpd0", 0))
rx = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)); rx.bind(("net0", 0x0800)); rx.settimeout(1.0)
for frame in sys.argv[1:]: tx.send(bytes.fromhex(frame))
got = 0
try:
    while True:
        packet = rx.recv(2048)
        got += packet[23] == 17 and packet[26:29] == bytes([10, 64, 0])
except TimeoutError:
    pass
print(got)
"#;
        let hex = |frame: &Vec<u8>| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let frames: Vec<String> = frames.iter().map(hex).collect();
        let args = ["ip", "netns", "exec", &self.far, "python3", "-c", script];
        ok(&args.into_iter().chain(frames.iter().map(String::as_str)).collect::<Vec<_>>()).trim().parse().unwrap()
    }

    /// UEPI packets of a burst each: what the first host of a modem sends to the network, under the modem's key.
    fn bursts(&self, modem: u8, count: u16) -> Vec<Vec<u8>> {
        let mac = ok(&["ip", "netns", "exec", &self.gateway, "cat", "/sys/class/net/eth1/address"]);
        let mac = mac.trim().parse::<wire::Mac>().unwrap().0;
        let first = 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e00u128;
        let key = (first + u128::from(modem)).to_be_bytes();
        let key = Key::aes128(key, 0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100u128.to_be_bytes());
        let ip = |protocol: u8, addresses: [[u8; 4]; 2], body: &[u8]| {
            let len = (20 + body.len()) as u16;
            let mut head = [&[0x45, 0], &len.to_be_bytes()[..], &[0, 0, 0x40, 0, 64, protocol, 0, 0]].concat();
            head.extend(addresses.concat());
            let sum = checksum::of(&head);
            head[10..12].copy_from_slice(&sum.to_be_bytes());
            [head, body.to_vec()].concat()
        };
        let burst = |n: u16| {
            let udp = [&[3, 0xe8, 7, 0xd0, 0, 48, 0, 0], &[n as u8; 40][..]].concat();
            let packet = ip(17, [[10, 64, 0, 1 + 4 * modem], [198, 18, 0, 1]], &udp);
            let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0xca, 0, 0, 0, 1, 8, 0], &packet[..]].concat();
            frame.extend(crc32(&frame));
            Schedule::new(&key).encrypt(&mut frame[12..]);
            let sid = 1 + u16::from(modem);
            let mut segment = vec![0; ccf::HEADER_LEN + 32];
            let privacy = Element::BpUp2(Privacy::encrypted(0, sid));
            let len = emit_frame(Kind::Packet, &[privacy], frame.len(), &mut segment[ccf::HEADER_LEN..]).unwrap();
            segment.truncate(ccf::HEADER_LEN + len);
            segment.extend(frame);
            ccf::Repr { pointer: Some(0), sequence: n, cluster: 0, request: 0 }.emit(&mut segment).unwrap();
            let (mut head, mut tail) = ([0; uepi::Header::LEN], [0; uepi::Trailer::LEN]);
            uepi::Header { no_burst: false, iuc: 9, sid, minislot: 1 }.emit(&mut head).unwrap();
            uepi::Trailer::default().emit(&mut tail).unwrap();
            let pieces = [(true, false, &head[..]), (false, false, &segment), (false, true, &tail)];
            let table = pieces.map(|(begin, end, bytes)| psp::Entry::of(begin, end, bytes.len()));
            let repr = psp::Repr { flow: 0, sequence: n + count * u16::from(modem), word: None };
            // The first of the group's sessions that modems' bursts come by.
            let mut body = [&0x2000u32.to_be_bytes()[..], &vec![0; repr.header_len(3)]].concat();
            repr.emit(&table, &mut body[4..]).unwrap();
            pieces.iter().for_each(|(.., bytes)| body.extend_from_slice(bytes));
            let outer = ip(115, [[172, 16, 0, 2], [172, 16, 0, 1]], &body);
            [&mac[..], &[2, 0, 0, 0, 0x10, 1, 8, 0], &outer].concat()
        };
        (0..count).map(burst).collect()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        if let Some(mut child) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for ns in [&self.far, &self.gateway] {
            let _ = Command::new("ip").args(["netns", "del", ns]).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What Prometheus's own reader makes of `/metrics`, and what the other paths answer.
fn scrape(net: &Net) -> serde_json::Value {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let (python, script) = (format!("{root}/target/judge/bin/python3"), format!("{root}/tests/net/scrape.py"));
    let said = ok(&["ip", "netns", "exec", &net.gateway, &python, &script, "http://127.0.0.1:9464"]);
    serde_json::from_str(&said).unwrap()
}

/// `weir trace` of the next three packets of a modem, once it follows them.
fn follow(net: &Net, modem: &str) -> Child {
    let mut command = Command::new(WEIR);
    command.args(["trace", "--modem", modem, "--packets", "3", "--socket"]);
    command.arg(net.folder.join("weir.sock")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tracing = command.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(tracing.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, format!("following the next 3 packets of modem {modem}\n"));
    tracing
}

/// What it told: each of the packets went through each of these.
fn followed(tracing: Child, stages: &[&str]) -> String {
    let text = String::from_utf8(tracing.wait_with_output().unwrap().stdout).unwrap();
    for stage in stages {
        assert_eq!(text.matches(&format!("  {stage} ")).count(), 3, "{stage}: {text}");
    }
    text
}

/// A modem's packets are followed from the network into the DEPI packet, and nobody else's.
fn trace(net: &Net) {
    let tracing = follow(net, "02:CB:00:00:00:01");
    let other = net.weir(&["trace", "--modem", "10.64.0.9", "--seconds", "0.01"]).expect_err("one at a time");
    assert!(other.contains("another `weir trace` follows 10.64.0.1"), "{other}");
    // Half of them are another modem's.
    net.send(40);
    let text = followed(tracing, &["cm_lookup", "classification", "docsis_framing", "depi_encap"]);
    assert!(text.contains("modem 0, service flow 0") && !text.contains("modem 1"), "{text}");
    let wrong = net.weir(&["trace", "--modem", "02:cb:00:00:77:77"]).expect_err("it is not there");
    assert!(wrong.contains("none of the 301 modems matches"), "{wrong}");
}

/// A modem's packets are followed from where bursts are taken apart to the network, and nobody else's.
fn trace_upstream(net: &Net) {
    let tracing = follow(net, "02:cb:00:00:00:02");
    // The other modem's are not followed. The next hop's hardware address may have to be asked for first.
    let frames = [net.bursts(0, 3), net.bursts(1, 3)].concat();
    assert_eq!(net.send_up(&frames), 6, "{}", net.weir(&["show", "drops"]).unwrap());
    let stages = ["decryption", "docsis_decap", "cm_lookup", "filtering", "marking", "route", "rewrite_l2"];
    let text = followed(tracing, &stages);
    assert!(text.contains("modem 1") && !text.contains("modem 0"), "{text}");
}

/// Routes come by a reload; a wrong file and a key that needs a restart change nothing.
fn reload(net: &Net) {
    let path = net.folder.join("cmts.toml");
    let config = fs::read_to_string(&path).unwrap();
    let write = |text: &str| fs::write(&path, text).unwrap();
    write(&(config.clone() + "\n[[route]]\nto = \"203.0.113.0/24\"\nvia = \"198.18.0.2\"\n"));
    let said = net.weir(&["reload"]).unwrap();
    assert!(said.contains("(not set) → {") && said.ends_with("1 change applied\n"), "{said}");
    write(&(config.clone() + "\n[[route]]\nto = \"203.0.113.0/33\"\nvia = \"198.18.0.2\"\n"));
    let refused = net.weir(&["reload"]).expect_err("it is wrong");
    let line = config.lines().count() + 3;
    assert!(
        refused.contains(&format!("cmts.toml:{line}: route.")) && refused.contains("nothing has changed"),
        "{refused}"
    );
    write(&config.replace("127.0.0.1:9464", "127.0.0.1:9466"));
    let said = net.weir(&["reload"]).expect_err("a key needs a restart");
    assert!(said.contains("changed keys that need a restart, not applied: 1"), "{said}");
    write(&config);
    assert!(net.weir(&["reload"]).unwrap().contains("nothing differs"), "the route went with the last reload");
}

/// Prometheus reads what `weir show` says.
fn metrics(net: &Net) {
    let seen = scrape(net);
    let sum = |family: &str, label: &str| -> u64 {
        let of = |key: &str| key.split('{').next() == Some(family) && key.contains(label);
        let samples = seen["samples"].as_object().unwrap().iter().filter(|(key, _)| of(key));
        samples.map(|(_, value)| value.as_f64().unwrap() as u64).sum()
    };
    let show = |key: &str| -> u64 {
        let channels = net.json(&["show", "channels"]);
        let all = channels["channels"]["channels"].as_array().unwrap().clone();
        all.iter().map(|channel| channel[key].as_u64().unwrap()).sum()
    };
    let sg0 = "\"service_group\": \"sg0\"";
    assert_eq!((sum("weir_modems", sg0), sum("weir_ready", "")), (301, 1), "{seen}");
    assert_eq!(sum("weir_service_flows", "\"priority\": \"5\""), 300, "{seen}");
    assert_eq!((sum("weir_port_up", ""), sum("weir_standby", "")), (2, 0), "{seen}");
    assert_eq!(sum("weir_channel_capacity_bytes_per_second", "\"channel\": \"ofdm5\""), 236_250_000, "{seen}");
    // Nothing is sent meanwhile.
    assert!(show("sent_packets") > 0, "{seen}");
    assert_eq!(sum("weir_channel_frames_total", sg0), show("sent_packets"), "{seen}");
    assert_eq!(sum("weir_channel_depi_packets_total", sg0), show("depi_packets"), "{seen}");
    let matched = "\"event\": \"modem_lookup_matched\"";
    assert_eq!(sum("weir_cable_events_total", matched), show("sent_packets"), "{seen}");
    assert_eq!(seen["paths"]["/readyz"], serde_json::json!([200, "ready\n"]));
    assert_eq!(seen["paths"]["/healthz"], serde_json::json!([200, "alive\n"]));
}

/// Service flows, classifiers and filter groups of a modem, changed over the control socket; and what is refused.
fn service_flows(net: &Net, modem: &str) {
    let flow = |what: &str, more: &[&str]| net.weir(&[&["cmts", "service-flow", what, modem], more].concat());
    flow("change", &["voice", "--rate", "2 Mbit/s", "--priority", "6"]).unwrap();
    let said = flow("add", &["game", "--rate", "20 Mbit/s", "--priority", "6", "--group", "low"]);
    assert_eq!(said, Ok(format!("modem {modem} has service flow game\n")));
    let flows = net.json(&["show", "service-flows", "--modem", modem]);
    let rates: Vec<_> =
        flows["service_flows"].as_array().unwrap().iter().map(|f| f["rate_bps"].as_u64().unwrap()).collect();
    assert_eq!(rates, [600_000_000, 2_000_000, 20_000_000], "{flows}");
    flow("change", &["voice", "--reserved", "none"]).unwrap();
    let rule = |what: &str, more: &[&str]| net.weir(&[&["cmts", "classifier", what, modem], more].concat());
    let udp = ["--priority", "90", "--protocol", "udp", "--destination-ports", "3074"];
    assert_eq!(rule("add", &[&["game"][..], &udp].concat()), Ok(format!("modem {modem} has classifier 2\n")));
    let shown = rule("show", &[]).unwrap();
    assert!(shown.contains("2 classifiers") && shown.contains("destination_ports = \"3074\""), "{shown}");
    net.weir(&["cmts", "filters", modem, "--up", "", "--down", "no-mail"]).unwrap();
    let filters = |name: &str| net.weir(&["cmts", "filters", modem, "--up", name]);
    for (said, expected) in [
        (flow("add", &["game"]), "has a service flow \"game\" already"),
        (flow("add", &["more", "--group", "middle"]), "service group sg0 has no bonding group \"middle\": low, high"),
        (flow("add", &["more", "--rate", "fast"]), "rate: \"fast\" is no rate; such as \"100 Mbit/s\""),
        (flow("change", &["data"]), "has no service flow \"data\"; it has best-effort, voice, game"),
        (flow("del", &["best-effort"]), "is the primary service flow"),
        (rule("add", &["data"]), "has no service flow \"data\"; it has best-effort, voice, game"),
        (rule("add", &["game", "--id", "2"]), "classifier 2 is there already"),
        (rule("add", &["game", "--protocol", "carrier-pigeon"]), "protocol: no protocol is called \"carrier-pigeon\""),
        (rule("del", &["7"]), "has no classifier 7"),
        (filters("mail"), "no filter group is called \"mail\""),
        (net.weir(&["cmts", "service-flow", "del", "02:00:00:00:00:77", "x"]), "there is no modem 02:00:00:00:00:77"),
    ] {
        let said = said.expect_err(expected);
        assert!(said.contains(expected), "{said}");
    }
    let said = flow("del", &["game"]).unwrap();
    assert!(said.contains("and the classifiers that chose it: 1"), "{said}");
    rule("del", &["1"]).unwrap();
    assert!(rule("show", &[]).unwrap().contains("0 classifiers"));
}

#[test]
fn a_cable_gateway_runs_shows_itself_and_is_changed() {
    let mut net = Net::new();
    net.start();
    // Until the device's hardware address is known its packets have nowhere to go.
    let until = Instant::now() + Duration::from_secs(20);
    while net.send(10).0 == 0 {
        assert!(Instant::now() < until, "nothing reaches the device: {}", net.weir(&["show", "drops"]).unwrap());
    }
    let before =
        net.json(&["show", "service-flows", "--modem", "02:cb:00:00:00:01"])["service_flows"][0]["sent_packets"]
            .as_u64();
    let (packets, last) = net.send(200);
    assert!(packets >= 50, "{packets} DEPI packets");
    // An L2TPv3 session of sg0, behind Ethernet and IP.
    let session = u32::from_be_bytes([last[34], last[35], last[36], last[37]]);
    assert!((0x1000..0x1006).contains(&session), "{session:#x}");
    let flows = net.json(&["show", "service-flows", "--modem", "02:cb:00:00:00:01"]);
    assert_eq!(flows["service_flows"][0]["sent_packets"].as_u64(), before.map(|n| n + 100), "{flows}");
    assert_eq!(flows["service_flows"][0]["flow"], "best-effort");
    let modems = net.json(&["show", "modems"]);
    assert_eq!((&modems["total"], modems["entries"].as_array().map(Vec::len)), (&301.into(), Some(50)));
    let channels = net.json(&["show", "channels"]);
    let sent: u64 =
        channels["channels"]["channels"].as_array().unwrap().iter().map(|c| c["depi_packets"].as_u64().unwrap()).sum();
    assert!(sent >= u64::from(packets), "{channels}");
    assert!(net.weir(&["show", "channels"]).unwrap().contains("ofdm5"));
    assert!(net.weir(&["show", "run"]).unwrap().contains("docsis_framing"));
    metrics(&net);
    trace(&net);
    trace_upstream(&net);
    // Changes, right and wrong, while it runs.
    let said = net.weir(&["cmts", "modem", "del", "02:cb:00:00:00:02"]);
    assert_eq!(said.as_deref(), Ok("modem 02:cb:00:00:00:02 removed\n"));
    let said = net.weir(&["cmts", "modem", "show", "02:cb:00:00:00:02"]).expect_err("it is gone");
    assert!(said.contains("there is no modem 02:cb:00:00:00:02"), "{said}");
    let add = ["cmts", "modem", "add", "sg0", "--mac", "02:cb:00:00:99:01", "--profile", "home", "--ipv4"];
    let said = net.weir(&[&add[..], &["10.64.0.1"]].concat()).expect_err("it is another's");
    assert!(said.contains("no key"), "{said}");
    let key = "00112233445566778899aabbccddeeff";
    let more = ["10.64.99.1", "--sid", "900", "--key", key];
    assert_eq!(net.weir(&[&add[..], &more].concat()).as_deref(), Ok("1 modem added to sg0\n"));
    service_flows(&net, "02:cb:00:00:99:01");
    net.weir(&["cmts", "key", "set", "02:cb:00:00:00:01", "1", "--key", key]).unwrap();
    net.weir(&["cmts", "key", "use", "02:cb:00:00:00:01", "1"]).unwrap();
    assert!(net.weir(&["cmts", "key", "use", "02:cb:00:00:00:01", "2"]).is_err());
    assert!(net.send(80).0 > 10, "traffic flows on");
    reload(&net);
    assert!(net.send(80).0 > 10, "traffic flows on");
    let pid = net.running.as_ref().unwrap().id();
    ok(&["kill", "-INT", &pid.to_string()]);
    let out = net.running.take().unwrap().wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.matches("0 missing").count() == 2, "{text}");
}
