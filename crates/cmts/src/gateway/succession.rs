//! A worker that another process's goes on for, or that goes on for another's.

use engine::{Env, Io};

use super::CableGateway;
use crate::standby::{Sequences, Waiting, WorkerExport};
use crate::{drops, punts};

impl CableGateway {
    /// Lets nothing out of the queues any more. What is out already goes its way; what waits, what is under way upstream, and what still comes, is
    /// handed over when the worker closes: see [`export`](Self::export).
    pub fn seal(&mut self) {
        self.sealed = true;
    }

    /// Whether all that was out of the queues has left.
    pub fn is_settled(&self) -> bool {
        use engine::Gateway;
        self.held() == self.state.scheduler.waiting()
    }

    /// What another goes on with, of a worker that was sealed and is closed.
    pub fn export(&mut self) -> WorkerExport {
        std::mem::take(&mut self.export)
    }

    /// Has a worker that does not run yet go on with that, in its first turn, for the modems it has adopted.
    pub fn succeed(&mut self, export: WorkerExport) {
        self.export = export;
    }

    /// Fills in where numbers stand. Allocates where there is no room.
    pub(super) fn sequences(state: &crate::State, into: &mut Sequences) {
        into.channels.clear();
        into.channels.extend((0..state.scheduler.links().loads().len()).map(|n| state.depi.sequence(n)));
        into.flows.clear();
        let flows = state.scheduler.flows().iter().enumerate().filter(|(_, flow)| flow.in_use);
        into.flows.extend(flows.map(|(n, flow)| (n as u32, flow.label.sequence)));
    }

    /// Waiting packets belong to another process from now on: counted as handoff out.
    pub(super) fn export_upstream(&mut self, env: &mut Env) {
        let state = &mut self.state;
        let mut export = WorkerExport::default();
        Self::sequences(state, &mut export.sequences);
        for flow in 0..state.scheduler.flows().len() as u32 {
            state.scheduler.remove(flow, |frame| {
                export.waiting.push(Waiting { flow, bytes: env.pool.arena().bytes(&frame).to_vec() });
                env.stats.add(Io::Released, 1);
                env.stats.add(Io::HandedOut, 1);
                env.pool.give(frame);
            });
        }
        export.under_way = state.upstream.export_upstream(env);
        self.export = export;
    }

    /// Goes on: numbers where they stood, and what waited waits here.
    pub(super) fn inherit(&mut self, env: &mut Env) {
        let WorkerExport { sequences, waiting, under_way } = std::mem::take(&mut self.export);
        for (n, number) in sequences.channels.iter().enumerate() {
            self.state.depi.set_sequence(n, *number);
        }
        for (flow, number) in &sequences.flows {
            if let Some(label) = self.state.scheduler.label_mut(*flow) {
                label.sequence = *number;
            }
        }
        self.state.upstream.inherit(under_way, env);
        for Waiting { flow, bytes } in &waiting {
            env.stats.add(Io::HandedIn, 1);
            let Some(mut frame) = env.pool.make(bytes) else {
                env.stats.drop_outside(drops::NO_FRAME, bytes.len());
                continue;
            };
            match self.state.scheduler.push(*flow, &mut frame, env.now) {
                Ok(()) => env.stats.terminated(punts::SERVICE_FLOW),
                Err(why) => {
                    env.stats.drop_outside(why.into(), frame.len());
                    env.pool.give(frame);
                }
            }
        }
    }
}
