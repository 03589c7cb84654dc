//! Tunnels that peers were found not to know any more: a flood of such messages makes no flood of reports. Each tunnel is
//! reported once in a second.

use std::collections::HashMap;

use crate::FrontEnd;
use crate::store::SessionStore;

/// Time for which a tunnel that was reported is not reported again.
const REST: u64 = 1_000_000_000;
/// Sessions with tunnels told of in that time at most: beyond them control planes have other things to hear.
const MOST: usize = 65_536;
/// Tunnels of one session reported in that time at most.
const TUNNELS: usize = 64;

/// Tunnels reported: TEID and time, by session.
#[derive(Debug, Default)]
pub(crate) struct Told {
    sessions: HashMap<u32, Vec<(u32, u64)>>,
    /// When the first of them may be forgotten: before, there is no use in looking through all.
    stale_from: u64,
}

impl Told {
    /// Whether it is to be reported now; it counts as reported then.
    fn is_news(&mut self, (session, teid): (u32, u32), now: u64) -> bool {
        let fresh = |(_, at): &(u32, u64)| now.saturating_sub(*at) < REST;
        if self.sessions.len() >= MOST && now >= self.stale_from {
            self.sessions.retain(|_, told| told.iter().any(fresh));
            let last = |told: &Vec<(u32, u64)>| told.iter().map(|(_, at)| *at).max();
            self.stale_from = self.sessions.values().filter_map(last).min().unwrap_or(0).saturating_add(REST);
        }
        if self.sessions.len() >= MOST && !self.sessions.contains_key(&session) {
            return false;
        }
        let told = self.sessions.entry(session).or_default();
        told.retain(fresh);
        // A session has few tunnels, so there are few to look through.
        let news = told.len() < TUNNELS && told.iter().all(|(known, _)| *known != teid);
        if news {
            told.push((teid, now));
        }
        news
    }

    pub fn forget(&mut self, session: u32) {
        self.sessions.remove(&session);
    }
}

impl<F: FrontEnd> SessionStore<F> {
    /// Whether a tunnel of a session that its peer does not know is to be reported now; it counts as reported then.
    pub fn is_news(&mut self, number: u32, teid: u32, now: u64) -> bool {
        self.get(number).is_some() && self.told.is_news((number, teid), now)
    }

    /// A session's rules were changed: what its tunnels answer from now on is about the new ones. Open5GS's SGW-C pages
    /// a subscriber after each of two Error Indications about one TEID within a second.
    pub fn forget_news(&mut self, number: u32) {
        self.told.forget(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_of_once_a_second_and_takes_no_room() {
        let mut told = Told::default();
        let news = (0..1000).filter(|ms| told.is_news((1, 7), ms * 10_000_000)).count();
        assert_eq!(news, 10, "ten seconds");
        assert!(told.is_news((2, 7), 9_990_000_000), "another session");
        for session in 0..2 * MOST as u32 {
            told.is_news((session, 1), 20 * REST);
        }
        assert_eq!(told.sessions.len(), MOST);
        for teid in 0..2 * TUNNELS as u32 {
            told.is_news((3, teid), 20 * REST);
        }
        assert_eq!(told.sessions[&3].len(), TUNNELS);
        assert!(told.is_news((u32::MAX, 1), 22 * REST), "later there is room again");
    }
}
