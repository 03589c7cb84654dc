//! The table of `weir show sessions`, and the one entry that `weir trace` follows.

use std::net::IpAddr;

use anyhow::{Context, bail};

use super::{ConnectedPage, ConnectedRequest, ConnectedView};
use crate::socket::{Client, Reply, Request};
use crate::tables::{Style, Table, bytes, count, per, si};

/// A column: its head, how it stands, and what an entry has there.
type Column = (&'static str, fn(&ConnectedView) -> Option<String>);

fn list(texts: &[String]) -> Option<String> {
    match texts {
        [] => None,
        [one] => Some(one.clone()),
        [one, two] => Some(format!("{one} {two}")),
        [one, rest @ ..] => Some(format!("{one} +{}", rest.len())),
    }
}

fn line(entry: &ConnectedView) -> Option<String> {
    let (port, outer, inner) = (entry.port.as_ref()?, entry.s_vlan.unwrap_or(0), entry.c_vlan.unwrap_or(0));
    Some(format!("{port}:{outer}.{inner}"))
}

fn rate(bps: Option<f64>) -> Option<String> {
    bps.map(|bps| format!("{}bit/s", si(bps)))
}

/// Columns that are shown where an entry of the page has something in them.
const COLUMNS: &[Column] = &[
    ("subscriber", |entry| entry.name.clone()),
    ("imsi", |entry| entry.imsi.clone()),
    ("msisdn", |entry| entry.msisdn.clone()),
    ("mac", |entry| entry.mac.clone()),
    ("addresses", |entry| list(&entry.addresses)),
    ("teid", |entry| list(&entry.teids.iter().map(|teid| format!("{teid:#010x}")).collect::<Vec<_>>())),
    ("seid", |entry| entry.seid.map(|seid| format!("{:#x}", seid.0))),
    ("dnn", |entry| entry.dnn.clone()),
    ("network", |entry| entry.network_instance.clone()),
    ("group", |entry| entry.group.clone()),
    ("profile", |entry| entry.profile.clone()),
    ("line", line),
    ("leased by", |entry| list(&entry.leased_by)),
    (">worker", |entry| entry.worker.map(|worker| worker.to_string())),
    (">up packets", |entry| Some(count(entry.up_packets))),
    (">bytes", |entry| Some(bytes(entry.up_bytes))),
    (">down packets", |entry| Some(count(entry.down_packets))),
    (">bytes", |entry| Some(bytes(entry.down_bytes))),
    (">up", |entry| rate(entry.up_bps)),
    (">down", |entry| rate(entry.down_bps)),
];

/// Columns in which an entry of the page has something.
fn shown(page: &ConnectedPage) -> Vec<&'static Column> {
    let is_shown = |column: &&Column| page.entries.iter().any(|entry| column.1(entry).is_some());
    COLUMNS.iter().filter(is_shown).collect()
}

