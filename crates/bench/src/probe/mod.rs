//! `weir probe`: what a machine carries, measured in a few minutes, as a certificate.
//!
//! | file | content |
//! |---|---|
//! | `workers` | threads that receive, transmit or forward packets, and nothing else |
//! | `far` | an agent on another host at the other end of the link |
//! | `stand` | links with workers and a load, as a device of searches |
//! | `quick` | the steps of `weir probe quick` |
//! | `rate` | the rate with little loss, latency at parts of it, equal trials, of any device |
//! | `gateway` | those of a gateway with sessions, weir's or somebody else's |
//! | `machine_facts` | what the machine says of itself |
//! | `burst` | burst credit: change point, depth, refill; pure, over [`burst::Device`] |
//! | `simulated` | devices with a token bucket in virtual time |
//! | `agent_burst` | the same against an agent on another host |

pub mod agent_burst;
pub mod burst;
mod far;
pub mod gateway;
pub mod machine_facts;
pub mod quick;
mod rate;
#[cfg(test)]
mod simulated;
pub(crate) mod stand;
mod workers;

pub use far::FarHost;
pub(crate) use far::received;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::BenchError;

/// How far a probe is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The step.
    pub step: String,
    /// Its number, from 1, and how many there are.
    pub number: (usize, usize),
    /// Time left, estimated from the steps so far.
    pub left: Duration,
}

/// Steps that take known times, one after the other.
pub(crate) struct Steps<'s> {
    planned: Vec<(String, f64)>,
    done: usize,
    begun: Instant,
    show: &'s mut dyn FnMut(&Progress),
    stop: &'s AtomicBool,
}

impl<'s> Steps<'s> {
    /// Steps by name with the seconds that each is to take.
    pub fn new(planned: Vec<(String, f64)>, show: &'s mut dyn FnMut(&Progress), stop: &'s AtomicBool) -> Self {
        Self { planned, done: 0, begun: Instant::now(), show, stop }
    }

    /// Begins the next step and shows it.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`].
    pub fn next(&mut self) -> Result<(), BenchError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        let before: f64 = self.planned[..self.done].iter().map(|(_, seconds)| seconds).sum();
        let after: f64 = self.planned[self.done..].iter().map(|(_, seconds)| seconds).sum();
        // What a planned second has taken so far.
        let each = if before > 1.0 { self.begun.elapsed().as_secs_f64() / before } else { 1.0 };
        let step = self.planned.get(self.done).map_or_else(String::new, |(name, _)| name.clone());
        self.done += 1;
        let left = Duration::from_secs_f64((after * each).max(0.0));
        (self.show)(&Progress { step, number: (self.done, self.planned.len()), left });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbered_and_end_when_interrupted() {
        let (mut shown, stop) = (Vec::new(), AtomicBool::new(false));
        let mut show = |progress: &Progress| shown.push((progress.step.clone(), progress.number, progress.left));
        let mut steps = Steps::new(vec![("a".into(), 0.5), ("b".into(), 2.0)], &mut show, &stop);
        assert!(steps.next().is_ok() && steps.next().is_ok());
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(steps.next(), Err(BenchError::Interrupted)));
        let seconds = |s| Duration::from_secs_f64(s);
        assert_eq!(shown, [("a".into(), (1, 2), seconds(2.5)), ("b".into(), (2, 2), seconds(2.0))]);
    }
}
