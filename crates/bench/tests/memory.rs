//! A gateway in memory, for a second: nothing is lost, nothing is allocated, everything comes back; and the object
//! that says so has all the keys it must have.

mod common;

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bench::bng::BngUnderTest;
use bench::profiles::Settings;
use bench::scale::{Axis, scale};
use bench::upf::UpfUnderTest;
use bench::{Options, run, show};
use serde_json::Value;

#[global_allocator]
static ALLOC: pages::Counting<std::alloc::System> = pages::Counting(std::alloc::System);

/// Trials run at real-time priority: one beside another may get no CPU for all of its time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options(seconds: f64) -> Options {
    Options { seconds, ..Options::default() }
}

fn embb() -> UpfUnderTest {
    UpfUnderTest { settings: Settings { ues: 2000, ..Settings::upf_embb() } }
}

#[test]
fn a_second_in_memory() {
    let _alone = alone();
    let report = run(&embb(), &options(1.0), &AtomicBool::new(false)).expect("a trial");
    let d = &report.directions;
    for (name, d) in [("uplink", &d.uplink), ("downlink", &d.downlink)] {
        assert!(d.sent_packets > 10_000, "{name}: {d:?}");
        assert_eq!((d.lost_packets, d.forwarded_packets), (0, d.sent_packets), "{name}: {d:?}");
        let odd = d.corrupt_packets + d.misdelivered_packets + d.foreign_packets + d.duplicated_packets;
        assert_eq!(odd, 0, "{name}: {d:?}");
    }
    assert_eq!((report.allocations_per_packet, report.frames_lost, report.packets_missing), (0.0, 0, 0));
    assert!(report.drops.is_empty(), "{:?}", report.drops);
    assert_eq!((report.subscribers, report.flows), (2000, 16_000));
    assert!(report.mpps > 0.01 && report.loss_ratio == 0.0);
    let c = &report.cost;
    assert!((c.trx_ns + c.tc_ns + c.ttx_ns + c.other_ns - c.tp_ns).abs() < 1e-6, "{c:?}");
    // Stages are means of all windows, Tc is a median: of windows that others disturbed, the mean is the larger one.
    let windows = &c.samples.tc_ns;
    let mean = windows.iter().sum::<f64>() / windows.len() as f64;
    assert!(c.stages_ns > 0.0 && c.stages_ns < 1.05 * mean.max(c.tc_ns), "{c:?}");
    let pipelines: Vec<_> = c.stages.iter().map(|stage| stage.direction.as_str()).collect();
    assert!(pipelines.contains(&"uplink") && pipelines.contains(&"downlink"), "{pipelines:?}");
    assert!(report.bytes_per_subscriber > 64.0 && report.start_seconds > 0.0 && report.rss_bytes > 0);
    // The clock of the core, where it can be taken: a physical one, and Tc's nanoseconds are so many of its cycles.
    if cfg!(target_arch = "x86_64") {
        let (ghz, cycles) = (report.host.core_ghz.expect("a clock"), c.tc_core_cycles.expect("cycles"));
        assert!((0.01..10.0).contains(&ghz) && cycles > 1.0, "{ghz} GHz, {cycles} cycles");
        // A window in which others had the CPU all the time has none.
        assert!((1..=report.windows.count).contains(&report.windows.core_ghz.len()), "{:?}", report.windows);
        assert!(report.host.core_ghz_quiet.is_some() && c.tc_quiet_core_cycles.is_some());
    }
    let text = show::report(&report);
    assert!(text.contains("0 frames lost") && text.contains("observer:"), "{text}");
    assert_eq!(text.contains("cycles of the core"), report.host.core_ghz.is_some(), "{text}");
    has_all_keys(&serde_json::to_value(&report).expect("an object"));
}

#[test]
fn packets_come_a_few_at_a_time_and_all_arrive() {
    let _alone = alone();
    let found = bench::bursts::bursts(&embb(), &options(0.3), &[1, 4, 64], &AtomicBool::new(false)).expect("a trial");
    assert_eq!((found.frames_lost, found.packets_missing, found.packets_lost), (0, 0, 0));
    assert!(found.drops.is_empty(), "{:?}", found.drops);
    let sizes: Vec<usize> = found.rows.iter().filter(|row| !row.cold).map(|row| row.burst).collect();
    assert_eq!(sizes, [1, 4, 64]);
    assert_eq!(found.cold.is_some(), found.rows.iter().any(|row| row.cold));
    for row in &found.rows {
        let most = row.stages.iter().map(|stage| stage.packets_per_call).fold(0.0, f64::max);
        // Larger ones are not always full: directions keep their ratio.
        let least = 0.5 * row.burst.min(4) as f64;
        assert!(row.tc_ns > 0.0 && most <= row.burst as f64 + 1e-9 && most > least, "{row:?}");
    }
    assert!(found.text().contains("ns a burst"), "{}", found.text());
}

