//! Every behaviour of the broadband gateway as a folder under `tests/golden/bng`: packets in, packets out, all counters.
//! `WEIR_BLESS=1 cargo test -p bng golden` writes the folders.

use crate::device::Device;
use crate::golden_cases;

#[test]
fn no_folder_is_without_its_case() {
    let strays = testkit::golden::strays(&golden_cases::root(), &golden_cases::all());
    assert!(strays.is_empty(), "no case describes {strays:?}");
}

/// Groups are on workers in turns, and every packet comes in by a wrong one: all is as with one. Translation aside: the one
/// public address of those cases is one worker's.
#[test]
fn two_workers_do_as_one() {
    let cases: Vec<_> = golden_cases::all().into_iter().filter(|case| !case.name.starts_with("nat/")).collect();
    let handed = testkit::golden::judge_all_shared::<Device>(&golden_cases::root(), &cases, 2);
    assert!(handed > 40, "only {handed} packets were handed over");
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
    testkit::reasons::judge::<bng::Bng>();
}
