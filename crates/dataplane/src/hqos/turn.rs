//! Frames out of their queues: whose turn it is.

use super::flow::{May, NONE, Standing, asks};
use super::{CRC, Label, Links, Pulled, QUANTUM, Scheduler, tick};

/// How far one look at the queues has come.
struct Turn {
    now: u64,
    /// Links that have something to do after that are full.
    until: u64,
    /// Packets it may still take.
    left: usize,
    /// The link whose turn it is.
    link: Option<u16>,
}

/// Why a group's packets go no further.
enum Stop {
    /// None of them may go, or enough have gone.
    Done,
    /// That flow sent what its turn allows.
    TurnOver(u32),
    /// That flow may not send before a time.
    OverRate(u32, u64),
}

impl<L: Links, T: Label> Scheduler<L, T> {
    /// Takes up to `most` frames that may go now and gives them to `each`, in order. Returns how many.
    #[inline(never)]
    pub fn pull(&mut self, now: u64, most: usize, mut each: impl FnMut(Pulled<'_, T>)) -> usize {
        self.ring(now);
        let mut turn = Turn { now, until: now + self.limits.ahead_ns, left: most, link: None };
        for _ in 0..self.groups.len() {
            if turn.left == 0 {
                break;
            }
            let group = self.next_group;
            self.next_group = if group + 1 == self.groups.len() { 0 } else { group + 1 };
            turn.link = None;
            loop {
                match self.serve(group, &mut turn, &mut each) {
                    Stop::Done => break,
                    Stop::TurnOver(id) => self.turn_over(id, now),
                    Stop::OverRate(id, until) => {
                        self.unlist(id);
                        self.park(id, until);
                    }
                }
            }
        }
        most - turn.left
    }

    /// Flows whose timers have run off: what waits by its rate goes back to its list.
    fn ring(&mut self, now: u64) {
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
    }

    /// Has a group's packets go until one of its flows must be seen to, or nothing more may go. Whatever changes lists is
    /// elsewhere, so that the places of flows, frames and links stay in hand.
    #[inline(always)]
    fn serve(&mut self, at: usize, turn: &mut Turn, mut each: impl FnMut(Pulled<'_, T>)) -> Stop {
        let Some(group) = self.groups.get_mut(at) else { return Stop::Done };
        let (flows, nodes, links) = (&mut self.flows[..], &mut self.nodes[..], &mut self.links);
        while turn.left > 0 {
            let Some((link, load)) = links.choose(at, &mut turn.link, turn.until) else { break };
            let Some((level, id)) = group.first() else { break };
            let Some(flow) = flows.get_mut(id as usize) else { break };
            let Some(node) = nodes.get_mut(flow.head as usize) else { break };
            let len = node.frame.len() as u32 + CRC;
            if flow.deficit < len as i32 {
                return Stop::TurnOver(id);
            }
            if let May::Wait(until) = flow.may_send(turn.now, len) {
                return Stop::OverRate(id, until);
            }
            L::give(load, len, turn.now);
            flow.deficit -= len as i32;
            flow.counts.sent(len, turn.now.saturating_sub(node.at));
            let (label, next) = (flow.label.pulled(), flow.next);
            each(Pulled { frame: &mut node.frame, flow: id, link, label });
            self.waiting -= 1;
            turn.left -= 1;
            if flow.advance(node, len, &mut self.free) {
                flow.deficit = 0;
                flow.standing = Standing::Idle;
                // It was the first of its list.
                flow.next = NONE;
                if let Some(timer) = flow.timer.take() {
                    self.wheel.cancel(timer);
                }
                if let Some(next) = flows.get_mut(next as usize) {
                    next.prev = NONE;
                    table::hint::prefetch_read(&next.counts);
                }
                group.shift(level, next);
            } else {
                table::hint::prefetch_index(nodes, flow.head as usize);
                if let Some(next) = flows.get(next as usize) {
                    next.prefetch();
                }
            }
        }
        Stop::Done
    }

    /// A flow had its turn; the next one begins with a quantum, which is more than a frame.
    fn turn_over(&mut self, id: u32, now: u64) {
        let Some(flow) = self.flows.get_mut(id as usize) else { return };
        flow.deficit += QUANTUM;
        if flow.next != NONE || flow.asks & asks::RESERVED != 0 {
            self.unlist(id);
            self.list(id, now);
        }
    }
}
