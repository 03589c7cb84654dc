//! A worker without packets: it polls, or sleeps until a descriptor is readable or something is due.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use table::waker::Waker;

use super::Worker;
use crate::clock::{Clock, Tsc};
use crate::gateway::Gateway;
use crate::idle::Rest;
use crate::stats::Io;

/// The first sleep between two looks at a port that has nothing to wait on. Each that brings nothing is followed by one of
/// twice the time, up to [`Idle::moderate`](crate::Idle::moderate).
pub(super) const WITHOUT_FD: Duration = Duration::from_micros(50);
/// Descriptors a worker sleeps on, at most: as many as one `poll` takes. With more it looks each [`WITHOUT_FD`].
const FDS: usize = 16;

/// What made a descriptor readable.
#[derive(Clone, Copy)]
enum Source {
    /// Packets wait.
    Packets,
    /// The interface of that port has changed.
    Change(usize),
    /// The gateway is called: a command, packets handed over.
    Call,
}

/// What a worker sleeps on.
struct Fds<'a> {
    list: [Option<(BorrowedFd<'a>, Source)>; FDS],
    count: usize,
    /// Something has no descriptor.
    partial: bool,
    /// Some descriptors have no place.
    overflow: bool,
}

impl<'a> Fds<'a> {
    fn add(&mut self, fd: Option<BorrowedFd<'a>>, source: Source) {
        let Some(fd) = fd else { return };
        match self.list.get_mut(self.count) {
            Some(place) => {
                *place = Some((fd, source));
                self.count += 1;
            }
            None => self.overflow = true,
        }
    }

    /// Ports whose changes are listened to, as bits.
    fn heard(&self) -> u64 {
        let ports = self.list.iter().flatten().filter_map(|(_, source)| match source {
            Source::Change(port) => Some(*port),
            _ => None,
        });
        ports.fold(0, |bits, port| bits | 1 << (port & 63))
    }

    /// Sleeps; what happened, by place.
    fn wait(&self, longest: Duration) -> [Option<Source>; FDS] {
        let mut happened = [None; FDS];
        let Some((first, _)) = self.list[0] else {
            std::thread::sleep(longest);
            return happened;
        };
        let list: [BorrowedFd<'_>; FDS] = std::array::from_fn(|n| self.list[n].map_or(first, |(fd, _)| fd));
        // An error can only be a bad descriptor; its port finds that out itself.
        let ready = frame::wait_readable(&list[..self.count], longest).unwrap_or(0);
        for (n, place) in self.list.iter().enumerate().filter(|(n, _)| ready >> n & 1 != 0) {
            happened[n] = place.map(|(_, source)| source);
        }
        happened
    }
}

impl<G: Gateway> Worker<G> {
    /// Spends the time after an empty turn.
    pub(super) fn rest(&mut self) {
        match self.pace.rest(Tsc::cycles()) {
            Rest::Poll => std::hint::spin_loop(),
            Rest::Yield => std::thread::yield_now(),
            Rest::Moderate(time) => self.sleep(Some(time)),
            Rest::Sleep => self.sleep(None),
        }
    }

    /// It is awake again; `called`: what it sleeps on was readable, or it did not sleep after all.
    fn wake_up(&self, called: bool) {
        match self.gateway.waker() {
            Some(waker) if called => drop(waker.drain()),
            Some(waker) => waker.awake(),
            None => {}
        }
    }

    /// Sleeps; with a time, for that time whatever packets come.
    fn sleep(&mut self, moderate: Option<Duration>) {
        if self.unkicked_since.is_some() {
            let begin = Tsc::cycles();
            self.kick();
            self.env.stats.add(Io::TxCycles, Tsc::cycles().wrapping_sub(begin));
        }
        if moderate.is_none() && self.ports_want_a_look() {
            return;
        }
        let now = self.config.time.now_ns(Tsc::cycles());
        if self.stale && moderate.is_none() {
            // Who looks at the gauges sees them as they were when the worker fell asleep.
            self.gauges();
            self.stale = false;
        }
        let longest = self.longest_sleep(now).min(moderate.unwrap_or(Duration::MAX));
        self.gateway.waker().inspect(|waker| waker.fall_asleep());
        let called = !self.gateway.fall_asleep();
        // Looked at when other workers know that this one sleeps: what they hand over from here on wakes it.
        let handed = self.hand_off.as_mut().is_some_and(|hand_off| !hand_off.is_empty());
        if called || handed || !self.again.is_empty() || longest.is_zero() {
            self.wake_up(true);
            // What keeps it awake may need this CPU.
            std::thread::yield_now();
            return;
        }
        let fds = self.fds(moderate.is_none());
        let blind = match (fds.overflow, fds.partial) {
            (true, _) => WITHOUT_FD,
            (false, true) => self.blind,
            (false, false) => Duration::MAX,
        };
        let doubles = fds.partial && !fds.overflow;
        let longest = longest.min(blind);
        self.env.stats.set(Io::SleepsUntil, now.saturating_add(longest.as_nanos() as u64).max(1));
        let heard = fds.heard();
        let happened = fds.wait(longest);
        self.env.stats.set(Io::SleepsUntil, 0);
        self.env.stats.add(Io::Sleeps, 1);
        self.wake_up(happened.iter().any(|what| matches!(what, Some(Source::Call))));
        self.env.stats.set(Io::CpuNs, self.meter.begin());
        if moderate.is_some() {
            return; // it did not listen to them
        }
        if doubles && happened.iter().all(Option::is_none) {
            self.blind = (2 * blind).min(self.config.idle.moderate).max(WITHOUT_FD);
        }
        for (n, door) in self.ports.iter_mut().enumerate() {
            if happened.iter().any(|what| matches!(what, Some(Source::Change(port)) if *port == n)) {
                door.port.changed();
            } else if heard >> n & 1 != 0 {
                door.port.unchanged();
            }
        }
    }

    /// Tells each port that the worker is about to sleep; whether one has to be looked at before.
    fn ports_want_a_look(&mut self) -> bool {
        let mut look = false;
        for door in &mut self.ports {
            look |= !door.port.fall_asleep();
        }
        look
    }

    /// How long nothing is due.
    fn longest_sleep(&self, now: u64) -> Duration {
        let until = |at: u64| Duration::from_nanos(at.saturating_sub(now));
        let within = self.ports.iter().filter_map(|door| door.port.service_within());
        let deadline = self.gateway.next_deadline().map(until);
        within.chain(deadline).fold(self.config.idle.sleep, Duration::min)
    }

    /// What to sleep on; packets among it, if they are to wake it.
    fn fds(&self, packets_wake: bool) -> Fds<'_> {
        let mut fds = Fds { list: [None; FDS], count: 0, partial: false, overflow: false };
        // The gateway first: there is always room for it.
        let call = self.gateway.waker().map(Waker::fd);
        fds.partial |= call.is_none();
        fds.add(call, Source::Call);
        // Those that share a device wait with it.
        let devices = self.ports.iter().enumerate().filter(|(_, door)| door.on.is_none());
        for (n, door) in devices.filter(|_| packets_wake) {
            let (packets, change) = (door.port.wait_fd(), door.port.change_fd());
            // While its interface is gone, a port waits for another.
            fds.partial |= packets.is_none() && change.is_none();
            fds.add(packets, Source::Packets);
            fds.add(change, Source::Change(n));
        }
        fds
    }
}
