//! Tickets, the queue, and the thread that commits for all who wait.
//!
//! ```text
//!   submit ─► queue ─► gather (so long, or so many) ─► one commit, one sync ─► durable up to ticket n ─► told
//! ```
//!
//! Tickets are given in the order of the queue and become durable in that order, so one number says it for all of them.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::commit::{Batch, Change, Logs};
use crate::error::{At, LedgerError, Refused};
use crate::ledger::Ledger;

/// A place in the order of all submissions, from 1. Durable when [`Progress::durable`] has reached it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// When the thread commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long the first change that waits may wait for others.
    pub gather: Duration,
    /// With so many changes it does not wait any longer; about so many are committed together.
    pub batch: usize,
    /// Changes that may wait; more are [refused](Refused::Full).
    pub queue: usize,
}

impl Default for Pace {
    /// 1 ms, 1000 changes, 16,384 changes.
    fn default() -> Self {
        Self { gather: Duration::from_millis(1), batch: 1000, queue: 16_384 }
    }
}

/// How far the thread is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Everything up to this ticket is on the disk.
    pub durable: Ticket,
    /// The error that ended it: no later ticket has become durable, and none will. Whether what was being committed then
    /// is on the disk is not known until the ledger is opened again.
    pub failed: Option<LedgerError>,
}

/// The one that writes. Any thread may submit. Dropping it commits what waits and closes.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to commit, or enough, or the end has come.
    work: Condvar,
    /// Progress was made.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    pace: Pace,
    queue: VecDeque<(Ticket, Vec<Change>)>,
    /// Changes in the queue.
    waiting: usize,
    last: Ticket,
    progress: Progress,
    closing: bool,
}

/// Where in the file the newest of everything is.
pub struct Places {
    logs: Logs,
    /// Commits until then.
    commits: u64,
}

impl std::fmt::Debug for Places {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places").finish_non_exhaustive()
    }
}

impl Ledger {
    /// Commits a few changes at once, without a thread and without a mark of use: for tools, while no gateway writes.
    ///
    /// # Errors
    /// [`LedgerError::SecondWriter`]; what keeps the commit from being made.
    pub fn amend(&self, changes: Vec<Change>) -> Result<(), LedgerError> {
        let (inner, at) = (&self.inner, At(&self.inner.path));
        if inner.has_writer.swap(true, Ordering::AcqRel) {
            return Err(LedgerError::SecondWriter { path: inner.path.clone() });
        }
        let mut batch = Batch::default();
        changes.into_iter().for_each(|change| batch.add(change));
        inner.commits.fetch_add(1, Ordering::AcqRel);
        let commit = || batch.commit(&inner.db, &mut Logs::load(&inner.db)?);
        let done = at.guarded(|| commit().map_err(|error| at.redb(error)));
        inner.has_writer.store(false, Ordering::Release);
        done
    }

    /// Reads all sessions and checkpoints once, for whoever goes on with them and for the writer that does, before there is
    /// one: 100,000 sessions of 700 bytes take 0.1 s.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`], [`LedgerError::Disk`]; [`LedgerError::SecondWriter`].
    pub fn load(
        &self,
        session: impl FnMut(u64, &[u8]),
        checkpoint: impl FnMut(u64, &[u8]),
    ) -> Result<Places, LedgerError> {
        if self.inner.has_writer.load(Ordering::Acquire) {
            return Err(LedgerError::SecondWriter { path: self.inner.path.clone() });
        }
        let commits = self.inner.commits.load(Ordering::Acquire);
        Ok(Places { logs: self.read(|db| Logs::load_with(db, session, checkpoint))?, commits })
    }

    /// As [`writer`](Self::writer), for whom [`load`](Self::load) has told where everything is. If something was written
    /// since, it is read again.
    ///
    /// # Errors
    /// As [`writer`](Self::writer).
    pub fn writer_after(
        &self,
        places: Places,
        pace: Pace,
        told: impl FnMut(&Progress) + Send + 'static,
    ) -> Result<Writer, LedgerError> {
        self.start_writer(Some(places), pace, told)
    }

