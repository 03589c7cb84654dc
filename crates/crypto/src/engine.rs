//! Many frames at once.

use std::sync::Arc;

use frame::{Arena, Frame};

use crate::bpi::{self, CLEAR, CRC, Schedule};
use crate::key::{Cipher, Key, KeyId};
#[cfg(ipsec_mb)]
use crate::lanes::{Burst, LaneKey, Lanes};
#[cfg(not(ipsec_mb))]
use crate::no_lanes::{Burst, LaneKey, Lanes};

/// Which way an [`Engine`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// CRC, then encryption.
    Encrypt,
    /// Decryption, then CRC.
    Decrypt,
}

/// What is done about a frame's CRC32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crc {
    /// Encrypting: calculated and added, the frame grows by four bytes. Decrypting: verified; it stays where it is.
    Done,
    /// Nothing: when encrypting it is there already, and when decrypting nobody asks.
    Left,
}

/// What is to be done to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The key, or [`KeyId::CLEAR`].
    pub key: KeyId,
    /// Offset of the Ethernet frame's destination address from the packet's first byte. The Ethernet frame ends where
    /// the packet ends.
    pub at: u16,
    /// Its CRC32.
    pub crc: Crc,
    /// Comes back with the frame.
    pub tag: u32,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Done,
    /// The frame is decrypted, and its CRC32 is wrong: a bad frame, or another key's.
    BadCrc,
    /// The frame is shorter than an Ethernet header, or than that and the CRC that should be there. Untouched.
    Short,
    /// There is no room for the CRC behind the frame. Untouched.
    NoRoom,
    /// There is no such key. Untouched.
    NoKey,
}

/// A frame that is through.
#[derive(Debug)]
#[must_use = "a dropped frame is a lost slot: give it back to its pool"]
pub struct Done {
    /// The frame.
    pub frame: Frame,
    /// As it came in [`Job::tag`].
    pub tag: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// The most frames an engine has: in flight, through and not yet taken.
pub const ROOM: usize = 256;

/// The shortest Ethernet frame: its header.
const HEADER: usize = 14;

/// The most frames that stay in flight after [`Engine::run`]. Frames that came after the oldest of them may be through and
/// wait behind it, at most as many again.
pub const FLIGHT: usize = 64;

struct Place {
    frame: Frame,
    job: Job,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waits,
    Through(Outcome),
}

/// What a key is worked with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Nobody,
    /// The lanes, with a key of so many bytes.
    Lanes(u8),
    Soft,
}

/// Encrypts or decrypts frames in bulk, many side by side. One worker owns it; its keys are its own.
///
/// [`Engine::push`] gives it frames, [`Engine::run`] sets it to work on them, and [`Engine::pop`] takes those that are
/// through, **in the order in which they were pushed**. Some stay in flight, at most [`FLIGHT`], until others are
/// pushed; when there is nothing to push, [`Engine::flush`] ends their wait. Nothing here allocates but the change of
/// keys.
pub struct Engine {
    /// Whose frames are in flight: kept for as long as they are.
    arena: Option<Arc<Arena>>,
    direction: Direction,
    lanes: Option<Lanes>,
    burst: Box<Burst>,
    /// By key number.
    by: Vec<By>,
    lane_keys: Vec<LaneKey>,
    schedules: Vec<Option<Schedule>>,
    free: Vec<u32>,
    places: Box<[Place; ROOM]>,
    /// Numbers, modulo [`ROOM`] their places: of the oldest frame; of the first that the engine was not set to work on; of
    /// the next to come.
    oldest: u64,
    waiting: u64,
    next: u64,
}

const _: () = assert!(ROOM == 1 << u8::BITS, "a place is known to the lanes by a byte");

const fn place(number: u64) -> usize {
    (number % ROOM as u64) as usize
}

impl Engine {
    /// Bytes of its keys.
    pub fn bytes(&self) -> usize {
        let boxed = |schedule: &Schedule| match schedule {
            Schedule::Aes128(aes, _) => size_of_val(&**aes),
            Schedule::Aes256(aes, _) => size_of_val(&**aes),
            Schedule::Des56(..) => 0,
        };
        self.by.capacity() * size_of::<By>()
            + self.lane_keys.capacity() * size_of::<LaneKey>()
            + self.schedules.capacity() * size_of::<Option<Schedule>>()
            + self.schedules.iter().flatten().map(boxed).sum::<usize>()
    }

