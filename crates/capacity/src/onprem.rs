//! Servers of one's own: what they can do and what an hour of them costs.
//!
//! `$/h = capex / (life · 8760 h) + (rack + support) / 8760 h + W / 1000 · PUE · $/kWh`. Whatever of this is not known
//! makes the price unknown, except energy, which is left out and said to be.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::known::{Known, Provenance};
use crate::machine::{Machine, Place};
use crate::quantity::{
    BitRate, Clock, Dollars, HOURS_A_YEAR, Hourly, Memory, PacketRate, PerKilowattHour, Power, Quantity, Ratio, Yearly,
    Years,
};

/// The servers that come with weir.
pub const SERVERS: &str = include_str!("../data/servers.toml");

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// What it is called in points and answers.
    pub name: String,
    #[serde(default)]
    pub about: String,
    #[serde(default = "x86")]
    pub arch: String,
    pub sockets: u32,
    /// Cores of all sockets.
    pub cores: u32,
    /// Hardware threads of a core.
    #[serde(default = "two")]
    pub threads_per_core: u32,
    /// The clock it runs at under load.
    pub clock: Option<Known<Clock>>,
    pub memory: Option<Known<Memory>>,
    /// Last-level cache of all sockets.
    pub l3: Option<Known<Memory>>,
    /// Network ports.
    pub ports: Option<u32>,
    /// What each carries, each way.
    pub port_speed: Option<Known<BitRate>>,
    /// What all ports carry together, each way, where that is less than ports times speed.
    pub bandwidth: Option<Known<BitRate>>,
    /// Network cards by name, beside the ports above: theirs are added to those, and so are their watts and prices.
    #[serde(default)]
    pub cards: Vec<String>,
    /// Virtual functions of a port, where units have interfaces of their own; left out: not known.
    pub functions_per_port: Option<u32>,
    /// Queues of an interface.
    pub queues: Option<u32>,
    /// Packets forwarded a second by all of it, each counted once; left out: an assumed band.
    pub packets: Option<Known<PacketRate>>,
    /// Packets forwarded a second through one port, received and sent counted together; left out: not known.
    pub packets_per_port: Option<Known<PacketRate>>,
    /// Its height in a rack.
    pub rack_units: Option<u32>,
    /// What it draws doing nothing.
    pub idle: Option<Known<Power>>,
    /// What it draws at most.
    pub power: Option<Known<Power>>,
    /// The building's power by the server's.
    pub pue: Option<Known<Ratio>>,
    /// What it costs to buy.
    pub capex: Option<Known<Dollars>>,
    /// How long it is used.
    pub life: Option<Known<Years>>,
    /// Its place in a rack.
    pub rack: Option<Known<Yearly>>,
    /// Support and spare parts.
    pub support: Option<Known<Yearly>>,
}

fn x86() -> String {
    "x86_64".to_owned()
}

fn two() -> u32 {
    2
}

impl Server {
    /// What an hour costs at full load; none where capex or life is not known.
    pub fn price(&self, energy: Option<&Known<PerKilowattHour>>) -> Option<Known<Hourly>> {
        let (capex, life) = (self.capex.as_ref()?, self.life.as_ref()?);
        let years = |of: fn(&Known<Yearly>) -> Yearly| -> Hourly {
            [&self.rack, &self.support].into_iter().flatten().map(|known| Hourly::from(of(known))).sum()
        };
        let pue = self.pue.as_ref().map_or(1.0, |pue| pue.value.0);
        let watts = self.power.as_ref().zip(energy).map(|(power, energy)| {
            let at = |of: fn(&Known<Power>) -> Power, price: PerKilowattHour| of(power) * pue * price;
            (at(|p| p.low, energy.low), at(|p| p.value, energy.value), at(|p| p.high, energy.high))
        });
        let (low, value, high) = watts.unwrap_or_default();
        let hardware = |capex: Dollars, life: Years| Hourly(capex.0 / (life.0 * HOURS_A_YEAR));
        let from = [Some(capex.from), Some(life.from), self.rack.as_ref().map(|r| r.from), energy.map(|e| e.from)];
        Some(Known {
            low: hardware(capex.low, life.high) + years(|y| y.low) + low,
            value: hardware(capex.value, life.value) + years(|y| y.value) + value,
            high: hardware(capex.high, life.low) + years(|y| y.high) + high,
            from: from.into_iter().flatten().max().unwrap_or(Provenance::Unknown),
            source: if watts.is_some() {
                "capex, rack, support, energy"
            } else {
                "capex, rack, support; energy not known"
            }
            .to_owned(),
        })
    }

