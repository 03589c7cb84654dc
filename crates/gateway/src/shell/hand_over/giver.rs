//! The process that hands over. A thread of the control socket sends state while workers and control run; the control thread
//! does what they have to stand still for.

use std::io::{self, ErrorKind, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use frame::PortHandover;
use serde_json::json;

use super::super::observe::Shell;
use super::super::process::Process;
use super::super::product::Product;
use super::wire::{Kind, Link, PART};
use super::{FrozenNote, HandOver, Hello, HelperNote, Neighbour, PortNote, Question, VERSION, shares_memory};
use crate::privilege;
use crate::snapshot::Snapshot;
use crate::socket::RawRequest;

/// How long the new process may take to build all sessions.
const BUILDING: Duration = Duration::from_secs(300);
/// How long it may take for what control has, and for what changed last.
const ARMING: Duration = Duration::from_secs(10);
/// How long it may take while the workers stand still: to read what is left, and then to say that it has it.
const LOADING: Duration = Duration::from_secs(3);
/// Sessions left that are few enough for workers to stand still, and rounds after which they do anyway.
const FEW: usize = 256;
const ROUNDS: usize = 20;
/// Exports of a round, however much changes meanwhile: the workers stand still for the rest.
const EXPORTS: usize = 64;
/// Octets of a batch, about.
const BATCH: usize = 256 << 10;
/// Control, which stands still, listens to workers as often.
const LISTENING: Duration = Duration::from_millis(5);
/// Rounds in which control has to come to rest.
const SETTLING: usize = 2000;
const PAUSE: Duration = Duration::from_micros(100);
/// A round in which so little has changed that the workers can be stopped.
const SHORT: Duration = Duration::from_millis(2);

/// A process that waits for the workers to stand still.
#[derive(Debug, Default)]
pub struct Pending {
    waiting: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    /// Nobody takes over.
    #[default]
    Idle,
    /// State is on its way to a process of that number.
    Busy,
    /// All of it is there: control is to do the rest.
    Waiting(Link, i32),
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether nobody did before.
    fn begin(&self) -> bool {
        let mut state = self.lock();
        let is_idle = matches!(*state, State::Idle);
        if is_idle {
            *state = State::Busy;
        }
        is_idle
    }

    fn end(&self) {
        *self.lock() = State::Idle;
    }

    fn take(&self) -> Option<(Link, i32)> {
        let mut state = self.lock();
        match std::mem::take(&mut *state) {
            State::Waiting(link, pid) => {
                *state = State::Busy;
                Some((link, pid))
            }
            other => {
                *state = other;
                None
            }
        }
    }
}

/// Sockets that a process listens at; they go to the new one.
#[derive(Debug, Default)]
pub struct Listeners {
    /// The control socket.
    pub control: Option<UnixListener>,
    /// Listener of `[metrics]`, if it is configured.
    pub metrics: Option<TcpListener>,
    /// Listener of `[health]`, if it is configured.
    pub health: Option<TcpListener>,
    /// Listener of `[api]`, if it is configured.
    pub api: Option<TcpListener>,
}

impl Listeners {
    fn named(&self) -> Vec<(&'static str, BorrowedFd<'_>)> {
        let control = self.control.as_ref().map(|socket| ("control", socket.as_fd()));
        let metrics = self.metrics.as_ref().map(|socket| ("metrics", socket.as_fd()));
        control
            .into_iter()
            .chain(metrics)
            .chain(self.health.as_ref().map(|socket| ("health", socket.as_fd())))
            .chain(self.api.as_ref().map(|socket| ("api", socket.as_fd())))
            .collect()
    }
}

/// The parts of the time in which no worker ran, one after the other, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standstill {
    /// Until the workers stood still.
    pub stop: u64,
    /// Until what they had for each other and for control was seen to.
    pub settle: u64,
    /// Until what was left of their state was put together, and sent.
    pub export: u64,
    /// Until the new process had taken it in.
    pub load: u64,
    /// Until its workers ran.
    pub run: u64,
    /// Before all that, while workers ran: control stood still.
    pub control: u64,
    /// Of `load`, and of that, what the new process worked and was on a CPU for: the rest is waiting.
    pub import: [u64; 2],
}

