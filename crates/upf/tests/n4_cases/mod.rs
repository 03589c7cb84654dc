//! More of what control planes ask for, a file for each kind of rule.

mod both_gateways;
mod buffering;
mod chaining;
mod clock;
mod endings;
mod filters;
mod judge;
mod limits;
mod named;
mod node;
mod packets;
mod paths;
mod peers;
mod quotas;
mod redirect;
mod room;
mod routes;
mod tunnels;
mod updates;
mod usage;
