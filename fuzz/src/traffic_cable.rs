//! The far sides of a cable gateway under a script of bytes: packets that a framer wrote, changed, cut, left out or come
//! twice, and packets of nothing but the script. `crates/traffic/tests/cable/main.rs` includes this file.

use traffic::cable::{Downstream, Hosts, HostsHeard, Mix, Workload};
use wire::l2tp::{Carrier, Cookie};

use super::framer::{NOW, depi, plant};

/// Runs the script; panics where a promise is broken.
pub fn traffic_cable(bytes: &[u8]) {
    let (mode, mut script) = bytes.split_first().map_or((0, bytes), |(first, rest)| (*first, rest));
    let (carrier, cookies) = match mode & 1 {
        0 => (Carrier::Ip, [Cookie::None; 2]),
        _ => (Carrier::Udp, [Cookie::Short(7), Cookie::Long(9)]),
    };
    let plant = plant(carrier, cookies);
    let mut device = Downstream::new(&plant, true);
    let mut hosts = Hosts::new(&plant, Workload::new(&Mix::upstream(), 7, false));
    let (mut taken, mut now) = (0, NOW);
    let good = depi(&plant, 60);
    let mut packets = good.iter();
    while let [what, at, value, rest @ ..] = script {
        script = rest;
        let Some(next) = packets.next() else { break };
        let mut packet = next.clone();
        let place = usize::from(*at) * 6 % packet.len();
        match what {
            0..60 => {}
            60..140 => packet[place] ^= value,
            140..170 => packet.truncate(place),
            // What is behind the network's headers is of more interest than those.
            170..210 => packet[(34 + usize::from(*at) % 32) % next.len()] ^= value,
            210..220 => continue,
            220..230 => {
                device.take(&packet, now);
                taken += 1;
            }
            _ => {
                let len = rest.len().min(usize::from(*value));
                packet.truncate(42.min(packet.len()));
                packet.extend_from_slice(&rest[..len]);
            }
        }
        device.take(&packet, now);
        hosts.take(&packet, now);
        taken += 1;
        now += u64::from(*value) * 1000;
        if value & 1 == 0 {
            device.settle(now);
        }
    }
    device.idle(now);
    device.idle(now + 20_000_000);
    let heard = device.heard();
    assert_eq!(heard.packets + heard.foreign + heard.malformed, taken, "each packet once: {heard:?}");
    let named = heard.bad_header
        + heard.management
        + heard.strangers
        + heard.no_key
        + heard.clear
        + heard.bad_crc
        + heard.late
        + heard.group
        + heard.unsigned
        + heard.misdelivered
        + heard.in_order
        + heard.reordered
        + heard.duplicated
        + heard.early;
    assert_eq!((heard.frames, heard.no_memory), (named, 0), "each frame once: {heard:?}");
    assert!(device.held() <= 12, "a frame in pieces a session at most, {} are held", device.held());
    // None of these is for the network side.
    assert_eq!(hosts.heard(), HostsHeard { foreign: hosts.heard().foreign, ..HostsHeard::default() });
}
