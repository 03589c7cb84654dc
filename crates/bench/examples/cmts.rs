//! The cable gateway's benchmark without the rest of weir, for profilers:
//! `cargo run --release -p bench --example cmts -- SECONDS KEY=VALUE…`; with `sweep`, all sizes.

use std::sync::atomic::AtomicBool;

use bench::cmts::{CableOptions, SIZES, run};

fn main() -> Result<(), bench::BenchError> {
    let mut options = CableOptions { seconds: 2.0, ..CableOptions::default() };
    for word in std::env::args().skip(1) {
        match word.split_once('=') {
            Some((key, value)) => options.settings.set(key, value)?,
            None if word == "sweep" => options.sweep = SIZES.to_vec(),
            None => options.seconds = word.parse().unwrap_or(2.0),
        }
    }
    print!("{}", run(&options, &AtomicBool::new(false))?.text());
    Ok(())
}
