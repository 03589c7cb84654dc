//! What an operator writes about a broadband gateway. Plain data; [`Config::check`] reports what is invalid, by key.

mod check;
mod expand;
mod garden;
mod radius;
mod relay;
mod sessions;
mod shape;

use std::net::{Ipv4Addr, Ipv6Addr};

use dataplane::config::Links;
pub use dataplane::config::{ConfigError, Otherwise, parse_mac, parse_prefix, parse_rate, wrong};
pub use dataplane::config::{Nat, NatPool};
use dataplane::forward::InstanceId;
use gateway::shell::{PortSection, Sections};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use radius::{RadiusSection, RadiusServer};
pub use relay::{RelayPlan, RelaySection, ServerOrder, UntrustedOption82};
pub use sessions::{GroupSessions, Ipv6Mode, SessionsSection, gateways4, link_local, prefix4, seconds};

pub use shape::{ClassSection, QueueSection, ShapePlan, ShapeSection};

pub use garden::{GardenPlan, GardenSection};

pub use gateway::fast_path::FastPathMode;
pub use gateway::moves::owners::MovesSection;
pub use gateway::moves::park::ParkSection;

pub use expand::{GroupPlan, Layout, Lists, Numbers, ProfilePlan, Slice4, Slice6, VlanRange};

gateway::configuration! {
    /// A broadband gateway's configuration.
    pub struct Config of Port {
        /// Subscriber groups: lines of a port that share slices of addresses, a gateway address and a worker.
        #[serde(default)]
        pub group: Vec<Group>,
        /// Tiers: what subscribers are given.
        #[serde(default)]
        pub profile: Vec<Profile>,
        /// Access lists that profiles and groups name.
        #[serde(default)]
        pub acl: Vec<Acl>,
        /// Subscribers whose line and addresses are configured.
        #[serde(default)]
        pub subscriber: Vec<Subscriber>,
        /// Sessions of subscribers that come by themselves.
        #[serde(default)]
        pub sessions: SessionsSection,
        /// Authentication and accounting of sessions; left out: everybody may have one, with the group's tier.
        #[serde(default)]
        pub radius: Option<RadiusSection>,
        /// Rate limits of control packets from the access network.
        #[serde(default)]
        pub punt: PuntSection,
        /// What queues of shaped subscribers may hold, per worker.
        #[serde(default)]
        pub queues: QueueSection,
        /// Translation of subscribers' IPv4 addresses (CGNAT).
        #[serde(default)]
        pub nat: Option<Nat>,
        /// Known subscribers in the kernel, where a port has `fast_path`.
        #[serde(default)]
        pub fast_path: FastPathSection,
        /// Groups move together onto fewer workers while there is little to do; left out: each stays on its own.
        #[serde(default)]
        pub park: Option<ParkSection>,
        /// Groups move between this process and others of this machine; left out: between workers only.
        #[serde(default)]
        pub moves: Option<MovesSection>,
    }
}

/// The VRF of ports and groups that name none.
pub const CORE: &str = "core";

/// Which side of the gateway a port is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Towards access nodes: every frame is a subscriber's.
    Access,
    /// Towards IP networks.
    Core,
    /// Both: frames with the port's own `vlan` (untagged ones, without) are the core's, all others are subscribers'.
    Hybrid,
}

impl Role {
    /// The word in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Core => "core",
            Self::Hybrid => "hybrid",
        }
    }

    /// Whether subscribers are reached by such a port.
    pub(crate) const fn has_access(self) -> bool {
        matches!(self, Self::Access | Self::Hybrid)
    }

    /// Whether IP networks are reached by such a port.
    pub(crate) const fn has_core(self) -> bool {
        matches!(self, Self::Core | Self::Hybrid)
    }
}

