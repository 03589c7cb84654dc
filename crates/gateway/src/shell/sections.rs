//! The sections that the configurations of all gateways have, declared once.

use dataplane::config::{ConfigError, wrong};
#[doc(hidden)]
pub use dataplane::config::{Link, Links, MOST_HOST_PACKETS, VlanStack};

use port::Offloads;

use super::ports::PortEntry;
use super::product::{Gateway, Head};

/// A configuration with the sections of all gateways: what [`configuration!`](crate::configuration) declares.
pub trait Sections {
    /// The gateway it is for, as it is written.
    fn gateway(&self) -> &str;

    /// The sections of all gateways.
    fn head(&self) -> Head<'_>;

    /// The links around the gateway, among those VRFs; `instance` is that of a route that names none.
    fn links_among<'a>(&'a self, instances: Vec<String>, instance: &'a str) -> Links<'a>;

    /// Checks those, as far as types do not, but for links.
    ///
    /// # Errors
    /// The first thing that is invalid, by key.
    fn check_sections<G: Gateway>(&self) -> Result<(), ConfigError> {
        let name = G::NAME;
        if self.gateway() != name {
            let what = format!("no gateway is called \"{}\"", self.gateway());
            return Err(wrong(&[&"gateway"], what, format!("use \"{name}\"")));
        }
        let head = self.head();
        head.workers.check(head.frames)?;
        check_devices(&head.ports, G::SHARES_DEVICES)?;
        head.log.check(G::LOG_TARGETS)
    }
}

/// Checks that each port has a device: its own, or that of another one.
fn check_devices(ports: &[PortEntry<'_>], are_shared: Result<(), &'static str>) -> Result<(), ConfigError> {
    for (n, port) in ports.iter().enumerate() {
        let at = |key: &str, what: String, help: String| Err(wrong(&[&"port", &n, &key], what, help));
        let name = port.name;
        let Some(on) = port.on else {
            if port.uri.is_empty() {
                let help = "write uri = \"packet:eth0\", or on = \"…\", the name of the port whose device it shares";
                return Err(wrong(&[&"port", &n], format!("`uri` is missing: port \"{name}\" has no device"), help));
            }
            continue;
        };
        if let Err(instead) = are_shared {
            return at("on", format!("ports of this gateway share no device: \"{name}\""), instead.to_owned());
        }
        if !port.uri.is_empty() {
            let what = format!("port \"{name}\" is on the device of port \"{on}\", and has one of its own");
            return at("uri", what, "leave uri or on out".to_owned());
        }
        let devices = ports.iter().filter(|other| other.on.is_none() && other.name != name).map(|other| other.name);
        let help = match devices.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "uri = \"packet:eth0\"".to_owned(),
            names => format!("a port with a uri: {names}"),
        };
        if on == name {
            return at("on", format!("port \"{name}\" is on itself"), help);
        }
        match ports.iter().find(|other| other.name == on) {
            None => return at("on", format!("no port is called \"{on}\""), help),
            Some(PortEntry { on: Some(device), .. }) => {
                let what = format!("port \"{on}\" has no device of its own: it is on port \"{device}\"");
                return at("on", what, help);
            }
            Some(device) if device.uri.starts_with("tun:") => {
                let what = format!("port \"{on}\" has no link layer, and so no VLANs to tell ports apart by");
                return at("on", what, help);
            }
            Some(device) if device.uri.parse::<port::Uri>().is_ok_and(|uri| uri.get("vlan") == Some("off")) => {
                let what = format!("port \"{on}\" receives frames without their VLAN tags (vlan=off)");
                return at("on", what, format!("leave vlan=off out of the uri of port \"{on}\""));
            }
            Some(_) => {}
        }
        if port.claim_interface {
            let what = format!("port \"{name}\" has no device of its own");
            return at("claim_interface", what, format!("say it at port \"{on}\""));
        }
    }
    Ok(())
}

/// The keys of a `[[port]]` section that ports of every gateway have: what [`port_section!`](crate::port_section) declares.
pub trait PortKeys {
    /// What the shell opens, without `role` and `offloads`.
    fn keys(&self) -> PortEntry<'_>;

    /// Its link, without `instance` and `point_to_point`.
    fn link_keys(&self) -> Link<'_>;
}

/// A gateway's `[[port]]` section, declared with [`port_section!`](crate::port_section).
pub trait PortSection: PortKeys {
    /// The word for its side.
    fn role(&self) -> &'static str;

