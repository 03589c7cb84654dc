//! Subscribers come, change and go: their places in the indexes and their records.

use access::option82::LineRate;
use dataplane::forward::InstanceId;
use gateway::fast_path::InKernelSessions as _;
use table::bucket;
use table::bulk::{BulkMap, Seed};
use table::records::{Line as CacheLine, LineId};
use wire::Outer;

use super::{Hosts6, NOWHERE, Refused, Subscribers, Usage, last_of, memory, prefix};
use crate::link::{Line, template};
use crate::record::{Head, LINES, Meter, NO_PREFIX, SubscriberSpec, flags, head, meter};
use crate::steps::{MOVE_AFTER, forget};

impl Subscribers {
    /// Installs a subscriber, or changes one of that handle: counters stay, credit as far as new bursts hold it, and on the
    /// same line a hardware address that was learnt.
    ///
    /// # Errors
    /// Why not; nothing has changed then.
    pub fn install(&mut self, spec: &SubscriberSpec, now: u64) -> Result<(), Refused> {
        let may_return = self.may_return_at_once(spec.handle);
        let keys_stay = self.leave_for(spec.handle, Some(spec));
        let result = self.replace(spec, now);
        // As it is now, or, if that was refused, as it was.
        self.return_to_kernel(spec.handle, may_return && keys_stay);
        result
    }

    fn replace(&mut self, spec: &SubscriberSpec, now: u64) -> Result<(), Refused> {
        let old = self.record_of(spec.handle);
        self.check(spec, old)?;
        let replaced = old.and_then(|record| {
            let (head, down, up) = (*self.head(record)?, *self.meter(record, false)?, *self.meter(record, true)?);
            Some((record, self.spec_of(record)?, head, (down, up)))
        });
        // Everything that takes memory comes before what was there is touched.
        if self.by_handle.len() <= spec.handle as usize {
            let len = (spec.handle as usize + 1).next_power_of_two();
            self.by_handle.try_reserve(len - self.by_handle.len()).map_err(memory)?;
            self.by_handle.resize(len, 0);
        }
        if self.records.capacity() - self.records.in_use() < LINES {
            self.records.grow(LINES).map_err(memory)?;
        }
        let record = self.records.alloc(LINES).ok_or(Refused::Memory)?;
        match spec.line_rate.is_unknown() {
            true => drop(self.line_rates.remove(&spec.handle)),
            false => drop(self.line_rates.insert(spec.handle, spec.line_rate)),
        }
        self.write(record, spec, replaced.map(|(_, _, _, meters)| meters), now);
        if let Some((_, before, head, _)) = &replaced
            && before.line == spec.line
        {
            self.keep_learnt(record, head);
        }
        if let Some((_, before, ..)) = &replaced {
            self.unindex(before);
        }
        if self.index(spec, record).is_err() {
            self.unindex(spec);
            self.records.free(record, LINES);
            if let Some((old, before, ..)) = &replaced {
                if !before.line_rate.is_unknown() {
                    self.line_rates.insert(before.handle, before.line_rate);
                }
                // It had its places a moment ago; should one be lost, it is found by the others still.
                let _ = self.index(before, *old);
            }
            return Err(Refused::Memory);
        }
        match replaced {
            Some((old, ..)) => self.records.free(old, LINES),
            None => self.count += 1,
        }
        self.by_handle[spec.handle as usize] = record.0 + 1;
        Ok(())
    }

