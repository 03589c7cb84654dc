//! Where the process tells its numbers to a monitoring system.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Numbers, health and readiness by HTTP, on the host's own network stack.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metrics {
    /// Where to listen: `127.0.0.1:9464`. Whoever reaches it may read; nothing can be changed there.
    pub address: SocketAddr,
}
