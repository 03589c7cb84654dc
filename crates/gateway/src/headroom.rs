//! A running gateway beside its capacity certificate (`[certificate]`): how much is left, and alarms. An alarm is
//! raised only if
//!
//! - at least 0.9 of the certified rate is offered and less than 0.95 of it delivered, or
//! - a packet takes more than 1.25 times the certified cycles, at like frame size and burst, or
//! - a counter of exceeded allowances moves, as ENA (the network interface of EC2) has them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use certificate::{Certificate, GatewayRate, Task, check};
use dataplane::config::CertificateSection;
use engine::Io;
use port::Uri;
use port::iface::Iface;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::background::Background;
use crate::fail::Usage;
use crate::metrics::{Known, Monitored};

/// Between two looks.
const EVERY: Duration = Duration::from_secs(5);
/// Between two looks at whether to end.
const STEP: Duration = Duration::from_millis(100);
/// Of the certified rate, from where a gateway is held to it.
const OFFERED: f64 = 0.9;
/// Of the offered rate, what must be delivered.
const DELIVERED: f64 = 0.95;
/// Of the certified cycles.
const CYCLES: f64 = 1.25;
/// Frames are of like size within this part of the certified size, bursts within this factor.
const LIKE_SIZE: f64 = 0.25;
const LIKE_BURST: f64 = 2.0;
/// Packets of a look, from which on cycles are compared.
const PACKETS: u64 = 10_000;

/// Why an alarm is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Alarm {
    /// Less than 0.95 of what is offered is delivered, at 0.9 of the certified rate or more.
    Undelivered,
    /// A packet takes more than 1.25 times the certified cycles.
    Cycles,
    /// A counter of exceeded allowances has moved.
    Allowance,
}

impl Alarm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Undelivered, Self::Cycles, Self::Allowance];

    /// As metrics and events name it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Undelivered => "undelivered",
            Self::Cycles => "cycles",
            Self::Allowance => "allowance",
        }
    }
}

/// A gateway beside its certificate, over the last five seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeadroomView {
    /// Of the certified rate, what is not offered: 1 idle, 0 at the certified rate or beyond.
    pub headroom_ratio: f64,
    /// The certified rate, millions of packets a second: of the gateway in proportion to its workers, or of bare forwarding
    /// with no more queues than workers.
    pub certified_mpps: f64,
    /// Received by ports, with what they lost, millions of packets a second.
    pub offered_mpps: f64,
    /// Of these, what neither ports lost nor full queues refused; what a rule dropped is delivered.
    pub delivered_mpps: f64,
    /// Cycles of a packet; none: too few packets.
    pub cycles_per_packet: Option<f64>,
    /// Certified cycles of a packet; none: the certificate has none for this kind of gateway.
    pub certified_cycles_per_packet: Option<f64>,
    /// Allowance counters that have moved, by interface and name.
    pub exceeded: Vec<String>,
    /// Alarms that are raised.
    pub alarms: Vec<Alarm>,
}

/// What a certificate says of a gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Certified {
    /// Packets a second of all workers together.
    pps: f64,
    /// The gateway's own measurement; none: the certificate has bare forwarding only.
    own: Option<GatewayRate>,
}

impl Certified {
    /// Reads the certificate that a configuration names, for a gateway with so many workers.
    ///
    /// # Errors
    /// It cannot be read, was changed, is signed by another key, or has no rate.
    pub fn read(section: &CertificateSection, gateway: &str, workers: u16) -> Result<Self, Usage> {
        let at = section.file.display();
        let wrong = |why: String| Usage(format!("[certificate] file = \"{at}\": {why}"));
        let text = fs::read_to_string(&section.file).map_err(|error| wrong(error.to_string()))?;
        let checked = check(&text, section.trust.as_deref()).map_err(|error| wrong(format!("it {error}")))?;
        if !checked.certificate.run.is_complete {
            return Err(wrong("it is of a probe that did not end".to_owned()));
        }
        Self::of(&checked.certificate, gateway, workers).ok_or_else(|| {
            wrong(format!("it has no rate of {gateway} and none of forwarding; make one with weir probe quick"))
        })
    }

