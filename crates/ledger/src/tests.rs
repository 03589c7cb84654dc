//! The ledger on a disk that fails, fills up, or loses what was not synced.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use proptest::prelude::*;

use crate::*;

/// A disk in memory: what is synced stays, the rest may be lost with the power, write by write.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<Platter>>, Arc<AtomicU64>);

#[derive(Debug, Default)]
struct Platter {
    /// As reads see it.
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Since the last sync.
    pending: Vec<Pending>,
    /// Writes and syncs so far; and after how many each one fails.
    done: u64,
    fails_after: Option<(u64, io::ErrorKind)>,
}

#[derive(Debug)]
enum Pending {
    Write(usize, Vec<u8>),
    Len(usize),
}

impl Pending {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Len(len) => bytes.resize(*len, 0),
            Self::Write(at, data) => {
                let end = at + data.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*at..end].copy_from_slice(data);
            }
        }
    }
}

impl Platter {
    fn step(&mut self) -> io::Result<()> {
        self.done += 1;
        match self.fails_after {
            Some((after, kind)) if self.done > after => Err(kind.into()),
            _ => Ok(()),
        }
    }

    fn pend(&mut self, pending: Pending) -> io::Result<()> {
        self.step()?;
        pending.apply(&mut self.now);
        self.pending.push(pending);
        Ok(())
    }
}

impl Disk {
    /// From now on so many writes and syncs go well.
    fn fails_after(&self, steps: u64, kind: io::ErrorKind) {
        let mut platter = self.0.lock().unwrap();
        platter.fails_after = Some((platter.done + steps, kind));
    }

    /// What a power cut now could leave: all that was synced, and of the rest what `keep` says.
    fn after_power_cut(&self, mut keep: impl FnMut() -> bool) -> Self {
        let platter = self.0.lock().unwrap();
        let mut bytes = platter.synced.clone();
        for pending in &platter.pending {
            // Lengths are kept: a file system's journal keeps its own order.
            if matches!(pending, Pending::Len(_)) || keep() {
                pending.apply(&mut bytes);
            }
        }
        let left = Platter { now: bytes.clone(), synced: bytes, ..Platter::default() };
        Self(Arc::new(Mutex::new(left)), Arc::default())
    }
}

impl redb::StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let platter = self.0.lock().unwrap();
        let bytes = platter.now.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().pend(Pending::Len(len as usize))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut platter = self.0.lock().unwrap();
        platter.step()?;
        platter.synced = platter.now.clone();
        platter.pending.clear();
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().pend(Pending::Write(offset as usize, data.to_vec()))
    }
}

fn put(key: u64, bytes: &[u8]) -> Change {
    Change::PutSession { key, bytes: bytes.to_vec() }
}

fn append(stop_day: u64) -> Change {
    Change::Append(Box::new(Record { stop_time: Moment(stop_day * 86_400_000), ..Record::default() }))
}

fn quick() -> Pace {
    Pace { gather: Duration::ZERO, ..Pace::default() }
}

/// Submits and waits.
fn commit(writer: &Writer, changes: Vec<Change>) {
    writer.wait(writer.submit(changes).unwrap()).unwrap();
}

fn sessions(ledger: &Ledger) -> BTreeMap<u64, Vec<u8>> {
    let mut all = BTreeMap::new();
    ledger.sessions(|key, bytes| assert_eq!(all.insert(key, bytes.to_vec()), None, "once each")).unwrap();
    all
}

