//! A worker's sessions: the records and the indexes that lead to them.

mod carry;
mod filters;
mod find;
mod groups;
mod kernel;
mod keys;
mod state;
mod usage;

pub use carry::LAYOUT as STATE_LAYOUT;
pub use filters::Quad;
pub use keys::Endpoint;
pub use state::set_counts;

use std::borrow::Cow;
use std::io;

use gateway::fast_path::InKernelSessions as _;
use table::bulk::{BulkMap, Seed};
use table::records::{Line, LineId, Lines};
use zerocopy::FromZeros;

use crate::by_instance::ByInstance;
use crate::chunks::Chunks;
use crate::compile::Compiled;
use crate::record::{self, QuadList};
use crate::routes::Routes;
use crate::rules::Usage;
use filters::SharedFilters;
use kernel::{InKernel, Inherits, Kernel};
use keys::Keys;
use state::{arm, start_buckets};

/// Reason for which a session is not installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Refused {
    #[error("no memory left for session records")]
    NoRecord,
    #[error("no room left in the session indexes")]
    NoIndex,
    #[error("a tunnel endpoint or address is another session's")]
    InUse,
    #[error("no such session")]
    Unknown,
}

#[derive(Clone, Copy)]
struct Place {
    line: LineId,
    lines: u8,
    /// Tells the session from others that had its handle.
    born: u16,
    kernel: InKernel,
}

/// All sessions of one worker. Only the worker touches it.
pub struct Sessions {
    lines: Lines,
    filters: SharedFilters,
    by_teid: BulkMap<u32, u32>,
    by_v4: ByInstance<u32>,
    by_v6: ByInstance<u64>,
    /// To handles, which stay while rules change.
    by_route: Routes,
    places: Chunks<Option<Place>>,
    keys: Chunks<Keys>,
    count: usize,
    generation: u32,
    born: u16,
    /// Sessions that reached a bound on their usage, for control to hear.
    reached: Vec<u32>,
    room: Room,
    /// The in-kernel path, where there is one.
    kernel: Option<Box<Kernel>>,
    /// What is to come from a process before.
    inherits: Option<Box<Inherits>>,
}

/// What a worker's sessions may take of memory, where they are to have less than there is.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Lines of records, of 64 bytes.
    pub lines: usize,
    /// Tunnel endpoints.
    pub keys: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { lines: usize::MAX, keys: usize::MAX }
    }
}

/// Sessions that may have reached a bound before control is told; those beyond are noticed with their next packet.
const REACHED: usize = 256;

impl Sessions {
    /// Room for `sessions` sessions with records of `lines` lines each and two tunnel endpoints; more come in as long
    /// as memory can be had.
    ///
    /// # Errors
    /// When that much memory is not available.
    pub fn with_capacity(sessions: usize, lines: usize) -> io::Result<Self> {
        let seed = Seed::random();
        let full = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let least = sessions.max(1024) * 7 / 4;
        Ok(Self {
            lines: Lines::with_capacity(sessions * lines)?,
            filters: SharedFilters::new(seed)?,
            by_teid: BulkMap::with_capacity(least, seed).map_err(full)?,
            by_v4: ByInstance::new(least, seed),
            by_v6: ByInstance::new(least, seed),
            by_route: Routes::default(),
            places: Chunks::with_capacity(sessions),
            keys: Chunks::with_capacity(sessions),
            count: 0,
            generation: 0,
            reached: Vec::with_capacity(REACHED),
            born: 0,
            room: Room::default(),
            kernel: None,
            inherits: None,
        })
    }

    /// Makes room for `sessions` sessions in all, as far as there is memory: they come in quicker then.
    pub fn reserve(&mut self, sessions: usize) {
        let keys = sessions * 7 / 4;
        // Without room they grow.
        let _ = self.by_teid.reserve(keys);
        let _ = self.by_v4.reserve(keys).and_then(|()| self.by_v6.reserve(keys));
    }

    /// From now on no session is taken in that needs more than that; those there are stay.
    pub fn set_room(&mut self, room: Room) {
        self.room = room;
    }

    /// Sessions in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of records in use, of the filters they share and of the indexes that lead to them.
    pub fn bytes(&self) -> usize {
        let indexes = self.by_teid.bytes() + self.by_v4.bytes() + self.by_v6.bytes() + self.by_route.bytes();
        let kept = self.filters.bytes() + self.places.bytes() + self.keys.bytes();
        self.lines.in_use() * record::LINE + indexes + kept
    }

