//! The shell of every gateway: the process around the packet path.
//!
//! A gateway implements [`Gateway`](shell::Gateway) (how it starts and stops) and [`Product`](shell::Product) (its
//! control side while it runs). Its tables ([`show::Table`]), requests ([`socket::Ask`]) and metrics
//! ([`metrics::Page`]) are its own. A binary lists its gateways in a [`Registry`], which has all commands: `const
//! GATEWAYS: Registry = Registry(&[GatewayEntry::of::<MyGateway>()]);`.
//!
//! Configurations are parsed with errors that point at file, line and key:
//!
//! ```
//! use gateway::load::{LoadError, Text};
//!
//! #[derive(serde::Deserialize, Debug)]
//! #[serde(deny_unknown_fields)]
//! struct Config {
//!     #[allow(dead_code)]
//!     mtu: u16,
//! }
//! let text = Text { name: "gateway.toml".into(), text: "mut = 1500".into() };
//! let Err(LoadError::Wrong(wrong)) = text.parse::<Config>() else { panic!("`mut` is no key") };
//! let drawn = wrong.drawn(false, 80);
//! assert!(drawn.contains("gateway.toml") && drawn.contains("mtu"), "{drawn}");
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`shell`] | `weir run`: memory, ports, workers, the control thread |
//! | [`routed`] | a gateway whose control is ports, routes and neighbours: stages and a configuration make it |
//! | [`control`] | parts of every gateway's control |
//! | [`load`] | parsing of configurations |
//! | [`Registry`] | the gateways of a binary, and their common commands |
//! | [`connected`] | sessions, devices or subscribers: pages, filters, the entries with the most traffic |
//! | [`socket`], [`show`], [`trace`] | the control socket, tables from its answers, one subscriber's packets |
//! | [`top`] | the same full screen: rates with history, costs, drops, ports, workers, sessions |
//! | [`schema`], [`outputs`] | JSON schemas of configurations, and of what commands print |
//! | [`api`] | the read-only HTTP API, its OpenAPI description, its web page |
//! | [`metrics`], [`watch`] | Prometheus; probes, and events about stalls, links and pools |
//! | [`log`] | the event log: stderr, and the last thousand events |
//! | [`privilege`] | the helper that opens ports, and dropping every other privilege |
//! | [`fast_path`] | known sessions in the kernel: the program and its maps, sessions on their way there and back |
//! | [`nat`] | who has which public ports: the table, and the log |
//! | [`records`] | charging records of a ledger that the process has open |
//! | [`pulse`] | whether a process that does not answer is alive |
//! | [`cli`](mod@cli), [`fail`], [`tables`], [`signals`] | command lines, exit codes, text tables, signals |

#![forbid(unsafe_code)]

pub mod api;
mod background;
pub mod cli;
pub mod connected;
pub mod control;
pub mod counters;
pub mod drain;
pub mod fail;
pub mod fast_path;
pub mod headroom;
pub mod host_routing;
pub mod json;
pub mod load;
pub mod log;
pub mod metrics;
pub mod moves;
pub mod nat;
pub mod outputs;
pub mod privilege;
pub mod pulse;
pub mod records;
mod registry;
pub mod routed;
pub mod schema;
pub mod shell;
pub mod show;
pub mod signals;
pub mod snapshot;
pub mod socket;
pub mod tables;
pub mod top;
pub mod trace;
pub mod watch;

pub use registry::{GatewayEntry, Registry, cli};
