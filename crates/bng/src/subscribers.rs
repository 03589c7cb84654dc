//! A worker's subscribers, and how a packet finds its own.
//!
//! ```text
//! (port, S-VLAN) ─► VlanEntry ─ + C-VLAN ─┐                       1:1
//! (port, S, C, MAC) ─► hash map ──────────┼─► record (3 lines)    N:1
//! IPv4: /16 ─► page ─ + low 16 bits ──────┤
//! IPv6: slice ─ + prefix number ──────────┘
//! ```
//!
//! VLAN pairs and addresses of the groups' own ranges lead to a cell of one array: no hash, and sixteen neighbours share
//! a cache line. Addresses outside of all slices are in hash maps.

mod install;
mod kernel;
mod reload;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use access::option82::LineRate;
use dataplane::forward::InstanceId;
use gateway::fast_path::InKernel;
use table::bulk::{BulkMap, Hash, Seed};
use table::hint::{prefetch_index, prefetch_index_far};
use table::records::{LineId, Lines};

use crate::config::{GroupPlan, Layout, ProfilePlan};
use crate::link::Line;
use crate::record::{Head, LINES, Meter, head, head_mut, meter, meter_mut, meter_of};
use crate::slow::LineCount;
use crate::steer::VLANS;

pub use kernel::Place;
pub use reload::Rules;

/// No place: [`Subscribers::at`] has nothing there.
pub const NOWHERE: u32 = 0;
/// No group.
pub const NO_GROUP: u16 = u16::MAX;

/// What an outer VLAN of a port leads to.
#[derive(Clone, Copy, Debug)]
pub struct VlanEntry {
    /// The place of the first inner VLAN.
    first: u32,
    /// The group; [`NO_GROUP`]: none of this worker's.
    pub group: u16,
    c_first: u16,
    c_count: u16,
    /// The VRF of its subscribers.
    pub instance: InstanceId,
    /// The gateway's hardware address towards its lines.
    pub mac: [u8; 6],
    /// Tags of its frames.
    pub tags: u8,
    /// Hardware addresses tell lines apart.
    pub shared: bool,
}

impl VlanEntry {
    const NONE: Self = Self {
        first: NOWHERE,
        group: NO_GROUP,
        c_first: 0,
        c_count: 0,
        instance: 0,
        mac: [0; 6],
        tags: 0,
        shared: false,
    };

    /// Whether a group of the configuration has it, whoever owns that.
    pub(crate) fn is_configured(&self) -> bool {
        self.first != NOWHERE
    }

    /// The place of a line's cell, where VLAN pairs are lines. None: it is not in the group.
    #[inline(always)]
    pub fn place(&self, c_vlan: u16) -> Option<u32> {
        let offset = c_vlan.wrapping_sub(self.c_first);
        (offset < self.c_count).then(|| self.first + u32::from(offset))
    }
}

/// A group as the stages see it.
#[derive(Clone, Debug)]
pub struct GroupView {
    /// Its configuration in numbers.
    pub plan: GroupPlan,
    /// The hardware address that frames of its lines are sent to, by place in `plan.ports`.
    macs: Vec<[u8; 6]>,
    /// Largest IP packet towards its subscribers, by place in `plan.ports`.
    mtus: Vec<u16>,
}

impl GroupView {
    /// The gateway's hardware address towards lines of a port.
    #[inline(always)]
    pub fn mac(&self, port: u8) -> [u8; 6] {
        let at = self.plan.ports.iter().position(|own| *own == port);
        at.and_then(|at| self.macs.get(at)).copied().unwrap_or_default()
    }

    fn mtu(&self, port: u8) -> u16 {
        let at = self.plan.ports.iter().position(|own| *own == port);
        at.and_then(|at| self.mtus.get(at)).copied().unwrap_or(1500)
    }
}

/// IPv6 prefixes in a row and their cells.
#[derive(Clone, Copy, Debug)]
struct Row6 {
    first: u64,
    last: u64,
    shift: u8,
    place: u32,
}

