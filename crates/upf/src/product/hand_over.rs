//! A user plane's state on its way to another process.
//!
//! ```text
//! sections:  N | the endpoint's records                    W | sessions' states, by handle
//!            F | as W, complete: every one has to fit      H | packets that wait
//!            U, D | fragments from access, from the core   T | translation
//! ```
//! | goes | does not |
//! |---|---|
//! | sessions, rules, usage, quotas, buckets, reports not acknowledged, packets that wait, translation, fragments | counters of workers, ports and N4: they begin anew |
//! | associations, responses that may be asked for again, neighbours | connections to `weir show`; traces |

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::PoisonError;

use engine::Worker;
use gateway::fast_path;
use gateway::shell::HandOver;
use gateway::shell::hand_over::changed::export_of_workers;
use gateway::shell::hand_over::octets::{In, NO_WORKER, each_record, each_section, garbled, put, section};
use serde_json::{Value, json};

use super::fast;
use super::observer::Observer;
use super::query::{QueriedPlane, Query, QueryAnswer};
use crate::gateway::UserPlane;
use crate::n4::hand_over::Places;

/// Sessions for which control is locked at a time.
const SLICE: usize = 64;

/// What has been exported.
#[derive(Debug, Default)]
pub struct Exported {
    /// Sessions whose records the other process has made anew since their state was exported.
    again: BTreeSet<u32>,
    /// Sessions of all workers that have changed and are still to be exported.
    left: usize,
    /// Blocks and mappings of translation, likewise.
    translations_left: usize,
}

/// Adds a worker's translation and fragments, as far as they are left; it stands still.
fn export_parts(plane: &mut UserPlane, worker: u16, now: u64, out: &mut Vec<u8>) {
    let mut octets = Vec::new();
    if let Some(nat) = plane.nat_mut() {
        nat.export_rest(now, &mut octets);
        section(out, b'T', worker, &octets);
    }
    for (kind, fragments) in [b'U', b'D'].into_iter().zip(plane.fragments_mut().into_iter().flatten()) {
        octets.clear();
        fragments.export(&mut octets);
        section(out, kind, worker, &octets);
    }
}

impl Observer {
    fn exported(&self) -> std::sync::MutexGuard<'_, Exported> {
        self.exported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The in-kernel path sees packets first, if there is one.
    fn engage(&self) {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let engaged = ready.as_ref().map_or(Ok(()), |ready| ready.engage(&fast::wants(&self.config())));
        if let Err(error) = engaged {
            tracing::warn!(target: "process", event = "config_warning", key = "port.fast_path", "{error}");
        }
    }

    /// Has every worker note which sessions' state changes, or no longer.
    fn follow(&self, on: bool) -> Result<(), String> {
        for (worker, query) in self.queries.iter().enumerate() {
            if !matches!(query.ask(Query::Follow(on)), Some(QueryAnswer::Done)) {
                return Err(format!("worker {worker} does not answer"));
            }
        }
        Ok(())
    }

    /// Has workers export the state of sessions whose records the other process has made anew.
    fn mark_again(&self) -> Result<(), String> {
        let again = std::mem::take(&mut self.exported().again);
        if again.is_empty() {
            return Ok(());
        }
        let mut of_workers = vec![Vec::new(); self.queries.len()];
        if let Some(n4) = self.n4() {
            let store = n4.endpoint().sessions().store();
            for (number, owner) in again.iter().filter_map(|number| Some((*number, store.get(*number)?.worker))) {
                of_workers[usize::from(owner)].push(number);
            }
        }
        for (worker, handles) in of_workers.into_iter().enumerate().filter(|(_, handles)| !handles.is_empty()) {
            if !matches!(self.queries[worker].ask(Query::Mark(handles)), Some(QueryAnswer::Done)) {
                return Err(format!("worker {worker} does not answer"));
            }
        }
        Ok(())
    }

    /// Asks a worker for what has changed.
    fn ask_changed(&self, worker: u16, query: Query) -> Option<(Vec<u8>, usize)> {
        match self.queries.get(usize::from(worker))?.ask(query) {
            Some(QueryAnswer::Changed(octets, left)) => Some((octets, left)),
            _ => None,
        }
    }

