//! The user plane's benchmark without the rest of weir, for profilers:
//! `cargo run --release -p bench --example upf -- upf-embb SECONDS KEY=VALUE…`.

use std::sync::atomic::AtomicBool;

use bench::profiles::Settings;
use bench::upf::UpfUnderTest;
use bench::{BenchError, Options, run, show};

fn main() -> Result<(), BenchError> {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or("upf-embb".into());
    let known = || BenchError::Asked(format!("no workload of the user plane is called `{name}`"));
    let (mut settings, mut options) = (Settings::named(&name).ok_or_else(known)?, Options::default());
    for word in words {
        match word.split_once('=') {
            Some((key, value)) => settings.set(key, value).map_err(|why| BenchError::Asked(why.to_string()))?,
            None => options.seconds = word.parse().unwrap_or(2.0),
        }
    }
    print!("{}", show::report(&run(&UpfUnderTest { settings }, &options, &AtomicBool::new(false))?));
    Ok(())
}