/// Records by VRF and IPv6 prefix, of one length.
struct Hosts6 {
    length: u8,
    records: BulkMap<(u32, u64), u32>,
}

/// Addresses of a VRF.
#[derive(Default)]
struct Addresses {
    /// By the upper 16 bits of an IPv4 address: the place of the first of its 65,536 cells; [`NOWHERE`]: none.
    pages: Box<[u32]>,
    /// Rows, in order of their prefix.
    rows: Vec<Row6>,
}

/// Why a subscriber was not installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its line or one of its addresses is another's.
    Taken,
    /// Its group is not this worker's, or its line not the group's.
    Foreign,
    /// There is no memory.
    Memory,
}

/// What a subscriber has sent and received so far, by family: IPv4, IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Packets from it.
    pub up_packets: [u64; 2],
    /// Bytes from it.
    pub up_bytes: [u64; 2],
    /// Packets to it.
    pub down_packets: [u64; 2],
    /// Bytes to it.
    pub down_bytes: [u64; 2],
    /// Its hardware address, if it is known.
    pub mac: Option<[u8; 6]>,
}

/// A worker's subscribers.
pub struct Subscribers {
    records: Lines,
    /// Records by place, from 1; 0: none.
    cells: Vec<u32>,
    /// By port and outer VLAN.
    vlans: Vec<Box<[VlanEntry]>>,
    groups: Vec<GroupView>,
    profiles: Arc<[ProfilePlan]>,
    /// Lists that do as two of them.
    pairs: HashMap<(u16, u16), u16>,
    /// Lines of N:1 by VLAN pair and hardware address.
    shared: BulkMap<u128, u32>,
    addresses: Vec<Addresses>,
    /// IPv4 addresses in no slice.
    hosts4: BulkMap<(u32, u32), u32>,
    /// IPv6 prefixes in no slice, by length, the longest first.
    hosts6: Vec<Hosts6>,
    /// The same prefixes in order: where each ends, and its record.
    outside: BTreeMap<(InstanceId, u64), (u64, u32)>,
    /// Records by handle, from 1.
    by_handle: Vec<u32>,
    /// What lines carry, by handle: those whose access nodes tell it.
    line_rates: HashMap<u32, LineRate>,
    count: usize,
    /// The in-kernel path, where there is one.
    kernel: Option<Box<kernel::Kernel>>,
    /// By handle, as far as any was there.
    in_kernel: Vec<InKernel>,
    /// Groups that move: their subscribers do not go there.
    held_groups: Vec<u16>,
}

fn memory<E>(_: E) -> Refused {
    Refused::Memory
}

