//! A small user plane that is sent anything, on both ports, while sessions come, change and go.
//!
//! The bytes are a script; whatever they are, nothing may panic, every packet and slot must be accounted for, and what
//! leaves must be a packet. Included by `fuzz/targets/upf_pipeline.rs` and by `crates/upf/tests/garbage.rs`, which
//! replays what fuzzing found on the stable compiler.

use std::sync::OnceLock;

use engine::{Gateway as _, Io};
use testkit::golden::Subject;
use wire::{L3L4, Outer, arp, ethertype};

use crate::device::Device;
use crate::golden_cases::{self, BASE, N3_MAC, N6_MAC};

/// What the gateway may be configured as; the script's first byte chooses.
const VARIANTS: &[&str] = &[
    "",
    "neighbour = []",
    "simulate.gnb_first = \"fd00:3::100\"",
    "simulate.idle = 3\nsimulate.paging_ms = 30\nbuffer.bytes = 4096\nbuffer.seconds = 1",
    "simulate.bearer = [{ qfi = 5, filters = [\"permit out 17 from 198.51.100.0/24 50000 to assigned\"] }, {}]",
    "simulate.bearer = [{ qfi = 9, mbr_up = \"1 Mbit/s\", mbr_down = \"1 Mbit/s\", dscp = 46, dscp_up = 10 }]",
    "neighbour = []\nsimulate.idle = 4\nsimulate.churn_per_second = 500\nsimulate.teid_per_bearer = true",
    "gtpu = { zero_checksum_over_ipv6 = true, error_indications_per_second = 0 }",
];

/// Frames worth changing: all that golden cases send.
fn templates() -> &'static [(bool, Vec<u8>)] {
    static TEMPLATES: OnceLock<Vec<(bool, Vec<u8>)>> = OnceLock::new();
    TEMPLATES.get_or_init(|| {
        let mut list: Vec<(bool, Vec<u8>)> = Vec::new();
        for case in golden_cases::all() {
            for (port, packets) in case.inputs {
                list.extend(packets.into_iter().map(|seen| (port == "n3", seen.bytes)));
            }
        }
        list.sort();
        list.dedup();
        list
    })
}

/// A script being read. At its end it yields zeros.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn word(&mut self) -> u16 {
        u16::from(self.byte()) << 8 | u16::from(self.byte())
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

fn configuration(variant: u8) -> toml::Table {
    let case = testkit::golden::Case::new("a script", BASE).with("simulate.ues = 4\nframes.slots = 1024");
    case.with(VARIANTS[usize::from(variant) % VARIANTS.len()]).config
}

/// Runs the script.
///
/// # Panics
/// When a promise is broken.
pub fn upf_pipeline(bytes: &[u8]) {
    let mut script = Script(bytes);
    let mut device = Device::start(&configuration(script.byte())).expect("a configuration that works");
    let mut now = 0;
    while !script.0.is_empty() {
        match script.byte() % 9 {
            0 => {
                let len = usize::from(script.byte());
                device.send("n3", script.take(len));
            }
            1 => {
                let len = usize::from(script.byte());
                device.send("n6", script.take(len));
            }
            2..4 => changed_template(&mut script, &mut device),
            4 => {
                let len = usize::from(script.byte());
                let user = testkit::packet::raw(script.take(len));
                device.send("n3", &golden_cases::up(&user).build());
            }
            5 => {
                let times = script.byte();
                let Some((access, frame)) = templates().get(usize::from(script.word()) % templates().len()) else {
                    return;
                };
                (0..times).for_each(|_| device.send(if *access { "n3" } else { "n6" }, frame));
            }
            6 => {
                now += u64::from(script.byte()) * 1_000_000;
                device.turn_to(now);
                come_to_rest(&mut device);
            }
            7 => session(&mut script, &mut device),
            _ => come_to_rest(&mut device),
        }
    }
    come_to_rest(&mut device);
    // Whatever waits is given up after this.
    device.turn_to(now + 60_000_000_000);
    come_to_rest(&mut device);
    device.close().expect("nothing is lost");
}

/// A frame of a golden case, some bytes changed, its end cut or grown.
fn changed_template(script: &mut Script<'_>, device: &mut Device) {
    let Some((access, frame)) = templates().get(usize::from(script.word()) % templates().len()) else { return };
    let mut frame = frame.clone();
    for _ in 0..script.byte() % 6 {
        let at = usize::from(script.word());
        let value = script.byte();
        if !frame.is_empty() {
            let at = at % frame.len();
            frame[at] = value;
        }
    }
    match script.byte() {
        n @ 0..40 => frame.truncate(frame.len().saturating_sub(n.into())),
        n @ 40..60 => frame.resize(frame.len() + usize::from(n), 0xee),
        _ => {}
    }
    // Now and then on the other port.
    let port = if *access != (script.byte() == 7) { "n3" } else { "n6" };
    device.send(port, &frame);
}

/// Something happens to a session.
fn session(script: &mut Script<'_>, device: &mut Device) {
    let ue = script.byte() % 5;
    let step = match script.byte() % 4 {
        0 => format!("do = \"remove\"\nue = {ue}"),
        1 => format!("do = \"rules\"\nue = {ue}\nidle = true"),
        2 => format!("do = \"rules\"\nue = {ue}\nsimulate = {{ bearer = [{{ qfi = 1, far_drop = true }}] }}"),
        _ => format!("do = \"rules\"\nue = {ue}"),
    };
    let step: toml::Table = step.parse().expect("a table");
    // A subscriber that is not there, or a full command ring, is no failure.
    let _ = device.step(&step);
}

fn come_to_rest(device: &mut Device) {
    device.settle();
    for (port, mac) in [("n3", N3_MAC), ("n6", N6_MAC)] {
        device.received(port).iter().for_each(|frame| is_packet(frame, mac));
    }
    let rig = device.rig();
    assert_eq!(rig.stats().missing(), 0, "packets neither left nor were named");
    assert_eq!(rig.stats().io(Io::Panics), 0, "a stage panicked");
    let held = rig.gateway().held();
    assert!(held <= 1024, "{held} packets held");
    assert_eq!(rig.worker().env().pool.free(), 1024, "a slot is missing");
}

/// What leaves is from us, is ARP or a sound IP packet, and fits the link.
fn is_packet(frame: &[u8], mac: [u8; 6]) {
    let outer = Outer::parse(frame).expect("a frame leaves");
    assert_eq!(frame[6..12], mac, "a frame leaves from us");
    let packet = &frame[usize::from(outer.l3)..];
    match outer.ethertype {
        ethertype::ARP => assert!(arp::Repr::parse(packet).is_ok()),
        _ => {
            let ip = L3L4::parse(packet).expect("an IP packet leaves");
            assert_eq!(
                ip.total_len as usize,
                packet.len(),
                "nothing stands behind it: {}",
                testkit::packet::describe(frame)
            );
            assert!(ip.total_len <= 1500, "it fits the link");
        }
    }
}
