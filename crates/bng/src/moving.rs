//! A group's state on its way from one worker to another: what control sends to begin it, and what the old owner exports for
//! the new one.
//!
//! ```text
//! old owner ─ parcels of records and of packets that wait ─► new owner ─ empty parcels ─► control
//! ```

use std::sync::Arc;

use dataplane::hqos::tree::{CLASSES, ClassCounts};
use engine::{ARRIVING, Arrival, Departure, Env, Io, Owner, Room};
use frame::{Arena, Frame, Pool};
use gateway::shell::hand_over::octets::{In, garbled, put};
use table::records::Line as CacheLine;
use table::ring::{Consumer, Producer};
use wire::fast;
use zerocopy::{FromBytes, IntoBytes};

use crate::hand_over::{counts_of, put_counts};
use crate::lane::State;
use crate::record::{LINES, SubscriberSpec, meter_mut};
use crate::shaper::Shedding;
use crate::steer::Directory;
use crate::subscribers::Refused;
use crate::{drops, punts};

/// Subscribers that the old owner exports in one turn.
pub const EACH: usize = 512;

/// Packets of queues that a parcel has room for without further memory, for each subscriber.
const FRAMES: usize = 4;

/// Part of a group's state.
#[derive(Default)]
pub struct Parcel {
    /// Subscribers it was made of.
    count: usize,
    /// Subscribers by handle: link header, hardware address, policers and counters.
    records: Vec<(u32, [CacheLine; LINES])>,
    /// What the classes of shaped subscribers have counted.
    counts: Vec<(u32, [ClassCounts; CLASSES])>,
    /// Packets that waited in subscribers' queues, in order.
    frames: Vec<(u32, Frame)>,
    /// Another process has made it: numbers of profiles and groups in it mean nothing here.
    foreign: bool,
}

impl Parcel {
    /// An empty one with room for [`EACH`] subscribers; `shaped`: packets may wait for them.
    pub fn empty(shaped: bool) -> Box<Self> {
        let shaped = if shaped { EACH } else { 0 };
        Box::new(Self {
            count: 0,
            records: Vec::with_capacity(EACH),
            counts: Vec::with_capacity(shaped),
            frames: Vec::with_capacity(FRAMES * shaped),
            foreign: false,
        })
    }

    /// How many subscribers it was made of.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Has it count for so many subscribers.
    pub fn set_count(&mut self, count: usize) {
        self.count = count;
    }

    /// Adds it as octets.
    ///
    /// ```text
    /// records: number (4), each handle (4) | record (192)
    /// counts:  number (4), each handle (4) | of each class: packets (8) | bytes (8) | waited (8) | full (4) | managed (4)
    /// frames:  number (4), each handle (4) | offset of the IP header (2) | flags (2) | frame (4 + n)
    /// ```
    pub(crate) fn write(&self, arena: &Arena, out: &mut Vec<u8>) {
        let number = |out: &mut Vec<u8>, len: usize| out.extend((len as u32).to_le_bytes()); // a few thousand
        number(out, self.records.len());
        for (handle, lines) in &self.records {
            out.extend(handle.to_le_bytes());
            lines.iter().for_each(|line| out.extend(line.as_bytes()));
        }
        number(out, self.counts.len());
        for (handle, classes) in &self.counts {
            out.extend(handle.to_le_bytes());
            put_counts(classes, out);
        }
        number(out, self.frames.len());
        for (handle, frame) in &self.frames {
            out.extend(handle.to_le_bytes());
            out.extend(frame.meta.l3.to_le_bytes());
            out.extend((frame.meta.flags & !frame::flags::TRACE).to_le_bytes());
            put(out, arena.bytes(frame));
        }
    }

