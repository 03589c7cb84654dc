//! CPU time of the kernel threads that receive for ports' interfaces (threaded NAPI): it is part of what packets cost, and no
//! clock of the gateway sees it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::socket::PortView;

/// A line for each such thread that can be read under `proc`, usually `/proc`; nothing where there are none. Threads are found
/// by their interface's name: those of another network namespace's interface of the same name are among them.
pub fn text(ports: &[PortView], proc: &Path) -> String {
    let interfaces: BTreeSet<&str> = ports.iter().map(|port| port.interface.as_str()).collect();
    let mut lines: Vec<(String, f64)> = Vec::new();
    for entry in std::fs::read_dir(proc).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(name) = std::fs::read_to_string(path.join("comm")) else { continue };
        let interface = name.trim().strip_prefix("napi/").and_then(|name| name.rsplit_once('-')).map(|(of, _)| of);
        if !interface.is_some_and(|of| interfaces.contains(of)) {
            continue;
        }
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        if let Some(ns) = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()) {
            lines.push((name.trim().to_owned(), ns / 1e9));
        }
    }
    lines.sort_by(|a, b| a.0.cmp(&b.0));
    lines.into_iter().map(|(name, seconds)| format!("  kernel thread {name}: {seconds:.2} s of CPU time\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_ports_interfaces_are_found() {
        let proc = std::env::temp_dir().join(format!("weir-napi-{}", std::process::id()));
        for (pid, comm, schedstat) in [
            ("7", "napi/eth0-8193\n", "2500000000 5 9\n"),
            ("8", "napi/eth01-3\n", "1 1 1\n"),
            ("9", "sh\n", "1 1 1\n"),
        ] {
            std::fs::create_dir_all(proc.join(pid)).unwrap();
            std::fs::write(proc.join(pid).join("comm"), comm).unwrap();
            std::fs::write(proc.join(pid).join("schedstat"), schedstat).unwrap();
        }
        let port = |interface: &str| PortView { interface: interface.to_owned(), ..PortView::default() };
        let said = text(&[port("eth0"), port("eth0"), port("eth2")], &proc);
        std::fs::remove_dir_all(&proc).unwrap();
        assert_eq!(said, "  kernel thread napi/eth0-8193: 2.50 s of CPU time\n");
    }
}
