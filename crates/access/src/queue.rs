//! Requests that wait for the control thread: bounded, ordered by urgency, and limited by line.
//!
//! Under overload a lease that is renewed goes before one that is asked for, and that before a new client: clients that
//! have something keep it. A DISCOVER that waited for 2 s is dropped, as its client has sent another.

use crate::Time;
use crate::subscriber::Identity;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// How urgent a request is; first to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Renews or rebinds a lease.
    Renewal,
    /// Asks for an offered lease, or gives one back.
    Request,
    /// DISCOVER, SOLICIT and what else a new client sends.
    Discover,
}

/// Limits of a queue of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most requests of each class that wait.
    pub depth: usize,
    /// How long a [`Class::Discover`] may wait.
    pub patience: Duration,
    /// Requests a second of one line, on average.
    pub line_rate: u32,
    /// Requests that one line may send at once, before its rate applies.
    pub line_burst: u32,
    /// Requests over the limit within [`Limits::block_for`] after which a line is blocked; 0: never.
    pub block_after: u32,
    /// How long such a line stays blocked.
    pub block_for: Duration,
    /// Most lines whose rate is remembered.
    pub lines: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            depth: 16_384,
            patience: Duration::from_secs(2),
            line_rate: 5,
            line_burst: 20,
            block_after: 1000,
            block_for: Duration::from_secs(60),
            lines: 1 << 19,
        }
    }
}

crate::dhcp4::counters! {
    /// Why a request was dropped before a server saw it.
    QueueDrop {
        Blocked "line_blocked" "Dropped: the line is on the blacklist.";
        LineRate "line_rate" "Dropped: the line sends more requests than it may.";
        Full "queue_full" "Dropped: too many requests of this class wait.";
        Stale "discover_stale" "Dropped: a DISCOVER waited for too long.";
    }
}

#[derive(Clone, Copy, Debug)]
struct Meter {
    /// Theoretical arrival time of the next request (ITU-T I.371, virtual scheduling), ms.
    due: u64,
    excess: u32,
    /// Until when the line is blocked, ms.
    blocked: u64,
}

/// The queue; `T` is a request with what belongs to it.
#[derive(Debug)]
pub struct Queue<T> {
    limits: Limits,
    classes: [VecDeque<(Time, T)>; 3],
    meters: HashMap<Identity, Meter>,
    drops: [u64; QueueDrop::ALL.len()],
}

impl<T> Queue<T> {
    /// A queue without requests.
    pub fn new(limits: Limits) -> Self {
        Self { limits, classes: Default::default(), meters: HashMap::new(), drops: [0; QueueDrop::ALL.len()] }
    }

