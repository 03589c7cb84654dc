//! What `weir gen` is to do: a file, the command line over it, defaults under both.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use quantity::read::{packets_per_second, seconds as read_seconds};
use serde::Deserialize;
use traffic::{Profile, ProfileError, Ratio, Sizes, Teids, Verify};
use wire::Mac;

use super::broadband::BroadbandArgs;
use super::cable::CableArgs;
use super::sessions;
use gateway::cli::seconds;
use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::load::{Hints, Rename, Text};

/// Traffic of other gateways.
#[derive(Clone, Debug, Subcommand)]
pub enum GenCommand {
    /// Subscribers behind two VLAN tags, and a host of the core: DHCP, ARP, signed packets, checked tags.
    Broadband(Box<BroadbandArgs>),
    /// Remote-PHY devices with their modems, and a host of the network: DEPI, UEPI, BPI+, checked frames.
    Cable(Box<CableArgs>),
}

/// `weir gen`.
#[derive(Clone, Debug, Default, Args)]
#[command(
    after_help = "\
Examples:
  weir gen examples/gen.toml --pps 200000 --seconds 30
  weir gen --n3 packet:gnb0 --n6 packet:dn0 --upf-n3 10.0.3.1 --upf-n6 10.0.6.1 \\
           --gnb-first 10.0.3.100 --ue-first 10.60.0.1 --ues 1000 \\
           --uplink-teids 0x1000000 --downlink-teids 0x2000000 \\
           --server-first 10.0.6.200 --servers 10 --pps 50000 --sizes imix
  weir gen examples/gen.toml --sessions sessions.jsonl   after weir cp --sessions-out sessions.jsonl
  weir gen broadband                       subscribers behind two VLAN tags, of a broadband gateway
  weir gen cable examples/cmts.toml        Remote-PHY devices with modems, of a cable gateway
  weir gen --responder --n6 packet:dn0     turn around what comes out of N6, for
                                           `weir gen --mirror elsewhere` on N3
  weir gen gen.toml --n3 agent:10.0.0.2:4780 --n6 agent:10.0.0.3:4780 --secret FILE
                                           both ends on other hosts: one way each

A file has the same names with underscores (n3, n6, pps, seconds, …) at its top, and what the
traffic looks like under [profile]; the command line goes over it. Every packet is signed: loss,
duplicates, order and latency are measured for each direction. What could not be sent is counted
as unsent, never hidden.",
    args_conflicts_with_subcommands = true
)]
pub struct GenArgs {
    /// Another kind of gateway than a user plane.
    #[command(subcommand)]
    pub command: Option<GenCommand>,
    /// A file with any of the options below.
    #[arg(value_name = "PROFILE.toml")]
    pub file: Option<PathBuf>,
    /// Reflect packets at N6 instead of sending: the far end of `--mirror elsewhere`.
    #[arg(long)]
    pub responder: bool,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
    /// Print no line each second.
    #[arg(long, short)]
    pub quiet: bool,
    /// Also print a result as JSON each second.
    #[arg(long, hide = true, requires = "json")]
    pub each_second: bool,
    /// Send through the sessions in this file, which `weir cp --sessions-out` wrote.
    #[arg(long, value_name = "FILE")]
    pub sessions: Option<PathBuf>,
    /// Fail (exit code 1) when a larger share of the packets is lost.
    #[arg(long, value_name = "RATIO", value_parser = share)]
    pub max_loss: Option<f64>,

