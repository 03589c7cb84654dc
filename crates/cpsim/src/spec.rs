//! What `weir cp` is to do: a file, the command line over it, defaults under both.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use dataplane::config::parse_rate;
use pfcp::control::{self, OwnTeids};
use pfcp::ie::{Gbr, Mbr, Qfi};
use serde::Deserialize;
use wire::Teid;

use gateway::fail::Usage;
use gateway::json::JsonOutput;
use gateway::load::{Hints, Rename, Text};

/// `weir cp`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "\
Examples:
  weir cp examples/cp.toml               a thousand sessions for examples/upf-n4.toml, until Ctrl-C
  weir cp examples/cp.toml --idle 0.2    a fifth of them sleeps and is paged when packets come
  weir cp --upf 10.0.4.1 --sessions 100000 --rate 20000 --seconds 30 --json
  weir cp --upf 10.0.4.1 --kind sgw-c --core-first 10.0.5.1
  weir cp --upf 10.0.4.1 --sessions 10 --sessions-out sessions.jsonl

The three processes of a demonstration, each in a terminal of its own:
  sudo weir run examples/upf-n4.toml     the user plane waits for a control plane
  weir cp examples/cp.toml               brings up sessions in it, connects them to gNBs
  sudo weir gen examples/gen.toml        gNBs and servers: signed traffic through those sessions

Choice of F-TEIDs: with --upf-n3, the user plane's address on N3, the control plane chooses:
session i has the TEID teid-first + i, as `weir gen --uplink-teids` expects. Without it the user
plane chooses, and --sessions-out lists them.

With --ledger each usage report becomes a charging record; `weir cdr list --ledger FOLDER` shows
them once this process has ended.

Session i belongs to subscriber ue-first + i at gNB i mod gnbs, whose tunnel is
gnb-teid-first + i. A file has the same names with underscores, the last two groups of
options under [profile] and [life]; the command line overrides it.

On Ctrl-C all sessions are deleted, their last usage reports collected and the association
released; with --keep everything stays, as if this control plane had died. The summary goes to
the standard output. Exit code 1 when a request was refused or not answered.")]
pub struct CpArgs {
    /// A file with any of the options below.
    #[arg(value_name = "PROFILE.toml")]
    pub file: Option<PathBuf>,
    /// JSON.
    #[command(flatten)]
    pub json: JsonOutput,
    /// Show nothing while running.
    #[arg(long, short)]
    pub quiet: bool,
    /// Keep sessions and association at the end.
    #[arg(long)]
    pub keep: bool,
    /// Write a line of JSON for each session that came up: its addresses and both ends of its tunnel.
    #[arg(long, value_name = "FILE")]
    pub sessions_out: Option<PathBuf>,

    /// Options that a file can have, too.
    #[command(flatten)]
    pub options: Options,
}

/// Options of the command line, which are keys of the file as well; what is not given has a default.
macro_rules! options {
    ($(#[$meta:meta])* $name:ident, $heading:literal: $($(#[$attribute:meta])+ $field:ident: $type:ty = $value:literal,)*
     $(and $group:ident: $kind:ty,)*) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, Args, Deserialize)]
        #[command(next_help_heading = $heading)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$attribute])+ #[arg(long, value_name = $value)] pub $field: Option<$type>,)*
            $(#[command(flatten)] #[allow(missing_docs)] pub $group: $kind,)*
        }

        impl $name {
            /// What is given here goes over what is given there.
            fn over(self, under: Self) -> Self {
                Self { $($field: self.$field.or(under.$field),)* $($group: self.$group.over(under.$group),)* }
            }
        }
    };
}

