//! Every behaviour of the user plane as a folder under `tests/golden/upf`: packets in, packets out, all counters.
//! `WEIR_BLESS=1 cargo test -p upf golden` writes the folders.

use crate::device::Device;
use crate::golden_cases;

#[test]
fn no_folder_is_without_its_case() {
    let strays = testkit::golden::strays(&golden_cases::root(), &golden_cases::all());
    assert!(strays.is_empty(), "no case describes {strays:?}");
}

/// Whatever the kernel makes of steering: when all packets come in by the queues of a worker that owns few subscribers
/// or none, everything is as with one worker.
#[test]
fn two_workers_do_as_one() {
    let cases: Vec<_> = golden_cases::all().into_iter().filter(fits_two_workers).collect();
    assert!(cases.len() > 195, "only {} cases fit two workers", cases.len());
    let handed = testkit::golden::judge_all_shared::<Device>(&golden_cases::root(), &cases, 2);
    assert!(handed > 300, "only {handed} packets were handed over");
}

/// Not those with sessions or networks beside the configured ones, which only PFCP's side of control steers, and those
/// with a single public address, which is not divisible.
fn fits_two_workers(case: &golden_cases::Case) -> bool {
    let what = |step: &testkit::golden::Step| step.what.get("do").and_then(toml::Value::as_str).map(str::to_owned);
    let beside = |step| what(step).is_some_and(|what| ["sessions", "behind"].contains(&&*what));
    !case.config.contains_key("nat") && !case.steps.iter().any(beside)
}

/// In a build with DPDK (`--features port-dpdk/dpdk`), packets that come in and leave by its capture file driver are the same.
#[test]
fn golden_cases_over_dpdk() {
    if port_dpdk::BUILT {
        port_dpdk::register();
        // A port that takes no more is a memory port's alone: a file takes all.
        let cases: Vec<_> = golden_cases::all().into_iter().filter(|case| case.name != "link/jammed_port").collect();
        testkit::over_dpdk::judge_all::<Device>(&golden_cases::root(), &cases);
    }
}

/// Where a device verifies what comes in, and makes checksums over IPv6 that are left to it, all is the same.
#[test]
fn golden_cases_with_checksum_offloads() {
    let (verified, made) = testkit::offloads::judge_all::<Device>(&golden_cases::root(), &golden_cases::all());
    assert!(verified > 100 && made > 5, "{verified} verified, {made} made");
}

/// What a device finds right is not summed again: else its word would save nothing.
#[test]
fn a_devices_good_word_saves_the_sum() {
    let is_it = |case: &golden_cases::Case| case.name == "malformed/outer_checksum";
    let case = golden_cases::all().into_iter().find(is_it).expect("there is such a case");
    let fault = testkit::offloads::judge_credulous::<Device>(&golden_cases::root(), &case).expect_err("a difference");
    assert!(fault.contains("udp_checksum"), "{fault}");
}

#[test]
fn reasons_have_unique_names_and_sentences() {
    testkit::reasons::judge::<upf::Upf>();
}
