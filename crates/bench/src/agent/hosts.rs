//! A gateway between two hosts with agents: a trial sends at both, checks at the other, and compares clocks before and
//! after.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::{Direction, DirectionResult, TrialResult};

use super::client::{Client, Clocks};
use super::end::{HostUse, MOST_GAIN_PPB, OpenEnd, Side, TOO_LATE, TrialOrder};
use super::protocol::{Answer, Request};
use crate::error::BenchError;
use crate::search::{Disturbance, Outcome, Trial, slower};

/// Orders of a trial that was too late.
const TRIES: u32 = 3;
/// From order to begin, at least: both agents have heard it by then.
const LEAD: Duration = Duration::from_millis(150);
/// Beyond a trial an answer takes so long at most: packets on their way, and the line.
const DRAIN: f64 = 5.0;
/// Steal of more than this part of a host's processor time makes a trial invalid.
const MOST_STEAL: f64 = 0.01;

/// Agents by what is at their hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agents {
    /// gNBs: sends the uplink, checks the downlink.
    pub access: SocketAddr,
    /// Servers: sends the downlink, checks the uplink.
    pub core: SocketAddr,
    /// The gateway: processor time and counters; none: it has no agent.
    pub gateway: Option<SocketAddr>,
}

/// Over less time a gain says nothing.
const LEAST_SECONDS: f64 = 0.5;

/// An end at an agent.
struct End {
    side: Side,
    client: Client,
    /// The first comparison of clocks, and when that was.
    first: Option<(Instant, Clocks)>,
}

/// A comparison of clocks.
#[derive(Clone, Copy, Debug)]
struct Compared {
    at: Instant,
    clocks: Clocks,
    /// Nanoseconds gained a second since the first comparison.
    gain_ppb: f64,
}

impl End {
    fn compare(&mut self) -> Result<Compared, BenchError> {
        let clocks = self.client.clock().map_err(failed(self.side.word()))?;
        let at = Instant::now();
        let (begin, first) = *self.first.get_or_insert((at, clocks));
        let seconds = (at - begin).as_secs_f64();
        let gained = clocks.offset_ns.saturating_sub(first.offset_ns) as f64;
        // Less than what comparing may be off by is no gain.
        let is_known = gained.abs() > (clocks.round_trip_ns + first.round_trip_ns) as f64 / 2.0;
        let gain_ppb = if seconds > LEAST_SECONDS && is_known { gained / seconds } else { 0.0 };
        let most = f64::from(MOST_GAIN_PPB);
        Ok(Compared { at, clocks, gain_ppb: gain_ppb.clamp(-most, most) })
    }
}

/// Connections to agents whose ends are open.
pub struct Hosts {
    ends: [End; 2],
    gateway: Option<Client>,
    stop: Arc<AtomicBool>,
}

/// A host during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostView {
    /// What is there: `access`, `core`, `gateway`.
    pub role: String,
    /// The host's name, as its kernel has it.
    pub hostname: String,
    /// Processors that the agent may use.
    pub cpus: usize,
    /// Release of the host's kernel.
    pub kernel: String,
    /// The part of its processors' time, 0 to 1, that was not idle.
    pub busy_ratio: f64,
    /// The part that its hypervisor gave to others.
    pub steal_ratio: f64,
    /// This host's clock was ahead of its clock by so many microseconds.
    pub clock_offset_us: f64,
    /// The shortest round trip when clocks were compared, in microseconds: the offset is off by half of it at most.
    pub clock_round_trip_us: f64,
    /// This host's clock gained so many microseconds a second on its clock, as far as was known when the trial began: it
    /// was accounted for.
    pub clock_gain_ppm: f64,
    /// What the offset after the trial was beyond that, in microseconds.
    pub clock_drift_us: f64,
}

/// What the gateway did during a trial, by its own counters and its kernel's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayView {
    /// Kind of the gateway as in its configuration: `upf`, `bng`, `cmts`.
    pub gateway: String,
    /// Version of the gateway's program.
    pub version: String,
    /// Threads that carry packets.
    pub workers: usize,
    /// Processor time of its process, in seconds.
    pub cpu_seconds: f64,
    /// The same for each packet that was forwarded, in microseconds.
    pub cpu_us_per_packet: f64,
    /// Packets it received.
    pub rx_packets: u64,
    /// Packets it dropped, by `stage.reason`.
    pub drops: BTreeMap<String, u64>,
}

