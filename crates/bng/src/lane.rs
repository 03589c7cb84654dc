//! What the gateway keeps of each packet beside its burst, and what its stages share.

use std::ops::Range;
use std::sync::Arc;

use dataplane::acl::{AccessLists, HasAccessLists};
use dataplane::forward::{Forwarding, InstanceId, NONE, PortView};
use dataplane::nat::{Nat, Translates};
use dataplane::parse::{HasIp, UserIp};
use dataplane::route::HasForwarding;
use engine::{Burst, Drop, Kind, Live, Punt, Reason};
use frame::{BURST, Frame};
use gateway::shell::hand_over::changed::Changed;
use table::bulk::Hash;
use table::records::LineId;
use table::snapshot::Reader;
use wire::L3L4;

use crate::config::Class;
use crate::gateway::Emptying;
use crate::pipeline::Choices;
use crate::record::{SubscriberSpec, flags};
use crate::shaper::{NO_LEAF, Owner, Shaper};
use crate::steer::Directory;
use crate::subscribers::{NOWHERE, Refused, Subscribers};
use crate::{drops, punts};

/// The gateway's family of pipelines.
pub struct Bng;

/// No record.
pub const NOBODY: LineId = LineId(u32::MAX);

/// Per-packet arrays.
pub struct Lane {
    /// The packet's headers.
    pub ip: UserIp,
    /// The place of its subscriber's cell; [`NOWHERE`]: none, or in a hash map.
    pub place: [u32; BURST],
    /// The index ticket between the halves of a lookup by hash.
    pub hash: [Hash; BURST],
    /// Its subscriber's record.
    pub record: [LineId; BURST],
    /// Bytes policed and counted beside the IP packet's.
    pub overhead: [u8; BURST],
    /// The VRF it is routed in.
    pub instance: [InstanceId; BURST],
    /// The leaf that it waits in (downstream); [`NO_LEAF`]: it does not wait.
    pub leaf: [u32; BURST],
    /// The class of that leaf.
    pub class: [u8; BURST],
    /// Its next hop (upstream).
    pub hop: [u32; BURST],
    /// Packets of lines that are found by hash.
    pub shared: Live,
    /// Packets from subscribers to addresses that may be other subscribers'.
    pub near: Live,
    /// Packets from the core's side that another subscriber has sent, or the gateway.
    pub inside: Live,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            ip: UserIp::default(),
            place: [NOWHERE; BURST],
            hash: [Hash::default(); BURST],
            record: [NOBODY; BURST],
            overhead: [0; BURST],
            instance: [0; BURST],
            leaf: [NO_LEAF; BURST],
            class: [0; BURST],
            hop: [NONE; BURST],
            shared: Live::default(),
            near: Live::default(),
            inside: Live::default(),
        }
    }
}

dataplane::lane! { Lane {} }

/// Control packets over their class's rate, and subscribers' addresses learnt: counters that are not drops by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Control packets punted, by class.
    pub punted: [u64; Class::COUNT],
    /// Of those, over the rate limit of the class or of the line, and dropped.
    pub limited: [u64; Class::COUNT],
    /// Hardware addresses taken from packets of subscribers without a configured one.
    pub learnt: u64,
}

/// What one worker's gateway owns.
pub struct State {
    /// The ports are to be found empty, and control told.
    pub emptying: Option<Emptying>,
    /// Its subscribers.
    pub subscribers: Subscribers,
    /// Where packets to shaped subscribers wait; none: no profile is shaped.
    pub shaper: Option<Box<Shaper>>,
    /// Whose is what, for all workers.
    pub directory: Arc<Directory>,
    /// Where packets go; taken anew between bursts.
    pub forwarding: Reader<Forwarding>,
    /// Access lists by number, as published; none: there are none.
    pub lists: Option<Reader<AccessLists>>,
    /// Translation; none: nothing is translated.
    pub nat: Option<Box<Nat>>,
    /// Counters beside those of stages.
    pub counts: Counts,
    /// Which subscribers' records have changed, while another process takes over.
    pub changed: Changed,
    /// Stands in before anything was published.
    pub empty: Forwarding,
}

