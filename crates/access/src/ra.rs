//! Router advertisements (RFC 4861 clause 6.2): to each subscriber by itself, periodic and solicited, with its own SLAAC prefix
//! (RFC 8273) and the flags that send it to DHCPv6.

use crate::Time;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::Ipv6Addr;
use std::time::Duration;
use wire::{Mac, ndp};

/// Shortest time between advertisements to one subscriber (MIN_DELAY_BETWEEN_RAS, RFC 4861 clause 10), in ms.
const MIN_DELAY: u64 = 3000;
/// Most of the random delay of a solicited advertisement (MAX_RA_DELAY_TIME), in ms.
const MAX_RA_DELAY: u64 = 500;

/// Fields and options of router advertisements (RFC 4861, 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Hardware address of the gateway on the line.
    pub mac: Mac,
    /// Longest time between unsolicited advertisements, at least 4 s; the shortest is a third of it.
    pub interval: Duration,
    /// How long the gateway is a default router, in seconds.
    pub lifetime: u16,
    /// M flag: addresses are assigned by DHCPv6.
    pub managed: bool,
    /// O: other configuration comes from DHCPv6.
    pub other: bool,
    /// MTU (option 5) in bytes; none: the option is left out.
    pub mtu: Option<u32>,
    /// Valid lifetime of SLAAC prefixes, in seconds.
    pub valid: u32,
    /// Preferred lifetime of SLAAC prefixes, in seconds.
    pub preferred: u32,
}

#[derive(Clone, Copy, Debug)]
struct Subscriber {
    prefix: Option<Ipv6Addr>,
    due: u64,
    sent: u64,
}

/// When which subscriber is to be sent an advertisement. Subscribers are numbers of the caller's.
#[derive(Debug)]
pub struct RouterAdvertisements {
    config: Config,
    subscribers: HashMap<u32, Subscriber>,
    /// Entries that do not match their subscriber's `due` are out of date.
    queue: BinaryHeap<Reverse<(u64, u32)>>,
}

impl RouterAdvertisements {
    /// A sender of advertisements without subscribers.
    pub fn new(config: Config) -> Self {
        Self { config, subscribers: HashMap::new(), queue: BinaryHeap::new() }
    }

    /// Subscribers that are advertised to.
    pub fn len(&self) -> usize {
        self.subscribers.len()
    }

    /// Whether no subscriber gets advertisements.
    pub fn is_empty(&self) -> bool {
        self.subscribers.is_empty()
    }

    /// Begins to advertise to a subscriber, or changes its prefix; the first advertisement is due at once.
    pub fn add(&mut self, subscriber: u32, prefix: Option<Ipv6Addr>, now: Time) {
        let sent = self.subscribers.get(&subscriber).map_or(0, |known| known.sent);
        self.subscribers.insert(subscriber, Subscriber { prefix, due: u64::MAX, sent });
        self.schedule(subscriber, now.0.max(sent + MIN_DELAY));
    }

    /// Ends it. Returns the last advertisement, with lifetimes of 0 (RFC 4861 clause 6.2.5).
    pub fn remove(&mut self, subscriber: u32) -> Option<ndp::Repr> {
        let known = self.subscribers.remove(&subscriber)?;
        let gone = Config { lifetime: 0, valid: 0, preferred: 0, ..self.config };
        Some(message(&gone, known.prefix))
    }

    /// A subscriber has sent a solicitation: its advertisement is due after up to 500 ms by the random number, and not before
    /// 3 s after the last. Returns false for an unknown subscriber.
    pub fn solicited(&mut self, subscriber: u32, now: Time, random: u32) -> bool {
        let Some(known) = self.subscribers.get(&subscriber) else { return false };
        let earliest = if known.sent == 0 { 0 } else { known.sent + MIN_DELAY };
        let delay = u64::from(random) * MAX_RA_DELAY / u64::from(u32::MAX);
        let due = (now.0 + delay).max(earliest);
        if due < known.due {
            self.schedule(subscriber, due);
        }
        true
    }

    fn schedule(&mut self, subscriber: u32, due: u64) {
        if let Some(known) = self.subscribers.get_mut(&subscriber) {
            known.due = due;
            self.queue.push(Reverse((due, subscriber)));
        }
    }

    /// When the next advertisement is due; it may turn out to be out of date.
    pub fn next_due(&self) -> Option<Time> {
        self.queue.peek().map(|Reverse((due, _))| Time(*due))
    }

