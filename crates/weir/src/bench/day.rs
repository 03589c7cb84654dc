//! `weir bench day`: a broadband gateway's CPU time over a day of load, with groups where they are and with `[park]`, which
//! moves them together while there is little to do.
//!
//! Two gateways of the same kind, each in namespaces of its own, have the same load in turns: an hour of the day each, in a
//! few seconds. Subscribers are `weir gen broadband`'s.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::bench::PortKind;
use ::bench::experiment::Progress;
use ::bench::host::CpuTime;
use ::bench::lab::{Lab, Shape, Side};
use ::bench::noise::{Gathered, Noise, ThreadNoise};
use ::bench::power::Meter;
use ::bench::real::{Ratio, Threads};
use anyhow::{Context, bail};
use engine::Io;
use gateway::fail::Usage;
use gateway::socket::{Client, Reply, Request};
use gateway::tables::{Style, Table, count};
use schemars::JsonSchema;
use serde::Serialize;
use traffic::Profile;

use super::{BenchArgs, experiments, print};
use crate::demo::network::uri;
use crate::demo::processes::Process;
use crate::generate::BroadbandResult;

/// Load by the hour, as a part of the busiest one's: an access network's evening peak. An assumption.
const DAY: [f64; 24] = [
    0.45, 0.35, 0.25, 0.20, 0.18, 0.20, 0.28, 0.38, 0.45, 0.50, 0.54, 0.58, 0.60, 0.60, 0.62, 0.66, 0.72, 0.80, 0.88,
    0.95, 1.00, 0.98, 0.85, 0.65,
];
/// Hours of a short run: the least load, noon, the most.
const QUICK: [usize; 3] = [4, 12, 20];
const GROUPS: u32 = 4;
/// Lines of a group, each with a subscriber.
const LINES: u32 = 100;
/// Before each window: groups move after two seconds of little load.
const SETTLE: Duration = Duration::from_secs(5);
/// Packets a second in the busiest hour.
const PEAK_PPS: f64 = 40_000.0;
/// Load goes on for so long after the window: it is seen a second late.
const MARGIN: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(30);

/// A day.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DayReport {
    /// Kind of the gateway's ports.
    pub port: &'static str,
    /// Workers of each gateway.
    pub workers: u16,
    /// Subscribers of each gateway, in four groups.
    pub subscribers: u32,
    /// Packets a second in the busiest hour.
    pub peak_pps: f64,
    /// Hour by hour.
    pub hours: Vec<Hour>,
    /// CPU time with `[park]` by that without, of pairs of windows.
    pub cpu_ratio: Option<Ratio>,
    /// CPU hours of the whole day, without `[park]` and with; none: a short run.
    pub cpu_hours: Option<[f64; 2]>,
    /// Power with `[park]` by that without, of the pairs; none: processors have no meters here.
    pub power_ratio: Option<Ratio>,
    /// Why power is not available; empty: it is.
    pub power_not_available: String,
    /// What else the machine did.
    pub noise: Noise,
}

/// An hour of the day.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Hour {
    /// From 0.
    pub hour: u8,
    /// Part of the busiest hour's load.
    pub load_ratio: f64,
    /// Packets offered a second, both directions.
    pub offered_pps: f64,
    /// Groups stay on all workers.
    pub spread: Arm,
    /// Groups move together by `[park]`.
    pub parked: Arm,
}

/// A gateway in a window.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Arm {
    /// CPU time of all its threads, in percent of one CPU.
    pub cpu_percent: f64,
    /// The same by packets, nanoseconds.
    pub cpu_ns_per_packet: f64,
    /// Workers that received more than one in a hundred packets.
    pub active_workers: u16,
    /// Times a second that its threads gave up their CPU: how often they woke.
    pub wakeups_per_second: f64,
    /// Packets lost of those sent, also before the window, while groups moved.
    pub loss_ratio: f64,
    /// 99 % of packets were not slower, also before the window, microseconds.
    pub p99_us: f64,
    /// Watts of all processors; none: no meters.
    pub watts: Option<f64>,
}

