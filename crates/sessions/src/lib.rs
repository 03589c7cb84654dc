//! Sessions as a control plane asks for them, whatever protocol it speaks.
//!
//! A front end (PFCP in `upf::n4`) turns messages into [`rules`] and keeps each session as the message that would establish it;
//! what a message is, it says by [`FrontEnd`]. The rest is here: who has which identifier and address, what leads to a session,
//! which sets and peers it belongs to, where its packets go. No information element of a protocol is in this crate.
//!
//! ```
//! use sessions::store::{Key, SessionStore};
//! use sessions::FrontEnd;
//!
//! /// A front end whose sessions are a number each.
//! #[derive(Clone, Debug, Default, PartialEq)]
//! struct Numbers;
//! impl FrontEnd for Numbers {
//!     type Rules = u64;
//!     type Report = u64;
//!     type Deferred = ();
//!     type Set = u8;
//!     fn parse(message: &[u8]) -> u64 {
//!         message.try_into().map_or(0, u64::from_be_bytes)
//!     }
//!     fn write(rules: &u64, out: &mut Vec<u8>) -> bool {
//!         out.extend(rules.to_be_bytes());
//!         true
//!     }
//!     fn stamp(_: &mut [u8], _: u64, _: u32) {}
//!     fn peer_seid(rules: &u64) -> u64 {
//!         *rules
//!     }
//!     fn sets(_: &u64) -> Vec<(u8, Option<u8>)> {
//!         Vec::new()
//!     }
//!     fn octets(report: &u64) -> u64 {
//!         *report
//!     }
//!     fn write_reports(reports: &[u64]) -> Vec<u8> {
//!         reports.iter().flat_map(|report| report.to_be_bytes()).collect()
//!     }
//!     fn read_reports(octets: &[u8]) -> Vec<u64> {
//!         octets.as_chunks().0.iter().map(|report| u64::from_be_bytes(*report)).collect()
//!     }
//! }
//!
//! let mut store = SessionStore::<Numbers>::default();
//! let message = store.written(&7).expect("short");
//! let seid = store.put(0, 0, 7, message, Vec::new(), vec![Key::Teid(1)]);
//! assert_eq!(store.lookup(Key::Teid(1)), store.find(seid));
//! assert_eq!(store.get(0).map(|session| session.rules()), Some(7));
//! ```
//!
//! | module | idea |
//! |---|---|
//! | [`rules`] | what a session's packets are, and what becomes of them |
//! | [`store`] | sessions, compact: there may be a million |
//! | [`activity`] | what a session is in the middle of |
//! | [`transaction`] | rules on their way to a worker, which may refuse them |
//! | [`metering`] | what rules have used, and when they report it |
//! | [`reports`], [`told`] | reports that may not have arrived, and those that would come too often |
//! | [`index`], [`by_instance`], [`routes`] | from tunnels, addresses and prefixes to sessions |
//! | [`sets`] | sessions by the sets of connections they belong to |
//! | [`identifiers`], [`pools`] | tunnel endpoints and addresses that are given out |
//! | [`paths`] | peers of tunnels, supervised |
//! | [`gbr`] | guaranteed bit rates set aside |
//! | [`silence`] | sessions that nothing is sent through |

#![forbid(unsafe_code)]

pub mod activity;
pub mod by_instance;
pub mod chunks;
mod front_end;
pub mod gbr;
pub mod identifiers;
pub mod index;
pub mod metering;
pub mod paths;
pub mod pools;
pub mod reports;
pub mod routes;
pub mod rules;
pub mod sets;
pub mod silence;
pub mod store;
pub mod told;
pub mod transaction;

pub use front_end::FrontEnd;
