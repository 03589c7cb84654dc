//! The cable gateway: `weir run` with `gateway = "cmts"`, and `weir cmts`.
//!
//! | file | idea |
//! |---|---|
//! | `observer.rs` | its control side: looking on, and what it is asked |
//! | `metrics.rs` | what only it tells monitoring |
//! | `protocol.rs`, `show.rs` | what it is asked and answers, as tables |
//! | `service.rs` | service flows, classifiers and filter groups at run time |
//! | `command.rs` | `weir cmts` |
//! | `active.rs`, `standby.rs`, `message.rs` | the standby: what it is told, by whom, and when it goes on |
//! | `hand_over.rs` | its state on its way to another process |
//! | `live.rs` | keys that a reload applies |
//! | `fence.rs` | that the one before speaks no more |

mod active;
mod command;
mod connected;
mod fence;
mod hand_over;
mod live;
mod message;
mod metrics;
mod observer;
pub(crate) mod protocol;
mod service;
mod show;
mod take_over;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::assemble::{AssembleError, assemble, succeed};
use crate::config::{Config, ConfigError};
use crate::standby::{HaState, WorkerExport};
use anyhow::Context;
use engine::Time;
use serde::Deserialize;
use serde_json::Value;

pub use command::{CmtsArgs, cmts};
pub use protocol::CableReply;

use active::Teller;
use gateway::shell::flows::Flows;
use gateway::shell::reload::{LiveKey, apply_to};
use gateway::shell::rest::ControlWaker;
use gateway::shell::{self, Ended, Gateway, Opened, Process, Reach, StartError, WorkerInits};
use gateway::show::View;
use gateway::tables::duration;
use gateway::watch::Vitals;
use hand_over::Told;
use observer::Observer;

/// What is in the cipher and in DEPI packets leaves within microseconds.
const SETTLE: Duration = Duration::from_millis(50);

/// A cable gateway's configuration, checked.
pub type Loaded = shell::Loaded<CmtsGateway>;

/// A cable gateway on its way to run, and at its end.
pub struct CmtsGateway {
    /// What another process left, to be gone on with.
    ha_state: Option<HaState>,
    /// What a standby must have, too: the configuration.
    theirs: String,
    /// Tells a standby.
    teller: Option<Teller>,
}