#[test]
fn a_full_disk_reaches_every_ticket() {
    let disk = Disk::default();
    let ledger = Ledger::on(disk.clone()).unwrap();
    let (tell, told) = mpsc::channel();
    let pace = Pace { gather: Duration::from_millis(50), batch: 1000, queue: 10 };
    let writer = ledger.writer(pace, move |progress| tell.send(progress.clone()).unwrap()).unwrap();
    commit(&writer, vec![put(1, b"kept"), append(1)]);
    assert_eq!(told.recv().unwrap(), Progress { durable: Ticket(1), failed: None });
    disk.fails_after(1, io::ErrorKind::StorageFull);
    let tickets: Vec<Ticket> = (0..10).map(|n| writer.submit([put(n, b"lost")]).unwrap()).collect();
    assert!(matches!(writer.submit([put(11, b""), append(1)]), Err(Refused::Full(back)) if back.len() == 2));
    for ticket in tickets {
        let error = writer.wait(ticket).unwrap_err();
        assert!(matches!(error, LedgerError::Full { .. }), "{error}");
    }
    let progress = told.recv().unwrap();
    assert!(progress.durable == Ticket(1) && progress.failed == writer.progress().failed && progress.failed.is_some());
    assert!(matches!(writer.submit([put(1, b"")]), Err(Refused::Failed(LedgerError::Full { .. }))));
    assert_eq!(writer.wait(Ticket(1)), Ok(()), "what was durable stays durable");
    assert!(matches!(writer.close(), Err(LedgerError::Full { .. })));
    let spent = ledger.writer(quick(), |_| {}).unwrap_err().to_string();
    assert!(spent.contains("failed (an earlier error)"), "{spent}");
    // With room again the ledger opens, without having been closed.
    let ledger = Ledger::on(disk.after_power_cut(|| true)).unwrap();
    assert_eq!((sessions(&ledger), ledger.was_clean()), ([(1, b"kept".to_vec())].into(), false));
    assert_eq!(ledger.status().unwrap().sequence, 1);
}

#[test]
fn changes_that_wait_share_a_sync() {
    let disk = Disk::default();
    let ledger = Ledger::on(disk.clone()).unwrap();
    let writer = ledger.writer(Pace { gather: Duration::from_millis(100), ..Pace::default() }, |_| {}).unwrap();
    let before = disk.1.load(Ordering::Relaxed);
    let tickets: Vec<Ticket> = (0..500).map(|n| writer.submit([put(n, &[7; 700])]).unwrap()).collect();
    writer.wait(tickets[499]).unwrap();
    let syncs = disk.1.load(Ordering::Relaxed) - before;
    assert!(syncs <= 4, "{syncs} syncs for changes that came at once");
    assert_eq!(sessions(&ledger).len(), 500);
}

#[test]
fn a_panic_of_who_is_told_stops_nobody() {
    let ledger = Ledger::on(Disk::default()).unwrap();
    let writer = ledger.writer(quick(), |progress| assert_ne!(progress.durable, Ticket(1))).unwrap();
    commit(&writer, vec![put(1, b"one")]);
    commit(&writer, vec![put(2, b"two")]);
    assert_eq!(writer.close(), Ok(()));
    assert_eq!(sessions(&ledger).len(), 2);
}

#[test]
fn one_writer_at_a_time_and_the_flag_it_leaves() {
    let disk = Disk::default();
    let ledger = Ledger::on(disk.clone()).unwrap();
    assert!(ledger.was_clean());
    let writer = ledger.writer(quick(), |_| {}).unwrap();
    let second = ledger.writer(quick(), |_| {}).unwrap_err();
    assert!(matches!(second, LedgerError::SecondWriter { .. }), "{second}");
    assert_eq!(ledger.amend(vec![]), Err(second));
    commit(&writer, vec![Change::Recovery(0), Change::Checkpoint { key: 3, bytes: vec![] }]);
    let crashed = disk.after_power_cut(|| true);
    let tool = Ledger::on(crashed.clone()).unwrap();
    assert!(!tool.was_clean());
    tool.amend(vec![append(1), Change::Exported { until: 1 }]).unwrap();
    assert_eq!(tool.status().unwrap().exported, 1);
    assert!(!Ledger::on(crashed.after_power_cut(|| true)).unwrap().was_clean(), "a tool leaves no mark");
    writer.close().unwrap();
    let again = Ledger::on(disk.after_power_cut(|| true)).unwrap();
    assert!(again.was_clean());
    let status = again.status().unwrap();
    assert_eq!((status.recovery, status.checkpoints, status.sessions), (Some(0), 1, 0));
    drop(ledger.writer(quick(), |_| {}).unwrap());
}

