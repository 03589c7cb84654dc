//! Subscribers that are in the kernel: what they have there, and what they come back with. When they go is
//! [`gateway::fast_path`]'s.

use std::sync::Arc;

use gateway::fast_path::{self, InKernel, InKernelSessions, address_key, bucket_from_kernel, prefix_key};
use table::bucket;
use table::records::LineId;

use super::{Subscribers, Usage};
use crate::fast::{FastPath, NotEligible, Session, compile, line_key, shared_key};
use crate::record::{SubscriberSpec, flags};

/// A worker's share in the in-kernel path.
pub(super) type Kernel = fast_path::Kernel<FastPath>;

/// A policer of which the kernel has the state: it lets nothing pass.
const CLOSED: bucket::State = bucket::State { credit: 0, last_ns: u64::MAX };

/// What leads to a subscriber in the program's index.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    key: u64,
    /// It is the hash of something: another's may be equal.
    is_mixed: bool,
}

impl InKernelSessions for Subscribers {
    type Path = FastPath;

    #[inline]
    fn kernel(&self) -> Option<&Kernel> {
        self.kernel.as_deref()
    }

    #[inline]
    fn kernel_mut(&mut self) -> Option<&mut Kernel> {
        self.kernel.as_deref_mut()
    }

    fn handles_end(&self) -> u32 {
        self.by_handle.len() as u32 // handles are 32 bits
    }

    fn place_in_kernel(&mut self, handle: u32) -> Option<&mut InKernel> {
        self.record_of(handle)?;
        let at = handle as usize;
        if self.in_kernel.len() <= at {
            self.in_kernel.resize(self.by_handle.len().max(at + 1), InKernel::default());
        }
        self.in_kernel.get_mut(at)
    }

    #[inline]
    fn is_in_kernel(&self, handle: u32) -> bool {
        self.in_kernel.get(handle as usize).is_some_and(|place| place.is_there)
    }

    fn try_to_enter(&mut self, handle: u32, stood: Option<u32>) -> bool {
        let Some(kernel) = self.kernel.as_deref().filter(|kernel| !kernel.is_closed && kernel.path.is_running()) else {
            return true;
        };
        if self.is_in_kernel(handle) {
            return true;
        }
        let (Some(record), Some(number)) = (self.record_of(handle), kernel.number(handle)) else { return true };
        let session = self.for_kernel(kernel, record);
        // One whose hardware address is still to be learnt is known to the program, which counts what it leaves to us.
        if !matches!(session, Ok(_) | Err(NotEligible::NoMac)) {
            return true;
        }
        let path = kernel.path.clone();
        if !self.is_linked(handle) {
            path.begin(number);
            if !self.link_kernel(handle, &path, number) {
                return true;
            }
        }
        let Ok(session) = session else { return true };
        if !path.enter(number, &session, stood.unwrap_or_else(|| path.stands(number))) {
            return false;
        }
        for is_up in [false, true] {
            if let Some(meter) = self.meter_mut(record, is_up) {
                meter.bucket = CLOSED;
            }
        }
        if let Some(place) = self.place_in_kernel(handle) {
            place.enter();
        }
        true
    }

    fn leave_kernel(&mut self, handle: u32) {
        if !self.is_in_kernel(handle) {
            return;
        }
        let Some(kernel) = self.kernel.as_deref() else { return };
        let Some(number) = kernel.number(handle) else { return };
        kernel.path.leave(number);
        self.take_state(handle);
    }
}

impl Subscribers {
    /// Takes over what the program has of a subscriber that it forwards nothing for any more.
    fn take_state(&mut self, handle: u32) {
        let Some((kernel, record)) = self.kernel.as_deref().zip(self.record_of(handle)) else { return };
        let Some(number) = kernel.number(handle) else { return };
        let (there, offset, now) = (kernel.path.session(number), kernel.offset, kernel.now());
        let last = there.up.meter.own.saturating_add_signed(-offset).min(now);
        for (is_up, lane, at) in [(false, &there.down, now), (true, &there.up, last)] {
            if let Some(meter) = self.meter_mut(record, is_up) {
                meter.bucket = bucket_from_kernel(&meter.rate, &lane.meter, at, offset);
                for family in 0..2 {
                    meter.packets[family] += lane.packets[family];
                    meter.bytes[family] += lane.bytes[family];
                }
            }
        }
        if let Some(place) = self.place_in_kernel(handle) {
            place.leave();
        }
    }

