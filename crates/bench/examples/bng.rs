//! The broadband gateway's benchmark without the rest of weir, for profilers:
//! `cargo run --release -p bench --example bng -- SECONDS KEY=VALUE…`.

use std::sync::atomic::AtomicBool;

use bench::bng::{BngUnderTest, Settings};
use bench::{BenchError, Options, run, show};

fn main() -> Result<(), BenchError> {
    let (mut settings, mut options) = (Settings::default(), Options::default());
    for word in std::env::args().skip(1) {
        match word.split_once('=') {
            Some((key, value)) => settings.set(key, value).map_err(|why| BenchError::Asked(why.to_string()))?,
            None => options.seconds = word.parse().unwrap_or(2.0),
        }
    }
    print!("{}", show::report(&run(&BngUnderTest { settings }, &options, &AtomicBool::new(false))?));
    Ok(())
}
