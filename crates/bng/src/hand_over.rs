//! A worker's state on its way to the worker of another process, which goes on for this one.
//!
//! ```text
//! of a subscriber:  record (192) | if it is shaped: rate (16) | three buckets (48)
//!                     | of each class: packets (8) | bytes (8) | waited (8) | full (4) | managed (4)
//! of outer VLANs:   of each: rate (16) | bucket (16)
//! in its queues:    handle (4) | class (1) | since (8) | offset of the IP header (2) | flags (2) | frame (4 + n)
//! for a neighbour:  VRF (2) | since (8) | packet (4 + n)
//! ```
//! A record tells all that a worker knows of a subscriber: line, addresses, hardware address, policers and counters. Of those
//! that are configured, the new configuration counts, as it does for the rates of all.

use std::collections::BTreeMap;

use access::option82::LineRate;
use dataplane::hqos::tree::{CLASSES, ClassCounts, Earned};
use dataplane::slow::destination;
use engine::Env;
use gateway::fast_path::InKernelSessions as _;
use gateway::shell::hand_over::changed::export_translation;
use gateway::shell::hand_over::octets::{In, each_record, garbled, put, section};
use table::bucket;
use table::records::{Line as CacheLine, LineId};
use wire::L3L4;
use zerocopy::{FromBytes, IntoBytes};

use crate::gateway::BroadbandGateway;
use crate::lane::{Bng, State};
use crate::record::{Head, LINES, Meter, head};
use crate::subscribers::{Refused, Subscribers};