    /// An engine without keys: by libipsec-mb, where that is built in and the processor serves it.
    pub fn new(direction: Direction) -> Self {
        Self::with(direction, Lanes::new(direction == Direction::Encrypt))
    }

    /// The same by RustCrypto, one frame at a time, whatever else there is.
    pub fn soft(direction: Direction) -> Self {
        Self::with(direction, None)
    }

    fn with(direction: Direction, lanes: Option<Lanes>) -> Self {
        let job = Job { key: KeyId::CLEAR, at: 0, crc: Crc::Left, tag: 0 };
        let places: Vec<Place> = (0..ROOM).map(|_| Place { frame: Frame::none(), job, state: State::Waits }).collect();
        Self {
            arena: None,
            direction,
            lanes,
            burst: Box::default(),
            by: Vec::new(),
            lane_keys: Vec::new(),
            schedules: Vec::new(),
            free: Vec::new(),
            places: places.try_into().unwrap_or_else(|_| unreachable!("as many as there are places")),
            oldest: 0,
            waiting: 0,
            next: 0,
        }
    }

    /// What does the work, for people.
    pub fn by(&self) -> &'static str {
        self.lanes.as_ref().map_or("RustCrypto, one frame at a time", Lanes::name)
    }

    /// Takes a key in. The number it gets may have been another's that was removed.
    pub fn insert(&mut self, key: &Key) -> KeyId {
        // Keys may move in memory, and somebody may be at work with them.
        self.finish_all();
        let id = self.free.pop().unwrap_or_else(|| {
            self.by.push(By::Nobody);
            self.schedules.push(None);
            self.lane_keys.push(LaneKey::default());
            u32::try_from(self.by.len() - 1).expect("fewer keys than a u32 counts")
        });
        let at = id as usize;
        match &mut self.lanes {
            Some(lanes) if key.cipher() != Cipher::Des56 => {
                self.lane_keys[at] = lanes.expand(key);
                self.by[at] = By::Lanes(key.bytes().len() as u8); // 16 or 32
            }
            _ => {
                self.schedules[at] = Some(Schedule::new(key));
                self.by[at] = By::Soft;
            }
        }
        KeyId(id)
    }

    /// Removes a key. Frames that were pushed with it are finished first, and wait to be popped. False when there is no
    /// such key.
    pub fn remove(&mut self, arena: &Arc<Arena>, id: KeyId) -> bool {
        self.flush(arena);
        let at = id.0 as usize;
        if self.by_of(id) == By::Nobody {
            return false;
        }
        self.by[at] = By::Nobody;
        self.schedules[at] = None;
        self.lane_keys[at] = LaneKey::default();
        self.free.push(id.0);
        true
    }

    /// Keys it has.
    pub fn keys(&self) -> usize {
        self.by.len() - self.free.len()
    }

    /// Frames that were pushed and not popped: the term of the conservation law.
    pub fn held(&self) -> usize {
        (self.next - self.oldest) as usize
    }

    /// How many more frames can be pushed.
    pub fn room(&self) -> usize {
        ROOM - self.held()
    }

    /// Gives it a frame to work on when it next runs.
    ///
    /// # Errors
    /// The frame, when there is no room: run the engine and pop.
    #[inline]
    pub fn push(&mut self, frame: Frame, job: Job) -> Result<(), Frame> {
        if self.held() == ROOM {
            return Err(frame);
        }
        self.places[place(self.next)] = Place { frame, job, state: State::Waits };
        self.next += 1;
        Ok(())
    }

    /// Works on what was pushed: frames of `arena`. At most [`FLIGHT`] frames stay in flight.
    pub fn run(&mut self, arena: &Arc<Arena>) {
        if !self.arena.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, arena)) {
            self.finish_all();
            self.arena = Some(arena.clone());
        }
        while self.waiting != self.next {
            let at = place(self.waiting);
            self.waiting += 1;
            if let Some(outcome) = self.begin(arena, at) {
                self.places[at].state = State::Through(outcome);
            }
            if self.burst.is_full() {
                self.submit();
            }
        }
        self.submit();
        let too_many = self.lanes.as_ref().map_or(0, |lanes| lanes.in_flight().saturating_sub(FLIGHT));
        self.finish(too_many);
    }

    /// Works on what was pushed and finishes everything in flight.
    pub fn flush(&mut self, arena: &Arc<Arena>) {
        self.run(arena);
        self.finish_all();
    }

    fn finish_all(&mut self) {
        while let Some(n @ 1..) = self.lanes.as_ref().map(Lanes::in_flight) {
            self.finish(n);
        }
    }

    /// The oldest frame, if it is through.
    #[inline]
    pub fn pop(&mut self) -> Option<Done> {
        self.pop_in_place().map(|(frame, tag, outcome)| Done { frame: frame.take(), tag, outcome })
    }

    /// The same, with the frame where it is: whoever asks takes it from there.
    #[inline(always)]
    pub fn pop_in_place(&mut self) -> Option<(&mut Frame, u32, Outcome)> {
        let place = &mut self.places[place(self.oldest)];
        let State::Through(outcome) = place.state else { return None };
        place.state = State::Waits;
        self.oldest += 1;
        Some((&mut place.frame, place.job.tag, outcome))
    }

    fn by_of(&self, key: KeyId) -> By {
        self.by.get(key.0 as usize).copied().unwrap_or(By::Nobody)
    }

    /// Does the job of a place and says how it ended, or puts it into the burst for the lanes.
    #[inline]
    fn begin(&mut self, arena: &Arena, at: usize) -> Option<Outcome> {
        let by = self.by_of(self.places[at].job.key);
        let Place { frame, job, .. } = &mut self.places[at];
        if by == By::Nobody && job.key != KeyId::CLEAR {
            return Some(Outcome::NoKey);
        }
        let front = usize::from(job.at);
        let crc = job.crc == Crc::Done;
        let end = frame.len();
        let adds = crc && self.direction == Direction::Encrypt;
        let least = front + HEADER + if crc && !adds { CRC } else { 0 };
        if end < least {
            return Some(Outcome::Short);
        }
        if adds && arena.set_len(frame, end + CRC) < end + CRC {
            arena.set_len(frame, end);
            return Some(Outcome::NoRoom);
        }
        let ethernet = &mut arena.bytes_mut(frame)[front..];
        if let By::Lanes(key_bytes) = by {
            let key = &self.lane_keys[job.key.0 as usize];
            // SAFETY: the engine owns the frame until it is through, and keeps its arena; keys change only when nothing is in
            // flight.
            #[allow(unsafe_code)]
            unsafe {
                self.burst.push(ethernet, (key, key_bytes), CLEAR as u8, crc, at as u8);
            }
            return None;
        }
        let schedule = self.schedules.get(job.key.0 as usize).and_then(Option::as_ref);
        Some(soft(self.direction, schedule, ethernet, crc))
    }

    fn submit(&mut self) {
        let Some(lanes) = &mut self.lanes else { return };
        lanes.submit(&mut self.burst, |place, bad| self.places[usize::from(place)].end(bad));
    }

    fn finish(&mut self, n: usize) {
        if let (Some(lanes), 1..) = (&mut self.lanes, n) {
            lanes.flush(n, |place, bad| self.places[usize::from(place)].end(bad));
        }
    }
}

