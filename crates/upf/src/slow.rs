//! The slow path: what leaves the pipelines to be answered, held or reported.

use engine::{Burst, Env};

use crate::config::Role;
use crate::lane::{State, Upf};
use table::ring::Producer;

/// What a worker tells control.
pub enum Event {}

/// Bounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {}

impl Limits {
    /// From the configuration.
    pub fn of(_config: &crate::config::Config) -> Self {
        Self {}
    }
}

/// A worker's slow path.
pub struct SlowPath {}

impl SlowPath {
    /// New.
    pub fn new(_events: Producer<Event>, _limits: Limits) -> Self {
        Self {}
    }
    pub(crate) fn see_to(&mut self, burst: &mut Burst<Upf>, _state: &State, _roles: &[Role], env: &mut Env) {
        while let Some((_, punt, frame)) = burst.take_punted() {
            env.stats.consumed(punt);
            env.pool.give(frame);
        }
    }
    pub(crate) fn rules_changed(&mut self, _handle: u32) {}
    pub(crate) fn session_removed(&mut self, _handle: u32, _env: &mut Env) {}
    pub(crate) fn retry(&mut self, _key: u32) -> usize {
        0
    }
    pub(crate) fn give_up(&mut self, _key: u32, _env: &mut Env) -> usize {
        0
    }
    pub(crate) fn release(&mut self, _burst: &mut Burst<Upf>, _state: &State, _env: &mut Env) -> bool {
        false
    }
    pub(crate) fn held(&self) -> usize {
        0
    }
    pub(crate) fn tick(&mut self, _env: &mut Env) {}
}