    fn of(certificate: &Certificate, gateway: &str, workers: u16) -> Option<Self> {
        let own = certificate.gateways.iter().filter(|one| one.gateway == gateway && one.mpps.mid > 0.0);
        let own = own.max_by(|a, b| a.mpps.mid.total_cmp(&b.mpps.mid)).cloned();
        let mpps = match &own {
            Some(own) => own.mpps.mid / f64::from(own.workers.max(1)) * f64::from(workers),
            None => bare(certificate, workers)?,
        };
        (mpps > 0.0).then_some(Self { pps: mpps * 1e6, own })
    }
}

/// Millions of packets a second that were forwarded without a gateway, with no more queues than workers.
fn bare(certificate: &Certificate, workers: u16) -> Option<f64> {
    let forwards = || certificate.rates.iter().filter(|rate| rate.task == Task::Forward);
    let queues = forwards().map(|rate| rate.queues).filter(|queues| *queues <= workers.max(1)).max()?;
    forwards().filter(|rate| rate.queues == queues).map(|rate| rate.mpps.mid).max_by(f64::total_cmp)
}

/// Counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    seconds: f64,
    offered: u64,
    lost: u64,
    received: u64,
    received_bytes: u64,
    bursts: u64,
    cycles: u64,
    /// By interface and name.
    allowances: BTreeMap<String, u64>,
}

impl Reading {
    /// Of what monitoring sees, and of allowance counters.
    fn of(known: &Known, allowances: BTreeMap<String, u64>) -> Self {
        let snapshot = &known.snapshot;
        let sum = |what: Io| snapshot.workers.iter().map(|worker| worker.io(what)).sum::<u64>();
        let by_kernel = snapshot.kernel.as_ref().map_or(0, crate::snapshot::KernelCounters::taken);
        let losses = known.ports.iter().flat_map(|port| port.losses());
        let lost = losses.filter(|(name, _)| ["rx_ring_full", "rx_no_frame"].contains(name));
        let lost_at_ports: u64 = lost.map(|(_, packets)| packets).sum();
        // The row `worker` also has drops of the slow path by rule and, once more, what ports lost before receiving.
        let no_room = ["tx_full", "hand_off_full", "no_frame", "port_lost"];
        let drops = snapshot.workers.iter().flat_map(|worker| &worker.drops);
        let refused = drops.filter(|drop| drop.stage == "worker" && no_room.contains(&drop.reason.as_str()));
        let refused: u64 = refused.map(|drop| drop.packets).sum();
        let received = sum(Io::RxPackets);
        let busy = [Io::RxCycles, Io::PipelineCycles, Io::TxCycles, Io::OtherCycles];
        Self {
            seconds: snapshot.uptime,
            offered: received + by_kernel + lost_at_ports,
            lost: lost_at_ports + refused,
            received,
            received_bytes: sum(Io::RxBytes),
            bursts: sum(Io::Bursts),
            cycles: busy.into_iter().map(sum).sum(),
            allowances,
        }
    }
}

/// Compares readings with a certificate.
#[derive(Debug)]
pub struct Judge {
    certified: Certified,
    last: Option<Reading>,
    raised: BTreeSet<Alarm>,
}

impl Judge {
    /// By that certificate.
    pub fn new(certified: Certified) -> Self {
        Self { certified, last: None, raised: BTreeSet::new() }
    }

    /// The time since the last reading; none: it is the first. Alarms that begin or end become events.
    pub fn look(&mut self, now: Reading) -> Option<HeadroomView> {
        let view = self.last.as_ref().and_then(|last| self.view(last, &now));
        self.last = Some(now);
        let view = view?;
        let alarms: BTreeSet<Alarm> = view.alarms.iter().copied().collect();
        for alarm in alarms.difference(&self.raised) {
            self.report(*alarm, &view);
        }
        for alarm in self.raised.difference(&alarms) {
            let reason = alarm.word();
            tracing::info!(target: "process", event = "certificate_alarm_over", reason, "{reason}: as certified again");
        }
        self.raised = alarms;
        Some(view)
    }

    fn report(&self, alarm: Alarm, view: &HeadroomView) {
        let (reason, offered, certified) = (alarm.word(), view.offered_mpps, view.certified_mpps);
        let what = match alarm {
            Alarm::Undelivered => format!(
                "{:.3} of {offered:.3} Mpps are delivered; {certified:.3} Mpps are certified",
                view.delivered_mpps
            ),
            Alarm::Cycles => format!(
                "a packet takes {:.0} cycles; {:.0} are certified",
                view.cycles_per_packet.unwrap_or(0.0),
                view.certified_cycles_per_packet.unwrap_or(0.0)
            ),
            Alarm::Allowance => format!("allowance exceeded: {}", view.exceeded.join(", ")),
        };
        tracing::warn!(
            target: "process", event = "certificate_alarm", reason, offered_mpps = offered, certified_mpps = certified,
            "{what}"
        );
    }

