//! Pages from fixed numbers.

use std::collections::BTreeMap;

use engine::Io;

use super::*;
use crate::snapshot::{DropCounters, FrameMemory, PuntCounters, StageCounters, WorkerCounters};
use crate::socket::PortView;

fn stage(pipeline: &str, name: &str, calls: u64, packets: u64, cycles: u64) -> StageCounters {
    StageCounters { pipeline: pipeline.into(), name: name.into(), calls, packets, cycles }
}

fn drop_of(stage: &str, reason: &str, packets: u64, bytes: u64, sentence: &str) -> DropCounters {
    DropCounters { stage: stage.into(), reason: reason.into(), sentence: sentence.into(), packets, bytes }
}

/// Two gigahertz, ten seconds, a million packets in.
fn snapshot() -> Snapshot {
    let io: BTreeMap<String, u64> = [
        (Io::RxPackets, 1_000_000),
        (Io::RxBytes, 128_000_000),
        (Io::TxPackets, 999_000),
        (Io::TxBytes, 127_872_000),
        (Io::BusyTurns, 20_000),
        (Io::Bursts, 25_000),
        (Io::Sleeps, 14_000),
        (Io::NotRunningCycles, 1_000_000_000),
        (Io::CpuNs, 8_000_000_000),
        (Io::RxCycles, 5_000_000_000),
        (Io::PipelineCycles, 2_500_000_000),
        (Io::TxCycles, 7_500_000_000),
        (Io::OtherCycles, 0),
        (Io::IdleCycles, 5_000_000_000),
        (Io::FreeSlots, 8000),
        (Io::PortSlots, 128),
        (Io::Held, 3),
    ]
    .into_iter()
    .map(|(io, n)| (io.name().to_owned(), n))
    .collect();
    let worker = WorkerCounters {
        worker: 0,
        cpu: Some(1),
        io,
        stages: vec![
            stage("uplink", "outer", 20_000, 1_000_000, 100_000_000),
            stage("uplink", "decap", 20_000, 999_000, 49_950_000),
            stage("downlink", "user", 0, 0, 0),
        ],
        drops: vec![
            drop_of("uplink.decap", "unknown_user", 900, 115_200, "No session has this tunnel endpoint identifier."),
            drop_of("worker", "tx_full", 100, 12_800, "The port could not take it."),
        ],
        punted: vec![PuntCounters { reason: "arp".into(), sentence: "An ARP message.".into(), packets: 12 }],
        missing: 0,
    };
    Snapshot {
        gateway: "toy".into(),
        version: "0".into(),
        pid: 7,
        uptime: 10.0,
        seconds: 10.0,
        tsc_hz: 2e9,
        workers: vec![worker],
        kernel: None,
        headroom: None,
        frames: FrameMemory {
            slots: 8192,
            slot_bytes: 2048,
            headroom: 256,
            bytes: 18 << 20,
            pages: "huge pages".into(),
            depot: 0,
        },
    }
}

const PLAIN: Style = Style::coloured(false);

#[test]
fn run() {
    let wanted = "
weir toy · 1 worker · up 10.0 s · since the start

worker 0 on CPU 1 · in 100 kpps, 102 Mbit/s · out 99.9 kpps, 102 Mbit/s · 100 pps dropped
  rx ▕█▌    ▏ 25 %   pipelines ▕▊     ▏ 12 %   tx ▕██▎   ▏ 38 %   other ▕      ▏  0 %   idle ▕█▌    ▏ 25 %
  CPU time 80.0 % of a CPU, 8000 ns/packet · 40.0 packets/burst · 1.40 k sleeps/s · not running 4.8 % of its time awake

  stage          calls    packets  packets/call  cycles/packet  ns/packet
  ───────────────────────────────────────────────────────────────────────
  receive       25,000  1,000,000          40.0         5000.0     2500.0
  ───────────────────────────────────────────────────────────────────────
  uplink.outer  20,000  1,000,000          50.0          100.0       50.0
  uplink.decap  20,000    999,000          50.0           50.0       25.0
  ───────────────────────────────────────────────────────────────────────
  send          20,000    999,000          50.0         7507.5     3753.8
  other         20,000  1,000,000          50.0            0.0        0.0
  ───────────────────────────────────────────────────────────────────────
  all           20,000  1,000,000          50.0        15000.0     7500.0

";
    assert_eq!(format!("\n{}", super::run::text(&snapshot(), true, false, PLAIN)), wanted);
    let all = super::run::text(&snapshot(), true, true, PLAIN);
    assert!(all.contains("  downlink.user       0          0             –              –          –"), "{all}");
    let colour = super::run::text(&snapshot(), true, false, Style::coloured(true));
    assert!(colour.contains("\x1b[1mweir toy\x1b[0m") && colour.contains("\x1b[1;31m100 pps dropped\x1b[0m"));
}

