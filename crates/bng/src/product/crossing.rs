//! A group moves to another process of this machine: `weir move group NAME --to-process SOCKET`.
//!
//! ```text
//! the process that has the group                                  the one that gets it
//!     ├─ {"ask":"group_comes", …} ──────────────────────────────────►│ at its control socket
//!     ├─ what numbers mean, leases, sessions, RADIUS ───────────────►│ installs copies, writes leases to its ledger
//!     │   sessions stand still, packets are forwarded                │ packets that come there wait
//!     │ ◄──────────────────────────────────────────────── ready ─────┤ all is on its disk
//!     ■ packets wait here, too
//!     ├─ counters, policers, packets that waited ───────────────────►│
//!     │ ◄─────────────────────────────────────────────── loaded ─────┤
//!     ◆ the owner's file says the other process: the group is there
//!     ├─ go ────────────────────────────────────────────────────────►│ announces the group's hardware address
//!     │   what waited, and what still comes, is passed on            │ forwards it, once it has what it counted here
//!     │ ◄─────────────────────────────────────────────── armed ──────┤
//!     ├─ ports are empty: a mark, behind what was passed on ────────►■ packets that came there go on
//!     │ ◄────────────────────────────────────────────── running ─────┤
//!     ├ leases and sessions are forgotten here
//! ```
//! The file is the only thing that decides. Until it is replaced, whatever ends leaves the group where it was: the old process
//! has all of it, and the new one forgets what it got, at once or after its next start. Afterwards the group is the new
//! process's, which has all leases on its disk. A process that does not hear of it any more reads the file.

#![allow(clippy::vec_box, reason = "parcels go on in the boxes they came in")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Clock, Time, Tsc};
use frame::Pool;
use gateway::moves::Outcome;
use gateway::moves::owners::Owners;
use gateway::moves::passage::Passage;
use gateway::shell::hand_over::{Kind, Link, may_ask, may_be_answered};
use gateway::socket::RawRequest;
use gateway::tables::many;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::observer::Observer;
use super::protocol::CrossedView;
use crate::config::Config;
use crate::control::Control;
use crate::hand_over::LAYOUT;
use crate::moving::Parcel;
use crate::sessions::crossing::GroupNumbers;
use crate::slow::ControlPacket;

/// The version of what the two processes say to each other.
const VERSION: u32 = 1;
/// Questions of another process, and the answer of one that waits for what follows.
const COMES: &str = "group_comes";
const PACKETS: &str = "group_packets";

/// How long the other process may take for copies and leases, and for what is left.
const BUILDING: Duration = Duration::from_secs(60);
const LOADING: Duration = Duration::from_secs(10);
/// Until sessions have come to rest.
const SETTLING: Duration = Duration::from_secs(5);
/// Until ports were found empty: afterwards the move goes on, and packets may be out of order.
const EMPTYING: Duration = Duration::from_millis(100);
/// Until the process that the group comes from has passed on what it still got from this one.
const DRAINING: Duration = Duration::from_millis(500);
/// How often something is looked at.
const LOOK: Duration = Duration::from_micros(200);
/// Octets that may come of a group: leases, sessions, counters, packets.
const LARGEST: usize = 1 << 30;
/// Until the owner of a group is read again where that has failed.
const AGAIN: Duration = Duration::from_secs(1);
/// Frame buffers for packets that waited in queues.
const BUFFERS: usize = 64;
/// Packets of a group that may wait, at most; and no more than a part of all packet buffers.
const MOST_HELD: u32 = 16_384;
const PART_HELD: u32 = 4;

/// What is asked first.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    ask: String,
    version: u32,
    layout: u64,
    group: String,
    /// The process that asks.
    from: String,
}

/// What numbers mean in what follows, and what has to be alike.
#[derive(Debug, Serialize, Deserialize)]
struct Meanings {
    /// The workers' clock.
    clock: (u64, u64),
    /// Names, sides and VRFs of ports.
    ports: Vec<(String, String, String)>,
    instances: Vec<String>,
    /// What the group's configuration says, but for what may differ.
    group: Value,
    radius: bool,
    sessions: bool,
    /// Names the DHCPv6 server.
    own_mac: [u8; 6],
    owners: String,
    profiles: Vec<String>,
    /// Configured subscribers of the group, by number, and what tells them apart.
    fixed: Vec<u32>,
    digest: u64,
}

/// Keys of a group that may differ.
const MAY_DIFFER: [&str; 8] =
    ["worker", "active", "announce", "acl", "profile", "s_vlan_rate", "overhead", "line_framing"];
