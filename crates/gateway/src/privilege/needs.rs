//! Which capabilities a configuration takes.

use confine::Capabilities;
use port::Uri;
use port::helper::Scope;

/// Capabilities that opening those ports takes, and listening at those ports of TCP and UDP.
fn of<'a>(uris: impl Iterator<Item = &'a str>, mut listens: impl Iterator<Item = u16>) -> Capabilities {
    let mut needs = Capabilities::NONE;
    for uri in uris.filter_map(|uri| uri.parse::<Uri>().ok()) {
        let is = |key, value| uri.get(key) == Some(value);
        needs = match uri.kind() {
            "packet" => {
                let raw = needs.and(Capabilities::NET_RAW);
                let fit = if is("offloads", "keep") { raw } else { raw.and(Capabilities::NET_ADMIN) };
                if is("host", "shared") { fit } else { fit.and(Capabilities::NET_ADMIN).and(Capabilities::BPF) }
            }
            "xdp" => needs
                .and(Capabilities::NET_RAW)
                .and(Capabilities::NET_ADMIN)
                .and(Capabilities::BPF)
                .and(Capabilities::IPC_LOCK),
            "tun" | "host" => needs.and(Capabilities::NET_ADMIN),
            _ => needs,
        };
        if uri.get("netns").is_some() {
            needs = needs.and(Capabilities::SYS_ADMIN);
        }
    }
    let low = listens.any(|port| (1..1024).contains(&port));
    if low { needs.and(Capabilities::NET_BIND_SERVICE) } else { needs }
}

/// The one command that grants a program what a configuration takes.
pub(crate) fn setcap_line<'a>(uris: impl Iterator<Item = &'a str>, listens: impl Iterator<Item = u16>) -> String {
    let program = std::env::current_exe().map_or_else(|_| "weir".to_owned(), |path| path.display().to_string());
    format!("setcap {}+ep {program}", of(uris, listens))
}

/// What the helper keeps to open those ports now and later, and to register packet memory if it does.
pub(crate) fn of_helper(scope: &Scope) -> Capabilities {
    let kept = Capabilities::NET_RAW.and(Capabilities::NET_ADMIN).and(Capabilities::BPF);
    let kept = if scope.memory.is_some() { kept.and(Capabilities::IPC_LOCK) } else { kept };
    if scope.ports.iter().any(|port| port.place.netns.is_some()) { kept.and(Capabilities::SYS_ADMIN) } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(uris: &[&str], listens: &[u16]) -> String {
        of(uris.iter().copied(), listens.iter().copied()).to_string()
    }

    #[test]
    fn each_kind_of_port_has_its_capabilities() {
        assert_eq!(needs(&["memory:a", "pcap:a.pcap"], &[8805, 9464]), "");
        assert_eq!(needs(&["packet:eth0?offloads=keep&host=shared"], &[]), "cap_net_raw");
        assert_eq!(needs(&["packet:eth0?host=shared"], &[]), "cap_net_admin,cap_net_raw");
        assert_eq!(needs(&["packet:eth0"], &[]), "cap_net_admin,cap_net_raw,cap_bpf");
        assert_eq!(needs(&["xdp:eth0", "packet:eth1"], &[]), "cap_net_admin,cap_net_raw,cap_ipc_lock,cap_bpf");
        assert_eq!(needs(&["packet:eth0?netns=a&offloads=keep&host=shared"], &[]), "cap_net_raw,cap_sys_admin");
        assert_eq!(needs(&["tun:ogstun"], &[0, 80]), "cap_net_bind_service,cap_net_admin");
        assert_eq!(needs(&["host:core0?netns=a"], &[]), "cap_net_admin,cap_sys_admin");
    }

    #[test]
    fn the_setcap_line_is_complete() {
        let line = setcap_line(["xdp:eth0", "packet:eth1"].into_iter(), [80].into_iter());
        assert!(
            line.starts_with("setcap cap_net_bind_service,cap_net_admin,cap_net_raw,cap_ipc_lock,cap_bpf+ep /"),
            "{line}"
        );
    }
}
