//! `weir bench PROFILE --search KINDS`: the rate a gateway forwards without loss, and what depends on it.

use std::io::{IsTerminal, Write as _};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ::bench::BenchError;
use ::bench::bng::BngUnderTest;
use ::bench::cmts::CableSettings;
use ::bench::search::{Limits, Progress};
use ::bench::searching::{self, Kind, SIZES, SearchOptions, SearchReport};
use ::bench::upf::UpfUnderTest;
use ::bench::{Options, PortKind};
use clap::Args;
use gateway::cli::seconds;
use gateway::fail::Usage;

use super::{BenchArgs, print, usage};

/// Options of `--search`.
#[derive(Clone, Debug, Args)]
pub struct SearchArgs {
    /// Search instead of a trial: mlr (MLRsearch, RFC 9971), rfc2544 (throughput, latency, loss-curve, back-to-back),
    /// determinism (equal trials at the rate found), soak (the same for long, at nine tenths of it); several with commas.
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub search: Option<Vec<String>>,
    /// With --search mlr: loss ratios that are allowed, such as 0,0.5% [default: 0,0.5%].
    #[arg(long, value_name = "RATIOS", value_delimiter = ',', value_parser = ratio)]
    pub loss_ratios: Option<Vec<f64>>,
    /// With --search: frame sizes in bytes with FCS, such as 64,1518, or all: 64 to 1518 of RFC 2544, and 9000
    /// [default: the workload's own sizes].
    #[arg(long, value_name = "SIZES")]
    pub sizes: Option<String>,
    /// With --search: length of a trial; RFC 2544 asks for 60 [default: 0.25].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub trial_seconds: Option<f64>,
    /// With --search: trials of determinism, and trials at a load that decide in mlr [default: 21].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub trials: Option<u32>,
    /// With --search soak: its length [default: 60].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub soak_seconds: Option<f64>,
    /// With --search: all trials end by then, with what was found until then [default: 3600].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time_limit: Option<f64>,
}

/// A part of 0 to 99 %.
fn ratio(text: &str) -> Result<f64, String> {
    let share = quantity::share(text).filter(|share| (0.0..0.99).contains(share));
    share.ok_or_else(|| "allowed: a loss ratio such as 0, 0.005 or 0.5%".to_owned())
}

impl SearchArgs {
    /// A search is asked for.
    pub fn is_wanted(&self) -> bool {
        self.search.is_some()
    }

