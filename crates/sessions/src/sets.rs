//! Sessions by the sets of connections they belong to (FQ-CSID, 3GPP TS 23.527, 4.6), and the sets that are to end.
//!
//! A Session Set Deletion Request is looked up here and noted; its sessions end a few in each turn. Work and memory go by
//! the sessions of the sets named, not by all there are, and a request repeated while it is carried out adds nothing.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// The name of a set, and the type of its node, which may be left out on either side.
pub type Named<S> = (S, Option<u8>);

/// A set that sessions belong to.
#[derive(Clone, Copy, Debug)]
struct Known {
    node_type: Option<u8>,
    id: u32,
    sessions: u32,
}

/// Sessions by set, and sets by the names they have in messages.
#[derive(Debug)]
pub struct Sets<S> {
    /// By association and name.
    known: HashMap<(u32, S), Vec<Known>>,
    /// Sessions by set; the value is the number of sessions made when it was entered.
    members: BTreeMap<(u32, u32), u64>,
    last_id: u32,
}

impl<S> Default for Sets<S> {
    fn default() -> Self {
        Self { known: HashMap::new(), members: BTreeMap::new(), last_id: 0 }
    }
}

impl<S: Copy + Eq + Hash> Sets<S> {
    /// A session of an association belongs to these sets.
    pub fn insert(&mut self, peer: u32, session: u32, sets: impl IntoIterator<Item = Named<S>>, made: u64) {
        for (set, node_type) in sets {
            let known = self.known.entry((peer, set)).or_default();
            let at = known.iter().position(|known| known.node_type == node_type).unwrap_or_else(|| {
                self.last_id = self.last_id.wrapping_add(1);
                known.push(Known { node_type, id: self.last_id, sessions: 0 });
                known.len() - 1
            });
            if self.members.insert((known[at].id, session), made).is_none() {
                known[at].sessions += 1;
            }
        }
    }

    /// A session belongs to these sets no more.
    pub fn remove(&mut self, peer: u32, session: u32, sets: impl IntoIterator<Item = Named<S>>) {
        for (set, node_type) in sets {
            let key = (peer, set);
            let Some(known) = self.known.get_mut(&key) else { continue };
            let Some(at) = known.iter().position(|known| known.node_type == node_type) else { continue };
            if self.members.remove(&(known[at].id, session)).is_some() {
                known[at].sessions -= 1;
                if known[at].sessions == 0 {
                    known.swap_remove(at);
                }
            }
            if known.is_empty() {
                self.known.remove(&key);
            }
        }
    }

    /// The sets of an association that `named` names, by their numbers here; a node type left out is any.
    pub fn find(&self, peer: u32, (set, node_type): Named<S>) -> impl Iterator<Item = u32> + '_ {
        let fits =
            move |known: &&Known| node_type.is_none() || known.node_type.is_none() || known.node_type == node_type;
        self.known.get(&(peer, set)).into_iter().flatten().filter(fits).map(|known| known.id)
    }

    /// The next session of a set from the number `from` on, and how many sessions had been made when it was entered.
    pub fn next(&self, set: u32, from: u32) -> Option<(u32, u64)> {
        self.members.range((set, from)..=(set, u32::MAX)).next().map(|((_, session), made)| (*session, *made))
    }

    /// Bytes it takes, about.
    pub fn bytes(&self) -> usize {
        self.known.capacity() * (size_of::<(u32, S)>() + size_of::<Vec<Known>>() + 1)
            + self.known.len() * size_of::<Known>()
            // Leaves of a B-tree are two thirds full.
            + self.members.len() * (size_of::<(u32, u32)>() + size_of::<u64>()) * 3 / 2
    }
}

/// A set whose sessions are being ended.
#[derive(Clone, Copy, Debug)]
pub struct SetEnd {
    /// Sessions made after the request stay.
    pub made: u64,
    /// The next session to be looked at.
    pub next: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node and the number of a set there.
    type Set = (u8, u16);

    fn named(numbers: &[u16], node_type: Option<u8>) -> Vec<Named<Set>> {
        numbers.iter().map(|number| ((9, *number), node_type)).collect()
    }

    #[test]
    fn sets_are_found_by_peer_node_number_and_type() {
        let mut sets = Sets::<Set>::default();
        sets.insert(1, 10, named(&[7, 8], None), 1);
        sets.insert(1, 11, named(&[7], Some(2)), 2);
        sets.insert(2, 12, named(&[7], None), 3);
        let members = |sets: &Sets<Set>, peer: u32, by: Named<Set>| {
            let found: Vec<u32> = sets.find(peer, by).collect();
            let mut all: Vec<u32> = found.into_iter().filter_map(|id| sets.next(id, 0)).map(|(at, _)| at).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(members(&sets, 1, ((9, 7), None)), [10, 11]);
        assert_eq!(members(&sets, 1, ((9, 7), Some(2))), [10, 11]);
        assert_eq!(members(&sets, 1, ((9, 7), Some(3))), [10], "of another type of node");
        assert_eq!(members(&sets, 2, ((9, 7), None)), [12]);
        assert_eq!(members(&sets, 1, ((9, 9), None)), [0; 0]);
        assert_eq!(members(&sets, 1, ((8, 7), None)), [0; 0]);
        sets.remove(1, 10, named(&[7, 8], None));
        sets.remove(1, 11, named(&[7], Some(2)));
        sets.remove(2, 12, named(&[7], None));
        assert!(sets.known.is_empty() && sets.members.is_empty());
    }
}
