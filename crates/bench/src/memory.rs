//! A gateway in memory: what it receives is generated where it stands, what it sends is checked there. No I/O at all,
//! so what is left is the gateway.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::bursts::{Giving, SmallBursts};
use crate::crew::{Hand, Working};
use crate::error::BenchError;
use crate::score::{Manners, Part, Score, Times};
use crate::socket::{arena, frames_lost};
use crate::under_test::{Control, FarSide, MemoryLoad, Share, UnderTest, time};
use crate::window::{Closing, How, Rig, Window};
use crate::work_clock::WorkClock;
use engine::StatsView;
use frame::{Arena, ArenaConfig, Pool, Port};

/// Workers of one or several gateways, each with ports of its own, whose far sides are its subscribers' load.
pub struct MemoryRig<L> {
    score: Score,
    loads: Vec<L>,
    hands: Vec<Hand>,
    arenas: Vec<Arc<Arena>>,
    controls: Vec<Box<dyn Control>>,
    giving: Arc<Giving>,
    /// The workers' statistics.
    pub views: Vec<StatsView>,
    /// Bytes of sessions, rules and indexes.
    pub session_bytes: usize,
    /// From nothing to ready.
    pub start: Duration,
}

impl<L: MemoryLoad> MemoryRig<L> {
    /// Assembles `instances` gateways of `workers` workers each, and their load.
    ///
    /// # Errors
    /// What cannot be, or what the machine has too little of.
    pub fn new<U>(under: &U, instances: u16, workers: u16, cpus: &[usize]) -> Result<Self, BenchError>
    where
        U: UnderTest<Load = L>,
    {
        Self::with_manners(under, instances, workers, cpus, Manners::Urgent)
    }

    /// The same with workers that are scheduled in another way.
    ///
    /// # Errors
    /// As [`MemoryRig::new`].
    pub fn with_manners<U>(
        under: &U,
        instances: u16,
        workers: u16,
        cpus: &[usize],
        manners: Manners,
    ) -> Result<Self, BenchError>
    where
        U: UnderTest<Load = L>,
    {
        let caps = under.memory_ports();
        let (all, score) = (usize::from(instances) * usize::from(workers), Score::default().with(manners));
        let mut rig = Self {
            score: score.clone(),
            loads: vec![],
            hands: vec![],
            arenas: vec![],
            views: vec![],
            session_bytes: 0,
            start: Duration::ZERO,
            controls: vec![],
            giving: Arc::default(),
        };
        for _ in 0..instances {
            let begin = Instant::now();
            let made = under.assemble(workers, &caps)?;
            rig.start += begin.elapsed();
            let frames = under.frames();
            let arena = arena(ArenaConfig { slots: frames.slots * u32::from(workers), ..frames })?;
            let mut first_flow = 0;
            for (worker, (init, users)) in made.workers.into_iter().enumerate() {
                if users.is_empty() {
                    return Err(BenchError::Asked(format!("{workers} workers for {} subscribers", under.size().0)));
                }
                let share = Share { workers, worker: worker as u16, users, first_flow };
                let FarSide { ports, load, flows } = under.far_side(&share)?;
                first_flow += flows;
                let (far, clock) = (load.far_cycles(), load.work_clock());
                rig.loads.push(load);
                let small = |port| -> Box<dyn Port> { Box::new(SmallBursts::new(port, &rig.giving)) };
                let ports = ports.into_iter().map(small).collect();
                let pool = Pool::new(&arena, frames.slots as usize);
                let time = clock.as_ref().map_or_else(time, WorkClock::time);
                let moved = clock.filter(|clock| !clock.is_by_packets());
                let worker = Working::timed(init, pool, ports, time).apart_from(far).moves(moved);
                let mut worker = worker.noted::<U>();
                worker.turns(1);
                rig.session_bytes += U::bytes(worker.gateway());
                rig.views.push(worker.view());
                let n = rig.hands.len();
                let score = if all > cpus.len() { score.with(Manners::Sharing) } else { score.clone() };
                rig.hands.push(Hand::new(format!("worker-{n}"), Box::new(worker), score, cpus[n % cpus.len()])?);
            }
            rig.controls.push(made.control);
            rig.arenas.push(arena);
        }
        let now = time().now_ns(table::hint::tsc());
        rig.controls.iter_mut().for_each(|control| control.poll(now));
        Ok(rig)
    }
}

impl<L: MemoryLoad> Rig for MemoryRig<L> {
    fn window(&mut self, how: &How, stop: &AtomicBool) -> Result<Window, BenchError> {
        let times = Times { warm: Duration::from_millis(30), measure: how.measure, drain: Duration::from_millis(2) };
        let (loads, hands) = (&self.loads, &self.hands);
        let each = how.pps.map(|pps| pps / loads.len().max(1) as f64);
        self.giving.set(how);
        let played = self.score.play(&times, stop, |part| match part {
            Part::Warm => {
                loads.iter().for_each(|load| load.start(each));
                hands.iter().for_each(|hand| hand.window(how));
            }
            Part::Measure => loads.iter().for_each(MemoryLoad::mark),
            Part::Drain => loads.iter().for_each(MemoryLoad::stop),
            _ => {}
        });
        let workers = self.hands.iter().map(Hand::slice).collect::<Result<Vec<_>, _>>()?;
        self.score.rest();
        played?;
        let offered = self.loads.iter().filter_map(MemoryLoad::offered).collect();
        Ok(Window { traffic: L::results(&self.loads), workers, offered, ..Window::default() })
    }

    fn close(self: Box<Self>) -> Result<Closing, BenchError> {
        let mut packets_missing = 0;
        for hand in self.hands {
            packets_missing += hand.close()?.packets_missing.abs();
        }
        drop(self.controls);
        Ok(Closing { frames_lost: frames_lost(&self.arenas), packets_missing })
    }
}
