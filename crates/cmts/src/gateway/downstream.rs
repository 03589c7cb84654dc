//! From the queues to the devices: what goes on between pipelines.

use crypto::Outcome;
use dataplane::forward::NONE;
use dataplane::parse::HasIp;
use engine::{Burst, Clock, Ctx, Env, Io, Pipeline};
use frame::BURST;

use super::{CableGateway, FLUSH_NS, reason};
use crate::config::Role;
use crate::depi;
use crate::drops;
use crate::lane::Cmts;

impl CableGateway {
    /// Queues → MAC frames → cipher → DEPI packets. Says whether anything moved.
    pub(super) fn downstream<C: Clock>(&mut self, env: &mut Env) -> bool {
        if !self.scratch.is_empty() {
            self.sweep(env);
        }
        let state = &mut self.state;
        let may = state.depi.has_room() && state.modems.encrypt.room() >= BURST && !self.sealed;
        // What waits in queues is handed over.
        let may = may && !env.is_settling;
        if may && state.scheduler.waiting() > 0 {
            let look = env.look::<C>();
            let mut pulled = 0;
            if let Some((places, lane)) = self.scratch.places() {
                state.scheduler.pull(env.now, BURST, |packet| {
                    // At most a burst is asked for.
                    let Some(place) = places.get_mut(pulled) else { return };
                    let label = packet.label;
                    std::mem::swap(place, packet.frame);
                    state.modems.prefetch_security(label.security);
                    (lane.flow[pulled], lane.modem[pulled]) = (packet.flow, label.modem);
                    (lane.channel[pulled], lane.sequence[pulled]) = (packet.link, label.sequence);
                    pulled += 1;
                });
                self.scratch.came(pulled);
            }
            if pulled > 0 {
                env.charge::<C>(self.pipelines.scheduler, pulled as u32, look);
                env.stats.add(Io::Released, pulled as u64);
            }
        }
        let pulled = !self.scratch.is_empty();
        if pulled {
            if state.changed.marks().is_some() {
                state.note_burst(&self.scratch);
            }
            self.pipelines.mac.run::<C>(&mut self.scratch, &mut Ctx::new(state, env));
            let pool = &mut env.pool;
            self.scratch.finish(|_, frame| pool.give(frame));
            self.pushed = env.now;
        } else if state.modems.encrypt.held() > 0
            && (env.is_settling || env.now.saturating_sub(self.pushed) >= FLUSH_NS)
        {
            state.modems.encrypt.flush(env.pool.arena());
        }
        let framed = state.modems.encrypt.held() > 0 && self.encapsulate::<C>(env);
        let expired = self.state.depi.expire(env.is_settling, env);
        pulled || framed || expired
    }

    /// What is through the cipher into DEPI packets. Says whether anything was.
    #[inline(never)]
    fn encapsulate<C: Clock>(&mut self, env: &mut Env) -> bool {
        let state = &mut self.state;
        let look = env.look::<C>();
        let mut framed = 0;
        while state.depi.has_room()
            && let Some((frame, tag, outcome)) = state.modems.encrypt.pop_in_place()
        {
            framed += 1;
            if outcome != Outcome::Done {
                depi::lost(reason(outcome), frame.take(), env);
                continue;
            }
            if env.tracer.is_on() {
                env.tracer.note("depi_encap", frame, None, format!("channel {tag}"), env);
            }
            state.depi.push(tag as u16, frame, env); // a channel's number, as pushed
        }
        if framed > 0 {
            env.charge::<C>(self.pipelines.depi_encap, framed, look);
        }
        framed > 0
    }

    /// A stage panicked between queues and cipher: its burst is lost, its slots are not.
    #[cold]
    pub(super) fn sweep(&mut self, env: &mut Env) {
        let (stats, pool) = (&env.stats, &mut env.pool);
        self.scratch.finish(|live, frame| {
            if live.is_some() {
                stats.drop_outside(drops::PANICKED, frame.len());
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
        let from = burst.len();
        burst.fill(|i, frame, lane| {
            let ip = state.depi.pop(frame)?;
            if ip.dst != last.0 {
                // Over IPv6 the stage looks, and where there is no way it says why.
                last = (ip.dst, forwarding.hop4(instance, ip.dst).unwrap_or(NONE));
            }
            let to = lane.ip_mut(i);
            *to = *ip;
            to.total_len = frame.len() as u32;
            lane.hop[i] = last.1;
            Some(())
        });
        burst.lane.are_ours(from..burst.len(), instance);
        if !burst.is_empty() {
            self.pipelines.depi.run::<C>(burst, &mut Ctx::new(&mut self.state, env));
        }
    }
}
