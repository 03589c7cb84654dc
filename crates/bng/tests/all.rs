//! The broadband gateway's tests above those of its modules: one program, for what they share is much.

/// A test for each golden case; see [`golden`].
macro_rules! for_each_case {
    ($($name:ident)+) => { testkit::judge_each! { crate::device::Device, crate::golden_cases::root() => $($name)+ } };
}

#[path = "../../../fuzz/src/bng_pipeline.rs"]
mod bng_pipeline;
mod device;
mod golden_cases;

mod config;
mod fast_path;
mod garbage;
mod golden;
mod moves;
mod relay;
mod reload;
mod sessions;
mod shaping;
mod workers;
