//! Quality of service by queues: a queue, shapers and active queue management per flow, and a scheduler over groups of
//! links.
//!
//! ```text
//! push ─► flow's queue ─► list of its group and level ─► a link of the group that has room ─► pull
//!              │ over its rate: parked until its timer expires
//! ```
//!
//! A gateway says by [`Links`] what its flows leave by, and by [`Label`] what it keeps with each flow. Frames that wait are
//! packet buffers of the arena; there are at most [`Limits::frames`] of them, so that ports keep what they need. Nothing is
//! allocated after flows are made.

mod codel; // active queue management by the time that frames waited
mod flow; // a queue with its rates
mod group; // flows whose turn it will be, by level
mod lease; // a port's rate among workers
mod pie; // active queue management
mod room; // a port's buffer among workers
mod shaper; // a token bucket that a flow waits for
#[cfg(test)]
mod tests;
pub mod tree; // a hierarchy: port, node, leaf, class
mod turn; // dequeueing

use engine::Drop;
use frame::Frame;
use table::wheel::Wheel;

pub use flow::{DEFAULT_BURST, FLOW_WORDS, Flow, FlowCounts, FlowSpec, LEVELS, NONE, PEAK_BURST, Terms};
use flow::{Standing, asks};
use group::Group;

use crate::drops;
pub use codel::CodelConfig;
pub use lease::{INTERVAL_NS as LEASE_INTERVAL_NS, Lease};
pub use pie::{INTERVAL_NS, Pie, PieConfig};
pub use room::Room;

/// What the flows of a scheduler leave by: links in groups, numbered from 0. The frames of a flow leave by the links of its
/// group ([`FlowSpec::group`]).
pub trait Links {
    /// One link.
    type Link;

    /// The groups there are.
    fn groups(&self) -> usize;

    /// The link that the next frame of `group` leaves by: `current`, which the frame before it in this burst left by, while
    /// that may go on; else another that has nothing to do after `until`, in nanoseconds. None: all are busy.
    fn choose(&mut self, group: usize, current: &mut Option<u16>, until: u64) -> Option<(u16, &mut Self::Link)>;

    /// Gives a link a frame of `bytes` bytes, Ethernet with CRC. What the link puts around it is the link's to add.
    fn give(link: &mut Self::Link, bytes: u32, now: u64);

    /// What the links of a group carry together, in bit/s.
    fn capacity(&self, group: usize) -> u64;

    /// Called once a millisecond.
    fn tick(&mut self) {}
}

/// What a gateway keeps with a flow, beside what every packet touches: at most 16 bytes.
pub trait Label: Copy {
    /// Of a place no flow has.
    const NONE: Self;

    /// The label of a packet that leaves. May change that of the packets behind it, as by a sequence number.
    fn pulled(&mut self) -> Self {
        *self
    }

    /// A flow that exists is installed again with that label.
    fn change(&mut self, to: Self) {
        *self = to;
    }
}

/// Bounds of a worker's scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Frames that may wait, all flows together.
    pub frames: usize,
    /// How far ahead of its capacity a link may be given packets, in nanoseconds.
    pub ahead_ns: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { frames: 8192, ahead_ns: 250_000 }
    }
}

/// Why a frame does not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The queue is full; in a scheduler of service flows, also the memory of all queues.
    Full,
    /// The buffer of a port, or the memory that queues share, is full, and no other queue is longer, or dropping a few of its packets
    /// did not make enough room.
    Longest,
    /// Active queue management.
    Aqm,
    /// There is no such flow.
    Gone,
}

impl From<Refused> for Drop {
    fn from(why: Refused) -> Self {
        match why {
            Refused::Full => drops::FLOW_QUEUE_FULL,
            Refused::Longest => drops::FLOW_LONGEST,
            Refused::Aqm => drops::FLOW_AQM,
            Refused::Gone => drops::FLOW_GONE,
        }
    }
}

/// A frame that waits, and the next one of its queue.
struct Waiting {
    frame: Frame,
    next: u32,
    at: u64,
}

