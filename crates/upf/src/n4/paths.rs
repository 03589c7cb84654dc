//! Whether GTP-U peers are there: Echo Requests on every path that sessions use, and what is told when nobody answers
//! (3GPP TS 29.281, 7.2; TS 23.007, 20.3; TS 29.244, 5.9).
//!
//! No I/O and no clock. A peer's Recovery counter says nothing (TS 29.281, 8.2): a restart is noticed by Error
//! Indications.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use dataplane::forward::InstanceId;

use crate::rules::{Outer, Session};

const SECOND: u64 = 1_000_000_000;

/// Paths supervised at most; further ones carry packets all the same.
const MOST: usize = 65_536;
/// Requests sent at a time, so that the answers find room.
const AT_A_TIME: usize = 256;

/// How paths are supervised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Seconds between requests: 60 or more (TS 29.281, 7.2.1).
    pub interval: u32,
    /// Seconds until a request is sent again (T3-RESPONSE).
    pub timeout: u32,
    /// Requests without an answer until the path has failed (N3-REQUESTS).
    pub tries: u32,
}

/// A GTP-U peer in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The network instance it is reached in.
    pub instance: InstanceId,
    /// Its address.
    pub peer: IpAddr,
}

impl Path {
    /// Those a session's packets take. Control planes' functions are supervised by PFCP heartbeats.
    pub fn of(session: &Session) -> Box<[Path]> {
        let own = session.fars.iter().filter(|far| !far.to_control);
        let own = own.filter_map(|far| Some((far.instance, far.tunnel?)));
        let duplicates = session.fars.iter().flat_map(|far| &far.duplicates).map(|copy| (copy.instance, copy.tunnel));
        // Others know no Echo Request.
        let ends = own.chain(duplicates).filter(|(_, end)| end.outer == Outer::GtpU);
        let mut paths: Vec<Path> = ends.map(|(instance, end)| Path { instance, peer: end.address }).collect();
        paths.sort_unstable();
        paths.dedup();
        paths.into()
    }
}

/// What is known of a path.
#[derive(Debug)]
struct Known {
    /// Sessions that use it, by association.
    users: Vec<(u32, u32)>,
    /// When something is due.
    due: u64,
    /// The number of the request that is to be answered; its answer may be to any sent again.
    sequence: u16,
    /// How often it was sent.
    sent: u32,
    failed: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Send an Echo Request.
    Echo(Path, u16),
    /// Report to these associations that the peer does not answer.
    Failed(Path, Vec<u32>),
}

/// All paths.
#[derive(Debug, Default)]
pub struct Paths {
    pace: Option<Pace>,
    known: HashMap<Path, Known>,
    /// What is due when.
    due: BTreeSet<(u64, Path)>,
    sequence: u16,
}

impl Paths {
    /// Supervised at that pace; none: not at all.
    pub fn new(pace: Option<Pace>) -> Self {
        Self { pace, ..Self::default() }
    }

