//! AF_PACKET ports on a veth pair. Needs root; see `net` for the topology.

mod net;

use std::time::{Duration, Instant};

use frame::Link;
use net::{Door, LEFT_MAC, Net, RIGHT_MAC, packet, tagged};
use port::{PortCounters, PortError, Steer, SteerExtensions, SteerSpec};

const MODES: [&str; 6] = ["plain", "plain&vlan=off", "mmsg", "ring", "slots", "auto"];

fn right(net: &Net, keys: &str) -> String {
    format!("packet:right?netns={}&mode={keys}", net.b)
}

fn left(net: &Net, keys: &str) -> String {
    format!("packet:left?netns={}&mode={keys}", net.a)
}

fn to_right(n: u32, len: usize) -> Vec<u8> {
    packet(RIGHT_MAC, LEFT_MAC, n, len)
}

fn to_left(n: u32, len: usize) -> Vec<u8> {
    packet(LEFT_MAC, RIGHT_MAC, n, len)
}

#[test]
fn exact_bytes_both_ways_in_every_mode() {
    let net = Net::new();
    for mode in MODES {
        let (mut a, mut b) = (Door::open(&left(&net, "mmsg")), Door::open(&right(&net, mode)));
        let there: Vec<_> = (0..100).map(|n| to_right(n, 60 + n as usize * 14)).collect();
        let back: Vec<_> = (0..100).map(|n| to_left(n, 1514 - n as usize * 14)).collect();
        a.send(&there);
        assert_eq!(b.receive(100), there, "{mode}");
        b.send(&back);
        assert_eq!(a.receive(100), back, "{mode}");
        let bytes = |packets: &[Vec<u8>]| packets.iter().map(|p| p.len() as u64).sum::<u64>();
        let expected = PortCounters {
            rx_packets: 100,
            rx_bytes: bytes(&there),
            tx_packets: 100,
            tx_bytes: bytes(&back),
            syscalls: b.port.counters().syscalls,
            ..PortCounters::default()
        };
        assert_eq!(b.port.counters(), expected, "{mode}");
        let caps = b.port.caps();
        assert_eq!((caps.mac, caps.mtu, caps.link), (RIGHT_MAC, 1500, Link::Up));
        a.close();
        b.close();
    }
}

#[test]
fn tags_are_there_on_arrival() {
    let net = Net::new();
    for mode in ["plain", "mmsg", "ring", "slots"] {
        let (mut a, mut b) = (Door::open(&left(&net, "plain")), Door::open(&right(&net, mode)));
        let one = to_right(1, 100);
        let sent = [
            tagged(&one, [0x81, 0, 0x20, 7]),
            tagged(&one, [0x88, 0xa8, 0x0f, 0xff]),
            tagged(&tagged(&one, [0x81, 0, 0, 9]), [0x88, 0xa8, 0, 3]),
            tagged(&to_right(2, 1514), [0x81, 0, 0, 5]),
            one,
        ];
        a.send(&sent);
        assert_eq!(b.receive(5), sent, "{mode}");
        a.close();
        b.close();
    }
}

#[test]
fn own_output_and_other_hosts_are_left() {
    let net = Net::new();
    for mode in MODES {
        let (mut a, mut b) = (Door::open(&left(&net, "mmsg")), Door::open(&right(&net, mode)));
        b.send(&[to_left(1, 60)]);
        let foreign = packet([2, 0, 0, 0, 0, 0x77], LEFT_MAC, 2, 60);
        let group = packet([0x33, 0x33, 0xff, 0, 0, 1], LEFT_MAC, 3, 60);
        a.send(&[foreign.clone(), group.clone()]);
        assert_eq!(b.listen(Duration::from_millis(40)), std::slice::from_ref(&group), "{mode}");
        assert_eq!(b.port.counters().rx_not_ours, 1, "{mode}");
        b.close();
        let mut b = Door::open(&right(&net, &format!("{mode}&promisc=on")));
        a.send(&[foreign.clone(), group.clone()]);
        assert_eq!(b.receive(2), [foreign, group], "{mode}");
        b.close();
        a.close();
    }
}

