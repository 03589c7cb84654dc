//! The buffer of a port, shared by the workers that send by it.
//!
//! Each worker publishes once a millisecond what it holds, and reads what all hold. It may hold what the others leave, and
//! its equal part in any case: workers that hold more than theirs drop what is beyond when the others come. Nothing waits for
//! another worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::lease::INTERVAL_NS;

/// What the workers of a port share.
#[derive(Debug)]
struct Shared {
    /// Bytes that all may hold.
    bytes: u64,
    /// A worker's equal part.
    part: u64,
    /// What workers hold, as they last published it.
    held: AtomicU64,
}

/// A worker's room in the buffer of a port. With one worker, the buffer is never exceeded. With several it is, by what arrives in
/// the two milliseconds until all have seen what others hold; and where a worker has more than its part when others come, by
/// their parts, until it drops what is beyond: it does so when its next packet for the port comes.
#[derive(Debug)]
pub struct Room {
    buffer: Arc<Shared>,
    /// What this worker has published.
    published: u64,
    /// When it looked last, in nanoseconds.
    looked: u64,
    /// Bytes that it may hold now.
    most: u64,
}

/// Bytes of each worker's part at least: some frames of a slow port.
const LEAST: u64 = 32 << 10;

impl Room {
    /// Rooms in a buffer of what a port of `rate` bit/s sends in `ns` nanoseconds, for each of its `workers`; at least 32 KiB
    /// for each. Time begins at `now`, in nanoseconds.
    pub fn among(rate: u64, ns: u64, workers: usize, now: u64) -> Vec<Self> {
        let all = (u128::from(rate) * u128::from(ns) / 8_000_000_000).min(u128::from(u64::MAX)) as u64;
        let each = workers.max(1) as u64;
        let bytes = all.max(LEAST * each);
        let buffer = Arc::new(Shared { bytes, part: bytes / each, held: AtomicU64::new(0) });
        (0..workers).map(|_| Self { buffer: buffer.clone(), published: 0, looked: now, most: buffer.part }).collect()
    }

    /// Bytes that all workers may hold for the port.
    pub fn bytes(&self) -> u64 {
        self.buffer.bytes
    }

    /// Bytes that this worker may hold now.
    #[inline(always)]
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Bytes that this worker holds, as it published them last.
    #[inline(always)]
    pub fn published(&self) -> u64 {
        self.published
    }

    /// The worker's turn: it holds so many bytes. Looks once in [`INTERVAL_NS`].
    #[inline(always)]
    pub fn turn(&mut self, held: u64, now: u64) {
        if now.saturating_sub(self.looked) >= INTERVAL_NS {
            self.look(held, now);
        }
    }

    /// Publishes what this worker holds, and takes what the others leave.
    #[inline(never)]
    pub fn look(&mut self, held: u64, now: u64) {
        self.looked = now;
        let before = std::mem::replace(&mut self.published, held);
        let shared = &self.buffer;
        // Sums of what each adds and takes back again: they wrap to the right number.
        let change = held.wrapping_sub(before);
        let all = shared.held.fetch_add(change, Ordering::Relaxed).wrapping_add(change);
        let others = all.saturating_sub(held);
        self.most = shared.bytes.saturating_sub(others).max(shared.part);
    }
}

impl std::ops::Drop for Room {
    fn drop(&mut self) {
        self.buffer.held.fetch_sub(self.published, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn one_worker_has_the_whole_buffer() {
        let rooms = Room::among(8_000_000_000, 10 * MS, 1, 0);
        assert_eq!((rooms[0].most(), rooms[0].bytes()), (10_000_000, 10_000_000));
        let slow = Room::among(1_000_000, 10 * MS, 2, 0);
        assert_eq!((slow[0].bytes(), slow[0].most()), (65_536, 32_768), "some frames at any rate");
    }

    #[test]
    fn workers_share_what_others_leave() {
        let mut rooms = Room::among(8_000_000_000, 10 * MS, 4, 0);
        rooms[0].look(1_000_000, MS);
        assert_eq!(rooms[0].most(), 10_000_000);
        rooms[0].look(9_000_000, 2 * MS);
        rooms[1].look(0, 2 * MS);
        assert_eq!(rooms[1].most(), 2_500_000, "its part, whatever another holds");
        rooms[1].look(2_000_000, 3 * MS);
        rooms[0].turn(9_000_000, 3 * MS - 1);
        assert_eq!(rooms[0].most(), 10_000_000, "not yet");
        rooms[0].turn(9_000_000, 3 * MS);
        assert_eq!(rooms[0].most(), 8_000_000);
        drop(rooms.remove(1));
        rooms[0].look(8_000_000, 4 * MS);
        assert_eq!(rooms[0].most(), 10_000_000);
    }

    /// One that holds the whole buffer keeps it as long as no packet comes to it; others have their parts beside that, no more.
    #[test]
    fn worker_without_packets_keeps_what_it_holds() {
        let mut rooms = Room::among(8_000_000_000, 10 * MS, 4, 0);
        let mut held = [10_000_000u64, 0, 0, 0];
        for step in 0..50 {
            for (n, (room, held)) in rooms.iter_mut().zip(&mut held).enumerate() {
                room.turn(*held, step * MS);
                *held = if n == 0 { *held } else { (*held + 400_000).min(room.most()) };
            }
        }
        assert_eq!(held, [10_000_000, 2_500_000, 2_500_000, 2_500_000]);
        assert_eq!(rooms[0].most(), 2_500_000, "what it may hold when its next packet comes");
    }

    /// All workers want more than there is: what they hold comes to the buffer, in equal parts.
    #[test]
    fn workers_that_all_want_more_have_equal_parts() {
        for workers in [2, 3, 16] {
            let mut rooms = Room::among(8_000_000_000, 10 * MS, workers, 0);
            let mut held = vec![0u64; workers];
            for step in 0..200 {
                for (n, (room, held)) in rooms.iter_mut().zip(&mut held).enumerate() {
                    room.turn(*held, step * MS / 4 + n as u64);
                    // The first begins alone.
                    let come = if n == 0 || step > 50 { 400_000 } else { 0 };
                    *held = (*held + come).min(room.most());
                }
                let all: u64 = held.iter().sum();
                // Four arrivals in a millisecond, two of which pass until all have seen what the others hold.
                let (come, parts) = (8 * 400_000 * (workers as u64 - 1), 10_000_000 - 10_000_000 / workers as u64);
                assert!(all <= 10_000_000 + come.min(parts), "{workers} workers hold {all}");
            }
            let part = 10_000_000 / workers as u64;
            assert!(held.iter().all(|held| held.abs_diff(part) <= part / 100), "{held:?}");
        }
    }
}
