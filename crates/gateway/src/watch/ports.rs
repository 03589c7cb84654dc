//! Links that go and come, and ports that lose packets.

use std::collections::BTreeMap;

use crate::socket::PortView;

/// Looks without a loss after which a port has recovered: seconds.
const QUIET: u32 = 10;

/// What is known of the ports.
#[derive(Debug, Default)]
pub struct Ports(BTreeMap<String, Port>);

#[derive(Debug)]
struct Port {
    link: String,
    interface: String,
    /// Packets lost so far, by reason.
    lost: BTreeMap<String, u64>,
    /// Since it was reported: losses at that time, and looks without any since the last.
    losing: Option<(u64, u32)>,
}

/// A port's state over all workers: the worst of the links, the sum of the losses.
fn together(views: &[PortView]) -> BTreeMap<&str, (&str, &str, BTreeMap<String, u64>)> {
    let rank = |link: &str| ["gone", "down"].iter().position(|bad| *bad == link).unwrap_or(2);
    let mut all: BTreeMap<&str, (&str, &str, BTreeMap<String, u64>)> = BTreeMap::new();
    for view in views {
        let (link, _, lost) =
            all.entry(&view.name).or_insert_with(|| (view.link.as_str(), view.interface.as_str(), BTreeMap::new()));
        if rank(&view.link) < rank(link) {
            *link = &view.link;
        }
        for (reason, packets) in view.losses() {
            *lost.entry(reason.to_owned()).or_default() += packets;
        }
    }
    all
}

impl Ports {
    /// A look at the ports of all workers, once a second.
    pub fn look(&mut self, views: &[PortView]) {
        for (name, (link, interface, lost)) in together(views) {
            let port = self.0.entry(name.to_owned()).or_insert_with(|| Port {
                link: "up".to_owned(),
                interface: interface.to_owned(),
                lost: lost.clone(),
                losing: None,
            });
            if port.link != link {
                report_link(name, &port.interface, link);
                port.link = link.to_owned();
            }
            port.losses(name, lost);
        }
    }

    /// Ports without a link, a sentence each.
    pub fn down(&self) -> Vec<String> {
        let down = self.0.iter().filter(|(_, port)| port.link != "up");
        down.map(|(name, port)| match port.link.as_str() {
            "gone" => format!("port {name}: the interface is gone"),
            _ => format!("port {name}: no link"),
        })
        .collect()
    }
}

fn report_link(port: &str, interface: &str, link: &str) {
    match link {
        "up" => tracing::info!(target: "port", event = "link_up", port, interface, "port {port} has a link"),
        "gone" => {
            tracing::error!(target: "port", event = "interface_gone", port, interface, "port {port} has no interface");
        }
        _ => tracing::warn!(target: "port", event = "link_down", port, interface, "port {port} has no link"),
    }
}

impl Port {
    fn losses(&mut self, name: &str, lost: BTreeMap<String, u64>) {
        // A counter may begin again with its interface.
        let more: Vec<(&String, u64)> = lost
            .iter()
            .map(|(reason, packets)| (reason, packets.saturating_sub(self.lost.get(reason).copied().unwrap_or(0))))
            .filter(|(_, packets)| *packets > 0)
            .collect();
        let total: u64 = lost.values().sum();
        match (&mut self.losing, more.is_empty()) {
            (None, true) => {}
            (None, false) => {
                let reasons: Vec<_> = more.iter().map(|(reason, packets)| format!("{reason}:{packets}")).collect();
                let packets: u64 = more.iter().map(|(_, packets)| packets).sum();
                tracing::warn!(
                    target: "port", event = "port_errors",
                    port = name, interface = self.interface, packets, reasons = reasons.join(","),
                    "port {name} loses packets"
                );
                self.losing = Some((total - packets.min(total), 0));
            }
            (Some((_, quiet)), false) => *quiet = 0,
            (Some((before, quiet)), true) => {
                *quiet += 1;
                if *quiet >= QUIET {
                    let packets = total.saturating_sub(*before);
                    tracing::info!(
                        target: "port", event = "port_errors_over", port = name, packets,
                        "port {name} has lost no packet for {QUIET} s"
                    );
                    self.losing = None;
                }
            }
        }
        self.lost = lost;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::emitted;

    fn view(worker: u16, link: &str, tx_full: u64) -> PortView {
        PortView {
            name: "n3".into(),
            worker,
            interface: "eth0".into(),
            link: link.into(),
            counters: vec![("rx_packets".into(), 7), ("tx_full".into(), tx_full)],
            ..PortView::default()
        }
    }

    #[test]
    fn a_link_is_reported_once_for_all_workers() {
        let records = emitted("info", || {
            let mut ports = Ports::default();
            for links in [["up", "up"], ["down", "up"], ["down", "down"], ["gone", "down"], ["up", "up"], ["up", "up"]]
            {
                ports.look(&[view(0, links[0], 0), view(1, links[1], 0)]);
            }
            assert!(ports.down().is_empty());
            ports.look(&[view(0, "gone", 0)]);
            assert_eq!(ports.down(), ["port n3: the interface is gone"]);
        });
        let events: Vec<_> = records.iter().map(|record| record.event.as_str()).collect();
        assert_eq!(events, ["link_down", "interface_gone", "link_up", "interface_gone"]);
    }

    #[test]
    fn losses_are_reported_once_until_they_are_over() {
        let records = emitted("info", || {
            let mut ports = Ports::default();
            let mut look = |lost| ports.look(&[view(0, "up", lost), view(1, "up", 2)]);
            look(5);
            (0..30).for_each(|n| look(5 + n * 10));
            (0..30).for_each(|_| look(295));
            look(296);
        });
        let said: Vec<_> = records.iter().map(|record| record.logfmt(false)).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("event=port_errors port=n3 interface=eth0 packets=10 reasons=tx_full:10"), "{said:?}");
        assert!(said[1].contains("event=port_errors_over port=n3 packets=290"), "{said:?}");
        assert!(said[2].contains("event=port_errors port=n3 interface=eth0 packets=1 "), "{said:?}");
    }
}
