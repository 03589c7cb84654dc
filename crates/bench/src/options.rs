//! What a benchmark is asked to do.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::BenchError;
use crate::neighbour::Kind;

/// Kinds of ports a gateway can be measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// In process, no I/O.
    Memory,
    /// AF_PACKET, a system call a packet.
    Plain,
    /// AF_PACKET, a system call a burst.
    Mmsg,
    /// AF_PACKET, received in shared memory.
    Ring,
    /// AF_XDP.
    Xdp,
    /// DPDK, by its AF_PACKET driver on the same links; in builds that have it.
    Dpdk,
}

impl PortKind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Memory, Self::Plain, Self::Mmsg, Self::Ring, Self::Xdp, Self::Dpdk];
    /// Those with sockets that every build has, slowest first.
    pub const SOCKETS: [Self; 4] = [Self::Plain, Self::Mmsg, Self::Ring, Self::Xdp];

    /// As asked for on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Plain => "plain",
            Self::Mmsg => "mmsg",
            Self::Ring => "ring",
            Self::Xdp => "xdp",
            Self::Dpdk => "dpdk",
        }
    }

    /// As results name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Plain => "packet-plain",
            Self::Mmsg => "packet-mmsg",
            Self::Ring => "packet-ring",
            Self::Xdp => "xdp",
            Self::Dpdk => "dpdk",
        }
    }
}

impl fmt::Display for PortKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for PortKind {
    type Err = BenchError;

    fn from_str(word: &str) -> Result<Self, BenchError> {
        let found = Self::ALL.into_iter().find(|kind| kind.word() == word || kind.name() == word);
        found.ok_or_else(|| {
            BenchError::Asked(format!("no port is called `{word}`; there are memory, plain, mmsg, ring, xdp, dpdk"))
        })
    }
}

/// Whose CPU does the kernel's receive work on virtual links, which have no interrupts of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveWork {
    /// Whoever sends: the load for the gateway's interfaces, the gateway for the load's.
    #[default]
    Senders,
    /// The gateway, at both ends: everything but making load is on its CPU.
    Gateway,
    /// The load, at both ends, while it comes out of the kernel: the gateway has its CPU for itself, as on a wire.
    Load,
}

impl ReceiveWork {
    /// As results name it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Senders => "senders",
            Self::Gateway => "gateway",
            Self::Load => "load",
        }
    }
}

/// How `weir bench` is asked to measure a workload.
#[derive(Clone, Debug)]
pub struct Options {
    /// The port.
    pub port: PortKind,
    /// Workers of the gateway, each with ports of its own (memory) or a queue of the same ports.
    pub workers: u16,
    /// Time measured, in all.
    pub seconds: f64,
    /// Packets a second offered in the main trial; none: more than can be forwarded.
    pub pps: Option<f64>,
    /// Whose CPU does the links' receive work.
    pub receive_work: ReceiveWork,
    /// A noisy neighbour, in windows of its own.
    pub disturb: Option<Kind>,
}

impl Default for Options {
    /// One worker, in memory, five seconds.
    fn default() -> Self {
        Self {
            port: PortKind::Memory,
            workers: 1,
            seconds: 5.0,
            pps: None,
            receive_work: ReceiveWork::default(),
            disturb: None,
        }
    }
}

impl Options {
    /// The time measured, cut into windows: how long, how many.
    pub fn windows(&self) -> (Duration, usize) {
        cut(self.seconds)
    }
}

/// Cuts a time into windows of a quarter of a second at most, at least three of them, of a tenth at least.
pub fn cut(seconds: f64) -> (Duration, usize) {
    let seconds = seconds.clamp(0.1, 86_400.0);
    let count = (seconds / LONGEST).ceil().max(3.0).min((seconds / 0.1).floor().max(1.0));
    (Duration::from_secs_f64(seconds / count), count as usize)
}

/// Of a window, in seconds. Machines shared with others change their pace all the time: many short windows in turns
/// compare better than a few long ones.
const LONGEST: f64 = 0.25;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_words_and_names() {
        for kind in PortKind::ALL {
            assert_eq!(kind.word().parse::<PortKind>().unwrap(), kind);
            assert_eq!(kind.name().parse::<PortKind>().unwrap(), kind);
        }
        assert!("carrier-pigeon".parse::<PortKind>().unwrap_err().to_string().contains("there are memory"));
    }

    #[test]
    fn windows_stay_below_a_second() {
        for (seconds, count) in [(0.1, 1), (0.2, 2), (1.0, 4), (5.0, 20), (20.0, 80)] {
            let (each, n) = cut(seconds);
            assert_eq!(n, count);
            assert!((each.as_secs_f64() * n as f64 - seconds).abs() < 1e-6 && each < Duration::from_millis(900));
        }
    }
}
