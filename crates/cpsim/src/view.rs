//! What `weir cp` shows: a table while it runs, a summary at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

use schemars::JsonSchema;
use serde::Serialize;

use super::plane::{ControlPlane, Stage};
use super::tally::{Asked, Counts, Times, Usage, kind_text};
use gateway::counters::Explained;
use gateway::tables::{Style, Table, bytes, count, duration, si};

/// The whole story, for people and programs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Summary {
    /// The user plane's address.
    pub user_plane: String,
    /// What it calls itself.
    pub node_id: Option<String>,
    /// How loaded it says it is, in per cent, if it tells.
    pub load_percent: Option<u8>,
    /// How long it all took.
    pub seconds: f64,
    /// Sessions asked for.
    pub sessions: u32,
    /// Sessions that are up now.
    pub up: u32,
    /// The most that were up at once.
    pub most_up: u32,
    /// From the first request to the last session.
    pub bring_up_seconds: Option<f64>,
    /// Sessions brought up a second in that time.
    pub established_per_second: Option<f64>,
    /// What was done.
    #[serde(flatten)]
    pub counts: Counts,
    /// Refusals by cause (TS 29.244, 8.2.1).
    pub refused_by_cause: BTreeMap<String, Explained>,
    /// Requests sent again.
    pub retransmitted: u64,
    /// Reports of the user plane by kind.
    pub reports_by_kind: BTreeMap<&'static str, Explained>,
    /// Usage reported.
    pub usage: Usage,
    /// Charging records that are on the disk; none: they are not kept.
    pub records: Option<u64>,
    /// Response times in milliseconds, by request.
    pub response_ms: BTreeMap<&'static str, Times>,
}

impl Summary {
    /// As it stands after so many seconds.
    pub fn of(plane: &ControlPlane, seconds: f64) -> Self {
        let (tally, (up, most_up)) = (plane.tally(), plane.up());
        let bring_up = match plane.bring_up() {
            (Some(began), Some(complete)) => Some(complete.saturating_sub(began).as_secs_f64()),
            _ => None,
        };
        let established = tally.counts.established.min(plane.spec().sessions.into()) as f64;
        Self {
            user_plane: plane.spec().upf.to_string(),
            node_id: plane.node().associations().next().map(|(_, association)| association.node_id.to_string()),
            load_percent: plane.load(),
            seconds,
            sessions: plane.spec().sessions,
            up,
            most_up,
            bring_up_seconds: bring_up,
            established_per_second: bring_up.map(|seconds| established / seconds.max(1e-3)),
            counts: tally.counts,
            refused_by_cause: by(&tally.refused, |cause| (cause.id(), cause.to_string())),
            retransmitted: plane.node().counters().retransmitted,
            reports_by_kind: by(&tally.kinds, |kind| (*kind, kind_text(kind).to_owned())),
            usage: tally.usage,
            records: None,
            response_ms: Asked::ALL.map(|(asked, name)| (name, tally.times(Some(asked)))).into(),
        }
    }

    /// As tables.
    pub fn text(&self, style: Style) -> String {
        let mut out = format!(
            "{} · {} · {} · {} of {} sessions were up at once, {} are\n",
            style.strong("weir cp"),
            self.user_plane,
            duration(self.seconds),
            count(self.most_up.into()),
            count(self.sessions.into()),
            count(self.up.into()),
        );
        if let (Some(seconds), Some(rate)) = (self.bring_up_seconds, self.established_per_second) {
            let _ = writeln!(out, "brought up in {}: {}/s", duration(seconds), si(rate));
        }
        out.push('\n');
        let heads = ["request", ">answered", ">p50 ms", ">p99 ms", ">max ms"];
        let mut table = Table::new(&heads);
        for (name, times) in &self.response_ms {
            let cells = [times.p50, times.p99, times.max].map(|ms| format!("{ms:.2}"));
            table.row([(*name).to_owned(), count(times.count)].into_iter().chain(cells));
        }
        out += &table.render(style);
        out.push('\n');
        let mut table = Table::new(&["what", ">times"]);
        for (what, times) in self.events() {
            table.row([what, count(times)]);
        }
        if !table.is_empty() {
            out += &table.render(style);
            out.push('\n');
        }
        let Usage { reports, up_bytes, down_bytes, up_packets, down_packets } = self.usage;
        let _ = writeln!(
            out,
            "usage in {} reports: ↑ {} bytes ({}) in {} packets, ↓ {} bytes ({}) in {} packets",
            count(reports),
            count(up_bytes),
            bytes(up_bytes),
            count(up_packets),
            count(down_bytes),
            bytes(down_bytes),
            count(down_packets),
        );
        for Explained { value, help } in self.refused_by_cause.values() {
            let _ = writeln!(out, "{}", style.alarm(&format!("refused {}×: {help}", count(*value))));
        }
        if self.counts.unanswered > 0 {
            let times = count(self.counts.unanswered);
            let _ = writeln!(out, "{}", style.alarm(&format!("{times} requests were never answered")));
        }
        out
    }

