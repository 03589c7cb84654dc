//! N4: datagrams between the sockets and the endpoint, which has neither sockets nor a clock.
//!
//! A turn takes a bounded time whatever has come: datagrams are read into a queue for each control plane and one for all
//! strangers, which are served in turn, by the clock ([`Intake`]).

mod control_socket;
mod sockets;

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::assemble::WorkerInit;
use crate::compile::Compiled;
use crate::config::{Config, LedgerDamaged, parse_prefix};
use crate::control::Control;
use crate::n4::assemble;
use crate::n4::endpoint::{Endpoint, Restored, Stored};
use crate::n4::intake::{Intake, Next};
use crate::n4::metering::WallClock;
use crate::rules::Usage;
use ledger::{Ledger, LedgerError, Moment, Pace, Places, Writer};

use control_socket::ControlSocket;
use gateway::privilege;
use gateway::records::Opening;
use gateway::shell::rest::{AGAIN, ControlWaker, SOON, Wait};
pub use sockets::{Lost, Sockets};

/// The longest message there is.
const LONGEST: usize = 65_535;
/// Nanoseconds of a turn in which datagrams are handed to the endpoint; workers, the disk and answers come after that.
const BUDGET: u64 = 500_000;

/// Commits are short: a request waits for the one before and its own.
const PACE: Pace = Pace { gather: Duration::from_millis(1), batch: 256, queue: 16_384 };

