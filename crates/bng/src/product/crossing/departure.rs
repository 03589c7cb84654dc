//! A group goes to another process.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frame::Pool;
use gateway::moves::owners::Owners;
use gateway::moves::passage::Passage;
use gateway::shell::hand_over::{Kind, Link, may_ask};
use serde_json::{Value, json};

use super::meanings::Meanings;
use super::{BUFFERS, BUILDING, COMES, LOADING, LOOK, PACKETS, Question, Reserved, VERSION, lost, say};
use crate::control::Control;
use crate::hand_over::LAYOUT;
use crate::moving::Parcel;
use crate::product::observer::Observer;
use crate::product::protocol::CrossedView;

/// Until sessions have come to rest.
const SETTLING: Duration = Duration::from_secs(5);
/// Until ports were found empty: afterwards the move goes on, and packets may be out of order.
const EMPTYING: Duration = Duration::from_millis(100);
/// Until the process that the group comes from has passed on what it still got from this one.
const DRAINING: Duration = Duration::from_millis(500);
/// Packets of a group that may wait, at most; and no more than a part of all packet buffers.
const MOST_HELD: u32 = 16_384;
const PART_HELD: u32 = 4;

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
    /// Has a group move to another process; returns when it has.
    pub(in crate::product) fn move_to_process(&self, name: &str, socket: &Path) -> Result<CrossedView, String> {
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

/// What the other process says when it is ready; its error.
fn ready(link: &mut Link, patience: Duration) -> Result<String, String> {
    let message = link.expect(Kind::Ready, Some(patience)).map_err(lost("it took the group in"))?;
    let said: Value = serde_json::from_slice(&message.octets).map_err(|_| "what it says cannot be read")?;
    match said.get("error").and_then(Value::as_str) {
        Some(why) => Err(why.to_owned()),
        None => Ok(said.get("own").and_then(Value::as_str).unwrap_or_default().to_owned()),
    }
}
