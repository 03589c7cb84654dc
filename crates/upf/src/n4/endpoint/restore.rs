//! A start that goes on with the sessions of an earlier run.
//!
//! ```text
//! a thread of its own:  ledger ─► read all ─► parse, some hundred sessions at a time ─┐
//! the caller's:                     usage, associations ─► translate, compile, install ◄┘
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use ledger::{Change, Ledger, LedgerError, Writer};
use pfcp::Packet;
use pfcp::ie::NodeId;
use pfcp::message::Message;
use pfcp::node::AssociationId;

use super::super::change::Rules;
use super::super::keep::{self, Keeper};
use super::super::metering::WallClock;
use super::{Endpoint, Restored, Unkept, time};
use crate::compile::Compiled;
use crate::control::Control;

/// Sessions handed over together, and how often ahead of the one that installs them.
const BATCH: usize = 256;
const AHEAD: usize = 8;

/// What is kept under a key.
type Raw = (u64, Vec<u8>);

/// A session that was kept: its key, the message that established it, and that read, with its association's mark, if it can
/// be.
struct Session {
    key: u64,
    bytes: Vec<u8>,
    rules: Option<(u32, Box<Rules>)>,
}

/// Reads all that is kept; hands associations over, then sessions as they are parsed.
fn read(ledger: &Ledger, first: &SyncSender<Vec<Raw>>, rest: &SyncSender<Vec<Session>>) -> Result<(), LedgerError> {
    let (mut associations, mut sessions) = (Vec::new(), Vec::new());
    ledger.sessions(|key, bytes| {
        if keep::is_association(key) { &mut associations } else { &mut sessions }.push((key, bytes.to_vec()));
    })?;
    // Nobody takes them: the other side has failed, and says so.
    let _ = first.send(associations);
    let mut sessions = sessions.into_iter();
    loop {
        let parse = |(key, bytes): Raw| {
            let rules = match Packet::parse(&bytes) {
                Ok(Packet { header, message: Message::SessionEstablishmentRequest(rules) }) => {
                    Some((header.sequence, Box::new(rules)))
                }
                _ => None,
            };
            Session { key, bytes, rules }
        };
        let batch: Vec<Session> = sessions.by_ref().take(BATCH).map(parse).collect();
        if batch.is_empty() || rest.send(batch).is_err() {
            return Ok(());
        }
    }
}

impl Endpoint {
    /// Goes on with the associations and sessions that a ledger kept, and keeps them from now on. `install` gives a session
    /// to its worker, which does not run yet.
    ///
    /// # Errors
    /// A ledger that can not be read or written.
    pub fn restore(
        &mut self,
        ledger: &Ledger,
        writer: Arc<Writer>,
        control: &mut Control,
        clock: &WallClock,
        install: &mut dyn FnMut(u16, u32, &Compiled) -> bool,
    ) -> Result<Restored, LedgerError> {
        let joined = |done: std::thread::Result<_>| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let restored = std::thread::scope(|scope| {
            let (first, associations) = sync_channel(1);
            let (rest, sessions) = sync_channel(AHEAD);
            let reader = scope.spawn(move || read(ledger, &first, &rest));
            let mut used = HashMap::new();
            ledger.checkpoints(|key, bytes| drop(used.insert(key, bytes.to_vec())))?;
            let Ok(associations) = associations.recv() else {
                return joined(reader.join()).map(|()| Restored::default());
            };
            // All has been read. From here on things change.
            self.n4.keep_in(Keeper::new(writer), self.checkpoint_ns, clock.now);
            // The next run begins when this one did: its peers are to see no restart.
            self.n4.keep_else(Change::Recovery(self.began.0));
            let peers = self.restore_associations(associations, clock);
            let mut restored = Restored { associations: peers.len(), ..Restored::default() };
            for session in sessions.into_iter().flatten() {
                let key = session.key;
                let is_there = self.restore_session(session, &peers, used.remove(&key), control, clock, install);
                restored.sessions += usize::from(is_there);
                restored.lost += usize::from(!is_there);
                if !is_there {
                    self.n4.keep_else(Change::DeleteSession { key });
                    self.n4.keep_else(Change::DropCheckpoint { key });
                }
            }
            for (key, bytes) in used {
                let peer = |name: &str| peers.iter().find(|(node, _)| node.to_string() == name).map(|(_, id)| id.0);
                self.n4.restore_gone(key, &bytes, peer, clock.now);
            }
            joined(reader.join()).map(|()| restored)
        })?;
        self.n4.restored();
        self.keep_changed();
        self.recount();
        control.publish();
        Ok(restored)
    }

    fn restore_associations(&mut self, mut kept: Vec<Raw>, clock: &WallClock) -> HashMap<NodeId, AssociationId> {
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

    /// Puts a session in place; tells whether it is there.
    fn restore_session(
        &mut self,
        Session { key, bytes, rules }: Session,
        peers: &HashMap<NodeId, AssociationId>,
        usage: Option<Vec<u8>>,
        control: &mut Control,
        clock: &WallClock,
        install: &mut dyn FnMut(u16, u32, &Compiled) -> bool,
    ) -> bool {
        let Some((mark, rules)) = rules else { return false };
        let Some(AssociationId(peer)) = self.owner_of_kept(&rules, mark, peers) else { return false };
        self.n4.restore(key, peer, (bytes, &rules, usage.as_deref()), control, clock, install)
    }
}
