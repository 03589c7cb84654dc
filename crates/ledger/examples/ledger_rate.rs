//! How fast the ledger is: changes a second, what a commit takes, bytes a session, how long opening takes.
//!
//! ```text
//! cargo run --release -p ledger --example ledger_rate -- [FOLDER] [SESSIONS] [CHANGES PER SECOND]
//! ```
//!
//! Establishes so many sessions of 700 bytes, then modifies, deletes and establishes them again at that rate (0: as fast
//! as they are taken) for five seconds, every tenth change with a charging record. Ends without closing, and opens again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ledger::{Change, Ledger, Pace, Record, Refused, Writer};

/// Times of submission by ticket, and the latencies that came of them.
#[derive(Default)]
struct Latency {
    submitted: VecDeque<(u64, Instant)>,
    waited: Vec<Duration>,
    commits: Vec<Instant>,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let folder = args.next().unwrap_or_else(|| "target/rate".into());
    let sessions: u64 = args.next().map_or(100_000, |n| n.parse().expect("a number of sessions"));
    let rate: f64 = args.next().map_or(0.0, |n| n.parse().expect("changes per second"));
    let _ = std::fs::remove_dir_all(&folder);
    let ledger = Ledger::open(&folder).expect("a new ledger");
    let latency = Arc::new(Mutex::new(Latency::default()));
    let seen = latency.clone();
    let told = move |progress: &ledger::Progress| {
        let (mut seen, now) = (seen.lock().unwrap(), Instant::now());
        seen.commits.push(now);
        while let Some((_, at)) = seen.submitted.pop_front_if(|(ticket, _)| *ticket <= progress.durable.0) {
            seen.waited.push(now - at);
        }
    };
    let writer = ledger.writer(Pace::default(), told).expect("a writer");
    // Keys in no order, as SEIDs that cannot be guessed are.
    let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bytes = |n: u64| (0..700).map(|i| (n >> (i % 8)) as u8).collect::<Vec<u8>>();
    let put = |n: u64| Change::PutSession { key: key(n), bytes: bytes(n) };

    report("establish", &writer, &latency, 0.0, (0..sessions).map(|n| vec![put(n)]));
    println!("  {} bytes of file a session", ledger.status().unwrap().file_bytes / sessions);

    let end = Instant::now() + Duration::from_secs(5);
    let mixed = (0u64..).take_while(|_| Instant::now() < end).map(|n| {
        let victim = key(n) % sessions;
        match n % 10 {
            0 => vec![Change::Append(Box::new(Record { urr_id: Some(1), ..Record::default() })), put(victim)],
            1..5 => vec![put(victim)],
            5..8 => vec![Change::Checkpoint { key: key(victim), bytes: vec![0; 100] }],
            _ => vec![Change::DeleteSession { key: key(victim) }],
        }
    });
    report("mixed", &writer, &latency, rate, mixed);
    let status = ledger.status().unwrap();
    println!("  {} sessions, {} records; file {} MB", status.sessions, status.records, status.file_bytes >> 20);
    println!("  {:.2} s of CPU, {} of memory in all", cpu_seconds(), resident());

    // As a crash leaves it: the file is copied before the writer closes.
    let copy = format!("{folder}/copy");
    std::fs::create_dir_all(&copy).unwrap();
    std::fs::copy(ledger.path(), format!("{copy}/{}", ledger::FILE)).unwrap();
    writer.close().unwrap();
    drop(ledger);
    for (how, folder) in [("after a crash", &copy), ("after closing", &folder)] {
        let began = Instant::now();
        let ledger = Ledger::open(folder).expect("it opens again");
        let opened = began.elapsed();
        let (mut count, mut size) = (0u64, 0);
        ledger.sessions(|_, bytes| (count, size) = (count + 1, size + bytes.len())).unwrap();
        println!("open {how}: {opened:.1?}; {count} sessions of {} MB read: {:.1?}", size >> 20, began.elapsed());
    }
}

fn report(
    what: &str,
    writer: &Writer,
    latency: &Mutex<Latency>,
    rate: f64,
    changes: impl Iterator<Item = Vec<Change>>,
) {
    *latency.lock().unwrap() = Latency::default();
    let (began, cpu, mut submitted) = (Instant::now(), cpu_seconds(), 0u64);
    let mut last = None;
    for mut change in changes {
        if rate > 0.0 {
            while began.elapsed().as_secs_f64() * rate < submitted as f64 {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        submitted += 1;
        last = Some(loop {
            // Held while submitting, so that the time is there before the commit is.
            let mut latency = latency.lock().unwrap();
            match writer.submit(change) {
                Ok(ticket) => {
                    latency.submitted.push_back((ticket.0, Instant::now()));
                    break ticket;
                }
                Err(Refused::Full(back)) => change = back,
                Err(Refused::Failed(error)) => panic!("{error}"),
            }
            drop(latency);
            std::thread::sleep(Duration::from_micros(100));
        });
    }
    writer.wait(last.expect("changes")).expect("durable");
    let seconds = began.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_millis(5));
    let mut latency = latency.lock().unwrap();
    let mut between: Vec<Duration> = latency.commits.windows(2).map(|two| two[1] - two[0]).collect();
    println!(
        "{what}: {submitted} in {seconds:.2} s = {:.0} a second; {} commits; {:.2} s of CPU = {:.1} us a change",
        submitted as f64 / seconds,
        latency.commits.len(),
        cpu_seconds() - cpu,
        (cpu_seconds() - cpu) * 1e6 / submitted as f64,
    );
    println!("  submitted to durable: {}", quantiles(&mut latency.waited));
    println!("  commit to commit:     {}", quantiles(&mut between));
}

fn quantiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |q: f64| times.get(((times.len().max(1) - 1) as f64 * q) as usize).copied().unwrap_or_default();
    format!("p50 {:.2?}, p99 {:.2?}, most {:.2?}", at(0.5), at(0.99), at(1.0))
}

/// Memory of this process.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap_or("unknown").trim().to_owned()
}

/// CPU seconds of this process, user and system.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
