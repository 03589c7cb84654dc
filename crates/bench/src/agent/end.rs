//! One end of a gateway at an agent: a port of its host, opened once, and trials at it. The other end is at another agent;
//! both are told one time, so that latencies of one way can be measured.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use traffic::{Clock, Load, Profile, Schedule, Teids, TrialResult};

use super::peer::now_ns;
use crate::host::CpuTime;

/// Packets count that were signed so long before a trial begins: clocks that are compared over a network differ a little.
/// Nothing is sent in that time.
const BEFORE: Duration = Duration::from_millis(50);
/// After a trial packets on their way are received until none has come for so long,
const QUIET: Duration = Duration::from_millis(400);
/// but at most so long.
const LONGEST_DRAIN: Duration = Duration::from_secs(2);
/// A trial begins within this time, and does not last longer than that.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
const LONGEST_TRIAL: f64 = 3600.0;
/// A trial whose begin is over is ordered again.
pub(super) const TOO_LATE: &str = "too late for the trial";
/// Clocks are crystals: further apart than a thousandth they are none.
pub(super) const MOST_GAIN_PPB: u32 = 1_000_000;
/// Between two looks whether the client is still there.
const LOOK_NS: u64 = 50_000_000;
/// Turns without a packet after which the CPU is offered to others.
const IDLE_TURNS: u32 = 64;

/// Which side of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// N3, where gNBs send the uplink.
    Access,
    /// N6, where servers send the downlink.
    Core,
}

impl Side {
    /// As people read it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Core => "core",
        }
    }
}

/// An end that is to be opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenEnd {
    /// Which port of the gateway it stands at.
    pub side: Side,
    /// The traffic of both sides; tunnels stand beside it where they are a list.
    profile: Profile,
    uplink_teids: Option<Vec<u32>>,
    downlink_teids: Option<Vec<u32>>,
    /// The gateway's address on N6, whose hardware address is resolved.
    pub upf_n6: Option<IpAddr>,
    /// The gateway's hardware address on this side, instead of resolving it.
    pub mac: Option<[u8; 6]>,
    /// Further addresses to answer for on this side.
    pub answers: Vec<IpAddr>,
    /// Whether addresses, ports and checksums are checked as well as tunnels; none: only signatures.
    pub checks: Option<bool>,
    /// Packet buffers of its port, at least 64.
    pub packet_buffers: u32,
    /// What is sent comes back to the same port as it is: beyond it is a bare forwarder.
    #[serde(default)]
    pub is_returned: bool,
}

impl OpenEnd {
    /// An end on that side for traffic.
    pub fn new(side: Side, profile: &Profile) -> Self {
        let list = |teids: &Teids| match teids {
            Teids::List(list) => Some(list.to_vec()),
            Teids::Formula { .. } => None,
        };
        let (uplink_teids, downlink_teids) = (list(&profile.uplink_teids), list(&profile.downlink_teids));
        let formula = |teids: &Teids| match teids {
            Teids::List(_) => Teids::from(1),
            other => other.clone(),
        };
        let profile = Profile {
            uplink_teids: formula(&profile.uplink_teids),
            downlink_teids: formula(&profile.downlink_teids),
            ..profile.clone()
        };
        Self {
            side,
            profile,
            uplink_teids,
            downlink_teids,
            upf_n6: None,
            mac: None,
            answers: Vec::new(),
            checks: Some(false),
            packet_buffers: 8192,
            is_returned: false,
        }
    }

    /// An end whose packets come back to it.
    pub fn returned(side: Side, profile: &Profile) -> Self {
        Self { checks: None, is_returned: true, ..Self::new(side, profile) }
    }

    /// The traffic, with all tunnels.
    pub fn profile(&self) -> Profile {
        let mut profile = self.profile.clone();
        if let Some(list) = &self.uplink_teids {
            profile.uplink_teids = Teids::List(list.as_slice().into());
        }
        if let Some(list) = &self.downlink_teids {
            profile.downlink_teids = Teids::List(list.as_slice().into());
        }
        profile
    }
}

/// A trial at an end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialOrder {
    /// The common time is ahead of this agent's clock by so much.
    pub offset_ns: i64,
    /// It gains so many nanoseconds in each second of this agent's clock.
    pub gain_ppb: i32,
    /// When it begins, by this agent's clock.
    pub start_ns: i64,
    /// Packets a second, both directions together; none: as many as the port takes.
    pub pps: Option<f64>,
    /// Duration.
    pub seconds: f64,
}

/// Processor time of a host so far, and what its gateway has counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostUse {
    /// The host itself, as certificates have it.
    pub machine: certificate::Host,
    /// Processor time of all its CPUs since it was started.
    pub cpu: CpuTime,
    /// Its gateway, where the agent was given a control socket.
    pub gateway: Option<GatewayUse>,
    /// The interface of its port, where that is one.
    pub interface: Option<InterfaceUse>,
}

