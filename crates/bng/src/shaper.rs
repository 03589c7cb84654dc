//! Where packets to shaped subscribers wait: a leaf each in a hierarchy of queues, under their outer VLAN on its port.

use dataplane::hqos::tree::{
    CLASSES, ClassCounts, Departed, Departures, Earned, Framing, LeafSpec, MOST_SHED, NodeSpec, PortSpec, Tree,
    TreeLimits,
};
use dataplane::hqos::{Lease, Refused, Room};
use engine::{Burst, Env, Io, PortId, Stats};
use frame::{BURST, Frame, Pool, flags};
use gateway::shell::hand_over::changed::Changed;
use table::bucket;
use table::hint::prefetch_index;
use table::records::LineId;

use crate::config::{GroupPlan, Layout, ProfilePlan};
use crate::drops;
use crate::lane::{Bng, NOBODY};
use crate::link::Line;
use crate::record::SubscriberSpec;
use crate::subscribers::Subscribers;

/// The leaf of a subscriber whose packets do not wait.
pub const NO_LEAF: u32 = u32::MAX;

/// What a leaf's packets are counted by, as the subscriber's record has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The subscriber's record.
    pub record: LineId,
    /// Bytes counted beside each IP packet.
    pub overhead: u8,
}

impl Owner {
    /// Of a subscriber; none: it is not there.
    pub fn of(subscribers: &Subscribers, handle: u32) -> Option<Self> {
        let record = subscribers.record_of(handle)?;
        Some(Self { record, overhead: subscribers.head(record)?.overhead })
    }
}

/// A subscriber's queues as tables show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Packets and bytes of each class that wait.
    pub waiting: [(u32, u32); CLASSES],
    /// What each class has counted.
    pub classes: [ClassCounts; CLASSES],
}

/// The queues of one worker.
pub struct Shaper {
    tree: Tree<Owner>,
    /// Leaves by handle.
    leaves: Vec<u32>,
    free: Vec<u32>,
    next: u32,
    /// The first node of each group.
    nodes: Vec<u32>,
    /// Class by DSCP, of each profile.
    classes: Vec<[u8; 64]>,
    /// Packets that have made room for others, until their buffers are given back.
    shed: Vec<Frame>,
}

/// Packets that make room for others in a turn, at most: there is room for so many without an allocation.
const SHED: usize = BURST * MOST_SHED;

/// What is noted of packets that make room for others.
pub(crate) struct Shedding<'a> {
    /// Whose they are.
    pub subscribers: &'a Subscribers,
    /// Subscribers that have changed.
    pub changed: &'a mut Changed,
    /// Where drops are counted.
    pub stats: &'a Stats,
}

impl Shedding<'_> {
    /// A packet of the longest queue makes room: it is dropped by name.
    fn note(&mut self, frame: &Frame, owner: Owner) {
        if let (Some(marks), Some(head)) = (self.changed.marks(), self.subscribers.head(owner.record)) {
            marks.mark(head.handle);
        }
        self.stats.add(Io::Released, 1);
        self.stats.drop_outside(drops::FLOW_LONGEST, frame.len());
    }
}

impl Shaper {
    /// Whether a configuration has shaped profiles.
    pub fn is_wanted(layout: &Layout) -> bool {
        layout.profiles.iter().any(|profile| profile.shape.is_some())
    }

    /// The queues of a worker, for `expected` subscribers. `ports` are its parts of the ports. Outer VLANs of groups of other
    /// workers have nodes, too: groups may move here.
    pub fn new(layout: &Layout, limits: TreeLimits, ports: Vec<PortSpec>, expected: usize) -> Self {
        let mut tree = Tree::new(limits, ports, expected, Owner { record: NOBODY, overhead: 0 }, 0);
        let (mut nodes, mut next) = (Vec::new(), 0);
        for group in &layout.groups {
            nodes.push(next);
            for port in &group.ports {
                for _ in 0..group.s_vlans.count {
                    let spec = NodeSpec { port: *port, rate: group.s_vlan_rate, weight: 1, overhead: group.overhead };
                    tree.set_node(next, &spec, 0);
                    next += 1;
                }
            }
        }
        tree.set_may_shed(SHED);
        let shed = Vec::with_capacity(SHED);
        let mut this = Self { tree, leaves: Vec::new(), free: Vec::new(), next: 0, nodes, classes: Vec::new(), shed };
        this.set_profiles(&layout.profiles);
        this
    }

