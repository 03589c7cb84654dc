//! The tables that only a cable gateway has.

use gateway::connected::{ConnectedTable, SELECTORS, Topic};
use serde::Serialize;

use super::protocol::{CableReply, CableRequest, ChannelsView, ClassifierView, FlowView, ModemView, Request};
use gateway::cli::{Key, ShowArgs};
use gateway::show::{Look, Table as Shown, View};
use gateway::tables::{Style, Table, bytes, count, many, si};

/// All of them.
pub const VIEWS: &[View] = &[View::of::<ConnectedTable<Modems>>(), View::of::<ServiceFlows>(), View::of::<Channels>()];

/// The option that names a modem.
const MODEM: Key = SELECTORS[4];

/// Modems.
struct Modems;

impl Topic for Modems {
    const TOPIC: &'static str = "modems";
    const HELP: &'static str = "Cable modems: service group, profile, hosts, packets in both directions";
}

struct ServiceFlows;

impl Shown for ServiceFlows {
    type Seen = CableReply;
    const TOPIC: &'static str = "service-flows";
    const HELP: &'static str = "Downstream service flows: rates, queues, drops, waits. With --modem one modem's";

    const KEYS: &'static [Key] = &[MODEM];

    fn question(args: &ShowArgs) -> Result<impl Serialize, String> {
        let modem = args.keys.get(&MODEM).map(str::to_owned);
        Ok(Request::Cable(CableRequest::ServiceFlows { modem }))
    }

    fn text(look: &Look<'_, CableReply>) -> String {
        text(&look.now, look.earlier.as_ref(), look.style)
    }
}

struct Channels;

impl Shown for Channels {
    type Seen = CableReply;
    const TOPIC: &'static str = "channels";
    const HELP: &'static str =
        "Downstream channels: load, DEPI packets; lookups, filters, classifiers, bursts and grants besides";

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Cable(CableRequest::Channels))
    }

    fn text(look: &Look<'_, CableReply>) -> String {
        text(&look.now, look.earlier.as_ref(), look.style)
    }
}

/// The page; `before`: what an earlier look saw.
pub fn text(view: &CableReply, before: Option<&CableReply>, style: Style) -> String {
    match (view, before) {
        (CableReply::Modems(modems), _) => self::modems(modems, style),
        (CableReply::ServiceFlows(flows), _) => self::flows(flows, style),
        (CableReply::Channels(now), Some(CableReply::Channels(before))) => channels(&since(now, before), style),
        (CableReply::Channels(now), _) => channels(now, style),
        (CableReply::Classifiers(rules), _) => classifiers(rules, style),
        (CableReply::Done(sentence), _) => format!("{sentence}\n"),
    }
}

fn modems(modems: &[ModemView], style: Style) -> String {
    let mut table = Table::new(&[
        "modem",
        "group",
        "profile",
        "hosts",
        ">sid",
        ">said/key",
        ">down packets",
        ">bytes",
        ">up packets",
        ">bytes",
    ]);
    for modem in modems {
        let hosts = match modem.hosts.as_slice() {
            [] => "none".to_owned(),
            [one] => one.to_string(),
            [first, rest @ ..] => format!("{first} +{}", rest.len()),
        };
        table.row([
            modem.modem.clone(),
            modem.service_group.clone(),
            modem.profile.clone(),
            hosts,
            modem.sids.iter().map(u16::to_string).collect::<Vec<_>>().join(","),
            modem.key.map_or_else(|| "clear".to_owned(), |key| format!("{}/{}", key.said, key.sequence)),
            count(modem.down_packets),
            bytes(modem.down_bytes),
            count(modem.up_packets),
            bytes(modem.up_bytes),
        ]);
    }
    format!("{}\n\n{}", style.strong(&many(modems.len(), "modem")), table.render(style))
}

fn classifiers(rules: &[ClassifierView], style: Style) -> String {
    let mut table = Table::new(&[">id", "rule"]);
    for ClassifierView { id, rule } in rules {
        table.row([id.to_string(), rule.trim().replace('\n', ", ")]);
    }
    format!("{}\n\n{}", style.strong(&many(rules.len(), "classifier")), table.render(style))
}