#[test]
fn the_published_workloads_run_at_their_ratios() {
    let _alone = alone();
    for (settings, ratio) in [(Settings::vepc_embb(), "2.5:7.5"), (Settings::fwa(), "1:9")] {
        let (name, flows) = (settings.profile.clone(), u64::from(settings.bearers * settings.flows));
        let mut settings = Settings { ues: 1000, ..settings };
        settings.set("ratio", ratio).expect("a ratio");
        let report = run(&UpfUnderTest { settings }, &options(0.5), &AtomicBool::new(false)).expect("a trial");
        let (up, down) = (&report.directions.uplink, &report.directions.downlink);
        assert_eq!((up.lost_packets, down.lost_packets, report.frames_lost), (0, 0, 0), "{name}");
        assert_eq!((report.profile.as_str(), report.flows), (name.as_str(), 1000 * flows));
        assert!(report.drops.is_empty(), "{name}: {:?}", report.drops);
        let share = up.sent_packets as f64 / (up.sent_packets + down.sent_packets) as f64;
        let wanted = if ratio == "1:9" { 0.1 } else { 0.25 };
        assert!((share - wanted).abs() < 0.01, "{name}: {share}");
    }
}

#[test]
fn points_of_an_experiment_take_turns() {
    use bench::experiment::{self, ExperimentOptions};
    let _alone = alone();
    let mut packet_core = experiment::named("packet-core").expect("an experiment");
    packet_core.assign("ues", "64").expect("a number");
    packet_core.assign("share_cpus", "true").expect("a switch");
    let axes = |list: &[(&str, &str)]| {
        list.iter().map(|(key, value)| ((*key).to_owned(), vec![(*value).to_owned()])).collect::<Vec<_>>()
    };
    packet_core.vary_instead(axes(&[("instances", "1..2"), ("workers", "1")])).expect("keys");
    let options = ExperimentOptions { seconds: Some(0.4), ..ExperimentOptions::default() };
    let mut steps = Vec::new();
    let stop = AtomicBool::new(false);
    let found =
        experiment::run(&packet_core, &options, &stop, &mut |progress| steps.push(progress.done)).expect("rows");
    assert_eq!((found.rows.len(), found.results.len(), found.not_run.len()), (2, 2, 0));
    assert!(steps.len() > 3 && steps.iter().all(|(done, all)| done < all), "{steps:?}");
    let [one, two] = [&found.rows[0], &found.rows[1]];
    assert_eq!((one.value("times_one"), two.values["instances"].as_str()), (1.0, "2"));
    assert!(one.value("mpps") > 0.01 && two.value("times_one") > 0.1);
    let both = two.metrics["instance_mpps"];
    assert!(both.low > 0.0 && both.low <= both.value && both.value <= both.high, "{both:?}");
    let sum = 2.0 * both.value / two.value("mpps");
    assert!((0.7..1.3).contains(&sum), "gateways together are all of it: {sum}");
    for result in &found.results {
        assert_eq!((result.frames_lost, result.packets_missing, result.profile.as_str()), (0, 0, "packet-core"));
        assert!(result.varied.contains_key("instances"));
    }
}

/// The keys of a result are a contract with report, comparison and planner.
fn has_all_keys(report: &Value) {
    let has = |value: &Value, keys: &[&str]| {
        for key in keys {
            assert!(value.get(key).is_some(), "no `{key}` in {value}");
        }
    };
    has(report, &common::KEYS);
    for direction in ["uplink", "downlink"] {
        let d = &report["directions"][direction];
        has(
            d,
            &[
                "frame_bytes_mean",
                "offered_packets",
                "sent_packets",
                "forwarded_packets",
                "lost_packets",
                "mpps",
                "gbps_l2",
                "latency_us",
            ],
        );
        has(&d["latency_us"], &["p50", "p99", "p999", "max"]);
    }
    has(&report["cost"], &["trx_ns", "tc_ns", "ttx_ns", "other_ns", "tp_ns", "cycles_per_packet", "tsc_hz", "stages"]);
    has(&report["cost"]["stages"][0], &["direction", "name", "packets", "cycles_per_packet", "ns_per_packet"]);
    has(&report["reference"], &["name", "mpps", "gbps_l2", "ratio"]);
    has(&report["host"], &["cpu", "kernel", "cores", "steal_ratio", "nic"]);
    assert_eq!((&report["schema"], &report["port"], &report["gateway"]), (&1.into(), &"memory".into(), &"upf".into()));
}

