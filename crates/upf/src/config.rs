//! What an operator writes about a user plane. Plain data; [`Config::check`] says what makes no sense, by key.

pub mod acl;
mod n4;
mod nat;
mod reassembly;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stages::forward::InstanceId;

pub use stages::config::{
    ConfigError, Frames, Metrics, Neighbour, Route, Workers, parse_mac, parse_prefix, parse_rate, wrong,
};

pub use acl::Acl;
pub use n4::{Action, N4, Policy, Pool, Predefined, PredefinedUsage};
pub use nat::{Nat, NatPool};
pub use reassembly::Reassembly;

/// A user plane's configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `"upf"`.
    pub gateway: String,
    /// Threads that carry packets.
    #[serde(default)]
    pub workers: Workers,
    /// Packet memory.
    #[serde(default)]
    pub frames: Frames,
    /// Interfaces.
    #[serde(default)]
    pub port: Vec<Port>,
    /// Routes beside the connected ones.
    #[serde(default)]
    pub route: Vec<Route>,
    /// Neighbours that need no resolving.
    #[serde(default)]
    pub neighbour: Vec<Neighbour>,
    /// Tunnel protocol.
    #[serde(default)]
    pub gtpu: Gtpu,
    /// Packets that wait.
    #[serde(default)]
    pub buffer: Buffer,
    /// Where `weir show` and `weir trace` find the running process.
    #[serde(default = "default_socket")]
    pub control_socket: PathBuf,
    /// Sessions made up at start, as if by a control plane.
    #[serde(default)]
    pub simulate: Option<Simulate>,
    /// Control planes, by PFCP.
    #[serde(default)]
    pub n4: Option<N4>,
    /// Translation of subscribers' IPv4 addresses.
    #[serde(default)]
    pub nat: Option<Nat>,
    /// Access lists by network instance.
    #[serde(default)]
    pub acl: Vec<Acl>,
    /// Users' fragments are put together.
    #[serde(default)]
    pub reassembly: Option<Reassembly>,
    /// Numbers for a monitoring system.
    #[serde(default)]
    pub metrics: Option<Metrics>,
}

fn default_socket() -> PathBuf {
    "/run/weir.sock".into()
}

/// Which side of the gateway a port is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Towards the radio network: N3, S1-U.
    Access,
    /// Towards the data network: N6, SGi.
    Core,
}

/// An interface.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// What the rest of the configuration calls it.
    pub name: String,
    /// What it is: `packet:eth0?mode=ring`, `xdp:eth0`, …. `{worker}` stands for the worker's number.
    pub uri: String,
    /// Its side.
    pub role: Role,
    /// The network instance it belongs to; default: its role.
    #[serde(default)]
    pub instance: Option<String>,
    /// Our addresses on it, with prefix length: `10.0.3.1/24`.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// VLAN tag of its packets.
    #[serde(default)]
    pub vlan: Option<u16>,
    /// Largest IP packet; default: the interface's.
    #[serde(default)]
    pub mtu: Option<u16>,
    /// Verify the UDP checksum of tunnel packets that come in by it. Off, the link's own checksum is trusted, and that of
    /// the user's packet, which its ends verify: the sum goes over every byte of every packet.
    #[serde(default)]
    pub verify_outer_checksum: bool,
    /// The most bytes a TCP segment of a subscriber's may have that passes this port, either way, over IPv4; over IPv6 20
    /// less. Left out: what its ends announce.
    #[serde(default)]
    pub mss: Option<u16>,
}

/// Tunnel protocol.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gtpu {
    /// Error Indications sent per second and worker at most; and as many notifications of supported extension headers.
    pub error_indications_per_second: u32,
    /// Send UDP checksum zero over IPv6 (RFC 6935) instead of computing it.
    pub zero_checksum_over_ipv6: bool,
    /// Seconds between Echo Requests to each peer that control planes' sessions send to: 60 or more (3GPP TS 29.281,
    /// 7.2.1); 0: none are sent.
    pub echo_seconds: u32,
    /// Seconds until an Echo Request is sent again (T3-RESPONSE).
    pub echo_timeout_seconds: u32,
    /// Echo Requests without an answer until control planes are told that the path has failed (N3-REQUESTS).
    pub echo_tries: u32,
}

impl Default for Gtpu {
    fn default() -> Self {
        Self {
            error_indications_per_second: 100,
            zero_checksum_over_ipv6: false,
            echo_seconds: 60,
            echo_timeout_seconds: 5,
            echo_tries: 3,
        }
    }
}

