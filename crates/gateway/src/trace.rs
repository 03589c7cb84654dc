//! `weir trace`: one subscriber's packets, and what each stage did to them.

mod addresses;
mod file;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::cli::TraceArgs;
use crate::connected::{self, ConnectedRequest};
use crate::fail::Usage;
use crate::signals;
use crate::socket::{Client, Reply, Request, TraceLine, TraceView};
use crate::tables::{Style, many};
use file::PacketFile;

/// Runs `weir trace`.
///
/// # Errors
/// No gateway runs there, another trace does, no subscriber or more than one matches, or the file is not writable.
pub fn trace(args: &TraceArgs) -> anyhow::Result<()> {
    let stop = signals::stop_flag()?;
    let subject = Subject::of(args)?;
    let mut client = Client::connect(&args.at.socket)?;
    let mut file = args.pcap.as_deref().map(PacketFile::create).transpose()?;
    let (ue, whose) = subject.find(&mut client)?;
    let Reply::Trace(TraceView { rules, .. }) = client.ask(&Request::Trace { ue, packets: args.packets })? else {
        bail!("the gateway has answered another question");
    };
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
        let TraceView { left, lines, .. } = view;
        // Packets are counted before they walk: with none left, one more look has everything.
        go_on &= left > 0 || !lines.is_empty();
        for mut walk in seen.add(lines, !go_on) {
            walk.iter_mut().for_each(|line| name_rules(line, &rules));
            if args.at.json.is_wanted() {
                serde_json::to_writer(&mut out, &walk)?;
                writeln!(out)?;
            } else {
                out.write_all(text(&walk, &mut seen.clock, args.hex, style).as_bytes())?;
            }
            if let Some(file) = &mut file {
                file.save(&walk)?;
            }
        }
    }
    if let Some(file) = file {
        file.end()?;
    }
    if seen.done == 0 && !args.at.json.is_wanted() {
        eprintln!("no packet of {whose} came; see `weir show drops` and `weir show ports`");
    }
    Ok(())
}

/// Adds to a rule in a line what it names: FAR, QERs and URRs of a PDR.
pub(crate) fn name_rules(line: &mut TraceLine, rules: &[(String, String)]) {
    let Some(at) = line.detail.find("PDR ") else { return };
    let digits = line.detail[at + 4..].bytes().take_while(u8::is_ascii_digit).count();
    let (rule, end) = (&line.detail[at..at + 4 + digits], at + 4 + digits);
    if let Some((_, named)) = rules.iter().find(|(name, _)| name == rule) {
        line.detail.insert_str(end, &format!(" ({named})"));
    }
}

/// Whose packets are asked for.
enum Subject {
    Address(IpAddr),
    /// The subscriber that matches, and the option that says so.
    Request(Box<ConnectedRequest>, String),
}

impl Subject {
    fn of(args: &TraceArgs) -> Result<Self, Usage> {
        match (args.ue, args.keys.0.as_slice()) {
            (Some(ue), []) => Ok(Self::Address(ue)),
            (None, [(name, value)]) => {
                let request = connected::request(&args.keys, None).map_err(Usage)?;
                Ok(Self::Request(Box::new(request), format!("{name} {value}")))
            }
            (None, []) => {
                let all = connected::SELECTORS.iter().map(|key| format!(" or --{} {}", key.name, key.value));
                Err(Usage(format!("no subscriber is given; use --ue ADDRESS{}", all.collect::<String>())))
            }
            (ue, keys) => {
                let ue = ue.map(|_| "--ue".to_owned());
                let names = ue.into_iter().chain(keys.iter().map(|(name, _)| format!("--{name}")));
                let names = names.collect::<Vec<_>>().join(" and ");
                Err(Usage(format!("{names} exclude each other: one subscriber at a time")))
            }
        }
    }

    /// An address that the gateway knows the subscriber by, and what to call it.
    fn find(&self, client: &mut Client) -> anyhow::Result<(IpAddr, String)> {
        match self {
            Self::Address(ue) => Ok((*ue, ue.to_string())),
            Self::Request(request, whose) => {
                // An address that was given may be one of several, and of a packet that came.
                let (first, _) = connected::find(client, request).with_context(|| whose.clone())?;
                Ok((request.filter.address.unwrap_or(first), whose.clone()))
            }
        }
    }
}

/// One packet's path through the stages.
pub(crate) type Walk = Vec<TraceLine>;

/// Packets under way: a walk is whole once a later look brought nothing more of it.
#[derive(Default)]
pub(crate) struct Walks {
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
    pub(crate) fn add(&mut self, lines: Vec<TraceLine>, last: bool) -> Vec<Walk> {
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
    let (indent, mut addresses) = (width + 18, String::new());
    let (mut detail, mut bytes, mut time) = ("", "", first.unix_ns);
    for line in walk {
        // What a stage left as it was is not said again.
        let said = if line.detail == detail { style.dim("…") } else { line.detail.clone() };
        let waited = line.unix_ns.saturating_sub(std::mem::replace(&mut time, line.unix_ns));
        let waited = if waited > 0 { format!(", {:.3} ms later", waited as f64 / 1e6) } else { String::new() };
        let cost = line.stage_ns.map_or_else(String::new, |ns| format!("{ns:.0} ns"));
        let verdict = if line.verdict == "drop" { style.alarm("drop") } else { line.verdict.clone() };
        out += &format!("  {:<width$}  {verdict}  {cost:>8}  {said}{waited}\n", line.stage);
        if line.bytes != bytes {
            let raw = line.raw();
            let way = addresses::of(&raw);
            if way != addresses {
                out += &format!("{:indent$}{}\n", "", style.dim(&way));
            }
            addresses = way;
            if hex {
                out += &dump(&raw, width + 2, style);
            }
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

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