#[test]
fn a_writer_goes_on_with_what_was_loaded() {
    let disk = Disk::default();
    let ledger = Ledger::on(disk).unwrap();
    let writer = ledger.writer(quick(), |_| {}).unwrap();
    (0..100).for_each(|n| commit(&writer, vec![put(n % 7, &[n as u8; 9])]));
    commit(&writer, vec![Change::DeleteSession { key: 3 }, Change::Checkpoint { key: 9, bytes: vec![1] }]);
    drop(writer);
    let load = || {
        let (mut sessions, mut checkpoints) = (BTreeMap::new(), BTreeMap::new());
        let session = |key, bytes: &[u8]| drop(sessions.insert(key, bytes.to_vec()));
        let places = ledger.load(session, |key, bytes| drop(checkpoints.insert(key, bytes.to_vec()))).unwrap();
        (sessions, checkpoints, places)
    };
    let (kept, checkpoints, places) = load();
    assert_eq!((&kept, kept.len(), checkpoints.len()), (&sessions(&ledger), 6, 1));
    let writer = ledger.writer_after(places, quick(), |_| {}).unwrap();
    commit(&writer, vec![put(3, b"again"), put(8, b"new")]);
    drop(writer);
    assert_eq!(sessions(&ledger).len(), 8);
    // What was loaded before somebody else wrote is not gone by.
    let (.., places) = load();
    ledger.amend(vec![put(20, b"between"), Change::DeleteSession { key: 8 }]).unwrap();
    let writer = ledger.writer_after(places, quick(), |_| {}).unwrap();
    commit(&writer, vec![put(21, b"after"), Change::DeleteSession { key: 8 }]);
    drop(writer);
    let keys: Vec<u64> = sessions(&ledger).into_keys().collect();
    assert_eq!(keys, [0, 1, 2, 3, 4, 5, 6, 20, 21]);
    assert_eq!(ledger.status().unwrap().sessions, 9);
}

#[test]
fn retention_removes_the_oldest_and_counts_them() {
    let ledger = Ledger::on(Disk::default()).unwrap();
    let writer = ledger.writer(quick(), |_| {}).unwrap();
    let retain = |limits| Change::Retain { now: Moment(100 * 86_400_000), limits };
    let kept = || {
        let page = ledger.records(&Filter::default(), 100).unwrap();
        page.records.iter().map(|record| record.local_sequence_number).collect::<Vec<_>>()
    };
    commit(&writer, (1..=10).map(|n| append(90 + n)).collect());
    let limits = Retention { max_records: Some(7), ..Retention::default() };
    commit(&writer, vec![retain(limits)]);
    let status = ledger.status().unwrap();
    assert_eq!((kept().len(), status.held_back, status.removed_exported), (10, true, 0), "nothing is exported yet");
    commit(&writer, vec![Change::Exported { until: 2 }, retain(limits)]);
    assert_eq!((kept()[0], ledger.status().unwrap().held_back), (3, true));
    commit(&writer, vec![Change::Exported { until: 99 }, retain(limits)]);
    let status = ledger.status().unwrap();
    assert_eq!((kept()[0], status.held_back, status.removed_exported, status.exported), (4, false, 3, 10));
    commit(&writer, vec![retain(Retention { max_days: Some(5), ..Retention::default() })]);
    assert_eq!(kept(), [5, 6, 7, 8, 9, 10], "day 95 is five days ago, not more");
    let one = status.record_bytes / status.records;
    let limits = Retention { max_bytes: Some(2 * one + one / 2), ..Retention::default() };
    commit(&writer, vec![append(100), append(100), append(100), retain(limits)]);
    assert_eq!(kept(), [11, 12, 13], "not exported");
    commit(&writer, vec![retain(Retention { remove_unexported: true, ..limits })]);
    let status = ledger.status().unwrap();
    assert_eq!((kept(), status.removed_exported, status.removed_unexported), (vec![12, 13], 10, 1));
    assert_eq!((status.oldest, status.sequence, status.records), (Some(12), 13, 2));
    commit(
        &writer,
        vec![append(100), Change::Exported { until: 14 }, retain(Retention { max_records: Some(0), ..limits })],
    );
    let status = ledger.status().unwrap();
    assert_eq!((status.records, status.record_bytes, status.sequence, status.oldest), (0, 0, 14, None));
    commit(&writer, vec![append(100)]);
    assert_eq!(kept(), [15], "numbers go on when all are gone");
}