impl Gateway for CmtsGateway {
    const NAME: &'static str = "cmts";
    const TITLE: &'static str = "a cable gateway";
    const EXAMPLES: &'static [&'static str] = &[include_str!("../../../examples/cmts.toml")];
    const VIEWS: &'static [View] = show::VIEWS;
    const LIVE: &'static [LiveKey] = live::KEYS;
    const LOG_TARGETS: &'static [&'static str] = &["cable", "standby"];
    type Config = Config;
    type Product = Observer;

    fn check(config: &Config) -> Result<(), ConfigError> {
        config.check()
    }

    fn needs_restart(product: &Observer, _key: &str) -> bool {
        product.control().has_standby()
    }

    fn apply(config: &Config, keys: &[&str], product: &Observer, check: bool) -> Result<(), ConfigError> {
        apply_to(&mut *product.control(), config, keys, check)
    }

    fn reach(config: &Config) -> Reach {
        let sockets = config.standby.iter().map(|standby| standby.socket.clone()).collect();
        Reach { sockets, ..Reach::default() }
    }

    /// A configuration of which that cannot be said is refused when it is assembled.
    fn flows(config: &Config) -> Vec<Flows> {
        crate::assemble::configured_flows(config).unwrap_or_default()
    }

    fn begin(loaded: &Loaded, standby: bool, stop: &AtomicBool) -> anyhow::Result<Option<(Self, Option<Instant>)>> {
        let config = &loaded.config;
        let (ha_state, theirs) = (None, serde_json::to_string(config)?);
        if !standby {
            return Ok(Some((Self { ha_state, theirs, teller: None }, None)));
        }
        let section = config.standby.as_ref();
        let section = section.context("--standby needs a [standby] section with the active gateway's socket")?;
        let (interval, silence) =
            (Duration::from_millis(section.interval_ms), Duration::from_millis(section.silence_ms));
        let Some((ha_state, why)) = take_over::wait(&section.socket, &theirs, interval, silence, stop)? else {
            return Ok(None);
        };
        let begin = Instant::now();
        tracing::warn!(
            target: "standby", event = "taking_over", modems = ha_state.book.modems.len(),
            "taking over: the active gateway is {why}"
        );
        Ok(Some((Self { ha_state: Some(ha_state), theirs, teller: None }, Some(begin))))
    }

    fn take_over(loaded: &Loaded, from: &Value, _sockets: Vec<OwnedFd>) -> anyhow::Result<Self> {
        let config = &loaded.config;
        let told = Told::deserialize(from).context("the running gateway sent what cannot be read")?;
        let ha_state = told.within(config).map_err(|why| anyhow::anyhow!("take-over refused: {why}"))?;
        Ok(Self { ha_state: Some(ha_state), theirs: serde_json::to_string(config)?, teller: None })
    }

    fn stand(
        &mut self,
        loaded: &Loaded,
        opened: Opened,
        vitals: Arc<Vitals>,
        time: Time,
    ) -> Result<Process<Observer>, StartError> {
        let made = match self.ha_state.take() {
            None => assemble(&loaded.config, opened.caps()),
            Some(ha_state) => succeed(&loaded.config, opened.caps(), ha_state),
        };
        let (control, workers) = made.map_err(|error| match error {
            AssembleError::Config(error) => StartError::Config(loaded.wrong(&error)),
            other => StartError::Gateway(Box::new(other)),
        })?;
        let all = WorkerInits {
            workers,
            time,
            waker: ControlWaker::new(control.waker().clone()),
            sockets: Vec::new(),
            vitals,
        };
        Ok(opened.stand::<Self>(loaded, all, |shell| Observer::new(shell, control)))
    }

    fn start(&mut self, loaded: &Loaded, opened: Opened, vitals: Arc<Vitals>) -> Result<Process<Observer>, StartError> {
        let mut process = self.stand(loaded, opened, vitals, Time::real())?;
        process.go()?;
        // Where it takes over, its addresses are announced at once.
        process.turn();
        Ok(process)
    }

    fn started(&mut self, config: &Config, process: &Process<Observer>) -> anyhow::Result<()> {
        let Some(standby) = &config.standby else { return Ok(()) };
        let interval = Duration::from_millis(standby.interval_ms);
        let teller = Teller::start(&standby.socket, process.observer().clone(), self.theirs.clone(), interval)?;
        self.teller = Some(teller);
        Ok(())
    }

    fn ready(&self, config: &Config, process: &Process<Observer>, took: Duration, socket: &Path) {
        tracing::info!(
            target: "process", event = "ready",
            ms = took.as_millis() as u64, workers = config.workers.count,
            modems = process.observer().control().modems(), service_groups = config.service_group.len(),
            packet_buffers = config.frames.packet_buffers,
            "ready after {}; `weir show channels --socket {}` looks into it",
            duration(took.as_secs_f64()),
            socket.display()
        );
    }

    /// Whoever ends it in order, and has a standby, wants it to go on.
    fn end(self, process: Process<Observer>) -> Ended {
        let Some(standby) = self.teller.and_then(Teller::stop) else { return process.stop() };
        let book = process.observer().control().book();
        let (ended, exports) = hand_over(process);
        match active::hand_over(standby, book, exports) {
            Ok(frames) => {
                tracing::info!(target: "standby", event = "handed_over", frames, "handed over to the standby")
            }
            Err(error) => active::standby_lost(&error),
        }
        ended
    }
}

/// Stops the workers; what waits in service flows is given to whoever goes on. Their ports close last: until then they take
/// packets in.
fn hand_over(process: Process<Observer>) -> (Ended, Vec<WorkerExport>) {
    process.stop_with(
        |workers| {
            workers.iter_mut().flatten().for_each(|worker| worker.gateway_mut().seal());
            let until = Instant::now() + SETTLE;
            while workers.iter().flatten().any(|worker| !worker.gateway().is_settled()) && Instant::now() < until {
                workers.iter_mut().flatten().for_each(|worker| {
                    worker.turn();
                });
            }
        },
        |plane| plane.map_or_else(WorkerExport::default, |mut plane| plane.export()),
    )
}

#[cfg(test)]
mod tests;
