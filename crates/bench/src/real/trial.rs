//! One trial: load for a while, and what happened in the middle of it.

use std::thread;
use std::time::{Duration, Instant};

use super::contender::{Charged, Contender};
use super::cpu::{Sched, Steal, Threads};
use super::place::Place;
use super::sink::{Arrived, Sink};
use crate::blast::{Blast, Sent};
use crate::error::BenchError;
use crate::thread::{Urgency, pin, urge};

/// Time before counting: the process has just been let go on.
const WARM: Duration = Duration::from_millis(250);
/// Time until the load begins.
const TO_BEGIN: Duration = Duration::from_secs(5);
/// Load after counting.
const AFTER: Duration = Duration::from_millis(50);
/// What is on its way has arrived after that.
const DRAIN: Duration = Duration::from_millis(60);
/// Frames a second that the load's program looks at where a rate is kept, before it is known; and where none is.
const LOOKS: f64 = 12e6;
const LOOKS_UNPACED: f64 = 6e6;
/// The most a hypervisor may take from the two CPUs, as a part of their time.
const MOST_STEAL: f64 = 0.02;

/// A source of packets and its rate.
#[derive(Clone, Copy)]
pub struct Load<'a> {
    pub blast: &'a Blast,
    /// Packets a second; none: as many as the kernel makes.
    pub pps: Option<f64>,
    /// Less than that is no fault: it is asked for to find out how much can be delivered.
    pub most: bool,
}

/// What happened in a trial.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// Seconds between the first and the last reading of counters.
    pub seconds: f64,
    /// Packets sent meanwhile: uplink, downlink.
    pub sent: [u64; 2],
    /// Packets that arrived meanwhile.
    pub arrived: Arrived,
    /// Packets sent and arrived from the trial's begin to after its end.
    pub whole: ([u64; 2], [u64; 2]),
    /// CPU time of all threads charged to the contender.
    pub sched: Sched,
    /// Nanoseconds of it that the NAPI threads of its interfaces ran.
    pub napi_ns: u64,
    /// The part of both CPUs' time that the hypervisor took.
    pub steal: f64,
    /// Packets per burst, where the contender counts bursts.
    pub burst: Option<f64>,
    /// Why it cannot be used, if so.
    pub invalid: Option<String>,
}

impl Trial {
    /// Packets delivered a second.
    pub fn pps(&self) -> f64 {
        self.arrived.by_direction().iter().sum::<u64>() as f64 / self.seconds
    }

    /// Packets offered a second.
    pub(crate) fn sent_pps(&self) -> f64 {
        self.sent.iter().sum::<u64>() as f64 / self.seconds
    }

    /// CPU nanoseconds for each packet delivered; none without packets.
    pub fn cpu_ns_per_packet(&self) -> Option<f64> {
        let packets: u64 = self.arrived.by_direction().iter().sum();
        (packets > 0).then(|| self.sched.run_ns as f64 / packets as f64)
    }

    /// Part of a CPU, in per cent.
    pub fn cpu_percent(&self) -> f64 {
        self.sched.run_ns as f64 / self.seconds / 1e7
    }

    /// The NAPI threads' part of it, in per cent of a CPU.
    pub(crate) fn napi_percent(&self) -> f64 {
        self.napi_ns as f64 / self.seconds / 1e7
    }

    /// Time runnable and not running, in per cent of the trial, all threads together: more than 100 when several wait.
    pub(crate) fn waited_percent(&self) -> f64 {
        self.sched.wait_ns as f64 / self.seconds / 1e7
    }

    /// Times a second that one of its threads was woken.
    pub(crate) fn wakeups_per_second(&self) -> f64 {
        self.sched.wakeups as f64 / self.seconds
    }

    /// Latency that this part of the packets had at most, in microseconds.
    pub fn latency_us(&self, part: f64) -> Option<f64> {
        let [mut all, down] = self.arrived.latency.clone();
        all.add(&down);
        all.quantile(part).map(|ns| ns / 1e3)
    }
}

/// Plays trials; learns how many frames the load's program must look at.
pub struct Trials {
    place: Place,
    /// Frames a second that the load's program looks at.
    looks: f64,
}

/// Counters read at one moment of a trial.
struct Moment {
    at: Instant,
    sent: [u64; 2],
    arrived: Arrived,
    threads: Threads,
    napi: Threads,
    steal: Steal,
}

/// What the threads of a trial return.
struct Played {
    /// The load ended before it should have.
    ended_early: bool,
    /// Where counting begins and ends.
    moments: [Moment; 2],
}

impl Trials {
    /// With processes and threads in these places.
    pub fn new(place: Place) -> Self {
        Self { place, looks: LOOKS }
    }

