//! The planner's arithmetic: from the cost of a packet to the number of machines that carry a network, what limits
//! them, what stays unused, what it costs, and whether to use a cloud or own servers.
//!
//! ```
//! use capacity::erlang;
//!
//! // Places for 100 erlangs when at most 1 % may be turned away.
//! assert_eq!(erlang::places(100.0, 0.01), 117);
//! ```
//!
//! Pure: no I/O, no clock, no dependency on other crates of the workspace. A [`question::Question`] goes in, a
//! [`plan::Answer`] comes out, and every number in it has its provenance. Unknown values stay unknown.
//!
//! | file | content |
//! |---|---|
//! | `quantity.rs`, `known.rs` | units as types; ranges with provenance |
//! | `frames.rs`, `erlang.rs`, `demand.rs` | demand |
//! | `cost.rs`, `scaling.rs`, `sources.rs`, `prior.rs` | measurements, interpolation, extrapolation, other machines |
//! | `packets.rs`, `spread.rs`, `sample.rs` | packet rates nobody measured, ranges, the answer at many points |
//! | `tables.rs`, `catalogue.rs` | tables of machine types, prices, measurements and sources |
//! | `machine.rs`, `onprem.rs`, `card.rs` | machines; servers, network cards |
//! | `unit.rs`, `limits.rs`, `placement.rs`, `price.rs` | resources of a unit, limits, placement, price |
//! | `path.rs`, `bill.rs`, `years.rs` | what the path of the traffic costs, the day's bill, costs year by year |
//! | `question.rs`, `check.rs`, `knobs.rs`, `fit.rs`, `plan.rs` | the question, what is turned of it, one machine, all of them |
//! | `bounds.rs`, `headline.rs`, `choice.rs`, `sensitivity.rs`, `ideal.rs`, `scale_out.rs`, `day.rs`, `site.rs` | consequences |
//! | `calibration.rs` | predicted against measured, each from others |
//! | `published.rs`, `reproduce.rs` | published experiments as plans; their figures, calculated again |

#![forbid(unsafe_code)]
// Names and types document most items; comments are written where they add a unit, a clause or a reason.
#![allow(missing_docs)]

pub mod bill;
pub mod bounds;
pub mod calibration;
pub mod card;
pub mod catalogue;
mod check;
pub mod choice;
pub mod cost;
pub mod day;
pub mod demand;
pub mod erlang;
pub mod fit;
pub mod frames;
pub mod headline;
pub mod ideal;
pub mod knobs;
pub mod known;
pub mod limits;
pub mod machine;
pub mod onprem;
pub mod packets;
pub mod path;
pub mod placement;
pub mod plan;
pub mod price;
pub mod prior;
pub mod published;
pub mod quantity;
pub mod question;
pub mod reproduce;
pub mod sample;
pub mod scale_out;
pub mod scaling;
pub mod sensitivity;
pub mod site;
pub mod sources;
pub mod spread;
pub mod tables;
pub mod unit;
pub mod wrong;
pub mod years;
