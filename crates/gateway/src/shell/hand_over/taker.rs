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
use frame::{Arena, Pool, PortHandover};
use serde::de::DeserializeOwned;
use serde_json::Value;
use table::hint::thread_cpu_ns;
use wire::Mac;

use super::super::ports::{self, WorkerPorts};
use super::super::process::{Opened, Process, Reserved, StartError, share_out};
use super::super::product::{Gateway, Head, Loaded, Product};
use super::super::sections::Sections;
use super::giver::Listeners;
use super::wire::{Kind, Link, Message};
use super::{FrozenNote, Hello, HelperNote, Neighbour, PortNote, Question, VERSION, shares_memory};

/// How long the other process may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to the process that hands over, and what it has sent.
pub struct Taker {
    link: Link,
    hello: Hello,
    /// Descriptors of the gateway's own.
    sockets: Vec<OwnedFd>,
    helper: Option<(HelperNote, OwnedFd)>,
    /// Packet memory that ports share with the kernel.
    memory: Option<OwnedFd>,
    ports: Vec<(PortNote, PortHandover)>,
    /// Packet buffers that workers leave to others.
    reserved: Reserved,
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
        ports: head.ports.iter().map(|port| (port.name.to_owned(), port.place())).collect(),
        buffers: shares_memory(head.uris()).then_some((head.frames.packet_buffers, head.frames.packet_buffer_bytes)),
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
        let memory = match hello.memory {
            true => Some(memory_of(link.expect(Kind::Memory, Some(PATIENCE)).with_context(lost)?)?),
            false => None,
        };
        let mut ports = Vec::new();
        for _ in 0..hello.ports {
            let message = link.expect(Kind::Port, Some(PATIENCE)).with_context(lost)?;
            let note = read::<PortNote>(&message)?;
            let handed = PortHandover { descriptors: message.descriptors, text: note.text.clone() };
            ports.push((note, handed));
        }
        Ok(Self { link, hello, sockets, helper, memory, ports, reserved: Reserved::default() })
    }

    /// The helper, which keeps what it keeps for the ports: its process number, whether it registers packet memory, its
    /// socket.
    pub(crate) fn take_helper(&mut self) -> Option<(u32, bool, OwnedFd)> {
        self.helper.take().map(|(note, socket)| (note.pid, note.registers_memory, socket))
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
        let config = ports::arena_config(head.frames);
        let arena = match self.memory.take() {
            Some(memory) => Arena::of_file(config, memory),
            None => ports::arena(config, head.uris()),
        };
        let arena = arena.map_err(|source| StartError::Memory { slots, bytes, source })?;
        let (workers, steer) = (head.workers.count, G::steer(&loaded.config));
        let mut handed = std::mem::take(&mut self.ports).into_iter().map(|(_, handed)| handed);
        port::set_borrowed(true);
        let mut opened = Vec::new();
        for worker in 0..workers {
            let of_worker = WorkerPorts::take_over(&head.ports, (worker, workers), &steer, &arena, &mut handed)?;
            opened.push((Pool::new(&arena, 0), of_worker));
        }
        self.reserved = Reserved::of::<G>(&loaded.config, opened.iter().flat_map(|(_, of_worker)| &of_worker.caps));
        // Of memory that is the running gateway's nothing is free yet.
        share_out(&arena, self.reserved, 0, opened.iter_mut().map(|(pool, _)| pool).collect());
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
        let (mut used, mut parts) = (Vec::new(), Vec::new());
        let frozen = loop {
            stop()?;
            let message = self.link.receive(Some(PATIENCE)).context("the running gateway gave up; its log says why")?;
            if is_first {
                begun = (Instant::now(), thread_cpu_ns());
            }
            is_first = message.kind == Kind::Arm;
            match message.kind {
                Kind::Part => parts.extend(message.octets),
                Kind::Batch if parts.is_empty() => {
                    state.import(process.standing(), &message.octets).map_err(said)?;
                }
                Kind::Batch => {
                    parts.extend(message.octets);
                    state.import(process.standing(), &std::mem::take(&mut parts)).map_err(said)?;
                }
                Kind::Buffers => used = take_free(&mut process, &message.octets)?,
                Kind::Neighbours => suppose(&*observer, &read::<Vec<Neighbour>>(&message)?),
                Kind::Synced => self.link.send(Kind::Ready, &[], &[])?,
                Kind::Arm => self.link.send(Kind::Armed, &[], &[])?,
                Kind::Frozen => break message,
                other => bail!("the running gateway sent {other:?} out of turn"),
            }
        };
        let note: FrozenNote = read(&frozen)?;
        state.imported(process.standing()).map_err(said)?;
        go_on(&mut process, &note, &mut used)?;
        if !used.is_empty() {
            // Packets that wait give theirs back when they have gone.
            let coming = used.iter().map(|word| word.count_ones() as usize).sum();
            share_out_to(&mut process, self.reserved, coming);
        }
        stop()?;
        let took = [begun.0.elapsed().as_nanos() as u64, thread_cpu_ns() - begun.1]; // some seconds at most
        self.link.send(Kind::Loaded, &serde_json::to_vec(&took)?, &[])?;
        self.link.expect(Kind::Go, Some(PATIENCE)).context("the running gateway gave up; its log says why")?;
        port::set_borrowed(false);
        process.go().context("a thread for a worker")?;
        let now = process.shell().now_ns().to_string();
        state.take_place();
        // One that has gone meanwhile needs no answer.
        let _ = self.link.send(Kind::Running, now.as_bytes(), &[]);
        // Whatever happens now, the other one does not run again.
        process.shell().arena().release(&used);
        state.running();
        Ok(Taken { process, listeners: listeners(&note, frozen.descriptors) })
    }
}