    /// Paths supervised.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// All of them: how many sessions use each, and whether its peer does not answer.
    pub fn all(&self) -> impl Iterator<Item = (Path, u64, bool)> + '_ {
        let users = |known: &Known| known.users.iter().map(|(_, sessions)| u64::from(*sessions)).sum();
        self.known.iter().map(move |(path, known)| (*path, users(known), known.failed))
    }

    /// Those whose peer does not answer.
    pub fn failed(&self) -> impl Iterator<Item = Path> + '_ {
        self.known.iter().filter(|(_, known)| known.failed).map(|(path, _)| *path)
    }

    /// A session of an association uses other paths from now on.
    pub fn change(&mut self, association: u32, old: &[Path], new: &[Path], now: u64) {
        for path in new.iter().filter(|path| !old.contains(path)) {
            self.enter(association, *path, now);
        }
        for path in old.iter().filter(|path| !new.contains(path)) {
            self.leave(association, *path);
        }
    }

    fn enter(&mut self, association: u32, path: Path, now: u64) {
        let Some(pace) = self.pace else { return };
        if self.known.len() >= MOST && !self.known.contains_key(&path) {
            return;
        }
        let due = now.saturating_add(u64::from(pace.interval) * SECOND);
        let known = self.known.entry(path).or_insert_with(|| {
            self.due.insert((due, path));
            Known { users: Vec::new(), due, sequence: 0, sent: 0, failed: false }
        });
        match known.users.iter_mut().find(|(user, _)| *user == association) {
            Some((_, sessions)) => *sessions += 1,
            None => known.users.push((association, 1)),
        }
    }

    fn leave(&mut self, association: u32, path: Path) {
        let Some(known) = self.known.get_mut(&path) else { return };
        if let Some(at) = known.users.iter().position(|(user, _)| *user == association) {
            known.users[at].1 -= 1;
            if known.users[at].1 == 0 {
                known.users.swap_remove(at);
            }
        }
        if known.users.is_empty() {
            self.due.remove(&(known.due, path));
            self.known.remove(&path);
        }
    }

    /// When [`act`](Self::act) has something next.
    pub fn next_deadline(&self) -> Option<u64> {
        self.due.first().map(|(due, _)| *due)
    }

    /// The next thing that is due; call until there is none, at most so often as keeps answers from piling up.
    pub fn act(&mut self, now: u64) -> impl Iterator<Item = Act> + '_ {
        (0..AT_A_TIME).map_while(move |_| self.one(now))
    }

    fn one(&mut self, now: u64) -> Option<Act> {
        let pace = self.pace?;
        let (_, path) = self.due.first().copied().filter(|(due, _)| *due <= now)?;
        let known = self.known.get_mut(&path)?;
        self.due.remove(&(known.due, path));
        let seconds = |seconds: u32| now.saturating_add(u64::from(seconds) * SECOND);
        // What the whole round of tries took is part of the interval.
        let rest = pace.interval.saturating_sub(pace.timeout.saturating_mul(pace.tries)).max(1);
        let given_up = known.sent >= pace.tries || (known.failed && known.sent > 0);
        let act = if given_up {
            known.sent = 0;
            known.due = seconds(if known.failed { pace.interval } else { rest });
            let first = !std::mem::replace(&mut known.failed, true);
            first.then(|| Act::Failed(path, known.users.iter().map(|(user, _)| *user).collect()))
        } else {
            if known.sent == 0 {
                self.sequence = self.sequence.wrapping_add(1);
                known.sequence = self.sequence;
            }
            known.sent += 1;
            known.due = seconds(pace.timeout);
            Some(Act::Echo(path, known.sequence))
        };
        self.due.insert((known.due, path));
        act.or_else(|| self.one(now))
    }

    /// An Echo Response came; the associations to which the recovery of the path is reported.
    pub fn heard(&mut self, path: Path, sequence: u16, now: u64) -> Option<Vec<u32>> {
        let pace = self.pace?;
        // One that comes late is as good, if nothing else is known of the peer.
        let is_asked = |known: &&mut Known| known.sequence == sequence && (known.sent > 0 || known.failed);
        let known = self.known.get_mut(&path).filter(is_asked)?;
        self.due.remove(&(known.due, path));
        known.sent = 0;
        known.due = now.saturating_add(u64::from(pace.interval) * SECOND);
        self.due.insert((known.due, path));
        std::mem::replace(&mut known.failed, false).then(|| known.users.iter().map(|(user, _)| *user).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace { interval: 60, timeout: 5, tries: 3 };

    fn path(n: u8) -> Path {
        Path { instance: 0, peer: IpAddr::from([10, 0, 3, n]) }
    }

    fn acts(paths: &mut Paths, second: u64) -> Vec<Act> {
        paths.act(second * SECOND).collect()
    }

    #[test]
    fn a_peer_that_answers_is_asked_once_a_minute() {
        let mut paths = Paths::new(Some(PACE));
        paths.change(7, &[], &[path(1)], 0);
        paths.change(7, &[], &[path(1)], 0);
        let mut asked = Vec::new();
        for second in 0..600 {
            for act in acts(&mut paths, second) {
                let Act::Echo(path, sequence) = act else { panic!("{act:?}") };
                asked.push(second);
                assert_eq!(paths.heard(path, sequence.wrapping_add(1), second * SECOND), None, "another's answer");
                assert_eq!(paths.heard(path, sequence, second * SECOND), None);
                assert_eq!(paths.heard(path, sequence, second * SECOND), None, "twice");
            }
        }
        assert_eq!(asked, (1..10).map(|n| n * 60).collect::<Vec<_>>());
        paths.change(7, &[path(1)], &[], 0);
        assert_eq!((paths.len(), paths.due.len()), (1, 1), "another session uses it");
        paths.change(7, &[path(1)], &[], 0);
        assert!(paths.is_empty() && paths.due.is_empty());
    }

    #[test]
    fn a_peer_that_is_silent_has_failed_once_and_recovers_once() {
        let mut paths = Paths::new(Some(PACE));
        paths.change(7, &[], &[path(1)], 0);
        paths.change(8, &[], &[path(1), path(2)], 0);
        let (mut log, mut last) = (Vec::new(), 0);
        for second in 0..300 {
            for act in acts(&mut paths, second) {
                match act {
                    Act::Echo(to, sequence) if to == path(2) => {
                        paths.heard(to, sequence, second * SECOND);
                    }
                    Act::Echo(_, sequence) => {
                        last = sequence;
                        log.push((second, "asked"));
                    }
                    Act::Failed(failed, mut whom) => {
                        whom.sort_unstable();
                        assert_eq!((failed, whom), (path(1), vec![7, 8]));
                        log.push((second, "failed"));
                    }
                }
            }
            if second == 242 {
                let told = paths.heard(path(1), last, second * SECOND);
                log.extend(told.map(|_| (second, "back")));
            }
        }
        let first = [(60, "asked"), (65, "asked"), (70, "asked"), (75, "failed")];
        assert_eq!(log[..4], first);
        assert!(log[4..].windows(2).all(|two| two[0].1 == "back" || two[1].1 == "back" || two[1].0 - two[0].0 >= 60));
        assert_eq!(log.iter().filter(|(_, what)| *what == "failed").count(), 1);
        assert_eq!(paths.failed().count(), usize::from(!log.contains(&(242, "back"))));
    }

    #[test]
    fn supervision_is_bounded_and_may_be_off() {
        let mut off = Paths::new(None);
        off.change(1, &[], &[path(1)], 0);
        assert_eq!((off.len(), acts(&mut off, 1000)), (0, vec![]));
        let mut paths = Paths::new(Some(PACE));
        let peer = |n: u32| Path { instance: 0, peer: IpAddr::V4((0x0a00_0000 + n).into()) };
        for n in 0..MOST as u32 + 10 {
            paths.change(1, &[], &[peer(n)], 0);
        }
        assert_eq!(paths.len(), MOST);
        assert_eq!(acts(&mut paths, 60).len(), AT_A_TIME);
        for n in 0..MOST as u32 + 10 {
            paths.change(1, &[peer(n)], &[], 0);
        }
        assert!(paths.is_empty() && paths.due.is_empty());
    }
}
