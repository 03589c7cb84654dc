//! The read-only HTTP API: every table of `weir show` as JSON, described by OpenAPI, on a listener of its own.
//!
//! `GET /api/v1/TOPIC` answers what `weir show TOPIC --json` prints, with the table's options as query parameters;
//! `/openapi.json` describes all paths of the gateway that runs. Nothing can be changed. The configuration, which may hold
//! passwords, is not among the tables.
//!
//! | file | content |
//! |---|---|
//! | `server.rs` | connections: how many, how long, how large; built on hyper |
//! | `tables.rs` | paths and queries to questions, answers to JSON |
//! | `openapi.rs` | the description |

mod openapi;
mod server;
mod tables;
#[cfg(test)]
mod tests;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context;

pub use server::Server;
use tables::Tables;

use crate::show::{self, View};
use crate::socket::Answers;

/// The API of a gateway, by its own tables.
fn tables(views: &'static [View], title: &'static str, gateway: Arc<dyn Answers>) -> Arc<Tables> {
    let common = show::VIEWS.iter().filter(|view| view.topic != show::CONFIG);
    Arc::new(Tables { views: common.chain(views).copied().collect(), title, gateway })
}

/// Serves the API of a gateway at an address, until dropped. `workers`: CPUs to stay off, where there are others.
///
/// # Errors
/// The address is not ours, or not free.
pub fn serve(
    address: SocketAddr,
    views: &'static [View],
    title: &'static str,
    gateway: Arc<dyn Answers>,
    workers: &[usize],
) -> anyhow::Result<Server> {
    let listen = || TcpListener::bind(address).and_then(|listener| go_on(listener, views, title, gateway, workers));
    listen().with_context(|| format!("no API at {address}: give another [api] address, or leave the section out"))
}

/// As [`serve`], by a socket that is there.
///
/// # Errors
/// The thread that serves requests could not be started.
pub fn go_on(
    listener: TcpListener,
    views: &'static [View],
    title: &'static str,
    gateway: Arc<dyn Answers>,
    workers: &[usize],
) -> std::io::Result<Server> {
    Server::start(listener, tables(views, title, gateway), workers)
}

/// The OpenAPI description of a gateway.
pub fn description(views: &'static [View], title: &'static str) -> serde_json::Value {
    let common = show::VIEWS.iter().filter(|view| view.topic != show::CONFIG);
    openapi::describe(&common.chain(views).copied().collect::<Vec<_>>(), title)
}