options! {
    /// Peer, and amount.
    Options, "How much":
    /// The user plane's address for PFCP, with a port unless that is 8805.
    upf: Peer = "ADDRESS[:PORT]",
    /// Local address for PFCP [default: the kernel's source address towards the user plane].
    address: IpAddr = "ADDRESS",
    /// Local UDP port; user planes send reports to 8805 [default: 8805].
    port: u16 = "PORT",
    /// Seconds until a request is retransmitted (T1) [default: 3].
    #[arg(alias = "patience")]
    #[serde(alias = "patience")]
    timeout: f64 = "SECONDS",
    /// Times a request is sent in all (N1), 1 to 255 [default: 3].
    n1_requests: u8 = "N",
    /// Kind of control plane [default: smf].
    #[arg(value_enum)]
    kind: Kind = "KIND",
    /// Sessions [default: 1000].
    sessions: u32 = "N",
    /// Sessions established a second [default: 1000].
    rate: f64 = "N",
    /// Largest number of unanswered requests, so that neither side's socket overflows [default: 128].
    window: usize = "N",
    /// Folder of a ledger for charging records, one for each usage report; a report is acknowledged when its record is
    /// on the disk. `weir cdr` reads them.
    ledger: PathBuf = "FOLDER",
    /// How long sessions stay once all are established [default: until Ctrl-C].
    seconds: f64 = "SECONDS",
    and profile: ProfileOptions,
    and life: LifeOptions,
}

options! {
    /// Properties of sessions.
    ProfileOptions, "Sessions (in a file: under [profile])":
    /// The first subscriber's IMSI, for charging records [default: 001010000000001].
    imsi_first: u64 = "IMSI",
    /// Rating group of the traffic, for charging records [default: none].
    rating_group: u32 = "GROUP",
    /// The data network [default: internet].
    dnn: String = "NAME",
    /// The network instance of the access side, if it has one of its own.
    access_instance: String = "NAME",
    /// The first subscriber's IPv4 address [default: 10.60.0.1, unless there is --ue6-first].
    ue_first: Ipv4Addr = "ADDRESS",
    /// The first subscriber's IPv6 prefix; the next has the next /64.
    ue6_first: Ipv6Addr = "ADDRESS",
    /// The user plane allocates the addresses, from its own pool.
    #[arg(num_args = 0..=1, default_missing_value = "true")]
    choose_addresses: bool = "BOOL",
    /// The user plane's address on N3 (or S1-U): with it the control plane chooses F-TEIDs.
    upf_n3: IpAddr = "ADDRESS",
    /// The first session's tunnel identifier there [default: 0x01000000].
    #[arg(value_parser = number)]
    teid_first: u32 = "TEID",
    /// gNBs (or eNBs) [default: 4].
    gnbs: u32 = "N",
    /// The first gNB's address [default: 10.0.3.100].
    gnb_first: IpAddr = "ADDRESS",
    /// The first session's tunnel identifier at its gNB [default: 0x02000000].
    #[arg(value_parser = number)]
    gnb_teid_first: u32 = "TEID",
    /// With sgw-c: the address of the PGW-U that the tunnels lead on to.
    core_first: IpAddr = "ADDRESS",
    /// With smf: the QoS flow [default: 9].
    qfi: u8 = "QFI",
    /// MBR uplink, such as "100 Mbit/s" [default: no limit].
    mbr_up: Rate = "RATE",
    /// MBR downlink.
    mbr_down: Rate = "RATE",
    /// GBR uplink.
    gbr_up: Rate = "RATE",
    /// GBR downlink.
    gbr_down: Rate = "RATE",
    /// Volume threshold in bytes [default: 104857600].
    volume_threshold: u64 = "BYTES",
    /// Volume quota in bytes; when exhausted, it is granted again.
    volume_quota: u64 = "BYTES",
    /// Measurement period in seconds.
    report_every: u32 = "SECONDS",
    /// Events after which usage is reported: they are measured then. An event is traffic that begins.
    event_threshold: u32 = "EVENTS",
    /// Seconds without a packet after which traffic that goes on is an event again.
    inactivity_detection: u32 = "SECONDS",
    /// User Plane Inactivity Timer in seconds.
    inactivity: u32 = "SECONDS",
}