    /// One that another process has written. `handle` tells a subscriber's number here, and its clock is `ahead` by so many
    /// nanoseconds of ours.
    ///
    /// # Errors
    /// It cannot be read; or no buffers for its packets, a sentence.
    pub(crate) fn read(
        octets: &[u8],
        handle: impl Fn(u32) -> Option<u32>,
        ahead: i64,
        pool: &mut Pool,
    ) -> Result<Box<Self>, String> {
        let mut parcel = Box::<Self>::default();
        parcel.foreign = true;
        let filled = parcel.fill(octets, handle, ahead, pool);
        if filled.is_err() {
            parcel.empty_into(pool);
        }
        filled.map(|()| parcel)
    }

    fn fill(
        &mut self,
        octets: &[u8],
        handle: impl Fn(u32) -> Option<u32>,
        ahead: i64,
        pool: &mut Pool,
    ) -> Result<(), String> {
        let mut input = In(octets);
        for _ in 0..input.number::<4>().ok_or_else(garbled)? {
            let (there, record) =
                input.number::<4>().zip(input.take(LINES * size_of::<CacheLine>())).ok_or_else(garbled)?;
            let mut lines = <[CacheLine; LINES]>::read_from_bytes(record).map_err(|_| garbled())?;
            for line in lines.iter_mut().skip(1) {
                let bucket = &mut meter_mut(line).bucket;
                bucket.last_ns = bucket.last_ns.saturating_add_signed(ahead.saturating_neg());
            }
            self.records.extend(handle(there as u32).map(|handle| (handle, lines)));
        }
        for _ in 0..input.number::<4>().ok_or_else(garbled)? {
            let there = input.number::<4>().ok_or_else(garbled)?;
            let classes = counts_of(&mut input.0).ok_or_else(garbled)?;
            self.counts.extend(handle(there as u32).map(|handle| (handle, classes)));
        }
        for _ in 0..input.number::<4>().ok_or_else(garbled)? {
            let mut head = || Some((input.number::<4>()?, input.number::<2>()?, input.number::<2>()?));
            let (there, l3, flags) = head().ok_or_else(garbled)?;
            let octets = input.text().ok_or_else(garbled)?;
            if l3 as usize > octets.len() {
                return Err(garbled());
            }
            let Some(handle) = handle(there as u32) else { continue };
            let mut frame = pool.make(octets).ok_or("no packet buffers for packets that wait")?;
            (frame.meta.l3, frame.meta.flags) = (l3 as u16, flags as u16);
            self.frames.push((handle, frame));
        }
        Ok(())
    }

    /// Gives the buffers of its packets back.
    pub(crate) fn empty_into(&mut self, pool: &mut Pool) {
        self.frames.drain(..).for_each(|(_, frame)| pool.give(frame));
    }
}

/// What the old owner is told of a group that leaves.
pub struct Leave {
    /// Number of the group that moves.
    pub group: u16,
    /// The group's subscribers.
    pub handles: Box<[u32]>,
    /// How many of them are exported.
    pub next: usize,
    /// Room for all of them.
    pub empty: Vec<Box<Parcel>>,
    /// To the new owner.
    pub parcels: Producer<Box<Parcel>>,
    /// The new owner.
    pub to: Owner,
    /// Workers whose marks the old owner waits for, as bits: all but itself.
    pub others: u64,
}

/// What the new owner is told of a group that comes.
pub struct Come {
    /// Number of the group that moves.
    pub group: u16,
    /// The old owner.
    pub from: Owner,
    /// All workers but the new owner, as bits.
    pub others: u64,
    /// State and packets that the former owner hands over.
    pub parcels: Consumer<Box<Parcel>>,
    /// Subscribers that are still to come.
    pub left: usize,
    /// Room for packets of the group that come before its state; afterwards control's to free.
    pub room: Room,
    /// Parcels that were taken in: control's to free.
    pub taken: Vec<Box<Parcel>>,
    /// Subscribers that were not installed here.
    pub missing: usize,
    /// What became of it.
    pub arrival: Arrival,
}

