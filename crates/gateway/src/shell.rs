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
//! | `ends.rs` | the reading ends: counters, ports, traces, without disturbing workers |
//! | `doors.rs`, `watched.rs`, `addresses.rs` | opening ports, looking at them, their hardware addresses |
//! | `followed.rs` | whose packets are traced, for whom |
//! | `rest.rs`, `pin.rs` | how the control thread sleeps; CPUs |

mod addresses;
pub mod doors;
mod ends;
mod followed;
pub mod pin;
mod process;
mod product;
pub mod rest;
mod run;
pub mod watched;

pub use ends::{Shell, wall_clock};
pub use process::{Ended, Opened, Process, Seat, Seats, StartError};
pub use product::{Gateway, Head, Loaded, Product, Reach};
pub use run::run;
