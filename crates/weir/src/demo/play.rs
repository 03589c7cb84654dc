//! A demonstration from beginning to end.

use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::bench::PortKind;
use ::bench::kernel_load::{KernelLoad, Looked};
use anyhow::{Context, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;
use traffic::TrialResult;

use super::DemoArgs;
use super::losses::{Lost, USER_PLANE, since};
use super::network::{GNB_FIRST, GNBS, N4, Network, SMF};
use super::picture::{Charged, Picture, Screen, Story};
use super::processes::Process;
use gateway::snapshot::Snapshot;
use gateway::socket::{Ask, Client, ClientError, PortView, Reply, Request};
use gateway::tables::{count, duration};
use upf::product::protocol::{self, PeersView};

/// Best first; AF_XDP locks packet memory, so less of it where little may be locked.
const DOORS: [(PortKind, Option<u32>); 5] = [
    (PortKind::Xdp, None),
    (PortKind::Xdp, Some(1792)),
    (PortKind::Ring, None),
    (PortKind::Mmsg, None),
    (PortKind::Plain, None),
];
/// Sessions asked for in a second, if the machine can.
const RATE: u32 = 20_000;
const PATIENCE: Duration = Duration::from_secs(120);
/// How much of what it can carry the user plane is given.
const OF_MOST: f64 = 0.6;
/// A sleeping worker reads the kernel's counters of lost packets once a second.
pub(super) const COUNTED: Duration = Duration::from_millis(1100);

/// Plays it.
///
/// # Errors
/// What this machine cannot do, or which process did not do its part.
pub fn play(args: &DemoArgs, only: Option<PortKind>, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut screen = Screen::new(std::io::stdout().is_terminal());
    screen.say("building a network: two namespaces, links for N3, N4 and N6 …");
    let network = Network::new()?;
    let (kind, gateway) = user_plane(&network, args, only, &mut screen)?;
    let mut gauge = Gauge::connect(&network.socket(), stop)?;

    let control = control_plane(&network, args, &mut gauge, &mut screen)?;
    let load = Load::for_ports(kind, &network, &mut screen);
    let pps = match args.pps {
        Some(pps) => pps,
        None => {
            screen.say("looking what this machine carries …");
            let most = load.run(&network, None, 0.6, stop, &mut |_| {})?.0.mpps * 1e6;
            // The rest leaves room for whatever else the machine does; round, for people.
            (most * OF_MOST / 10_000.0).floor().max(1.0) * 10_000.0
        }
    };
    let head = format!(
        "weir: a 5G user plane for {} subscribers over {}; its control plane, gNBs and servers beside it",
        count(args.ues.into()),
        kind.name()
    );
    pause(COUNTED, stop);
    let first = gauge.counters()?;
    let (rings, links) = (gauge.ports()?, network.link_drops());
    let mut before = first.clone();
    let (result, looked) = load.run(&network, Some(pps), args.seconds, stop, &mut |traffic| {
        let Some((now, peers)) = gauge.glance() else { return };
        let counters = now.since(&before);
        before = now;
        let (elapsed, seconds) = (traffic.seconds, args.seconds);
        screen.draw(&Picture { head: &head, elapsed, seconds, traffic, counters: &counters, peers: &peers });
    })?;
    pause(COUNTED, stop);
    let carried = gauge.counters()?.since(&first);
    let rings = since(&gauge.ports()?, &rings);
    let lost = Lost::of(&result, &carried, &rings, network.link_drops().since(&links), &USER_PLANE);

    if args.keep {
        keep(&network, &mut screen, stop);
    }
    screen.say("deleting the sessions, collecting what they used …");
    let charged = charged(control)?;
    let sessions = gauge.peers()?.sessions;
    drop(gauge);
    gateway.interrupt();
    let said = ended(gateway)?;
    let in_order = is_complete(&said);
    screen.summary(&Story {
        ues: args.ues,
        port: kind.name(),
        pps,
        traffic: &result,
        looked: looked.as_ref(),
        carried: &carried,
        lost: &lost,
        charged: &charged,
        left: sessions,
        in_order,
    });
    // Which is how what was kept ends.
    if stop.load(Ordering::Relaxed) && !args.keep {
        bail!("interrupted");
    }
    Ok(())
}

/// Whether a gateway that has ended says that no packet is missing.
pub(super) fn is_complete(said: &Value) -> bool {
    let workers = said.get("workers").and_then(Value::as_array);
    workers.is_some_and(|all| all.iter().all(|worker| worker.get("missing").and_then(Value::as_i64) == Some(0)))
}

/// Leaves everything up until Ctrl-C.
fn keep(network: &Network, screen: &mut Screen, stop: &AtomicBool) {
    screen.say("gateway, control plane and sessions stay up until Ctrl-C; try in another terminal:");
    commands(&network.socket()).iter().for_each(|command| screen.say(command));
    while !stop.load(Ordering::Relaxed) {
        pause(Duration::from_secs(1), stop);
    }
}

/// Commands to try beside a gateway with that control socket.
fn commands(socket: &std::path::Path) -> [String; 3] {
    ["show sessions --top bytes --limit 10", "show run", "show peers"]
        .map(|command| format!("  sudo weir {command} --socket {}", socket.display()))
}

/// Starts the user plane with the best ports that open.
fn user_plane(
    network: &Network,
    args: &DemoArgs,
    only: Option<PortKind>,
    screen: &mut Screen,
) -> anyhow::Result<(PortKind, Process)> {
    let doors = DOORS.into_iter().filter(|(kind, _)| only.is_none_or(|only| only == *kind));
    let sessions = args.ues.saturating_add(1000);
    let configuration = |kind, slots| network.configuration(kind, slots, sessions);
    gateway((network.gateway(), network.folder()), ("upf", "user plane"), doors, &configuration, screen)
}

/// Starts a gateway of a kind, in a namespace, with the first ports that open; its files are in a folder.
pub(super) fn gateway(
    (namespace, folder): (&str, &Path),
    (kind_of_gateway, name): (&str, &str),
    doors: impl Iterator<Item = (PortKind, Option<u32>)>,
    configuration: &dyn Fn(PortKind, Option<u32>) -> String,
    screen: &mut Screen,
) -> anyhow::Result<(PortKind, Process)> {
    let mut last = None;
    for (kind, slots) in doors {
        let file = folder.join(format!("{kind_of_gateway}.toml"));
        std::fs::write(&file, configuration(kind, slots))?;
        let words = ["run".to_owned(), file.display().to_string(), "--json".to_owned()];
        let mut process = Process::start("run", namespace, &words, folder.join("run.err"))?;
        let until = Instant::now() + PATIENCE;
        while !process.said().contains("ready after") && !process.has_ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        if process.said().contains("ready after") && !process.has_ended() {
            screen.say(&format!("{:<15}weir run, over {}", format!("{name}:"), kind.name()));
            return Ok((kind, process));
        }
        if !process.has_ended() {
            bail!("the {name} is not ready after {} s", PATIENCE.as_secs());
        }
        if kind != PortKind::Xdp || slots.is_some() {
            screen.say(&format!("{} is not supported on this host", kind.name()));
        }
        last = Some(process.complaint());
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("a demonstration wants plain, mmsg, ring or xdp")))
}

