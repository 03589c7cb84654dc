//! Benchmarks: what a gateway does to every packet, measured.
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//!
//! use bench::profiles::Settings;
//! use bench::upf::UpfUnderTest;
//! use bench::{Options, run, show};
//!
//! // 100,000 subscribers in memory, for five seconds.
//! let under = UpfUnderTest { settings: Settings::upf_embb() };
//! let report = run(&under, &Options { seconds: 5.0, ..Options::default() }, &AtomicBool::new(false))?;
//! println!("{}", show::report(&report));
//! assert_eq!(report.frames_lost, 0);
//! # Ok::<(), bench::BenchError>(())
//! ```
//!
//! | file | content |
//! |---|---|
//! | `experiment` | published experiments as files, what they vary, and their results |
//! | `profiles` | workloads: configuration and traffic from the same numbers |
//! | `under_test` | the interface of a gateway under test: ports, subscribers, far sides |
//! | `upf`, `bng` | what implements it, one workload or more each |
//! | `routed` | the same for a routed gateway of another crate, which brings frames: `examples/toy` does |
//! | `ends` | far ends in memory that make and check frames themselves: rate, counts, result |
//! | `window` | short alternating windows, and their medians |
//! | `score`, `crew`, `thread` | the parts of a window, and their threads |
//! | `memory` | a gateway without I/O |
//! | `bursts` | the same by packets in a burst, headers in no cache |
//! | `lab`, `bed`, `socket` | a gateway on interfaces: namespaces and links, placement, load |
//! | `far_end` | the CPU that receives what the gateway sends |
//! | `blast` | more load than can be forwarded, sent by the kernel |
//! | `kernel_load` | load at a rate, sent by the kernel, counted and timed at the far ends |
//! | `work_clock` | a clock that only a gateway's own work moves, in memory |
//! | `bare` | the reference: the same ports and nothing between |
//! | `sample`, `cost` | from a worker's statistics to the cost of a packet |
//! | `report`, `show`, `text`, `host` | the result: keys, tables, the machine |
//! | `noise`, `neighbour` | what disturbed a measurement; a neighbour that disturbs it on purpose |
//! | `options`, `run`, `modes`, `scale` | a benchmark from options to report; side by side; scale-out |
//! | `search` | searches over trials, pure: MLRsearch, RFC 2544, soak, determinism |
//! | `searching` | the same on gateways: `weir bench --search` |
//! | `probe` | what a machine carries, as a certificate: `weir probe` |
//! | `agent` | the other host of a measurement: `weir agent` |
//! | `suite` | all targets with verdicts |
//! | `real` | a gateway process on frames that another CPU wrote, beside a bare forwarder and eUPF |
//! | `io` | a DPDK port beside dpdk-testpmd |
//! | `cmts` | the cable gateway under the published reference workload |
//! | `demo`, `live` | a user plane at work, to watch |
//!
//! # How load is made and counted on interfaces
//! Capacity is measured under overload: the kernel sends prepared packets of the workload into the gateway's interfaces
//! from one CPU (4 to 5 million a second), the gateway has another CPU, and the far ends count what arrives. Nothing
//! reads at the far ends: on virtual links their receive work is done by the sender's CPU, here the gateway's. With
//! [`ReceiveWork::Load`] that work is moved off the gateway's CPU as well. Losses and latencies come from a second trial
//! below capacity, in which every packet is signed and checked.
//!
//! Gateway and bare forwarder have links of their own and take turns every quarter of a second; ratios are medians over
//! turns. Threads that carry packets run at real-time priority while a window lasts, if they may.

#![forbid(unsafe_code)]

pub mod agent;
pub mod bare;
pub mod bed;
pub mod blast;
pub mod bng;
pub mod bursts;
pub mod cmts;
pub mod compare;
pub mod core_clock;
pub mod cost;
pub mod crew;
pub mod demo;
pub mod ends;
mod error;
pub mod experiment;
pub mod far_end;
pub mod host;
pub mod io;
pub mod kernel_load;
pub mod lab;
pub mod live;
pub mod machine;
pub mod memory;
pub mod modes;
pub mod neighbour;
pub mod noise;
pub mod options;
pub mod pfcp_sessions;
pub mod power;
pub mod probe;
pub mod profiles;
pub mod real;
pub mod report;
pub mod routed;
pub mod run;
pub mod sample;
pub mod scale;
pub mod score;
pub mod search;
pub mod searching;
pub mod show;
pub mod socket;
pub mod suite;
pub mod text;
pub mod thread;
pub mod under_test;
pub mod upf;
pub mod window;
pub mod work_clock;

pub use error::BenchError;
pub use options::{Options, PortKind, ReceiveWork};
pub use run::{run, run_over};
