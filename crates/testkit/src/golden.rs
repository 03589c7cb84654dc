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

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use crate::pcap::Seen;
use crate::rig::{Doors, with_doors};

/// Declares a group's cases: a list of all, and whatever the test program makes of each by its macro `for_each_case!`.
#[macro_export]
macro_rules! cases {
    ($($name:ident),+ $(,)?) => {
        /// All cases of the group.
        pub fn all() -> Vec<$crate::golden::Case> {
            let group = module_path!().rsplit("::").next().expect("a path has a last part");
            vec![$($name().named(group, stringify!($name))),+]
        }

        for_each_case! { $($name)+ }
    };
}

/// A test for each case, on that kind of device and with the folders there: what `for_each_case!` does, mostly.
#[macro_export]
macro_rules! judge_each {
    ($device:ty, $root:expr => $($name:ident)+) => {
        $(
            mod $name {
                #[test]
                fn case() {
                    let group = module_path!().rsplit("::").nth(1).expect("a path has two parts");
                    let case = super::$name().named(group, stringify!($name));
                    $crate::golden::judge::<$device>(&$root, &case);
                }
            }
        )+
    };
}

/// Folders under `root` that no case describes.
pub fn strays(root: &Path, cases: &[Case]) -> Vec<String> {
    Folder::all(root).into_iter().filter(|name| !cases.iter().any(|case| case.name == *name)).collect()
}

/// Whether folders are to be written.
pub(crate) fn blessing() -> bool {
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

/// Runs a case on a subject with other ports than memory ports, made from the packets that come in, and compares with what is
/// recorded: everything is the same.
///
/// # Errors
/// All differences, when there are some.
pub fn judge_with_doors<S: Subject>(
    root: &Path,
    case: &Case,
    doors: impl FnOnce(&BTreeMap<String, Vec<Seen>>) -> Rc<Doors>,
) -> Result<(), String> {
    let read = Folder::of(root, &case.name).read().map_err(|error| format!("{}: {error}", case.name))?;
    let run = || run::<S>(&read.config, &read.steps, &read.inputs, read.until);
    let (outcome, mut faults) = with_doors(doors(&read.inputs), run);
    faults.extend(compare::recording(&outcome, &read));
    if faults.is_empty() {
        return Ok(());
    }
    Err(format!("{}: {}\n\n{}\n", case.name, case.text, faults.join("\n")))
}

/// Runs all those cases on subjects of several workers, as [`judge_shared`]; returns how many packets were handed over.
///
/// # Panics
/// With all differences, when there are some.
pub fn judge_all_shared<S: Subject>(root: &Path, cases: &[Case], workers: u16) -> u64 {
    let (handed, faults): (Vec<_>, Vec<_>) =
        cases.iter().map(|case| judge_shared::<S>(root, case, workers)).partition(Result::is_ok);
    let faults: Vec<_> = faults.into_iter().filter_map(Result::err).collect();
    assert!(faults.is_empty(), "{} cases:\n{}", faults.len(), faults.join("\n"));
    handed.into_iter().flatten().sum()
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
    Ok(outcome.counters.io.get("handoff_sent").copied().unwrap_or(0))
}
