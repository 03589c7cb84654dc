//! `weir bench real`: a gateway process on frames that another CPU wrote, beside a bare forwarder and a peer.
//!
//! ```text
//!   load's CPU                                      gateway's CPU
//!   blast ─► l3 ═══════════ n3 ─► NAPI ─► process ─► n6 ═══════════ l6 ─► NAPI, sink
//!         ─► l6 ═══════════ n6 ─►   …            ─► n3 ═══════════ l3 ─►   …
//!   control plane, on loopback in the process's namespace
//! ```
//! Every contender is a process in namespaces of its own, with the same links, the same load and, but for the bare
//! forwarder, the same sessions, brought up by the same PFCP messages. Contenders take turns; those that wait are stopped.
//! What a trial charges to a contender is the time that the scheduler gave to all of its threads and to the NAPI threads of
//! its interfaces.
//!
//! | file | idea |
//! |---|---|
//! | `options`, `traffic` | what is asked for; addresses and packets |
//! | `rules`, `control` | a session's rules, and the control plane that brings sessions up |
//! | `configuration`, `child`, `place`, `contender` | processes: what they are told, how they are run, on which CPU |
//! | `sink`, `histogram`, `verify` | what arrives: counted, timed, looked at |
//! | `cpu`, `counters` | CPU time of threads; bursts |
//! | `trial`, `search`, `cells`, `stats` | one trial; the rate that most is delivered at; trials by turns; how well a ratio is known |
//! | `audit` | whether usage is counted, rates are kept, gates shut |
//! | `report`, `show` | the result |
//! | `forward` | the bare forwarder's process |

mod audit;
mod cells;
mod child;
mod configuration;
mod contender;
mod control;
mod counters;
pub(crate) mod cpu;
mod forward;
pub(crate) mod histogram;
mod options;
mod place;
mod report;
mod rules;
mod search;
mod show;
pub(crate) mod sink;
pub(crate) mod stats;
mod traffic;
mod trial;
pub(crate) mod verify;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

pub use audit::Check;
pub use cpu::{Sched, Threads};
pub use forward::forward;
pub use options::{Flow, Offered, RealOptions, RealPort};
pub use report::{Conditions, RealReport, Record, Setup};
pub use show::text;
pub use stats::Ratio;

use cells::Player;
use contender::{Contender, Kind};
use place::Place;
use trial::Trials;

use crate::error::BenchError;

/// Measures. `tell` is told what is being done.
///
/// # Errors
/// What this machine cannot do, which process did not start, or [`BenchError::Interrupted`].
pub fn real(options: &RealOptions, stop: &AtomicBool, tell: &mut dyn FnMut(&str)) -> Result<RealReport, BenchError> {
    let place = Place::find()?;
    let mut report = RealReport {
        schema: 1,
        profile: "real",
        conditions: Conditions::new(options, &place),
        setups: Vec::new(),
        cells: Vec::new(),
        checks: Vec::new(),
        trials_repeated: 0,
    };
    for port in &options.ports {
        run(*port, options, place, &mut report, stop, tell)?;
    }
    Ok(report)
}

/// All cells of one port mode.
fn run(
    port: RealPort,
    options: &RealOptions,
    place: Place,
    report: &mut RealReport,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(), BenchError> {
    let auto = (options.fast_path && port == RealPort::Xdp).then_some(Kind::Auto);
    let mix = auto.and(options.user_space_every).map(|_| Kind::Mix);
    let (bare, peer) = (options.bare.then_some(Kind::Bare), options.peer.as_ref().map(|_| Kind::Peer));
    let kinds = [Some(Kind::Weir), auto, mix, bare, peer];
    let mut folders = Vec::new();
    let mut contenders = Vec::new();
    for kind in kinds.into_iter().flatten() {
        let (name, path) = (kind.name(), kind.path());
        tell(&format!("starting {name} ({path}) on {} ports, {} sessions", port.word(), options.sessions));
        let folder = Folder::new(&format!("{name}-{path}"))?;
        let contender = Contender::start(kind, port, options, &place, folder.path(), stop)?;
        contender.child.hold(true);
        report.setups.extend(contender.setup.clone());
        contenders.push(contender);
        folders.push(folder);
    }
    let carried = Default::default();
    let mut player = Player { options, trials: Trials::new(place), stop, tell, repeated: 0, carried };
    for offered in &options.loads {
        let cell = player.cell(&mut contenders, *offered)?;
        report.cells.extend(report::records(&cell, port, options));
    }
    let Player { mut trials, tell, repeated, carried, .. } = player;
    report.trials_repeated += repeated;
    for contender in &mut contenders {
        if contender.control.is_none() {
            continue;
        }
        tell(&format!("checking usage, rates and gates of {}", contender.kind.label()));
        let carried = carried.get(&contender.kind).cloned().unwrap_or_default();
        let mut checks = audit::audit(contender, &mut trials, options, &carried, stop)?;
        let (path, port) = (contender.kind.path(), contender.kind.port(port));
        checks.iter_mut().for_each(|check| (check.path, check.port) = (path, port));
        report.checks.extend(checks);
    }
    Ok(())
}

/// A folder for a contender's configuration and socket. Removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self, BenchError> {
        let path = std::env::temp_dir().join(format!("weir-bench-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|e| BenchError::system(format!("making {}", path.display()), e))?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
