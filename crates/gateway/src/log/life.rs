//! Events of every gateway's start and end.

use std::net::SocketAddr;
use std::path::Path;

use engine::Io;

use crate::shell::Ended;
use crate::signals;
use crate::socket::PortView;

/// A gateway begins to start.
pub fn starting(gateway: &str, config: &Path) {
    tracing::info!(
        target: "process", event = "start",
        version = env!("CARGO_PKG_VERSION"), gateway, config = %config.display(), pid = std::process::id(),
        "starting"
    );
}

/// A port is open; `addresses` are ours on it.
pub fn port_open(port: &PortView, addresses: &str) {
    tracing::info!(
        target: "port", event = "port_open",
        port = port.name, role = port.role, kind = port.kind, interface = port.interface, addresses,
        mtu = port.mtu, link = port.link, detail = port.detail,
        "port opened"
    );
}

/// An HTTP listener is there.
pub fn listening(what: &str, address: SocketAddr) {
    tracing::info!(target: "process", event = "listening", what, %address, "{what} at http://{address}/");
}

/// A gateway stops: it was told to, or a worker has ended by itself.
pub fn stopping(broken: Option<usize>) {
    match broken {
        Some(worker) => tracing::error!(
            target: "worker", event = "worker_crashed", worker,
            "a worker ended by itself: the process stops, so that another can be started"
        ),
        None => tracing::info!(
            target: "process", event = "stopping", signal = signals::came().unwrap_or("none"), "told to stop"
        ),
    }
}

/// A gateway has stopped.
pub fn stopped(ended: &Ended) {
    let last = &ended.last;
    let dropped: u64 = last.workers.iter().map(|worker| worker.dropped()).sum();
    let missing: i64 = last.workers.iter().map(|worker| worker.missing).sum();
    tracing::info!(
        target: "process", event = "stopped",
        seconds = last.uptime.round() as u64, received = last.io(Io::RxPackets), sent = last.io(Io::TxPackets), dropped,
        packets_missing = missing, packet_buffers_missing = ended.slots_missing, workers_crashed = ended.crashed,
        "stopped"
    );
}
