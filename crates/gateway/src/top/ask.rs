//! Threads that ask the gateway: one for samples, one for sessions, so that neither keys nor samples wait for an
//! answer.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::bail;

use super::model::Sample;
use super::screen::Screen;
use crate::connected::{self, ConnectedPage, ConnectedRequest, Filter};
use crate::socket::{Client, Reply, Request};

/// Between two attempts to connect.
const AGAIN: Duration = Duration::from_secs(1);
/// Sessions are not read more often.
const SESSIONS: Duration = Duration::from_secs(2);
/// For each second that reading all sessions takes, so many seconds pass before the next time.
const REST: u32 = 9;

/// What has come.
pub enum News {
    /// Counters and ports.
    Sample(Box<Sample>),
    /// Sessions of a filter, or why there are none.
    Sessions(Box<Filter>, Result<Box<ConnectedPage>, String>),
    /// The gateway does not answer, and why; it is tried again.
    Lost(String),
}

/// What is wanted.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    interval: Duration,
    is_paused: bool,
    sessions: Option<ConnectedRequest>,
}

impl Wanted {
    fn of(screen: &Screen) -> Self {
        Self { interval: screen.interval(), is_paused: screen.is_paused, sessions: screen.wanted() }
    }
}

/// What is wanted, shared with the threads, and the signal that it has changed.
struct Shared {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

impl Shared {
    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits until what is wanted is due: `due` gives the moment; none: not before something changes.
    fn wait(&self, due: impl Fn(&Wanted) -> Option<Instant>) -> Wanted {
        let mut wanted = self.wanted();
        loop {
            // Without a moment, a look a minute costs nothing.
            let left = due(&wanted).map_or(Duration::from_secs(60), |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return wanted.clone();
            }
            wanted = self.changed.wait_timeout(wanted, left).unwrap_or_else(|e| e.into_inner()).0;
        }
    }
}

/// The threads, which end with the process.
pub struct Asker {
    shared: Arc<Shared>,
    news: Receiver<News>,
}

impl Asker {
    /// Asks the gateway at that socket for what the screen shows.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(socket: &Path, screen: &Screen) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { wanted: Mutex::new(Wanted::of(screen)), changed: Condvar::new() });
        // A terminal that takes nothing holds samples up.
        let (sender, news) = sync_channel(4);
        let spawn = |name: &str, ask: fn(&Path, &Shared, &SyncSender<News>)| {
            let (socket, shared, sender): (PathBuf, _, _) = (socket.to_owned(), shared.clone(), sender.clone());
            std::thread::Builder::new().name(name.to_owned()).spawn(move || ask(&socket, &shared, &sender))
        };
        spawn("top-samples", samples)?;
        spawn("top-sessions", all_sessions)?;
        Ok(Self { shared, news })
    }

    /// Asks for what the screen shows now.
    pub fn set(&self, screen: &Screen) {
        let wanted = Wanted::of(screen);
        let mut before = self.shared.wanted();
        if *before != wanted {
            *before = wanted;
            self.shared.changed.notify_all();
        }
    }

    /// What has come, if anything has.
    pub fn news(&self) -> Option<News> {
        self.news.try_recv().ok()
    }
}

/// Counters and ports, as they are now.
///
/// # Errors
/// The gateway does not answer.
pub fn sample(client: &mut Client) -> anyhow::Result<Sample> {
    let (Reply::Ports(ports), Reply::Counters(snapshot)) =
        (client.ask(&Request::Ports)?, client.ask(&Request::Counters)?)
    else {
        bail!("unexpected reply of the gateway; are they of different versions?");
    };
    Ok(Sample { snapshot, ports })
}

/// The sessions of a request, or a sentence why there are none.
pub fn sessions(client: &mut Client, request: &ConnectedRequest) -> Result<ConnectedPage, String> {
    connected::whole(client, request).map_err(|error| error.to_string())
}

/// Samples until the receiver is dropped.
fn samples(socket: &Path, shared: &Shared, news: &SyncSender<News>) {
    let mut client: Option<Client> = None;
    let mut last: Option<Instant> = None;
    loop {
        let due = |wanted: &Wanted| {
            let next = last.map_or_else(Instant::now, |last| last + wanted.interval);
            (!wanted.is_paused).then_some(next)
        };
        shared.wait(due);
        last = Some(Instant::now());
        let asked = match client.take() {
            Some(client) => Ok(client),
            None => Client::connect(socket).map_err(anyhow::Error::from),
        };
        let sampled = asked.and_then(|mut asked| {
            let sample = sample(&mut asked)?;
            client = Some(asked);
            Ok(sample)
        });
        let is_lost = sampled.is_err();
        let told = match sampled {
            Ok(sample) => News::Sample(Box::new(sample)),
            Err(error) => News::Lost(error.to_string()),
        };
        if news.send(told).is_err() {
            return;
        }
        if is_lost {
            std::thread::sleep(AGAIN);
            last = None;
        }
    }
}

/// Sessions while they are shown, until the receiver is dropped.
fn all_sessions(socket: &Path, shared: &Shared, news: &SyncSender<News>) {
    // When they may be read again, and which were read last.
    let mut next: Option<(Instant, ConnectedRequest)> = None;
    loop {
        let due = |wanted: &Wanted| {
            let request = wanted.sessions.as_ref()?;
            let rest = next.as_ref().filter(|(_, last)| last.filter == request.filter);
            Some(rest.map_or_else(Instant::now, |(at, _)| *at))
        };
        let Some(request) = shared.wait(due).sessions else { continue };
        let begin = Instant::now();
        let found = match Client::connect(socket) {
            Ok(mut client) => sessions(&mut client, &request),
            Err(error) => Err(error.to_string()),
        };
        let worked = begin.elapsed().saturating_sub(Duration::from_secs_f64(request.over_seconds));
        let rest = (worked * REST).max(SESSIONS);
        next = Some((Instant::now() + rest, request.clone()));
        if news.send(News::Sessions(Box::new(request.filter), found.map(Box::new))).is_err() {
            return;
        }
    }
}
