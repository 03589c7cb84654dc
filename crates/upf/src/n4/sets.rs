//! Sessions by the sets of connections they belong to (FQ-CSID, 3GPP TS 23.527, 4.6), and the sets that are to end.
//!
//! A Session Set Deletion Request is looked up here and noted; its sessions end a few in each turn. Work and memory go by
//! the sessions of the sets named, not by all there are, and a request repeated while it is carried out adds nothing.

use std::collections::{BTreeMap, HashMap};

use pfcp::ie::{ConnectionSet, FqCsid};

/// A set, as an association names it, without the type of its node, which may be left out on either side.
type SetKey = (u32, ConnectionSet);

/// A set that sessions belong to.
#[derive(Clone, Copy, Debug)]
struct Known {
    node_type: Option<u8>,
    id: u32,
    sessions: u32,
}

/// Sessions by set, and sets by the names they have in messages.
#[derive(Debug, Default)]
pub struct Sets {
    known: HashMap<SetKey, Vec<Known>>,
    /// Sessions by set; the value is the number of sessions made when it was entered.
    members: BTreeMap<(u32, u32), u64>,
    last_id: u32,
}

/// The key of a set and the type of its node.
fn key(peer: u32, set: ConnectionSet) -> (SetKey, Option<u8>) {
    ((peer, ConnectionSet { node_type: None, ..set }), set.node_type)
}

impl Sets {
    /// A session of an association belongs to these sets.
    pub fn insert(&mut self, peer: u32, session: u32, sets: &[FqCsid], made: u64) {
        for set in sets.iter().flat_map(FqCsid::sets) {
            let (key, node_type) = key(peer, set);
            let known = self.known.entry(key).or_default();
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
    pub fn remove(&mut self, peer: u32, session: u32, sets: &[FqCsid]) {
        for set in sets.iter().flat_map(FqCsid::sets) {
            let (key, node_type) = key(peer, set);
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
    pub fn find(&self, peer: u32, named: ConnectionSet) -> impl Iterator<Item = u32> + '_ {
        let (key, node_type) = key(peer, named);
        let fits =
            move |known: &&Known| node_type.is_none() || known.node_type.is_none() || known.node_type == node_type;
        self.known.get(&key).into_iter().flatten().filter(fits).map(|known| known.id)
    }

    /// The next session of a set from the number `from` on, and how many sessions had been made when it was entered.
    pub fn next(&self, set: u32, from: u32) -> Option<(u32, u64)> {
        self.members.range((set, from)..=(set, u32::MAX)).next().map(|((_, session), made)| (*session, *made))
    }

    /// Bytes it takes, about.
    pub fn bytes(&self) -> usize {
        self.known.capacity() * (size_of::<SetKey>() + size_of::<Vec<Known>>() + 1)
            + self.known.len() * size_of::<Known>()
            // Leaves of a B-tree are two thirds full.
            + self.members.len() * (size_of::<(u32, u32)>() + size_of::<u64>()) * 3 / 2
    }
}

/// A set whose sessions are being ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct SetEnd {
    /// Sessions made after the request stay.
    pub made: u64,
    /// The next session to be looked at.
    pub next: u32,
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn named(csids: &[u16]) -> FqCsid {
        FqCsid::new(IpAddr::from([10, 0, 4, 9]), csids)
    }

    #[test]
    fn sets_are_found_by_peer_node_number_and_type() {
        let typed = |csids: &[u16], node_type: u8| {
            let FqCsid { kind_and_count, content } = named(csids);
            FqCsid { kind_and_count, content: [&content, &[node_type][..]].concat().into() }
        };
        let mut sets = Sets::default();
        sets.insert(1, 10, &[named(&[7, 8])], 1);
        sets.insert(1, 11, &[typed(&[7], 2)], 2);
        sets.insert(2, 12, &[named(&[7])], 3);
        let members = |sets: &Sets, peer: u32, by: &FqCsid| {
            let found = by.sets().flat_map(|set| sets.find(peer, set).collect::<Vec<_>>());
            let mut all: Vec<u32> = found.filter_map(|id| sets.next(id, 0)).map(|(session, _)| session).collect();
            all.sort_unstable();
            all
        };
        assert_eq!(members(&sets, 1, &named(&[7])), [10, 11]);
        assert_eq!(members(&sets, 1, &typed(&[7], 2)), [10, 11]);
        assert_eq!(members(&sets, 1, &typed(&[7], 3)), [10], "of another type of node");
        assert_eq!(members(&sets, 2, &named(&[7])), [12]);
        assert_eq!(members(&sets, 1, &named(&[9])), [0; 0]);
        assert_eq!(members(&sets, 1, &FqCsid::new(IpAddr::from([10, 0, 4, 8]), &[7])), [0; 0]);
        sets.remove(1, 10, &[named(&[7, 8])]);
        sets.remove(1, 11, &[typed(&[7], 2)]);
        sets.remove(2, 12, &[named(&[7])]);
        assert!(sets.known.is_empty() && sets.members.is_empty());
    }
}