    /// Has subscribers go into the kernel from now on, those that are there already too. `now` is the worker's time.
    pub fn set_fast_path(&mut self, path: Arc<FastPath>, worker: u16, now: u64) {
        self.kernel = Some(Box::new(Kernel::new(path, worker, now)));
        self.open_kernel(true);
    }

    /// Whether a subscriber is in the kernel, and why not, in words; none: there is no in-kernel path.
    pub fn kernel_in_words(&self, handle: u32) -> Option<Place> {
        let (kernel, record) = (self.kernel.as_deref()?, self.record_of(handle)?);
        Some(match self.for_kernel(kernel, record) {
            _ if self.is_in_kernel(handle) => Place::Kernel,
            // The index leads to no more.
            Ok(_) if kernel.number(handle).is_none() || !self.is_linked(handle) => Place::Worker(NotEligible::NoRoom),
            Ok(_) => Place::ForAWhile,
            Err(why) => Place::Worker(why),
        })
    }

    /// What the program would have of a subscriber.
    fn for_kernel(&self, kernel: &Kernel, record: LineId) -> Result<Session, NotEligible> {
        let head = self.head(record).ok_or(NotEligible::NoRoom)?;
        let group = self.group(head.group).ok_or(NotEligible::NoRoom)?;
        let profile = self.profile(head.profile).ok_or(NotEligible::NoRoom)?;
        if self.held_groups.contains(&head.group) {
            return Err(NotEligible::Moves);
        }
        let meters = self.meter(record, false).zip(self.meter(record, true)).ok_or(NotEligible::NoRoom)?;
        compile(head, (&group.plan, profile), meters.into(), kernel.worker, (&*kernel.path, kernel.offset))
    }

    fn is_linked(&self, handle: u32) -> bool {
        self.in_kernel.get(handle as usize).is_some_and(|place| place.is_linked)
    }

    /// What leads to a subscriber as installed: its line and its addresses.
    fn kernel_keys(&self, spec: &SubscriberSpec) -> Vec<Key> {
        let Some(group) = self.group(spec.group).map(|group| &group.plan) else { return Vec::new() };
        let instance = group.instance;
        let line = match spec.mac.filter(|_| group.shared) {
            Some(mac) => Key {
                key: shared_key(spec.line, mac, self.kernel.as_deref().map_or(1, |kernel| kernel.path.seed())),
                is_mixed: true,
            },
            None => Key { key: line_key(spec.line), is_mixed: false },
        };
        let address = spec.ipv4.map(|to| address_key(instance, to));
        let prefixes = spec.wan.map(|wan| (wan, 64)).into_iter().chain(spec.pd);
        let prefixes = prefixes.map(|(upper, len)| Key { key: prefix_key(instance, upper, len), is_mixed: false });
        let address = address.map(|key| Key { key, is_mixed: false });
        std::iter::once(line).chain(address).chain(prefixes).collect()
    }

    /// The keys of a subscriber that is installed.
    fn keys_of(&self, handle: u32) -> Vec<Key> {
        let spec = self.record_of(handle).and_then(|record| self.spec_of(record));
        spec.map_or_else(Vec::new, |spec| self.kernel_keys(&spec))
    }

    /// Has the program's index lead to a subscriber. False: there is no room.
    fn link_kernel(&mut self, handle: u32, path: &FastPath, number: u32) -> bool {
        let keys = self.keys_of(handle);
        let link = |key: &Key| if key.is_mixed { path.link_mixed(key.key, number) } else { path.link(key.key, number) };
        let linked = keys.iter().all(link);
        if !linked {
            keys.iter().for_each(|key| path.unlink(key.key, number));
        }
        if let Some(place) = self.place_in_kernel(handle) {
            place.is_linked = linked;
        }
        linked
    }

    /// Whether a subscriber that is to change may go into the kernel again at once: it is new, or the program has left no
    /// packet of it to the worker.
    pub(super) fn may_return_at_once(&self, handle: u32) -> bool {
        let number = |kernel: &Kernel| kernel.number(handle).is_some_and(|number| kernel.shared().is_taken(number));
        self.record_of(handle).is_none() || self.is_in_kernel(handle) && self.kernel.as_deref().is_some_and(number)
    }

    /// A subscriber that has changed goes into the kernel: at once, or behind its packets that the program has left.
    pub(super) fn return_to_kernel(&mut self, handle: u32, at_once: bool) {
        if at_once {
            self.enter_kernel(handle);
        } else {
            self.begin_to_enter(handle);
        }
    }

