//! Who has which address, whom to ask, and when: the control side's table (RFC 4861, 7.3; for ARP alike).
//!
//! ```text
//! want ─► Incomplete ──answer──► Reachable ──time──► Stale ──used, or refresh──► Probe ──answer──► Reachable
//!             │ no answer           ▲ answer           ▲ a claim                    │ no answer
//!             ▼                                                                     ▼
//!          Failed ──time──► (gone)                                                (gone)
//! ```
//!
//! The cache never sends: it returns [`Action`]s. Packets that wait are the caller's to keep. Time is in nanoseconds
//! of the caller's clock.

use std::collections::btree_map::Entry as Place;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use wire::Mac;

use super::NeighbourMessage;

/// Times and bounds. The defaults are RFC 4861's (10) where it has some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// For how long an answer is believed, in nanoseconds.
    pub reachable: u64,
    /// How long to wait for an answer before asking again, in nanoseconds.
    pub retry: u64,
    /// How often to ask before giving up.
    pub tries: u8,
    /// How long what was merely claimed or has aged is used before it is verified, in nanoseconds.
    pub verify_after: u64,
    /// Whether to verify also what nobody wants. Right while workers do not tell which neighbours they use.
    pub refresh: bool,
    /// How long what nobody wants is kept when not refreshed, in nanoseconds.
    pub forget_after: u64,
    /// For how long nobody asks again for an address that did not answer, in nanoseconds.
    pub failed_hold: u64,
    /// The most entries, in all.
    pub max_entries: usize,
    /// The most entries that never gave an answer: a scan of a subnet through us fills these and no more.
    pub max_unproven: usize,
}

const SECOND: u64 = 1_000_000_000;

impl Default for Config {
    fn default() -> Config {
        Config {
            reachable: 30 * SECOND,
            retry: SECOND,
            tries: 3,
            verify_after: 5 * SECOND,
            refresh: true,
            forget_after: 600 * SECOND,
            failed_hold: 3 * SECOND,
            max_entries: 4096,
            max_unproven: 512,
        }
    }
}

/// What is known about a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing yet; asked.
    Incomplete,
    /// It answered not long ago.
    Reachable,
    /// Its answer has aged, or was never asked for; usable.
    Stale,
    /// Asked whether it is still there; usable meanwhile.
    Probe,
    /// It did not answer.
    Failed,
    /// Configured; neither asked nor overruled.
    Static,
}

/// A question to be sent, by [`super::arp_request`] or [`super::neighbour_solicitation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The port to ask on, as the caller numbers them.
    pub port: u16,
    /// The address asked for.
    pub address: IpAddr,
    /// Destination of the request; `None`: multicast.
    pub to: Option<Mac>,
}

/// What the caller is to do, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask.
    Send(Request),
    /// From now on `address` is at `mac`: publish it and release what waits.
    Resolved {
        /// The port it is on.
        port: u16,
        /// The neighbour's address.
        address: IpAddr,
        /// Its link address.
        mac: Mac,
    },
    /// `address` does not answer: withdraw it and drop what waits (RFC 4861, 7.2.2).
    Failed {
        /// The port it was asked for on.
        port: u16,
        /// The address.
        address: IpAddr,
    },
    /// `address` is no longer kept: withdraw it, it can be wanted again.
    Forgotten {
        /// The port it was on.
        port: u16,
        /// The address.
        address: IpAddr,
    },
}

/// The answer to [`NeighbourCache::want`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It is here.
    Known(Mac),
    /// It was asked for; an action will follow.
    Asked,
    /// It did not answer lately, and is not asked again yet.
    Unreachable,
    /// Too many are being asked for.
    Full,
}

/// What a message says about a neighbour's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The neighbour's address.
    pub address: IpAddr,
    /// Its link address, if the message has one.
    pub mac: Option<Mac>,
    /// It answers a question of ours, so the path works both ways.
    pub solicited: bool,
    /// It is to replace what is known.
    pub overrides: bool,
}

impl Heard {
    /// What there is to learn about the sender; nothing from one that has no address yet.
    pub(crate) fn from_message(message: &NeighbourMessage) -> Option<Heard> {
        use NeighbourMessage::*;
        let claim = |address: IpAddr, mac: Option<Mac>| {
            let known = !address.is_unspecified() && mac.is_some();
            known.then_some(Heard { address, mac, solicited: false, overrides: true })
        };
        match *message {
            ArpRequest { sender, sender_ip, .. } => claim(sender_ip.into(), Some(sender)),
            ArpReply { sender, sender_ip, target } => {
                let solicited = target != sender_ip; // else it is an announcement
                claim(sender_ip.into(), Some(sender)).map(|heard| Heard { solicited, ..heard })
            }
            NeighbourSolicitation { source, link, .. }
            | RouterSolicitation { source, link }
            | RouterAdvertisement { source, link, .. } => claim(source.into(), link),
            NeighbourAdvertisement { target, link, solicited, overrides, .. } => {
                Some(Heard { address: target.into(), mac: link, solicited, overrides })
            }
        }
    }
}

