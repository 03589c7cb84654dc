//! Golden cases: a folder each, to be opened in Wireshark.
//!
//! ```text
//! tests/golden/upf/uplink/plain/
//!   case.toml        a line of description, steps of control, the gateway's configuration
//!   n3.in.pcap       what comes in by port n3, and when
//!   n6.out.pcap      what must leave by port n6, and when
//!   counters.json    every counter that moves; one that is not in it must stand still
//! ```
//!
//! A [`Case`] describes the same in Rust, so that cases can be read and reviewed: what comes in, and, independent of
//! any recording, what must come out. [`judge`] runs it against the folder; with `WEIR_BLESS=1` it writes the folder,
//! but only when the gateway did what the case says.

mod case;
mod compare;
mod counters;
mod folder;
mod run;

pub use case::{Case, Step, ms, secs, us};
pub use counters::{Counters, Dropped};
pub use folder::Folder;
pub use run::{Outcome, Subject, run};

use std::path::Path;

/// Whether folders are to be written.
pub fn blessing() -> bool {
    std::env::var_os("WEIR_BLESS").is_some_and(|value| value != "0")
}

/// Runs a case on a fresh subject and compares with its description and its folder under `root`.
///
/// # Panics
/// With all differences, when there are some.
pub fn judge<S: Subject>(root: &Path, case: &Case) {
    let folder = Folder::of(root, &case.name);
    let (outcome, mut faults) = if blessing() {
        run::<S>(&case.config, &case.steps, &case.inputs, case.until)
    } else {
        match folder.read() {
            Ok(read) => {
                let mut stale = compare::description(case, &read);
                let (outcome, faults) = run::<S>(&read.config, &read.steps, &read.inputs, read.until);
                stale.extend(faults);
                stale.extend(compare::recording(&outcome, &read));
                (outcome, stale)
            }
            Err(error) => panic!("{}: {error}\nWEIR_BLESS=1 writes the folder", case.name),
        }
    };
    faults.extend(compare::expectation(&outcome, case));
    assert!(faults.is_empty(), "{}: {}\n\n{}\n", case.name, case.text, faults.join("\n"));
    if blessing() {
        folder.write(case, &outcome).unwrap_or_else(|error| panic!("{}: {error}", case.name));
    }
}

/// Runs a case on a subject of several workers, and compares with what is recorded of one: everything is the same, but
/// for the order of packets. Returns how many packets were handed from worker to worker.
///
/// # Errors
/// All differences, when there are some.
pub fn judge_shared<S: Subject>(root: &Path, case: &Case, workers: u16) -> Result<u64, String> {
    let read = Folder::of(root, &case.name).read().map_err(|error| format!("{}: {error}", case.name))?;
    let mut config = read.config.clone();
    let count = toml::Table::from_iter([("count".to_owned(), toml::Value::from(i64::from(workers)))]);
    config.insert("workers".into(), count.into());
    let (outcome, mut faults) = run::<S>(&config, &read.steps, &read.inputs, read.until);
    faults.extend(compare::shared(&outcome, &read));
    if !faults.is_empty() {
        return Err(format!("{} by {workers} workers: {}\n\n{}\n", case.name, case.text, faults.join("\n")));
    }
    Ok(outcome.counters.io.get("handed_out").copied().unwrap_or(0))
}
