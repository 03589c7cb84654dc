//! The program run by the kernel on packets, attached to nothing. Without a socket in the map a packet of ours is
//! counted as `no_socket`, one of the host's as `passed`; both get XDP_PASS.

use std::os::fd::AsFd;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    Hosts,
}
use Whose::*;

fn ask(steer: &Steer, packet: &[u8]) -> Whose {
    let before = steer.counts().expect("counts");
    let run = steer.program().test_run(packet).expect("runs");
    assert_eq!((run.verdict, &run.packet[..]), (2, packet));
    let after = steer.counts().expect("counts");
    assert_eq!(after.redirected, 0);
    match (after.passed - before.passed, after.no_socket - before.no_socket) {
        (1, 0) => Hosts,
        (0, 1) => Ours,
        other => panic!("counted {other:?}"),
    }
}

fn steer(filter: &str) -> Steer {
    Steer::new(&filter.parse().expect("a filter")).expect("root and BPF")
}

fn ethernet(kind: u16, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![2; 12];
    packet.extend(kind.to_be_bytes());
    packet.extend(rest);
    packet.resize(packet.len().max(60), 0);
    packet
}

fn udp4(port: u16, to: [u8; 4], options: usize, fragment: u16) -> Vec<u8> {
    let mut ip = vec![0; 20 + options];
    ip[0] = 0x45 + options as u8 / 4;
    ip[6..8].copy_from_slice(&fragment.to_be_bytes());
    ip[9] = 17;
    ip[16..20].copy_from_slice(&to);
    ip.extend(9999_u16.to_be_bytes());
    ip.extend(port.to_be_bytes());
    ip.extend([0; 4]);
    ethernet(0x0800, &ip)
}

fn ip6(next: u8, to: [u8; 16], payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    ip.extend([0x20; 16]);
    ip.extend(to);
    ip.extend(payload);
    ethernet(0x86dd, &ip)
}

fn udp6(port: u16, to: [u8; 16]) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    ip6(17, to, &[0x27, 0x0f, high, low, 0, 8, 0, 0])
}

#[test]
fn all_takes_everything() {
    let steer = steer("all");
    for packet in [udp4(53, [1; 4], 0, 0), ethernet(0x0806, &[0; 28]), ethernet(0x88cc, &[0; 46]), vec![0; 14]] {
        assert_eq!(ask(&steer, &packet), Ours);
    }
}

#[test]
fn by_port() {
    let steer = steer("udp:2152+udp:8805");
    let cases = [
        (udp4(2152, [1; 4], 0, 0), Ours),
        (udp4(8805, [1; 4], 0, 0), Ours),
        (udp4(2153, [1; 4], 0, 0), Hosts),
        (udp4(2152, [1; 4], 24, 0), Ours),
        (udp4(2153, [1; 4], 24, 0), Hosts),
        // Don't fragment set; first fragment; a later fragment, whose port cannot be known.
        (udp4(2152, [1; 4], 0, 0x4000), Ours),
        (udp4(53, [1; 4], 0, 0x2000), Hosts),
        (udp4(53, [1; 4], 0, 0x20b9), Ours),
        (udp6(2152, [3; 16]), Ours),
        (udp6(53, [3; 16]), Hosts),
        (ip6(44, [3; 16], &[17, 0, 0, 1, 0, 0, 0, 0, 0, 0, 8, 0x68, 0, 8, 0, 0]), Ours),
        (ip6(44, [3; 16], &[17, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 53, 0, 8, 0, 0]), Hosts),
        (ip6(44, [3; 16], &[17, 0, 5, 0xa8, 0, 0, 0, 0, 0, 0, 0, 53, 0, 8, 0, 0]), Ours),
        (ip6(44, [3; 16], &[6, 0, 5, 0xa8, 0, 0, 0, 0, 0, 0, 8, 0x68, 0, 8, 0, 0]), Hosts),
        (ethernet(0x0806, &[0; 28]), Hosts),
        (ethernet(0x8100, &[0; 46]), Hosts),
        (ip6(58, [3; 16], &[135, 0, 0, 0]), Hosts),
        // An IPv4 header of 16 bytes, and one that ends the packet.
        (
            {
                let mut bad = udp4(2152, [1; 4], 0, 0);
                bad[14] = 0x44;
                bad
            },
            Hosts,
        ),
        (udp4(2152, [1; 4], 0, 0)[..36].to_vec(), Hosts),
        (udp4(2152, [1; 4], 0, 0)[..20].to_vec(), Hosts),
    ];
    for (at, (packet, wanted)) in cases.iter().enumerate() {
        assert_eq!(ask(&steer, packet), *wanted, "case {at}");
    }
}