    /// The port on the gateway's access side; agent:HOST:PORT for that of weir agent on another host.
    #[arg(long, value_name = "URI", help_heading = "Ports")]
    pub n3: Option<String>,
    /// The port on the gateway's core side; agent:HOST:PORT for that of weir agent on another host.
    #[arg(long, value_name = "URI", help_heading = "Ports")]
    pub n6: Option<String>,
    /// The gateway's address on N3.
    #[arg(long, value_name = "ADDRESS", help_heading = "Ports")]
    pub upf_n3: Option<IpAddr>,
    /// The gateway's address on N6, whose hardware address is resolved.
    #[arg(long, value_name = "ADDRESS", help_heading = "Ports")]
    pub upf_n6: Option<IpAddr>,
    /// The gateway's hardware address on N3, instead of resolving it.
    #[arg(long, value_name = "MAC", help_heading = "Ports")]
    pub n3_mac: Option<Mac>,
    /// The gateway's hardware address on N6, instead of resolving it.
    #[arg(long, value_name = "MAC", help_heading = "Ports")]
    pub n6_mac: Option<Mac>,
    /// A further address to answer for on N3, such as the next hop of the gateway's routes.
    #[arg(long, value_name = "ADDRESS", help_heading = "Ports")]
    pub answer_n3: Vec<IpAddr>,
    /// A further address to answer for on N6, such as the next hop of the gateway's routes.
    #[arg(long, value_name = "ADDRESS", help_heading = "Ports")]
    pub answer_n6: Vec<IpAddr>,
    /// With agent:HOST:PORT for --n3 and --n6: a file with the secret of the agents.
    #[arg(long, value_name = "FILE", help_heading = "Ports")]
    pub secret: Option<PathBuf>,
    /// With agents: that of the gateway's host, for its processor time and drops.
    #[arg(long, value_name = "HOST:PORT", help_heading = "Ports")]
    pub gateway_agent: Option<String>,
    /// Run on this CPU.
    #[arg(long, value_name = "N", help_heading = "Ports")]
    pub cpu: Option<usize>,

    /// Packets a second, both directions together [default: as many as the ports take].
    #[arg(long, value_name = "N", value_parser = gateway::cli::packets_per_second, help_heading = "How much")]
    pub pps: Option<f64>,
    /// Packets in all.
    #[arg(long, value_name = "N", value_parser = count, help_heading = "How much")]
    pub packets: Option<u64>,
    /// Duration [default: 10].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "How much")]
    pub seconds: Option<f64>,
    /// Ramp from zero to the rate for this long first; packets of the ramp are not counted.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "How much")]
    pub ramp: Option<f64>,
    /// Uplink to downlink, as in 1:9 [default: 1:1].
    #[arg(long, value_name = "UP:DOWN", value_parser = ratio, help_heading = "How much")]
    pub ratio: Option<Ratio>,
    /// Source of the downlink: generated, the uplink reflected here, or by `--responder` elsewhere.
    #[arg(long, value_enum, help_heading = "How much")]
    pub mirror: Option<Mirror>,

    /// Packet sizes of both directions, as Ethernet frames on N6 without FCS: 128, or imix, or 84:65,256:18,1280:17.
    #[arg(long, value_name = "SIZES", value_parser = sizes, help_heading = "Packets")]
    pub sizes: Option<Sizes>,
    /// Packet sizes of the uplink.
    #[arg(long, value_name = "SIZES", value_parser = sizes, help_heading = "Packets")]
    pub uplink_sizes: Option<Sizes>,
    /// Packet sizes of the downlink.
    #[arg(long, value_name = "SIZES", value_parser = sizes, help_heading = "Packets")]
    pub downlink_sizes: Option<Sizes>,
    /// Share of packets, 0 to 1, that open a new flow.
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Packets")]
    pub new_flows: Option<f64>,
    /// Checks of each packet beside its signature.
    #[arg(long, value_enum, help_heading = "Packets")]
    pub verify: Option<Checks>,
    /// Seed of the order in which subscribers are served.
    #[arg(long, value_name = "N", help_heading = "Packets")]
    pub seed: Option<u64>,

