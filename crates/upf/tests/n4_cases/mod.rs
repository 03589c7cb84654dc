//! More of what control planes ask for, a file for each kind of rule.

mod association;
mod both_gateways;
mod buffering;
mod chaining;
mod choose;
mod clock;
mod control_packets;
mod endings;
mod filters;
mod floods;
mod hostile;
mod ies;
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
