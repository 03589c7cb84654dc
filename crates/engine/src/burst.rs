//! What flows through a pipeline.

use frame::{Arena, BURST, Batch, Frame};

use crate::pipeline::{At, Kind};
use crate::reason::{Drop, Punt};

/// With a port's number in [`Burst::set_out`]: the packet does not leave by that port, it comes in by it again. For what
/// one session of ours sends to the tunnel of another.
pub const AGAIN: u8 = 0x80;

/// The packets of a burst that are still in the pipeline, one bit each. Iterating gives their indices; changing the
/// burst meanwhile does not disturb an iteration begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live(u64);

impl Live {
    /// How many.
    #[inline]
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether packet `i` is among them.
    #[inline]
    pub fn has(self, i: usize) -> bool {
        self.0 & bit(i) != 0
    }

    /// These, but not the `others`.
    #[inline]
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Adds packet `i`: for sets of packets that a lane keeps beside its burst.
    #[inline]
    pub fn add(&mut self, i: usize) {
        self.0 |= bit(i);
    }
}

#[inline]
const fn bit(i: usize) -> u64 {
    1 << (i & (BURST - 1))
}

/// The first `n` of a burst.
#[inline]
const fn first(n: usize) -> u64 {
    if n == 0 { 0 } else { u64::MAX >> (BURST - n) }
}

impl Iterator for Live {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        // The mask shows the compiler what it cannot derive: array accesses by this index need no check.
        let i = self.0.trailing_zeros() as usize & (BURST - 1);
        self.0 &= self.0 - 1;
        Some(i)
    }
}

/// Up to [`BURST`] packets on their way, with what the pipeline's kind keeps per packet beside them.
///
/// A packet that leaves early keeps its place, so that the arrays beside it need no moving; its live bit is cleared.
pub struct Burst<K: Kind> {
    frames: [Frame; BURST],
    len: usize,
    /// Places that have a frame.
    here: Live,
    live: Live,
    punted: Live,
    punts: [Punt; BURST],
    out: [u8; BURST],
    /// Per-packet arrays of this kind of pipeline.
    pub lane: K::Lane,
}

impl<K: Kind> Default for Burst<K> {
    fn default() -> Self {
        Self {
            frames: [const { Frame::none() }; BURST],
            len: 0,
            here: Live(0),
            live: Live(0),
            punted: Live(0),
            punts: [Punt::default(); BURST],
            out: [0; BURST],
            lane: K::Lane::default(),
        }
    }
}

impl<K: Kind> Burst<K> {
    /// Packets that entered, live or not.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing entered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Those still in the pipeline.
    #[inline]
    pub fn live(&self) -> Live {
        self.live
    }

    /// Those taken off for the slow path and not yet seen to.
    #[inline]
    pub fn punted(&self) -> Live {
        self.punted
    }

