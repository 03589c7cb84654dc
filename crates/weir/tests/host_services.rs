//! Services of the host beside a gateway's ports: a daemon on a port's host interface is reached by the port's link, within a
//! rate, while the gateway forwards.
//!
//! ```text
//!   host                                    gateway                       services
//!   [ gnb0 10.0.3.100 ]── veth ──[ eth0 ] n3 10.0.3.1 ── acc0  (TAP)  [ 10.0.3.1 ] TCP 2222
//!   [ dn0  10.0.6.254 ]── veth ──[ eth1 ] n6 10.0.6.1 ── core0 (TAP)  [ 10.0.6.1 ] TCP 2222, UDP 9000
//! ```

mod net;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use net::{Net, ends_well, example, number, ok, until, within};
use port::netns;

/// Packets a second to services of a port.
const RATE: u64 = 2000;
/// The longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// The namespace of services; removed when dropped.
struct Services(String);

impl Services {
    fn new(test: &str) -> Self {
        let services = Self(format!("weir-cp-{}-{test}-s", std::process::id()));
        ok(&format!("ip netns add {}", services.0));
        ok(&format!("ip -n {} link set lo up", services.0));
        services
    }

    /// A daemon that answers each connection with what it receives.
    fn echo(&self, address: &str) {
        let listener = netns::within(&self.0, || TcpListener::bind(address)).unwrap().unwrap();
        // It ends with the test program: `accept` has no time limit.
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut space = [0; 4096];
                while let Ok(len @ 1..) = stream.read(&mut space) {
                    if stream.write_all(&space[..len]).is_err() {
                        break;
                    }
                }
            }
        });
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// The example with those ports, and host interfaces in that namespace.
fn config(n3: &str, n6: &str, services: &Services, rate: u64) -> String {
    let mut config = fs::read_to_string(example("upf-packet.toml")).unwrap();
    for (old, new, interface) in [("packet:eth0?mode=auto", n3, "acc0"), ("packet:eth1?mode=auto", n6, "core0")] {
        let host = format!("host_interface = \"{}/{interface}\"\nhost_packets_per_second = {rate}", services.0);
        assert!(config.contains(old));
        config = config.replace(&format!("uri = \"{old}\""), &format!("uri = \"{new}\"\n{host}"));
    }
    config
}

/// A TCP connection from the link to a service: what is sent comes back.
fn answers(net: &Net, to: &str) -> bool {
    let to: SocketAddr = to.parse().unwrap();
    let stream = netns::within(&net.host, || TcpStream::connect_timeout(&to, Duration::from_secs(5))).unwrap();
    let Ok(mut stream) = stream else { return false };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let sent: Vec<u8> = (0..200_000u32).map(|n| (n / 7) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let data = sent.clone();
    let writing = std::thread::spawn(move || writer.write_all(&data));
    let mut came = vec![0; sent.len()];
    stream.read_exact(&mut came).unwrap();
    writing.join().unwrap().unwrap();
    came == sent
}

/// Packets that were dropped, or that the slow path took, under that name.
fn counted(net: &Net, of: &str, reason: &str) -> u64 {
    let run = net.show("run");
    let all = run["workers"].as_array().unwrap().iter().flat_map(|worker| worker[of].as_array().unwrap());
    all.filter(|entry| entry["reason"] == reason).map(|entry| number(&entry["packets"])).sum()
}

/// What became of a flood.
struct Flood {
    taken: u64,
    limited: u64,
    came: u64,
    /// From before the first datagram until all were counted.
    time: Duration,
}

/// Sends that many datagrams to a service, and waits until the gateway has counted all of them.
fn flood(net: &Net, services: &Services, sent: u64) -> Flood {
    let bind = |ns: &str, address: &str| netns::within(ns, || UdpSocket::bind(address)).unwrap().unwrap();
    let service = bind(&services.0, "10.0.6.1:9000");
    // It has room for all of them, should the reader be away.
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&service, 16 << 20).unwrap();
    service.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let client = bind(&net.host, "10.0.6.254:0");
    let count = || [counted(net, "punted", "host"), counted(net, "drops", "host_limited")];
    let before = count();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut space = [0; 64];
            let mut came = 0u64;
            loop {
                let last = over.load(Ordering::Relaxed);
                match service.recv(&mut space) {
                    Ok(_) => came += 1,
                    Err(_) if last => break came,
                    Err(_) => {}
                }
            }
        });
        let begin = Instant::now();
        for n in 0..sent {
            client.send_to(&n.to_be_bytes(), "10.0.6.1:9000").unwrap();
            if n % 64 == 63 {
                // No ring is full: 30,000 a second at most.
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let after = until("all packets", || {
            let now = count();
            (now[0] + now[1] - before[0] - before[1] >= sent).then_some(now)
        });
        let time = begin.elapsed();
        over.store(true, Ordering::Relaxed);
        let came = receiving.join().unwrap();
        Flood { taken: after[0] - before[0], limited: after[1] - before[1], came, time }
    })
}

