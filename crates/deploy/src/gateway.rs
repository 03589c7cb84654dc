//! The configuration of one gateway of a fleet, as `weir run` reads it. User planes all have the same: what differs is left
//! to `--pool-from-ordinal`, `--ordinal` and `--n4-address`. Cable and broadband gateways have one each, by ordinal.

mod bng;
mod cmts;
mod upf;

use std::fmt::Write;

use crate::cidr::Cidr;
use crate::fleet::{Fleet, Gateway};

/// Stands for the secret that the gateway shares with RADIUS servers.
pub const RADIUS_SECRET: &str = "@RADIUS_SECRET@";
/// Stands for the first modem's key.
pub const MODEM_KEY: &str = "@MODEM_KEY@";

/// What the file says beside what the fleet says. Each may be a variable of whoever fills it in.
#[derive(Clone, Debug)]
pub struct Places {
    /// Interface towards the gNBs, Remote-PHY devices, or lines.
    pub access_interface: String,
    /// Interface towards the data network, or core.
    pub core_interface: String,
    /// Address towards the gNBs, with prefix length; where all have the same file, ordinal 0's.
    pub access_address: String,
    /// Address towards the data network, likewise.
    pub core_address: String,
    /// The router towards the gNBs.
    pub access_router: String,
    /// The router towards the data network.
    pub core_router: String,
    /// Address for PFCP; of a broadband gateway, for what RADIUS servers ask it.
    pub n4_address: String,
    /// Networks that control planes send from.
    pub peers: Vec<Cidr>,
    /// CPUs of the workers, as a list: `[2, 3]`; none: the kernel decides.
    pub cpus: Option<String>,
    /// Where metrics are told.
    pub metrics: String,
    /// Where probes are answered, if anybody asks.
    pub health: Option<String>,
    /// Where the ledger is.
    pub ledger: String,
    /// Whether the access interface takes frames to any hardware address, so that groups may have their own.
    pub any_mac: bool,
    /// Where the control socket is.
    pub socket: String,
}

/// Secrets that a fleet's configurations have places for: the place, and what the secret is called.
pub fn secrets(fleet: &Fleet) -> Vec<(&'static str, &'static str)> {
    match fleet.gateway {
        Gateway::Cmts if fleet.settings.cmts.encrypt => vec![(MODEM_KEY, "modem-key")],
        Gateway::Bng if !fleet.settings.bng.radius.is_empty() => vec![(RADIUS_SECRET, "radius")],
        _ => Vec::new(),
    }
}

/// The file of a gateway; that of a user plane is the same for all. None: there is no part of a network left for it.
pub fn toml(fleet: &Fleet, places: &Places, ordinal: u32) -> Option<String> {
    let mut out = format!("gateway = \"{}\"\ncontrol_socket = \"{}\"\n", fleet.gateway.name(), places.socket);
    let mut line = |text: String| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{text}");
    };
    line("\n[workers]".to_owned());
    line(format!("count = {}", fleet.workers()));
    if let Some(cpus) = &places.cpus {
        line(format!("cpus = {cpus}"));
    }
    line(format!("idle = \"{}\"", fleet.settings.idle.name()));
    line(format!("\n[frames]\npacket_buffers = {}", fleet.settings.packet_buffers));
    match fleet.gateway {
        Gateway::Upf => upf::lines(fleet, places, &mut line),
        Gateway::Cmts => cmts::lines(fleet, places, ordinal, &mut line)?,
        Gateway::Bng => bng::lines(fleet, places, ordinal, &mut line)?,
    }
    line(format!("\n[metrics]\naddress = \"{}\"", places.metrics));
    if let Some(health) = &places.health {
        line(format!("\n[health]\naddress = \"{health}\""));
    }
    Some(out)
}
