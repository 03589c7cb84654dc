//! `/healthz` and `/readyz` on a listener and a thread of their own.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context;

use super::Vitals;
use crate::metrics::{Answer, Pages, Server, WORDS};

/// Answers probes at an address, until dropped.
///
/// # Errors
/// The address is not ours, or not free.
pub fn serve(address: SocketAddr, vitals: Arc<Vitals>) -> anyhow::Result<Server> {
    Server::start("weir-health", address, Arc::new(Probes(vitals)))
        .with_context(|| format!("no probes at {address}: give another [health] address, or leave the section out"))
}

/// Answers probes by a socket that is there, until dropped.
///
/// # Errors
/// The server's thread cannot be started.
pub fn go_on(listener: TcpListener, vitals: Arc<Vitals>) -> std::io::Result<Server> {
    Server::go_on("weir-health", listener, Arc::new(Probes(vitals)))
}

struct Probes(Arc<Vitals>);

impl Pages for Probes {
    fn page(&self, path: &str) -> Option<Answer> {
        self.0.page(path)
    }

    fn paths(&self) -> &'static str {
        "/healthz and /readyz"
    }
}

impl Vitals {
    /// The answer to a probe, if the path is that of one.
    pub fn page(&self, path: &str) -> Option<Answer> {
        let (well, trouble) = match path {
            "/healthz" => ("alive\n", self.dead()),
            "/readyz" => ("ready\n", self.unready()),
            _ => return None,
        };
        Some(match trouble.is_empty() {
            true => Answer { status: 200, media: WORDS, body: well.to_owned() },
            false => Answer { status: 503, media: WORDS, body: trouble.join("\n") + "\n" },
        })
    }
}
