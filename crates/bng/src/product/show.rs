//! The tables that only a broadband gateway has.

use gateway::cli::{Key, ShowArgs};
use gateway::connected::{self, ConnectedTable, Topic};
use gateway::show::{Look, Table as Shown, View};
use gateway::tables::{Style, Table, bytes, count, many};
use serde::Serialize;

use super::protocol::{
    BngReply, BngRequest, CrossedView, Filter, GroupsView, MovedView, QueuesView, Request, SessionsView,
    SubscribersView,
};

/// All of them.
pub const VIEWS: &[View] = &[
    View::of::<ConnectedTable<Subscribers>>(),
    View::of::<Queues>(),
    View::of::<Groups>(),
    View::of::<Sessions>(),
    gateway::nat::VIEW,
];

/// `weir show subscribers`.
struct Subscribers;

impl Topic for Subscribers {
    const TOPIC: &'static str = "subscribers";
    const HELP: &'static str = "Subscribers of a broadband gateway: line, addresses, usage. With --filter some of them";
}

/// The option that chooses some of them.
const FILTER: Key = connected::FILTER;

struct Queues;

impl Shown for Queues {
    type Seen = BngReply;
    const TOPIC: &'static str = "queues";
    const HELP: &'static str = "Queues of shaped subscribers, by class: waits, drops. With --filter those of some";
    const KEYS: &'static [Key] = &[FILTER];

    fn question(args: &ShowArgs) -> Result<impl Serialize, String> {
        let filter = args.keys.get(&FILTER).map(Filter::parse).transpose()?.unwrap_or_default();
        Ok(Request::Bng(BngRequest::Queues { filter }))
    }

    fn text(look: &Look<'_, BngReply>) -> String {
        text(&look.now, look.style)
    }
}

struct Groups;

impl Shown for Groups {
    type Seen = BngReply;
    const TOPIC: &'static str = "groups";
    const HELP: &'static str =
        "Subscriber groups, their workers and moves; control packets by class; access lists' rules";

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Bng(BngRequest::Groups))
    }

    fn text(look: &Look<'_, BngReply>) -> String {
        text(&look.now, look.style)
    }
}

struct Sessions;

impl Shown for Sessions {
    type Seen = BngReply;
    const TOPIC: &'static str = "dhcp";
    const HELP: &'static str = "Sessions by DHCP and SLAAC: how many there are, and what became of requests for them";

    fn question(_args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Bng(BngRequest::Sessions))
    }

    fn text(look: &Look<'_, BngReply>) -> String {
        text(&look.now, look.style)
    }
}

fn sessions(view: &SessionsView, style: Style) -> String {
    let (subscribers, leases) = (many(view.subscribers as usize, "session"), many(view.leases as usize, "lease"));
    let mut out = format!("{}, {leases}\n", style.strong(&subscribers));
    if view.restored + view.not_restored > 0 {
        out += &format!("{} taken over from an earlier run, {} not\n", count(view.restored), count(view.not_restored));
    }
    let mut table = Table::new(&["DHCP server", "network", "state", ">requests", ">replies", ">without reply"]);
    for row in &view.servers {
        let state = if row.answers { "answers" } else { "no reply" };
        let counts = [row.requests, row.replies, row.unanswered].map(count);
        let [requests, replies, unanswered] = counts;
        table.row([row.server.clone(), row.instance.clone(), state.to_owned(), requests, replies, unanswered]);
    }
    if !table.is_empty() {
        out += &format!("\n{}", table.render(style));
    }
    let mut table = Table::new(&["protocol", "outcome", ">requests", ""]);
    for row in view.requests.iter().filter(|row| row.requests > 0) {
        table.row([row.protocol.clone(), row.outcome.clone(), count(row.requests), row.meaning.clone()]);
    }
    if !table.is_empty() {
        out += &format!("\n{}", table.render(style));
    }
    out
}

pub fn text(view: &BngReply, style: Style) -> String {
    match view {
        BngReply::Sessions(view) => sessions(view, style),
        BngReply::Cleared(name) => format!("{name} cleared\n"),
        BngReply::Subscribers(view) => subscribers(view, style),
        BngReply::Groups(view) => groups(view, style),
        BngReply::Queues(view) => queues(view, style),
        BngReply::Address(address) => format!("{address}\n"),
        BngReply::Moved(view) => moved(view),
        BngReply::MovedToProcess(view) => crossed(view),
    }
}

fn moved(view: &MovedView) -> String {
    let subscribers = many(view.subscribers as usize, "subscriber");
    format!(
        "{} moved from worker {} to worker {} in {:.1} ms: {subscribers}; {} waited, the first for {:.3} ms\n",
        view.group,
        view.from_worker,
        view.to_worker,
        view.took_us as f64 / 1e3,
        many(view.held_packets as usize, "packet"),
        view.pause_us as f64 / 1e3,
    )
}

