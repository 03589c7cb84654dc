//! `weir trace`: one subscriber's packets, and what each stage did to them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use port::capture::{self, Format};

use crate::cli::{Key, TraceArgs};
use crate::fail::Usage;
use crate::signals;
use crate::socket::{Client, Reply, Request, TraceLine, TraceView};
use crate::tables::{Style, many};

/// Follows them; `keys`: what gateways call subscribers.
///
/// # Errors
/// No gateway runs there, another trace does, or the file is not writable.
pub fn trace(args: &TraceArgs, keys: &[TraceKey]) -> anyhow::Result<()> {
    let stop = signals::stop_flag()?;
    let subject = Subject::of(args, keys)?;
    let mut client = Client::connect(&args.at.socket)?;
    let mut file = match &args.pcap {
        Some(path) => {
            let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
            let mut head = Vec::new();
            Format::PcapNg.head(&mut head);
            let mut file = BufWriter::new(file);
            file.write_all(&head)?;
            Some(file)
        }
        None => None,
    };
    let (ue, whose) = subject.find(&mut client)?;
    client.ask(&Request::Trace { ue, packets: args.packets })?;
    let style = Style::of_stdout();
    if !args.at.json.is_wanted() {
        eprintln!("following the next {} of {}", many(args.packets as usize, "packet"), whose);
    }
    let until = Instant::now() + Duration::from_secs_f64(args.seconds);
    let mut seen = Walks::default();
    let mut go_on = true;
    let mut out = args.at.json.open()?;
    while go_on {
        go_on = signals::sleep(0.1, &stop) && Instant::now() < until;
        let Reply::Trace(view) = client.ask_while(&Request::Traced, |_| !stop.load(Ordering::Relaxed))? else { break };
        let TraceView { left, lines } = view;
        // Packets are counted before they walk: with none left, one more look has everything.
        go_on &= left > 0 || !lines.is_empty();
        for walk in seen.add(lines, !go_on) {
            if args.at.json.is_wanted() {
                serde_json::to_writer(&mut out, &walk)?;
                writeln!(out)?;
            } else {
                out.write_all(text(&walk, &mut seen.clock, args.hex, style).as_bytes())?;
            }
            if let Some(file) = &mut file {
                save(file, &walk)?;
            }
        }
    }
    if let Some(mut file) = file {
        file.flush()?;
    }
    if seen.done == 0 && !args.at.json.is_wanted() {
        eprintln!("no packet of {whose} came; see `weir show drops` and `weir show ports`");
    }
    Ok(())
}

/// What a gateway calls subscribers, beside their addresses.
#[derive(Clone, Copy)]
pub struct TraceKey {
    /// The option that it adds to `weir trace`.
    pub key: Key,
    /// An address of the subscriber, and what to call it.
    pub find: fn(&str, &mut Client) -> anyhow::Result<(IpAddr, String)>,
}

/// Whose packets are asked for.
enum Subject<'a> {
    Address(IpAddr),
    Key(&'a TraceKey, &'a str),
}

impl<'a> Subject<'a> {
    fn of(args: &'a TraceArgs, keys: &'a [TraceKey]) -> Result<Self, Usage> {
        let given = keys.iter().find_map(|key| Some((key, args.keys.get(&key.key)?)));
        match (args.ue, given) {
            (None, Some((key, value))) => Ok(Self::Key(key, value)),
            (Some(ue), None) => Ok(Self::Address(ue)),
            (Some(_), Some((key, _))) => Err(Usage(format!("--ue or --{}, not both", key.key.name))),
            (None, None) => {
                let all = keys.iter().map(|key| format!(" or --{} {}", key.key.name, key.key.value));
                Err(Usage(format!("whose packets? Say --ue ADDRESS{}", all.collect::<String>())))
            }
        }
    }

    /// An address that the gateway knows the subscriber by, and what to call it.
    fn find(&self, client: &mut Client) -> anyhow::Result<(IpAddr, String)> {
        match self {
            Self::Address(ue) => Ok((*ue, ue.to_string())),
            Self::Key(key, value) => (key.find)(value, client),
        }
    }
}

/// One packet's path through the stages.
type Walk = Vec<TraceLine>;

/// Packets under way: a walk is whole once a later look brought nothing more of it.
#[derive(Default)]
struct Walks {
    open: BTreeMap<(u16, u64), Walk>,
    done: usize,
    clock: Clock,
}

/// Numbers and times of the packets printed.
#[derive(Default)]
struct Clock {
    number: usize,
    first_ns: Option<u64>,
}

