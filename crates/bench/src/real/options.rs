//! What `weir bench real` is asked for.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::error::BenchError;

/// A port mode of the gateway and of the bare forwarder beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealPort {
    /// AF_XDP.
    Xdp,
    /// AF_PACKET, TPACKET_V3.
    Ring,
    /// AF_PACKET, TPACKET_V2.
    Slots,
    /// AF_PACKET, one system call per burst.
    Mmsg,
    /// AF_PACKET, one system call per packet.
    Plain,
    /// DPDK, by its AF_PACKET driver; in builds that have it.
    Dpdk,
}

impl RealPort {
    /// The modes that every build has, fastest first.
    pub const ALL: [Self; 5] = [Self::Xdp, Self::Ring, Self::Slots, Self::Mmsg, Self::Plain];

    /// The word on the command line and in results.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::Ring => "ring",
            Self::Slots => "slots",
            Self::Mmsg => "mmsg",
            Self::Plain => "plain",
            Self::Dpdk => "dpdk",
        }
    }

    /// The URI of an interface, whose offloads stay as the lab has set them.
    pub fn uri(self, interface: &str) -> String {
        match self {
            Self::Xdp => format!("xdp:{interface}?offloads=keep"),
            Self::Ring => format!("packet:{interface}?mode=tpacket3&offloads=keep"),
            Self::Slots => format!("packet:{interface}?mode=tpacket2&offloads=keep"),
            Self::Dpdk => format!("dpdk:net_af_packet_{interface},iface={interface},framesz=1792,blocksz=28672"),
            Self::Mmsg | Self::Plain => format!("packet:{interface}?mode={}&offloads=keep", self.word()),
        }
    }

    /// The modes that a command line names: some of them, separated by commas, or `all`.
    ///
    /// # Errors
    /// [`BenchError::Asked`] for any other word.
    pub fn named(word: &str) -> Result<Vec<Self>, BenchError> {
        if word == "all" {
            return Ok(Self::ALL.to_vec());
        }
        let mut ports = Vec::new();
        for word in word.split(',') {
            let word = match word {
                "tpacket3" => "ring",
                "tpacket2" => "slots",
                other => other,
            };
            let found = Self::ALL.into_iter().chain([Self::Dpdk]).find(|port| port.word() == word);
            let known = "xdp, ring (or tpacket3), slots (or tpacket2), mmsg, plain, dpdk, or all";
            let port = found.ok_or_else(|| BenchError::Asked(format!("unknown port \"{word}\"; allowed: {known}")))?;
            if ports.contains(&port) {
                return Err(BenchError::Asked(format!("port \"{word}\" is given twice; give each once")));
            }
            ports.push(port);
        }
        Ok(ports)
    }
}

/// Which packets are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// As many uplink as downlink packets, by turns.
    Mixed,
    /// Uplink only.
    Uplink,
    /// Downlink only.
    Downlink,
}

impl Flow {
    /// The word on the command line and in results.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Uplink => "uplink",
            Self::Downlink => "downlink",
        }
    }
}

impl FromStr for Flow {
    type Err = BenchError;

    fn from_str(word: &str) -> Result<Self, BenchError> {
        let found = [Self::Mixed, Self::Uplink, Self::Downlink].into_iter().find(|flow| flow.word() == word);
        let known = "mixed, uplink, downlink";
        found.ok_or_else(|| BenchError::Asked(format!("unknown direction \"{word}\"; allowed: {known}")))
    }
}

/// How much is offered in a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Offered {
    /// No packet.
    Idle,
    /// Packets a second, both directions together.
    Pps(f64),
    /// The rate at which each contender delivers most.
    Saturation,
}

impl Offered {
    /// The cells that are measured when none are named.
    pub const DEFAULT: [Self; 7] = [
        Self::Idle,
        Self::Pps(1e3),
        Self::Pps(10e3),
        Self::Pps(50e3),
        Self::Pps(100e3),
        Self::Pps(200e3),
        Self::Saturation,
    ];

    /// Reads a list such as `idle,1k,50k,1.5M,max`.
    ///
    /// # Errors
    /// [`BenchError::Asked`] naming the word that is no rate.
    pub fn list(text: &str) -> Result<Vec<Self>, BenchError> {
        text.split(',').map(|word| word.trim().parse()).collect()
    }
}

impl FromStr for Offered {
    type Err = BenchError;

