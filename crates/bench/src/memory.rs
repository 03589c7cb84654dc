//! A gateway in memory: what it receives is generated where it stands, what it sends is checked there. No I/O at all,
//! so what is left is the gateway.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use engine::{Idle, Worker, WorkerConfig};
use frame::{Arena, ArenaConfig, Caps, Pool, Port};
use traffic::{Clock, LoadHandle, LoadPort, Plan, Schedule, Verify};

use crate::crew::Hand;
use crate::error::BenchError;
use crate::score::{Part, Score, Times};
use crate::under_test::{Control, UnderTest, time};
use crate::window::{Closing, How, Rig, Window};

/// Packets in flight fit many times over; a stock this size stays in the second-level cache's reach.
const SLOTS: u32 = 2048;
const MTU: u32 = 1600;

/// Workers of one gateway, each with an N3 and an N6 of its own, whose far sides are its subscribers' load.
pub struct MemoryRig {
    score: Score,
    loads: Vec<LoadHandle>,
    hands: Vec<Hand>,
    arena: Arc<Arena>,
    _control: Box<dyn Control>,
    /// Bytes of sessions, rules and indexes.
    pub session_bytes: usize,
    /// From nothing to ready.
    pub start: Duration,
}

impl MemoryRig {
    /// Assembles a gateway and its load.
    ///
    /// # Errors
    /// What can not be, or what the machine has too little of.
    pub fn new<U: UnderTest>(under: &U, workers: u16, cpus: &[usize]) -> Result<Self, BenchError> {
        let traffic = under.traffic();
        let caps = |mac| Caps { kind: "memory", mac, mtu: MTU, ..Caps::default() };
        let begin = Instant::now();
        let made = under.assemble(workers, &[caps(traffic.access.gateway.0), caps(traffic.core.gateway.0)])?;
        let start = begin.elapsed();
        let slots = SLOTS * u32::from(workers);
        let arena = Arena::new(ArenaConfig { slots, ..ArenaConfig::default() })
            .map_err(|error| BenchError::system("memory for packets", error))?;
        let score = Score::default();
        let (mut loads, mut hands) = (Vec::new(), Vec::new());
        let mut base = 0;
        for (n, seat) in made.seats.into_iter().enumerate() {
            if seat.users.is_empty() {
                return Err(BenchError::Asked(format!("{workers} workers for {} subscribers", traffic.ues)));
            }
            let plan = Plan::subset(traffic.clone(), seat.users, base)?;
            base += plan.flow_count();
            let (n3, n6, load) = LoadPort::pair(&plan, Verify::default(), Clock::tsc(), false)?;
            loads.push(load);
            let pool = Pool::new(&arena, SLOTS as usize);
            let ports: Vec<Box<dyn Port>> = vec![Box::new(n3), Box::new(n6)];
            let config = WorkerConfig { time: time(), idle: Idle::POLL, ..WorkerConfig::default() };
            let worker = Worker::new(seat.gateway, seat.layout, pool, ports, config);
            let score = if usize::from(workers) > cpus.len() { score.polite() } else { score.clone() };
            let cpu = cpus[n % cpus.len()];
            hands.push(Hand::new(format!("worker-{n}"), Box::new(worker), score, cpu)?);
        }
        Ok(Self { score, loads, hands, arena, _control: made.control, session_bytes: made.session_bytes, start })
    }
}

impl Rig for MemoryRig {
    fn window(&mut self, how: &How, stop: &AtomicBool) -> Result<Window, BenchError> {
        let times = Times { warm: Duration::from_millis(30), measure: how.measure, drain: Duration::from_millis(2) };
        let schedule = Schedule { pps: how.pps, ..Schedule::default() };
        let (loads, hands) = (&self.loads, &self.hands);
        let played = self.score.play(&times, stop, |part| match part {
            Part::Warm => {
                loads.iter().for_each(|load| load.start(&schedule));
                hands.iter().for_each(|hand| hand.window(how));
            }
            Part::Measure => loads.iter().for_each(LoadHandle::mark),
            Part::Drain => loads.iter().for_each(LoadHandle::stop),
            _ => {}
        });
        let workers = self.hands.iter().map(Hand::slice).collect::<Result<Vec<_>, _>>()?;
        self.score.rest();
        played?;
        Ok(Window { traffic: LoadHandle::results(&self.loads), workers, generator_busy: None })
    }

    fn close(self: Box<Self>) -> Result<Closing, BenchError> {
        let mut packets_missing = 0;
        for hand in self.hands {
            packets_missing += hand.close()?.packets_missing.abs();
        }
        let frames_lost = i64::from(self.arena.shape().slots) - self.arena.in_depot() as i64;
        Ok(Closing { frames_lost, packets_missing })
    }
}
