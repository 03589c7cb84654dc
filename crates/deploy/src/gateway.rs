//! The configuration of one gateway of a fleet, as `weir run` reads it. What differs between gateways is left to
//! `--pool-from-ordinal`, `--ordinal` and `--n4-address`, or filled in by who writes the file.

use std::fmt::Write;

use crate::cidr::Cidr;
use crate::fleet::Fleet;

/// What the file says beside what the fleet says. Each may be a variable of whoever fills it in.
#[derive(Clone, Debug)]
pub struct Places {
    /// Interface towards the gNBs.
    pub access_interface: String,
    /// Interface towards the data network.
    pub core_interface: String,
    /// Ordinal 0's address towards the gNBs, with prefix length.
    pub access_address: String,
    /// Ordinal 0's address towards the data network.
    pub core_address: String,
    /// The router towards the gNBs.
    pub access_router: String,
    /// The router towards the data network.
    pub core_router: String,
    /// Address for PFCP.
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
    /// Where the control socket is.
    pub socket: String,
}

/// The file.
pub fn toml(fleet: &Fleet, places: &Places) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{text}");
    };
    line("gateway = \"upf\"".to_owned());
    line(format!("control_socket = \"{}\"", places.socket));
    line("\n[workers]".to_owned());
    line(format!("count = {}", fleet.workers()));
    if let Some(cpus) = &places.cpus {
        line(format!("cpus = {cpus}"));
    }
    line(format!("idle = \"{}\"", fleet.settings.idle.name()));
    line(format!("\n[frames]\npacket_buffers = {}", fleet.settings.packet_buffers));
    let ports = [
        ("n3", "access", &places.access_interface, &places.access_address, 1),
        ("n6", "core", &places.core_interface, &places.core_address, 2),
    ];
    for (name, role, interface, address, group) in ports {
        line(format!("\n[[port]]\nname = \"{name}\"\nuri = \"{}\"", fleet.uri(interface, group)));
        // The interface is the gateway's alone, but the cloud or cluster may have given the host an address on it.
        line(format!("role = \"{role}\"\naddresses = [\"{address}\"]\nclaim_interface = true"));
    }
    line(format!("\n[[route]]\nto = \"0.0.0.0/0\"\nvia = \"{}\"", places.core_router));
    line(format!("\n[[route]]\nto = \"0.0.0.0/0\"\nvia = \"{}\"\ninstance = \"access\"", places.access_router));
    line(format!("\n[n4]\naddress = \"{}\"", places.n4_address));
    let allow: Vec<String> = places.peers.iter().map(|network| format!("\"{network}\"")).collect();
    line(format!("allow = [{}]", allow.join(", ")));
    line(format!("sessions = {}", fleet.sessions()));
    line(format!("ledger = \"{}\"", places.ledger));
    line(format!("pool = [{{ v4 = \"{}\" }}]", fleet.settings.ue_pool));
    line(format!("\n[metrics]\naddress = \"{}\"", places.metrics));
    if let Some(health) = &places.health {
        line(format!("\n[health]\naddress = \"{health}\""));
    }
    out
}
