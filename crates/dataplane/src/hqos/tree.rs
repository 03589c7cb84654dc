//! Hierarchical scheduling (TR-178, 6.3): port, node, leaf, class.
//!
//! ```text
//! push ─► class of a leaf ─► leaf's level in its node ─► node's level at its port ─► pull
//!         priority or DRR     rate; minimum; weight       rate; weight                rate, leased among workers
//! ```
//!
//! A leaf over its maximum rate, and a node over its own, wait for a timer of the wheel; nobody looks at them until then. Of
//! those that may send, the ones with urgent packets go first, then those within their minimum rate, then all by deficit
//! round robin. Controlled Delay drops at dequeue. When the memory of all queues becomes scarce, no queue may hold more than
//! what is left: long queues stop growing, and short ones have room (Choudhury and Hahne, Dynamic Queue Length Thresholds).

mod leaf; // a subscriber: its rates, the queues of its classes
mod list; // whose turn it will be
mod node; // what leaves leave by
mod pace; // a maximum rate
mod serve; // dequeueing
#[cfg(test)]
mod tests;

use frame::Frame;
use table::bucket;
use table::hint::prefetch_read;
use table::wheel::Wheel;

use super::flow::NONE;
use super::{Lease, Refused, Waiting, tick};
use leaf::{Leaf, Standing};
use list::SHARED;
use node::{Node, Port};

pub use leaf::{CLASSES, ClassCounts, ClassTerms, LeafSpec, Tier};
pub use node::{NodeCounts, NodeSpec};

/// Bytes that a turn of weight 1 earns: less than a frame, so that turns are short.
const QUANTUM: i32 = 1514;
/// The bit of a timer's number that tells nodes from leaves.
const OF_NODE: u32 = 1 << 31;

/// Bounds of a worker's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLimits {
    /// Frames that may wait, all queues together.
    pub frames: usize,
    /// Bytes that may wait, all queues together.
    pub bytes: u64,
}

/// What a leaf has earned: its maximum rate and burst, and the buckets of its maximum, its minimum and its urgent rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Earned {
    /// The maximum rate.
    pub rate: bucket::Config,
    /// Credit of the maximum, minimum and urgent rates.
    pub states: [bucket::State; 3],
}

/// A frame that leaves its queue.
pub struct Departed<'a, T> {
    /// The frame, to be taken from there.
    pub frame: &'a mut Frame,
    /// The leaf that it waited in, by the number it was installed under.
    pub leaf: u32,
    /// The class of the leaf, below [`CLASSES`].
    pub class: u8,
    /// The port it leaves by.
    pub port: u8,
    /// What the gateway keeps with the leaf.
    pub label: T,
    /// Controlled Delay drops it.
    pub dropped: bool,
}

/// Who takes the frames that leave their queues: any function of a [`Departed`], or more.
pub trait Departures<T> {
    /// A frame of a leaf with that label likely leaves within a few turns: time to request what it will touch.
    #[inline(always)]
    fn soon(&mut self, _label: T) {}

