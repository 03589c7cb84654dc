//! The workloads: a gateway's configuration and the traffic it is put under, from the same numbers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use traffic::{Profile, Ratio, Sizes, Teids};
use upf::config::acl::{Acl, Otherwise};
use upf::config::{Bearer, Config, FastPathMode, Frames, Port, Role, Route, Simulate, Workers};

use crate::experiment::{self, GatewayKind};

/// A workload's numbers; `--set` changes them by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The experiment's name, such as `upf-128`.
    pub profile: String,
    /// Subscribers.
    pub ues: u32,
    /// Bearers of a subscriber.
    pub bearers: u16,
    /// Flows of a bearer.
    pub flows: u16,
    /// gNBs.
    pub gnbs: u32,
    /// Application servers.
    pub servers: u32,
    /// Packet sizes: Ethernet frames on N6 without FCS.
    pub sizes: Sizes,
    /// Uplink to downlink.
    pub ratio: Ratio,
    /// Share of packets that open a new flow.
    pub new_flows: f64,
    /// Bearer rates, gates, usage, filters and source check; without them a bearer only forwards.
    pub functions: bool,
    /// A rate of the whole session (AMBR) beside those of its bearers, where there are functions.
    pub session_rate: bool,
    /// An access list of the data network, whose rules every packet is held against and passes.
    pub acl: bool,
    /// 4G: each bearer has a tunnel of its own, and packets no QoS flow identifier.
    pub lte: bool,
    /// The default bearer tells two services apart by ports, and counts each.
    pub services: bool,
    /// Share of subscribers with IPv6 addresses.
    pub ipv6_share: f64,
    /// IPv6 between gateway and gNBs.
    pub ipv6_transport: bool,
}