    /// Takes a subscriber out of the kernel before it changes: nothing in the program's index leads to it any more if its
    /// keys are to be others (none: it goes). Whether they stay: where they do not, packets may have passed by uncounted.
    pub(super) fn leave_for(&mut self, handle: u32, new: Option<&SubscriberSpec>) -> bool {
        if self.kernel.is_none() || self.record_of(handle).is_none() {
            return true;
        }
        self.leave_kernel(handle);
        let stay = new.is_some_and(|new| self.kernel_keys(new) == self.keys_of(handle));
        if !stay {
            self.unlink_kernel(handle);
        }
        stay
    }

    /// Nothing in the program's index leads to a subscriber any more.
    fn unlink_kernel(&mut self, handle: u32) {
        if !self.is_linked(handle) {
            return;
        }
        let Some(kernel) = self.kernel.as_deref() else { return };
        if let Some(number) = kernel.number(handle) {
            self.keys_of(handle).iter().for_each(|key| kernel.path.unlink(key.key, number));
        }
        if let Some(place) = self.place_in_kernel(handle) {
            place.is_linked = false;
        }
    }

    /// A packet of a subscriber is the worker's: the subscriber is too from now on. False: it was already.
    #[cold]
    pub fn take_back(&mut self, record: LineId) -> bool {
        let Some(handle) = self.head(record).map(|head| head.handle).filter(|handle| self.is_in_kernel(*handle)) else {
            return false;
        };
        self.leave_and_wait(handle);
        true
    }

    /// The header that leads to a subscriber was learnt from one of its frames: the program is to have it, too, and the
    /// subscriber goes there behind its packets that wait.
    #[cold]
    pub(crate) fn link_changed(&mut self, record: LineId) {
        let Some(handle) = self.head(record).filter(|head| head.flags & flags::NO_MAC == 0).map(|head| head.handle)
        else {
            return;
        };
        if self.is_in_kernel(handle) {
            self.leave_and_wait(handle);
        } else {
            self.begin_to_enter(handle);
        }
    }

    /// Subscribers of a group that moves are the workers', or may go into the kernel again.
    pub(crate) fn hold_in_user_space(&mut self, group: u16, hold: bool) {
        if self.kernel.is_none() {
            return;
        }
        self.held_groups.retain(|held| *held != group);
        if hold {
            self.held_groups.push(group);
        }
        let is_its = |handle: &u32| {
            self.record_of(*handle).and_then(|record| self.head(record)).is_some_and(|head| head.group == group)
        };
        let handles: Vec<u32> = (0..self.handles_end()).filter(is_its).collect();
        if !hold {
            return handles.into_iter().for_each(|handle| self.begin_to_enter(handle));
        }
        // All at once: whoever takes one out waits for all CPUs.
        if let Some(kernel) = self.kernel.as_deref() {
            let there = handles.iter().filter(|handle| self.is_in_kernel(**handle));
            kernel.path.leave_all(there.filter_map(|handle| kernel.number(*handle)));
        }
        for handle in handles {
            if self.is_in_kernel(handle) {
                self.take_state(handle);
            }
            // The new owner's are led to, and by the same keys.
            self.unlink_kernel(handle);
        }
    }

    /// Adds to what a subscriber has used what the program has counted, if it is there.
    pub(super) fn add_kernels(&self, handle: u32, usage: &mut Usage) {
        if !self.is_in_kernel(handle) {
            return;
        }
        let Some((kernel, number)) = self.kernel.as_deref().and_then(|k| Some((k, k.number(handle)?))) else { return };
        let [down, up] = kernel.path.lanes(number);
        for family in 0..2 {
            usage.up_packets[family] += up.packets[family];
            usage.up_bytes[family] += up.bytes[family];
            usage.down_packets[family] += down.packets[family];
            usage.down_bytes[family] += down.bytes[family];
        }
    }
}

/// Where a subscriber's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// They are forwarded in the kernel.
    Kernel,
    /// By its worker for a while: some of its packets were not for the kernel.
    ForAWhile,
    /// By its worker, and why.
    Worker(NotEligible),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kernel => f.write_str("in the kernel"),
            Self::ForAWhile => f.write_str("by its worker for a while: some of its packets were not for the kernel"),
            Self::Worker(why) => write!(f, "by its worker: {why}"),
        }
    }
}
