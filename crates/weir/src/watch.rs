//! Watching a running gateway from a thread of its own: what changes becomes an event, and probes are answered from what
//! was seen last, without waiting for anybody.
//!
//! | file | idea |
//! |---|---|
//! | `vitals.rs` | what probes are answered from |
//! | `stall.rs` | workers and control that make no turns |
//! | `ports.rs` | links, and losses at ports |
//! | `levels.rs` | pools and tables that are nearly full |
//! | `upf.rs`, `cable.rs` | what is looked at of a gateway |
//! | `probe.rs` | `/healthz` and `/readyz` on a listener of their own |

mod cable;
mod levels;
mod ports;
mod probe;
mod stall;
mod upf;
mod vitals;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::socket::PortView;

pub use levels::Level;
pub use probe::serve;
pub use vitals::Vitals;

use levels::Levels;
use ports::Ports;
use stall::{Sight, Stalls};

/// Between two looks at turns.
const STEP: Duration = Duration::from_millis(50);
/// Looks at turns for one at ports and levels.
const STEPS: u32 = 20;

/// A running gateway, as it is watched.
pub trait Watchable: Send + Sync + 'static {
    /// What probes are answered from.
    fn vitals(&self) -> &Arc<Vitals>;

    /// Each worker: turns it has made, and its thread as the kernel numbers them; 0: it has not begun.
    fn turns(&self) -> Vec<(u64, i32)>;

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
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches a gateway whose control thread is the one that calls.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn start(gateway: Arc<dyn Watchable>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let control = rustix::thread::gettid().as_raw_pid();
        let watch = move || watch(&*gateway, control, &told);
        let thread = std::thread::Builder::new().name("weir-watch".into()).spawn(watch)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn watch(gateway: &dyn Watchable, control: i32, stop: &AtomicBool) {
    let (mut stalls, mut ports, mut levels) = (Stalls::default(), Ports::default(), Levels::default());
    let mut drained = false;
    let mut step = 0;
    while !stop.load(Ordering::Acquire) {
        let begin = Instant::now();
        let vitals = gateway.vitals();
        let workers = gateway.turns().into_iter().map(|(turns, thread)| Sight { turns, thread }).collect();
        // However late this thread is itself, a look counts as one step: a paused machine has no stalled workers.
        let (stalled, dead) = stalls.step(workers, Sight { turns: vitals.turns(), thread: control }, STEP);
        match step % STEPS {
            0 => gateway.ask_ports(),
            // Workers have had a step's time to answer.
            1 => {
                ports.look(&gateway.seen_ports());
                levels.look(&gateway.levels());
                drained = report_drained(gateway, drained);
            }
            _ => {}
        }
        step = step.wrapping_add(1);
        let unready = stalled.into_iter().chain(ports.down()).chain(gateway.hindrances()).collect();
        vitals.see(dead, unready);
        std::thread::park_timeout(STEP.saturating_sub(begin.elapsed()));
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
