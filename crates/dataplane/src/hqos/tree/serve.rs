//! Frames out of their queues: whose turn it is.

use table::bucket;
use table::hint::{prefetch_index, prefetch_read};

use super::super::{LEASE_INTERVAL_NS, TICK, tick};
use super::NONE;
use super::leaf::{Leaf, Standing};
use super::list::SHARED;
use super::node::Node;
use super::{CLASSES, Departed, Departures, OF_NODE, Tree};

/// Takes credit that is there. A debt would be paid for by what comes later: beyond this rate it has its share as all others.
#[inline(always)]
fn take(state: &mut bucket::State, bytes: u32) {
    bucket::take(state, bytes);
    state.credit = state.credit.max(-bucket::cost(bytes));
}

/// Frames that wait of which the lines of queues and leaves are likely no more in the second-level cache. Tests look ahead
/// from the first frame on.
const DEEP: usize = if cfg!(test) { 0 } else { 256 };
/// Turns ahead that a leaf's line, its queue, and what the frame itself touches are requested: each says where the next is.
const AHEAD: [usize; 3] = [6, 4, 2];

/// What became of a turn.
enum Turn {
    /// A frame went, or was dropped.
    Went,
    /// None did, but somebody else's turn has come.
    Over,
    /// Nothing of this port may go.
    Done,
}

impl<T: Copy> Tree<T> {
    /// Takes up to `most` frames that may go, or are dropped, now, and gives them to `each`, in order. Returns how many.
    #[inline(never)]
    pub fn pull(&mut self, now: u64, most: usize, mut each: impl Departures<T>) -> usize {
        self.now = now;
        self.ring(now);
        let mut left = most;
        for _ in 0..self.ports.len() {
            let at = self.next_port;
            let Some(port) = self.ports.get_mut(at) else { break };
            port.turn(now);
            while left > 0 {
                match self.serve(at, now, &mut each) {
                    Turn::Went => {
                        left -= 1;
                        if self.waiting > DEEP {
                            self.look_ahead(at, &mut each);
                        }
                    }
                    Turn::Over => {}
                    Turn::Done => break,
                }
            }
            if left == 0 {
                break;
            }
            self.next_port = if at + 1 == self.ports.len() { 0 } else { at + 1 };
        }
        if self.waiting == 0 && left < most {
            self.ports.iter_mut().for_each(|port| port.rest(now));
        }
        most - left
    }

    /// When [`pull`](Self::pull) has something to do next, in nanoseconds; none: not before a frame comes.
    pub fn next_due(&self) -> Option<u64> {
        let ready = |port: &super::node::Port| port.nodes.first().is_some();
        let port = match self.ports.iter().filter(|port| ready(port)).map(super::node::Port::may_send).max() {
            Some(true) => Some(self.now),
            Some(false) => Some(self.now + LEASE_INTERVAL_NS),
            None => None,
        };
        let timer = self.wheel.next_tick().map(|at| at << TICK);
        port.into_iter().chain(timer).min()
    }

    /// Leaves and nodes whose timers have run off.
    fn ring(&mut self, now: u64) {
        while let Some((_, number)) = self.wheel.pop(tick(now)) {
            if number & OF_NODE == 0 {
                let Some(leaf) = self.leaves.get_mut(number as usize) else { continue };
                leaf.timer = None;
                match leaf.standing {
                    // Its minimum rate has credit again: it may move up.
                    Standing::Listed => self.relist(number, now),
                    Standing::Parked => self.list(number, now),
                    Standing::Idle => {}
                }
            } else {
                let number = number & !OF_NODE;
                let Some(node) = self.nodes.get_mut(number as usize) else { continue };
                node.timer = None;
                if node.standing == Standing::Parked {
                    self.list_node(number);
                }
            }
        }
    }

    /// One turn of a port: at most one frame goes.
    #[inline(always)]
    fn serve(&mut self, at: usize, now: u64, each: &mut impl Departures<T>) -> Turn {
        let Some(port) = self.ports.get_mut(at) else { return Turn::Done };
        let Some(number) = port.nodes.first().filter(|_| port.may_send()) else { return Turn::Done };
        let Some(node) = self.nodes.get_mut(number as usize) else { return Turn::Done };
        if let Some(until) = node.pace.wait(now) {
            self.park_node(number, until);
            return Turn::Over;
        }
        if node.level == SHARED && node.deficit <= 0 {
            node.deficit += node.quantum;
            // By itself it stays first.
            port.nodes.remove(SHARED, &mut self.nodes, number);
            port.nodes.append(SHARED, &mut self.nodes, number);
            return Turn::Over;
        }
        let Some(id) = node.leaves.first() else { return Turn::Done };
        let Some(leaf) = self.leaves.get_mut(id as usize) else { return Turn::Done };
        if let Some(until) = leaf.pace.wait(now) {
            self.unlist(id);
            self.park(id, until);
            return Turn::Over;
        }
        let Some(tier) = self.tiers.get(usize::from(leaf.tier)) else { return Turn::Done };
        if leaf.level != SHARED {
            if leaf.level_now(tier, now) != leaf.level {
                self.relist(id, now);
                return Turn::Over;
            }
        } else if leaf.deficit <= 0 {
            leaf.deficit += leaf.quantum;
            node.leaves.remove(SHARED, &mut self.leaves, id);
            node.leaves.append(SHARED, &mut self.leaves, id);
            return Turn::Over;
        }
        self.depart(at, id, now, each)
    }

