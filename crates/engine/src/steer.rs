//! Who owns which subscriber: one table behind every form of steering.

/// What a packet shows of its subscriber before any session is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SteerKey {
    /// An identifier of ours that packets carry, such as that of a tunnel.
    Id(u32),
    /// A subscriber's IPv4 address in a network instance.
    V4(u16, u32),
    /// The first 64 bits of a subscriber's IPv6 address in a network instance.
    V6(u16, u64),
    /// Nothing of that kind: the gateway knows the worker.
    Owner(Owner),
}

/// A worker's number.
pub type Owner = u16;

/// Ranges of identifiers and the worker that owns each. Built by control, read by all; compiled into a BPF program for
/// PACKET_FANOUT by its ranges of IPv4 addresses, and used as it stands as the classifier in user space.
#[derive(Clone, Debug, Default)]
pub struct Steer {
    ids: Vec<(u32, u32, Owner)>,
    v4: Vec<(u16, u32, u32, Owner)>,
    v6: Vec<(u16, u64, u64, Owner)>,
}

/// A range that overlaps one with another owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap;

impl Steer {
    /// A table that owns nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives identifiers `first..=last` to a worker.
    ///
    /// # Errors
    /// [`Overlap`] when part of the range is owned already.
    pub fn own_ids(&mut self, first: u32, last: u32, owner: Owner) -> Result<(), Overlap> {
        insert(&mut self.ids, (first, last, owner), |r| (r.0, r.1))
    }

    /// Gives IPv4 addresses `first..=last` of a network instance to a worker.
    ///
    /// # Errors
    /// [`Overlap`] when part of the range is owned already.
    pub fn own_v4(&mut self, instance: u16, first: u32, last: u32, owner: Owner) -> Result<(), Overlap> {
        insert(&mut self.v4, (instance, first, last, owner), |r| (place4(r.0, r.1), place4(r.0, r.2)))
    }

    /// Gives the /64 prefixes `first..=last` of a network instance to a worker.
    ///
    /// # Errors
    /// [`Overlap`] when part of the range is owned already.
    pub fn own_v6(&mut self, instance: u16, first: u64, last: u64, owner: Owner) -> Result<(), Overlap> {
        insert(&mut self.v6, (instance, first, last, owner), |r| ((r.0, r.1), (r.0, r.2)))
    }

    /// Ranges of identifiers: first, last, owner.
    pub fn ids(&self) -> &[(u32, u32, Owner)] {
        &self.ids
    }

    /// Ranges of IPv4 addresses: network instance, first, last, owner.
    pub fn v4(&self) -> &[(u16, u32, u32, Owner)] {
        &self.v4
    }

    /// Ranges of /64 prefixes, as [`v4`](Self::v4).
    pub fn v6(&self) -> &[(u16, u64, u64, Owner)] {
        &self.v6
    }

    /// The owner, if any. A few comparisons; no memory beyond the table's own lines.
    #[inline]
    pub fn owner(&self, key: SteerKey) -> Option<Owner> {
        match key {
            SteerKey::Id(id) => {
                let at = self.ids.partition_point(|r| r.0 <= id).checked_sub(1)?;
                let range = self.ids.get(at)?;
                (id <= range.1).then_some(range.2)
            }
            SteerKey::V4(instance, address) => {
                let at = self.v4.partition_point(|r| (r.0, r.1) <= (instance, address)).checked_sub(1)?;
                let range = self.v4.get(at)?;
                (range.0 == instance && address <= range.2).then_some(range.3)
            }
            SteerKey::V6(instance, prefix) => {
                let at = self.v6.partition_point(|r| (r.0, r.1) <= (instance, prefix)).checked_sub(1)?;
                let range = self.v6.get(at)?;
                (range.0 == instance && prefix <= range.2).then_some(range.3)
            }
            SteerKey::Owner(owner) => Some(owner),
        }
    }

    /// The widest ranges of a worker.
    pub(crate) fn most_of(&self, owner: Owner) -> Most {
        let ids = self.ids.iter().filter(|r| r.2 == owner).map(|r| (r.0, r.1));
        let v4 = self.v4.iter().filter(|r| r.3 == owner).map(|r| (place4(r.0, r.1), place4(r.0, r.2)));
        let none = Most::default();
        Most {
            ids: ids.max_by_key(|r| r.1 - r.0).unwrap_or(none.ids),
            v4: v4.max_by_key(|r| r.1 - r.0).unwrap_or(none.v4),
        }
    }
}

