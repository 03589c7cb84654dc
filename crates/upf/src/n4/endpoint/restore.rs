//! A start that goes on with the sessions of an earlier run.
//!
//! ```text
//! a thread of its own, while ports are opened:  ledger ─► all that is kept
//! another:                          parse and translate, some hundred sessions at a time ─┐
//! the caller's:                                         associations, then compile, install ◄┘
//! ```

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use ledger::{Change, Ledger, LedgerError, Places, Writer};
use pfcp::Packet;
use pfcp::ie::NodeId;
use pfcp::message::Message;
use pfcp::node::{AssociationId, Node};

use super::super::change::Rules;
use super::super::keep::{self, Keeper, Reader, Ready};
use super::super::metering::WallClock;
use super::super::store;
use super::{Endpoint, Restored, Unkept, time};
use crate::compile::Compiled;
use crate::control::Control;

/// Sessions handed over together, and how often ahead of the one that installs them.
const BATCH: usize = 256;
const AHEAD: usize = 8;

/// What is kept under a key.
type Raw = (u64, Vec<u8>);

/// A session that was kept: its key, and what it is; none: it is not valid any more.
type Session = (u64, Option<Ready>);

/// Whose kept sessions are.
pub(in crate::n4) struct Owners {
    peers: HashMap<NodeId, AssociationId>,
    addresses: Vec<(AssociationId, IpAddr)>,
}

impl Owners {
    /// Those of a node's associations.
    pub fn of_node(node: &Node) -> Self {
        let peers = node.associations().map(|(id, peer)| (peer.node_id.clone(), id)).collect();
        let addresses = node.associations().map(|(id, peer)| (id, peer.address.ip())).collect();
        Self { peers, addresses }
    }

    /// The association of a session. It is kept under the association's Node ID and with its mark: one of another mark is of
    /// an association that was over. One kept by an earlier version has no mark and may have another name: it is found by
    /// its control plane's address then.
    pub fn of(&self, rules: &Rules, mark: u32) -> Option<AssociationId> {
        let named = self.peers.get(&rules.node_id).copied();
        if mark != 0 {
            return named.filter(|id| store::mark(id.0) == mark);
        }
        let seid = &rules.cp_f_seid;
        let is_there = |address: IpAddr| {
            seid.ip4.is_some_and(|ip4| address == IpAddr::V4(ip4))
                || seid.ip6.is_some_and(|ip6| address == IpAddr::V6(ip6))
        };
        let mut there = self.addresses.iter().filter(|(_, address)| is_there(*address)).map(|(id, _)| *id);
        let only = || self.addresses.first().map(|(id, _)| *id).filter(|_| self.addresses.len() == 1);
        named.or_else(|| there.next().filter(|_| there.next().is_none())).or_else(only)
    }
}

/// All that a ledger has kept.
#[derive(Debug, Default)]
pub struct Stored {
    associations: Vec<Raw>,
    sessions: Vec<Raw>,
    /// What sessions have used, by their keys.
    usage: HashMap<u64, Vec<u8>>,
}

impl Stored {
    /// Reads it; where it is, for the writer that follows.
    ///
    /// # Errors
    /// The ledger is not readable.
    pub fn read(ledger: &Ledger) -> Result<(Self, Places), LedgerError> {
        let Self { mut associations, mut sessions, mut usage } = Self::default();
        let session = |key, bytes: &[u8]| {
            let kind = if keep::is_association(key) { &mut associations } else { &mut sessions };
            kind.push((key, bytes.to_vec()));
        };
        let places = ledger.load(session, |key, bytes| drop(usage.insert(key, bytes.to_vec())))?;
        Ok((Self { associations, sessions, usage }, places))
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }
}

/// Reads sessions and hands them over; gives back what was used by those that are gone.
fn read(
    sessions: Vec<Raw>,
    mut usage: HashMap<u64, Vec<u8>>,
    reader: &Reader,
    owners: &Owners,
    ready: &SyncSender<Vec<Session>>,
) -> HashMap<u64, Vec<u8>> {
    let mut sessions = sessions.into_iter();
    let mut one = |(key, bytes): Raw| {
        let usage = usage.remove(&key);
        let Ok(Packet { header, message: Message::SessionEstablishmentRequest(rules) }) = Packet::parse(&bytes) else {
            return (key, None);
        };
        let owner = owners.of(&rules, header.sequence);
        let is_marked = header.sequence != 0;
        (key, owner.and_then(|owner| reader.ready((key, owner.0, is_marked), bytes, Box::new(rules), usage)))
    };
    loop {
        let batch: Vec<Session> = sessions.by_ref().take(BATCH).map(&mut one).collect();
        // Nobody takes them: the other side has failed.
        if batch.is_empty() || ready.send(batch).is_err() {
            return usage;
        }
    }
}

