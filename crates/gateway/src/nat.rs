//! Translation of a gateway's subscribers: which of them has which public ports (`weir show nat`), and the log of that.

pub mod log;

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use dataplane::config::{ConfigError, Links, Nat, wrong};
use dataplane::forward::InstanceId;
use dataplane::nat::{Addresses, BlockEvent, Change};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use table::ring::Consumer;

use self::log::NatLog;
use crate::cli::{Key, ShowArgs};
use crate::connected;
use crate::host_routing::{ServedPrefix, cover4};
use crate::shell::reload::LiveKey;
use crate::show::{self, Look, View};
use crate::socket::Ask;
use crate::tables::{Style, Table, count};

/// Translation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NatView {
    /// Subscribers with blocks.
    pub subscribers: u64,
    /// Blocks they have.
    pub blocks: u64,
    /// Mappings on them.
    pub mappings: u64,
    /// The blocks, by subscriber: a thousand at most.
    pub list: Vec<BlockView>,
}

/// A block of public ports that a subscriber has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockView {
    /// The subscriber's own address.
    pub private: IpAddr,
    /// The network instance it is in.
    pub instance: String,
    /// Its public address.
    pub public: IpAddr,
    /// First and last port.
    pub ports: [u16; 2],
    /// Mappings on them.
    pub mappings: u16,
}

/// A question, as `{"ask": "nat", "ue": "10.60.0.1"}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Who has which blocks of public ports.
    Nat {
        /// Only the subscriber's with this address.
        #[serde(default)]
        ue: Option<IpAddr>,
    },
}

/// An answer, as `{"nat": {…}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// To [`Request::Nat`].
    Nat(NatView),
}

impl Ask for Request {
    type Answer = Reply;
    const NAMES: &'static [&'static str] = &["nat"];
}

/// `weir show nat`.
pub const VIEW: View = View::of::<Blocks>();

struct Blocks;

impl show::Table for Blocks {
    type Seen = NatView;
    const TOPIC: &'static str = "nat";
    const HELP: &'static str = "Address translation: blocks of public ports by subscriber; with --ue one subscriber's";
    const KEYS: &'static [Key] = &[connected::KEYS[0]];

    fn question(args: &ShowArgs) -> Result<impl Serialize, String> {
        Ok(Request::Nat { ue: show::address(args.keys.get(&connected::KEYS[0]))? })
    }

    fn text(look: &Look<'_, NatView>) -> String {
        text(&look.now, look.style)
    }
}

const fn key(key: &'static str, help: &'static str) -> LiveKey {
    LiveKey { key, help }
}

/// Keys that a reload applies while subscribers are translated.
pub const LIVE: [LiveKey; 10] = [
    key(
        "nat.pool",
        "An address taken out gets no new subscribers; those that have ports of it keep them and their connections, and it stays \
         the translator's until a restart. New addresses are divided among workers. Refused: the first or last pool of a network \
         instance, over 500 new addresses a worker, a worker that would have none, or addresses of a pool that subscribers have, \
         though it was taken out.",
    ),
    key("nat.blocks_per_subscriber", "Counts for new blocks."),
    key("nat.block_idle_seconds", "Counts for blocks that become idle, or are looked at, from now on."),
    key("nat.block_hold_seconds", "Counts for blocks that end from now on."),
    key("nat.tcp_seconds", "Counts when a mapping is used or looked at next; so do the other lives of mappings."),
    key("nat.tcp_opening_seconds", "As `nat.tcp_seconds`."),
    key("nat.udp_seconds", "As `nat.tcp_seconds`."),
    key("nat.udp_unanswered_seconds", "As `nat.tcp_seconds`."),
    key("nat.icmp_seconds", "As `nat.tcp_seconds`."),
    key("nat.refresh_from_outside", "Workers go by it from their next turn."),
];

/// Whether one of those keys is among `keys`.
pub fn is_changed(keys: &[&str]) -> bool {
    LIVE.iter().any(|live| keys.contains(&live.key))
}

/// What a reload changes of translation: the public addresses then, and what each worker is told.
pub type Reload = (Addresses, Vec<Change>);

/// Makes what a reload changes. `links` are the new configuration's, `nat` its section, `addresses` what workers have; none:
/// nothing is translated.
///
/// # Errors
/// What needs a restart, by key.
pub fn prepare(
    addresses: Option<&Addresses>,
    nat: Option<&Nat>,
    links: &Links<'_>,
) -> Result<Option<Reload>, ConfigError> {
    let (Some(addresses), Some(section)) = (addresses, nat) else { return Ok(None) };
    // Whatever it is chosen by: workers keep theirs.
    let change = addresses.change(&section.stage(links, 1));
    Ok(Some(change.map_err(|why| wrong(&[&"nat", &"pool"], why.to_string(), "restart the gateway for it"))?))
}