/// The page's cells: heads, each with whether it is of numbers, and a row for each entry.
pub fn columns(page: &ConnectedPage) -> (Vec<(&'static str, bool)>, Vec<Vec<String>>) {
    let columns = shown(page);
    let head = |column: &&Column| column.0.strip_prefix('>').map_or((column.0, false), |name| (name, true));
    let cell = |entry: &ConnectedView, column: &Column| column.1(entry).unwrap_or_else(|| "–".to_owned());
    let row = |entry: &ConnectedView| columns.iter().map(|column| cell(entry, column)).collect();
    (columns.iter().map(head).collect(), page.entries.iter().map(row).collect())
}

/// The page as it is printed.
pub fn text(page: &ConnectedPage, style: Style) -> String {
    let mut out = format!("{}\n\n", style.strong(&format!("{} {}", count(page.total), page.kind)));
    let mut table = Table::new(&shown(page).iter().map(|column| column.0).collect::<Vec<_>>());
    columns(page).1.into_iter().for_each(|row| table.row(row));
    match page.entries.is_empty() {
        true => out += &format!("  no {} to show\n", page.kind),
        false => out += &table.render(style),
    }
    if let Some(next) = page.next {
        out += &format!("\n  more: --after {next}\n");
    }
    out += &memory(page, style);
    if !page.control.is_empty() {
        let mut table = Table::new(&[page.kind.as_str(), ">so far"]);
        for (what, n, _) in &page.control {
            table.row([what.clone(), count(*n)]);
        }
        out += &format!("\n{}", table.render(style));
    }
    out
}

/// Entries and their memory by worker.
fn memory(page: &ConnectedPage, style: Style) -> String {
    let kind = format!(">{}", page.kind);
    let mut table = Table::new(&["worker", &kind, ">memory", ">bytes each"]);
    let row = |table: &mut Table, name: String, sessions: u64, size: u64| {
        table.row([name, count(sessions), bytes(size), per(size as f64, sessions as f64, 0)]);
    };
    let (mut sessions, mut size) = (0, 0);
    for worker in &page.workers {
        (sessions, size) = (sessions + worker.sessions, size + worker.bytes);
        row(&mut table, worker.worker.to_string(), worker.sessions, worker.bytes);
    }
    if page.workers.len() > 1 {
        table.rule();
        row(&mut table, "all".to_owned(), sessions, size);
    }
    if table.is_empty() { String::new() } else { format!("\n{}", table.render(style)) }
}

/// A page as long as it was wanted, or to the end: a request ends after a time.
///
/// # Errors
/// The gateway does not answer, or refuses the request.
pub fn whole(client: &mut Client, request: &ConnectedRequest) -> anyhow::Result<ConnectedPage> {
    let is_long = request.top.is_some();
    whole_by(&mut |request| Ok(client.ask_while(&request, |_| is_long)?), request)
}

/// As [`whole`], by whatever asks.
///
/// # Errors
/// As [`whole`].
pub fn whole_by(
    ask: &mut dyn FnMut(Request) -> anyhow::Result<Reply>,
    request: &ConnectedRequest,
) -> anyhow::Result<ConnectedPage> {
    let wanted = if request.limit == 0 { super::PAGE } else { request.limit };
    let (mut request, mut page) = (request.clone(), None::<ConnectedPage>);
    loop {
        let Reply::Connected(more) = ask(Request::Connected(Box::new(request.clone())))? else {
            bail!("the gateway has answered another question");
        };
        let all = match page.take() {
            None => more,
            Some(mut first) => {
                first.entries.extend(more.entries);
                ConnectedPage { entries: first.entries, ..more }
            }
        };
        match all.next.filter(|_| all.entries.len() < wanted) {
            None => return Ok(all),
            Some(next) => {
                request.after = Some(next);
                request.limit = wanted - all.entries.len();
                page = Some(all);
            }
        }
    }
}

/// An address of the only entry that matches, and the entry.
///
/// # Errors
/// None matches, more than one does, or it has no address.
pub fn find(client: &mut Client, request: &ConnectedRequest) -> anyhow::Result<(IpAddr, ConnectedView)> {
    find_by(&mut |request| Ok(client.ask(&request)?), request)
}

/// As [`find`], by whatever asks.
///
/// # Errors
/// As [`find`].
pub fn find_by(
    ask: &mut dyn FnMut(Request) -> anyhow::Result<Reply>,
    request: &ConnectedRequest,
) -> anyhow::Result<(IpAddr, ConnectedView)> {
    let request = ConnectedRequest { limit: 2, ..request.clone() };
    let page = whole_by(ask, &request)?;
    let mut found = page.entries.into_iter();
    let entry = found.next().with_context(|| format!("none of the {} {} matches", count(page.total), page.kind))?;
    if found.next().is_some() {
        bail!("more than one of the {} matches; `weir show {}` with the same options lists them", page.kind, page.kind);
    }
    let address = entry.addresses.first().and_then(|text| text.split('/').next()?.parse().ok());
    let address = address.with_context(|| "it has no address, so no packets of its own".to_owned())?;
    Ok((address, entry))
}