    /// A frame leaves, or is dropped.
    fn departs(&mut self, departed: Departed<'_, T>);
}

impl<T, F: FnMut(Departed<'_, T>)> Departures<T> for F {
    #[inline(always)]
    fn departs(&mut self, departed: Departed<'_, T>) {
        self(departed);
    }
}

/// The schedulers of one worker's ports.
pub struct Tree<T> {
    ports: Vec<Port>,
    nodes: Vec<Node>,
    leaves: Vec<Leaf<T>>,
    tiers: Vec<Tier>,
    queue: Vec<Waiting>,
    free: u32,
    waiting: usize,
    bytes: u64,
    wheel: Wheel,
    next_port: usize,
    /// When frames were pulled last, in nanoseconds.
    now: u64,
    limits: TreeLimits,
    none: T,
}

impl<T: Copy> Tree<T> {
    /// A tree for `leaves` leaves, none there yet. `ports` are this worker's leases of the ports' rates; none: a port is never
    /// too slow. `none` labels places without a leaf.
    pub fn new(limits: TreeLimits, ports: Vec<Option<Lease>>, leaves: usize, none: T, now: u64) -> Self {
        let frames = limits.frames.min(NONE as usize - 1);
        let next = |n: usize| if n + 1 == frames { NONE } else { n as u32 + 1 };
        Self {
            ports: ports.into_iter().map(Port::new).collect(),
            nodes: Vec::new(),
            leaves: Vec::with_capacity(leaves),
            tiers: Vec::new(),
            queue: (0..frames).map(|n| Waiting { frame: Frame::none(), next: next(n), at: 0 }).collect(),
            free: if frames == 0 { NONE } else { 0 },
            waiting: 0,
            bytes: 0,
            wheel: Wheel::new(leaves.max(16), tick(now)),
            next_port: 0,
            now,
            limits,
            none,
        }
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of frames that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of memory that leaves, nodes, timers and the places of frames take.
    pub fn memory(&self) -> usize {
        self.leaves.capacity() * size_of::<Leaf<T>>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.queue.capacity() * size_of::<Waiting>()
            + self.wheel.bytes()
    }

    /// Sets what the leaves of a tier have in common, for those that exist too.
    pub fn set_tier(&mut self, number: u16, tier: Tier) {
        let at = usize::from(number);
        if self.tiers.len() <= at {
            self.tiers.resize(at + 1, Tier::default());
        }
        self.tiers[at] = tier;
    }

    /// Adds a node, or changes the terms of the one of that number, but for its port. False: there is no such port.
    pub fn set_node(&mut self, number: u32, spec: &NodeSpec, now: u64) -> bool {
        if usize::from(spec.port) >= self.ports.len() || number >= OF_NODE {
            return false;
        }
        while self.nodes.len() <= number as usize {
            self.nodes.push(Node::new(spec, now));
        }
        self.nodes[number as usize].change(spec, now);
        self.make_timers(now);
        true
    }

    /// Puts a leaf in its place; one that is there is changed, and what waits in it stays. False: there is no such node or
    /// tier, and nothing has changed.
    pub fn install(&mut self, id: u32, spec: &LeafSpec, label: T, now: u64) -> bool {
        let Some(tier) = self.tiers.get(usize::from(spec.tier)).copied() else { return false };
        if self.nodes.len() <= spec.node as usize || id >= OF_NODE {
            return false;
        }
        while self.leaves.len() <= id as usize {
            self.leaves.push(Leaf::none(self.none));
        }
        self.make_timers(now);
        let standing = self.leaves[id as usize].standing;
        self.withdraw(id);
        let leaf = &mut self.leaves[id as usize];
        leaf.install(spec, &tier, label, now);
        if standing != Standing::Idle {
            self.list(id, now);
        }
        true
    }

    /// A timer for every leaf and node, or some would wait for ever.
    fn make_timers(&mut self, now: u64) {
        let wanted = self.leaves.len() + self.nodes.len();
        if self.wheel.capacity() >= wanted {
            return;
        }
        let mut larger = Wheel::new(wanted * 2, tick(now));
        for (n, leaf) in self.leaves.iter_mut().enumerate().filter(|(_, leaf)| leaf.timer.is_some()) {
            leaf.timer = larger.insert(tick(now), n as u32);
        }
        for (n, node) in self.nodes.iter_mut().enumerate().filter(|(_, node)| node.timer.is_some()) {
            node.timer = larger.insert(tick(now), n as u32 | OF_NODE);
        }
        self.wheel = larger;
    }

    /// Takes a leaf out; what waited in it is given to `each`.
    pub fn remove(&mut self, id: u32, mut each: impl FnMut(Frame)) {
        if !self.leaves.get(id as usize).is_some_and(|leaf| leaf.in_use) {
            return;
        }
        self.withdraw(id);
        for class in 0..CLASSES {
            while let Some(frame) = self.shift(id, class) {
                each(frame);
            }
        }
        self.leaves[id as usize] = Leaf::none(self.none);
    }

    /// Takes everything out.
    pub fn close(&mut self, mut each: impl FnMut(Frame)) {
        for id in 0..self.leaves.len() as u32 {
            self.remove(id, &mut each);
        }
    }

    /// Takes the first frame out of a queue.
    fn shift(&mut self, id: u32, class: usize) -> Option<Frame> {
        let leaf = self.leaves.get_mut(id as usize)?;
        let queue = leaf.queues.get_mut(class)?;
        let place = queue.head;
        let waiting = self.queue.get_mut(place as usize)?;
        let frame = waiting.frame.take();
        queue.head = std::mem::replace(&mut waiting.next, std::mem::replace(&mut self.free, place));
        queue.bytes -= frame.len() as u32;
        queue.packets -= 1;
        if queue.packets == 0 {
            queue.tail = NONE;
            leaf.backlog &= !(1 << class);
        }
        self.waiting -= 1;
        self.bytes -= frame.len() as u64;
        Some(frame)
    }

    /// Shows what waits in a leaf: class, since when, and the frame; each class's oldest first.
    pub fn each_waiting(&self, id: u32, mut show: impl FnMut(u8, u64, &Frame)) {
        let Some(leaf) = self.leaves.get(id as usize).filter(|leaf| leaf.in_use) else { return };
        for (class, queue) in (0..).zip(&leaf.queues) {
            let mut place = queue.head;
            for _ in 0..queue.packets {
                let Some(waiting) = self.queue.get(place as usize) else { break };
                show(class, waiting.at, &waiting.frame);
                place = waiting.next;
            }
        }
    }

    /// What the gateway keeps with a leaf; none: there is no such leaf.
    pub fn label(&self, id: u32) -> Option<T> {
        self.leaves.get(id as usize).filter(|leaf| leaf.in_use).map(|leaf| leaf.label)
    }

    /// What a leaf's classes have counted.
    pub fn counts(&self, id: u32) -> Option<[ClassCounts; CLASSES]> {
        self.leaves.get(id as usize).filter(|leaf| leaf.in_use).map(|leaf| leaf.queues.map(|queue| queue.counts))
    }

    /// What a leaf has earned of its maximum rate, its minimum and its urgent rate.
    pub fn earned(&self, id: u32) -> Option<Earned> {
        let leaf = self.leaves.get(id as usize).filter(|leaf| leaf.in_use)?;
        let (rate, state) = leaf.pace.parts();
        Some(Earned { rate, states: [state, leaf.minimum, leaf.urgent] })
    }

    /// Goes on with what a leaf had earned in another tree; nothing waits in it yet.
    pub fn put_earned(&mut self, id: u32, earned: &Earned) {
        if let Some(leaf) = self.leaves.get_mut(id as usize).filter(|leaf| leaf.in_use) {
            leaf.pace.go_on((earned.rate, earned.states[0]));
            [leaf.minimum, leaf.urgent] = [earned.states[1], earned.states[2]];
        }
    }

    /// What each node has earned of its rate, by number.
    pub fn nodes_earned(&self) -> impl ExactSizeIterator<Item = (bucket::Config, bucket::State)> {
        self.nodes.iter().map(|node| node.pace.parts())
    }

    /// Goes on with what nodes had earned in another tree.
    pub fn put_nodes_earned(&mut self, earned: impl Iterator<Item = (bucket::Config, bucket::State)>) {
        self.nodes.iter_mut().zip(earned).for_each(|(node, earned)| node.pace.go_on(earned));
    }

    /// Goes on counting from those counts: the leaf was in another tree.
    pub fn put_counts(&mut self, id: u32, counts: &[ClassCounts; CLASSES]) {
        if let Some(leaf) = self.leaves.get_mut(id as usize).filter(|leaf| leaf.in_use) {
            leaf.queues.iter_mut().zip(counts).for_each(|(queue, counts)| queue.counts = *counts);
        }
    }

    /// Frames and bytes that wait in each class of a leaf.
    pub fn backlog(&self, id: u32) -> [(u32, u32); CLASSES] {
        let leaf = self.leaves.get(id as usize);
        leaf.map(|leaf| leaf.queues.map(|queue| (queue.packets, queue.bytes))).unwrap_or_default()
    }

    /// Asks for the lines of a leaf that a packet of a class is about to wait in.
    #[inline(always)]
    pub fn prefetch(&self, id: u32, class: u8) {
        if let Some(leaf) = self.leaves.get(id as usize) {
            prefetch_read(leaf);
            prefetch_read(&leaf.quantum);
            prefetch_read(&leaf.queues[usize::from(class) % CLASSES]);
        }
    }

    /// Lets a frame wait in a class of a leaf: it is taken.
    ///
    /// # Errors
    /// Why not; then it stays.
    #[inline(always)]
    pub fn push(&mut self, id: u32, class: u8, frame: &mut Frame, now: u64) -> Result<(), Refused> {
        let Some(leaf) = self.leaves.get_mut(id as usize).filter(|leaf| leaf.in_use) else { return Err(Refused::Gone) };
        let Some(tier) = self.tiers.get(usize::from(leaf.tier)) else { return Err(Refused::Gone) };
        let (class, len) = (usize::from(class) % CLASSES, frame.len() as u32);
        let (queue, terms) = (&mut leaf.queues[class], &tier.classes[class]);
        let left = self.limits.bytes.saturating_sub(self.bytes);
        let most = u64::from(terms.buffer).min(left);
        let place = self.free;
        let room = u64::from(queue.bytes) + u64::from(len) <= most
            && (queue.packets as usize) < self.queue.len() - self.waiting;
        let Some(waiting) = self.queue.get_mut(place as usize).filter(|_| room) else {
            queue.counts.full = queue.counts.full.saturating_add(1);
            return Err(Refused::Full);
        };
        // A free place holds no frame.
        std::mem::swap(&mut waiting.frame, frame);
        self.free = std::mem::replace(&mut waiting.next, NONE);
        waiting.at = now;
        let last = std::mem::replace(&mut queue.tail, place);
        queue.bytes += len;
        queue.packets += 1;
        self.waiting += 1;
        self.bytes += u64::from(len);
        if let Some(last) = self.queue.get_mut(last as usize) {
            last.next = place;
            return Ok(());
        }
        queue.head = place;
        leaf.backlog |= 1 << class;
        match leaf.standing {
            Standing::Idle => {
                leaf.pace.awake(now);
                // Whoever comes new has a turn's bytes: without, it would go to the end of its list a second time.
                leaf.deficit = leaf.quantum;
                self.list(id, now);
            }
            Standing::Listed if terms.weight == 0 && leaf.level > 0 => self.relist(id, now),
            _ => {}
        }
        Ok(())
    }

    /// Enters a leaf at the end of the list it belongs to, or has it wait for its rate.
    #[inline(always)]
    fn list(&mut self, id: u32, now: u64) {
        let Some(leaf) = self.leaves.get_mut(id as usize) else { return };
        if let Some(until) = leaf.pace.wait(now) {
            return self.park(id, until);
        }
        let Some(tier) = self.tiers.get(usize::from(leaf.tier)) else { return };
        leaf.level = leaf.level_now(tier, now);
        leaf.standing = Standing::Listed;
        let (number, level) = (leaf.node, leaf.level);
        // What it has a minimum for may become due while it stands behind others.
        let rises = level == SHARED && tier.minimum.is_some() && leaf.timer.is_none();
        let due = tier.minimum.filter(|_| rises).map(|rate| table::bucket::ready_at(&rate, &leaf.minimum, 1));
        if let Some(at) = due.flatten() {
            leaf.timer = self.wheel.insert(tick(at) + 1, id);
        }
        let Some(node) = self.nodes.get_mut(number as usize) else { return };
        node.leaves.append(level, &mut self.leaves, id);
        match node.standing {
            Standing::Idle => {
                node.pace.awake(now);
                node.deficit = node.quantum;
                self.list_node(number);
            }
            Standing::Listed if level < node.level => {
                self.unlist_node(number);
                self.list_node(number);
            }
            _ => {}
        }
    }

    /// Enters a node at the end of the list that its best leaf belongs to.
    fn list_node(&mut self, number: u32) {
        let Some(node) = self.nodes.get_mut(number as usize) else { return };
        node.level = node.leaves.level();
        if usize::from(node.level) >= list::LEVELS {
            node.standing = Standing::Idle;
            return;
        }
        node.standing = Standing::Listed;
        let (port, level, weight) = (node.port, node.level, node.weight);
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.weight += u64::from(weight);
            port.nodes.append(level, &mut self.nodes, number);
        }
    }

