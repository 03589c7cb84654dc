//! The fleet a plan answers with, and what follows for each of its units: number, addresses, processors.

use std::net::Ipv4Addr;

use crate::cidr::Cidr;
use crate::settings::{Io, Settings};

/// Which gateway a fleet is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gateway {
    /// A mobile user plane: its number follows the load.
    #[default]
    Upf,
    /// A cable gateway: one for each service group.
    Cmts,
    /// A broadband gateway: each owns the subscribers of its outer VLANs.
    Bng,
}

impl Gateway {
    /// The value of `gateway` in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Upf => "upf",
            Self::Cmts => "cmts",
            Self::Bng => "bng",
        }
    }
}

/// What is to be brought up.
#[derive(Clone, Debug)]
pub struct Fleet {
    pub gateway: Gateway,
    /// Service groups of a cable gateway's plan.
    pub groups: Option<u32>,
    pub machine: Machine,
    /// What a unit takes.
    pub unit: Unit,
    /// Units of each machine.
    pub units: u32,
    /// Machines that carry the demand.
    pub needed: u32,
    /// Those and spares.
    pub machines: u32,
    /// Subscribers of all, where the plan knows.
    pub subscribers: Option<u64>,
    /// Zones they are spread over.
    pub zones: u32,
    /// Close together, in one placement group.
    pub cluster: bool,
    /// On hosts of the operator's own.
    pub dedicated: bool,
    /// What the plan says under `[deploy]`.
    pub settings: Settings,
}

/// An instance type or server. What is not known is none, and is never taken for enough.
#[derive(Clone, Debug)]
pub struct Machine {
    /// `c5n.2xlarge`.
    pub name: String,
    /// `aws`, ….
    pub provider: String,
    /// It is an ARM.
    pub is_arm: bool,
    /// Hardware threads.
    pub vcpus: Option<u32>,
    /// Interfaces it can have.
    pub interfaces: Option<u32>,
    pub queues: Option<u32>,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
}

/// What a unit takes.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    pub vcpus: u32,
    pub interfaces: u32,
    /// Queues of each, and workers that serve them.
    pub queues: u32,
    /// All units of a machine share one set of interfaces.
    pub share_interfaces: bool,
    /// Interfaces of the machine for its administration.
    pub admin_interfaces: u32,
    /// vCPUs of the machine for everything else.
    pub reserved_vcpus: u32,
}

/// Where in a network the first unit's address is: below are routers' and the cloud's own.
pub const FIRST_ADDRESS: u32 = 16;

impl Fleet {
    /// Gateways of a machine: processes, each with interfaces of its own.
    pub fn gateways(&self) -> u32 {
        if self.unit.share_interfaces { 1 } else { self.units }
    }

    /// Workers of a gateway: one for each queue of its interfaces; of a service group, one.
    pub fn workers(&self) -> u32 {
        if self.gateway == Gateway::Cmts {
            return 1;
        }
        if self.unit.share_interfaces { self.units * self.unit.queues } else { self.unit.queues }
    }

    /// vCPUs of a gateway.
    pub(crate) fn gateway_vcpus(&self) -> u32 {
        if self.unit.share_interfaces { self.units * self.unit.vcpus } else { self.unit.vcpus }
    }

    /// Gateways of a fleet whose number is not the load's to decide: lines and modems are wired to theirs. None: it scales.
    pub fn fixed(&self) -> Option<u32> {
        let all = self.needed * self.gateways();
        match self.gateway {
            Gateway::Upf => None,
            Gateway::Cmts => Some(self.groups.unwrap_or(all)),
            Gateway::Bng => Some(all),
        }
    }

    /// Machines there may be at most.
    pub fn most_machines(&self) -> u32 {
        if let Some(gateways) = self.fixed() {
            return gateways.div_ceil(self.gateways().max(1));
        }
        self.settings.most_machines.unwrap_or(self.machines).max(self.machines)
    }

    /// Gateways there may be at most: as many parts the subscribers' addresses have.
    pub fn ordinals(&self) -> u32 {
        self.fixed().unwrap_or_else(|| self.most_machines() * self.gateways())
    }

    /// The zone of a machine, from 0.
    pub fn zone(&self, machine: u32) -> u32 {
        machine % self.zones.max(1)
    }

    /// A gateway's number among all.
    pub fn ordinal(&self, machine: u32, gateway: u32) -> u32 {
        machine * self.gateways() + gateway
    }

    /// A gateway's part of the subscribers' addresses; none: the pool is too small.
    pub fn pool(&self, ordinal: u32) -> Option<Cidr> {
        let pool = self.settings.ue_pool;
        let bits = self.ordinals().max(1).next_power_of_two().trailing_zeros() as u8;
        pool.part(ordinal, pool.prefix() + bits)
    }

    /// A gateway's address in a network.
    pub fn address(&self, network: Cidr, ordinal: u32) -> Option<Ipv4Addr> {
        // The last one is for all (broadcast), and in clouds nobody's.
        let n = u64::from(FIRST_ADDRESS) + u64::from(ordinal);
        network.address(n).filter(|_| n + 1 < network.size())
    }

    /// Most sessions of a gateway; of a service group, hosts behind its modems; else its share of the plan's subscribers and a quarter more; a million where the plan does
    /// not know them.
    pub fn sessions(&self) -> u64 {
        if self.gateway == Gateway::Cmts {
            let cmts = &self.settings.cmts;
            return u64::from(cmts.modems) * u64::from(cmts.hosts);
        }
        let gateways = u64::from(self.needed.max(1) * self.gateways().max(1));
        self.subscribers.map_or(1_000_000, |all| (all.div_ceil(gateways) * 5 / 4).max(1000))
    }

    /// Networks that control planes send from: the plan's, or else the given ones, which are the platform's own.
    pub fn peers(&self, own: &[Cidr]) -> Vec<Cidr> {
        let said = &self.settings.control_planes;
        if said.is_empty() { own.to_vec() } else { said.clone() }
    }

    /// vCPUs of a gateway: behind those of the system and of the gateways before it.
    fn cpus(&self, gateway: u32) -> std::ops::Range<u32> {
        let first = self.unit.reserved_vcpus + gateway * self.gateway_vcpus();
        first..first + self.gateway_vcpus()
    }

    /// vCPUs of a gateway's workers: its first.
    pub(crate) fn worker_cpus(&self, gateway: u32) -> Vec<u32> {
        self.cpus(gateway).take(self.workers() as usize).collect()
    }

    /// vCPUs of its interrupts: the rest, or the same where there is no rest.
    pub(crate) fn interrupt_cpus(&self, gateway: u32) -> Vec<u32> {
        let rest: Vec<u32> = self.cpus(gateway).skip(self.workers() as usize).collect();
        if rest.is_empty() { self.worker_cpus(gateway) } else { rest }
    }

    /// The URI of a port on an interface.
    pub fn uri(&self, interface: &str, group: u32) -> String {
        let many = self.workers() > 1;
        match self.settings.io {
            Io::Xdp if many => format!("xdp:{interface}?queue={{worker}}"),
            Io::Xdp => format!("xdp:{interface}"),
            mode => {
                let mode = if mode == Io::Ring { "tpacket3" } else { "tpacket2" };
                let fanout = match many {
                    true => format!("&fanout=subscriber&group={group}&member={{worker}}/{{workers}}"),
                    false => String::new(),
                };
                format!("packet:{interface}?mode={mode}{fanout}")
            }
        }
    }
}
