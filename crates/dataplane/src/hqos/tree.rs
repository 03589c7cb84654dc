//! Hierarchical scheduling (TR-178, 6.3): port, node, leaf, class.
//!
//! ```text
//! push ─► class of a leaf ─► leaf's level in its node ─► node's level at its port ─► pull
//!         priority or DRR     rate; minimum; weight       rate; weight                rate, leased among workers
//! ```
//!
//! A leaf over its maximum rate, and a node over its own, wait for a timer of the wheel; nobody looks at them until then. Of
//! those that may send, the ones with urgent packets go first, then those within their minimum rate, then all by deficit
//! round robin. Controlled Delay drops at dequeue. Where the buffer of a port, or the memory of all queues, is full, the longest
//! queue pays for what comes: the oldest packet of one that is at least a fourth as long as the longest is dropped. What would
//! itself be such a queue, its new packet counted, is refused that packet.

mod leaf; // a subscriber: its rates, the queues of its classes
mod list; // whose turn it will be
mod longest; // queues by their length
mod node; // what leaves leave by
mod pace; // a maximum rate
mod serve; // dequeueing
#[cfg(test)]
mod tests;

use frame::Frame;
use table::bucket;
use table::hint::{prefetch_index, prefetch_read};
use table::wheel::Wheel;

use super::flow::NONE;
use super::{Refused, Waiting, tick};
use leaf::{Leaf, Standing};
use list::{Place, SHARED};
use longest::rank;
use node::{Node, Port};

pub use leaf::{CLASSES, ClassCounts, ClassTerms, Framing, LeafSpec, Tier};
pub use node::{NodeCounts, NodeSpec, PortSpec};

/// Bytes that a turn of weight 1 earns: less than a frame, so that turns are short.
const QUANTUM: i32 = 1514;
/// Packets that make room for one that comes, at most: a push is a bounded number of steps.
pub const MOST_SHED: usize = 64;
/// The bit of a timer's number that tells nodes from leaves.
const OF_NODE: u32 = 1 << 31;

/// The number of a queue among all.
#[inline(always)]
fn number(id: u32, class: usize) -> u32 {
    id * CLASSES as u32 + class as u32 // fewer leaves than 2³¹ / 4: each takes 384 bytes
}

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
    /// Of each class of each leaf, its place in the list of its rank.
    places: Vec<Place>,
    free: u32,
    waiting: usize,
    bytes: u64,
    /// Leaves that packets wait in.
    backlogged: usize,
    wheel: Wheel,
    next_port: usize,
    /// When frames were pulled last, in nanoseconds.
    now: u64,
    limits: TreeLimits,
    /// Frames that may make room for others until that is set again.
    may_shed: usize,
    none: T,
}

impl<T: Copy> Tree<T> {
    /// A tree for `leaves` leaves, none there yet. `ports` are this worker's parts of the ports. `none` labels places without a
    /// leaf.
    pub fn new(limits: TreeLimits, ports: Vec<PortSpec>, leaves: usize, none: T, now: u64) -> Self {
        let frames = limits.frames.min(NONE as usize - 1);
        let next = |n: usize| if n + 1 == frames { NONE } else { n as u32 + 1 };
        Self {
            ports: ports.into_iter().map(Port::new).collect(),
            nodes: Vec::new(),
            leaves: Vec::with_capacity(leaves),
            tiers: Vec::new(),
            queue: (0..frames).map(|n| Waiting { frame: Frame::none(), next: next(n), at: 0 }).collect(),
            places: Vec::with_capacity(leaves * CLASSES),
            free: if frames == 0 { NONE } else { 0 },
            waiting: 0,
            bytes: 0,
            backlogged: 0,
            wheel: Wheel::new(leaves.max(16), tick(now)),
            next_port: 0,
            now,
            limits,
            may_shed: usize::MAX,
            none,
        }
    }

