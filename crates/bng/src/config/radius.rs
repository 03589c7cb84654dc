//! `[radius]`: who may have sessions, and what is told about them.

use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, wrong};

/// RADIUS (RFC 2865, RFC 2866, RFC 5176): each subscriber is authenticated before its first lease, and accounted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RadiusSection {
    /// Servers, the preferred one first.
    pub server: Vec<RadiusServer>,
    /// NAS-Identifier (RFC 2865, 5.32) of this gateway.
    #[serde(default = "nas")]
    pub nas_identifier: String,
    /// User-Password of every subscriber: the line is what is authenticated.
    #[serde(default = "password")]
    pub password: String,
    /// Seconds between interim accounting reports, where the server names no other; 0: none. What a session has used since its
    /// last one is lost if the process is killed.
    #[serde(default = "interim", deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub interim_seconds: u32,
    /// Seconds for which a line that was rejected is not asked about again.
    #[serde(default = "reject", deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub reject_seconds: u32,
    /// Where CoA- and Disconnect-Requests of the servers are taken; left out: nowhere.
    #[serde(default)]
    pub coa: Option<SocketAddr>,
    /// Whether CoA- and Disconnect-Requests without Event-Timestamp (RFC 2869, 5.3) are dropped. Off, for servers that send
    /// none: whoever has recorded such a request can have it carried out again, ten minutes later (RFC 5176, 6.3).
    #[serde(default = "on")]
    pub require_event_timestamp: bool,
}

/// A RADIUS server.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RadiusServer {
    /// IP address of the server.
    pub address: IpAddr,
    /// Its port for authentication.
    #[serde(default = "authentication")]
    pub authentication_port: u16,
    /// Its port for accounting; 0: it takes none.
    #[serde(default = "accounting")]
    pub accounting_port: u16,
    /// The secret it shares with this gateway.
    pub secret: String,
}

fn nas() -> String {
    "weir".to_owned()
}

fn password() -> String {
    "weir".to_owned()
}

fn interim() -> u32 {
    600
}

fn reject() -> u32 {
    30
}

fn on() -> bool {
    true
}

fn authentication() -> u16 {
    1812
}

fn accounting() -> u16 {
    1813
}

impl Config {
    pub(super) fn check_radius(&self) -> Result<(), ConfigError> {
        let Some(radius) = &self.radius else { return Ok(()) };
        if radius.server.is_empty() {
            return Err(wrong(&[&"radius", &"server"], "no server", "add a [[radius.server]]"));
        }
        for (n, server) in radius.server.iter().enumerate() {
            if server.secret.is_empty() {
                return Err(wrong(&[&"radius", &"server", &n, &"secret"], "an empty secret", "the server's secret"));
            }
        }
        if !self.has_sessions() {
            let what = "no group has sessions to authenticate";
            return Err(wrong(&[&"radius"], what, "a `sessions` table in a group"));
        }
        Ok(())
    }
}