/// An interface so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InterfaceUse {
    /// The interface's name in the agent's network namespace.
    pub name: String,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Packets it has received.
    pub rx_packets: u64,
}

impl InterfaceUse {
    /// Of the interface that a port's URI names; none: it names none.
    pub fn of(uri: &str) -> Option<Self> {
        let uri: port::Uri = uri.parse().ok()?;
        let is_interface = ["packet", "xdp"].contains(&uri.kind());
        let interface = is_interface.then(|| port::iface::Iface::open(uri.target(), None).ok()).flatten()?;
        let name = interface.name().to_owned();
        Some(Self { mac: interface.mac().ok()?, rx_packets: crate::probe::received(&name), name })
    }
}

/// What a gateway has counted so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GatewayUse {
    /// Kind of the gateway as in its configuration: `upf`, `bng`, `cmts`.
    pub gateway: String,
    /// Version of the gateway's program.
    pub version: String,
    /// Threads that carry packets.
    pub workers: usize,
    /// Processor time of its process, in seconds.
    pub cpu_seconds: f64,
    /// Packets that all workers together received.
    pub rx_packets: u64,
    /// Packets dropped, by `stage.reason`.
    pub drops: BTreeMap<String, u64>,
}

/// What an agent's host offers to clients that have the secret.
pub trait Offer {
    /// Opens the agent's port as an end of a gateway; returns the port's name too.
    ///
    /// # Errors
    /// The agent offers no port, it cannot be opened, or the gateway does not answer.
    fn open(&mut self, wanted: &OpenEnd, stop: &AtomicBool) -> anyhow::Result<(Load, String)>;

    /// What the host and its gateway have done so far.
    ///
    /// # Errors
    /// The gateway does not answer.
    fn used(&mut self) -> anyhow::Result<HostUse>;
}

/// Plays a trial, and receives what is on its way after it.
///
/// # Errors
/// It would begin too late, or last too long.
pub(super) fn play(load: &mut Load, order: &TrialOrder, is_over: &dyn Fn() -> bool) -> Result<TrialResult, String> {
    let now = now_ns();
    let wait = if order.start_ns == 0 { 0 } else { order.start_ns.saturating_sub(now) };
    if !(0..=LONGEST_WAIT.as_nanos() as i64).contains(&wait) {
        return Err(format!("{TOO_LATE}: it was to begin in {:.3} s; allowed: 0 to 5 s", wait as f64 / 1e9));
    }
    if order.gain_ppb.unsigned_abs() > MOST_GAIN_PPB {
        return Err(format!("a clock that gains {} ppb; allowed: a thousandth", order.gain_ppb));
    }
    if !(0.0..=LONGEST_TRIAL).contains(&order.seconds) || order.pps.is_some_and(|pps| !(pps > 0.0 && pps < 1e12)) {
        return Err(format!("a trial of {} s at {:?} packets/s; allowed: up to 3600 s", order.seconds, order.pps));
    }
    let ns = |d: Duration| d.as_nanos() as u64;
    // One moment for both clocks.
    let common = now.checked_add(order.offset_ns).and_then(|ns| u64::try_from(ns).ok());
    let common = common.ok_or_else(|| "a time that is none".to_owned())?;
    load.set_clock(Clock::common(common, order.gain_ppb));
    let start = common + wait as u64;
    let end = start + ns(Duration::from_secs_f64(order.seconds));
    turn_until(load, start, is_over);
    let schedule = Schedule { pps: order.pps, ..Schedule::default() };
    load.start_since(&schedule, start.saturating_sub(ns(BEFORE)));
    turn_until(load, end, is_over);
    Ok(load.stop_and_drain(QUIET, LONGEST_DRAIN))
}

fn turn_until(load: &mut Load, until_ns: u64, is_over: &dyn Fn() -> bool) {
    let (mut idle, mut look) = (0, 0);
    loop {
        let now = load.clock().now_ns();
        if now >= until_ns {
            return;
        }
        if now >= look {
            // A system call.
            look = now + LOOK_NS;
            if is_over() {
                return;
            }
        }
        idle = if load.turn() > 0 { 0 } else { idle + 1 };
        if idle > IDLE_TURNS {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_in_json() {
        let profile = Profile {
            ues: 3,
            uplink_teids: Teids::List([7, 9, 0xffff_ffff].into()),
            uplink_sizes: traffic::Sizes::mix(&[(84, 65), (256, 18)]),
            ..Profile::default()
        };
        let mut end = OpenEnd::new(Side::Access, &profile);
        end.answers = vec!["10.0.6.254".parse().unwrap()];
        let text = serde_json::to_string(&end).unwrap();
        let read: OpenEnd = serde_json::from_str(&text).unwrap();
        assert_eq!((&read, read.profile()), (&end, profile));
    }
}
