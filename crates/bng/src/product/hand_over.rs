//! A broadband gateway's state on its way to another process.
//!
//! ```text
//! sections:  W | subscribers' records, by handle      F | as W, complete: every one has to fit
//!            Q | packets in subscribers' queues       V | what outer VLANs' rates have earned
//!            H | packets that wait for a neighbour    T | translation
//!            A | sessions and RADIUS                  L | leases                                   P | requests
//! ```
//! Records go while workers run. Sessions go when control has come to rest, which packets do not notice.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{MutexGuard, PoisonError};

use engine::Worker;
use gateway::fast_path::{self, Ready};
use gateway::shell::HandOver;
use gateway::shell::hand_over::changed::export_of_workers;
use gateway::shell::hand_over::octets::{each_section, garbled};
use serde_json::Value;

use super::fast;
use super::observer::Observer;
use crate::fast::FastPath;
use crate::gateway::BroadbandGateway;
use crate::hand_over::{Handing, Numbers, TakenIn};

/// What is handed over, or taken in.
#[derive(Default)]
pub struct Succession {
    /// Records, and blocks and mappings, that have changed and are still to be exported.
    left: [usize; 2],
    /// How subscribers of the other process fit in here.
    numbers: Numbers,
    /// What each worker has taken in.
    taken: Vec<TakenIn>,
    /// What puts the in-kernel path into its place: that of another process, before it or after.
    ready: Option<Ready<FastPath>>,
}

impl Succession {
    /// Nothing yet, of a process that goes on for one whose subscribers fit in by those numbers.
    pub fn of(numbers: Numbers) -> Self {
        Self { numbers, ..Self::default() }
    }
}

impl Observer {
    /// The in-kernel path sees packets first, if there is one.
    fn engage(&self) {
        // No more of control than what it is asked for: engaging asks the helper.
        let config = self.control().config().clone();
        let succession = self.succession();
        let engaged = succession.ready.as_ref().map_or(Ok(()), |ready| ready.engage(&fast::wants(&config)));
        if let Err(error) = engaged {
            tracing::warn!(target: "process", event = "config_warning", key = "port.fast_path", "{error}");
        }
    }

    /// What puts the in-kernel path into its place.
    pub(super) fn keep_ready(&self, ready: Option<Ready<FastPath>>) {
        self.succession().ready = ready;
    }

    fn succession(&self) -> MutexGuard<'_, Succession> {
        self.succession.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a worker; none: it does not answer.
    fn ask_handing(&self, worker: u16, handing: Handing) -> Option<Handing> {
        let worker = usize::from(worker);
        self.control().ask_handing(worker, handing);
        self.awaited(|control| control.handing(worker)).ok()
    }

    /// Asks a worker for what has changed.
    fn ask_changed(&self, worker: u16, handing: Handing) -> Option<(Vec<u8>, usize)> {
        match self.ask_handing(worker, handing)? {
            Handing::Records { left, out } | Handing::Translation { left, out } => Some((out, left)),
            Handing::Follow(_) => None,
        }
    }

    fn workers(&self) -> u16 {
        self.control().workers() as u16 // as configured
    }
}

impl HandOver<BroadbandGateway> for Observer {
    fn hindrances(&self) -> Vec<String> {
        let control = self.control();
        let why = "a group moves to another worker; try again when it has: `weir show groups`";
        let crosses = "a group moves between processes, or packets of one are passed on to another or by it: end that one, or move the group back";
        let moves = control.moves().is_busy().then_some(why);
        moves.or(control.is_crossing().then_some(crosses)).map(str::to_owned).into_iter().collect()
    }

    fn begin(&self) -> io::Result<(Value, Vec<OwnedFd>)> {
        self.succession().left = [0; 2];
        let (meanings, sockets) = {
            let mut control = self.control();
            if control.moves().is_busy() {
                return Err(io::Error::other("a group moves to another worker"));
            }
            if control.is_crossing() {
                return Err(io::Error::other("a group moves between processes, or its packets are passed on"));
            }
            control.begin_succession();
            (serde_json::to_value(control.meanings())?, control.descriptors()?)
        };
        for worker in 0..self.workers() {
            let answer = self.ask_handing(worker, Handing::Follow(true));
            answer.ok_or_else(|| io::Error::other(format!("worker {worker} does not answer")))?;
        }
        Ok((meanings, sockets))
    }

    fn export(&self, out: &mut Vec<u8>) -> Result<usize, String> {
        let (workers, mut left) = (self.workers(), self.succession().left);
        export_of_workers(out, (b'W', workers), &mut left[0], |worker, left| {
            self.ask_changed(worker, Handing::Records { left, out: Vec::new() })
        })?;
        if self.control().config().nat.is_some() {
            export_of_workers(out, (b'T', workers), &mut left[1], |worker, left| {
                self.ask_changed(worker, Handing::Translation { left, out: Vec::new() })
            })?;
        }
        self.succession().left = left;
        Ok(left.iter().sum())
    }

    fn settle(&self) -> bool {
        self.control().settle(self.shell.now_ns())
    }

    fn export_settled(&self, out: &mut Vec<u8>) -> Result<(), String> {
        self.control().export(out)
    }

    fn export_rest(&self, workers: &mut [Worker<BroadbandGateway>], out: &mut Vec<u8>) -> Result<(), String> {
        for (n, worker) in (0..).zip(workers) {
            let (gateway, env) = worker.parts_mut();
            gateway.export_rest(env, n, out)?;
        }
        let mut control = self.control();
        control.export_requests(out);
        // Its lines stand before those of the other process.
        let is_written = control.nat_log().write(self.shell.now_ns());
        if is_written { Ok(()) } else { Err("the NAT log cannot be written".to_owned()) }
    }

    fn handed_over(&self) {
        self.control().nat_log().close();
    }

    fn end(&self) {
        // In the place of the other process's, if that had come so far.
        self.engage();
        self.control().end_succession();
    }

    fn import(&self, workers: &mut [Worker<BroadbandGateway>], octets: &[u8]) -> Result<(), String> {
        let now = self.shell.now_ns();
        let mut state = self.succession();
        let Succession { numbers, taken, .. } = &mut *state;
        taken.resize_with(workers.len(), TakenIn::default);
        each_section(octets, |kind, worker, octets| {
            if matches!(kind, b'A' | b'L' | b'P') {
                return self.control().take_in((kind, octets), numbers, now);
            }
            let at = usize::from(worker);
            let (worker, taken) = workers.get_mut(at).zip(taken.get_mut(at)).ok_or_else(garbled)?;
            let (gateway, env) = worker.parts_mut();
            gateway.take_in((kind, octets), taken, (numbers, now), env)
        })
    }

    fn imported(&self, _workers: &mut [Worker<BroadbandGateway>]) -> Result<(), String> {
        self.succession().taken.iter().enumerate().try_for_each(|(worker, taken)| taken.check(worker))?;
        self.control().publish_taken();
        Ok(())
    }

    fn take_place(&self) {
        if self.succession().ready.is_none() {
            let config = self.control().config().clone();
            return fast_path::disengage(&fast::wants(&config));
        }
        self.engage();
    }

    fn running(&self) {
        for worker in 0..self.workers() {
            // Subscribers go into the kernel again.
            let _ = self.ask_handing(worker, Handing::Follow(false));
        }
    }
}
