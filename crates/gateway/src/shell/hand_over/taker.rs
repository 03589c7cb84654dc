//! The process that takes over. Until its workers run, all it has is the other process's too: when something fails it ends
//! without undoing anything.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use engine::Time;
use frame::{Pool, PortHandover};
use serde::de::DeserializeOwned;
use serde_json::Value;
use table::hint::thread_cpu_ns;
use wire::Mac;

use super::super::ports::{self, PortsError, WorkerPorts};
use super::super::process::{Opened, Process, StartError};
use super::super::product::{Gateway, Head, Loaded, Product};
use super::super::sections::Sections;
use super::giver::Listeners;
use super::wire::{Kind, Link, Message};
use super::{FrozenNote, Hello, Neighbour, PortNote, Question, VERSION};

/// How long the other process may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to the process that hands over, and what it has sent.
pub struct Taker {
    link: Link,
    hello: Hello,
    /// Descriptors of the gateway's own.
    sockets: Vec<OwnedFd>,
    helper: Option<(u32, OwnedFd)>,
    ports: Vec<(PortNote, PortHandover)>,
}

/// What runs now.
pub struct Taken<P: Product> {
    /// The gateway, whose workers run.
    pub process: Process<P>,
    /// Sockets to listen at.
    pub listeners: Listeners,
}

fn question<G: Gateway>(head: &Head<'_>) -> Question {
    Question {
        ask: "take_over".to_owned(),
        version: VERSION,
        layout: G::Product::STATE_LAYOUT,
        gateway: G::NAME.to_owned(),
        workers: head.workers.count,
        ports: head.ports.iter().map(|port| (port.name.to_owned(), port.uri.to_owned())).collect(),
    }
}

fn read<T: DeserializeOwned>(message: &Message) -> anyhow::Result<T> {
    serde_json::from_slice(&message.octets).context("the running gateway sent what cannot be read")
}

