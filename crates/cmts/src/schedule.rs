//! The downstream scheduler: service flows' queues, and the channels of bonding groups they are spread over.
//!
//! ```text
//! push ─► flow's queue ─► list of its group and level ─► channel of the group with the least load ─► pull
//!              │ over its rate: parked until the wheel rings
//! ```
//!
//! Frames that wait are slots of the arena; there are at most [`Limits::frames`] of them, so that what ports need stays
//! free. Nothing is allocated after flows are made.

mod channels; // channels as they are loaded, and the groups they are bonded to

use engine::Drop;
use frame::Frame;
use table::wheel::Wheel;

use crate::flow::{Flow, FlowSpec, May, NONE, Standing, asks};
use channels::Group;
pub use channels::Load;

/// Bounds of a worker's scheduler.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Frames that may wait, all flows together.
    pub frames: usize,
    /// How far ahead of its capacity a channel may be given packets, in nanoseconds.
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
    /// The queue, or the memory of all queues, is full.
    Full,
    /// Active queue management.
    Aqm,
    /// There is no such flow.
    Gone,
}

impl From<Refused> for Drop {
    fn from(why: Refused) -> Self {
        match why {
            Refused::Full => Drop::FlowQueueFull,
            Refused::Aqm => Drop::FlowAqm,
            Refused::Gone => Drop::FlowGone,
        }
    }
}

struct Node {
    frame: Frame,
    next: u32,
    at: u64,
}

impl Flow {
    /// Takes the first frame out of its queue: `node` is the queue's head, and becomes that of the `free` ones.
    #[inline(always)]
    fn take(&mut self, node: &mut Node, free: &mut u32) -> Frame {
        let frame = node.frame.take();
        let next = std::mem::replace(&mut node.next, *free);
        *free = std::mem::replace(&mut self.head, next);
        self.bytes -= frame.len() as u32 + CRC;
        self.packets -= 1;
        if self.packets == 0 {
            self.tail = NONE;
        }
        frame
    }
}

/// What came out of a queue.
#[derive(Debug)]
pub struct Pulled {
    /// The frame: Ethernet, without CRC.
    pub frame: Frame,
    /// Its flow.
    pub flow: u32,
    /// The channel it goes by.
    pub channel: u16,
    /// Its number in the flow.
    pub sequence: u16,
    /// The flow's modem.
    pub modem: u32,
    /// What encrypts the flow; see [`Flow::security`].
    pub security: u32,
}

/// The scheduler of one worker.
pub struct Scheduler {
    flows: Vec<Flow>,
    nodes: Vec<Node>,
    free: u32,
    waiting: usize,
    groups: Vec<Group>,
    loads: Vec<Load>,
    wheel: Wheel,
    next_group: usize,
    limits: Limits,
    /// Flows with active queue management, and the one that was looked at last.
    managed: usize,
    aqm_at: usize,
}

/// Ethernet's CRC, which rates count and which is added later.
const CRC: u32 = 4;
/// The longest MAC header we make before a frame.
const MAC_HEADER: u64 = wire::docsis::BONDED_HEADER_LEN as u64;
/// Bytes a flow may send before the next of its list has its turn.
const QUANTUM: i32 = 3100;
/// Nanoseconds of a tick of the wheel, as a shift.
const TICK: u32 = 12;

fn tick(ns: u64) -> u64 {
    ns >> TICK
}