    /// What all ports carry together, each way.
    pub(crate) fn bandwidth_of_ports(&self) -> Option<Known<BitRate>> {
        let ports = || Some(self.port_speed.as_ref()?.map(|speed| speed * f64::from(self.ports.unwrap_or(0))));
        self.bandwidth.clone().or_else(|| ports().filter(|_| self.ports.is_some()))
    }

    /// As a machine beside the clouds', with what [`crate::card::equip`] put into it.
    pub fn machine(&self, energy: Option<&Known<PerKilowattHour>>) -> Machine {
        let bandwidth = self.bandwidth_of_ports().map(|bandwidth| bandwidth.value);
        Machine {
            name: self.name.clone(),
            place: Place::OnPremise,
            provider: "on-premise".to_owned(),
            family: format!("on-premise/{}", self.name),
            arch: Some(self.arch.clone()),
            vcpus: Some(self.cores * self.threads_per_core),
            numa_nodes: self.sockets.max(1),
            clock: self.clock.as_ref().map(|clock| clock.value),
            memory: self.memory.as_ref().map(|memory| memory.value),
            l3: self.l3.as_ref().map(|l3| l3.value),
            interfaces: self.ports.zip(self.functions_per_port).map(|(ports, functions)| ports * functions),
            queues: self.queues,
            baseline: bandwidth,
            burst: bandwidth,
            single_flow: self.port_speed.as_ref().map(|speed| speed.value),
            single_flow_cluster: self.port_speed.as_ref().map(|speed| speed.value),
            packets: self.packets.clone(),
            packets_per_interface: self.packets_per_port.clone(),
            whole_host: true,
            through_gateway: false,
            price: self.price(energy),
            host_price: None,
            rack_units: self.rack_units,
            power: self
                .power
                .as_ref()
                .map(|most| (self.idle.as_ref().map_or(Power::new(0.0), |idle| idle.value), most.value)),
            notes: self.about.clone(),
        }
    }
}

/// A file of servers: `[[server]]` sections.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Servers {
    #[serde(default)]
    pub server: Vec<Server>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_of_a_server() {
        let text = "name = 'x'\nsockets = 2\ncores = 40\ncapex = '17520 $'\nlife = '4 years'\nrack = '876 $/year'\n\
                    power = '1 kW'\npue = 1.5";
        let server: Server = toml::from_str(text).unwrap();
        let energy = Known::assumed(PerKilowattHour(0.2));
        // 0.5 capex + 0.1 rack + 1 kW × 1.5 × 0.2 $/kWh = 0.3
        assert!((server.price(Some(&energy)).unwrap().value.0 - 0.9).abs() < 1e-12);
        let without = server.price(None).unwrap();
        assert!((without.value.0 - 0.6).abs() < 1e-12 && without.source.contains("not known"));
        assert_eq!(Server { capex: None, ..server }.price(Some(&energy)), None);
    }

    #[test]
    fn the_servers_that_come_with_weir_read_well() {
        let servers: Servers = toml::from_str(SERVERS).unwrap();
        assert!(servers.server.len() >= 2);
        for server in &servers.server {
            let machine = server.machine(None);
            assert!(machine.whole_host && machine.vcpus.unwrap() > 0 && !machine.notes.is_empty());
            assert!(server.capex.as_ref().is_none_or(|capex| capex.from == Provenance::Assumed), "no published price");
        }
    }
}
