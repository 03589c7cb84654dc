//! Sessions made by formula: where they are, how they come and go, and how idle ones are paged.

use dataplane::forward::InstanceId;
use engine::{Overlap, Steer};

use super::Control;
use super::link::Purpose;
use crate::gateway::Command;
use crate::simulate::Simulator;

/// Sessions that come and go by formula.
#[derive(Default)]
pub(super) struct Churn {
    /// Changes owed, in billionths.
    owed: u64,
    last: Option<u64>,
    next: u32,
    /// The subscriber that is out and comes back next.
    pub(super) out: Option<u32>,
}

/// Who owns which simulated subscriber, in every form a packet may show: the table behind steering.
///
/// # Errors
/// Identifiers of the simulated subscribers that overlap.
pub fn steer(simulator: &Simulator, workers: u16, core: InstanceId) -> Result<Steer, Overlap> {
    let mut steer = Steer::new();
    let (count, each) = (simulator.count(), each_of(simulator, workers));
    let bearers = simulator.config().bearer.len() as u32;
    for worker in 0..u32::from(workers) {
        let (first, end) = ((worker * each).min(count), ((worker + 1) * each).min(count));
        if first == end {
            continue;
        }
        let (last, owner) = (end - 1, worker as u16);
        steer.own_ids(simulator.teid(first, 0), simulator.teid(last, bearers - 1), owner)?;
        if let (Some(first), Some(last)) = (simulator.ue4(first), simulator.ue4(last)) {
            steer.own_v4(core, first.into(), last.into(), owner)?;
        }
        if let (Some(first), Some(last)) = (simulator.ue6(first), simulator.ue6(last)) {
            let prefix = crate::compile::prefix64;
            steer.own_v6(core, prefix(first), prefix(last), owner)?;
        }
    }
    Ok(steer)
}

/// Subscribers of a worker at most.
fn each_of(simulator: &Simulator, workers: u16) -> u32 {
    simulator.count().max(1).div_ceil(workers.max(1).into())
}

impl Control {
    /// The worker that owns subscriber `ue`, and its handle there: contiguous ranges of subscribers.
    pub fn place(&self, ue: u32) -> (u16, u32) {
        let each = self.subscribers_each();
        // Fewer workers than 65,536.
        ((ue / each) as u16, ue % each)
    }

    fn subscribers_each(&self) -> u32 {
        self.simulator.as_ref().map_or(1, |simulator| each_of(simulator, self.links.len() as u16)) // workers
    }

    /// Simulated subscribers whose paging is over are back at their gNB: what waits for them goes on.
    pub(super) fn page(&mut self, now: u64) {
        while let Some((ready, worker, handle)) = self.paging.front().copied() {
            let Some(simulator) = self.simulator.as_ref().filter(|_| ready <= now) else { return };
            let each = self.subscribers_each();
            let ue = u64::from(worker) * u64::from(each) + u64::from(handle);
            // Only whom the formula made, and who is not out just now.
            let known = handle < each && ue < simulator.count().into() && self.churn.out != Some(ue as u32);
            if !known {
                self.paging.pop_front();
                continue;
            }
            let session = simulator.session(ue as u32, false);
            let Ok(compiled) = self.compile(&session, handle) else { return };
            self.publish();
            let command = Command::Install { handle, session: Box::new(compiled) };
            if self.links[usize::from(worker)].send(command, Purpose::Nothing).is_err() {
                return;
            }
            self.paging.pop_front();
        }
    }

    /// When the next session comes or goes by formula.
    pub(super) fn next_churn(&self) -> Option<u64> {
        let rate = self.simulator.as_ref().map_or(0, |simulator| u64::from(simulator.config().churn_per_second));
        let last = self.churn.last.filter(|_| rate > 0)?;
        Some(last.saturating_add(1_000_000_000u64.saturating_sub(self.churn.owed).div_ceil(rate)))
    }

    /// Removes sessions and makes them anew, at the configured rate.
    pub(super) fn churn(&mut self, now: u64) {
        let Some(simulator) = self.simulator.clone().filter(|s| s.config().churn_per_second > 0) else { return };
        let elapsed = now.saturating_sub(self.churn.last.replace(now).unwrap_or(now));
        // At most a second's worth is caught up with.
        let rate = u64::from(simulator.config().churn_per_second);
        self.churn.owed = (self.churn.owed + elapsed.min(1_000_000_000) * rate).min(rate * 1_000_000_000);
        while self.churn.owed >= 1_000_000_000 {
            let done = match self.churn.out {
                None => {
                    let ue = self.churn.next % simulator.count().max(1);
                    let (worker, handle) = self.place(ue);
                    let sent = self.links[usize::from(worker)].send(Command::Remove { handle }, Purpose::Churn);
                    self.churn.out = sent.is_ok().then_some(ue);
                    self.churn.next = ue + 1;
                    sent.is_ok()
                }
                Some(ue) => {
                    let (worker, handle) = self.place(ue);
                    let Ok(compiled) = self.compile(&simulator.session(ue, false), handle) else { return };
                    self.publish();
                    let command = Command::Install { handle, session: Box::new(compiled) };
                    let sent = self.links[usize::from(worker)].send(command, Purpose::Churn).is_ok();
                    if sent {
                        self.churn.out = None;
                        self.churn.owed -= 1_000_000_000;
                    }
                    sent
                }
            };
            if !done {
                // The ring is full; the rest is made up for later.
                return;
            }
        }
    }
}