    /// The network instance it is in.
    fn instance(&self) -> &str;

    /// What is left to the device, where that can do it.
    fn offloads(&self) -> Offloads {
        Offloads::default()
    }

    /// Of ports with the same VLAN on one device, whether it has what is to no address of theirs; only one of two can.
    fn has_rest(&self) -> bool {
        false
    }

    /// Whether nothing on it has a hardware address that would be asked for.
    fn point_to_point(&self) -> bool {
        self.keys().uri.starts_with("tun:")
    }

    /// What the shell opens.
    fn entry(&self) -> PortEntry<'_> {
        PortEntry { role: self.role(), offloads: self.offloads(), ..self.keys() }
    }

    /// Its link, as neighbours and routes see it.
    fn link(&self) -> Link<'_> {
        let (instance, point_to_point, has_rest) = (self.instance(), self.point_to_point(), self.has_rest());
        Link { instance, point_to_point, has_rest, ..self.link_keys() }
    }
}

/// Declares a gateway's `[[port]]` section: the keys that ports of every gateway have, and its own, which stand behind `name`
/// and `uri`.
#[macro_export]
macro_rules! port_section {
    ($(#[$about:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            /// What the rest of the configuration calls it.
            pub name: String,
            /// What it is: `packet:eth0`, `xdp:eth0`, …. `{worker}` stands for the worker's number.
            #[serde(default, skip_serializing_if = "String::is_empty")]
            pub uri: String,
            /// Instead of `uri`: the port whose device it shares, where this gateway lets ports share one. They are told apart by their
            /// `vlan`; a user plane's two sides also by their addresses.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub on: Option<String>,
            $($own)*
            /// Take the interface though the host's default route leads by it or the host has addresses on it: what the host
            /// sends and receives there is cut off.
            #[serde(default)]
            pub claim_interface: bool,
            /// Our addresses on it, with prefix length: `10.0.3.1/24`.
            #[serde(default)]
            pub addresses: Vec<String>,
            /// VLAN tags of its frames: one, `100`, or two, the outermost first, `["0x88a8:100", 200]`. Left out: none.
            #[serde(default)]
            pub vlan: Option<$crate::shell::sections::VlanStack>,
            /// Priority code point of the tags of frames sent, by class selector (DSCP / 8); left out: 0.
            #[serde(default)]
            pub pcp: Option<[u8; 8]>,
            /// Largest IP packet in bytes; default: the interface's.
            #[serde(default)]
            pub mtu: Option<u16>,
            /// An interface of the host's with the port's addresses, made if there is none: `core0`, or `namespace/core0`. Routing
            /// daemons (FRR) speak over it to the routers of the port's link: BGP, OSPF, IS-IS, BFD. Their routes by it are the
            /// gateway's, and prefixes that the gateway serves are routes of the kernel's for them to redistribute.
            #[serde(default)]
            pub host_interface: Option<String>,
            /// Packets a second to the port's addresses that nothing of the gateway's listens for, such as SSH or SNMP, which the
            /// host gets by `host_interface`; more are dropped as `host_limited`. 0: none of them.
            #[serde(default)]
            #[schemars(range(max = $crate::shell::sections::MOST_HOST_PACKETS))]
            pub host_packets_per_second: u32,
        }

        impl $crate::shell::PortKeys for $name {
            fn keys(&self) -> $crate::shell::ports::PortEntry<'_> {
                $crate::shell::ports::PortEntry {
                    name: &self.name,
                    uri: &self.uri,
                    on: self.on.as_deref(),
                    role: "",
                    addresses: &self.addresses,
                    claim_interface: self.claim_interface,
                    host_interface: self.host_interface.as_deref(),
                    host_packets_per_second: self.host_packets_per_second,
                    mtu: self.mtu,
                    offloads: Default::default(),
                }
            }

            fn link_keys(&self) -> $crate::shell::sections::Link<'_> {
                $crate::shell::sections::Link {
                    name: &self.name,
                    instance: "",
                    addresses: &self.addresses,
                    point_to_point: false,
                    on: self.on.as_deref(),
                    has_rest: false,
                    vlan: self.vlan.as_ref(),
                    pcp: self.pcp,
                    mtu: self.mtu,
                    host_interface: self.host_interface.as_deref(),
                    host_packets_per_second: self.host_packets_per_second,
                }
            }
        }
    };
}

