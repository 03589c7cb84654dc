//! The CCAP core's data plane for Remote-PHY: a cable gateway.
//!
//! Reading order: [`pipeline`] is the gateway on one screen; [`schedule`] and [`depi`] stand between its downstream
//! pipelines, [`upstream`] before its upstream one; [`config`] is what an operator writes.

#![forbid(unsafe_code)]

pub mod assemble;
pub mod config;
pub mod control;
pub mod depi;
pub mod flow;
pub mod gateway;
pub mod grants;
pub mod lane;
mod local;
pub mod modems;
pub mod pie;
pub mod pipeline;
pub mod product;
pub mod report;
pub mod rules;
pub mod schedule;
pub mod slow;
pub mod standby;
pub mod steps;
pub mod upstream;

pub use lane::{Cmts, State};