    /// What has happened, and how often; what never has is left out.
    fn events(&self) -> impl Iterator<Item = (String, u64)> {
        let counts = &self.counts;
        let done = [
            ("established", counts.established),
            ("connected to a gNB", counts.connected),
            ("modified in all", counts.modified),
            ("put to sleep", counts.idled),
            ("paged and woken", counts.paged),
            ("handed over", counts.handed_over),
            ("given another rate", counts.limited),
            ("usage queries", counts.queried),
            ("granted another quota", counts.granted),
            ("deleted", counts.deleted),
            ("charging records written", self.records.unwrap_or(0)),
            ("usage reports repeated", counts.repeated),
            ("requests sent again", self.retransmitted),
            ("requests kept back: overload", counts.kept_back),
            ("user plane requested release", counts.asked_to_release),
            ("user plane lost or begun anew", counts.lost),
        ];
        let told = self.reports_by_kind.values().map(|kind| (format!("report: {}", kind.help), kind.value));
        let done = done.into_iter().map(|(what, times)| (what.to_owned(), times));
        done.chain(told).filter(|(_, times)| *times > 0).collect::<Vec<_>>().into_iter()
    }
}

/// Counters under their identifiers, each with its meaning.
fn by<K, I: Ord>(counters: &BTreeMap<K, u64>, name: impl Fn(&K) -> (I, String)) -> BTreeMap<I, Explained> {
    let explained = |(key, value): (&K, &u64)| {
        let (id, help) = name(key);
        (id, Explained { value: *value, help })
    };
    counters.iter().map(explained).collect()
}

/// The picture of the last second, on the error stream: in place on a terminal, a line each elsewhere.
pub struct Live {
    quiet: bool,
    terminal: bool,
    lines: usize,
    before: (f64, Counts, Usage),
}

impl Live {
    /// Nothing shown yet; `quiet`: nor ever.
    pub fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { quiet, terminal, lines: 0, before: (0.0, Counts::default(), Usage::default()) }
    }

    /// A line that stays.
    pub fn say(&mut self, text: &str) {
        if !self.quiet {
            self.lines = 0;
            // Nobody reads: nothing is lost.
            _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    /// Shows what the time since the last call brought.
    pub fn tell(&mut self, plane: &mut ControlPlane, seconds: f64) {
        let (counts, usage) = (plane.tally().counts, plane.tally().usage);
        let (last, before, used) = std::mem::replace(&mut self.before, (seconds, counts, usage));
        let times = plane.tally().times(None);
        if self.quiet {
            return;
        }
        let over = (seconds - last).max(1e-3);
        let rate = |now: u64, before: u64| si(now.saturating_sub(before) as f64 / over);
        let up = count(plane.up().0.into());
        let [made, changed, gone] = [
            rate(counts.established, before.established),
            rate(counts.modified, before.modified),
            rate(counts.deleted, before.deleted),
        ];
        let volumes = [(usage.up_bytes, used.up_bytes), (usage.down_bytes, used.down_bytes)];
        let [up_rate, down_rate] = volumes.map(|(now, before)| format!("{}bit/s", unit(now, before, over)));
        plane.tally_mut().clear_recent();
        if !self.terminal {
            self.say(&format!(
                "{seconds:>6.1} s  {}  up {up}  established {made}/s  modified {changed}/s  deleted {gone}/s  refused \
                 {}  p99 {:.2} ms  reports {}  reported ↑ {up_rate} ↓ {down_rate}",
                stage(plane.stage()),
                count(counts.refused + counts.unanswered),
                times.p99,
                count(counts.reports),
            ));
            return;
        }
        let mut table = Table::new(&[
            ">sessions up",
            ">asleep",
            ">established/s",
            ">modified/s",
            ">deleted/s",
            ">p50 ms",
            ">p99 ms",
            ">max ms",
            ">reported ↑",
            ">reported ↓",
        ]);
        let [p50, p99, max] = [times.p50, times.p99, times.max].map(|ms| format!("{ms:.2}"));
        let asleep = count(plane.idle() as u64);
        table.row([up, asleep, made, changed, gone, p50, p99, max, bytes(usage.up_bytes), bytes(usage.down_bytes)]);
        let style = Style::coloured(std::env::var_os("NO_COLOR").is_none());
        let mut text = format!(
            "{} · {} · {} · {}\n{}",
            style.strong("weir cp"),
            plane.spec().upf,
            duration(seconds),
            stage(plane.stage()),
            table.render(style)
        );
        for (kind, times) in &plane.tally().kinds {
            let _ = writeln!(text, "  report: {:<32} {:>12}", kind_text(kind), count(*times));
        }
        for (cause, times) in &plane.tally().refused {
            let _ = writeln!(
                text,
                "  {}",
                style.alarm(&format!("refused: {:<31} {:>12}", cause.to_string(), count(*times)))
            );
        }
        let up = if self.lines > 0 { format!("\x1b[{}A\x1b[J", self.lines) } else { String::new() };
        self.lines = text.matches('\n').count();
        _ = write!(std::io::stderr(), "{up}{text}");
    }
}

/// Bits a second, ready for their unit.
fn unit(now: u64, before: u64, over: f64) -> String {
    let text = si(8.0 * now.saturating_sub(before) as f64 / over);
    if text.contains(' ') { text } else { text + " " }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Associating => "associating",
        Stage::Working => "at work",
        Stage::Ending => "taking sessions down",
        Stage::Releasing => "releasing the association",
        Stage::Over => "over",
        Stage::Failed(_) => "failed",
    }
}
