//! Records through the socket of a running gateway and out of the file: the same either way.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use ledger::{Cause, Change, Ledger, Moment, Pace, Record, Status};
use port::Wires;

use super::export::{Exported, export};
use super::source::Source;
use super::*;
use crate::cli::{Cli, Command};
use crate::shell_tests::gateway;
use gateway::records::Kept;
use gateway::shell::Process;
use gateway::socket::Server;
use upf::product::observer::Observer;

/// A folder of its own, removed at the end.
struct Spot(PathBuf);

impl Spot {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("weir-cdr-{}-{n}", std::process::id())))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// The command a line gives, with this spot's ledger and socket.
    fn command(&self, line: &str) -> What {
        let (ledger, socket) = (self.path("ledger"), self.path("weir.sock"));
        let words = ["weir", "cdr"].into_iter().chain(line.split(' '));
        let words = words.chain(["--ledger", &ledger, "--socket", &socket]).map(str::to_owned);
        match Cli::try_parse_from(words).unwrap().command {
            Command::Cdr(args) => args.what,
            other => panic!("{other:?}"),
        }
    }

    fn listed(&self, line: &str) -> Vec<u64> {
        let What::List(args) = self.command(line) else { panic!("{line}") };
        let (records, _) = list::last(&args, &mut Source::find(&args.place).unwrap()).unwrap();
        records.iter().map(|record| record.local_sequence_number).collect()
    }

    fn exported(&self, line: &str) -> anyhow::Result<Exported> {
        let What::Export(args) = self.command(line) else { panic!("{line}") };
        export(&args, &mut Source::find(&args.place)?)
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Record n of 2500: every hundredth is of one subscriber, each is closed a second after the one before.
fn record(n: u32) -> Record {
    let at = Moment(1_795_305_600_000 + u64::from(n) * 1000);
    Record {
        served_imsi: format!("00101{:010}", n % 100),
        served_ipv4: Some([10, 60, 0, (n % 100) as u8].into()),
        data_network_name: "internet".into(),
        serving_node_address: Some(IpAddr::from([10, 0, 3, 100])),
        urr_id: Some(1),
        data_volume_downlink: u64::from(n) << 20,
        duration: 60,
        stop_time: at,
        cause_for_rec_closing: Cause::TimeLimit,
        report_trigger: "PERIO".into(),
        ..Record::default()
    }
}

const RECORDS: u32 = 2500;

fn kept(spot: &Spot) -> Kept {
    let ledger = Ledger::open(spot.path("ledger")).unwrap();
    let writer = ledger.writer(Pace::default(), |_| {}).unwrap();
    if ledger.status().unwrap().sequence == 0 {
        let all = (1..=RECORDS).map(|n| Change::Append(Box::new(record(n)))).collect::<Vec<_>>();
        writer.wait(writer.submit(all).unwrap()).unwrap();
    }
    (ledger, Arc::new(writer))
}

/// A gateway with that ledger, and its socket.
fn running(spot: &Spot, kept: Kept) -> (Process<Observer>, Server) {
    let process = gateway(&Wires::default());
    assert!(process.observer().ledger.set(kept).is_ok());
    let server = Server::start(spot.path("weir.sock").as_ref(), process.observer().clone()).unwrap();
    (process, server)
}

fn asked(spot: &Spot) -> Source {
    let What::List(args) = spot.command("list") else { panic!() };
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match Source::find(&args.place) {
            Ok(source) => return source,
            // Whoever was being answered, or begins a process, has the ledger open a moment longer.
            Err(error) => assert!(Instant::now() < until, "{error:#}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The same questions, wherever the records are.
fn questions(spot: &Spot, runs: bool) {
    let said = asked(spot).to_string();
    assert!(said.contains(if runs { "that runs at" } else { "which no weir has open" }), "{said}");
    assert_eq!(spot.listed("list").len(), 50);
    assert_eq!(spot.listed("list --limit 3"), [2498, 2499, 2500]);
    assert_eq!(spot.listed("list --limit 2 --until 1700"), [1699, 1700]);
    assert_eq!(spot.listed("list --limit 2 --subscriber imsi-001010000000007"), [2307, 2407]);
    assert_eq!(spot.listed("list --subscriber 10.60.0.7 --after 2307"), [2407]);
    assert_eq!(spot.listed("list --from 2026-11-22T00:00:05 --to 2026-11-22T00:00:08"), [5, 6, 7]);
    assert_eq!(spot.listed("list --from 2026-11-23"), [0; 0]);
    for (format, lines) in [("json", RECORDS as usize), ("csv", RECORDS as usize + 1)] {
        let file = spot.path(&format!("{format}-{runs}"));
        let done = spot.exported(&format!("export --format {format} --output {file}")).unwrap();
        assert_eq!(done.to_string(), "2,500 records, numbers 1 to 2500");
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), lines);
    }
    let some = spot.exported(&format!("export --after 10 --limit 5 --output {}", spot.path("some"))).unwrap();
    assert_eq!((some.records, some.range, some.acknowledged), (5, Some((11, 15)), false));
}

#[test]
fn records_are_the_same_from_the_process_and_from_the_file() {
    let spot = Spot::new();
    let (process, server) = running(&spot, kept(&spot));
    questions(&spot, true);
    drop(server);
    process.stop();
    questions(&spot, false);
    for form in ["json", "csv"] {
        let read = |runs: bool| std::fs::read(spot.path(&format!("{form}-{runs}"))).unwrap();
        assert!(read(true) == read(false), "{form}");
    }
}

#[test]
fn what_is_acknowledged_is_not_exported_again() {
    let spot = Spot::new();
    let (process, server) = running(&spot, kept(&spot));
    let file = spot.path("new.json");
    let export = |more: &str| spot.exported(&format!("export --acknowledge --output {file}{more}"));
    let done = export(" --limit 100").unwrap();
    assert_eq!(done.to_string(), "100 records, numbers 1 to 100, acknowledged");
    let gap = export(" --after 200").unwrap_err().to_string();
    assert!(gap.contains("--after 200 leaves out records after 100"), "{gap}");
    assert_eq!(export("").unwrap().range, Some((101, 2500)));
    drop(server);
    process.stop();
    assert_eq!(export("").unwrap(), Exported::default());
    assert_eq!(export(" --after 2400").unwrap().range, Some((2401, 2500)), "again, if asked for");
    let ledger = Ledger::open(spot.path("ledger")).unwrap();
    assert_eq!((ledger.status().unwrap().exported, ledger.was_clean()), (2500, true));
    drop(ledger);
    let nowhere = spot.exported("export --acknowledge --output /proc/no/such/file").unwrap_err();
    assert!(format!("{nowhere:#}").contains("writing /proc/no/such/file"), "{nowhere:#}");
}

#[test]
fn who_has_no_ledger_says_so() {
    let spot = Spot::new();
    std::fs::create_dir_all(&spot.0).unwrap();
    let place = Where { ledger: None, socket: spot.path("weir.sock").into() };
    let find = |place: &Where| Source::find(place).err().unwrap();
    let process = gateway(&Wires::default());
    let server = Server::start(&place.socket, process.observer().clone()).unwrap();
    let none = find(&place).to_string();
    assert!(none.contains("keeps no ledger; --ledger FOLDER"), "{none}");
    let elsewhere = find(&Where { ledger: Some(spot.path("elsewhere").into()), ..place }).to_string();
    assert!(elsewhere.contains("there is no ledger at"), "{elsewhere}");
    drop(server);
    // Another process has it, and is not the one behind the socket.
    let _open = Ledger::open(spot.path("ledger")).unwrap();
    let What::List(args) = spot.command("list") else { panic!() };
    let locked = find(&args.place).to_string();
    assert!(locked.contains("open in another process"), "{locked}");
}

#[test]
fn the_table() {
    let status = Status { records: 2, record_bytes: 900, sequence: 7, exported: 5, ..Status::default() };
    let mut records = [record(1), record(2)];
    records.iter_mut().zip(6..).for_each(|(record, n)| record.local_sequence_number = n);
    let wanted = "
  number  closed               subscriber       address    dnn       urr  group   up     down       time  cause      report
  ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
       6  2026-11-22 00:00:01  001010000000001  10.60.0.1  internet    1      –  0 B  1.0 MiB  1 min 0 s  timeLimit  PERIO
       7  2026-11-22 00:00:02  001010000000002  10.60.0.2  internet    1      –  0 B  2.0 MiB  1 min 0 s  timeLimit  PERIO

  2 of 2 records (900 B); the last number is 7, exported up to 5
";
    assert_eq!(format!("\n{}", list::text(&records, &status, Style::default())), wanted);
    let more = Status { removed_exported: 5, held_back: true, ..status };
    let text = list::text(&[], &more, Style::default());
    assert!(text.starts_with("  no such records\n"), "{text}");
    assert!(text.contains("removed 5 exported and 0 never exported") && text.contains("waits for an export"), "{text}");
}