    /// Takes a node out of its list.
    fn unlist_node(&mut self, number: u32) {
        let Some(node) = self.nodes.get_mut(number as usize).filter(|node| node.standing == Standing::Listed) else {
            return;
        };
        let (port, level, weight) = (node.port, node.level, node.weight);
        node.standing = Standing::Idle;
        if let Some(port) = self.ports.get_mut(usize::from(port)) {
            port.weight -= u64::from(weight);
            port.nodes.remove(level, &mut self.nodes, number);
        }
    }

    /// Takes a leaf out of its node's list; a node that nothing is left of goes out of its own.
    fn unlist(&mut self, id: u32) {
        let Some(leaf) = self.leaves.get_mut(id as usize).filter(|leaf| leaf.standing == Standing::Listed) else {
            return;
        };
        let (number, level) = (leaf.node, leaf.level);
        leaf.standing = Standing::Idle;
        let Some(node) = self.nodes.get_mut(number as usize) else { return };
        node.leaves.remove(level, &mut self.leaves, id);
        if node.standing == Standing::Listed && node.leaves.level() != node.level {
            self.unlist_node(number);
            self.list_node(number);
        }
    }

    /// Enters a listed leaf anew, where its level may have changed.
    fn relist(&mut self, id: u32, now: u64) {
        self.unlist(id);
        self.list(id, now);
    }

    /// Takes a leaf out of every list, with its timer.
    fn withdraw(&mut self, id: u32) {
        self.unlist(id);
        let Some(leaf) = self.leaves.get_mut(id as usize) else { return };
        leaf.standing = Standing::Idle;
        if let Some(timer) = leaf.timer.take() {
            self.wheel.cancel(timer);
        }
    }

    /// Lets a leaf rest until it may send again; it is in no list.
    fn park(&mut self, id: u32, until: u64) {
        let Some(leaf) = self.leaves.get_mut(id as usize) else { return };
        leaf.standing = Standing::Parked;
        if let Some(timer) = leaf.timer.take() {
            self.wheel.cancel(timer);
        }
        // At a rate of 0 it is looked at again when its terms change.
        if until != u64::MAX {
            leaf.timer = self.wheel.insert(tick(until) + 1, id);
        }
    }
}
