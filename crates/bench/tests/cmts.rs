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

/// Everything sent arrived, once, in order, whole, where it belongs; but what queues dropped of service flows that are
/// offered more than their rate. Rules matched what they were to match.
fn whole(report: &CableReport) {
    let (common, cable) = (&report.common, &report.cable);
    let (down, up) = (&common.directions.downlink, &common.directions.uplink);
    assert!(down.sent_packets > 100 && up.sent_packets > 10, "{down:?} {up:?}");
    let expected = cable.queues.aqm_drops + cable.queues.full_drops;
    assert_eq!((down.lost_packets, up.lost_packets, cable.lost_unexpectedly), (expected, 0, 0));
    assert_eq!((cable.wrong_frames, cable.reordered, common.frames_lost, common.packets_missing), (0, 0, 0, 0));
    let named = |name: &String| ["downstream.qos.flow_aqm", "downstream.qos.flow_queue_full"].contains(&name.as_str());
    assert!(common.drops.keys().all(named), "{:?}", common.drops);
    let matches = &cable.matches;
    assert!(matches.right && matches.filter_denied == [0, 0], "{matches:?}");
    assert_eq!(matches.filter_made, matches.filter_permitted);
    assert_eq!(matches.classifier_made, matches.classifier_matched);
    assert!(matches.filter_permitted[0] > 0 && matches.classifier_matched > 0, "{matches:?}");
    assert!(cable.segments_per_packet[1..].iter().sum::<u64>() > 10 && cable.segments_per_packet[0] == 0);
}

