//! A gateway in memory: what it receives is generated where it stands, what it sends is checked there. No I/O at all,
//! so what is left is the gateway.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Caps, Pool, Port};
use traffic::{Clock, LoadHandle, LoadPort, Plan, Schedule, Verify};

use crate::bursts::{Giving, SmallBursts};
use crate::crew::{Hand, Working};
use crate::error::BenchError;
use crate::score::{Manners, Part, Score, Times};
use crate::under_test::{Control, UnderTest};
use crate::window::{Closing, How, Rig, Window};

/// Packets in flight fit many times over; a stock this size stays in the second-level cache's reach.
const SLOTS: u32 = 2048;
const MTU: u32 = 1600;

/// Workers of one or several gateways, each with an N3 and an N6 of its own, whose far sides are its subscribers' load.
pub struct MemoryRig {
    score: Score,
    loads: Vec<LoadHandle>,
    hands: Vec<Hand>,
    arenas: Vec<Arc<Arena>>,
    controls: Vec<Box<dyn Control>>,
    giving: Arc<Giving>,
    /// Bytes of sessions, rules and indexes.
    pub session_bytes: usize,
    /// From nothing to ready.
    pub start: Duration,
}

impl MemoryRig {
    /// Assembles `instances` gateways of `workers` workers each, and their load.
    ///
    /// # Errors
    /// What cannot be, or what the machine has too little of.
    pub fn new<U: UnderTest>(under: &U, instances: u16, workers: u16, cpus: &[usize]) -> Result<Self, BenchError> {
        let traffic = under.traffic();
        let caps = |mac| Caps { kind: "memory", mac, mtu: MTU, ..Caps::default() };
        let caps = [caps(traffic.access.gateway.0), caps(traffic.core.gateway.0)];
        let (all, score) = (usize::from(instances) * usize::from(workers), Score::default());
        let mut rig = Self {
            score: score.clone(),
            loads: vec![],
            hands: vec![],
            arenas: vec![],
            session_bytes: 0,
            start: Duration::ZERO,
            controls: vec![],
            giving: Arc::default(),
        };
        for _ in 0..instances {
            let begin = Instant::now();
            let made = under.assemble(workers, &caps)?;
            rig.start += begin.elapsed();
            rig.session_bytes += made.session_bytes;
            rig.controls.push(made.control);
            let arena = Arena::new(ArenaConfig { slots: SLOTS * u32::from(workers), ..ArenaConfig::default() })
                .map_err(|error| BenchError::system("memory for packets", error))?;
            let mut base = 0;
            for mut seat in made.seats {
                if seat.users.is_empty() {
                    return Err(BenchError::Asked(format!("{workers} workers for {} subscribers", traffic.ues)));
                }
                let plan = Plan::subset(traffic.clone(), std::mem::take(&mut seat.users), base)?;
                base += plan.flow_count();
                let (n3, n6, load) = LoadPort::pair(&plan, Verify::default(), Clock::tsc(), false)?;
                rig.loads.push(load);
                let [n3, n6] = [n3, n6].map(|port| -> Box<dyn Port> { Box::new(SmallBursts::new(port, &rig.giving)) });
                let worker = Working::new(seat, Pool::new(&arena, SLOTS as usize), [n3, n6]);
                let n = rig.hands.len();
                let score = if all > cpus.len() { score.with(Manners::Sharing) } else { score.clone() };
                rig.hands.push(Hand::new(format!("worker-{n}"), Box::new(worker), score, cpus[n % cpus.len()])?);
            }
            rig.arenas.push(arena);
        }
        Ok(rig)
    }
}

impl Rig for MemoryRig {
    fn window(&mut self, how: &How, stop: &AtomicBool) -> Result<Window, BenchError> {
        let times = Times { warm: Duration::from_millis(30), measure: how.measure, drain: Duration::from_millis(2) };
        let schedule = Schedule { pps: how.pps, ..Schedule::default() };
        let (loads, hands) = (&self.loads, &self.hands);
        self.giving.set(how);
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
        Ok(Window { traffic: LoadHandle::results(&self.loads), workers })
    }

    fn close(self: Box<Self>) -> Result<Closing, BenchError> {
        let mut packets_missing = 0;
        for hand in self.hands {
            packets_missing += hand.close()?.packets_missing.abs();
        }
        drop(self.controls);
        let lost = |arena: &Arc<Arena>| i64::from(arena.shape().slots) - arena.in_depot() as i64;
        Ok(Closing { frames_lost: self.arenas.iter().map(lost).sum(), packets_missing })
    }
}