options! {
    /// Events in the life of sessions.
    LifeOptions, "What happens to them (in a file: under [life])":
    /// Share of the subscribers, 0 to 1, that become idle once all are established.
    idle: f64 = "SHARE",
    /// Milliseconds from a downlink data report until the subscriber is connected [default: 50].
    paging_ms: u64 = "MS",
    /// Seconds after which a paged subscriber is idle again [default: never].
    idle_again: f64 = "SECONDS",
    /// Subscribers a second that move to the next gNB, or back; the old one gets an End Marker.
    handovers: f64 = "N",
    /// Sessions a second that get another rate.
    limits: f64 = "N",
    /// The rates, in turn [default: 50 Mbit/s, then 200 Mbit/s].
    limit_to: Rates = "RATE,…",
    /// Usage queries a second.
    queries: f64 = "N",
    /// Sessions a second that are deleted and established again.
    churn: f64 = "N",
}

/// Kind of control plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// SMF, to a UPF by N4: QoS flows; sessions wait for their gNB.
    #[default]
    Smf,
    /// PGW-C, to a PGW-U by Sxb: the tunnel is there at once.
    PgwC,
    /// SGW-C, to an SGW-U by Sxa: from tunnel to tunnel.
    SgwC,
}

impl From<Kind> for control::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Smf => Self::Smf,
            Kind::PgwC => Self::PgwC,
            Kind::SgwC => Self::SgwC,
        }
    }
}

/// A user plane's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Peer(pub SocketAddr);

impl FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.parse().ok().or_else(|| Some(SocketAddr::new(text.parse().ok()?, pfcp::PORT)));
        address.map(Self).ok_or_else(|| "an address, as in 10.0.4.1, 10.0.4.1:8805 or [fd00:4::1]:8805".to_owned())
    }
}

/// Bits a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Rate(pub u64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_rate(text).map(Self).ok_or_else(|| "a rate, as in 64 kbit/s, 100 Mbit/s or 1 Gbit/s".to_owned())
    }
}

/// Some of them, between commas.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Rates(pub Vec<Rate>);

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(|rate| rate.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

macro_rules! read_as_text {
    ($($name:ident)+) => {
        $(impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        })+
    };
}

read_as_text! { Peer Rate Rates }

fn number(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    number.ok_or_else(|| "a number of 32 bits, as in 16777216 or 0x01000000".to_owned())
}

/// Everything, put together.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The user plane.
    pub upf: SocketAddr,
    /// Our address, if it matters.
    pub address: Option<IpAddr>,
    /// Our port.
    pub port: u16,
    /// Until a request is sent again.
    pub patience: Duration,
    /// Times a request is sent in all.
    pub n1_requests: u8,
    /// Sessions.
    pub sessions: u32,
    /// Brought up a second.
    pub rate: f64,
    /// Requests on their way at most.
    pub window: usize,
    /// How long sessions stay.
    pub hold: Option<Duration>,
    /// Where charging records go.
    pub ledger: Option<PathBuf>,
    /// The first subscriber's IMSI.
    pub imsi_first: u64,
    /// What traffic is charged as.
    pub rating_group: Option<u32>,
    /// Properties of sessions.
    pub profile: control::Profile,
    /// Who they are and where.
    pub places: Places,
    /// What happens to them.
    pub life: Life,
}

/// Subscribers and gNBs by formula.
#[derive(Clone, Debug)]
pub struct Places {
    /// The first subscriber's address.
    pub ip4: Option<Ipv4Addr>,
    /// The first subscriber's prefix.
    pub ip6: Option<Ipv6Addr>,
    /// gNBs.
    pub gnbs: u32,
    /// The first one's address.
    pub gnb_first: IpAddr,
    /// The first session's tunnel there.
    pub gnb_teid_first: u32,
    /// The PGW-U, for an SGW-C.
    pub core: Option<IpAddr>,
}

