//! Trials over interfaces, in namespaces of their own. Needs root.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bench::demo::{DemoOptions, demo};
use bench::lab::{Lab, Shape, sweep};
use bench::profiles::Settings;
use bench::upf::UpfUnderTest;
use bench::{Options, PortKind, ReceiveWork, run};
use wire::Mac;

/// Trials want the machine for themselves.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

fn ours() -> Vec<String> {
    let mine = format!("weir-bench-{}-", std::process::id());
    let list = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    list.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.starts_with(&mine)).collect()
}

fn a_second_over(port: PortKind) -> bench::report::Report {
    let _alone = alone();
    let settings = Settings { ues: 500, ..Settings::upf_128() };
    let report =
        run(&UpfUnderTest { settings }, &Options { port, seconds: 1.0, ..Options::default() }, &AtomicBool::new(false))
            .expect("a trial");
    assert_eq!(report.port, port.name());
    assert!(report.mpps > 0.02, "{} Mpps", report.mpps);
    assert!(report.reference.mpps > 0.02 && report.reference.ratio > 0.3, "{:?}", report.reference);
    assert_eq!((report.frames_lost, report.packets_missing), (0, 0), "{:?}", report.drops);
    let paced = report.paced.as_ref().expect("a checked trial");
    let (up, down) = (&paced.directions.uplink, &paced.directions.downlink);
    for d in [up, down] {
        // A busy machine may lose some; what arrives is right.
        assert!(d.forwarded_packets > d.sent_packets / 2 && d.latency_us.p50 > 0.0, "{d:?}");
        assert_eq!((d.corrupt_packets, d.misdelivered_packets, d.foreign_packets), (0, 0, 0), "{d:?}");
    }
    assert!(report.cost.trx_ns > 0.0 && report.cost.ttx_ns > report.cost.tc_ns / 10.0, "{:?}", report.cost);
    assert!(ours().is_empty(), "left behind: {:?}", ours());
    report
}

#[test]
fn a_second_over_a_ring() {
    a_second_over(PortKind::Ring);
}

#[test]
fn a_second_over_xdp() {
    let report = a_second_over(PortKind::Xdp);
    // More comes than can be forwarded: the queue's ring is where the rest is lost, and it says so.
    let (d, named) = (&report.directions, report.lost_at_ports.values().sum::<u64>());
    let lost = d.uplink.lost_packets + d.downlink.lost_packets;
    assert!(lost == 0 || named > lost / 2, "{lost} lost, {:?}", report.lost_at_ports);
    assert!(named == 0 || bench::show::facts(&report).contains("of the lost: "));
}

#[test]
fn a_gateway_may_have_its_cpu_for_itself() {
    let _alone = alone();
    let under = UpfUnderTest { settings: Settings { ues: 500, ..Settings::upf_128() } };
    let turns = |receive_work| Options { port: PortKind::Xdp, seconds: 1.0, receive_work, ..Options::default() };
    let run = |receive_work| run(&under, &turns(receive_work), &AtomicBool::new(false)).expect("a trial");
    // One after the other, on a machine that others have, too: the difference of half may not show at once.
    let relieved = (0..3).any(|_| {
        let [shared, own] = [ReceiveWork::Senders, ReceiveWork::Load].map(run);
        assert_eq!((shared.load.receive_work.as_str(), own.load.receive_work.as_str()), ("senders", "load"));
        assert_eq!((own.frames_lost, own.packets_missing), (0, 0), "{:?}", own.drops);
        assert!(own.mpps > 0.02 && own.paced.is_some(), "{} Mpps", own.mpps);
        own.cost.ttx_ns < shared.cost.ttx_ns
    });
    assert!(relieved, "sending a packet takes the gateway no less without the far end's receive work");
    assert!(ours().is_empty(), "left behind: {:?}", ours());
}

#[test]
fn a_lab_is_gone_when_dropped_even_by_a_panic() {
    let _alone = alone();
    let shape = Shape { mtu: 1600, queues: 1 };
    let panicked = std::panic::catch_unwind(|| {
        let lab = Lab::new(shape).expect("a lab");
        lab.links(0, [Mac([2, 0, 0, 0, 3, 0]), Mac([2, 0, 0, 0, 6, 0])]).expect("links");
        assert_eq!((ours().len(), lab.arrived(0)), (2, [0, 0]));
        panic!("as planned");
    });
    assert!(panicked.is_err() && ours().is_empty());
}