/// Where `weir show` finds a gateway that names no other place.
#[doc(hidden)]
pub fn default_socket() -> std::path::PathBuf {
    "/run/weir.sock".into()
}

/// Declares a gateway's configuration: the sections that all gateways have, and its own. `Port` is its `[[port]]` section, a
/// [`PortSection`](crate::shell::PortSection). All of them are fields of one struct, so that an unknown key is found
/// among all keys and an error points at its line, neither of which a flattened struct gives.
///
/// | section | type |
/// |---|---|
/// | `gateway` | the gateway's name |
/// | `workers`, `frames`, `process`, `log` | as in [`dataplane::config`] |
/// | `metrics`, `api`, `health`, `certificate` | optional |
/// | `port`, `route`, `neighbour` | lists; `routes` adds a clause to what the schema tells of the second |
/// | `control_socket` | a path |
///
/// ```
/// use gateway::routed::Port;
/// use gateway::shell::Sections;
///
/// gateway::configuration! {
///     /// A router's configuration.
///     pub struct Config of Port {
///         /// The largest TCP segment in bytes.
///         #[serde(default)]
///         pub mss: Option<u16>,
///     }
/// }
/// let config: Config = toml::from_str("gateway = \"router\"\nmss = 1400\nworkers.count = 2").unwrap();
/// assert_eq!((config.mss, config.head().workers.count), (Some(1400), 2));
/// assert!(toml::from_str::<Config>("gateway = \"router\"\nmms = 1400").is_err());
/// ```
#[macro_export]
macro_rules! configuration {
    (
        $(#[$about:meta])*
        $vis:vis struct $config:ident of $port:ident $(, routes $routes:literal)? {
            $($own:tt)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        $vis struct $config {
            /// The gateway's name.
            pub gateway: String,
            /// Threads that carry packets.
            #[serde(default)]
            pub workers: $crate::shell::sections::Workers,
            /// Packet memory.
            #[serde(default)]
            pub frames: $crate::shell::sections::Frames,
            /// Interfaces.
            #[serde(default)]
            pub port: Vec<$port>,
            #[doc = concat!("Routes beside the connected ones", $("; ", $routes,)? ".")]
            #[serde(default)]
            pub route: Vec<$crate::shell::sections::Route>,
            /// Neighbours that need no resolving.
            #[serde(default)]
            pub neighbour: Vec<$crate::shell::sections::Neighbour>,
            $($own)*
            /// Where `weir show` and `weir trace` find the running process.
            #[serde(default = "gateway::shell::sections::default_socket")]
            pub control_socket: ::std::path::PathBuf,
            /// What the running process keeps of its privileges.
            #[serde(default)]
            pub process: $crate::shell::sections::ProcessSection,
            /// Counters for a monitoring system.
            #[serde(default)]
            pub metrics: Option<$crate::shell::sections::Metrics>,
            /// Tables by HTTP.
            #[serde(default)]
            pub api: Option<$crate::shell::sections::Api>,
            /// Probes of an orchestrator.
            #[serde(default)]
            pub health: Option<$crate::shell::sections::Health>,
            /// The machine's capacity certificate.
            #[serde(default)]
            pub certificate: Option<$crate::shell::sections::CertificateSection>,
            /// The event log.
            #[serde(default)]
            pub log: $crate::shell::sections::Log,
        }

        impl $crate::shell::Sections for $config {
            fn gateway(&self) -> &str {
                &self.gateway
            }

            fn head(&self) -> $crate::shell::Head<'_> {
                $crate::shell::Head {
                    ports: self.port.iter().map($crate::shell::PortSection::entry).collect(),
                    workers: &self.workers,
                    frames: &self.frames,
                    process: &self.process,
                    metrics: self.metrics.as_ref(),
                    api: self.api.as_ref(),
                    health: self.health.as_ref(),
                    certificate: self.certificate.as_ref(),
                    log: &self.log,
                    control_socket: &self.control_socket,
                }
            }

            fn links_among<'a>(&'a self, instances: Vec<String>, instance: &'a str) -> $crate::shell::sections::Links<'a> {
                $crate::shell::sections::Links {
                    ports: self.port.iter().map($crate::shell::PortSection::link).collect(),
                    routes: &self.route,
                    neighbours: &self.neighbour,
                    instances,
                    instance,
                }
            }
        }
    };
}

#[doc(hidden)]
pub use dataplane::config::{
    Api, CertificateSection, Frames, Health, Log, Metrics, Neighbour, ProcessSection, Route, Workers,
};