    /// Starts the thread that writes, and marks the ledger as in use: see [`Ledger::was_clean`]. It calls `told` after
    /// each commit, and once when it fails; what that does should be short.
    ///
    /// # Errors
    /// [`LedgerError::SecondWriter`]; what keeps a first commit from being made; no thread.
    pub fn writer(&self, pace: Pace, told: impl FnMut(&Progress) + Send + 'static) -> Result<Writer, LedgerError> {
        self.start_writer(None, pace, told)
    }

    fn start_writer(
        &self,
        places: Option<Places>,
        pace: Pace,
        told: impl FnMut(&Progress) + Send + 'static,
    ) -> Result<Writer, LedgerError> {
        let inner = &self.inner;
        if inner.has_writer.swap(true, Ordering::AcqRel) {
            return Err(LedgerError::SecondWriter { path: inner.path.clone() });
        }
        let shared = Arc::new(Shared { state: Mutex::new(State { pace, ..State::default() }), ..Shared::default() });
        let start = || {
            let at = At(&inner.path);
            let load = || at.guarded(|| Logs::load(&inner.db).map_err(|error| at.redb(error)));
            let commits = inner.commits.load(Ordering::Acquire);
            let known = places.filter(|places| places.commits == commits).map(|places| places.logs);
            let logs = known.map_or_else(load, Ok)?;
            let mut turn = Turn { ledger: self.clone(), shared: shared.clone(), logs, is_slow: false };
            turn.commit(Batch::clean(false))?;
            let spawned = std::thread::Builder::new().name("weir-ledger".into()).spawn(move || turn.run(told));
            spawned.map_err(|error| at.io(&error))
        };
        let started = start();
        if started.is_ok() && !self.was_clean() {
            tracing::warn!(
                target: "ledger", event = "repaired", path = %inner.path.display(),
                "the ledger was not closed properly: it has been checked and repaired"
            );
        }
        match started {
            Ok(thread) => Ok(Writer { shared, thread: Some(thread) }),
            Err(error) => {
                inner.has_writer.store(false, Ordering::Release);
                Err(error)
            }
        }
    }
}

impl Writer {
    /// Hands in changes that belong together: all of them are on the disk, or none. Never waits.
    ///
    /// # Errors
    /// [`Refused::Full`] gives the changes back; [`Refused::Failed`].
    pub fn submit(&self, changes: impl Into<Vec<Change>>) -> Result<Ticket, Refused> {
        let changes = changes.into();
        let mut state = self.shared.state();
        if let Some(error) = &state.progress.failed {
            return Err(Refused::Failed(error.clone()));
        }
        // More than the queue holds at once is taken when nothing else waits: it would never fit.
        if state.waiting > 0 && state.waiting + changes.len() > state.pace.queue {
            return Err(Refused::Full(changes));
        }
        let (was_idle, was_few) = (state.queue.is_empty(), state.waiting < state.pace.batch);
        state.last.0 += 1;
        let ticket = state.last;
        state.waiting += changes.len();
        state.queue.push_back((ticket, changes));
        let is_enough = state.waiting >= state.pace.batch;
        drop(state);
        if was_idle || (was_few && is_enough) {
            self.shared.work.notify_one();
        }
        Ok(ticket)
    }

    /// How far the thread is.
    pub fn progress(&self) -> Progress {
        self.shared.state().progress.clone()
    }

    /// Waits until a ticket is durable.
    ///
    /// # Errors
    /// What ended the writer before it was.
    pub fn wait(&self, ticket: Ticket) -> Result<(), LedgerError> {
        let mut state = self.shared.state();
        loop {
            match &state.progress {
                progress if progress.durable >= ticket => return Ok(()),
                Progress { failed: Some(error), .. } => return Err(error.clone()),
                _ => state = self.shared.done.wait(state).unwrap_or_else(|e| e.into_inner()),
            }
        }
    }