/// Another process goes on.
#[derive(Debug)]
pub struct Handed {
    /// Process number of the new process.
    pub pid: i32,
    /// Nanoseconds in which no worker ran.
    pub frozen_ns: u64,
    /// What it was spent on.
    pub parts: Standstill,
    /// The last counters of this one.
    pub last: Snapshot,
}

/// Serves a process that asks to take over, until control can do the rest or something fails. `asked` is its question; it is
/// answered on the stream.
pub fn serve<P: Product>(product: &P, mut stream: UnixStream, asked: &RawRequest) {
    let shell = product.shell();
    let begun = admit(product, &stream, asked);
    let answer = match &begun {
        Ok(_) => json!({ "take_over": { "version": VERSION } }),
        Err(why) => {
            tracing::warn!(target: "process", event = "take_over_refused", "{why}");
            json!({ "error": why })
        }
    };
    let is_said = stream.write_all(format!("{answer}\n").as_bytes()).is_ok();
    let Ok(begun) = begun else { return };
    let pid = begun.pid;
    tracing::info!(
        target: "process", event = "take_over_begin", pid,
        "process {pid} takes over; packets are forwarded meanwhile"
    );
    let sent = match is_said {
        true => send_all(product, begun, Link::new(stream)),
        false => Err("the new process ended".to_owned()),
    };
    match sent {
        Ok(link) => {
            *shell.handing().lock() = State::Waiting(link, pid);
            shell.call_control();
        }
        Err(why) => {
            if let Some(state) = product.hand_over() {
                state.end();
            }
            shell.handing().end();
            failed(&why);
        }
    }
}

fn failed(why: &str) {
    tracing::warn!(target: "process", event = "take_over_failed", "take-over failed, this process goes on: {why}");
}

/// What was found before anything is sent.
struct Begun {
    pid: i32,
    ports: Vec<(PortNote, PortHandover)>,
}

/// Whether the process may take over, and what its ports are.
fn admit<P: Product>(product: &P, stream: &UnixStream, asked: &RawRequest) -> Result<Begun, String> {
    let shell = product.shell();
    let (pid, user) = Link::peer(stream).map_err(|error| format!("take-over refused: no credentials: {error}"))?;
    let own = rustix::process::geteuid().as_raw();
    if user != own && user != 0 {
        return Err(format!("take-over refused: the new process is of user {user}, this one of user {own}"));
    }
    let theirs: Question = asked.read()?;
    shell.question::<P>().check(&theirs)?;
    let state =
        product.hand_over().ok_or_else(|| format!("take-over refused: {} cannot be handed over", shell.title()))?;
    let mut hindrances = state.hindrances();
    if !shell.handing().begin() {
        return Err("take-over refused: another process takes over already".to_owned());
    }
    let mut ports = Vec::new();
    for (worker, ends) in (0..).zip(shell.workers()) {
        let both = shell.port_names().iter().zip(&ends.port_stats);
        // Those on another's device come with it.
        for (port, reader) in both.filter(|(port, _)| !port.is_logical) {
            match reader.hand_over(|| ends.nudge()) {
                Some(Ok(handed)) => {
                    let note = PortNote { worker, name: port.name.clone(), text: handed.text.clone() };
                    ports.push((note, handed));
                }
                Some(Err(why)) => hindrances.push(format!("port \"{}\" of worker {worker}: {why}", port.name)),
                None => hindrances.push(format!("port \"{}\": worker {worker} does not answer", port.name)),
            }
        }
    }
    if hindrances.is_empty() {
        return Ok(Begun { pid, ports });
    }
    shell.handing().end();
    Err(format!("take-over refused: {}", hindrances.join("; ")))
}

/// How long the new process may take for so many octets of what control has.
fn arming(octets: usize) -> Duration {
    ARMING + Duration::from_secs((octets / PART) as u64)
}

