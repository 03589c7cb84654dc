//! The user plane of a broadband network gateway: IPoE subscribers of an access network behind no, one or two VLAN tags
//! (TR-101, TR-178), routed to IP networks.
//!
//! Reading order: [`pipeline`] is the gateway on one screen; [`record`] and [`subscribers`] are what a packet looks up;
//! [`config`] is what an operator writes.

#![forbid(unsafe_code)]

pub mod assemble;
pub mod config;
pub mod control;
pub mod drops;
pub mod fast;
pub mod gateway;
pub mod hand_over;
pub mod lane;
pub mod link;
pub mod moving;
pub mod pipeline;
pub mod product;
pub mod punts;
pub mod record;
pub mod sessions;
pub mod shaper;
pub mod slow;
pub mod steer;
pub mod steps;
pub mod subscribers;

pub use lane::{Bng, State};