    fn view(&self, last: &Reading, now: &Reading) -> Option<HeadroomView> {
        let seconds = now.seconds - last.seconds;
        if seconds <= 0.0 {
            return None;
        }
        let since = |of: fn(&Reading) -> u64| of(now).saturating_sub(of(last));
        let (offered, lost) = (since(|r| r.offered), since(|r| r.lost).min(since(|r| r.offered)));
        let (received, bursts) = (since(|r| r.received), since(|r| r.bursts));
        let rate = |packets: u64| packets as f64 / seconds;
        let certified = self.certified.pps;
        let mut alarms = Vec::new();
        let is_near = rate(offered) >= OFFERED * certified;
        if is_near && rate(offered - lost) < DELIVERED * rate(offered) {
            alarms.push(Alarm::Undelivered);
        }
        let cycles = (received >= PACKETS).then(|| since(|r| r.cycles) as f64 / received as f64);
        let own = self.certified.own.as_ref();
        let size = since(|r| r.received_bytes) as f64 / received.max(1) as f64;
        let is_like = own.is_some_and(|own| {
            let burst = received as f64 / bursts.max(1) as f64 / own.packets_per_burst.max(1e-9);
            let certified = if own.received_bytes_mean > 0.0 { own.received_bytes_mean } else { own.frame_bytes_mean };
            (size / certified.max(1.0) - 1.0).abs() <= LIKE_SIZE && (1.0 / LIKE_BURST..=LIKE_BURST).contains(&burst)
        });
        let certified_cycles = own.map(|own| own.cycles_per_packet).filter(|cycles| *cycles > 0.0);
        if is_like && cycles.zip(certified_cycles).is_some_and(|(now, certified)| now > CYCLES * certified) {
            alarms.push(Alarm::Cycles);
        }
        // A counter that was not there before is not one that moved.
        let moved =
            now.allowances.iter().filter(|(name, value)| last.allowances.get(*name).is_some_and(|old| *value > old));
        let exceeded: Vec<String> = moved.map(|(name, _)| name.clone()).collect();
        if !exceeded.is_empty() {
            alarms.push(Alarm::Allowance);
        }
        Some(HeadroomView {
            headroom_ratio: (1.0 - rate(offered) / certified).clamp(0.0, 1.0),
            certified_mpps: certified / 1e6,
            offered_mpps: rate(offered) / 1e6,
            delivered_mpps: rate(offered - lost) / 1e6,
            cycles_per_packet: cycles,
            certified_cycles_per_packet: certified_cycles,
            exceeded,
            alarms,
        })
    }
}

/// Where allowance counters are read.
pub trait Allowances: Send {
    /// Each by interface and name.
    fn read(&self) -> BTreeMap<String, u64>;
}

/// Of the interfaces' drivers.
pub struct OfDrivers(Vec<Iface>);

impl OfDrivers {
    /// Of the interfaces of those ports, as far as they are interfaces. Before privileges are given up.
    pub fn of<'u>(uris: impl Iterator<Item = &'u str>) -> Self {
        let open = |text: &str| {
            let uri: Uri = text.parse().ok()?;
            let is_interface = ["packet", "xdp"].contains(&uri.kind());
            is_interface.then(|| Iface::open(uri.target(), uri.get("netns")).ok()).flatten()
        };
        Self(uris.filter_map(open).collect())
    }
}

impl Allowances for OfDrivers {
    fn read(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for iface in &self.0 {
            // Drivers without statistics have no allowances.
            for (name, value) in iface.statistics().unwrap_or_default() {
                if name.ends_with("_allowance_exceeded") {
                    all.insert(format!("{} {name}", iface.name()), value);
                }
            }
        }
        all
    }
}

/// Where the last view is.
pub type Latest = Arc<Mutex<Option<HeadroomView>>>;

/// The thread that compares. Ends when dropped.
pub struct Watch {
    _thread: Background,
}