impl Scheduler {
    /// A scheduler without flows.
    pub fn new(limits: Limits, groups: &[Vec<u16>], capacities: &[u64], flows: usize, now: u64) -> Self {
        let nodes = limits.frames.min(NONE as usize);
        let mut this = Self {
            flows: Vec::with_capacity(flows),
            nodes: (0..nodes as u32).map(|n| Node { frame: Frame::none(), next: n + 1, at: 0 }).collect(),
            free: if nodes == 0 { NONE } else { 0 },
            waiting: 0,
            groups: groups.iter().map(|channels| Group::new(channels)).collect(),
            loads: capacities.iter().map(|capacity| Load::new(*capacity)).collect(),
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

    /// Bytes of service flows.
    pub fn bytes(&self) -> usize {
        self.flows.capacity() * size_of::<Flow>() + self.flows.len() * size_of::<crate::flow::Terms>()
    }

    /// All flows' places.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// All channels.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// Asks for the lines of a flow that a packet is about to wait in.
    #[inline(always)]
    pub fn prefetch(&self, flow: u32) {
        if let Some(flow) = self.flows.get(flow as usize) {
            table::hint::prefetch_read(flow);
            table::hint::prefetch_read(&flow.counts);
        }
    }

    /// Puts a flow in its place; one that is there is changed, and what waits in it stays.
    pub fn install(&mut self, id: u32, spec: FlowSpec, modem: u32, security: u32, now: u64) {
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
            *flow = Flow::new(spec, modem, security, now);
            return;
        }
        let regroup = flow.standing == Standing::Listed;
        if regroup {
            self.unlist(id);
        }
        let flow = &mut self.flows[id as usize];
        flow.change(spec, now);
        (flow.modem, flow.security) = (modem, security);
        if let Some(timer) = flow.timer.take() {
            self.wheel.cancel(timer);
        }
        if flow.standing != Standing::Idle {
            self.list(id, now);
        }
    }

    /// Numbers a flow's packets from there on.
    pub fn set_sequence(&mut self, id: u32, next: u16) {
        if let Some(flow) = self.flows.get_mut(id as usize).filter(|flow| flow.in_use) {
            flow.sequence = next;
        }
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
            each(flow.take(node, &mut self.free));
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

    /// Lets a frame wait in a flow.
    ///
    /// # Errors
    /// The frame, and why not.
    #[inline]
    pub fn push(&mut self, id: u32, frame: Frame, now: u64) -> Result<(), (Frame, Refused)> {
        let Some(flow) = self.flows.get_mut(id as usize).filter(|flow| flow.in_use) else {
            return Err((frame, Refused::Gone));
        };
        let len = frame.len() as u32 + CRC;
        let at = self.free;
        let Some(node) = self.nodes.get_mut(at as usize).filter(|_| flow.bytes + len <= flow.buffer) else {
            flow.counts.full += 1;
            return Err((frame, Refused::Full));
        };
        if flow.aqm_drops(len) {
            flow.counts.aqm += 1;
            return Err((frame, Refused::Aqm));
        }
        self.free = node.next;
        *node = Node { frame, next: NONE, at: now };
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

    /// Takes up to `most` frames that may go now and gives them to `each`, in order. Returns how many.
    pub fn pull(&mut self, now: u64, most: usize, mut each: impl FnMut(Pulled)) -> usize {
        while let Some((_, id)) = self.wheel.pop(tick(now)) {
            self.flows[id as usize].timer = None;
            match self.flows[id as usize].standing {
                // Its reserved rate has credit again: it may move up.
                Standing::Listed => {
                    self.unlist(id);
                    self.list(id, now);
                }
                Standing::Parked => self.list(id, now),
                Standing::Idle => {}
            }
        }
        let mut pulled = 0;
        for _ in 0..self.groups.len() {
            if pulled >= most {
                break;
            }
            let group = self.next_group;
            self.next_group = if group + 1 == self.groups.len() { 0 } else { group + 1 };
            let until = now + self.limits.ahead_ns;
            let mut last = None;
            while pulled < most {
                let Some(channel) = self.channel(group, last, until) else { break };
                let Some(packet) = self.one(group, channel, now) else { break };
                last = Some(channel);
                each(packet);
                pulled += 1;
            }
        }
        pulled
    }

    /// The channel whose turn it still is, or the one of a group with the least load of those that have room.
    #[inline(always)]
    fn channel(&mut self, group: usize, last: Option<u16>, until: u64) -> Option<u16> {
        let goes_on = |channel: &u16| self.loads.get(usize::from(*channel)).is_some_and(|load| load.goes_on(until));
        if let Some(channel) = last.filter(goes_on) {
            return Some(channel);
        }
        let channel = self.groups.get(group)?.freest(&self.loads, until)?;
        self.loads.get_mut(usize::from(channel))?.begin_turn();
        Some(channel)
    }

    /// The next packet of a group that may go.
    #[inline(always)]
    fn one(&mut self, group: usize, channel: u16, now: u64) -> Option<Pulled> {
        loop {
            let (level, id) = self.groups.get(group)?.first()?;
            let flow = self.flows.get_mut(id as usize)?;
            let node = self.nodes.get_mut(flow.head as usize)?;
            let len = node.frame.len() as u32 + CRC;
            if flow.deficit < len as i32 {
                // Its turn is over; the next one begins with a quantum, which is more than a frame.
                flow.deficit += QUANTUM;
                if flow.next != NONE || flow.asks & asks::RESERVED != 0 {
                    self.unlist(id);
                    self.list(id, now);
                }
                continue;
            }
            if let May::Wait(until) = flow.may_send(now, len) {
                self.unlist(id);
                self.park(id, until);
                continue;
            }
            flow.deficit -= len as i32;
            let sequence = flow.sequence;
            flow.sequence = sequence.wrapping_add(1);
            let waited = now.saturating_sub(node.at);
            flow.counts.packets += 1;
            flow.counts.bytes += u64::from(len);
            flow.counts.waited(waited);
            let frame = flow.take(node, &mut self.free);
            self.waiting -= 1;
            let (modem, security) = (flow.modem, flow.security);
            let next = flow.next;
            if flow.packets == 0 {
                flow.deficit = 0;
                flow.standing = Standing::Idle;
                if let Some(timer) = flow.timer.take() {
                    self.wheel.cancel(timer);
                }
                // It was the first of its list.
                flow.next = NONE;
                self.shift(group, level, next);
            } else {
                table::hint::prefetch_index(&self.nodes, flow.head as usize);
                self.prefetch(next);
            }
            if let Some(load) = self.loads.get_mut(usize::from(channel)) {
                load.give(u64::from(len) + MAC_HEADER, now);
            }
            return Some(Pulled { frame, flow: id, channel, sequence, modem, security });
        }
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

    /// Has the flow behind the first of a list be the first.
    #[inline(always)]
    fn shift(&mut self, group: usize, level: usize, next: u32) {
        if let Some(next) = self.flows.get_mut(next as usize) {
            next.prev = NONE;
            table::hint::prefetch_read(&next.counts);
        }
        if let Some(group) = self.groups.get_mut(group) {
            group.shift(level, next);
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

    /// Timers, once a millisecond: drop probabilities of a sixteenth of the flows, and what channels lag behind.
    pub fn tick(&mut self, now: u64) {
        let part = if self.managed == 0 { 0 } else { self.flows.len().div_ceil(16) };
        for _ in 0..part {
            self.aqm_at = if self.aqm_at + 1 >= self.flows.len() { 0 } else { self.aqm_at + 1 };
            self.flows[self.aqm_at].manage(now, |flow| {
                self.groups.get(usize::from(flow.group)).map_or(1, |group| group.capacity(&self.loads))
            });
        }
        for group in &self.groups {
            group.forget(&mut self.loads);
        }
    }
}
