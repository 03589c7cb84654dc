//! The cable gateway under test.

use cmts::assemble::assemble;
use cmts::gateway::CableGateway;
use frame::{ArenaConfig, Caps};
use port::Steer;
use traffic::Clock;
use traffic::cable::Plant;

use super::ends::{Devices, Ends, Network, Overload, Totals};
use super::settings::CableSettings;
use crate::bed;
use crate::ends::{FarEnds, Load};
use crate::error::BenchError;
use crate::options::PortKind;
use crate::under_test::{Assembled, FarSide, Share, UnderTest};
use crate::work_clock::WorkClock;

/// Slots: what waits in queues at most, and what ports and packets in the making need.
pub const SLOTS: u32 = 16_384;
/// On links, packets downstream between the far ends: as many as a virtual link holds before a thread that pauses (AF_XDP
/// there), so nothing need be lost however unevenly the threads of gateway and far ends run.
const ON_THEIR_WAY: u64 = 256;

/// A cable gateway with a workload's modems, and its far ends.
pub struct Cable {
    settings: CableSettings,
    config: cmts::config::Config,
    port: PortKind,
    /// Who sends to the gateway and checks what it sends: in memory those of each worker, on links one for all.
    ends: Vec<Ends>,
    /// In memory, the clock of each worker's own work.
    work: Vec<WorkClock>,
}

impl Cable {
    /// For ports of that kind. In memory the far ends go by the clock of their worker's own work, elsewhere by the time
    /// stamp counter.
    ///
    /// # Errors
    /// What cannot be.
    pub fn new(settings: &CableSettings, port: PortKind) -> Result<Self, BenchError> {
        if port != PortKind::Memory {
            return Self::timed(settings, port, Clock::tsc());
        }
        let (config, plant) = configured(settings)?;
        let work: Vec<WorkClock> = (0..settings.workers).map(|_| WorkClock::default()).collect();
        let ends = (0..settings.workers).zip(&work).map(|(worker, clock)| {
            let groups = settings.groups_of(worker);
            let own = plant.groups.get(usize::from(groups.start)..usize::from(groups.end)).unwrap_or_default();
            let plant = Plant { groups: own.to_vec(), ..plant.clone() };
            Ends::new(settings, &plant, groups.start, clock.clock())
        });
        Ok(Self { settings: settings.clone(), ends: ends.collect(), config, port, work })
    }

    /// With far ends that go by a clock of another kind.
    ///
    /// # Errors
    /// As [`Cable::new`].
    pub fn timed(settings: &CableSettings, port: PortKind, clock: Clock) -> Result<Self, BenchError> {
        let (config, plant) = configured(settings)?;
        let ends = vec![Ends::new(settings, &plant, 0, clock)];
        Ok(Self { settings: settings.clone(), config, port, ends, work: Vec::new() })
    }

    /// That the links can carry the workload's packets, and that each worker has a service group.
    ///
    /// # Errors
    /// When they are too long, or too few.
    pub fn check(settings: &CableSettings, port: PortKind) -> Result<(), BenchError> {
        let CableSettings { groups, workers, mtu, .. } = settings;
        if workers > groups {
            return Err(BenchError::Asked(format!(
                "--workers {workers}: service groups are spread over workers, and there are {groups}; allowed: 1 to \
                 {groups}, \
                 or more with --service-groups"
            )));
        }
        if !settings.downstream && settings.upstream <= 0.0 {
            return Err(BenchError::Asked("--set downstream=off with upstream=0 leaves no traffic".into()));
        }
        let most = bed::MTU;
        if port == PortKind::Memory || *mtu <= most {
            return Ok(());
        }
        Err(BenchError::Asked(format!(
            "mtu = {mtu}: the benchmark's own links carry IP packets of up to {most} bytes; --port memory carries 2000"
        )))
    }

    /// All far ends.
    pub fn ends(&self) -> &[Ends] {
        &self.ends
    }

    /// The clocks of the workers' own work; none on links.
    pub fn work(&self) -> &[WorkClock] {
        &self.work
    }

    /// What the far ends have found so far, together.
    pub fn totals(&self) -> Totals {
        Totals::sum(self.ends.iter().map(Ends::totals))
    }

