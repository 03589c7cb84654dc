//! The user plane's tests above those of its modules: one program, for what they share is much.

/// A test for each golden case; see [`golden`].
macro_rules! for_each_case {
    ($($name:ident)+) => { testkit::judge_each! { crate::device::Device, crate::golden_cases::root() => $($name)+ } };
}

#[path = "../../pfcp/tests/capture/mod.rs"]
mod capture;
mod device;
mod golden_cases;
mod many_rules_model;
mod n4_bench;
#[path = "../../../fuzz/src/n4.rs"]
mod n4_script;
#[path = "../../../fuzz/src/upf_pipeline.rs"]
mod upf_pipeline;

mod core_captures;
mod exhaustion;
mod fast_path;
mod functions;
mod garbage;
mod golden;
mod judge;
mod many_rules;
mod n4;
mod n4_captures;
mod n4_fuzzed;
mod n4_garbage;
mod n4_peers;
mod n4_rates;
mod n4_usage;
mod order;
