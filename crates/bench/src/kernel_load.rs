//! Traffic made by the kernel for a gateway on the links of a lab: frames prepared once and sent from one CPU with no
//! process between, counted and timed by a program at the far ends. For whoever shares two CPUs with the gateway: making a
//! packet takes a quarter of what a process takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use traffic::{DirectionResult, Directions, LatencySummary, Plan, Profile, TrialResult};

use crate::blast::{Blast, MOST};
use crate::error::BenchError;
use crate::lab::{Lab, Side, exec, run};
use crate::real::cpu::napi_threads;
use crate::real::histogram::Histogram;
use crate::real::sink::{Arrived, Sink};
use crate::real::verify::Verified;
use crate::thread::{Urgency, cpus, pin, urge};

/// The first call only learns how many frames the program looks at in a second; at the end of each of the others a few
/// tens of milliseconds pass without a packet.
const FIRST: Duration = Duration::from_millis(250);
const LATER: Duration = Duration::from_secs(2);
/// Frames looked at a second, before it is known: where a rate is kept, and where each of them is sent.
const LOOKS: f64 = 4e6;
const LOOKS_UNPACED: f64 = 1e6;
const MOST_LOOKS: f64 = 40e6;
/// Time between pictures, and between looks at samples.
const PICTURE: Duration = Duration::from_millis(500);
/// What is on its way has arrived after that.
const DRAIN: Duration = Duration::from_millis(100);

/// Traffic both ways through the sessions of a profile, on the calling process's first CPU.
pub struct KernelLoad {
    blast: Blast,
    sink: Sink,
    plan: Arc<Plan>,
    /// It sends so long at a time.
    part: Duration,
}

/// What was found in the packets that were copied out at the far ends.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    /// Packets that were held against their sessions.
    pub packets: u64,
    /// What was wrong with the first few that were wrong.
    pub wrong: Vec<String>,
}

impl KernelLoad {
    /// Prepares packets of as many users as there is room for, and attaches the far ends. The gateway must know whom it sends
    /// to: nobody answers ARP there.
    ///
    /// # Errors
    /// A profile that cannot be; or the kernel has no live frames (before Linux 5.18), or refuses.
    pub fn new(lab: &Lab, link: usize, profile: Profile) -> Result<Self, BenchError> {
        // So that the time can be written into a packet on its way.
        let profile = Profile { user_checksums: false, ..profile };
        let ues = profile.ues;
        let plan = Plan::subset(profile, 0..ues, 0)?;
        let (blast, sink) = (Blast::stamped(lab, link, &plan)?, Sink::attach(lab, link)?);
        take_in_by_threads(lab, link)?;
        Ok(Self { blast, sink, plan, part: LATER })
    }

    /// The same without a gateway: what is sent is counted and timed where a gateway would receive it.
    ///
    /// # Errors
    /// As [`KernelLoad::new`].
    pub fn against_itself(lab: &Lab, link: usize, profile: Profile) -> Result<Self, BenchError> {
        let profile = Profile { user_checksums: false, ..profile };
        let ues = profile.ues;
        let plan = Plan::subset(profile, 0..ues, 0)?;
        let blast = Blast::stamped(lab, link, &plan)?;
        Ok(Self { blast, sink: Sink::attach_near(lab, link)?, plan, part: LATER })
    }

    /// Sends for `part` (less than two seconds) at a time at most, from a thread that gets nearly all of its CPU: who wants it to
    /// end waits for so long. Between two parts a few tens of
    /// milliseconds pass without a packet, and are not counted.
    #[must_use]
    pub fn in_parts_of(self, part: Duration) -> Self {
        Self { part, ..self }
    }

    /// Users that packets are prepared for.
    pub fn users(&self) -> u32 {
        self.plan.ues().min(MOST as u32 / 2)
    }

