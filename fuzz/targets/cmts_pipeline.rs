#![no_main]

#[path = "../src/cmts_pipeline.rs"]
mod cmts_pipeline;
#[path = "../../crates/cmts/tests/plant/mod.rs"]
mod plant;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cmts_pipeline::cmts_pipeline(bytes));