#[test]
fn offloads_are_off_while_any_port_is_open() {
    let net = Net::new();
    net.exec_b(&["ethtool", "-K", "right", "gro", "on"]);
    let before = net.exec_b(&["ethtool", "-k", "right"]);
    let ring = Door::open(&right(&net, "ring"));
    let plain = Door::open(&right(&net, "plain"));
    for _ in 0..2 {
        let during = net.exec_b(&["ethtool", "-k", "right"]);
        for what in ["tx-checksumming", "tcp-segmentation-offload", "generic-segmentation-offload"] {
            assert!(during.contains(&format!("{what}: off")), "{during}");
        }
        assert!(during.contains("generic-receive-offload: off"), "{during}");
    }
    ring.close();
    assert!(net.exec_b(&["ethtool", "-k", "right"]).contains("generic-receive-offload: off"));
    plain.close();
    assert_eq!(net.exec_b(&["ethtool", "-k", "right"]), before);
    Door::open(&right(&net, "ring&offloads=keep"));
    assert_eq!(net.exec_b(&["ethtool", "-k", "right"]), before);
}

/// Opens the port that the environment names and waits to be killed; without one it does nothing.
#[test]
fn a_victim() {
    if let Ok(uri) = std::env::var("WEIR_TEST_VICTIM") {
        let _door = Door::open(&uri);
        std::thread::sleep(Duration::from_secs(10));
    }
}

#[test]
fn what_a_killed_process_left_off_is_restored_by_the_next() {
    let net = Net::new();
    net.exec_b(&["ethtool", "-K", "right", "gro", "on"]);
    let features = || net.exec_b(&["ethtool", "-k", "right"]);
    let before = features();
    for uri in [right(&net, "plain"), format!("xdp:right?netns={}", net.b)] {
        let mut victim = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_victim"])
            .env("WEIR_TEST_VICTIM", &uri)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(5);
        while !features().contains("tx-checksumming: off") && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        assert_ne!(features(), before, "{uri}");
        // The queue of a killed process takes a moment to be free, which opening waits for.
        Door::open(&uri).close();
        assert_eq!(features(), before, "{uri}");
    }
}

#[test]
fn the_host_is_silent_while_a_port_is_open() {
    let net = Net::new();
    net.ip_a(&["addr", "add", "10.0.0.1/24", "dev", "left"]);
    net.ip_b(&["addr", "add", "10.0.0.2/24", "dev", "right"]);
    assert!(net.ping("10.0.0.2"));
    for mode in MODES {
        let mut b = Door::open(&right(&net, mode));
        assert!(!net.ping("10.0.0.2"), "{mode}");
        assert!(!b.receive(1).is_empty(), "the port sees what the host does not");
        b.close();
        assert!(net.ping("10.0.0.2"), "{mode}");
    }
    let b = Door::open(&right(&net, "ring&host=shared"));
    assert!(net.ping("10.0.0.2"));
    b.close();
}

/// Whether the checksum of the UDP or TCP of an IPv4 packet without options is right.
fn is_right(packet: &[u8]) -> bool {
    let ip = &packet[14..14 + usize::from(u16::from_be_bytes([packet[16], packet[17]]))];
    let pseudo = [&ip[12..20], &[0, ip[9]], &(ip.len() as u16 - 20).to_be_bytes()].concat();
    let words = [&pseudo, &ip[20..], &[0][..ip.len() % 2]].concat();
    let sum: u32 = words.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    sum.is_multiple_of(0xffff)
}

