#![no_main]

#[path = "../src/pfcp.rs"]
#[allow(dead_code)]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::pfcp_node(bytes));