    /// The next advertisement that is due, and its subscriber. `random` spreads the one after it between a third of the
    /// interval and the whole (RFC 4861 clause 6.2.4).
    pub fn poll(&mut self, now: Time, random: u32) -> Option<(u32, ndp::Repr)> {
        loop {
            let &Reverse((due, subscriber)) = self.queue.peek().filter(|Reverse((due, _))| *due <= now.0)?;
            self.queue.pop();
            let Some(known) = self.subscribers.get_mut(&subscriber).filter(|known| known.due == due) else { continue };
            known.sent = now.0;
            let prefix = known.prefix;
            let longest = (self.config.interval.as_millis() as u64).max(4000);
            let shortest = (longest / 3).max(MIN_DELAY);
            let after = shortest + (longest - shortest) * u64::from(random) / u64::from(u32::MAX);
            self.schedule(subscriber, now.0 + after);
            return Some((subscriber, message(&self.config, prefix)));
        }
    }
}

/// An advertisement with a prefix of 64 bits for SLAAC. The prefix is not on-link: neighbours are reached through the gateway.
pub fn message(config: &Config, prefix: Option<Ipv6Addr>) -> ndp::Repr {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let prefix = prefix.map(|prefix| ndp::Prefix {
        prefix,
        len: 64,
        flags: ndp::prefix_flag::AUTONOMOUS,
        valid: config.valid,
        preferred: config.preferred.min(config.valid),
    });
    ndp::Repr::RouterAdvert {
        hop_limit: 64,
        flags: flag(config.managed, ndp::router_flag::MANAGED) | flag(config.other, ndp::router_flag::OTHER),
        lifetime: config.lifetime,
        reachable: 0,
        retransmit: 0,
        source: Some(config.mac),
        mtu: config.mtu,
        prefix,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertisements() -> RouterAdvertisements {
        RouterAdvertisements::new(Config {
            mac: Mac([2, 0, 0, 0, 0, 1]),
            interval: Duration::from_secs(30),
            lifetime: 90,
            managed: true,
            other: true,
            mtu: Some(1500),
            valid: 7200,
            preferred: 3600,
        })
    }

    #[test]
    fn each_subscriber_gets_its_own_prefix() {
        let mut ra = advertisements();
        let now = Time::from_secs(1000);
        for n in 1..=2u16 {
            ra.add(n.into(), Some(Ipv6Addr::new(0x2001, 0xdb8, 0, n, 0, 0, 0, 0)), now);
        }
        let mut got: Vec<_> = std::iter::from_fn(|| ra.poll(now, 0)).collect();
        got.sort_by_key(|(subscriber, _)| *subscriber);
        for (n, (subscriber, message)) in (1..).zip(&got) {
            let ndp::Repr::RouterAdvert { prefix: Some(prefix), flags, .. } = message else { panic!("{message:?}") };
            assert_eq!((*subscriber, prefix.prefix.segments()[3], *flags), (n, n as u16, 0xc0));
        }
        assert_eq!(got.len(), 2);
    }

    #[test]
    fn periodic_advertisements_keep_the_interval() {
        let mut ra = advertisements();
        ra.add(1, None, Time::from_secs(1000));
        let mut times = Vec::new();
        for ms in (1_000_000..1_300_000).step_by(100) {
            if ra.poll(Time(ms), (ms as u32).wrapping_mul(2_654_435_761)).is_some() {
                times.push(ms);
            }
        }
        assert!(times.windows(2).all(|pair| (10_000..=30_100).contains(&(pair[1] - pair[0]))), "{times:?}");
        assert!(times.len() >= 10);
    }

    #[test]
    fn solicitations_are_answered_at_most_every_three_seconds() {
        let mut ra = advertisements();
        ra.add(1, None, Time::from_secs(1000));
        let mut sent = 0;
        for ms in (1_000_000..1_010_000).step_by(10) {
            assert!(ra.solicited(1, Time(ms), 0));
            sent += u32::from(ra.poll(Time(ms), u32::MAX).is_some());
        }
        assert_eq!(sent, 4);
        assert!(!ra.solicited(2, Time::from_secs(1000), 0));
        let Some(ndp::Repr::RouterAdvert { lifetime, .. }) = ra.remove(1) else { panic!("a farewell") };
        assert_eq!(lifetime, 0);
    }
}
