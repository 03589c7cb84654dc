//! `weir gen broadband`: subscribers behind two VLAN tags and hosts of the core, on both sides of a broadband gateway.
//!
//! Each subscriber gets its lease by DHCP (RFC 2131) and resolves its router by ARP; with `--ipv6` also an address and a
//! prefix by DHCPv6 (RFC 8415) and its router by router discovery (RFC 4861). Then it sends and receives signed packets.
//! Every packet that arrives is checked: at a subscriber its two tags and hardware address, at both ends addresses, TTL,
//! checksum, and that the flow of its signature is that of its addresses.
//!
//! | file | content |
//! |---|---|
//! | `numbering.rs` | tags and addresses of a subscriber by its number |
//! | `line.rs` | a subscriber: what it has, what it asks for next |
//! | `frames.rs` | frames: DHCP, ARP, signed packets |
//! | `frames6.rs` | the same of IPv6: DHCPv6, router and neighbour discovery |
//! | `drive.rs` | what is sent when |
//! | `receive.rs` | what becomes of what arrives |

pub(super) mod drive;
pub(super) mod frames;
mod frames6;
mod line;
mod numbering;
mod receive;

use std::io::IsTerminal;
use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::bail;
use clap::Args;
use gateway::cli::{packets_per_second, seconds};
use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::shell::pin;
use gateway::signals;
use gateway::tables::{Style, Table, count, duration, si};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::ethertype;

use self::numbering::Numbering;

/// `weir gen broadband`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  sudo weir lab up bng                     the network of examples/bng.toml, with the commands
  weir gen broadband                       a hundred subscribers of that example
  weir gen broadband --subscribers 1000 --pps 20000 --seconds 30 --json
  weir gen broadband --subscribers 256000 --setup-rate 20000 --ipv6 --servers 200 --release

Subscribers get addresses by DHCP; each has a line of its own: --s-vlan, --c-vlan plus its number,
and the next outer VLAN after --c-vlans of them. With --tags 1 lines have one tag, with --tags 0
none. With --ipv6 each also has an address and a delegated prefix, and sends from both.")]
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
    /// End the leases afterwards, at --setup-rate.
    #[arg(long)]
    pub release: bool,
    /// Run on this CPU.
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Also print a result as JSON each second.
    #[arg(long, hide = true)]
    pub each_second: bool,
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
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub subscribers: u32,
    /// Subscribers that begin to ask for addresses a second.
    #[arg(long, value_name = "RATE", default_value = "5000", value_parser = setup_rate)]
    pub setup_rate: f64,
    /// Dual stack: also an address and a delegated prefix by DHCPv6.
    #[arg(long)]
    pub ipv6: bool,
    /// VLAN tags of a line: 2, 1 (0x8100, with --c-vlan), or 0: lines differ by hardware addresses.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub tags: u8,
    /// Outer VLAN of all lines [default: 100].
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub s_vlan: Option<u16>,
    /// Inner VLAN of the first line [default: 2001].
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub c_vlan: Option<u16>,
    /// Inner VLANs of an outer one, before the next [default: 2000, or as many as there are].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4094))]
    pub c_vlans: Option<u16>,
    /// EtherType of the outer tag [default: 0x88a8].
    #[arg(long, value_name = "TPID", value_parser = tpid)]
    pub tpid: Option<u16>,
    /// The first host of the core; ARP for it is answered here.
    #[arg(long, value_name = "ADDRESS", default_value = "198.18.0.254")]
    pub server: Ipv4Addr,
    /// Hosts of the core, with addresses that follow --server; subscribers are divided among them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub servers: u32,
    /// The first of them in IPv6; solicitations for it are answered here [default: fd00:18::254].
    #[arg(long, value_name = "ADDRESS")]
    pub server6: Option<Ipv6Addr>,
    /// The gateway's address in the core.
    #[arg(long, value_name = "ADDRESS", default_value = "198.18.0.1")]
    pub gateway: Ipv4Addr,
    /// Bytes of an IP packet.
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = clap::value_parser!(u16).range(64..=1500))]
    pub size: u16,
}