impl<T> Flow<T> {
    /// Takes the first node out of its queue, a frame of `len` bytes: it becomes that of the `free` ones. Says whether
    /// nothing waits any more.
    #[inline(always)]
    fn advance(&mut self, node: &mut Waiting, len: u32, free: &mut u32) -> bool {
        let next = std::mem::replace(&mut node.next, *free);
        *free = std::mem::replace(&mut self.head, next);
        self.bytes -= len;
        self.packets -= 1;
        let is_last = self.packets == 0;
        if is_last {
            self.tail = NONE;
        }
        is_last
    }
}

/// What came out of a queue.
#[derive(Debug)]
pub struct Pulled<'a, T> {
    /// The frame, to be taken from there: Ethernet, without CRC.
    pub frame: &'a mut Frame,
    /// Its flow.
    pub flow: u32,
    /// The link it leaves by.
    pub link: u16,
    /// Its label; see [`Label::pulled`].
    pub label: T,
}

/// The scheduler of one worker.
pub struct Scheduler<L, T> {
    flows: Vec<Flow<T>>,
    nodes: Vec<Waiting>,
    free: u32,
    waiting: usize,
    groups: Vec<Group>,
    links: L,
    wheel: Wheel,
    next_group: usize,
    limits: Limits,
    /// Flows with active queue management, and the one that was looked at last.
    managed: usize,
    aqm_at: usize,
}

/// Ethernet's CRC, which rates count and which is added later.
const CRC: u32 = 4;
/// Bytes a flow may send before the next of its list has its turn.
const QUANTUM: i32 = 3100;
/// Nanoseconds of a tick of the wheel, as a shift.
const TICK: u32 = 12;

fn tick(ns: u64) -> u64 {
    ns >> TICK
}