    /// Adds a packet as live; returns its index.
    ///
    /// # Errors
    /// Gives the frame back when the burst is full.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<usize, Frame> {
        let i = self.len;
        let Some(place) = self.frames.get_mut(i) else { return Err(frame) };
        *place = frame;
        self.here.0 |= bit(i);
        self.live.0 |= bit(i);
        self.len += 1;
        Ok(i)
    }

    /// Adds packets as live for as long as there is room and `next` puts one into its place, which holds none. It has the
    /// index the packet will have, and the arrays beside the burst. Returns how many came.
    #[inline(always)]
    pub fn fill(&mut self, mut next: impl FnMut(usize, &mut Frame, &mut K::Lane) -> Option<()>) -> usize {
        let from = self.len;
        let mut to = from;
        while let Some(place) = self.frames.get_mut(to)
            && next(to, place, &mut self.lane).is_some()
        {
            to += 1;
        }
        let new = first(to) & !first(from);
        self.here.0 |= new;
        self.live.0 |= new;
        self.len = to;
        to - from
    }

    /// All places of an empty burst, which hold none, and the arrays beside it: for packets that are
    /// filled in at once.
    /// Say [`came`](Self::came) when some are filled.
    #[inline]
    pub fn places(&mut self) -> Option<(&mut [Frame; BURST], &mut K::Lane)> {
        self.is_empty().then_some((&mut self.frames, &mut self.lane))
    }

    /// The first `n` places of an empty burst were filled: its packets are live.
    #[inline]
    pub fn came(&mut self, n: usize) {
        let n = n.min(BURST);
        (self.len, self.here, self.live) = (n, Live(first(n)), Live(first(n)));
    }

    /// Takes frames of a batch as live packets, as many as there is room for and at most `most`. Returns how many.
    #[inline]
    pub fn load(&mut self, batch: &mut Batch, most: usize) -> usize {
        let count = batch.move_front_to(&mut self.frames[self.len.min(BURST)..], most);
        let new = first(count) << (self.len & (BURST - 1));
        self.here.0 |= new;
        self.live.0 |= new;
        self.len += count;
        count
    }

    /// The tokens of all packets that entered, to change.
    #[inline]
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        &mut self.frames[..self.len]
    }

    /// The token of packet `i`.
    #[inline]
    pub fn frame(&self, i: usize) -> &Frame {
        &self.frames[i]
    }

    /// The token of packet `i`, to change.
    #[inline]
    pub fn frame_mut(&mut self, i: usize) -> &mut Frame {
        &mut self.frames[i]
    }

    /// The token of packet `i` and the arrays beside the burst, to change both.
    #[inline]
    pub fn parts(&mut self, i: usize) -> (&mut Frame, &mut K::Lane) {
        (&mut self.frames[i], &mut self.lane)
    }

    /// The bytes of packet `i`.
    #[inline]
    pub fn bytes<'a>(&'a self, i: usize, arena: &'a Arena) -> &'a [u8] {
        arena.bytes(&self.frames[i])
    }

    /// The bytes of packet `i`, to write.
    #[inline]
    pub fn bytes_mut<'a>(&'a mut self, i: usize, arena: &'a Arena) -> &'a mut [u8] {
        arena.bytes_mut(&mut self.frames[i])
    }

    /// Ends packet `i` under a name, counted against the stage that runs. Its frame is given back after the pipeline.
    #[inline]
    pub fn drop(&mut self, i: usize, reason: Drop, at: At<'_>) {
        self.live.0 &= !bit(i);
        at.count_drop(reason, self.frames[i].len());
    }

    /// Takes packet `i` off to the slow path, which sees to it after the pipeline.
    #[inline]
    pub fn punt(&mut self, i: usize, why: Punt) {
        self.live.0 &= !bit(i);
        self.punted.0 |= bit(i);
        self.punts[i] = why;
    }

    /// Sends packet `i` out of the worker's port `port` when the pipeline ends.
    #[inline]
    pub fn set_out(&mut self, i: usize, port: u8) {
        self.out[i] = port;
    }

    /// The port packet `i` is to leave by.
    #[inline]
    pub fn out(&self, i: usize) -> u8 {
        self.out[i]
    }

    /// Takes one punted packet out; the caller owns its end. None when no punted packet is left.
    pub fn take_punted(&mut self) -> Option<(usize, Punt, Frame)> {
        let i = self.punted.next()?;
        self.here.0 &= !bit(i);
        Some((i, self.punts[i], self.frames[i].take()))
    }

    /// Takes packet `i` out of the burst, live or not; its place stays empty.
    #[inline]
    pub fn take(&mut self, i: usize) -> Frame {
        self.here.0 &= !bit(i);
        self.live.0 &= !bit(i);
        self.punted.0 &= !bit(i);
        self.frames[i].take()
    }

    /// Puts a packet back into the place it was taken from: no owner took it, and it is to be dropped there.
    #[inline]
    pub fn put_back(&mut self, i: usize, frame: Frame) {
        self.here.0 |= bit(i);
        self.frames[i] = frame;
    }

    /// Gives the frames of all live packets away, in order: `each` has a packet's index, its place and the arrays beside
    /// the burst, and takes the frame out of its place, or says why not; then it is dropped. Returns how many went.
    #[inline(always)]
    pub fn give_away(
        &mut self,
        at: At<'_>,
        mut each: impl FnMut(usize, &mut Frame, &mut K::Lane) -> Result<(), Drop>,
    ) -> u32 {
        let (live, mut left) = (self.live, Live(0));
        for i in live {
            if let Err(reason) = each(i, &mut self.frames[i], &mut self.lane) {
                at.count_drop(reason, self.frames[i].len());
                left.add(i);
            }
        }
        let went = live.without(left);
        self.here = self.here.without(went);
        self.live = Live(0);
        went.count()
    }

    /// The port by which all leave, if nothing was dropped or taken off and all leave by the same.
    #[inline]
    pub(crate) fn common_out(&self) -> Option<u8> {
        let out = *self.out.first()?;
        let same = self.live.0 == first(self.len) && self.out[..self.len].iter().fold(0, |all, n| all | n ^ out) == 0;
        same.then_some(out)
    }

    /// Moves all frames to a batch, if it has room for them, and is empty then.
    #[inline]
    pub(crate) fn unload(&mut self, batch: &mut Batch) -> bool {
        let moved = batch.append(&mut self.frames[..self.len]);
        if moved {
            self.is_done();
        }
        moved
    }

    /// Hands out every frame still here, a live one with the port it leaves by, and is empty.
    #[inline]
    pub fn finish(&mut self, mut each: impl FnMut(Option<u8>, Frame)) {
        for i in self.here {
            each(self.live.has(i).then_some(self.out[i]), self.frames[i].take());
        }
        self.is_done();
    }

    #[inline(always)]
    fn is_done(&mut self) {
        (self.len, self.here, self.live, self.punted) = (0, Live(0), Live(0), Live(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drops;
    use crate::reason::Reason;

    struct Numbers;

    impl Kind for Numbers {
        type Lane = Vec<u8>;
        type State = ();
        type Config = ();

        const DROPS: &'static [&'static [Reason<Drop>]] = &[drops::ALL];

        fn describe(_: &Burst<Self>, _: usize, _: &Self::State) -> String {
            String::new()
        }
    }

    #[test]
    fn a_burst_fills_until_nothing_comes_or_it_is_full() {
        let arena = frame::Arena::new(frame::ArenaConfig { slots: 70, ..Default::default() }).expect("memory");
        let mut pool = frame::Pool::new(&arena, 70);
        let mut burst = Burst::<Numbers>::default();
        let fill = |burst: &mut Burst<Numbers>, pool: &mut frame::Pool, most: u8| {
            let mut left = most;
            burst.fill(|i, place, lane| {
                left = left.checked_sub(1)?;
                *place = pool.make(&[most])?;
                assert_eq!(lane.len(), i);
                lane.push(left);
                Some(())
            })
        };
        assert_eq!(fill(&mut burst, &mut pool, 3), 3);
        assert_eq!((burst.live().collect::<Vec<_>>(), &burst.lane[..]), (vec![0, 1, 2], &[2, 1, 0][..]));
        assert!(burst.places().is_none(), "it is not empty");
        assert_eq!(fill(&mut burst, &mut pool, 100), BURST - 3);
        assert_eq!(fill(&mut burst, &mut pool, 1), 0, "it is full");
        let mut came = 0;
        burst.finish(|_, frame| {
            came += 1;
            pool.give(frame);
        });
        assert_eq!((came, pool.free()), (BURST, 70));
    }

    #[test]
    fn sets_of_packets_are_taken_from_each_other() {
        let mut some = Live(first(5));
        let mut others = Live::default();
        [1, 4, 63].into_iter().for_each(|i| others.add(i));
        some = some.without(others);
        assert_eq!((some.collect::<Vec<_>>(), others.count()), (vec![0, 2, 3], 3));
    }
}