    fn import_section(
        &self,
        workers: &mut [Worker<QueriedPlane>],
        kind: u8,
        worker: u16,
        octets: &[u8],
    ) -> Result<(), String> {
        let now = self.shell.now_ns();
        if kind == b'N' {
            let (mut n4, clock) = (self.n4().ok_or_else(garbled)?, self.shell.wall_clock());
            let cell = std::cell::RefCell::new(workers);
            let mut places = Places {
                install: &mut |worker, handle, session| {
                    let mut workers = cell.borrow_mut();
                    let worker = workers.get_mut(usize::from(worker));
                    worker.is_some_and(|worker| {
                        worker.gateway_mut().plane_mut().sessions_mut().install(handle, session, now).is_ok()
                    })
                },
                remove: &mut |worker, handle| {
                    if let Some(worker) = cell.borrow_mut().get_mut(usize::from(worker)) {
                        let _ = worker.gateway_mut().plane_mut().sessions_mut().remove(handle, now);
                    }
                },
            };
            return n4.endpoint_mut().import(octets, &mut self.control(), &clock, &mut places);
        }
        let plane = workers.get_mut(usize::from(worker)).ok_or_else(garbled)?.gateway_mut().plane_mut();
        match (kind, plane.nat_mut()) {
            (b'T', Some(nat)) => return nat.import(octets).map_err(|why| format!("[nat]: {why}")),
            (b'T', None) => return Err("[nat] is not configured here".to_owned()),
            _ => {}
        }
        if matches!(kind, b'U' | b'D') {
            let fragments = plane.fragments_mut().ok_or("fragments wait, and [reassembly] is not configured here")?;
            return fragments[usize::from(kind == b'D')].import(octets).map_err(|why| format!("[reassembly]: {why}"));
        }
        if kind == b'H' {
            return import_waiting(plane, octets);
        }
        each_record(octets, |handle, state| {
            // Before the end a session may have come, gone or changed since: then its state comes again.
            let fits = plane.sessions_mut().import_state(handle, state);
            if kind == b'F' && !fits && !state.is_empty() {
                return Err(format!("session {handle} of worker {worker} has other rules here"));
            }
            Ok(())
        })
    }
}

/// Takes in packets that wait.
fn import_waiting(plane: &mut UserPlane, octets: &[u8]) -> Result<(), String> {
    let mut input = In(octets);
    while !input.0.is_empty() {
        let mut read = || {
            let is_neighbours = input.number::<1>()? != 0;
            Some((is_neighbours, input.number::<4>()? as u32, input.number::<8>()?, input.number::<8>()?))
        };
        let (is_neighbours, key, tag, at) = read().ok_or_else(garbled)?;
        if !plane.take_in(is_neighbours, key, tag, at, input.text().ok_or_else(garbled)?) {
            return Err("no room for packets that wait: [buffer] is smaller here".to_owned());
        }
    }
    Ok(())
}

