//! The event log: what happens in a running gateway, one line an event, on stderr and in a ring that `weir show log`
//! reads.
//!
//! ```text
//!   tracing event ─► level of its target ─► rate of its kind ─► ring of the last 1000 ─► queue ─► writer ─► stderr
//! ```
//!
//! Workers emit nothing: they count, and the control thread and `watch.rs` turn changes into events. Emitting never
//! waits for stderr: a reader that does not read costs lines on stderr, counted, and none in the ring.
//!
//! | file | idea |
//! |---|---|
//! | `record.rs` | one event, as logfmt and as JSON |
//! | `levels.rs` | levels by target, also while running |
//! | `limit.rs` | so many events of a kind, then a count of the others |
//! | `ring.rs` | the last thousand |
//! | `output.rs` | the thread that writes, and what the journal wants |
//! | `life.rs` | events of every gateway's start and end |
//! | `command.rs` | `weir log` and `weir show log` |

pub mod command;
mod levels;
mod life;
mod limit;
mod output;
mod record;
mod ring;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use anyhow::Context as _;
use clap::Args;
use serde::{Deserialize, Serialize};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;

pub use dataplane::config::{Log as LogConfig, LogFormat};

pub use command::{LogArgs, log};
pub use levels::Levels;
pub use life::{listening, port_open, starting, stopped, stopping};
pub use record::{EventLine, Level, Record};

use limit::{Limiter, Verdict};
use output::{Output, Style};
use ring::Ring;

/// Events that `weir show log` can read back.
pub const KEPT: usize = 1000;

/// `--log-…` of commands that run a gateway.
#[derive(Clone, Debug, Default, Args)]
pub struct LogOptions {
    /// Format of events on stderr, instead of the configuration's [log] format.
    #[arg(long, value_name = "FORMAT", env = "WEIR_LOG_FORMAT", value_enum)]
    pub log_format: Option<Format>,
    /// The lowest level that is written, and levels of single targets: info,n4=debug. Overrides the configuration's
    /// [log] level and targets.
    #[arg(long, value_name = "LEVELS", env = "WEIR_LOG")]
    pub log_level: Option<String>,
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// key=value.
    Logfmt,
    /// One JSON object a line.
    Json,
}

/// What is asked of the event log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "log", rename_all = "snake_case", deny_unknown_fields)]
pub enum LogRequest {
    /// Events of the ring, oldest first.
    Read {
        /// Only those after this sequence number.
        #[serde(default)]
        after: u64,
    },
    /// The levels in force.
    Levels,
    /// Change levels: `debug`, `worker=debug`, `info,port=trace`.
    Set {
        /// What changes; targets that are not named stay as they are.
        levels: String,
    },
}

/// What the event log answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogReply {
    /// Events, oldest first.
    Events {
        /// Events, oldest first.
        events: Vec<Record>,
        /// The sequence number of the newest event there is.
        newest: u64,
    },
    /// The levels in force.
    Levels(Levels),
}

/// The event log of this process.
struct EventLog {
    shared: Arc<Shared>,
    filter: reload::Handle<Targets, Registry>,
    levels: Mutex<Levels>,
    /// Targets that only this gateway has.
    own: &'static [&'static str],
}

/// What the layer, the writer and the readers share.
struct Shared {
    ring: Mutex<Ring>,
    limiter: Mutex<Limiter>,
    output: Output,
}

