//! What can run gateways: an instance type of a cloud or a server on premise, with all that limits it.
//!
//! Everything may be unknown, and then is `None`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::known::Known;
use crate::quantity::{BitRate, Clock, Hourly, Memory, PacketRate, Power};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A cloud's.
    Cloud,
    /// The operator's own.
    OnPremise,
}

/// An instance type or a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// `c5n.4xlarge`.
    pub name: String,
    pub place: Place,
    /// `aws`, `azure`, `gcp`, `on-premise`.
    pub provider: String,
    /// Machines of a family share processor and network card.
    pub family: String,
    /// `x86_64`, `arm64`.
    pub arch: Option<String>,
    /// Hardware threads.
    pub vcpus: Option<u32>,
    /// Parts with memory of their own, between which a unit must not be split; 1 where nothing is known of parts.
    pub numa_nodes: u32,
    /// The clock it is sold with.
    pub clock: Option<Clock>,
    pub memory: Option<Memory>,
    /// Last level of cache, all of it.
    pub l3: Option<Memory>,
    /// Network interfaces it can have, the administration's among them.
    pub interfaces: Option<u32>,
    /// Queues of an interface that can be used: no more than vCPUs.
    pub queues: Option<u32>,
    /// Each way, all the time.
    pub baseline: Option<BitRate>,
    /// Each way, for a while, or at most.
    pub burst: Option<BitRate>,
    pub single_flow: Option<BitRate>,
    /// Of one flow, inside a cluster placement group.
    pub single_flow_cluster: Option<BitRate>,
    /// Packets forwarded a second by the whole machine, each counted once.
    pub packets: Option<Known<PacketRate>>,
    /// Packets forwarded a second through one interface, received and sent counted together.
    pub packets_per_interface: Option<Known<PacketRate>>,
    /// Nobody else is on its host.
    pub whole_host: bool,
    /// Its traffic leaves through a gateway that lets less than its bandwidth through, where it stands.
    pub through_gateway: bool,
    /// What it costs.
    pub price: Option<Known<Hourly>>,
    /// What a host of one's own for its family costs; none: not published.
    pub host_price: Option<Known<Hourly>>,
    /// Of a server of one's own.
    pub rack_units: Option<u32>,
    /// What it draws doing nothing, and at most.
    pub power: Option<(Power, Power)>,
    /// What to know about it.
    pub notes: String,
}
