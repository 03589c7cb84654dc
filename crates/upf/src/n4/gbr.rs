//! Guaranteed bit rates (GBR, 3GPP TS 29.244, 8.2.9): what is set aside for sessions, of what there is to set aside.

use std::collections::HashMap;

use dataplane::forward::InstanceId;

use super::N4;
use crate::config::{Config, parse_rate};
use crate::rules::{Mbr, Session};

/// Rates from and to subscribers, in bit/s.
type Rates = [u64; 2];

/// What is set aside in each network.
#[derive(Debug, Default)]
pub(super) struct Guaranteed {
    /// Capacity by network; others have none that is known.
    capacity: HashMap<InstanceId, [Option<u64>; 2]>,
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
    /// As configured; mistakes were found before.
    pub fn of(config: &Config) -> Self {
        let mut new = Self::default();
        new.set_capacity(config);
        new
    }

    /// Has the capacity of a configuration; what is set aside stays, though it be more.
    pub fn set_capacity(&mut self, config: &Config) {
        let rate = |text: &Option<String>| text.as_deref().and_then(parse_rate);
        let capacities = config.n4.iter().flat_map(|n4| &n4.gbr_capacity);
        let of_one = |one: &crate::config::GbrCapacity| {
            (config.instance(one.instance.as_deref()), [rate(&one.up), rate(&one.down)])
        };
        self.capacity = capacities.map(of_one).collect();
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

impl N4 {
    /// What is set aside for guaranteed bit rates.
    pub fn guaranteed(&self) -> GuaranteedView {
        let Guaranteed { sessions, sums, refused, .. } = &self.guaranteed;
        let sum = |n: usize| sums.values().fold(0, |sum: u64, rates| sum.saturating_add(rates[n]));
        GuaranteedView { sessions: sessions.len() as u64, up: sum(0), down: sum(1), refused: *refused }
    }
}