/// What happens to sessions.
#[derive(Clone, Debug)]
pub struct Life {
    /// Share that falls asleep.
    pub idle: f64,
    /// From report to wakefulness.
    pub paging: Duration,
    /// From there to sleep.
    pub idle_again: Option<Duration>,
    /// Moves a second.
    pub handovers: f64,
    /// New rates a second.
    pub limits: f64,
    /// The rates.
    pub limit_to: Vec<Mbr>,
    /// Questions a second.
    pub queries: f64,
    /// Sessions made anew a second.
    pub churn: f64,
}

/// Keys that have a new name.
const RENAMED: &[Rename] = &[Rename::new("Options", "patience", "timeout")];

/// Reads the file, if there is one, and puts the command line over it.
///
/// # Errors
/// What is wrong with either.
pub fn spec(args: &CpArgs) -> anyhow::Result<Spec> {
    let file: Options = match &args.file {
        Some(path) => Text::read(path)?.parse_with(Hints { renamed: RENAMED, ..Hints::default() })?,
        None => Options::default(),
    };
    resolve(args.options.clone().over(file)).map_err(|what| Usage(what).into())
}

fn resolve(options: Options) -> Result<Spec, String> {
    let Peer(upf) = options.upf.ok_or("give --upf the user plane's address for PFCP, such as 10.0.4.1")?;
    let at_least = |name: &str, value: f64, least: f64| match value.is_finite() && value >= least {
        true => Ok(value),
        false => Err(format!("{name}: {least} or more, not {value}")),
    };
    let time = |name: &str, value: f64| at_least(name, value.min(1e9), 0.001).map(Duration::from_secs_f64);
    let sessions = options.sessions.unwrap_or(1000);
    if sessions == 0 || options.window == Some(0) {
        return Err("sessions and window: 1 or more".to_owned());
    }
    if options.n1_requests == Some(0) {
        return Err("n1_requests: 1 or more".to_owned());
    }
    let kind = options.kind.unwrap_or_default();
    let profile = options.profile;
    let life = life(&options.life, &at_least, &time)?;
    Ok(Spec {
        upf,
        address: options.address,
        port: options.port.unwrap_or(pfcp::PORT),
        patience: time("timeout", options.timeout.unwrap_or(3.0))?,
        n1_requests: options.n1_requests.unwrap_or(3),
        sessions,
        rate: at_least("rate", options.rate.unwrap_or(1000.0), 0.001)?,
        window: options.window.unwrap_or(128),
        hold: options.seconds.map(|seconds| time("seconds", seconds)).transpose()?,
        ledger: options.ledger,
        imsi_first: profile.imsi_first.unwrap_or(1_010_000_000_001),
        rating_group: profile.rating_group,
        places: places_of(&profile, kind, sessions)?,
        profile: profile_of(profile, kind, life.limits > 0.0),
        life,
    })
}

fn life(
    life: &LifeOptions,
    at_least: &dyn Fn(&str, f64, f64) -> Result<f64, String>,
    time: &dyn Fn(&str, f64) -> Result<Duration, String>,
) -> Result<Life, String> {
    let rate = |name, value: Option<f64>| at_least(name, value.unwrap_or(0.0), 0.0);
    let idle = rate("idle", life.idle)?;
    if idle > 1.0 {
        return Err("idle: a share from 0 to 1".to_owned());
    }
    let usual = || Rates(vec![Rate(50_000_000), Rate(200_000_000)]);
    let Rates(rates) = life.limit_to.clone().unwrap_or_else(usual);
    Ok(Life {
        idle,
        paging: Duration::from_millis(life.paging_ms.unwrap_or(50)),
        idle_again: life.idle_again.map(|seconds| time("idle_again", seconds)).transpose()?,
        handovers: rate("handovers", life.handovers)?,
        limits: rate("limits", life.limits)?,
        limit_to: rates.into_iter().map(|rate| Mbr { uplink: kilobits(rate), downlink: kilobits(rate) }).collect(),
        queries: rate("queries", life.queries)?,
        churn: rate("churn", life.churn)?,
    })
}

