//! The shell of every gateway: what runs, watches, shows and stops a process of workers.
//!
//! A gateway brings a [`Gateway`](shell::Gateway), which says how it is started from its configuration, and a
//! [`Product`](shell::Product), its control side while it runs. Its tables ([`show::Table`]), questions
//! ([`socket::Ask`]) and metrics ([`metrics::Page`]) are its own; everything else is here, once for all gateways.
//!
//! | module | idea |
//! |---|---|
//! | [`shell`] | `weir run`: memory, ports, workers, the control thread |
//! | [`load`] | a configuration, or an error that points at file, line and key |
//! | [`Registry`] | the gateways of a binary, and the commands that all have |
//! | [`socket`], [`show`], [`trace`] | the control socket, tables over what it answers, one subscriber's packets |
//! | [`metrics`], [`watch`] | Prometheus; probes, and what is watched for events |
//! | [`log`] | the event log: stderr, and the last thousand events |
//! | [`privilege`] | the helper that opens ports, and giving up every other privilege |
//! | [`records`] | charging records of a ledger that the process has open |
//! | [`pulse`] | whether a process that does not answer is alive |
//! | [`cli`], [`fail`], [`tables`], [`signals`] | command lines, exit codes, text tables, signals |

#![forbid(unsafe_code)]

pub mod cli;
pub mod drain;
pub mod fail;
pub mod load;
pub mod log;
pub mod metrics;
pub mod privilege;
pub mod pulse;
pub mod records;
mod registry;
pub mod shell;
pub mod show;
pub mod signals;
pub mod snapshot;
pub mod socket;
pub mod tables;
pub mod trace;
pub mod watch;

pub use registry::{GatewayEntry, Registry};