gateway::port_section! {
    /// An interface.
    pub struct Port {
        /// Its side.
        pub role: Role,
        /// The VRF of its core side; left out: `core`. Addresses and tags are those of the core side, too.
        #[serde(default)]
        pub instance: Option<String>,
        /// Most bits a second towards subscribers, with preambles and gaps: the rate of the link, or of what is behind it.
        /// Workers share it. Shaped packets wait for it; left out: they never do.
        #[serde(default)]
        #[schemars(schema_with = "quantity::read::optional_rate_schema")]
        pub rate: Option<String>,
        /// Largest TCP segment over IPv4 that is let through in either direction, in bytes; over IPv6 it is 20 less.
        #[serde(default)]
        pub mss: Option<u16>,
        /// Forward usual packets of known subscribers in the kernel, at the driver, where the port is an `xdp:` one and everything
        /// configured can be done there: `auto`; `only`: do not start where it cannot; `off`: every packet goes through the
        /// workers. Ports of both sides must have it.
        #[serde(default)]
        pub fast_path: FastPathMode,
    }
}

/// The in-kernel path of known subscribers.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FastPathSection {
    /// Subscribers there is room for in the kernel, 1 to 4,194,304, and at most 16,777,216 with the workers' number multiplied;
    /// each takes 192 bytes of memory for each worker and about 100 beside. Others are the workers'.
    pub subscribers: u32,
}

impl Default for FastPathSection {
    fn default() -> Self {
        Self { subscribers: 65_536 }
    }
}

impl FastPathSection {
    const MOST: u32 = 1 << 22;

    /// With so many workers.
    fn check(&self, workers: u16) -> Result<(), ConfigError> {
        let records = u64::from(self.subscribers) * u64::from(workers);
        if (1..=Self::MOST).contains(&self.subscribers) && records <= 1 << gateway::fast_path::NUMBER_BITS {
            return Ok(());
        }
        let what = format!("room for {} subscribers in the kernel", self.subscribers);
        let most = (1 << gateway::fast_path::NUMBER_BITS) / u32::from(workers.max(1));
        let help =
            format!("1 to {} with {workers} workers; fast_path = \"off\" in each port for none", most.min(Self::MOST));
        Err(wrong(&[&"fast_path", &"subscribers"], what, help))
    }
}

impl From<Role> for gateway::fast_path::Side {
    fn from(role: Role) -> Self {
        match role {
            Role::Access => Self::Access,
            Role::Core => Self::Core,
            Role::Hybrid => Self::Hybrid,
        }
    }
}

impl PortSection for Port {
    fn role(&self) -> &'static str {
        self.role.name()
    }

    fn instance(&self) -> &str {
        self.instance()
    }

    fn point_to_point(&self) -> bool {
        // A port without a core side has no address of its own: those of groups are answered for there.
        self.uri.starts_with("tun:") || !self.role.has_core()
    }
}

impl Port {
    /// The VRF of its core side.
    pub fn instance(&self) -> &str {
        self.instance.as_deref().unwrap_or(CORE)
    }
}

/// How lines share VLANs (TR-101, 2.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Model {
    /// A VLAN pair is one line.
    #[default]
    #[serde(rename = "1:1")]
    OneToOne,
    /// A VLAN pair is shared; a line is known by its hardware address, too.
    #[serde(rename = "N:1")]
    ManyToOne,
}

/// What a gateway answers ARP and neighbour solicitations for, beside its own addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Proxy {
    /// Nothing.
    #[default]
    Off,
    /// Addresses of the group's slices: subscribers of one IP subnet reach each other through the gateway.
    Subscribers,
}

/// VLAN identifiers: one, or `"first-last"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Vlans {
    /// One.
    One(u16),
    /// `"100-107"`.
    Range(String),
}

/// How lines carry frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LineFraming {
    /// Whole: Ethernet, PON.
    #[default]
    Whole,
    /// In ATM cells.
    Atm,
    /// In PTM.
    Ptm,
}

