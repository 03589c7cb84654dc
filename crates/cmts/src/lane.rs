//! What the gateway keeps of each packet beside its burst, and what its stages share.

use std::collections::HashMap;
use std::ops::Range;

use crypto::KeyId;
use dataplane::forward::{Forwarding, InstanceId, NONE, PortView};
use dataplane::parse::{HasIp, UserIp};
use dataplane::route::HasForwarding;
use engine::{Burst, Drop, Kind, Punt, Reason};
use frame::BURST;
use gateway::shell::hand_over::changed::Changed;
use serde::{Deserialize, Serialize};
use table::bulk::Hash;
use table::snapshot::Reader;
use wire::L3L4;

use crate::depi::Depi;
use crate::flow::Scheduler;
use crate::gateway::Limits;
use crate::modems::Modems;
use crate::rules::Rules;
use crate::upstream::Upstream;
use crate::{drops, punts};

/// The gateway's family of pipelines.
pub struct Cmts;

/// Per-packet arrays.
pub struct Lane {
    /// The subscriber's packet, or the DEPI packet it is in.
    pub ip: UserIp,
    /// The index ticket between the halves of a lookup.
    pub hash: [Hash; BURST],
    /// The host behind a modem it is to or from.
    pub host: [u32; BURST],
    /// Its modem.
    pub modem: [u32; BURST],
    /// Its service flow.
    pub flow: [u32; BURST],
    /// Its number in the service flow.
    pub sequence: [u16; BURST],
    /// The channel it goes by, or the pseudowire it came by.
    pub channel: [u16; BURST],
    /// The outer tag it came with; [`UNTAGGED`]: none.
    pub tag: [u32; BURST],
    /// The routing domain it is forwarded in.
    pub instance: [InstanceId; BURST],
    /// Where it goes next.
    pub hop: [u32; BURST],
    /// Where the payload of a pseudowire's packet begins.
    pub payload: [u16; BURST],
    /// What encrypts it.
    pub key: [KeyId; BURST],
    /// It is a DEPI packet of ours: no router before its first link.
    pub ours: [bool; BURST],
}

/// No tag.
pub const UNTAGGED: u32 = u32::MAX;

impl Default for Lane {
    fn default() -> Self {
        Self {
            ip: UserIp::default(),
            hash: [Hash::default(); BURST],
            host: [NONE; BURST],
            modem: [NONE; BURST],
            flow: [NONE; BURST],
            sequence: [0; BURST],
            channel: [0; BURST],
            tag: [UNTAGGED; BURST],
            instance: [0; BURST],
            hop: [NONE; BURST],
            payload: [0; BURST],
            key: [KeyId::CLEAR; BURST],
            ours: [false; BURST],
        }
    }
}

impl Lane {
    /// The outer tag of packet `i`.
    #[inline]
    pub fn tag(&self, i: usize) -> Option<u16> {
        u16::try_from(self.tag[i]).ok()
    }

    /// Those packets are DEPI packets of ours, forwarded in that routing domain.
    #[inline]
    pub(crate) fn are_ours(&mut self, packets: Range<usize>, instance: InstanceId) {
        self.instance[packets.clone()].fill(instance);
        self.ours[packets.clone()].fill(true);
        self.modem[packets.clone()].fill(NONE);
        self.flow[packets].fill(NONE);
    }
}

dataplane::lane! {
    Lane {
        #[inline(always)]
        fn is_relayed(&self, i: usize) -> bool {
            self.ours[i]
        }
    }
}

/// What one worker's gateway owns.
pub struct State {
    /// Where packets go; taken anew between bursts.
    pub forwarding: Reader<Forwarding>,
    /// Filter groups and classifiers.
    pub rules: Reader<Rules>,
    /// Modems and the hosts behind them.
    pub modems: Modems,
    /// Service flows and channels.
    pub scheduler: Scheduler,
    /// From framed packets to DEPI packets.
    pub depi: Depi,
    /// From UEPI packets to frames.
    pub upstream: Upstream,
    /// What stages have counted of their own.
    pub counts: Counts,
    /// Modems of which anything has changed since it was exported, while another process takes over.
    pub changed: Changed,
    /// Each modem's SID clusters, likewise.
    pub clusters_of: HashMap<u32, Vec<u32>>,
    /// Stands in before anything was published.
    pub empty: (Forwarding, Rules),
}

/// The counters of the published data plane that are no drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Destination addresses that were a modem's, downstream.
    pub lookup_matched: u64,
    /// And that were not.
    pub lookup_unmatched: u64,
    /// Packets that a filter rule let pass; downstream, upstream.
    pub filter_permit: [u64; 2],
    /// Packets that a filter rule dropped.
    pub filter_deny: [u64; 2],
    /// Packets that no filter rule matched.
    pub filter_unmatched: [u64; 2],
    /// IPv4 packets (not ICMP) that a classifier matched.
    pub classified_ipv4: u64,
    /// ICMP packets that a classifier matched.
    pub classified_icmp: u64,
    /// All others that a classifier matched.
    pub classified_llc: u64,
    /// Packets that went by the primary service flow.
    pub unclassified: u64,
}

impl State {
    /// Bytes of modems, hosts, keys, service flows and SID clusters, with their indexes. What waits is slots.
    pub fn bytes(&self) -> usize {
        self.modems.bytes() + self.scheduler.bytes() + self.upstream.bytes()
    }

    /// The port a burst came in by, as the stages see it. An unknown one has no address and drops everything.
    #[inline]
    pub fn port(&self, id: u8) -> &PortView {
        self.forwarding().port(id)
    }

    /// Filter groups and classifiers.
    #[inline]
    pub fn rules(&self) -> &Rules {
        self.rules.in_hand().unwrap_or(&self.empty.1)
    }
}

impl HasForwarding for State {
    #[inline]
    fn forwarding(&self) -> &Forwarding {
        self.forwarding.in_hand().unwrap_or(&self.empty.0)
    }
}

impl Kind for Cmts {
    type Lane = Lane;
    type State = State;
    type Config = Limits;

    const DROPS: &'static [&'static [Reason<Drop>]] = &[engine::drops::ALL, dataplane::drops::ALL, drops::ALL];
    const PUNTS: &'static [&'static [Reason<Punt>]] = &[dataplane::punts::ALL, punts::ALL];

    fn describe(burst: &Burst<Self>, i: usize, _: &Self::State) -> String {
        let lane = &burst.lane;
        dataplane::lane::describe(burst, i, |words| {
            if lane.modem[i] != NONE {
                words.push(format!("modem {}", lane.modem[i]));
            }
            if lane.flow[i] != NONE {
                words.push(format!("service flow {}", lane.flow[i]));
            }
        })
    }

    fn leaves_by(burst: &Burst<Self>, i: usize) -> Option<u8> {
        (burst.lane.hop[i] != NONE).then(|| burst.out(i))
    }

    fn forget(lane: &mut Lane, i: usize) {
        *lane.ip_mut(i) = L3L4::default();
        (lane.host[i], lane.modem[i], lane.flow[i], lane.hop[i]) = (NONE, NONE, NONE, NONE);
    }
}
