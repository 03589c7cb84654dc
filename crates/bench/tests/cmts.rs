//! The cable gateway's benchmark, in short: what it must find whatever the machine.

mod common;

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use bench::PortKind;
use bench::cmts::{CableOptions, CableReport, CableSettings, Channels, run};

/// Trials run at real-time priority: one beside another may get no CPU for all of its time.
static ALONE: Mutex<()> = Mutex::new(());

fn short(seconds: f64, change: impl FnOnce(&mut CableOptions)) -> CableReport {
    let settings = CableSettings { modems: 24, ..CableSettings::default() };
    let mut options = CableOptions { seconds, settings, ..CableOptions::default() };
    change(&mut options);
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let report = run(&options, &AtomicBool::new(false)).expect("a benchmark");
    println!("{}", report.text());
    report
}

/// Everything sent arrived, once, in order, whole, where it belongs.
fn whole(report: &CableReport) {
    let (common, cable) = (&report.common, &report.cable);
    let (down, up) = (&common.directions.downlink, &common.directions.uplink);
    assert!(down.sent_packets > 100 && up.sent_packets > 10, "{down:?} {up:?}");
    assert_eq!((down.lost_packets, up.lost_packets), (0, 0));
    assert_eq!((cable.wrong_frames, cable.reordered, common.frames_lost, common.packets_missing), (0, 0, 0, 0));
    assert!(common.drops.is_empty(), "{:?}", common.drops);
    assert!(cable.segments_per_packet[1..].iter().sum::<u64>() > 10 && cable.segments_per_packet[0] == 0);
}

#[test]
fn nothing_is_lost_and_everything_is_right() {
    let report = short(0.2, |_| {});
    whole(&report);
    let cable = &report.cable;
    assert!(cable.upstream_ratio > 0.08, "{}", cable.upstream_ratio);
    let rates = cable.rates.as_ref().expect("rates");
    assert!(rates.worst.abs() <= 0.01 && rates.reordered == 0 && rates.flows == 120, "{rates:?}");
    // A modem has a line, four hosts and their index, two keys each way, eight service flows, a cluster with a frame.
    let bytes = report.common.bytes_per_subscriber;
    assert!((2_500.0..60_000.0).contains(&bytes), "{bytes} bytes a modem");
    // Sizes are those published, as far as so few packets can tell.
    let mean = report.common.directions.downlink.frame_bytes_mean;
    assert!((mean - 998.2).abs() < 40.0, "{mean}");
}

#[test]
fn other_channels_other_sizes_and_more_service_groups() {
    let report = short(0.1, |options| {
        (options.settings.channels, options.settings.groups) = (Channels::Ofdm2Scqam32, 3);
        options.sweep = vec![64, 1518];
    });
    whole(&report);
    let cable = &report.cable;
    assert_eq!((cable.service_groups, cable.modems, cable.channels.as_str()), (3, 24, "ofdm2-scqam32"));
    let sizes: Vec<_> = cable.sweep.iter().map(|line| (line.bytes, line.lost)).collect();
    assert_eq!(sizes, [(64, 0), (1518, 0)]);
    assert!(cable.sweep.iter().all(|line| line.mpps > 0.0 && line.cipher_alone_cycles > 0.0));
    assert!(report.text().contains("1518"));
}

/// Keys that reports, comparisons and the planner read.
#[test]
fn packets_may_be_longer_than_small_buffers_hold() {
    for mtu in [1400, 1800, 2000] {
        whole(&short(0.1, |options| options.settings.mtu = mtu));
    }
}

#[test]
fn an_mtu_beyond_the_links_is_refused() {
    let settings = CableSettings { mtu: 1800, ..CableSettings::default() };
    let options = CableOptions { port: PortKind::Plain, settings, ..CableOptions::default() };
    let error = run(&options, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(error.contains("mtu = 1800") && error.contains("up to 1600 bytes"), "{error}");
}

#[test]
fn the_result_is_the_object_that_every_benchmark_gives() {
    let report = short(0.1, |_| {});
    let json = serde_json::to_value(&report).expect("JSON");
    for key in common::KEYS.into_iter().chain(["cable"]) {
        assert!(json.get(key).is_some(), "{key}");
    }
    assert_eq!(
        (&json["profile"], &json["port"], &json["subscribers"]),
        (&"cmts-imix".into(), &"memory".into(), &48.into())
    );
    assert_eq!(report.common.host.cores, bench::thread::cpus().len());
    let again: CableReport = serde_json::from_value(json).expect("the same object");
    assert_eq!(again.cable.sweep, report.cable.sweep);
}

/// Over links of its own, in namespaces. Needs root.
#[test]
fn every_kind_of_port() {
    for port in PortKind::SOCKETS {
        let report = short(0.2, |options| options.port = port);
        let (common, cable) = (&report.common, &report.cable);
        assert_eq!((common.port.as_str(), common.frames_lost, common.packets_missing), (port.name(), 0, 0));
        for d in [&common.directions.downlink, &common.directions.uplink] {
            // A busy machine may lose some; what arrives is right.
            assert!(d.sent_packets > 10 && d.forwarded_packets > d.sent_packets / 2 && d.latency_us.p50 > 0.0, "{d:?}");
            assert_eq!((d.corrupt_packets, d.misdelivered_packets, d.reordered_packets), (0, 0, 0), "{d:?}");
            assert_eq!((d.duplicated_packets, d.foreign_packets), (0, 0), "{d:?}");
        }
        if common.loss_ratio == 0.0 {
            assert_eq!((cable.wrong_frames, cable.reordered), (0, 0));
        }
        assert!(common.cost.trx_ns > 0.0 && common.cost.ttx_ns > 0.0 && common.mpps > 0.0, "{:?}", common.cost);
        let bare = &common.reference;
        assert_eq!(bare.name, format!("bare forwarding, {}", port.name()));
        assert!(bare.mpps > 0.0 && bare.ratio > 0.0 && bare.trx_ns > 0.0 && bare.ttx_ns > 0.0, "{bare:?}");
        assert!(report.text().contains(&bare.name) && common.bytes_per_subscriber > 2_500.0);
        assert!(common.load.busy_mpps >= common.mpps && common.worker_utilisation[0] > 0.0, "{:?}", common.load);
    }
    let mine = format!("weir-bench-{}-", std::process::id());
    let list = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let left: Vec<_> = list.filter(|entry| entry.file_name().to_string_lossy().starts_with(&mine)).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