/// Packets that wait for an idle subscriber or a neighbour's address, per worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Buffer {
    /// Bytes for all together.
    pub bytes: usize,
    /// Packets a subscriber may have waiting.
    pub packets_per_subscriber: u32,
    /// Seconds until a waiting packet is given up.
    pub seconds: u32,
}

impl Default for Buffer {
    fn default() -> Self {
        Self { bytes: 4 << 20, packets_per_subscriber: 64, seconds: 30 }
    }
}

/// A control plane that is not there: sessions by formula.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Simulate {
    /// How many subscribers.
    pub ues: u32,
    /// Subscriber `i` has this address plus `i`. Left out: 10.60.0.1, or no IPv4 where `ue6_first` is given.
    pub ue_first: Option<Ipv4Addr>,
    /// Subscriber `i` has this /64 plus `i`; none: no IPv6.
    pub ue6_first: Option<Ipv6Addr>,
    /// Subscriber `i`'s tunnel endpoint on our side is this plus `i`, for all its bearers (5G); or its bearer `b`'s is
    /// this plus `i` × bearers + `b`, when bearers have tunnels of their own (4G).
    pub teid_first: u32,
    /// Bearers have tunnels of their own.
    pub teid_per_bearer: bool,
    /// Subscriber `i`'s tunnel endpoint at its gNB is this plus `i`.
    pub gnb_teid_first: u32,
    /// How many gNBs; subscriber `i` is at gNB `i` mod this.
    pub gnbs: u32,
    /// gNB `n` has this address plus `n`.
    pub gnb_first: IpAddr,
    /// The aggregate rate of each subscriber, such as `"100 Mbit/s"`; none: no limit.
    pub ambr_up: Option<String>,
    /// As `ambr_up`.
    pub ambr_down: Option<String>,
    /// Bearers, or QoS flows: the last one is the default bearer and usually has no filters.
    pub bearer: Vec<Bearer>,
    /// Sessions removed and made anew per second while running.
    pub churn_per_second: u32,
    /// Subscribers that begin idle: their downlink is buffered.
    pub idle: u32,
    /// Milliseconds that paging takes: an idle subscriber's packets go on so long after the first one came; none: nobody
    /// is paged.
    pub paging_ms: Option<u64>,
}

impl Default for Simulate {
    fn default() -> Self {
        Self {
            ues: 1000,
            ue_first: None,
            ue6_first: None,
            teid_first: 0x0100_0000,
            teid_per_bearer: false,
            gnb_teid_first: 0x0200_0000,
            gnbs: 1,
            gnb_first: Ipv4Addr::new(10, 0, 3, 100).into(),
            ambr_up: None,
            ambr_down: None,
            bearer: vec![Bearer::default()],
            churn_per_second: 0,
            idle: 0,
            paging_ms: None,
        }
    }
}

/// A bearer (4G) or QoS flow (5G).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bearer {
    /// QoS flow identifier; none: no PDU session container (4G).
    pub qfi: Option<u8>,
    /// SDF filters as flow descriptions: `permit out 17 from 10.0.6.0/24 5000-5003 to assigned`.
    pub filters: Vec<String>,
    /// Maximum bit rate; none: no limit.
    pub mbr_up: Option<String>,
    /// As `mbr_up`.
    pub mbr_down: Option<String>,
    /// The gate is closed in both directions.
    pub gate_closed: bool,
    /// DSCP of the transport header towards the gNB.
    pub dscp: Option<u8>,
    /// DSCP of packets towards the data network.
    pub dscp_up: Option<u8>,
    /// Bearer is dropped by its FAR.
    pub far_drop: bool,
    /// No usage measurement.
    pub no_usage: bool,
    /// Address of a web page that the subscriber's HTTP requests are sent to; nothing else is forwarded.
    pub redirect: Option<String>,
}

