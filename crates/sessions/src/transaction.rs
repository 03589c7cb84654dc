//! Rules on their way to a worker. Control goes by them at once; a worker that has no room keeps those before, and then so
//! does control.
//!
//! ```text
//! prepared ─► establish ─► worker ─┬─► taken
//!                                  └─► refused: the session is taken out
//! prepared ─► replace ───► worker ─┬─► taken:   what the rules before had and these have not is free
//!                                  └─► refused: those before are put back
//! ```

use crate::FrontEnd;
use crate::metering::Metering;
use crate::paths::Path;
use crate::rules::Session;
use crate::sets::Named;
use crate::store::{Key, SessionStore};

/// A session's rules, which its worker may be given.
#[derive(Debug)]
pub struct Prepared<F: FrontEnd> {
    /// The session's worker.
    pub worker: u16,
    /// The rules that are compiled for it.
    pub session: Session,
    /// Accounts of what they measure.
    pub meters: Vec<Metering<F>>,
    /// What leads to the session.
    pub keys: Vec<Key>,
    /// The control plane's number of the session.
    pub cp_seid: u64,
    /// What it is kept as, by [`written`](SessionStore::written).
    pub message: Box<[u8]>,
}

/// A session as it was before its rules were replaced.
#[derive(Debug)]
pub struct Before<F: FrontEnd> {
    seid: u64,
    cp_seid: u64,
    message: Box<[u8]>,
    /// The accounts it had.
    pub meters: Box<[Metering<F>]>,
    /// What led to it.
    pub keys: Box<[Key]>,
    /// Of these, what no longer leads to it.
    pub left: Vec<Key>,
}

impl<F: FrontEnd> Before<F> {
    /// The rules it had.
    pub fn rules(&self) -> F::Rules {
        F::parse(&self.message)
    }
}

impl<F: FrontEnd> SessionStore<F> {
    /// Enters a new session of an association, which belongs to those sets, under the
    /// [`next_number`](Self::next_number). Returns its SEID.
    pub fn establish(&mut self, peer: u32, new: Prepared<F>, sets: Vec<Named<F::Set>>, now: u64) -> u64 {
        let number = self.next_number();
        let Prepared { worker, session, meters, keys, cp_seid, message } = new;
        let seid = self.put(peer, worker, cp_seid, message, meters, keys);
        self.set_sets(number, sets);
        self.reserve_for(number, &session, now);
        seid
    }

    /// Replaces a session's rules; none: there is no such session.
    pub fn replace(&mut self, number: u32, new: Prepared<F>, now: u64) -> Option<Before<F>> {
        let Prepared { worker: _, session, meters, keys, cp_seid, message } = new;
        let entry = self.get(number)?;
        let left = entry.keys().iter().filter(|key| !keys.contains(key)).copied().collect();
        let (seid, cp_seid_before) = (self.seid(number)?, entry.cp_seid);
        let keys = self.swap_keys(number, keys.into())?;
        let message = self.swap_rules(number, cp_seid, message)?;
        let meters = std::mem::replace(&mut self.get_mut(number)?.meters, meters.into());
        self.reserve_for(number, &session, now);
        Some(Before { seid, cp_seid: cp_seid_before, message, meters, keys, left })
    }

    /// Whether a session is still the one that rules were replaced of.
    pub fn is_same(&self, number: u32, before: &Before<F>) -> bool {
        self.seid(number) == Some(before.seid)
    }

    /// Puts the rules back that a session had; they were `session` to its worker.
    pub fn put_back(&mut self, number: u32, before: Before<F>, session: &Session, now: u64) {
        if !self.is_same(number, &before) {
            return;
        }
        self.swap_keys(number, before.keys);
        self.swap_rules(number, before.cp_seid, before.message);
        if let Some(entry) = self.get_mut(number) {
            entry.meters = before.meters;
        }
        self.reserve_for(number, session, now);
    }

    /// A session's packets take the paths that its rules have, and bit rates are set aside for it.
    pub fn reserve_for(&mut self, number: u32, session: &Session, now: u64) {
        let Some(entry) = self.get_mut(number) else { return };
        let peer = entry.peer;
        let new = Path::of(session);
        let old = std::mem::take(&mut entry.paths);
        self.paths.change(peer, &old, &new, now);
        if let Some(entry) = self.get_mut(number) {
            entry.paths = new;
        }
        self.guaranteed.set(number, session);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::paths::{Pace, Paths};
    use crate::rules::{Far, Mbr, Qer, TunnelEnd};
    use crate::store::tests::{Plain, SessionStore};

    /// Rules that send to a peer, with a guaranteed bit rate and a tunnel endpoint.
    fn prepared(store: &mut SessionStore, rules: u64, teid: u32) -> Prepared<Plain> {
        let address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, teid as u8));
        let far =
            Far { tunnel: Some(TunnelEnd::gtpu(address, teid)), apply: crate::rules::Apply::Forward, ..Far::default() };
        let gbr = Mbr { up: Some(rules), down: None };
        let session = Session { fars: vec![far], qers: vec![Qer { gbr, ..Qer::default() }], ..Session::default() };
        let message = store.written(&rules).expect("short");
        let meters = vec![Metering::new(rules as u32, 1)];
        Prepared { worker: 0, session, meters, keys: vec![Key::Teid(teid)], cp_seid: rules, message }
    }

    /// All that is known of session 0.
    fn known(store: &SessionStore) -> impl PartialEq + std::fmt::Debug + use<> {
        let entry =
            store.get(0).map(|entry| (entry.rules(), entry.cp_seid, entry.meters.to_vec(), entry.keys().to_vec()));
        let paths: Vec<_> = store.paths.all().collect();
        (entry, paths, store.guaranteed.view(), [1, 2].map(|teid| store.lookup(Key::Teid(teid))))
    }

    #[test]
    fn refused_rules_leave_the_session_as_it_was() {
        let mut store = SessionStore::default();
        store.paths = Paths::new(Some(Pace { interval: 60, timeout: 3, tries: 3 }));
        let empty = known(&store);
        let first = prepared(&mut store, 5, 1);
        let session = first.session.clone();
        store.establish(9, first, vec![(5, None)], 0);
        let before = known(&store);
        let second = prepared(&mut store, 6, 2);
        let replaced = store.replace(0, second, 0).expect("there");
        assert_eq!((replaced.rules(), &replaced.left), (5, &vec![Key::Teid(1)]));
        assert!(known(&store) != before && store.is_same(0, &replaced));
        store.put_back(0, replaced, &session, 0);
        assert_eq!(known(&store), before);
        store.take(0).expect("there");
        assert_eq!(known(&store), empty, "nothing is set aside for it");
    }
}