/// Starts the control plane; returns once its sessions are up.
fn control_plane(
    network: &Network,
    args: &DemoArgs,
    gauge: &mut Gauge<'_>,
    screen: &mut Screen,
) -> anyhow::Result<Process> {
    let words = format!(
        "cp --upf {N4} --address {SMF} --sessions {} --rate {RATE} --gnbs {GNBS} --gnb-first {GNB_FIRST} --ue-first 10.60.0.1 \
         --mbr-up 1Gbit/s --mbr-down 1Gbit/s --queries 100 --rating-group 10 --json --sessions-out {} --ledger {}",
        args.ues,
        network.file("sessions.jsonl").display(),
        network.file("cdr").display(),
    );
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let began = Instant::now();
    let mut process = Process::start("cp", network.load(), &words, network.file("cp.err"))?;
    while !process.said().contains("sessions up after") {
        if process.has_ended() || began.elapsed() > PATIENCE {
            return Err(process.complaint());
        }
        if gauge.stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        screen.pass(&format!("control plane: {} sessions up", count(gauge.peers()?.sessions)));
        std::thread::sleep(Duration::from_millis(100));
    }
    screen.say(&format!(
        "control plane: weir cp, {} sessions up by PFCP after {}",
        count(args.ues.into()),
        duration(began.elapsed().as_secs_f64())
    ));
    Ok(process)
}