impl Subscribers {
    /// The tables of a worker, for `expected` subscribers; `ports` are each port's hardware address and MTU.
    ///
    /// # Errors
    /// [`Refused::Memory`].
    pub fn new(layout: &Layout, worker: u16, ports: &[([u8; 6], u16)], instances: usize) -> Result<Self, Refused> {
        let own = |group: &GroupPlan| group.worker == worker;
        let expected = layout.subscribers.iter().filter(|spec| own(&layout.groups[usize::from(spec.group)]));
        let expected = expected.count().max(64);
        let shared = layout.groups.iter().any(|group| own(group) && group.shared);
        let mut this = Self {
            records: Lines::with_capacity(expected * LINES).map_err(memory)?,
            cells: Vec::new(),
            vlans: ports.iter().map(|_| vec![VlanEntry::NONE; VLANS].into()).collect(),
            groups: Vec::new(),
            profiles: layout.profiles.clone().into(),
            pairs: layout.pairs.clone(),
            shared: BulkMap::with_capacity(if shared { expected } else { 64 }, Seed::random()).map_err(memory)?,
            addresses: (0..instances).map(|_| Addresses::default()).collect(),
            hosts4: BulkMap::with_capacity(64, Seed::random()).map_err(memory)?,
            hosts6: Vec::new(),
            outside: BTreeMap::new(),
            line_rates: HashMap::new(),
            by_handle: Vec::new(),
            count: 0,
            kernel: None,
            in_kernel: Vec::new(),
            held_groups: Vec::new(),
        };
        // The first cell stays empty: it stands for no place.
        let mut next = 1usize;
        for (n, plan) in layout.groups.iter().enumerate() {
            let of = |port: &u8| ports.get(usize::from(*port)).copied().unwrap_or_default();
            let macs = plan.ports.iter().map(|port| plan.mac.unwrap_or(of(port).0)).collect();
            let mtus = plan.ports.iter().map(|port| plan.mtu.unwrap_or(of(port).1)).collect();
            this.groups.push(GroupView { plan: plan.clone(), macs, mtus });
            // Groups of other workers, too: they may move here. Places cost no memory until they are used.
            this.place_lines(n as u16, plan, &mut next);
            this.place_addresses(plan, &mut next);
            if own(plan) {
                this.adopt(n as u16);
            }
        }
        u32::try_from(next).map_err(memory)?;
        // Zeroed pages of the kernel: memory is taken as cells are used.
        this.cells = vec![0; next];
        this.addresses.iter_mut().for_each(|addresses| addresses.rows.sort_unstable_by_key(|row| row.first));
        Ok(this)
    }

    fn place_lines(&mut self, group: u16, plan: &GroupPlan, next: &mut usize) {
        for port in &plan.ports {
            let mac = self.groups.get(usize::from(group)).map(|view| view.mac(*port)).unwrap_or_default();
            for s in 0..plan.s_vlans.count {
                let entry = VlanEntry {
                    first: *next as u32, // checked when all are placed
                    group: NO_GROUP,
                    c_first: plan.c_vlans.first,
                    c_count: plan.c_vlans.count,
                    instance: plan.instance,
                    mac,
                    tags: plan.tags,
                    shared: plan.shared,
                };
                let at = usize::from(plan.s_vlans.first + s);
                if let Some(place) = self.vlans.get_mut(usize::from(*port)).and_then(|vlans| vlans.get_mut(at)) {
                    *place = entry;
                }
                *next += if plan.shared { 0 } else { usize::from(plan.c_vlans.count) };
            }
        }
    }

    fn place_addresses(&mut self, plan: &GroupPlan, next: &mut usize) {
        let Some(addresses) = self.addresses.get_mut(usize::from(plan.instance)) else { return };
        if addresses.pages.is_empty() {
            addresses.pages = vec![NOWHERE; 1 << 16].into();
        }
        for at in plan.v4.iter().flat_map(|slice| slice.first >> 16..=slice.last >> 16) {
            let page = &mut addresses.pages[at as usize];
            if *page == NOWHERE {
                *page = *next as u32;
                *next += 1 << 16;
            }
        }
        for slice in &plan.v6 {
            let shift = 64 - slice.length;
            addresses.rows.push(Row6 { first: slice.first, last: slice.last, shift, place: *next as u32 });
            *next += ((slice.last - slice.first) >> shift) as usize + 1;
        }
    }