impl Endpoint {
    /// Goes on with the associations and sessions that a ledger kept, and keeps them from now on. `install` gives a session
    /// to its worker, which does not run yet.
    pub fn restore(
        &mut self,
        stored: Stored,
        writer: Arc<Writer>,
        control: &mut Control,
        clock: &WallClock,
        install: &mut dyn FnMut(u16, u32, &Compiled) -> bool,
    ) -> Restored {
        let Stored { associations, sessions, usage } = stored;
        self.n4.reserve(sessions.len());
        control.reserve(sessions.len());
        self.n4.keep_in(Keeper::new(writer), self.checkpoint_ns, clock.now);
        // The next run begins when this one did: its peers are to see no restart.
        self.n4.keep_else(Change::Recovery(self.began.0));
        let peers = self.restore_associations(associations, clock);
        let mut restored = Restored { associations: peers.len(), ..Restored::default() };
        let addresses = self.node.associations().map(|(id, peer)| (id, peer.address.ip())).collect();
        let (owners, reader) = (Owners { peers, addresses }, self.n4.reader(clock));
        let usage = std::thread::scope(|scope| {
            let (send, ready) = sync_channel(AHEAD);
            let (owners, reader) = (&owners, &reader);
            let rest = scope.spawn(move || read(sessions, usage, reader, owners, &send));
            for (key, session) in ready.into_iter().flatten() {
                let is_there = session.is_some_and(|session| self.n4.restore(session, control, clock, install));
                restored.sessions += usize::from(is_there);
                restored.lost += usize::from(!is_there);
                if !is_there {
                    self.n4.keep_else(Change::DeleteSession { key });
                    self.n4.keep_else(Change::DropCheckpoint { key });
                }
            }
            rest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        for (key, bytes) in usage {
            let mut peers = owners.peers.iter();
            let peer = |name: &str| peers.find(|(node, _)| node.to_string() == name).map(|(_, id)| id.0);
            self.n4.restore_gone(key, &bytes, peer, clock.now);
        }
        self.n4.restored();
        self.keep_changed();
        self.recount();
        control.publish();
        restored
    }

    /// Goes on keeping what another process has kept until now: what the ledger has is set right.
    pub(crate) fn keep_on(&mut self, stored: Stored, writer: Arc<Writer>, clock: &WallClock) {
        let Stored { associations, sessions, .. } = stored;
        self.n4.keep_on(Keeper::new(writer), self.checkpoint_ns, clock.now);
        self.n4.keep_else(Change::Recovery(self.began.0));
        let mut there: HashMap<u64, Vec<u8>> = sessions.into_iter().collect();
        for number in 0..self.n4.store().numbers() {
            let Some((seid, entry)) = self.n4.store().seid(number).zip(self.n4.store().get(number)) else { continue };
            if there.remove(&seid).is_none_or(|bytes| bytes != entry.message()) {
                self.n4.keep_session(number, None, None);
            }
        }
        for key in there.into_keys() {
            self.n4.keep_else(Change::DeleteSession { key });
            self.n4.keep_else(Change::DropCheckpoint { key });
        }
        let ids: Vec<AssociationId> = self.node.associations().map(|(id, _)| id).collect();
        for (key, _) in associations.iter().filter(|(key, _)| !ids.contains(&keep::association_id(*key))) {
            self.n4.keep_else(Change::DeleteSession { key: *key });
        }
        self.unkept = Unkept::none_but(ids.iter().copied());
        for id in ids {
            let change = self.kept_association(id);
            self.n4.keep_else(change);
        }
    }

    pub(super) fn restore_associations(
        &mut self,
        mut kept: Vec<Raw>,
        clock: &WallClock,
    ) -> HashMap<NodeId, AssociationId> {
        let (mut newest, mut of_all) = (HashMap::new(), None);
        // All of it in one commit: a crash in between would cost the sessions.
        let mut changes = Vec::new();
        kept.sort_unstable_by_key(|(key, _)| *key);
        for (key, bytes) in kept {
            changes.push(Change::DeleteSession { key });
            if key == keep::APPLICATIONS {
                if let Ok(Message::PfdManagementRequest(request)) = Packet::parse(&bytes).map(|packet| packet.message) {
                    of_all = Some(request);
                }
                continue;
            }
            let Some((association, applications)) = keep::association_of(&bytes) else { continue };
            // Of two with one name the earlier was over.
            newest.insert(association.node_id.clone(), (keep::association_id(key), association, applications));
        }
        // The oldest first, as they came.
        let mut newest: Vec<_> = newest.into_iter().collect();
        newest.sort_unstable_by_key(|(_, (id, ..))| *id);
        let mut peers = HashMap::new();
        for (node, (id, association, applications)) in newest {
            self.node.adopt(id, association, time(clock));
            // An earlier version kept one list for all.
            for request in applications.iter().chain(&of_all) {
                self.manage_pfds(id, request, clock);
            }
            peers.insert(node, id);
        }
        self.unkept = Unkept::none_but(peers.values().copied());
        changes.extend(peers.values().map(|id| self.kept_association(*id)));
        self.n4.keep(|_| changes, None);
        peers
    }
}
