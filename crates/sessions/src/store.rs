//! The sessions of a node, as control keeps them: compact, because there may be a million.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use dataplane::forward::InstanceId;

use crate::FrontEnd;
use crate::activity::{Activities, Activity};
use crate::chunks::Chunks;
use crate::gbr::Guaranteed;
use crate::index::Index;
use crate::metering::Metering;
use crate::paths::{Path, Paths};
use crate::reports::Reports;
use crate::routes::Route;
use crate::rules::Session;
use crate::sets::{Named, Sets};
use crate::silence::Silence;
use crate::told::Told;

/// A session with its rules, meters and keys.
#[derive(Debug)]
pub struct StoredSession<F: FrontEnd> {
    /// The association it belongs to.
    pub peer: u32,
    /// The upper half of its SEID.
    tag: u32,
    /// The worker it lives on.
    pub worker: u16,
    /// The control plane was told that packets wait, and has not reacted yet.
    pub paged: bool,
    /// It belongs to sets of connections (FQ-CSID): the index of sets has it.
    has_sets: bool,
    /// Neighbours in the list of its association's sessions; [`NONE`] at the ends.
    before: u32,
    after: u32,
    /// When it is to be looked at; 0: not by the clock.
    pub look_at: u64,
    /// How long it has been silent, if that is to be told.
    pub silence: Option<Silence>,
    /// The control plane's number of it.
    pub cp_seid: u64,
    /// Its rules, as the message that would establish it.
    rules: Box<[u8]>,
    /// Its URRs' accounts.
    pub meters: Box<[Metering<F>]>,
    /// What leads to it.
    keys: Box<[Key]>,
    /// Where its packets go by tunnel.
    pub paths: Box<[Path]>,
}

impl<F: FrontEnd> StoredSession<F> {
    /// One that nothing was told of yet, of an association and its number there.
    fn new(
        (peer, cp_seid): (u32, u64),
        tag: u32,
        worker: u16,
        rules: Box<[u8]>,
        meters: Vec<Metering<F>>,
        keys: Vec<Key>,
    ) -> Self {
        let (meters, keys, paths) = (meters.into(), keys.into(), Box::default());
        let (has_sets, before, after) = (false, NONE, NONE);
        Self {
            peer,
            tag,
            worker,
            paged: false,
            has_sets,
            before,
            after,
            look_at: 0,
            silence: None,
            cp_seid,
            rules,
            meters,
            keys,
            paths,
        }
    }

    /// Its rules, parsed from the message that is kept.
    pub fn rules(&self) -> F::Rules {
        F::parse(&self.rules)
    }

    /// Whether it is the session with that SEID of ours.
    pub fn is(&self, number: u32, of: u64) -> bool {
        seid(self.tag, number) == of
    }

    /// What leads to it.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The message that would establish it: for the store.
    pub fn message(&self) -> &[u8] {
        &self.rules
    }
}

/// What leads to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A tunnel endpoint of ours.
    Teid(u32),
    /// A subscriber's address; of IPv6 the prefix.
    Ue(InstanceId, IpAddr),
    /// A network behind the subscriber.
    Route(Route),
}

/// The keys of compiled rules.
pub fn keys(session: &Session) -> Vec<Key> {
    let teids = session.pdrs.iter().filter_map(|pdr| pdr.teid).chain(session.resting.iter().copied());
    let mut keys: Vec<Key> = teids.map(Key::Teid).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.extend(session.ue4.map(|address| Key::Ue(session.instance, address.into())));
    keys.extend(session.ue6.map(|prefix| Key::Ue(session.instance, prefix.into())));
    keys.extend(session.routes.iter().map(|(to, len)| Key::Route(Route::new(session.instance, *to, *len))));
    keys
}

/// Numbers rest before they are used again, for answers about the session before may still be on their way: more of them
/// than commands fit a worker's ring.
const REST: usize = 4096;

/// No session: the end of a list.
const NONE: u32 = u32::MAX;

/// Numbers whose sessions another process has not got as they are.
#[derive(Debug)]
struct Changed {
    /// Those it has not got at all.
    left: std::ops::Range<u32>,
    /// Those that have come, gone or changed since.
    again: BTreeSet<u32>,
}

/// Sessions of an association: how many, and the first of their list.
#[derive(Clone, Copy, Debug)]
struct OfPeer {
    count: u32,
    first: u32,
}