impl Walks {
    /// Takes in what was recorded; gives the walks that are complete, oldest first. `last`: all of them are.
    fn add(&mut self, lines: Vec<TraceLine>, last: bool) -> Vec<Walk> {
        // A packet that waits in between may come up again later; whoever waits longer than a look is shown in two parts.
        let mut touched = Vec::new();
        for line in lines {
            let key = (line.worker, line.packet);
            touched.push(key);
            self.open.entry(key).or_default().push(line);
        }
        let whole: Vec<_> = self.open.keys().filter(|key| last || !touched.contains(key)).copied().collect();
        self.done += whole.len();
        let mut walks: Vec<Walk> = whole.iter().filter_map(|key| self.open.remove(key)).collect();
        walks.sort_by_key(|walk| walk.first().map(|line| line.unix_ns));
        walks
    }
}

/// A packet's walk as a paragraph.
fn text(walk: &Walk, clock: &mut Clock, hex: bool, style: Style) -> String {
    let Some(first) = walk.first() else { return String::new() };
    clock.number += 1;
    let start = *clock.first_ns.get_or_insert(first.unix_ns);
    let after = first.unix_ns.saturating_sub(start) as f64 / 1e6;
    let heading = format!("packet {}", clock.number);
    let mut out = format!(
        "{} · worker {} · {} · +{after:.3} ms · {}\n",
        style.strong(&heading),
        first.worker,
        time_of_day(first.unix_ns),
        outcome(walk, style),
    );
    let width = walk.iter().map(|line| line.stage.chars().count()).max().unwrap_or(0);
    let (mut detail, mut bytes, mut time) = ("", "", first.unix_ns);
    for line in walk {
        // What a stage left as it was is not said again.
        let said = if line.detail == detail { style.dim("…") } else { line.detail.clone() };
        let waited = line.unix_ns.saturating_sub(std::mem::replace(&mut time, line.unix_ns));
        let waited = if waited > 0 { format!(", {:.3} ms later", waited as f64 / 1e6) } else { String::new() };
        let verdict = if line.verdict == "drop" { style.alarm("drop") } else { line.verdict.clone() };
        out += &format!("  {:<width$}  {verdict}  {said}{waited}\n", line.stage);
        if hex && line.bytes != bytes {
            out += &dump(&line.raw(), width + 2, style);
        }
        (detail, bytes) = (&line.detail, &line.bytes);
    }
    out.push('\n');
    out
}

fn outcome(walk: &Walk, style: Style) -> String {
    match walk.last() {
        Some(line) if line.verdict == "drop" => style.alarm(&format!("dropped by {}", line.stage)),
        Some(line) if line.verdict == "punt" => format!("to the slow path by {}", line.stage),
        _ => "sent on".to_owned(),
    }
}

/// Hours, minutes, seconds and microseconds, UTC.
fn time_of_day(unix_ns: u64) -> String {
    let (seconds, micros) = (unix_ns / 1_000_000_000, unix_ns / 1000 % 1_000_000);
    format!("{:02}:{:02}:{:02}.{micros:06} UTC", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// Sixteen bytes a line: offset, hex, text.
fn dump(bytes: &[u8], indent: usize, style: Style) -> String {
    let mut out = String::new();
    for (n, chunk) in bytes.chunks(16).enumerate() {
        let half = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
        let (left, right) = chunk.split_at(chunk.len().min(8));
        let printable = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let text: String = chunk.iter().map(printable).collect();
        let line = format!("{:04x}  {:<23}  {:<23}  {text}", 16 * n, half(left), half(right));
        out += &format!("{}  {}\n", " ".repeat(indent), style.dim(line.trim_end()));
    }
    out
}

/// The packet as it came, and as it left or last was.
fn save(file: &mut BufWriter<File>, walk: &Walk) -> anyhow::Result<()> {
    let (Some(first), Some(last)) = (walk.first(), walk.last()) else { return Ok(()) };
    let mut out = Vec::new();
    let came = format!("worker {}, as it came: {}", first.worker, first.detail);
    capture::commented(&mut out, first.unix_ns, &first.raw(), length(&first.raw()), &came);
    if walk.len() > 1 {
        let left = format!("worker {}, {} {}: {}", last.worker, last.verdict, last.stage, last.detail);
        capture::commented(&mut out, last.unix_ns, &last.raw(), length(&last.raw()), &left);
    }
    Ok(file.write_all(&out)?)
}

/// Length of an Ethernet frame of which only the first bytes may be known, from what its IP header says.
fn length(bytes: &[u8]) -> usize {
    let Ok(l2) = wire::Outer::parse(bytes) else { return bytes.len() };
    let l3 = usize::from(l2.l3);
    let half = |at: usize| wire::fast::be16(bytes, l3 + at).map_or(0, usize::from);
    match bytes.get(l3).map(|byte| byte >> 4) {
        Some(4) => l3 + half(2),
        Some(6) => l3 + 40 + half(4),
        _ => bytes.len(),
    }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
