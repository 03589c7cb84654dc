//! What the user plane keeps of each packet beside its burst, and what its stages share.

use std::net::Ipv4Addr;

use dataplane::acl::{AccessLists, HasAccessLists};
use dataplane::forward::{Forwarding, InstanceId, NONE, PortView};
use dataplane::nat::{Nat, Translates};
use dataplane::parse::{HasIp, UserIp};
use dataplane::route::HasForwarding;
use engine::{Burst, Drop, Kind, Live, Punt, Reason};
use frame::BURST;
use table::bulk::Hash;
use table::records::LineId;
use table::snapshot::Reader;
use wire::L3L4;

use crate::pipeline::Choices;
use crate::record::{Encap, NONE8, RuleResult};
use crate::routes::Routes;
use crate::sessions::Sessions;
use crate::slow::Duplicates;
use crate::{drops, punts};

/// The user plane's family of pipelines.
pub struct Upf;

/// Per-packet arrays of the user plane.
pub struct Lane {
    /// The user packet's headers.
    pub ip: UserIp,
    /// Our tunnel endpoint it came by (uplink).
    pub teid: [u32; BURST],
    /// The QoS flow it came with; [`NONE8`]: none.
    pub qfi: [u8; BURST],
    /// The index ticket between the halves of a lookup.
    pub hash: [Hash; BURST],
    /// Its session's record.
    pub session: [LineId; BURST],
    /// Which of the session's tunnel endpoints it came by (uplink).
    pub end: [u8; BURST],
    /// Its rule's action, as a position in the record; 0: none.
    pub action: [u8; BURST],
    /// What its rule does with it.
    pub rule: [RuleResult; BURST],
    /// The network instance it is forwarded in.
    pub instance: [InstanceId; BURST],
    /// Where it goes next.
    pub hop: [u32; BURST],
    /// The tunnel it goes into.
    pub tunnel: [u32; BURST],
    /// The tunnel's far end: see [`Action::id`](crate::record::Action::id).
    pub out_id: [u32; BURST],
    /// The headers the tunnel puts before it.
    pub out_encap: [Encap; BURST],
    /// DSCP to mark; [`NONE8`]: leave.
    pub dscp: [u8; BURST],
    /// Bytes the tunnel will add.
    pub overhead: [u16; BURST],
    /// Packets whose tunnel's headers came with the link header.
    pub linked: Live,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            ip: UserIp::default(),
            teid: [0; BURST],
            qfi: [NONE8; BURST],
            hash: [Hash::default(); BURST],
            session: [LineId(0); BURST],
            end: [0; BURST],
            action: [0; BURST],
            rule: [RuleResult::default(); BURST],
            instance: [0; BURST],
            hop: [NONE; BURST],
            tunnel: [NONE; BURST],
            out_id: [0; BURST],
            out_encap: [Encap::NONE; BURST],
            dscp: [NONE8; BURST],
            overhead: [0; BURST],
            linked: Live::default(),
        }
    }
}

dataplane::lane! {
    Lane {
        #[inline]
        fn overhead(&self, i: usize) -> u16 {
            self.overhead[i]
        }
        #[inline(always)]
        fn is_relayed(&self, i: usize) -> bool {
            self.tunnel[i] != NONE && self.teid[i] != 0
        }
        #[inline(always)]
        fn linked(&self) -> Live {
            self.linked
        }
    }
}

/// What one worker's user plane owns.
pub struct State {
    /// Its sessions.
    pub sessions: Sessions,
    /// Where packets go; taken anew between bursts.
    pub forwarding: Reader<Forwarding>,
    /// Stands in before anything was published.
    pub empty: Forwarding,
    /// Access lists as published; none where none is configured.
    pub lists: Option<Reader<AccessLists>>,
    /// Translation, where it is configured.
    pub nat: Option<Box<Nat>>,
    /// The workers that networks behind subscribers are of, where there are several workers.
    pub steered: Routes,
    /// Answers that send subscribers elsewhere, by the numbers that actions name.
    pub pages: Vec<Box<[u8]>>,
    /// Duplicates made of the burst in hand.
    pub duplicates: Duplicates,
}

