#![no_main]

/// The golden cases only lend their packets.
macro_rules! for_each_case {
    ($($name:ident)+) => {};
}

#[path = "../../crates/upf/tests/golden_cases/mod.rs"]
#[allow(dead_code)]
mod golden_cases;
#[path = "../src/n4.rs"]
mod n4;
#[path = "../../crates/upf/tests/n4_bench/mod.rs"]
#[allow(dead_code)]
mod n4_bench;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    n4::n4_sessions(bytes);
});
