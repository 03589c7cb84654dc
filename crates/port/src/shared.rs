//! Changes to an interface that several ports of a process share: made by the first, undone by the last.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use crate::PortError;
use crate::iface::Iface;

/// Which interface: its namespace and number.
pub(crate) type Key = ((u64, u64), u32);

/// The key of the interface that has the name now.
pub(crate) fn key(iface: &Iface) -> Result<Key, PortError> {
    let system = |e| PortError::system(format!("looking at {}", iface.name()), "CAP_NET_RAW", e);
    Ok((iface.netns().id().map_err(system)?, iface.index().map_err(system)?))
}

/// What the ports of this process have changed, by interface. `T` undoes its change when dropped.
pub(crate) struct Registry<T: 'static> {
    changes: Mutex<Option<Changes<T>>>,
}

/// Each with how many shares are out.
type Changes<T> = HashMap<Key, (Arc<T>, usize)>;

/// One port's share in a change.
pub(crate) struct Share<T: Send + Sync + 'static> {
    registry: &'static Registry<T>,
    key: Key,
    change: Option<Arc<T>>,
}

impl<T: Send + Sync> Registry<T> {
    pub(crate) const fn new() -> Self {
        Self { changes: Mutex::new(None) }
    }

    /// A share in the change of that interface, made by `make` when nobody has one yet.
    pub(crate) fn share(
        &'static self,
        key: Key,
        make: impl FnOnce() -> Result<T, PortError>,
    ) -> Result<Share<T>, PortError> {
        // A panic while making or undoing a change leaves the map as it was.
        let mut changes = self.changes.lock().unwrap_or_else(|e| e.into_inner());
        let changes = changes.get_or_insert_default();
        let (change, shares) = match changes.entry(key) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert((Arc::new(make()?), 0)),
        };
        *shares += 1;
        Ok(Share { registry: self, key, change: Some(change.clone()) })
    }
}

impl<T: Send + Sync> Share<T> {
    /// The change itself.
    pub(crate) fn get(&self) -> &T {
        self.change.as_ref().expect("taken only at its end")
    }

    /// Gives the share back. If it was the last, `undo` runs before the next port can have a share: of ports that close at
    /// the same time exactly one runs it.
    pub(crate) fn leave(mut self, undo: impl FnOnce()) {
        self.end(undo);
    }

    fn end(&mut self, undo: impl FnOnce()) {
        let mut changes = self.registry.changes.lock().unwrap_or_else(|e| e.into_inner());
        if self.change.take().is_none() {
            return;
        }
        let changes = changes.get_or_insert_default();
        if let Some((_, shares)) = changes.get_mut(&self.key) {
            *shares -= 1;
            if *shares == 0 {
                // Undone under the lock: whoever comes next must see the interface as it was.
                undo();
                drop(changes.remove(&self.key));
            }
        }
    }
}

impl<T: Send + Sync> Drop for Share<T> {
    fn drop(&mut self) {
        self.end(|| ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static UNDONE: AtomicU32 = AtomicU32::new(0);
    static CHANGES: Registry<Change> = Registry::new();

    #[derive(Debug)]
    struct Change;

    impl Drop for Change {
        fn drop(&mut self) {
            UNDONE.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_last_share_undoes_it() {
        let key = ((1, 2), 3);
        let first = CHANGES.share(key, || Ok(Change)).ok().unwrap();
        let second = CHANGES.share(key, || panic!("made once")).ok().unwrap();
        drop(first);
        assert_eq!(UNDONE.load(Ordering::Relaxed), 0);
        drop(second);
        assert_eq!(UNDONE.load(Ordering::Relaxed), 1);
        drop(CHANGES.share(key, || Ok(Change)));
        assert_eq!(UNDONE.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_last_share_to_leave_runs_undo() {
        static VALUES: Registry<u32> = Registry::new();
        let key = ((1, 2), 3);
        let [first, second] = [7, 8].map(|value| VALUES.share(key, || Ok(value)).ok().unwrap());
        let mut undone = false;
        first.leave(|| panic!("not the last"));
        assert_eq!(*second.get(), 7);
        second.leave(|| undone = true);
        assert!(undone);
    }
}
