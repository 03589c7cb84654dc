//! `weir bench io --port dpdk`: what a DPDK port costs beside dpdk-testpmd.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use gateway::fail::Usage;

use super::{BenchArgs, experiments, print};

/// Seconds of a turn, unless they are given.
const TURN: f64 = 2.0;

/// Measures, and prints tables or JSON.
///
/// # Errors
/// [`Usage`]: another port than dpdk, or a build without it; else what could not be run.
pub fn run(args: &BenchArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    match args.port.as_deref() {
        Some("dpdk") | None => {}
        Some(other) => return Err(Usage(format!("--port {other} has no effect on io; allowed: dpdk")).into()),
    }
    let mut testpmd = PathBuf::from("dpdk-testpmd");
    args.set(|key, value| {
        if key != "testpmd" || value.is_empty() {
            return Err(format!("--set {key}={value} is invalid; allowed: testpmd=PROGRAM"));
        }
        testpmd = PathBuf::from(value);
        Ok(())
    })?;
    if !port_dpdk::BUILT {
        return Err(
            Usage("io measures dpdk: ports, which this build does not have: `make dpdk` builds one".into()).into()
        );
    }
    let found = ::bench::io::io_cost(&testpmd, args.seconds.unwrap_or(TURN), stop, &mut experiments::show);
    experiments::clear();
    let found = found?;
    print(args, &found, &found.text())
}