impl LineArgs {
    /// The host of the core that a subscriber talks to.
    fn server(&self, n: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.server.to_bits().wrapping_add(n % self.servers))
    }

    /// As [`server`](Self::server).
    fn server6(&self, n: u32) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.first6().to_bits().wrapping_add((n % self.servers).into()))
    }

    fn first6(&self) -> Ipv6Addr {
        self.server6.unwrap_or(Ipv6Addr::new(0xfd00, 0x18, 0, 0, 0, 0, 0, 0x254))
    }

    fn is_server(&self, address: Ipv4Addr) -> bool {
        address.to_bits().wrapping_sub(self.server.to_bits()) < self.servers
    }

    fn is_server6(&self, address: Ipv6Addr) -> bool {
        address.to_bits().wrapping_sub(self.first6().to_bits()) < self.servers.into()
    }

    /// How lines are numbered.
    ///
    /// # Errors
    /// VLANs beyond 4094, or of tags that lines have not; an option without effect.
    fn numbering(&self) -> Result<Numbering, Usage> {
        let Self { tags, subscribers, .. } = *self;
        let unread = [
            ("--s-vlan", self.s_vlan.is_some() && tags < 2),
            ("--c-vlans", self.c_vlans.is_some() && tags < 2),
            ("--tpid", self.tpid.is_some() && tags < 2),
            ("--c-vlan", self.c_vlan.is_some() && tags < 1),
        ];
        if let Some((option, _)) = unread.iter().find(|(_, unread)| *unread) {
            return Err(Usage(format!("{option} has no effect with --tags {tags}")));
        }
        if self.server6.is_some() && !self.ipv6 {
            return Err(Usage("--server6 has no effect without --ipv6".to_owned()));
        }
        if self.is_server(self.gateway) {
            let (first, count) = (self.server, self.servers);
            return Err(Usage(format!("--server {first} --servers {count}: the gateway's address is one of them")));
        }
        if self.ipv6 && usize::from(self.size) < frames6::SHORTEST {
            return Err(Usage(format!("--size {}: allowed with --ipv6: {} to 1500", self.size, frames6::SHORTEST)));
        }
        let (s_vlan, c_vlan) = (self.s_vlan.unwrap_or(100), self.c_vlan.unwrap_or(2001));
        let c_vlans = self.c_vlans.unwrap_or((4095 - c_vlan).min(2000));
        let too_many = |of: &str| {
            let asked = format!("--c-vlan {c_vlan}, {c_vlans} of them, and --subscribers {subscribers}");
            Usage(format!("{asked}: the last {of} VLAN is over 4094"))
        };
        let (last, most) = (subscribers - 1, 4094);
        if tags == 1 && u32::from(c_vlan) + last > most
            || tags == 2 && u32::from(c_vlan) + u32::from(c_vlans) - 1 > most
        {
            return Err(too_many("inner"));
        }
        if tags == 2 && u32::from(s_vlan) + last / u32::from(c_vlans) > most {
            return Err(too_many("outer"));
        }
        Ok(Numbering { tags, tpid: self.tpid.unwrap_or(ethertype::SERVICE_VLAN), s_vlan, c_vlan, c_vlans })
    }
}

fn setup_rate(text: &str) -> Result<f64, String> {
    packets_per_second(text)
        .ok()
        .filter(|rate| *rate >= 1.0)
        .ok_or_else(|| "a number of at least 1, such as 5000".into())
}

/// What subscribers are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// They ask for addresses.
    Setup,
    /// They send and receive.
    Traffic,
    /// They end their leases.
    Release,
}

fn tpid(text: &str) -> Result<u16, String> {
    match text.strip_prefix("0x").and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
        Some(tpid @ (0x88a8 | 0x8100 | 0x9100)) => Ok(tpid),
        _ => Err("allowed: 0x88a8, 0x8100, 0x9100".to_owned()),
    }
}

/// What became of subscribers and packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BroadbandResult {
    /// Subscribers, a line each.
    pub subscribers: u64,
    /// Those that got a lease by DHCP.
    pub leases: u64,
    /// Those of them whose router answered ARP.
    pub routers_resolved: u64,
    /// Those that got an address and a prefix by DHCPv6.
    pub leases6: u64,
    /// Those to whom a router has advertised itself.
    pub routers6_resolved: u64,
    /// Seconds until the last subscriber had all it asked for.
    pub setup_seconds: f64,
    /// Subscribers that have sent messages to end their leases.
    pub released: u64,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Packets with a wrong TTL or checksum.
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
    if let Some(cpu) = args.cpu
        && !pin::pin(cpu)
    {
        bail!(Usage(format!("this process may not run on CPU {cpu}; there are {:?}", pin::cpus())));
    }
    let live = std::io::stderr().is_terminal() && !json.is_on_stdout();
    let result = drive::drive(args, &stop, &mut |phase, result| {
        if args.each_second {
            // Nobody reads: nothing is lost.
            let _ = serde_json::to_string(result).map(|line| println!("{line}"));
        }
        if live {
            eprint!("\r\x1b[K{}", progress(phase, result));
        }
    })?;
    if live {
        eprint!("\r\x1b[K");
    }
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
    let able = if args.lines.ipv6 { result.routers6_resolved.min(result.leases6) } else { result.routers_resolved };
    if args.max_loss.is_some() && able < result.subscribers {
        bail!("only {able} of {} subscribers could send", result.subscribers);
    }
    if wrong > 0 {
        bail!("{wrong} packets arrived with wrong tags, addresses, TTL or checksum");
    }
    match args.max_loss {
        Some(most) if result.loss_ratio > most => bail!("loss of {:.6} is over {most}", result.loss_ratio),
        _ => Ok(()),
    }
}

/// A line on what goes on.
fn progress(phase: Phase, result: &BroadbandResult) -> String {
    let sum = |of: fn(&BroadbandCounts) -> u64| count(of(&result.uplink) + of(&result.downlink));
    match phase {
        Phase::Setup => format!("{} of {} subscribers have a lease", count(result.leases), count(result.subscribers)),
        Phase::Traffic => format!(
            "{:.0} s, {} packets sent, {} received",
            result.seconds,
            sum(|counts| counts.sent_packets),
            sum(|counts| counts.received_packets)
        ),
        Phase::Release => format!("{} subscribers have asked to end their leases", count(result.released)),
    }
}

fn text(result: &BroadbandResult, style: Style) -> String {
    let mut out = format!(
        "{} subscribers after {}: {} have a lease, {} of their routers answer\n",
        count(result.subscribers),
        duration(result.setup_seconds),
        count(result.leases),
        count(result.routers_resolved)
    );
    if result.leases6 > 0 {
        let (leases, routers) = (count(result.leases6), count(result.routers6_resolved));
        out += &format!("{leases} have an IPv6 address and a prefix, {routers} an IPv6 router\n");
    }
    out += "\n";
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
    if result.released > 0 {
        out += &format!("\n{} have sent messages to end their leases\n", count(result.released));
    }
    out
}
