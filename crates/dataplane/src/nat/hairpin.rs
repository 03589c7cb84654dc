//! Packets on their way from one subscriber to another.

use std::collections::VecDeque;

use engine::{Burst, Env, Io, Kind};
use frame::{BURST, Frame};
use wire::L3L4;

use crate::forward::InstanceId;
use crate::parse::HasIp;
use crate::{drops, punts};

/// Packets punted as [`punts::HAIRPIN`], translated on both sides already: the source of the pipeline that takes them to
/// their subscriber. Owned by one worker; holds frames, but never longer than until the next turn.
pub struct HairpinQueue {
    /// The network instance each is in, as if it had come in there.
    waiting: VecDeque<(InstanceId, Frame)>,
    most: usize,
}

impl HairpinQueue {
    /// Room for `most` packets.
    pub fn new(most: usize) -> Self {
        Self { waiting: VecDeque::with_capacity(most), most }
    }

    /// Takes a packet punted in a network instance; without room it is dropped and counted.
    pub fn push(&mut self, frame: Frame, instance: InstanceId, env: &mut Env) {
        if self.waiting.len() < self.most {
            env.stats.terminated(punts::HAIRPIN);
            self.waiting.push_back((instance, frame));
        } else {
            env.stats.drop_outside(drops::OUT_QUEUE_FULL, frame.len());
            env.pool.give(frame);
        }
    }

    /// How many wait.
    pub fn held(&self) -> usize {
        self.waiting.len()
    }

    /// Adds what waits to the burst, as far as it has room and is of one network instance, the headers parsed, and hands
    /// each place to `each`, with the instance, for what else the lane needs. Says whether more wait.
    pub fn poll<K: Kind>(
        &mut self,
        burst: &mut Burst<K>,
        env: &mut Env,
        mut each: impl FnMut(&mut Burst<K>, usize, InstanceId),
    ) -> bool
    where
        K::Lane: HasIp,
    {
        let mut first = None;
        while burst.len() < BURST {
            let same = |(instance, _): &(InstanceId, Frame)| *instance == *first.get_or_insert(*instance);
            if !self.waiting.front().is_some_and(same) {
                break;
            }
            let Some((instance, frame)) = self.waiting.pop_front() else { break };
            env.stats.add(Io::Released, 1);
            let l3 = usize::from(frame.meta.l3);
            let parsed = env.arena().bytes(&frame).get(l3..).map(L3L4::parse);
            let pushed = match parsed {
                Some(Ok(ip)) => burst.push(frame).map(|i| (i, ip)),
                _ => Err(frame),
            };
            match pushed {
                Ok((i, ip)) => {
                    *burst.lane.ip_mut(i) = ip;
                    each(burst, i, instance);
                }
                Err(frame) => {
                    env.stats.drop_outside(drops::MALFORMED, frame.len());
                    env.pool.give(frame);
                }
            }
        }
        !self.waiting.is_empty()
    }

    /// Drops what waits: the worker ends.
    pub fn close(&mut self, env: &mut Env) {
        for (_, frame) in self.waiting.drain(..) {
            env.stats.add(Io::Released, 1);
            env.stats.drop_outside(drops::SESSION_GONE, frame.len());
            env.pool.give(frame);
        }
    }
}