/// The log of the workers with those rings, as configured. `instances`: network instances by number.
///
/// # Errors
/// The file cannot be written.
pub fn log_of(
    nat: Option<&Nat>,
    rings: Vec<Consumer<BlockEvent>>,
    instances: Vec<String>,
) -> Result<NatLog, ConfigError> {
    let (file, interval) = nat.map_or((None, 0), |nat| (nat.log.as_deref(), nat.log_sync_ms));
    let log = NatLog::new(rings, instances, file, Duration::from_millis(interval.into()));
    log.map_err(|why| {
        wrong(&[&"nat", &"log"], format!("it cannot be written: {why}"), "a file in a folder that is there")
    })
}

/// The prefixes of public addresses, first and last, with their VRFs.
pub fn served(ranges: Vec<(InstanceId, (Ipv4Addr, Ipv4Addr))>) -> Vec<ServedPrefix> {
    let of_range = |(instance, (first, last)): (InstanceId, (Ipv4Addr, Ipv4Addr))| {
        cover4(first.into(), last.into()).into_iter().map(move |(to, len)| ServedPrefix { instance, to, len })
    };
    ranges.into_iter().flat_map(of_range).collect()
}

/// Says what is missing in `[nat]`.
pub fn warn(nat: Option<&Nat>) {
    if nat.is_some_and(|nat| nat.log.is_none()) {
        let text = "public ports cannot be traced to subscribers later: set nat.log to a file";
        tracing::warn!(target: "process", event = "config_warning", key = "nat.log", "{text}");
    }
}

/// A secret that hashes and ports are chosen by.
pub fn chance() -> u128 {
    let word = || u128::from(RandomState::new().hash_one(0u64));
    word() << 64 | word()
}

/// NAT blocks that a worker may tell of before control looks.
pub const RING: usize = 16_384;

impl NatView {
    /// Blocks in the table at most.
    pub const MOST: usize = 1000;

    /// Adds blocks that a worker has given out, with the mappings on each; all of them are counted, and shown those of the
    /// subscriber with that address, or all. `names`: network instances by number.
    pub fn add(&mut self, names: &[String], blocks: &[(BlockEvent, u16)], of: Option<IpAddr>) {
        self.blocks += blocks.len() as u64;
        let is_shown = |(block, _): &&(BlockEvent, u16)| of.is_none_or(|of| of == IpAddr::V4(block.private));
        let name = |instance: InstanceId| names.get(usize::from(instance)).cloned().unwrap_or_default();
        self.list.extend(blocks.iter().filter(is_shown).map(|(block, mappings)| BlockView {
            private: block.private.into(),
            instance: name(block.instance),
            public: block.public.into(),
            ports: [block.first_port, block.last_port],
            mappings: *mappings,
        }));
    }

    /// In order, and no more than [`MOST`](Self::MOST).
    pub fn sorted(mut self) -> Self {
        self.list.sort_by(|a, b| {
            (&a.instance, a.private, a.public, a.ports).cmp(&(&b.instance, b.private, b.public, b.ports))
        });
        self.list.truncate(Self::MOST);
        self
    }
}

/// `weir show nat` as text.
pub fn text(view: &NatView, style: Style) -> String {
    let mut out = format!(
        "{} subscribers, {} blocks of ports, {} mappings\n\n",
        count(view.subscribers),
        count(view.blocks),
        count(view.mappings)
    );
    let mut table = Table::new(&["subscriber", "network", "public", ">ports", ">mappings"]);
    for block in &view.list {
        let [first, last] = block.ports;
        table.row([
            block.private.to_string(),
            block.instance.clone(),
            block.public.to_string(),
            format!("{first}–{last}"),
            count(block.mappings.into()),
        ]);
    }
    if table.is_empty() {
        out += "  no block is allocated\n";
    } else {
        out += &table.render(style);
    }
    let more = view.blocks.saturating_sub(view.list.len() as u64);
    if more > 0 && !view.list.is_empty() {
        out += &format!("\n  and {} blocks more; --ue ADDRESS shows one subscriber's\n", count(more));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_blocks() {
        let block = BlockView {
            private: "10.60.0.1".parse().unwrap(),
            instance: "core".into(),
            public: "192.0.2.1".parse().unwrap(),
            ports: [1024, 1151],
            mappings: 3,
        };
        let view = NatView { subscribers: 2, blocks: 2, mappings: 5, list: vec![block] };
        let wanted = "
2 subscribers, 2 blocks of ports, 5 mappings

  subscriber  network  public         ports  mappings
  ───────────────────────────────────────────────────
  10.60.0.1   core     192.0.2.1  1024–1151         3

  and 1 blocks more; --ue ADDRESS shows one subscriber's
";
        assert_eq!(format!("\n{}", text(&view, Style::default())), wanted);
        assert!(text(&NatView::default(), Style::default()).contains("no block is allocated"));
    }
}
