//! A way for frames of a port to a daemon of the host.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What takes frames for an interface of the host. Called by workers for what left their pipelines, several at once.
pub trait HostQueue: Send + Sync {
    /// Gives the host a frame: an Ethernet header without tags, and what follows it. False: it was not taken.
    fn put(&self, head: &[u8; 14], payload: &[u8]) -> bool;
}

/// The host interface beside a port: it gets what routing daemons and other services of the host are to receive. Clones lead
/// to the same.
#[derive(Clone)]
pub struct HostInterface {
    queue: Arc<dyn HostQueue>,
    services: Option<Arc<Rate>>,
}

/// A rate that all workers share: each packet moves a time forward by the interval between packets (ITU-T I.371).
struct Rate {
    /// Nanoseconds a packet costs.
    interval: u64,
    /// Nanoseconds by which the time may be ahead of the clock.
    ahead: u64,
    until: AtomicU64,
}

impl HostInterface {
    /// The one behind that queue, for routing daemons.
    pub fn new(queue: Arc<dyn HostQueue>) -> Self {
        Self { queue, services: None }
    }

    /// For other services too, with so many packets a second, and those of a tenth of a second at once; 0: none.
    pub fn with_services(mut self, per_second: u32) -> Self {
        self.services = (per_second > 0).then(|| {
            let interval = 1_000_000_000 / u64::from(per_second);
            let burst = u64::from(per_second / 10).max(1);
            Arc::new(Rate { interval, ahead: interval * (burst - 1), until: AtomicU64::new(0) })
        });
        self
    }

    /// Whether it takes packets for other services than routing daemons.
    #[inline]
    pub fn has_services(&self) -> bool {
        self.services.is_some()
    }

    /// Whether one more packet for other services may go there at `now`, in nanoseconds; if so, it is counted.
    pub fn allow(&self, now: u64) -> bool {
        let Some(Rate { interval, ahead, until }) = self.services.as_deref() else { return false };
        let next = |until: u64| (until.saturating_sub(now) <= *ahead).then(|| until.max(now) + interval);
        until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    /// Gives the host a frame, as [`HostQueue::put`].
    pub fn put(&self, head: &[u8; 14], payload: &[u8]) -> bool {
        self.queue.put(head, payload)
    }
}

impl fmt::Debug for HostInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostInterface")
    }
}

impl PartialEq for HostInterface {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.queue, &other.queue)
    }
}

impl Eq for HostInterface {}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nowhere;

    impl HostQueue for Nowhere {
        fn put(&self, _head: &[u8; 14], _payload: &[u8]) -> bool {
            true
        }
    }

    #[test]
    fn services_of_the_host_get_so_many_packets() {
        const SECOND: u64 = 1_000_000_000;
        let none = HostInterface::new(Arc::new(Nowhere));
        assert!(!none.has_services() && !none.allow(SECOND));
        assert!(!none.with_services(0).has_services());
        let host = HostInterface::new(Arc::new(Nowhere)).with_services(1000);
        // A clone, as another worker has it, shares the rate.
        let hosts = [host.clone(), host];
        let taken =
            |from: u64, to: u64| (from..to).filter(|ms| hosts[(ms % 2) as usize].allow(ms * SECOND / 4000)).count();
        assert_eq!((0..500).filter(|n| hosts[n % 2].allow(SECOND)).count(), 100, "a tenth of a second's at once");
        let rest = taken(4000, 44_000);
        assert!((9_990..=10_010).contains(&rest), "{rest} in ten seconds");
        assert!(hosts[0].has_services());
    }
}
