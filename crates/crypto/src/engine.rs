//! Many frames at once.

use frame::{Arena, Frame};

use crate::bpi::{self, CLEAR, CRC, Schedule};
use crate::key::{Key, KeyId};

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

struct Place {
    frame: Frame,
    tag: u32,
    outcome: Option<Outcome>,
}

/// Encrypts or decrypts frames in bulk, many side by side. One worker owns it; its keys are its own.
///
/// [`Engine::push`] gives it frames, [`Engine::run`] sets it to work on them, and [`Engine::pop`] takes those that are
/// through, **in the order in which they were pushed**. Some stay in flight, at most [`Engine::FLIGHT`], until others are
/// pushed; when there is nothing to push, [`Engine::flush`] ends their wait. Nothing here allocates but the change of
/// keys.
pub struct Engine {
    direction: Direction,
    keys: Vec<Option<Schedule>>,
    free: Vec<u32>,
    places: Box<[Place; ROOM]>,
    /// Numbers of the oldest frame, of the first that is not at work yet, of the next to come: modulo [`ROOM`] places.
    oldest: usize,
    waiting: usize,
    next: usize,
    jobs: Box<[Job; ROOM]>,
}

impl Engine {
    /// The most frames that stay in flight after [`Engine::run`].
    pub const FLIGHT: usize = 32;

    /// An engine without keys.
    pub fn new(direction: Direction) -> Self {
        let job = Job { key: KeyId::CLEAR, at: 0, crc: Crc::Left, tag: 0 };
        Self {
            direction,
            keys: Vec::new(),
            free: Vec::new(),
            places: Box::new([const { Place { frame: Frame::none(), tag: 0, outcome: None } }; ROOM]),
            oldest: 0,
            waiting: 0,
            next: 0,
            jobs: Box::new([job; ROOM]),
        }
    }

    /// What does the work, for people.
    pub fn by(&self) -> &'static str {
        "RustCrypto"
    }

    /// Takes a key in. The number it gets may have been another's that was removed.
    pub fn insert(&mut self, key: &Key) -> KeyId {
        let schedule = Some(Schedule::new(key));
        if let Some(id) = self.free.pop() {
            self.keys[id as usize] = schedule;
            return KeyId(id);
        }
        self.keys.push(schedule);
        KeyId(u32::try_from(self.keys.len() - 1).expect("fewer keys than a u32 counts"))
    }

    /// Removes a key. Frames that were pushed with it are finished first, and wait to be popped. False when there is no
    /// such key.
    pub fn remove(&mut self, arena: &Arena, id: KeyId) -> bool {
        self.flush(arena);
        let there = self.keys.get_mut(id.0 as usize).is_some_and(|key| key.take().is_some());
        if there {
            self.free.push(id.0);
        }
        there
    }

    /// Keys it has.
    pub fn keys(&self) -> usize {
        self.keys.len() - self.free.len()
    }

    /// Frames that were pushed and not popped: the term of the conservation law.
    pub fn held(&self) -> usize {
        self.next.wrapping_sub(self.oldest)
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
        let at = self.next % ROOM;
        self.places[at] = Place { frame, tag: job.tag, outcome: None };
        self.jobs[at] = job;
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Works on what was pushed.
    pub fn run(&mut self, arena: &Arena) {
        while self.waiting != self.next {
            let at = self.waiting % ROOM;
            let outcome = self.soft(arena, at);
            self.places[at].outcome = Some(outcome);
            self.waiting = self.waiting.wrapping_add(1);
        }
    }

    /// Works on what was pushed and finishes everything in flight.
    pub fn flush(&mut self, arena: &Arena) {
        self.run(arena);
    }

    /// The oldest frame, if it is through.
    #[inline]
    pub fn pop(&mut self) -> Option<Done> {
        if self.oldest == self.waiting {
            return None;
        }
        let place = &mut self.places[self.oldest % ROOM];
        let outcome = place.outcome.take()?;
        self.oldest = self.oldest.wrapping_add(1);
        Some(Done { frame: place.frame.take(), tag: place.tag, outcome })
    }

    fn soft(&mut self, arena: &Arena, at: usize) -> Outcome {
        let (job, frame) = (self.jobs[at], &mut self.places[at].frame);
        let schedule = match job.key {
            KeyId::CLEAR => None,
            KeyId(id) => match self.keys.get(id as usize) {
                Some(Some(schedule)) => Some(schedule),
                _ => return Outcome::NoKey,
            },
        };
        let front = usize::from(job.at);
        let least = front + HEADER + if (self.direction, job.crc) == (Direction::Decrypt, Crc::Done) { CRC } else { 0 };
        if frame.len() < least {
            return Outcome::Short;
        }
        match self.direction {
            Direction::Encrypt => {
                if job.crc == Crc::Done {
                    let len = frame.len();
                    if arena.set_len(frame, len + CRC) < len + CRC {
                        arena.set_len(frame, len);
                        return Outcome::NoRoom;
                    }
                    let (ethernet, crc) = arena.bytes_mut(frame)[front..].split_at_mut(len - front);
                    crc.copy_from_slice(&bpi::crc32(ethernet));
                }
                if let Some(schedule) = schedule {
                    schedule.encrypt(&mut arena.bytes_mut(frame)[front + CLEAR..]);
                }
                Outcome::Done
            }
            Direction::Decrypt => {
                let ethernet = &mut arena.bytes_mut(frame)[front..];
                if let Some(schedule) = schedule {
                    schedule.decrypt(&mut ethernet[CLEAR..]);
                }
                let (ethernet, crc) = ethernet.split_at(ethernet.len() - CRC);
                match job.crc == Crc::Done && bpi::crc32(ethernet) != crc {
                    true => Outcome::BadCrc,
                    false => Outcome::Done,
                }
            }
        }
    }
}