    /// Subscribers.
    #[arg(long, value_name = "N", help_heading = "Who")]
    pub ues: Option<u32>,
    /// The first subscriber's IPv4 address.
    #[arg(long, value_name = "ADDRESS", help_heading = "Who")]
    pub ue_first: Option<Ipv4Addr>,
    /// The first subscriber's IPv6 address; each further one has the next /64.
    #[arg(long, value_name = "ADDRESS", help_heading = "Who")]
    pub ue6_first: Option<Ipv6Addr>,
    /// Share of subscribers, 0 to 1, that use IPv6.
    #[arg(long, value_name = "SHARE", value_parser = share, help_heading = "Who")]
    pub ipv6_share: Option<f64>,
    /// Bearers of a subscriber.
    #[arg(long, value_name = "N", help_heading = "Who")]
    pub bearers: Option<u16>,
    /// Flows of a bearer.
    #[arg(long, value_name = "N", help_heading = "Who")]
    pub flows: Option<u16>,
    /// QoS flow identifier of each bearer; none: 4G tunnels without them.
    #[arg(long, value_name = "QFI,…", value_delimiter = ',', num_args = 0.., help_heading = "Who")]
    pub qfis: Option<Vec<u8>>,
    /// The gateway's tunnel identifiers: FIRST, or FIRST+STEP with STEP from one subscriber to the next.
    #[arg(long, value_name = "FIRST[+STEP]", value_parser = teids, help_heading = "Who")]
    pub uplink_teids: Option<Teids>,
    /// The gNBs' tunnel identifiers.
    #[arg(long, value_name = "FIRST[+STEP]", value_parser = teids, help_heading = "Who")]
    pub downlink_teids: Option<Teids>,
    /// gNBs.
    #[arg(long, value_name = "N", help_heading = "Who")]
    pub gnbs: Option<u32>,
    /// The first gNB's address.
    #[arg(long, value_name = "ADDRESS", help_heading = "Who")]
    pub gnb_first: Option<IpAddr>,
    /// Application servers.
    #[arg(long, value_name = "N", help_heading = "Who")]
    pub servers: Option<u32>,
    /// The first server's IPv4 address.
    #[arg(long, value_name = "ADDRESS", help_heading = "Who")]
    pub server_first: Option<Ipv4Addr>,
    /// The first server's IPv6 address.
    #[arg(long, value_name = "ADDRESS", help_heading = "Who")]
    pub server6_first: Option<Ipv6Addr>,
    /// The servers' port for the first flow.
    #[arg(long, value_name = "PORT", help_heading = "Who")]
    pub server_port: Option<u16>,
}

/// Source of the downlink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mirror {
    /// Generated.
    #[default]
    None,
    /// The uplink, reflected at this process's N6.
    Here,
    /// The uplink, reflected by another process.
    Elsewhere,
}

/// Checks beside signatures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checks {
    /// Nothing.
    None,
    /// The tunnel is the expected one.
    #[default]
    Tunnel,
    /// The tunnel, addresses, ports and checksums.
    All,
}

impl From<Checks> for Verify {
    fn from(checks: Checks) -> Self {
        match checks {
            Checks::None => Self::NONE,
            Checks::Tunnel => Self::default(),
            Checks::All => Self::ALL,
        }
    }
}

/// Everything, put together.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spec {
    /// The port on the access side.
    pub n3: Option<String>,
    /// The port on the core side.
    pub n6: Option<String>,
    /// The gateway's address on N6.
    pub upf_n6: Option<IpAddr>,
    /// Addresses to answer for on N3.
    pub answer_n3: Vec<IpAddr>,
    /// Addresses to answer for on N6.
    pub answer_n6: Vec<IpAddr>,
    /// Packets a second.
    #[serde(deserialize_with = "packets_per_second::optional_fraction")]
    pub pps: Option<f64>,
    /// Packets in all.
    pub packets: Option<u64>,
    /// How long.
    #[serde(deserialize_with = "read_seconds::fraction")]
    pub seconds: f64,
    /// How long the rate rises before.
    #[serde(deserialize_with = "read_seconds::fraction")]
    pub ramp: f64,
    /// Source of the downlink.
    pub mirror: Mirror,
    /// What is checked.
    pub verify: Checks,
    /// The CPU to run on.
    pub cpu: Option<usize>,
    /// Packet buffers of the generator.
    #[serde(alias = "slots")]
    pub packet_buffers: u32,
    /// What the traffic looks like.
    pub profile: Profile,
    /// The gateway's hardware address on N3, N6.
    #[serde(skip)]
    pub macs: [Option<Mac>; 2],
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            n3: None,
            n6: None,
            upf_n6: None,
            answer_n3: Vec::new(),
            answer_n6: Vec::new(),
            pps: None,
            packets: None,
            seconds: 10.0,
            ramp: 0.0,
            mirror: Mirror::None,
            verify: Checks::Tunnel,
            cpu: None,
            packet_buffers: 8192,
            profile: Profile::default(),
            macs: [None; 2],
        }
    }
}