impl Place {
    /// Its job came out of the lanes.
    #[inline]
    fn end(&mut self, bad: bool) {
        self.state = State::Through(if bad { Outcome::BadCrc } else { Outcome::Done });
    }
}

/// A worker takes its engine along to its thread.
const _: fn() = || {
    fn sendable<T: Send>() {}
    sendable::<Engine>();
};

/// One frame by RustCrypto. `ethernet` ends behind the CRC, if that is done.
fn soft(direction: Direction, schedule: Option<&Schedule>, ethernet: &mut [u8], crc: bool) -> Outcome {
    let end = ethernet.len() - if crc { CRC } else { 0 };
    match direction {
        Direction::Encrypt => {
            if crc {
                let (frame, space) = ethernet.split_at_mut(end);
                space.copy_from_slice(&bpi::crc32(frame));
            }
            if let Some(schedule) = schedule {
                schedule.encrypt(&mut ethernet[CLEAR..]);
            }
            Outcome::Done
        }
        Direction::Decrypt => {
            if let Some(schedule) = schedule {
                schedule.decrypt(&mut ethernet[CLEAR..]);
            }
            let (frame, there) = ethernet.split_at(end);
            if crc && bpi::crc32(frame) != there { Outcome::BadCrc } else { Outcome::Done }
        }
    }
}