    /// What overloaded service flows got so far.
    pub fn overload(&self) -> Overload {
        let mut sum = Overload::default();
        self.ends.iter().for_each(|ends| ends.add_overload(&self.settings, &mut sum));
        sum
    }
}

fn configured(settings: &CableSettings) -> Result<(cmts::config::Config, Plant), BenchError> {
    let config = settings.config(["memory:rphy", "memory:core"])?;
    let plant = settings.plant(&config)?;
    Ok((config, plant))
}

impl UnderTest for Cable {
    type Gateway = CableGateway;
    type Load = Load;

    fn kind(&self) -> &'static str {
        "cmts"
    }

    fn profile(&self) -> &'static str {
        "cmts-imix"
    }

    fn size(&self) -> (u32, u64) {
        (self.settings.subscribers(), self.settings.flows())
    }

    fn memory_ports(&self) -> Vec<Caps> {
        let caps = |(name, mac, mtu): (&str, wire::Mac, u16)| Caps {
            kind: "memory",
            name: name.to_owned(),
            mac: mac.0,
            mtu: mtu.into(),
            ..Caps::default()
        };
        let [rphy, core] = CableSettings::macs();
        [("rphy", rphy, self.settings.mtu), ("core", core, 1500)].map(caps).into()
    }

    fn frames(&self) -> ArenaConfig {
        ArenaConfig { slots: SLOTS, slot_bytes: self.settings.slot_bytes(), ..ArenaConfig::default() }
    }

    fn bytes(gateway: &CableGateway) -> usize {
        gateway.state().bytes()
    }

    fn steer(&self, _workers: u16) -> Steer {
        let mut steer = Steer::new();
        for (group, (first, last)) in (0..).zip(self.settings.hosts_of_groups()) {
            // Ranges of one formula do not overlap.
            let _ = steer.give(first.into(), last.into(), self.settings.worker_of(group));
        }
        steer
    }

    fn waiting(gateway: &CableGateway) -> u64 {
        gateway.state().scheduler.waiting() as u64
    }

    fn counters(gateway: &CableGateway) -> Vec<(&'static str, u64)> {
        let counts = &gateway.state().counts;
        let [permit, deny, unmatched] = [counts.filter_permit, counts.filter_deny, counts.filter_unmatched];
        let classified = counts.classified_ipv4 + counts.classified_icmp + counts.classified_llc;
        vec![
            ("filter_permit_down", permit[0]),
            ("filter_permit_up", permit[1]),
            ("filter_deny_down", deny[0]),
            ("filter_deny_up", deny[1]),
            ("filter_unmatched_down", unmatched[0]),
            ("filter_unmatched_up", unmatched[1]),
            ("classified", classified),
            ("unclassified", counts.unclassified),
        ]
    }

    fn assemble(&self, workers: u16, caps: &[Caps]) -> Result<Assembled<CableGateway>, BenchError> {
        debug_assert_eq!(workers, self.settings.workers, "the configuration has them");
        let made = assemble(&self.config, caps);
        let (mut control, seats) = made.map_err(|error| BenchError::Gateway(error.to_string()))?;
        let modems = u32::from(self.settings.modems);
        let users = |worker| {
            let groups = self.settings.groups_of(worker);
            u32::from(groups.start) * modems..u32::from(groups.end) * modems
        };
        let workers = (0..).zip(seats).map(|(worker, seat)| (seat, users(worker))).collect();
        Ok(Assembled { workers, control: Box::new(move |now_ns| control.poll(now_ns)) })
    }

    fn far_side(&self, share: &Share) -> Result<FarSide<Load>, BenchError> {
        let [rphy, core]: [Caps; 2] = self.memory_ports().try_into().unwrap_or_default();
        let worker = usize::from(share.worker);
        let ends = self.ends.get(worker).ok_or(BenchError::Died("far end of a worker"))?;
        let (far, at_most) = match (self.port, self.work.get(worker)) {
            (PortKind::Memory, Some(clock)) => (FarEnds::by_work(clock), None),
            (PortKind::Memory, None) => (FarEnds::new(ends.clock()).told_apart(), None),
            _ => (FarEnds::new(ends.clock()), Some(ON_THEIR_WAY)),
        };
        let devices = Devices::new(&self.settings, ends, rphy, at_most);
        let network = Network::new(&self.settings, ends, core, at_most);
        Ok(far.with(devices).with(network).side(share.users.len() as u32))
    }
}