    /// Sends for so long, at `pps` packets a second or as fast as can be. `show` is told what was found so far.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn run(
        &self,
        length: Duration,
        pps: Option<f64>,
        stop: &AtomicBool,
        show: &mut dyn FnMut(&TrialResult),
    ) -> Result<(TrialResult, Looked), BenchError> {
        let counter = self.blast.counter();
        let (sent, arrived) = (counter.packets(), self.sink.arrived());
        let mut verified = Verified::default();
        let mut look = || verified.add(&self.sink.take_samples(), &self.plan);
        let found = |seconds: f64| {
            let now = counter.packets();
            let sent = [0, 1].map(|way| now[way].saturating_sub(sent[way]));
            self.result(seconds, sent, &self.sink.arrived().since(&arrived), counter.mean)
        };
        let begun = Instant::now();
        let sent_for = thread::scope(|scope| {
            let sending = thread::Builder::new().name("load".into()).spawn_scoped(scope, || {
                // Where it may not be pinned it runs wherever there is room.
                let _ = cpus().first().is_some_and(|cpu| pin(*cpu));
                if self.part < LATER {
                    urge(Urgency::Brisk);
                }
                self.send(begun, length, pps, stop)
            });
            let sending = sending.map_err(|error| BenchError::system("a thread", error))?;
            let mut next = PICTURE;
            while !sending.is_finished() {
                thread::sleep(Duration::from_millis(20));
                if begun.elapsed() >= next {
                    next += PICTURE;
                    look();
                    show(&found(begun.elapsed().as_secs_f64()));
                }
            }
            sending.join().map_err(|_| BenchError::Died("load"))?
        })?;
        thread::sleep(DRAIN);
        look();
        let looked = Looked { packets: verified.checked.iter().sum(), wrong: verified.wrong };
        Ok((found(sent_for.as_secs_f64()), looked))
    }

    /// Returns how long it sent: not the end of a call, in which frames that are left are looked at and dropped.
    fn send(
        &self,
        begun: Instant,
        length: Duration,
        pps: Option<f64>,
        stop: &AtomicBool,
    ) -> Result<Duration, BenchError> {
        let (mut looks, mut part) = (pps.map_or(LOOKS_UNPACED, |_| LOOKS), FIRST.min(self.part));
        let mut sent_for = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let left = length.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            let (now, time) = (Instant::now(), part.min(left));
            let frames = (looks * time.as_secs_f64()).max(64.0);
            self.blast.send(time, pps, frames as u32)?;
            let took = now.elapsed();
            sent_for += took.min(time);
            looks = (frames / took.as_secs_f64().max(1e-3)).min(MOST_LOOKS);
            part = self.part;
        }
        Ok(sent_for)
    }

    fn result(&self, seconds: f64, sent: [u64; 2], arrived: &Arrived, mean: [f64; 2]) -> TrialResult {
        let tunnel = self.plan.profile().tunnel_bytes() as f64;
        let [uplink, downlink] = [0, 1].map(|way: usize| {
            let forwarded = arrived.by_direction()[way];
            let per_second = forwarded as f64 / seconds.max(1e-9);
            DirectionResult {
                frame_bytes_mean: mean[way],
                offered_packets: sent[way],
                sent_packets: sent[way],
                forwarded_packets: forwarded,
                lost_packets: sent[way].saturating_sub(forwarded),
                mpps: per_second / 1e6,
                gbps_l2: per_second * (mean[way] + tunnel) * 8.0 / 1e9,
                latency_us: summary(&arrived.latency[way]),
                ..DirectionResult::default()
            }
        });
        let lost = uplink.lost_packets + downlink.lost_packets;
        TrialResult {
            seconds,
            directions: Directions { uplink, downlink },
            mpps: uplink.mpps + downlink.mpps,
            gbps_l2: uplink.gbps_l2 + downlink.gbps_l2,
            loss_ratio: lost as f64 / (sent.iter().sum::<u64>().max(1)) as f64,
        }
    }
}

/// Has what the gateway sends taken in by threads, which the scheduler puts where there is room: else the gateway's worker
/// does that amid sending. They come before all else where that is allowed, or links fill up.
fn take_in_by_threads(lab: &Lab, link: usize) -> Result<(), BenchError> {
    let names = Side::BOTH.map(|side| side.load(link));
    for name in &names {
        exec(lab.load(), "sh", &["-c", &format!("echo 1 > /sys/class/net/{name}/threaded")])?;
    }
    for thread in napi_threads(&names) {
        let _ = run("chrt", &["-f", "-p", "10", &thread.to_string()]);
    }
    Ok(())
}

fn summary(latency: &Histogram) -> LatencySummary {
    let us = |part| latency.quantile(part).map_or(0.0, |ns| ns / 1e3);
    LatencySummary { p50: us(0.5), p99: us(0.99), p999: us(0.999), max: us(1.0) }
}