type Key = (u16, IpAddr);

#[derive(Clone, Copy, Debug)]
struct Neighbour {
    state: State,
    /// Known in all states but incomplete and failed.
    mac: Mac,
    /// When something is to happen; `u64::MAX` for never.
    deadline: u64,
    /// Questions sent since the last answer.
    tries: u8,
    /// It has answered once, or is configured.
    proven: bool,
    /// Stale: to be verified at the deadline, rather than forgotten.
    verify: bool,
}

impl Neighbour {
    fn known(&self) -> Option<Mac> {
        (!matches!(self.state, State::Incomplete | State::Failed)).then_some(self.mac)
    }
}

/// The neighbours of all ports. Owned by the control thread; workers see what it publishes.
#[derive(Debug)]
pub struct NeighbourCache {
    config: Config,
    entries: BTreeMap<Key, Neighbour>,
    /// The deadlines of all entries that have one.
    timers: BTreeSet<(u64, Key)>,
    unproven: usize,
}

impl NeighbourCache {
    /// An empty cache.
    pub fn new(config: Config) -> NeighbourCache {
        NeighbourCache { config, entries: BTreeMap::new(), timers: BTreeSet::new(), unproven: 0 }
    }

    /// A packet is to go to `address` on `port`: says where, or starts to ask. To be called for every such packet that
    /// reaches the control side; it asks no more often than the configuration says.
    pub fn want(&mut self, port: u16, address: IpAddr, now: u64, out: &mut Vec<Action>) -> Wanted {
        let key = (port, address);
        let Some(mut entry) = self.entries.get(&key).copied() else {
            if !self.has_room() {
                return Wanted::Full;
            }
            out.push(Action::Send(Request { port, address, to: None }));
            let deadline = now.saturating_add(self.config.retry);
            self.put(key, Neighbour { tries: 1, ..Self::fresh(State::Incomplete, Mac::ZERO, deadline) });
            return Wanted::Asked;
        };
        if entry.state == State::Stale && !entry.verify {
            entry.verify = true;
            entry.deadline = now.saturating_add(self.config.verify_after);
            self.put(key, entry);
        }
        match entry.state {
            State::Incomplete => Wanted::Asked,
            State::Failed => Wanted::Unreachable,
            _ => Wanted::Known(entry.mac),
        }
    }

    /// A neighbour said something, to us or to all: brings what is known up to date and adds nothing
    /// (RFC 4861, 7.2.5; RFC 826).
    pub fn heard(&mut self, port: u16, heard: &Heard, now: u64, out: &mut Vec<Action>) {
        let key = (port, heard.address);
        let Some(mut entry) = self.entries.get(&key).copied().filter(|e| e.state != State::Static) else { return };
        let known = entry.known();
        let Some(mac) = heard.mac.or(known) else { return };
        let differs = known.is_some_and(|known| known != mac);
        if differs && !heard.overrides {
            // Somebody else claims it, without wanting to replace: verify what we have.
            if entry.state == State::Reachable {
                self.age(&mut entry, now);
                self.put(key, entry);
            }
            return;
        }
        if known != Some(mac) {
            out.push(Action::Resolved { port, address: heard.address, mac });
        }
        entry.mac = mac;
        if heard.solicited {
            entry.state = State::Reachable;
            entry.proven = true;
            entry.tries = 0;
            entry.deadline = now.saturating_add(self.config.reachable);
        } else if known != Some(mac) {
            self.age(&mut entry, now);
        }
        self.put(key, entry);
    }

    /// As [`NeighbourCache::heard`], for a message that asks for an address of ours: the asker is likely to be
    /// answered next, so it is added if there is room (RFC 826; RFC 4861, 7.2.3).
    pub fn learn(&mut self, port: u16, heard: &Heard, now: u64, out: &mut Vec<Action>) {
        let key = (port, heard.address);
        if self.entries.contains_key(&key) {
            return self.heard(port, heard, now, out);
        }
        let Some(mac) = heard.mac.filter(|_| self.has_room()) else { return };
        let mut entry = Self::fresh(State::Stale, mac, 0);
        self.age(&mut entry, now);
        self.put(key, entry);
        out.push(Action::Resolved { port, address: heard.address, mac });
    }

    /// Takes a neighbour to be where somebody else found it: it is used at once, and asked by the next
    /// [`NeighbourCache::tick`]. Nothing changes for one that is known here, or when there is no room.
    pub fn suppose(&mut self, port: u16, address: IpAddr, mac: Mac, out: &mut Vec<Action>) {
        let key = (port, address);
        let known = self.entries.get(&key).is_some_and(|entry| entry.known().is_some());
        if known || (!self.entries.contains_key(&key) && self.entries.len() >= self.config.max_entries) {
            return;
        }
        self.put(key, Neighbour { proven: true, verify: true, ..Self::fresh(State::Stale, mac, 0) });
        out.push(Action::Resolved { port, address, mac });
    }

