//! `weir gen broadband`: subscribers behind two VLAN tags and a host of the core, on both sides of a broadband gateway.
//!
//! Each subscriber gets its lease by DHCP (RFC 2131), resolves its router by ARP, then sends and receives signed
//! packets. Every packet that arrives is checked: at a subscriber its two tags and hardware address, at both ends
//! addresses, TTL, header checksum, and that the flow of its signature is that of its addresses.
//!
//! | file | content |
//! |---|---|
//! | `frames.rs` | frames: DHCP, ARP, signed packets |
//! | `drive.rs` | what is sent when, and what becomes of what arrives |

pub(super) mod drive;
pub(super) mod frames;

use std::net::Ipv4Addr;

use anyhow::bail;
use clap::Args;
use gateway::cli::{packets_per_second, seconds};
use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::signals;
use gateway::tables::{Style, Table, count, si};
use schemars::JsonSchema;
use serde::Serialize;
use wire::ethertype;

use self::frames::Place;

/// `weir gen broadband`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  sudo weir lab up bng                     the network of examples/bng.toml, with the commands
  weir gen broadband                       a hundred subscribers of that example
  weir gen broadband --subscribers 1000 --pps 20000 --seconds 30 --json

Subscribers get addresses by DHCP; each has a line of its own: --s-vlan, --c-vlan plus its number.
With --tags 1 lines have one tag, with --tags 0 none.")]
pub struct BroadbandArgs {
    /// Subscribers and ports.
    #[command(flatten)]
    pub lines: LineArgs,
    /// Packets a second, both directions together.
    #[arg(long, value_name = "RATE", default_value = "2000", value_parser = packets_per_second)]
    pub pps: f64,
    /// Duration of traffic.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub seconds: f64,
    /// Fail if a greater share of packets was lost.
    #[arg(long, value_name = "RATIO")]
    pub max_loss: Option<f64>,
}

/// Subscribers behind VLAN tags, the core's host, and the ports they are at.
#[derive(Clone, Debug, Args)]
pub struct LineArgs {
    /// The port at the access lines.
    #[arg(long, value_name = "URI", default_value = "packet:line0?promisc=on")]
    pub access: String,
    /// The port in the core.
    #[arg(long, value_name = "URI", default_value = "packet:core0")]
    pub core: String,
    /// Subscribers, a line each.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=4000))]
    pub subscribers: u16,
    /// VLAN tags of a line: 2, 1 (0x8100, with --c-vlan), or 0: lines differ by hardware addresses.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub tags: u8,
    /// Outer VLAN of all lines [default: 100].
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub s_vlan: Option<u16>,
    /// Inner VLAN of the first line [default: 2001].
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub c_vlan: Option<u16>,
    /// EtherType of the outer tag [default: 0x88a8].
    #[arg(long, value_name = "TPID", value_parser = tpid)]
    pub tpid: Option<u16>,
    /// The host of the core; ARP for it is answered here.
    #[arg(long, value_name = "ADDRESS", default_value = "198.18.0.254")]
    pub server: Ipv4Addr,
    /// The gateway's address in the core.
    #[arg(long, value_name = "ADDRESS", default_value = "198.18.0.1")]
    pub gateway: Ipv4Addr,
    /// Bytes of an IP packet.
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = clap::value_parser!(u16).range(64..=1500))]
    pub size: u16,
}

impl LineArgs {
    /// Where each line is, by its number.
    ///
    /// # Errors
    /// VLANs beyond 4094, or of tags that lines have not.
    fn place(&self) -> Result<impl Fn(u16) -> Place + use<>, Usage> {
        let Self { tags, subscribers, .. } = *self;
        let unread = [
            ("--s-vlan", self.s_vlan.is_some() && tags < 2),
            ("--tpid", self.tpid.is_some() && tags < 2),
            ("--c-vlan", self.c_vlan.is_some() && tags < 1),
        ];
        if let Some((option, _)) = unread.iter().find(|(_, unread)| *unread) {
            return Err(Usage(format!("{option} has no effect with --tags {tags}")));
        }
        let first = self.c_vlan.unwrap_or(2001);
        if tags > 0 && u32::from(first) + u32::from(subscribers) - 1 > 4094 {
            let what = "the last inner VLAN is over 4094";
            return Err(Usage(format!("--c-vlan {first} and --subscribers {subscribers}: {what}")));
        }
        let (tpid, s_vlan) = (self.tpid.unwrap_or(ethertype::SERVICE_VLAN), self.s_vlan.unwrap_or(100));
        Ok(move |n| match tags {
            2 => Place::Double { tpid, s_vlan, c_vlan: first + n },
            1 => Place::Single(first + n),
            _ => Place::Untagged,
        })
    }
}