#[test]
fn records_come_in_pages() {
    let ledger = Ledger::on(Disk::default()).unwrap();
    let writer = ledger.writer(quick(), |_| {}).unwrap();
    commit(&writer, (0..25).map(append).collect());
    let mut filter = Filter { from: Some(Moment(5 * 86_400_000)), until: Some(20), ..Filter::default() };
    let mut seen = Vec::new();
    loop {
        let page = ledger.records(&filter, 4).unwrap();
        seen.extend(page.records.iter().map(|record| record.local_sequence_number));
        let Some(next) = page.next else { break };
        filter.after = next;
    }
    assert_eq!(seen, (6..=20).collect::<Vec<_>>());
    let none = Filter { after: u64::MAX, ..Filter::default() };
    assert_eq!(ledger.records(&none, 4).unwrap(), Page::default());
    let backwards = Filter { after: 7, until: Some(3), ..Filter::default() };
    assert_eq!(ledger.records(&backwards, 4).unwrap(), Page::default());
}

#[test]
fn a_log_does_not_grow_with_its_changes() {
    let ledger = Ledger::on(Disk::default()).unwrap();
    let writer = ledger.writer(quick(), |_| {}).unwrap();
    for round in 0..40u64 {
        commit(&writer, (0..1000).map(|n| put(n, &round.to_le_bytes())).collect());
    }
    commit(&writer, (500..1000).map(|key| Change::DeleteSession { key }).collect());
    let all = sessions(&ledger);
    assert!(all.len() == 500 && all.values().all(|bytes| *bytes == 39u64.to_le_bytes()));
    let bytes = redb::ReadableDatabase::begin_read(&ledger.inner.db).unwrap().open_table(ledger::SESSIONS).unwrap();
    let entries = redb::ReadableTableMetadata::len(&bytes).unwrap();
    assert!(entries <= 2 * 500 + 4096 + 1000, "{entries} entries for 500 sessions");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The power goes at any write, any of the writes that were not synced is lost: what was durable is there, the rest
    /// is there up to some ticket and not beyond.
    #[test]
    fn a_power_cut_costs_nothing_that_was_durable(
        steps in 1..400u64, lost in proptest::collection::vec(any::<bool>(), 1..64), sizes in proptest::collection::vec(0..2000usize, 40),
    ) {
        let disk = Disk::default();
        let ledger = Ledger::on(disk.clone()).unwrap();
        let writer = ledger.writer(Pace { gather: Duration::ZERO, batch: 3, queue: 100 }, |_| {}).unwrap();
        disk.fails_after(steps, io::ErrorKind::Other);
        // Each submission writes session 0, one other, and a record.
        for (n, size) in sizes.iter().enumerate() {
            let n = n as u64 + 1;
            if writer.submit([put(0, &n.to_le_bytes()), put(n % 7 + 1, &vec![n as u8; *size]), append(n)]).is_err() {
                break;
            }
            if n.is_multiple_of(3) {
                let _ = writer.wait(Ticket(n));
            }
        }
        let _ = writer.wait(Ticket(sizes.len() as u64));
        let durable = writer.progress().durable.0;
        let mut lost = lost.into_iter().cycle();
        let left = Ledger::on(disk.after_power_cut(|| !lost.next().unwrap())).unwrap();
        let found = sessions(&left);
        let reached = found.get(&0).map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().unwrap()));
        prop_assert!(reached >= durable, "{} was durable, {} is there", durable, reached);
        let mut wanted = BTreeMap::new();
        for n in 1..=reached {
            wanted.insert(0, n.to_le_bytes().to_vec());
            wanted.insert(n % 7 + 1, vec![n as u8; sizes[n as usize - 1]]);
        }
        prop_assert_eq!(found, wanted);
        let page = left.records(&Filter::default(), 1000).unwrap();
        let days: Vec<(u64, u64)> = page.records.iter().map(|r| (r.local_sequence_number, r.stop_time.0 / 86_400_000)).collect();
        prop_assert_eq!(days, (1..=reached).map(|n| (n, n)).collect::<Vec<_>>());
    }
}
