#![no_main]

#[path = "../../crates/dataplane/tests/gateway/mod.rs"]
mod gateway;
#[path = "../src/stages_plane.rs"]
mod stages_plane;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stages_plane::stages_plane(bytes));
