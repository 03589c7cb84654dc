//! Watching a running gateway from a thread of its own: what changes becomes an event, and probes are answered from what
//! was seen last, without waiting for anybody.
//!
//! | file | idea |
//! |---|---|
//! | `vitals.rs` | what probes are answered from |
//! | `stall.rs` | workers and control that make no turns |
//! | `ports.rs` | links, and losses at ports |
//! | `levels.rs` | pools and tables that are nearly full |
//! | `probe.rs` | `/healthz` and `/readyz` on a listener of their own |

mod levels;
mod ports;
mod probe;
mod stall;
mod vitals;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::background::Background;
use crate::socket::PortView;

pub use levels::Level;
pub use probe::{go_on, serve};
pub use stall::{Sight, asleep_until};
pub use vitals::Vitals;

use levels::Levels;
use ports::Ports;
use stall::Stalls;

/// Between two looks at turns.
const STEP: Duration = Duration::from_millis(50);
/// Between two looks at ports and levels, and at turns while all threads sleep.
const SECOND: Duration = Duration::from_secs(1);

/// A running gateway, as it is watched.
pub trait Watchable: Send + Sync + 'static {
    /// What probes are answered from.
    fn vitals(&self) -> &Arc<Vitals>;

    /// Each worker: turns it has made, its thread as the kernel numbers them, and until when it sleeps.
    fn turns(&self) -> Vec<Sight>;

    /// The workers' time, now.
    fn now_ns(&self) -> u64;

    /// Asks workers for a fresh look at their ports. Does not wait.
    fn ask_ports(&self);

    /// The ports as they were last seen. Does not wait.
    fn seen_ports(&self) -> Vec<PortView>;

    /// Pools and tables.
    fn levels(&self) -> Vec<Level>;

    /// Sessions there are, if they can be counted without waiting.
    fn sessions(&self) -> Option<u64>;

    /// What else keeps it from taking traffic, a sentence each.
    fn hindrances(&self) -> Vec<String>;
}

/// The watching thread. Ends when dropped.
pub struct Watch {
    _thread: Background,
}

impl Watch {
    /// Watches a gateway whose control thread is the one that calls.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn start(gateway: Arc<dyn Watchable>) -> std::io::Result<Self> {
        let control = rustix::thread::gettid().as_raw_pid();
        let watch = move |stop: &AtomicBool| watch(&*gateway, control, stop);
        Ok(Self { _thread: Background::start("weir-watch", watch)? })
    }
}

fn watch(gateway: &dyn Watchable, control: i32, stop: &AtomicBool) {
    let (mut stalls, mut ports, mut levels) = (Stalls::default(), Ports::default(), Levels::default());
    let mut drained = false;
    // The time between this look and the one before, and since ports were asked.
    let (mut step, mut since_asked) = (STEP, SECOND);
    let mut answers = false;
    while !stop.load(Ordering::Acquire) {
        let begin = Instant::now();
        let vitals = gateway.vitals();
        // Turns first: who turns after that sleeps again, or is seen awake.
        let (turns, workers) = (vitals.turns(), gateway.turns());
        let control = Sight { turns, thread: control, asleep_until: vitals.asleep_until() };
        let now = gateway.now_ns();
        let is_quiet = stalls.is_quiet(&workers, control, now);
        // However late this thread is itself, a look counts as one step: a paused machine has no stalled workers.
        let (stalled, dead) = stalls.step(workers, control, now, step);
        if std::mem::take(&mut answers) {
            // Workers have had a step's time to answer.
            ports.look(&gateway.seen_ports());
            levels.look(&gateway.levels());
            drained = report_drained(gateway, drained);
        }
        if since_asked >= SECOND {
            gateway.ask_ports();
            (answers, since_asked) = (true, Duration::ZERO);
        }
        let unready = stalled.into_iter().chain(ports.down()).chain(gateway.hindrances()).collect();
        vitals.see(dead, unready);
        step = if is_quiet { SECOND } else { STEP };
        since_asked += step;
        std::thread::park_timeout(step.saturating_sub(begin.elapsed()));
    }
}

/// Reports once that no session is left while new ones are refused.
fn report_drained(gateway: &dyn Watchable, drained: bool) -> bool {
    if !gateway.vitals().is_draining() {
        return false;
    }
    let is_empty = gateway.sessions() == Some(0);
    if is_empty && !drained {
        tracing::info!(target: "process", event = "drained", "no session is left");
    }
    drained || is_empty
}
