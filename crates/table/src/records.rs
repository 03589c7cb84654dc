//! Cache lines for session records.
//!
//! [`Lines`] hands out runs of 64-byte lines on huge pages, named by a 32-bit id that fits a lookup table's value.
//! Lines never move, hold no pointers and are viewed as the caller's own types through `zerocopy`, so a record of one
//! line costs one cache miss and a million of them cost 64 MB.

use std::fmt;
use std::io;
use std::ptr::NonNull;

use pages::{Backing, Region};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::hint::{is_large, prefetch_of};

/// One cache line of plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct Line(pub [u64; 8]);

impl Line {
    /// A line of zeroes.
    pub const ZERO: Self = Self([0; 8]);
}

/// The place of a record's first line. Plain data: copies are not tracked, and an id outlives its record as any index
/// does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(transparent)]
pub struct LineId(pub u32);

/// The longest record, in lines (4 KiB).
pub const MAX_RECORD: usize = 64;

/// A record's lines and whatever follows them: what one bounds check shows to be there.
pub type Window = [Line; MAX_RECORD];

/// Lines of a chunk: 2 MiB, a huge page. Memory comes in whole chunks.
const CHUNK: usize = if cfg!(miri) { 1 << 10 } else { 1 << 15 };
/// The least range of addresses a heap reserves, in lines (1 GiB), and how many times its first capacity.
const RESERVE: usize = if cfg!(miri) { 4 * CHUNK } else { 1 << 24 };
const RESERVE_TIMES: usize = if cfg!(miri) { 1 } else { 8 };
/// The most lines of a heap: ids must fit 32 bits.
const MOST: usize = (u32::MAX as usize) / CHUNK * CHUNK;
/// With that few lines left, in a chunk, another thread is asked for the pages of the next.
const NEARLY_OUT: usize = CHUNK / 2;
/// Ends a free list.
const NONE: u32 = u32::MAX;

/// A heap of [`Line`]s, owned by one worker.
///
/// The heap is one range of addresses, so that an id is a line's distance from its start. Memory for it comes in
/// chunks of 2 MiB when asked for ([`with_capacity`](Self::with_capacity), [`grow`](Self::grow)), never from
/// [`alloc`](Self::alloc); when a heap is nearly used up, another thread makes the pages of the next chunk present, so that
/// who grows it does not wait for them. Freed records are kept by length and used again for the same length, or split for shorter
/// ones; they are not merged, so a heap serves best with few different lengths.
pub struct Lines {
    /// First line of the region.
    base: NonNull<Line>,
    /// Lines with memory. The region is longer by at least a record.
    capacity: usize,
    region: Region,
    /// The length of the record that begins at each line; 0 where none does.
    lengths: Vec<u8>,
    /// First free run of each length; the next one's id is in its first word.
    free: [u32; MAX_RECORD + 1],
    /// The first line that was never allocated.
    fresh: usize,
    /// The next chunk's pages were asked for.
    asked: bool,
    in_use: usize,
}

// SAFETY: the pointer leads into the region this value owns; there is no thread affinity.
unsafe impl Send for Lines {}
// SAFETY: `&Lines` only reads.
unsafe impl Sync for Lines {}

impl Lines {
    /// A heap with room for at least `lines` lines, its pages present.
    ///
    /// # Errors
    /// Those of the mapping.
    pub fn with_capacity(lines: usize) -> io::Result<Self> {
        let least = lines.checked_next_multiple_of(CHUNK).filter(|&n| n <= MOST).ok_or(io::ErrorKind::OutOfMemory)?;
        pages::prepare_growth();
        // Addresses cost nothing, except on hosts that don't overcommit: be content with fewer there.
        let mut lines_reserved = (least * RESERVE_TIMES).clamp(RESERVE, MOST);
        let region = loop {
            match Region::reserve((lines_reserved + MAX_RECORD) * size_of::<Line>()) {
                Ok(region) => break region,
                Err(error) if lines_reserved <= least => return Err(error),
                Err(_) => lines_reserved = (lines_reserved / 2).max(least),
            }
        };
        // So that lengths don't have to move when there are more of them; where that is refused, they do.
        let mut lengths = Vec::new();
        let _ = lengths.try_reserve_exact(lines_reserved);
        let mut heap = Self {
            base: region.base().cast(),
            capacity: 0,
            region,
            lengths,
            free: [NONE; MAX_RECORD + 1],
            fresh: 0,
            asked: false,
            in_use: 0,
        };
        heap.grow(lines)?;
        Ok(heap)
    }

