//! Packet memory: one [`Arena`], many doors.
//!
//! Every packet weir handles lies in a slot of an arena. A [`Frame`] is the exclusive, move-only right to one slot;
//! a [`Batch`] is a burst of frames; a [`Pool`] is a worker's stock of free slots. [`Port`] is the contract of every
//! door a frame can come in by or leave through: the trait lives here, beside the memory it is about, so that the
//! engine can drive ports without knowing any of them.
//!
//! # Conservation
//! free + in bursts + in ports + held = slots. [`Pool::free`] and [`Port::held`] give the terms; nothing else may own
//! a slot. A frame that is forgotten is lost until the arena goes, so tests check the sum and production shows it.

mod arena;
mod batch;
mod door;
mod frame;
mod pool;

pub use arena::{Arena, ArenaConfig, HEADROOM, Shape};
pub use batch::{BURST, Batch};
pub use door::{Caps, Link, Port, PortCounters, wait_readable};
pub use frame::{Frame, Meta, NoHeadroom, Short, flags};
/// What an arena's memory rests on.
pub use pages::Backing;
pub use pool::Pool;