fn places_of(profile: &ProfileOptions, kind: Kind, sessions: u32) -> Result<Places, String> {
    let gnb_first = profile.gnb_first.unwrap_or(Ipv4Addr::new(10, 0, 3, 100).into());
    let gnbs = profile.gnbs.unwrap_or(4);
    if gnbs == 0 {
        return Err("gnbs: 1 or more".to_owned());
    }
    if kind == Kind::SgwC && profile.core_first.is_none() {
        return Err("with sgw-c, give --core-first the PGW-U that tunnels lead on to".to_owned());
    }
    let chosen = profile.choose_addresses.unwrap_or(false);
    let usual = Ipv4Addr::new(10, 60, 0, 1);
    let ip4 = profile.ue_first.or(profile.ue6_first.is_none().then_some(usual)).filter(|_| !chosen);
    if ip4.is_some_and(|first| u32::from(first).checked_add(sessions).is_none()) {
        return Err("ue_first: not so many addresses follow it".to_owned());
    }
    Ok(Places {
        ip4,
        ip6: profile.ue6_first.filter(|_| !chosen),
        gnbs,
        gnb_first,
        gnb_teid_first: profile.gnb_teid_first.unwrap_or(0x0200_0000),
        core: profile.core_first.filter(|_| kind == Kind::SgwC),
    })
}

fn profile_of(profile: ProfileOptions, kind: Kind, is_limited: bool) -> control::Profile {
    let first = profile.teid_first.unwrap_or(0x0100_0000);
    // Who may get a rate later has the rule for it from the start.
    let most = is_limited.then_some(Rate(400_000_000_000));
    let pair = |up: Option<Rate>, down: Option<Rate>, most: Option<Rate>| {
        let most = most.or(up.or(down).map(|_| Rate(400_000_000_000)));
        Some((kilobits(up.or(most)?), kilobits(down.or(most)?)))
    };
    let maximum = pair(profile.mbr_up, profile.mbr_down, most);
    let guaranteed = pair(profile.gbr_up, profile.gbr_down, None);
    control::Profile {
        kind: kind.into(),
        dnn: profile.dnn.unwrap_or_else(|| "internet".to_owned()).into(),
        access_instance: profile.access_instance.map(Into::into),
        own_teids: profile.upf_n3.map(|address| OwnTeids { address, first }),
        maximum_bitrate: maximum.map(|(uplink, downlink)| Mbr { uplink, downlink }),
        guaranteed_bitrate: guaranteed.map(|(uplink, downlink)| Gbr { uplink, downlink }),
        qfi: (kind == Kind::Smf).then_some(Qfi(profile.qfi.unwrap_or(9))),
        volume_threshold: Some(profile.volume_threshold.unwrap_or(100 << 20)),
        volume_quota: profile.volume_quota,
        measurement_period: profile.report_every,
        event_threshold: profile.event_threshold,
        inactivity_detection: profile.inactivity_detection,
        inactivity_timer: profile.inactivity,
        ..control::Profile::default()
    }
}

fn kilobits(Rate(bits): Rate) -> u64 {
    bits.div_ceil(1000)
}

impl Spec {
    /// Subscriber `i`'s IMSI: 15 digits (TS 23.003, 2.2).
    pub fn imsi(&self, i: u32) -> String {
        format!("{:015}", self.imsi_first.saturating_add(i.into()))
    }
}

impl Places {
    /// Session `i`'s tunnel at its gNB; when it is away, at the next one.
    pub fn gnb(&self, i: u32, away: bool) -> (Teid, IpAddr) {
        let at = (i % self.gnbs + u32::from(away)) % self.gnbs;
        let teid = self.gnb_teid_first.wrapping_add(i);
        // The same gNB has another tunnel for one that comes again.
        let teid = if away && self.gnbs == 1 { teid ^ 1 << 31 } else { teid };
        (Teid(teid), nth(self.gnb_first, at))
    }
}

/// An address further on.
pub fn nth(first: IpAddr, n: u32) -> IpAddr {
    match first {
        IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits().wrapping_add(n)).into(),
        IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits().wrapping_add(n.into())).into(),
    }
}