    /// So many frames may make room for others until this is called again, as many as the caller has room for.
    pub fn set_may_shed(&mut self, frames: usize) {
        self.may_shed = frames;
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of frames that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Leaves that packets wait in.
    pub fn backlogged(&self) -> usize {
        self.backlogged
    }

    /// Bytes of frames that wait for a port, and how many may; [`u64::MAX`]: it has no bound of its own.
    pub fn port_bytes(&self, port: usize) -> (u64, u64) {
        self.ports.get(port).map_or((0, 0), |port| (port.bytes, port.most))
    }

    /// Bytes of memory that leaves, nodes, timers and the places of frames take.
    pub fn memory(&self) -> usize {
        self.leaves.capacity() * size_of::<Leaf<T>>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.queue.capacity() * size_of::<Waiting>()
            + self.places.capacity() * size_of::<Place>()
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
            self.places.extend([Place::NONE; CLASSES]);
        }
        self.make_timers(now);
        let standing = self.leaves[id as usize].standing;
        self.withdraw(id);
        let to = self.nodes[spec.node as usize].port;
        if let Some(from) = self.port_of(id).filter(|from| *from != usize::from(to)) {
            self.change_port(id, from, to.into());
        }
        let leaf = &mut self.leaves[id as usize];
        leaf.install(spec, &tier, label, now);
        leaf.queues.iter_mut().for_each(|queue| queue.codel.port = to);
        if standing != Standing::Idle {
            self.list(id, now);
        }
        true
    }

    /// The port that a leaf's packets leave by; none: there is no such leaf.
    fn port_of(&self, id: u32) -> Option<usize> {
        let leaf = self.leaves.get(id as usize).filter(|leaf| leaf.is_in_use())?;
        Some(self.nodes.get(leaf.node as usize)?.port.into())
    }

    /// What waits in a leaf is another port's from now on.
    fn change_port(&mut self, id: u32, from: usize, to: usize) {
        let Some(queues) = self.leaves.get(id as usize).map(|leaf| leaf.queues) else { return };
        for (class, queue) in (0..).zip(queues) {
            let bytes = u64::from(queue.bytes);
            for (at, ranks) in [(from, (queue.codel.rank, 0)), (to, (0, queue.codel.rank))] {
                let Some(port) = self.ports.get_mut(at) else { continue };
                port.bytes = if at == to { port.bytes + bytes } else { port.bytes - bytes };
                port.longest.change(&mut self.places, number(id, class), ranks.0, ranks.1);
            }
        }
    }

    /// A queue goes to the list of another rank.
    #[inline(never)]
    fn rerank(&mut self, at: usize, id: u32, class: usize, to: u8) {
        let Some(queue) = self.leaves.get_mut(id as usize).and_then(|leaf| leaf.queues.get_mut(class)) else { return };
        let from = std::mem::replace(&mut queue.codel.rank, to);
        if let Some(port) = self.ports.get_mut(at) {
            port.longest.change(&mut self.places, number(id, class), from, to);
        }
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
        if !self.leaves.get(id as usize).is_some_and(|leaf| leaf.is_in_use()) {
            return;
        }
        self.withdraw(id);
        self.backlogged -= usize::from(self.leaves[id as usize].backlog != 0);
        for class in 0..CLASSES {
            while let Some(frame) = self.shift(id, class) {
                each(frame);
            }
        }
        self.leaves[id as usize] = Leaf::none(self.none);
        if self.waiting == 0 {
            let now = self.now;
            self.ports.iter_mut().for_each(|port| port.rest(now));
        }
    }

    /// Takes everything out.
    pub fn close(&mut self, mut each: impl FnMut(Frame)) {
        for id in 0..self.leaves.len() as u32 {
            self.remove(id, &mut each);
        }
    }

    /// Takes the first frame out of a queue.
    fn shift(&mut self, id: u32, class: usize) -> Option<Frame> {
        let port = self.port_of(id);
        let leaf = self.leaves.get_mut(id as usize)?;
        let queue = leaf.queues.get_mut(class)?;
        let place = queue.head;
        let waiting = self.queue.get_mut(place as usize)?;
        let frame = waiting.frame.take();
        queue.head = std::mem::replace(&mut waiting.next, std::mem::replace(&mut self.free, place));
        queue.bytes -= frame.len() as u32;
        queue.packets -= 1;
        let shrunk = queue.shrunk();
        if queue.packets == 0 {
            queue.tail = NONE;
            leaf.backlog &= !(1 << class);
        }
        self.waiting -= 1;
        self.bytes -= frame.len() as u64;
        if let Some(at) = port {
            if let Some(port) = self.ports.get_mut(at) {
                port.bytes -= frame.len() as u64;
            }
            if let Some(rank) = shrunk {
                self.rerank(at, id, class, rank);
            }
        }
        Some(frame)
    }

