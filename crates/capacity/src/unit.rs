//! What one unit of a gateway takes from a machine.

use schemars::JsonSchema;
use serde::Serialize;

use crate::known::Known;
use crate::quantity::Memory;
use crate::question::{Gateway, UnitInput};
use crate::wrong::Wrong;

/// What one unit takes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Unit {
    /// What it is called.
    pub name: &'static str,
    pub vcpus: u32,
    pub interfaces: u32,
    /// All units of a machine share one set of interfaces, by queues.
    pub share_interfaces: bool,
    /// Queues of each interface.
    pub queues: u32,
    /// Memory, without subscribers.
    pub memory: Option<Known<Memory>>,
    /// Memory of a subscriber.
    pub memory_per_subscriber: Option<Known<Memory>>,
    /// Last-level cache.
    pub l3: Option<Known<Memory>>,
    /// Interfaces of the machine for its administration.
    pub admin_interfaces: u32,
    /// vCPUs of the machine for everything else.
    pub reserved_vcpus: u32,
}

impl Unit {
    /// What the publications gave a unit of that gateway: three vCPUs and two interfaces for a service group
    /// (vcmts-cloud-2021), two cores and two interfaces for a UPF (upf-public-cloud); a BNG is taken to be like a UPF.
    /// One interface of the machine is the administration's.
    pub fn of(gateway: Gateway) -> Self {
        Self {
            name: gateway.unit(),
            vcpus: if gateway == Gateway::Cmts { 3 } else { 2 },
            interfaces: 2,
            share_interfaces: false,
            queues: 1,
            memory: None,
            memory_per_subscriber: None,
            l3: None,
            admin_interfaces: 1,
            reserved_vcpus: 0,
        }
    }

    /// The same with what a plan says instead.
    ///
    /// # Errors
    /// A unit of nothing.
    pub fn with(self, input: Option<&UnitInput>) -> Result<Self, Wrong> {
        let Some(input) = input else { return Ok(self) };
        for (key, value) in [("vcpus", input.vcpus), ("interfaces", input.interfaces), ("queues", input.queues)] {
            if value == Some(0) {
                return Err(Wrong::at(&format!("unit.{key}"), "a unit takes something", "at least 1"));
            }
        }
        Ok(Self {
            name: self.name,
            vcpus: input.vcpus.unwrap_or(self.vcpus),
            interfaces: input.interfaces.unwrap_or(self.interfaces),
            share_interfaces: input.share_interfaces,
            queues: input.queues.unwrap_or(self.queues),
            memory: input.memory.clone(),
            memory_per_subscriber: input.memory_per_subscriber.clone(),
            l3: input.l3.clone(),
            admin_interfaces: input.admin_interfaces.unwrap_or(self.admin_interfaces),
            reserved_vcpus: input.reserved_vcpus,
        })
    }

    /// Interfaces that so many units and the administration take together.
    pub fn interfaces_of(&self, units: u32) -> u32 {
        let of_units = if self.share_interfaces { self.interfaces } else { units * self.interfaces };
        of_units + self.admin_interfaces
    }
}
