//! DHCP relay agents: requests of lines go to servers in the core, replies go back to their line, and the leases that servers
//! grant are learnt.
//!
//! ```text
//! client ─► receive_client ─► transaction noted, request to one or all servers      (giaddr, option 82; Relay-forward)
//! server ─► receive_server ─► transaction found ─► lease claimed in the pools ─► Store(ticket) ─► durable(ticket) ─► reply
//! ```
//! A lease that is learnt has its place in the pools of the gateway: the limits of lines, the ledger and the end of a lease
//! are those of the gateway's own leases.

mod codec4;
mod codec6;
mod servers;
#[cfg(test)]
mod tests;
mod transactions;
pub mod v4;
pub mod v6;

pub use codec4::{Agent, NotForwarded, ServerMessage, forward4, to_client4};
pub use codec6::{ForwardedBy, RelayReply, ReplyIa, forward6};
pub use servers::{Event, Order, ServerView, Servers};
pub use transactions::TransactionLimits;

use crate::lease::LeaseKey;
use crate::pool::Pools;
use std::net::IpAddr;

/// Whether a client may take over the lease that another one has: it is the same station of the same line with another
/// identifier, or, where stations may move, the same station on another line.
fn takes_over(pools: &Pools, holder: u32, key: &LeaseKey, moves: bool) -> bool {
    let held = pools.lease(holder).key().client;
    held.mac == key.client.mac && held.mac != [0; 6] && (moves || held.line == key.client.line)
}

/// Whether a server's refusal ends a lease: it has granted it, or no server of the group has.
fn may_end<A: Copy + Into<IpAddr>>(pools: &Pools, slot: u32, server: IpAddr, servers: &[A]) -> bool {
    let lessor = pools.server(slot).filter(|lessor| servers.iter().any(|known| (*known).into() == *lessor));
    lessor.is_none_or(|lessor| lessor == server)
}