/// An unknown name or value in `--set`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No such setting.
    #[error("no setting is called \"{0}\"; there are {1}")]
    Unknown(String, String),
    /// Not a value for it.
    #[error("\"{value}\" is no value for {key}: {why}")]
    Value {
        /// The setting.
        key: String,
        /// What was given.
        value: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Names that `--set` takes.
pub const KEYS: &[&str] = &[
    "ues",
    "bearers",
    "flows",
    "gnbs",
    "servers",
    "sizes",
    "ratio",
    "new_flows",
    "functions",
    "session_rate",
    "acl",
    "lte",
    "services",
    "ipv6_share",
    "ipv6_transport",
];

/// What a parameter is where an experiment does not set it: small, with everything off.
impl Default for Settings {
    fn default() -> Self {
        Self {
            profile: "upf".to_owned(),
            ues: 1000,
            bearers: 1,
            flows: 1,
            gnbs: 8,
            servers: 16,
            sizes: Sizes::Fixed(128),
            ratio: Ratio { up: 1.0, down: 1.0 },
            new_flows: 0.0,
            functions: false,
            session_rate: false,
            acl: false,
            lte: false,
            services: false,
            ipv6_share: 0.0,
            ipv6_transport: false,
        }
    }
}

impl Settings {
    /// The published experiment: 128-byte packets, sessions in place, one bearer with its rate and usage.
    pub fn upf_128() -> Self {
        Self::built_in("upf-128")
    }

    /// Mobile broadband with everything on: 100,000 subscribers, two bearers of four flows, IMIX 64…1400.
    pub fn upf_embb() -> Self {
        Self::built_in("upf-embb")
    }

    /// The published 4G gateway, SGW-U and PGW-U in one, with charging, QoS and access lists: the traffic of
    /// [`upf_embb`](Self::upf_embb) in a tunnel for each bearer. Its authors did not exercise translation, so neither is
    /// it here.
    pub fn vepc_embb() -> Self {
        Self::built_in("vepc-embb")
    }

    /// The published gateway for fixed wireless access: 120,000 lines of one bearer and two flows, without charging, QoS
    /// and access lists.
    pub fn fwa() -> Self {
        Self::built_in("fwa")
    }

    /// # Panics
    /// Never: a test reads all experiments.
    fn built_in(name: &str) -> Self {
        Self::named(name).unwrap_or_else(|| panic!("{name} is an experiment of the user plane"))
    }

    /// The workload of the built-in experiment of that name, if it is one of a user plane.
    pub fn named(name: &str) -> Option<Self> {
        let experiment = experiment::named(name)?;
        (experiment.gateway == Some(GatewayKind::Upf)).then(|| experiment.mobile().ok()).flatten()
    }

    /// Changes one number.
    ///
    /// # Errors
    /// Which names there are, or what is wrong with the value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        fn read<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, SettingError>
        where
            T::Err: std::fmt::Display,
        {
            let fail = |why: T::Err| SettingError::Value { key: key.into(), value: value.into(), why: why.to_string() };
            value.replace('_', "").parse().map_err(fail)
        }
        let fail = |why: &str| SettingError::Value { key: key.into(), value: value.into(), why: why.into() };
        let count = || {
            let read = quantity::count(value).and_then(|count| u32::try_from(count).ok());
            read.ok_or_else(|| fail("allowed: a count such as 50000, 50_000 or 50k"))
        };
        let small = || u16::try_from(count()?).map_err(|_| fail("allowed: a count up to 65535"));
        let share = || quantity::share(value).ok_or_else(|| fail("allowed: a share such as 0.1 or 10%"));
        match key {
            "ues" => self.ues = count()?,
            "bearers" => self.bearers = small()?,
            "flows" => self.flows = small()?,
            "gnbs" => self.gnbs = count()?,
            "servers" => self.servers = count()?,
            "sizes" => self.sizes = read(key, value)?,
            "new_flows" => self.new_flows = share()?,
            "functions" => self.functions = read(key, value)?,
            "session_rate" => self.session_rate = read(key, value)?,
            "acl" => self.acl = read(key, value)?,
            "lte" => self.lte = read(key, value)?,
            "services" => self.services = read(key, value)?,
            "ipv6_share" => self.ipv6_share = share()?,
            "ipv6_transport" => self.ipv6_transport = read(key, value)?,
            "ratio" => {
                let fail = || SettingError::Value { key: key.into(), value: value.into(), why: "such as 1:9".into() };
                let (up, down) = value.split_once(':').ok_or_else(fail)?;
                self.ratio = Ratio { up: read(key, up)?, down: read(key, down)? };
            }
            _ => return Err(SettingError::Unknown(key.into(), KEYS.join(", "))),
        }
        Ok(())
    }

    fn qfi(&self, bearer: u16) -> u8 {
        // The default bearer is the last and has QFI 9, the usual one for the internet.
        if bearer + 1 == self.bearers { 9 } else { (1 + bearer % 8) as u8 }
    }

    fn gnb_first(&self) -> IpAddr {
        if self.ipv6_transport {
            Ipv6Addr::new(0xfd00, 3, 0, 0, 0, 0, 1, 1).into()
        } else {
            Ipv4Addr::new(172, 16, 1, 1).into()
        }
    }

    fn n3(&self) -> IpAddr {
        if self.ipv6_transport {
            Ipv6Addr::new(0xfd00, 3, 0, 0, 0, 0, 0, 1).into()
        } else {
            Ipv4Addr::new(172, 16, 0, 1).into()
        }
    }

    /// The traffic.
    pub fn traffic(&self) -> Profile {
        let base = Profile::default();
        let teids = |first: u32| -> Teids {
            // One tunnel a subscriber, whatever its bearers.
            let each = usize::from(self.bearers);
            if each == 1 || self.lte {
                return Teids::Formula { first, per_ue: self.bearers.into() };
            }
            let list: Arc<[u32]> = (0..self.ues).flat_map(|i| std::iter::repeat_n(first + i, each)).collect();
            Teids::List(list)
        };
        Profile {
            ues: self.ues,
            ue_first: UE_FIRST,
            ue6_first: UE6_FIRST,
            ipv6_share: self.ipv6_share,
            bearers: self.bearers,
            flows_per_bearer: self.flows,
            qfis: (0..self.bearers).filter(|_| !self.lte).map(|b| self.qfi(b)).collect(),
            uplink_teids: teids(TEID_FIRST),
            downlink_teids: teids(GNB_TEID_FIRST),
            gnbs: self.gnbs,
            gnb_first: self.gnb_first(),
            upf_n3: self.n3(),
            servers: self.servers,
            server_first: SERVER_FIRST,
            server6_first: SERVER6_FIRST,
            uplink_sizes: self.sizes.clone(),
            downlink_sizes: self.sizes.clone(),
            ratio: self.ratio,
            new_flows: self.new_flows,
            ..base
        }
    }

    /// The gateway. `uris` are those of N3 and N6; `{worker}` in them stands for the worker's number.
    pub fn gateway(&self, workers: u16, uris: [&str; 2]) -> Config {
        let profile = self.traffic();
        let bearer = |b: u16| {
            let (first, last) = profile.server_ports(b);
            let dedicated = b + 1 < self.bearers;
            let ports = |from: u16, to: u16| format!("permit out 17 from any {from}-{to} to assigned");
            let mut filters = Vec::new();
            if dedicated {
                // Two services on the bearer: half of the flows' ports each.
                let half = first + (self.flows / 2).max(1);
                filters.push(ports(first, half - 1));
                filters.push(ports(half, last));
            }
            let rate = |text: &str| self.functions.then(|| text.to_owned());
            Bearer {
                qfi: (!self.lte).then(|| self.qfi(b)),
                filters,
                mbr_up: rate(BEARER_RATE),
                mbr_down: rate(BEARER_RATE),
                no_usage: !self.functions,
                ..Bearer::default()
            }
        };
        let mut bearers: Vec<Bearer> = (0..self.bearers).map(bearer).collect();
        if self.services
            && let Some(rest) = bearers.last().cloned()
        {
            // The first half of its flows is a service of its own, found by its ports.
            let (first, _) = profile.server_ports(self.bearers - 1);
            let last = first + (self.flows / 2).max(1) - 1;
            let filters = vec![format!("permit out 17 from any {first}-{last} to assigned")];
            bearers.insert(bearers.len() - 1, Bearer { filters, ..rest });
        }
        let ambr = (self.functions && self.session_rate).then(|| SESSION_RATE.to_owned());
        let n3 = format!("{}/{}", self.n3(), if self.ipv6_transport { 64 } else { 16 });
        let mtu = crate::bed::mtu(&profile);
        Config {
            gateway: "upf".into(),
            workers: Workers { count: workers, ..Workers::default() },
            frames: Frames::default(),
            port: vec![
                port("n3", uris[0], Role::Access, (vec![n3], mtu)),
                port("n6", uris[1], Role::Core, (vec!["172.17.0.1/16".into(), "fd00:6::1/64".into()], mtu)),
            ],
            route: vec![
                route("0.0.0.0/0", Ipv4Addr::new(172, 17, 0, 2).into()),
                route("::/0", Ipv6Addr::new(0xfd00, 6, 0, 0, 0, 0, 0, 2).into()),
            ],
            neighbour: Vec::new(),
            gtpu: Default::default(),
            fast_path: Default::default(),
            buffer: Default::default(),
            control_socket: "/run/weir-bench.sock".into(),
            simulate: Some(Simulate {
                ues: self.ues,
                ue_first: Some(UE_FIRST),
                ue6_first: (self.ipv6_share > 0.0).then_some(UE6_FIRST),
                teid_first: TEID_FIRST,
                teid_per_bearer: self.lte,
                gnb_teid_first: GNB_TEID_FIRST,
                gnbs: self.gnbs,
                gnb_first: self.gnb_first(),
                ambr_up: ambr.clone(),
                ambr_down: ambr,
                bearer: bearers,
                ..Simulate::default()
            }),
            n4: None,
            nat: None,
            acl: self.acl.then(access_list).into_iter().collect(),
            reassembly: None,
            metrics: None,
            api: None,
            health: None,
            certificate: None,
            log: Default::default(),
            process: Default::default(),
        }
    }
}

