//! Subscribers as `weir show subscribers`, `weir trace` and the HTTP API list them.

use gateway::connected::{Connected, ConnectedView, Filter, Used};
use wire::Mac;

use crate::sessions::Sessions;

use super::observer::{Observer, upper_half};

/// Servers that have granted what a subscriber has by relay.
fn leased_by(sessions: Option<&Sessions>, handle: u32) -> Vec<String> {
    let servers = sessions.map(|sessions| sessions.granted_by(handle)).unwrap_or_default();
    servers.iter().map(ToString::to_string).collect()
}

/// Subscribers counted while control is locked: some microseconds.
const COUNTED: u32 = 1024;

impl Connected for Observer {
    fn kind(&self) -> &'static str {
        "subscribers"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["name", "address", "mac", "group", "profile", "port", "s_vlan", "c_vlan"]
    }

    fn total(&self) -> u64 {
        let end = self.numbers();
        let count = |first: u32| self.control().count(first..end.min(first + COUNTED));
        (0..end).step_by(COUNTED as usize).map(|first| count(first) as u64).sum()
    }

    fn numbers(&self) -> u32 {
        self.control().handles()
    }

    fn indexed(&self, filter: &Filter) -> Option<Vec<u32>> {
        let name = filter.name.as_deref().filter(|name| !name.ends_with('*'))?;
        Some(self.control().find(name).map(|spec| spec.handle).into_iter().collect())
    }

    fn entries(&self, numbers: &[u32]) -> Vec<ConnectedView> {
        let control = self.control();
        let config = control.config();
        let view = |number: &u32| {
            let spec = control.subscriber(*number)?;
            let v4 = spec.ipv4.map(|address| std::net::Ipv4Addr::from(address).to_string());
            let wan = spec.wan.map(|upper| format!("{}/64", upper_half(upper)));
            let pd = spec.pd.map(|(upper, len)| format!("{}/{len}", upper_half(upper)));
            Some(ConnectedView {
                number: *number,
                name: Some(control.name(spec)),
                mac: spec.mac.map(|mac| Mac(mac).to_string()),
                addresses: v4.into_iter().chain(wan).chain(pd).collect(),
                group: config.group.get(usize::from(spec.group)).map(|group| group.name.clone()),
                profile: config.profile.get(usize::from(spec.profile)).map(|profile| profile.name.clone()),
                port: config.port.get(usize::from(spec.line.port)).map(|port| port.name.clone()),
                s_vlan: Some(spec.line.s_vlan),
                c_vlan: Some(spec.line.c_vlan),
                leased_by: leased_by(control.sessions(), *number),
                ..ConnectedView::default()
            })
        };
        numbers.iter().filter_map(view).collect()
    }

    fn used(&self, numbers: &[u32]) -> Result<Vec<Option<Used>>, String> {
        self.reports(numbers, |_, reports| {
            let sum = |pair: [u64; 2]| pair[0] + pair[1];
            let used = |number: &u32| {
                let usage = reports.usage.get(number)?;
                Some(Used {
                    up_packets: sum(usage.up_packets),
                    up_bytes: sum(usage.up_bytes),
                    down_packets: sum(usage.down_packets),
                    down_bytes: sum(usage.down_bytes),
                    mac: usage.mac,
                })
            };
            numbers.iter().map(used).collect()
        })
    }
}
