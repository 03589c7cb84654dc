//! What an operator writes about a user plane. Plain data; [`Config::check`] says what makes no sense, by key.

pub mod acl;
mod n4;
mod reassembly;
mod simulate;

use std::net::IpAddr;
use std::time::Duration;

use dataplane::forward::InstanceId;
pub use gateway::fast_path::FastPathMode;
use gateway::host_routing::ServedPrefix;
use gateway::shell::{PortSection, Sections};
use port::Offloads;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use dataplane::config::{
    ConfigError, Frames, Health, Link, Links, Log, Metrics, Nat, NatPool, Neighbour, ProcessSection, Route, VlanStack,
    Workers, parse_mac, parse_prefix, parse_rate, wrong,
};

pub use acl::Acl;
pub use n4::{
    Action, Dnn, GbrCapacity, LedgerDamaged, N4, Peer, Policy, Pool, Predefined, PredefinedUsage,
    UnknownNetworkInstance,
};
pub use reassembly::Reassembly;
pub use simulate::{Bearer, Simulate};

gateway::configuration! {
    /// A user plane's configuration.
    pub struct Config of Port {
        /// Tunnel protocol.
        #[serde(default)]
        pub gtpu: Gtpu,
        /// Packets that wait.
        #[serde(default)]
        pub buffer: Buffer,
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
        /// Known sessions in the kernel, where a port has `fast_path`.
        #[serde(default)]
        pub fast_path: FastPath,
    }
}

/// Which side of the gateway a port is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Towards the radio network: N3, S1-U.
    Access,
    /// Towards the data network: N6, SGi.
    Core,
}

impl Role {
    /// The word in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Core => "core",
        }
    }
}

impl From<Role> for gateway::fast_path::Side {
    fn from(role: Role) -> Self {
        if role == Role::Access { Self::Access } else { Self::Core }
    }
}

gateway::port_section! {
    /// An interface.
    pub struct Port {
        /// Its side.
        pub role: Role,
        /// The network instance it belongs to; default: its role.
        #[serde(default)]
        pub instance: Option<String>,
        /// Verify the UDP checksum of tunnel packets that come in by it. Off, the link's own checksum is trusted, and that of
        /// the user's packet, which its ends verify: the sum goes over every byte of every packet.
        #[serde(default)]
        pub verify_outer_checksum: bool,
        /// The most bytes a TCP segment of a subscriber's may have that passes this port, either way, over IPv4; over IPv6 20
        /// less. Left out: what its ends announce.
        #[serde(default)]
        pub mss: Option<u16>,
        /// Forward usual packets of known sessions in the kernel, at the driver, where the port is an `xdp:` one and everything
        /// configured can be done there: `auto`; `only`: do not start where it cannot; `off`: every packet goes through the
        /// workers. Ports of both sides must have it.
        #[serde(default)]
        pub fast_path: FastPathMode,
    }
}

/// The in-kernel path of known sessions.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FastPath {
    /// Sessions there is room for in the kernel, 1 to 4,194,304; each takes 1.6 KB of memory. Others are the workers'.
    pub sessions: u32,
    /// Translated flows (`[nat]`) there is room for in the kernel, up to 8,388,608, divided among workers; each takes about 100
    /// bytes of memory. Others are the workers'. 0: all are.
    pub flows: u32,
    /// How long the kernel goes on forwarding for known sessions when the gateway has ended, was killed or starts again;
    /// 0 seconds: not at all. Needs `n4.ledger`, by which the next start knows the sessions, and `bpf_folder`.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    pub keep_seconds: u32,
    /// The folder of a BPF file system (`mount -t bpf bpf /sys/fs/bpf`), in which what goes on has a name.
    pub bpf_folder: String,
}

impl Default for FastPath {
    fn default() -> Self {
        Self { sessions: 65_536, flows: 262_144, keep_seconds: 60, bpf_folder: "/sys/fs/bpf".to_owned() }
    }
}

impl FastPath {
    const MOST: u32 = 1 << 22;
    const MOST_FLOWS: u32 = 1 << 23;

    /// How long sessions go on without the process; none: not at all.
    pub fn keep(&self) -> Option<Duration> {
        (self.keep_seconds > 0).then(|| Duration::from_secs(self.keep_seconds.into()))
    }

    fn check(&self) -> Result<(), ConfigError> {
        if !(1..=Self::MOST).contains(&self.sessions) {
            let what = format!("room for {} sessions in the kernel", self.sessions);
            let help = format!("1 to {}; fast_path = \"off\" in each port for none", Self::MOST);
            return Err(wrong(&[&"fast_path", &"sessions"], what, help));
        }
        if self.flows > Self::MOST_FLOWS {
            let what = format!("room for {} translated flows in the kernel", self.flows);
            let help = format!("at most {}; 0 for none", Self::MOST_FLOWS);
            return Err(wrong(&[&"fast_path", &"flows"], what, help));
        }
        Ok(())
    }
}

/// Tunnel protocol.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gtpu {
    /// Error Indications sent per second and worker at most; and as many notifications of supported extension headers.
    pub error_indications_per_second: u32,
    /// Send UDP checksum zero over IPv6 (RFC 6935) instead of computing it.
    pub zero_checksum_over_ipv6: bool,
    /// Seconds between Echo Requests to each peer that control planes' sessions send to: 60 or more (3GPP TS 29.281,
    /// 7.2.1); 0: none are sent.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub echo_seconds: u32,
    /// Seconds until an Echo Request is sent again (T3-RESPONSE).
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub echo_timeout_seconds: u32,
    /// Echo Requests without an answer until control planes are told that the path has failed (N3-REQUESTS).
    #[serde(alias = "echo_tries")]
    pub n3_requests: u32,
}

