//! What all gateways share: stages, and the tables and packet builders behind them.

#![forbid(unsafe_code)]

pub mod acl;
pub mod config;
pub mod filter;
pub mod forward;
pub mod fragment;
pub mod hold;
pub mod icmp;
pub mod limit;
pub mod mss;
pub mod nat;
pub mod neighbour;
pub mod parse;
pub mod reassemble;
pub mod redirect;
pub mod rewrite;
pub mod route;
