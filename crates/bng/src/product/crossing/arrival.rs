//! A group comes from another process.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Clock, Time, Tsc};
use frame::Pool;
use gateway::moves::Outcome;
use gateway::moves::owners::Owners;
use gateway::moves::passage::Passage;
use gateway::shell::hand_over::{Kind, Link, may_be_answered};
use gateway::socket::RawRequest;
use gateway::tables::many;
use serde_json::{Value, json};

use super::meanings::Meanings;
use super::{BUFFERS, BUILDING, COMES, LOADING, Question, Reserved, VERSION, lost, say};
use crate::hand_over::LAYOUT;
use crate::moving::Parcel;
use crate::product::observer::Observer;
use crate::sessions::crossing::GroupNumbers;
use crate::slow::ControlPacket;

/// Octets that may come of a group: leases, sessions, counters, packets.
const LARGEST: usize = 1 << 30;
/// Until the owner of a group is read again where that has failed.
const AGAIN: Duration = Duration::from_secs(1);

/// By what the worker takes state in, and of how many subscribers.
type Way = (table::ring::Producer<Box<Parcel>>, usize);

/// What goes along with an arrival.
struct Arrival<'a> {
    group: u16,
    name: String,
    passage: Arc<Passage>,
    owners: Owners,
    link: Link,
    /// The other process's clock is ahead of ours, in nanoseconds.
    ahead: i64,
    reserved: Option<Reserved<'a>>,
    /// What has come, in octets.
    octets: usize,
    /// Requests that the other process has not answered.
    packets: Vec<ControlPacket>,
}

impl Arrival<'_> {
    fn say_ready(&mut self, note: &Value) -> Result<(), String> {
        self.link.send(Kind::Ready, note.to_string().as_bytes(), &[]).map_err(lost("it was told to go on"))
    }

    /// The next batch; none: all have come.
    fn batch(&mut self) -> Result<Option<Vec<u8>>, String> {
        let mut octets = Vec::new();
        loop {
            let message = self.link.receive(Some(BUILDING)).map_err(lost("it was to send the group"))?;
            if self.octets + message.octets.len() > LARGEST {
                return Err("the other process sends more than a group can be".to_owned());
            }
            self.octets += message.octets.len();
            octets.extend(message.octets);
            match message.kind {
                Kind::Part => {}
                Kind::Batch => return Ok(Some(octets)),
                Kind::Synced => return Ok(None),
                other => return Err(format!("the other process sent {other:?} out of turn")),
            }
        }
    }

    /// Not to know is neither: the group would have no owner, or two.
    fn is_owner(&self) -> bool {
        loop {
            match self.owners.owner(&self.name) {
                Ok(owner) => return owner.as_deref() == Some(self.owners.own()),
                Err(error) => {
                    let (group, folder) = (&self.name, self.owners.folder().display());
                    tracing::error!(
                        target: "worker", event = "group_owner_not_known", group, %error,
                        "whether group {group} is this process's cannot be read in {folder}: {error}; its packets wait"
                    );
                    std::thread::sleep(AGAIN);
                }
            }
        }
    }
}

impl Observer {
    /// A group comes from another process.
    pub(super) fn group_comes(&self, asked: &RawRequest, stream: UnixStream) {
        let (group, name, passage, owners) = match self.admit(asked, &stream) {
            Ok(admitted) => admitted,
            Err(why) => return drop(say(&stream, &json!({ "error": why }))),
        };
        let reserved = Some(Reserved(self));
        if say(&stream, &json!({ COMES: { "version": VERSION } })).is_err() {
            return;
        }
        let mut of = Arrival {
            group,
            name,
            passage,
            owners,
            link: Link::new(stream),
            ahead: 0,
            reserved,
            octets: 0,
            packets: Vec::new(),
        };
        let begin = Instant::now();
        let came = self.arrive(&mut of);
        drop(of.reserved.take());
        let ms = begin.elapsed().as_millis() as u64;
        match came {
            Ok(outcome) => tracing::info!(
                target: "worker", event = "group_came", group = of.name, subscribers = outcome.subscribers, ms,
                "group {} came from another process: {}", of.name, many(outcome.subscribers as usize, "subscriber")
            ),
            Err(why) => tracing::warn!(
                target: "worker", event = "group_did_not_come", group = of.name, why,
                "group {} has not come from another process: {why}", of.name
            ),
        }
        self.shell.call_control();
    }