#[test]
fn nothing_is_lost_and_everything_is_right() {
    let report = short(0.2, |_| {});
    whole(&report);
    let cable = &report.cable;
    assert!((cable.upstream_ratio / 0.1 - 1.0).abs() < 0.05, "{}", cable.upstream_ratio);
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

/// Some service flows are offered more than they may have: their queues stand, active queue management drops, they get
/// their rate, and the others do not wait for them.
#[test]
fn queues_of_overloaded_service_flows_stand() {
    let report = short(1.0, |_| {});
    whole(&report);
    let (flows, queues) = (&report.cable.service_flows, &report.cable.queues);
    assert!(flows.priorities && flows.aqm && flows.overloaded_modems == 2, "{flows:?}");
    assert_eq!((flows.overloaded.sustained, flows.overloaded.peak), (Some(20_000_000), Some(25_000_000)));
    assert!(queues.waiting_packets > 4.0 && queues.aqm_drops > 0, "{queues:?}");
    assert!((1.35..1.6).contains(&queues.offered_ratio), "{queues:?}");
    // A burst may be in the short time that is measured.
    assert!((0.9..1.12).contains(&queues.carried_ratio), "{queues:?}");
    assert!(queues.overloaded_delay_ms > 2.0 && queues.other_delay_ms < queues.overloaded_delay_ms / 4.0, "{queues:?}");
}

#[test]
fn queues_without_active_management_are_full() {
    let report = short(0.5, |options| {
        options.settings.set("aqm", "off").expect("a key");
        options.settings.set("buffer", "64 KiB").expect("a key");
    });
    whole(&report);
    let queues = &report.cable.queues;
    assert!(queues.aqm_drops == 0 && queues.full_drops > 0 && queues.waiting_packets > 60.0, "{queues:?}");
    assert!((0.95..1.05).contains(&queues.carried_ratio), "{queues:?}");
}

#[test]
fn everything_can_be_switched_off() {
    let report = short(0.2, |options| {
        for (key, value) in [("rate", "off"), ("priorities", "off"), ("aqm", "off"), ("rules", "ports")] {
            options.settings.set(key, value).expect("a key");
        }
    });
    whole(&report);
    let (flows, cable) = (&report.cable.service_flows, &report.cable);
    assert_eq!(
        (flows.ordinary.sustained, flows.priorities, flows.aqm, flows.overloaded_modems),
        (None, false, false, 0)
    );
    assert_eq!((report.common.loss_ratio, cable.queues.aqm_drops, cable.matches.rules.as_str()), (0.0, 0, "ports"));
    assert!(report.text().contains("maximum sustained rate off"), "{}", report.text());
}

#[test]
fn upstream_is_sent_at_the_ratio_that_is_set() {
    for ratio in [0.5, 1.0, 2.0] {
        let report = short(0.5, |options| options.settings.upstream = ratio);
        whole(&report);
        let cable = &report.cable;
        assert_eq!(cable.upstream_ratio_set, Some(ratio));
        // In so short a time what waits in a modem's grant is some of all.
        assert!((cable.upstream_ratio / ratio - 1.0).abs() < 0.1, "{ratio}: {}", cable.upstream_ratio);
        let is_reached = (cable.upstream_ratio / ratio - 1.0).abs() <= 0.03;
        assert_eq!(is_reached, cable.upstream_limited_by.is_empty(), "{}", cable.upstream_limited_by);
        assert_eq!(is_reached, !report.text().contains("NOT AS SET"));
    }
}

#[test]
fn upstream_alone() {
    let report = short(0.3, |options| options.settings.set("downstream", "off").expect("a key"));
    let (common, cable) = (&report.common, &report.cable);
    let (down, up) = (&common.directions.downlink, &common.directions.uplink);
    assert_eq!((down.sent_packets, up.lost_packets, cable.wrong_frames, cable.reordered), (0, 0, 0, 0));
    assert!(up.forwarded_packets > 1000 && up.mpps > 0.0 && up.gbps_l2 > 0.0, "{up:?}");
    assert!(cable.upstream_cycles > cable.decryption_cycles && cable.decryption_cycles > 0.0, "{cable:?}");
    assert_eq!((cable.upstream_ratio_set, cable.downstream_cycles, cable.rates), (None, 0.0, None));
    assert!(report.text().contains("upstream only") && cable.differences.iter().any(|d| d.here == "upstream only"));
}

#[test]
fn service_groups_are_spread_over_workers() {
    let report = short(0.3, |options| (options.settings.groups, options.settings.workers) = (3, 2));
    whole(&report);
    let common = &report.common;
    assert_eq!((common.workers, common.worker_utilisation.len(), common.handed_over), (2, 2, 0));
    assert!(common.worker_utilisation.iter().all(|busy| *busy > 0.1), "{:?}", common.worker_utilisation);
    let settings = CableSettings { workers: 3, ..CableSettings::default() };
    let error =
        run(&CableOptions { settings, ..CableOptions::default() }, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(error.contains("--workers 3") && error.contains("1 to 2"), "{error}");
}

#[test]
fn what_is_not_alike_with_the_publication_is_named() {
    let report = short(0.1, |_| {});
    let differs = |what: &str| report.cable.differences.iter().any(|difference| difference.what == what);
    assert!(
        ["packet I/O", "CPUs", "processor", "encryption", "modems", "rules", "service flows", "loss"]
            .into_iter()
            .all(differs)
    );
    assert!(!differs("frame sizes") && !differs("directions"));
    assert!(report.text().contains("QuickAssist"));
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
        assert!(common.cost.tp_ns > common.cost.trx_ns + common.cost.ttx_ns, "{:?}", common.cost);
        assert!(
            cable.matches.right && cable.differences.iter().any(|d| d.here.contains(port.name())),
            "{:?}",
            cable.matches
        );
        assert!(common.load.busy_mpps >= common.mpps && common.worker_utilisation[0] > 0.0, "{:?}", common.load);
    }
    let two = short(0.3, |options| (options.port, options.settings.workers) = (PortKind::Mmsg, 2));
    assert_eq!((two.common.workers, two.common.worker_utilisation.len()), (2, 2));
    assert!(two.common.directions.downlink.forwarded_packets > 10, "{:?}", two.common.directions);
    // With more threads than CPUs a worker may pause for longer than devices wait for what lacks in a DSID's order.
    let few = two.common.directions.downlink.forwarded_packets / 100;
    assert!(
        two.cable.wrong_frames == 0 && two.cable.reordered <= few,
        "{:?}, {}",
        two.cable.wrong,
        two.cable.reordered
    );
    let mine = format!("weir-bench-{}-", std::process::id());
    let list = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let left: Vec<_> = list.filter(|entry| entry.file_name().to_string_lossy().starts_with(&mine)).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}
