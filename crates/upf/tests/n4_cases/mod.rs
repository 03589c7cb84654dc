//! More of what control planes ask for, a file for each kind of rule.

mod buffering;
mod limits;
mod named;
mod node;
mod packets;
mod paths;
mod redirect;
mod routes;
mod tunnels;
mod usage;
