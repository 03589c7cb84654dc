//! What is sent when, and what becomes of what arrives. One thread, two ports.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use dataplane::neighbour::NeighbourMessage;
use table::histogram::Histogram;
use traffic::{Arrival, Direction, LatencySummary, Signature, Window};
use wire::{Mac, ethertype, fast};

use super::super::end::{End, drain, wait};
use super::frames::{self, Answer, Offer, Place};
use super::{BroadbandArgs, BroadbandCounts, BroadbandResult, LineArgs};

/// Time for all leases and routers.
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
/// Packets that are sent in a turn at most.
const BURST: u64 = 32;

/// A subscriber.
struct Line {
    place: Place,
    mac: Mac,
    offer: Option<Offer>,
    /// It has the lease.
    is_bound: bool,
    /// The router's hardware address.
    router: Option<Mac>,
    asked: Option<Instant>,
    /// When its lease began, or was asked for anew.
    leased: Option<Instant>,
    /// Sequence numbers sent, by direction.
    sent: [u32; 2],
    /// Those received, by direction.
    windows: [Window; 2],
}

/// Subscribers and the core's host, with the ports they are at.
pub struct Driver<'a> {
    args: &'a LineArgs,
    access: End,
    core: End,
    /// The gateway's hardware address in the core.
    gateway: Option<Mac>,
    lines: Vec<Line>,
    /// Where the next turn of requests begins.
    first: usize,
    begin: Instant,
    control_wrong_tags: u64,
    counts: [BroadbandCounts; 2],
    /// Latencies in nanoseconds.
    waited: [Histogram; 2],
}

/// Brings subscribers up, sends and checks.
pub fn drive(args: &BroadbandArgs, stop: &AtomicBool) -> anyhow::Result<BroadbandResult> {
    let mut driver = Driver::connected(&args.lines, stop)?;
    driver.traffic(Some(args.pps), args.seconds, stop);
    driver.close();
    Ok(driver.result(args.seconds))
}

impl<'a> Driver<'a> {
    /// Opens the ports and brings subscribers up.
    ///
    /// # Errors
    /// A port cannot be opened, or the gateway does not answer in the core.
    pub fn connected(args: &'a LineArgs, stop: &AtomicBool) -> anyhow::Result<Self> {
        let place = args.place()?;
        let (access, core) = (End::open("access", &args.access)?, End::open("core", &args.core)?);
        let line = |n: u16| {
            let [high, low] = n.to_be_bytes();
            Line {
                place: place(n),
                mac: Mac([2, 0xb0, 0, 0, high, low]),
                offer: None,
                is_bound: false,
                router: None,
                asked: None,
                leased: None,
                sent: [0; 2],
                windows: [Window::default(); 2],
            }
        };
        let lines = (0..args.subscribers).map(line).collect();
        let begin = Instant::now();
        let (counts, waited) = (Default::default(), [(); 2].map(|()| Histogram::new()));
        let mut driver =
            Driver { args, access, core, gateway: None, lines, first: 0, begin, control_wrong_tags: 0, counts, waited };
        driver.connect(stop)?;
        Ok(driver)
    }
}