fn crossed(view: &CrossedView) -> String {
    let subscribers = many(view.subscribers as usize, "subscriber");
    format!(
        "{} moved to the process at {} in {:.1} ms: {subscribers}; its packets waited for {:.3} ms\n",
        view.group,
        view.to_process,
        view.took_us as f64 / 1e3,
        view.pause_us as f64 / 1e3,
    )
}

fn subscribers(view: &SubscribersView, style: Style) -> String {
    let mut table = Table::new(&[
        "subscriber",
        "group",
        "line",
        "mac",
        "ipv4",
        "wan",
        "delegated",
        "profile",
        ">down packets",
        ">bytes",
        ">up packets",
        ">bytes",
    ]);
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    for row in &view.subscribers {
        let sum = |pair: [u64; 2]| pair[0] + pair[1];
        table.row([
            row.name.clone(),
            row.group.clone(),
            format!("{}:{}.{}", row.port, row.s_vlan, row.c_vlan),
            or_none(row.mac.clone()),
            or_none(row.ipv4.map(|address| address.to_string())),
            or_none(row.ipv6_wan.clone()),
            or_none(row.ipv6_pd.clone()),
            row.profile.clone(),
            count(sum(row.down_packets)),
            bytes(sum(row.down_bytes)),
            count(sum(row.up_packets)),
            bytes(sum(row.up_bytes)),
        ]);
    }
    let mut out = format!("{}\n\n{}", style.strong(&many(view.matching, "subscriber")), table.render(style));
    // Of one, the reason; of more, a word each would tell little.
    if let [row] = &view.subscribers[..]
        && let Some(place) = &row.fast_path
    {
        out += &format!("packets are forwarded {place}\n");
    }
    let shown = view.offset + view.subscribers.len();
    if shown < view.matching {
        out += &format!("{} to {shown} shown; --filter offset={shown} for the next\n", view.offset + 1);
    }
    out
}

fn queues(view: &QueuesView, style: Style) -> String {
    let mut table = Table::new(&[
        "subscriber",
        "profile",
        "class",
        ">waiting",
        ">bytes",
        ">sent",
        ">bytes",
        ">mean wait",
        ">queue full",
        ">waited too long",
    ]);
    for row in &view.queues {
        table.row([
            row.subscriber.clone(),
            row.profile.clone(),
            row.class.clone(),
            count(row.waiting_packets),
            bytes(row.waiting_bytes),
            count(row.packets),
            bytes(row.bytes),
            format!("{:.3} ms", row.mean_wait_ns as f64 / 1e6),
            count(row.queue_full),
            count(row.queue_management),
        ]);
    }
    let (packets, size) = (many(view.waiting_packets as usize, "packet"), bytes(view.waiting_bytes));
    let mut out = format!("{} wait, {size}\n", style.strong(&packets));
    match table.is_empty() {
        true => out += "None of these subscribers is shaped: `shape` in their profile.\n",
        false => out += &format!("\n{}", table.render(style)),
    }
    out
}

fn groups(view: &GroupsView, style: Style) -> String {
    let mut table = Table::new(&["group", ">worker", ">subscribers", ">moves", ">last took", ">packets waited"]);
    let ms = |us: Option<u64>| us.map_or_else(|| "–".to_owned(), |us| format!("{:.3} ms", us as f64 / 1e3));
    for row in &view.groups {
        let worker = match () {
            () if !row.here && row.moving => "elsewhere, moves".to_owned(),
            () if !row.here => row.process.clone().unwrap_or_else(|| "elsewhere".to_owned()),
            () if row.moving => format!("{}, moves", row.worker),
            () if row.worker != row.home_worker => format!("{}, of {}", row.worker, row.home_worker),
            () => row.worker.to_string(),
        };
        let (last, pause) = (ms(row.last_move_us), ms(row.last_pause_us));
        table.row([row.name.clone(), worker, count(row.subscribers), count(row.moves), last, pause]);
    }
    let mut out = format!("{}\n\n{}", style.strong(&many(view.groups.len(), "group")), table.render(style));
    if let Some(passed) = &view.passed {
        let [on, taken, not] = [passed.on, passed.taken_in, passed.not_passed_on].map(count);
        out += &format!("\npackets of groups elsewhere: {on} passed on, {taken} taken in, {not} not passed on\n");
    }
    let mut table = Table::new(&["control packets", ">so far", ">over the limit"]);
    for row in &view.classes {
        table.row([row.class.clone(), count(row.packets), count(row.limited)]);
    }
    out += &format!("\n{}", table.render(style));
    let mut table = Table::new(&["list", "rule", ">packets", ">bytes"]);
    for row in &view.rules {
        table.row([row.list.clone(), row.rule.clone(), count(row.packets), bytes(row.bytes)]);
    }
    if !table.is_empty() {
        out += &format!("\n{}", table.render(style));
    }
    let mut table = Table::new(&["in-kernel path", ">so far", ""]);
    for row in &view.kernel {
        table.row([row.name.clone(), count(row.count), row.meaning.clone()]);
    }
    if !table.is_empty() {
        out += &format!("\n{}", table.render(style));
    }
    out
}