static LOG: OnceLock<EventLog> = OnceLock::new();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the event log of this process, with what the command line says before what the configuration says; `own` are the
/// targets that only this gateway has.
///
/// # Errors
/// A level or target there is not; no thread.
pub fn start(config: &LogConfig, options: &LogOptions, own: &'static [&'static str]) -> anyhow::Result<()> {
    let mut levels = Levels::of(config);
    if let Some(text) = &options.log_level {
        levels.set(text, own).map_err(|what| crate::fail::Usage(format!("--log-level (WEIR_LOG): {what}")))?;
    }
    let is_json = match options.log_format {
        Some(format) => format == Format::Json,
        None => config.format == LogFormat::Json,
    };
    let shared = Arc::new(Shared {
        ring: Mutex::new(Ring::new(KEPT)),
        limiter: Mutex::default(),
        output: Output::start(Style::of_stderr(is_json)).context("no thread for the event log")?,
    });
    let (filter, handle) = reload::Layer::new(levels.filter());
    let log = EventLog { shared: shared.clone(), filter: handle, levels: Mutex::new(levels), own };
    if LOG.set(log).is_err() {
        return Ok(());
    }
    tracing::subscriber::set_global_default(Registry::default().with(filter).with(Events(shared)))?;
    std::panic::set_hook(Box::new(panicked));
    Ok(())
}

/// A panic as an event. Rare by nature, and limited like every kind of event.
fn panicked(info: &std::panic::PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let message = info.payload_as_str().unwrap_or("no message").to_owned();
    tracing::error!(
        target: "process", event = "panic",
        thread = thread.name().unwrap_or("unnamed"), location, "{message}"
    );
}

/// Waits a moment until what was emitted is written: before the process ends.
pub fn flush() {
    if let Some(log) = LOG.get() {
        tick(&log.shared, true);
        log.shared.output.flush();
    }
}

/// Reports what was suppressed of kinds that have calmed down. Whether more is suppressed: then this is called again in
/// about a second.
pub(crate) fn calm_down() -> bool {
    LOG.get().is_some_and(|log| {
        tick(&log.shared, false);
        lock(&log.shared.limiter).is_suppressing()
    })
}

/// Reports what was suppressed of kinds that have calmed down; at the `end`, of all.
fn tick(shared: &Shared, end: bool) {
    let over = lock(&shared.limiter).over(Instant::now(), end);
    for (kind, suppressed) in over {
        shared.keep(Record::suppressed(&kind, suppressed, SystemTime::now().into()));
    }
}

/// Has the levels of a configuration that was read again; `--log-level` stays above them, as at start.
pub(crate) fn set_configured(config: &LogConfig, options: &LogOptions) {
    let Some(log) = LOG.get() else { return };
    let mut changed = Levels::of(config);
    if let Some(text) = &options.log_level {
        // It was right at start.
        let _ = changed.set(text, log.own);
    }
    // Locked first, as by `weir log set`: the levels shown are those of the filter, whichever of both came last.
    let mut levels = lock(&log.levels);
    // Fails only when the subscriber is gone, and with it the log.
    if log.filter.reload(changed.filter()).is_ok() {
        *levels = changed;
    }
}

/// Answers a request about the event log.
pub fn answer(request: &LogRequest) -> Result<LogReply, String> {
    let log = LOG.get().ok_or("this process has no event log")?;
    match request {
        LogRequest::Read { after } => {
            let ring = lock(&log.shared.ring);
            Ok(LogReply::Events { events: ring.after(*after), newest: ring.newest() })
        }
        LogRequest::Levels => Ok(LogReply::Levels(lock(&log.levels).clone())),
        LogRequest::Set { levels: text } => {
            let mut levels = lock(&log.levels);
            let mut changed = levels.clone();
            changed.set(text, log.own)?;
            log.filter.reload(changed.filter()).map_err(|error| error.to_string())?;
            *levels = changed.clone();
            drop(levels);
            tracing::info!(target: "process", event = "log_levels_changed", levels = %changed, "log levels changed");
            Ok(LogReply::Levels(changed))
        }
    }
}

impl Shared {
    fn keep(&self, record: Record) {
        let record = lock(&self.ring).push(record);
        self.output.write(&record);
    }
}

/// The layer that takes events in.
struct Events(Arc<Shared>);

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut record = Record::of(event, SystemTime::now().into());
        let verdict = lock(&self.0.limiter).take(&record.event, record.level, Instant::now());
        match verdict {
            Verdict::Pass => {}
            Verdict::PassAfter(suppressed) => record.add_suppressed(suppressed),
            Verdict::Suppress => return self.0.output.suppressed(),
        }
        self.0.keep(record);
    }
}
