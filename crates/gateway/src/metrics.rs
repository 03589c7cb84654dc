//! What a running gateway tells a monitoring system by HTTP: `/metrics` for Prometheus, `/healthz`, `/readyz`.
//!
//! | file | idea |
//! |---|---|
//! | `families.rs` | what every gateway tells, under which names |
//! | `load.rs` | how busy workers are: what scaling goes by |
//! | `text.rs` | the exposition format |
//! | `http.rs` | a small server with bounds on everything |

mod families;
mod http;
mod load;
mod text;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;

use crate::snapshot::Snapshot;
use crate::watch::Vitals;
pub use families::{Known, page};
pub use http::{Answer, Pages, Server, WORDS};
use load::Recent;
pub use text::{Kind, Page};

/// Version 0.0.4 of the text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A running gateway as monitoring sees it. Asked from several threads at once.
pub trait Monitored: Send + Sync + 'static {
    /// All counters.
    fn snapshot(&self) -> Snapshot;

    /// What is known at this moment; how busy workers were, and when the process began, is added by whoever asks.
    fn known(&self) -> Known;

    /// What probes are answered from.
    fn vitals(&self) -> &Arc<Vitals>;
}

/// A gateway, and how busy it was of late.
struct Metrics {
    gateway: Arc<dyn Monitored>,
    recent: Mutex<Recent>,
    /// Held while a page is made: scrapes at once do not add up.
    making: Mutex<()>,
    started: f64,
}

/// Tells of a gateway at an address, until dropped.
///
/// # Errors
/// The address is not ours, or not free.
pub fn serve(address: SocketAddr, gateway: Arc<dyn Monitored>) -> anyhow::Result<Server> {
    let listen = || TcpListener::bind(address).and_then(|listener| go_on(listener, gateway));
    listen()
        .with_context(|| format!("no metrics at {address}: give another [metrics] address, or leave the section out"))
}

/// Tells of a gateway by a socket that is there, until dropped.
///
/// # Errors
/// The server's thread cannot be started.
pub fn go_on(listener: TcpListener, gateway: Arc<dyn Monitored>) -> std::io::Result<Server> {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    let metrics = Metrics { gateway, recent: Mutex::default(), making: Mutex::default(), started: unix };
    Server::go_on("weir-metrics", listener, Arc::new(metrics))
}

impl Metrics {
    fn known(&self) -> Known {
        let known = self.gateway.known();
        let mut recent = self.recent.lock().unwrap_or_else(|e| e.into_inner());
        recent.note(Instant::now(), &known.snapshot.workers);
        let unready = self.gateway.vitals().unready();
        Known { utilisation: recent.utilisation(known.snapshot.tsc_hz), started: self.started, unready, ..known }
    }

    fn page(&self) -> String {
        let _one_at_a_time = self.making.lock().unwrap_or_else(|e| e.into_inner());
        families::page(&self.known())
    }
}

impl Pages for Metrics {
    fn page(&self, path: &str) -> Option<Answer> {
        match path {
            "/metrics" => Some(Answer { status: 200, media: EXPOSITION, body: Metrics::page(self) }),
            _ => self.gateway.vitals().page(path),
        }
    }

    fn paths(&self) -> &'static str {
        "/metrics, /healthz and /readyz"
    }

    fn interval(&self) -> Option<Duration> {
        Some(load::INTERVAL)
    }

    fn tick(&self) {
        let workers = self.gateway.snapshot().workers;
        self.recent.lock().unwrap_or_else(|e| e.into_inner()).note(Instant::now(), &workers);
    }
}
