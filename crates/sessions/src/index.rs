//! What leads to a session: from tunnel endpoints, addresses and routes to the sessions' numbers.

use std::collections::HashMap;
use std::net::IpAddr;

use table::bulk::{BulkMap, Full, Seed};

use crate::by_instance::ByInstance;
use crate::store::Key;

/// Sessions by their keys. The common keys are in maps that grow by a few entries with each change: among a million
/// sessions, no request waits until all are moved.
#[derive(Default)]
pub struct Index {
    common: Option<Common>,
    /// Routes, and what found no room.
    others: HashMap<Key, u32>,
}

struct Common {
    teids: BulkMap<u32, u32>,
    v4: ByInstance<u32>,
    v6: ByInstance<u64>,
}

impl Common {
    fn new() -> Result<Self, Full> {
        let seed = Seed::random();
        let (v4, v6) = (ByInstance::new(0, seed), ByInstance::new(0, seed));
        Ok(Self { teids: BulkMap::with_capacity(0, seed)?, v4, v6 })
    }

    fn insert(&mut self, key: Key, number: u32) -> Result<(), Full> {
        match key {
            Key::Teid(teid) => self.teids.insert(teid, number).map(drop),
            Key::Ue(instance, IpAddr::V4(address)) => self.v4.insert(instance, address.into(), number),
            Key::Ue(instance, IpAddr::V6(prefix)) => self.v6.insert(instance, half(prefix).ok_or(Full)?, number),
            Key::Route(_) => Err(Full),
        }
    }

    fn get(&self, key: &Key) -> Option<u32> {
        match *key {
            Key::Teid(teid) => self.teids.get(teid),
            Key::Ue(instance, IpAddr::V4(address)) => self.v4.get(instance, address.into()),
            Key::Ue(instance, IpAddr::V6(prefix)) => self.v6.get(instance, half(prefix)?),
            Key::Route(_) => None,
        }
    }

    fn remove(&mut self, key: &Key) {
        match *key {
            Key::Teid(teid) => drop(self.teids.remove(teid)),
            Key::Ue(instance, IpAddr::V4(address)) => self.v4.remove(instance, address.into()),
            Key::Ue(instance, IpAddr::V6(prefix)) => {
                half(prefix).into_iter().for_each(|prefix| self.v6.remove(instance, prefix));
            }
            Key::Route(_) => {}
        }
    }
}

/// The first 64 bits of an IPv6 prefix that has no more.
fn half(prefix: std::net::Ipv6Addr) -> Option<u64> {
    let bits = u128::from(prefix);
    (bits as u64 == 0).then_some((bits >> 64) as u64)
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl Index {
    /// Makes room for so many sessions, as far as there is memory: they come in quicker then.
    pub fn reserve(&mut self, sessions: usize) {
        let common = if self.common.is_none() { Common::new().ok() } else { self.common.take() };
        self.common = common.map(|mut common| {
            // Without room they grow.
            let _ = common.teids.reserve(sessions);
            let _ = common.v4.reserve(sessions).and_then(|()| common.v6.reserve(sessions));
            common
        });
    }

    /// Lets a key lead to `number`, whatever it led to before.
    pub fn insert(&mut self, key: Key, number: u32) {
        if self.common.is_none() {
            self.common = Common::new().ok();
        }
        let placed = self.common.as_mut().is_some_and(|common| common.insert(key, number).is_ok());
        if !placed {
            self.others.insert(key, number);
        } else if !self.others.is_empty() {
            self.others.remove(&key);
        }
    }

    /// What a key leads to.
    pub fn get(&self, key: &Key) -> Option<u32> {
        let common = self.common.as_ref().and_then(|common| common.get(key));
        common.or_else(|| if self.others.is_empty() { None } else { self.others.get(key).copied() })
    }

    /// Forgets a key, if it leads to `number`.
    pub fn remove(&mut self, key: &Key, number: u32) {
        if self.get(key) == Some(number) {
            self.common.iter_mut().for_each(|common| common.remove(key));
            self.others.remove(key);
        }
    }

    /// Bytes it takes, about.
    pub fn bytes(&self) -> usize {
        let common = self.common.as_ref().map_or(0, |Common { teids, v4, v6 }| teids.bytes() + v4.bytes() + v6.bytes());
        // A hash map's slot is the pair and one byte of control.
        common + self.others.capacity() * (size_of::<(Key, u32)>() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Route;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn it_does_what_a_map_does() {
        let v4 = |n: u32| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | n));
        let v6 = |n: u32, low: u64| IpAddr::V6(Ipv6Addr::from(u128::from(n) << 80 | u128::from(low)));
        let keys: Vec<Key> = (0..4000u32)
            .flat_map(|n| {
                let route = Route::new(0, v4(n << 8), 24);
                [
                    Key::Teid(n),
                    Key::Ue(n as u16 % 3, v4(n)),
                    Key::Ue(1, v6(n, 0)),
                    Key::Ue(1, v6(n, 7)),
                    Key::Route(route),
                ]
            })
            .collect();
        let (mut index, mut model) = (Index::default(), HashMap::new());
        for (n, key) in keys.iter().enumerate() {
            index.insert(*key, n as u32);
            model.insert(*key, n as u32);
        }
        for key in keys.iter().step_by(3) {
            index.insert(*key, 1 << 30);
            model.insert(*key, 1 << 30);
        }
        for (n, key) in keys.iter().enumerate().step_by(7) {
            // Of those that changed hands the first owner has nothing to say any more.
            index.remove(key, n as u32);
            if model.get(key) == Some(&(n as u32)) {
                model.remove(key);
            }
        }
        assert!(keys.iter().all(|key| index.get(key) == model.get(key).copied()));
        assert!(index.bytes() > keys.len() * 8);
    }
}