    /// Takes in a new session, or replaces the rules of the one with that handle: buckets and usage of rules that stay
    /// (by their IDs) are carried over. Nothing is changed when it is refused.
    ///
    /// # Errors
    /// [`Refused`]: memory, or a key that leads to another session.
    pub fn install(&mut self, handle: u32, compiled: &Compiled, now: u64) -> Result<(), Refused> {
        let at = handle as usize;
        self.places.fill(at + 1, || None);
        self.keys.fill(at + 1, Keys::default);
        self.check_keys(handle, compiled, self.places[at])?;
        let filters = self.take_filters(compiled)?;
        let is_new = self.places[at].is_none();
        let may_return = is_new || self.has_left_nothing(handle);
        self.leave_kernel(handle);
        let result = self.replace(handle, compiled, filters, now);
        // With its new rules, or, if they were refused, with the old ones: at once, or behind packets that were left.
        match may_return && (is_new || self.is_linked(handle)) {
            true => self.enter_kernel(handle),
            false => self.begin_to_enter(handle),
        }
        if result.is_err() {
            filters.into_iter().for_each(|list| self.filters.release(list));
        }
        result
    }

    /// Names the filters of either direction, all or none.
    fn take_filters(&mut self, compiled: &Compiled) -> Result<[QuadList; 2], Refused> {
        let [up, down] = &compiled.filters;
        let up = self.filters.take(up)?;
        let down = self.filters.take(down).inspect_err(|_| self.filters.release(up))?;
        Ok([up, down])
    }

    fn replace(&mut self, handle: u32, compiled: &Compiled, filters: [QuadList; 2], now: u64) -> Result<(), Refused> {
        let at = handle as usize;
        let old = self.places[at];
        let count = compiled.lines.len();
        // While rules change there are both records.
        if self.lines.in_use() + self.filters.in_use() + count > self.room.lines {
            return Err(Refused::NoRecord);
        }
        let line = match self.lines.alloc(count) {
            Some(line) => line,
            None => {
                self.lines.grow(count).map_err(|_| Refused::NoRecord)?;
                self.lines.alloc(count).ok_or(Refused::NoRecord)?
            }
        };
        self.generation = self.generation.wrapping_add(1);
        if let Some(record) = self.lines.get_mut(line, count) {
            record.copy_from_slice(&compiled.lines);
            start_buckets(record, now);
            for (head, filters) in record::heads_mut(record).into_iter().flatten().zip(filters) {
                (head.generation, head.handle, head.filters) = (self.generation, handle, filters);
            }
        }
        let born = old.map_or_else(|| self.born.wrapping_add(1), |old| old.born);
        let keys = Keys::of(compiled);
        if !keys.lead_alike(&self.keys[at]) {
            // The program's index leads to it again when it goes back into the kernel.
            self.unlink_kernel(at);
        }
        let kernel = self.places[at].map_or_else(InKernel::default, |old| old.kernel);
        let place = Place { line, lines: count as u8, born, kernel };
        if let Err(why) = self.relink(at, keys, line, old.map(|old| old.line)) {
            self.lines.free(line, count);
            return Err(why);
        }
        if let Some(old) = old {
            self.carry_over(old, place, now);
            self.give_back(old);
        }
        self.reroute(at, &compiled.routes);
        if let Some(record) = self.lines.get_mut(line, count) {
            arm(record);
        }
        self.places[at] = Some(place);
        if old.is_none() {
            (self.born, self.count) = (born, self.count + 1);
        }
        Ok(())
    }

    /// Gives a record's lines and filters back. A held packet may still name its place; a generation that is none tells it.
    fn give_back(&mut self, place: Place) {
        if let Some(record) = self.lines.get_mut(place.line, place.lines.into()) {
            for head in record::heads_mut(record).into_iter().flatten() {
                self.filters.release(std::mem::replace(head, FromZeros::new_zeroed()).filters);
            }
        }
        self.lines.free(place.line, place.lines.into());
    }

    /// Takes a session out; returns what its URRs measured last.
    ///
    /// # Errors
    /// [`Refused::Unknown`].
    pub fn remove(&mut self, handle: u32, now: u64) -> Result<Vec<Usage>, Refused> {
        self.leave_kernel(handle);
        let usage = self.usage(handle, now).ok_or(Refused::Unknown)?;
        self.take_out(handle as usize);
        Ok(usage)
    }

    fn take_out(&mut self, at: usize) {
        self.reroute(at, &[]);
        self.unlink_kernel(at);
        let keys = std::mem::take(&mut self.keys[at]);
        self.unlink(&keys, &Keys::default());
        if let Some(place) = self.places[at].take() {
            self.give_back(place);
            self.count -= 1;
        }
    }

    /// The lines of a session's record, with what the program in the kernel has counted so far.
    fn lines_of(&self, handle: u32) -> Option<Cow<'_, [Line]>> {
        let place = self.places.get(handle as usize).copied().flatten()?;
        let lines = self.lines.get(place.line, place.lines.into())?;
        Some(self.with_kernels(handle, place, lines))
    }

    /// The record and generation of a session, for references that may outlive it.
    pub fn find(&self, handle: u32) -> Option<(LineId, u32)> {
        let place = self.places.get(handle as usize).copied().flatten()?;
        let head = record::head(self.lines.get(place.line, 1)?)?;
        Some((place.line, head.generation))
    }

    /// A number that stays while a session's rules change, and differs from those of earlier sessions of its handle.
    pub fn born(&self, handle: u32) -> u16 {
        self.places.get(handle as usize).copied().flatten().map_or(0, |place| place.born)
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
