//! The user plane of a mobile core: 5G UPF, 4G SGW-U/PGW-U, fixed wireless.
//!
//! ```
//! let text = r#"
//! gateway = "upf"
//!
//! [[port]]
//! name = "n3"
//! uri = "memory:n3"
//! role = "access"
//! addresses = ["10.0.3.1/24"]
//!
//! [[port]]
//! name = "n6"
//! uri = "memory:n6"
//! role = "core"
//! addresses = ["10.0.6.1/24"]
//!
//! [simulate] # sessions without a control plane
//! ues = 1000
//! ue_first = "10.60.0.1"
//! gnb_first = "10.0.3.100"
//!
//! [[simulate.bearer]]
//! qfi = 9
//! "#;
//! let config: upf::config::Config = toml::from_str(text).expect("known keys of the right type");
//! config.check().expect("values that fit together");
//! ```
//!
//! Reading order: [`pipeline`] is the packet path on one screen; [`record`] is what a packet reads and writes of its
//! session; [`rules`] and [`compile`] are how control describes a session and how it becomes a record; [`n4`] is PFCP;
//! [`product`] is the control side.

#![forbid(unsafe_code)]

pub mod assemble;
pub mod compile;
pub mod config;
pub mod control;
pub mod drops;
pub mod fast;
pub mod gateway;
pub mod lane;
mod local;
pub mod n4;
pub mod pipeline;
pub mod product;
pub mod punts;
pub mod record;
mod remotes;
pub mod sessions;
pub mod simulate;
pub mod slow;
pub mod steer;
pub mod steps;

use ::sessions::{by_instance, chunks};
pub use ::sessions::{routes, rules};
pub use lane::{State, Upf};