#[test]
fn by_prefix_which_can_change() {
    let steer = steer("ip:10.1.0.0/16+ip:2001:db8::/32");
    let inside = {
        let mut a = [7; 16];
        a[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        a
    };
    assert_eq!(ask(&steer, &udp4(1, [10, 1, 2, 3], 0, 0)), Ours);
    assert_eq!(ask(&steer, &udp4(1, [10, 2, 2, 3], 0, 0)), Hosts);
    assert_eq!(ask(&steer, &udp6(1, inside)), Ours);
    assert_eq!(ask(&steer, &udp6(1, [7; 16])), Hosts);
    let more = IpAddr::from([10, 2, 2, 3]);
    steer.add_prefix(more, 32).expect("added");
    assert_eq!(ask(&steer, &udp4(1, [10, 2, 2, 3], 0, 0)), Ours);
    assert!(steer.remove_prefix(more, 32).expect("removed"));
    assert!(!steer.remove_prefix(more, 32).expect("removed"));
    assert_eq!(ask(&steer, &udp4(1, [10, 2, 2, 3], 0, 0)), Hosts);
}

#[test]
fn neighbours_and_vlans() {
    let nd = |kind| ip6(58, [3; 16], &[kind, 0, 0, 0]);
    let neighbours = steer("neighbours");
    assert_eq!(ask(&neighbours, &ethernet(0x0806, &[0; 28])), Ours);
    assert_eq!([133, 135, 137].map(|kind| ask(&neighbours, &nd(kind))), [Ours; 3]);
    assert_eq!([1, 128, 132, 138].map(|kind| ask(&neighbours, &nd(kind))), [Hosts; 4]);
    assert_eq!(ask(&neighbours, &ethernet(0x8100, &[0; 46])), Hosts);
    let vlan = steer("vlan");
    assert_eq!([0x8100, 0x88a8, 0x9100].map(|kind| ask(&vlan, &ethernet(kind, &[0; 46]))), [Ours; 3]);
    assert_eq!(ask(&vlan, &ethernet(0x0800, &[0; 46])), Hosts);
}

#[test]
fn what_a_fast_path_leaves_goes_through_the_filter() {
    let steer = steer("udp:2152");
    let after = Map::programs(1).expect("root and BPF");
    after.set_fd(0, steer.rest().as_fd()).expect("set");
    let mut asm = Asm::new();
    asm.mov(R6, R1).load_map(R2, &after).mov(R3, 0).call(Helper::TailCall).mov(R0, 1).exit();
    let fast = Program::load("fast", ProgramType::Xdp, &asm.build().expect("built")).expect("loads");
    steer.set_fast_path(fast.as_fd()).expect("set");
    assert_eq!(ask(&steer, &udp4(2152, [1; 4], 0, 0)), Ours);
    assert_eq!(ask(&steer, &udp4(53, [1; 4], 0, 0)), Hosts);
}

#[test]
fn no_terms_take_nothing() {
    let steer = Steer::new(&Filter::Any(Terms::default())).expect("root and BPF");
    assert_eq!(ask(&steer, &udp4(2152, [1; 4], 0, 0)), Hosts);
}

#[test]
fn a_fast_path_goes_first_and_can_leave_packets_to_us() {
    let steer = steer("udp:2152");
    let load = |asm: &Asm| Program::load("fast", ProgramType::Xdp, &asm.build().expect("built")).expect("loads");
    let mut drop = Asm::new();
    drop.mov(R0, 1).exit();
    let packet = udp4(53, [1; 4], 0, 0);
    steer.set_fast_path(load(&drop).as_fd()).expect("set");
    assert_eq!(steer.program().test_run(&packet).expect("runs").verdict, 1);
    assert_eq!(steer.counts().expect("counts"), SteerCounts::default());

    let mut leave = Asm::new();
    leave.mov(R6, R1);
    steer.deliver(&mut leave);
    steer.set_fast_path(load(&leave).as_fd()).expect("set");
    assert_eq!(ask(&steer, &packet), Ours);

    steer.clear_fast_path().expect("cleared");
    assert_eq!(ask(&steer, &packet), Hosts);
}
