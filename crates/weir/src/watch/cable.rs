//! A cable gateway, as it is watched.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use engine::Io;

use super::stall::{Sight, asleep_until};
use super::{Level, Vitals, Watchable};
use crate::cable::observer::{Ends, Observer};
use crate::socket::PortView;
use crate::watched::Glass;

impl Watchable for Observer {
    fn vitals(&self) -> &Arc<Vitals> {
        Observer::vitals(self)
    }

    fn turns(&self) -> Vec<Sight> {
        let sight = |ends: &Ends| Sight {
            turns: ends.stats.io(Io::Turns),
            thread: ends.thread.load(Ordering::Acquire),
            asleep_until: asleep_until(&ends.stats),
        };
        self.ends.iter().map(sight).collect()
    }

    fn now_ns(&self) -> u64 {
        Observer::now_ns(self)
    }

    fn ask_ports(&self) {
        self.ends.iter().for_each(Ends::ask_ports);
    }

    fn seen_ports(&self) -> Vec<PortView> {
        self.port_views(Glass::seen)
    }

    fn levels(&self) -> Vec<Level> {
        let slots = u64::from(self.arena.shape().slots);
        let free: u64 = self.ends.iter().map(|ends| ends.stats.io(Io::FreeSlots)).sum();
        let used = slots.saturating_sub(free + self.arena.in_depot() as u64);
        vec![Level { pool: "packet_buffers".to_owned(), used, capacity: slots }]
    }

    fn sessions(&self) -> Option<u64> {
        None
    }

    fn hindrances(&self) -> Vec<String> {
        let leaving = self.leaving.load(Ordering::Relaxed).then(|| "the standby takes over".to_owned());
        leaving.into_iter().collect()
    }
}