impl State {
    /// Installs a subscriber, or changes the one of that handle, with its queues. What waited for one that is shaped no more
    /// is given to `each`.
    ///
    /// # Errors
    /// Why not; nothing has changed then.
    pub fn install(&mut self, spec: &SubscriberSpec, now: u64, each: impl FnMut(Frame)) -> Result<(), Refused> {
        self.subscribers.install(spec, now)?;
        let subscribers = &self.subscribers;
        let of = subscribers.group(spec.group).map(|group| &group.plan).zip(subscribers.profile(spec.profile));
        if let (Some(shaper), Some(of), Some(owner)) = (&mut self.shaper, of, Owner::of(subscribers, spec.handle)) {
            shaper.install(spec, owner, of, now, each);
        }
        Ok(())
    }

    /// Whose mappings a subscriber has: its VRF and its address there.
    fn translated(&self, handle: u32) -> Option<(InstanceId, u32)> {
        self.nat.as_ref()?;
        let head = self.subscribers.head(self.subscribers.record_of(handle)?)?;
        Some((head.instance, head.ipv4))
    }

    /// Installs or removes a subscriber; mappings and blocks of an address that it has no more go.
    pub(crate) fn with_translation<T>(&mut self, handle: u32, now: u64, change: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.translated(handle);
        let done = change(self);
        if before != self.translated(handle)
            && let (Some(nat), Some((instance, address))) = (&mut self.nat, before)
        {
            nat.end_session(instance, address.into(), now);
        }
        done
    }

    /// Writes rates and access lists of subscribers with those handles anew, and their queues, as their profiles and groups
    /// have them now. What waited for one that is shaped no more is given to `each`.
    pub fn refresh(&mut self, handles: Range<u32>, now: u64, mut each: impl FnMut(Frame)) {
        self.subscribers.refresh(handles.clone(), now);
        let (Some(shaper), subscribers) = (&mut self.shaper, &self.subscribers) else { return };
        for handle in handles {
            let Some(owner) = Owner::of(subscribers, handle) else { continue };
            let Some(spec) = subscribers.spec_of(owner.record) else { continue };
            let of = subscribers.group(spec.group).map(|group| &group.plan).zip(subscribers.profile(spec.profile));
            if let Some(of) = of {
                shaper.install(&spec, owner, of, now, &mut each);
            }
        }
    }

    /// The port a burst came in by, as the stages see it. An unknown one has no address and drops everything.
    #[inline]
    pub fn port(&self, id: u8) -> &PortView {
        self.forwarding().port(id)
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
        let head = self.subscribers.head(lane.record[i])?;
        (head.flags & flags::UNTRANSLATED == 0).then_some(head.handle)
    }

    #[inline]
    fn is_untranslated(&self, lane: &Lane, i: usize) -> bool {
        lane.inside.has(i) || self.directory.is_untranslated(lane.instance[i], lane.ip(i).dst)
    }

    #[inline]
    fn readdressed(&mut self, lane: &mut Lane, i: usize) {
        let place = self.subscribers.place4(lane.instance[i], lane.ip(i).dst);
        self.subscribers.prefetch(place);
        lane.place[i] = place;
    }
}

impl Kind for Bng {
    type Lane = Lane;
    type State = State;
    type Config = Choices;

    const DROPS: &'static [&'static [Reason<Drop>]] = &[engine::drops::ALL, dataplane::drops::ALL, drops::ALL];
    const PUNTS: &'static [&'static [Reason<Punt>]] = &[dataplane::punts::ALL, punts::ALL];

    fn describe(burst: &Burst<Self>, i: usize, _: &Self::State) -> String {
        let lane = &burst.lane;
        dataplane::lane::describe(burst, i, |words| {
            if lane.record[i] != NOBODY {
                words.push(format!("subscriber record {}", lane.record[i].0));
            }
        })
    }

    fn leaves_by(burst: &Burst<Self>, i: usize) -> Option<u8> {
        (burst.lane.hop[i] != NONE).then(|| burst.out(i))
    }

    fn forget(lane: &mut Lane, i: usize) {
        *lane.ip_mut(i) = L3L4::default();
        (lane.record[i], lane.hop[i]) = (NOBODY, NONE);
    }
}