/// All sessions of a node.
#[derive(Debug)]
pub struct SessionStore<F: FrontEnd> {
    pub(crate) entries: Chunks<Option<StoredSession<F>>>,
    /// What sessions are in the middle of.
    pub(crate) activities: Activities<F::Deferred>,
    /// Reports that are sent again.
    pub(crate) reports: Reports,
    /// Tunnels that were reported as unknown to their peers.
    pub(crate) told: Told,
    /// Peers that sessions send to.
    pub paths: Paths,
    /// Bit rates that are set aside for sessions.
    pub guaranteed: Guaranteed,
    /// Numbers to be used again, longest unused first.
    free: VecDeque<u32>,
    index: Index,
    /// Sessions of an association.
    by_peer: HashMap<u32, OfPeer>,
    /// Sessions by the sets of connections they belong to.
    sets: Sets<F::Set>,
    /// Associations whose number of sessions has changed.
    recounted: HashSet<u32>,
    secret: RandomState,
    count: usize,
    /// Numbers given out ever, for tags.
    made: u64,
    /// While another process takes over: numbers whose sessions have come, gone or changed.
    changed: Option<Changed>,
    /// Where messages are written before it is known how long they are.
    octets: Vec<u8>,
}

impl<F: FrontEnd> Default for SessionStore<F> {
    fn default() -> Self {
        Self {
            entries: Chunks::default(),
            activities: Activities::default(),
            reports: Reports::default(),
            told: Told::default(),
            paths: Paths::new(None),
            guaranteed: Guaranteed::default(),
            free: VecDeque::new(),
            index: Index::default(),
            by_peer: HashMap::new(),
            sets: Sets::default(),
            recounted: HashSet::new(),
            secret: RandomState::new(),
            count: 0,
            made: 0,
            changed: None,
            octets: Vec::new(),
        }
    }
}

impl<F: FrontEnd> SessionStore<F> {
    /// Makes room for so many sessions.
    pub fn reserve(&mut self, sessions: usize) {
        self.index.reserve(sessions);
    }

    /// Sessions in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Sessions of an association.
    pub fn of_peer(&self, peer: u32) -> u32 {
        self.by_peer.get(&peer).map_or(0, |sessions| sessions.count)
    }

    /// The numbers of an association's sessions, newest first: no other session is looked at.
    pub fn numbers_of_peer(&self, peer: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.by_peer.get(&peer).map(|sessions| sessions.first);
        std::iter::successors(first, |number| Some(self.get(*number)?.after)).take_while(|number| *number != NONE)
    }

    /// A session belongs to these sets of connections from now on.
    pub fn set_sets(&mut self, number: u32, sets: Vec<Named<F::Set>>) {
        let made = self.made;
        let Some(entry) = self.entries.get_mut(number as usize).and_then(Option::as_mut) else { return };
        entry.has_sets |= !sets.is_empty();
        self.sets.insert(entry.peer, number, sets, made);
    }

    /// The sets of connections that sessions belong to.
    pub fn sets(&self) -> &Sets<F::Set> {
        &self.sets
    }

    /// How many sessions were ever made: what was made later has a higher number.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Associations whose number of sessions has changed since the last call, and their numbers.
    pub fn recounted(&mut self) -> impl Iterator<Item = (u32, u32)> {
        let by_peer = &self.by_peer;
        self.recounted.drain().map(|peer| (peer, by_peer.get(&peer).map_or(0, |sessions| sessions.count)))
    }

    /// The number of a new session: its handle on the worker. It is used with [`put`](Self::put) or not at all.
    pub fn next_number(&self) -> u32 {
        // Fewer sessions than 2^32 fit any memory.
        self.free.front().copied().filter(|_| self.free.len() > REST).unwrap_or(self.entries.len() as u32)
    }

    /// Enters a session under the [`next_number`](Self::next_number); its SEID can't be guessed from another's.
    /// `message` is what was [`written`](Self::written) of its rules.
    pub fn put(
        &mut self,
        peer: u32,
        worker: u16,
        cp_seid: u64,
        message: Box<[u8]>,
        meters: Vec<Metering<F>>,
        keys: Vec<Key>,
    ) -> u64 {
        self.made += 1;
        let tag = (self.secret.hash_one(self.made) >> 32) as u32;
        let number = self.next_number();
        if (number as usize) < self.entries.len() {
            self.free.pop_front();
        }
        let rules = stamped::<F>(message, seid(tag, number), peer);
        self.enter(number, StoredSession::new((peer, cp_seid), tag, worker, rules, meters, keys));
        seid(tag, number)
    }

