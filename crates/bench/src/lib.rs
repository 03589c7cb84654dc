//! Trials, searches and reports: what a gateway does to every packet, measured.
//!
//! | file | idea |
//! |---|---|
//! | `profiles` | the workloads: configuration and traffic from the same numbers |
//! | `under_test`, `upf` | what a trial asks of a gateway, and the user plane's answer |
//! | `window` | short windows in turns, medians of them |
//! | `score`, `crew`, `thread` | a window's parts, and the threads that play them |
//! | `memory` | a gateway without any I/O |
//! | `sample`, `cost` | from a worker's statistics to what a packet costs |
//! | `report`, `show`, `text`, `host` | the result: keys, tables, the machine |
//! | `options`, `run` | a benchmark from what is asked to its report |

#![forbid(unsafe_code)]

pub mod after_send;
pub mod bare;
pub mod bed;
pub mod blast;
pub mod cost;
pub mod crew;
pub mod demo;
mod error;
pub mod host;
pub mod lab;
pub mod live;
pub mod memory;
pub mod modes;
pub mod options;
pub mod profiles;
pub mod report;
pub mod run;
pub mod sample;
pub mod scale;
pub mod score;
pub mod show;
pub mod socket;
pub mod suite;
pub mod text;
pub mod thread;
pub mod under_test;
pub mod upf;
pub mod window;

pub use error::BenchError;
pub use options::{Options, PortKind};
pub use run::{run, run_all};
