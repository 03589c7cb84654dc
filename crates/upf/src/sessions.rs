//! A worker's sessions: the records and the indexes that lead to them.

use std::io;

use stages::forward::InstanceId;
use table::bucket;
use table::bulk::{BulkMap, Hash, Seed};
use table::records::{Line, LineId, Lines};
use zerocopy::{FromBytes, IntoBytes};

use crate::compile::Compiled;
use crate::record::{self, Head, Meters, Tally};
use crate::rules::Usage;

/// Why a session can not be taken in.
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
}

/// All sessions of one worker. Only the worker touches it.
pub struct Sessions {
    lines: Lines,
    by_teid: BulkMap<u32, u32>,
    by_v4: BulkMap<(u32, u32), u32>,
    by_v6: BulkMap<(u32, u64), u32>,
    places: Vec<Option<Place>>,
    keys: Vec<Keys>,
    count: usize,
    generation: u32,
}

/// What leads to a session; kept for taking it out again.
#[derive(Clone, Default)]
struct Keys {
    teids: TeidList,
    ue4: Option<(InstanceId, u32)>,
    ue6: Option<(InstanceId, u64)>,
}

/// Most sessions have one or two tunnel endpoints; those need no allocation.
#[derive(Clone)]
enum TeidList {
    Few([u32; 2], u8),
    Many(Box<[u32]>),
}

impl Default for TeidList {
    fn default() -> Self {
        Self::Few([0; 2], 0)
    }
}

impl TeidList {
    fn new(list: &[u32]) -> Self {
        match *list {
            [] => Self::default(),
            [a] => Self::Few([a, 0], 1),
            [a, b] => Self::Few([a, b], 2),
            _ => Self::Many(list.into()),
        }
    }

    fn as_slice(&self) -> &[u32] {
        match self {
            Self::Few(list, count) => &list[..usize::from(*count)],
            Self::Many(list) => list,
        }
    }
}

impl Sessions {
    /// Room for `sessions` sessions with records of `lines` lines each and two tunnel endpoints; more come in as long
    /// as memory can be had.
    ///
    /// # Errors
    /// When that much memory is not to be had.
    pub fn with_capacity(sessions: usize, lines: usize) -> io::Result<Self> {
        let seed = Seed::random();
        let full = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let least = sessions.max(1024);
        Ok(Self {
            lines: Lines::with_capacity(sessions * lines)?,
            by_teid: BulkMap::with_capacity(least, seed).map_err(full)?,
            by_v4: BulkMap::with_capacity(least, seed).map_err(full)?,
            by_v6: BulkMap::with_capacity(1024, seed).map_err(full)?,
            places: Vec::with_capacity(sessions),
            keys: Vec::with_capacity(sessions),
            count: 0,
            generation: 0,
        })
    }

    /// Sessions in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of records in use and of the indexes that lead to them.
    pub fn bytes(&self) -> usize {
        let indexes = self.by_teid.bytes() + self.by_v4.bytes() + self.by_v6.bytes();
        let places = self.places.capacity() * size_of::<Option<Place>>() + self.keys.capacity() * size_of::<Keys>();
        self.lines.in_use() * record::LINE + indexes + places
    }