/// Rates that are enforced and never reached, also when all packets of a core in memory are one subscriber's.
const BEARER_RATE: &str = "100 Gbit/s";
const SESSION_RATE: &str = "200 Gbit/s";

const UE_FIRST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const UE6_FIRST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x1000, 0, 0, 0, 0, 1);
const SERVER_FIRST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const SERVER6_FIRST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x8000, 0, 0, 0, 0, 1);
const TEID_FIRST: u32 = 0x0100_0000;
const GNB_TEID_FIRST: u32 = 0x0200_0000;

fn port(name: &str, uri: &str, role: Role, (addresses, mtu): (Vec<String>, u16)) -> Port {
    Port {
        name: name.into(),
        uri: uri.into(),
        on: None,
        role,
        instance: None,
        claim_interface: false,
        addresses,
        vlan: None,
        pcp: None,
        mtu: Some(mtu),
        verify_outer_checksum: false,
        mss: None,
        fast_path: FastPathMode::Off,
        host_interface: None,
        host_packets_per_second: 0,
    }
}

/// What an operator keeps off a data network; the workloads' packets pass.
pub(crate) const ACCESS_RULES: [&str; 7] = [
    "deny in tcp from any to any port 25",
    "deny in udp from any to any port 53",
    "deny in udp from any to any port 137-139",
    "deny in tcp from any to any port 445",
    "deny out tcp from any to any port 23",
    "deny in ip from any to 192.0.2.0/24",
    "deny out ip from 203.0.113.0/24 to any",
];

fn access_list() -> Acl {
    Acl { instance: None, rules: ACCESS_RULES.map(str::to_owned).into(), default: Otherwise::Permit }
}

fn route(to: &str, via: IpAddr) -> Route {
    Route { to: to.into(), next_hop: Some(via), port: None, instance: None }
}