impl Taker {
    /// Asks the gateway at a control socket to hand over, and takes its descriptors.
    ///
    /// # Errors
    /// None runs there; it refuses, and why; it is of another user.
    pub fn connect<G: Gateway>(path: &Path, head: &Head<'_>) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(path).with_context(|| {
            format!("no gateway to take over from at {}: start one without --take-over", path.display())
        })?;
        let (pid, user) = Link::peer(&stream).context("credentials of the running gateway")?;
        let own = rustix::process::geteuid().as_raw();
        if user != own && own != 0 {
            bail!("the gateway at {} (process {pid}) is of user {user}, this process of user {own}", path.display());
        }
        let mut question = serde_json::to_string(&question::<G>(head))?;
        question.push('\n');
        (&stream).write_all(question.as_bytes()).context("asking the running gateway")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let answer = line(&stream).context("no answer of the running gateway")?;
        let answer: Value = serde_json::from_str(&answer).context("the running gateway's answer cannot be read")?;
        if let Some(why) = answer.get("error").and_then(Value::as_str) {
            bail!("the running gateway goes on: {why}");
        }
        let mut link = Link::new(stream);
        let lost = || "the running gateway hung up; its log says why";
        let hello = link.expect(Kind::Hello, Some(PATIENCE)).with_context(lost)?;
        let (hello, sockets) = (read::<Hello>(&hello)?, hello.descriptors);
        let helper = match hello.helper {
            true => Some(helper_of(link.expect(Kind::Helper, Some(PATIENCE)).with_context(lost)?)?),
            false => None,
        };
        let mut ports = Vec::new();
        for _ in 0..hello.ports {
            let message = link.expect(Kind::Port, Some(PATIENCE)).with_context(lost)?;
            let note = read::<PortNote>(&message)?;
            let handed = PortHandover { descriptors: message.descriptors, text: note.text.clone() };
            ports.push((note, handed));
        }
        Ok(Self { link, hello, sockets, helper, ports })
    }

    /// The helper, which keeps what it keeps for the ports.
    pub(crate) fn take_helper(&mut self) -> Option<(u32, OwnedFd)> {
        self.helper.take()
    }

    /// The clock that both have.
    pub fn time(&self) -> Time {
        Time::since(self.hello.clock)
    }

    /// What the gateway was started with, and descriptors of its own.
    pub(crate) fn take_gateway(&mut self) -> (Value, Vec<OwnedFd>) {
        (self.hello.gateway.take(), std::mem::take(&mut self.sockets))
    }

    /// Packet memory, and the ports that were handed over.
    ///
    /// # Errors
    /// No memory; a port that is not as configured.
    pub fn open<G: Gateway>(&mut self, loaded: &Loaded<G>) -> Result<Opened, StartError> {
        let head = loaded.config.head();
        let (slots, bytes) = (head.frames.packet_buffers, head.frames.packet_buffer_bytes);
        let arena = ports::arena(ports::arena_config(head.frames)).map_err(|source| StartError::Memory {
            slots,
            bytes,
            source,
        })?;
        let (workers, steer) = (head.workers.count, G::steer(&loaded.config));
        let mut handed = std::mem::take(&mut self.ports).into_iter();
        port::set_borrowed(true);
        let mut opened = Vec::new();
        for worker in 0..workers {
            let pool = Pool::new(&arena, slots as usize / usize::from(workers.max(1)));
            let mut of_worker = WorkerPorts::default();
            for entry in &head.ports {
                let refused = |source| PortsError::Port { name: entry.name.to_owned(), source };
                let (_, handed) = handed.next().ok_or_else(|| refused(ports::not_handed_over(entry.uri)))?;
                of_worker.take_over(entry, (worker, workers), &steer, handed).map_err(refused)?;
            }
            opened.push((pool, of_worker));
        }
        Ok(Opened::of(arena, opened))
    }

    /// Takes all state in, and sets the workers going when the other process's stand still. `is_stopped`: this process is to
    /// end, which it does as long as the other one runs.
    ///
    /// # Errors
    /// The other process has given up, or its state does not fit: it goes on, and this one has to end at once.
    pub fn take<P: Product>(
        mut self,
        mut process: Process<P>,
        is_stopped: impl Fn() -> bool,
    ) -> anyhow::Result<Taken<P>> {
        let stop = || match is_stopped() {
            true => Err(anyhow!("told to stop; the running gateway goes on")),
            false => Ok(()),
        };
        let observer = process.observer().clone();
        let state = observer.hand_over().ok_or_else(|| anyhow!("this gateway takes no state over"))?;
        let said = |why: String| anyhow!("taking over: {why}; the running gateway goes on");
        let (mut begun, mut is_first) = ((Instant::now(), thread_cpu_ns()), true);
        let frozen = loop {
            stop()?;
            let message = self.link.receive(Some(PATIENCE)).context("the running gateway gave up; its log says why")?;
            if is_first {
                begun = (Instant::now(), thread_cpu_ns());
            }
            is_first = message.kind == Kind::Arm;
            match message.kind {
                Kind::Batch => state.import(process.standing(), &message.octets).map_err(said)?,
                Kind::Neighbours => suppose(&*observer, &read::<Vec<Neighbour>>(&message)?),
                Kind::Synced => self.link.send(Kind::Ready, &[], &[])?,
                Kind::Arm => self.link.send(Kind::Armed, &[], &[])?,
                Kind::Frozen => break message,
                other => bail!("the running gateway sent {other:?} out of turn"),
            }
        };
        let note: FrozenNote = read(&frozen)?;
        state.imported(process.standing()).map_err(said)?;
        for (worker, positions) in process.standing().iter_mut().zip(&note.positions) {
            for (port, position) in (0..).zip(positions) {
                let is_there = worker.port_mut(port).is_some_and(|port| port.go_on_at(*position));
                anyhow::ensure!(is_there, "port {port}: its interface was opened again meanwhile");
            }
        }
        stop()?;
        let took = [begun.0.elapsed().as_nanos() as u64, thread_cpu_ns() - begun.1]; // some seconds at most
        self.link.send(Kind::Loaded, &serde_json::to_vec(&took)?, &[])?;
        self.link.expect(Kind::Go, Some(PATIENCE)).context("the running gateway gave up; its log says why")?;
        port::set_borrowed(false);
        process.go().context("a thread for a worker")?;
        let now = process.shell().now_ns().to_string();
        // One that has gone meanwhile needs no answer.
        let _ = self.link.send(Kind::Running, now.as_bytes(), &[]);
        state.running();
        Ok(Taken { process, listeners: listeners(&note, frozen.descriptors) })
    }
}

/// Takes neighbours to be where the other process found them, until they are heard.
fn suppose<P: Product>(observer: &P, neighbours: &[Neighbour]) {
    observer.with_neighbourhood(&mut |here| {
        neighbours.iter().for_each(|(port, address, mac)| here.suppose(*port, *address, Mac(*mac)));
    });
}

fn listeners(note: &FrozenNote, sockets: Vec<OwnedFd>) -> Listeners {
    let mut listeners = Listeners::default();
    for (name, socket) in note.listeners.iter().zip(sockets) {
        match name.as_str() {
            "control" => listeners.control = Some(socket.into()),
            "metrics" => listeners.metrics = Some(TcpListener::from(socket)),
            "api" => listeners.api = Some(TcpListener::from(socket)),
            "health" => listeners.health = Some(TcpListener::from(socket)),
            // Of a later version, which this one does without.
            _ => {}
        }
    }
    listeners
}

fn helper_of(message: Message) -> anyhow::Result<(u32, OwnedFd)> {
    let pid = std::str::from_utf8(&message.octets).ok().and_then(|text| text.parse().ok());
    pid.zip(message.descriptors.into_iter().next()).context("the running gateway sent no helper")
}

/// A line, and nothing of what follows it.
fn line(stream: &UnixStream) -> std::io::Result<String> {
    let mut text = Vec::new();
    // An octet at a time: what follows are messages.
    BufReader::with_capacity(1, stream).take(64 << 10).read_until(b'\n', &mut text)?;
    String::from_utf8(text).map_err(|_| std::io::ErrorKind::InvalidData.into())
}