/// Takes the packet buffers that the other process, whose workers stand still, does not use. Returns which it uses, a
/// bit each.
fn take_free<P: Product>(process: &mut Process<P>, octets: &[u8]) -> anyhow::Result<Vec<u64>> {
    let (words, rest) = octets.as_chunks::<8>();
    let used: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let arena = process.shell().arena().clone();
    let fits = rest.is_empty() && used.len() == arena.shape().slots.div_ceil(64) as usize;
    anyhow::ensure!(fits, "the running gateway sent packet buffers that cannot be read");
    arena.release_all_but(&used);
    share_out_to(process, Reserved::default(), 0);
    Ok(used)
}

fn share_out_to<P: Product>(process: &mut Process<P>, reserved: Reserved, coming: usize) {
    let arena = process.shell().arena().clone();
    let pools = process.standing().iter_mut().map(|worker| &mut worker.parts_mut().1.pool);
    share_out(&arena, reserved, coming, pools.collect());
}

/// Has ports go on where those of the other process stand. What the kernel has of them is taken out of `used`, packet
/// buffers that the other process uses.
fn go_on<P: Product>(process: &mut Process<P>, note: &FrozenNote, used: &mut [u64]) -> anyhow::Result<()> {
    let mut held = vec![0; used.len()];
    for (worker, positions) in process.standing().iter_mut().zip(&note.positions) {
        for (n, position) in (0..).zip(positions) {
            let port = worker.port_mut(n).with_context(|| format!("port {n} was not handed over"))?;
            anyhow::ensure!(port.go_on_at(position), "port {n}: its interface was opened again meanwhile");
            anyhow::ensure!(
                used.is_empty() || port.mark_held(&mut held),
                "port {n}: a packet buffer of it is another's"
            );
        }
    }
    let are_used = held.iter().zip(&*used).all(|(held, used)| held & !used == 0);
    anyhow::ensure!(are_used, "the running gateway takes packet buffers to be free that the kernel has");
    used.iter_mut().zip(&held).for_each(|(used, held)| *used &= !held);
    Ok(())
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

fn helper_of(message: Message) -> anyhow::Result<(HelperNote, OwnedFd)> {
    let note = read(&message)?;
    Ok((note, message.descriptors.into_iter().next().context("the running gateway sent no helper")?))
}

fn memory_of(message: Message) -> anyhow::Result<OwnedFd> {
    message.descriptors.into_iter().next().context("the running gateway sent no packet memory")
}

/// A line, and nothing of what follows it.
fn line(stream: &UnixStream) -> std::io::Result<String> {
    let mut text = Vec::new();
    // An octet at a time: what follows are messages.
    BufReader::with_capacity(1, stream).take(64 << 10).read_until(b'\n', &mut text)?;
    String::from_utf8(text).map_err(|_| std::io::ErrorKind::InvalidData.into())
}
