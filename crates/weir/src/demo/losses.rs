//! Where packets were lost: every place between gNBs and servers that counts what it loses, and what none of them counted.

use ::bench::lab::LinkDrops;
use traffic::TrialResult;

use gateway::snapshot::Snapshot;
use gateway::socket::PortView;
use gateway::tables::{Style, count};

/// Packets lost, by place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Sent and not received.
    packets: u64,
    /// Place, and packets that it counted.
    places: Vec<(String, u64)>,
}

/// What both sides of a gateway are called, and who is there.
pub struct Sides {
    /// Towards subscribers, towards networks.
    pub links: [&'static str; 2],
    /// Who receives what goes there.
    pub ends: [&'static str; 2],
}

/// Those of a user plane.
pub const USER_PLANE: Sides = Sides { links: ["N3", "N6"], ends: ["gNBs", "servers"] };

impl Lost {
    /// Of one run: what the load found, what the gateway dropped, what its ports and the links lost meanwhile.
    pub fn of(traffic: &TrialResult, carried: &Snapshot, ports: &[PortView], links: LinkDrops, sides: &Sides) -> Self {
        let mut places = Vec::new();
        let mut at = |place: String, packets: u64| {
            if packets > 0 {
                places.push((place, packets));
            }
        };
        for (side, name) in sides.links.into_iter().enumerate() {
            at(format!("on the link to {name}, its queue full"), links.to_gateway[side]);
        }
        for port in ports {
            for (what, packets) in port.losses() {
                at(format!("at {}, {what}", port.name), packets);
            }
        }
        for drop in carried.workers.iter().flat_map(|worker| &worker.drops) {
            at(format!("dropped by {}, {}", drop.stage, drop.reason), drop.packets);
        }
        for (side, name) in sides.links.into_iter().enumerate() {
            at(format!("on the link from {name}, its queue full"), links.to_load[side]);
        }
        let directions = &traffic.directions;
        for (who, d) in sides.ends.into_iter().zip([directions.downlink, directions.uplink]) {
            at(format!("at the {who}, their ring full"), d.missed_packets);
            at(format!("at the {who}, damaged"), d.corrupt_packets);
            at(format!("at the {who}, in the wrong tunnel, VLAN or place"), d.misdelivered_packets);
            at(format!("at the {who}, too late"), d.stale_packets);
        }
        Self { packets: directions.uplink.lost_packets + directions.downlink.lost_packets, places }
    }

    /// Packets that no place has counted.
    fn unnamed(&self) -> u64 {
        self.packets.saturating_sub(self.places.iter().map(|(_, packets)| packets).sum())
    }

    /// The lines of a summary; none when nothing was lost.
    pub fn text(&self, style: Style) -> String {
        let mut lines: Vec<String> =
            self.places.iter().map(|(place, packets)| format!("{} {place}", count(*packets))).collect();
        if self.unnamed() > 0 {
            lines.push(style.alarm(&format!("{} at an uncounted place", count(self.unnamed()))));
        }
        match lines.is_empty() {
            true => String::new(),
            false => format!("  lost           {}\n", lines.join("\n                 ")),
        }
    }
}

/// What the ports counted since.
pub fn since(now: &[PortView], before: &[PortView]) -> Vec<PortView> {
    let was = |port: &PortView, what: &str| {
        let same = before.iter().find(|b| b.name == port.name && b.worker == port.worker);
        same.and_then(|b| b.counters.iter().find(|(known, _)| known == what)).map_or(0, |(_, packets)| *packets)
    };
    let mut ports = now.to_vec();
    for port in &mut ports {
        let less: Vec<(String, u64)> = port
            .counters
            .iter()
            .map(|(what, packets)| (what.clone(), packets.saturating_sub(was(port, what))))
            .collect();
        port.counters = less;
    }
    ports
}

#[cfg(test)]
mod tests {
    use traffic::{DirectionResult, Directions};

    use super::*;
    use gateway::snapshot::{DropCounters, WorkerCounters};

    #[test]
    fn every_loss_has_a_place_or_is_said_to_have_none() {
        let uplink = DirectionResult { lost_packets: 20, missed_packets: 6, ..DirectionResult::default() };
        let traffic =
            TrialResult { directions: Directions { uplink, ..Directions::default() }, ..TrialResult::default() };
        let dropped =
            DropCounters { stage: "uplink.sdf".into(), reason: "gate_closed".into(), packets: 4, ..Default::default() };
        let worker = WorkerCounters { drops: vec![dropped], ..WorkerCounters::default() };
        let carried = Snapshot { workers: vec![worker], ..Snapshot::default() };
        let port = |lost: u64| PortView {
            name: "n3".into(),
            counters: vec![("rx_packets".into(), 1000 * lost), ("rx_ring_full".into(), lost)],
            ..PortView::default()
        };
        let ports = since(&[port(7)], &[port(2)]);
        let links = LinkDrops { to_gateway: [3, 0], to_load: [0, 0] };
        let lost = Lost::of(&traffic, &carried, &ports, links, &USER_PLANE);
        assert_eq!(lost.unnamed(), 2);
        let text = lost.text(Style::coloured(false));
        for line in [
            "3 on the link to N3",
            "5 at n3, rx_ring_full",
            "4 dropped by uplink.sdf, gate_closed",
            "6 at the servers",
            "2 at an uncounted place",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert_eq!(
            Lost::of(&TrialResult::default(), &Snapshot::default(), &[], LinkDrops::default(), &USER_PLANE)
                .text(Style::coloured(false)),
            ""
        );
    }
}