impl State {
    /// The port a burst came in by, as the stages see it. An unknown one has no address and drops everything.
    #[inline]
    pub fn port(&self, id: u8) -> &PortView {
        self.forwarding().port(id)
    }

    /// Whose mappings a session has: its network and its address there.
    pub(crate) fn translated(&self, handle: u32) -> Option<(InstanceId, Ipv4Addr)> {
        self.nat.as_ref()?;
        let (session, _) = self.sessions.find(handle)?;
        self.sessions.head(session).map(|head| (head.instance, head.ue4.into()))
    }

    /// A session ended or has another address: the mappings and blocks of the one it had go.
    pub(crate) fn end_translation(&mut self, whose: Option<(InstanceId, Ipv4Addr)>, now: u64) {
        if let (Some(nat), Some((instance, address))) = (&mut self.nat, whose) {
            nat.end_session(instance, address, now);
        }
    }
}

impl HasForwarding for State {
    #[inline]
    fn forwarding(&self) -> &Forwarding {
        self.forwarding.in_hand().unwrap_or(&self.empty)
    }
}

impl HasAccessLists for State {
    #[inline]
    fn access_lists(&self) -> Option<&AccessLists> {
        self.lists.as_ref()?.in_hand()
    }
}

impl Translates<Lane> for State {
    #[inline]
    fn nat(&mut self) -> Option<&mut Nat> {
        self.nat.as_deref_mut()
    }

    #[inline]
    fn session(&self, lane: &Lane, i: usize) -> Option<u32> {
        // What goes by no rule is ours.
        self.sessions.head(lane.session[i]).filter(|_| lane.action[i] != 0).map(|head| head.handle)
    }

    #[inline]
    fn readdressed(&mut self, lane: &mut Lane, i: usize) {
        let index = self.sessions.index4(lane.instance[i]);
        lane.hash[i] = Sessions::prefetch_v4(index, lane.ip.0[i].dst);
    }
}

impl Kind for Upf {
    type Lane = Lane;
    type State = State;
    type Config = Choices;

    const DROPS: &'static [&'static [Reason<Drop>]] = &[engine::drops::ALL, dataplane::drops::ALL, drops::ALL];
    const PUNTS: &'static [&'static [Reason<Punt>]] = &[dataplane::punts::ALL, punts::ALL];

    fn describe(burst: &Burst<Self>, i: usize, state: &State) -> String {
        let lane = &burst.lane;
        dataplane::lane::describe(burst, i, |words| {
            if lane.teid[i] != 0 {
                words.push(format!("teid {:#010x}", lane.teid[i]));
            }
            if lane.qfi[i] != NONE8 {
                words.push(format!("qfi {}", lane.qfi[i]));
            }
            if lane.action[i] != 0 {
                let handle = state.sessions.head(lane.session[i]).map_or(NONE, |head| head.handle);
                let pdr = state.sessions.action(lane.session[i], lane.action[i]).map_or(0, |action| action.pdr);
                words.push(format!("session {handle}, PDR {pdr}"));
            }
            if lane.tunnel[i] != NONE {
                words.push(format!("into tunnel {} teid {:#010x}", lane.tunnel[i], lane.out_id[i]));
            }
        })
    }

    fn leaves_by(burst: &Burst<Self>, i: usize) -> Option<u8> {
        (burst.lane.hop[i] != NONE).then(|| burst.out(i))
    }

    fn forget(lane: &mut Lane, i: usize) {
        *lane.ip_mut(i) = L3L4::default();
        lane.teid[i] = 0;
        lane.qfi[i] = NONE8;
        lane.session[i] = LineId(0);
        lane.action[i] = 0;
        lane.tunnel[i] = NONE;
        lane.hop[i] = NONE;
    }
}
