//! Access lists: ordered rules of a network instance that permit or deny packets.
//!
//! ```text
//! [Rule] ─ compile ─► by direction and version:  source ─► prefix ─┐
//!                                                destination ─► prefix ─┤
//!                                                protocol, DSCP, ports ─┴► bit vectors, ANDed: the first bit is the rule
//! ```
//!
//! Each field of a packet leads to a set of rules, as bits in the order of the list (the bit vectors of Lakshman and
//! Stiliadis, SIGCOMM 1998; with a summary bit for every 64 rules as in Baboescu and Varghese, SIGCOMM 2001). The first
//! rule in all sets decides. So a packet costs two prefix lookups, two short searches and, of `n` rules, `n`/4096 + 1
//! summaries and those words in which all of them agree: a handful for real lists, `n`/64 at worst.
//!
//! A later fragment has no ports. As is customary, a rule with ports that permits lets it pass by its other fields, and
//! one that denies does not catch it: without its first fragment it is of no use. With reassembly before the list there
//! are no fragments.
//!
//! Lists are control's. They are compiled whole, published as a snapshot and read by workers; hits are counted for each
//! rule in a shard per worker and survive a new list.

mod lists;
mod live;
mod rule;
mod stage;
mod tables;
mod text;
mod vectors;

pub use lists::{AccessList, AccessLists, CompileError, Decision, FEW, MAX_RULES};
pub use live::{LiveLists, NotReplaced, SPARE_COUNTERS};
pub use rule::{Action, Direction, PortRange, Rule};
pub use stage::{CheckAcl, HasAccessLists, Hits};
pub use text::RuleError;

#[cfg(test)]
mod tests;
