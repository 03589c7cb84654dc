//! A user plane's state on its way to another process.
//!
//! ```text
//! sections:  N | octets (4 + n): the endpoint's records       W | worker (2) | octets (4 + n): handles and states of sessions
//!            F | as W, complete: every one has to fit         H | worker (2) | octets (4 + n): packets that wait
//!            C | octets (4 + n): neighbours as JSON                T | worker (2) | octets (4 + n): translation
//!            U, D | worker (2) | octets (4 + n): fragments from access, from the core
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
use gateway::shell::HandOver;
use serde_json::{Value, json};

use super::observer::Observer;
use super::query::{QueriedPlane, Query, QueryAnswer};
use crate::gateway::UserPlane;
use crate::n4::hand_over::{In, Places, put};

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

fn section(out: &mut Vec<u8>, kind: u8, worker: Option<u16>, octets: &[u8]) {
    if octets.is_empty() {
        return;
    }
    out.push(kind);
    out.extend(worker.into_iter().flat_map(u16::to_le_bytes));
    put(out, octets);
}

/// Adds a worker's translation and fragments, as far as they are left; it stands still.
fn export_parts(plane: &mut UserPlane, worker: u16, now: u64, out: &mut Vec<u8>) {
    let mut octets = Vec::new();
    if let Some(nat) = plane.nat_mut() {
        nat.export_rest(now, &mut octets);
        section(out, b'T', Some(worker), &octets);
    }
    for (kind, fragments) in [b'U', b'D'].into_iter().zip(plane.fragments_mut().into_iter().flatten()) {
        octets.clear();
        fragments.export(&mut octets);
        section(out, kind, Some(worker), &octets);
    }
}

impl Observer {
    fn exported(&self) -> std::sync::MutexGuard<'_, Exported> {
        self.exported.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Adds what has changed of workers' translation. Returns how much is left.
    fn export_translation(&self, out: &mut Vec<u8>) -> Result<usize, String> {
        if self.config().nat.is_none() {
            return Ok(0);
        }
        let before = std::mem::take(&mut self.exported().translations_left);
        let mut left = 0;
        for (worker, query) in (0..).zip(&self.queries) {
            match query.ask(Query::Translated { left: before / self.queries.len() }) {
                Some(QueryAnswer::Changed(octets, more)) => {
                    section(out, b'T', Some(worker), &octets);
                    left += more;
                }
                _ => return Err(format!("worker {worker} does not answer")),
            }
        }
        self.exported().translations_left = left;
        Ok(left)
    }

    fn import_section(
        &self,
        workers: &mut [Worker<QueriedPlane>],
        kind: u8,
        worker: u16,
        octets: &[u8],
    ) -> Result<(), String> {
        let now = self.shell.now_ns();
        let garbled = || "state that cannot be read".to_owned();
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
        if kind == b'C' {
            let neighbours: Vec<crate::control::Neighbour> = serde_json::from_slice(octets).map_err(|_| garbled())?;
            self.control().suppose(&neighbours);
            return Ok(());
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
        let mut input = In(octets);
        while !input.0.is_empty() {
            if kind == b'H' {
                let mut read = || {
                    let is_neighbours = input.number::<1>()? != 0;
                    Some((is_neighbours, input.number::<4>()? as u32, input.number::<8>()?, input.number::<8>()?))
                };
                let (is_neighbours, key, tag, at) = read().ok_or_else(garbled)?;
                if !plane.take_in(is_neighbours, key, tag, at, input.text().ok_or_else(garbled)?) {
                    return Err("no room for packets that wait: [buffer] is smaller here".to_owned());
                }
                continue;
            }
            let handle = input.number::<4>().ok_or_else(garbled)? as u32;
            let state = input.text().ok_or_else(garbled)?;
            let sessions = plane.sessions_mut();
            // Before the end a session may have come, gone or changed since: then its state comes again.
            let fits = sessions.import_state(handle, state);
            if kind == b'F' && !fits && !state.is_empty() {
                return Err(format!("session {handle} of worker {worker} has other rules here"));
            }
        }
        Ok(())
    }
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
        section(out, b'N', None, &octets);
        if left > 0 {
            return Ok(left);
        }
        self.mark_again()?;
        let before = std::mem::take(&mut self.exported().left);
        let mut left = 0;
        for (worker, query) in (0..).zip(&self.queries) {
            match query.ask(Query::Changed { left: before / self.queries.len() }) {
                Some(QueryAnswer::Changed(octets, more)) => {
                    section(out, b'W', Some(worker), &octets);
                    left += more;
                }
                _ => return Err(format!("worker {worker} does not answer")),
            }
        }
        self.exported().left = left;
        Ok(left + self.export_translation(out)?)
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
        section(out, b'N', None, &octets);
        let neighbours = serde_json::to_vec(&self.control().known_neighbours()).unwrap_or_default();
        section(out, b'C', None, &neighbours);
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
        section(out, b'N', None, &octets);
        for (n, worker) in (0..).zip(workers) {
            let mut octets = Vec::new();
            let again = owners.iter().filter(|(_, owner)| *owner == n).map(|(number, _)| *number);
            worker.gateway_mut().export_rest(again, &mut octets);
            section(out, b'F', Some(n), &octets);
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
            section(out, b'H', Some(n), &octets);
            export_parts(worker.gateway_mut().plane_mut(), n, clock.now, out);
        }
        // Its lines stand before those of the other process.
        let is_written = self.control().write_nat_log(clock.now);
        if is_written { Ok(()) } else { Err("the NAT log cannot be written".to_owned()) }
    }

    fn handed_over(&self) {
        self.control().close_nat_log();
    }

    fn end(&self) {
        if let Some(mut n4) = self.n4() {
            n4.endpoint_mut().note_changes(false);
        }
        // One that does not answer has nobody to note for.
        let _ = self.follow(false);
    }

    fn import(&self, workers: &mut [Worker<QueriedPlane>], octets: &[u8]) -> Result<(), String> {
        let garbled = || "state that cannot be read".to_owned();
        let mut input = In(octets);
        while let Some(kind) = input.number::<1>() {
            let kind = kind as u8;
            let worker = match kind {
                b'W' | b'F' | b'H' | b'T' | b'U' | b'D' => input.number::<2>().ok_or_else(garbled)? as u16,
                b'N' | b'C' => 0,
                _ => return Err(garbled()),
            };
            self.import_section(workers, kind, worker, input.text().ok_or_else(garbled)?)?;
        }
        Ok(())
    }

    fn imported(&self, _workers: &mut [Worker<QueriedPlane>]) -> Result<(), String> {
        self.control().publish();
        Ok(())
    }

    fn running(&self) {
        if let Some(mut n4) = self.n4() {
            n4.endpoint_mut().imported();
        }
    }
}