#[test]
fn drops() {
    let wanted = "
weir toy · 1 worker · up 10.0 s · since the start

  stage         reason        packets      bytes  per second  what it means
  ───────────────────────────────────────────────────────────────────────────────────────────────────────────
  uplink.decap  unknown_user      900    112 KiB          90  No session has this tunnel endpoint identifier.
  worker        tx_full           100   12.5 KiB          10  The port could not take it.
  ───────────────────────────────────────────────────────────────────────────────────────────────────────────
  all           2 reasons       1,000    125 KiB         100

  answered or held  packets  what it means
  ──────────────────────────────────────────
  arp                    12  An ARP message.

";
    let page = format!("\n{}", super::drops::page(&snapshot(), &snapshot(), true, PLAIN));
    let squeezed =
        |text: &str| text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
    let (page_words, wanted_words) = (squeezed(&page), squeezed(wanted));
    for (line, wanted) in page_words.iter().zip(&wanted_words) {
        assert!(line == wanted || line.starts_with('─') && wanted.starts_with('─'), "{line}\n{wanted}\n{page}");
    }
    assert_eq!(page_words.len(), wanted_words.len(), "{page}");
    let quiet = Snapshot::default();
    assert!(super::drops::text(&quiet, PLAIN).contains("no packet was dropped"));
}

#[test]
fn a_difference_counts_only_what_is_new() {
    let before = snapshot();
    let mut now = snapshot();
    now.uptime = 12.0;
    let worker = &mut now.workers[0];
    worker.io.insert(Io::RxPackets.name().into(), 1_000_500);
    worker.io.insert(Io::FreeSlots.name().into(), 7000);
    worker.stages[0].packets += 500;
    worker.drops[0].packets += 30;
    worker.punted[0].packets += 2;
    let over = now.since(&before);
    assert_eq!((over.seconds, over.uptime, over.io(Io::RxPackets)), (2.0, 12.0, 500));
    assert_eq!((over.io(Io::FreeSlots), over.io(Io::BusyTurns)), (7000, 0), "a gauge stays, a counter does not");
    assert_eq!((over.workers[0].stages[0].packets, over.workers[0].punted[0].packets), (500, 2));
    let rows = super::drops::rows(&over, &now);
    assert_eq!((rows[0].packets, rows[0].rate, rows[1].rate), (930, 15.0, 0.0));
    let restarted = Snapshot { pid: 8, ..now.clone() };
    assert_eq!(restarted.since(&before).io(Io::RxPackets), 1_000_500, "another process has another past");
}

#[test]
fn frames() {
    let wanted = "
packet memory · 8,192 packet buffers of 2,048 bytes, 256 of them headroom · 18.0 MiB on huge pages

  where      free  in ports    all  held
  ──────────────────────────────────────
  worker 0  8,000       128  8,128     3
  depot         0         0      0
  ──────────────────────────────────────
  all       8,000       128  8,128     3

  8,000 free + 128 in ports + 64 in bursts = 8,192 packet buffers
  held packets wait for a paged subscriber or a neighbour's address, in memory of their own
";
    assert_eq!(format!("\n{}", super::frames::text(&snapshot(), PLAIN)), wanted);
    assert_eq!(super::frames::accounts(&snapshot()).in_bursts, 64);
}

fn port(name: &str, worker: u16, rx: u64) -> PortView {
    let [name, role, kind] = [name, "access", "packet-ring"].map(str::to_owned);
    let [interface, mac, link] = ["eth0", "02:00:00:00:00:01", "up"].map(str::to_owned);
    let counters = [("rx_packets", rx), ("rx_errors", 0)].map(|(name, n)| (name.to_owned(), n)).to_vec();
    let detail = "64 blocks".to_owned();
    PortView { name, worker, role, kind, interface, detail, mac, mtu: 1500, link, held: 5, counters }
}

