//! The benchmark, as `cargo bench -p toy` runs it, for a moment.

mod workload;

use std::sync::atomic::AtomicBool;

use bench::Options;

#[test]
fn every_packet_comes_out_and_every_stage_has_a_cost() {
    let options = Options { seconds: 0.3, ..Options::default() };
    let report = bench::run(&workload::workload(), &options, &AtomicBool::new(false)).unwrap();
    let told = serde_json::to_value(&report).unwrap();
    assert_eq!((&told["gateway"], &told["profile"]), (&"toy".into(), &"toy-256".into()));
    assert_eq!(report.frames_lost, 0);
    for direction in ["uplink", "downlink"] {
        let of = |key: &str| told["directions"][direction][key].as_u64().unwrap();
        assert!(of("forwarded_packets") > 1000, "{told}");
        assert_eq!((of("lost_packets"), of("misdelivered_packets")), (0, 0), "{told}");
    }
    let text = bench::show::report(&report);
    assert!(text.contains("police"), "{text}");
}
