//! Trials, searches and reports: what a gateway does to every packet, measured.
//!
//! | file | idea |
//! |---|---|
//! | `profiles` | the workloads: configuration and traffic from the same numbers |
//! | `under_test`, `upf` | what a trial asks of a gateway, and the user plane's answer |
//! | `window` | short windows in turns, medians of them |
//! | `score`, `crew`, `thread` | a window's parts, and the threads that play them |
//! | `memory` | a gateway without any I/O |
//! | `bursts` | the same with packets a few at a time, from no cache |
//! | `lab`, `bed`, `socket` | a gateway on interfaces: namespaces and links, who sits where, how it is loaded |
//! | `far_end` | whose CPU takes in what the gateway sends |
//! | `blast` | more load than anything forwards, out of the kernel |
//! | `kernel_load` | as much as is wanted out of the kernel, counted and timed at the far ends |
//! | `bare` | what a gateway is measured against: the same ports and nothing between |
//! | `sample`, `cost` | from a worker's statistics to what a packet costs |
//! | `report`, `show`, `text`, `host` | the result: keys, tables, the machine |
//! | `options`, `run`, `modes`, `scale` | a benchmark from what is asked to its report; side by side; more and more |
//! | `suite` | what weir sets out to reach, and whether it does |
//! | `real` | a gateway process on frames that another CPU wrote, beside a bare forwarder and eUPF |
//! | `cmts` | the cable gateway under the published reference workload |
//! | `demo`, `live` | a user plane at work, to watch |
//!
//! # How load is made and counted on interfaces
//! Capacity is measured under overload: the kernel itself sends prepared packets of the workload into the gateway's
//! interfaces from one CPU (4 to 5 million a second), the gateway has another, and what arrives at the far ends is
//! counted there. Nothing reads at the far ends then: on virtual links their receive work is done by the sender's CPU,
//! here the gateway's, and a reader would be charged to it. With [`ReceiveWork::Load`] even that is taken off the
//! gateway's CPU. Losses and latencies come from a second trial below capacity, in which the generator signs every packet
//! and the checker sees every one.
//!
//! Gateway and bare forwarder have links of their own and take turns every quarter of a second; ratios are medians over
//! turns. Threads that carry packets run at real-time priority while a window lasts, if they may.

#![forbid(unsafe_code)]

pub mod bare;
pub mod bed;
pub mod blast;
pub mod bursts;
pub mod cmts;
pub mod core_clock;
pub mod cost;
pub mod crew;
pub mod demo;
mod error;
pub mod far_end;
pub mod host;
pub mod kernel_load;
pub mod lab;
pub mod live;
pub mod machine;
pub mod memory;
pub mod modes;
pub mod options;
pub mod pfcp_sessions;
pub mod profiles;
pub mod real;
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
pub use options::{Options, PortKind, ReceiveWork};
pub use run::{run, run_all, run_over};
