//! Packet buffers: arena, frame, batch, pool, and the [`Port`] trait.
//!
//! Every packet is in a buffer of an [`Arena`]. A [`Frame`] is the exclusive, move-only right to one buffer; a
//! [`Batch`] is a burst of frames; a [`Pool`] is a worker's stock of free buffers.
//!
//! ```
//! use frame::{Arena, ArenaConfig, Pool};
//!
//! let arena = Arena::new(ArenaConfig { slots: 64, ..ArenaConfig::default() })?;
//! let mut pool = Pool::new(&arena, 64);
//! let mut frame = pool.make(b"payload").expect("a free buffer");
//! frame.push_front(4).expect("headroom"); // four bytes in front, to be written
//! arena.bytes_mut(&mut frame)[..4].copy_from_slice(b"head");
//! assert_eq!(arena.bytes(&frame), b"headpayload");
//! pool.give(frame);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Conservation
//! Free + in bursts + in ports + held = all buffers of the arena. [`Pool::free`] and [`Port::held`] give the terms. A
//! frame that is forgotten is lost until the arena is dropped; tests check the sum.

mod arena;
mod batch;
mod door;
mod frame;
mod host;
mod pool;

pub use arena::{Arena, ArenaConfig, HEADROOM, Shape};
pub use batch::{BURST, Batch};
pub use door::{Caps, Link, Port, PortCounters, PortHandover, wait_readable};
pub use frame::{Frame, Meta, NoHeadroom, Short, flags};
pub use host::{HostInterface, HostQueue};
/// What an arena's memory rests on.
pub use pages::Backing;
pub use pool::Pool;