    /// Whether a subscriber can be installed beside all but `old`.
    pub(super) fn check(&self, spec: &SubscriberSpec, old: Option<LineId>) -> Result<(), Refused> {
        let plan = self.groups.get(usize::from(spec.group)).map(|group| &group.plan).ok_or(Refused::Foreign)?;
        let entry = self.vlans(spec.line.port).get(usize::from(spec.line.s_vlan)).ok_or(Refused::Foreign)?;
        let in_group = entry.group == spec.group && (!plan.shared || spec.mac.is_some());
        let place = entry.place(spec.line.c_vlan).filter(|_| in_group).ok_or(Refused::Foreign)?;
        let key = spec.line.key(spec.mac.unwrap_or_default());
        let line = if plan.shared { self.shared.get(key).map(LineId) } else { self.at(place) };
        let address = spec.ipv4.and_then(|address| self.of_address(plan.instance, address.to_be_bytes().into()));
        if [line, address].into_iter().flatten().any(|other| Some(other) != old) {
            return Err(Refused::Taken);
        }
        let meet = |wan: u64, (pd, len): (u64, u8)| pd <= wan && wan <= last_of(pd, len);
        if spec.wan.zip(spec.pd).is_some_and(|(wan, pd)| meet(wan, pd)) {
            return Err(Refused::Taken);
        }
        let prefixes = spec.wan.map(|wan| (wan, 64)).into_iter().chain(spec.pd);
        if prefixes.into_iter().any(|prefix| self.is_taken(plan.instance, prefix, old)) {
            return Err(Refused::Taken);
        }
        Ok(())
    }

    /// Whether a part of a prefix is another's than `old`'s, or a part of it is in a slice and a part is not.
    pub(super) fn is_taken(&self, instance: InstanceId, (first, len): (u64, u8), old: Option<LineId>) -> bool {
        let last = last_of(first, len);
        let is_other = |record: LineId| Some(record) != old;
        let rows = self.addresses.get(usize::from(instance)).map(|addresses| &addresses.rows[..]).unwrap_or_default();
        let mut rows = rows.iter().filter(|row| row.first <= last && first <= row.last);
        if let Some(row) = rows.next() {
            let whole = row.first <= first && last <= row.last && len + row.shift <= 64;
            let (from, to) = (self.place6(instance, first), self.place6(instance, last));
            return !whole || (from..=to).filter_map(|place| self.at(place)).any(is_other);
        }
        let meeting = self.outside.range((instance, first)..=(instance, last)).map(|(_, (_, record))| LineId(*record));
        meeting.chain(self.covering(instance, first)).any(is_other)
    }

    /// The subscriber whose prefix in no slice has an address, by its upper half.
    pub(super) fn covering(&self, instance: InstanceId, upper: u64) -> Option<LineId> {
        let (_, (last, record)) = self.outside.range((instance, 0)..=(instance, upper)).next_back()?;
        (*last >= upper).then_some(LineId(*record))
    }

    /// The hardware address that the record before had learnt.
    pub(super) fn keep_learnt(&mut self, record: LineId, before: &Head) {
        if before.flags & flags::LEARNT != 0
            && let Some(head) = self.head_mut(record)
            && head.flags & flags::NO_MAC != 0
        {
            head.link = before.link;
            head.flags = head.flags & !flags::NO_MAC | flags::LEARNT;
        }
    }

    /// Whether nothing came from a subscriber for [`MOVE_AFTER`].
    pub fn is_idle(&self, record: LineId, now: u64) -> bool {
        self.meter(record, true).is_some_and(|meter| now.saturating_sub(meter.bucket.last_ns) >= MOVE_AFTER)
    }

    pub(super) fn index(&mut self, spec: &SubscriberSpec, record: LineId) -> Result<(), table::bulk::Full> {
        let Some(group) = self.groups.get(usize::from(spec.group)) else { return Ok(()) };
        let (instance, shared) = (group.plan.instance, group.plan.shared);
        if shared {
            self.shared.insert(spec.line.key(spec.mac.unwrap_or_default()), record.0)?;
        } else if let Some(place) = self.place_of(spec.line) {
            self.set(place, record.0 + 1);
        }
        if let Some(address) = spec.ipv4 {
            match self.place4(instance, address) {
                NOWHERE => drop(self.hosts4.insert((instance.into(), address), record.0)?),
                place => self.set(place, record.0 + 1),
            }
        }
        for (upper, len) in spec.wan.map(|wan| (wan, 64)).into_iter().chain(spec.pd) {
            match self.place6(instance, upper) {
                NOWHERE => {
                    let at = self.hosts6.partition_point(|hosts| hosts.length > len);
                    if self.hosts6.get(at).is_none_or(|hosts| hosts.length != len) {
                        let records = BulkMap::with_capacity(64, Seed::random())?;
                        self.hosts6.insert(at, Hosts6 { length: len, records });
                    }
                    self.hosts6[at].records.insert((instance.into(), prefix(upper, len)), record.0)?;
                    self.outside.insert((instance, upper), (last_of(upper, len), record.0));
                }
                place => self.set_row(instance, place, (upper, len), record.0 + 1),
            }
        }
        Ok(())
    }