impl Default for Gtpu {
    fn default() -> Self {
        Self {
            error_indications_per_second: 100,
            zero_checksum_over_ipv6: false,
            echo_seconds: 60,
            echo_timeout_seconds: 5,
            n3_requests: 3,
        }
    }
}

/// Packets that wait for an idle subscriber or a neighbour's address, per worker.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Buffer {
    /// Bytes for all together.
    #[serde(deserialize_with = "quantity::read::bytes::deserialize")]
    #[schemars(schema_with = "quantity::read::bytes::schema")]
    pub bytes: usize,
    /// Packets a subscriber may have waiting.
    pub packets_per_subscriber: u32,
    /// Seconds until a waiting packet is given up.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub seconds: u32,
}

impl Default for Buffer {
    fn default() -> Self {
        Self { bytes: 4 << 20, packets_per_subscriber: 64, seconds: 30 }
    }
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
        self.check_sections::<crate::product::UpfGateway>()?;
        self.check_ports()?;
        self.gtpu.check()?;
        self.fast_path.check()?;
        if let Some(n4) = &self.n4 {
            n4.check(self)?;
        }
        if let Some(nat) = &self.nat {
            nat.check(&self.links(), self.workers.count)?;
            n4::check_apart(nat, self)?;
        }
        acl::lists(self, 0)?;
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
        if let Some(n) = self.port.iter().position(|port| port.on.is_some() && port.fast_path != FastPathMode::Off) {
            let what = format!("port \"{}\" has no device of its own", self.port[n].name);
            let help = format!("say it at port \"{}\"", self.port[n].on.as_deref().unwrap_or_default());
            return Err(wrong(&[&"port", &n, &"fast_path"], what, help));
        }
        match self.port.iter().position(|port| port.mss.is_some_and(|mss| mss < 536)) {
            Some(n) => Err(wrong(&[&"port", &n, &"mss"], "a segment too small for TCP", "536 or more, such as 1360")),
            None => self.links().check(),
        }
    }

    /// Subscribers' addresses that control planes have a part of, and public addresses of translation in place of those that
    /// are translated.
    pub fn served(&self) -> Vec<ServedPrefix> {
        let links = self.links();
        let translated = self.nat.as_ref().map_or_else(Vec::new, |nat| nat.ranges(&links));
        let mut served = Vec::new();
        for pool in self.n4.iter().flat_map(|n4| &n4.pool) {
            let name = pool.instance.as_deref().unwrap_or("core");
            let Some(at) = links.instances.iter().position(|known| known == name) else { continue };
            let instance = at as InstanceId; // a handful
            let is_translated = translated.iter().any(|(of, _)| *of == instance);
            let v4 = pool.v4.as_ref().filter(|_| !is_translated).and_then(|text| parse_prefix(text));
            let v6 = pool.v6.as_ref().and_then(|text| parse_prefix(text));
            served.extend(v4.into_iter().chain(v6).map(|(to, len)| ServedPrefix::of(instance, to, len)));
        }
        served.extend(gateway::nat::served(translated));
        served
    }

    /// The links around it.
    pub fn links(&self) -> Links<'_> {
        self.links_among(self.instances(), "core")
    }
}

impl PortSection for Port {
    fn role(&self) -> &'static str {
        self.role.name()
    }

    fn instance(&self) -> &str {
        self.instance()
    }

    /// What is to no address of the gateway's comes from networks: tunnels end in one.
    fn has_rest(&self) -> bool {
        self.role == Role::Core
    }

    /// The sums over whole packets of tunnels.
    fn offloads(&self) -> Offloads {
        // Tunnels go from no other address.
        let has6 = |text: &String| match parse_prefix(text) {
            Some((IpAddr::V6(address), _)) => !address.is_unicast_link_local(),
            _ => false,
        };
        let is_over6 = self.role == Role::Access && self.addresses.iter().any(has6);
        Offloads { verify_udp: self.verify_outer_checksum, complete_udp6: is_over6 }
    }
}

impl Port {
    /// The network instance it is in.
    pub fn instance(&self) -> &str {
        self.instance.as_deref().unwrap_or(self.role.name())
    }
}

impl Gtpu {
    fn check(&self) -> Result<(), ConfigError> {
        if (1..60).contains(&self.echo_seconds) {
            let what = "a path is probed once a minute at most (3GPP TS 29.281, 7.2.1)";
            return Err(wrong(&[&"gtpu", &"echo_seconds"], what, "60 or more, or 0 for never"));
        }
        if self.echo_timeout_seconds == 0 {
            return Err(wrong(&[&"gtpu", &"echo_timeout_seconds"], "no time to answer", "such as 5"));
        }
        if self.n3_requests == 0 || self.n3_requests.saturating_mul(self.echo_timeout_seconds) > 60 {
            let what = "all tries take a minute at most, and there is one at least";
            return Err(wrong(&[&"gtpu", &"n3_requests"], what, "such as 3"));
        }
        Ok(())
    }
}
