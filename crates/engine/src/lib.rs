//! The packet engine of every gateway: bursts run through pipelines of stages.
//!
//! ```
//! use engine::{Burst, Ctx, Drop, Kind, Layout, Pipeline, Reason, Stage, drops, pipeline};
//!
//! /// A gateway's per-packet data and the state of its worker.
//! struct Toy;
//! impl Kind for Toy {
//!     type Lane = ();
//!     type State = u64;
//!     type Config = ();
//!     const DROPS: &'static [&'static [Reason<Drop>]] = &[drops::ALL];
//!     fn describe(burst: &Burst<Self>, i: usize, _: &Self::State) -> String {
//!         format!("{} bytes", burst.frame(i).len())
//!     }
//! }
//!
//! /// Drops packets shorter than an Ethernet header.
//! #[derive(Default)]
//! struct CheckLength;
//! impl Stage<Toy> for CheckLength {
//!     const NAME: &'static str = "check_length";
//!     fn run(&mut self, burst: &mut Burst<Toy>, cx: &mut Ctx<'_, Toy>) {
//!         let at = cx.at();
//!         for i in burst.live() {
//!             *cx.state += 1;
//!             if burst.frame(i).len() < 14 {
//!                 burst.drop(i, drops::MALFORMED, at); // counted by stage and reason
//!             }
//!         }
//!     }
//! }
//!
//! pipeline! {
//!     /// From port to port.
//!     struct Forward("forward") for Toy { check: CheckLength }
//! }
//! let forward = Forward::new(&mut Layout::default(), &());
//! assert_eq!(Forward::STAGES, ["check_length"]);
//! # let _ = forward;
//! ```
//!
//! Each crate registers its own reasons for drops and punts by [`reasons!`].
//! A packet leaves by a port, by a [`Drop`] reason, or as a [`Punt`] to the slow path. Reading order: [`Burst`],
//! [`Stage`], [`pipeline!`], [`Drop`] and [`Punt`], [`Worker`], [`Stats`], [`Tracer`].

#![forbid(unsafe_code)]

mod burst;
mod clock;
pub mod drops;
mod gateway;
mod hand_off;
mod idle;
mod moves;
mod pipeline;
mod reason;
mod stats;
mod steer;
mod trace;
mod worker;

pub use burst::{AGAIN, Burst, Live};
pub use clock::{Clock, Look, NoClock, Time, Tsc, WallClock};
pub use gateway::{Gateway, PortId, WorkerInit};
pub use hand_off::{HandOff, Outside};
pub use idle::Idle;
pub use moves::{ARRIVING, Arrival, Departure, Moves, Room};
#[doc(hidden)]
pub use pipeline::Walk;
pub use pipeline::{At, Ctx, Env, Kind, Pipeline, Receiving, Source, Stage, StageId, StageSpan};
pub use reason::{Drop, Punt, Reason};
pub use stats::{Io, Layout, StageInfo, StageRow, Stats, StatsView};
pub use steer::{Overlap, Owner, Steer, SteerKey};
pub use trace::{TraceFilter, TraceRecord, Tracer, TracerHandle};
pub use worker::{Worker, WorkerConfig};
