//! From bursts to the network: what goes on between pipelines.

use crypto::{Crc, Job, KeyId, Outcome};
use dataplane::forward::NONE;
use engine::{Burst, Clock, Ctx, Drop, Env, Io, Pipeline};
use frame::BURST;
use wire::docsis::Element;

use super::{CableGateway, FLUSH_NS, reason};
use crate::depi;
use crate::drops;
use crate::lane::{Cmts, State};
use crate::upstream::Out;

impl CableGateway {
    /// The trace's packets among those that come out of the cipher.
    #[cold]
    fn follow_upstream(&self, burst: &mut Burst<Cmts>, env: &Env) {
        let Some(filter) = env.tracer.filter() else { return };
        let modem = self.state.modems.of_host(filter.subscriber);
        for i in burst.live() {
            if modem == Some(burst.lane.modem[i]) {
                env.tracer.join("decryption", burst, i, &self.state, env);
            }
        }
    }

    /// Packets of bursts → frames → cipher → the network. Says whether anything moved.
    pub(super) fn upstream<C: Clock>(&mut self, burst: &mut Burst<Cmts>, env: &mut Env) -> bool {
        let state = &mut self.state;
        if state.upstream.is_idle() && state.modems.decrypt.held() == 0 {
            return false;
        }
        let look = env.look::<C>();
        let worked = state.upstream.work(BURST, env);
        if worked > 0 {
            env.charge::<C>(self.pipelines.reassembly, worked as u32, look);
        }
        let look = env.look::<C>();
        let mut pushed = 0;
        while state.modems.decrypt.room() > 0
            && let Some(out) = state.upstream.pop()
        {
            let job = match job(env.pool.arena().bytes(&out.frame), &out, state) {
                Ok(job) => job,
                Err(why) => {
                    depi::lost(why, out.frame, env);
                    continue;
                }
            };
            if let Err(frame) = state.modems.decrypt.push(out.frame, job) {
                depi::lost(drops::FLOW_QUEUE_FULL, frame, env);
            }
            pushed += 1;
        }
        if pushed > 0 {
            state.modems.decrypt.run(env.pool.arena());
            self.pushed_up = env.now;
        } else if state.modems.decrypt.held() > 0
            && (env.is_settling || env.now.saturating_sub(self.pushed_up) >= FLUSH_NS)
        {
            state.modems.decrypt.flush(env.pool.arena());
        }
        while burst.len() < BURST {
            let Some(done) = state.modems.decrypt.pop() else { break };
            if done.outcome != Outcome::Done {
                depi::lost(reason(done.outcome), done.frame, env);
                continue;
            }
            env.stats.add(Io::Originated, 1);
            let Ok(i) = burst.push(done.frame) else { break };
            let lane = &mut burst.lane;
            lane.flow[i] = done.tag;
            let (modem, network) = state.upstream.owner(done.tag);
            (lane.modem[i], lane.instance[i]) = (modem, network);
            (lane.hop[i], lane.ours[i]) = (NONE, false);
        }
        if pushed > 0 {
            env.charge::<C>(self.pipelines.decryption, pushed, look);
        }
        let deciphered = burst.len();
        if deciphered > 0 {
            if env.tracer.is_on() {
                self.follow_upstream(burst, env);
            }
            self.pipelines.upstream.run::<C>(burst, &mut Ctx::new(&mut self.state, env));
            if self.state.changed.marks().is_some() {
                self.state.note_burst(burst);
            }
        }
        if self.state.upstream.hears {
            self.state.note_upstream();
        }
        worked > 0 || pushed > 0 || deciphered > 0
    }
}

/// What is to be done to a frame from a modem.
fn job(bytes: &[u8], out: &Out, state: &State) -> Result<Job, Drop> {
    let security = state.modems.security(out.modem);
    let mut privacy = None;
    for element in out.header.elements(bytes) {
        match element.map_err(|_| drops::DOCSIS_MALFORMED)? {
            Element::BpUp2(found) | Element::BpUp { privacy: found, .. } => privacy = Some(found),
            _ => {}
        }
    }
    let key = match (privacy.filter(|privacy| privacy.enabled), security) {
        (Some(privacy), Some(security)) => {
            let half = usize::from(privacy.key_sequence & 1);
            if security.sequences[half] != privacy.key_sequence || privacy.toggle != (half == 1) {
                return Err(drops::UNKNOWN_KEY);
            }
            security.up[half]
        }
        (None, None) => KeyId::CLEAR,
        // A modem that has keys must use them, or its address could be spoofed.
        _ => return Err(drops::UNKNOWN_KEY),
    };
    let crc = if state.upstream.verify_crc { Crc::Done } else { Crc::Left };
    Ok(Job { key, at: out.header.header_len, crc, tag: out.cluster })
}