    /// Sets a neighbour by configuration.
    pub(crate) fn set_static(&mut self, port: u16, address: IpAddr, mac: Mac, out: &mut Vec<Action>) {
        self.put((port, address), Neighbour { proven: true, ..Self::fresh(State::Static, mac, u64::MAX) });
        out.push(Action::Resolved { port, address, mac });
    }

    /// Forgets a neighbour, of whatever kind; returns whether there was one.
    pub fn remove(&mut self, port: u16, address: IpAddr, out: &mut Vec<Action>) -> bool {
        let there = self.take((port, address));
        if there {
            out.push(Action::Forgotten { port, address });
        }
        there
    }

    /// Does what is due at `now`.
    pub fn tick(&mut self, now: u64, out: &mut Vec<Action>) {
        while let Some((_, key)) = self.timers.first().copied().filter(|(deadline, _)| *deadline <= now) {
            self.due(key, now, out);
        }
    }

    /// Asks again for all that have not answered yet. It does not count as a try.
    pub fn ask_again(&self, out: &mut Vec<Action>) {
        let incomplete = self.entries.iter().filter(|(_, entry)| entry.state == State::Incomplete);
        out.extend(
            incomplete.map(|((port, address), _)| Action::Send(Request { port: *port, address: *address, to: None })),
        );
    }

    /// When [`NeighbourCache::tick`] has something to do next.
    pub fn next_deadline(&self) -> Option<u64> {
        self.timers.first().map(|(deadline, _)| *deadline)
    }

    /// What is known about a neighbour: its state and link address.
    pub fn get(&self, port: u16, address: IpAddr) -> Option<(State, Option<Mac>)> {
        self.entries.get(&(port, address)).map(|entry| (entry.state, entry.known()))
    }

    /// All neighbours, by port and address.
    pub fn iter(&self) -> impl Iterator<Item = (u16, IpAddr, State, Option<Mac>)> + '_ {
        self.entries.iter().map(|((port, address), entry)| (*port, *address, entry.state, entry.known()))
    }

    /// How many entries there are, those being asked for included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn due(&mut self, key: Key, now: u64, out: &mut Vec<Action>) {
        let (port, address) = key;
        let Some(mut entry) = self.entries.get(&key).copied() else { return };
        let again = entry.tries < self.config.tries;
        match entry.state {
            State::Incomplete if again => out.push(Action::Send(Request { port, address, to: None })),
            State::Incomplete => {
                out.push(Action::Failed { port, address });
                entry.state = State::Failed;
                entry.deadline = now.saturating_add(self.config.failed_hold);
                return self.put(key, entry);
            }
            State::Reachable if !self.config.refresh => {
                self.age(&mut entry, now);
                return self.put(key, entry);
            }
            State::Stale if !entry.verify => {
                self.take(key);
                return out.push(Action::Forgotten { port, address });
            }
            State::Probe if !again => {
                // Not held as failed: it was there, so the next packet may ask everybody at once.
                self.take(key);
                return out.push(Action::Failed { port, address });
            }
            State::Failed => {
                self.take(key);
                return out.push(Action::Forgotten { port, address });
            }
            State::Static => {
                self.take(key);
                return;
            }
            State::Reachable | State::Stale | State::Probe => {
                if entry.state != State::Probe {
                    entry.tries = 0;
                }
                entry.state = State::Probe;
                out.push(Action::Send(Request { port, address, to: Some(entry.mac) }));
            }
        }
        entry.tries += 1;
        entry.deadline = now.saturating_add(self.config.retry);
        self.put(key, entry);
    }

    fn has_room(&self) -> bool {
        self.entries.len() < self.config.max_entries && self.unproven < self.config.max_unproven
    }

    fn fresh(state: State, mac: Mac, deadline: u64) -> Neighbour {
        Neighbour { state, mac, deadline, tries: 0, proven: false, verify: false }
    }

    /// Makes an entry stale.
    fn age(&self, entry: &mut Neighbour, now: u64) {
        entry.state = State::Stale;
        entry.verify = self.config.refresh;
        let wait = if entry.verify { self.config.verify_after } else { self.config.forget_after };
        entry.deadline = now.saturating_add(wait);
    }

    /// Stores an entry, its timer and its count with it.
    fn put(&mut self, key: Key, entry: Neighbour) {
        match self.entries.entry(key) {
            Place::Vacant(place) => {
                place.insert(entry);
            }
            Place::Occupied(mut place) => {
                let old = place.insert(entry);
                self.timers.remove(&(old.deadline, key));
                self.unproven -= usize::from(!old.proven);
            }
        }
        self.unproven += usize::from(!entry.proven);
        if entry.deadline != u64::MAX {
            self.timers.insert((entry.deadline, key));
        }
    }

    fn take(&mut self, key: Key) -> bool {
        let Some(old) = self.entries.remove(&key) else { return false };
        self.timers.remove(&(old.deadline, key));
        self.unproven -= usize::from(!old.proven);
        true
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
