#![no_main]

/// The golden cases only lend their packets.
macro_rules! for_each_case {
    ($($name:ident)+) => {};
}

#[path = "../../crates/upf/tests/device/mod.rs"]
mod device;
#[path = "../../crates/upf/tests/golden_cases/mod.rs"]
mod golden_cases;
#[path = "../src/upf_pipeline.rs"]
mod upf_pipeline;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| upf_pipeline::upf_pipeline(bytes));
