//! A user plane, as it is watched.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::Io;

use super::stall::{Sight, asleep_until};
use super::{Level, Vitals, Watchable};
use crate::asked::{Answer, Question};
use crate::n4::N4;
use crate::observer::Observer;
use crate::socket::PortView;
use crate::watched::Glass;

/// Nanoseconds between two looks of control at its pools.
const SECOND: u64 = 1_000_000_000;

impl Observer {
    /// Notes how full N4's pools are, once a second: control does, which has N4 at hand.
    pub fn note_levels(&self, n4: &N4, now: u64) {
        if now < self.next_levels.load(Ordering::Relaxed) {
            return;
        }
        self.next_levels.store(now + SECOND, Ordering::Relaxed);
        let sessions = n4.endpoint().sessions();
        let levels = sessions.levels().into_iter().map(|(pool, used, capacity)| Level { pool, used, capacity });
        let noted = (levels.collect(), Some(sessions.book().len() as u64));
        *self.levels.lock().unwrap_or_else(|e| e.into_inner()) = noted;
    }
}

impl Watchable for Observer {
    fn vitals(&self) -> &Arc<Vitals> {
        Observer::vitals(self)
    }

    fn turns(&self) -> Vec<Sight> {
        let sight = |ends: &crate::observer::WorkerEnds| Sight {
            turns: ends.stats.io(Io::Turns),
            thread: ends.thread.load(Ordering::Acquire),
            asleep_until: asleep_until(&ends.stats),
        };
        self.workers.iter().map(sight).collect()
    }

    fn now_ns(&self) -> u64 {
        Observer::now_ns(self)
    }

    fn ask_ports(&self) {
        self.workers.iter().for_each(crate::observer::WorkerEnds::ask_ports);
    }

    fn seen_ports(&self) -> Vec<PortView> {
        self.port_views(Glass::seen)
    }

    fn levels(&self) -> Vec<Level> {
        let slots = u64::from(self.arena.shape().slots);
        let free: u64 = self.workers.iter().map(|ends| ends.stats.io(Io::FreeSlots)).sum();
        let free = free + self.arena.in_depot() as u64;
        let mut levels = self.levels.lock().unwrap_or_else(|e| e.into_inner()).0.clone();
        let buffers = slots.saturating_sub(free);
        levels.push(Level { pool: "packet_buffers".to_owned(), used: buffers, capacity: slots });
        for (worker, ends) in self.workers.iter().enumerate().filter(|_| self.config.nat.is_some()) {
            if let Some(Answer::Levels(Some(all))) = ends.asker.ask(Question::Levels) {
                let name = |pool| format!("{pool}:worker{worker}");
                levels.extend(all.into_iter().map(|(pool, used, capacity)| Level { pool: name(pool), used, capacity }));
            }
        }
        levels
    }

    fn sessions(&self) -> Option<u64> {
        self.levels.lock().unwrap_or_else(|e| e.into_inner()).1
    }

    fn hindrances(&self) -> Vec<String> {
        let failed = self.ledger.get().and_then(|(_, writer)| writer.progress().failed);
        failed.map(|error| error.to_string()).into_iter().collect()
    }
}
