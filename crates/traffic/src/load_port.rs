//! Both ends of a load in process: the ports of a gateway that is measured in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use frame::{BURST, Batch, Caps, Frame, Pool, Port, PortCounters};
use table::histogram::Histogram;

use crate::checker::{Checker, Verify};
use crate::clock::Clock;
use crate::direction::Direction;
use crate::error::ProfileError;
use crate::generator::Generator;
use crate::neighbours::Neighbours;
use crate::plan::Plan;
use crate::responder::reflect;
use crate::result::{Account, TrialResult};
use crate::sender::{Balance, Schedule, Sender};

/// Frames a [`LoadPort`] keeps for the gateway to receive: answers, and what was turned around.
const WAITING: usize = 4096;

/// A gateway's port whose far side is the load: receiving yields generated packets, sending checks what comes out.
/// Two of them, N3 and N6, make a trial without any I/O; see [`LoadPort::pair`]. Never refuses to send; holds frames
/// only while answers or turned packets wait.
pub struct LoadPort {
    end: Arc<Mutex<End>>,
    clock: Clock,
    name: &'static str,
    mac: [u8; 6],
    waiting: VecDeque<Frame>,
    /// Whether what comes out is turned around instead of ending here.
    mirror: bool,
    neighbours: Neighbours,
}

/// One link's share of the load.
struct End {
    sender: Sender,
    checker: Checker,
    counters: PortCounters,
    /// Whether packets are turned around, and how many were since counting began.
    turning: bool,
    turned: u64,
}

/// What a load in process is steered and asked by. Clones are the same load.
#[derive(Clone)]
pub struct LoadHandle {
    plan: Arc<Plan>,
    ends: [Arc<Mutex<End>>; 2],
    clock: Clock,
    mirror: bool,
}

impl LoadPort {
    /// N3, N6 and the handle of a load that stands still until [`LoadHandle::start`]. With `mirror`, N6 turns around
    /// what comes out of it instead of generating: latencies of the downlink are then round trips.
    ///
    /// # Errors
    /// None that the plan has not found already.
    pub fn pair(
        plan: &Arc<Plan>,
        verify: Verify,
        clock: Clock,
        mirror: bool,
    ) -> Result<(Self, Self, LoadHandle), ProfileError> {
        let balance = if mirror { Balance::mirrored() } else { Balance::new(plan.profile().ratio) };
        let end = |sends: Direction, checker| {
            let sender = Sender::new(Generator::new(plan, sends)?, balance.clone());
            Ok(Arc::new(Mutex::new(End {
                sender,
                checker,
                counters: PortCounters::default(),
                turning: false,
                turned: 0,
            })))
        };
        let back =
            if mirror { Checker::round_trip(plan, verify) } else { Checker::new(plan, Direction::Downlink, verify) };
        let ends =
            [end(Direction::Uplink, back)?, end(Direction::Downlink, Checker::new(plan, Direction::Uplink, verify))?];
        let port = |sends: Direction, name| Self {
            end: ends[sends.index()].clone(),
            clock: clock.clone(),
            name,
            mac: plan.profile().entry(sends).gateway.0,
            waiting: VecDeque::with_capacity(WAITING),
            mirror: mirror && sends == Direction::Downlink,
            neighbours: Neighbours::new(plan.profile(), sends),
        };
        let ports = (port(Direction::Uplink, "n3"), port(Direction::Downlink, "n6"));
        Ok((ports.0, ports.1, LoadHandle { plan: plan.clone(), ends, clock, mirror }))
    }

    /// What to do with a frame the checker did not want.
    #[cold]
    fn other(&mut self, pool: &mut Pool, mut frame: Frame) {
        let len = frame.len();
        let answer = self.neighbours.answer(pool.arena().space_mut(&mut frame), len);
        match answer {
            Some(len) if self.waiting.len() < WAITING => {
                pool.arena().set_len(&mut frame, len);
                self.waiting.push_back(frame);
            }
            answer => {
                if answer.is_none() {
                    lock(&self.end).checker.note_foreign();
                }
                pool.give(frame);
            }
        }
    }
}

impl Port for LoadPort {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let before = out.len();
        while out.room() > 0 {
            let Some(frame) = self.waiting.pop_front() else { break };
            if let Err(frame) = out.push(frame) {
                self.waiting.push_front(frame);
                break;
            }
        }
        let mut end = lock(&self.end);
        // Read inside the lock: what is signed before a mark must be made before it.
        let now_ns = self.clock.now_ns();
        if !self.mirror {
            end.sender.fill(pool, out, now_ns);
        }
        let bytes: usize = out.frames()[before..].iter().map(Frame::len).sum();
        end.counters.rx_packets += (out.len() - before) as u64;
        end.counters.rx_bytes += bytes as u64;
        let made = end.sender.generator.made();
        (end.counters.rx_no_frame, end.counters.rx_too_long) = (made.no_frame, made.no_room);
        out.len() - before
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let sent = batch.len();
        if sent == 0 {
            return 0;
        }
        let now_ns = self.clock.now_ns();
        let mut odd = [const { Frame::none() }; BURST];
        let mut odds = 0;
        {
            let mut end = lock(&self.end);
            end.counters.tx_packets += sent as u64;
            batch.drain(|mut frame| {
                end.counters.tx_bytes += frame.len() as u64;
                if !end.checker.check_signed(pool.arena().bytes(&frame), now_ns) {
                    odd[odds] = frame;
                    odds += 1;
                } else if self.mirror
                    && self.waiting.len() < WAITING
                    && end.turning
                    && reflect(pool.arena().bytes_mut(&mut frame))
                {
                    end.turned += 1;
                    self.waiting.push_back(frame);
                } else {
                    pool.give(frame);
                }
            });
        }
        for frame in &mut odd[..odds] {
            self.other(pool, frame.take());
        }
        sent
    }

    fn service(&mut self, _pool: &mut Pool) {}

    fn caps(&self) -> Caps {
        // Whatever the load sends must fit.
        let mtu = lock(&self.end).sender.generator.largest_packet().max(1500) as u32;
        Caps { kind: "memory", name: self.name.to_owned(), mac: self.mac, mtu, ..Caps::default() }
    }

    fn counters(&self) -> PortCounters {
        lock(&self.end).counters
    }

    fn held(&self) -> usize {
        self.waiting.len()
    }

    fn close(&mut self, pool: &mut Pool) {
        self.waiting.drain(..).for_each(|frame| pool.give(frame));
    }
}