    /// Adds room for at least `lines` more lines, in whole chunks. What is there stays where it is.
    ///
    /// # Errors
    /// When there is no memory, or the addresses reserved at the start are used up: 1 GiB, or eight times the first
    /// capacity if that is more.
    pub fn grow(&mut self, lines: usize) -> io::Result<()> {
        let more = lines.checked_next_multiple_of(CHUNK).ok_or(io::ErrorKind::OutOfMemory)?;
        let room = self.region.len() / size_of::<Line>() - MAX_RECORD - self.capacity;
        if more > room {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.region.populate(self.capacity * size_of::<Line>(), more * size_of::<Line>())?;
        self.capacity += more;
        self.asked = false;
        self.lengths.resize(self.capacity, 0);
        Ok(())
    }

    /// Takes `n` adjoining lines, zeroed. `None` when no run of that length is left (or `n` is 0 or more than
    /// [`MAX_RECORD`]).
    pub fn alloc(&mut self, n: usize) -> Option<LineId> {
        if n == 0 || n > MAX_RECORD {
            return None;
        }
        let at = self.pop(n).or_else(|| self.take_fresh(n)).or_else(|| self.split(n))?;
        self.get_mut(LineId(at), n)?.fill(Line::ZERO);
        self.lengths[at as usize] = n as u8;
        self.in_use += n;
        Some(LineId(at))
    }

    /// Gives a record back.
    ///
    /// # Panics
    /// When no record of `n` lines begins at `id`: freed twice, or with the wrong length.
    pub fn free(&mut self, id: LineId, n: usize) {
        let length = self.lengths.get_mut(id.0 as usize);
        assert!(
            n != 0 && length.as_ref().is_some_and(|length| **length as usize == n),
            "no record of {n} lines at {id:?}: {length:?}"
        );
        length.into_iter().for_each(|length| *length = 0);
        self.in_use -= n;
        self.push(id.0, n);
    }

    /// Whether a record begins at `id`; the lines of others have no meaning.
    pub fn is_record(&self, id: LineId) -> bool {
        self.lengths.get(id.0 as usize).is_some_and(|length| *length != 0)
    }

    /// The `n` lines from `id`. `None` when they are not all in this heap; whether the record is still the one meant is
    /// the caller's affair.
    #[inline(always)]
    pub fn get(&self, id: LineId, n: usize) -> Option<&[Line]> {
        let first = self.locate(id, n)?;
        // SAFETY: `locate` checked that `n` lines from `first` lie in the region, which is mapped, initialised (zeroed,
        // then written as lines only) and ours; `&self` excludes writers.
        Some(unsafe { std::slice::from_raw_parts(first, n) })
    }

    /// The `n` lines from `id`, to change. `None` as in [`get`](Self::get).
    #[inline(always)]
    pub fn get_mut(&mut self, id: LineId, n: usize) -> Option<&mut [Line]> {
        let first = self.locate(id, n)?;
        // SAFETY: as in `get`; `&mut self` excludes everyone else.
        Some(unsafe { std::slice::from_raw_parts_mut(first, n) })
    }

    /// The record at `id` with all that may belong to it, to be viewed as arrays of the longest record's size: one
    /// comparison, and no other for any place in it. What lies behind the record's own lines is other records' or
    /// nobody's; the caller's positions keep apart what is whose. `None` as in [`get`](Self::get).
    #[inline(always)]
    pub fn window(&self, id: LineId) -> Option<&Window> {
        let first = self.locate(id, 1)?;
        // SAFETY: `first` is a line below the capacity and the region is longer than that by MAX_RECORD lines at least,
        // so the window lies in the region; the rest as in `get`.
        Some(unsafe { &*first.cast::<Window>() })
    }

    /// The record at `id` with all that may belong to it, to change. See [`window`](Self::window): writing behind the
    /// record's own lines spoils another record.
    #[inline(always)]
    pub fn window_mut(&mut self, id: LineId) -> Option<&mut Window> {
        let first = self.locate(id, 1)?;
        // SAFETY: as in `window`; `&mut self` excludes everyone else.
        Some(unsafe { &mut *first.cast::<Window>() })
    }

    /// Asks for the line `line` of the record at `id`. Harmless for ids that are none.
    #[inline(always)]
    pub fn prefetch(&self, id: LineId, line: usize) {
        prefetch_of(self.bytes_used(), self.base.as_ptr().wrapping_add(id.0 as usize + line).cast());
    }

    /// Whether there are so many lines that those of a record are likely in memory.
    #[inline(always)]
    pub fn are_many(&self) -> bool {
        is_large(self.bytes_used())
    }

    #[inline(always)]
    fn bytes_used(&self) -> usize {
        self.fresh * size_of::<Line>()
    }

    /// Lines in records now.
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// Lines there are.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of memory taken for lines.
    pub fn bytes(&self) -> usize {
        self.capacity * size_of::<Line>()
    }

    /// The pages the lines rest on; `None` for a heap without any.
    pub fn backing(&self) -> Option<Backing> {
        (self.capacity > 0).then(|| self.region.backing())
    }

    #[inline(always)]
    fn locate(&self, id: LineId, n: usize) -> Option<*mut Line> {
        let at = id.0 as usize;
        if at >= self.capacity || n > self.capacity - at {
            // Said, lest a place is chosen where a branch would be foretold.
            std::hint::cold_path();
            return None;
        }
        // SAFETY: `at` is below the capacity, inside the region.
        Some(unsafe { self.base.as_ptr().add(at) })
    }

    fn push(&mut self, at: u32, n: usize) {
        let next = self.free[n];
        if let Some([first, ..]) = self.get_mut(LineId(at), n) {
            first.0[0] = u64::from(next);
            self.free[n] = at;
        }
    }

    fn pop(&mut self, n: usize) -> Option<u32> {
        let at = self.free[n];
        if at == NONE {
            return None;
        }
        // Nobody writes to freed lines unless by a stale id; then the link is nonsense, and losing the rest of the
        // list is better than handing out lines that belong to others.
        let next = self.get(LineId(at), n).map_or(NONE, |run| run[0].0[0] as u32);
        let sound = next == NONE || self.lengths.get(next as usize) == Some(&0) && self.get(LineId(next), n).is_some();
        debug_assert!(sound, "a freed record was written to");
        self.free[n] = if sound { next } else { NONE };
        Some(at)
    }

    fn take_fresh(&mut self, n: usize) -> Option<u32> {
        if self.fresh + n > self.capacity {
            return None;
        }
        let at = self.fresh as u32;
        self.fresh += n;
        if self.capacity - self.fresh < NEARLY_OUT && !self.asked {
            self.asked = true;
            self.region.populate_ahead(self.capacity * size_of::<Line>(), CHUNK * size_of::<Line>());
        }
        Some(at)
    }

    fn split(&mut self, n: usize) -> Option<u32> {
        let longer = (n + 1..=MAX_RECORD).find(|&m| self.free[m] != NONE)?;
        let at = self.pop(longer)?;
        self.push(at + n as u32, longer - n);
        Some(at)
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lines({} of {} in use)", self.in_use, self.capacity())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zerocopy::{FromZeros, transmute_ref};

    use super::*;

    #[test]
    fn records_are_zeroed_apart_and_stay_put() {
        let mut heap = Lines::with_capacity(1).unwrap();
        assert_eq!((heap.capacity(), heap.in_use()), (CHUNK, 0));
        let a = heap.alloc(2).unwrap();
        let b = heap.alloc(1).unwrap();
        heap.get_mut(a, 2).unwrap().fill(Line([1; 8]));
        assert_eq!(heap.get(b, 1), Some(&[Line::ZERO][..]));
        heap.grow(CHUNK + 1).unwrap();
        assert_eq!((heap.capacity(), heap.in_use()), (3 * CHUNK, 3));
        assert_eq!(heap.get(a, 2), Some(&[Line([1; 8]); 2][..]));
        heap.free(a, 2);
        let again = heap.alloc(2).unwrap();
        assert_eq!((again, heap.get(again, 2)), (a, Some(&[Line::ZERO; 2][..])));
        heap.prefetch(b, 0);
        heap.prefetch(LineId(u32::MAX), 9);
    }

    #[test]
    fn lines_outside_the_heap_are_none() {
        let mut heap = Lines::with_capacity(CHUNK).unwrap();
        assert!(heap.alloc(0).is_none() && heap.alloc(MAX_RECORD + 1).is_none());
        assert!(heap.get(LineId(CHUNK as u32), 1).is_none() && heap.get(LineId(u32::MAX), 0).is_none());
        assert!(heap.get(LineId(CHUNK as u32 - 1), 1).is_some() && heap.get(LineId(CHUNK as u32 - 1), 2).is_none());
        assert!(heap.get_mut(LineId(0), usize::MAX).is_none());
        assert!(heap.window(LineId(CHUNK as u32)).is_none() && heap.window_mut(LineId(u32::MAX)).is_none());
        assert!(Lines::with_capacity(0).unwrap().alloc(1).is_none());
        assert!(Lines::with_capacity(usize::MAX).is_err());
    }

    #[test]
    fn a_window_begins_with_the_record_and_may_be_seen_to_its_end_everywhere() {
        let mut heap = Lines::with_capacity(1).unwrap();
        let id = heap.alloc(3).unwrap();
        heap.window_mut(id).unwrap()[2] = Line([7; 8]);
        assert_eq!(heap.get(id, 3).unwrap()[2], Line([7; 8]));
        let last = heap.window_mut(LineId(CHUNK as u32 - 1)).unwrap();
        last[MAX_RECORD - 1] = Line([1; 8]);
        assert_eq!(heap.window(LineId(CHUNK as u32 - 1)).unwrap()[MAX_RECORD - 1], Line([1; 8]));
    }

    #[test]
    fn a_heap_grows_up_to_what_it_reserved() {
        let mut heap = Lines::with_capacity(0).unwrap();
        assert!(heap.backing().is_none() && heap.window(LineId(0)).is_none());
        assert!(heap.grow(usize::MAX).is_err() && heap.grow(MOST).is_err());
        for _ in 0..3 {
            heap.grow(1).unwrap();
        }
        assert_eq!((heap.capacity(), heap.bytes()), (3 * CHUNK, 3 * CHUNK * size_of::<Line>()));
        // Records may lie across chunks.
        heap.fresh = CHUNK - 1;
        let id = heap.alloc(2).unwrap();
        assert_eq!(heap.get(id, 2).map(<[Line]>::len), Some(2));
    }

    #[test]
    #[should_panic(expected = "no record of 3 lines")]
    fn freeing_with_the_wrong_length_panics() {
        let mut heap = Lines::with_capacity(1).unwrap();
        let id = heap.alloc(2).unwrap();
        heap.free(id, 3);
    }

    #[test]
    #[should_panic(expected = "no record of 2 lines")]
    fn freeing_twice_panics() {
        let mut heap = Lines::with_capacity(1).unwrap();
        let id = heap.alloc(2).unwrap();
        heap.free(id, 2);
        heap.free(id, 2);
    }

    #[test]
    fn every_line_can_be_used_and_long_records_split_into_short_ones() {
        let mut heap = Lines::with_capacity(1).unwrap();
        let lines = if cfg!(miri) { 500 } else { CHUNK };
        heap.fresh = CHUNK - lines;
        let long: Vec<_> = std::iter::from_fn(|| heap.alloc(48)).collect();
        assert_eq!(long.len(), lines / 48);
        long.into_iter().for_each(|id| heap.free(id, 48));
        let n = std::iter::from_fn(|| heap.alloc(5)).count();
        assert!(n >= lines / 48 * (48 / 5));
        while heap.alloc(1).is_some() {}
        assert_eq!(heap.in_use(), lines);
    }

    #[test]
    fn a_line_is_a_callers_type() {
        #[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
        #[repr(C, align(64))]
        struct Session {
            tunnel: u32,
            flags: u32,
            rest: [u64; 7],
        }
        let mut line = Line::ZERO;
        line.0[0] = 5 | 6 << 32;
        let session: &Session = transmute_ref!(&line);
        assert_eq!((session.tunnel, session.flags, session.rest[0]), (5, 6, 0));
        assert_eq!(Line::new_zeroed(), Line::ZERO);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 64 }, failure_persistence: None, ..<_>::default() })]

        #[test]
        fn no_two_records_share_a_line(ops in prop::collection::vec((1usize..=8, any::<prop::sample::Index>(), any::<bool>()), 1..if cfg!(miri) { 40 } else { 800 })) {
            let mut heap = Lines::with_capacity(1).unwrap();
            // Leave little fresh room, so that splitting and chunk ends are met.
            heap.fresh = CHUNK - 300;
            let mut held: Vec<(LineId, usize, u64)> = Vec::new();
            for (stamp, (n, pick, release)) in ops.into_iter().enumerate() {
                let stamp = stamp as u64 + 1;
                if release && !held.is_empty() {
                    let (id, n, _) = held.swap_remove(pick.index(held.len()));
                    heap.free(id, n);
                } else if let Some(id) = heap.alloc(n) {
                    let run = heap.get_mut(id, n).unwrap();
                    prop_assert!(run.iter().all(|line| *line == Line::ZERO));
                    run.fill(Line([stamp; 8]));
                    held.push((id, n, stamp));
                }
                prop_assert_eq!(heap.in_use(), held.iter().map(|h| h.1).sum::<usize>());
            }
            for (id, n, stamp) in held {
                prop_assert!(heap.get(id, n).unwrap().iter().all(|line| *line == Line([stamp; 8])));
            }
        }
    }
}
