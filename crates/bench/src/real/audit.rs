//! Whether a user plane does what its rules say: usage counted and reported, bit rates kept, closed gates shut. Each check
//! has sessions of its own and loads nothing else.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;

use super::cells::Carried;
use super::contender::Contender;
use super::control::{ControlPlane, Usage, expected_triggers};
use super::options::{Flow, RealOptions};
use super::rules::LOW_KBITS;
use super::traffic::{AUDITED, Of, POLICED, plan};
use super::trial::{Load, Trial, Trials};
use crate::blast::Blast;
use crate::error::BenchError;
use crate::text::count;

/// Packets a second in the audit of usage: few enough for none to be lost.
const AUDIT_PPS: f64 = 2e3;
/// Packets a second to the policed sessions: about five times their rate.
const POLICED_PPS: f64 = 40e3;
/// Packets a second to the sessions with a closed gate.
const CLOSED_PPS: f64 = 2e3;
/// Time counted in a check.
const WINDOW: Duration = Duration::from_millis(1000);
/// Time for the periodic report.
const REPORT: Duration = Duration::from_millis(1300);
/// Octets of a packet: the IP packet alone, and the longest frame it is in.
const OCTETS: std::ops::RangeInclusive<f64> = 114.0..=172.0;
/// Sessions of the cells whose usage is looked at.
const SAMPLED: u32 = 32;

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// Of which contender.
    pub contender: &'static str,
    /// Where its packets are processed, as in cells.
    pub path: &'static str,
    /// Mode of its ports.
    pub port: &'static str,
    /// What was checked.
    pub what: &'static str,
    /// It was as the rules say.
    pub ok: bool,
    /// What was found, in a sentence.
    pub found: String,
}

/// All checks of a contender with a control plane.
///
/// # Errors
/// It has ended, or answers no more.
pub fn audit(
    contender: &mut Contender,
    trials: &mut Trials,
    options: &RealOptions,
    carried: &Carried,
    stop: &AtomicBool,
) -> Result<Vec<Check>, BenchError> {
    let kind = contender.kind;
    if contender.control.is_none() {
        return Ok(Vec::new());
    }
    contender.child.hold(false);
    let audited = load(contender, trials, options, Of::Audited, AUDIT_PPS)?;
    let (usage, triggers) = collect(contender, options, stop)?;
    let policed = load(contender, trials, options, Of::Policed, POLICED_PPS)?;
    let closed = load(contender, trials, options, Of::Closed, CLOSED_PPS)?;
    let mut checks = vec![
        counted(&usage, audited.whole),
        reported(&triggers),
        limited(&policed),
        shut(&closed),
        packets(carried),
        sampled(contender, options, carried, stop)?,
    ];
    checks.iter_mut().for_each(|check| check.contender = kind.name());
    contender.child.hold(true);
    Ok(checks)
}

fn load(
    contender: &mut Contender,
    trials: &mut Trials,
    options: &RealOptions,
    of: Of,
    pps: f64,
) -> Result<Trial, BenchError> {
    let blast = Blast::stamped(&contender.lab, contender.link, &plan(options, of, Flow::Mixed)?)?;
    trials.run(contender, Some(Load { blast: &blast, pps: Some(pps), most: false }), WINDOW)
}

fn control(contender: &mut Contender) -> Result<&mut ControlPlane, BenchError> {
    contender.control.as_mut().ok_or(BenchError::Died("control plane"))
}

/// Usage of the audited sessions, and what made user planes report it.
fn collect(
    contender: &mut Contender,
    options: &RealOptions,
    stop: &AtomicBool,
) -> Result<(Vec<Usage>, Vec<&'static str>), BenchError> {
    let ues = Of::Audited.ues(options.sessions);
    let control = control(contender)?;
    let until = Instant::now() + REPORT;
    while Instant::now() < until {
        control.serve();
    }
    control.delete(ues.clone(), stop)?;
    let usage: Vec<Usage> = ues.map(|ue| control.usage(ue)).collect();
    let came = |trigger: &&str| usage.iter().any(|usage| usage.reports.contains_key(trigger));
    let triggers = expected_triggers().into_iter().filter(came).collect();
    Ok((usage, triggers))
}