const SESSIONS_MAY_DIFFER: [&str; 5] = ["lease_seconds", "dns", "domain", "ntp", "advertisement_seconds"];

/// The group's configuration without what may differ.
fn alike(config: &Config, group: u16) -> Value {
    let mut value = config.group.get(usize::from(group)).map(|group| json!(group)).unwrap_or_default();
    if let Some(keys) = value.as_object_mut() {
        MAY_DIFFER.iter().for_each(|key| drop(keys.remove(*key)));
        if let Some(sessions) = keys.get_mut("sessions").and_then(Value::as_object_mut) {
            SESSIONS_MAY_DIFFER.iter().for_each(|key| drop(sessions.remove(*key)));
        }
    }
    value
}

impl Meanings {
    fn of(control: &Control, group: u16, clock: (u64, u64), owners: &Owners) -> Self {
        let config = control.config();
        let port =
            |port: &crate::config::Port| (port.name.clone(), port.role.name().to_owned(), port.instance().to_owned());
        let (fixed, digest) = control.fixed_of(group);
        Self {
            clock,
            ports: config.port.iter().map(port).collect(),
            instances: config.instances(),
            group: alike(config, group),
            radius: config.radius.is_some() && config.has_sessions(),
            sessions: config.has_sessions(),
            own_mac: control.own_mac().0,
            owners: owners.folder().display().to_string(),
            profiles: config.profile.iter().map(|profile| profile.name.clone()).collect(),
            fixed,
            digest,
        }
    }

    /// Why a group with these cannot come to a process with `here`; a sentence.
    fn differs(&self, here: &Self) -> Option<String> {
        let of = |what: &str, there: String, here: String| Some(format!("{what} differ: {there} there, {here} here"));
        if self.ports != here.ports {
            return of("names, roles or instances of ports", words(&self.ports), words(&here.ports));
        }
        if self.instances != here.instances {
            return of("network instances", self.instances.join(", "), here.instances.join(", "));
        }
        if let Some(key) = first_difference(&self.group, &here.group) {
            let of_key = |group: &Value| group.get(&key).unwrap_or(&Value::Null).to_string();
            return Some(format!(
                "the group's configuration differs: {key} is {} there, {} here",
                of_key(&self.group),
                of_key(&here.group)
            ));
        }
        if (self.fixed.len(), self.digest) != (here.fixed.len(), here.digest) {
            let (there, here) = (self.fixed.len(), here.fixed.len());
            return Some(format!(
                "[[subscriber]] of the group differs: {there} there, {here} here, or other lines or addresses"
            ));
        }
        if (self.radius, self.sessions) != (here.radius, here.sessions) {
            return Some("[radius] is configured in one of the two processes only".to_owned());
        }
        if self.own_mac != here.own_mac {
            return Some(
                "the DHCPv6 server has another identity there: the first group with a `mac` has another one".to_owned(),
            );
        }
        (self.owners != here.owners)
            .then(|| format!("[moves] owners differs: {} there, {} here", self.owners, here.owners))
    }
}

fn words(ports: &[(String, String, String)]) -> String {
    let word = |(name, role, instance): &(String, String, String)| format!("{name} ({role}, {instance})");
    ports.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The first key that two objects do not have alike.
fn first_difference(there: &Value, here: &Value) -> Option<String> {
    let (there, here) = (there.as_object()?, here.as_object()?);
    there.keys().chain(here.keys()).find(|key| there.get(*key) != here.get(*key)).cloned()
}

/// A line of the other process's answer; its error.
fn answer(stream: &UnixStream) -> Result<Value, String> {
    let mut text = Vec::new();
    // An octet at a time: what follows are messages.
    let read = BufReader::with_capacity(1, stream).take(64 << 10).read_until(b'\n', &mut text);
    read.map_err(|error| format!("no answer of the other process: {error}"))?;
    let answer: Value = serde_json::from_slice(&text).map_err(|_| "the other process's answer cannot be read")?;
    match answer.get("error").and_then(Value::as_str) {
        Some(why) => Err(why.to_owned()),
        None => Ok(answer),
    }
}

fn say(mut stream: &UnixStream, value: &Value) -> io::Result<()> {
    stream.write_all(format!("{value}\n").as_bytes())
}

/// Asks another process something at its control socket, and leaves the connection.
fn connect(socket: &Path, question: &Value) -> Result<UnixStream, String> {
    let stream =
        UnixStream::connect(socket).map_err(|error| format!("no gateway answers at {}: {error}", socket.display()))?;
    may_ask(&stream).map_err(|why| format!("the gateway at {}: {why}", socket.display()))?;
    let set = stream.set_read_timeout(Some(LOADING)).and_then(|()| stream.set_write_timeout(Some(LOADING)));
    set.and_then(|()| say(&stream, question)).map_err(|error| format!("the other process takes nothing: {error}"))?;
    answer(&stream)?;
    Ok(stream)
}

fn lost(doing: &'static str) -> impl Fn(io::Error) -> String {
    move |error| format!("the other process has ended, or does not answer, while {doing}: {error}")
}

/// While it is there, no other group moves, and nothing is reloaded or taken over.
struct Reserved<'a>(&'a Observer);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.0.control().release();
    }
}

