//! Random changes against a naive model, closed and opened again at any point.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ledger::{Change, Filter, Ledger, Pace, Record};
use proptest::prelude::*;

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("weir-ledger-model-{}-{n}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a ledger is without a disk.
#[derive(Debug, Default, PartialEq)]
struct Model {
    sessions: BTreeMap<u64, Vec<u8>>,
    checkpoints: BTreeMap<u64, Vec<u8>>,
    records: Vec<String>,
    recovery: Option<u32>,
}

impl Model {
    fn change(&mut self, change: &Change) {
        match change.clone() {
            Change::PutSession { key, bytes } => drop(self.sessions.insert(key, bytes)),
            Change::DeleteSession { key } => drop(self.sessions.remove(&key)),
            Change::Checkpoint { key, bytes } => drop(self.checkpoints.insert(key, bytes)),
            Change::DropCheckpoint { key } => drop(self.checkpoints.remove(&key)),
            Change::Append(record) => self.records.push(record.data_network_name),
            Change::Recovery(stamp) => self.recovery = Some(stamp),
            Change::Exported { .. } | Change::Retain { .. } => unreachable!(),
        }
    }

    fn of(ledger: &Ledger) -> Self {
        let mut model = Self::default();
        ledger.sessions(|key, bytes| drop(model.sessions.insert(key, bytes.to_vec()))).unwrap();
        ledger.checkpoints(|key, bytes| drop(model.checkpoints.insert(key, bytes.to_vec()))).unwrap();
        let mut page = ledger.records(&Filter::default(), usize::MAX).unwrap();
        for (n, record) in page.records.drain(..).enumerate() {
            assert_eq!(record.local_sequence_number, n as u64 + 1, "no gaps");
            model.records.push(record.data_network_name);
        }
        let status = ledger.status().unwrap();
        let counts = (model.sessions.len() as u64, model.checkpoints.len() as u64, model.records.len() as u64);
        assert_eq!((status.sessions, status.checkpoints, status.records), counts);
        model.recovery = status.recovery;
        model
    }
}

fn change() -> impl Strategy<Value = Change> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..900);
    let key = || prop_oneof![0..12u64, Just(u64::MAX)];
    prop_oneof![
        4 => (key(), bytes()).prop_map(|(key, bytes)| Change::PutSession { key, bytes }),
        2 => key().prop_map(|key| Change::DeleteSession { key }),
        2 => (key(), bytes()).prop_map(|(key, bytes)| Change::Checkpoint { key, bytes }),
        1 => key().prop_map(|key| Change::DropCheckpoint { key }),
        2 => "[a-z\",\n]{0,9}".prop_map(|name| Change::Append(Box::new(Record { data_network_name: name, ..Record::default() }))),
        1 => any::<u32>().prop_map(Change::Recovery),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_is_its_model(
        lives in proptest::collection::vec(proptest::collection::vec(proptest::collection::vec(change(), 1..4), 0..30), 1..5),
    ) {
        let folder = Folder::new();
        let mut model = Model::default();
        for life in lives {
            let ledger = Ledger::open(&folder.0).unwrap();
            prop_assert!(ledger.was_clean());
            prop_assert_eq!(&Model::of(&ledger), &model);
            let pace = Pace { gather: Duration::from_micros(100), ..Pace::default() };
            let writer = ledger.writer(pace, |_| {}).unwrap();
            let mut last = None;
            for changes in life {
                changes.iter().for_each(|change| model.change(change));
                last = Some(writer.submit(changes).unwrap());
            }
            if let Some(last) = last {
                writer.wait(last).unwrap();
                prop_assert_eq!(&Model::of(&ledger), &model);
            }
            writer.close().unwrap();
        }
        prop_assert_eq!(&Model::of(&Ledger::open(&folder.0).unwrap()), &model);
    }
}
