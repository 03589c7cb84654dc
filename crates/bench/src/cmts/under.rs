//! The cable gateway under test.

use cmts::assemble::assemble;
use cmts::gateway::CableGateway;
use frame::{ArenaConfig, Caps};
use traffic::Clock;

use super::ends::{Devices, Ends, Network};
use super::settings::CableSettings;
use crate::bed;
use crate::ends::{FarEnds, Load};
use crate::error::BenchError;
use crate::options::PortKind;
use crate::under_test::{Assembled, FarSide, Share, UnderTest};

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
    clock: Clock,
    /// Who sends to the gateway and checks what it sends.
    pub ends: Ends,
}

impl Cable {
    /// By the time stamp counter, for ports of that kind.
    ///
    /// # Errors
    /// What cannot be.
    pub fn new(settings: &CableSettings, port: PortKind) -> Result<Self, BenchError> {
        Self::timed(settings, port, Clock::tsc())
    }

    /// The same by a clock of another kind.
    ///
    /// # Errors
    /// As [`Cable::new`].
    pub fn timed(settings: &CableSettings, port: PortKind, clock: Clock) -> Result<Self, BenchError> {
        let config = settings.config(["memory:rphy", "memory:core"])?;
        let ends = Ends::new(settings, &settings.plant(&config)?);
        Ok(Self { settings: settings.clone(), config, port, clock, ends })
    }

    /// That the links can carry the workload's packets.
    ///
    /// # Errors
    /// When they are too long.
    pub fn check(settings: &CableSettings, port: PortKind) -> Result<(), BenchError> {
        let (mtu, most) = (settings.mtu, bed::MTU);
        if port == PortKind::Memory || mtu <= most {
            return Ok(());
        }
        Err(BenchError::Asked(format!(
            "mtu = {mtu}: the benchmark's own links carry IP packets of up to {most} bytes; --port memory carries 2000"
        )))
    }

    /// Now, by the clock of its far ends, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }
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

    fn assemble(&self, _workers: u16, caps: &[Caps]) -> Result<Assembled<CableGateway>, BenchError> {
        let made = assemble(&self.config, caps);
        let (mut control, seats) = made.map_err(|error| BenchError::Gateway(error.to_string()))?;
        let users = 0..self.settings.subscribers();
        let workers = seats.into_iter().map(|seat| (seat, users.clone())).collect();
        Ok(Assembled { workers, control: Box::new(move |now_ns| control.poll(now_ns)) })
    }

    fn far_side(&self, share: &Share) -> Result<FarSide<Load>, BenchError> {
        let [rphy, core]: [Caps; 2] = self.memory_ports().try_into().unwrap_or_default();
        let clock = || self.clock.clone();
        let (far, at_most) = match self.port {
            PortKind::Memory => (FarEnds::new(clock()).told_apart(), None),
            _ => (FarEnds::new(clock()), Some(ON_THEIR_WAY)),
        };
        let devices = Devices::new(&self.settings, &self.ends, rphy, clock());
        let network = Network::new(&self.settings, &self.ends, core, clock(), at_most);
        Ok(far.with(devices).with(network).side(share.users.len() as u32))
    }
}
