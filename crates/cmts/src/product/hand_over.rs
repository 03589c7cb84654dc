//! A cable gateway's state on its way to another process.
//!
//! ```text
//! sections:  W | modems: counts, service flows, SID clusters      S | channels, pseudowires, grants, counts
//!            U | bursts that have come in part                    G | segments that wait for earlier ones
//!            Q | frames in service flows                          H | packets that wait for a neighbour
//! ```
//! Modems themselves, with keys, hosts and classifiers, go before any of that, as a standby is told them: they do not
//! change while another process takes over. Sections go while workers run, and what has changed of W again.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use engine::Worker;
use gateway::shell::hand_over::changed::export_of_workers;
use gateway::shell::hand_over::octets::{each_section, garbled};
use gateway::shell::{HandOver, Product};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::observer::{Observer, PATIENCE};
use crate::config::Config;
use crate::gateway::CableGateway;
use crate::hand_over::Handing;
use crate::standby::{ExportedState, HaState};

/// Sections of the configuration that the two processes may have apart from each other.
const OWN: [&str; 10] =
    ["api", "certificate", "control_socket", "frames", "health", "log", "metrics", "process", "queues", "route"];
/// Times workers are turned, to finish what is under way in them.
const TURNS: usize = 1000;

/// What the other process is told first.
#[derive(Serialize, Deserialize)]
pub(super) struct Told {
    /// The configuration in use.
    config: Value,
    modems: ExportedState,
}

impl Told {
    /// What this process goes on with, which has that configuration.
    ///
    /// # Errors
    /// A section differs that modems depend on; a sentence.
    pub(super) fn within(self, config: &Config) -> Result<HaState, String> {
        let here = serde_json::to_value(config).map_err(|error| error.to_string())?;
        let (Value::Object(there), Value::Object(here)) = (self.config, here) else { return Err(garbled()) };
        let keys: BTreeSet<&String> = there.keys().chain(here.keys()).collect();
        let differs = |key: &&&String| !OWN.contains(&key.as_str()) && there.get(**key) != here.get(**key);
        if let Some(key) = keys.iter().find(differs) {
            return Err(format!("[{key}] differs from the running gateway's; restart instead"));
        }
        Ok(HaState { book: self.modems, ..HaState::default() })
    }
}

impl Observer {
    /// Asks a worker; none: it does not answer.
    fn ask_handing(&self, worker: u16, handing: Handing) -> Option<Handing> {
        let worker = usize::from(worker);
        self.control().ask_handing(worker, handing);
        let until = Instant::now() + PATIENCE;
        loop {
            {
                let mut control = self.control();
                control.poll(self.shell().now_ns());
                if let Some(handing) = control.handing(worker) {
                    return Some(handing);
                }
            }
            if Instant::now() > until {
                return None;
            }
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }
}

impl HandOver<CableGateway> for Observer {
    fn hindrances(&self) -> Vec<String> {
        let has_standby = self.control().has_standby();
        let why = "it has a [standby], which would go on as well: restart without it, or use `weir cmts takeover`";
        has_standby.then(|| why.to_owned()).into_iter().collect()
    }

    fn begin(&self) -> io::Result<(Value, Vec<OwnedFd>)> {
        let told = {
            let mut control = self.control();
            control.begin_hand_over();
            Told { config: serde_json::to_value(control.config())?, modems: control.book() }
        };
        *self.left() = 0;
        let workers = self.control().workers() as u16; // as configured
        for worker in 0..workers {
            let answer = self.ask_handing(worker, Handing::Follow(true));
            answer.ok_or_else(|| io::Error::other(format!("worker {worker} does not answer")))?;
        }
        Ok((serde_json::to_value(told)?, Vec::new()))
    }

    fn export(&self, out: &mut Vec<u8>) -> Result<usize, String> {
        let (workers, mut left) = (self.control().workers() as u16, *self.left()); // as configured
        export_of_workers(out, (b'W', workers), &mut left, |worker, left| {
            match self.ask_handing(worker, Handing::Modems { left, out: Vec::new() })? {
                Handing::Modems { left, out } => Some((out, left)),
                Handing::Follow(_) => None,
            }
        })?;
        *self.left() = left;
        Ok(left)
    }

    fn settle(&self) -> bool {
        self.control().settle(self.shell().now_ns())
    }

    fn export_settled(&self, _out: &mut Vec<u8>) -> Result<(), String> {
        Ok(())
    }

    fn export_rest(&self, workers: &mut [Worker<CableGateway>], out: &mut Vec<u8>) -> Result<(), String> {
        // What has left the queues is framed, encrypted and sent; what has come is put together as far as it goes.
        for _ in 0..TURNS {
            if workers.iter().all(|worker| worker.gateway().is_at_rest()) {
                break;
            }
            workers.iter_mut().for_each(|worker| {
                worker.settle();
            });
        }
        for (n, worker) in (0..).zip(workers) {
            let (gateway, env) = worker.parts_mut();
            gateway.export_rest(env, n, out)?;
        }
        Ok(())
    }

    fn end(&self) {
        self.control().end_hand_over();
    }

    fn import(&self, workers: &mut [Worker<CableGateway>], octets: &[u8]) -> Result<(), String> {
        each_section(octets, |kind, worker, octets| {
            let (gateway, env) = workers.get_mut(usize::from(worker)).ok_or_else(garbled)?.parts_mut();
            env.now = self.shell().now_ns();
            gateway.take_in(kind, octets, env)
        })
    }

    fn imported(&self, workers: &mut [Worker<CableGateway>]) -> Result<(), String> {
        let refused: usize = workers.iter().map(|worker| worker.gateway().refused()).sum();
        self.control().publish_tables();
        if refused == 0 { Ok(()) } else { Err(format!("{refused} modems find no room here")) }
    }
}
