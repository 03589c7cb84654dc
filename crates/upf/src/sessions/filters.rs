//! Filters that sessions have in common.
//!
//! Control planes give many subscribers the same rules; what these ask of packets is then here once, and mostly in the
//! nearest cache. A list that only one session names costs its packets one more pair of lines.

use std::hash::{BuildHasher, RandomState};
use std::io;

use dataplane::filter::Quad4;
use table::bulk::{BulkMap, Seed};
use table::records::{LineId, Lines, MAX_RECORD, Window};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute_mut, transmute_ref};

use super::Refused;
use crate::record::{LINE, QuadList};

/// Four filters, in a pair of lines.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Quad {
    /// The filters.
    pub filters: Quad4,
    /// How many directions of sessions name the list that begins here.
    users: u64,
    /// What it is found by.
    content: u64,
    spare: [u64; 4],
}

/// Quads of a window.
const QUADS: usize = MAX_RECORD * LINE / size_of::<Quad>();
const _: () = assert!(size_of::<Quad>() == 2 * LINE && QuadList::MOST <= QUADS);

/// Lists of filters, each once, however many name it. Owned by one worker, like what names them.
pub(super) struct SharedFilters {
    lines: Lines,
    /// By a hash of what they are. Of two with the same hash, one is found.
    by_content: BulkMap<u64, u32>,
    hasher: RandomState,
    /// Lists in use.
    count: usize,
}

/// Lists at first.
const LISTS: usize = 1024;
/// More lists than that are not all in the nearest caches.
const MANY: usize = 4096;

impl SharedFilters {
    pub fn new(seed: Seed) -> io::Result<Self> {
        let by_content = BulkMap::with_capacity(LISTS, seed).map_err(|_| io::ErrorKind::OutOfMemory)?;
        Ok(Self { lines: Lines::with_capacity(1)?, by_content, hasher: RandomState::new(), count: 0 })
    }

    /// Lines in use.
    pub fn in_use(&self) -> usize {
        self.lines.in_use()
    }

    /// Bytes in use, with those of the index.
    pub fn bytes(&self) -> usize {
        self.lines.in_use() * LINE + self.by_content.bytes()
    }

    /// Whether there are so many that their lines have to be prefetched.
    #[inline(always)]
    pub fn are_many(&self) -> bool {
        self.count > MANY
    }

    /// Asks for the lines of a list.
    #[inline(always)]
    pub fn prefetch(&self, list: QuadList) {
        let first = LineId(list.pair() * 2);
        self.lines.prefetch(first, 0);
        self.lines.prefetch(first, 1);
    }

    /// The fours of a list.
    #[inline(always)]
    pub fn get(&self, list: QuadList) -> &[Quad] {
        let Some(window) = self.lines.window(LineId(list.pair() * 2)) else { return &[] };
        let all: &[Quad; QUADS] = transmute_ref!(window);
        &all[..list.len()]
    }

