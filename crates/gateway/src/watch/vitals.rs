//! What probes are answered from. Whoever reads it waits for nobody.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A look that is older than this says nothing.
const FRESH: Duration = Duration::from_secs(5);

/// The stages of a process.
const STARTING: u8 = 0;
const RUNNING: u8 = 1;
const STOPPING: u8 = 2;

/// Whether a gateway lives and takes traffic.
#[derive(Debug, Default)]
pub struct Vitals {
    stage: AtomicU8,
    /// Turns of the control thread.
    turns: AtomicU64,
    /// Until when the control thread sleeps; 0: it is awake.
    sleeps_until: AtomicU64,
    draining: AtomicBool,
    seen: Mutex<Option<Seen>>,
}

#[derive(Debug)]
struct Seen {
    at: Instant,
    dead: Vec<String>,
    unready: Vec<String>,
}

impl Vitals {
    /// The control thread has made a turn.
    pub fn turned(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    /// Turns that the control thread has made.
    pub fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// The control thread sleeps until that time of the workers' clock, in nanoseconds; 0: it is awake.
    pub fn sleeps_until(&self, at: u64) {
        self.sleeps_until.store(at, Ordering::Relaxed);
    }

    /// Until when the control thread sleeps, if it does.
    pub fn asleep_until(&self) -> Option<u64> {
        Some(self.sleeps_until.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// The gateway runs from now on.
    pub fn run(&self) {
        self.stage.store(RUNNING, Ordering::Release);
    }

    /// The gateway ends.
    pub fn stop(&self) {
        self.stage.store(STOPPING, Ordering::Release);
    }

    /// New sessions are refused from now on, or taken again. Tells whether that is a change.
    pub fn drain(&self, on: bool) -> bool {
        self.draining.swap(on, Ordering::AcqRel) != on
    }

    /// Whether new sessions are refused.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Notes a look: why it should be started again, and why it takes no traffic; nothing: all is well.
    pub fn see(&self, dead: Vec<String>, unready: Vec<String>) {
        *self.lock() = Some(Seen { at: Instant::now(), dead, unready });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Seen>> {
        self.seen.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Why the process should be started again, a sentence each; nothing: it lives. One that starts or stops lives.
    pub fn dead(&self) -> Vec<String> {
        if self.stage.load(Ordering::Acquire) != RUNNING {
            return Vec::new();
        }
        match &*self.lock() {
            Some(seen) if seen.at.elapsed() > FRESH => vec!["the watching thread does not run".to_owned()],
            Some(seen) => seen.dead.clone(),
            None => Vec::new(),
        }
    }

    /// Why it takes no traffic, a sentence each; nothing: it does.
    pub fn unready(&self) -> Vec<String> {
        match self.stage.load(Ordering::Acquire) {
            STARTING => return vec!["starting".to_owned()],
            STOPPING => return vec!["stopping".to_owned()],
            _ => {}
        }
        let draining = self.is_draining().then(|| "draining: no new sessions are taken".to_owned());
        let seen = match &*self.lock() {
            Some(seen) if seen.at.elapsed() > FRESH => vec!["the watching thread does not run".to_owned()],
            Some(seen) => seen.unready.clone(),
            None => vec!["starting".to_owned()],
        };
        draining.into_iter().chain(seen).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_that_of_the_stage_and_the_last_look() {
        let vitals = Vitals::default();
        assert_eq!((vitals.unready(), vitals.dead()), (vec!["starting".to_owned()], vec![]));
        vitals.run();
        assert_eq!(vitals.unready(), ["starting"], "nothing was seen yet");
        vitals.see(vec![], vec![]);
        assert!(vitals.unready().is_empty() && vitals.dead().is_empty());
        assert!(vitals.drain(true) && !vitals.drain(true));
        vitals.see(vec!["worker 0 hangs".to_owned()], vec!["port n3: no link".to_owned()]);
        assert_eq!(vitals.unready(), ["draining: no new sessions are taken", "port n3: no link"]);
        assert_eq!(vitals.dead(), ["worker 0 hangs"]);
        vitals.stop();
        assert_eq!((vitals.unready(), vitals.dead()), (vec!["stopping".to_owned()], vec![]));
    }
}