/// Waits, unless told to stop.
pub(super) fn pause(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Where the traffic comes from.
enum Load {
    /// The kernel: needs less CPU time than a process.
    Kernel(Box<KernelLoad>),
    /// `weir gen`, a process.
    Process,
}

impl Load {
    /// What suits the user plane's ports and this kernel.
    fn for_ports(kind: PortKind, network: &Network, screen: &mut Screen) -> Self {
        let made = (kind == PortKind::Xdp).then(|| network.kernel_load(&network.file("sessions.jsonl")));
        let (load, words) = match made {
            Some(Ok(load)) => {
                let words =
                    format!("the kernel, live frames of {} sessions; XDP at the far ends", count(load.users().into()));
                (Self::Kernel(Box::new(load)), words)
            }
            Some(Err(error)) => (Self::Process, format!("weir gen ({error})")),
            None => (Self::Process, "weir gen".to_owned()),
        };
        screen.say(&format!("traffic:       {words}"));
        load
    }

    /// Sends traffic through the sessions, and shows how it goes.
    fn run(
        &self,
        network: &Network,
        pps: Option<f64>,
        seconds: f64,
        stop: &AtomicBool,
        show: &mut dyn FnMut(&TrialResult),
    ) -> anyhow::Result<(TrialResult, Option<Looked>)> {
        match self {
            Self::Kernel(load) => {
                let (result, looked) = load.run(Duration::from_secs_f64(seconds), pps, stop, show)?;
                Ok((result, Some(looked)))
            }
            Self::Process => {
                let mut words = vec!["gen".to_owned()];
                words.extend(network.traffic(&network.file("sessions.jsonl")));
                words.extend(["--json", "--each-second", "--seconds"].map(str::to_owned));
                words.push(seconds.to_string());
                words.extend(pps.iter().flat_map(|pps| ["--pps".to_owned(), pps.to_string()]));
                Ok((generate(network.load(), &words, network.folder(), stop, show)?, None))
            }
        }
    }
}

/// Traffic by `weir gen`, told by `words` and in a namespace; `show` gets its result of each second.
pub(super) fn generate<T: DeserializeOwned + Send + 'static>(
    namespace: &str,
    words: &[String],
    folder: &Path,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&T),
) -> anyhow::Result<T> {
    let mut process = Process::start("gen", namespace, words, folder.join("gen.err"))?;
    let lines = BufReader::new(process.output().context("no output")?).lines();
    let news: Arc<Mutex<Vec<T>>> = Arc::default();
    let reader = std::thread::spawn({
        let news = news.clone();
        move || {
            let results = lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok());
            results.for_each(|result| news.lock().unwrap_or_else(|e| e.into_inner()).push(result));
        }
    });
    let take = || std::mem::take(&mut *news.lock().unwrap_or_else(|e| e.into_inner()));
    let (mut last, mut interrupted) = (None, false);
    while !process.has_ended() {
        if stop.load(Ordering::Relaxed) && !interrupted {
            interrupted = true;
            process.interrupt();
        }
        if let Some(result) = take().pop() {
            show(&result);
            last = Some(result);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    process.end(PATIENCE)?;
    let _ = reader.join();
    take().pop().or(last).context("weir gen has told nothing")
}

/// The user plane, as its control socket shows it. A machine that is busy is waited for.
pub(super) struct Gauge<'a> {
    client: Client,
    stop: &'a AtomicBool,
}