    fn admit(&self, asked: &RawRequest, stream: &UnixStream) -> Result<(u16, String, Arc<Passage>, Owners), String> {
        may_be_answered(stream)?;
        let question: Question = asked.read()?;
        if (question.version, question.layout) != (VERSION, LAYOUT) {
            let ours = format!("version {VERSION}, layout {LAYOUT:#018x}");
            let theirs = format!("version {}, layout {:#018x}", question.version, question.layout);
            return Err(format!(
                "the two processes are of releases that differ in what they say: {theirs} there, {ours} here"
            ));
        }
        let mut control = self.control();
        let group = control.group_named(&question.group).map_err(|refusal| refusal.to_string())?;
        let (passage, owners) = control.crossings().ok_or("[moves] is not configured in the other process")?;
        if question.from == owners.own() {
            return Err("the other process is this one".to_owned());
        }
        if control.is_here(group) {
            return Err("the other process has the group already".to_owned());
        }
        control.reserve(group).map_err(|why| format!("the other process cannot take it: {why}"))?;
        Ok((group, question.group, passage, owners))
    }

    fn arrive(&self, of: &mut Arrival<'_>) -> Result<Outcome, String> {
        let hello = of.link.expect(Kind::Hello, Some(LOADING)).map_err(lost("it was to tell of the group"))?;
        let there: Meanings = serde_json::from_slice(&hello.octets).map_err(|_| "what it tells cannot be read")?;
        let clock = self.shell.time().origin().ok_or("the clock is simulated")?;
        if there.clock.1 == 0 {
            return Err("what it tells cannot be read".to_owned());
        }
        let here = Meanings::of(&self.control(), of.group, clock, &of.owners);
        if let Some(why) = there.differs(&here) {
            let _ = of.link.send(Kind::Ready, json!({ "error": why }).to_string().as_bytes(), &[]);
            return Err(why);
        }
        let cycles = Tsc::cycles();
        let nanoseconds = |time: &Time| time.now_ns(cycles) as i64; // centuries
        of.ahead = nanoseconds(&Time::since(there.clock))
            .checked_sub(nanoseconds(&Time::since(clock)))
            .ok_or("what it tells cannot be read")?;
        of.say_ready(&json!({ "own": of.owners.own() }))?;
        let batch = of.batch()?.ok_or("no sessions came")?;
        let mut numbers = GroupNumbers { group: of.group, ..GroupNumbers::default() };
        let place = |name: &String| here.profiles.iter().position(|known| known == name).map(|at| at as u16); // few
        numbers.profiles = there.profiles.iter().map(place).collect();
        numbers.handles = there.fixed.iter().copied().zip(here.fixed.iter().copied()).collect();
        let prepared = self.prepare(of, &batch, &mut numbers);
        let Ok((way, subscribers)) = prepared else {
            let why = prepared.err().unwrap_or_default();
            let _ = of.link.send(Kind::Ready, json!({ "error": why }).to_string().as_bytes(), &[]);
            self.forget(of);
            return Err(why);
        };
        of.packets = std::mem::take(&mut numbers.packets);
        self.take_place(of, (way, subscribers), &numbers)
    }

    /// Copies are installed, leases on the disk; packets of the group wait here.
    fn prepare(&self, of: &Arrival<'_>, batch: &[u8], numbers: &mut GroupNumbers) -> Result<Way, String> {
        let refused = self.control().refused_by_ledger();
        self.control().take_in_group(batch, numbers)?;
        self.control().come(of.group).map_err(|refusal| refusal.to_string())?;
        let way = self.awaited_for(BUILDING, |control| match control.take_way_in() {
            Some(way) => Some(Ok(way)),
            None => control.take_crossed().map(|_| Err("a worker there has no room for its subscribers".to_owned())),
        })??;
        // What was sent to the process that had it before, by this one, is on its way back to here.
        of.passage.close(of.group);
        let kept = self.awaited_for(LOADING, |control| control.is_kept().then_some(()));
        let is_refused = self.control().refused_by_ledger() != refused;
        if kept.is_err() || is_refused {
            let (mut way, subscribers) = way;
            self.control().abort_arrival();
            let _ = self.fill(&mut way, Vec::new(), subscribers);
            of.passage.mark();
            let _ = self.crossed();
            return Err("the ledger there does not take its leases".to_owned());
        }
        Ok(way)
    }