/// A gateway in namespaces of its own.
struct Plant {
    lab: Lab,
    folder: PathBuf,
    process: Option<Process>,
    client: Client,
}

impl Plant {
    fn new(name: &str, kind: PortKind, workers: u16, park: &str) -> anyhow::Result<Self> {
        let lab = Lab::new(Shape { mtu: 1600, queues: 1 })?;
        let known = Profile::default();
        lab.links(0, [known.access.gateway, known.core.gateway])?;
        let folder = std::env::temp_dir().join(format!("weir-day-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let file = folder.join("bng.toml");
        let socket = folder.join("weir.sock");
        std::fs::write(&file, configuration(&socket, kind, workers, park))?;
        let words = ["run".to_owned(), file.display().to_string()];
        let mut process = Process::start("run", lab.gateway(), &words, folder.join("run.err"))?;
        let until = Instant::now() + PATIENCE;
        while !process.said().contains("ready after") {
            if process.has_ended() || Instant::now() > until {
                return Err(process.complaint());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let client = Client::connect(&socket)?;
        Ok(Self { lab, folder, process: Some(process), client })
    }

    /// Packets received so far, by worker.
    fn received(&mut self) -> anyhow::Result<Vec<u64>> {
        match self.client.ask(&Request::Counters)? {
            Reply::Counters(snapshot) => Ok(snapshot.workers.iter().map(|worker| worker.io(Io::RxPackets)).collect()),
            other => bail!("that is no reply about counters: {other:?}"),
        }
    }

    /// A window under load.
    fn window(&mut self, pps: f64, time: Duration, stop: &AtomicBool, noise: &mut Gathered) -> anyhow::Result<Arm> {
        let pid = self.process.as_ref().map_or(0, Process::id);
        let mut load = Load::start(&self.lab, &self.folder, pps, SETTLE + time + MARGIN)?;
        load.wait_for_traffic(stop)?;
        pause(SETTLE, stop)?;
        let meter = Meter::new().ok();
        let energy = meter.as_ref().and_then(Meter::read);
        let machine = CpuTime::now();
        let (packets, before, begin) = (self.received()?, Threads::now(&[pid]), Instant::now());
        pause(time, stop)?;
        let (now, after, seconds) = (self.received()?, Threads::now(&[pid]), begin.elapsed().as_secs_f64());
        let watts = meter.zip(energy).and_then(|(meter, earlier)| meter.watts(&earlier));
        let result = load.end()?;
        let each: Vec<u64> = now.iter().zip(&packets).map(|(now, then)| now.saturating_sub(*then)).collect();
        let all: u64 = each.iter().sum();
        let cpu = after.since(&before);
        let ran = cpu.run_ns as f64;
        let waited = ThreadNoise { waited_ns: cpu.wait_ns, ..ThreadNoise::default() };
        noise.add(CpuTime::now().since(&machine).0, seconds, &[waited], None);
        Ok(Arm {
            cpu_percent: ran / seconds / 1e7,
            cpu_ns_per_packet: ran / all.max(1) as f64,
            active_workers: each.iter().filter(|packets| **packets * 100 > all).count() as u16, // as many as workers
            wakeups_per_second: cpu.wakeups as f64 / seconds,
            loss_ratio: result.loss_ratio,
            p99_us: result.uplink.latency_us_p99.max(result.downlink.latency_us_p99),
            watts,
        })
    }
}

impl Drop for Plant {
    fn drop(&mut self) {
        // Before its namespaces go.
        drop(self.process.take());
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn configuration(socket: &std::path::Path, kind: PortKind, workers: u16, park: &str) -> String {
    let port = |side: Side, group: u32, look: &str| {
        let uri = uri(kind, &side.gateway(0));
        let mark = if uri.contains('?') { '&' } else { '?' };
        format!("{uri}{mark}promisc=on&fanout=subscriber&group={group}&member={{worker}}/{{workers}}&steer={look}")
    };
    let groups: String = (0..GROUPS)
        .map(|n| {
            format!(
                r#"
[[group]]
name = "pon{n}"
ports = ["olt"]
s_vlans = {}
c_vlans = "1-{LINES}"
ipv4 = ["100.{}.0.0/16"]
gateways = ["100.{}.0.1"]
mac = "02:00:5e:00:01:0{n}"
worker = {}
profile = "home"
sessions = {{ lease_seconds = 3600 }}
"#,
                100 + n,
                64 + n,
                64 + n,
                n % u32::from(workers),
            )
        })
        .collect();
    format!(
        r#"gateway = "bng"
control_socket = {socket:?}
workers = {{ count = {workers} }}
frames = {{ packet_buffers = 32768 }}
port = [
  {{ name = "olt", uri = "{}", role = "access" }},
  {{ name = "core", uri = "{}", role = "core", addresses = ["198.18.0.1/15"] }},
]
profile = [{{ name = "home", up = "100 Mbit/s", down = "250 Mbit/s" }}]
{park}
{groups}"#,
        port(Side::N3, 3, "source"),
        port(Side::N6, 6, "destination"),
    )
}

/// `weir gen broadband`, a process.
struct Load {
    process: Process,
    reader: std::thread::JoinHandle<()>,
    last: Arc<Mutex<BroadbandResult>>,
}

impl Load {
    fn start(lab: &Lab, folder: &std::path::Path, pps: f64, time: Duration) -> anyhow::Result<Self> {
        let port = |side: Side| uri(PortKind::Ring, &side.load(0));
        let words = format!(
            "gen broadband --access {}&promisc=on --core {}&promisc=on --subscribers {} --c-vlan 1 --c-vlans {LINES} \
             --server 198.18.1.1 --servers 16 --size 512 --pps {pps} --seconds {} --each-second --json",
            port(Side::N3),
            port(Side::N6),
            GROUPS * LINES,
            time.as_secs_f64(),
        );
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let mut process = Process::start("gen", lab.load(), &words, folder.join("gen.err"))?;
        let lines = BufReader::new(process.output().context("no output")?).lines();
        let last = Arc::new(Mutex::new(BroadbandResult::default()));
        let reader = std::thread::spawn({
            let last = last.clone();
            move || {
                for result in lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()) {
                    *last.lock().unwrap_or_else(|e| e.into_inner()) = result;
                }
            }
        });
        Ok(Self { process, reader, last })
    }

    fn wait_for_traffic(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.last.lock().unwrap_or_else(|e| e.into_inner()).seconds == 0.0 {
            if self.process.has_ended() || Instant::now() > until {
                return Err(self.process.complaint());
            }
            pause(Duration::from_millis(20), stop)?;
        }
        Ok(())
    }

    fn end(self) -> anyhow::Result<BroadbandResult> {
        self.process.end(PATIENCE)?;
        let _ = self.reader.join();
        let result = self.last.lock().unwrap_or_else(|e| e.into_inner()).clone();
        Ok(result)
    }
}

/// Waits, unless interrupted.
fn pause(time: Duration, stop: &AtomicBool) -> anyhow::Result<()> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        std::thread::sleep(Duration::from_millis(10).min(until.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

/// Runs it.
///
/// # Errors
/// What cannot be measured here.
pub fn run(args: &BenchArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    let kind: PortKind = args.port.as_deref().unwrap_or("ring").parse().map_err(super::usage)?;
    if !matches!(kind, PortKind::Ring | PortKind::Mmsg | PortKind::Plain) {
        let what = "ports that follow groups are AF_PACKET's; allowed: ring, mmsg, plain";
        return Err(Usage(format!("--port {}: {what}", kind.name())).into());
    }
    let workers = args.workers.unwrap_or(2);
    if workers < 2 {
        return Err(Usage("--workers 1: nothing to park; allowed: 2 or more".to_owned()).into());
    }
    let time = Duration::from_secs_f64(args.seconds.unwrap_or(5.0));
    let peak_pps = args.pps.unwrap_or(PEAK_PPS);
    let mut plants = [
        Plant::new("spread", kind, workers, "")?,
        Plant::new("parked", kind, workers, "park = { below = 0.4, above = 0.7, seconds = 2 }")?,
    ];
    let mut noise = Gathered::default();
    let mut hours = Vec::new();
    let all: Vec<usize> = if args.quick { QUICK.to_vec() } else { (0..DAY.len()).collect() };
    for (n, hour) in all.iter().copied().enumerate() {
        let load_ratio = DAY[hour];
        let offered_pps = load_ratio * peak_pps;
        let left = (all.len() - n) as f64 * 2.0 * (SETTLE + time + MARGIN + Duration::from_millis(1500)).as_secs_f64();
        experiments::show(&Progress {
            what: format!("{} packets/s", count(offered_pps as u64)),
            done: (n, all.len()),
            left: Duration::from_secs_f64(left),
        });
        // The first of a pair is not always the same.
        let order = if n % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut arms = [Arm::default(), Arm::default()];
        for of in order {
            arms[of] = plants[of].window(offered_pps, time, stop, &mut noise)?;
        }
        let [spread, parked] = arms;
        hours.push(Hour { hour: hour as u8, load_ratio, offered_pps, spread, parked });
    }
    experiments::clear();
    let pairs =
        |of: fn(&Arm) -> Option<f64>| Ratio::of(hours.iter().filter_map(|hour| of(&hour.parked).zip(of(&hour.spread))));
    let total = |of: fn(&Hour) -> &Arm| hours.iter().map(|hour| of(hour).cpu_percent / 100.0).sum::<f64>();
    let report = DayReport {
        port: kind.name(),
        workers,
        subscribers: GROUPS * LINES,
        peak_pps,
        cpu_ratio: pairs(|arm| Some(arm.cpu_percent)),
        cpu_hours: (!args.quick).then(|| [total(|hour| &hour.spread), total(|hour| &hour.parked)]),
        power_ratio: pairs(|arm| arm.watts),
        power_not_available: Meter::new().err().unwrap_or_default(),
        noise: noise.noise(),
        hours,
    };
    print(args, &report, &text(&report))
}

fn text(report: &DayReport) -> String {
    let style = Style::of_stdout();
    let mut table = Table::new(&[
        ">hour",
        ">packets/s",
        ">CPU, spread",
        ">[park]",
        ">ns a packet",
        ">[park]",
        ">wake-ups/s",
        ">[park]",
        ">workers",
        ">[park]",
        ">p99",
        ">[park]",
        ">lost",
    ]);
    for hour in &report.hours {
        let (a, b) = (&hour.spread, &hour.parked);
        let mut cells = vec![hour.hour.to_string(), count(hour.offered_pps as u64)];
        cells.extend([a, b].map(|arm| format!("{:.1} %", arm.cpu_percent)));
        cells.extend([a, b].map(|arm| format!("{:.0}", arm.cpu_ns_per_packet)));
        cells.extend([a, b].map(|arm| count(arm.wakeups_per_second as u64)));
        cells.extend([a, b].map(|arm| arm.active_workers.to_string()));
        cells.extend([a, b].map(|arm| format!("{:.0} µs", arm.p99_us)));
        cells.push(format!("{:.4} %", a.loss_ratio.max(b.loss_ratio) * 100.0));
        table.row(cells);
    }
    let ratio = |ratio: &Option<Ratio>| match ratio {
        Some(Ratio { mean, ci95: Some([low, high]) }) => format!("{mean:.3} [{low:.3}, {high:.3}]"),
        Some(Ratio { mean, .. }) => format!("{mean:.3}"),
        None => "–".to_owned(),
    };
    let power = match &report.power_ratio {
        Some(_) => format!("power with [park] by that without: {}", ratio(&report.power_ratio)),
        None => format!("power: not available: {}", report.power_not_available),
    };
    let day = report.cpu_hours.map_or(String::new(), |[spread, parked]| {
        format!("CPU hours of a day: {spread:.2} spread, {parked:.2} with [park]\n")
    });
    format!(
        "{} subscribers in {GROUPS} groups on {} workers over {}, a day in {} windows each\n\n{}\n{day}CPU time with [park] by that \
         without: {}\n{power}\n{}\n",
        count(report.subscribers.into()),
        report.workers,
        report.port,
        report.hours.len(),
        table.render(style),
        ratio(&report.cpu_ratio),
        report.noise.text()
    )
}
