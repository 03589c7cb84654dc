//! The sections that the configurations of all gateways have, declared once.

#[doc(hidden)]
pub use dataplane::config::Links;
use dataplane::config::{ConfigError, Link, wrong};

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
        head.log.check(G::LOG_TARGETS)
    }
}

/// A gateway's `[[port]]` section.
pub trait PortSection {
    /// What the shell opens.
    fn entry(&self) -> PortEntry<'_>;

    /// Its link, as neighbours and routes see it.
    fn link(&self) -> Link<'_>;
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
