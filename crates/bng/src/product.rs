//! The broadband gateway: `weir run` with `gateway = "bng"`.
//!
//! | file | idea |
//! |---|---|
//! | `observer.rs` | its control side while it runs, and its metrics |
//! | `protocol.rs`, `show.rs` | requests and replies, and their tables |

mod observer;
mod protocol;
mod show;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use engine::Time;
use gateway::cli::RunArgs;
use gateway::load::Text;
use gateway::shell::rest::ControlWaker;
use gateway::shell::{self, Gateway, Opened, Process, Reach, StartError, WorkerInit, WorkerInits};
use gateway::show::View;
use gateway::tables::duration;
use gateway::trace::TraceKey;
use gateway::watch::Vitals;

use crate::assemble::{AssembleError, assemble};
use crate::config::Config;
use observer::Observer;

/// A broadband gateway's configuration, checked.
pub type Loaded = shell::Loaded<BngGateway>;

/// A broadband gateway on its way to run, and at its end.
pub struct BngGateway;

impl Gateway for BngGateway {
    const NAME: &'static str = "bng";
    const TITLE: &'static str = "a broadband network gateway";
    const VIEWS: &'static [View] = show::VIEWS;
    const TRACE_KEYS: &'static [TraceKey] = &[show::SUBSCRIBER];
    const EXAMPLES: &'static [&'static str] = &[include_str!("../../../examples/bng.toml")];
    type Config = Config;
    type Product = Observer;

    fn check(config: &Config) -> Result<(), crate::config::ConfigError> {
        config.check()
    }

    fn load(_args: &RunArgs, text: Text) -> anyhow::Result<Loaded> {
        Ok(Loaded::of(text)?)
    }

    fn begin(_loaded: &Loaded, standby: bool, _stop: &AtomicBool) -> anyhow::Result<Option<(Self, Option<Instant>)>> {
        anyhow::ensure!(!standby, "a broadband gateway has no standby yet: run it without --standby");
        Ok(Some((Self, None)))
    }

    fn reach(_config: &Config) -> Reach {
        Reach::default()
    }

    fn start(&mut self, loaded: &Loaded, opened: Opened, vitals: Arc<Vitals>) -> Result<Process<Observer>, StartError> {
        let (control, workers) = assemble(&loaded.config, opened.caps()).map_err(|error| match error {
            AssembleError::Config(error) => StartError::Config(loaded.wrong(&error)),
            other => StartError::Gateway(Box::new(other)),
        })?;
        let worker = |worker: crate::assemble::WorkerInit| WorkerInit {
            waker: worker.gateway.waker().clone(),
            plane: worker.gateway,
            layout: worker.layout,
            hand_off: worker.hand_off,
        };
        let all = WorkerInits {
            workers: workers.into_iter().map(worker).collect(),
            time: Time::real(),
            waker: ControlWaker::new(control.waker().clone()),
            sockets: Vec::new(),
            vitals,
        };
        let process = opened.start(loaded, all, |shell| Observer::new(shell, control))?;
        // Its addresses are announced at once.
        process.turn();
        Ok(process)
    }

    fn ready(&self, config: &Config, process: &Process<Observer>, took: Duration, socket: &Path) {
        let subscribers = process.observer().control().subscribers().count();
        tracing::info!(
            target: "process", event = "ready",
            ms = took.as_millis() as u64, workers = config.workers.count,
            subscribers, groups = config.group.len(), slots = config.frames.packet_buffers,
            "ready after {}; `weir show subscribers --socket {}` looks into it",
            duration(took.as_secs_f64()),
            socket.display()
        );
    }
}