    /// Takes in the rest, and waits until the group is this process's, or stays.
    fn take_place(
        &self,
        of: &mut Arrival<'_>,
        (mut way, subscribers): Way,
        numbers: &GroupNumbers,
    ) -> Result<Outcome, String> {
        let loaded = of.say_ready(&json!({})).and_then(|()| self.load(of, numbers));
        let mut not_loaded = None;
        let (parcels, is_ours) = match loaded {
            Ok(parcels) => {
                // It says no more only when it has ended, or given up.
                let go = of.link.send(Kind::Loaded, &[], &[]).and_then(|()| of.link.expect(Kind::Go, None).map(drop));
                (parcels, go.is_ok() || of.is_owner())
            }
            Err(why) => {
                not_loaded = Some(why);
                (Vec::new(), of.is_owner())
            }
        };
        if !is_ours {
            self.control().abort_arrival();
            self.give_back(parcels);
            let filled = self.fill(&mut way, Vec::new(), subscribers);
            of.passage.mark();
            let _ = self.crossed();
            self.forget(of);
            let why = not_loaded.unwrap_or_else(|| "the process that has it has ended, or has given up".to_owned());
            return filled.and(Err(why));
        }
        Ok(self.begin_here(of, (way, subscribers), parcels))
    }

    /// The group is this process's: whatever fails from here on, it does not go back.
    fn begin_here(&self, of: &mut Arrival<'_>, (mut way, subscribers): Way, parcels: Vec<Box<Parcel>>) -> Outcome {
        self.control().announce_group(of.group);
        let filled = self.fill(&mut way, parcels, subscribers);
        // Switches have heard it before the other process looks for what they still send there.
        let _ = self.awaited(|control| control.is_answered().then_some(()));
        if of.link.send(Kind::Armed, &[], &[]).is_err() {
            // Nobody passes anything on.
            of.passage.mark();
        }
        let mut is_left = false;
        let outcome = self.awaited_for(LOADING, |control| {
            if !is_left && of.link.has_hung_up() {
                is_left = true;
                of.passage.mark();
            }
            control.take_crossed()
        });
        let outcome = outcome.or_else(|_| {
            // What would come before it comes no more.
            of.passage.mark();
            self.crossed()
        });
        {
            let mut control = self.control();
            control.add_packets(std::mem::take(&mut of.packets));
            control.end_crossing(None);
        }
        if let Err(why) = filled.and(outcome.as_ref().map(drop).map_err(Clone::clone)) {
            tracing::error!(
                target: "worker", event = "group_not_begun", group = of.name, why,
                "group {} is this process's, but its worker does not carry it: {why}; restart this process", of.name
            );
        }
        // Once the other process hears of it, the group may go back.
        drop(of.reserved.take());
        let outcome = outcome.unwrap_or_default();
        let said = json!({ "held": outcome.arrival.held, "pause_ns": outcome.arrival.pause_ns });
        let _ = of.link.send(Kind::Running, said.to_string().as_bytes(), &[]);
        outcome
    }

    fn give_back(&self, parcels: Vec<Box<Parcel>>) {
        let mut pool = Pool::new(self.shell.arena(), BUFFERS);
        parcels.into_iter().for_each(|mut parcel| parcel.empty_into(&mut pool));
    }

    fn load(&self, of: &mut Arrival<'_>, numbers: &GroupNumbers) -> Result<Vec<Box<Parcel>>, String> {
        let (mut parcels, mut pool) = (Vec::new(), Pool::new(self.shell.arena(), BUFFERS));
        let here = |there: u32| numbers.handles.get(&there).copied();
        loop {
            match of.batch() {
                Ok(Some(octets)) => match Parcel::read(&octets, here, of.ahead, &mut pool) {
                    Ok(parcel) => parcels.push(parcel),
                    Err(why) => {
                        self.give_back(parcels);
                        return Err(why);
                    }
                },
                Ok(None) => return Ok(parcels),
                Err(why) => {
                    self.give_back(parcels);
                    return Err(why);
                }
            }
        }
    }

    /// Nobody has the group here: what was taken in of it goes.
    fn forget(&self, of: &Arrival<'_>) {
        self.control().let_group_go(of.group);
        self.control().end_crossing(None);
    }
}