#[test]
fn what_a_killed_process_left_is_swept_up() {
    let _alone = alone();
    // A process that is no more: its number is free until it is used again.
    let mut child = Command::new("true").stdout(Stdio::null()).spawn().expect("a process");
    let name = format!("weir-bench-{}-0-gw", child.id());
    child.wait().expect("its end");
    let added = Command::new("ip").args(["netns", "add", &name]).status().expect("ip");
    assert!(added.success());
    assert!(sweep() >= 1);
    assert!(!std::path::Path::new("/run/netns").join(&name).exists());
}

#[test]
fn a_short_demonstration() {
    let _alone = alone();
    let options = DemoOptions { seconds: 3.0, ues: 1000, pps: Some(5_000.0), port: None };
    let mut out = Vec::new();
    let begin = Instant::now();
    let report = demo(&options, &mut out, false, &AtomicBool::new(false)).expect("a demonstration");
    assert!(begin.elapsed() < Duration::from_secs(30));
    let text = String::from_utf8(out).expect("text");
    assert!(text.contains("1,000 subscribers, 8,000 flows") && text.contains("0 frames lost"), "{text}");
    assert!(text.lines().any(|line| line.contains(" s  ") && line.contains("processing")), "{text}");
    assert_eq!(report.frames_lost, 0);
    assert!(ours().is_empty());
}

#[test]
fn an_experiment_is_run_over_hops_and_queues() {
    use bench::experiment::{self, ExperimentOptions};
    let _alone = alone();
    let options = ExperimentOptions { seconds: Some(0.5), ..ExperimentOptions::default() };
    let stop = AtomicBool::new(false);
    let run = |name: &str, axes: &[(&str, &[&str])]| {
        let mut of = experiment::named(name).expect("an experiment");
        let axis = |(key, values): &(&str, &[&str])| {
            ((*key).to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
        };
        of.vary_instead(axes.iter().map(axis).collect()).expect("keys");
        experiment::run(&of, &options, &stop, &mut |_| {}).expect("rows")
    };
    let hops = run("latency-location", &[("hops", &["0", "3"])]);
    for row in &hops.rows {
        // All that is sent through bridges comes back through them, checked.
        assert!(row.value("mpps") > 0.001 && row.value("loss_ratio") < 0.05, "{row:?}");
        assert!(row.value("uplink_p50_us") > 0.0 && row.value("downlink_p50_us") > 0.0, "{row:?}");
    }
    let ports = run("forward-pps", &[("task", &["receive", "transmit", "forward"]), ("queues", &["1", "256"])]);
    assert_eq!((ports.rows.len(), ports.not_run.len()), (3, 3), "{:?}", ports.not_run);
    for row in &ports.rows {
        assert!(row.value("mpps") > 0.01 && row.value("times_one") == 1.0, "{row:?}");
    }
    assert!(ports.not_run.iter().all(|point| point.what.contains("queues=256")), "{:?}", ports.not_run);
    assert!(ours().is_empty(), "left behind: {:?}", ours());
}

/// Its own far ends send over links, and check tags, addresses, TTL and checksum of every packet.
#[test]
fn broadband_gateway_on_links_is_measured_and_checked() {
    let _alone = alone();
    let settings = bench::bng::Settings { subscribers: 500, ..Default::default() };
    let under = bench::bng::BngUnderTest { settings };
    let options = Options { port: PortKind::Ring, seconds: 0.6, pps: Some(20_000.0), ..Options::default() };
    let report = run(&under, &options, &AtomicBool::new(false)).expect("a trial");
    for (name, d) in [("uplink", &report.directions.uplink), ("downlink", &report.directions.downlink)] {
        assert!(d.forwarded_packets > 300 && d.misdelivered_packets == 0, "{name}: {d:?}");
        assert!(d.latency_us.p50 > 0.0 && d.latency_us.p50 <= d.latency_us.p99, "{name}: {d:?}");
    }
    assert_eq!((report.frames_lost, report.packets_missing, report.port.as_str()), (0, 0, "packet-ring"));
    let two = Options { workers: 2, ..options };
    let said = run(&under, &two, &AtomicBool::new(false)).expect_err("one worker").to_string();
    assert!(said.contains("one worker"), "{said}");
}