#[test]
fn checksums_left_to_hardware_are_completed() {
    let net = Net::new();
    net.ip_a(&["addr", "add", "10.0.0.1/24", "dev", "left"]);
    net.ip_a(&["neigh", "add", "10.0.0.2", "lladdr", "02:00:00:00:00:0b", "dev", "left"]);
    for mode in ["plain", "mmsg", "ring", "slots"] {
        let mut b = Door::open(&right(&net, mode));
        port::netns::within(&net.a, || {
            let socket = std::net::UdpSocket::bind("10.0.0.1:0").unwrap();
            socket.send_to(b"hello", "10.0.0.2:9").unwrap();
            let nobody = "10.0.0.2:9".parse().unwrap();
            std::net::TcpStream::connect_timeout(&nobody, Duration::from_millis(20)).unwrap_err();
        })
        .unwrap();
        let (mut got, end) = (Vec::new(), Instant::now() + Duration::from_secs(2));
        while got.len() < 2 && Instant::now() < end {
            got.extend(b.poll());
        }
        let protocols: Vec<_> = got.iter().map(|(packet, flags)| (packet[23], *flags, is_right(packet))).collect();
        assert_eq!(protocols, [(17, 0, true), (6, 0, true)], "{mode}");
        b.close();
    }
    // Where the kernel is not asked, it does not tell.
    let mut b = Door::open(&right(&net, "plain&vlan=off"));
    port::netns::within(&net.a, || {
        std::net::UdpSocket::bind("10.0.0.1:0").unwrap().send_to(b"hello", "10.0.0.2:9").unwrap();
    })
    .unwrap();
    assert!(!is_right(&b.receive(1)[0]));
    b.close();
}

#[test]
fn a_packet_over_the_mtu_is_counted_and_the_rest_goes() {
    let net = Net::new();
    for mode in MODES {
        let (mut a, mut b) = (Door::open(&left(&net, "mmsg")), Door::open(&right(&net, mode)));
        let good: Vec<_> = (0..4).map(|n| to_left(n, 200)).collect();
        let giant = to_left(9, 1600);
        b.send(&[good[0].clone(), giant.clone(), good[1].clone(), giant, good[2].clone(), good[3].clone()]);
        assert_eq!(a.receive(4), good, "{mode}");
        let counters = b.port.counters();
        assert_eq!((counters.tx_packets, counters.tx_errors, counters.tx_full), (4, 2, 0), "{mode}");
        a.close();
        b.close();
    }
}

#[test]
fn a_full_ring_is_counted() {
    let net = Net::new();
    for mode in ["plain&rcvbuf=64k", "mmsg&rcvbuf=64k", "ring&block=4k&blocks=4", "slots"] {
        let (mut a, mut b) = (Door::open(&left(&net, "mmsg")), Door::open(&right(&net, mode)));
        let packets: Vec<_> = (0..6000).map(|n| to_right(n, 300)).collect();
        packets.chunks(200).for_each(|some| a.send(some));
        b.until("every packet is accounted for", |port| {
            let counters = port.counters();
            counters.rx_ring_full > 0 && counters.rx_packets + counters.rx_ring_full == 6000
        });
        a.send(&packets[..4]);
        assert_eq!(b.receive(4), packets[..4], "{mode}: goes on");
        a.close();
        b.close();
    }
}

#[test]
fn a_link_may_go_down_and_up() {
    let net = Net::new();
    for mode in MODES {
        let (mut a, mut b) = (Door::open(&left(&net, "mmsg")), Door::open(&right(&net, mode)));
        for change in ["right", "left"] {
            let set = |state| match change {
                "right" => net.ip_b(&["link", "set", "right", state]),
                _ => net.ip_a(&["link", "set", "left", state]),
            };
            let losses = b.port.counters().link_losses;
            set("down");
            // Whether or not the port has noticed yet, nothing is lost silently.
            assert_eq!(b.offer(&[to_left(1, 60)]), 0, "{mode} {change}");
            b.until("the loss is seen", |port| port.caps().link == Link::Down);
            assert_eq!(b.offer(&[to_left(1, 60)]), 0);
            let counters = b.port.counters();
            assert_eq!(counters.tx_link_down + counters.tx_full, 2 * (losses + 1), "{mode} {change}");
            set("up");
            b.until("the return is seen", |port| port.caps().link == Link::Up);
            a.until("the peer is up as well", |port| port.caps().link == Link::Up);
            a.send(&[to_right(7, 60)]);
            assert_eq!(b.receive(1), [to_right(7, 60)], "{mode} {change}");
            b.send(&[to_left(8, 60)]);
            assert_eq!(a.receive(1), [to_left(8, 60)], "{mode} {change}");
            let counters = b.port.counters();
            assert_eq!((counters.link_losses, counters.link_returns), (losses + 1, losses + 1));
            assert_eq!(counters.rx_errors, 0);
        }
        a.close();
        b.close();
    }
}

