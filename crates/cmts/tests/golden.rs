//! Every behaviour of the cable gateway as a folder under `tests/golden/cmts`: packets in, packets out, all counters.
//! `WEIR_BLESS=1 cargo test -p cmts golden` writes the folders.

use crate::device::Device;
use crate::golden_cases;

#[test]
fn no_folder_is_without_its_case() {
    let strays = testkit::golden::strays(&golden_cases::root(), &golden_cases::all());
    assert!(strays.is_empty(), "no case describes {strays:?}");
}

/// A service group's directions on workers of their own, and every packet comes in by the wrong one: all is as with one.
#[test]
fn two_workers_do_as_one() {
    let cases = golden_cases::all();
    let handed = testkit::golden::judge_all_shared::<Device>(&golden_cases::root(), &cases, 2);
    assert!(handed > 100, "only {handed} packets were handed over");
}

/// In a build with DPDK (`--features port-dpdk/dpdk`), packets that come in and leave by its capture file driver are the same.
#[test]
fn golden_cases_over_dpdk() {
    if port_dpdk::BUILT {
        port_dpdk::register();
        testkit::over_dpdk::judge_all::<Device>(&golden_cases::root(), &golden_cases::all());
    }
}

#[test]
fn reasons_have_unique_names_and_sentences() {
    testkit::reasons::judge::<cmts::Cmts>();
}
