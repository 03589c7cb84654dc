//! Trials, searches and reports: what a gateway does to every packet, measured.

#![forbid(unsafe_code)]

pub mod profiles;
