//! A worker's sessions: the records and the indexes that lead to them.

use std::io;

use stages::forward::InstanceId;
use table::bucket;
use table::bulk::{BulkMap, Hash, Seed};
use table::records::{Line, LineId, Lines, Window};
use zerocopy::{FromBytes, IntoBytes};

use crate::by_instance::ByInstance;
use crate::compile::Compiled;
use crate::record::{self, Action, Bounds, Head, Meter, PacketQuota, Row, Tally};
use crate::routes::{Route, Routes};
use crate::rules::{Credit, Usage};

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
    /// Tells the session from others that had its handle.
    born: u16,
}

/// All sessions of one worker. Only the worker touches it.
pub struct Sessions {
    lines: Lines,
    by_teid: BulkMap<u32, u32>,
    by_v4: ByInstance<u32>,
    by_v6: ByInstance<u64>,
    /// To handles, which stay while rules change.
    by_route: Routes,
    places: Vec<Option<Place>>,
    keys: Vec<Keys>,
    count: usize,
    generation: u32,
    born: u16,
    /// Sessions that reached a bound on their usage, for control to hear.
    reached: Vec<u32>,
}

/// Sessions that may have reached a bound before control is told; those beyond are noticed with their next packet.
const REACHED: usize = 256;

/// What leads to a session; kept for taking it out again.
#[derive(Clone, Default)]
struct Keys {
    teids: TeidList,
    ue4: Option<(InstanceId, u32)>,
    ue6: Option<(InstanceId, u64)>,
    routes: Box<[Route]>,
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
        let least = sessions.max(1024) * 7 / 4;
        Ok(Self {
            lines: Lines::with_capacity(sessions * lines)?,
            by_teid: BulkMap::with_capacity(least, seed).map_err(full)?,
            by_v4: ByInstance::new(least, seed),
            by_v6: ByInstance::new(least, seed),
            by_route: Routes::default(),
            places: Vec::with_capacity(sessions),
            keys: Vec::with_capacity(sessions),
            count: 0,
            generation: 0,
            reached: Vec::with_capacity(REACHED),
            born: 0,
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
        let indexes = self.by_teid.bytes() + self.by_v4.bytes() + self.by_v6.bytes() + self.by_route.bytes();
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
        if self.places.len() <= at {
            self.places.resize(at + 1, None);
            self.keys.resize(at + 1, Keys::default());
        }
        let old = self.places[at];
        self.check_keys(handle, compiled, old)?;
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
        let born = old.map_or_else(|| self.born.wrapping_add(1), |old| old.born);
        let place = Place { line, lines: count as u8, born };
        if let Some(old) = old {
            self.carry_over(old, place, now);
            self.unlink(at);
            self.lines.free(old.line, old.lines.into());
        }
        self.reroute(at, &compiled.routes);
        if let Some(record) = self.lines.get_mut(line, count) {
            arm(record);
        }
        self.places[at] = Some(place);
        if old.is_none() {
            (self.born, self.count) = (born, self.count + 1);
        }
        let keys = &mut self.keys[at];
        (keys.teids, keys.ue4, keys.ue6) = (TeidList::new(&compiled.teids), compiled.ue4, compiled.ue6);
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
    pub fn remove(&mut self, handle: u32, now: u64) -> Result<Vec<Usage>, Refused> {
        let usage = self.usage(handle, now).ok_or(Refused::Unknown)?;
        self.take_out(handle as usize);
        Ok(usage)
    }

    fn take_out(&mut self, at: usize) {
        self.unlink(at);
        self.reroute(at, &[]);
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

    /// What a session's URRs have measured up to `now`.
    pub fn usage(&self, handle: u32, now: u64) -> Option<Vec<Usage>> {
        let lines = self.lines_of(handle)?;
        Some(usages(lines, now).collect())
    }

    /// As [`usage`](Self::usage), into as much room as there is.
    pub fn usage_into(&self, handle: u32, now: u64, into: &mut Vec<Usage>) {
        let room = into.capacity();
        into.clear();
        into.extend(self.lines_of(handle).into_iter().flat_map(|lines| usages(lines, now)).take(room));
    }

    /// What a session's QERs let pass at `now`, of those that limit anything.
    pub fn credits(&self, handle: u32, now: u64) -> Vec<Credit> {
        let lines = self.lines_of(handle).unwrap_or_default();
        let rows = record::head(lines).map_or(&[][..], |head| record::rows(lines, head).0);
        let both = rows.iter().flat_map(|row| [(row, row.up, true), (row, row.down, false)]);
        let credit = |(row, at, is_uplink): (&Row, u8, bool)| {
            let line = lines.get(usize::from(at) / record::CELLS).filter(|_| at != 0)?;
            let (left, of) = if row.limits != 0 {
                let quota = record::cell::<PacketQuota>(line, at).filter(|quota| quota.period_ns > 0)?;
                let passed = if now < quota.ends_ns { quota.passed } else { 0 };
                (quota.most.saturating_sub(passed).into(), quota.most.into())
            } else {
                let meter = record::cell::<Meter>(line, at)?;
                let full = bucket::State::full(&meter.config, now);
                let left = bucket::bytes_left(&meter.config, &meter.state, now);
                (left, bucket::bytes_left(&meter.config, &full, now))
            };
            Some(Credit { qer: row.id, is_uplink, packets: row.limits != 0, left, of })
        };
        both.filter_map(credit).collect()
    }

    fn lines_of(&self, handle: u32) -> Option<&[Line]> {
        let place = self.places.get(handle as usize).copied().flatten()?;
        self.lines.get(place.line, place.lines.into())
    }

    /// A URR has reported: its first packet is the next one, and these are its bounds. One that had none when its session
    /// was compiled keeps none.
    pub fn reported(&mut self, handle: u32, urr: u32, bounds: Bounds) {
        let Some(place) = self.places.get(handle as usize).copied().flatten() else { return };
        let Some(lines) = self.lines.get_mut(place.line, place.lines.into()) else { return };
        let Some(head) = record::head(lines).copied() else { return };
        let row = record::rows(lines, &head).1.iter().find(|row| row.id == urr).copied();
        let Some(row) = row else { return };
        for at in [row.up, row.down] {
            let line = lines.get_mut(usize::from(at) / record::CELLS);
            if let Some(tally) = line.and_then(|line| record::cell_mut::<Tally>(line, at)) {
                tally.first = 0;
            }
        }
        if let Some(line) = lines.get_mut(usize::from(row.bounds)).filter(|_| row.bounds != 0) {
            *line = zerocopy::transmute!(bounds);
        }
        rearm(lines, &row);
    }

    /// A count has come to where its URR's bounds are to be looked at. False when the packet just counted (of `bytes`
    /// bytes, in those cells) is beyond a quota: it is counted no more. Off the usual path: some twenty times per quota.
    #[cold]
    pub fn at_bounds(&mut self, id: LineId, cells: [u8; 2], bytes: u64) -> bool {
        let Some(head) = self.head(id).copied() else { return true };
        let Some(lines) = self.lines.get_mut(id, head.lines.into()) else { return true };
        let mut passes = true;
        for n in 0..usize::from(head.urrs) {
            let Some(row) = record::rows(lines, &head).1.get(n).copied() else { continue };
            let cell = cells.into_iter().find(|cell| *cell != 0 && (*cell == row.up || *cell == row.down));
            let (Some(cell), Some(mut bounds)) = (cell, bounds_of(lines, &row)) else { continue };
            let [up, down] = counts(lines, &row);
            // What came before this packet decides whether it may pass.
            let before = if cell == row.up { (up - bytes, down) } else { (up, down - bytes) };
            passes &= !bounds.is_spent(before.0, before.1);
            let news = bounds.news(up, down);
            if news != 0 && self.reached.len() < self.reached.capacity() {
                self.reached.push(head.handle);
                bounds.told |= news;
                if let Some(line) = lines.get_mut(usize::from(row.bounds)) {
                    *line = zerocopy::transmute!(bounds);
                }
            }
            rearm(lines, &row);
        }
        if !passes {
            for cell in cells.into_iter().filter(|cell| *cell != 0) {
                let line = lines.get_mut(usize::from(cell) / record::CELLS);
                if let Some(tally) = line.and_then(|line| record::cell_mut::<Tally>(line, cell)) {
                    tally.bytes -= bytes;
                    tally.packets -= 1;
                }
            }
        }
        passes
    }

    /// Whether limits on the number of packets, those that `flags` ([`match_flags`](record::match_flags)) name, let one
    /// more pass; it counts for all of them then, and for none else.
    #[cold]
    pub fn take_packet(&mut self, id: LineId, flags: u16, now: u64) -> bool {
        let mut refused = None;
        let mut n = 0;
        self.each_limit(id, flags, |quota| {
            if refused.is_none() && !quota.take(now) {
                refused = Some(n);
            }
            n += 1;
        });
        // Those before the one that refused have counted it.
        let Some(refused) = refused else { return true };
        let mut n = 0;
        self.each_limit(id, flags, |quota| {
            quota.passed -= u32::from(n < refused && quota.period_ns > 0);
            n += 1;
        });
        false
    }

    /// A packet that [`take_packet`](Self::take_packet) let pass does not pass after all.
    #[cold]
    pub fn give_packet_back(&mut self, id: LineId, flags: u16) {
        self.each_limit(id, flags, |quota| quota.passed -= u32::from(quota.period_ns > 0));
    }

    /// Every limit that `flags` name, in order.
    fn each_limit(&mut self, id: LineId, flags: u16, mut then: impl FnMut(&mut PacketQuota)) {
        let Some(head) = self.head(id).copied() else { return };
        let Some(lines) = self.lines.get_mut(id, head.lines.into()) else { return };
        for n in 0..record::MAX_LIMITED {
            if flags & record::match_flags::LIMITED << n == 0 {
                continue;
            }
            let mut limits = record::rows(lines, &head).0.iter().filter(|row| row.limits != 0);
            let Some(row) = limits.nth(n) else { continue };
            let at = if flags & record::match_flags::LIMITED_DOWN == 0 { row.up } else { row.down };
            let line = lines.get_mut(usize::from(at) / record::CELLS);
            if let Some(quota) = line.and_then(|line| record::cell_mut::<PacketQuota>(line, at)) {
                then(quota);
            }
        }
    }

    /// The next session that reached a bound.
    pub fn take_reached(&mut self) -> Option<u32> {
        self.reached.pop()
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

    /// First half of a lookup by TEID: asks for the bucket.
    #[inline]
    pub fn prefetch_teid(&self, teid: u32) -> Hash {
        self.by_teid.prefetch(teid)
    }

    /// Second half: the record, which is asked for in turn.
    #[inline(always)]
    pub fn get_teid(&self, hash: Hash, teid: u32) -> Option<LineId> {
        self.ahead(self.by_teid.get_hashed(hash, teid))
    }

    /// The index of a network's IPv4 addresses, for the halves of a lookup. The same for all of a burst.
    #[inline(always)]
    pub fn index4(&self, instance: InstanceId) -> Option<&BulkMap<u32, u32>> {
        self.by_v4.of(instance)
    }

    /// First half of a lookup by IPv4 address.
    #[inline(always)]
    pub fn prefetch_v4(index: Option<&BulkMap<u32, u32>>, address: u32) -> Hash {
        index.map_or(Hash::default(), |index| index.prefetch(address))
    }

    /// Second half.
    #[inline(always)]
    pub fn get_v4(&self, index: Option<&BulkMap<u32, u32>>, hash: Hash, address: u32) -> Option<LineId> {
        self.ahead(index?.get_hashed(hash, address))
    }

    /// First half of a lookup by IPv6 prefix.
    #[inline]
    pub fn prefetch_v6(&self, instance: InstanceId, prefix: u64) -> Hash {
        self.by_v6.of(instance).map_or(Hash::default(), |index| index.prefetch(prefix))
    }

    /// Second half.
    #[inline]
    pub fn get_v6(&self, hash: Hash, instance: InstanceId, prefix: u64) -> Option<LineId> {
        self.ahead(self.by_v6.of(instance)?.get_hashed(hash, prefix))
    }

    /// The session of an IPv4 address that is no subscriber's own, by the networks behind subscribers. Off the usual path.
    #[cold]
    pub fn behind4(&self, instance: InstanceId, address: u32) -> Option<LineId> {
        self.place_of(self.by_route.find4(instance, address)?)
    }

    /// As [`behind4`](Self::behind4), of an IPv6 address.
    #[cold]
    pub fn behind6(&self, instance: InstanceId, address: u128) -> Option<LineId> {
        self.place_of(self.by_route.find6(instance, address)?)
    }

    fn place_of(&self, handle: u32) -> Option<LineId> {
        self.places.get(handle as usize).copied().flatten().map(|place| place.line)
    }

    /// Whether an IPv4 address is of a network behind the subscriber of that record, and no other subscriber's own.
    #[cold]
    pub fn is_behind4(&self, id: LineId, instance: InstanceId, address: u32) -> bool {
        self.behind4(instance, address) == Some(id) && self.by_v4.get(instance, address).is_none()
    }

    /// As [`is_behind4`](Self::is_behind4), of an IPv6 address.
    #[cold]
    pub fn is_behind6(&self, id: LineId, instance: InstanceId, address: u128) -> bool {
        self.behind6(instance, address) == Some(id) && self.by_v6.get(instance, (address >> 64) as u64).is_none()
    }

    #[inline(always)]
    fn ahead(&self, found: Option<u32>) -> Option<LineId> {
        let id = LineId(found?);
        self.prefetch_pair(id, record::HEAD_PAIR);
        Some(id)
    }

    /// Asks for a pair of a record's lines. Two lines cost no more than one (memory is read by the 128 bytes), but each
    /// pair beyond what a core can wait for at a time costs 20 ns and more: so stages ask in turn, while others compute,
    /// rather than for all at once. The first pair comes with the lookup.
    #[inline(always)]
    pub fn prefetch_pair(&self, id: LineId, pair: usize) {
        self.lines.prefetch(id, pair * 2);
        self.lines.prefetch(id, pair * 2 + 1);
    }

    /// The record at a place a lookup returned.
    #[inline]
    pub fn record(&self, id: LineId) -> Option<&[Line]> {
        let head = record::head(self.lines.get(id, 1)?)?;
        self.lines.get(id, head.lines.into())
    }

    /// The record at a place a lookup returned, to be read by the views in [`mod@record`].
    #[inline(always)]
    pub fn window(&self, id: LineId) -> Option<&Window> {
        self.lines.window(id)
    }

    /// As [`window`](Self::window), to change cells whose positions one of the record's own rules named.
    #[inline(always)]
    pub fn window_mut(&mut self, id: LineId) -> Option<&mut Window> {
        self.lines.window_mut(id)
    }

    /// The head of a record.
    #[inline(always)]
    pub fn head(&self, id: LineId) -> Option<&Head> {
        self.window(id).map(record::head_in)
    }

    /// The action at a position of a record.
    #[inline(always)]
    pub fn action(&self, id: LineId, at: u8) -> Option<&Action> {
        self.window(id).map(|window| &record::actions_in(window)[usize::from(at)])
    }

    fn check_keys(&self, handle: u32, compiled: &Compiled, old: Option<Place>) -> Result<(), Refused> {
        let mine = old.map(|place| place.line.0);
        if compiled.routes.iter().any(|route| self.by_route.get(route).is_some_and(|owner| owner != handle)) {
            return Err(Refused::InUse);
        }
        let other = |found: Option<u32>| found.is_some() && found != mine;
        let taken = compiled.teids.iter().any(|teid| other(self.by_teid.get(*teid)))
            || compiled.ue4.is_some_and(|(n, a)| other(self.by_v4.get(n, a)))
            || compiled.ue6.is_some_and(|(n, p)| other(self.by_v6.get(n, p)));
        if taken { Err(Refused::InUse) } else { Ok(()) }
    }

    fn link(&mut self, at: usize, line: LineId) -> Result<(), Refused> {
        let keys = &self.keys[at];
        for teid in keys.teids.as_slice() {
            self.by_teid.insert(*teid, line.0).map_err(|_| Refused::NoIndex)?;
        }
        if let Some((instance, address)) = keys.ue4 {
            self.by_v4.insert(instance, address, line.0).map_err(|_| Refused::NoIndex)?;
        }
        if let Some((instance, prefix)) = keys.ue6 {
            self.by_v6.insert(instance, prefix, line.0).map_err(|_| Refused::NoIndex)?;
        }
        Ok(())
    }

    /// Replaces the networks that lead to a session, if they change: rarely, and short prefixes take their time.
    fn reroute(&mut self, at: usize, routes: &[Route]) {
        let old = &mut self.keys[at].routes;
        if **old == *routes {
            return;
        }
        old.iter().for_each(|route| self.by_route.remove(route));
        routes.iter().for_each(|route| self.by_route.insert(route, at as u32)); // a handle
        *old = routes.into();
    }

    fn unlink(&mut self, at: usize) {
        let keys = &mut self.keys[at];
        let (teids, ue4, ue6) = (std::mem::take(&mut keys.teids), keys.ue4.take(), keys.ue6.take());
        for teid in teids.as_slice() {
            self.by_teid.remove(*teid);
        }
        if let Some((instance, address)) = ue4 {
            self.by_v4.remove(instance, address);
        }
        if let Some((instance, prefix)) = ue6 {
            self.by_v6.remove(instance, prefix);
        }
    }

    /// Copies the state of rules that both records have, by rule ID: credit earned so far at the old rate, and usage.
    fn carry_over(&mut self, old: Place, new: Place, now: u64) {
        let Some(before) = self.lines.get(old.line, old.lines.into()).map(<[Line]>::to_vec) else { return };
        let Some(after) = self.lines.get_mut(new.line, new.lines.into()) else { return };
        let (Some(was), Some(is)) = (record::head(&before).copied(), record::head(after).copied()) else { return };
        let (old_qers, old_urrs) = record::rows(&before, &was);
        let (new_qers, new_urrs) = record::rows(after, &is);
        let (new_qers, new_urrs) = (new_qers.to_vec(), new_urrs.to_vec());
        let pairs = |from: &[Row], to: &[Row]| -> Vec<(u8, u8)> {
            let same = |old: &Row, row: &Row| old.id == row.id && old.limits == row.limits;
            let find = |row: &Row| from.iter().find(|old| same(old, row)).map(|old| (*old, *row));
            let both = to.iter().filter_map(find).flat_map(|(old, new)| [(old.up, new.up), (old.down, new.down)]);
            // Without a limit before, credit begins full.
            both.filter(|(from, to)| *from != 0 && *to != 0).collect()
        };
        let line = |at: u8| usize::from(at) / record::CELLS;
        let of = |rows: &[Row], limits: bool| -> Vec<Row> {
            rows.iter().filter(|row| (row.limits != 0) == limits).copied().collect()
        };
        for (from, to) in pairs(&of(old_qers, true), &of(&new_qers, true)) {
            let old = before.get(line(from)).and_then(|l| record::cell::<PacketQuota>(l, from));
            let new = after.get_mut(line(to)).and_then(|l| record::cell_mut::<PacketQuota>(l, to));
            if let (Some(old), Some(new)) = (old, new) {
                // Another period begins anew.
                if old.period_ns == new.period_ns {
                    (new.passed, new.ends_ns) = (old.passed, old.ends_ns);
                }
            }
        }
        for (from, to) in pairs(&of(old_qers, false), &of(&new_qers, false)) {
            let old = before.get(line(from)).and_then(|l| record::cell::<Meter>(l, from));
            let new = after.get_mut(line(to)).and_then(|l| record::cell_mut::<Meter>(l, to));
            if let (Some(old), Some(new)) = (old, new) {
                let mut state = old.state;
                bucket::retune(&old.config, &new.config, &mut state, now);
                new.state = state;
            }
        }
        for (from, to) in pairs(old_urrs, &new_urrs) {
            let old = before.get(line(from)).and_then(|l| record::cell::<Tally>(l, from));
            let new = after.get_mut(line(to)).and_then(|l| record::cell_mut::<Tally>(l, to));
            if let (Some(old), Some(new)) = (old, new) {
                *new = Tally { trip: u64::MAX, ..*old };
            }
        }
    }
}

/// Has the counts of a record, not yet installed, begin where those of an earlier run ended.
pub fn set_counts(lines: &mut [Line], counted: &[Usage]) {
    let Some(head) = record::head(lines).copied() else { return };
    for n in 0..usize::from(head.urrs) {
        let Some(row) = record::rows(lines, &head).1.get(n).copied() else { continue };
        let Some(usage) = counted.iter().find(|usage| usage.urr == row.id) else { continue };
        let counts = [(row.up, usage.up_bytes, usage.up_packets), (row.down, usage.down_bytes, usage.down_packets)];
        for (at, bytes, packets) in counts {
            let line = lines.get_mut(usize::from(at) / record::CELLS);
            if let Some(tally) = line.and_then(|line| record::cell_mut::<Tally>(line, at)) {
                (tally.bytes, tally.packets) = (bytes, packets);
            }
        }
    }
}

/// What the URRs of a record have measured up to `now`.
fn usages(lines: &[Line], now: u64) -> impl Iterator<Item = Usage> + '_ {
    let urrs = record::head(lines).map_or(&[][..], |head| record::rows(lines, head).1);
    urrs.iter().filter_map(move |row| {
        let (up, down) = (tally(lines, row.up)?, tally(lines, row.down)?);
        let time = |stamp| record::unstamp(stamp, now);
        let first = [time(up.first), time(down.first)].into_iter().filter(|ns| *ns > 0).min();
        Some(Usage {
            urr: row.id,
            up_bytes: up.bytes,
            down_bytes: down.bytes,
            up_packets: up.packets,
            down_packets: down.packets,
            first_ns: first.unwrap_or(0),
            last_ns: time(up.last).max(time(down.last)),
        })
    })
}

fn tally(lines: &[Line], at: u8) -> Option<Tally> {
    record::cell::<Tally>(lines.get(usize::from(at) / record::CELLS)?, at).copied()
}

/// The octets a URR has counted, from and to the subscriber.
fn counts(lines: &[Line], row: &Row) -> [u64; 2] {
    [row.up, row.down].map(|at| tally(lines, at).map_or(0, |tally| tally.bytes))
}

fn bounds_of(lines: &[Line], row: &Row) -> Option<Bounds> {
    let line = lines.get(usize::from(row.bounds)).filter(|_| row.bounds != 0)?;
    Bounds::read_from_bytes(line.as_bytes()).ok()
}

/// Sets the counts at which a URR's bounds are to be looked at next.
fn rearm(lines: &mut [Line], row: &Row) {
    let [up, down] = counts(lines, row);
    let trips = bounds_of(lines, row).map_or([u64::MAX; 2], |bounds| bounds.trips(up, down));
    for (at, trip) in [row.up, row.down].into_iter().zip(trips) {
        let line = lines.get_mut(usize::from(at) / record::CELLS);
        if let Some(tally) = line.and_then(|line| record::cell_mut::<Tally>(line, at)) {
            tally.trip = trip;
        }
    }
}

/// Sets all URRs' counts at which to look.
fn arm(lines: &mut [Line]) {
    let Some(head) = record::head(lines).copied() else { return };
    for n in 0..usize::from(head.urrs) {
        let row = record::rows(lines, &head).1.get(n).copied();
        if let Some(row) = row.filter(|row| row.bounds != 0) {
            rearm(lines, &row);
        }
    }
}

/// Buckets begin full, now.
fn start_buckets(lines: &mut [Line], now: u64) {
    let Some(head) = record::head(lines).copied() else { return };
    let buckets = record::rows(lines, &head).0.iter().filter(|row| row.limits == 0);
    let cells: Vec<u8> = buckets.flat_map(|row| [row.up, row.down]).collect();
    for at in cells.into_iter().filter(|at| *at != 0) {
        let line = lines.get_mut(usize::from(at) / record::CELLS);
        if let Some(meter) = line.and_then(|l| record::cell_mut::<Meter>(l, at)) {
            meter.state.last_ns = now;
        }
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
