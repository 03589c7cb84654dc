#![no_main]

#[path = "../src/access.rs"]
#[allow(dead_code)]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::access_nd(bytes));