#[test]
fn two_workers_share_the_subscribers() {
    let _alone = alone();
    let found = scale(&embb(), &options(0.4), Axis::Fanout, 2, &AtomicBool::new(false)).expect("a scale-out");
    assert_eq!(found.rows.iter().map(|row| row.count).collect::<Vec<_>>(), [1, 2]);
    for report in &found.results {
        let d = &report.directions;
        assert_eq!((report.frames_lost, d.uplink.lost_packets, d.downlink.lost_packets), (0, 0, 0));
        assert_eq!(report.worker_utilisation.len(), usize::from(report.workers));
    }
    let text = bench::scale::text(&found);
    assert!(text.contains("× one") && text.contains("this machine: a cache line from memory takes"), "{text}");
}

#[test]
fn a_trial_can_be_interrupted() {
    let _alone = alone();
    let stop = AtomicBool::new(true);
    let begin = std::time::Instant::now();
    assert!(matches!(run(&embb(), &options(60.0), &stop), Err(bench::BenchError::Interrupted)));
    assert!(begin.elapsed().as_secs() < 20);
}

/// Queues that hold what they may: every packet leaves, is refused by a full queue, or waits.
#[test]
fn filled_queues_of_the_broadband_gateway_account_for_every_packet() {
    let _alone = alone();
    let settings = bench::bng::Settings { subscribers: 8000, shape: true, fill: 5, ..Default::default() };
    let report = run(&BngUnderTest { settings }, &options(0.6), &AtomicBool::new(false)).expect("a trial");
    // 400 subscribers are busy, with five packets each; a few of the others have one that waits for its turn.
    let filled = report.filled.expect("how full they were");
    assert!((0.05..0.06).contains(&filled.backlogged_ratio) && filled.packets_each > 4.0, "{filled:?}");
    for by_rate in [filled.offered_by_rate_min, filled.offered_by_rate_mean, filled.offered_by_rate_max] {
        assert!((1.28..1.32).contains(&by_rate), "{filled:?}");
    }
    // Ten milliseconds of the port's rate.
    assert_eq!((filled.nodes, filled.buffer_bytes), (2, 400 * 5 * 1408 * 108 / 100));
    assert!((0.9..=1.0).contains(&filled.buffer_used_ratio), "{filled:?}");
    let downlink = &report.directions.downlink;
    assert!(filled.dropped_ratio > 0.15 && downlink.forwarded_packets > 1000, "{filled:?}, {downlink:?}");
    let names: Vec<_> = report.drops.keys().map(String::as_str).collect();
    assert_eq!(names, ["downstream.shape.flow_longest", "worker.flow_longest"]);
    assert_eq!(report.directions.uplink.lost_packets, 0);
    assert_eq!((report.allocations_per_packet, report.frames_lost, report.packets_missing), (0.0, 0, 0));
}

#[test]
fn broadband_gateway_in_memory_loses_nothing() {
    let _alone = alone();
    let mut settings = bench::bng::Settings { subscribers: 3000, ..Default::default() };
    settings.set("size", "imix").expect("a size");
    let under = BngUnderTest { settings };
    let report = run(&under, &options(0.6), &AtomicBool::new(false)).expect("a trial");
    for (name, d) in [("uplink", &report.directions.uplink), ("downlink", &report.directions.downlink)] {
        assert!(d.sent_packets > 10_000, "{name}: {d:?}");
        assert_eq!((d.lost_packets, d.misdelivered_packets), (0, 0), "{name}: {d:?}");
    }
    let ratio = report.directions.downlink.sent_packets as f64 / report.directions.uplink.sent_packets as f64;
    assert!((7.5..8.5).contains(&ratio), "{ratio}");
    assert_eq!((report.allocations_per_packet, report.frames_lost, report.packets_missing), (0.0, 0, 0));
    assert!(report.drops.is_empty(), "{:?}", report.drops);
}
