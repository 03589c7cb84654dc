//! Who may send upstream next: the reference's grant function, which gives every modem the same grants in turn, and
//! counts what was asked for. A MAP scheduler would stand here.

use serde::{Deserialize, Serialize};

/// What has been asked for and given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantCounts {
    /// Requests.
    pub requests: u64,
    /// Bytes asked for; requests in minislots are not counted here.
    pub requested_bytes: u64,
    /// Grants given.
    pub grants: u64,
    /// Bytes of them.
    pub granted_bytes: u64,
    /// Bytes that came in bursts.
    pub used_bytes: u64,
}

/// Grants of a service group.
#[derive(Clone, Debug)]
pub struct Grants {
    sids: Vec<u16>,
    next: usize,
    grant_bytes: u32,
    /// Bit/s to give away.
    rate: u64,
    unit: u32,
    owed: u64,
    last: Option<u64>,
    counts: GrantCounts,
}

/// Where grants stand, for another process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GrantState {
    sids: Vec<u16>,
    next: usize,
    owed: u64,
    last: Option<u64>,
    counts: GrantCounts,
}

/// Bits of nanoseconds are carried, so that no rate is too small to be given.
const NANO: u64 = 1_000_000_000;

impl Grants {
    /// Grants of `grant_bytes` at `rate` bit/s in all; requests are in units of `unit` bytes.
    pub fn new(grant_bytes: u32, rate: u64, unit: u32) -> Self {
        Self {
            sids: Vec::new(),
            next: 0,
            grant_bytes: grant_bytes.max(1),
            rate,
            unit,
            owed: 0,
            last: None,
            counts: GrantCounts::default(),
        }
    }

    /// A modem's service identifier joins.
    pub fn join(&mut self, sid: u16) {
        if !self.sids.contains(&sid) {
            self.sids.push(sid);
        }
    }

    /// It leaves.
    pub fn leave(&mut self, sid: u16) {
        self.sids.retain(|other| *other != sid);
    }

    /// A request: of units, or of minislots.
    pub fn request(&mut self, _sid: u16, size: u32, in_units: bool) {
        self.counts.requests += 1;
        self.counts.requested_bytes += if in_units { u64::from(size) * u64::from(self.unit) } else { 0 };
    }

    /// A burst came.
    pub fn used(&mut self, _sid: u16, bytes: usize) {
        self.counts.used_bytes += bytes as u64;
    }

    /// What has been asked for and given.
    pub fn counts(&self) -> GrantCounts {
        self.counts
    }

    /// Where they stand.
    pub fn state(&self) -> GrantState {
        let Self { sids, next, owed, last, counts, .. } = self;
        GrantState { sids: sids.clone(), next: *next, owed: *owed, last: *last, counts: *counts }
    }

    /// Goes on where they stood elsewhere: in the same turn, if the service identifiers are the same.
    pub fn carry_on(&mut self, state: GrantState) {
        let GrantState { sids, next, owed, last, counts } = state;
        (self.owed, self.last, self.counts) = (owed, last, counts);
        let sorted = |sids: &[u16]| {
            let mut sids = sids.to_vec();
            sids.sort_unstable();
            sids
        };
        if sorted(&sids) == sorted(&self.sids) && next < sids.len().max(1) {
            (self.sids, self.next) = (sids, next);
        }
    }

    /// Time passes: the modems have their grants in turn.
    pub fn tick(&mut self, now: u64) {
        let passed = now.saturating_sub(self.last.replace(now).unwrap_or(now)).min(NANO);
        let each = u64::from(self.grant_bytes) * 8 * NANO;
        self.owed = self.owed.saturating_add(self.rate.saturating_mul(passed));
        let due = self.owed / each;
        self.owed %= each;
        if !self.sids.is_empty() {
            self.next = (self.next + due as usize) % self.sids.len();
            self.counts.grants += due;
            self.counts.granted_bytes += due * u64::from(self.grant_bytes);
        }
    }

    /// The service identifier whose turn is next.
    pub fn next(&self) -> Option<u16> {
        self.sids.get(self.next).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_go_round_at_their_rate() {
        let mut grants = Grants::new(2048, 163_840_000, 16);
        grants.tick(0);
        (1..=300).for_each(|sid| grants.join(sid));
        grants.join(300);
        for ms in 1..=30 {
            grants.tick(ms * 1_000_000);
        }
        // Ten a millisecond.
        assert_eq!((grants.counts().grants, grants.counts().granted_bytes), (300, 300 * 2048));
        assert_eq!(grants.next(), Some(1), "each has had its own");
        grants.request(7, 10, true);
        grants.request(7, 10, false);
        assert_eq!((grants.counts().requests, grants.counts().requested_bytes), (2, 160));
        grants.leave(1);
        assert_eq!(grants.next(), Some(2));
    }
}
