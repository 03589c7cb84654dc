//! Whose the far ends of tunnels are: a peer that does not know one any more names it by its own address and number
//! (TS 29.281, 7.3.1).

use std::collections::HashMap;
use std::net::IpAddr;

use table::bulk::{BulkMap, Seed};

use crate::chunks::Chunks;
use crate::rules::{Outer, Session};

/// A session's place: its worker, and its handle there.
pub type Owner = (u16, u32);

/// A tunnel's far end: the peer's address, and the tunnel's number there.
pub type End = (IpAddr, u32);

/// Sessions by the far ends of their tunnels. Owned by control. Like the [book's](crate::n4::book) index it grows a little
/// with each change.
#[derive(Default)]
pub struct Remotes {
    /// Those of peers with IPv4 addresses.
    owners4: Option<BulkMap<(u32, u32), Owner>>,
    /// All others.
    owners: HashMap<End, Owner>,
    /// By worker and handle.
    ends: Vec<Chunks<Option<Box<[End]>>>>,
    /// How often peers did not know a tunnel of the session.
    errors: HashMap<Owner, u64>,
}

impl std::fmt::Debug for Remotes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remotes").field("errors", &self.errors).finish_non_exhaustive()
    }
}

impl Remotes {
    /// Enters a session's far ends, in place of those it had. An end that is another session's becomes this one's.
    pub fn set(&mut self, owner: Owner, session: &Session) {
        self.unlink(owner);
        let tunnels = session.fars.iter().filter_map(|far| far.tunnel).filter(|end| end.outer == Outer::GtpU);
        let ends: Box<[End]> = tunnels.map(|end| (end.address, end.teid)).collect();
        ends.iter().for_each(|end| self.link(*end, owner));
        let (worker, handle) = (usize::from(owner.0), owner.1 as usize);
        if self.ends.len() <= worker {
            self.ends.resize_with(worker + 1, Chunks::default);
        }
        self.ends[worker].fill(handle + 1, || None);
        self.ends[worker][handle] = Some(ends);
    }

    /// Makes room for so many sessions, as far as there is memory.
    pub fn reserve(&mut self, sessions: usize) {
        if self.owners4.is_none() {
            self.owners4 = BulkMap::with_capacity(0, Seed::random()).ok();
        }
        if let Some(map) = &mut self.owners4 {
            // Without room it grows.
            let _ = map.reserve(sessions);
        }
    }

    /// Forgets a session.
    pub fn forget(&mut self, owner: Owner) {
        self.unlink(owner);
        self.errors.remove(&owner);
    }

    fn link(&mut self, end: End, owner: Owner) {
        if let IpAddr::V4(address) = end.0 {
            if self.owners4.is_none() {
                self.owners4 = BulkMap::with_capacity(0, Seed::random()).ok();
            }
            if self.owners4.as_mut().is_some_and(|map| map.insert((address.into(), end.1), owner).is_ok()) {
                return;
            }
        }
        self.owners.insert(end, owner);
    }

    fn unlink(&mut self, owner: Owner) {
        let place = self.ends.get_mut(usize::from(owner.0)).and_then(|worker| worker.get_mut(owner.1 as usize));
        for end in place.and_then(Option::take).into_iter().flatten() {
            if self.owner(end.0, end.1) != Some(owner) {
                continue;
            }
            if let (IpAddr::V4(address), Some(map)) = (end.0, &mut self.owners4) {
                map.remove((address.into(), end.1));
            }
            if !self.owners.is_empty() {
                self.owners.remove(&end);
            }
        }
    }

    /// The session that sends into a tunnel.
    pub fn owner(&self, peer: IpAddr, teid: u32) -> Option<Owner> {
        let common = match (peer, &self.owners4) {
            (IpAddr::V4(address), Some(map)) => map.get((address.into(), teid)),
            _ => None,
        };
        common.or_else(|| if self.owners.is_empty() { None } else { self.owners.get(&(peer, teid)).copied() })
    }

    /// Whether a session's far ends are known here.
    pub fn has(&self, owner: Owner) -> bool {
        let worker = self.ends.get(usize::from(owner.0));
        worker.and_then(|worker| worker.get(owner.1 as usize)).is_some_and(Option::is_some)
    }

    /// Counts an error indication about a session there is.
    pub fn count(&mut self, owner: Owner) {
        *self.errors.entry(owner).or_default() += 1;
    }

    /// How many there were.
    pub fn errors(&self, owner: Owner) -> u64 {
        self.errors.get(&owner).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Far, TunnelEnd};

    #[test]
    fn ends_follow_the_rules() {
        let gnb = |n: u8| IpAddr::from([10, 0, 3, n]);
        let session = |ends: &[(u8, u32)]| {
            let far = |(n, teid): &(u8, u32)| Far { tunnel: Some(TunnelEnd::gtpu(gnb(*n), *teid)), ..Far::default() };
            Session { fars: ends.iter().map(far).chain([Far::default()]).collect(), ..Session::default() }
        };
        let mut remotes = Remotes::default();
        remotes.set((0, 7), &session(&[(1, 10), (1, 11)]));
        remotes.set((1, 7), &session(&[(2, 10)]));
        assert_eq!((remotes.owner(gnb(1), 11), remotes.owner(gnb(2), 10)), (Some((0, 7)), Some((1, 7))));
        remotes.count((0, 7));
        // A handover; the old end is given to another before its first owner forgets it.
        remotes.set((1, 7), &session(&[(1, 10)]));
        remotes.set((0, 7), &session(&[(3, 12)]));
        assert_eq!((remotes.owner(gnb(1), 10), remotes.owner(gnb(1), 11)), (Some((1, 7)), None));
        assert_eq!((remotes.owner(gnb(3), 12), remotes.errors((0, 7))), (Some((0, 7)), 1));
        remotes.forget((0, 7));
        remotes.forget((1, 7));
        assert_eq!(remotes.errors((0, 7)), 0);
        assert!(!remotes.has((0, 7)) && !remotes.has((1, 7)) && remotes.errors.is_empty());
        assert!(remotes.owners4.is_none_or(|map| map.is_empty()) && remotes.owners.is_empty());
    }
}