    /// Goes by other profiles and outer VLANs' rates from now on; leaves have theirs when they are installed again.
    pub(crate) fn go_by(&mut self, subscribers: &Subscribers, now: u64) {
        self.set_profiles(subscribers.profiles());
        for (group, first) in subscribers.groups().iter().zip(&self.nodes) {
            let plan = &group.plan;
            let outer = usize::from(plan.s_vlans.count);
            for (node, port) in (*first..).zip(plan.ports.iter().flat_map(|port| std::iter::repeat_n(*port, outer))) {
                let spec = NodeSpec { port, rate: plan.s_vlan_rate, weight: 1, overhead: plan.overhead };
                self.tree.set_node(node, &spec, now);
            }
        }
    }

    /// Takes the terms of all profiles.
    fn set_profiles(&mut self, profiles: &[ProfilePlan]) {
        self.classes.clear();
        for (n, profile) in profiles.iter().enumerate() {
            let shape = profile.shape.as_ref();
            self.classes.push(shape.map_or([0; 64], |shape| shape.class));
            self.tree.set_tier(n as u16, shape.map(|shape| shape.tier).unwrap_or_default());
        }
    }

    /// Packets that wait.
    pub fn held(&self) -> usize {
        self.tree.waiting()
    }

    /// Bytes that wait.
    pub fn bytes(&self) -> u64 {
        self.tree.bytes()
    }

    /// Subscribers that packets wait for.
    pub fn backlogged(&self) -> usize {
        self.tree.backlogged()
    }

    /// Bytes that wait for a port, and how many may; [`u64::MAX`]: it has no buffer of its own.
    pub fn port_bytes(&self, port: usize) -> (u64, u64) {
        self.tree.port_bytes(port)
    }

    /// Bytes of memory that it takes beside packets.
    pub fn memory(&self) -> usize {
        self.tree.memory() + (self.leaves.capacity() + self.free.capacity()) * size_of::<u32>()
    }

    /// When packets may leave next, in nanoseconds.
    pub fn next_due(&self) -> Option<u64> {
        self.tree.next_due()
    }

    /// The leaf of a subscriber; [`NO_LEAF`]: it has none.
    #[inline(always)]
    pub fn find(&self, handle: u32) -> u32 {
        self.leaves.get(handle as usize).copied().unwrap_or(NO_LEAF)
    }

    /// Asks for the place that says which leaf a subscriber has.
    #[inline(always)]
    pub(crate) fn prefetch_place(&self, handle: u32) {
        prefetch_index(&self.leaves, handle as usize);
    }

    /// The class of packets with a DSCP.
    #[inline(always)]
    pub fn class(&self, profile: u16, dscp: u8) -> u8 {
        self.classes.get(usize::from(profile)).map_or(0, |classes| classes[usize::from(dscp) % 64])
    }

    /// Asks for the lines that a packet of a class is about to wait in.
    #[inline(always)]
    pub fn prefetch(&self, leaf: u32, class: u8) {
        self.tree.prefetch(leaf, class);
    }