/// Why there is no N4.
#[derive(Debug, thiserror::Error)]
pub enum N4Error {
    /// No socket.
    #[error("no PFCP at {address}: {source}; is the address ours, and the port free?")]
    Socket {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// No thread.
    #[error("no thread to read the ledger: {0}")]
    Thread(std::io::Error),
    /// Its privileges could not be given up.
    #[error("reading the ledger: {0:#}")]
    Privileges(anyhow::Error),
    /// Nowhere to keep sessions.
    #[error("sessions cannot be stored: {0}")]
    Ledger(#[from] LedgerError),
}

/// The sockets as configured, with room for what comes at once, which takes privileges; none, if no control plane is.
///
/// # Errors
/// An address that is not ours, or not free.
pub fn sockets(config: &Config) -> Result<Option<Sockets>, N4Error> {
    let Some(n4) = &config.n4 else { return Ok(None) };
    let address = SocketAddr::new(n4.address, n4.port);
    let allow = n4.allow.iter().filter_map(|text| parse_prefix(text)).collect();
    let sockets = Sockets::open(address, allow).map_err(|source| N4Error::Socket { address, source })?;
    Ok(Some(sockets))
}

/// The ledger sessions are kept in, and its writer.
pub type Kept = (Ledger, Arc<Writer>);

/// The endpoint with its socket.
pub struct N4 {
    sockets: Sockets,
    intake: Intake,
    /// The state of the associations that the sockets know: see [`changes`](pfcp::node::Node::changes).
    known: u64,
    endpoint: Endpoint,
    /// For packets between subscribers and control planes.
    control_socket: ControlSocket,
    space: Box<[u8]>,
    /// Datagrams the kernel would not send.
    unsent: u64,
    /// What was there of an earlier run.
    restored: Option<Restored>,
    /// The ledger of a process that this one goes on for, until that has let it go; nothing is read from the sockets before.
    opening: Option<Opening<Read>>,
    /// That ledger, once it is open.
    opened: Option<Kept>,
}

/// A ledger that is opened and read by a thread of its own, while ports are opened.
pub struct Reading(Option<JoinHandle<Result<Read, N4Error>>>);

/// What is read of it: what was kept, and the Recovery Time Stamp.
struct Read {
    ledger: Ledger,
    stored: Stored,
    places: Places,
    began: Option<u32>,
}

impl Reading {
    /// Begins to read the ledger, if sessions are kept, without a privilege.
    ///
    /// # Errors
    /// No thread.
    pub fn begin(config: &Config) -> Result<Self, N4Error> {
        let Some((dir, damaged)) = config.n4.as_ref().and_then(|n4| Some((n4.ledger.clone()?, n4.ledger_damaged)))
        else {
            return Ok(Self(None));
        };
        let section = config.process.clone();
        let read = move || {
            privilege::give_up_in_thread(&section, &dir).map_err(N4Error::Privileges)?;
            let (ledger, began) = open_ledger(&dir, damaged)?;
            let (stored, places) = Stored::read(&ledger)?;
            Ok(Read { ledger, stored, places, began })
        };
        let thread = std::thread::Builder::new().name("weir-restore".into()).spawn(read);
        Ok(Self(Some(thread.map_err(N4Error::Thread)?)))
    }

    fn end(&mut self) -> Result<Option<Read>, N4Error> {
        let Some(thread) = self.0.take() else { return Ok(None) };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(Some)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        // Something else has failed: what that was is told.
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}

/// Opens the ledger in a folder, with the Recovery Time Stamp in it; a damaged one is set aside for an empty one, if it may
/// be.
fn open_ledger(dir: &Path, damaged: LedgerDamaged) -> Result<(Ledger, Option<u32>), LedgerError> {
    let open = || {
        let ledger = Ledger::open(dir)?;
        let recovery = ledger.status()?.recovery;
        Ok((ledger, recovery))
    };
    match open() {
        Err(why @ (LedgerError::Damaged { .. } | LedgerError::NotALedger { .. }))
            if damaged == LedgerDamaged::SetAside =>
        {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
            let aside = ledger::set_aside(dir, Moment(now))?;
            tracing::error!(
                target: "ledger", event = "ledger_set_aside", error = %why, aside = %aside.display(),
                "damaged ledger set aside; sessions begin anew"
            );
            open()
        }
        done => done,
    }
}

impl N4 {
    /// As configured; none, if no control plane is; and the ledger sessions are kept in. Sessions that a ledger kept are in
    /// place then: workers must not run yet. `waker` calls the thread that turns it, when something is on the disk.
    ///
    /// # Errors
    /// A ledger that is no good.
    pub fn open(
        sockets: Sockets,
        mut reading: Reading,
        config: &Config,
        control: &mut Control,
        seats: &mut [WorkerInit],
        clock: &WallClock,
        waker: &ControlWaker,
    ) -> Result<(Option<Self>, Option<Kept>), N4Error> {
        let read = reading.end()?;
        let began = read.as_ref().and_then(|read| read.began);
        let Some(mut endpoint) = assemble::endpoint(config, clock, began) else { return Ok((None, None)) };
        // Before sessions are compiled: their rules lead there.
        let control_socket = ControlSocket::open(&mut endpoint);
        let (mut kept, mut restored) = (None, None);
        if let Some(Read { ledger, stored, places, .. }) = read {
            // Its thread stays: it has no more privileges than this one by now.
            let writer = Arc::new(ledger.writer_after(places, PACE, {
                let waker = waker.clone();
                move |_| waker.call()
            })?);
            let each = stored.sessions() / seats.len().max(1);
            seats.iter_mut().for_each(|seat| seat.plane.sessions_mut().reserve(each));
            let mut install = |worker: u16, handle: u32, session: &Compiled| {
                let seat = seats.get_mut(usize::from(worker));
                seat.is_some_and(|seat| seat.plane.sessions_mut().install(handle, session, clock.now).is_ok())
            };
            restored = Some(endpoint.restore(stored, writer.clone(), control, clock, &mut install));
            kept = Some((ledger, writer));
        }
        let n4 = Self {
            sockets,
            intake: Intake::default(),
            known: 0,
            endpoint,
            control_socket,
            space: vec![0; LONGEST].into(),
            unsent: 0,
            restored,
            opening: None,
            opened: None,
        };
        Ok((Some(n4), kept))
    }

    /// As configured, with the sockets of another process that this one goes on for, whose run began at `began`; none, if no
    /// control plane is.
    pub fn go_on(
        sockets: Sockets,
        control_socket: Option<UdpSocket>,
        config: &Config,
        (clock, waker): (&WallClock, &ControlWaker),
        began: u32,
    ) -> Option<Self> {
        let ledger = config.n4.as_ref().and_then(|n4| Some((n4.ledger.clone()?, n4.ledger_damaged)));
        let opening = ledger.map(|(dir, damaged)| {
            let open = move || {
                let (ledger, began) = open_ledger(&dir, damaged)?;
                let (stored, places) = Stored::read(&ledger)?;
                Ok(Read { ledger, stored, places, began })
            };
            Opening::new(open, waker.clone(), "N4")
        });
        let mut endpoint = assemble::endpoint(config, clock, Some(began))?;
        let control_socket = ControlSocket::go_on(control_socket, &mut endpoint);
        Some(Self {
            sockets,
            intake: Intake::default(),
            known: 0,
            endpoint,
            control_socket,
            space: vec![0; LONGEST].into(),
            unsent: 0,
            restored: None,
            opening,
            opened: None,
        })
    }

    /// Sockets of control planes, and whether the last is the one for GTP-U; for another process.
    ///
    /// # Errors
    /// No more descriptors.
    pub fn descriptors(&self) -> io::Result<(Vec<OwnedFd>, bool)> {
        let mut all = self.sockets.descriptors()?;
        let socket = self.control_socket.socket();
        all.extend(socket.map(|socket| socket.as_fd().try_clone_to_owned()).transpose()?);
        Ok((all, socket.is_some()))
    }

    /// The endpoint, to change.
    pub(crate) fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// As [`turn`](Self::turn), without reading from the sockets. Whether nothing is under way then.
    pub fn settle(&mut self, control: &mut Control, clock: impl Fn() -> WallClock) -> bool {
        if self.opening.is_some() {
            control.poll(clock().now);
            return false;
        }
        self.work(control, clock);
        self.intake.waiting() == 0 && self.endpoint.is_settled() && control.is_settled()
    }

    /// What was there of an earlier run, if sessions are kept.
    pub fn restored(&self) -> Option<Restored> {
        self.restored
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Takes no new sessions from now on and asks control planes to move those there are in time; or takes them again.
    pub fn drain(&mut self, draining: bool, grace: Duration, clock: &WallClock) {
        self.endpoint.set_draining(draining, grace, clock);
    }

    /// Goes by a configuration that was checked.
    pub fn reconfigure(&mut self, config: &Config, control: &mut Control, clock: &WallClock) {
        self.endpoint.reconfigure(config, control, clock);
        self.allow();
    }

    /// Has the kernel let through whom the node takes messages from.
    fn allow(&mut self) {
        let node = self.endpoint.node();
        let mut networks = node.config().allow.clone();
        if !networks.is_empty() {
            let alone = |address: IpAddr| (address, if address.is_ipv4() { 32 } else { 128 });
            networks.extend(node.leaving().map(|address| alone(address.to_canonical())));
        }
        self.sockets.set_allow(networks);
    }

    /// Datagrams the kernel would not send.
    pub fn unsent(&self) -> u64 {
        self.unsent + self.control_socket.unsent()
    }

    /// Datagrams lost in the kernel.
    pub fn lost(&self) -> Lost {
        self.sockets.lost()
    }

    /// The queues of datagrams that have been read.
    pub(crate) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Takes in what has come, sees to what is due, sends what is to be sent. `clock` tells the time as it goes on.
    pub fn turn(&mut self, control: &mut Control, clock: impl Fn() -> WallClock) {
        if self.opening.is_some() && !self.open_taken(&clock()) {
            return control.poll(clock().now);
        }
        self.know();
        let Self { sockets, intake, endpoint, control_socket, space, .. } = self;
        sockets.read(space, |from, datagram| {
            intake.push(endpoint.class(from.ip()), from, datagram);
        });
        control_socket.receive(endpoint, control, &clock());
        self.work(control, clock);
    }

    /// Serves what has been read, sees to what is due, sends what is to be sent.
    fn work(&mut self, control: &mut Control, clock: impl Fn() -> WallClock) {
        let Self { sockets, intake, endpoint, control_socket, unsent, .. } = self;
        intake.resume(|class| endpoint.may_serve(class));
        intake.serve(
            BUDGET,
            || clock().now,
            |class, from, datagram| {
                endpoint.receive(from, datagram, control, &clock());
                // Sending costs more than most datagrams: it belongs to the sender's time.
                endpoint.drain(|to, datagram| *unsent += u64::from(!sockets.send(to, datagram)));
                if endpoint.may_serve(class) { Next::Serve } else { Next::Hold }
            },
        );
        let wall = clock();
        control.poll(wall.now);
        endpoint.turn(control, &wall);
        control_socket.send(endpoint);
        let mut at = clock().now;
        let mut spent = Vec::new();
        endpoint.drain(|to, datagram| {
            *unsent += u64::from(!sockets.send(to, datagram));
            let then = clock().now;
            spent.push((to.ip(), then.saturating_sub(at)));
            at = then;
        });
        for (to, ns) in spent {
            intake.charge(endpoint.class(to), ns);
        }
    }

    /// Begins to wait for the ledger of the process that this one goes on for, if it had one.
    ///
    /// # Errors
    /// No thread.
    pub(crate) fn begin_opening(&mut self) -> io::Result<()> {
        self.opening.as_mut().map_or(Ok(()), Opening::begin)
    }

    /// The ledger of the process that this one goes on for, when it has just been opened.
    pub(crate) fn take_opened(&mut self) -> Option<Kept> {
        self.opened.take()
    }

    /// Goes on keeping sessions when that ledger is there. False: it is not yet.
    fn open_taken(&mut self, clock: &WallClock) -> bool {
        let Some(opening) = &mut self.opening else { return true };
        let Some(Read { ledger, stored, places, .. }) = opening.take() else { return false };
        let waker = opening.waker().clone();
        match ledger.writer_after(places, PACE, move |_| waker.call()) {
            Ok(writer) => {
                let writer = Arc::new(writer);
                self.endpoint.keep_on(stored, writer.clone(), clock);
                (self.opened, self.opening) = (Some((ledger, writer)), None);
                true
            }
            Err(error) => {
                tracing::error!(target: "ledger", event = "ledger_not_open", %error, "the ledger takes no changes: N4 waits");
                // Without a thread it is tried no more; probes say that control does not take requests.
                let _ = opening.begin();
                false
            }
        }
    }

    /// Has the sockets know the associations there are.
    fn know(&mut self) {
        let node = self.endpoint.node();
        if node.changes() == self.known {
            return;
        }
        self.known = node.changes();
        self.sockets.know(node.addresses().map(|address| address.to_canonical()));
        self.intake.retain(|id| node.association(pfcp::node::AssociationId(id)).is_some());
        self.allow();
    }

    /// Writes down what sessions have used, if they are kept: workers stand still, and `usage` is what they have counted.
    pub fn close(&mut self, clock: &WallClock, usage: &mut dyn FnMut(u16, u32) -> Option<Vec<Usage>>) {
        self.endpoint.close(clock, usage);
    }

    /// The sockets, to wait on.
    ///
    /// # Errors
    /// No more descriptors.
    pub(crate) fn to_wait_on(&self) -> io::Result<Vec<OwnedFd>> {
        self.sockets.to_wait_on(self.control_socket.socket())
    }

    /// What is to be done soon, if no datagram comes: control planes wait for workers or the disk, or datagrams wait here
    /// that may be served.
    pub fn wait(&self) -> Option<Wait> {
        if self.opening.is_some() {
            return Some(Wait::Short(AGAIN));
        }
        if self.intake.is_ready() || self.intake.may_resume(|class| self.endpoint.may_serve(class)) {
            return Some(Wait::No);
        }
        self.endpoint.is_waiting().then_some(Wait::Short(SOON))
    }
}