    /// Lines and shared VLAN pairs of all groups that may be this worker's, for limits.
    pub fn lines(&self) -> LineCount {
        let entries = self.vlans.iter().flat_map(|port| port.iter());
        let mut count = LineCount::default();
        for entry in entries {
            let pairs = usize::from(entry.c_count);
            *(if entry.shared { &mut count.pairs } else { &mut count.lines }) += pairs;
        }
        let shared = self.groups.iter().filter(|group| group.plan.shared).flat_map(|group| &group.plan.v4);
        count.lines += shared.map(|slice| (slice.last - slice.first) as usize + 1).sum::<usize>();
        count
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Handles that subscribers have or had: all are below.
    pub(crate) fn handles(&self) -> usize {
        self.by_handle.len()
    }

    /// VRFs there are.
    pub fn instances(&self) -> InstanceId {
        self.addresses.len() as InstanceId // a handful
    }

    /// Bytes of records and indexes.
    pub fn bytes(&self) -> usize {
        // Of cells only those near a subscriber are in memory; all are counted.
        let hosts6: usize = self.hosts6.iter().map(|hosts| hosts.records.bytes()).sum();
        let vlans = self.vlans.len() * VLANS * size_of::<VlanEntry>();
        let pages: usize = self.addresses.iter().map(|addresses| size_of_val(&*addresses.pages)).sum();
        let cells = (self.cells.len() + self.by_handle.len()) * size_of::<u32>();
        self.records.bytes() + cells + self.shared.bytes() + self.hosts4.bytes() + hosts6 + vlans + pages
    }

    /// The group of that number.
    #[inline(always)]
    pub fn group(&self, group: u16) -> Option<&GroupView> {
        self.groups.get(usize::from(group))
    }

    /// The profile of that number.
    #[inline(always)]
    pub fn profile(&self, profile: u16) -> Option<&ProfilePlan> {
        self.profiles.get(usize::from(profile))
    }

    /// All groups, by number.
    pub fn groups(&self) -> &[GroupView] {
        &self.groups
    }

    /// All profiles, by number.
    pub fn profiles(&self) -> &[ProfilePlan] {
        &self.profiles
    }

    /// What an outer VLAN of a port leads to.
    #[inline(always)]
    pub fn vlans(&self, port: u8) -> &[VlanEntry] {
        self.vlans.get(usize::from(port)).map_or(&[], |vlans| vlans)
    }

    /// The record at a place, if there is one.
    #[inline(always)]
    pub fn at(&self, place: u32) -> Option<LineId> {
        self.cells.get(place as usize).and_then(|cell| cell.checked_sub(1)).map(LineId)
    }

    /// Requests the cell at a place.
    #[inline(always)]
    pub fn prefetch(&self, place: u32) {
        if self.cells.len() > 1 << 18 {
            prefetch_index_far(&self.cells, place as usize);
        } else {
            prefetch_index(&self.cells, place as usize);
        }
    }

    /// Requests the index of N:1 lines for a key.
    #[inline(always)]
    pub(crate) fn prefetch_shared(&self, key: u128) -> Hash {
        self.shared.prefetch(key)
    }

    /// The record of an N:1 line.
    #[inline(always)]
    pub fn shared(&self, hash: Hash, key: u128) -> Option<LineId> {
        self.shared.get_hashed(hash, key).map(LineId)
    }

    /// The place of an IPv4 address; [`NOWHERE`]: in no slice of this worker.
    #[inline(always)]
    pub fn place4(&self, instance: InstanceId, address: u32) -> u32 {
        let addresses = self.addresses.get(usize::from(instance));
        match addresses.and_then(|addresses| addresses.pages.get((address >> 16) as usize)) {
            Some(&page) if page != NOWHERE => page + (address & 0xffff),
            _ => NOWHERE,
        }
    }

    /// The place of an IPv6 address, by its upper half.
    #[inline(always)]
    pub(crate) fn place6(&self, instance: InstanceId, upper: u64) -> u32 {
        let Some(addresses) = self.addresses.get(usize::from(instance)) else { return NOWHERE };
        let at = addresses.rows.partition_point(|row| row.first <= upper);
        match at.checked_sub(1).and_then(|at| addresses.rows.get(at)) {
            Some(row) if upper <= row.last => row.place + ((upper - row.first) >> row.shift) as u32,
            _ => NOWHERE,
        }
    }

    /// The record of an IPv4 address in no slice.
    #[inline]
    pub fn host4(&self, instance: InstanceId, address: u32) -> Option<LineId> {
        if self.hosts4.is_empty() { None } else { self.hosts4.get((instance.into(), address)).map(LineId) }
    }

    /// The record of an IPv6 address in no slice, by its upper half.
    #[inline]
    pub fn host6(&self, instance: InstanceId, upper: u64) -> Option<LineId> {
        let find = |hosts: &Hosts6| hosts.records.get((instance.into(), prefix(upper, hosts.length)));
        self.hosts6.iter().find_map(find).map(LineId)
    }

    /// The record of an address.
    pub fn of_address(&self, instance: InstanceId, address: std::net::IpAddr) -> Option<LineId> {
        match address {
            std::net::IpAddr::V4(address) => {
                let address = address.into();
                self.at(self.place4(instance, address)).or_else(|| self.host4(instance, address))
            }
            std::net::IpAddr::V6(address) => {
                let upper = (u128::from(address) >> 64) as u64;
                self.at(self.place6(instance, upper)).or_else(|| self.host6(instance, upper))
            }
        }
    }

    /// The record of a line, for what is not in a hurry.
    pub(crate) fn of_line(&self, line: Line, mac: [u8; 6]) -> Option<LineId> {
        let entry = self.vlans(line.port).get(usize::from(line.s_vlan))?;
        if entry.group == NO_GROUP {
            return None;
        }
        if entry.shared { self.shared.get(line.key(mac)).map(LineId) } else { self.at(entry.place(line.c_vlan)?) }
    }

    /// Requests a record's head and the meter of a direction.
    #[inline(always)]
    pub(crate) fn prefetch_record(&self, record: LineId, up: bool) {
        self.records.prefetch(record, 0);
        self.records.prefetch(record, if up { 2 } else { 1 });
    }

    /// Requests the meter of a direction.
    #[inline(always)]
    pub(crate) fn prefetch_meter(&self, record: LineId, up: bool) {
        self.records.prefetch(meter_of(record, up), 0);
    }

    /// What every packet needs of a subscriber.
    #[inline(always)]
    pub fn head(&self, record: LineId) -> Option<&Head> {
        self.records.get(record, 1)?.first().map(head)
    }

    /// The same, to change.
    #[inline(always)]
    pub(crate) fn head_mut(&mut self, record: LineId) -> Option<&mut Head> {
        self.records.get_mut(record, 1)?.first_mut().map(head_mut)
    }

    /// Policer and counters of a direction.
    #[inline(always)]
    pub fn meter(&self, record: LineId, up: bool) -> Option<&Meter> {
        self.records.get(meter_of(record, up), 1)?.first().map(meter)
    }

    /// The same, to change.
    #[inline(always)]
    pub(crate) fn meter_mut(&mut self, record: LineId, up: bool) -> Option<&mut Meter> {
        self.records.get_mut(meter_of(record, up), 1)?.first_mut().map(meter_mut)
    }

    /// The record of a handle.
    pub fn record_of(&self, handle: u32) -> Option<LineId> {
        self.by_handle.get(handle as usize).and_then(|id| id.checked_sub(1)).map(LineId)
    }

    /// What a subscriber has used so far.
    pub fn usage(&self, handle: u32) -> Option<Usage> {
        let record = self.record_of(handle)?;
        let (head, down, up) = (self.head(record)?, self.meter(record, false)?, self.meter(record, true)?);
        let mut usage = Usage {
            up_packets: up.packets,
            up_bytes: up.bytes,
            down_packets: down.packets,
            down_bytes: down.bytes,
            mac: head.mac(),
        };
        self.add_kernels(handle, &mut usage);
        Some(usage)
    }
}

/// The upper half of the last address of a prefix of `len` bits, at most 64.
#[inline(always)]
pub(crate) fn last_of(first: u64, len: u8) -> u64 {
    first | u64::MAX.checked_shr(len.into()).unwrap_or(0)
}

/// The first `len` bits of an upper half, `len` at most 64.
#[inline(always)]
fn prefix(upper: u64, len: u8) -> u64 {
    upper & !u64::MAX.checked_shr(len.into()).unwrap_or(0)
}