impl Spec {
    /// Slots large enough for the largest packet: two kilobytes, or what jumbo frames need.
    pub fn slot_bytes(&self) -> u16 {
        let largest = |sizes: &Sizes| sizes.shares().iter().map(|share| share.bytes).max().unwrap_or(0);
        let profile = &self.profile;
        let largest = largest(&profile.uplink_sizes).max(largest(&profile.downlink_sizes));
        // Headroom, tunnel and tags.
        2048.max(largest.saturating_add(512))
    }
}

/// The IMIX of the embb profile: small, middle, large.
const IMIX: &[(u16, u32)] = &[(64, 7), (576, 4), (1400, 1)];

/// Keys that have a new name.
const RENAMED: &[Rename] = &[Rename::new("Spec", "slots", "packet_buffers")];

/// Reads the file, if there is one, and puts the command line over it.
///
/// # Errors
/// What is wrong with either.
pub fn spec(args: &GenArgs) -> anyhow::Result<Spec> {
    let mut spec: Spec = match &args.file {
        Some(path) => Text::read(path)?.parse_with(Hints { renamed: RENAMED, ..Hints::default() })?,
        None => Spec::default(),
    };
    args.lay_over(&mut spec);
    if let Some(path) = &args.sessions {
        sessions::read(path, &mut spec.profile)?;
    }
    let missing = |what: &str| Usage(format!("{what}, such as packet:eth0"));
    if spec.n6.is_none() && (args.responder || spec.mirror != Mirror::Elsewhere) {
        return Err(missing("give --n6 the port on the gateway's core side").into());
    }
    if spec.n3.is_none() && !args.responder {
        return Err(missing("give --n3 the port on the gateway's access side").into());
    }
    if args.responder {
        spec.mirror = Mirror::Here;
        if args.seconds.is_none() && args.file.is_none() {
            // A responder runs until it is interrupted.
            spec.seconds = 1e9;
        }
    }
    if spec.pps.is_some_and(|pps| !pps.is_finite() || pps <= 0.0) {
        return Err(Usage("--pps: a rate above 0, or none for as many as the ports take".to_owned()).into());
    }
    if !(0.0..=1e9).contains(&spec.seconds) || !(0.0..=86_400.0).contains(&spec.ramp) {
        return Err(Usage("seconds and ramp: times of 0 or more".to_owned()).into());
    }
    spec.profile.validate().map_err(|error| wrong(args, &error))?;
    Ok(spec)
}