impl<'a> Gauge<'a> {
    pub(super) fn connect(path: &std::path::Path, stop: &'a AtomicBool) -> anyhow::Result<Self> {
        Ok(Self { client: Client::connect(path)?, stop })
    }

    pub(super) fn ask<Q: Ask>(&mut self, request: &Q) -> anyhow::Result<Q::Answer> {
        let (until, stop) = (Instant::now() + PATIENCE, self.stop);
        let wait_on = |why: &ClientError| {
            eprintln!("weir demo: {why}; waiting on");
            Instant::now() < until && !stop.load(Ordering::Relaxed)
        };
        Ok(self.client.ask_while(request, wait_on)?)
    }

    pub(super) fn counters(&mut self) -> anyhow::Result<Snapshot> {
        match self.ask(&Request::Counters)? {
            Reply::Counters(snapshot) => Ok(snapshot),
            other => bail!("that is no answer: {other:?}"),
        }
    }

    pub(super) fn ports(&mut self) -> anyhow::Result<Vec<PortView>> {
        match self.ask(&Request::Ports)? {
            Reply::Ports(ports) => Ok(ports),
            other => bail!("that is no answer: {other:?}"),
        }
    }

    fn peers(&mut self) -> anyhow::Result<PeersView> {
        match self.ask(&protocol::Request::Peers)? {
            protocol::Reply::Peers(view) => Ok(view),
            other => bail!("that is no answer: {other:?}"),
        }
    }

    /// The counters of a moment; nothing, where no answer comes in time.
    pub(super) fn look(&mut self) -> Option<Snapshot> {
        match self.client.ask(&Request::Counters) {
            Ok(Reply::Counters(counters)) => Some(counters),
            _ => None,
        }
    }

    /// What the picture of the next moment shows; nothing, where no answer comes in time.
    fn glance(&mut self) -> Option<(Snapshot, PeersView)> {
        let counters = self.look()?;
        let Ok(protocol::Reply::Peers(peers)) = self.client.ask(&protocol::Request::Peers) else { return None };
        Some((counters, peers))
    }
}

/// Has the control plane delete its sessions; what it was told they used.
fn charged(control: Process) -> anyhow::Result<Charged> {
    control.interrupt();
    let story = ended(control)?;
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    Ok(Charged {
        reports: number(&story["usage"]["reports"]),
        records: number(&story["records"]),
        packets: number(&story["usage"]["up_packets"]) + number(&story["usage"]["down_packets"]),
        bytes: number(&story["usage"]["up_bytes"]) + number(&story["usage"]["down_bytes"]),
        p99_ms: story["response_ms"]["establishment"]["p99"].as_f64().unwrap_or(0.0),
        rate: story["established_per_second"].as_f64().unwrap_or(0.0),
    })
}

/// Waits for a process that was asked to end, and reads the object it prints.
pub(super) fn ended(mut process: Process) -> anyhow::Result<Value> {
    let mut said = String::new();
    process.output().context("no output")?.read_to_string(&mut said)?;
    process.end(PATIENCE)?;
    serde_json::from_str(&said).context("a summary that is none")
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    #[test]
    fn commands_to_try_are_commands() {
        for command in commands(std::path::Path::new("/tmp/weir.sock")) {
            let words: Vec<&str> = command.split_whitespace().skip(1).collect();
            let matches = crate::cli::Cli::of_all().try_get_matches_from(&words).expect(&command);
            assert!(crate::cli::Cli::from_arg_matches(&matches).is_ok(), "{command}");
        }
    }
}