    /// Enters a session of an earlier run, kept as `message`, under the SEID it had; false when the place is taken. To be
    /// followed by [`settle`](Self::settle) when all are there.
    pub fn restore(
        &mut self,
        seid: u64,
        (peer, cp_seid): (u32, u64),
        worker: u16,
        message: Box<[u8]>,
        meters: Vec<Metering<F>>,
        keys: Vec<Key>,
    ) -> bool {
        let (tag, number) = ((seid >> 32) as u32, (seid as u32).wrapping_sub(1));
        if self.get(number).is_some() {
            return false;
        }
        let rules = stamped::<F>(message, seid, peer);
        self.enter(number, StoredSession::new((peer, cp_seid), tag, worker, rules, meters, keys));
        true
    }

    fn enter(&mut self, number: u32, entry: StoredSession<F>) {
        let at = number as usize;
        self.entries.fill(at + 1, || None);
        entry.keys.iter().for_each(|key| self.index.insert(*key, number));
        let peer = entry.peer;
        self.recounted.insert(peer);
        self.entries[at] = Some(entry);
        self.count += 1;
        self.link(peer, number);
    }

    /// Puts a session at the head of its association's list.
    fn link(&mut self, peer: u32, number: u32) {
        let sessions = self.by_peer.entry(peer).or_insert(OfPeer { count: 0, first: NONE });
        let after = std::mem::replace(&mut sessions.first, number);
        sessions.count += 1;
        if let Some(entry) = self.get_mut(number) {
            entry.after = after;
        }
        if let Some(entry) = self.get_mut(after) {
            entry.before = number;
        }
    }

    /// Takes a session out of its association's list.
    fn unlink(&mut self, peer: u32, before: u32, after: u32) {
        match self.get_mut(before) {
            Some(entry) => entry.after = after,
            None => drop(self.by_peer.get_mut(&peer).map(|sessions| sessions.first = after)),
        }
        if let Some(entry) = self.get_mut(after) {
            entry.before = before;
        }
        if let Some(sessions) = self.by_peer.get_mut(&peer) {
            sessions.count -= 1;
            if sessions.count == 0 {
                self.by_peer.remove(&peer);
            }
        }
    }

    /// The message that would establish a session, as it is kept, but for its SEID; none: it is longer than a message may be.
    pub fn written(&mut self, rules: &F::Rules) -> Option<Box<[u8]>> {
        self.octets.clear();
        F::write(rules, &mut self.octets).then(|| self.octets.as_slice().into())
    }

    /// Numbers between restored sessions are free.
    pub fn settle(&mut self) {
        let free = self.entries.iter().enumerate().filter(|(_, entry)| entry.is_none());
        self.free = free.map(|(number, _)| number as u32).collect();
    }

    /// Replaces a session's rules, by what was [`written`](Self::written) of them.
    pub fn set_rules(&mut self, number: u32, cp_seid: u64, message: Box<[u8]>) {
        self.swap_rules(number, cp_seid, message);
    }

    /// As [`set_rules`](Self::set_rules); the message there was.
    pub(crate) fn swap_rules(&mut self, number: u32, cp_seid: u64, message: Box<[u8]>) -> Option<Box<[u8]>> {
        let entry = self.get_mut(number)?;
        entry.cp_seid = cp_seid;
        let rules = stamped::<F>(message, seid(entry.tag, number), entry.peer);
        Some(std::mem::replace(&mut entry.rules, rules))
    }

    /// As [`set_rules`](Self::set_rules), unless they are more than a message holds.
    pub fn rewrite(&mut self, number: u32, rules: &F::Rules) {
        if let Some(message) = self.written(rules) {
            self.set_rules(number, F::peer_seid(rules), message);
        }
    }

    /// Replaces a session's keys.
    pub fn set_keys(&mut self, number: u32, keys: Vec<Key>) {
        self.swap_keys(number, keys.into());
    }

    /// As [`set_keys`](Self::set_keys); the keys there were.
    pub(crate) fn swap_keys(&mut self, number: u32, keys: Box<[Key]>) -> Option<Box<[Key]>> {
        let entry = self.entries.get_mut(number as usize).and_then(Option::as_mut)?;
        entry.keys.iter().for_each(|key| self.index.remove(key, number));
        keys.iter().for_each(|key| self.index.insert(*key, number));
        Some(std::mem::replace(&mut entry.keys, keys))
    }