/// What goes along with a departure.
struct Departure<'a> {
    group: u16,
    name: &'a str,
    socket: &'a Path,
    passage: Arc<Passage>,
    owners: Owners,
    link: Link,
    /// What the worker has exported: for the case that the group stays.
    parcels: Vec<Box<Parcel>>,
}

impl Observer {
    /// Groups move between this process and others from now on, if they are to.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn begin_crossings(this: &Arc<Self>, config: &Config) -> io::Result<()> {
        let Some(section) = &config.moves else { return Ok(()) };
        let mut control = this.control();
        let (Some(outside), Some(sorting)) = (control.take_outside(), control.sorting()) else { return Ok(()) };
        let observer = Arc::downgrade(this);
        let told = move || {
            if let Some(observer) = observer.upgrade() {
                observer.shell.call_control();
            }
        };
        let passage = Passage::start(outside, this.shell.arena().clone(), sorting, told)?;
        control.set_passage(Arc::new(passage), Owners::new(section, &config.control_socket));
        Ok(())
    }

    /// Has a group move to another process; returns when it has.
    pub(super) fn move_to_process(&self, name: &str, socket: &Path) -> Result<CrossedView, String> {
        let begin = Instant::now();
        let (group, (passage, owners)) = {
            let mut control = self.control();
            let group = control.group_named(name).map_err(|refusal| refusal.to_string())?;
            let crossings = control.crossings().ok_or_else(|| {
                format!("group \"{name}\" cannot go to another process: [moves] is not configured, which says where groups are")
            })?;
            if !control.is_here(group) {
                let at = control.process_of(group).unwrap_or("another process");
                return Err(format!("group \"{name}\" is not here: {at} has it"));
            }
            let reserved = control.reserve(group);
            reserved.map_err(|why| format!("group \"{name}\" cannot go to another process: {why}"))?;
            (group, crossings)
        };
        let _reserved = Reserved(self);
        if owners.owner(name).ok().flatten().as_deref() != Some(owners.own()) {
            return Err(format!("group \"{name}\" is not this process's, says {}", owners.folder().display()));
        }
        // Before anything is touched: whether it can be written.
        let written = owners.prepare(name, owners.own()).map(drop);
        written.map_err(|error| format!("group \"{name}\" stays: {}: {error}", owners.folder().display()))?;
        let question = json!(Question {
            ask: COMES.to_owned(),
            version: VERSION,
            layout: LAYOUT,
            group: name.to_owned(),
            from: owners.own().to_owned(),
        });
        let stream = connect(socket, &question).map_err(|why| format!("group \"{name}\" stays: {why}"))?;
        let link = Link::new(stream);
        let mut departure = Departure { group, name, socket, passage, owners, link, parcels: Vec::new() };
        let moved = self.depart(&mut departure);
        let (to, (subscribers, pause, held)) = match moved {
            Ok(moved) => moved,
            Err(why) => {
                tracing::warn!(
                    target: "worker", event = "group_not_moved_to_process", group = name, to = %socket.display(), why,
                    "group {name} stays: {why}"
                );
                return Err(format!("group \"{name}\" stays: {why}"));
            }
        };
        let (took, pause_us) = (begin.elapsed(), pause.as_micros() as u64);
        tracing::info!(
            target: "worker", event = "group_moved_to_process", group = name, to, subscribers, pause_us,
            ms = took.as_millis() as u64,
            "group {name} moved to the process at {to} in {} ms; its packets waited {pause_us} us", took.as_millis()
        );
        let took_us = took.as_micros() as u64;
        Ok(CrossedView { group: name.to_owned(), to_process: to, subscribers, took_us, pause_us, held_packets: held })
    }

    /// Everything but words. The process it is at now, subscribers, how long packets waited, and how many did there.
    fn depart(&self, of: &mut Departure<'_>) -> Result<(String, (u64, Duration, u64)), String> {
        let clock = self.shell.time().origin().ok_or("the clock is simulated")?;
        let meanings = Meanings::of(&self.control(), of.group, clock, &of.owners);
        let note = serde_json::to_vec(&meanings).map_err(|error| error.to_string())?;
        of.link.send(Kind::Hello, &note, &[]).map_err(lost("it was told of the group"))?;
        let to = ready(&mut of.link, LOADING)?;
        if !Path::new(&to).is_absolute() || to.trim() != to || to.contains('\n') || to == of.owners.own() {
            return Err("the other process does not say what it is known by".to_owned());
        }
        let way = connect(of.socket, &json!({ "ask": PACKETS, "group": of.name }))?;
        self.control().depart(of.group).map_err(|refusal| refusal.to_string())?;
        let begun = self.copy(of);
        self.control().go_on_crossing(begun.is_ok());
        if let Err(why) = begun {
            let _ = self.crossed();
            self.control().end_crossing(None);
            return Err(why);
        }
        let since = Instant::now();
        let switched = self.switch(of).and_then(|()| self.commit(of, &to));
        if let Err(why) = switched {
            self.bring_back(of);
            return Err(why);
        }
        of.passage.open(of.group, way);
        let mut pool = Pool::new(self.shell.arena(), BUFFERS);
        of.parcels.iter_mut().for_each(|parcel| parcel.empty_into(&mut pool));
        drop(pool);
        let held = self.announce(of);
        let pause = since.elapsed();
        self.control().go_on_crossing(true);
        // The group is the other process's, whatever a worker here still has to do.
        let outcome = self.crossed().unwrap_or_default();
        let mut control = self.control();
        control.let_group_go(of.group);
        control.end_crossing(Some((of.group, &to)));
        drop(control);
        self.shell.call_control();
        Ok((to, (outcome.subscribers, pause, held)))
    }

    /// Leases, sessions and what RADIUS has go, and are on the other process's disk.
    fn copy(&self, of: &mut Departure<'_>) -> Result<(), String> {
        self.awaited_for(SETTLING, |control| control.settle_sessions().then_some(()))
            .map_err(|_| "sessions do not come to rest: records wait for the ledger")?;
        let mut octets = Vec::new();
        self.control().export_group(of.group, &mut octets)?;
        of.link.send_batch(&octets, || ()).map_err(lost("it got the group's sessions"))?;
        ready(&mut of.link, BUILDING).map(drop)?;
        let most = (self.control().config().frames.packet_buffers / PART_HELD).min(MOST_HELD);
        of.passage.hold(of.group, most as usize);
        Ok(())
    }

    /// Packets wait from now on, and what the worker knows goes.
    fn switch(&self, of: &mut Departure<'_>) -> Result<(), String> {
        let (mut parcels, subscribers) = self.awaited_for(LOADING, Control::take_parcels)?;
        let (until, mut octets) = (Instant::now() + LOADING, Vec::new());
        let mut have = 0;
        let mut sent = Ok(());
        // All of it, whatever the other process does: it may have to go back.
        while have < subscribers || !self.control().has_left() {
            let Some(parcel) = parcels.pop() else {
                if Instant::now() > until {
                    return Err("a worker does not answer".to_owned());
                }
                self.awaited(|_| Some(()))?;
                std::thread::sleep(LOOK);
                continue;
            };
            have += parcel.count();
            octets.clear();
            parcel.write(self.shell.arena(), &mut octets);
            of.parcels.push(parcel);
            sent = sent.and_then(|()| of.link.send_batch(&octets, || ()));
        }
        sent.map_err(lost("it got the group's counters"))?;
        of.link.send(Kind::Synced, &[], &[]).map_err(lost("it got the group's counters"))?;
        of.link.expect(Kind::Loaded, Some(LOADING)).map_err(lost("it took the group's counters in"))?;
        Ok(())
    }

    /// From here on the group is the other process's. An error: it is not.
    fn commit(&self, of: &mut Departure<'_>, to: &str) -> Result<(), String> {
        let failed = |error| format!("{} cannot be written: {error}", of.owners.folder().display());
        let draft = of.owners.prepare(of.name, to).map_err(failed)?;
        // Last of all: one that has ended may have read already that it does not have the group.
        if of.link.has_hung_up() {
            return Err("the other process has ended".to_owned());
        }
        draft.give().map_err(failed)?;
        // One that has ended reads it after its next start.
        let _ = of.link.send(Kind::Go, &[], &[]);
        Ok(())
    }

    /// The other process announces the group; packets that still come here are before those that come there. How many waited
    /// there.
    fn announce(&self, of: &mut Departure<'_>) -> u64 {
        if of.link.expect(Kind::Armed, Some(LOADING)).is_err() {
            return 0;
        }
        self.control().ask_empty();
        let _ = self.awaited_for(EMPTYING, |control| control.are_empty().then_some(()));
        // What the other process has sent here before is on its way back.
        let until = Instant::now() + DRAINING;
        while of.passage.sources(of.group) > 0 && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        of.passage.send_mark(of.group);
        let running = of.link.expect(Kind::Running, Some(LOADING)).ok();
        let said = running.and_then(|message| serde_json::from_slice::<Value>(&message.octets).ok());
        said.and_then(|said| said.get("held").and_then(Value::as_u64)).unwrap_or(0)
    }

    /// The move does not take place: the group goes back to its worker, with what waited.
    fn bring_back(&self, of: &mut Departure<'_>) {
        // Closed, and not dropped: the other process is not to wait for it.
        let _ = of.link.has_ended(Duration::from_millis(1));
        self.control().abort_departure();
        let came = self.crossed().and_then(|_| {
            self.control().come(of.group).map_err(|refusal| refusal.to_string())?;
            let (mut way, subscribers) = self.awaited_for(LOADING, Control::take_way_in)?;
            self.fill(&mut way, std::mem::take(&mut of.parcels), subscribers)?;
            of.passage.bring_back(of.group);
            of.passage.mark();
            self.crossed()
        });
        self.control().end_crossing(None);
        if let Err(why) = came {
            tracing::error!(
                target: "worker", event = "group_not_back", group = of.name, why,
                "group {} has not come back to its worker: {why}; restart this process", of.name
            );
        }
    }

    /// Hands parcels to the worker; together they count for so many subscribers.
    fn fill(
        &self,
        way: &mut table::ring::Producer<Box<Parcel>>,
        mut parcels: Vec<Box<Parcel>>,
        subscribers: usize,
    ) -> Result<(), String> {
        if parcels.is_empty() {
            parcels.push(Box::default());
        }
        parcels.iter_mut().for_each(|parcel| parcel.set_count(0));
        if let Some(last) = parcels.last_mut() {
            last.set_count(subscribers);
        }
        let until = Instant::now() + LOADING;
        for mut parcel in parcels {
            while let Err(back) = way.push(parcel) {
                parcel = back;
                if Instant::now() > until {
                    return Err("a worker takes nothing".to_owned());
                }
                self.control().wake_workers();
                std::thread::sleep(LOOK);
            }
        }
        self.control().wake_workers();
        Ok(())
    }

    /// How the move has ended, when it has.
    fn crossed(&self) -> Result<Outcome, String> {
        self.awaited_for(LOADING, Control::take_crossed)
    }

    /// Serves another process that asks on a connection of its own.
    pub(super) fn serve_crossing(&self, asked: &RawRequest, stream: UnixStream) {
        let said = match asked.name.as_str() {
            PACKETS => self.packets_come(asked, &stream),
            _ => return self.group_comes(asked, stream),
        };
        match said {
            Ok((passage, group)) => {
                if say(&stream, &json!({ PACKETS: {} })).is_ok() {
                    passage.receive(group, stream);
                }
            }
            Err(why) => drop(say(&stream, &json!({ "error": why }))),
        }
    }

    fn packets_come(&self, asked: &RawRequest, stream: &UnixStream) -> Result<(Arc<Passage>, u16), String> {
        #[derive(Deserialize)]
        struct Of {
            group: String,
        }
        may_be_answered(stream)?;
        let of: Of = asked.read()?;
        let control = self.control();
        let group = control.group_named(&of.group).map_err(|refusal| refusal.to_string())?;
        let (passage, _) = control.crossings().ok_or("[moves] is not configured there")?;
        Ok((passage, group))
    }

    /// A group comes from another process.
    fn group_comes(&self, asked: &RawRequest, stream: UnixStream) {
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

/// What the other process says when it is ready; its error.
fn ready(link: &mut Link, patience: Duration) -> Result<String, String> {
    let message = link.expect(Kind::Ready, Some(patience)).map_err(lost("it took the group in"))?;
    let said: Value = serde_json::from_slice(&message.octets).map_err(|_| "what it says cannot be read")?;
    match said.get("error").and_then(Value::as_str) {
        Some(why) => Err(why.to_owned()),
        None => Ok(said.get("own").and_then(Value::as_str).unwrap_or_default().to_owned()),
    }
}