#[test]
fn ports() {
    let wanted = "
  port  worker  side    kind         interface  link  hardware address    mtu  slots  detail
  ─────────────────────────────────────────────────────────────────────────────────────────────
  n3         0  access  packet-ring  eth0       up    02:00:00:00:00:01  1500      5  64 blocks
  n3         1  access  packet-ring  eth0       up    02:00:00:00:00:01  1500      5  64 blocks

  counted     n3@0  n3@1
  ──────────────────────
  rx_packets     7    70

";
    let now = [port("n3", 0, 7), port("n3", 1, 70)];
    assert_eq!(format!("\n{}", super::ports::text(&now, None, false, PLAIN)), wanted);
    assert!(super::ports::text(&now, None, true, PLAIN).contains("  rx_errors      0     0"));
    let before = [port("n3", 0, 7), port("n3", 1, 20)];
    let over = super::ports::text(&now, Some(&before), false, PLAIN);
    assert!(over.contains("counted meanwhile  n3@0  n3@1") && over.contains("rx_packets            0    50"), "{over}");
}

#[test]
fn what_went_through_the_kernel_stands_before_the_workers() {
    use crate::snapshot::{KernelCounters, KernelFlows, RefusedPackets};
    let kernel = KernelCounters {
        up_packets: 2_000_000,
        up_bytes: 250_000_000,
        down_packets: 1_000_000,
        dropped_packets: 1_000_000,
        sampled_packets: 10_000,
        sampled_ns: 2_000_000,
        ..KernelCounters::default()
    };
    let now = Snapshot { kernel: Some(kernel.clone()), ..snapshot() };
    let text = run::text(&now, true, false, PLAIN);
    assert!(
        text.contains("in the kernel · up 200 kpps, 200 Mbit/s · down 100 kpps, 0 bit/s · 100 kpps dropped"),
        "{text}"
    );
    assert!(text.contains("80.0 % of packets, 200 ns/packet in its program, 8.0 % of a CPU"), "{text}");
    let later =
        Snapshot { uptime: 20.0, kernel: Some(KernelCounters { up_packets: 2_000_500, ..kernel }), ..now.clone() };
    let between = later.since(&now).kernel.expect("there");
    assert_eq!((between.up_packets, between.taken(), between.sampled_ns), (500, 500, 0));
    // What devices refused of it.
    let refused = |packets| Some(vec![RefusedPackets { port: "n6".into(), packets }]);
    let with = |packets, snapshot: &Snapshot| {
        let kernel = snapshot.kernel.clone().map(|kernel| KernelCounters { refused: refused(packets), ..kernel });
        Snapshot { kernel, ..snapshot.clone() }
    };
    let text = run::text(&with(40, &later), true, false, PLAIN);
    assert!(text.contains("\n  egress_refused: 40 by n6\n  80.0 % of packets"), "{text}");
    let between = with(40, &later).since(&with(30, &now)).kernel.expect("there");
    assert_eq!((between.refused.clone(), between.sent()), (refused(10), 490));
    assert!(!run::text(&with(0, &later), true, false, PLAIN).contains("egress_refused"));
    // Translated flows, of which some find no place.
    let flows = |waiting, waited| {
        let flows = Some(KernelFlows { places: 1024, taken: 1000, waiting, waited });
        let kernel = later.kernel.clone().map(|kernel| KernelCounters { flows, ..kernel });
        Snapshot { kernel, ..later.clone() }
    };
    let text = run::text(&flows(0, 0), true, false, PLAIN);
    assert!(text.contains("\n  flows: 1,000 of 1,024\n  80.0 % of packets"), "{text}");
    let text = run::text(&flows(3, 7), true, false, PLAIN);
    assert!(text.contains("flows: 1,000 of 1,024 · 3 wait for a place, 7 have waited (fast_path.flows)\n"), "{text}");
    let between = flows(3, 7).since(&flows(1, 5)).kernel.expect("there").flows.expect("there");
    assert_eq!((between.waiting, between.waited), (3, 2));
}