/// A sentence for what the connection said.
fn broken(doing: &str) -> impl Fn(io::Error) -> String {
    move |error| match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            format!("the new process ended while {doing}")
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("no answer from the new process while {doing}"),
        _ => format!("{doing}: {error}"),
    }
}

/// Sends descriptors and state until little is left.
fn send_all<P: Product>(product: &P, begun: Begun, mut link: Link) -> Result<Link, String> {
    let (shell, lost) = (product.shell(), broken("it got its state"));
    let state = product.hand_over().ok_or("no state")?;
    let (gateway, own) = state.begin().map_err(|error| format!("it does not begin: {error}"))?;
    // A socket of its own: two processes that ask over one would take each other's replies.
    let helper = privilege::helper_for_another().map_err(|error| format!("its helper: {error}"))?;
    let clock = shell.time().origin().ok_or("the clock is simulated")?;
    let memory = if shell.shares_memory() { shell.arena().file() } else { None };
    link.limit_sending(ARMING);
    let hello = Hello { clock, ports: begun.ports.len(), helper: helper.is_some(), memory: memory.is_some(), gateway };
    send_note(&mut link, Kind::Hello, &hello, &own).map_err(&lost)?;
    if let Some((pid, socket)) = helper {
        let note = HelperNote { pid, registers_memory: port::helper::registers_memory() };
        let note = serde_json::to_vec(&note).map_err(|error| error.to_string())?;
        link.send(Kind::Helper, &note, &[socket.as_fd()]).map_err(&lost)?;
    }
    if let Some(memory) = memory {
        link.send(Kind::Memory, &[], &[memory]).map_err(&lost)?;
    }
    for (note, handed) in &begun.ports {
        send_note(&mut link, Kind::Port, note, &handed.descriptors).map_err(&lost)?;
    }
    let (mut out, until) = (Vec::new(), Instant::now() + BUILDING);
    loop {
        let left = state.export(&mut out)?;
        link.limit_sending(BUILDING);
        if left <= FEW || out.len() >= BATCH {
            link.send(Kind::Batch, &out, &[]).map_err(&lost)?;
            out.clear();
        }
        if left <= FEW {
            break;
        }
        if Instant::now() > until {
            return Err("sessions change faster than they can be handed over".to_owned());
        }
    }
    link.send(Kind::Synced, &[], &[]).map_err(&lost)?;
    link.expect(Kind::Ready, Some(BUILDING)).map_err(&lost)?;
    for _ in 0..ROUNDS {
        link.limit_sending(BUILDING);
        let mut sent = 0;
        for _ in 0..EXPORTS {
            let left = state.export(&mut out)?;
            sent += out.len();
            link.send(Kind::Batch, &out, &[]).map_err(&lost)?;
            out.clear();
            if left == 0 {
                break;
            }
        }
        // What it has not taken in yet would be waited for when the workers stand still.
        link.send(Kind::Synced, &[], &[]).map_err(&lost)?;
        link.expect(Kind::Ready, Some(BUILDING)).map_err(&lost)?;
        if sent <= FEW * 256 {
            break;
        }
    }
    Ok(link)
}

fn send_note(link: &mut Link, kind: Kind, note: &impl serde::Serialize, descriptors: &[OwnedFd]) -> io::Result<()> {
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    link.send(kind, &serde_json::to_vec(note)?, &borrowed)
}

/// What control does for a process that waits, if one does: it comes to rest, stops the workers, and hands over. None: nobody
/// waits, or it failed and the workers run.
pub fn hand_over<P: Product>(process: &mut Process<P>, listeners: &Listeners) -> Option<Handed> {
    let (mut link, pid) = process.shell().handing().take()?;
    let observer = process.observer().clone();
    let state = observer.hand_over()?;
    let since = Instant::now();
    let handed = arm(&*observer, state, &mut link).and_then(|neighbours| {
        let control = since.elapsed().as_nanos() as u64; // some seconds at most
        let mut handed = freeze(process, state, &mut link, (listeners, &neighbours), pid)?;
        handed.parts.control = control;
        Ok(handed)
    });
    match handed {
        Ok(handed) => {
            state.handed_over();
            Some(handed)
        }
        Err(why) => {
            state.end();
            process.shell().handing().end();
            failed(&why);
            None
        }
    }
}

