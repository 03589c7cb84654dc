#![no_main]

/// Cases of the folder are of no use here.
macro_rules! for_each_case {
    ($($name:ident)+) => {};
}

#[path = "../src/bng_pipeline.rs"]
mod bng_pipeline;
#[path = "../../crates/bng/tests/device/mod.rs"]
mod device;
#[path = "../../crates/bng/tests/golden_cases/mod.rs"]
mod golden_cases;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bng_pipeline::bng_pipeline(bytes));
