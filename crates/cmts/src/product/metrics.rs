//! What only a cable gateway tells. Labels are service groups, channels and traffic priorities; modems are too many to have
//! series of their own, and come and go: what must only grow is counted by channel.

use super::protocol::{ChannelView, ChannelsView};
use gateway::metrics::Kind::{Counter, Gauge};
use gateway::metrics::Page;

/// What is known of a cable gateway.
#[derive(Clone, Debug, Default)]
pub struct CableKnown {
    /// Modems of each service group.
    pub modems: Vec<(String, u64)>,
    /// Service flows that are there, of each service group and traffic priority.
    pub flows: Vec<ServiceFlows>,
    /// Channels, and what is counted besides.
    pub channels: ChannelsView,
    /// A standby is there.
    pub standby: bool,
}

/// Downstream service flows of a service group and traffic priority.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceFlows {
    /// The service group.
    pub service_group: String,
    /// The traffic priority, 0 to 7.
    pub priority: u8,
    /// How many.
    pub flows: u64,
    /// Packets that wait in them.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The metric families that only a cable gateway has.
pub fn told(known: &CableKnown) -> Page {
    let mut page = Page::default();
    let mut family = page.family("weir_modems", Gauge, "Modems of a service group, multicast groups among them.");
    for (group, modems) in &known.modems {
        family.sample(&[("service_group", group)], modems);
    }
    flows(&mut page, known);
    channels(&mut page, &known.channels.channels);
    let help = "Lookups, filters, classifiers, bursts, requests and grants, as `weir show channels` counts them.";
    let mut family = page.family("weir_cable_events_total", Counter, help);
    for (event, n, _) in &known.channels.counters {
        family.sample(&[("event", event)], n);
    }
    let help = "1 while a standby is told what it would need to go on.";
    page.one("weir_standby", Gauge, help, u8::from(known.standby));
    page
}

fn flows(page: &mut Page, known: &CableKnown) {
    let mut each = |name: &str, help: &str, value: fn(&ServiceFlows) -> u64| {
        let mut family = page.family(name, Gauge, help);
        for flows in &known.flows {
            let labels = [("service_group", flows.service_group.as_str()), ("priority", &flows.priority.to_string())];
            family.sample(&labels, value(flows));
        }
    };
    each("weir_service_flows", "Downstream service flows, by traffic priority.", |flows| flows.flows);
    let help = "Packets that wait in downstream service flows, by traffic priority.";
    each("weir_service_flow_waiting_packets", help, |flows| flows.packets);
    let help = "Bytes that wait in downstream service flows, by traffic priority.";
    each("weir_service_flow_waiting_bytes", help, |flows| flows.bytes);
}

fn channels(page: &mut Page, channels: &[ChannelView]) {
    let mut each = |name: &str, kind, help: &str, value: fn(&ChannelView) -> u64| {
        let mut family = page.family(name, kind, help);
        for channel in channels {
            family.sample(&labels(channel), value(channel));
        }
    };
    let help = "Bytes a second that a downstream channel carries.";
    each("weir_channel_capacity_bytes_per_second", Gauge, help, |channel| channel.capacity / 8);
    each("weir_channel_frames_total", Counter, "MAC frames sent by a channel.", |channel| channel.packets);
    each("weir_channel_frame_bytes_total", Counter, "Their bytes.", |channel| channel.bits / 8);
    let help = "DEPI packets of a channel that had no more room when they left.";
    each("weir_channel_depi_full_packets_total", Counter, help, |channel| channel.depi_full);
    let help = "DEPI packets of a channel, by how many segments they have; 7 stands for more, too.";
    let mut family = page.family("weir_channel_depi_packets_total", Counter, help);
    for channel in channels {
        let [group, name] = labels(channel);
        for (segments, packets) in channel.segments.iter().enumerate() {
            family.sample(&[group, name, ("segments", &segments.to_string())], packets);
        }
    }
}

fn labels(channel: &ChannelView) -> [(&str, &str); 2] {
    [("service_group", &channel.service_group), ("channel", &channel.channel)]
}