    /// Lets a packet wait: it is taken. Packets that make room for it are dropped; ask for [`free`](Self::free) once a turn.
    ///
    /// # Errors
    /// Why not; then it stays.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        (leaf, class): (u32, u8),
        frame: &mut Frame,
        now: u64,
        shedding: &mut Shedding<'_>,
    ) -> Result<(), Refused> {
        let made_room = |frame: Frame, owner| {
            shedding.note(&frame, owner);
            self.shed.push(frame);
        };
        self.tree.push(leaf, class, frame, now, made_room)
    }

    /// Lets a packet wait that waited at another worker: the buffer of its port is no bound. It is taken. Packets that make room
    /// for it in the worker's memory are dropped.
    ///
    /// # Errors
    /// Why not; then it stays.
    pub(crate) fn go_on(
        &mut self,
        (leaf, class): (u32, u8),
        frame: &mut Frame,
        now: u64,
        shedding: &mut Shedding<'_>,
    ) -> Result<(), Refused> {
        let made_room = |frame: Frame, owner| {
            shedding.note(&frame, owner);
            self.shed.push(frame);
        };
        self.tree.put(leaf, class, frame, now, made_room)
    }

    /// Lets a packet wait that waited in another process, if the worker's memory has room for it beside all others: it is taken.
    /// Of a worker that has not run.
    pub(crate) fn put(&mut self, (leaf, class): (u32, u8), frame: &mut Frame, at: u64, pool: &mut Pool) -> bool {
        let mut fits = true;
        let made_room = |frame, _| {
            fits = false;
            pool.give(frame);
        };
        self.tree.put(leaf, class, frame, at, made_room).is_ok() && fits
    }

    /// Publishes what waits for each port: much of it has gone to another worker, or come from one.
    pub(crate) fn publish(&mut self, now: u64) {
        self.tree.publish(now);
    }

    /// Gives back the buffers of packets that have made room for others.
    #[inline(always)]
    pub(crate) fn free(&mut self, pool: &mut Pool) {
        if !self.shed.is_empty() {
            self.shed.drain(..).for_each(|frame| pool.give(frame));
            self.tree.set_may_shed(SHED);
        }
    }

    /// Shows what waits in a subscriber's queues: class, since when, and the frame; each class's oldest first.
    pub(crate) fn each_waiting(&self, handle: u32, show: impl FnMut(u8, u64, &Frame)) {
        self.tree.each_waiting(self.find(handle), show);
    }

    /// What a subscriber's queues hold and have counted.
    pub fn queued(&self, handle: u32) -> Option<Queued> {
        let leaf = self.find(handle);
        Some(Queued { waiting: self.tree.backlog(leaf), classes: self.tree.counts(leaf)? })
    }

    /// What a subscriber's classes have counted; none: it has no leaf.
    pub(crate) fn counts(&self, handle: u32) -> Option<[ClassCounts; CLASSES]> {
        self.tree.counts(self.find(handle))
    }

    /// Goes on counting from those counts, of the worker that the subscriber was on.
    pub(crate) fn put_counts(&mut self, handle: u32, counts: &[ClassCounts; CLASSES]) {
        self.tree.put_counts(self.find(handle), counts);
    }

    /// What a subscriber's rates have earned; none: it has no leaf.
    pub(crate) fn earned(&self, handle: u32) -> Option<Earned> {
        self.tree.earned(self.find(handle))
    }

    /// Goes on with what a subscriber's rates had earned in another process.
    pub(crate) fn put_earned(&mut self, handle: u32, earned: &Earned) {
        self.tree.put_earned(self.find(handle), earned);
    }

    /// What outer VLANs' rates have earned.
    pub(crate) fn nodes_earned(&self) -> impl ExactSizeIterator<Item = (bucket::Config, bucket::State)> {
        self.tree.nodes_earned()
    }

    /// Goes on with what outer VLANs' rates had earned in another process.
    pub(crate) fn put_nodes_earned(&mut self, earned: impl Iterator<Item = (bucket::Config, bucket::State)>) {
        self.tree.put_nodes_earned(earned);
    }

    /// The node of a line.
    fn node_of(&self, group: usize, plan: &GroupPlan, line: Line) -> Option<u32> {
        let port = plan.ports.iter().position(|port| *port == line.port)?;
        let at = port * usize::from(plan.s_vlans.count) + usize::from(plan.s_vlans.offset(line.s_vlan)?);
        self.nodes.get(group).map(|first| first + at as u32) // fewer than a group's VLAN pairs
    }

    /// A subscriber was installed, or changed: its queues, too. What waited for one that is shaped no more
    /// is given to `each`.
    pub fn install(
        &mut self,
        spec: &SubscriberSpec,
        owner: Owner,
        of: (&GroupPlan, &ProfilePlan),
        now: u64,
        each: impl FnMut(Frame),
    ) {
        let (plan, profile) = of;
        let node = self.node_of(spec.group.into(), plan, spec.line);
        let Some((shape, node)) = profile.shape.as_ref().zip(node) else { return self.remove(spec.handle, each) };
        let at = spec.handle as usize;
        if self.leaves.len() <= at {
            self.leaves.resize(at + 1, NO_LEAF);
        }
        if self.leaves[at] == NO_LEAF {
            self.leaves[at] = self.free.pop().unwrap_or_else(|| {
                self.next += 1;
                self.next - 1
            });
        }
        // The frame's header is not of the layer that is accounted, or what surrounds the frame is.
        let header = 14 + 4 * plan.tags as i8;
        let (overhead, framing) = match profile.layer2 {
            // The access node takes the tags off.
            true if plan.framing != Framing::Whole => (plan.overhead as i8 - 4 * plan.tags as i8, plan.framing),
            true => (plan.overhead as i8, Framing::Whole),
            false => (-header, Framing::Whole),
        };
        let (rate, weight) = (shape.rate_of(spec.line_rate), shape.weight.into());
        let leaf = LeafSpec { node, tier: spec.profile, rate, weight, overhead, framing };
        self.tree.install(self.leaves[at], &leaf, owner, now);
    }

    /// A subscriber is gone; what waited for it is given to `each`.
    pub fn remove(&mut self, handle: u32, each: impl FnMut(Frame)) {
        let leaf = self.find(handle);
        if leaf != NO_LEAF {
            self.tree.remove(leaf, each);
            self.leaves[handle as usize] = NO_LEAF;
            self.free.push(leaf);
        }
    }

    /// Fills an empty burst with packets that may leave now, each on its way to its port, counted by subscriber; those that
    /// have waited too long are dropped. `changed` notes whose they were. Returns how many there were.
    pub fn pull(
        &mut self,
        burst: &mut Burst<Bng>,
        subscribers: &mut Subscribers,
        changed: &mut Changed,
        env: &mut Env,
    ) -> usize {
        let Some((places, _)) = burst.places() else { return 0 };
        let (stats, pool, now) = (&env.stats, &mut env.pool, env.now);
        let mut out = Out { places, count: 0, ports: [0; BURST], subscribers, changed, stats, pool };
        let pulled = self.tree.pull(now, BURST, &mut out);
        let Out { count, ports, .. } = out;
        burst.came(count);
        (0..count).for_each(|i| burst.set_out(i, ports[i]));
        env.stats.add(Io::Released, pulled as u64);
        pulled
    }

    /// Gives everything that waits to `each`.
    pub fn close(&mut self, each: impl FnMut(Frame)) {
        self.tree.close(each);
    }
}