/// Changes with whatever records are made of.
pub const LAYOUT: u64 = {
    // To be increased when the meaning of a field changes, or what is written of leases, requests, mappings and queues,
    // and no size does.
    let meaning = 1;
    let sizes = [
        size_of::<Head>(),
        size_of::<Meter>(),
        LINES,
        CLASSES,
        size_of::<Earned>(),
        size_of::<ClassCounts>(),
        size_of::<bucket::State>(),
        RECORD,
    ];
    let (mut sum, mut at) = (0xcbf2_9ce4_8422_2325u64 ^ meaning, 0);
    while at < sizes.len() {
        sum = (sum ^ sizes[at] as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    sum
};

/// Octets of a record, with what the line carries behind it: kbit/s up and down.
const RECORD: usize = LINES * size_of::<CacheLine>() + 8;

/// What a worker is asked while another process takes over.
#[derive(Debug)]
pub enum Handing {
    /// Begin to note which subscribers' records change; all count as changed. Or no longer.
    Follow(bool),
    /// Export records of some subscribers that have changed: `left` have, as far as is known, and afterwards.
    Records {
        /// How many are left.
        left: usize,
        /// What is exported.
        out: Vec<u8>,
    },
    /// Export some of what has changed of the translation.
    Translation {
        /// How much is left.
        left: usize,
        /// What is exported.
        out: Vec<u8>,
    },
}

impl State {
    /// Carries a question out.
    pub(crate) fn hand_over(&mut self, handing: &mut Handing) {
        match handing {
            Handing::Follow(on) => {
                self.changed.follow(*on, self.subscribers.handles());
                // What the in-kernel path counts has no marks.
                if *on {
                    self.subscribers.close_kernel()
                } else {
                    self.subscribers.reopen_kernel()
                }
                self.nat.iter_mut().for_each(|nat| nat.follow(*on));
            }
            Handing::Records { left, out } => {
                let mut changed = std::mem::take(&mut self.changed);
                *left = changed.export(*left, out, |handle, out| {
                    self.subscribers.leave_kernel(handle);
                    self.export_record(handle, out);
                });
                self.changed = changed;
            }
            Handing::Translation { left, out } => *left = export_translation(self.nat.as_deref_mut(), *left, out),
        }
    }

    /// Notes that subscribers of a burst's packets have counted them.
    #[inline(never)]
    pub(crate) fn note_burst(&mut self, burst: &engine::Burst<Bng>) {
        let Self { subscribers, changed, .. } = self;
        let Some(marks) = changed.marks() else { return };
        for head in (0..burst.len()).filter_map(|i| subscribers.head(burst.lane.record[i])) {
            marks.mark(head.handle);
        }
    }

    /// Notes that a subscriber's record has changed.
    pub(crate) fn note_record(&mut self, record: LineId) {
        if let (Some(marks), Some(head)) = (self.changed.marks(), self.subscribers.head(record)) {
            marks.mark(head.handle);
        }
    }

    /// Adds what a worker knows of a subscriber; nothing, if there is none of that handle.
    fn export_record(&self, handle: u32, out: &mut Vec<u8>) {
        let Some(lines) = self.subscribers.lines_of(handle) else { return };
        lines.iter().for_each(|line| out.extend(line.as_bytes()));
        let LineRate { up_kbps, down_kbps } = self.subscribers.line_rate(handle);
        [up_kbps, down_kbps].into_iter().for_each(|kbps| out.extend(kbps.to_le_bytes()));
        let shaped = self.shaper.as_ref().and_then(|shaper| shaper.earned(handle).zip(shaper.counts(handle)));
        let Some((earned, counts)) = shaped else { return };
        out.extend(earned.rate.as_bytes());
        earned.states.iter().for_each(|state| out.extend(state.as_bytes()));
        put_counts(&counts, out);
    }

    /// Adds packets that wait in subscribers' queues.
    fn export_queues(&self, env: &Env, out: &mut Vec<u8>) {
        let Some(shaper) = self.shaper.as_ref().filter(|shaper| shaper.held() > 0) else { return };
        for handle in 0..self.subscribers.handles() as u32 {
            shaper.each_waiting(handle, |class, at, frame| {
                out.extend(handle.to_le_bytes());
                out.push(class);
                out.extend(at.to_le_bytes());
                out.extend(frame.meta.l3.to_le_bytes());
                out.extend(frame.meta.flags.to_le_bytes());
                put(out, env.arena().bytes(frame));
            });
        }
    }

    /// Takes in packets that waited in subscribers' queues.
    fn take_in_queues(&mut self, octets: &[u8], env: &mut Env) -> Result<(), String> {
        let mut input = In(octets);
        while !input.0.is_empty() {
            let mut read = || {
                let (handle, class, at) = (input.number::<4>()?, input.number::<1>()?, input.number::<8>()?);
                Some((handle as u32, class as u8, at, input.number::<2>()? as u16, input.number::<2>()? as u16))
            };
            let (handle, class, at, l3, flags) = read().ok_or_else(garbled)?;
            let frame = env.pool.make(input.text().ok_or_else(garbled)?);
            let mut frame = frame.ok_or("no packet buffers for packets that wait: [frames] is smaller here")?;
            (frame.meta.l3, frame.meta.flags) = (l3, flags);
            let waits = self.shaper.as_mut().is_some_and(|shaper| {
                let leaf = shaper.find(handle);
                shaper.put((leaf, class), &mut frame, at, &mut env.pool)
            });
            if !waits {
                // One that found its place is not here any more.
                if !frame.is_none() {
                    env.pool.give(frame);
                }
                return Err("no room for packets that wait: [queues] or a profile's shape differs here".to_owned());
            }
        }
        Ok(())
    }
}

/// How subscribers of another process fit into the configuration of this one.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// Names of its profiles, and their numbers here; none: there is no such profile.
    pub profiles: Vec<(String, Option<u16>)>,
    /// Subscribers below this number are configured.
    pub fixed: u32,
}

impl Numbers {
    /// The number of a profile here.
    ///
    /// # Errors
    /// There is none; a sentence.
    pub fn profile(&self, there: u16) -> Result<u16, String> {
        let (name, number) = self.profiles.get(usize::from(there)).ok_or_else(garbled)?;
        number.ok_or_else(|| format!("subscribers have the profile \"{name}\", which is not configured here"))
    }
}

/// What a worker has taken in.
#[derive(Debug, Default)]
pub struct TakenIn {
    /// Records that do not fit until another's line or address is free.
    waiting: BTreeMap<u32, (Refused, Vec<u8>)>,
}

impl TakenIn {
    /// Takes in records of subscribers.
    fn records(&mut self, state: &mut State, octets: &[u8], numbers: &Numbers, now: u64) -> Result<(), String> {
        each_record(octets, |handle, octets| {
            self.waiting.remove(&handle);
            if let Err(why) = state.take_in(handle, octets, numbers, now)? {
                self.waiting.insert(handle, (why, octets.to_vec()));
            }
            Ok(())
        })?;
        while !self.waiting.is_empty() {
            let before = self.waiting.len();
            for (handle, (_, octets)) in std::mem::take(&mut self.waiting) {
                if let Err(why) = state.take_in(handle, &octets, numbers, now)? {
                    self.waiting.insert(handle, (why, octets));
                }
            }
            if self.waiting.len() == before {
                break;
            }
        }
        Ok(())
    }

    /// Whether everything fits.
    ///
    /// # Errors
    /// A subscriber that does not; a sentence.
    pub fn check(&self, worker: usize) -> Result<(), String> {
        let Some((handle, (why, _))) = self.waiting.first_key_value() else { return Ok(()) };
        let why = match why {
            Refused::Taken => "its line or an address is another's here",
            Refused::Foreign => "its line is in no group here",
            Refused::Memory => "there is no memory for it",
        };
        Err(format!("subscriber {handle} of worker {worker} does not fit: {why}"))
    }
}

impl State {
    /// Takes in what another process knows of a subscriber.
    ///
    /// # Errors
    /// It never fits; a sentence. Inside, why it does not fit now.
    fn take_in(
        &mut self,
        handle: u32,
        octets: &[u8],
        numbers: &Numbers,
        now: u64,
    ) -> Result<Result<(), Refused>, String> {
        if octets.is_empty() {
            if let Some(shaper) = &mut self.shaper {
                // Nothing waits in a worker that has not run.
                shaper.remove(handle, |_| ());
            }
            self.subscribers.remove(handle);
            return Ok(Ok(()));
        }
        let (record, mut shaped) = octets.split_at_checked(RECORD).ok_or_else(garbled)?;
        let (lines, rate) = <[CacheLine; LINES]>::read_from_prefix(record).map_err(|_| garbled())?;
        let mut rate = In(rate);
        let mut kbps = || rate.number::<4>().map(|kbps| kbps as u32);
        let line_rate = kbps().zip(kbps()).map(|(up_kbps, down_kbps)| LineRate { up_kbps, down_kbps });
        let line_rate = line_rate.ok_or_else(garbled)?;
        let own = self.subscribers.record_of(handle).and_then(|record| self.subscribers.spec_of(record));
        let mut spec = Subscribers::spec_in(head(&lines[0]), line_rate)
            .filter(|spec| spec.handle == handle)
            .ok_or_else(garbled)?;
        spec.profile = match own.filter(|_| handle < numbers.fixed) {
            Some(own) => own.profile,
            None => numbers.profile(spec.profile)?,
        };
        if own != Some(spec)
            && let Err(why) = self.install(&spec, now, |_| ())
        {
            return Ok(Err(why));
        }
        self.subscribers.carry_on(handle, &lines, now);
        if let Some(shaper) = self.shaper.as_mut().filter(|_| !shaped.is_empty()) {
            let mut read = || {
                let rate = value_in(&mut shaped)?;
                Some(Earned { rate, states: [value_in(&mut shaped)?, value_in(&mut shaped)?, value_in(&mut shaped)?] })
            };
            shaper.put_earned(handle, &read().ok_or_else(garbled)?);
            let all = counts_of(&mut shaped).ok_or_else(garbled)?;
            shaper.put_counts(handle, &all);
        }
        Ok(Ok(()))
    }
}

/// The next value, as it lies in memory.
fn value_in<T: FromBytes>(octets: &mut &[u8]) -> Option<T> {
    let (value, rest) = T::read_from_prefix(octets).ok()?;
    *octets = rest;
    Some(value)
}

/// Adds what the classes of a shaped subscriber have counted.
pub(crate) fn put_counts(classes: &[ClassCounts; CLASSES], out: &mut Vec<u8>) {
    for counts in classes {
        [counts.packets, counts.bytes, counts.waited_ns].iter().for_each(|count| out.extend(count.to_le_bytes()));
        [counts.full, counts.aqm].iter().for_each(|count| out.extend(count.to_le_bytes()));
    }
}

/// The same, read.
pub(crate) fn counts_of(octets: &mut &[u8]) -> Option<[ClassCounts; CLASSES]> {
    let all = (0..CLASSES).map(|_| counts_in(octets)).collect::<Option<Vec<_>>>();
    all.and_then(|all| all.try_into().ok())
}

fn counts_in(octets: &mut &[u8]) -> Option<ClassCounts> {
    let mut input = In(octets);
    let mut wide = || input.number::<8>();
    let (packets, bytes, waited_ns) = (wide()?, wide()?, wide()?);
    let (full, aqm) = (input.number::<4>()? as u32, input.number::<4>()? as u32);
    *octets = input.0;
    Some(ClassCounts { packets, bytes, waited_ns, full, aqm })
}

impl BroadbandGateway {
    /// Adds all that is left of a worker, which stands still, as sections.
    ///
    /// # Errors
    /// Packets are under way in it.
    pub(crate) fn export_rest(&mut self, env: &Env, worker: u16, out: &mut Vec<u8>) -> Result<(), String> {
        let (state, slow) = self.parts_mut();
        if slow.is_under_way() {
            return Err(format!("packets of worker {worker} are under way"));
        }
        let mut octets = Vec::new();
        let mut changed = std::mem::take(&mut state.changed);
        changed.export_rest(&mut octets, |handle, out| {
            state.subscribers.leave_kernel(handle);
            state.export_record(handle, out);
        });
        state.changed = changed;
        section(out, b'F', worker, &octets);
        octets.clear();
        for (rate, state) in state.shaper.iter().flat_map(|shaper| shaper.nodes_earned()) {
            octets.extend(rate.as_bytes());
            octets.extend(state.as_bytes());
        }
        section(out, b'V', worker, &octets);
        octets.clear();
        state.export_queues(env, &mut octets);
        section(out, b'Q', worker, &octets);
        octets.clear();
        slow.each_unresolved(|instance, at, packet| {
            octets.extend(instance.to_le_bytes());
            octets.extend(at.to_le_bytes());
            put(&mut octets, packet);
        });
        section(out, b'H', worker, &octets);
        octets.clear();
        if let Some(nat) = &mut state.nat {
            nat.export_rest(env.now, &mut octets);
        }
        section(out, b'T', worker, &octets);
        Ok(())
    }

    /// Takes in a section of another process's worker; this one does not run.
    ///
    /// # Errors
    /// It does not fit; a sentence.
    pub(crate) fn take_in(
        &mut self,
        (kind, octets): (u8, &[u8]),
        taken: &mut TakenIn,
        (numbers, now): (&Numbers, u64),
        env: &mut Env,
    ) -> Result<(), String> {
        let (state, slow) = self.parts_mut();
        match kind {
            b'W' | b'F' => taken.records(state, octets, numbers, now),
            b'Q' => state.take_in_queues(octets, env),
            b'V' => {
                let mut left = octets;
                let mut read = || value_in(&mut left).zip(value_in(&mut left));
                if let Some(shaper) = &mut state.shaper {
                    shaper.put_nodes_earned(std::iter::from_fn(&mut read));
                }
                Ok(())
            }
            b'H' => {
                let mut input = In(octets);
                while !input.0.is_empty() {
                    let (instance, at) = input.number::<2>().zip(input.number::<8>()).ok_or_else(garbled)?;
                    let packet = input.text().ok_or_else(garbled)?;
                    let ip = L3L4::parse(packet).map_err(|_| garbled())?;
                    let to = (instance as u16, destination(&ip, packet));
                    if !slow.take_in_unresolved(to, packet, at) {
                        return Err("no room for packets that wait for a neighbour".to_owned());
                    }
                }
                Ok(())
            }
            b'T' => {
                let nat = state.nat.as_mut().ok_or("[nat] is not configured here")?;
                nat.import(octets).map_err(|why| format!("[nat]: {why}"))
            }
            _ => Err(garbled()),
        }
    }
}
