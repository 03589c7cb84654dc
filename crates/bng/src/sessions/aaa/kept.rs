//! What the ledger keeps of accounting, so that a crash loses no record: of each session that is accounted its identifier, its
//! begin, what it was granted and what it had used when it was last reported; and reports of starts and ends until a server has
//! acknowledged them. A report goes to a server when what it says is on the disk, so that a server never knows more than the
//! ledger: a session goes on under its identifier after a crash, with at least the usage that was reported.
//!
//! What a session has used since its last interim report is lost if the process is killed; one that ends writes it down.

use std::collections::{HashMap, VecDeque};

use ledger::{Change, Ticket};
use radius::Attribute;
use radius::accounting::{from_record, to_record};
use serde::{Deserialize, Serialize};

use super::Grant;
use super::hand_over::{Attributes, Named};
use crate::subscribers::Usage;

/// Usage in a row: packets and bytes from the subscriber, packets and bytes to it; each of IPv4 and of IPv6.
pub type Row = [u64; 8];

/// Usage as it is kept.
pub fn row(usage: &Usage) -> Row {
    let pairs = [usage.up_packets, usage.up_bytes, usage.down_packets, usage.down_bytes];
    std::array::from_fn(|n| pairs[n / 2][n % 2])
}

/// What was used before, and since.
pub fn sum(before: &Row, since: &Usage) -> Usage {
    let all: Row = std::array::from_fn(|n| before[n].saturating_add(row(since)[n]));
    let pair = |n: usize| [all[n], all[n + 1]];
    Usage { up_packets: pair(0), up_bytes: pair(2), down_packets: pair(4), down_bytes: pair(6), mac: since.mac }
}

/// An accounted session as the ledger has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptAccount {
    /// Its subscriber.
    pub of: Named,
    /// Acct-Session-Id.
    pub id: String,
    /// Its begin, in ms of the wall clock.
    pub began: u64,
    /// What it was granted.
    pub grant: Grant,
    /// What it had used when it was last reported.
    pub used: Row,
    /// What else its reports say of it: line, hardware address, addresses.
    #[serde(default)]
    pub about: Attributes,
}

/// A record of accounting.
#[derive(Debug)]
pub enum Kept {
    /// A session.
    Account(Box<KeptAccount>),
    /// A report of a start or an end that no server has acknowledged.
    Report(Vec<Attribute>),
}

/// First octet of a record.
const ACCOUNT: u8 = b'A';
const REPORT: u8 = b'R';

impl Kept {
    /// Reads a record; none: it is cut off, or of another release.
    pub fn decode(record: &[u8]) -> Option<Self> {
        match record.split_first()? {
            (&ACCOUNT, rest) => Some(Self::Account(serde_json::from_slice(rest).ok()?)),
            (&REPORT, rest) => Some(Self::Report(from_record(rest)?)),
            _ => None,
        }
    }
}

/// Changes on their way to the ledger, and reports that wait for them.
#[derive(Debug)]
pub struct Keeper {
    /// What is to be submitted next, together.
    changes: Vec<Change>,
    /// The number of that, and those that were submitted and are not on the disk yet.
    step: u64,
    under_way: VecDeque<(u64, Ticket)>,
    /// All up to this one are on the disk.
    durable: u64,
    /// The next record's key.
    next: u64,
    /// Keys of reports that the client has, by the client's numbers.
    given: HashMap<u64, u64>,
}

impl Default for Keeper {
    fn default() -> Self {
        let (changes, under_way, given) = Default::default();
        Self { changes, step: 1, under_way, durable: 0, next: 1, given }
    }
}

impl Keeper {
    /// A key for a record.
    pub fn key(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Keys up to that one are taken.
    pub fn taken(&mut self, key: u64) {
        self.next = self.next.max(key + 1);
    }

    /// The next key.
    pub fn next_key(&self) -> u64 {
        self.next
    }

    /// Keeps a session.
    pub fn account(&mut self, key: u64, account: &KeptAccount) {
        let mut bytes = vec![ACCOUNT];
        // A vector takes all of it, and no key of a map is other than text.
        if serde_json::to_writer(&mut bytes, account).is_ok() {
            self.changes.push(Change::Checkpoint { key, bytes });
        }
    }

    /// Keeps a report; returns its key. One that cannot be written as a record is malformed as a packet, too: 0.
    pub fn report(&mut self, attributes: &[Attribute]) -> u64 {
        let Ok(record) = to_record(attributes) else { return 0 };
        let key = self.key();
        let bytes = [REPORT].into_iter().chain(record).collect();
        self.changes.push(Change::Checkpoint { key, bytes });
        key
    }

    /// Forgets a record.
    pub fn forget(&mut self, key: u64) {
        if key != 0 {
            self.changes.push(Change::DropCheckpoint { key });
        }
    }

    /// Keeps the number of this run.
    pub fn run(&mut self, run: u32) {
        self.changes.push(Change::Recovery(run));
    }

    /// The client has a report that has a record, under this number.
    pub fn gave(&mut self, number: u64, key: u64) {
        if key != 0 {
            self.given.insert(number, key);
        }
    }

    /// A server has acknowledged a report.
    pub fn acknowledged(&mut self, number: u64) {
        if let Some(key) = self.given.remove(&number) {
            self.forget(key);
        }
    }

    /// Reports that the client has: its numbers, and keys.
    pub fn given(&self) -> impl Iterator<Item = (u64, u64)> {
        self.given.iter().map(|(number, key)| (*number, *key))
    }

    /// A report of now may go when this is on the disk.
    pub fn step(&self) -> u64 {
        if self.changes.is_empty() { self.step - 1 } else { self.step }
    }

    /// What is on the disk.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Whether there is something to submit.
    pub fn is_due(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Whether all is on the disk.
    pub fn is_settled(&self) -> bool {
        self.changes.is_empty() && self.under_way.is_empty()
    }

    /// Hands changes to the ledger by `submit`, which gives back those that it has no room for, and takes note of what is on the
    /// disk, up to `durable`.
    pub fn turn(
        &mut self,
        submit: impl FnOnce(Vec<Change>) -> Result<Ticket, Vec<Change>>,
        durable: impl Fn() -> Ticket,
    ) {
        if !self.changes.is_empty() {
            match submit(std::mem::take(&mut self.changes)) {
                Ok(ticket) => {
                    self.under_way.push_back((self.step, ticket));
                    self.step += 1;
                }
                Err(changes) => self.changes = changes,
            }
        }
        if self.under_way.is_empty() {
            return;
        }
        let durable = durable();
        while let Some((step, _)) = self.under_way.front().filter(|(_, ticket)| *ticket <= durable) {
            self.durable = *step;
            self.under_way.pop_front();
        }
    }

    /// All changes that are not submitted yet.
    pub fn take(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Goes on with what another process had: all of it is on the disk.
    pub fn go_on_with(&mut self, next: u64, given: impl Iterator<Item = (u64, u64)>) {
        self.next = self.next.max(next);
        self.given = given.collect();
    }
}
