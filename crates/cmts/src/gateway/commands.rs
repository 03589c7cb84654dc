//! What control asks of a worker, and how it is done.

use crypto::Key;
use dataplane::hqos::NONE;
use engine::{Env, PortId};

use super::CableGateway;
use crate::depi;
use crate::drops;
use crate::flow::FlowLabel;
use crate::hand_over::Handing;
use crate::lane::State;
use crate::modems::{MAX_FLOWS, ModemSpec, Refused};
use crate::report::Report;
use crate::standby::Sequences;

/// What control asks of a worker.
pub enum Command {
    /// Take in a modem, or replace what is known of it; what waits in service flows it keeps stays.
    Install(Box<ModemSpec>),
    /// Take a modem out.
    Remove(u32),
    /// Give a modem other service flows, filter groups and classifiers. What waits in service flows that stay stays, and
    /// whatever comes from the modem goes on.
    Change(Box<ModemSpec>),
    /// A key for a modem's security association, beside the other.
    SetKey(u32, u8, Box<Key>),
    /// Send by that key from now on.
    UseKey(u32, u8),
    /// Fill in a report.
    Report(Box<Report>),
    /// Fill in what is counted of a few modems.
    Count(Vec<ModemCount>),
    /// Fill in where numbers stand.
    Sequences(Box<Sequences>),
    /// Send a complete frame (ARP request, neighbour solicitation).
    Send(PortId, Vec<u8>),
    /// Another process takes over.
    HandOver(Box<Handing>),
}

/// What a worker has counted of a modem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModemCount {
    /// Its number.
    pub modem: u32,
    /// Packets and bytes downstream, packets and bytes upstream; none: the worker has no such modem.
    pub count: Option<[u64; 4]>,
}

/// What a worker answers.
pub enum Answer {
    /// Done; the box is control's to free.
    Installed(Box<ModemSpec>),
    /// Not taken in, and why.
    Refused(Refused, Box<ModemSpec>),
    /// Done.
    Done,
    /// There is no such modem, flow or key.
    Unknown,
    /// The report.
    Report(Box<Report>),
    /// What is counted of those modems.
    Counted(Vec<ModemCount>),
    /// Where numbers stand.
    Sequences(Box<Sequences>),
    /// Sent (or dropped and counted); the bytes are control's to free.
    Sent(Vec<u8>),
    /// What another process is to have.
    HandOver(Box<Handing>),
}

/// Takes a modem in, or replaces what is known of it.
pub(super) fn install(state: &mut State, spec: &ModemSpec, env: &mut Env) -> Result<(), Refused> {
    let arena = env.pool.arena().clone();
    let before = state.modems.modem(spec.handle).map(|modem| (modem.first_flow, modem.flows));
    state.modems.install(spec, &arena)?;
    match state.upstream.install(spec, env) {
        Ok(true) => {}
        other => {
            remove(state, spec.handle, env);
            return Err(if other.is_ok() { Refused::Taken } else { Refused::Memory });
        }
    }
    change_flows(state, spec, before.unwrap_or((spec.first_flow, 0)), env);
    Ok(())
}

/// Gives a modem whose service flows were `before` (the first, and their places) those it is to have.
fn change_flows(state: &mut State, spec: &ModemSpec, before: (u32, u16), env: &mut Env) {
    let wanted = |n: u32| spec.flows.get(n as usize).copied().flatten();
    for n in (0..MAX_FLOWS as u32).filter(|n| before.1 >> n & 1 == 1) {
        if before.0 != spec.first_flow || wanted(n).is_none() {
            remove_flow(state, before.0 + n, env);
        }
    }
    let security = if spec.security.is_some() { spec.handle } else { NONE };
    for n in 0..MAX_FLOWS as u32 {
        let (Some(flow), id) = (wanted(n), spec.first_flow + n) else { continue };
        let label = FlowLabel::new(spec.handle, security, flow.dsid);
        let known = state.scheduler.flows().get(id as usize).filter(|known| known.in_use);
        // Even a change to the same would cost it its turn.
        if known.is_none_or(|known| (known.terms.spec, FlowLabel { sequence: 0, ..known.label }) != (flow.qos, label)) {
            state.scheduler.install(id, flow.qos, label, env.now);
        }
    }
}

/// Takes a modem out; false when there is none.
fn remove(state: &mut State, modem: u32, env: &mut Env) -> bool {
    let Some(known) = state.modems.modem(modem).copied() else { return false };
    for n in (0..MAX_FLOWS as u32).filter(|n| known.flows >> n & 1 == 1) {
        remove_flow(state, known.first_flow + n, env);
    }
    state.upstream.remove(modem, env);
    let arena = env.pool.arena().clone();
    state.modems.remove(modem, &arena)
}

/// Carries a command out.
pub(super) fn carry_out(state: &mut State, command: Command, env: &mut Env) -> Answer {
    let done = |done| if done { Answer::Done } else { Answer::Unknown };
    match command {
        Command::Install(spec) => match install(state, &spec, env) {
            Ok(()) => Answer::Installed(spec),
            Err(why) => Answer::Refused(why, spec),
        },
        Command::Remove(modem) => done(remove(state, modem, env)),
        Command::Change(spec) => {
            let before = state.modems.modem(spec.handle).map(|modem| (modem.first_flow, modem.flows));
            let Some(before) = before.filter(|_| state.modems.change(&spec)) else { return Answer::Unknown };
            change_flows(state, &spec, before, env);
            Answer::Installed(spec)
        }
        Command::SetKey(modem, sequence, key) => {
            let arena = env.pool.arena().clone();
            done(state.modems.set_key(modem, sequence, &key, &arena))
        }
        Command::UseKey(modem, sequence) => done(state.modems.set_active(modem, sequence)),
        Command::Report(mut report) => {
            report.fill(state, env.now);
            Answer::Report(report)
        }
        Command::Count(mut rows) => {
            for row in &mut rows {
                let count = |modem: &crate::modems::Modem| {
                    let ([down, up], [down_bytes, up_bytes]) = (modem.packets, modem.bytes);
                    [down, down_bytes, up, up_bytes]
                };
                row.count = state.modems.modem(row.modem).map(count);
            }
            Answer::Counted(rows)
        }
        Command::Sequences(mut into) => {
            CableGateway::sequences(state, &mut into);
            Answer::Sequences(into)
        }
        Command::Send(port, frame) => {
            env.send_copy(port, &frame);
            Answer::Sent(frame)
        }
        Command::HandOver(mut handing) => {
            state.hand_over(&mut handing);
            Answer::HandOver(handing)
        }
    }
}

fn remove_flow(state: &mut State, id: u32, env: &mut Env) {
    state.scheduler.remove(id, |frame| depi::lost(drops::FLOW_GONE, frame, env));
}