/// Datagrams to a service, far more than its rate: it gets no more than that.
fn flood_is_bounded(net: &Net, services: &Services) {
    const SENT: u64 = 6000;
    // A busy machine may take so long that the rate is enough for all.
    let bounded = (0..5).find_map(|_| {
        let flood = flood(net, services, SENT);
        let Flood { taken, limited, came, time } = flood;
        println!("of {SENT} datagrams {came} arrived in {time:?}, {taken} were taken, {limited} beyond the rate");
        // What is left of the other connections may be counted too.
        assert!((SENT..SENT + 100).contains(&(taken + limited)), "{taken} and {limited}");
        assert!(came <= taken && came >= taken * 9 / 10, "{came} of {taken} arrived");
        // At once a tenth of a second's.
        let most = ((time.as_secs_f64() + 0.1) * RATE as f64 * 1.1) as u64 + 64;
        assert!(taken <= most, "{taken} of at most {most} in {time:?}");
        assert!(taken >= RATE / 20, "{taken} are too few");
        (most < SENT * 3 / 4).then_some(limited)
    });
    let limited = bounded.expect("sent faster than the rate once in five times");
    assert!(limited > SENT / 5, "{limited} beyond the rate of {RATE}");
}

fn services_are_reached(test: &str, n3: &str, n6: &str) {
    let net = Net::new(test);
    let services = Services::new(test);
    // The links' ends compute whole checksums, as the wire has them.
    for (end, address) in [("gnb0", "10.0.3.100/24"), ("dn0", "10.0.6.254/24")] {
        ok(&format!("ip netns exec {} ethtool -K {end} tx off", net.host));
        ok(&format!("ip -n {} address add {address} dev {end}", net.host));
    }
    let gateway = net.start(&config(n3, n6, &services, RATE));
    for address in ["10.0.3.1:2222", "10.0.6.1:2222"] {
        services.echo(address);
        assert!(answers(&net, address), "{address}: {} {}", net.show("drops"), net.show("ports"));
    }
    // The gateway answers itself.
    let ping = within(&net.host, "ping").args(["-c", "1", "-W", "10", "10.0.6.1"]).output().unwrap();
    assert!(ping.status.success(), "{}", String::from_utf8_lossy(&ping.stdout));
    flood_is_bounded(&net, &services);
    // And so does the service still.
    std::thread::sleep(Duration::from_millis(200));
    assert!(answers(&net, "10.0.6.1:2222"));
    ends_well(gateway);
}

#[test]
fn services_are_reached_by_packet_ports() {
    services_are_reached("hs", "packet:eth0?mode=auto", "packet:eth1?mode=auto");
}

#[test]
fn services_are_not_reached_without_a_rate() {
    let net = Net::new("hn");
    let services = Services::new("hn");
    ok(&format!("ip -n {} address add 10.0.6.254/24 dev dn0", net.host));
    let gateway = net.start(&config("packet:eth0?mode=auto", "packet:eth1?mode=auto", &services, 0));
    services.echo("10.0.6.1:2222");
    let to: SocketAddr = "10.0.6.1:2222".parse().unwrap();
    let refused = netns::within(&net.host, || TcpStream::connect_timeout(&to, Duration::from_millis(1500))).unwrap();
    assert!(refused.is_err());
    assert!(counted(&net, "drops", "no_service") > 0, "{}", net.show("drops"));
    ends_well(gateway);
}

/// Without DPDK in the build this does nothing.
#[test]
fn services_are_reached_by_dpdk_ports() {
    if port_dpdk::BUILT {
        let device = |n: u8, name: &str| format!("dpdk:net_af_packet{n},iface={name},framesz=1792,blocksz=28672");
        services_are_reached("hd", &device(0, "eth0"), &device(1, "eth1"));
    }
}