impl<L: Links, T: Label> Scheduler<L, T> {
    /// A scheduler without flows; `flows` are to be expected.
    pub fn new(limits: Limits, links: L, flows: usize, now: u64) -> Self {
        let nodes = limits.frames.min(NONE as usize);
        let mut this = Self {
            flows: Vec::with_capacity(flows),
            nodes: (0..nodes as u32).map(|n| Waiting { frame: Frame::none(), next: n + 1, at: 0 }).collect(),
            free: if nodes == 0 { NONE } else { 0 },
            waiting: 0,
            groups: vec![Group::new(); links.groups()],
            links,
            wheel: Wheel::new(flows.max(16), tick(now)),
            next_group: 0,
            limits,
            managed: 0,
            aqm_at: 0,
        };
        if let Some(last) = this.nodes.last_mut() {
            last.next = NONE;
        }
        this
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of memory that flows take.
    pub fn bytes(&self) -> usize {
        self.flows.capacity() * size_of::<Flow<T>>() + self.flows.len() * size_of::<Terms>()
    }

    /// All flows' places.
    pub fn flows(&self) -> &[Flow<T>] {
        &self.flows
    }

    /// What flows leave by.
    pub fn links(&self) -> &L {
        &self.links
    }

    /// Asks for the lines of a flow that a packet is about to wait in.
    #[inline(always)]
    pub fn prefetch(&self, flow: u32) {
        if let Some(flow) = self.flows.get(flow as usize) {
            flow.prefetch();
        }
    }

    /// Puts a flow in its place; one that is there is changed, and what waits in it stays.
    pub fn install(&mut self, id: u32, spec: FlowSpec, label: T, now: u64) {
        while self.flows.len() <= id as usize {
            self.flows.push(Flow::none());
        }
        // A timer for every flow, or flows would wait for ever.
        if self.wheel.capacity() < self.flows.len() {
            let mut larger = Wheel::new(self.flows.len() * 2, tick(now));
            for (n, flow) in self.flows.iter_mut().enumerate().filter(|(_, flow)| flow.timer.is_some()) {
                flow.timer = larger.insert(tick(now), n as u32);
            }
            self.wheel = larger;
        }
        let flow = &mut self.flows[id as usize];
        self.managed -= usize::from(flow.terms.spec.aqm.is_some());
        self.managed += usize::from(spec.aqm.is_some());
        if !flow.in_use {
            *flow = Flow::new(spec, label, now);
            return;
        }
        let regroup = flow.standing == Standing::Listed;
        if regroup {
            self.unlist(id);
        }
        let flow = &mut self.flows[id as usize];
        flow.change(spec, now);
        flow.label.change(label);
        if let Some(timer) = flow.timer.take() {
            self.wheel.cancel(timer);
        }
        if flow.standing != Standing::Idle {
            self.list(id, now);
        }
    }

    /// What flows leave by, to go on as far as it has come elsewhere.
    pub fn links_mut(&mut self) -> &mut L {
        &mut self.links
    }

    /// Shows all frames that wait: flow, since when, frame; those of a flow in order.
    pub fn each_waiting(&self, mut show: impl FnMut(u32, u64, &Frame)) {
        for (id, flow) in (0..).zip(&self.flows) {
            let mut at = flow.head;
            while let Some(node) = self.nodes.get(at as usize) {
                show(id, node.at, &node.frame);
                at = node.next;
            }
        }
    }

    /// A flow goes on with what it had earned and counted elsewhere: see [`Flow::words`].
    pub fn carry_on(&mut self, id: u32, words: &[u64; FLOW_WORDS]) {
        if let Some(flow) = self.flows.get_mut(id as usize).filter(|flow| flow.in_use) {
            flow.carry_on(words);
        }
    }

    /// Lets a frame wait behind those there are that has waited elsewhere since `at`: it is taken, whatever queue
    /// management would say. False: there is no such flow, or no room.
    pub fn resume(&mut self, id: u32, frame: &mut Frame, at: u64, now: u64) -> bool {
        let Some(flow) = self.flows.get_mut(id as usize).filter(|flow| flow.in_use) else { return false };
        let place = self.free;
        let Some(node) = self.nodes.get_mut(place as usize) else { return false };
        flow.bytes += frame.len() as u32 + CRC;
        flow.packets += 1;
        std::mem::swap(&mut node.frame, frame);
        self.free = std::mem::replace(&mut node.next, NONE);
        node.at = at;
        let last = std::mem::replace(&mut flow.tail, place);
        self.waiting += 1;
        match self.nodes.get_mut(last as usize) {
            Some(last) => last.next = place,
            None => {
                flow.head = place;
                if flow.standing == Standing::Idle {
                    self.list(id, now);
                }
            }
        }
        true
    }

    /// What the gateway keeps with a flow.
    pub fn label_mut(&mut self, id: u32) -> Option<&mut T> {
        self.flows.get_mut(id as usize).filter(|flow| flow.in_use).map(|flow| &mut flow.label)
    }

    /// Takes a flow out; what waited in it is given to `each`.
    pub fn remove(&mut self, id: u32, mut each: impl FnMut(Frame)) {
        let Some(flow) = self.flows.get_mut(id as usize).filter(|flow| flow.in_use) else { return };
        if let Some(timer) = flow.timer.take() {
            self.wheel.cancel(timer);
        }
        if flow.standing == Standing::Listed {
            self.unlist(id);
        }
        let flow = &mut self.flows[id as usize];
        while let Some(node) = self.nodes.get_mut(flow.head as usize) {
            flow.advance(node, node.frame.len() as u32 + CRC, &mut self.free);
            each(node.frame.take());
            self.waiting -= 1;
        }
        self.managed -= usize::from(self.flows[id as usize].terms.spec.aqm.is_some());
        self.flows[id as usize] = Flow::none();
    }

    /// Takes everything out.
    pub fn close(&mut self, mut each: impl FnMut(Frame)) {
        for id in 0..self.flows.len() as u32 {
            self.remove(id, &mut each);
        }
    }

    /// Lets a frame wait in a flow: it is taken.
    ///
    /// # Errors
    /// Why not; then it stays.
    #[inline(always)]
    pub fn push(&mut self, id: u32, frame: &mut Frame, now: u64) -> Result<(), Refused> {
        let Some(flow) = self.flows.get_mut(id as usize).filter(|flow| flow.in_use) else {
            return Err(Refused::Gone);
        };
        let len = frame.len() as u32 + CRC;
        let at = self.free;
        let Some(node) = self.nodes.get_mut(at as usize).filter(|_| flow.bytes + len <= flow.buffer) else {
            flow.counts.full += 1;
            return Err(Refused::Full);
        };
        if flow.aqm_drops(len) {
            flow.counts.aqm += 1;
            return Err(Refused::Aqm);
        }
        // A free node has none.
        std::mem::swap(&mut node.frame, frame);
        self.free = std::mem::replace(&mut node.next, NONE);
        node.at = now;
        let last = std::mem::replace(&mut flow.tail, at);
        flow.bytes += len;
        flow.packets += 1;
        self.waiting += 1;
        if let Some(last) = self.nodes.get_mut(last as usize) {
            last.next = at;
            return Ok(());
        }
        flow.head = at;
        if flow.standing == Standing::Idle {
            flow.awake(now);
            // Whoever comes new has a turn's bytes: without, it would go to the end of its list a second time.
            flow.deficit = QUANTUM;
            self.list(id, now);
        }
        Ok(())
    }

    /// Enters a flow at the end of the list it belongs to.
    #[inline(always)]
    fn list(&mut self, id: u32, now: u64) {
        let Some(flow) = self.flows.get_mut(id as usize) else { return };
        if flow.asks & asks::RESERVED != 0 {
            return self.list_reserved(id, now);
        }
        let level = 8 - flow.priority;
        self.enter(id, level);
    }

    /// Enters a flow with a reserved rate. It has a timer for when it may move up.
    #[inline(never)]
    fn list_reserved(&mut self, id: u32, now: u64) {
        let Some(flow) = self.flows.get_mut(id as usize) else { return };
        let len = self.nodes.get(flow.head as usize).map_or(0, |node| node.frame.len() as u32 + CRC);
        let level = flow.level_now(now, len);
        if level > 0 {
            let at = flow.reserved_at(len);
            if flow.timer.is_none() && at != u64::MAX {
                flow.timer = self.wheel.insert(tick(at) + 1, id);
            }
        }
        self.enter(id, level);
    }

    /// Enters a flow at the end of a list.
    #[inline(always)]
    fn enter(&mut self, id: u32, level: u8) {
        let Some(flow) = self.flows.get_mut(id as usize) else { return };
        (flow.level, flow.standing) = (level, Standing::Listed);
        let Some(group) = self.groups.get_mut(usize::from(flow.group)) else { return };
        let Some(list) = group.lists.get_mut(usize::from(level)) else { return };
        let last = std::mem::replace(&mut list.tail, id);
        (flow.next, flow.prev) = (NONE, last);
        group.occupied |= 1 << level;
        match self.flows.get_mut(last as usize) {
            None => list.head = id,
            Some(last) => last.next = id,
        }
    }

    /// Takes a flow out of its list.
    #[inline(always)]
    fn unlist(&mut self, id: u32) {
        let Some(flow) = self.flows.get_mut(id as usize) else { return };
        let (next, prev, level) = (flow.next, flow.prev, flow.level);
        (flow.next, flow.prev) = (NONE, NONE);
        let Some(group) = self.groups.get_mut(usize::from(flow.group)) else { return };
        let Some(list) = group.lists.get_mut(usize::from(level)) else { return };
        match self.flows.get_mut(next as usize) {
            None => list.tail = prev,
            Some(next) => next.prev = prev,
        }
        match self.flows.get_mut(prev as usize) {
            None => list.head = next,
            Some(prev) => prev.next = next,
        }
        if list.head == NONE {
            group.occupied &= !(1 << level);
        }
    }

    /// Lets a flow rest until it may send again.
    fn park(&mut self, id: u32, until: u64) {
        let flow = &mut self.flows[id as usize];
        flow.standing = Standing::Parked;
        if let Some(timer) = flow.timer.take() {
            self.wheel.cancel(timer);
        }
        // A packet larger than the burst never goes; it is looked at again when parameters change.
        if until != u64::MAX {
            self.flows[id as usize].timer = self.wheel.insert(tick(until) + 1, id);
        }
    }

    /// Timers, once a millisecond: drop probabilities of a sixteenth of the flows, and what links do.
    pub fn tick(&mut self, now: u64) {
        let part = if self.managed == 0 { 0 } else { self.flows.len().div_ceil(16) };
        for _ in 0..part {
            self.aqm_at = if self.aqm_at + 1 >= self.flows.len() { 0 } else { self.aqm_at + 1 };
            let known = |group: u16| usize::from(group) < self.groups.len();
            let capacity = |group: u16| if known(group) { self.links.capacity(group.into()) } else { 1 };
            self.flows[self.aqm_at].manage(now, |flow| capacity(flow.group));
        }
        self.links.tick();
    }
}
