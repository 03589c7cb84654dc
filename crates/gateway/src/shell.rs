//! The shell of every gateway: the process around its workers, once for all of them.
//!
//! A gateway brings a [`Gateway`] (how it is started from its configuration) and a [`Product`] (its control side while it
//! runs); the shell does the rest, and [`run`] is the order in which.
//!
//! | file | idea |
//! |---|---|
//! | `product.rs` | what a gateway brings |
//! | `run.rs` | `weir run`, from the configuration to the last table |
//! | `process.rs` | memory, ports, workers as threads, control's turns |
//! | `observe.rs` | the reading ends: counters, ports, traces, without disturbing workers |
//! | `ports.rs`, `port_stats.rs`, `addresses.rs` | opening ports, looking at them, their hardware addresses |
//! | `flows.rs` | whose a port's packets are, for devices that steer |
//! | `followed.rs` | whose packets are traced, for whom |
//! | `hand_over/` | a process goes on for another without losing a packet |
//! | `reload.rs` | `weir reload` and SIGHUP: the configuration read again |
//! | `sections.rs` | the sections that all configurations have |
//! | `rest.rs`, `pin.rs`, `numa.rs` | how the control thread sleeps; CPUs and their memory nodes |

mod addresses;
pub mod flows;
mod followed;
pub mod hand_over;
mod numa;
mod observe;
pub mod pin;
pub mod port_stats;
pub mod ports;
mod process;
mod product;
pub mod reload;
pub mod rest;
mod run;
pub mod sections;

pub use engine::WorkerInit;
pub use hand_over::HandOver;
pub use observe::{Shell, wall_clock};
pub use process::{Ended, Opened, Process, StartError, WorkerInits};
pub use product::{Gateway, Head, Loaded, Product, Reach};
pub use run::run;
pub use sections::{PortKeys, PortSection, Sections};
