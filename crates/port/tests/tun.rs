//! TUN ports in namespaces of their own. Needs root.
//!
//! ```text
//!   namespace A                                       namespace B
//!   host ── [ weirtun 10.9.0.1 ]── port ── test ── port ──[ weirtun 10.9.0.2 ] ── host
//! ```

mod net;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use frame::{Batch, Link};
use net::{Door, Net};
use port::{PortError, Steer};

const ADDRESSES: [&str; 2] = ["10.9.0.1/24", "fd00:9::1/64"];

/// Namespaces without the veth pair's part, and IPv6.
fn net() -> Net {
    let net = Net::new();
    for ns in [&net.a, &net.b] {
        for which in ["all", "default"] {
            Net::exec(ns, &["sysctl", "-qw", &format!("net.ipv6.conf.{which}.disable_ipv6=0")]);
        }
    }
    net
}

fn tun(ns: &str, keys: &str) -> String {
    format!("tun:weirtun?netns={ns}{keys}")
}

/// An echo request from `10.9.0.5` or `fd00:9::5` to the host's address, in Ethernet as a stage would send it.
fn ping(six: bool) -> Vec<u8> {
    let link = [&port::tun::PEER[..], &port::tun::MAC].concat();
    let with_checksum = |mut message: Vec<u8>, pseudo: u16| {
        let sum = wire::checksum::combine(pseudo, wire::checksum::sum(&message));
        message[2..4].copy_from_slice(&wire::checksum::finish(sum).to_be_bytes());
        message
    };
    if six {
        let mut packet = vec![0x60, 0, 0, 0, 0, 16, 58, 64];
        let address = |last| [0xfd, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        packet.extend([address(5), address(1)].concat());
        let pseudo = wire::checksum::pseudo6(u128::from_be_bytes(address(5)), u128::from_be_bytes(address(1)), 58, 16);
        let message = with_checksum([&[128, 0, 0, 0, 0, 7, 0, 1][..], b"pingpong"].concat(), pseudo);
        [link, vec![0x86, 0xdd], packet, message].concat()
    } else {
        let mut packet = vec![0x45, 0, 0, 36, 0, 1, 0, 0, 64, 1, 0, 0, 10, 9, 0, 5, 10, 9, 0, 1];
        let sum = wire::checksum::of(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        let message = with_checksum([&[8, 0, 0, 0, 0, 7, 0, 1][..], b"pingpong"].concat(), 0);
        [link, vec![8, 0], packet, message].concat()
    }
}

/// The echo reply among the packets.
fn is_pong(frame: &[u8]) -> bool {
    frame.ends_with(b"pingpong") && matches!(frame.get(34..36), Some([0, 0])) || frame.get(54) == Some(&129)
}

#[test]
fn the_host_answers_pings() {
    let net = net();
    for (keys, there) in [("", true), ("&offloads=off", true), ("&mtu=1400", false)] {
        let ip = |args: &[&str]| net.ip_a(args);
        if there {
            ip(&["tuntap", "add", "name", "weirtun", "mode", "tun"]);
            ip(&["link", "set", "weirtun", "up"]);
        }
        let mut door = Door::open(&tun(&net.a, keys));
        for address in ADDRESSES {
            // Without a look whether another host has it, which would take a second in which nothing answers.
            ip(&["address", "add", address, "dev", "weirtun", "nodad"]);
        }
        door.until("a link", |port| port.caps().link == Link::Up);
        let mut sent = 0;
        for six in [false, true] {
            // The kernel takes an IPv6 address into use some time after the command has returned: ask until it answers.
            let end = Instant::now() + Duration::from_secs(10);
            let mut answered = false;
            while !answered {
                assert!(Instant::now() < end, "no answer: {:?} {:?}", door.port.caps(), door.port.counters());
                door.send(&[ping(six)]);
                sent += 1;
                answered = door.listen(Duration::from_millis(50)).iter().any(|frame| is_pong(frame));
            }
        }
        let caps = door.port.caps();
        assert_eq!((caps.kind, caps.mtu, caps.peer), ("tun", if there { 1500 } else { 1400 }, Some(port::tun::PEER)));
        // What is not IP has no place here.
        assert_eq!(door.offer(&[net::packet(port::tun::PEER, port::tun::MAC, 1, 60), ping(false)]), 2);
        let counters = door.port.counters();
        assert_eq!((counters.tx_packets, counters.tx_errors), (sent + 1, 1), "{counters:?}");
        door.close();
        match there {
            true => ip(&["link", "del", "weirtun"]),
            false => gone(&net.a),
        }
    }
}

/// Bytes that tell their place.
fn bytes(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| ((at * 31) >> 3) as u8).collect()
}

/// Waits until an interface that a port made is gone: another test's process, just forked, has a copy of the descriptor
/// until it runs its program.
fn gone(ns: &str) {
    let end = Instant::now() + Duration::from_secs(3);
    while Net::exec(ns, &["ip", "-o", "link"]).contains("weirtun") {
        assert!(Instant::now() < end, "what was made goes");
    }
}

/// Stops the relay, also when a test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The connection that is made within ten seconds.
fn accepted(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                return stream;
            }
            Err(error) => assert!(Instant::now() < end, "no connection: {error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Passes what one port receives to the other, both ways, until told to stop.
fn relay(mut a: Door, mut b: Door, stop: &AtomicBool) -> (Door, Door) {
    let mut batch = Batch::new();
    let pass = |from: &mut Door, to: &mut Door, batch: &mut Batch| {
        from.port.service(&mut from.pool);
        from.port.rx_burst(&mut from.pool, batch);
        let frames: Vec<Vec<u8>> = batch.frames().iter().map(|frame| from.arena.bytes(frame).to_vec()).collect();
        from.pool.give_all(batch);
        let mut out = Batch::new();
        for mut frame in frames {
            let (head, rest) = frame.split_at_mut(6);
            head.swap_with_slice(&mut rest[..6]);
            out.push(to.pool.make(&frame).unwrap()).unwrap();
        }
        to.port.tx_burst(&mut to.pool, &mut out);
        assert!(out.is_empty(), "{:?}", to.port.counters());
    };
    while !stop.load(Ordering::Relaxed) {
        pass(&mut a, &mut b, &mut batch);
        pass(&mut b, &mut a, &mut batch);
    }
    (a, b)
}

/// One call gives the kernel ten datagrams to cut, which leaves that to the port.
fn datagrams(net: &Net) {
    let receiver = port::netns::within(&net.b, || UdpSocket::bind("10.9.0.2:701")).unwrap().unwrap();
    let sender = port::netns::within(&net.a, || UdpSocket::bind("10.9.0.1:701")).unwrap().unwrap();
    net::segment_datagrams(&sender, 1000);
    sender.send_to(&bytes(0, 9500), "10.9.0.2:701").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut got: Vec<u8> = Vec::new();
    for n in 0..10 {
        let mut datagram = [0; 2000];
        let len = receiver.recv(&mut datagram).unwrap();
        assert_eq!(len, if n < 9 { 1000 } else { 500 });
        got.extend(&datagram[..len]);
    }
    assert_eq!(got, bytes(0, 9500));
}

#[test]
fn streams_and_datagrams_pass_whole() {
    const LEN: usize = 8 << 20;
    let net = net();
    for keys in ["", "&offloads=off"] {
        let (a, b) = (Door::open(&tun(&net.a, keys)), Door::open(&tun(&net.b, keys)));
        for (ns, last) in [(&net.a, 1), (&net.b, 2)] {
            Net::exec(ns, &["ip", "address", "add", &format!("10.9.0.{last}/24"), "dev", "weirtun"]);
            Net::exec(ns, &["ip", "address", "add", &format!("fd00:9::{last}/64"), "dev", "weirtun", "nodad"]);
        }
        let stop = AtomicBool::new(false);
        let (a, b) = std::thread::scope(|scope| {
            let ends = Stop(&stop);
            let relay = scope.spawn(|| relay(a, b, &stop));
            for address in ["10.9.0.2:700", "[fd00:9::2]:700"] {
                let listener = port::netns::within(&net.b, || TcpListener::bind(address)).unwrap().unwrap();
                let sender = scope.spawn(|| {
                    let (to, patience) = (address.parse().unwrap(), Duration::from_secs(10));
                    let connect = || TcpStream::connect_timeout(&to, patience);
                    let mut stream = port::netns::within(&net.a, connect).unwrap().unwrap();
                    stream.set_write_timeout(Some(patience)).unwrap();
                    for at in (0..LEN).step_by(1 << 16) {
                        stream.write_all(&bytes(at, 1 << 16)).unwrap();
                    }
                });
                let mut stream = accepted(&listener);
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let mut got = Vec::new();
                stream.read_to_end(&mut got).unwrap();
                assert!(got.len() == LEN && got == bytes(0, LEN), "{} bytes of {address}", got.len());
                sender.join().unwrap();
            }
            if keys.is_empty() {
                datagrams(&net);
            }
            drop(ends);
            relay.join().unwrap()
        });
        let (sent, received) = (a.port.counters(), b.port.counters());
        let calls = (sent.syscalls, sent.rx_packets + sent.tx_packets);
        println!("{keys}: {calls:?} {received:?}");
        for counters in [sent, received] {
            assert_eq!((counters.rx_invalid, counters.rx_too_long, counters.rx_errors), (0, 0, 0), "{counters:?}");
            assert_eq!((counters.tx_errors, counters.tx_full, counters.tx_lost), (0, 0, 0), "{counters:?}");
        }
        a.close();
        b.close();
        [&net.a, &net.b].into_iter().for_each(|ns| gone(ns));
    }
}

#[test]
fn queues_are_shared_among_workers() {
    let net = net();
    // Made here: with as many queues as are opened.
    let doors = [Door::open(&tun(&net.a, "")), Door::open(&tun(&net.a, ""))];
    doors.into_iter().for_each(Door::close);
    gone(&net.a);
    net.ip_a(&["tuntap", "add", "name", "weirtun", "mode", "tun"]);
    let door = Door::open(&tun(&net.a, ""));
    let error = Door::try_open(&tun(&net.a, ""), &Steer::new()).map(drop).unwrap_err().to_string();
    assert!(error.contains("ip tuntap add name weirtun mode tun multi_queue"), "{error}");
    door.close();
}

#[test]
fn another_kind_of_interface_is_refused() {
    let net = net();
    let open = |uri: String| Door::try_open(&uri, &Steer::new()).map(drop).unwrap_err();
    let error = open(format!("tun:left?netns={}", net.a)).to_string();
    assert!(error.contains("`left`, an interface of another kind") && error.contains("mode tun"), "{error}");
    assert!(matches!(open("tun:".into()), PortError::BadUri { .. }));
    assert!(matches!(open("tun:a-name-too-long-for-it".into()), PortError::BadUri { .. }));
    assert!(matches!(open("tun:x?mtu=12".into()), PortError::BadValue { .. }));
    assert!(matches!(open("tun:x?mode=ring".into()), PortError::UnknownKey { .. }));
}

/// Whether the kernel leaves checksums and segmentation to whoever reads the interface.
const LEFT_TO_READERS: &str = "
import array, fcntl, socket, struct
def get(command):
    value = array.array('B', struct.pack('II', command, 0))
    request = struct.pack('16sP', b'weirtun', value.buffer_info()[0])
    fcntl.ioctl(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0x8946, request)
    return struct.unpack('II', value)[1]
print(get(0x16), get(0x1e))
";

#[test]
fn the_next_process_gets_checksums_and_packets_that_fit() {
    let net = net();
    net.ip_a(&["tuntap", "add", "name", "weirtun", "mode", "tun"]);
    net.ip_a(&["link", "set", "weirtun", "up"]);
    let left = || Net::exec(&net.a, &["python3", "-c", LEFT_TO_READERS]);
    let door = Door::open(&tun(&net.a, ""));
    assert_eq!(left().trim(), "1 1");
    door.close();
    assert_eq!(left().trim(), "0 0");
}

/// Claims `weirtun` as another gateway's process does, until its standard input ends.
const CLAIM: &str = r#"
import socket, sys
claim = socket.socket(socket.AF_UNIX)
claim.bind("\0weir/interface/%d/whole" % socket.if_nametoindex("weirtun"))
claim.listen()
print("claimed", flush=True)
sys.stdin.read()
"#;

/// What the kernel is set to: its MTU, and what it leaves to readers.
fn settings(net: &Net) -> (String, String) {
    let mtu = Net::exec(&net.a, &["cat", "/sys/class/net/weirtun/mtu"]);
    (mtu.trim().to_owned(), Net::exec(&net.a, &["python3", "-c", LEFT_TO_READERS]).trim().to_owned())
}

#[test]
fn a_refused_process_changes_no_settings() {
    let net = net();
    net.ip_a(&["tuntap", "add", "name", "weirtun", "mode", "tun", "multi_queue"]);
    net.ip_a(&["link", "set", "weirtun", "up"]);
    let mut other = Command::new("ip")
        .args(["netns", "exec", &net.a, "python3", "-c", CLAIM])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said.trim(), "claimed");
    let before = settings(&net);
    let refused = Door::try_open(&tun(&net.a, "&mtu=1400"), &Steer::new()).map(drop);
    let after = settings(&net);
    drop(other.stdin.take());
    other.wait().unwrap();
    let Err(PortError::InUse { process, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(process, format!("process {}", other.id()));
    assert_eq!((before, after), (("1500".into(), "0 0".into()), ("1500".into(), "0 0".into())));
    // The same process is not in the way once it has ended.
    let door = Door::open(&tun(&net.a, "&mtu=1400"));
    assert_eq!(settings(&net), ("1400".into(), "1 1".into()));
    door.close();
}

#[test]
fn offloads_last_as_long_as_any_queue() {
    let net = net();
    net.ip_a(&["tuntap", "add", "name", "weirtun", "mode", "tun", "multi_queue"]);
    net.ip_a(&["link", "set", "weirtun", "up"]);
    let [first, second] = [0; 2].map(|_| Door::open(&tun(&net.a, "")));
    first.close();
    assert_eq!(settings(&net).1, "1 1", "the other queue's reader expects super-packets");
    second.close();
    assert_eq!(settings(&net).1, "0 0");
}

#[test]
fn an_interface_that_comes_back_is_attached_to() {
    let net = net();
    let make = || {
        net.ip_a(&["tuntap", "add", "name", "weirtun", "mode", "tun"]);
        net.ip_a(&["address", "add", "10.9.0.1/24", "dev", "weirtun"]);
        net.ip_a(&["link", "set", "weirtun", "up"]);
    };
    make();
    let mut door = Door::open(&tun(&net.a, ""));
    door.until("a link", |port| port.caps().link == Link::Up);
    net.ip_a(&["link", "del", "weirtun"]);
    door.until("no interface", |port| port.caps().link == Link::Gone);
    assert_eq!(door.offer(&[ping(false)]), 0);
    make();
    door.until("a link again", |port| port.caps().link == Link::Up);
    door.send(&[ping(false)]);
    let mut answered = false;
    door.until_with("an answer", |frames| {
        answered |= frames.iter().any(|(frame, _)| is_pong(frame));
        answered
    });
    let counters = door.port.counters();
    assert_eq!((counters.link_losses, counters.tx_link_down), (1, 1), "{counters:?}");
    door.close();
}