#[test]
fn an_interface_may_be_removed_and_made_again() {
    let net = Net::new();
    net.ip_a(&["addr", "add", "10.0.0.1/24", "dev", "left"]);
    for mode in MODES {
        let mut b = Door::open(&right(&net, mode));
        for round in 1..=2 {
            net.ip_a(&["link", "del", "left"]);
            b.offer(&[to_left(1, 60)]);
            b.until("it is gone", |port| port.caps().link == Link::Gone);
            assert_eq!(b.offer(&[to_left(1, 60)]), 0);
            net.pair(1);
            b.until("it is back", |port| port.caps().link == Link::Up);
            let mut a = Door::open(&left(&net, "mmsg"));
            a.send(&[to_right(round, 60)]);
            assert_eq!(b.receive(1), [to_right(round, 60)], "{mode}");
            b.send(&[to_left(round, 60)]);
            assert_eq!(a.receive(1), [to_left(round, 60)], "{mode}");
            let counters = b.port.counters();
            assert_eq!((counters.link_losses, counters.link_returns), (round.into(), round.into()), "{mode}");
            a.close();
        }
        // The new interface is silent and fit as the old one was.
        assert!(net.exec_b(&["ethtool", "-k", "right"]).contains("tx-checksumming: off"));
        b.close();
        assert!(net.exec_b(&["ethtool", "-k", "right"]).contains("tx-checksumming: on"));
    }
}

#[test]
fn a_larger_mtu_gets_larger_slots() {
    let net = Net::new();
    let (mut a, mut b) = (Door::open(&left(&net, "plain")), Door::open(&right(&net, "auto")));
    assert!(b.port.caps().detail.contains("chosen by mode=auto"), "{:?}", b.port.caps());
    net.ip_a(&["link", "set", "left", "mtu", "1780"]);
    net.ip_b(&["link", "set", "right", "mtu", "1780"]);
    b.until("the new MTU", |port| port.caps().mtu == 1780);
    a.until("the new MTU", |port| port.caps().mtu == 1780);
    let long = [to_right(1, 1764)];
    a.send(&long);
    assert_eq!(b.receive(1), long, "{:?}", b.port.counters());
    assert_eq!((b.port.counters().rx_too_long, b.port.counters().link_losses), (0, 0));
    a.close();
    b.close();
}

#[test]
fn an_unknown_interface_lists_those_there_are() {
    let net = Net::new();
    let Err(error) = Door::try_open(&format!("packet:wrong?netns={}", net.b), &Steer::new()) else { panic!() };
    let PortError::NoInterface { there, place, .. } = &error else { panic!("{error}") };
    assert!(there.contains("right") && place.contains(&net.b), "{error}");
}

/// An IPv4 UDP packet; inside GTP-U with a PDU session container when `tunnelled`.
fn subscriber(address: u32, tunnelled: bool) -> Vec<u8> {
    let ip = |from: u32, to: u32, payload: &[u8]| {
        let len = (20 + payload.len() as u16).to_be_bytes();
        let head = [0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, 17, 0, 0];
        [&head[..], &from.to_be_bytes(), &to.to_be_bytes(), payload].concat()
    };
    let udp = |port: u16, payload: &[u8]| {
        let len = (8 + payload.len() as u16).to_be_bytes();
        [&port.to_be_bytes()[..], &port.to_be_bytes(), &len, &[0, 0], payload].concat()
    };
    let server = 0xc000_0201;
    let bytes = if tunnelled {
        let inner = ip(address, server, &udp(53, &[7; 16]));
        let len = (inner.len() as u16 + 8).to_be_bytes();
        let gtp = [&[0x34, 255, len[0], len[1], 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0x10, 9, 0][..], &inner].concat();
        ip(0x0a09_0001, 0x0a09_0002, &udp(2152, &gtp))
    } else {
        ip(server, address, &udp(53, &[7; 16]))
    };
    [&RIGHT_MAC[..], &LEFT_MAC, &[8, 0], &bytes].concat()
}