    /// Each option, and whether it is given.
    pub fn given(&self) -> [(&'static str, bool); 7] {
        [
            ("--search", self.search.is_some()),
            ("--loss-ratios", self.loss_ratios.is_some()),
            ("--sizes", self.sizes.is_some()),
            ("--trial-seconds", self.trial_seconds.is_some()),
            ("--trials", self.trials.is_some()),
            ("--soak-seconds", self.soak_seconds.is_some()),
            ("--time-limit", self.time_limit.is_some()),
        ]
    }

    fn sizes(&self) -> Result<Vec<u16>, Usage> {
        let Some(text) = self.sizes.as_deref() else { return Ok(Vec::new()) };
        if text == "all" {
            return Ok(SIZES.to_vec());
        }
        let size = |word: &str| word.trim().parse::<u16>().ok().filter(|size| (64..=9216).contains(size));
        let sizes: Option<Vec<u16>> = text.split(',').map(size).collect();
        sizes.ok_or_else(|| Usage(format!("--sizes {text} is invalid; allowed: 64 to 9216 with commas, or all")))
    }

    /// Refuses options that none of the searches read.
    fn refuse_unread(&self, kinds: &[Kind]) -> Result<(), Usage> {
        let has = |kind: Kind| kinds.contains(&kind);
        let unread = [
            (self.loss_ratios.is_some() && !has(Kind::Mlr), "--loss-ratios", "mlr"),
            (self.trials.is_some() && !has(Kind::Mlr) && !has(Kind::Determinism), "--trials", "mlr and determinism"),
            (self.soak_seconds.is_some() && !has(Kind::Soak), "--soak-seconds", "soak"),
        ];
        match unread.iter().find(|(unread, ..)| *unread) {
            Some((_, option, of)) => Err(Usage(format!("{option} has an effect on --search {of} only"))),
            None => Ok(()),
        }
    }

    fn options(&self, pps: Option<f64>) -> anyhow::Result<SearchOptions> {
        let kinds = Kind::read(self.search.as_deref().unwrap_or_default()).map_err(usage)?;
        self.refuse_unread(&kinds)?;
        let default = SearchOptions::default();
        let limits = Limits { seconds: self.time_limit.unwrap_or(default.limits.seconds), ..default.limits };
        Ok(SearchOptions {
            kinds,
            loss_ratios: self.loss_ratios.clone().unwrap_or(default.loss_ratios),
            sizes: self.sizes()?,
            trial_seconds: self.trial_seconds.unwrap_or(default.trial_seconds),
            trials: self.trials.unwrap_or(default.trials),
            soak_seconds: self.soak_seconds.unwrap_or(default.soak_seconds),
            pps,
            limits,
        })
    }
}

/// Of a mobile user plane.
pub fn mobile(args: &BenchArgs, settings: &::bench::profiles::Settings, stop: &AtomicBool) -> anyhow::Result<()> {
    let make = |size: Option<u16>| {
        let mut settings = settings.clone();
        if let Some(size) = size {
            settings.set("sizes", &size.to_string())?;
        }
        Ok(UpfUnderTest { settings })
    };
    searched(args, |base, options, show| searching::search(&make, base, options, stop, show))
}

/// Of a broadband gateway.
pub fn broadband(args: &BenchArgs, settings: &::bench::bng::Settings, stop: &AtomicBool) -> anyhow::Result<()> {
    let make = |size: Option<u16>| {
        let mut settings = settings.clone();
        if let Some(size) = size {
            settings.set("size", &size.to_string())?;
        }
        Ok(BngUnderTest { settings })
    };
    searched(args, |base, options, show| searching::search(&make, base, options, stop, show))
}

/// Of a cable gateway.
pub fn cable(args: &BenchArgs, settings: CableSettings, stop: &AtomicBool) -> anyhow::Result<()> {
    searched(args, |base, options, show| searching::search_cable(&settings, base, options, stop, show))
}

fn searched(
    args: &BenchArgs,
    search: impl FnOnce(&Options, &SearchOptions, &mut dyn FnMut(&Progress)) -> Result<SearchReport, BenchError>,
) -> anyhow::Result<()> {
    let options = args.search.options(args.pps)?;
    let port: PortKind = args.port().parse().map_err(usage)?;
    let receive_work = args.receive_work();
    if port == PortKind::Memory && receive_work != ::bench::ReceiveWork::default() {
        return Err(Usage("--own-cpu and --share-cpu are about interfaces; add --port xdp".into()).into());
    }
    let base = Options { port, workers: args.workers(), receive_work, ..Options::default() };
    let mut line = Line::default();
    let report = search(&base, &options, &mut |progress| line.show(progress))?;
    line.end();
    print(args, &report, &searching::text(&report))
}

/// Time between two lines of progress.
const EVERY: Duration = Duration::from_secs(2);

/// Progress on standard error: one line that changes on a terminal, a line every two seconds elsewhere.
#[derive(Default)]
struct Line {
    shown: Option<Instant>,
    begun: Option<Instant>,
}

impl Line {
    fn show(&mut self, progress: &Progress) {
        let is_terminal = std::io::stderr().is_terminal();
        let every = if is_terminal { Duration::from_millis(200) } else { EVERY };
        let begun = *self.begun.get_or_insert_with(Instant::now);
        if self.shown.unwrap_or(begun).elapsed() < every {
            return;
        }
        self.shown = Some(Instant::now());
        let text = text(progress);
        let mut out = std::io::stderr().lock();
        // Whoever closed standard error has seen enough.
        let _ = if is_terminal {
            write!(out, "\r\x1b[K{text}").and_then(|()| out.flush())
        } else {
            writeln!(out, "{text}")
        };
    }

    fn end(&mut self) {
        if self.shown.is_some() && std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }
}

fn text(progress: &Progress) -> String {
    let Progress { phase, load, trials, trials_left, seconds, seconds_left } = progress;
    format!(
        "{phase}: trial {} at {:.3} Mpps; {seconds:.0} s, about {trials_left} more trials of this search, {seconds_left:.0} s",
        trials + 1,
        load / 1e6
    )
}