impl Watch {
    /// Compares a gateway with its certificate every five seconds, and leaves the view in `latest`.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub fn start(
        gateway: Arc<dyn Monitored>,
        certified: Certified,
        allowances: Box<dyn Allowances>,
        latest: Latest,
    ) -> std::io::Result<Self> {
        let run = move |stop: &AtomicBool| {
            let mut judge = Judge::new(certified);
            while !stop.load(Ordering::Acquire) {
                let view = judge.look(Reading::of(&gateway.known(), allowances.read()));
                if view.is_some()
                    && let Ok(mut latest) = latest.lock()
                {
                    *latest = view;
                }
                for _ in 0..EVERY.as_millis() / STEP.as_millis() {
                    if stop.load(Ordering::Acquire) {
                        return;
                    }
                    std::thread::park_timeout(STEP);
                }
            }
        };
        Ok(Self { _thread: Background::start("weir-headroom", run)? })
    }
}

#[cfg(test)]
mod tests {
    use certificate::{Band, Key, Rate, Run};

    use super::*;
    use crate::log::tests::emitted;
    use crate::snapshot::{DropCounters, Snapshot, WorkerCounters};
    use crate::socket::PortView;

    fn certified() -> Certified {
        let own = GatewayRate {
            gateway: "toy".into(),
            workers: 1,
            frame_bytes_mean: 128.0,
            received_bytes_mean: 128.0,
            mpps: Band::of(&[1.0]).unwrap(),
            cycles_per_packet: 1000.0,
            packets_per_burst: 32.0,
            ..GatewayRate::default()
        };
        Certified { pps: 1e6, own: Some(own) }
    }

    /// After so many seconds at these rates of packets, cycles of each, frame bytes and packets a burst.
    fn reading(
        seconds: f64,
        offered: f64,
        lost: f64,
        (cycles, bytes, burst): (f64, f64, f64),
        allowance: u64,
    ) -> Reading {
        let received = offered - lost;
        Reading {
            seconds,
            offered: (offered * seconds) as u64,
            lost: (lost * seconds) as u64,
            received: (received * seconds) as u64,
            received_bytes: (received * bytes * seconds) as u64,
            bursts: (received / burst * seconds) as u64,
            cycles: (received * cycles * seconds) as u64,
            allowances: [("eth0 pps_allowance_exceeded".to_owned(), allowance)].into(),
        }
    }

    const AS_CERTIFIED: (f64, f64, f64) = (1000.0, 128.0, 32.0);

    fn view(offered: f64, lost: f64, cost: (f64, f64, f64), allowance: u64) -> HeadroomView {
        let mut judge = Judge::new(certified());
        assert!(judge.look(reading(0.0, offered, lost, cost, 0)).is_none(), "one reading is no rate");
        judge.look(reading(5.0, offered, lost, cost, allowance)).unwrap()
    }

    #[test]
    fn alarms_are_raised_only_beyond_the_limits() {
        for (offered, lost, cost, allowance, expected) in [
            (0.5e6, 0.0, AS_CERTIFIED, 0, vec![]),
            (0.89e6, 0.2e6, AS_CERTIFIED, 0, vec![]),
            (0.91e6, 0.04e6, AS_CERTIFIED, 0, vec![]),
            (0.91e6, 0.05e6, AS_CERTIFIED, 0, vec![Alarm::Undelivered]),
            (2.0e6, 1.0e6, AS_CERTIFIED, 0, vec![Alarm::Undelivered]),
            (0.5e6, 0.0, (1240.0, 128.0, 32.0), 0, vec![]),
            (0.5e6, 0.0, (1260.0, 128.0, 32.0), 0, vec![Alarm::Cycles]),
            (0.5e6, 0.0, (1260.0, 150.0, 17.0), 0, vec![Alarm::Cycles]),
            (0.5e6, 0.0, (5000.0, 1400.0, 32.0), 0, vec![]),
            (0.5e6, 0.0, (5000.0, 128.0, 2.0), 0, vec![]),
            (100.0, 0.0, (5000.0, 128.0, 32.0), 0, vec![]),
            (0.5e6, 0.0, AS_CERTIFIED, 3, vec![Alarm::Allowance]),
            (1.5e6, 0.5e6, (2000.0, 128.0, 32.0), 1, Alarm::ALL.to_vec()),
        ] {
            let view = view(offered, lost, cost, allowance);
            assert_eq!(view.alarms, expected, "{offered} {lost} {cost:?} {allowance}");
            let left = (1.0 - offered / 1e6).clamp(0.0, 1.0);
            assert!((view.headroom_ratio - left).abs() < 1e-6, "{view:?}");
        }
    }