    fn from_str(word: &str) -> Result<Self, BenchError> {
        let lower = word.to_ascii_lowercase();
        if lower == "idle" || lower == "0" {
            return Ok(Self::Idle);
        }
        if ["max", "saturation"].contains(&lower.as_str()) {
            return Ok(Self::Saturation);
        }
        let digits = lower.trim_end_matches("pps").trim_end();
        let (digits, factor) = match digits.strip_suffix('k') {
            Some(digits) => (digits, 1e3),
            None => digits.strip_suffix('m').map_or((digits, 1.0), |digits| (digits, 1e6)),
        };
        let rate = digits.trim_end().replace('_', "").parse::<f64>().map(|rate| rate * factor);
        rate.ok().filter(|rate| (1.0..=20e6).contains(rate)).map(Self::Pps).ok_or_else(|| {
            let known = "idle, max, or packets a second from 1 to 20M, such as 500, 10k, 1.5M";
            BenchError::Asked(format!("unknown load \"{word}\"; allowed: {known}"))
        })
    }
}

impl fmt::Display for Offered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Saturation => f.write_str("max"),
            Self::Pps(pps) if *pps >= 1e6 => write!(f, "{}M", pps / 1e6),
            Self::Pps(pps) if *pps >= 1e3 => write!(f, "{}k", pps / 1e3),
            Self::Pps(pps) => write!(f, "{pps}"),
        }
    }
}

/// What `weir bench real` is asked for.
#[derive(Clone, Debug)]
pub struct RealOptions {
    /// The binary that forwards bare and, unless [`gateway`](Self::gateway) names another, is the gateway.
    pub weir: PathBuf,
    /// The gateway's binary, to measure another build.
    pub gateway: Option<PathBuf>,
    /// eUPF's binary, measured beside the gateway.
    pub peer: Option<PathBuf>,
    /// Modes of the ports.
    pub ports: Vec<RealPort>,
    /// Cells.
    pub loads: Vec<Offered>,
    /// Sessions that PFCP brings up and packets are of.
    pub sessions: u32,
    /// Which packets are offered.
    pub flow: Flow,
    /// Time counted in a trial.
    pub window: Duration,
    /// Rounds of trials per cell: at least, at most.
    pub rounds: (usize, usize),
    /// PDRs have an SDF filter.
    pub sdf: bool,
    /// `[workers] idle` of the gateway; none: its default.
    pub idle: Option<String>,
    /// The bare forwarder is measured.
    pub bare: bool,
    /// The gateway is measured with the in-kernel path as well, on AF_XDP ports.
    pub fast_path: bool,
    /// It is measured so once more, with every Nth session kept in user space by its rules.
    pub user_space_every: Option<u32>,
}

impl RealOptions {
    /// Defaults: AF_XDP, all cells, 10,000 sessions, both directions, one second a trial.
    pub fn new(weir: PathBuf) -> Self {
        Self {
            weir,
            gateway: None,
            peer: None,
            ports: vec![RealPort::Xdp],
            loads: Offered::DEFAULT.to_vec(),
            sessions: 10_000,
            flow: Flow::Mixed,
            window: Duration::from_secs(1),
            rounds: (3, 9),
            sdf: false,
            idle: None,
            bare: true,
            fast_path: false,
            user_space_every: None,
        }
    }

    /// Shorter trials, one round: to see that it works, not to judge by.
    #[must_use]
    pub fn quick(mut self) -> Self {
        self.window = self.window.min(Duration::from_millis(400));
        self.rounds = (1, 1);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_in_any_spelling() {
        let read = Offered::list("idle,500,1k, 10K,1.5Mpps,200_000,max").expect("a list");
        let wanted = [500.0, 1e3, 10e3, 1.5e6, 200e3].map(Offered::Pps);
        assert_eq!((read[0], &read[1..6], read[6]), (Offered::Idle, &wanted[..], Offered::Saturation));
        let shown: Vec<String> = read.iter().map(ToString::to_string).collect();
        assert_eq!(shown.join(","), "idle,500,1k,10k,1.5M,200k,max");
    }

    #[test]
    fn unknown_words_name_what_is_allowed() {
        for word in ["fast", "-1", "1e99", "k"] {
            let said = word.parse::<Offered>().expect_err(word).to_string();
            assert!(said.contains(word) && said.contains("1.5M"), "{said}");
        }
        assert!(RealPort::named("rdma").expect_err("rdma").to_string().contains("slots"));
        assert!("both".parse::<Flow>().expect_err("both").to_string().contains("mixed"));
        assert_eq!(RealPort::named("all").expect("all").len(), 5);
        assert_eq!(RealPort::named("dpdk,tpacket3").expect("two"), [RealPort::Dpdk, RealPort::Ring]);
        assert!(RealPort::named("ring,ring").expect_err("twice").to_string().contains("given twice"));
    }
}
