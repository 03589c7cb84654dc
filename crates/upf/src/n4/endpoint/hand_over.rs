//! The endpoint's state on its way to another process.
//!
//! ```text
//! records:  0 | an association: key (8) | octets (4 + n), as a ledger has it
//!           1 | a session, as of `n4/hand_over.rs`
//!           2 | a session is gone: its number (4)
//!           3 | associations there are (4), each key (8)
//!           4 | responses (4 + n)
//!           5 | timers (4 + n)
//! ```

use gateway::shell::hand_over::octets::{In, put};
use ledger::Change;
use pfcp::node::AssociationId;

use super::super::hand_over::Places;
use super::super::keep;
use super::super::metering::WallClock;
use super::Endpoint;
use super::restore::Owners;
use crate::control::Control;

const ASSOCIATION: u8 = 0;
const SESSION: u8 = 1;
const GONE: u8 = 2;
const ASSOCIATIONS: u8 = 3;
const RESPONSES: u8 = 4;
const TIMERS: u8 = 5;

impl Endpoint {
    /// Notes from now on, or no longer, what changes.
    pub fn note_changes(&mut self, on: bool) {
        self.n4.note_changes(on);
    }

    /// When its run began, for its peers: a Recovery Time Stamp.
    pub fn began(&self) -> u32 {
        self.began.0
    }

    /// Whether nothing is under way.
    pub fn is_settled(&self) -> bool {
        self.n4.is_settled()
    }

    fn export_associations(&self, out: &mut Vec<u8>) {
        let mut all: Vec<AssociationId> = self.node.associations().map(|(id, _)| id).collect();
        all.sort_unstable();
        for id in all {
            if let Change::PutSession { key, bytes } = self.kept_association(id) {
                out.push(ASSOCIATION);
                out.extend(key.to_le_bytes());
                put(out, &bytes);
            }
        }
    }

    /// Adds associations and up to `most` sessions that changed since they were added last; `again` is told of those that were
    /// added before. Returns how many are left.
    pub fn export(&mut self, most: usize, clock: &WallClock, out: &mut Vec<u8>, mut again: impl FnMut(u32)) -> usize {
        self.export_associations(out);
        for _ in 0..most {
            let Some((number, is_first)) = self.n4.take_changed() else { break };
            out.push(SESSION);
            if !self.n4.export_session(number, clock, out) {
                out.pop();
                if is_first {
                    continue;
                }
                out.push(GONE);
                out.extend(number.to_le_bytes());
            }
            if !is_first {
                again(number);
            }
        }
        self.n4.changes()
    }

    /// Adds what is known when nothing is under way: which associations there are, and responses that may be asked for again.
    pub fn export_settled(&mut self, clock: &WallClock, out: &mut Vec<u8>, again: impl FnMut(u32)) {
        self.export(usize::MAX, clock, out, again);
        out.push(ASSOCIATIONS);
        let all: Vec<u64> = self.node.associations().map(|(id, _)| keep::association_key(id)).collect();
        out.extend((all.len() as u32).to_le_bytes()); // a few hundred
        all.iter().for_each(|key| out.extend(key.to_le_bytes()));
        out.push(RESPONSES);
        put(out, &self.node.kept_responses());
    }

    /// Adds what has changed since.
    pub fn export_rest(&mut self, clock: &WallClock, out: &mut Vec<u8>, again: impl FnMut(u32)) {
        self.export(usize::MAX, clock, out, again);
        out.push(TIMERS);
        put(out, &self.n4.export_timers());
    }

    /// Takes in what another process has exported.
    ///
    /// # Errors
    /// It cannot be taken in; a sentence.
    pub fn import(
        &mut self,
        octets: &[u8],
        control: &mut Control,
        clock: &WallClock,
        places: &mut Places<'_>,
    ) -> Result<(), String> {
        let mut input = In(octets);
        let garbled = || "control state that cannot be read".to_owned();
        let mut new = Vec::new();
        // Associations stand first.
        while input.0.first() == Some(&ASSOCIATION) {
            let mut read = || input.take(1).and(input.number::<8>()).zip(input.text());
            let (key, bytes) = read().ok_or_else(garbled)?;
            match self.kept_association(keep::association_id(key)) {
                Change::PutSession { bytes: known, .. } if known == bytes => {}
                Change::PutSession { .. } => return Err("an association changed meanwhile: try again".to_owned()),
                _ => new.push((key, bytes.to_vec())),
            }
        }
        if !new.is_empty() {
            self.restore_associations(new, clock);
        }
        let mut readers = None;
        while let Some(kind) = input.number::<1>() {
            match kind as u8 {
                SESSION => {
                    let (owners, reader) =
                        readers.get_or_insert_with(|| (Owners::of_node(&self.node), self.n4.reader(clock)));
                    self.n4.import_session(&mut input, (reader, owners), control, clock, places)?;
                }
                GONE => {
                    let number = input.number::<4>().ok_or_else(garbled)? as u32;
                    self.n4.forget_session(number, control, places);
                }
                ASSOCIATIONS => self.check_associations(&mut input)?,
                RESPONSES => {
                    let is_read = self.node.go_on_with(input.text().ok_or_else(garbled)?);
                    is_read.then_some(()).ok_or_else(garbled)?;
                }
                TIMERS => {
                    let is_read = self.n4.import_timers(input.text().ok_or_else(garbled)?);
                    is_read.then_some(()).ok_or_else(garbled)?;
                }
                _ => return Err(garbled()),
            }
        }
        Ok(())
    }

    /// All is taken in: which numbers are free, how many sessions each association has.
    pub fn imported(&mut self) {
        self.n4.restored();
        self.recount();
    }

    fn check_associations(&self, input: &mut In<'_>) -> Result<(), String> {
        let count = input.number::<4>().unwrap_or(0);
        let there: Vec<AssociationId> =
            (0..count).map_while(|_| input.number::<8>()).map(keep::association_id).collect();
        match self.node.associations().find(|(id, _)| !there.contains(id)) {
            Some((_, gone)) => Err(format!("the association with {} ended meanwhile: try again", gone.node_id)),
            None => Ok(()),
        }
    }
}
