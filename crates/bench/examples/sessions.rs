//! The benchmark of PFCP sessions without the rest of weir, for profilers:
//! `cargo run --release -p bench --example sessions -- SESSIONS`.

use std::sync::atomic::AtomicBool;

use bench::BenchError;
use bench::pfcp_sessions::pfcp_sessions;

fn main() -> Result<(), BenchError> {
    let sessions = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(100_000);
    print!("{}", pfcp_sessions(sessions, &AtomicBool::new(false), &mut |_| {})?.text());
    Ok(())
}