/// A subscriber group: the unit that is owned by a worker.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Ports of role access or hybrid that its lines come in by.
    pub ports: Vec<String>,
    /// Outer VLANs; left out: untagged frames.
    #[serde(default)]
    pub s_vlans: Option<Vlans>,
    /// Inner VLANs; left out: frames have one tag at most.
    #[serde(default)]
    pub c_vlans: Option<Vlans>,
    /// Type of the outer tag towards lines that nothing was received from yet: `0x88a8` or `0x8100`. Afterwards the type
    /// that was received.
    #[serde(default = "service_tag")]
    pub tpid: String,
    /// How lines share VLANs.
    #[serde(default)]
    pub model: Model,
    /// IPv4 slices that its subscribers have addresses of: `100.64.0.0/18`.
    #[serde(default)]
    pub ipv4: Vec<String>,
    /// IPv6 slices of WAN prefixes, a /64 for each subscriber: `2001:db8:100::/48`.
    #[serde(default)]
    pub ipv6_wan: Vec<String>,
    /// IPv6 slices of delegated prefixes.
    #[serde(default)]
    pub ipv6_pd: Vec<DelegatedSlice>,
    /// The gateway's own addresses in the group: the subscribers' default router.
    #[serde(default)]
    pub gateways: Vec<std::net::IpAddr>,
    /// Virtual hardware address, the same wherever the group is; left out: the port's.
    #[serde(default)]
    pub mac: Option<String>,
    /// The worker that owns it.
    #[serde(default)]
    pub worker: u16,
    /// Whether this process begins with it. `false`: another one does; packets of it that come here are dropped, nobody is
    /// answered, and its prefixes are not announced until it moves here. With `[moves]`, a group that was moved is where it was
    /// moved to, whatever stands here.
    #[serde(default = "yes")]
    pub active: bool,
    /// The VRF its subscribers' packets are routed in; left out: `core`.
    #[serde(default)]
    pub instance: Option<String>,
    /// What its sessions are given; left out: it has static subscribers only.
    #[serde(default)]
    pub sessions: Option<GroupSessions>,
    /// The profile of subscribers that name none.
    #[serde(default)]
    pub profile: Option<String>,
    /// The access list of the access location, beside the profile's.
    #[serde(default)]
    pub acl: Option<String>,
    /// Answers for addresses that are not the gateway's.
    #[serde(default)]
    pub proxy: Proxy,
    /// Largest IP packet towards subscribers in bytes; default: the port's.
    #[serde(default)]
    pub mtu: Option<u16>,
    /// Most bits a second to all shaped subscribers of one outer VLAN, with `overhead`: what the PON or the access node
    /// behind it carries.
    #[serde(default)]
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub s_vlan_rate: Option<String>,
    /// Bytes that shaped rates of layer 2 count beside each frame with its tags, at most 100: 4 for the FCS, 24 for what an
    /// Ethernet port takes.
    #[serde(default)]
    pub overhead: u8,
    /// How subscribers' lines carry frames, which shaped rates of layer 2 count: `atm` (ADSL: cells of 53 bytes, with AAL5's
    /// trailer; `overhead` has what else there is, such as 10 bytes of LLC/SNAP), `ptm` (VDSL2: 65 bytes for 64); both without the
    /// frame's tags, which the access node takes off. `s_vlan_rate` is Ethernet's.
    #[serde(default)]
    pub line_framing: LineFraming,
    /// Whether its subscribers' IPv4 addresses are translated where `[nat]` has a pool of their VRF; `false`: they have public
    /// addresses of their own.
    #[serde(default = "yes")]
    pub nat: bool,
    /// Whether its prefixes are routes of the kernel's, for routing daemons beside ports with `host_interface` to announce;
    /// `false`: traffic to its subscribers is to come by another gateway.
    #[serde(default = "yes")]
    pub announce: bool,
}

fn yes() -> bool {
    true
}

fn service_tag() -> String {
    "0x88a8".to_owned()
}