/// A burst that is filled with packets from the queues.
struct Out<'a> {
    places: &'a mut [Frame],
    count: usize,
    /// The port that each of them leaves by.
    ports: [PortId; BURST],
    subscribers: &'a mut Subscribers,
    changed: &'a mut Changed,
    stats: &'a Stats,
    pool: &'a mut Pool,
}

impl Departures<Owner> for &mut Out<'_> {
    #[inline(always)]
    fn soon(&mut self, owner: Owner) {
        self.subscribers.prefetch_meter(owner.record, false);
    }

    #[inline(always)]
    fn departs(&mut self, departed: Departed<'_, Owner>) {
        if let (Some(marks), Some(head)) = (self.changed.marks(), self.subscribers.head(departed.label.record)) {
            marks.mark(head.handle);
        }
        if departed.dropped {
            self.stats.drop_outside(drops::FLOW_AQM, departed.frame.len());
            return self.pool.give(departed.frame.take());
        }
        let (frame, Owner { record, overhead }) = (&*departed.frame, departed.label);
        if let Some(meter) = self.subscribers.meter_mut(record, false) {
            let family = usize::from(frame.meta.flags & flags::IPV6 != 0);
            meter.packets[family] += 1;
            meter.bytes[family] += u64::from(frame.len() as u32 - u32::from(frame.meta.l3)) + u64::from(overhead);
        }
        // At most a burst is asked for.
        if let (Some(place), Some(port)) = (self.places.get_mut(self.count), self.ports.get_mut(self.count)) {
            std::mem::swap(place, departed.frame);
            *port = departed.port;
            self.count += 1;
        }
    }
}

/// A worker's part of each port: of its rate in bit/s, and of its buffer, which holds what it sends in `buffer_ns`; 0: it has
/// none. For all workers.
pub fn ports(rates: &[Option<u64>], buffer_ns: u64, workers: usize) -> Vec<Vec<PortSpec>> {
    let mut all: Vec<Vec<PortSpec>> = (0..workers).map(|_| Vec::new()).collect();
    for rate in rates {
        let mut leases = rate.map(|rate| Lease::among(rate, workers, 0)).unwrap_or_default();
        let buffer = rate.filter(|_| buffer_ns > 0);
        let mut rooms = buffer.map(|rate| Room::among(rate, buffer_ns, workers, 0)).unwrap_or_default();
        for ports in all.iter_mut().rev() {
            ports.push(PortSpec { lease: leases.pop(), room: rooms.pop() });
        }
    }
    all
}
