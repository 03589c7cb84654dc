//! More of what control planes ask for, a file for each kind of rule.

mod paths;
mod redirect;
mod routes;
mod usage;
