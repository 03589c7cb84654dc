//! What is sent when. One thread, two ports.

use std::collections::VecDeque;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use table::histogram::Histogram;
use traffic::{Direction, LatencySummary, Signature};
use wire::Mac;

use super::super::end::{End, drain, wait};
use super::frames6::{neighbour_advertisement, signed6};
use super::line::KINDS;
use super::numbering::{self, Numbering};
use super::receive::{Receiver, Subscribers};
use super::{BroadbandArgs, BroadbandCounts, BroadbandResult, LineArgs, Phase, frames};

/// Time in which another subscriber comes up, or none will.
const CONNECT: Duration = Duration::from_secs(30);
/// Between two attempts of a subscriber.
const AGAIN: Duration = Duration::from_secs(1);
/// Requests of a turn at most.
const WINDOW: usize = 64;
/// After the last packet that arrived.
const DRAIN: Duration = Duration::from_millis(400);
/// After the last packet that was sent.
const LONGEST_DRAIN: Duration = Duration::from_secs(5);
/// Seconds without a look at whether to stop.
const LONGEST_WAIT: f64 = 0.05;
/// A turn of those that ask, when nothing comes.
const TURN: Duration = Duration::from_millis(1);
/// Packets that are sent in a turn at most.
const BURST: u64 = 32;

/// Subscribers and the core's host, with the ports they are at.
pub struct Driver<'a> {
    args: &'a LineArgs,
    access: End,
    core: End,
    at: Receiver<'a>,
    /// Those that are to ask next.
    ready: VecDeque<u32>,
    /// Those that wait for an answer, and since when; the longest first.
    waiting: VecDeque<(Instant, u32)>,
    /// Subscribers that have begun to ask.
    started: u32,
    setup: Duration,
    released: u64,
    /// Where the next look for leases to renew begins.
    renewed: usize,
    /// A frame's memory.
    frame: Vec<u8>,
}

/// Called each second with what there is so far.
pub type Tell<'a> = &'a mut dyn FnMut(Phase, &BroadbandResult);

/// Brings subscribers up, sends, checks, and ends their leases if asked to.
pub fn drive(args: &BroadbandArgs, stop: &AtomicBool, tell: Tell<'_>) -> anyhow::Result<BroadbandResult> {
    let mut driver = Driver::connected(&args.lines, stop, tell)?;
    driver.traffic(Some(args.pps), args.seconds, stop, tell);
    if args.release {
        driver.release(stop, tell);
    }
    driver.close();
    Ok(driver.result(args.seconds))
}

impl<'a> Driver<'a> {
    /// Opens the ports and brings subscribers up.
    ///
    /// # Errors
    /// A port cannot be opened, or the gateway does not answer in the core.
    pub fn connected(args: &'a LineArgs, stop: &AtomicBool, tell: Tell<'_>) -> anyhow::Result<Self> {
        let numbering = args.numbering()?;
        let (access, core) = (End::open("access", &args.access)?, End::open("core", &args.core)?);
        let at = Receiver {
            args,
            core: core.mac,
            gateway: None,
            begin: Instant::now(),
            subscribers: Subscribers::new(numbering, args.subscribers, args.ipv6),
            replies: Default::default(),
            control_wrong_tags: 0,
            counts: Default::default(),
            waited: [(); 2].map(|()| Histogram::new()),
        };
        let (ready, waiting) = Default::default();
        let (setup, frame) = Default::default();
        let mut driver =
            Driver { args, access, core, at, ready, waiting, started: 0, setup, released: 0, renewed: 0, frame };
        driver.connect(stop, tell)?;
        Ok(driver)
    }

    fn numbering(&self) -> Numbering {
        self.at.subscribers.numbering
    }

    /// Until all subscribers have what they ask for, and the core's gateway is known; or nobody comes up any more.
    fn connect(&mut self, stop: &AtomicBool, tell: Tell<'_>) -> anyhow::Result<()> {
        let begin = Instant::now();
        self.announce();
        let (mut last, mut told, mut asked) = (begin, begin, None::<Instant>);
        while last.elapsed() < CONNECT && !stop.load(Ordering::Relaxed) {
            if self.at.gateway.is_none() && asked.is_none_or(|asked| asked.elapsed() > AGAIN) {
                asked = Some(Instant::now());
                let ours = (self.core.mac, self.args.server);
                let request = frames::arp(false, ours, (Mac::BROADCAST, self.args.gateway), None);
                self.core.send(&request);
            }
            self.ask(begin);
            let before = self.at.subscribers.up;
            let received = self.receive();
            if self.at.subscribers.up > before {
                (last, self.setup) = (Instant::now(), begin.elapsed());
            }
            if told.elapsed() > Duration::from_secs(1) {
                told = Instant::now();
                tell(Phase::Setup, &self.result(0.0));
            }
            self.renew();
            if self.at.gateway.is_some() && self.at.subscribers.up == self.args.subscribers {
                return Ok(());
            }
            if received == 0 && self.ready.is_empty() {
                wait([&mut self.access, &mut self.core], TURN);
            }
        }
        if self.at.gateway.is_none() && !stop.load(Ordering::Relaxed) {
            bail!("the gateway's address {} does not answer in the core: does it run?", self.args.gateway);
        }
        Ok(())
    }