/// A step of a group's move, for one worker.
pub enum Step {
    /// Have room for the lines of a group.
    Adopt(u16),
    /// Install copies of subscribers of a group that is on its way here.
    Copy {
        /// Subscribers that the new owner installs.
        specs: Box<[SubscriberSpec]>,
        /// Why one was not installed, if one was not.
        refused: Option<Refused>,
    },
    /// The group is to leave.
    Leave(Box<Leave>),
    /// The group is to come.
    Come(Box<Come>),
    /// Go by another directory; `mark`: it is the one by which the group is its new owner's, and this was the old one.
    Steer {
        /// The directory; afterwards the one before.
        directory: Arc<Directory>,
        /// The old owner and the new one.
        mark: Option<(Owner, Owner)>,
    },
    /// Free copies of subscribers that are another worker's now.
    Discard(Box<[u32]>),
    /// The lines of a group are not this worker's any more.
    Disown(u16),
}

impl Step {
    /// Carries it out. False: it failed, and the move cannot go on.
    pub(crate) fn carry_out(
        &mut self,
        state: &mut State,
        (leave, come): (&mut Option<Box<Leave>>, &mut Option<Box<Come>>),
        env: &mut Env,
    ) -> bool {
        match self {
            Self::Adopt(group) => {
                state.subscribers.hold_in_user_space(*group, true);
                state.subscribers.adopt(*group);
            }
            Self::Disown(group) => {
                state.subscribers.disown(*group);
                state.subscribers.hold_in_user_space(*group, false);
            }
            Self::Copy { specs, refused } => {
                let now = env.now;
                let mut install = |spec| state.install(spec, now, |frame| env.pool.give(frame));
                *refused = specs.iter().find_map(|spec| install(spec).err());
                return refused.is_none();
            }
            Self::Steer { directory, mark } => {
                std::mem::swap(&mut state.directory, directory);
                if let Some((from, to)) = mark {
                    env.moves.switched(*from, *to);
                }
            }
            Self::Discard(handles) => {
                for handle in handles {
                    if let Some(shaper) = &mut state.shaper {
                        shaper.remove(*handle, |frame| env.pool.give(frame));
                    }
                    state.subscribers.remove(*handle);
                }
            }
            Self::Leave(_) | Self::Come(_) => {
                if let Self::Leave(leave) = self {
                    state.subscribers.hold_in_user_space(leave.group, true);
                }
                return self.begin(leave, come, env);
            }
        }
        true
    }

    /// A group is to leave or to come: the rest is between turns. What stays behind is control's to free.
    fn begin(&mut self, leave: &mut Option<Box<Leave>>, come: &mut Option<Box<Come>>, env: &mut Env) -> bool {
        match std::mem::replace(self, Self::Disown(u16::MAX)) {
            Self::Leave(new) => {
                env.moves.depart(new.to, new.others);
                *leave = Some(new);
            }
            Self::Come(mut new) => {
                env.moves.arrive(new.from, new.others, std::mem::take(&mut new.room));
                *come = Some(new);
            }
            _ => return false,
        }
        true
    }
}

impl Leave {
    /// Exports the next few.
    pub(crate) fn export(&mut self, state: &mut State, env: &mut Env) -> Departure {
        if self.next >= self.handles.len() {
            return Departure::Done;
        }
        if self.parcels.room() == 0 {
            return Departure::Full;
        }
        let mut parcel = self.empty.pop().unwrap_or_default();
        let few = self.handles.get(self.next..).unwrap_or_default();
        for handle in few.iter().take(EACH) {
            (self.next, parcel.count) = (self.next + 1, parcel.count + 1);
            // One that is not here cannot have used anything.
            let Some(lines) = state.subscribers.lines_of(*handle) else { continue };
            parcel.records.push((*handle, lines));
            if let Some(shaper) = &mut state.shaper {
                parcel.counts.extend(shaper.counts(*handle).map(|counts| (*handle, counts)));
                shaper.remove(*handle, |frame| parcel.frames.push((*handle, frame)));
            }
        }
        if let Some(shaper) = state.shaper.as_mut().filter(|_| !parcel.frames.is_empty()) {
            shaper.publish(env.now);
        }
        env.stats.add(Io::Released, parcel.frames.len() as u64);
        env.stats.add(Io::HandedOut, parcel.frames.len() as u64);
        let _ = self.parcels.push(parcel).map_err(|_| unreachable!("there is room"));
        if self.next < self.handles.len() { Departure::More } else { Departure::Done }
    }
}