impl GenArgs {
    fn lay_over(&self, spec: &mut Spec) {
        fn set<T: Clone>(to: &mut T, from: &Option<T>) {
            if let Some(value) = from {
                *to = value.clone();
            }
        }
        fn some<T: Clone>(to: &mut Option<T>, from: &Option<T>) {
            if from.is_some() {
                to.clone_from(from);
            }
        }
        some(&mut spec.n3, &self.n3);
        some(&mut spec.n6, &self.n6);
        some(&mut spec.upf_n6, &self.upf_n6);
        some(&mut spec.pps, &self.pps);
        some(&mut spec.packets, &self.packets);
        some(&mut spec.cpu, &self.cpu);
        set(&mut spec.seconds, &self.seconds);
        set(&mut spec.ramp, &self.ramp);
        set(&mut spec.mirror, &self.mirror);
        set(&mut spec.verify, &self.verify);
        spec.macs = [self.n3_mac, self.n6_mac];
        spec.answer_n3.extend(&self.answer_n3);
        spec.answer_n6.extend(&self.answer_n6);
        let profile = &mut spec.profile;
        for sizes in [&mut profile.uplink_sizes, &mut profile.downlink_sizes] {
            set(sizes, &self.sizes);
        }
        set(&mut profile.uplink_sizes, &self.uplink_sizes);
        set(&mut profile.downlink_sizes, &self.downlink_sizes);
        set(&mut profile.ratio, &self.ratio);
        set(&mut profile.new_flows, &self.new_flows);
        set(&mut profile.seed, &self.seed);
        set(&mut profile.ues, &self.ues);
        set(&mut profile.ue_first, &self.ue_first);
        set(&mut profile.ue6_first, &self.ue6_first);
        set(&mut profile.ipv6_share, &self.ipv6_share);
        set(&mut profile.bearers, &self.bearers);
        set(&mut profile.flows_per_bearer, &self.flows);
        set(&mut profile.qfis, &self.qfis);
        set(&mut profile.uplink_teids, &self.uplink_teids);
        set(&mut profile.downlink_teids, &self.downlink_teids);
        set(&mut profile.gnbs, &self.gnbs);
        set(&mut profile.gnb_first, &self.gnb_first);
        set(&mut profile.upf_n3, &self.upf_n3);
        set(&mut profile.servers, &self.servers);
        set(&mut profile.server_first, &self.server_first);
        set(&mut profile.server6_first, &self.server6_first);
        set(&mut profile.server_port, &self.server_port);
    }
}

/// What is wrong with a profile: in its file, when that has the key; else on the command line.
pub fn wrong(args: &GenArgs, error: &ProfileError) -> anyhow::Error {
    let what = error.to_string();
    // Errors name their key in backticks, first.
    let key = what.split('`').nth(1).unwrap_or_default();
    if let Some(path) = &args.file
        && let Ok(text) = Text::read(path)
        && !key.is_empty()
        && text.text.contains(key.rsplit('.').next().unwrap_or(key))
    {
        let path: Vec<String> = ["profile"].into_iter().chain(key.split('.')).map(str::to_owned).collect();
        return text.at(&path, what.clone(), "change it in the file, or by the option of that name").into();
    }
    Usage(what).into()
}

fn share(text: &str) -> Result<f64, String> {
    quantity::share(text).ok_or_else(|| "allowed: a share such as 0.01 or 1%".to_owned())
}

fn count(text: &str) -> Result<u64, String> {
    quantity::count(text).ok_or_else(|| "allowed: a count such as 100000, 100_000 or 100k".to_owned())
}

fn sizes(text: &str) -> Result<Sizes, String> {
    if text == "imix" {
        return Ok(Sizes::mix(IMIX));
    }
    text.parse::<Sizes>().map_err(|error| format!("{error}; or imix"))
}

fn ratio(text: &str) -> Result<Ratio, String> {
    let parts = text.split_once(':').and_then(|(up, down)| Some((up.parse().ok()?, down.parse().ok()?)));
    parts.map(|(up, down)| Ratio { up, down }).ok_or_else(|| "uplink to downlink, as in 1:9".to_owned())
}

fn teids(text: &str) -> Result<Teids, String> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let (first, step) = text.split_once('+').unwrap_or((text, "0"));
    match (number(first), number(step)) {
        (Some(first), Some(per_ue)) => Ok(Teids::Formula { first, per_ue }),
        _ => Err("a number, or FIRST+STEP, as in 0x100+2".to_owned()),
    }
}