impl Group {
    /// The VRF of its subscribers.
    pub fn instance(&self) -> &str {
        self.instance.as_deref().unwrap_or(CORE)
    }
}

/// Delegated prefixes of one length.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelegatedSlice {
    /// All of them: `2001:db8:4000::/36`.
    pub prefix: String,
    /// Length of one, 48 to 64.
    #[serde(default = "delegated")]
    pub length: u8,
}

fn delegated() -> u8 {
    56
}

/// The layer whose bytes are policed and counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Accounted {
    /// The Ethernet frame on the access side with its tags, without FCS.
    L2,
    /// The IP packet.
    #[default]
    L3,
}

/// A tier.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What groups and subscribers call it.
    pub name: String,
    /// Most bits a second from the subscriber: `"50 Mbit/s"`; left out: unlimited.
    #[serde(default)]
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub up: Option<String>,
    /// Most bits a second to the subscriber.
    #[serde(default)]
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub down: Option<String>,
    /// Bytes from the subscriber that may pass at once; left out: what passes in 100 ms, at least 3,000.
    #[serde(default, deserialize_with = "quantity::read::bytes::optional")]
    #[schemars(schema_with = "quantity::read::bytes::schema")]
    pub up_burst: Option<u64>,
    /// Bytes to the subscriber that may pass at once; left out, where `shape` is given: what passes in 1 ms, at least 3,044.
    #[serde(default, deserialize_with = "quantity::read::bytes::optional")]
    #[schemars(schema_with = "quantity::read::bytes::schema")]
    pub down_burst: Option<u64>,
    /// Shapes packets to the subscriber: those over `down` wait in queues by class. Left out: they are dropped.
    #[serde(default)]
    pub shape: Option<ShapeSection>,
    /// The layer whose bytes are policed and counted.
    #[serde(default)]
    pub accounted: Accounted,
    /// Its access list.
    #[serde(default)]
    pub acl: Option<String>,
    /// Its subscribers reach listed destinations only, and are sent to a portal; left out: they reach everything.
    #[serde(default)]
    pub garden: Option<GardenSection>,
    /// Priority code point of the tags towards the subscriber, by class selector (DSCP / 8); left out: the class selector.
    #[serde(default)]
    pub pcp: Option<[u8; 8]>,
    /// DSCP written into packets from the subscriber, by the priority code point of the outer tag; left out: as they came.
    #[serde(default)]
    pub dscp: Option<[u8; 8]>,
}

/// An access list: the first rule that matches decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acl {
    /// What profiles and groups call it.
    pub name: String,
    /// Rules: `deny in tcp from any to any port 25`; `in` is from subscribers, `out` to them.
    #[serde(default)]
    pub rules: Vec<String>,
    /// What becomes of packets that no rule matches.
    #[serde(default)]
    pub default: Otherwise,
}

fn one() -> u32 {
    1
}

/// Static subscribers: subscriber `i` has the first of everything plus `i`. Lines follow each other by inner VLAN, then by
/// outer VLAN, then by port.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subscriber {
    /// Its name; of several, with its number behind. Left out: group and line.
    #[serde(default)]
    pub name: Option<String>,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// Their group.
    pub group: String,
    /// The first one's port; left out: the group's first.
    #[serde(default)]
    pub port: Option<String>,
    /// The first one's outer VLAN; left out: the group's first.
    #[serde(default)]
    pub s_vlan: Option<u16>,
    /// The first one's inner VLAN; left out: the group's first.
    #[serde(default)]
    pub c_vlan: Option<u16>,
    /// The first one's hardware address; left out, in a group of model 1:1: that of the first packet from its address.
    #[serde(default)]
    pub mac: Option<String>,
    /// The first one's IPv4 address.
    #[serde(default)]
    pub ipv4: Option<Ipv4Addr>,
    /// The first one's WAN prefix, a /64.
    #[serde(default)]
    pub ipv6_wan: Option<Ipv6Addr>,
    /// The first one's delegated prefix: `2001:db8:4000::/56`.
    #[serde(default)]
    pub ipv6_pd: Option<String>,
    /// Their profile; left out: the group's.
    #[serde(default)]
    pub profile: Option<String>,
}

