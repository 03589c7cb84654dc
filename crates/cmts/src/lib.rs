//! The data plane of a CCAP core for Remote-PHY: a cable gateway.
//!
//! ```
//! # let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/cmts.toml"));
//! // text is examples/cmts.toml: one service group of 300 modems with four addresses each, and a multicast group.
//! let config: cmts::config::Config = toml::from_str(text).expect("known keys of the right type");
//! config.check().expect("values that fit together");
//! assert_eq!(config.layout().expect("patterns that fit").modems.len(), 301);
//! ```
//!
//! Reading order: [`pipeline`] is the packet path on one screen; the scheduler ([`flow`]) and [`depi`] are between its downstream
//! pipelines, [`upstream`] is before its upstream one; [`config`] is what an operator writes; [`product`] is the
//! control side.

#![forbid(unsafe_code)]

pub mod assemble;
pub mod channels;
pub mod config;
pub mod control;
pub mod depi;
pub mod drops;
pub mod flow;
pub mod gateway;
pub mod grants;
pub mod hand_over;
pub mod lane;
mod local;
pub mod modems;
pub mod pipeline;
pub mod product;
pub mod punts;
pub mod report;
pub mod rules;
pub mod slow;
pub mod standby;
pub mod steps;
pub mod upstream;

pub use lane::{Cmts, State};