impl HandOver<QueriedPlane> for Observer {
    fn hindrances(&self) -> Vec<String> {
        let config = self.config();
        let of = |is: bool, what: &str| is.then(|| what.to_owned());
        [
            of(config.simulate.is_some(), "[simulate]: made-up sessions are not handed over"),
            of(
                config.n4.is_none() && config.simulate.is_none(),
                "there is no [n4] whose sessions could be handed over",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn begin(&self) -> io::Result<(Value, Vec<OwnedFd>)> {
        *self.exported() = Exported::default();
        let mut n4 = self.n4().ok_or_else(|| io::Error::other("no [n4]"))?;
        let (sockets, has_control) = n4.descriptors()?;
        n4.endpoint_mut().note_changes(true);
        let note = json!({ "began": n4.endpoint().began(), "control_socket": has_control, "instances": self.config().instances() });
        drop(n4);
        self.follow(true).map_err(io::Error::other)?;
        Ok((note, sockets))
    }

    fn export(&self, out: &mut Vec<u8>) -> Result<usize, String> {
        let clock = self.shell.wall_clock();
        let mut octets = Vec::new();
        let left = {
            let mut n4 = self.n4().ok_or("no [n4]")?;
            let mut exported = self.exported();
            n4.endpoint_mut().export(SLICE, &clock, &mut octets, |number| {
                exported.again.insert(number);
            })
        };
        section(out, b'N', NO_WORKER, &octets);
        if left > 0 {
            return Ok(left);
        }
        self.mark_again()?;
        let workers = self.queries.len() as u16; // as configured
        let (mut sessions, mut translations) = {
            let exported = self.exported();
            (exported.left, exported.translations_left)
        };
        export_of_workers(out, (b'W', workers), &mut sessions, |worker, left| {
            self.ask_changed(worker, Query::Changed { left })
        })?;
        if self.config().nat.is_some() {
            export_of_workers(out, (b'T', workers), &mut translations, |worker, left| {
                self.ask_changed(worker, Query::Translated { left })
            })?;
        }
        let mut exported = self.exported();
        (exported.left, exported.translations_left) = (sessions, translations);
        Ok(sessions + translations)
    }

    fn settle(&self) -> bool {
        let Some(mut n4) = self.n4() else { return true };
        n4.settle(&mut self.control(), || self.shell.wall_clock())
    }

    fn export_settled(&self, out: &mut Vec<u8>) -> Result<(), String> {
        let clock = self.shell.wall_clock();
        let mut octets = Vec::new();
        {
            let (mut n4, mut exported) = (self.n4().ok_or("no [n4]")?, self.exported());
            n4.endpoint_mut().export_settled(&clock, &mut octets, |number| {
                exported.again.insert(number);
            });
        }
        section(out, b'N', NO_WORKER, &octets);
        Ok(())
    }

    fn export_rest(&self, workers: &mut [Worker<QueriedPlane>], out: &mut Vec<u8>) -> Result<(), String> {
        let clock = self.shell.wall_clock();
        let mut exported = self.exported();
        let mut octets = Vec::new();
        let mut owners = Vec::new();
        {
            let mut n4 = self.n4().ok_or("no [n4]")?;
            n4.endpoint_mut().export_rest(&clock, &mut octets, |number| {
                exported.again.insert(number);
            });
            let store = n4.endpoint().sessions().store();
            owners.extend(exported.again.iter().filter_map(|number| Some((*number, store.get(*number)?.worker))));
        }
        section(out, b'N', NO_WORKER, &octets);
        for (n, worker) in (0..).zip(workers) {
            let mut octets = Vec::new();
            let again = owners.iter().filter(|(_, owner)| *owner == n).map(|(number, _)| *number);
            worker.gateway_mut().export_rest(again, &mut octets);
            section(out, b'F', n, &octets);
            octets.clear();
            let is_all = worker.gateway_mut().plane_mut().each_waiting(|is_neighbours, key, tag, at, packet| {
                octets.push(u8::from(is_neighbours));
                octets.extend(key.to_le_bytes());
                octets.extend(tag.to_le_bytes());
                octets.extend(at.to_le_bytes());
                put(&mut octets, packet);
            });
            if !is_all {
                return Err(format!("packets of worker {n} are under way"));
            }
            section(out, b'H', n, &octets);
            export_parts(worker.gateway_mut().plane_mut(), n, clock.now, out);
        }
        // Its lines stand before those of the other process.
        let is_written = self.control().nat_log().write(clock.now);
        if is_written { Ok(()) } else { Err("the NAT log cannot be written".to_owned()) }
    }

    fn handed_over(&self) {
        self.control().nat_log().close();
    }

    fn end(&self) {
        if let Some(mut n4) = self.n4() {
            n4.endpoint_mut().note_changes(false);
        }
        // In the place of the other process's, if that had come so far.
        self.engage();
        // One that does not answer has nobody to note for.
        let _ = self.follow(false);
    }

    fn import(&self, workers: &mut [Worker<QueriedPlane>], octets: &[u8]) -> Result<(), String> {
        each_section(octets, |kind, worker, octets| match kind {
            b'N' | b'W' | b'F' | b'H' | b'T' | b'U' | b'D' => self.import_section(workers, kind, worker, octets),
            _ => Err(garbled()),
        })
    }

    fn imported(&self, _workers: &mut [Worker<QueriedPlane>]) -> Result<(), String> {
        self.control().publish();
        Ok(())
    }

    fn take_place(&self) {
        if self.ready.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return fast_path::disengage(&fast::wants(&self.config()));
        }
        self.engage();
    }

    fn running(&self) {
        // Sessions go into the kernel again.
        let _ = self.follow(false);
        if let Some(mut n4) = self.n4() {
            n4.endpoint_mut().imported();
        }
    }
}
