//! What of a worker's state has changed since it was exported, and how much of it is exported at a time.

use std::ops::RangeInclusive;

use dataplane::nat::Nat;
use table::marks::Marks;

use super::octets::{record, section};

/// Records exported in a turn of a worker: some tens of microseconds, or half a millisecond where many are left. A part of
/// what is left each time, so that it shrinks however fast records change.
const RECORDS: RangeInclusive<usize> = 64..=1024;
/// As [`RECORDS`], of blocks and mappings of a translation: a cache line and some 40 octets each.
const TRANSLATED: RangeInclusive<usize> = 256..=2048;
const PARTS: usize = 16;

fn part_of(left: usize, most: &RangeInclusive<usize>) -> usize {
    (left / PARTS).clamp(*most.start(), *most.end())
}

/// Which records, by handle, have changed since they were exported; nobody takes over: nothing is noted.
#[derive(Debug, Default)]
pub struct Changed(Option<Box<Marks>>);

impl Changed {
    /// Notes from now on which records change, those of all handles below `handles` first; or no longer.
    pub fn follow(&mut self, on: bool, handles: usize) {
        self.0 = on.then(|| {
            let mut all = Marks::new(handles);
            (0..handles as u32).for_each(|handle| all.mark(handle));
            Box::new(all)
        });
    }

    /// Where changes are noted; none: nobody takes over.
    #[inline(always)]
    pub fn marks(&mut self) -> Option<&mut Marks> {
        self.0.as_deref_mut()
    }

    /// Notes a change.
    #[inline(always)]
    pub fn mark(&mut self, handle: u32) {
        if let Some(marks) = self.marks() {
            marks.mark(handle);
        }
    }

    /// Adds records of some that have changed; `left` are there, as far as is known. Returns how many are left.
    pub fn export(&mut self, left: usize, out: &mut Vec<u8>, mut state: impl FnMut(u32, &mut Vec<u8>)) -> usize {
        let Some(marks) = self.marks() else { return 0 };
        for handle in (0..part_of(left, &RECORDS)).map_while(|_| marks.take()) {
            record(out, handle, |out| state(handle, out));
        }
        marks.left()
    }

    /// Adds records of all that have changed, and notes nothing any more. The worker stands still.
    pub fn export_rest(&mut self, out: &mut Vec<u8>, mut state: impl FnMut(u32, &mut Vec<u8>)) {
        let mut marks = self.0.take().unwrap_or_default();
        while let Some(handle) = marks.take() {
            record(out, handle, |out| state(handle, out));
        }
    }
}

/// Adds some of what has changed of a translation; `left` is there, as far as is known. Returns how much is left.
pub fn export_translation(nat: Option<&mut Nat>, left: usize, out: &mut Vec<u8>) -> usize {
    nat.map_or(0, |nat| nat.export(part_of(left, &TRANSLATED), out))
}

/// Has each worker export some of what has changed, as sections of a kind. `ask` is given the worker and about how much it has
/// left, and returns what it exports and how much it has left then; none: it does not answer. `left` is what all have left.
///
/// # Errors
/// A worker does not answer.
pub fn export_of_workers(
    out: &mut Vec<u8>,
    (kind, workers): (u8, u16),
    left: &mut usize,
    mut ask: impl FnMut(u16, usize) -> Option<(Vec<u8>, usize)>,
) -> Result<(), String> {
    let each = std::mem::take(left) / usize::from(workers.max(1));
    for worker in 0..workers {
        let (octets, more) = ask(worker, each).ok_or_else(|| format!("worker {worker} does not answer"))?;
        section(out, kind, worker, &octets);
        *left += more;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_exported_once() {
        let mut changed = Changed::default();
        changed.mark(3);
        let mut out = Vec::new();
        assert_eq!(changed.export(0, &mut out, |_, _| ()), 0);
        assert!(out.is_empty(), "nobody takes over");
        changed.follow(true, 100);
        assert_eq!(changed.export(100, &mut out, |_, _| ()), 36);
        (0..2).for_each(|_| changed.mark(200));
        let mut rest = Vec::new();
        changed.export_rest(&mut rest, |handle, out| out.push(handle as u8));
        assert_eq!((out.len(), rest.len()), (64 * 8, 37 * 9));
        assert!(changed.marks().is_none());
    }

    #[test]
    fn silent_worker_is_named() {
        let (mut out, mut left) = (Vec::new(), 0);
        let mut ask = |worker: u16, _: usize| (worker == 0).then(|| (vec![1], 5));
        assert_eq!(export_of_workers(&mut out, (b'W', 1), &mut left, &mut ask), Ok(()));
        assert_eq!(left, 5);
        let failed = export_of_workers(&mut out, (b'W', 2), &mut left, &mut ask);
        assert_eq!(failed, Err("worker 1 does not answer".to_owned()));
    }
}
