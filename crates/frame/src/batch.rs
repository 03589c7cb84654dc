//! A burst of frames.

use crate::frame::Frame;

/// The most packets a burst has. A burst's live set is one machine word.
pub const BURST: usize = 64;

/// Up to [`BURST`] frames in order: what ports receive and send.
pub struct Batch {
    frames: [Frame; BURST],
    len: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self { frames: [const { Frame::none() }; BURST], len: 0 }
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Frames in it.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Places left.
    #[inline]
    pub fn room(&self) -> usize {
        BURST - self.len
    }

    /// Adds a frame at the end.
    ///
    /// # Errors
    /// Gives the frame back when the batch is full.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        match self.frames.get_mut(self.len) {
            Some(place) => {
                *place = frame;
                self.len += 1;
                Ok(())
            }
            None => Err(frame),
        }
    }

    /// Takes the last frame off.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        self.len = self.len.checked_sub(1)?;
        Some(self.frames[self.len].take())
    }

    /// Its frames.
    #[inline]
    pub fn frames(&self) -> &[Frame] {
        &self.frames[..self.len]
    }

    /// Its frames, to change.
    #[inline]
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        &mut self.frames[..self.len]
    }

    /// Takes the first `n` (at most all) frames out in order; the rest move up.
    pub fn drain_front(&mut self, n: usize, mut each: impl FnMut(Frame)) {
        let n = n.min(self.len);
        for frame in &mut self.frames[..n] {
            each(frame.take());
        }
        if n > 0 {
            self.frames[..self.len].rotate_left(n);
            self.len -= n;
        }
    }

    /// Moves frames from the front, in order, to `places` that hold none: as many as there are of both, and at most
    /// `most`. The rest move up. Returns how many.
    pub fn move_front_to(&mut self, places: &mut [Frame], most: usize) -> usize {
        let n = most.min(self.len).min(places.len());
        self.frames[..n].swap_with_slice(&mut places[..n]);
        if n < self.len {
            self.frames[..self.len].rotate_left(n);
        }
        self.len -= n;
        n
    }

    /// Moves all `frames` to the end, in order, leaving none. False, and nothing moved, when there is no room for all.
    pub fn append(&mut self, frames: &mut [Frame]) -> bool {
        let places = self.frames.get_mut(self.len..self.len + frames.len());
        let Some(places) = places else { return false };
        places.swap_with_slice(frames);
        self.len += frames.len();
        true
    }

    /// Takes every frame out in order.
    #[inline]
    pub fn drain(&mut self, mut each: impl FnMut(Frame)) {
        for frame in &mut self.frames[..self.len] {
            each(frame.take());
        }
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, ArenaConfig, NoHeadroom, Pool};

    fn batch(pool: &mut Pool, n: usize) -> Batch {
        let mut batch = Batch::new();
        (0..n).for_each(|_| assert!(batch.push(pool.take().unwrap()).is_ok()));
        batch
    }

    #[test]
    fn frames_move_in_order_and_none_is_lost() {
        let arena = Arena::new(ArenaConfig { slots: 80, slot_bytes: 128, headroom: 64 }).unwrap();
        let mut pool = Pool::new(&arena, 80);
        let mut from = batch(&mut pool, 10);
        let slots: Vec<u32> = from.frames().iter().map(Frame::slot).collect();
        let mut places = [const { Frame::none() }; 8];
        assert_eq!((from.move_front_to(&mut places[..4], 3), from.move_front_to(&mut places[3..], 9)), (3, 5));
        assert_eq!(from.frames().iter().map(Frame::slot).collect::<Vec<_>>(), slots[8..]);
        let mut to = batch(&mut pool, BURST - 8);
        assert!(to.append(&mut places) && places.iter().all(Frame::is_none));
        assert_eq!(to.frames()[BURST - 8..].iter().map(Frame::slot).collect::<Vec<_>>(), slots[..8]);
        let mut one_more = [from.pop().unwrap()];
        assert!(!to.append(&mut one_more));
        pool.give(one_more[0].take());
        pool.give_all(&mut to);
        pool.give_all(&mut from);
    }

    #[test]
    fn a_front_moves_within_its_slot() {
        let arena = Arena::new(ArenaConfig { slots: 1, slot_bytes: 128, headroom: 64 }).unwrap();
        let mut pool = Pool::new(&arena, 1);
        let mut frame = pool.make(b"0123456789").unwrap();
        assert_eq!(frame.move_front(4, 0), Ok(()));
        assert_eq!(arena.bytes(&frame), b"456789");
        assert_eq!(frame.move_front(2, 70), Ok(()));
        assert_eq!((frame.headroom(), &arena.bytes(&frame)[70..]), (0, &b"6789"[..]));
        assert_eq!((frame.move_front(75, 0), frame.move_front(0, 1)), (Err(NoHeadroom), Err(NoHeadroom)));
        assert_eq!(frame.move_front(74, 0), Ok(()));
        assert!(frame.is_empty());
        pool.give(frame);
    }
}