    /// Shows what waits in a leaf: class, since when, and the frame; each class's oldest first.
    pub fn each_waiting(&self, id: u32, mut show: impl FnMut(u8, u64, &Frame)) {
        let Some(leaf) = self.leaves.get(id as usize).filter(|leaf| leaf.is_in_use()) else { return };
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
        self.leaves.get(id as usize).filter(|leaf| leaf.is_in_use()).map(|leaf| leaf.label)
    }

    /// What a leaf's classes have counted.
    pub fn counts(&self, id: u32) -> Option<[ClassCounts; CLASSES]> {
        self.leaves.get(id as usize).filter(|leaf| leaf.is_in_use()).map(|leaf| leaf.queues.map(|queue| queue.counts))
    }

    /// What a leaf has earned of its maximum rate, its minimum and its urgent rate.
    pub fn earned(&self, id: u32) -> Option<Earned> {
        let leaf = self.leaves.get(id as usize).filter(|leaf| leaf.is_in_use())?;
        let (rate, state) = leaf.pace.parts();
        Some(Earned { rate, states: [state, leaf.minimum, leaf.urgent] })
    }

    /// Goes on with what a leaf had earned in another tree; nothing waits in it yet.
    pub fn put_earned(&mut self, id: u32, earned: &Earned) {
        if let Some(leaf) = self.leaves.get_mut(id as usize).filter(|leaf| leaf.is_in_use()) {
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
        if let Some(leaf) = self.leaves.get_mut(id as usize).filter(|leaf| leaf.is_in_use()) {
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

    /// Lets a frame wait in a class of a leaf: it is taken. Where a bound is reached, frames of the longest queue make room, up to
    /// [`MOST_SHED`]: they are given to `shed`, with the labels of their leaves.
    ///
    /// # Errors
    /// Why not; then it stays.
    #[inline(always)]
    pub fn push(
        &mut self,
        id: u32,
        class: u8,
        frame: &mut Frame,
        now: u64,
        shed: impl FnMut(Frame, T),
    ) -> Result<(), Refused> {
        self.enter((id, class), frame, now, true, shed)
    }

    /// The same for a frame that waited at another worker, or in another process: the buffer of its port is no bound, as it was in
    /// that buffer already. Frames that come later make up for the excess.
    ///
    /// # Errors
    /// Why not; then it stays.
    pub fn put(
        &mut self,
        id: u32,
        class: u8,
        frame: &mut Frame,
        now: u64,
        shed: impl FnMut(Frame, T),
    ) -> Result<(), Refused> {
        self.enter((id, class), frame, now, false, shed)
    }

    /// Publishes what is held for each port, so that other workers go by it at once.
    pub fn publish(&mut self, now: u64) {
        self.ports.iter_mut().for_each(|port| port.rest(now));
    }

    /// Lets a frame wait; `bounded`: the buffer of its port is a bound, too.
    #[inline(always)]
    fn enter(
        &mut self,
        (id, class): (u32, u8),
        frame: &mut Frame,
        now: u64,
        bounded: bool,
        mut shed: impl FnMut(Frame, T),
    ) -> Result<(), Refused> {
        let Some(leaf) = self.leaves.get_mut(id as usize).filter(|leaf| leaf.is_in_use()) else {
            return Err(Refused::Gone);
        };
        let Some(tier) = self.tiers.get(usize::from(leaf.tier)) else { return Err(Refused::Gone) };
        let (class, len) = (usize::from(class) % CLASSES, frame.len() as u32);
        let (queue, terms) = (&mut leaf.queues[class], &tier.classes[class]);
        let at = usize::from(queue.codel.port);
        let Some(port) = self.ports.get_mut(at) else { return Err(Refused::Gone) };
        let after = queue.bytes.saturating_add(len);
        if after > terms.buffer {
            queue.counts.full = queue.counts.full.saturating_add(1);
            return Err(Refused::Full);
        }
        if self.waiting == 0 {
            port.turn(now);
        }
        let bytes = u64::from(len);
        let is_scarce = bounded && port.bytes + bytes > port.most || self.bytes + bytes > self.limits.bytes;
        let place = self.free;
        let Some(waiting) = self.queue.get_mut(place as usize).filter(|_| !is_scarce) else {
            return self.enter_scarce((at, id, class, bounded), (bytes, rank(after)), frame, now, &mut shed);
        };
        // A free place holds no frame.
        std::mem::swap(&mut waiting.frame, frame);
        self.free = std::mem::replace(&mut waiting.next, NONE);
        waiting.at = now;
        let last = std::mem::replace(&mut queue.tail, place);
        queue.bytes = after;
        queue.packets += 1;
        port.bytes += bytes;
        self.waiting += 1;
        self.bytes += bytes;
        if let Some(last) = self.queue.get_mut(last as usize) {
            last.next = place;
            if let Some(rank) = queue.grown() {
                self.rerank(at, id, class, rank);
            }
            return Ok(());
        }
        queue.head = place;
        self.backlogged += usize::from(leaf.backlog == 0);
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

    /// The same where the longest queues have to make room for `bytes` in a queue that then has the rank `own`.
    #[inline(never)]
    fn enter_scarce(
        &mut self,
        (at, id, class, bounded): (usize, u32, usize, bool),
        (bytes, own): (u64, u8),
        frame: &mut Frame,
        now: u64,
        shed: &mut dyn FnMut(Frame, T),
    ) -> Result<(), Refused> {
        if !self.make_room((at, bounded), (bytes, own), shed) {
            if let Some(leaf) = self.leaves.get_mut(id as usize) {
                let counts = &mut leaf.queues[class].counts;
                counts.full = counts.full.saturating_add(1);
            }
            return Err(Refused::Longest);
        }
        self.enter((id, class as u8), frame, now, bounded, shed) // a class of four
    }

    /// Drops packets of the longest queues until there is room for `bytes` more in a queue that then has the rank `own`; `bounded`:
    /// in the buffer of the port, too. False: that queue is itself the longest, no other has two packets, or [`MOST_SHED`] were
    /// not enough; its new packet pays.
    fn make_room(
        &mut self,
        (at, bounded): (usize, bool),
        (bytes, mut own): (u64, u8),
        shed: &mut dyn FnMut(Frame, T),
    ) -> bool {
        let mut left = MOST_SHED.min(self.may_shed);
        loop {
            let is_full = bounded && self.ports.get(at).is_some_and(|port| port.bytes + bytes > port.most);
            if !is_full && self.bytes + bytes <= self.limits.bytes && self.free != NONE {
                return true;
            }
            // Memory that all ports share is taken from the one with the longest queue.
            let top = |port: &Port| port.longest.top();
            let from =
                if is_full { at } else { (0..self.ports.len()).max_by_key(|n| top(&self.ports[*n])).unwrap_or(at) };
            let Some(longest) = self.longest_of(from, own).filter(|_| left > 0) else { return false };
            (left, self.may_shed) = (left - 1, self.may_shed - 1);
            let (id, class) = (longest / CLASSES as u32, longest as usize % CLASSES);
            let Some(label) = self.label(id) else { return false };
            let Some(frame) = self.shift(id, class) else { return false };
            if let Some(leaf) = self.leaves.get_mut(id as usize) {
                let queue = &mut leaf.queues[class];
                queue.counts.full = queue.counts.full.saturating_add(1);
                // It likely pays next, too.
                prefetch_index(&self.queue, queue.head as usize);
            }
            shed(frame, label);
            // Where some shorter packets make room for a long one, it is not refused after that.
            own = 0;
        }
    }

    /// A queue of the highest rank at a port, of two packets or more, if that is above `own`.
    #[inline(always)]
    fn longest_of(&self, at: usize, own: u8) -> Option<u32> {
        let longest = &self.ports.get(at)?.longest;
        longest.first().filter(|_| own < longest.top())
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