fn tpid(text: &str) -> Result<u16, String> {
    match text.strip_prefix("0x").and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
        Some(tpid @ (0x88a8 | 0x8100 | 0x9100)) => Ok(tpid),
        _ => Err("allowed: 0x88a8, 0x8100, 0x9100".to_owned()),
    }
}

/// What became of subscribers and packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct BroadbandResult {
    /// Subscribers, a line each.
    pub subscribers: u64,
    /// Those that got a lease by DHCP.
    pub leases: u64,
    /// Those of them whose router answered ARP.
    pub routers_resolved: u64,
    /// Answers of DHCP and ARP that came with other tags than the line's.
    pub control_wrong_tags: u64,
    /// Seconds of traffic.
    pub seconds: f64,
    /// From subscribers.
    pub uplink: BroadbandCounts,
    /// To subscribers.
    pub downlink: BroadbandCounts,
    /// Packets lost of those sent, both directions: 0 to 1.
    pub loss_ratio: f64,
}

/// Signed packets of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct BroadbandCounts {
    /// Packets that were sent.
    pub sent_packets: u64,
    /// Packets that the port did not take.
    pub unsent_packets: u64,
    /// Packets that arrived and were right.
    pub received_packets: u64,
    /// Packets that did not arrive, or were not right.
    pub lost_packets: u64,
    /// Packets behind a later one of their flow; among those received.
    pub reordered_packets: u64,
    /// Packets that arrived once more; not among those received.
    pub duplicated_packets: u64,
    /// Packets with other tags than the line's.
    pub wrong_tags_packets: u64,
    /// Packets whose addresses, hardware or IP, are not those of their flow.
    pub misdelivered_packets: u64,
    /// Packets with a wrong TTL or header checksum.
    pub corrupt_packets: u64,
    /// Mean time between sending and receiving, in microseconds.
    pub latency_us_mean: f64,
    /// Half of the packets were not slower.
    pub latency_us_p50: f64,
    /// 99 % were not slower.
    pub latency_us_p99: f64,
    /// The longest.
    pub latency_us_max: f64,
}

/// Brings subscribers up, sends and checks.
///
/// # Errors
/// A port that cannot be opened, a gateway that does not answer, no lease at all, wrong packets, or more loss than
/// `--max-loss` allows.
pub fn run(args: &BroadbandArgs, json: &JsonOutput) -> anyhow::Result<()> {
    let stop = signals::stop_flag()?;
    let result = drive::drive(args, &stop)?;
    json.print(&result, || text(&result, Style::of_stdout()))?;
    let wrong =
        |counts: &BroadbandCounts| counts.wrong_tags_packets + counts.misdelivered_packets + counts.corrupt_packets;
    let wrong = wrong(&result.uplink) + wrong(&result.downlink) + result.control_wrong_tags;
    if result.leases == 0 {
        bail!("no subscriber got a lease: does the gateway run, and has a group these VLANs with [group.sessions]?");
    }
    if result.routers_resolved == 0 {
        bail!("no router answered ARP: no packet was sent");
    }
    if args.max_loss.is_some() && result.routers_resolved < result.subscribers {
        bail!("only {} of {} subscribers could send", result.routers_resolved, result.subscribers);
    }
    if wrong > 0 {
        bail!("{wrong} packets arrived with wrong tags, addresses, TTL or checksum");
    }
    match args.max_loss {
        Some(most) if result.loss_ratio > most => bail!("loss of {:.6} is over {most}", result.loss_ratio),
        _ => Ok(()),
    }
}

fn text(result: &BroadbandResult, style: Style) -> String {
    let mut out = format!(
        "{} subscribers: {} have a lease, {} of their routers answer\n\n",
        count(result.subscribers),
        count(result.leases),
        count(result.routers_resolved)
    );
    let mut table = Table::new(&[
        "direction",
        ">packets/s",
        ">sent",
        ">received",
        ">lost",
        ">wrong tags",
        ">misdelivered",
        ">latency",
    ]);
    for (name, counts) in [("uplink", &result.uplink), ("downlink", &result.downlink)] {
        table.row([
            name.to_owned(),
            si((counts.received_packets as f64 / result.seconds.max(1e-9)).round()),
            count(counts.sent_packets),
            count(counts.received_packets),
            count(counts.lost_packets),
            count(counts.wrong_tags_packets),
            count(counts.misdelivered_packets),
            format!("{:.0} µs", counts.latency_us_mean),
        ]);
    }
    out += &table.render(style);
    out
}