fn check(what: &'static str, ok: bool, found: String) -> Check {
    Check { contender: "", path: "", port: "", what, ok, found }
}

/// Sum of octets and, where all sessions report them, packets by direction.
fn sum(usage: &[Usage]) -> ([u64; 2], Option<[u64; 2]>) {
    let octets = [0, 1].map(|way| usage.iter().map(|usage| usage.octets[way]).sum());
    let packets: Option<Vec<[u64; 2]>> = usage.iter().map(|usage| usage.packets).collect();
    (octets, packets.map(|each| [0, 1].map(|way| each.iter().map(|packets| packets[way]).sum())))
}

/// Every packet was charged to its session.
fn counted(usage: &[Usage], (sent, delivered): ([u64; 2], [u64; 2])) -> Check {
    let (octets, packets) = sum(usage);
    let per_packet = [0, 1].map(|way| octets[way] as f64 / delivered[way].max(1) as f64);
    let sized = per_packet.iter().all(|octets| OCTETS.contains(octets) && octets.fract() == 0.0);
    let exact = packets.is_none_or(|packets| packets == delivered);
    // Sessions take turns: one packet more or less.
    let is_even = |usage: &Usage| {
        (0..2).all(|way| {
            let each = octets[way] as f64 / f64::from(AUDITED);
            (usage.octets[way] as f64 - each).abs() <= 2.0 * OCTETS.end()
        })
    };
    let even = usage.iter().all(is_even);
    let ok = sized && exact && even && delivered == sent && delivered[0] > 0;
    let told = packets.map_or("packets not reported".to_owned(), |[up, down]| {
        format!("{} + {} packets reported", count(up), count(down))
    });
    let found = format!(
        "{} + {} packets of {AUDITED} sessions delivered of {} + {} sent; {told}, {:.2} / {:.2} octets a packet{}",
        count(delivered[0]),
        count(delivered[1]),
        count(sent[0]),
        count(sent[1]),
        per_packet[0],
        per_packet[1],
        if even { "" } else { ", not charged to the sessions they were of" },
    );
    check("usage", ok, found)
}