impl Come {
    /// Takes in what has come. True: that was all.
    pub(crate) fn import(&mut self, state: &mut State, env: &mut Env) -> bool {
        // As much as the old owner exports in a turn of its own, and a bit more to catch up.
        for _ in 0..2 {
            let Some(mut parcel) = self.parcels.pop() else { break };
            self.left = self.left.saturating_sub(parcel.count);
            for (handle, lines) in parcel.records.drain(..) {
                let is_here = if parcel.foreign {
                    state.subscribers.carry_on(handle, &lines, env.now)
                } else {
                    state.subscribers.put_lines(handle, &lines)
                };
                self.missing += usize::from(!is_here);
            }
            for (handle, counts) in parcel.counts.drain(..) {
                if let Some(shaper) = &mut state.shaper {
                    shaper.put_counts(handle, &counts);
                }
            }
            env.stats.add(Io::HandedIn, parcel.frames.len() as u64);
            let has_frames = !parcel.frames.is_empty();
            for (handle, frame) in parcel.frames.drain(..) {
                wait(handle, frame, state, env);
            }
            if let Some(shaper) = state.shaper.as_mut().filter(|_| has_frames) {
                shaper.publish(env.now);
            }
            self.taken.push(parcel);
        }
        self.left == 0
    }

    /// Drops packets that are on their way: the worker ends.
    pub(crate) fn close(&mut self, env: &mut Env) {
        while let Some(mut parcel) = self.parcels.pop() {
            env.stats.add(Io::HandedIn, parcel.frames.len() as u64);
            for (_, frame) in parcel.frames.drain(..) {
                env.stats.drop_outside(drops::FLOW_GONE, frame.len());
                env.pool.give(frame);
            }
        }
    }
}

/// Has a packet wait that waited at the old owner.
fn wait(handle: u32, mut frame: Frame, state: &mut State, env: &mut Env) {
    let packet = env.pool.arena().bytes(&frame).get(usize::from(frame.meta.l3)..).unwrap_or_default();
    let word = fast::be32(packet, 0).unwrap_or(0);
    let dscp = if word >> 28 == 6 { word >> 22 & 0x3f } else { word >> 18 & 0x3f } as u8; // six bits
    let profile = state.subscribers.record_of(handle).and_then(|record| state.subscribers.head(record));
    let profile = profile.map(|head| head.profile);
    let (Some(shaper), Some(profile)) = (&mut state.shaper, profile) else {
        env.stats.drop_outside(drops::FLOW_GONE, frame.len());
        return env.pool.give(frame);
    };
    let (leaf, class) = (shaper.find(handle), shaper.class(profile, dscp));
    let mut shedding = Shedding { subscribers: &state.subscribers, changed: &mut state.changed, stats: &env.stats };
    let pushed = shaper.go_on((leaf, class), &mut frame, env.now, &mut shedding);
    shaper.free(&mut env.pool);
    match pushed {
        Ok(()) => env.stats.terminated(punts::QUEUED),
        Err(why) => {
            env.stats.drop_outside(why.into(), frame.len());
            env.pool.give(frame);
        }
    }
}

/// Whether a packet is to go to another worker, or to be held, by the owner of its subscriber.
pub(crate) fn is_elsewhere(owner: Owner, me: Owner, env: &Env) -> bool {
    owner & !ARRIVING != me || owner & ARRIVING != 0 && env.moves.is_arriving()
}