    /// Takes a session out, and what it is in the middle of: nothing else is kept of it here.
    pub fn take(&mut self, number: u32) -> Option<(StoredSession<F>, Activity<F::Deferred>)> {
        let entry = self.entries.get_mut(number as usize)?.take()?;
        if let Some(changed) = &mut self.changed {
            changed.again.insert(number);
        }
        entry.keys.iter().for_each(|key| self.index.remove(key, number));
        self.count -= 1;
        self.free.push_back(number);
        self.recounted.insert(entry.peer);
        self.unlink(entry.peer, entry.before, entry.after);
        if entry.has_sets {
            self.sets.remove(entry.peer, number, F::sets(&entry.rules()));
        }
        self.guaranteed.forget(number);
        self.paths.change(entry.peer, &entry.paths, &[], 0); // it takes no path up
        self.told.forget(number);
        self.reports.forget(entry.peer, number);
        Some((entry, self.activities.take(number)))
    }

    /// Numbers in use and free: the next beyond is unused.
    pub fn numbers(&self) -> u32 {
        self.entries.len() as u32 // fewer sessions than 2^32 fit any memory
    }

    /// The session with a SEID of ours.
    pub fn find(&self, seid: u64) -> Option<u32> {
        // The halves, as `seid` put them together.
        let (tag, number) = ((seid >> 32) as u32, (seid as u32).wrapping_sub(1));
        self.get(number).filter(|entry| entry.tag == tag).map(|_| number)
    }

    /// The SEID of a session.
    pub fn seid(&self, number: u32) -> Option<u64> {
        self.get(number).map(|entry| seid(entry.tag, number))
    }

    /// The session a key leads to.
    pub fn lookup(&self, key: Key) -> Option<u32> {
        self.index.get(&key)
    }

    /// The first of the keys that leads to another session than `number`.
    pub fn conflict(&self, keys: &[Key], number: Option<u32>) -> Option<Key> {
        let taken = |key: &&Key| self.index.get(key).is_some_and(|owner| Some(owner) != number);
        keys.iter().find(taken).copied()
    }

    /// The session of a number; none: the number is free.
    pub fn get(&self, number: u32) -> Option<&StoredSession<F>> {
        self.entries.get(number as usize)?.as_ref()
    }

    /// A session, to change.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut StoredSession<F>> {
        let entry = self.entries.get_mut(number as usize)?.as_mut()?;
        if let Some(changed) = &mut self.changed {
            changed.again.insert(number);
        }
        Some(entry)
    }

    /// Notes from now on, or no longer, which sessions come, go and change; all there are count as changed.
    pub fn note_changes(&mut self, on: bool) {
        self.changed = on.then(|| Changed { left: 0..self.numbers(), again: BTreeSet::new() });
    }

    /// How many have changed.
    pub fn changes(&self) -> usize {
        self.changed.as_ref().map_or(0, |changed| changed.again.len() + changed.left.len())
    }

    /// A number whose session has come, gone or changed, and whether it was there from the beginning and is shown first.
    pub fn take_changed(&mut self) -> Option<(u32, bool)> {
        let changed = self.changed.as_mut()?;
        let again = changed.again.pop_first().map(|number| (number, false));
        again.or_else(|| changed.left.next().map(|number| (number, true)))
    }

    /// All sessions with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &StoredSession<F>)> {
        self.entries.iter().enumerate().filter_map(|(n, entry)| Some((n as u32, entry.as_ref()?)))
    }

    /// Bytes it takes, about: entries, rules, accounts, keys and index.
    pub fn bytes(&self) -> usize {
        let of_entry = |(_, entry): (u32, &StoredSession<F>)| {
            entry.rules.len() + size_of_val(&*entry.meters) + size_of_val(&*entry.keys) + size_of_val(&*entry.paths)
        };
        self.entries.bytes() + self.iter().map(of_entry).sum::<usize>() + self.index.bytes() + self.sets.bytes()
    }
}

/// A message with its SEID and its association's [`mark`].
fn stamped<F: FrontEnd>(mut message: Box<[u8]>, seid: u64, peer: u32) -> Box<[u8]> {
    F::stamp(&mut message, seid, mark(peer));
    message
}

/// An association in 24 bits, as it stands in what is kept of its sessions: after a restart they are told from those of an
/// association with the same Node ID that was over. Never 0, which means that an earlier version did not say.
pub fn mark(peer: u32) -> u32 {
    peer % 0xff_ffff + 1
}

/// Tag and number in one; never 0, which means none.
fn seid(tag: u32, number: u32) -> u64 {
    u64::from(tag) << 32 | (u64::from(number) + 1)
}

#[cfg(test)]
pub(crate) mod tests;
