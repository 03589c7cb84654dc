//! The cable gateway's benchmark, in short: what it must find whatever the machine.

use std::sync::atomic::AtomicBool;

use bench::cmts::{CableOptions, CableReport, CableSettings, run};

fn short(change: impl FnOnce(&mut CableSettings)) -> CableReport {
    let mut options = CableOptions { seconds: 0.2, ..CableOptions::default() };
    options.settings.modems = 24;
    change(&mut options.settings);
    run(&options, &AtomicBool::new(false)).expect("a benchmark")
}

#[test]
fn nothing_is_lost_and_everything_is_right() {
    let report = short(|_| {});
    let (common, cable) = (&report.common, &report.cable);
    println!("{}", report.text());
    assert!(common.directions.downlink.sent_packets > 1000 && common.directions.uplink.sent_packets > 100);
    assert_eq!((cable.wrong_frames, cable.reordered, common.frames_lost, common.packets_missing), (0, 0, 0, 0));
    assert_eq!((common.directions.downlink.lost_packets, common.directions.uplink.lost_packets), (0, 0));
    assert!(common.drops.is_empty(), "{:?}", common.drops);
    assert!(cable.upstream_ratio > 0.08, "{}", cable.upstream_ratio);
    let rates = cable.rates.as_ref().expect("rates");
    assert!(rates.worst.abs() <= 0.01 && rates.reordered == 0 && rates.flows == 120, "{rates:?}");
}