/// The widest range of identifiers and the widest of IPv4 addresses that a worker owns: nearly all of its packets' subscribers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    ids: (u32, u32),
    v4: (u64, u64),
}

impl Default for Most {
    fn default() -> Self {
        // First behind last: none.
        Self { ids: (1, 0), v4: (1, 0) }
    }
}

impl Most {
    /// Whether that subscriber is among them.
    #[inline(always)]
    pub fn has(&self, key: SteerKey) -> bool {
        match key {
            SteerKey::Id(id) => self.ids.0 <= id && id <= self.ids.1,
            SteerKey::V4(instance, address) => {
                let place = place4(instance, address);
                self.v4.0 <= place && place <= self.v4.1
            }
            SteerKey::V6(..) | SteerKey::Owner(_) => false,
        }
    }
}

/// Where an address lies among those of all network instances.
#[inline(always)]
fn place4(instance: u16, address: u32) -> u64 {
    u64::from(instance) << 32 | u64::from(address)
}

fn insert<R: Copy, E: Ord>(list: &mut Vec<R>, range: R, ends: impl Fn(&R) -> (E, E)) -> Result<(), Overlap> {
    let (first, last) = ends(&range);
    let at = list.partition_point(|r| ends(r).0 < first);
    let clear_before = at == 0 || ends(&list[at - 1]).1 < first;
    let clear_after = list.get(at).is_none_or(|next| last < ends(next).0);
    if first > last || !clear_before || !clear_after {
        return Err(Overlap);
    }
    list.insert(at, range);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_answer_at_their_edges_and_not_beyond() {
        let mut steer = Steer::new();
        steer.own_ids(100, 199, 0).expect("free");
        steer.own_ids(200, 299, 1).expect("free");
        steer.own_v4(1, 10, 19, 3).expect("free");
        steer.own_v4(2, 10, 19, 4).expect("same range of another instance");
        steer.own_v6(1, 5, 5, 6).expect("free");
        for (id, owner) in [(99, None), (100, Some(0)), (199, Some(0)), (200, Some(1)), (299, Some(1)), (300, None)] {
            assert_eq!(steer.owner(SteerKey::Id(id)), owner);
        }
        assert_eq!(steer.owner(SteerKey::V4(1, 19)), Some(3));
        assert_eq!(steer.owner(SteerKey::V4(2, 19)), Some(4));
        assert_eq!(steer.owner(SteerKey::V4(3, 19)), None);
        assert_eq!(steer.owner(SteerKey::V4(1, 20)), None);
        assert_eq!(steer.owner(SteerKey::V6(1, 5)), Some(6));
        assert_eq!(steer.owner(SteerKey::V6(1, 6)), None);
    }

    #[test]
    fn the_widest_ranges_of_a_worker_are_its_own() {
        let mut steer = Steer::new();
        for (first, last, owner) in [(10, 19, 0), (20, 99, 1), (100, 149, 0), (150, 155, 0)] {
            steer.own_ids(first, last, owner).expect("free");
            steer.own_v4(owner + 1, first, last, owner).expect("free");
        }
        for owner in 0..3 {
            let most = steer.most_of(owner);
            for n in 0..200 {
                let keys = [SteerKey::Id(n), SteerKey::V4(1, n), SteerKey::V4(2, n)];
                let all_ours = keys.into_iter().all(|key| !most.has(key) || steer.owner(key) == Some(owner));
                assert!(all_ours, "{n} of {owner}");
            }
            let has = |n| [most.has(SteerKey::Id(n)), most.has(SteerKey::V4(owner + 1, n))];
            let edges = [[99, 100, 149, 150], [19, 20, 99, 100], [0, 1, 2, 3]][usize::from(owner)].map(has);
            let inside = owner < 2;
            assert_eq!(edges, [[false; 2], [inside; 2], [inside; 2], [false; 2]]);
        }
    }

    #[test]
    fn no_identifier_has_two_owners() {
        let mut steer = Steer::new();
        steer.own_ids(100, 199, 0).expect("free");
        for range in [(50, 100), (199, 250), (120, 130), (0, 1000), (5, 4)] {
            assert_eq!(steer.own_ids(range.0, range.1, 1), Err(Overlap));
        }
    }
}
