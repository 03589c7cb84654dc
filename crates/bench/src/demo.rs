//! `weir demo`: a user plane at work over real interfaces, for people to watch.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use engine::StatsView;

use crate::bed::{Bed, Ready};
use crate::error::BenchError;
use crate::live::{Picture, Screen};
use crate::options::{Options, PortKind, ReceiveWork};
use crate::profiles::Settings;
use crate::report::Report;
use crate::run::blank;
use crate::sample::Sample;
use crate::socket::{Progress, Source};
use crate::under_test::UnderTest;
use crate::upf::UpfUnderTest;
use crate::window::{How, Rig, Window};

/// What the demonstration is to show.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// How long.
    pub seconds: f64,
    /// Subscribers.
    pub ues: u32,
    /// Packets a second; none: half of what this machine carries.
    pub pps: Option<f64>,
    /// Only this kind of port; none: the best there is.
    pub port: Option<PortKind>,
}

/// Slots of packet memory that two AF_XDP ports can register within the usual 8 MiB of locked memory.
const MODEST: u32 = 1792;
/// Best first.
const BY_SPEED: [PortKind; 4] = [PortKind::Xdp, PortKind::Ring, PortKind::Mmsg, PortKind::Plain];

/// Runs it, drawing on `out`; `terminal`: in place.
///
/// # Errors
/// What this machine cannot do, or [`BenchError::Interrupted`].
pub fn demo(
    options: &DemoOptions,
    out: &mut (dyn Write + Send),
    terminal: bool,
    stop: &AtomicBool,
) -> Result<Report, BenchError> {
    let settings = Settings { ues: options.ues, ..Settings::upf_embb() };
    let under = UpfUnderTest { settings };
    let mut screen = Screen::new(out, terminal);
    screen.say("building a network: two namespaces, a user plane, gNBs and servers …");
    let traffic = under.links()?;
    let mut bed = Bed::new(&traffic, 1, false, ReceiveWork::Senders)?;
    bed.be_ordinary();
    let (kind, mut ready) = best(&mut bed, &under, options.port, &mut screen)?;
    screen.say(&format!(
        "{} sessions in place after {:.2} s, over {}{}",
        crate::text::count(u64::from(options.ues)),
        ready.start.as_secs_f64(),
        kind.name(),
        if ready.port.is_empty() { String::new() } else { format!(" ({})", ready.port) }
    ));
    let progress = ready.rig.progress();
    ready.rig.load_from(Source::Generator)?;
    let pps = match options.pps {
        Some(pps) => pps,
        None => {
            screen.say("looking what this machine carries …");
            let probe = How { warm: Duration::from_millis(200), ..How::most(Duration::from_millis(600)) };
            let most = ready.rig.window(&probe, stop)?.traffic.mpps * 1e6;
            // Half of it leaves room for whatever else the machine does; round, for people.
            (most / 2.0 / 10_000.0).floor().max(1.0) * 10_000.0
        }
    };
    let how =
        How { warm: Duration::from_millis(300), pps: Some(pps), ..How::most(Duration::from_secs_f64(options.seconds)) };
    let head = format!(
        "weir: a 5G user plane for {} subscribers, {} flows, over {}",
        crate::text::count(u64::from(traffic.ues)),
        crate::text::count(traffic.flows()),
        kind.name()
    );
    let window = watch(&mut ready, &how, &head, &progress, &mut screen, stop)?;
    let mut report = blank(&under, &Options { port: kind, ..Options::default() });
    report.start_seconds = ready.start.as_secs_f64();
    report.bytes_per_subscriber = ready.session_bytes as f64 / f64::from(traffic.ues.max(1));
    report.rss_bytes = crate::host::rss_bytes();
    "generator".clone_into(&mut report.load.source);
    report.take(std::slice::from_ref(&window));
    report.close(Box::new(ready.rig).close()?);
    drop(bed);
    screen.summary(&report, pps);
    Ok(report)
}

/// Opens the best kind of port that opens.
fn best(
    bed: &mut Bed,
    under: &UpfUnderTest,
    only: Option<PortKind>,
    screen: &mut Screen<'_>,
) -> Result<(PortKind, Ready), BenchError> {
    let mut last = None;
    for kind in BY_SPEED.into_iter().filter(|kind| only.is_none_or(|only| only == *kind)) {
        // AF_XDP locks packet memory: less of it where little may be locked.
        for slots in [crate::socket::SLOTS, MODEST] {
            bed.set_slots(slots);
            match bed.gateways(under, kind, 1, 1) {
                Ok(ready) => return Ok((kind, ready)),
                Err(error) => {
                    if kind != PortKind::Xdp || slots == MODEST {
                        screen.say(&format!("{} is not supported on this host: {error}", kind.name()));
                    }
                    last = Some(error);
                }
            }
            if kind != PortKind::Xdp {
                break;
            }
        }
    }
    Err(last.unwrap_or_else(|| BenchError::Asked("a demonstration wants plain, mmsg, ring or xdp".into())))
}

/// Plays the one long window while its picture is drawn.
fn watch(
    ready: &mut Ready,
    how: &How,
    head: &str,
    progress: &Progress,
    screen: &mut Screen<'_>,
    stop: &AtomicBool,
) -> Result<Window, BenchError> {
    let views = ready.views.clone();
    let done = AtomicBool::new(false);
    let every = Duration::from_millis(if screen.in_place() { 500 } else { 2000 });
    let rig = &mut ready.rig;
    std::thread::scope(|scope| {
        let player = scope.spawn(|| {
            let window = rig.window(how, stop);
            done.store(true, Ordering::Relaxed);
            window
        });
        let begin = Instant::now() + how.warm;
        let mut last = look(&views);
        let mut next = begin + every;
        while !done.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            if Instant::now() < next {
                continue;
            }
            next += every;
            let now = look(&views);
            let mut delta = crate::sample::Delta::default();
            now.iter().zip(&last).for_each(|(now, last)| delta.add(&now.since(last)));
            last = now;
            let traffic = progress.lock().map_or_else(|e| *e.into_inner(), |t| *t);
            let elapsed = begin.elapsed().as_secs_f64().min(how.measure.as_secs_f64());
            if elapsed < how.measure.as_secs_f64() {
                screen.draw(&Picture { head, elapsed, seconds: how.measure.as_secs_f64(), traffic, delta });
            }
        }
        player.join().map_err(|_| BenchError::Died("trial"))?
    })
}

fn look(views: &[StatsView]) -> Vec<Sample> {
    views.iter().map(Sample::take).collect()
}