    /// One trial of `window`, without a load (idle) or with.
    ///
    /// # Errors
    /// The contender has ended, or the kernel refused.
    pub fn run(
        &mut self,
        contender: &mut Contender,
        load: Option<Load<'_>>,
        window: Duration,
    ) -> Result<Trial, BenchError> {
        let blast = load.map(|load| load.blast);
        contender.prepare(&self.place)?;
        let counter = blast.map(Blast::counter);
        let charged = contender.charged();
        let bursts = contender.bursts();
        let sent = || counter.as_ref().map_or([0; 2], Sent::packets);
        let (sent_before, arrived_before) = (sent(), contender.sink.arrived().by_direction());
        let Played { ended_early, moments } = self.play(&contender.sink, load, counter.as_ref(), &charged, window)?;
        let burst = bursts.zip(contender.bursts()).and_then(|(before, now)| now.mean_since(&before));
        let less = |now: [u64; 2], before: [u64; 2]| [0, 1].map(|way| now[way].saturating_sub(before[way]));
        let [first, last] = moments;
        let mut trial = Trial {
            seconds: last.at.duration_since(first.at).as_secs_f64(),
            sent: less(last.sent, first.sent),
            arrived: last.arrived.since(&first.arrived),
            whole: (less(sent(), sent_before), less(contender.sink.arrived().by_direction(), arrived_before)),
            sched: last.threads.since(&first.threads).and(last.napi.since(&first.napi)),
            napi_ns: last.napi.since(&first.napi).run_ns,
            steal: last.steal.since(&first.steal),
            burst,
            invalid: None,
        };
        trial.invalid = verdict(&trial, load, window, ended_early);
        Ok(trial)
    }

    /// Load and conductor on threads of their own.
    fn play(
        &mut self,
        sink: &Sink,
        load: Option<Load<'_>>,
        counter: Option<&Sent>,
        charged: &Charged,
        window: Duration,
    ) -> Result<Played, BenchError> {
        let place = self.place;
        let length = WARM + window + AFTER;
        let moment = || Moment {
            at: Instant::now(),
            sent: counter.map_or([0; 2], Sent::packets),
            arrived: sink.arrived(),
            threads: Threads::now(&charged.process),
            napi: Threads::now(&charged.napi),
            steal: Steal::now(&[place.load, place.gateway]),
        };
        let settle = move |urgency| {
            pin(place.load);
            if place.fifo {
                urge(urgency);
            }
        };
        let looks = load.map_or(0.0, |load| load.pps.map_or(LOOKS_UNPACED, |_| self.looks) * length.as_secs_f64());
        let (took, moments) = thread::scope(|scope| {
            let named = |name: &str| thread::Builder::new().name(name.into());
            let blowing = named("load").spawn_scoped(scope, move || -> Result<Instant, BenchError> {
                settle(Urgency::Packets);
                load.map_or(Ok(()), |load| load.blast.send(length, load.pps, looks as u32))?;
                Ok(Instant::now())
            });
            let conducting = named("conductor").spawn_scoped(scope, move || {
                settle(Urgency::Conductor);
                wait_for_load(counter);
                let begun = Instant::now();
                thread::sleep(WARM);
                let first = moment();
                thread::sleep(window);
                (begun, [first, moment()])
            });
            let failed = |error| BenchError::system("a thread", error);
            let (blowing, conducting) = (blowing.map_err(failed)?, conducting.map_err(failed)?);
            let (begun, moments) = conducting.join().map_err(|_| BenchError::Died("conductor"))?;
            let ended = blowing.join().map_err(|_| BenchError::Died("load"))??;
            Ok::<_, BenchError>((ended.duration_since(begun), moments))
        })?;
        // It is seen to have begun a millisecond late.
        let ended_early = load.is_some() && took + Duration::from_millis(5) < length;
        if let Some(Load { pps: Some(pps), .. }) = load {
            let seen = looks / took.as_secs_f64().max(1e-3);
            if ended_early {
                self.looks = (seen * 1.5).min(40e6);
            } else if pps < 60e3 {
                self.looks = seen * 1.3;
            }
        }
        thread::sleep(DRAIN);
        Ok(Played { ended_early, moments })
    }
}

/// Until the first packet is sent: the kernel first makes sure that no CPU runs an earlier version of its XDP dispatcher,
/// which takes up to a second where real-time threads leave it no time.
fn wait_for_load(counter: Option<&Sent>) {
    let Some(counter) = counter else { return };
    let (before, until) = (counter.packets(), Instant::now() + TO_BEGIN);
    while counter.packets() == before && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Why a trial cannot be used, if so. Where most is sought, less than what was asked for may be all that there is.
fn verdict(trial: &Trial, load: Option<Load<'_>>, window: Duration, ended_early: bool) -> Option<String> {
    let pps = load.filter(|load| !load.most).and_then(|load| load.pps);
    let wanted = window.as_secs_f64();
    if trial.steal > MOST_STEAL {
        return Some(format!("the hypervisor took {:.1} % of the CPUs' time", 100.0 * trial.steal));
    }
    if ended_early {
        return Some("the load ended early".to_owned());
    }
    if (trial.seconds / wanted - 1.0).abs() > 0.05 {
        return Some(format!("counters were read after {:.3} s instead of {wanted:.3} s", trial.seconds));
    }
    match pps {
        // A trial of few packets may be one off.
        Some(pps) if trial.sent_pps() + 2.0 / wanted < 0.97 * pps => {
            Some(format!("{:.0} instead of {pps:.0} packets a second were offered", trial.sent_pps()))
        }
        _ => None,
    }
}