/// A trial over hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostsTrial {
    /// What became of the packets; latencies are of one way.
    #[serde(flatten)]
    pub result: TrialResult,
    /// An estimate of how much latencies may be off, in microseconds: half of the round trips when clocks were compared, and
    /// what they drifted.
    pub latency_error_us: f64,
    /// Access side, core side, and the gateway's where it has an agent.
    pub hosts: Vec<HostView>,
    /// The gateway, where it has an agent with its control socket.
    pub gateway: Option<GatewayView>,
    /// What disturbed the trial.
    pub disturbed: Vec<Disturbance>,
}

fn failed(what: &str) -> impl Fn(std::io::Error) -> BenchError {
    let what = format!("agent at the {what} side");
    move |error| match error.kind() {
        std::io::ErrorKind::Interrupted => BenchError::Interrupted,
        _ => BenchError::Agent(format!("{what}: {error}")),
    }
}

impl Hosts {
    /// Connects to the agents and has them open their ends.
    ///
    /// # Errors
    /// An agent is not there, has another secret, offers no port, or the gateway does not answer it.
    pub fn connect(
        agents: &Agents,
        secret: &[u8],
        ends: [&OpenEnd; 2],
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, BenchError> {
        let connect = |what: &str, at: SocketAddr| Client::connect(at, secret, stop).map_err(failed(what));
        let mut opened = Vec::new();
        for (end, at) in ends.into_iter().zip([agents.access, agents.core]) {
            let mut client = connect(end.side.word(), at)?;
            client.open(end).map_err(failed(end.side.word()))?;
            opened.push(End { side: end.side, client, first: None });
        }
        let gateway = agents.gateway.map(|at| connect("gateway", at)).transpose()?;
        let ends = opened.try_into().map_err(|_| BenchError::Asked("two ends".to_owned()))?;
        Ok(Self { ends, gateway, stop: stop.clone() })
    }

    /// Some packets that do not count, until neighbours know each other.
    ///
    /// # Errors
    /// As [`trial`](Self::trial).
    pub fn warm(&mut self) -> Result<(), BenchError> {
        self.trial(Some(2000.0), 0.5).map(drop)
    }

    /// Sends at both ends for some seconds, `pps` packets a second in both directions together.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`], or what an agent said.
    pub fn trial(&mut self, pps: Option<f64>, seconds: f64) -> Result<HostsTrial, BenchError> {
        let mut tries = 0;
        loop {
            match self.one_trial(pps, seconds) {
                // An agent, or the network to it, was slow: it has not begun.
                Err(BenchError::Agent(why)) if why.contains(TOO_LATE) && tries < TRIES => tries += 1,
                other => return other,
            }
        }
    }

    fn one_trial(&mut self, pps: Option<f64>, seconds: f64) -> Result<HostsTrial, BenchError> {
        let (clocks, before) = (self.clocks()?, self.used()?);
        // Comparing clocks took its time.
        let slowest = clocks.iter().map(|compared| compared.clocks.round_trip_ns).max().unwrap_or(0);
        let lead = LEAD.max(Duration::from_nanos(4 * slowest.unsigned_abs()));
        let start = super::now_ns() + lead.as_nanos() as i64;
        for (End { side, client, .. }, Compared { clocks, gain_ppb, .. }) in self.ends.iter_mut().zip(&clocks) {
            let (offset_ns, gain_ppb) = (clocks.offset_ns, *gain_ppb as i32);
            let order = TrialOrder { offset_ns, gain_ppb, start_ns: start - offset_ns, pps, seconds };
            client.tell(&Request::Trial(order)).map_err(failed(side.word()))?;
        }
        let mut found = Vec::new();
        for End { side, client, .. } in &mut self.ends {
            // Both are heard, whatever one of them says.
            found.push(match client.hear(seconds + lead.as_secs_f64() + DRAIN) {
                Ok(Answer::Tried(result)) => Ok(*result),
                Ok(other) => Err(BenchError::Agent(format!("unexpected answer: {other:?}"))),
                Err(error) => Err(failed(side.word())(error)),
            });
            if self.stop.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
        }
        let found = found.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (after, later) = (self.used()?, self.clocks()?);
        let [access, core] = found.as_slice() else { return Err(BenchError::Died("a trial")) };
        let result = together(access, core, seconds);
        let mut trial = HostsTrial { result, ..HostsTrial::default() };
        for (n, (used, earlier)) in after.iter().zip(&before).enumerate() {
            trial.add_host(n, (used, earlier), (clocks.get(n), later.get(n)));
        }
        if trial.hosts.iter().any(|host| host.steal_ratio > MOST_STEAL) {
            trial.disturbed.push(Disturbance::Steal);
        }
        Ok(trial)
    }

    /// The gateway's host, where it has an agent.
    ///
    /// # Errors
    /// The connection to the agent is lost, or it does not answer.
    pub fn gateway_used(&mut self) -> Result<Option<HostUse>, BenchError> {
        self.gateway.as_mut().map(|client| client.used().map_err(failed("gateway"))).transpose()
    }

    fn clocks(&mut self) -> Result<Vec<Compared>, BenchError> {
        self.ends.iter_mut().map(End::compare).collect()
    }

    fn used(&mut self) -> Result<Vec<HostUse>, BenchError> {
        let ends = self.ends.iter_mut().map(|end| (end.side.word(), &mut end.client));
        let gateway = self.gateway.iter_mut().map(|client| ("gateway", client));
        ends.chain(gateway).map(|(what, client)| client.used().map_err(failed(what))).collect()
    }
}

impl HostsTrial {
    fn add_host(
        &mut self,
        n: usize,
        (used, earlier): (&HostUse, &HostUse),
        (clock, later): (Option<&Compared>, Option<&Compared>),
    ) {
        let (steal_ratio, busy_ratio) = used.cpu.since(&earlier.cpu);
        let mut view = HostView {
            role: ["access", "core", "gateway"][n.min(2)].to_owned(),
            hostname: used.machine.hostname.clone(),
            cpus: used.machine.cpus,
            kernel: used.machine.kernel.clone(),
            busy_ratio,
            steal_ratio,
            ..HostView::default()
        };
        if let (Some(clock), Some(later)) = (clock, later) {
            let gained = clock.gain_ppb * (later.at - clock.at).as_secs_f64();
            let drift = ((later.clocks.offset_ns - clock.clocks.offset_ns) as f64 - gained) / 1e3;
            let round_trip = clock.clocks.round_trip_ns as f64 / 1e3;
            (view.clock_offset_us, view.clock_round_trip_us) = (clock.clocks.offset_ns as f64 / 1e3, round_trip);
            (view.clock_gain_ppm, view.clock_drift_us) = (clock.gain_ppb / 1e3, drift);
            let later_trip = later.clocks.round_trip_ns as f64 / 1e3;
            self.latency_error_us += (round_trip + later_trip) / 2.0 + drift.abs();
        }
        self.hosts.push(view);
        if let (Some(now), Some(then)) = (&used.gateway, &earlier.gateway) {
            let directions = &self.result.directions;
            let forwarded = directions.uplink.forwarded_packets + directions.downlink.forwarded_packets;
            let cpu_seconds = (now.cpu_seconds - then.cpu_seconds).max(0.0);
            let before = |name: &String| then.drops.get(name).copied().unwrap_or(0);
            let drops = now.drops.iter().map(|(name, n)| (name.clone(), n.saturating_sub(before(name))));
            self.gateway = Some(GatewayView {
                gateway: now.gateway.clone(),
                version: now.version.clone(),
                workers: now.workers,
                cpu_seconds,
                cpu_us_per_packet: cpu_seconds * 1e6 / forwarded.max(1) as f64,
                rx_packets: now.rx_packets.saturating_sub(then.rx_packets),
                drops: drops.filter(|(_, packets)| *packets > 0).collect(),
            });
        }
    }
}

/// What was sent at one end with what arrived at the other.
fn together(access: &TrialResult, core: &TrialResult, seconds: f64) -> TrialResult {
    let direction = |direction: Direction| {
        let (from, to) = match direction {
            Direction::Uplink => (access, core),
            Direction::Downlink => (core, access),
        };
        let (sent, got) = (from.direction(direction), to.direction(direction));
        DirectionResult {
            frame_bytes_mean: sent.frame_bytes_mean,
            offered_packets: sent.offered_packets,
            sent_packets: sent.sent_packets,
            unsent_packets: sent.unsent_packets,
            lost_packets: sent.sent_packets.saturating_sub(got.forwarded_packets),
            missed_packets: got.missed_packets.min(sent.sent_packets.saturating_sub(got.forwarded_packets)),
            mpps: got.forwarded_packets as f64 / seconds.max(1e-9) / 1e6,
            gbps_l2: got.gbps_l2 * to.seconds / seconds.max(1e-9),
            ..*got
        }
    };
    TrialResult::both(seconds, direction(Direction::Uplink), direction(Direction::Downlink))
}

impl Trial for Hosts {
    type Error = BenchError;