    pub(super) fn unindex(&mut self, spec: &SubscriberSpec) {
        let Some(group) = self.groups.get(usize::from(spec.group)) else { return };
        let (instance, shared) = (group.plan.instance, group.plan.shared);
        if shared {
            self.shared.remove(spec.line.key(spec.mac.unwrap_or_default()));
        } else if let Some(place) = self.place_of(spec.line) {
            self.set(place, 0);
        }
        if let Some(address) = spec.ipv4 {
            match self.place4(instance, address) {
                NOWHERE => drop(self.hosts4.remove((instance.into(), address))),
                place => self.set(place, 0),
            }
        }
        for (upper, len) in spec.wan.map(|wan| (wan, 64)).into_iter().chain(spec.pd) {
            match self.place6(instance, upper) {
                NOWHERE => {
                    if let Some(hosts) = self.hosts6.iter_mut().find(|hosts| hosts.length == len) {
                        hosts.records.remove((instance.into(), prefix(upper, len)));
                    }
                    self.outside.remove(&(instance, upper));
                }
                place => self.set_row(instance, place, (upper, len), 0),
            }
        }
    }

    pub(super) fn place_of(&self, line: Line) -> Option<u32> {
        self.vlans(line.port).get(usize::from(line.s_vlan))?.place(line.c_vlan)
    }

    pub(super) fn set(&mut self, place: u32, value: u32) {
        if place != NOWHERE
            && let Some(cell) = self.cells.get_mut(place as usize)
        {
            *cell = value;
        }
    }

    /// Sets all cells of a prefix: several, where the slice is divided into longer ones.
    pub(super) fn set_row(&mut self, instance: InstanceId, place: u32, (upper, len): (u64, u8), value: u32) {
        let end = self.place6(instance, last_of(upper, len));
        (place..=end.max(place)).for_each(|place| self.set(place, value));
    }

    /// What a head has of the list of its profile and that of its location.
    pub(super) fn lists_of(&self, profile: u16, location: u16) -> [u16; 2] {
        self.pairs.get(&(profile, location)).map_or([profile, location], |both| [*both, 0])
    }

    /// Fills a record in.
    pub(super) fn write(&mut self, record: LineId, spec: &SubscriberSpec, before: Option<(Meter, Meter)>, now: u64) {
        let (Some(group), Some(profile)) =
            (self.groups.get(usize::from(spec.group)), self.profiles.get(usize::from(spec.profile)))
        else {
            return;
        };
        let plan = &group.plan;
        let (link, link_len) =
            template(spec.mac.unwrap_or_default(), group.mac(spec.line.port), spec.line, plan.tags, plan.tpid);
        let (pd, pd_len) = spec.pd.unwrap_or((NO_PREFIX, 64));
        let new = Head {
            link,
            link_len,
            flags: if spec.mac.is_none() { flags::NO_MAC } else { 0 }
                | if profile.shape.is_some() { flags::SHAPED } else { 0 }
                | if plan.nat { 0 } else { flags::UNTRANSLATED },
            handle: spec.handle,
            ipv4: spec.ipv4.unwrap_or(0),
            wan: spec.wan.unwrap_or(NO_PREFIX),
            pd,
            group: spec.group,
            instance: plan.instance,
            acl: self.lists_of(profile.acl, plan.acl),
            profile: spec.profile,
            mtu: group.mtu(spec.line.port),
            pd_len,
            overhead: if profile.layer2 { link_len } else { 0 },
            port: spec.line.port,
            spare: 0,
        };
        let of = |rate: bucket::Config, before: Option<Meter>| match before {
            None => Meter { rate, bucket: bucket::State::full(&rate, now), packets: [0; 2], bytes: [0; 2] },
            Some(mut meter) => {
                bucket::retune(&meter.rate.clone(), &rate, &mut meter.bucket, now);
                Meter { rate, ..meter }
            }
        };
        let (rates, before) = (profile.policers(spec.line_rate), before.unzip());
        let (down, up) = (of(rates.0, before.0), of(rates.1, before.1));
        if let Some(head) = self.head_mut(record) {
            *head = new;
        }
        for (is_up, new) in [(false, down), (true, up)] {
            if let Some(meter) = self.meter_mut(record, is_up) {
                *meter = new;
            }
        }
    }

