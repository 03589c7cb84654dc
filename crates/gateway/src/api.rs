//! The read-only HTTP API: every table of `weir show` as JSON, described by OpenAPI, on a listener of its own.
//!
//! `GET /api/v1/TOPIC` answers what `weir show TOPIC --json` prints, with the table's options as query parameters;
//! `/openapi.json` describes all paths of the gateway that runs. Nothing can be changed. The configuration, which may hold
//! passwords, is not among the tables. `/` is a page that shows what `weir top` shows, finds sessions and traces them.
//!
//! | file | content |
//! |---|---|
//! | `server.rs` | connections: how many, how long, how large; built on hyper |
//! | `tables.rs` | paths and queries to questions, answers to JSON |
//! | `live.rs` | `/api/v1/top`: rates and costs, sampled once for all who ask |
//! | `trace.rs` | `/api/v1/trace`: one subscriber's packets, where the configuration allows it |
//! | `page.rs`, `page/` | the web page: its parts, and what a browser may do with them |
//! | `openapi.rs` | the description |

mod live;
mod openapi;
mod page;
mod server;
mod tables;
#[cfg(test)]
mod tests;
mod trace;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context;

use live::Live;
pub use server::Server;
use tables::Tables;
use trace::Tracing;

use crate::show::{self, View};
use crate::socket::Answers;

/// What an API shows.
#[derive(Clone, Copy)]
pub struct Shown {
    /// The gateway's own tables.
    pub views: &'static [View],
    /// What the gateway is, in words, with an article.
    pub title: &'static str,
    /// Packets can be traced: `[api] trace`.
    pub trace: bool,
}

/// The API of a gateway.
fn tables(shown: Shown, gateway: Arc<dyn Answers>) -> Arc<Tables> {
    let common = show::VIEWS.iter().filter(|view| view.topic != show::CONFIG);
    let views = common.chain(shown.views).copied().collect();
    let trace = shown.trace.then(Tracing::default);
    Arc::new(Tables { views, title: shown.title, gateway, live: Live::default(), trace })
}

/// Serves the API of a gateway at an address, until dropped. `workers`: CPUs to stay off, where there are others.
///
/// # Errors
/// The address is not ours, or not free.
pub fn serve(
    address: SocketAddr,
    shown: Shown,
    gateway: Arc<dyn Answers>,
    workers: &[usize],
) -> anyhow::Result<Server> {
    let listen = || TcpListener::bind(address).and_then(|listener| go_on(listener, shown, gateway, workers));
    listen().with_context(|| format!("no API at {address}: give another [api] address, or leave the section out"))
}

/// As [`serve`], by a socket that is there.
///
/// # Errors
/// The thread that serves requests could not be started.
pub fn go_on(
    listener: TcpListener,
    shown: Shown,
    gateway: Arc<dyn Answers>,
    workers: &[usize],
) -> std::io::Result<Server> {
    Server::start(listener, tables(shown, gateway), workers)
}

/// The OpenAPI description of a gateway.
pub fn description(views: &'static [View], title: &'static str) -> serde_json::Value {
    let common = show::VIEWS.iter().filter(|view| view.topic != show::CONFIG);
    openapi::describe(&common.chain(views).copied().collect::<Vec<_>>(), title)
}