    /// Announces the core's hosts, which the gateway may have asked for in vain (RFC 5227, 3; RFC 4861, 7.2.6).
    fn announce(&mut self) {
        for n in 0..self.args.servers {
            let address = self.args.server(n);
            self.core.queue(&frames::arp(false, (self.core.mac, address), (Mac::BROADCAST, address), None));
            if self.args.ipv6 {
                let all = (Mac([0x33, 0x33, 0, 0, 0, 1]), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1));
                self.core.queue(&neighbour_advertisement((self.core.mac, self.args.server6(n)), all, None));
            }
            if n as usize % WINDOW == WINDOW - 1 {
                self.core.flush();
                std::thread::sleep(TURN);
            }
        }
        self.core.flush();
    }

    /// Sends what subscribers have to ask next.
    fn ask(&mut self, begin: Instant) {
        let due = (begin.elapsed().as_secs_f64() * self.args.setup_rate) as u32;
        let due = due.saturating_add(1).min(self.args.subscribers);
        self.ready.extend(self.started..due.max(self.started));
        self.started = due.max(self.started);
        while let Some((since, n)) = self.waiting.front().copied()
            && since.elapsed() >= AGAIN
        {
            self.waiting.pop_front();
            // Whoever was answered meanwhile has asked for something else.
            if self.at.subscribers.lines[n as usize].asked == Some(since) {
                self.ready.push_back(n);
            }
        }
        let now = Instant::now();
        for _ in 0..WINDOW {
            let Some(n) = self.ready.pop_front() else { break };
            let (place, dual) = (self.numbering().place(n), self.args.ipv6);
            let line = &mut self.at.subscribers.lines[n as usize];
            let Some(frame) = line.ask(n, place, dual) else { continue };
            line.asked = Some(now);
            self.waiting.push_back((now, n));
            self.access.queue(&frame);
        }
        self.access.flush();
    }

    /// Takes in what has arrived at both ends, and answers; how many frames there were.
    fn receive(&mut self) -> usize {
        let at = &mut self.at;
        let received = self.access.receive_each(|frame| at.at_lines(frame));
        let received = received + self.core.receive_each(|frame| at.in_core(frame));
        for (end, replies) in [&mut self.access, &mut self.core].into_iter().zip(&mut at.replies) {
            replies.drain(..).for_each(|frame| end.queue(&frame));
            end.flush();
        }
        self.ready.extend(self.at.subscribers.advanced.drain(..));
        received
    }

    /// Sends `pps` packets a second, or as many as the ports take, until the time is over, and receives what is on its way.
    /// Counts begin anew.
    pub fn traffic(&mut self, pps: Option<f64>, seconds: f64, stop: &AtomicBool, tell: Tell<'_>) {
        self.at.counts = Default::default();
        self.at.waited.iter_mut().for_each(Histogram::clear);
        let dual = self.args.ipv6;
        let is_up = |n: &u32| self.at.subscribers.lines[*n as usize].is_up(dual);
        let able: Vec<u32> = (0..self.args.subscribers).filter(is_up).collect();
        let kinds = if dual { KINDS as u64 } else { 1 };
        let begin = Instant::now();
        let time = Duration::from_secs_f64(seconds);
        let (mut sent, mut told): (u64, Instant) = (0, Instant::now());
        while begin.elapsed() < time && !stop.load(Ordering::Relaxed) && !able.is_empty() {
            let due = pps.map_or(sent + BURST, |pps| (begin.elapsed().as_secs_f64() * pps) as u64);
            for _ in 0..due.saturating_sub(sent).min(BURST) {
                // A direction after the other, a subscriber after the other, a kind of address after the other.
                let direction = Direction::BOTH[(sent % 2) as usize];
                let turn = sent / 2;
                let (n, round) = (able[(turn % able.len() as u64) as usize], turn / able.len() as u64);
                self.send(n, (round % kinds) as usize, direction);
                sent += 1;
            }
            self.flush();
            self.receive();
            self.renew();
            if told.elapsed() > AGAIN {
                told = Instant::now();
                tell(Phase::Traffic, &self.result(begin.elapsed().as_secs_f64()));
            }
            if let Some(pps) = pps.filter(|_| due <= sent) {
                let next = (sent + 1) as f64 / pps - begin.elapsed().as_secs_f64();
                wait([&mut self.access, &mut self.core], Duration::from_secs_f64(next.clamp(0.0, LONGEST_WAIT)));
            }
        }
        drain(DRAIN, LONGEST_DRAIN, || {
            self.receive();
            self.at.counts.iter().map(|counts| counts.received_packets).sum()
        });
    }

    /// Renews leases of some subscribers: all have their turn soon.
    fn renew(&mut self) {
        let (numbering, now) = (self.numbering(), Instant::now());
        let lines = &mut self.at.subscribers.lines;
        for _ in 0..WINDOW.min(lines.len()) {
            self.renewed = (self.renewed + 1) % lines.len();
            let n = self.renewed as u32;
            lines[self.renewed].renew(n, numbering.place(n), now, &mut |frame| self.access.queue(&frame));
        }
        self.access.flush();
    }

    /// Ends the leases, as fast as they were asked for.
    fn release(&mut self, stop: &AtomicBool, tell: Tell<'_>) {
        let (begin, mut told, mut n) = (Instant::now(), Instant::now(), 0);
        while n < self.args.subscribers && !stop.load(Ordering::Relaxed) {
            let due = (begin.elapsed().as_secs_f64() * self.args.setup_rate) as u32;
            let due = due.saturating_add(1).min(self.args.subscribers).min(n + WINDOW as u32);
            for n in n..due {
                let frames = self.at.subscribers.lines[n as usize].release(n, self.numbering().place(n));
                self.released += u64::from(!frames.is_empty());
                frames.iter().for_each(|frame| self.access.queue(frame));
            }
            n = due.max(n);
            self.access.flush();
            if self.receive() == 0 {
                wait([&mut self.access, &mut self.core], TURN);
            }
            if told.elapsed() > AGAIN {
                told = Instant::now();
                tell(Phase::Release, &self.result(0.0));
            }
        }
        drain(DRAIN, LONGEST_DRAIN, || self.receive() as u64);
    }

    /// Queues a packet of a subscriber or to it, from or to its address of a kind.
    fn send(&mut self, n: u32, kind: usize, direction: Direction) {
        let (at, Some(gateway)) = (direction.index(), self.at.gateway) else { return };
        let (place, size, ours) = (self.numbering().place(n), self.args.size, self.core.mac);
        let line = &self.at.subscribers.lines[n as usize];
        let router = if kind == 0 { line.router } else { line.router6 };
        let (Some(offer), Some(router)) = (line.offer, router) else { return };
        let flow = n * KINDS as u32 + kind as u32;
        let sent_ns = self.at.begin.elapsed().as_nanos() as u64;
        let mark = Signature { direction, flow, seq: line.sent[kind][at], sent_ns };
        let (stations, tags) = match direction {
            Direction::Uplink => ((router, numbering::mac(n)), Some(place)),
            Direction::Downlink => ((gateway, ours), None),
        };
        let there = |(subscriber, server)| ordered(direction, subscriber, server);
        match line.address6(kind) {
            Some(address) => {
                let addresses = there((address.into(), self.args.server6(n).into()));
                let (std::net::IpAddr::V6(from), std::net::IpAddr::V6(to)) = addresses else { return };
                signed6(&mut self.frame, stations, tags, (from, to), mark, size);
            }
            None => {
                let addresses = there((offer.address.into(), self.args.server(n).into()));
                let (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) = addresses else { return };
                frames::signed(&mut self.frame, stations, tags, (from, to), mark, size);
            }
        }
        let end = if direction == Direction::Uplink { &mut self.access } else { &mut self.core };
        end.queue(&self.frame);
        self.at.subscribers.lines[n as usize].sent[kind][at] += 1;
        self.at.counts[at].sent_packets += 1;
    }

    /// Sends what is queued at both ends.
    fn flush(&mut self) {
        for (end, at) in [(&mut self.access, Direction::Uplink), (&mut self.core, Direction::Downlink)] {
            let unsent = end.flush();
            let counts = &mut self.at.counts[at.index()];
            (counts.sent_packets, counts.unsent_packets) =
                (counts.sent_packets - unsent.min(counts.sent_packets), counts.unsent_packets + unsent);
        }
    }

    /// Leaves the interfaces as they were.
    pub fn close(&mut self) {
        self.access.close();
        self.core.close();
    }

    /// What became of the last traffic, which lasted so long.
    pub fn result(&self, seconds: f64) -> BroadbandResult {
        let (mut sent, mut lost) = (0, 0);
        let mut counts = self.at.counts.clone();
        for (counts, waited) in counts.iter_mut().zip(&self.at.waited) {
            counts.lost_packets = counts.sent_packets.saturating_sub(counts.received_packets);
            let us = LatencySummary::from(waited);
            (counts.latency_us_mean, counts.latency_us_max) = (waited.mean() / 1e3, us.max);
            (counts.latency_us_p50, counts.latency_us_p99) = (us.p50, us.p99);
            sent += counts.sent_packets;
            lost += counts.lost_packets;
        }
        let [uplink, downlink]: [BroadbandCounts; 2] = counts;
        let of = &self.at.subscribers;
        BroadbandResult {
            subscribers: of.lines.len() as u64,
            leases: of.leases,
            routers_resolved: of.routers,
            leases6: of.leases6,
            routers6_resolved: of.routers6,
            setup_seconds: self.setup.as_secs_f64(),
            released: self.released,
            control_wrong_tags: self.at.control_wrong_tags,
            seconds,
            uplink,
            downlink,
            loss_ratio: lost as f64 / sent.max(1) as f64,
        }
    }
}

/// Source and destination of a packet in a direction.
fn ordered<T>(direction: Direction, subscriber: T, server: T) -> (T, T) {
    match direction {
        Direction::Uplink => (subscriber, server),
        Direction::Downlink => (server, subscriber),
    }
}
