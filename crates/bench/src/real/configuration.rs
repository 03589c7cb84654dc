//! Configurations of the user planes under measurement, and of the host's routing where a user plane relies on it.

use std::path::Path;

use super::control::UPF;
use super::options::{Flow, RealOptions};
use super::traffic::{GNBS, N3, N6, ROUTER, all_sessions, profile};
use crate::error::BenchError;
use crate::lab::exec;

/// `weir run`'s; `fast`: with the in-kernel path.
pub fn weir(options: &RealOptions, uris: &[String; 2], fast: bool, cpu: usize, socket: &Path) -> String {
    let sessions = all_sessions(options.sessions) + 1000;
    let room = if fast { format!("fast_path = {{ sessions = {sessions} }}\n") } else { String::new() };
    let fast = if fast { ", fast_path = \"auto\"" } else { "" };
    let traffic = profile(options, Flow::Mixed);
    let (gnb, router) = (traffic.access.own, traffic.core.own);
    let idle = options.idle.as_ref().map_or(String::new(), |idle| format!(", idle = {idle:?}"));
    let gnbs =
        (0..GNBS).map(|n| format!("[[neighbour]]\naddress = \"{}\"\nmac = \"{gnb}\"\nport = \"n3\"\n", traffic.gnb(n)));
    format!(
        "gateway = \"upf\"\ncontrol_socket = {socket:?}\nworkers = {{ count = 1, cpus = [{cpu}]{idle} }}\n\
         gtpu = {{ echo_seconds = 0 }}\nport = [\n  \
         {{ name = \"n3\", uri = \"{}\", role = \"access\", addresses = [\"{N3}/16\"], mtu = 1600{fast} }},\n  \
         {{ name = \"n6\", uri = \"{}\", role = \"core\", addresses = [\"{N6}/16\"], mtu = 1600{fast} }},\n]\n\
         route = [{{ to = \"0.0.0.0/0\", next_hop = \"{ROUTER}\" }}]\n\
         n4 = {{ address = \"{UPF}\", allow = [\"127.0.0.0/8\"], sessions = {sessions}, choose_f_teid = false, \
         heartbeat_seconds = 0, session_retention_seconds = 600 }}\n{room}\
         [[neighbour]]\naddress = \"{ROUTER}\"\nmac = \"{router}\"\nport = \"n6\"\n{}",
        uris[0],
        uris[1],
        gnbs.collect::<String>(),
    )
}

/// eUPF's. Heartbeats are far apart: its control plane does not run while a trial does.
pub fn eupf(options: &RealOptions, interfaces: &[String; 2]) -> String {
    format!(
        "interface_name: [{},{}]\nxdp_attach_mode: native\napi_address: 127.0.0.1:18080\n\
         pfcp_address: {UPF}:{}\npfcp_node_id: {UPF}\nmetrics_address: 127.0.0.1:19090\nn3_address: {N3}\n\
         max_sessions: {}\nheartbeat_interval: 3600\nlogging_level: error\n",
        interfaces[0],
        interfaces[1],
        pfcp::PORT,
        all_sessions(options.sessions).max(65_535),
    )
}

/// Addresses, neighbours and routes of the host, for a user plane that looks routes up in the kernel.
///
/// # Errors
/// What `ip` said.
pub fn host(netns: &str, interfaces: &[String; 2], options: &RealOptions) -> Result<(), BenchError> {
    let traffic = profile(options, Flow::Mixed);
    let addresses = [format!("{N3}/16"), format!("{N6}/16")];
    for (name, address) in interfaces.iter().zip(&addresses) {
        exec(netns, "ip", &["address", "add", address, "dev", name])?;
    }
    let neighbour = |address: String, mac: String, name: &str| {
        exec(netns, "ip", &["neighbour", "replace", &address, "lladdr", &mac, "dev", name, "nud", "permanent"])
    };
    for n in 0..GNBS {
        neighbour(traffic.gnb(n).to_string(), traffic.access.own.to_string(), &interfaces[0])?;
    }
    neighbour(ROUTER.to_string(), traffic.core.own.to_string(), &interfaces[1])?;
    exec(netns, "ip", &["route", "add", "default", "via", &ROUTER.to_string()])?;
    let forwarding = "cd /proc/sys/net/ipv4 && echo 1 > ip_forward && for f in conf/*/rp_filter; do echo 0 > $f; done";
    exec(netns, "sh", &["-c", forwarding])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_reads_its_configuration() {
        use serde::Deserialize as _;
        let options = RealOptions { sessions: 100, ..RealOptions::new("weir".into()) };
        let uris = ["xdp:a?offloads=keep".to_owned(), "xdp:b?offloads=keep".to_owned()];
        for fast in [false, true] {
            let text = weir(&options, &uris, fast, 1, Path::new("/tmp/w.sock"));
            let table: toml::Table = text.parse().expect("TOML");
            let config = upf::config::Config::deserialize(table).expect("a configuration");
            assert_eq!(config.neighbour.len(), GNBS as usize + 1);
            config.check().expect("nothing wrong with it");
        }
        assert!(eupf(&options, &uris).contains("interface_name: [xdp:a"));
    }
}
