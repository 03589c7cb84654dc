//! NAT44: many subscribers behind few public addresses, in blocks of ports.
//!
//! ```text
//! TranslateOut: (instance, protocol, private end) ─► mapping ─► source becomes the public end
//! TranslateIn:  (instance, protocol, public end)  ─► mapping ─► destination becomes the private end
//! subscriber ─► one public address (paired) ─► blocks of its ports ─► a port per mapping
//! ```
//!
//! What it does, in the words of RFC 4787, 5382, 5508, 6888 and 7857:
//!
//! - **Mapping** is endpoint-independent (RFC 4787 REQ-1) and by protocol (RFC 7857, 5); **filtering** is
//!   endpoint-independent (REQ-8). Neither ever changes with load (REQ-7): where no mapping is available, the packet is
//!   dropped by name.
//! - **Addresses are paired** (REQ-2; RFC 7857, 4): a subscriber has one public address as long as it has a block.
//! - **Ports** are never overloaded (REQ-3), are chosen at random in the subscriber's blocks (RFC 7857, 9), and keep
//!   neither number nor parity. A block serves TCP, UDP and ICMP at once. It goes back when it was idle for a while, and
//!   to no other subscriber until it has been held for a while longer (RFC 6888 REQ-8).
//! - **Log**: an event when a block is given out and one when it comes back (RFC 6888 REQ-14 by blocks, never by flow).
//!   No event is lost: without room for it no block is given out, and one that ends waits until it can be told.
//! - **Timeouts** follow the subscriber's packets only, unless configured otherwise (REQ-6; RFC 7857, 7). UDP: two minutes
//!   until answered, then five (REQ-5). TCP: 2 h 4 min established, 4 min opening or after FIN or RST (RFC 5382 REQ-5;
//!   RFC 7857, 2). ICMP queries: one minute (RFC 5508 REQ-2). A mapping knows no single connections: where two share a
//!   private port and one of them has ended, the other is forgotten when silent for four minutes.
//! - **ICMP errors** are translated both ways with the packet they quote, and neither refresh nor end a mapping (RFC 5508
//!   REQ-3 to REQ-5). Queries are echoes only.
//! - **Hairpinning** (REQ-9; RFC 7857, 12): to another subscriber's public end on the same worker a packet is
//!   translated on both sides and punted as [`hairpin`](crate::punts::HAIRPIN), to go on downlink ([`HairpinQueue`]). To a
//!   public address of another worker it is sent on: the router behind sends it back, and steering brings it there.
//! - **Fragments** (REQ-14): outwards every fragment is translated, as the address is the subscriber's whatever the port.
//!   Inwards the later ones follow the first for ten seconds; one before its first is dropped, unless reassembly stands
//!   before this stage. Identifications are left as they are.
//! - Other protocols have no ports to tell subscribers by and are dropped. There are no application gateways (REQ-10).
//!
//! A [`Nat`] is one worker's. Public addresses are divided among workers whole ([`Config::shares`]), so steering by
//! destination address brings packets from outside to the worker that has the mapping.

mod bits;
mod blocks;
mod cache;
mod config;
mod expire;
mod fragments;
mod hairpin;
mod hand_over;
mod icmp;
mod kind;
mod mapping;
mod parts;
mod reload;
mod rewrite;
mod stage;
mod tables;
mod translate;
mod undo;

pub use blocks::{BlockEvent, Ended};
pub use cache::{Flow, FlowCache, LastUse, PublicRange};
pub use config::{Config, Misconfigured, Pool, Timeouts};
pub use hairpin::HairpinQueue;
pub use hand_over::Unfit;
pub use reload::{Addresses, Change, Refused};
pub use stage::{TranslateIn, TranslateOut, Translates};
pub use tables::{Nat, Unavailable};
pub use undo::Side;

#[cfg(test)]
mod tests;