    #[test]
    fn an_alarm_is_one_event_until_it_is_over() {
        let records = emitted("info", || {
            let mut judge = Judge::new(certified());
            for (seconds, allowance) in [(0.0, 7), (5.0, 7), (10.0, 9), (15.0, 12), (20.0, 12)] {
                judge.look(reading(seconds, 1000.0, 0.0, AS_CERTIFIED, allowance));
            }
        });
        let said: Vec<String> = records.iter().map(|record| record.logfmt(false)).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("event=certificate_alarm reason=allowance"), "{said:?}");
        assert!(said[0].contains("eth0 pps_allowance_exceeded"), "{said:?}");
        assert!(said[1].contains("event=certificate_alarm_over reason=allowance"), "{said:?}");
    }

    #[test]
    fn a_certificate_is_read_for_its_gateway_and_workers() {
        let forward = Rate {
            task: Task::Forward,
            queues: 1,
            frame_bytes: 64,
            mpps: Band::of(&[3.0]).unwrap(),
            gbps_l2: 1.4,
            is_generator_limited: false,
        };
        let complete = Certificate { run: Run { is_complete: true, ..Run::default() }, ..Certificate::default() };
        let all =
            Certificate { gateways: certified().own.into_iter().collect(), rates: vec![forward], ..complete.clone() };
        let file = std::env::temp_dir().join(format!("weir-headroom-{}.json", std::process::id()));
        let key = Key::from_seed([3; 32]);
        fs::write(&file, key.sign(&all).text()).unwrap();
        let section = |trust: Option<String>| CertificateSection { file: file.clone(), trust };
        assert_eq!(Certified::read(&section(Some(key.public())), "toy", 2).unwrap().pps, 2e6);
        let bare = Certified::read(&section(None), "other", 2).unwrap();
        assert_eq!((bare.pps, bare.own), (3e6, None), "of no gateway of its kind: bare forwarding");
        let other = Key::from_seed([4; 32]).public();
        let error = Certified::read(&section(Some(other)), "toy", 1).unwrap_err().to_string();
        assert!(error.contains("[certificate] file") && error.contains("not by the trusted key"), "{error}");
        fs::write(&file, key.sign(&all).text().replace("3.0", "9.0")).unwrap();
        assert!(Certified::read(&section(None), "toy", 1).unwrap_err().to_string().contains("was changed"));
        fs::write(&file, key.sign(&complete).text()).unwrap();
        assert!(Certified::read(&section(None), "toy", 1).unwrap_err().to_string().contains("no rate of toy"));
        fs::write(&file, key.sign(&Certificate::default()).text()).unwrap();
        assert!(Certified::read(&section(None), "toy", 1).unwrap_err().to_string().contains("did not end"));
        fs::remove_file(&file).unwrap();
    }

    /// A port's losses count once, drops by rule are no losses: neither those of stages nor those of the slow path.
    #[test]
    fn undelivered_is_what_found_no_room() {
        let drop = |stage: &str, reason: &str, packets| DropCounters {
            stage: stage.into(),
            reason: reason.into(),
            packets,
            ..DropCounters::default()
        };
        let drops = vec![
            drop("worker", "port_ring_full", 7),
            drop("worker", "limited", 1000),
            drop("uplink.acl", "acl_denied", 1000),
            drop("worker", "tx_full", 5),
        ];
        let worker =
            WorkerCounters { drops, io: [("rx_packets".to_owned(), 5000)].into(), ..WorkerCounters::default() };
        let counters = vec![("rx_ring_full".to_owned(), 7), ("rx_ignored".to_owned(), 3)];
        let known = Known {
            snapshot: Snapshot { workers: vec![worker], ..Snapshot::default() },
            ports: vec![PortView { counters, ..PortView::default() }],
            ..Known::default()
        };
        let reading = Reading::of(&known, BTreeMap::new());
        assert_eq!((reading.offered, reading.lost), (5007, 12));
    }

    #[test]
    fn interfaces_without_statistics_have_no_allowances() {
        let drivers = OfDrivers::of(["packet:lo", "memory:p1", "no uri"].into_iter());
        assert!(drivers.0.len() == 1 && drivers.read().is_empty());
    }
}