    /// Takes in a new session, or replaces the rules of the one with that handle: buckets and usage of rules that stay
    /// (by their IDs) are carried over. Nothing is changed when it is refused.
    ///
    /// # Errors
    /// [`Refused`]: memory, or a key that leads to another session.
    pub fn install(&mut self, handle: u32, compiled: &Compiled, now: u64) -> Result<(), Refused> {
        let at = handle as usize;
        let old = self.places.get(at).copied().flatten();
        self.check_keys(compiled, old)?;
        let count = compiled.lines.len();
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
            if let Some(first) = record.first_mut()
                && let Ok((head, _)) = Head::mut_from_prefix(first.as_mut_bytes())
            {
                head.generation = self.generation;
                head.handle = handle;
            }
        }
        if let Some(old) = old {
            self.carry_over(old, Place { line, lines: count as u8 }, now);
            self.unlink(at);
            self.lines.free(old.line, old.lines.into());
        }
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
            self.keys.resize(at + 1, Keys::default());
        }
        self.places[at] = Some(Place { line, lines: count as u8 });
        self.count += usize::from(old.is_none());
        self.keys[at] = Keys { teids: TeidList::new(&compiled.teids), ue4: compiled.ue4, ue6: compiled.ue6 };
        if self.link(at, line).is_err() {
            self.take_out(at);
            return Err(Refused::NoIndex);
        }
        Ok(())
    }

    /// Takes a session out; returns what its URRs measured last.
    ///
    /// # Errors
    /// [`Refused::Unknown`].
    pub fn remove(&mut self, handle: u32) -> Result<Vec<Usage>, Refused> {
        let usage = self.usage(handle).ok_or(Refused::Unknown)?;
        self.take_out(handle as usize);
        Ok(usage)
    }

    fn take_out(&mut self, at: usize) {
        self.unlink(at);
        if let Some(place) = self.places[at].take() {
            // A held packet may still name this place; a generation that is none tells it.
            if let Some([first, ..]) = self.lines.get_mut(place.line, place.lines.into()) {
                *first = Line::ZERO;
            }
            self.lines.free(place.line, place.lines.into());
            self.count -= 1;
        }
        self.keys[at] = Keys::default();
    }

    /// What a session's URRs have measured so far.
    pub fn usage(&self, handle: u32) -> Option<Vec<Usage>> {
        let place = self.places.get(handle as usize).copied().flatten()?;
        let lines = self.lines.get(place.line, place.lines.into())?;
        let head = record::head(lines)?;
        let ids = ids(lines, head);
        let qers = usize::from(head.tallies - head.meters);
        let tally = |(n, urr): (usize, &u32)| {
            let tally: &Tally = record::view(lines.get(usize::from(head.tallies) + n)?)?;
            Some(Usage {
                urr: *urr,
                up_bytes: tally.up_bytes,
                down_bytes: tally.down_bytes,
                up_packets: tally.up_packets,
                down_packets: tally.down_packets,
                first_ns: tally.first_ns,
                last_ns: tally.last_ns,
            })
        };
        Some(ids.get(qers..).unwrap_or_default().iter().enumerate().filter_map(tally).collect())
    }

    /// The record and generation of a session, for references that may outlive it.
    pub fn find(&self, handle: u32) -> Option<(LineId, u32)> {
        let place = self.places.get(handle as usize).copied().flatten()?;
        let head = record::head(self.lines.get(place.line, 1)?)?;
        Some((place.line, head.generation))
    }

    /// First half of a lookup by TEID: asks for the bucket.
    #[inline]
    pub fn prefetch_teid(&self, teid: u32) -> Hash {
        self.by_teid.prefetch(teid)
    }

    /// Second half: the record, which is asked for in turn.
    #[inline]
    pub fn get_teid(&self, hash: Hash, teid: u32) -> Option<LineId> {
        self.ahead(self.by_teid.get_hashed(hash, teid))
    }

    /// First half of a lookup by IPv4 address.
    #[inline]
    pub fn prefetch_v4(&self, instance: InstanceId, address: u32) -> Hash {
        self.by_v4.prefetch((instance.into(), address))
    }

    /// Second half.
    #[inline]
    pub fn get_v4(&self, hash: Hash, instance: InstanceId, address: u32) -> Option<LineId> {
        self.ahead(self.by_v4.get_hashed(hash, (instance.into(), address)))
    }

    /// First half of a lookup by IPv6 prefix.
    #[inline]
    pub fn prefetch_v6(&self, instance: InstanceId, prefix: u64) -> Hash {
        self.by_v6.prefetch((instance.into(), prefix))
    }

    /// Second half.
    #[inline]
    pub fn get_v6(&self, hash: Hash, instance: InstanceId, prefix: u64) -> Option<LineId> {
        self.ahead(self.by_v6.get_hashed(hash, (instance.into(), prefix)))
    }

    #[inline]
    fn ahead(&self, found: Option<u32>) -> Option<LineId> {
        let id = LineId(found?);
        // Head and matches, and the first filters behind them.
        for line in 0..4 {
            self.lines.prefetch(id, line);
        }
        Some(id)
    }

    /// The record at a place a lookup returned.
    #[inline]
    pub fn record(&self, id: LineId) -> Option<&[Line]> {
        let head = record::head(self.lines.get(id, 1)?)?;
        self.lines.get(id, head.lines.into())
    }

    /// Asks for a line of a record.
    #[inline]
    pub fn prefetch_line(&self, id: LineId, line: usize) {
        self.lines.prefetch(id, line);
    }

    /// One line of a record.
    #[inline]
    pub fn line(&self, id: LineId, line: u8) -> Option<&Line> {
        self.lines.get(LineId(id.0 + u32::from(line)), 1)?.first()
    }

    /// One line of a record, to change.
    #[inline]
    pub fn line_mut(&mut self, id: LineId, line: u8) -> Option<&mut Line> {
        self.lines.get_mut(LineId(id.0 + u32::from(line)), 1)?.first_mut()
    }

    fn check_keys(&self, compiled: &Compiled, old: Option<Place>) -> Result<(), Refused> {
        let mine = old.map(|place| place.line.0);
        let other = |found: Option<u32>| found.is_some() && found != mine;
        let taken = compiled.teids.iter().any(|teid| other(self.by_teid.get(*teid)))
            || compiled.ue4.is_some_and(|(n, a)| other(self.by_v4.get((n.into(), a))))
            || compiled.ue6.is_some_and(|(n, p)| other(self.by_v6.get((n.into(), p))));
        if taken { Err(Refused::InUse) } else { Ok(()) }
    }

    fn link(&mut self, at: usize, line: LineId) -> Result<(), Refused> {
        let keys = &self.keys[at];
        for teid in keys.teids.as_slice() {
            self.by_teid.insert(*teid, line.0).map_err(|_| Refused::NoIndex)?;
        }
        if let Some((instance, address)) = keys.ue4 {
            self.by_v4.insert((instance.into(), address), line.0).map_err(|_| Refused::NoIndex)?;
        }
        if let Some((instance, prefix)) = keys.ue6 {
            self.by_v6.insert((instance.into(), prefix), line.0).map_err(|_| Refused::NoIndex)?;
        }
        Ok(())
    }

    fn unlink(&mut self, at: usize) {
        let keys = std::mem::take(&mut self.keys[at]);
        for teid in keys.teids.as_slice() {
            self.by_teid.remove(*teid);
        }
        if let Some((instance, address)) = keys.ue4 {
            self.by_v4.remove((instance.into(), address));
        }
        if let Some((instance, prefix)) = keys.ue6 {
            self.by_v6.remove((instance.into(), prefix));
        }
    }

    /// Copies the state of rules that both records have, by rule ID: credit earned so far at the old rate, and usage.
    fn carry_over(&mut self, old: Place, new: Place, now: u64) {
        let Some(before) = self.lines.get(old.line, old.lines.into()).map(<[Line]>::to_vec) else { return };
        let Some(after) = self.lines.get_mut(new.line, new.lines.into()) else { return };
        let (Some(was), Some(is)) = (record::head(&before).copied(), record::head(after).copied()) else { return };
        let old_ids = ids(&before, &was).to_vec();
        let new_ids = ids(after, &is).to_vec();
        let (old_qers, new_qers) = (usize::from(was.tallies - was.meters), usize::from(is.tallies - is.meters));
        for (n, id) in new_ids.iter().enumerate() {
            let is_qer = n < new_qers;
            let (range, base) = if is_qer { (0..old_qers, 0) } else { (old_qers..old_ids.len(), old_qers) };
            let Some(m) = old_ids[range].iter().position(|other| other == id) else { continue };
            if is_qer {
                let from = record::view::<Meters>(&before[usize::from(was.meters) + m]).copied();
                let to = record::view_mut::<Meters>(&mut after[usize::from(is.meters) + n]);
                if let (Some(from), Some(to)) = (from, to) {
                    for (from, to) in [(from.up, &mut to.up), (from.down, &mut to.down)] {
                        let mut state = from.state;
                        bucket::retune(&from.config, &to.config, &mut state, now);
                        to.state = state;
                    }
                }
            } else {
                debug_assert_eq!(base, old_qers);
                after[usize::from(is.tallies) + n - new_qers] = before[usize::from(was.tallies) + m];
            }
        }
    }
}

/// QER IDs, then URR IDs.
fn ids<'a>(lines: &'a [Line], head: &Head) -> &'a [u32] {
    let count = usize::from(head.ids - head.meters);
    let bytes = lines.as_bytes().get(usize::from(head.ids) * record::LINE..).unwrap_or_default();
    <[u32]>::ref_from_prefix_with_elems(bytes, count).map_or(&[], |(ids, _)| ids)
}

/// Buckets begin full, now.
fn start_buckets(lines: &mut [Line], now: u64) {
    let Some(head) = record::head(lines).copied() else { return };
    for line in &mut lines[usize::from(head.meters)..usize::from(head.tallies)] {
        if let Some(meters) = record::view_mut::<Meters>(line) {
            meters.up.state.last_ns = now;
            meters.down.state.last_ns = now;
        }
    }
}