impl LoadHandle {
    /// Begins to send by that schedule, and to count.
    pub fn start(&self, schedule: &Schedule) {
        let [mut up, mut down] = self.lock();
        let now_ns = self.clock.now_ns();
        for end in [&mut up, &mut down] {
            end.sender.start(schedule, now_ns);
            end.turning = self.mirror;
            end.mark(now_ns);
        }
    }

    /// Counts from now on: what was sent before is forgotten, and what of it still arrives is not counted.
    pub fn mark(&self) {
        let [mut up, mut down] = self.lock();
        let now_ns = self.clock.now_ns();
        for end in [&mut up, &mut down] {
            end.sender.mark(now_ns);
            end.mark(now_ns);
        }
    }

    /// Sends no more. What is on its way still arrives and is counted.
    pub fn stop(&self) {
        let [mut up, mut down] = self.lock();
        let now_ns = self.clock.now_ns();
        up.sender.stop(now_ns);
        down.sender.stop(now_ns);
    }

    /// Whether nothing will be sent any more: stopped, or all packets of the schedule are sent.
    pub fn is_done(&self) -> bool {
        let [up, down] = self.lock();
        !up.sender.is_running() && !down.sender.is_running()
    }

    /// Packets sent and not yet come out (nor ever, if they were dropped), since counting began.
    pub fn missing(&self) -> u64 {
        let [up, down] = self.lock();
        self.accounts(&up, &down).iter().map(|account| account.sent.saturating_sub(account.seen.received())).sum()
    }

    /// What was found since counting began.
    pub fn result(&self) -> TrialResult {
        Self::results(std::slice::from_ref(self))
    }

    /// What several loads of one profile, one for each worker, found together; nothing for no loads.
    pub fn results(loads: &[Self]) -> TrialResult {
        let mut seconds = 0f64;
        let mut sums = [(Account::default(), Histogram::new()), (Account::default(), Histogram::new())];
        for load in loads {
            let [up, down] = load.lock();
            let now_ns = load.clock.now_ns();
            let elapsed_ns = up.sender.elapsed_ns(now_ns).max(down.sender.elapsed_ns(now_ns));
            seconds = seconds.max(elapsed_ns as f64 / 1e9);
            let found = load.accounts(&up, &down).into_iter().zip([&down, &up]);
            for ((sum, latencies), (account, checked_by)) in sums.iter_mut().zip(found) {
                *sum = sum.plus(&account);
                latencies.merge(checked_by.checker.latencies());
            }
        }
        let [(up, up_latencies), (down, down_latencies)] = &sums;
        match loads.first() {
            Some(load) => TrialResult::of(load.plan.profile(), seconds, [(*up, up_latencies), (*down, down_latencies)]),
            None => TrialResult::default(),
        }
    }

    fn accounts(&self, up: &End, down: &End) -> [Account; 2] {
        let now_ns = self.clock.now_ns();
        let sent = |end: &End| {
            let made = end.sender.made();
            let (sent, sent_ip_bytes) = (made.packets, made.ip_bytes);
            Account { offered: end.sender.offered(now_ns), sent, sent_ip_bytes, ..Account::default() }
        };
        let uplink = Account { seen: down.checker.seen(), ..sent(up) };
        let mut downlink = Account { seen: up.checker.seen(), ..sent(down) };
        if self.mirror {
            let turned = down.turned;
            let sent_ip_bytes = (uplink.sent_ip_bytes as f64 / uplink.sent.max(1) as f64 * turned as f64) as u64;
            downlink = Account { offered: turned, sent: turned, sent_ip_bytes, ..downlink };
        }
        [uplink, downlink]
    }

    fn lock(&self) -> [MutexGuard<'_, End>; 2] {
        let [up, down] = &self.ends;
        [lock(up), lock(down)]
    }
}

impl End {
    fn mark(&mut self, now_ns: u64) {
        self.checker.count_from(now_ns);
        self.turned = 0;
    }
}

/// The lock is the port's for a burst and the handle's for a glance: nearly always free.
fn lock(end: &Mutex<End>) -> MutexGuard<'_, End> {
    end.lock().expect("no code panics holding a load's end")
}