    /// The next frame of a leaf goes, or Controlled Delay drops it.
    #[inline(always)]
    fn depart(&mut self, at: usize, id: u32, now: u64, each: &mut impl Departures<T>) -> Turn {
        let Some(leaf) = self.leaves.get_mut(id as usize) else { return Turn::Done };
        let Some(tier) = self.tiers.get(usize::from(leaf.tier)) else { return Turn::Done };
        let class = leaf.next_class(tier) % CLASSES;
        let (terms, queue) = (&tier.classes[class], &mut leaf.queues[class]);
        let place = queue.head;
        let Some(waiting) = self.queue.get_mut(place as usize) else { return Turn::Done };
        let (len, came) = (waiting.frame.len() as u32, waiting.at);
        let dropped = terms.aqm.is_some_and(|aqm| queue.codel.drops(&aqm, now, came, queue.bytes));
        let (label, number) = (leaf.label, leaf.node);
        if dropped {
            queue.counts.aqm = queue.counts.aqm.saturating_add(1);
        } else {
            queue.counts.packets += 1;
            queue.counts.bytes += u64::from(len);
            queue.counts.waited_ns += now.saturating_sub(came);
            let charged = leaf.framing.unwrap_or_default().charged(len.saturating_add_signed(leaf.overhead.into()));
            leaf.pace.spend(charged);
            leaf.deficit -= charged as i32;
            leaf.credit[class] -= charged as i32;
            if terms.weight == 0 && tier.urgent.is_some() {
                take(&mut leaf.urgent, charged);
            }
            if tier.minimum.is_some() {
                take(&mut leaf.minimum, charged);
            }
        }
        each.departs(Departed {
            frame: &mut waiting.frame,
            leaf: id,
            class: class as u8,
            port: at as u8, // fewer than 256
            label,
            dropped,
        });
        queue.head = std::mem::replace(&mut waiting.next, std::mem::replace(&mut self.free, place));
        queue.bytes -= len;
        queue.packets -= 1;
        self.waiting -= 1;
        self.bytes -= u64::from(len);
        let shrunk = queue.shrunk();
        if queue.packets == 0 {
            queue.tail = NONE;
            leaf.backlog &= !(1 << class);
        } else {
            prefetch_index(&self.queue, queue.head as usize);
        }
        if let Some(rank) = shrunk {
            self.rerank(at, id, class, rank);
        }
        self.charge(at, number, len, dropped);
        self.after(id, number);
        Turn::Went
    }

    /// Charges node and port for a frame that went.
    #[inline(always)]
    fn charge(&mut self, at: usize, number: u32, len: u32, dropped: bool) {
        let Some(port) = self.ports.get_mut(at) else { return };
        port.bytes -= u64::from(len);
        if dropped {
            return;
        }
        port.spend(len);
        if let Some(node) = self.nodes.get_mut(number as usize) {
            let charged = len + u32::from(node.overhead);
            node.pace.spend(charged);
            node.deficit -= charged as i32;
            node.counts.packets += 1;
            node.counts.bytes += u64::from(len);
        }
    }

    /// A leaf that nothing waits in any more rests.
    #[inline(always)]
    fn after(&mut self, id: u32, number: u32) {
        let Some(leaf) = self.leaves.get_mut(id as usize) else { return };
        if leaf.backlog == 0 {
            leaf.deficit = 0;
            self.backlogged -= 1;
            self.withdraw(id);
        }
        let next = self.nodes.get(number as usize).and_then(|node| node.leaves.first());
        if let Some(next) = next.and_then(|next| self.leaves.get(next as usize)) {
            prefetch_read(next);
        }
    }

    /// Requests what the next turns of a port touch, where so much waits that it is elsewhere than in the caches. A guess: nodes
    /// in the order of the best list, the leaf whose turn it is in each.
    #[inline(always)]
    fn look_ahead(&self, at: usize, each: &mut impl Departures<T>) {
        let Some(port) = self.ports.get(at) else { return };
        let Some(head) = port.nodes.first() else { return };
        let Some(first) = self.nodes.get(head as usize) else { return };
        // One that may send more goes on: nobody's turn comes closer.
        if first.deficit > 0 || first.level != SHARED {
            return;
        }
        // It has had its turn and comes behind all others.
        let (mut number, mut rounds) = (first.place.next, 0);
        if number == NONE {
            number = head;
        }
        for ahead in 1..=AHEAD[0] {
            let Some(node) = self.nodes.get(number as usize) else { return };
            if AHEAD.contains(&ahead)
                && let Some(leaf) = self.candidate(node, rounds)
            {
                if ahead == AHEAD[0] {
                    prefetch_read(leaf);
                } else if ahead == AHEAD[1] {
                    prefetch_read(&leaf.quantum);
                    prefetch_read(&leaf.queues[leaf.backlog.trailing_zeros() as usize % CLASSES]);
                } else {
                    let queue = &leaf.queues[leaf.backlog.trailing_zeros() as usize % CLASSES];
                    prefetch_index(&self.queue, queue.head as usize);
                    each.soon(leaf.label);
                }
            }
            number = node.place.next;
            if number == NONE {
                (number, rounds) = (head, rounds + 1);
            }
        }
    }

    /// The leaf of a node that sends next, after so many others.
    #[inline(always)]
    fn candidate(&self, node: &Node, others: usize) -> Option<&Leaf<T>> {
        let mut leaf = self.leaves.get(node.leaves.first()? as usize)?;
        let skip = others + usize::from(leaf.deficit <= 0 && leaf.place.next != NONE);
        for _ in 0..skip {
            leaf = self.leaves.get(leaf.place.next as usize)?;
        }
        Some(leaf)
    }

    /// Lets a node rest until it may send again.
    fn park_node(&mut self, number: u32, until: u64) {
        self.unlist_node(number);
        let Some(node) = self.nodes.get_mut(number as usize) else { return };
        node.standing = Standing::Parked;
        if until != u64::MAX {
            node.timer = self.wheel.insert(tick(until) + 1, number | OF_NODE);
        }
    }
}