    /// Commits what waits, marks the ledger as closed and ends the thread.
    ///
    /// # Errors
    /// What ended the writer before that.
    pub fn close(mut self) -> Result<(), LedgerError> {
        self.end();
        self.shared.state().progress.failed.clone().map_or(Ok(()), Err)
    }

    fn end(&mut self) {
        self.shared.state().closing = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Waits for changes and takes a batch of them, with the last of its tickets; none: the end has come.
    fn gather(&self) -> Option<(Ticket, Batch)> {
        let mut state = self.state();
        while state.queue.is_empty() {
            if state.closing {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        let until = Instant::now() + state.pace.gather;
        while state.waiting < state.pace.batch && !state.closing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.work.wait_timeout(state, left).unwrap_or_else(|e| e.into_inner()).0;
        }
        let (mut taken, mut last) = (Vec::new(), Ticket(0));
        while taken.len() < state.pace.batch
            && let Some((ticket, changes)) = state.queue.pop_front()
        {
            state.waiting -= changes.len();
            last = ticket;
            taken.extend(changes);
        }
        drop(state);
        let mut batch = Batch::default();
        taken.into_iter().for_each(|change| batch.add(change));
        Some((last, batch))
    }
}

/// The thread's side.
struct Turn {
    ledger: Ledger,
    shared: Arc<Shared>,
    logs: Logs,
    /// The last commit was slow.
    is_slow: bool,
}

/// A commit that takes so long holds answers to control planes up noticeably.
const SLOW: Duration = Duration::from_millis(250);

impl Turn {
    fn commit(&mut self, batch: Batch) -> Result<(), LedgerError> {
        let (at, begin) = (At(&self.ledger.inner.path), Instant::now());
        self.ledger.inner.commits.fetch_add(1, Ordering::AcqRel);
        let done = at.guarded(|| batch.commit(&self.ledger.inner.db, &mut self.logs).map_err(|error| at.redb(error)));
        self.report(begin.elapsed(), done.as_ref().err());
        done
    }

    /// Reports a commit that failed, and slow ones once until one is fast again.
    fn report(&mut self, took: Duration, error: Option<&LedgerError>) {
        let (path, ms) = (self.ledger.inner.path.display(), took.as_millis() as u64);
        match error {
            Some(error @ LedgerError::Full { .. }) => {
                tracing::error!(target: "ledger", event = "disk_full", %path, "{error}");
            }
            Some(error) => tracing::error!(target: "ledger", event = "write_failed", %path, "{error}"),
            None if took >= SLOW && !self.is_slow => {
                self.is_slow = true;
                tracing::warn!(target: "ledger", event = "commit_slow", %path, ms, "a commit took {ms} ms");
            }
            None if took < SLOW && self.is_slow => {
                self.is_slow = false;
                tracing::info!(target: "ledger", event = "commit_fast", %path, ms, "commits are fast again");
            }
            None => {}
        }
    }

    fn run(mut self, mut told: impl FnMut(&Progress)) {
        let mut well = true;
        while well && let Some((last, batch)) = self.shared.gather() {
            let done = self.commit(batch).map(|()| last);
            well = self.tell(done, &mut told);
        }
        if well {
            let last = self.shared.state().progress.durable;
            let closed = self.commit(Batch::clean(true)).map(|()| last);
            self.tell(closed, &mut told);
        }
        self.ledger.inner.has_writer.store(false, Ordering::Release);
    }

    /// Says how it went to everybody; false: that was the end.
    fn tell(&self, done: Result<Ticket, LedgerError>, told: &mut impl FnMut(&Progress)) -> bool {
        let mut state = self.shared.state();
        let well = done.is_ok();
        match done {
            Ok(durable) => state.progress.durable = durable,
            Err(error) => {
                state.progress.failed = Some(error);
                state.queue.clear();
                state.waiting = 0;
            }
        }
        let progress = state.progress.clone();
        drop(state);
        self.shared.done.notify_all();
        // Whoever is told may panic: others wait for the disk, and it goes on.
        let _ = catch_unwind(AssertUnwindSafe(|| told(&progress)));
        well
    }
}