    /// Number of requests that wait, all classes together.
    pub fn len(&self) -> usize {
        self.classes.iter().map(VecDeque::len).sum()
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many requests were dropped for a reason.
    pub fn dropped(&self, reason: QueueDrop) -> u64 {
        self.drops[reason as usize]
    }

    fn drop_for(&mut self, reason: QueueDrop) -> QueueDrop {
        self.drops[reason as usize] += 1;
        reason
    }

    /// Puts a line on the blacklist until a time, or takes it off (a time that is past).
    pub fn block(&mut self, line: Identity, until: Time) {
        self.meters.entry(line).or_insert(Meter { due: 0, excess: 0, blocked: 0 }).blocked = until.0;
    }

    fn admit(&mut self, now: Time, line: Identity) -> Result<(), QueueDrop> {
        let Limits { line_rate, line_burst, block_after, block_for, lines, .. } = self.limits;
        if self.meters.len() >= lines && !self.meters.contains_key(&line) {
            self.meters.retain(|_, meter| meter.due > now.0 || meter.blocked > now.0);
            if self.meters.len() >= lines {
                return Err(QueueDrop::LineRate);
            }
        }
        let meter = self.meters.entry(line).or_insert(Meter { due: 0, excess: 0, blocked: 0 });
        if meter.blocked > now.0 {
            return Err(QueueDrop::Blocked);
        }
        let interval = 1000 / u64::from(line_rate.max(1));
        // Further ahead only when the clock was set back: lines would be silent for as long.
        let due = meter.due.clamp(now.0, now.0 + interval * u64::from(line_burst));
        meter.due = due;
        if due == now.0 {
            meter.excess = 0;
        }
        if due - now.0 > interval * u64::from(line_burst.saturating_sub(1)) {
            meter.excess += 1;
            if block_after != 0 && meter.excess >= block_after {
                *meter = Meter { due: 0, excess: 0, blocked: (now + block_for).0 };
            }
            return Err(QueueDrop::LineRate);
        }
        meter.due = due + interval;
        Ok(())
    }

    /// Adds a request of a line, or of a hardware address where lines share VLANs.
    pub fn push(&mut self, now: Time, line: Identity, class: Class, request: T) -> Result<(), QueueDrop> {
        if let Err(reason) = self.admit(now, line) {
            return Err(self.drop_for(reason));
        }
        if self.classes[class as usize].len() >= self.limits.depth {
            return Err(self.drop_for(QueueDrop::Full));
        }
        self.classes[class as usize].push_back((now, request));
        Ok(())
    }

    /// Takes out every request, the most urgent first.
    pub fn take_all(&mut self) -> Vec<T> {
        self.classes.iter_mut().flat_map(|class| class.drain(..)).map(|(_, request)| request).collect()
    }

    /// The most urgent request, and how long it waited.
    pub fn pop(&mut self, now: Time) -> Option<(T, Duration)> {
        for class in [Class::Renewal, Class::Request, Class::Discover] {
            while let Some((since, request)) = self.classes[class as usize].pop_front() {
                let waited = now.since(since);
                if class == Class::Discover && waited > self.limits.patience {
                    self.drop_for(QueueDrop::Stale);
                    continue;
                }
                return Some((request, waited));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Line;

    fn line(c_vlan: u16) -> Identity {
        Identity { line: Line { port: 1, s_vlan: 1, c_vlan }, mac: None }
    }

    #[test]
    fn renewals_go_before_discovers() {
        let mut queue = Queue::new(Limits::default());
        let now = Time::from_secs(100);
        for (n, class) in [(1, Class::Discover), (2, Class::Request), (3, Class::Renewal)] {
            queue.push(now, line(n), class, n).unwrap();
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(now)).map(|(n, _)| n).collect();
        assert_eq!(order, [3, 2, 1]);
    }

    #[test]
    fn stale_discovers_are_dropped() {
        let mut queue = Queue::new(Limits::default());
        let now = Time::from_secs(100);
        queue.push(now, line(1), Class::Discover, 1).unwrap();
        queue.push(now, line(2), Class::Request, 2).unwrap();
        let later = now + Duration::from_millis(2001);
        assert_eq!(queue.pop(later).map(|(n, _)| n), Some(2));
        assert_eq!(queue.pop(later), None);
        assert_eq!(queue.dropped(QueueDrop::Stale), 1);
    }

    #[test]
    fn lines_over_their_rate_are_blocked() {
        let limits = Limits { line_rate: 10, line_burst: 5, block_after: 20, ..Limits::default() };
        let mut queue = Queue::new(limits);
        let now = Time::from_secs(100);
        let pushed = (0..30).filter(|n| queue.push(now, line(1), Class::Request, *n).is_ok()).count();
        assert_eq!(pushed, 5);
        assert_eq!((queue.dropped(QueueDrop::LineRate), queue.dropped(QueueDrop::Blocked)), (20, 5));
        assert!(queue.push(now, line(2), Class::Request, 0).is_ok());
        assert!(queue.push(now + Duration::from_secs(61), line(1), Class::Request, 0).is_ok());
    }

    #[test]
    fn clock_set_back_stops_no_line() {
        let mut queue = Queue::new(Limits { line_rate: 10, line_burst: 5, block_after: 0, ..Limits::default() });
        let now = Time::from_secs(100_000);
        (0..5).for_each(|n| queue.push(now, line(1), Class::Request, n).unwrap());
        let back = Time::from_secs(50_000);
        assert_eq!(queue.push(back, line(1), Class::Request, 5), Err(QueueDrop::LineRate));
        assert!(queue.push(back + Duration::from_millis(100), line(1), Class::Request, 6).is_ok());
    }

    #[test]
    fn goodput_at_three_times_the_load() {
        // A server of 1,000 requests a second; 3,000 new clients a second, each DISCOVER followed by a REQUEST.
        let mut queue = Queue::new(Limits { depth: 4000, ..Limits::default() });
        let mut served = 0;
        for ms in 0..10_000u64 {
            let now = Time(1_000_000 + ms);
            for n in 0..3 {
                queue.push(now, line((ms * 3 + n) as u16), Class::Discover, true).ok();
            }
            if let Some((is_discover, _)) = queue.pop(now) {
                match is_discover {
                    true => _ = queue.push(now, line((ms * 3) as u16), Class::Request, false),
                    false => served += 1,
                }
            }
        }
        // A session takes two requests, so 5,000 is all that the server can do.
        assert!(served >= 4_000, "{served} sessions of 5,000");
    }
}