    /// Goes on with what another process's record of a subscriber has learnt and counted: hardware address and tag types as
    /// received, counters, and credit as far as the rates here hold it.
    /// False: it is not here.
    pub(crate) fn carry_on(&mut self, handle: u32, lines: &[CacheLine; LINES], now: u64) -> bool {
        let Some(record) = self.record_of(handle) else { return false };
        let before = *head(&lines[0]);
        if let Some(head) = self.head_mut(record)
            && head.link_len == before.link_len
        {
            // Between the two stands the gateway's own address.
            head.link[..6].copy_from_slice(&before.link[..6]);
            head.link[12..].copy_from_slice(&before.link[12..]);
            let learnt = flags::NO_MAC | flags::LEARNT;
            head.flags = head.flags & !learnt | before.flags & learnt;
        }
        for (is_up, line) in [(false, &lines[1]), (true, &lines[2])] {
            let mut before = *meter(line);
            if let Some(meter) = self.meter_mut(record, is_up) {
                if before.rate != meter.rate {
                    bucket::retune(&before.rate, &meter.rate, &mut before.bucket, now);
                    before.rate = meter.rate;
                }
                *meter = before;
            }
        }
        true
    }

    /// Forgets a subscriber's hardware address, if it was learnt.
    pub fn forget(&mut self, handle: u32) {
        let may_return = self.may_return_at_once(handle);
        self.leave_kernel(handle);
        if let Some(head) = self.record_of(handle).and_then(|record| self.head_mut(record)) {
            forget(head);
        }
        self.return_to_kernel(handle, may_return);
    }

    /// Takes a subscriber out; returns what it used. None: there is no such subscriber.
    pub fn remove(&mut self, handle: u32) -> Option<Usage> {
        let _ = self.leave_for(handle, None); // it has none any more
        let record = self.record_of(handle)?;
        let (spec, usage) = (self.spec_of(record)?, self.usage(handle));
        self.by_handle[handle as usize] = 0;
        self.line_rates.remove(&handle);
        self.unindex(&spec);
        self.records.free(record, LINES);
        self.count -= 1;
        usage
    }

    /// What was installed, read back from a record.
    pub(crate) fn spec_of(&self, record: LineId) -> Option<SubscriberSpec> {
        let head = self.head(record)?;
        Self::spec_in(head, self.line_rate(head.handle))
    }

    /// What a subscriber's line carries, as far as its access node has told.
    pub(crate) fn line_rate(&self, handle: u32) -> LineRate {
        self.line_rates.get(&handle).copied().unwrap_or_default()
    }

    /// The same of a record's head.
    pub(crate) fn spec_in(head: &Head, line_rate: LineRate) -> Option<SubscriberSpec> {
        let outer = Outer::parse(head.link.get(..head.link_len.into())?).ok()?;
        let some = |prefix: u64| (prefix != NO_PREFIX).then_some(prefix);
        Some(SubscriberSpec {
            handle: head.handle,
            line: Line::of(head.port, &outer),
            group: head.group,
            mac: head.mac().filter(|_| head.flags & flags::LEARNT == 0),
            ipv4: (head.ipv4 != 0).then_some(head.ipv4),
            wan: some(head.wan),
            pd: some(head.pd).map(|prefix| (prefix, head.pd_len)),
            profile: head.profile,
            line_rate,
        })
    }
}
