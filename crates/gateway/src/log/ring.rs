//! The last events, numbered.

use std::collections::VecDeque;

use super::record::Record;

/// The last events of a process.
#[derive(Debug)]
pub struct Ring {
    records: VecDeque<Record>,
    most: usize,
    newest: u64,
}

impl Ring {
    /// Room for so many.
    pub fn new(most: usize) -> Self {
        Self { records: VecDeque::with_capacity(most), most, newest: 0 }
    }

    /// Keeps a record in the oldest one's place; returns it with its number.
    pub fn push(&mut self, mut record: Record) -> Record {
        self.newest += 1;
        record.sequence = self.newest;
        if self.records.len() >= self.most {
            self.records.pop_front();
        }
        self.records.push_back(record.clone());
        record
    }

    /// The records after a number, oldest first.
    pub fn after(&self, sequence: u64) -> Vec<Record> {
        self.records.iter().filter(|record| record.sequence > sequence).cloned().collect()
    }

    /// The newest record's number.
    pub fn newest(&self) -> u64 {
        self.newest
    }
}
