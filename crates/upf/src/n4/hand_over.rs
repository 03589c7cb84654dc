//! Sessions on their way to another process that goes on for this one: as they are kept in a ledger, with what a ledger does
//! without.
//!
//! ```text
//! a session:  SEID (8) | worker (2) | flags (1) | silent since (8) | message (4 + n) | checkpoint (4 + n)
//! ```
//! Numbers are little-endian, times in nanoseconds of the workers' clock, which both processes share.

use gateway::shell::hand_over::octets::{In, put};
use pfcp::Packet;
use pfcp::message::Message;
use sessions::silence::Silence;

use super::checkpoint::token;
use super::endpoint::Owners;
use super::keep::{Reader, Ready};
use super::metering::WallClock;
use super::{Checkpoints, N4};
use crate::compile::Compiled;
use crate::control::Control;

/// The control plane was told that packets wait.
const PAGED: u8 = 1;
/// The control plane is told when the session is silent (inactivity timer).
const SILENCE: u8 = 2;
/// The control plane has been told.
const SILENCE_TOLD: u8 = 4;

/// What gives a session to its worker, and takes one from it.
pub struct Places<'a> {
    /// Puts it in place; whether there is room.
    pub install: &'a mut dyn FnMut(u16, u32, &Compiled) -> bool,
    /// Takes it out.
    pub remove: &'a mut dyn FnMut(u16, u32),
}

impl N4 {
    /// Notes from now on, or no longer, which sessions change; see [`take_changed`](super::store::SessionStore::take_changed).
    pub fn note_changes(&mut self, on: bool) {
        self.store.note_changes(on);
    }

    /// Sessions that changed and were not exported.
    pub fn changes(&self) -> usize {
        self.store.changes()
    }

    /// A number whose session changed, and whether it is exported for the first time.
    pub fn take_changed(&mut self) -> Option<(u32, bool)> {
        self.store.take_changed()
    }

    /// Whether no request, report or change of ours is under way.
    pub fn is_settled(&self) -> bool {
        !self.is_waiting()
            && self.store.is_settled()
            && self.over.is_empty()
            && self.outdated.1 == 0
            && self.out.is_empty()
    }

    /// Adds a session; false: there is none of that number.
    pub(crate) fn export_session(&mut self, number: u32, clock: &WallClock, out: &mut Vec<u8>) -> bool {
        let Some((seid, entry)) = self.store.seid(number).zip(self.store.get(number)) else { return false };
        let silence = entry.silence;
        let (since, told) = silence.map_or((0, false), Silence::parts);
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        out.extend(seid.to_le_bytes());
        out.extend(entry.worker.to_le_bytes());
        out.push(flag(entry.paged, PAGED) | flag(silence.is_some(), SILENCE) | flag(told, SILENCE_TOLD));
        out.extend(since.to_le_bytes());
        put(out, entry.message());
        put(out, &Checkpoints::handed(self.store.owed(number), &entry.meters, clock));
        true
    }

    /// Puts a session of another process in place, instead of the one of its number.
    ///
    /// # Errors
    /// It cannot be; a sentence.
    pub(super) fn import_session(
        &mut self,
        input: &mut In<'_>,
        (reader, owners): (&Reader, &Owners),
        control: &mut Control,
        clock: &WallClock,
        places: &mut Places<'_>,
    ) -> Result<(), String> {
        let mut read = || {
            let (seid, worker) = (input.number::<8>()?, input.number::<2>()? as u16);
            Some((seid, worker, input.number::<1>()? as u8, input.number::<8>()?))
        };
        let (seid, worker, flags, since) = read().ok_or("a session that cannot be read")?;
        let (message, kept) = input.text().zip(input.text()).ok_or("a session that cannot be read")?;
        let number = (seid as u32).wrapping_sub(1); // as the store puts SEIDs together
        self.forget_session(number, control, places);
        let refused = |why: &str| format!("session {seid:#018x}: {why}");
        let Ok(Packet { header, message: Message::SessionEstablishmentRequest(rules) }) = Packet::parse(message) else {
            return Err(refused("its rules cannot be read"));
        };
        let owner = owners.of(&rules, header.sequence).ok_or_else(|| refused("its control plane is unknown"))?;
        let whose = (seid, owner.0, header.sequence != 0);
        let ready = reader.ready(whose, message.to_vec(), Box::new(rules), Some(kept.to_vec()));
        let mut ready = ready.ok_or_else(|| refused("its rules do not fit this configuration"))?;
        let owed = ready.take_owed();
        self.put_in_place(ready.on(worker), control, clock, places).map_err(refused)?;
        for message in owed {
            // On its way: sent again if no answer comes.
            let id = self.store.owe(number, message, 0).unwrap_or(0);
            self.unanswered(token(number, id), clock.now);
        }
        if let Some(entry) = self.store.get_mut(number) {
            entry.paged = flags & PAGED != 0;
            if flags & SILENCE != 0 {
                entry.silence = Some(Silence::of_parts(since, flags & SILENCE_TOLD != 0));
            }
        }
        Ok(())
    }

    fn put_in_place(
        &mut self,
        ready: Ready,
        control: &mut Control,
        clock: &WallClock,
        places: &mut Places<'_>,
    ) -> Result<(), &'static str> {
        let is_there = self.restore(ready, control, clock, places.install);
        if is_there { Ok(()) } else { Err("no room, or its addresses are another session's") }
    }

    /// Takes a session out that is another process's, without a word to anybody.
    pub(crate) fn forget_session(&mut self, number: u32, control: &mut Control, places: &mut Places<'_>) {
        let Some((entry, _)) = self.take_out(number, control) else { return };
        control.abandon(entry.worker, number);
        (places.remove)(entry.worker, number);
    }

    /// What is not a session's: reports of waiting packets that wait themselves, and how long sessions' packets may wait; as
    /// JSON.
    pub fn export_timers(&self) -> Vec<u8> {
        let (notices, drops) = self.store.timers();
        serde_json::to_vec(&(notices, drops, self.draining)).unwrap_or_default()
    }

    /// Goes on with [`export_timers`](Self::export_timers). False: they cannot be read.
    pub(crate) fn import_timers(&mut self, octets: &[u8]) -> bool {
        type Timers = (Vec<(u64, u32, u16)>, Vec<(u32, u64)>, bool);
        let Ok((notices, drops, draining)) = serde_json::from_slice::<Timers>(octets) else { return false };
        self.store.set_timers((notices, drops));
        self.draining = draining;
        true
    }
}
