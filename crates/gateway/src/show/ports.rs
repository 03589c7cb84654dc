//! `weir show ports`: what each port is, and what it has seen.

use crate::socket::PortView;
use crate::tables::{Style, Table, count};

/// The page. `before`: show what was counted since. `all`: counters that are zero, too.
pub fn text(ports: &[PortView], before: Option<&[PortView]>, all: bool, style: Style) -> String {
    let mut table = Table::new(&[
        "port",
        ">worker",
        "side",
        "kind",
        "interface",
        "link",
        "hardware address",
        ">mtu",
        ">slots",
        "detail",
    ]);
    for port in ports {
        table.row([
            port.name.clone(),
            port.worker.to_string(),
            port.role.clone(),
            port.kind.clone(),
            port.interface.clone(),
            port.link.clone(),
            port.mac.clone(),
            port.mtu.to_string(),
            count(port.held),
            port.detail.clone(),
        ]);
    }
    let mut out = table.render(style);
    out.push('\n');
    out += &counters(ports, before, all, style);
    out
}

/// One row for each counter, ports side by side in groups of six.
fn counters(ports: &[PortView], before: Option<&[PortView]>, all: bool, style: Style) -> String {
    let mut out = String::new();
    let several = ports.iter().any(|port| port.worker > 0);
    for group in ports.chunks(6) {
        let head = |port: &PortView| match several {
            true => format!(">{}@{}", port.name, port.worker),
            false => format!(">{}", port.name),
        };
        let title = if before.is_some() { "counted meanwhile" } else { "counted" };
        let heads = [title.to_owned()].into_iter().chain(group.iter().map(head));
        let mut table = Table::new(&heads.collect::<Vec<_>>());
        for name in names(group) {
            let values: Vec<u64> = group.iter().map(|port| value(port, before, name)).collect();
            if all || values.iter().any(|v| *v > 0) {
                table.row([name.to_owned()].into_iter().chain(values.into_iter().map(count)));
            }
        }
        if table.is_empty() {
            table.row(["nothing".to_owned()]);
        }
        out += &table.render(style);
        out.push('\n');
    }
    out
}

/// A port's counter, less what it was before.
fn value(port: &PortView, before: Option<&[PortView]>, name: &str) -> u64 {
    let find = |port: &PortView| port.counters.iter().find(|(n, _)| n == name).map_or(0, |(_, v)| *v);
    let same = |b: &&PortView| b.name == port.name && b.worker == port.worker;
    find(port).saturating_sub(before.and_then(|list| list.iter().find(same)).map_or(0, find))
}

/// All counters of those ports, each once, in the order of the first that has it.
fn names(ports: &[PortView]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in ports.iter().flat_map(|port| &port.counters) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}
