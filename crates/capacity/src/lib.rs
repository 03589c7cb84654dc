//! The planner's arithmetic: from what a packet costs to how many of which machine carry a network, what limits them,
//! what stays unused, what it costs, and whether to put it in a cloud or on premise.
//!
//! Pure: no input or output, no clock, nothing of the rest of the house. A plan goes in as a [`question::Question`],
//! an [`plan::Answer`] comes out, and every number in it says what it rests on. What is not known stays unknown.
//!
//! | file | idea |
//! |---|---|
//! | `quantity.rs`, `known.rs` | units as types; ranges with provenance |
//! | `frames.rs`, `erlang.rs`, `demand.rs` | what is to be carried |
//! | `cost.rs`, `scaling.rs`, `sources.rs` | what was measured, what lies between, beyond, and on other machines |
//! | `machine.rs`, `catalogue.rs`, `onprem.rs` | what there is to run it on |
//! | `unit.rs`, `limits.rs`, `placement.rs`, `price.rs` | what a unit takes, what holds it, where, for how much |
//! | `question.rs`, `check.rs`, `fit.rs`, `plan.rs` | the question, one machine, all of them |
//! | `choice.rs`, `sensitivity.rs`, `ideal.rs`, `scale_out.rs`, `day.rs`, `site.rs` | what follows from that |
//! | `reproduce.rs` | the publications' own figures, calculated again |

#![forbid(unsafe_code)]

pub mod catalogue;
mod check;
pub mod choice;
pub mod cost;
pub mod day;
pub mod demand;
pub mod erlang;
pub mod fit;
pub mod frames;
pub mod ideal;
pub mod known;
pub mod limits;
pub mod machine;
pub mod onprem;
pub mod placement;
pub mod plan;
pub mod price;
pub mod quantity;
pub mod question;
pub mod reproduce;
pub mod scale_out;
pub mod scaling;
pub mod sensitivity;
pub mod site;
pub mod sources;
pub mod unit;
pub mod wrong;
