//! QERs and URRs as lists: what TS 29.244 says of them, slowly.

use std::collections::BTreeMap;

use upf::rules::{PacketLimit, Session, Urr};

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// By that name.
    Dropped(String),
}

/// A bucket in nano-bits.
#[derive(Clone, Copy)]
struct Bucket {
    rate: i128,
    depth: i128,
    credit: i128,
    at: u64,
}

impl Bucket {
    fn new(rate: u64, now: u64) -> Self {
        let rate = i128::from(rate);
        // Ten milliseconds, or ten packets of full size.
        let depth = (rate * 10_000_000).max(15_000 * 8_000_000_000);
        Self { rate, depth, credit: depth, at: now }
    }

    fn refill(&mut self, now: u64) {
        self.credit = self.depth.min(self.credit + self.rate * i128::from(now - self.at));
        self.at = now;
    }
}

/// Packets of a period.
#[derive(Clone, Copy)]
struct Count {
    limit: PacketLimit,
    passed: u32,
    ends: u64,
}

/// A session's rules and what they have let pass and counted.
#[derive(Default)]
pub struct Model {
    session: Session,
    /// By QER and direction (0: from the subscriber).
    buckets: BTreeMap<(u32, usize), Bucket>,
    counts: BTreeMap<(u32, usize), Count>,
    /// By URR: octets and packets of both directions.
    usage: BTreeMap<u32, ([u64; 2], [u64; 2])>,
}

impl Model {
    /// New rules: what rules of the same number have is kept.
    pub fn install(&mut self, session: Session, now: u64) {
        let (mut buckets, mut counts) = (BTreeMap::new(), BTreeMap::new());
        for qer in &session.qers {
            for (direction, rate) in [qer.mbr.up, qer.mbr.down].into_iter().enumerate() {
                let key = (qer.id, direction);
                if let Some(rate) = rate {
                    let mut bucket = Bucket::new(rate, now);
                    if let Some(old) = self.buckets.get_mut(&key) {
                        old.refill(now);
                        bucket.credit = old.credit.min(bucket.depth);
                    }
                    buckets.insert(key, bucket);
                }
                if let Some(limit) = qer.packets[direction] {
                    let old = self.counts.get(&key).filter(|old| old.limit.period_ns == limit.period_ns);
                    let (passed, ends) = old.map_or((0, 0), |old| (old.passed, old.ends));
                    counts.insert(key, Count { limit, passed, ends });
                }
            }
        }
        let usage = session.urrs.iter().map(|urr| (urr.id, self.usage.get(&urr.id).copied().unwrap_or_default()));
        self.usage = usage.collect();
        (self.buckets, self.counts, self.session) = (buckets, counts, session);
    }

    /// A packet of so many octets.
    pub fn packet(&mut self, uplink: bool, bytes: u64, now: u64) -> Outcome {
        self.try_packet(usize::from(!uplink), bytes, now)
            .err()
            .map_or(Outcome::Passed, |why| Outcome::Dropped(why.into()))
    }

    fn try_packet(&mut self, direction: usize, bytes: u64, now: u64) -> Result<(), &'static str> {
        let pdr = self.session.pdrs[direction].clone();
        let urrs: Vec<Urr> =
            self.session.urrs.iter().filter(|u| pdr.urrs.contains(&u.id) && !u.paused).cloned().collect();
        let (before, behind): (Vec<&Urr>, Vec<&Urr>) = urrs.iter().partition(|urr| urr.before_qos);
        self.measure(&before, direction, bytes)?;
        let qers = pdr.qers.iter().map(|id| self.session.qers.iter().find(|qer| qer.id == *id).unwrap());
        let qers: Vec<_> = qers.cloned().collect();
        if qers.iter().any(|qer| ![qer.gate_up, qer.gate_down][direction]) {
            return Err("gate_closed");
        }
        let limits = || qers.iter().map(|qer| (qer.id, direction));
        for key in limits() {
            if let Some(count) = self.counts.get(&key)
                && now < count.ends
                && count.passed >= count.limit.most
            {
                return Err("packet_rate");
            }
        }
        let cost = i128::from(bytes) * 8_000_000_000;
        for qer in &qers {
            if let Some(bucket) = self.buckets.get_mut(&(qer.id, direction)) {
                bucket.refill(now);
                if bucket.credit < cost {
                    return Err(if qer.session { "session_rate" } else { "flow_rate" });
                }
            }
        }
        for key in limits() {
            if let Some(bucket) = self.buckets.get_mut(&key) {
                bucket.credit -= cost;
            }
            if let Some(count) = self.counts.get_mut(&key) {
                if now >= count.ends {
                    (count.passed, count.ends) = (0, now + count.limit.period_ns);
                }
                count.passed += 1;
            }
        }
        self.measure(&behind, direction, bytes)
    }

    /// Counts a packet for all of these, or for none where a quota is used up.
    fn measure(&mut self, urrs: &[&Urr], direction: usize, bytes: u64) -> Result<(), &'static str> {
        let is_spent = |urr: &&Urr| {
            let [up, down] = self.usage[&urr.id].0;
            let reached = |quota: Option<u64>, count| quota.is_some_and(|quota| count >= quota);
            reached(urr.quota.total, up + down) || reached(urr.quota.up, up) || reached(urr.quota.down, down)
        };
        if urrs.iter().any(is_spent) {
            return Err("quota_exhausted");
        }
        for urr in urrs {
            let (octets, packets) = self.usage.get_mut(&urr.id).unwrap();
            octets[direction] += bytes;
            packets[direction] += 1;
        }
        Ok(())
    }

    /// All URRs', by number.
    pub fn usage(&self) -> Vec<(u32, [u64; 2], [u64; 2])> {
        self.usage.iter().map(|(urr, (octets, packets))| (*urr, *octets, *packets)).collect()
    }
}
