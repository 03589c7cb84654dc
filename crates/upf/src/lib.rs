//! The user plane of a mobile core: 5G UPF, 4G SGW-U/PGW-U, fixed wireless.
//!
//! Reading order: [`pipeline`] is the gateway on one screen; [`record`] is what a packet touches of its session;
//! [`rules`] and [`compile`] are how control describes a session and how it becomes a record.

#![forbid(unsafe_code)]

pub mod assemble;
mod by_instance;
mod chunks;
pub mod compile;
pub mod config;
pub mod control;
pub mod gateway;
pub mod lane;
mod local;
pub mod n4;
pub mod nat_log;
pub mod pipeline;
pub mod product;
pub mod record;
mod remotes;
pub mod routes;
pub mod rules;
pub mod sessions;
pub mod simulate;
pub mod slow;
pub mod steps;

pub use lane::{State, Upf};