impl Driver<'_> {
    /// Until all subscribers have a lease and know their router, and the core's gateway is known; or the time is over.
    fn connect(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let (until, mut asked) = (Instant::now() + CONNECT, None::<Instant>);
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            if self.gateway.is_none() && asked.is_none_or(|asked| asked.elapsed() > AGAIN) {
                asked = Some(Instant::now());
                let ours = (self.core.mac, self.args.server);
                let request = frames::arp(false, ours, (Mac::BROADCAST, self.args.gateway), None);
                self.core.send(&request);
            }
            self.ask();
            self.receive();
            if self.gateway.is_some() && self.lines.iter().all(|line| line.router.is_some()) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.gateway.is_none() && !stop.load(Ordering::Relaxed) {
            bail!("the gateway's address {} does not answer in the core: does it run?", self.args.gateway);
        }
        Ok(())
    }

    /// Sends what subscribers have to ask next.
    fn ask(&mut self) {
        let (count, mut sent) = (self.lines.len(), 0);
        // Each turn goes on where the last one ended: those that get no answer hold up nobody.
        let first = self.first;
        for n in (0..count).map(|by| (first + by) % count) {
            let line = &mut self.lines[n];
            if line.router.is_some() || line.asked.is_some_and(|asked| asked.elapsed() < AGAIN) {
                continue;
            }
            if sent == WINDOW {
                return;
            }
            (sent, self.first) = (sent + 1, n + 1);
            line.asked = Some(Instant::now());
            let router = line.offer.and_then(|offer| Some((offer.address, offer.router?)));
            let frame = match (line.is_bound, router) {
                (true, Some((ours, router))) => {
                    frames::arp(false, (line.mac, ours), (Mac::BROADCAST, router), Some(line.place))
                }
                _ => frames::dhcp(line.mac, line.place, n as u32, line.offer.as_ref()),
            };
            self.access.send(&frame);
        }
    }

    /// Takes in what has arrived at both ends.
    fn receive(&mut self) {
        self.access.receive().iter().for_each(|frame| self.at_lines(frame));
        self.core.receive().iter().for_each(|frame| self.in_core(frame));
    }

    /// A frame at the access lines.
    fn at_lines(&mut self, frame: &[u8]) {
        let Ok(outer) = wire::Outer::parse(frame) else { return };
        let packet = frame.get(usize::from(outer.l3)..).unwrap_or_default();
        if outer.ethertype == ethertype::ARP {
            return self.arp_at_lines(frame);
        }
        if let Some((xid, answer)) = frames::dhcp_answer(packet) {
            let Some(line) = self.lines.get_mut(xid as usize) else { return };
            if !line.place.is_of(frame) || (frame[..6] != line.mac.0 && frame[..6] != Mac::BROADCAST.0) {
                self.control_wrong_tags += 1;
                return;
            }
            match answer {
                Answer::Offer(offer) if !line.is_bound => line.offer = Some(offer),
                Answer::Ack(offer) => {
                    (line.offer, line.is_bound, line.leased) = (Some(offer), true, Some(Instant::now()));
                }
                // RFC 2131, 3.1, 4: from the beginning.
                Answer::Nak if !line.is_bound => line.offer = None,
                Answer::Offer(_) | Answer::Nak => return,
            }
            // What comes next is due now.
            line.asked = None;
            return;
        }
        let Some(mark) = frames::signature(packet).filter(|mark| mark.direction == Direction::Downlink) else { return };
        let counts = &mut self.counts[Direction::Downlink.index()];
        let Some(line) = self.lines.get(mark.flow as usize) else {
            counts.misdelivered_packets += 1;
            return;
        };
        if !line.place.is_of(frame) {
            counts.wrong_tags_packets += 1;
            return;
        }
        let ours = line.offer.map(|offer| (self.args.server, offer.address));
        let is_ours = frame[..6] == line.mac.0;
        self.check(mark, is_ours, packet, ours);
    }

    /// ARP at the access lines: a router's answer is of the line whose tags it has, and a subscriber is asked for by its
    /// line's.
    fn arp_at_lines(&mut self, frame: &[u8]) {
        if let Ok(NeighbourMessage::ArpRequest { sender, sender_ip, target }) = NeighbourMessage::parse(frame) {
            let has = |line: &&Line| line.is_bound && line.offer.is_some_and(|offer| is(target, offer.address));
            let line = self.lines.iter().find(|line| has(line) && line.place.is_of(frame));
            let (Some(line), IpAddr::V4(theirs), IpAddr::V4(ours)) =
                (line, IpAddr::from(sender_ip), IpAddr::from(target))
            else {
                return;
            };
            let reply = frames::arp(true, (line.mac, ours), (sender, theirs), Some(line.place));
            self.access.send(&reply);
            return;
        }
        let Ok(NeighbourMessage::ArpReply { sender, sender_ip, target }) = NeighbourMessage::parse(frame) else {
            return;
        };
        let asked =
            |line: &&mut Line| line.offer.is_some_and(|offer| IpAddr::from(offer.address) == IpAddr::from(target));
        let Some(line) = self.lines.iter_mut().find(asked) else { return };
        match line.place.is_of(frame) {
            true if line.offer.and_then(|offer| offer.router).map(IpAddr::from) == Some(IpAddr::from(sender_ip)) => {
                line.router = Some(sender);
            }
            true => {}
            false => self.control_wrong_tags += 1,
        }
    }

    /// A frame in the core.
    fn in_core(&mut self, frame: &[u8]) {
        match NeighbourMessage::parse(frame) {
            Ok(NeighbourMessage::ArpReply { sender, sender_ip, .. }) if is(sender_ip, self.args.gateway) => {
                self.gateway = Some(sender);
                return;
            }
            Ok(NeighbourMessage::ArpRequest { sender, sender_ip, target }) if is(target, self.args.server) => {
                let IpAddr::V4(theirs) = IpAddr::from(sender_ip) else { return };
                let reply = frames::arp(true, (self.core.mac, self.args.server), (sender, theirs), None);
                self.core.send(&reply);
                return;
            }
            _ => {}
        }
        let is_ip = fast::be16(frame, 12) == Some(ethertype::IP4);
        let packet = frame.get(14..).filter(|_| is_ip).unwrap_or_default();
        let Some(mark) = frames::signature(packet).filter(|mark| mark.direction == Direction::Uplink) else { return };
        let offer = self.lines.get(mark.flow as usize).and_then(|line| line.offer);
        let wanted = offer.map(|offer| (offer.address, self.args.server));
        let is_ours = frame[..6] == self.core.mac.0;
        self.check(mark, is_ours, packet, wanted);
    }

    /// Counts a signed packet; `wanted`: source and destination that its flow has.
    fn check(&mut self, mark: Signature, is_ours: bool, packet: &[u8], wanted: Option<(Ipv4Addr, Ipv4Addr)>) {
        let at = mark.direction.index();
        let counts = &mut self.counts[at];
        let Some(addresses) = frames::forwarded(packet) else {
            counts.corrupt_packets += 1;
            return;
        };
        let Some(line) = self.lines.get_mut(mark.flow as usize).filter(|_| is_ours && wanted == Some(addresses)) else {
            counts.misdelivered_packets += 1;
            return;
        };
        match line.windows[at].note(mark.seq) {
            Arrival::InOrder => {}
            Arrival::Reordered | Arrival::Stale => counts.reordered_packets += 1,
            Arrival::Duplicate => {
                counts.duplicated_packets += 1;
                return;
            }
        }
        counts.received_packets += 1;
        let waited = (self.begin.elapsed().as_nanos() as u64).saturating_sub(mark.sent_ns);
        self.waited[at].record(waited);
    }

    /// Sends `pps` packets a second, or as many as the ports take, until the time is over, and receives what is on its way.
    /// Counts begin anew.
    pub fn traffic(&mut self, pps: Option<f64>, seconds: f64, stop: &AtomicBool) {
        self.counts = Default::default();
        self.waited.iter_mut().for_each(Histogram::clear);
        let able: Vec<usize> = (0..self.lines.len()).filter(|n| self.lines[*n].router.is_some()).collect();
        let begin = Instant::now();
        let time = Duration::from_secs_f64(seconds);
        let (mut sent, mut renewed): (u64, Instant) = (0, Instant::now());
        while begin.elapsed() < time && !stop.load(Ordering::Relaxed) && !able.is_empty() {
            let due = pps.map_or(sent + BURST, |pps| (begin.elapsed().as_secs_f64() * pps) as u64);
            for _ in 0..due.saturating_sub(sent).min(BURST) {
                // A direction after the other, a subscriber after the other.
                let direction = Direction::BOTH[(sent % 2) as usize];
                let n = able[(sent / 2 % able.len() as u64) as usize];
                self.send(n, direction);
                sent += 1;
            }
            self.receive();
            if renewed.elapsed() > AGAIN {
                renewed = Instant::now();
                self.renew();
            }
            if let Some(pps) = pps.filter(|_| due <= sent) {
                let next = (sent + 1) as f64 / pps - begin.elapsed().as_secs_f64();
                wait([&mut self.access, &mut self.core], Duration::from_secs_f64(next.clamp(0.0, LONGEST_WAIT)));
            }
        }
        drain(DRAIN, LONGEST_DRAIN, || {
            self.receive();
            self.counts.iter().map(|counts| counts.received_packets).sum()
        });
    }

    /// Asks for leases anew of which half is over (RFC 2131, 4.4.5).
    fn renew(&mut self) {
        for (n, line) in self.lines.iter_mut().enumerate() {
            let Some((offer, leased)) = line.offer.as_ref().zip(line.leased) else { continue };
            let half = Duration::from_secs(u64::from(offer.lease_seconds.unwrap_or(u32::MAX)) / 2);
            if leased.elapsed() > half {
                line.leased = Some(Instant::now());
                self.access.send(&frames::dhcp(line.mac, line.place, n as u32, Some(offer)));
            }
        }
    }

    fn send(&mut self, n: usize, direction: Direction) {
        let (line, at) = (&mut self.lines[n], direction.index());
        let (Some(offer), Some(router), Some(gateway)) = (line.offer, line.router, self.gateway) else { return };
        let sent_ns = self.begin.elapsed().as_nanos() as u64;
        let mark = Signature { direction, flow: n as u32, seq: line.sent[at], sent_ns };
        let (server, size) = (self.args.server, self.args.size);
        let is_sent = match direction {
            Direction::Uplink => {
                let frame = frames::signed((router, line.mac), Some(line.place), (offer.address, server), mark, size);
                self.access.send(&frame)
            }
            Direction::Downlink => {
                let frame = frames::signed((gateway, self.core.mac), None, (server, offer.address), mark, size);
                self.core.send(&frame)
            }
        };
        if is_sent {
            line.sent[at] += 1;
            self.counts[at].sent_packets += 1;
        } else {
            self.counts[at].unsent_packets += 1;
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
        let mut counts = self.counts.clone();
        for (counts, waited) in counts.iter_mut().zip(&self.waited) {
            counts.lost_packets = counts.sent_packets.saturating_sub(counts.received_packets);
            let us = LatencySummary::from(waited);
            (counts.latency_us_mean, counts.latency_us_max) = (waited.mean() / 1e3, us.max);
            (counts.latency_us_p50, counts.latency_us_p99) = (us.p50, us.p99);
            sent += counts.sent_packets;
            lost += counts.lost_packets;
        }
        let [uplink, downlink] = counts;
        let number = |is: fn(&Line) -> bool| self.lines.iter().filter(|line| is(line)).count() as u64;
        BroadbandResult {
            subscribers: self.lines.len() as u64,
            leases: number(|line| line.is_bound),
            routers_resolved: number(|line| line.router.is_some()),
            control_wrong_tags: self.control_wrong_tags,
            seconds,
            uplink,
            downlink,
            loss_ratio: lost as f64 / sent.max(1) as f64,
        }
    }
}

fn is(one: impl Into<IpAddr>, other: Ipv4Addr) -> bool {
    one.into() == IpAddr::from(other)
}
