//! `weir probe gateway`, `weir probe broadband`: what a gateway carries, weir's or somebody else's, through sessions that
//! it has given.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use certificate::{Band, Certificate, GatewayRate, Host, Run, SCHEMA};

use super::rate::{EQUAL, Offered, PARTS, Times, at_rates};
use super::{Progress, Steps};
use crate::agent::Hosts;
use crate::error::BenchError;
use crate::host::{CpuTime, date};
use crate::report::VERSION;
use crate::search::Trial;

/// What is probed.
#[derive(Clone, Debug)]
pub struct GatewayProbe {
    /// What all steps are to take, in minutes.
    pub minutes: f64,
    /// Name of its host, where nothing else tells it.
    pub name: Option<String>,
    /// Its kind: `upf`, `bng`.
    pub kind: String,
    /// The workload, for people.
    pub profile: String,
    /// Subscribers with sessions.
    pub subscribers: u64,
    /// Bytes of the mean frame with FCS, without access encapsulation.
    pub frame_bytes: u32,
    /// The command line.
    pub command: String,
    /// Where generator and checker are.
    pub place: String,
}

/// What a gateway did while as many packets were sent as could be.
#[derive(Clone, Debug, Default)]
pub struct Overload {
    /// Packets a second forwarded.
    pub forwarded: f64,
    /// Bytes of the mean frame, without FCS and access encapsulation.
    pub frame_bytes_mean: f64,
    /// Workers; 0: not known.
    pub workers: u16,
    /// Processor time of a packet, in microseconds; 0: not known.
    pub cpu_us_per_packet: f64,
}

/// A gateway with sessions, and traffic through them.
pub trait Probed: Trial<Error = BenchError> {
    /// Sends as many packets as can be for so long.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`], or what broke.
    fn overload(&mut self, seconds: f64) -> Result<Overload, BenchError>;

    /// The gateway's host; none: nobody there tells.
    ///
    /// # Errors
    /// The connection to the agent is lost, or it does not answer.
    fn host(&mut self) -> Result<Option<Host>, BenchError>;

    /// Processor time of that host so far.
    ///
    /// # Errors
    /// The connection to the agent is lost, or it does not answer.
    fn cpu(&mut self) -> Result<Option<CpuTime>, BenchError> {
        Ok(None)
    }
}

impl Probed for Hosts {
    fn overload(&mut self, seconds: f64) -> Result<Overload, BenchError> {
        let trial = self.trial(None, seconds)?;
        let directions = [&trial.result.directions.uplink, &trial.result.directions.downlink];
        let (mut sent, mut bytes) = (0.0, 0.0);
        for direction in directions {
            sent += direction.sent_packets as f64;
            bytes += direction.frame_bytes_mean * direction.sent_packets as f64;
        }
        let gateway = trial.gateway.unwrap_or_default();
        Ok(Overload {
            forwarded: trial.result.mpps * 1e6,
            frame_bytes_mean: bytes / f64::max(sent, 1.0),
            workers: u16::try_from(gateway.workers).unwrap_or(u16::MAX),
            cpu_us_per_packet: gateway.cpu_us_per_packet,
        })
    }

    fn host(&mut self) -> Result<Option<Host>, BenchError> {
        Ok(self.gateway_used()?.map(|used| used.machine))
    }

    fn cpu(&mut self) -> Result<Option<CpuTime>, BenchError> {
        Ok(self.gateway_used()?.map(|used| used.cpu))
    }
}

/// Samples of the rate under overload.
const SAMPLES: usize = 5;