/// Control packets that a worker takes off the access side, by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Class {
    /// DHCPv4 (RFC 2131).
    Dhcp4,
    /// DHCPv6 (RFC 8415).
    Dhcp6,
    /// ARP (RFC 826).
    Arp,
    /// IPv6 neighbour and router discovery (RFC 4861).
    Nd,
    /// PPPoE discovery and session frames (RFC 2516).
    Pppoe,
    /// IGMP and MLD (RFC 3376, RFC 3810).
    Multicast,
    /// Protocols of routers: OSPF, VRRP, BGP to an address of ours.
    Routing,
    /// ICMP to an address of ours.
    Icmp,
}

impl Class {
    /// All of them, by number.
    pub const ALL: [Self; 8] =
        [Self::Dhcp4, Self::Dhcp6, Self::Arp, Self::Nd, Self::Pppoe, Self::Multicast, Self::Routing, Self::Icmp];
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The name in the configuration, tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dhcp4 => "dhcp4",
            Self::Dhcp6 => "dhcp6",
            Self::Arp => "arp",
            Self::Nd => "nd",
            Self::Pppoe => "pppoe",
            Self::Multicast => "multicast",
            Self::Routing => "routing",
            Self::Icmp => "icmp",
        }
    }
}

/// Packets a second that each class may have, per worker: in all, of one line, and of one VLAN pair that lines share.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PuntSection {
    /// Of one line, every class; ten times as many at once. Where lines share VLANs, a line is a hardware address.
    pub line: u32,
    /// Of one VLAN pair of an N:1 group, every class, whatever hardware addresses are in use; as many at once.
    pub pair: u32,
    /// DHCPv4.
    pub dhcp4: u32,
    /// DHCPv6.
    pub dhcp6: u32,
    /// ARP.
    pub arp: u32,
    /// Neighbour and router discovery.
    pub nd: u32,
    /// PPPoE.
    pub pppoe: u32,
    /// IGMP and MLD.
    pub multicast: u32,
    /// Routing protocols.
    pub routing: u32,
    /// ICMP to addresses of ours.
    pub icmp: u32,
}

impl Default for PuntSection {
    fn default() -> Self {
        Self {
            line: 10,
            pair: 4000,
            dhcp4: 40_000,
            dhcp6: 40_000,
            arp: 20_000,
            nd: 20_000,
            pppoe: 20_000,
            multicast: 10_000,
            routing: 1000,
            icmp: 10_000,
        }
    }
}

impl PuntSection {
    /// Packets a second of a class in all.
    pub fn of(&self, class: Class) -> u32 {
        match class {
            Class::Dhcp4 => self.dhcp4,
            Class::Dhcp6 => self.dhcp6,
            Class::Arp => self.arp,
            Class::Nd => self.nd,
            Class::Pppoe => self.pppoe,
            Class::Multicast => self.multicast,
            Class::Routing => self.routing,
            Class::Icmp => self.icmp,
        }
    }
}

impl Config {
    /// VRFs, by number: `core`, then by ports and groups.
    pub fn instances(&self) -> Vec<String> {
        let mut names = vec![CORE.to_owned()];
        let ports = self.port.iter().map(Port::instance);
        for name in ports.chain(self.group.iter().map(Group::instance)) {
            if names.iter().all(|known| known != name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// A VRF's number.
    pub fn instance(&self, name: &str) -> InstanceId {
        self.instances().iter().position(|known| known == name).unwrap_or(0) as InstanceId // a handful
    }

    /// The links around the gateway.
    pub fn links(&self) -> Links<'_> {
        self.links_among(self.instances(), CORE)
    }
}
