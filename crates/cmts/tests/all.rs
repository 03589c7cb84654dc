//! The cable gateway's tests above those of its modules: one program, for what they share is much.

/// A test for each golden case; see [`golden`].
macro_rules! for_each_case {
    ($($name:ident)+) => { testkit::judge_each! { crate::device::Device, crate::golden_cases::root() => $($name)+ } };
}

#[path = "../../../fuzz/src/cmts_pipeline.rs"]
mod cmts_pipeline;
mod device;
mod golden_cases;
mod plant;

mod config;
mod control;
mod directions;
mod garbage;
mod golden;
mod judge;
mod queues;
mod reload;
mod service;
mod standby;
mod trace;
