//! Guaranteed bit rates (GBR): what is set aside for sessions, of what there is to set aside.

use std::collections::HashMap;

use dataplane::forward::InstanceId;

use crate::rules::{Mbr, Session};

/// Rates from and to subscribers, in bit/s.
type Rates = [u64; 2];

/// Capacity from and to subscribers by network instance, in bit/s; none: no limit that is known.
pub type Capacity = HashMap<InstanceId, [Option<u64>; 2]>;

/// What is set aside in each network.
#[derive(Debug, Default)]
pub struct Guaranteed {
    capacity: Capacity,
    /// Sessions with guaranteed rates.
    sessions: HashMap<u32, (InstanceId, Rates)>,
    sums: HashMap<InstanceId, Rates>,
    refused: u64,
}

/// What is set aside in all networks, and what was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuaranteedView {
    /// Sessions with guaranteed rates.
    pub sessions: u64,
    /// Sum of rates from subscribers, in bit/s.
    pub up: u64,
    /// Sum of rates to subscribers, in bit/s.
    pub down: u64,
    /// Requests refused because capacity was set aside already.
    pub refused: u64,
}

fn rates(session: &Session) -> Rates {
    session.qers.iter().fold([0; 2], |[up, down], qer| {
        let Mbr { up: more_up, down: more_down } = qer.gbr;
        [up.saturating_add(more_up.unwrap_or(0)), down.saturating_add(more_down.unwrap_or(0))]
    })
}

impl Guaranteed {
    /// With that capacity, nothing set aside.
    pub fn new(capacity: Capacity) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// Has another capacity; what is set aside stays, though it be more.
    pub fn set_capacity(&mut self, capacity: Capacity) {
        self.capacity = capacity;
    }

    /// What is set aside.
    pub fn view(&self) -> GuaranteedView {
        let sum = |n: usize| self.sums.values().fold(0, |sum: u64, rates| sum.saturating_add(rates[n]));
        GuaranteedView { sessions: self.sessions.len() as u64, up: sum(0), down: sum(1), refused: self.refused }
    }

    /// Whether a session's rates fit, in the place of those that session `old` has. What becomes no more always does.
    pub fn admits(&mut self, old: Option<u32>, session: &Session) -> bool {
        let Some(capacity) = self.capacity.get(&session.instance) else { return true };
        let asked = rates(session);
        let before = old.and_then(|number| self.sessions.get(&number)).filter(|(at, _)| *at == session.instance);
        let before = before.map_or([0; 2], |(_, rates)| *rates);
        let sums = self.sums.get(&session.instance).copied().unwrap_or_default();
        let fits = (0..2).all(|n| {
            let sum = (sums[n] - before[n]).saturating_add(asked[n]);
            asked[n] <= before[n] || capacity[n].is_none_or(|most| sum <= most)
        });
        self.refused += u64::from(!fits);
        fits
    }

    /// A session has these rates from now on.
    pub fn set(&mut self, number: u32, session: &Session) {
        self.forget(number);
        let rates = rates(session);
        if rates != [0; 2] {
            self.sessions.insert(number, (session.instance, rates));
            let sums = self.sums.entry(session.instance).or_default();
            (0..2).for_each(|n| sums[n] = sums[n].saturating_add(rates[n]));
        }
    }

    /// A session is over.
    pub fn forget(&mut self, number: u32) {
        let Some((instance, rates)) = self.sessions.remove(&number) else { return };
        if let Some(sums) = self.sums.get_mut(&instance) {
            (0..2).for_each(|n| sums[n] = sums[n].saturating_sub(rates[n]));
        }
    }
}