impl Config {
    /// The network instances in use, by number.
    pub fn instances(&self) -> Vec<String> {
        let mut names = vec!["access".to_owned(), "core".to_owned()];
        for name in self.port.iter().map(Port::instance) {
            if !names.iter().any(|n| n == name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// The number of a network instance that exists; none named: `core`.
    pub fn instance(&self, name: Option<&str>) -> InstanceId {
        let name = name.unwrap_or("core");
        // A handful of names.
        self.instances().iter().position(|n| n == name).unwrap_or(1) as InstanceId
    }

    fn check_instance(&self, path: &[&dyn ToString], name: Option<&str>) -> Result<(), ConfigError> {
        let names = self.instances();
        match name.filter(|name| !names.iter().any(|n| n == name)) {
            None => Ok(()),
            Some(name) => {
                let what = format!("no port is in network instance \"{name}\"");
                Err(wrong(path, what, format!("one of {}", names.join(", "))))
            }
        }
    }

    /// Checks everything that types do not.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.gateway != "upf" {
            return Err(wrong(&[&"gateway"], format!("no gateway is called \"{}\"", self.gateway), "use \"upf\""));
        }
        self.workers.check(&self.frames)?;
        self.check_ports()?;
        self.check_routes()?;
        self.gtpu.check()?;
        if let Some(n4) = &self.n4 {
            n4.check(self)?;
        }
        if let Some(nat) = &self.nat {
            nat.check(self)?;
        }
        acl::lists(self)?;
        if let Some(reassembly) = &self.reassembly {
            reassembly.check()?;
        }
        match &self.simulate {
            Some(_) if self.n4.is_some() => {
                let help = "take out one of them: sessions come from a control plane, or are made up";
                Err(wrong(&[&"simulate"], "[n4] and [simulate] at a time", help))
            }
            Some(simulate) => simulate.check(),
            None => Ok(()),
        }
    }

    fn check_ports(&self) -> Result<(), ConfigError> {
        let role = |role| self.port.iter().any(|p| p.role == role);
        if !role(Role::Access) || !role(Role::Core) {
            let help = "write [[port]] twice: one with role = \"access\", one with role = \"core\"";
            return Err(wrong(&[&"port"], "a user plane needs a port on either side", help));
        }
        for (n, port) in self.port.iter().enumerate() {
            if self.port[..n].iter().any(|p| p.name == port.name) {
                let what = format!("two ports are called \"{}\"", port.name);
                return Err(wrong(&[&"port", &n, &"name"], what, "give each its own name"));
            }
            if port.addresses.is_empty() {
                let what = format!("port \"{}\" has no address", port.name);
                return Err(wrong(&[&"port", &n], what, "addresses = [\"10.0.3.1/24\"]"));
            }
            for (m, text) in port.addresses.iter().enumerate() {
                if parse_prefix(text).is_none() {
                    let what = format!("\"{text}\" is no address with prefix length");
                    return Err(wrong(&[&"port", &n, &"addresses", &m], what, "such as 10.0.3.1/24 or fd00:3::1/64"));
                }
            }
            if port.vlan.is_some_and(|v| v == 0 || v > 4094) {
                return Err(wrong(&[&"port", &n, &"vlan"], "no such VLAN", "1 to 4094, or leave it out"));
            }
            if port.mtu.is_some_and(|m| m < 576) {
                return Err(wrong(&[&"port", &n, &"mtu"], "too small for IP", "576 or more; 1280 for IPv6"));
            }
            if port.mss.is_some_and(|m| m < 536) {
                return Err(wrong(&[&"port", &n, &"mss"], "a segment too small for TCP", "536 or more, such as 1360"));
            }
        }
        Ok(())
    }

    fn check_routes(&self) -> Result<(), ConfigError> {
        let instances = self.instances();
        for (n, route) in self.route.iter().enumerate() {
            let Some((to, _)) = parse_prefix(&route.to) else {
                let what = format!("\"{}\" is no prefix", route.to);
                return Err(wrong(&[&"route", &n, &"to"], what, "such as 0.0.0.0/0"));
            };
            if to.is_ipv4() != route.via.is_ipv4() {
                return Err(wrong(&[&"route", &n, &"via"], "of another family than the prefix", "use one of its own"));
            }
            if let Some(name) = &route.instance
                && !instances.contains(name)
            {
                let what = format!("no port is in network instance \"{name}\"");
                return Err(wrong(&[&"route", &n, &"instance"], what, format!("one of {}", instances.join(", "))));
            }
        }
        for (n, neighbour) in self.neighbour.iter().enumerate() {
            if !self.port.iter().any(|p| p.name == neighbour.port) {
                let names: Vec<&str> = self.port.iter().map(|p| p.name.as_str()).collect();
                let what = format!("no port is called \"{}\"", neighbour.port);
                return Err(wrong(&[&"neighbour", &n, &"port"], what, format!("one of {}", names.join(", "))));
            }
            if parse_mac(&neighbour.mac).is_none() {
                let what = format!("\"{}\" is no hardware address", neighbour.mac);
                return Err(wrong(&[&"neighbour", &n, &"mac"], what, "such as 02:00:00:00:00:01"));
            }
        }
        Ok(())
    }
}

impl Port {
    /// The network instance it is in.
    pub fn instance(&self) -> &str {
        self.instance.as_deref().unwrap_or(match self.role {
            Role::Access => "access",
            Role::Core => "core",
        })
    }
}

impl Gtpu {
    fn check(&self) -> Result<(), ConfigError> {
        if (1..60).contains(&self.echo_seconds) {
            let what = "a path is asked once a minute at most (3GPP TS 29.281, 7.2.1)";
            return Err(wrong(&[&"gtpu", &"echo_seconds"], what, "60 or more, or 0 for never"));
        }
        if self.echo_timeout_seconds == 0 {
            return Err(wrong(&[&"gtpu", &"echo_timeout_seconds"], "no time to answer", "such as 5"));
        }
        if self.echo_tries == 0 || self.echo_tries.saturating_mul(self.echo_timeout_seconds) > 60 {
            let what = "all tries take a minute at most, and there is one at least";
            return Err(wrong(&[&"gtpu", &"echo_tries"], what, "such as 3"));
        }
        Ok(())
    }
}

impl Simulate {
    /// The first subscriber's IPv4 address, if they have such.
    pub fn first4(&self) -> Option<Ipv4Addr> {
        self.ue_first.or_else(|| self.ue6_first.is_none().then_some(Ipv4Addr::new(10, 60, 0, 1)))
    }

