//! Whose the far ends of tunnels are: a peer that does not know one any more names it by its own address and number
//! (TS 29.281, 7.3.1).

use std::collections::HashMap;
use std::net::IpAddr;

use crate::rules::Session;

/// A session's place: its worker, and its handle there.
pub type Owner = (u16, u32);

/// A tunnel's far end: the peer's address, and the tunnel's number there.
pub type End = (IpAddr, u32);

/// Sessions by the far ends of their tunnels. Owned by control.
#[derive(Debug, Default)]
pub struct Remotes {
    owners: HashMap<End, Owner>,
    ends: HashMap<Owner, Box<[End]>>,
    /// How often peers did not know a tunnel of the session.
    errors: HashMap<Owner, u64>,
}

impl Remotes {
    /// Enters a session's far ends, in place of those it had. An end that is another session's becomes this one's.
    pub fn set(&mut self, owner: Owner, session: &Session) {
        self.unlink(owner);
        let ends: Box<[End]> = session.fars.iter().filter_map(|far| far.tunnel).map(|t| (t.address, t.teid)).collect();
        self.owners.extend(ends.iter().map(|end| (*end, owner)));
        self.ends.insert(owner, ends);
    }

    /// Forgets a session.
    pub fn forget(&mut self, owner: Owner) {
        self.unlink(owner);
        self.errors.remove(&owner);
    }

    fn unlink(&mut self, owner: Owner) {
        for end in self.ends.remove(&owner).into_iter().flatten() {
            if self.owners.get(&end) == Some(&owner) {
                self.owners.remove(&end);
            }
        }
    }

    /// The session that sends into a tunnel.
    pub fn owner(&self, peer: IpAddr, teid: u32) -> Option<Owner> {
        self.owners.get(&(peer, teid)).copied()
    }

    /// Whether a session's far ends are known here.
    pub fn has(&self, owner: Owner) -> bool {
        self.ends.contains_key(&owner)
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
        assert!(remotes.owners.is_empty() && remotes.ends.is_empty() && remotes.errors.is_empty());
    }
}