#[test]
fn no_subscriber_is_seen_by_two_members() {
    let net = Net::new();
    // Optional fields and one kind of extension header.
    let tunnel = SteerSpec {
        udp_port: 2152,
        carries: (9, 255),
        flags: 8,
        short: (0x07, 16),
        long: (0x04, 20),
        extensions: SteerExtensions { first: 19, most: 3 },
    };
    let mut steer = Steer::new().within(tunnel);
    let address = |text: &str| text.parse().unwrap();
    steer.give(address("10.1.0.0"), address("10.1.255.255"), 1).unwrap();
    for mode in ["ring", "slots", "mmsg", "plain"] {
        let open = |member| {
            let keys = format!("{mode}&fanout=subscriber&group=7&member={member}/2");
            Door::try_open(&right(&net, &keys), &steer)
        };
        let Err(error) = open(1) else { panic!("out of order") };
        assert!(matches!(error, PortError::FanoutOrder { member: 1, joined: 0, .. }), "{error}");
        let mut members = [open(0).unwrap(), open(1).unwrap()];
        let mut a = Door::open(&left(&net, "mmsg"));
        let mut owned = [0; 2];
        for base in [0x0a01_0000u32, 0x0a02_0000] {
            for chunk in 0..16 {
                let addresses: Vec<u32> = (0..32).map(|n| base + chunk * 7 * 32 + n * 7).collect();
                let up: Vec<_> = addresses.iter().map(|address| subscriber(*address, true)).collect();
                let tag = |packet: Vec<u8>| tagged(&tagged(&packet, [0x81, 0, 0, 9]), [0x88, 0xa8, 0, 3]);
                let down: Vec<_> = addresses.iter().map(|address| tag(subscriber(*address, false))).collect();
                a.send(&up);
                a.send(&down);
                for (member, door) in members.iter_mut().enumerate() {
                    let mine = |n: &usize| {
                        usize::from(steer.member_of(std::net::IpAddr::V4(addresses[*n].into()), 2)) == member
                    };
                    let mine: Vec<_> = (0..32).filter(mine).collect();
                    let want: Vec<_> =
                        [&up, &down].into_iter().flat_map(|all| mine.iter().map(|n| all[*n].clone())).collect();
                    assert_eq!(door.receive(want.len()), want, "{mode}");
                    owned[member] += mine.len();
                }
            }
        }
        // The range is all the second's; the rest is spread.
        assert!(owned[0] > 150 && owned[1] > 512 + 150, "{owned:?}");
        assert_eq!(members.iter_mut().map(|door| door.listen(Duration::from_millis(10)).len()).sum::<usize>(), 0);
        a.close();
        // A group outlives the interface: members come back in order.
        if mode == "ring" {
            net.ip_a(&["link", "del", "left"]);
            net.pair(1);
            let [first, second] = &mut members;
            second.until("the second misses it", |port| port.caps().link == Link::Gone);
            first.until("the first is back", |port| port.caps().link == Link::Up && port.counters().link_returns == 1);
            second.until("the second is back", |port| port.caps().link == Link::Up);
            let mut a = Door::open(&left(&net, "mmsg"));
            a.send(&[subscriber(0x0a01_0005, true)]);
            assert_eq!(second.receive(1), [subscriber(0x0a01_0005, true)]);
            assert!(first.listen(Duration::from_millis(10)).is_empty());
            a.close();
        }
        members.into_iter().for_each(Door::close);
    }
}