    fn check(&self) -> Result<(), ConfigError> {
        let at = |key: &'static str| -> [&'static str; 2] { ["simulate", key] };
        let fail = |key, what: String, help: &str| {
            let [a, b] = at(key);
            Err(wrong(&[&a, &b], what, help))
        };
        let last = u64::from(self.ues.max(1) - 1);
        let tunnels = if self.teid_per_bearer { self.bearer.len() as u64 } else { 1 };
        if self.first4().is_some_and(|a| u64::from(u32::from(a)) + last > u64::from(u32::MAX)) {
            return fail("ue_first", format!("{} addresses do not fit behind it", self.ues), "begin lower");
        }
        if u64::from(self.teid_first) + (last + 1) * tunnels > u64::from(u32::MAX) || self.teid_first == 0 {
            return fail("teid_first", "TEIDs are 1 to 4294967295".into(), "leave it out");
        }
        if u64::from(self.gnb_teid_first) + (last + 1) * tunnels > u64::from(u32::MAX) {
            return fail("gnb_teid_first", "TEIDs are 1 to 4294967295".into(), "leave it out");
        }
        if self.gnbs == 0 {
            return fail("gnbs", "no gNB at all".into(), "at least 1");
        }
        if self.bearer.is_empty() {
            return fail("bearer", "no bearer at all".into(), "write [[simulate.bearer]] once at least");
        }
        for (key, rate) in [("ambr_up", &self.ambr_up), ("ambr_down", &self.ambr_down)] {
            if rate.as_ref().is_some_and(|r| parse_rate(r).is_none()) {
                return fail(key, "no rate".into(), "such as \"100 Mbit/s\"");
            }
        }
        for (n, bearer) in self.bearer.iter().enumerate() {
            let path =
                |key: &'static str| -> [String; 4] { ["simulate".into(), "bearer".into(), n.to_string(), key.into()] };
            let fail = |key, what: String, help: String| Err(ConfigError { path: path(key).to_vec(), what, help });
            if bearer.qfi.is_some_and(|q| q > 63) {
                return fail("qfi", "a QFI is 0 to 63".into(), "such as 9".into());
            }
            for (key, dscp) in [("dscp", bearer.dscp), ("dscp_up", bearer.dscp_up)] {
                if dscp.is_some_and(|d| d > 63) {
                    return fail(key, "a DSCP is 0 to 63".into(), "46 for expedited forwarding".into());
                }
            }
            for (key, rate) in [("mbr_up", &bearer.mbr_up), ("mbr_down", &bearer.mbr_down)] {
                if rate.as_ref().is_some_and(|r| parse_rate(r).is_none()) {
                    return fail(key, "no rate".into(), "such as \"10 Mbit/s\"".into());
                }
            }
            if bearer.redirect.as_ref().is_some_and(|url| stages::redirect::page(url).is_none()) {
                return fail("redirect", "no address of a web page".into(), "such as \"http://example.com/\"".into());
            }
            for (m, filter) in bearer.filters.iter().enumerate() {
                if let Err(error) = filter.parse::<stages::filter::FlowDescription>() {
                    let mut path = path("filters").to_vec();
                    path.push(m.to_string());
                    let help = "such as \"permit out 17 from 10.0.6.0/24 5000-5003 to assigned\"".to_owned();
                    return Err(ConfigError { path, what: error.to_string(), help });
                }
            }
        }
        Ok(())
    }
}
