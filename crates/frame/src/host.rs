//! A way for frames of a port to a daemon of the host.

use std::fmt;
use std::sync::Arc;

/// What takes frames for an interface of the host. Called by workers for what left their pipelines, several at once.
pub trait HostQueue: Send + Sync {
    /// Gives the host a frame: an Ethernet header without tags, and what follows it. False: it was not taken.
    fn put(&self, head: &[u8; 14], payload: &[u8]) -> bool;
}

/// The host interface beside a port: it gets what routing daemons of the host are to receive. Clones lead to the same.
#[derive(Clone)]
pub struct HostInterface(Arc<dyn HostQueue>);

impl HostInterface {
    /// The one behind that queue.
    pub fn new(queue: Arc<dyn HostQueue>) -> Self {
        Self(queue)
    }

    /// Gives the host a frame, as [`HostQueue::put`].
    pub fn put(&self, head: &[u8; 14], payload: &[u8]) -> bool {
        self.0.put(head, payload)
    }
}

impl fmt::Debug for HostInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostInterface")
    }
}

impl PartialEq for HostInterface {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for HostInterface {}
