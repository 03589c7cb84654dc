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

    /// Takes every frame out in order.
    #[inline]
    pub fn drain(&mut self, mut each: impl FnMut(Frame)) {
        for frame in &mut self.frames[..self.len] {
            each(frame.take());
        }
        self.len = 0;
    }
}