/// Seconds of steps: sessions and overload, search, latencies, equal trials.
fn planned(minutes: f64) -> ([(&'static str, f64); 4], Times, f64) {
    let unit = minutes * 60.0 / 15.0;
    let times = Times { search: 5.0 * unit, latency: unit, equal: 0.5 * unit };
    let overload = unit;
    let steps = [
        ("as many packets as can be sent", overload),
        ("rate with 0.5 % loss", times.search),
        ("latency", times.latency * (PARTS.len() + 1) as f64),
        ("equal trials", times.equal * EQUAL as f64),
    ];
    (steps, times, overload)
}

/// Probes a gateway whose sessions are up. Interrupted, what was found so far is returned, marked incomplete.
///
/// # Errors
/// Nothing was found.
pub fn gateway<D: Probed>(
    device: &mut D,
    probe: &GatewayProbe,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<Certificate, BenchError> {
    let (begun, when) = (Instant::now(), date());
    let (steps, times, overload) = planned(probe.minutes);
    let steps = steps.into_iter().map(|(name, seconds)| (name.to_owned(), seconds)).collect();
    let mut steps = Steps::new(steps, show, stop);
    let mut found = Certificate::default();
    let (told, before) = (device.host()?, device.cpu()?);
    let done = all(device, probe, (&times, overload), &mut steps, &mut found, told.as_ref());
    let is_complete = done.is_ok();
    match done {
        Ok(()) => {}
        Err(BenchError::Interrupted) => found.notes.push("interrupted: later steps were not made".to_owned()),
        Err(error) if found.gateways.is_empty() => return Err(error),
        Err(error) => found.notes.push(format!("ended early: {error}")),
    }
    found.notes.push(format!(
        "sent and checked by weir's generator at {}: a limit of generator, network or gateway, whichever is lowest",
        probe.place
    ));
    if told.is_none() {
        found.notes.push("nobody on the gateway's host told its processor, time stamp counter and steal".to_owned());
    }
    let mut host = told.unwrap_or_default();
    if let (Some(before), Ok(Some(after))) = (before, device.cpu()) {
        host.steal_ratio = after.since(&before).0;
    }
    if let Some(name) = &probe.name {
        host.hostname.clone_from(name);
    }
    Ok(Certificate {
        schema: SCHEMA,
        date: when,
        version: VERSION.to_owned(),
        host,
        run: Run {
            command: probe.command.clone(),
            port: "ports of the load".to_owned(),
            place: probe.place.clone(),
            seconds: begun.elapsed().as_secs_f64(),
            is_complete,
        },
        ..found
    })
}

fn all<D: Probed>(
    device: &mut D,
    probe: &GatewayProbe,
    (times, overload): (&Times, f64),
    steps: &mut Steps<'_>,
    found: &mut Certificate,
    host: Option<&Host>,
) -> Result<(), BenchError> {
    steps.next()?;
    let each = (overload / SAMPLES as f64).max(0.2);
    let samples = (0..SAMPLES).map(|_| device.overload(each)).collect::<Result<Vec<_>, _>>()?;
    let mpps: Vec<f64> = samples.iter().map(|sample| sample.forwarded / 1e6).collect();
    let cpu_us = crate::window::median(samples.iter().map(|sample| sample.cpu_us_per_packet));
    let mid = Band::of(&mpps).unwrap_or_default();
    let most = mid.mid * 1e6;
    if most <= 0.0 {
        return Err(BenchError::Agent(format!(
            "the gateway forwarded none of the packets: have its {} sessions the tunnels and addresses of the traffic?",
            probe.subscribers
        )));
    }
    let workers = samples.iter().map(|sample| sample.workers).max().unwrap_or(0);
    found.gateways.push(GatewayRate {
        // Whose workers are not known is not held against weir's, which has so many.
        gateway: if workers > 0 { probe.kind.clone() } else { format!("{}, workers not known", probe.kind) },
        profile: probe.profile.clone(),
        workers,
        subscribers: probe.subscribers,
        frame_bytes_mean: samples.first().map_or(0.0, |sample| sample.frame_bytes_mean),
        received_bytes_mean: 0.0,
        mpps: mid,
        // Cycles of the time stamp counter.
        cycles_per_packet: cpu_us * 1e3 * host.map_or(0.0, |host| host.tsc_ghz),
        packets_per_burst: 0.0,
    });
    steps.next()?;
    at_rates(device, &Offered { most, frame_bytes: probe.frame_bytes }, times, steps, found)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::search::Outcome;

    /// Forwards up to a rate, in no time.
    struct Simulated {
        rate: f64,
        trials: usize,
    }

    impl Trial for Simulated {
        type Error = BenchError;
        fn measure(&mut self, load: f64, duration: Duration) -> Result<Outcome, BenchError> {
            self.trials += 1;
            let intended = load * duration.as_secs_f64();
            let forwarded = intended.min(self.rate * duration.as_secs_f64());
            Ok(Outcome {
                intended_packets: intended as u64,
                sent_packets: intended as u64,
                forwarded_packets: forwarded as u64,
                lost_packets: (intended as u64).saturating_sub(forwarded as u64),
                counted_seconds: duration.as_secs_f64(),
                elapsed_seconds: duration.as_secs_f64(),
                latency_us: Some(traffic::LatencySummary { p50: 20.0, p99: 40.0, p999: 50.0, max: 60.0 }),
                disturbed: vec![],
            })
        }
    }

    impl Probed for Simulated {
        fn overload(&mut self, _: f64) -> Result<Overload, BenchError> {
            Ok(Overload { forwarded: self.rate, frame_bytes_mean: 124.0, workers: 2, cpu_us_per_packet: 1.5 })
        }
        fn host(&mut self) -> Result<Option<Host>, BenchError> {
            Ok(Some(Host { hostname: "gw".into(), tsc_ghz: 2.0, ..Host::default() }))
        }
    }

    fn probe() -> GatewayProbe {
        GatewayProbe {
            minutes: 0.1,
            name: None,
            kind: "upf".into(),
            profile: "gen.toml".into(),
            subscribers: 1000,
            frame_bytes: 128,
            command: "weir probe gateway".into(),
            place: "two agents".into(),
        }
    }

    #[test]
    fn a_simulated_gateway_s_rate_is_found() {
        let mut device = Simulated { rate: 500_000.0, trials: 0 };
        let mut shown = 0;
        let found = gateway(&mut device, &probe(), &AtomicBool::new(false), &mut |_| shown += 1).unwrap();
        let rate = found.latency.as_ref().unwrap().found_mpps;
        assert!((rate / 0.5 - 1.0).abs() < 0.012, "{rate}: at most 0.5 % loss, bounds 0.5 % apart");
        let one = &found.gateways[0];
        assert_eq!((one.mpps.mid, one.workers, one.cycles_per_packet), (0.5, 2, 3000.0));
        assert!(found.run.is_complete && shown == 4 && found.spread.is_some() && found.host.hostname == "gw");
        assert!(found.notes.iter().all(|note| !note.contains("best trial")), "{:?}", found.notes);
    }

    #[test]
    fn a_gateway_that_forwards_nothing_is_no_rate() {
        let mut device = Simulated { rate: 0.0, trials: 0 };
        let error = gateway(&mut device, &probe(), &AtomicBool::new(false), &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("1000 sessions"), "{error}");
    }

    #[test]
    fn an_interrupted_probe_keeps_what_it_has() {
        let stop = AtomicBool::new(false);
        let mut device = Simulated { rate: 1e5, trials: 0 };
        let mut show = |progress: &Progress| stop.store(progress.number.0 == 3, std::sync::atomic::Ordering::Relaxed);
        let found = gateway(&mut device, &probe(), &stop, &mut show);
        let found = found.unwrap();
        assert!(!found.run.is_complete && found.gateways.len() == 1 && found.spread.is_none());
    }
}
