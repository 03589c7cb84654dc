//! What the in-kernel path is told by control, and what it has counted.

use gateway::snapshot::KernelCounters;

use super::Control;
use crate::fast;
use crate::steer::Directory;

/// The in-kernel path, as control keeps its tables.
pub(super) struct InKernelPath {
    pub(super) publisher: fast::Publisher,
    /// What rules had matched there when lists were replaced last.
    pub(super) hits_before: Vec<(u64, u64)>,
}

impl InKernelPath {
    /// What the rule of a counter has matched there since lists were replaced last; `first`: their first counter.
    pub(super) fn hits(&self, first: u32, counter: u32) -> (u64, u64) {
        let (packets, bytes) = self.publisher.path().hits(first + counter);
        let before = self.hits_before.get(counter as usize).copied().unwrap_or_default();
        (packets.saturating_sub(before.0), bytes.saturating_sub(before.1))
    }
}

impl Control {
    /// Keeps the program's tables as its own from now on.
    pub fn set_fast_path(&mut self, mut publisher: fast::Publisher, directory: &Directory) {
        let plan = self.neighbourhood.plan();
        publisher.publish(plan, &plan.compile());
        publisher.publish_places(directory, self.prefix_lengths());
        if let Some(lists) = &self.lists {
            publisher.publish_lists(lists.reader().get());
        }
        self.fast = Some(InKernelPath { publisher, hits_before: Vec::new() });
    }

    /// The lengths of subscribers' IPv6 prefixes that the in-kernel path looks up: the longest that there are, and the longest
    /// first, as an address may lie in a prefix of another subscriber's that begins alike.
    pub(super) fn prefix_lengths(&self) -> [u8; fast::LENGTHS] {
        let slices = self.layout.groups.iter().flat_map(|group| group.v6.iter().map(|slice| slice.length));
        let fixed =
            self.subscribers().flat_map(|spec| spec.pd.map(|(_, len)| len).into_iter().chain(spec.wan.map(|_| 64)));
        let mut all: Vec<u8> = Vec::new();
        for length in slices.chain(fixed) {
            if !all.contains(&length) {
                all.push(length);
            }
        }
        all.sort_unstable_by_key(|length| std::cmp::Reverse(*length));
        let mut lengths = [0; fast::LENGTHS];
        lengths.iter_mut().zip(all).for_each(|(to, length)| *to = length);
        lengths
    }

    /// What the in-kernel path has counted; none: there is none.
    pub fn fast_path(&self) -> Option<fast::Counts> {
        self.fast.as_ref().map(|fast| fast.publisher.path().counts())
    }

    /// Has the program take no more packets; what it has counted is final.
    pub(super) fn stop_fast_path(&self) {
        if let Some(fast) = &self.fast {
            let path = fast.publisher.path();
            path.set_running(false);
            path.quiesce();
        }
    }

    /// The same in numbers that all gateways show.
    pub fn kernel_counters(&self) -> Option<KernelCounters> {
        self.fast.as_ref().map(|fast| fast.publisher.path().summary())
    }
}
