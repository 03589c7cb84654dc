//! The engine every gateway runs on: bursts go through lists of stages, each packet leaves by a port or under a name.
//!
//! Reading order: [`Burst`] is what flows, [`Stage`] what acts, [`pipeline!`] the list; [`Drop`] and [`Punt`] name
//! every other way out; [`Worker`] turns the crank; [`Stats`] and [`Tracer`] let one look on.

#![forbid(unsafe_code)]

mod burst;
mod clock;
mod drops;
mod gateway;
mod hand_off;
mod idle;
mod pipeline;
mod stats;
mod steer;
mod trace;
mod worker;

pub use burst::{AGAIN, Burst, Live};
pub use clock::{Clock, Look, NoClock, Time, Tsc, WallClock};
pub use drops::{Drop, Punt};
pub use gateway::{Gateway, PortId};
pub use hand_off::HandOff;
pub use idle::Idle;
#[doc(hidden)]
pub use pipeline::Walk;
pub use pipeline::{At, Ctx, Env, Kind, Pipeline, Source, Stage, StageId, StageSpan};
pub use stats::{Io, Layout, StageInfo, StageRow, Stats, StatsView};
pub use steer::{Overlap, Owner, Steer, SteerKey};
pub use trace::{TraceFilter, TraceRecord, Tracer, TracerHandle};
pub use worker::{Worker, WorkerConfig};
