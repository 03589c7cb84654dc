#![no_main]

#[path = "../src/radius.rs"]
#[allow(dead_code)]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::radius_packet(bytes));
