//! Leases in the ledger: a reply leaves when its record is on the disk, so that nobody is renumbered after a crash.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::aaa::kept::Kept;
use access::lease::{LeaseKey, LeaseRecord};
use ledger::{Change, Ledger, LedgerError, Pace, Places, Progress, Refused, Ticket, Writer};

/// ACKs wait for the disk: what comes within this time is committed together.
const PACE: Pace = Pace { gather: Duration::from_millis(1), batch: 1000, queue: 65_536 };

/// How long a process that ends waits for room.
const LAST: Duration = Duration::from_secs(10);

/// What an earlier run kept.
#[derive(Debug, Default)]
pub struct Stored {
    leases: Vec<(u64, LeaseRecord)>,
    /// Records of accounting, by key.
    accounting: Vec<(u64, Kept)>,
    /// The number of that run; none: it had none.
    run: Option<u32>,
    /// Records that are not readable; a sentence each.
    pub unreadable: Vec<String>,
    ledger: Option<(Ledger, Places)>,
}

impl Stored {
    /// Reads a ledger: 100,000 leases in 0.1 s.
    ///
    /// # Errors
    /// It is no good, or another process has it.
    pub fn read(folder: &std::path::Path) -> Result<Self, LedgerError> {
        let ledger = Ledger::open(folder)?;
        let mut stored = Self::default();
        let (mut accounting, mut unreadable) = (Vec::new(), 0);
        let places = ledger.load(
            |key, bytes| match LeaseRecord::decode(bytes) {
                Ok(record) => stored.leases.push((key, record)),
                Err(why) => stored.unreadable.push(why.to_string()),
            },
            |key, bytes| match Kept::decode(bytes) {
                Some(kept) => accounting.push((key, kept)),
                None => unreadable += 1,
            },
        )?;
        if unreadable > 0 {
            stored.unreadable.push(format!("{unreadable} records of accounting of another release"));
        }
        (stored.accounting, stored.run) = (accounting, ledger.status()?.recovery);
        stored.ledger = Some((ledger, places));
        Ok(stored)
    }

    /// Takes the records of accounting, by key, and the number of the run that wrote them.
    pub fn take_accounting(&mut self) -> (Vec<(u64, Kept)>, Option<u32>) {
        (std::mem::take(&mut self.accounting), self.run)
    }

    /// Leases, each with its number in the ledger.
    pub fn leases(&self) -> &[(u64, LeaseRecord)] {
        &self.leases
    }
}

/// A record that waits to be durable.
#[derive(Debug)]
pub struct Waiting<T> {
    /// Durable with this one; none: at once, as there is no ledger.
    ticket: Ticket,
    what: T,
}

/// The ledger's side of sessions. Without a ledger everything is durable at once.
pub struct Store<T> {
    writer: Option<Writer>,
    /// The ledger's numbers of leases.
    numbers: HashMap<LeaseKey, u64>,
    next: u64,
    waiting: VecDeque<Waiting<T>>,
    /// Deletions that the writer had no room for.
    erasures: Vec<u64>,
    /// As far as the writer was when last asked.
    progress: Progress,
}

impl<T> Store<T> {
    /// Over what was read; `told` is called when something has become durable.
    ///
    /// # Errors
    /// The first commit fails, or there is no thread.
    pub fn new(stored: &mut Stored, told: impl FnMut() + Send + 'static) -> Result<Self, LedgerError> {
        let mut told = told;
        let writer = match stored.ledger.take() {
            Some((ledger, places)) => Some(ledger.writer_after(places, PACE, move |_| told())?),
            None => None,
        };
        let next = stored.leases.iter().map(|(number, _)| number + 1).max().unwrap_or(1);
        let numbers = HashMap::with_capacity(stored.leases.len());
        Ok(Self {
            writer,
            numbers,
            next,
            waiting: VecDeque::new(),
            erasures: Vec::new(),
            progress: Progress::default(),
        })
    }