#[test]
fn a_flow_stays_with_its_member_by_hash() {
    let net = Net::new();
    let open = |member| Door::open(&right(&net, &format!("ring&fanout=hash&group=8&member={member}/2")));
    let mut members = [open(0), open(1)];
    let mut a = Door::open(&left(&net, "mmsg"));
    let mut seen: [std::collections::HashSet<Vec<u8>>; 2] = Default::default();
    for _ in 0..3 {
        a.send(&(0..60).map(|n| subscriber(0x0a01_0000 + n, false)).collect::<Vec<_>>());
        for (door, seen) in members.iter_mut().zip(&mut seen) {
            seen.extend(door.listen(Duration::from_millis(20)));
        }
    }
    assert!(seen[0].is_disjoint(&seen[1]) && seen[0].len() + seen[1].len() == 60);
    assert!(seen.iter().all(|seen| seen.len() > 10));
    assert_eq!(members.iter().map(|door| door.port.counters().rx_packets).sum::<u64>(), 180);
    // A group has a hook of its own in the kernel; it too leaves what its members send.
    members[0].send(&[to_left(1, 60), to_left(2, 60)]);
    assert!(members.iter_mut().all(|door| door.listen(Duration::from_millis(10)).is_empty()));
    members.into_iter().for_each(Door::close);
    a.close();
}

#[test]
fn a_queue_belongs_to_a_member() {
    let net = Net::with_queues(2);
    let open = |member| Door::open(&right(&net, &format!("mmsg&fanout=qm&group=9&member={member}/2")));
    let mut members = [open(0), open(1)];
    let mut a = Door::open(&left(&net, "mmsg"));
    // The far end's queue is chosen by its processor; whichever it was, one member has all of a burst or none twice.
    let sent: Vec<_> = (0..60).map(|n| to_right(n, 100)).collect();
    a.send(&sent);
    let mut got: Vec<_> = members.iter_mut().flat_map(|door| door.listen(Duration::from_millis(40))).collect();
    got.sort_by_key(|packet| packet[14..18].to_vec());
    assert_eq!(got, sent);
    members.into_iter().for_each(Door::close);
    a.close();
}

#[test]
fn frames_wait_when_the_pool_is_empty() {
    let net = Net::new();
    for mode in MODES {
        let (mut a, mut b) = (Door::open(&left(&net, "mmsg")), Door::open(&right(&net, mode)));
        let hoard: Vec<_> = std::iter::from_fn(|| b.pool.take()).collect();
        let sent: Vec<_> = (0..20).map(|n| to_right(n, 100)).collect();
        a.send(&sent);
        assert!(b.listen(Duration::from_millis(10)).is_empty());
        hoard.into_iter().for_each(|frame| b.pool.give(frame));
        assert_eq!(b.receive(20), sent, "{mode}");
        a.close();
        b.close();
    }
}

#[test]
fn a_sleeper_wakes_when_a_packet_waits() {
    let net = Net::new();
    for mode in MODES {
        let (mut a, mut b) = (Door::open(&left(&net, "mmsg")), Door::open(&right(&net, mode)));
        let sleep = |door: &Door, time| {
            let start = std::time::Instant::now();
            frame::wait_readable(&[door.port.wait_fd().unwrap()], time).unwrap();
            start.elapsed()
        };
        assert!(sleep(&b, Duration::from_millis(20)) >= Duration::from_millis(20), "{mode}");
        a.send(&[to_right(1, 60)]);
        assert!(sleep(&b, Duration::from_secs(2)) < Duration::from_secs(1), "{mode}");
        assert_eq!(b.receive(1), [to_right(1, 60)], "{mode}");
        // A link that went down is told once, not for ever.
        net.ip_b(&["link", "set", "right", "down"]);
        b.until("the loss is seen", |port| port.caps().link == Link::Down);
        assert!(sleep(&b, Duration::from_millis(20)) >= Duration::from_millis(20), "{mode}");
        net.ip_b(&["link", "set", "right", "up"]);
        a.close();
        b.close();
    }
}