fn flows(flows: &[FlowView], style: Style) -> String {
    let mut table = Table::new(&[
        "modem",
        "flow",
        ">rate",
        ">peak",
        ">reserved",
        ">prio",
        ">dsid",
        ">came",
        ">sent",
        ">bits",
        ">waiting",
        ">bits",
        ">full",
        ">aqm",
        ">p(drop)",
        ">mean wait",
        ">jitter",
        ">longest",
    ]);
    let rate = |rate: Option<u64>| rate.map_or_else(|| "–".to_owned(), |rate| format!("{}bit/s", si(rate as f64)));
    for flow in flows {
        table.row([
            flow.modem.clone(),
            flow.flow.clone(),
            rate(flow.rate),
            rate(flow.peak),
            rate(flow.reserved),
            flow.priority.to_string(),
            flow.dsid.map_or_else(|| "–".to_owned(), |dsid| dsid.to_string()),
            count(flow.packets_in),
            count(flow.packets),
            si(flow.bits as f64),
            flow.waiting.to_string(),
            si(flow.waiting_bits as f64),
            count(flow.full),
            count(flow.aqm),
            format!("{:.3}", flow.drop_probability),
            format!("{:.0} µs", flow.mean_us),
            format!("{:.0} µs", flow.jitter_us),
            format!("{:.0} µs", flow.longest_us),
        ]);
    }
    let heading = many(flows.len(), "service flow");
    format!("{}\n\n{}", style.strong(&heading), table.render(style))
}

/// What came between two looks.
fn since(now: &ChannelsView, before: &ChannelsView) -> ChannelsView {
    let mut view = now.clone();
    view.seconds = now.seconds - before.seconds;
    for (channel, old) in view.channels.iter_mut().zip(&before.channels) {
        channel.packets -= old.packets.min(channel.packets);
        channel.bits -= old.bits.min(channel.bits);
        channel.selects -= old.selects.min(channel.selects);
        channel.depi_packets -= old.depi_packets.min(channel.depi_packets);
        channel.depi_full -= old.depi_full.min(channel.depi_full);
        channel.depi_partial -= old.depi_partial.min(channel.depi_partial);
        channel.mean_frame_bytes = channel.bits as f64 / 8.0 / channel.packets.max(1) as f64;
        for (n, old) in channel.segments.iter_mut().zip(old.segments) {
            *n -= old.min(*n);
        }
    }
    for ((_, n, _), (_, old, _)) in view.counters.iter_mut().zip(&before.counters) {
        *n -= (*old).min(*n);
    }
    view
}

fn channels(view: &ChannelsView, style: Style) -> String {
    let mut table = Table::new(&[
        "group",
        "channel",
        ">session",
        ">capacity",
        ">load",
        ">frames",
        ">mean",
        ">selects",
        ">DEPI",
        ">full",
        ">partial",
        ">1 segment",
        ">2",
        ">3",
        ">4",
        ">5",
        ">6",
        ">7+",
    ]);
    for channel in &view.channels {
        let load = channel.bits as f64 / (channel.capacity as f64 * view.seconds).max(1.0);
        let head = [
            channel.service_group.clone(),
            channel.channel.clone(),
            format!("{:#x}", channel.session),
            format!("{}bit/s", si(channel.capacity as f64)),
            format!("{:.1} %", load * 100.0),
            count(channel.packets),
            format!("{:.0} B", channel.mean_frame_bytes),
            count(channel.selects),
            count(channel.depi_packets),
            count(channel.depi_full),
            count(channel.depi_partial),
        ];
        table.row(head.into_iter().chain(channel.segments[1..].iter().map(|n| count(*n))));
    }
    let mut out = format!("{}\n\n{}\n", style.strong(&many(view.channels.len(), "channel")), table.render(style));
    let mut table = Table::new(&["counted", ">so far", ""]);
    for (id, n, help) in view.counters.iter().filter(|(_, n, _)| *n > 0) {
        table.row([id.clone(), count(*n), help.clone()]);
    }
    if !table.is_empty() {
        out += &table.render(style);
    }
    out
}