    /// Goes on with a ledger that was read; `told` is called when something has become durable.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn keep(&mut self, stored: &mut Stored, mut told: impl FnMut() + Send + 'static) -> Result<(), LedgerError> {
        if let Some((ledger, places)) = stored.ledger.take() {
            self.writer = Some(ledger.writer_after(places, PACE, move |_| told())?);
        }
        Ok(())
    }

    /// Deletes records of leases that are not there any more. Returns which leases have no record.
    pub fn set_right(&mut self, stored: &Stored) -> impl Fn(&LeaseKey) -> bool + use<T> {
        let mut there = HashSet::with_capacity(stored.leases.len());
        for (number, record) in &stored.leases {
            if self.numbers.get(&record.key) == Some(number) {
                there.insert(record.key);
            } else {
                self.erasures.push(*number);
            }
        }
        let used = stored.leases.iter().map(|(number, _)| *number).chain(self.numbers.values().copied());
        self.next = used.map(|number| number + 1).max().unwrap_or(1).max(self.next);
        move |key| !there.contains(key)
    }

    /// The number of a lease in the ledger.
    pub fn number(&self, key: &LeaseKey) -> Option<u64> {
        self.numbers.get(key).copied()
    }

    /// Takes over the number of a restored lease.
    pub fn know(&mut self, key: LeaseKey, number: u64) {
        self.numbers.insert(key, number);
    }

    /// Deletes a record of an earlier run that is of no use any more.
    pub fn forget(&mut self, number: u64) {
        self.erasures.push(number);
    }

    /// Has a lease kept. `what` comes out of [`Store::durable`] when it is on the disk; an error gives it back: the client is
    /// not answered, and asks again.
    pub fn put(&mut self, record: &LeaseRecord, what: T) -> Result<(), T> {
        let Some(writer) = &self.writer else {
            self.waiting.push_back(Waiting { ticket: Ticket(0), what });
            return Ok(());
        };
        let next = &mut self.next;
        let number = *self.numbers.entry(record.key).or_insert_with(|| {
            *next += 1;
            *next - 1
        });
        match writer.submit([Change::PutSession { key: number, bytes: record.encode() }]) {
            Ok(ticket) => {
                self.waiting.push_back(Waiting { ticket, what });
                Ok(())
            }
            Err(_) => Err(what),
        }
    }

    /// Hands in changes that are no leases, together; gives them back if there is no room. Without a ledger, or with one that has
    /// failed, they are as good as on the disk.
    pub fn submit(&self, changes: Vec<Change>) -> Result<Ticket, Vec<Change>> {
        let Some(writer) = &self.writer else { return Ok(Ticket(0)) };
        match writer.submit(changes) {
            Ok(ticket) => Ok(ticket),
            Err(Refused::Full(changes)) => Err(changes),
            Err(Refused::Failed(_)) => Ok(Ticket(0)),
        }
    }

    /// Submits the last changes there are, as many together as usual; they are on the disk when this is dropped. A report and what
    /// it takes the place of stay together. Returns how many there was no room for in time, or that a failed ledger did not take.
    pub fn submit_last(&self, changes: Vec<Change>) -> usize {
        let Some(writer) = &self.writer else { return 0 };
        let until = Instant::now() + LAST;
        let (mut changes, mut some) = (changes.into_iter().peekable(), Vec::new());
        while let Some(change) = changes.next() {
            let is_whole = some.len() + 1 >= PACE.batch && !matches!(change, Change::DropCheckpoint { .. });
            some.push(change);
            if !is_whole && changes.peek().is_some() {
                continue;
            }
            while let Err(refused) = writer.submit(std::mem::take(&mut some)) {
                match refused {
                    // There is room when some of what was submitted before is on the disk.
                    Refused::Full(few) if Instant::now() < until => some = few,
                    Refused::Full(few) => return few.len() + changes.count(),
                    Refused::Failed(_) => return changes.count() + 1,
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        0
    }

    /// The last of them that is on the disk.
    pub fn submitted(&self) -> Ticket {
        let Some(writer) = &self.writer else { return Ticket(u64::MAX) };
        let progress = writer.progress();
        if progress.failed.is_some() { Ticket(u64::MAX) } else { progress.durable }
    }

    /// Forgets a lease.
    pub fn erase(&mut self, key: &LeaseKey) {
        if let Some(number) = self.numbers.remove(key) {
            self.erasures.push(number);
        }
        self.flush();
    }

    /// Hands deletions in. Their order to later records does not matter: numbers are not used again.
    pub fn flush(&mut self) {
        let Some(writer) = &self.writer else { return self.erasures.clear() };
        if self.erasures.is_empty() {
            return;
        }
        let changes: Vec<_> = self.erasures.drain(..).map(|key| Change::DeleteSession { key }).collect();
        if let Err(Refused::Full(changes)) = writer.submit(changes) {
            let keys = changes.into_iter().filter_map(|change| match change {
                Change::DeleteSession { key } => Some(key),
                _ => None,
            });
            self.erasures.extend(keys);
        }
    }

    /// The next that has become durable, or never will: then its error.
    pub fn durable(&mut self) -> Option<(T, Result<(), LedgerError>)> {
        let ticket = self.waiting.front()?.ticket;
        if let Some(writer) = self.writer.as_ref().filter(|_| self.progress.durable < ticket) {
            self.progress = writer.progress();
        }
        let done = match &self.progress.failed {
            _ if self.writer.is_none() || self.progress.durable >= ticket => Ok(()),
            Some(error) => Err(error.clone()),
            None => return None,
        };
        self.waiting.pop_front().map(|waiting| (waiting.what, done))
    }

    /// Records that wait for the disk.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether [`durable`](Self::durable) has something at once.
    pub fn is_ready(&self) -> bool {
        self.waiting.front().is_some_and(|first| self.writer.is_none() || self.progress.durable >= first.ticket)
    }

    /// Deletions that wait for room.
    pub fn is_behind(&self) -> bool {
        !self.erasures.is_empty()
    }
}