/// Has control come to rest.
fn come_to_rest<P: Product>(state: &dyn HandOver<P::Plane>) -> Result<(), String> {
    for _ in 0..SETTLING {
        if state.settle() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    Err("requests of control planes stay under way".to_owned())
}

/// Neighbours by whose hardware addresses packets leave: those taken over from another process, too.
fn neighbours<P: Product>(observer: &P) -> Vec<Neighbour> {
    let mut all = Vec::new();
    observer.with_neighbourhood(&mut |here| {
        all.extend(here.plan().neighbours().iter().map(|(port, address, mac)| (*port, *address, mac.0)));
    });
    all
}

/// Control comes to rest, and what has changed until then is sent; workers run.
/// Returns the neighbours that were sent.
fn arm<P: Product>(observer: &P, state: &dyn HandOver<P::Plane>, link: &mut Link) -> Result<Vec<Neighbour>, String> {
    let lost = broken("it got what changed last");
    come_to_rest::<P>(state)?;
    let mut out = Vec::new();
    state.export_settled(&mut out)?;
    let neighbours = neighbours(observer);
    link.limit_sending(ARMING);
    send_note(link, Kind::Neighbours, &neighbours, &[]).map_err(&lost)?;
    // Each time less has changed, until that takes no longer than the workers may stand still.
    for _ in 0..ROUNDS {
        let since = Instant::now();
        for _ in 0..EXPORTS {
            if state.export(&mut out)? == 0 {
                break;
            }
        }
        // What workers tell control meanwhile is not to overflow their rings.
        let listen = || {
            state.settle();
        };
        let most = arming(out.len());
        link.limit_sending(most);
        link.send_batch(&out, listen).map_err(&lost)?;
        out.clear();
        link.send(Kind::Arm, &[], &[]).map_err(&lost)?;
        while since.elapsed() < most && !link.is_ready(LISTENING).map_err(&lost)? {
            state.settle();
        }
        link.expect(Kind::Armed, Some(most.saturating_sub(since.elapsed()))).map_err(&lost)?;
        if since.elapsed() <= SHORT {
            break;
        }
    }
    Ok(neighbours)
}

/// The workers stand still while the last of their state goes. Any error leaves them running.
fn freeze<P: Product>(
    process: &mut Process<P>,
    state: &dyn HandOver<P::Plane>,
    link: &mut Link,
    (listeners, known): (&Listeners, &[Neighbour]),
    pid: i32,
) -> Result<Handed, String> {
    let since = process.shell().now_ns();
    process.freeze()?;
    link.limit_sending(LOADING);
    let stopped = process.shell().now_ns();
    let frozen = send_rest(process, state, link, (listeners, known)).and_then(|settled| {
        let lost = broken("it was about to run");
        let sent = process.shell().now_ns();
        let took = link.expect(Kind::Loaded, Some(LOADING)).map_err(&lost)?;
        let loaded = process.shell().now_ns();
        link.limit_sending(LOADING);
        link.send(Kind::Go, &[], &[]).map_err(&lost)?;
        // While it sets its workers going.
        let last = process.shell().snapshot();
        // Without end: it has the ports now, unless it ends.
        let running = link.expect(Kind::Running, None).map_err(&lost)?;
        let until: u64 = std::str::from_utf8(&running.octets).ok().and_then(|text| text.parse().ok()).unwrap_or(since);
        let parts = Standstill {
            stop: stopped - since,
            settle: settled - stopped,
            export: sent - settled,
            load: loaded - sent,
            run: until.saturating_sub(loaded),
            control: 0,
            import: serde_json::from_slice(&took.octets).unwrap_or_default(),
        };
        Ok(Handed { pid, frozen_ns: until.saturating_sub(since), parts, last })
    });
    frozen.inspect_err(|_| {
        // It may write to packet buffers that it was told nobody uses, as long as it lives.
        if process.shell().shares_memory() {
            part(link, pid);
        }
        // If it has run for a moment, it has used what ports share with the kernel.
        process.standing().iter_mut().for_each(engine::Worker::come_back);
        if let Err(error) = process.go() {
            tracing::error!(target: "worker", event = "worker_lost", %error, "no thread for a worker after a failed take-over");
        }
    })
}

/// Waits until the other process has closed its end, which it does when it reads that this one has. One that does not could still
/// write to packet buffers; this process may end no other (`seccomp`), so that somebody has to be told.
fn part(link: &mut Link, pid: i32) {
    const PATIENCE: Duration = Duration::from_secs(5);
    if !link.has_ended(PATIENCE) {
        tracing::error!(
            target: "process", event = "take_over_failed", pid,
            "process {pid}, which was to take over, does not end: it may change packets that wait here; end it"
        );
    }
}

/// Sends what is left; when the workers had come to rest, in nanoseconds of their clock.
fn send_rest<P: Product>(
    process: &mut Process<P>,
    state: &dyn HandOver<P::Plane>,
    link: &mut Link,
    (listeners, known): (&Listeners, &[Neighbour]),
) -> Result<u64, String> {
    let lost = broken("the workers stood still");
    // What workers hand to each other, and what they told control last.
    for round in 0.. {
        let moved = process.standing().iter_mut().fold(false, |moved, worker| worker.settle() | moved);
        if state.settle() && !moved {
            break;
        }
        if round > 1000 {
            return Err("the workers do not come to rest".to_owned());
        }
    }
    let settled = process.shell().now_ns();
    // Of those that were heard meanwhile.
    let neighbours = neighbours(&**process.observer());
    if neighbours != known {
        send_note(link, Kind::Neighbours, &neighbours, &[]).map_err(&lost)?;
    }
    let mut out = Vec::new();
    state.export_rest(process.standing(), &mut out)?;
    if process.shell().shares_memory() {
        let arena = process.shell().arena().clone();
        let used = arena.slots_in_use(process.standing().iter().map(|worker| &worker.env().pool));
        let octets: Vec<u8> = used.iter().flat_map(|word| word.to_le_bytes()).collect();
        link.send(Kind::Buffers, &octets, &[]).map_err(&lost)?;
    }
    link.send_batch(&out, || ()).map_err(&lost)?;
    let ports = process.shell().port_names().len();
    let of_worker = |worker: &engine::Worker<P::Plane>| -> Vec<Vec<u64>> {
        (0..ports).filter_map(|port| Some(worker.port(port as u8)?.position())).collect() // fewer than 256
    };
    let positions = process.standing().iter().map(of_worker).collect();
    let (names, sockets): (Vec<_>, Vec<_>) = listeners.named().into_iter().unzip();
    let note = FrozenNote { positions, listeners: names.into_iter().map(str::to_owned).collect() };
    let note = serde_json::to_vec(&note).map_err(|error| error.to_string())?;
    link.send(Kind::Frozen, &note, &sockets).map_err(&lost)?;
    Ok(settled)
}

impl Shell {
    /// What a process that takes over must be like.
    fn question<P: Product>(&self) -> Question {
        Question {
            ask: "take_over".to_owned(),
            version: VERSION,
            layout: P::STATE_LAYOUT,
            gateway: self.gateway().to_owned(),
            workers: self.workers().len() as u16, // as configured
            ports: self.port_names().iter().map(|port| (port.name.clone(), port.uri.clone())).collect(),
            buffers: self.shares_memory().then(|| (self.arena().shape().slots, self.arena().shape().slot_bytes)),
        }
    }

    /// Whether the kernel has packet buffers of a port.
    fn shares_memory(&self) -> bool {
        shares_memory(self.port_names().iter().map(|port| port.uri.as_str()))
    }
}
