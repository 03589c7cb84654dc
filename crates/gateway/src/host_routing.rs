//! Routing by daemons of the host, such as FRR: a port's host interface has the port's addresses, the daemons speak over it
//! to the routers of the port's link, and routes are exchanged with the kernel.
//!
//! | file | what |
//! |---|---|
//! | `open.rs` | host interfaces, made while there are privileges |
//! | `exchange.rs` | the kernel's routes and the gateway's, and what differs |
//! | `frames.rs` | what the host sends by its interface |
//! | `view.rs` | `weir show routes` |
//!
//! What a port receives for the daemons is put into its host interface by the workers' slow path
//! ([`dataplane::slow::Responder::to_host`]). The other way, and routes, are the work of one thread.

mod exchange;
mod frames;
mod open;
#[cfg(test)]
mod tests;
mod view;

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use dataplane::forward::{InstanceId, PortView, prefix4, prefix6};
use engine::PortId;
use port::host_tap::HostTap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::shell::Product;
pub use exchange::{cover4, cover6};
use frames::FromHost;
pub(crate) use open::{host_uris, open};
pub use view::{AnnouncedView, RouteView, RoutesView};
pub(crate) use view::{Shared, answer, text};

/// A prefix that the gateway serves: packets to its addresses are to come here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServedPrefix {
    /// The VRF that its routes belong to.
    pub instance: InstanceId,
    /// Its first address.
    pub to: IpAddr,
    /// Its length in bits.
    pub len: u8,
}

impl ServedPrefix {
    /// The prefix that an address is in.
    pub fn of(instance: InstanceId, address: IpAddr, len: u8) -> Self {
        let to = match address {
            IpAddr::V4(address) => prefix4(address.into(), len).to_be_bytes().into(),
            IpAddr::V6(address) => prefix6(address.into(), len).to_be_bytes().into(),
        };
        Self { instance, to, len }
    }
}

/// An open host interface, and the port it is beside.
#[derive(Debug)]
pub struct HostPort {
    /// The port that frames of the host leave by.
    pub port: PortId,
    /// The TAP interface of the host beside it.
    pub tap: HostTap,
}

/// Routes of each family by all host interfaces that are taken, at most: tables are compiled anew when one changes.
pub const MOST_ROUTES: usize = 65_536;
/// Changes of routes that come together are taken together.
const TOGETHER: Duration = Duration::from_millis(20);
/// How often it is looked whether the gateway serves other prefixes.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Reading all routes takes this part of the time at most.
const SHARE: u32 = 10;
/// So long frames are carried on after the routes to what the gateway served were taken away: the daemons' withdrawals.
const LINGER: Duration = Duration::from_secs(2);
/// A daemon that sent nothing for so long has no session: three keepalives of BGP (RFC 4271, 10).
const HOLD: Duration = Duration::from_secs(90);
/// Frames taken from an interface before the others have their turn.
const AT_ONCE: usize = 64;

