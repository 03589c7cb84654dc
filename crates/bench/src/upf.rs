//! The user plane under test.

use std::net::IpAddr;

use frame::{ArenaConfig, Caps, Port};
use traffic::{Clock, Direction, LoadHandle, LoadPort, Plan, Profile, Verify};
use upf::assemble::assemble;
use upf::config::Neighbour;
use upf::gateway::UserPlane;

use crate::bed::mtu;
use crate::error::BenchError;
use crate::profiles::Settings;
use crate::socket::shape;
use crate::under_test::{Assembled, FarSide, Share, UnderTest};

/// A user plane with a workload's sessions.
#[derive(Clone, Debug)]
pub struct UpfUnderTest {
    /// The workload.
    pub settings: Settings,
}

impl From<Settings> for UpfUnderTest {
    fn from(settings: Settings) -> Self {
        Self { settings }
    }
}

impl UnderTest for UpfUnderTest {
    type Gateway = UserPlane;
    type Load = LoadHandle;

    fn kind(&self) -> &'static str {
        "upf"
    }

    fn profile(&self) -> &str {
        &self.settings.profile
    }

    fn size(&self) -> (u32, u64) {
        let traffic = self.settings.traffic();
        (traffic.ues, traffic.flows())
    }

    fn memory_ports(&self) -> Vec<Caps> {
        let traffic = self.settings.traffic();
        let macs = [traffic.access.gateway.0, traffic.core.gateway.0];
        macs.map(|mac| Caps { kind: "memory", mac, mtu: mtu(&traffic).into(), ..Caps::default() }).into()
    }

    fn frames(&self) -> ArenaConfig {
        ArenaConfig { slots: 2048, ..shape(&self.settings.traffic()) }
    }

    fn bytes(gateway: &UserPlane) -> usize {
        gateway.sessions().bytes()
    }

    fn far_side(&self, share: &Share) -> Result<FarSide<LoadHandle>, BenchError> {
        let plan = Plan::subset(self.settings.traffic(), share.users.clone(), share.first_flow)?;
        let (n3, n6, load) = LoadPort::pair(&plan, Verify::default(), Clock::tsc(), false)?;
        let ports: [Box<dyn Port>; 2] = [Box::new(n3), Box::new(n6)];
        Ok(FarSide { ports: ports.into(), load, flows: plan.flow_count() })
    }

    fn on_links(&self) -> Option<Profile> {
        Some(self.settings.traffic())
    }

    fn assemble(&self, workers: u16, caps: &[Caps]) -> Result<Assembled<UserPlane>, BenchError> {
        let mut config = self.settings.gateway(workers, ["memory:n3", "memory:n6"]);
        let traffic = self.settings.traffic();
        let gnbs = (0..traffic.gnbs).map(|n| (0, Direction::Uplink, traffic.gnb(n)));
        let hops: Vec<_> =
            config.route.iter().filter_map(|route| Some((1, Direction::Downlink, route.next_hop?))).collect();
        let known = |(port, side, address): (usize, Direction, IpAddr)| Neighbour {
            port: config.port[port].name.clone(),
            address,
            mac: traffic.entry(side).own.to_string(),
            vlan: None,
        };
        config.neighbour = gnbs.chain(hops).map(known).collect();
        let (mut control, seats) = assemble(&config, caps).map_err(|error| BenchError::Gateway(error.to_string()))?;
        // Subscribers lie on workers in contiguous ranges.
        let each = traffic.ues.div_ceil(workers.max(1).into()).max(1);
        let range = |n: u32| (n * each).min(traffic.ues)..((n + 1) * each).min(traffic.ues);
        let workers = seats.into_iter().zip((0..).map(range)).collect();
        Ok(Assembled { workers, control: Box::new(move |now_ns| control.poll(now_ns)) })
    }
}
