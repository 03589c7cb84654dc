//! What a reload changes of subscribers that are there: tiers, access lists, slices.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use gateway::fast_path::InKernelSessions as _;
use table::bucket;
use table::records::Line;

use super::{NO_GROUP, Subscribers};
use crate::config::{GroupPlan, ProfilePlan};
use crate::record::{LINES, Meter, flags};

/// What subscribers are installed by; profiles and groups keep their numbers.
#[derive(Debug)]
pub struct Rules {
    /// Profiles by number.
    pub profiles: Arc<[ProfilePlan]>,
    /// Lists that do as two of them.
    pub pairs: HashMap<(u16, u16), u16>,
    /// Groups by number: only slices, profiles and lists differ. Addresses of slices that were not there at the start are in
    /// hash maps.
    pub groups: Vec<GroupPlan>,
}

impl Subscribers {
    /// Lines of a group are this worker's from now on.
    pub(crate) fn adopt(&mut self, group: u16) {
        self.own_lines(group, group);
    }

    /// Lines of a group are not this worker's any more.
    pub(crate) fn disown(&mut self, group: u16) {
        self.own_lines(group, NO_GROUP);
    }

    fn own_lines(&mut self, group: u16, owned: u16) {
        let Some(view) = self.groups.get(usize::from(group)) else { return };
        let (first, count) = (usize::from(view.plan.s_vlans.first), usize::from(view.plan.s_vlans.count));
        for port in &view.plan.ports {
            let entries = self.vlans.get_mut(usize::from(*port)).and_then(|vlans| vlans.get_mut(first..first + count));
            entries.into_iter().flatten().for_each(|entry| entry.group = owned);
        }
    }

    /// The record of a subscriber as it lies in memory; none: it is not here.
    pub(crate) fn lines_of(&self, handle: u32) -> Option<[Line; LINES]> {
        self.records.get(self.record_of(handle)?, LINES)?.first_chunk().copied()
    }

    /// Overwrites the record of a subscriber that is installed here by that of the worker it was on. False: it is not.
    pub(crate) fn put_lines(&mut self, handle: u32, lines: &[Line; LINES]) -> bool {
        let record = self.record_of(handle).and_then(|record| self.records.get_mut(record, LINES));
        let own = record.and_then(|own| own.first_chunk_mut());
        own.is_some_and(|own: &mut [Line; LINES]| {
            *own = *lines;
            true
        })
    }

    /// Goes by other rules from now on, and leaves those it had in their place. Records that are there have what they had
    /// until [`refresh`](Self::refresh).
    pub fn set_rules(&mut self, rules: &mut Rules) {
        std::mem::swap(&mut self.profiles, &mut rules.profiles);
        std::mem::swap(&mut self.pairs, &mut rules.pairs);
        for (view, plan) in self.groups.iter_mut().zip(&mut rules.groups) {
            std::mem::swap(&mut view.plan, plan);
        }
    }

    /// Writes rates and access lists of subscribers with those handles anew, as their profiles and groups have them now.
    /// Counters stay, and credit as far as new bursts hold it.
    pub fn refresh(&mut self, handles: Range<u32>, now: u64) {
        for handle in handles {
            let may_return = self.may_return_at_once(handle);
            self.leave_kernel(handle);
            self.write_anew(handle, now);
            self.return_to_kernel(handle, may_return);
        }
    }

    fn write_anew(&mut self, handle: u32, now: u64) {
        let Some(record) = self.record_of(handle) else { return };
        let Some((group, number)) = self.head(record).map(|head| (head.group, head.profile)) else { return };
        let (Some(profile), Some(group)) = (self.profile(number), self.group(group)) else { return };
        let lists = self.lists_of(profile.acl, group.plan.acl);
        let (rates, layer2) = (profile.policers(self.line_rate(handle)), profile.layer2);
        let shaped = if profile.shape.is_some() { flags::SHAPED } else { 0 };
        if let Some(head) = self.head_mut(record) {
            head.acl = lists;
            head.flags = head.flags & !flags::SHAPED | shaped;
            head.overhead = if layer2 { head.link_len } else { 0 };
        }
        for (is_up, rate) in [(false, rates.0), (true, rates.1)] {
            if let Some(meter) = self.meter_mut(record, is_up) {
                retune(meter, rate, now);
            }
        }
    }
}

fn retune(meter: &mut Meter, rate: bucket::Config, now: u64) {
    bucket::retune(&meter.rate.clone(), &rate, &mut meter.bucket, now);
    meter.rate = rate;
}