/// Threshold, period and deletion each made a report.
fn reported(triggers: &[&'static str]) -> Check {
    let missing: Vec<&str> = expected_triggers().into_iter().filter(|trigger| !triggers.contains(trigger)).collect();
    let found = format!(
        "reports by {}{}",
        triggers.join(", "),
        match missing.is_empty() {
            true => String::new(),
            false => format!("; none by {}", missing.join(", ")),
        }
    );
    check("usage reports", missing.is_empty(), found)
}

/// Low bit rates are kept: within the packets' sizes that user planes count.
fn limited(trial: &Trial) -> Check {
    let rates = trial
        .arrived
        .by_direction()
        .map(|packets| packets as f64 * OCTETS.start() * 8.0 / trial.seconds / f64::from(POLICED) / 1e3);
    let wanted = LOW_KBITS as f64;
    let ok = rates.iter().all(|rate| (0.5 * wanted..1.25 * wanted).contains(rate));
    let offered = trial.sent_pps() / 2.0 * OCTETS.start() * 8.0 / f64::from(POLICED) / 1e3;
    let found = format!(
        "sessions with {wanted:.0} kbit/s each way, offered {offered:.0}, got {:.0} / {:.0} kbit/s of IP packets",
        rates[0], rates[1]
    );
    check("bit rate", ok, found)
}

/// A closed gate lets nothing pass.
fn shut(trial: &Trial) -> Check {
    let (sent, passed): (u64, u64) = (trial.whole.0.iter().sum(), trial.whole.1.iter().sum());
    check("gate", passed == 0 && sent > 0, format!("{} of {} packets passed closed gates", count(passed), count(sent)))
}

/// Packets were what they should be.
fn packets(carried: &Carried) -> Check {
    let [up, down] = carried.verified.checked;
    let wrong = &carried.verified.wrong;
    let found = match wrong.first() {
        None => format!("{} uplink and {} downlink packets looked at, all right", count(up), count(down)),
        Some(first) => format!("{} of {} packets wrong; first: {first}", wrong.len(), count(up + down)),
    };
    check("packets", wrong.is_empty() && up + down > 0, found)
}

/// Sessions of the cells have been charged their share of what was delivered. Packets that a user plane counted and could
/// not send are in its usage and not among those delivered.
fn sampled(
    contender: &mut Contender,
    options: &RealOptions,
    carried: &Carried,
    stop: &AtomicBool,
) -> Result<Check, BenchError> {
    let (step, last) = ((options.sessions / SAMPLED).max(1), options.sessions.saturating_sub(1));
    // Of sessions kept in user space as many as they are of all.
    let every = options.user_space_every.unwrap_or(1);
    let mut ues: Vec<u32> = (0..SAMPLED.min(options.sessions)).map(|n| (n * step + n % every).min(last)).collect();
    ues.dedup();
    let control = control(contender)?;
    control.delete(ues.iter().copied(), stop)?;
    let usage: Vec<Usage> = ues.iter().map(|ue| control.usage(*ue)).collect();
    let again = match control.sent_again() {
        0 => String::new(),
        reports => format!("; {} reports were sent again", count(reports)),
    };
    let (octets, packets) = sum(&usage);
    let all = |ways: [u64; 2]| ways.iter().sum::<u64>() as f64;
    let share = usage.len() as f64 / f64::from(options.sessions);
    let (least, most) = (all(carried.delivered) * share, all(carried.sent) * share);
    let (low, high) = match packets {
        Some(packets) => (all(packets), all(packets)),
        None => (all(octets) / OCTETS.end(), all(octets) / OCTETS.start()),
    };
    let ok = high >= 0.9 * least && low <= 1.1 * most.max(least) && least > 0.0;
    let charged = if packets.is_some() { format!("{low:.0}") } else { format!("{low:.0} to {high:.0}") };
    let found = format!(
        "{} sessions of the cells were charged {charged} packets; their share of those delivered is {least:.0}, of those \
         sent {most:.0}{again}",
        usage.len()
    );
    Ok(check("usage in cells", ok, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(up: u64, down: u64, packets: Option<[u64; 2]>) -> Usage {
        Usage { octets: [up, down], packets, ..Usage::default() }
    }

    #[test]
    fn usage_must_match_every_packet() {
        let each = usage(114 * 10, 114 * 10, Some([10, 10]));
        let all = vec![each; AUDITED as usize];
        let packets = [10 * u64::from(AUDITED); 2];
        assert!(counted(&all, (packets, packets)).ok);
        let fewer = [packets[0] - 1, packets[1]];
        assert!(!counted(&all, (packets, fewer)).ok, "lost");
        // One session has it all.
        let mut uneven = vec![usage(0, 0, None); AUDITED as usize];
        uneven[0] = usage(114 * packets[0], 114 * packets[1], None);
        let found = counted(&uneven, (packets, packets));
        assert!(!found.ok && found.found.contains("not charged to the sessions"), "{found:?}");
    }

    #[test]
    fn a_missing_trigger_is_named() {
        let all = expected_triggers();
        assert!(reported(&all).ok);
        let found = reported(&["TERMR"]);
        assert!(!found.ok && found.found.contains("none by PERIO, VOLTH"), "{found:?}");
    }

    #[test]
    fn rates_and_gates_are_judged() {
        let mut trial = Trial { seconds: 1.0, sent: [20_000, 20_000], ..Trial::default() };
        // 1096 packets of 114 octets are 1 Mbit.
        trial.arrived.packets = [[1096 * 4, 0], [0, 1096 * 4]];
        assert!(limited(&trial).ok);
        trial.arrived.packets = [[20_000, 0], [0, 1096 * 4]];
        assert!(!limited(&trial).ok);
        trial.whole = ([10, 10], [0, 0]);
        assert!(shut(&trial).ok);
        trial.whole.1 = [1, 0];
        assert!(!shut(&trial).ok);
    }
}