    fn measure(&mut self, load: f64, duration: Duration) -> Result<Outcome, BenchError> {
        let begin = Instant::now();
        let trial = self.trial(Some(load), duration.as_secs_f64())?;
        let directions = [&trial.result.directions.uplink, &trial.result.directions.downlink];
        let sum = |of: fn(&DirectionResult) -> u64| directions.iter().map(|direction| of(direction)).sum::<u64>();
        let (sent, forwarded) = (sum(|d| d.sent_packets), sum(|d| d.forwarded_packets));
        Ok(Outcome {
            elapsed_seconds: begin.elapsed().as_secs_f64(),
            latency_us: slower(directions.map(|direction| direction.latency_us)),
            disturbed: trial.disturbed,
            ..Outcome::of(load, duration.as_secs_f64(), (sent, forwarded))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_s_packets_are_looked_for_at_the_other() {
        let sent = DirectionResult { sent_packets: 100, offered_packets: 110, ..DirectionResult::default() };
        let got = |n: u64| DirectionResult { forwarded_packets: n, reordered_packets: 1, ..DirectionResult::default() };
        let access = TrialResult::both(2.0, sent, got(70));
        let core = TrialResult::both(2.0, got(99), DirectionResult { sent_packets: 80, ..sent });
        let both = together(&access, &core, 2.0);
        let (up, down) = (&both.directions.uplink, &both.directions.downlink);
        assert_eq!((up.sent_packets, up.forwarded_packets, up.lost_packets, up.offered_packets), (100, 99, 1, 110));
        assert_eq!((down.sent_packets, down.forwarded_packets, down.lost_packets), (80, 70, 10));
        assert!((up.mpps - 49.5e-6).abs() < 1e-12 && up.reordered_packets == 1, "{up:?}");
        assert!((both.loss_ratio - 11.0 / 180.0).abs() < 1e-9);
    }

    #[test]
    fn clocks_and_counters_of_hosts_are_compared() {
        let mut trial = HostsTrial::default();
        trial.result.directions.uplink.forwarded_packets = 1_000_000;
        let begin = Instant::now();
        let clock = |after: u64, offset_ns| Compared {
            at: begin + Duration::from_secs(after),
            clocks: Clocks { offset_ns, round_trip_ns: 40_000 },
            gain_ppb: 50_000.0,
        };
        let used = |drops: u64, cpu_seconds: f64| HostUse {
            gateway: Some(super::super::end::GatewayUse {
                cpu_seconds,
                drops: [("uplink.route.no_route".to_owned(), drops), ("x".to_owned(), 3)].into(),
                ..Default::default()
            }),
            ..HostUse::default()
        };
        let (clocks, later) = (clock(0, 5_000_000), clock(2, 5_103_000));
        trial.add_host(0, (&HostUse::default(), &HostUse::default()), (Some(&clocks), Some(&later)));
        trial.add_host(2, (&used(9, 4.5), &used(2, 3.0)), (None, None));
        let host = &trial.hosts[0];
        assert_eq!((host.clock_offset_us, host.clock_gain_ppm, trial.latency_error_us), (5000.0, 50.0, 43.0));
        let gateway = trial.gateway.unwrap();
        assert_eq!(gateway.drops, [("uplink.route.no_route".to_owned(), 7)].into());
        assert!((gateway.cpu_us_per_packet - 1.5).abs() < 1e-9 && trial.hosts[1].role == "gateway");
    }
}
