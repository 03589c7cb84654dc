#![no_main]

#[path = "../../crates/traffic/tests/cable/framer.rs"]
mod framer;
#[path = "../src/traffic_cable.rs"]
mod traffic_cable;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| traffic_cable::traffic_cable(bytes));