    /// Names a list of filters, which is made if it is not there.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn take(&mut self, filters: &[Quad4]) -> Result<QuadList, Refused> {
        if filters.is_empty() {
            return Ok(QuadList::NONE);
        }
        let content = self.hasher.hash_one(filters.as_bytes());
        if let Some(known) = self.by_content.get(content).map(QuadList::from_bits)
            && let Some(quads) = self.quads_mut(known)
            && known.len() == filters.len()
            && quads.iter().zip(filters).all(|(quad, filters)| quad.filters == *filters)
        {
            quads[0].users += 1;
            return Ok(known);
        }
        self.make(filters, content)
    }

    #[cold]
    fn make(&mut self, filters: &[Quad4], content: u64) -> Result<QuadList, Refused> {
        let lines = filters.len() * 2;
        let first = match self.lines.alloc(lines) {
            Some(first) => first,
            None => {
                self.lines.grow(lines).map_err(|_| Refused::NoRecord)?;
                self.lines.alloc(lines).ok_or(Refused::NoRecord)?
            }
        };
        let list = QuadList::new(first.0 as usize / 2, filters.len());
        let found = self.by_content.get(content).is_some();
        let list = list.filter(|list| found || self.by_content.insert(content, list.bits()).is_ok());
        let Some(list) = list else {
            self.lines.free(first, lines);
            return Err(Refused::NoIndex);
        };
        if let Some(quads) = self.quads_mut(list) {
            for (quad, filters) in quads.iter_mut().zip(filters) {
                quad.filters = *filters;
            }
            (quads[0].users, quads[0].content) = (1, content);
        }
        self.count += 1;
        Ok(list)
    }

    /// One that named a list does so no more.
    pub fn release(&mut self, list: QuadList) {
        if list.is_empty() {
            return;
        }
        let Some([first, ..]) = self.quads_mut(list) else { return };
        first.users -= 1;
        let (users, content) = (first.users, first.content);
        if users == 0 {
            if self.by_content.get(content) == Some(list.bits()) {
                self.by_content.remove(content);
            }
            self.lines.free(LineId(list.pair() * 2), list.len() * 2);
            self.count -= 1;
        }
    }

    fn quads_mut(&mut self, list: QuadList) -> Option<&mut [Quad]> {
        let window: &mut Window = self.lines.window_mut(LineId(list.pair() * 2))?;
        let all: &mut [Quad; QUADS] = transmute_mut!(window);
        all.get_mut(..list.len())
    }
}

#[cfg(test)]
mod tests {
    use dataplane::filter::Filter4;

    use super::*;

    fn filters(count: usize, port: u16) -> Vec<Quad4> {
        let mut filter = Filter4::ANY;
        (filter.ports.remote_lo, filter.ports.remote_span) = (port, 0);
        let mut quad = Quad4::NOTHING;
        quad.set(1, &filter, 0, None);
        vec![quad; count]
    }

    #[test]
    fn a_list_is_there_once_while_any_names_it() {
        let mut shared = SharedFilters::new(Seed::random()).unwrap();
        let (web, more) = (filters(1, 80), filters(2, 80));
        let first = shared.take(&web).unwrap();
        let other = shared.take(&more).unwrap();
        assert_eq!((shared.take(&web), first.len(), other.len()), (Ok(first), 1, 2));
        assert_ne!(first, other);
        assert_eq!((shared.count, shared.in_use(), shared.take(&[])), (2, 6, Ok(QuadList::NONE)));
        assert!(shared.get(first)[0].filters == web[0] && shared.get(other)[1].filters == more[1]);
        shared.release(first);
        assert_eq!(shared.count, 2);
        shared.release(first);
        shared.release(QuadList::NONE);
        assert_eq!((shared.count, shared.in_use()), (1, 4));
        let again = shared.take(&web).unwrap();
        assert!(shared.get(again)[0].filters == web[0]);
    }

    #[test]
    fn lists_come_and_go_by_the_thousand() {
        let mut shared = SharedFilters::new(Seed::random()).unwrap();
        let bytes = shared.bytes();
        let count = if cfg!(miri) { 50 } else { 20_000 };
        for _ in 0..2 {
            let lists: Vec<_> = (0..count).map(|n| shared.take(&filters(1 + n % 3, n as u16)).unwrap()).collect();
            assert_eq!((shared.count, shared.are_many()), (count, count > MANY));
            for (n, list) in lists.iter().enumerate() {
                assert!(shared.get(*list)[n % 3].filters == filters(1, n as u16)[0]);
            }
            lists.into_iter().for_each(|list| shared.release(list));
            assert_eq!((shared.count, shared.in_use()), (0, 0));
        }
        assert!(shared.bytes() >= bytes);
    }

    // Two lists of one hash are both kept; the one that is found goes on being found.
    #[test]
    fn lists_with_the_same_hash_are_two() {
        let mut shared = SharedFilters::new(Seed::random()).unwrap();
        let web = filters(1, 80);
        let first = shared.take(&web).unwrap();
        let content = shared.quads_mut(first).unwrap()[0].content;
        let second = shared.make(&filters(1, 443), content).unwrap();
        assert!(first != second && shared.take(&web) == Ok(first));
        shared.release(second);
        assert_eq!(shared.take(&web), Ok(first));
        assert_eq!(shared.count, 1);
    }
}
