//! From the queues to the devices: what goes on between pipelines.

use crypto::Outcome;
use engine::{Burst, Clock, Ctx, Drop, Env, Io, Pipeline};
use frame::BURST;
use stages::forward::NONE;
use stages::parse::HasIp;
use wire::L3L4;

use super::{CableGateway, FLUSH_NS, reason};
use crate::config::Role;
use crate::depi;
use crate::lane::Cmts;

impl CableGateway {
    /// Queues → MAC frames → cipher → DEPI packets. Says whether anything moved.
    pub(super) fn downstream<C: Clock>(&mut self, env: &mut Env) -> bool {
        if !self.scratch.is_empty() {
            self.sweep(env);
        }
        let state = &mut self.state;
        let between = self.pipelines.between;
        let may = state.depi.has_room() && state.modems.encrypt.room() >= BURST && !self.sealed;
        if may && state.scheduler.waiting() > 0 {
            let look = env.look::<C>();
            let scratch = &mut self.scratch;
            let pulled = state.scheduler.pull(env.now, BURST, |pulled| {
                // At most a burst is asked for, and it was empty.
                let Ok(i) = scratch.push(pulled.frame) else { return };
                state.modems.prefetch_security(pulled.security);
                let lane = &mut scratch.lane;
                (lane.flow[i], lane.modem[i]) = (pulled.flow, pulled.modem);
                (lane.channel[i], lane.sequence[i]) = (pulled.channel, pulled.sequence);
            });
            if pulled > 0 {
                env.charge::<C>(between, 0, pulled as u32, look);
                env.stats.add(Io::Released, pulled as u64);
            }
        }
        let pulled = !self.scratch.is_empty();
        if pulled {
            self.pipelines.mac.run::<C>(&mut self.scratch, &mut Ctx::new(state, env));
            let pool = &mut env.pool;
            self.scratch.finish(|_, frame| pool.give(frame));
            self.pushed = env.now;
        } else if state.modems.encrypt.held() > 0 && env.now.saturating_sub(self.pushed) >= FLUSH_NS {
            state.modems.encrypt.flush(env.pool.arena());
        }
        let framed = state.modems.encrypt.held() > 0 && self.encapsulate::<C>(env);
        let expired = self.state.depi.expire(false, env);
        pulled || framed || expired
    }

    /// What is through the cipher into DEPI packets. Says whether anything was.
    fn encapsulate<C: Clock>(&mut self, env: &mut Env) -> bool {
        let state = &mut self.state;
        let look = env.look::<C>();
        let mut framed = 0;
        while state.depi.has_room()
            && let Some(done) = state.modems.encrypt.pop()
        {
            framed += 1;
            match done.outcome {
                Outcome::Done => {
                    if env.tracer.is_on() {
                        env.tracer.note("depi_encap", &done.frame, format!("channel {}", done.tag), env);
                    }
                    state.depi.push(done.tag as u16, done.frame, env); // a channel's number, as pushed
                }
                outcome => depi::lost(reason(outcome), done.frame, env),
            }
        }
        if framed > 0 {
            env.charge::<C>(self.pipelines.between, 1, framed, look);
        }
        framed > 0
    }

    /// A stage panicked between queues and cipher: its burst is lost, its slots are not.
    #[cold]
    pub(super) fn sweep(&mut self, env: &mut Env) {
        let (stats, pool) = (&env.stats, &mut env.pool);
        self.scratch.finish(|live, frame| {
            if live.is_some() {
                stats.drop_outside(Drop::Panicked, frame.len());
            }
            pool.give(frame);
        });
    }

    /// DEPI packets that are ready, out by their ports.
    pub(super) fn send_depi<C: Clock>(&mut self, burst: &mut Burst<Cmts>, env: &mut Env) {
        let instance = Role::Rpd.instance();
        // Packets of a device come in rows: its way is looked up for the first.
        let mut last = (0, NONE);
        let state = &mut self.state;
        let forwarding = state.forwarding.in_hand().unwrap_or(&state.empty.0);
        while burst.len() < BURST {
            let Some((frame, ip)) = state.depi.pop() else { break };
            let total_len = frame.len() as u32;
            let Ok(i) = burst.push(frame) else { break };
            if ip.dst != last.0 {
                // Over IPv6 the stage looks, and where there is no way it says why.
                last = (ip.dst, forwarding.hop4(instance, ip.dst).unwrap_or(NONE));
            }
            let lane = &mut burst.lane;
            *lane.ip_mut(i) = L3L4 { total_len, ..*ip };
            (lane.hop[i], lane.instance[i], lane.ours[i]) = (last.1, instance, true);
            (lane.modem[i], lane.flow[i]) = (NONE, NONE);
        }
        if !burst.is_empty() {
            self.pipelines.depi.run::<C>(burst, &mut Ctx::new(&mut self.state, env));
        }
    }
}