/// The thread that exchanges frames and routes with the host. Ended when dropped; routes to what the gateway served are
/// taken away then.
pub(crate) struct HostRouting {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl HostRouting {
    /// Begins with those interfaces.
    ///
    /// # Errors
    /// No thread, or no descriptors.
    pub fn start<P: Product>(observer: Arc<P>, ports: Vec<HostPort>) -> io::Result<Self> {
        if ports.is_empty() {
            return Ok(Self { stop: None, thread: None });
        }
        let (stop, stopped) = UnixStream::pair()?;
        let mut turn = Turn::new(observer, ports);
        let run = move || turn.run(&stopped);
        let thread = std::thread::Builder::new().name("weir-host".into()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for HostRouting {
    fn drop(&mut self) {
        // Hanging up is the word.
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What the thread has.
struct Turn<P> {
    observer: Arc<P>,
    ports: Vec<HostPort>,
    /// The ports as workers see them.
    views: Vec<PortView>,
    from_host: FromHost,
    /// What the gateway serves, as it was seen last.
    served: Vec<ServedPrefix>,
    /// The kernel has routes to some of that.
    announces: bool,
    /// When routes are to be read.
    due: Option<Instant>,
    /// Before this they are not.
    not_before: Instant,
    /// What was told last, so that it is told once.
    told: exchange::Told,
}

impl<P: Product> Turn<P> {
    fn new(observer: Arc<P>, ports: Vec<HostPort>) -> Self {
        let now = Instant::now();
        let (views, served) = (Vec::new(), Vec::new());
        let (from_host, told) = (FromHost::default(), exchange::Told::default());
        let (announces, due, not_before) = (false, Some(now), now);
        Self { observer, ports, views, from_host, served, announces, due, not_before, told }
    }

    fn run(&mut self, stopped: &UnixStream) {
        let mut looked: Option<Instant> = None;
        loop {
            if looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
                looked = Some(Instant::now());
                self.look();
            }
            if self.due.is_some_and(|due| due.max(self.not_before) <= Instant::now()) {
                self.due = None;
                self.exchange();
            }
            let due = self.due.map(|due| due.max(self.not_before).saturating_duration_since(Instant::now()));
            if self.wait(Some(stopped), due.unwrap_or(LOOK_EVERY).min(LOOK_EVERY)) {
                self.withdraw();
                return self.linger();
            }
            self.take_frames();
        }
    }

    /// Carries frames for as long as daemons that have sessions take to withdraw what was announced.
    fn linger(&mut self) {
        let has_sessions = self.from_host.heard.is_some_and(|heard| heard.elapsed() < HOLD);
        if !self.announces || !has_sessions {
            return;
        }
        let until = Instant::now() + LINGER;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            self.wait(None, left.min(LOOK_EVERY));
            self.take_frames();
        }
    }

    /// Waits until there is something to do. True: it is to end.
    fn wait(&mut self, stopped: Option<&UnixStream>, time: Duration) -> bool {
        let time = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
        let mut fds = Vec::new();
        for port in &self.ports {
            fds.push(PollFd::from_borrowed_fd(port.tap.queue(), PollFlags::IN));
            fds.push(PollFd::from_borrowed_fd(port.tap.routes().changes(), PollFlags::IN));
        }
        fds.extend(stopped.map(|stopped| PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::empty())));
        if poll(&mut fds, Some(&time)).is_err() {
            return false;
        }
        let ready: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        let (ready, hung_up) = ready.split_at(2 * self.ports.len());
        for (port, ready) in self.ports.iter().zip(ready.chunks(2)) {
            if !ready[1].is_empty() {
                port.tap.routes().forget_changes();
                self.due = self.due.or(Some(Instant::now() + TOGETHER));
            }
        }
        let mut queues = ready.iter().step_by(2);
        let mut is_gone = || queues.next().is_some_and(|ready| ready.intersects(PollFlags::ERR | PollFlags::HUP));
        let (gone, there) = std::mem::take(&mut self.ports).into_iter().partition(|_| is_gone());
        self.ports = there;
        self.lose(gone);
        hung_up.iter().any(|hung_up| !hung_up.is_empty())
    }

    /// Interfaces that somebody has removed: their routes go, and nothing is exchanged by them any more.
    fn lose(&mut self, gone: Vec<HostPort>) {
        for HostPort { tap, .. } in &gone {
            tracing::error!(
                target: "port", event = "host_interface_gone", interface = %tap.place(),
                "host interface {} was removed: routing daemons are cut off until the gateway is started again", tap.place()
            );
            self.due = Some(Instant::now());
        }
    }

    /// Whether the gateway serves other prefixes than before, or its ports have changed.
    fn look(&mut self) {
        let mut served = self.observer.served();
        served.sort_unstable();
        served.dedup();
        if served != self.served {
            self.served = served;
            self.due = Some(Instant::now());
        }
        let mut views = Vec::new();
        self.observer.with_neighbourhood(&mut |neighbourhood| views.clone_from(&neighbourhood.plan().ports));
        self.views = views;
    }

    /// Frames of the host go to the wire.
    fn take_frames(&mut self) {
        let mut frames = Vec::new();
        for HostPort { port, tap } in &self.ports {
            let Some(view) = self.views.get(usize::from(*port)) else { continue };
            for _ in 0..AT_ONCE {
                let Ok(Some(frame)) = self.from_host.next(*port, tap, view) else { break };
                frames.extend(frame.map(|frame| (*port, frame)));
            }
        }
        if !frames.is_empty() {
            self.observer.send(frames);
        }
        self.observer.shell().host().note_frames(&self.from_host);
    }
}
