//! The program, with what it has of the broadband gateway's own.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dataplane::acl::AccessLists;
use dataplane::forward::{Forwarding, Plan};
use gateway::fast_path::{self, FastPathError, FastPort, List, ProgramSpec};
use zerocopy::{FromZeros, IntoBytes};

use super::record::{LAYOUT, LENGTHS, Lane, OWN, Places, Session};
use crate::steer::Directory;

/// Places of its own maps.
const PLACES: usize = 0;
const LISTS: usize = 1;
const HITS: usize = 2;

/// The in-kernel path of a broadband gateway: one for all its workers and ports.
#[derive(Debug)]
pub struct FastPath {
    path: fast_path::FastPath,
    /// Rules of access lists whose hits are counted, on each CPU.
    counters: u32,
}

impl Deref for FastPath {
    type Target = fast_path::FastPath;

    fn deref(&self) -> &fast_path::FastPath {
        &self.path
    }
}

impl AsRef<fast_path::FastPath> for FastPath {
    fn as_ref(&self) -> &fast_path::FastPath {
        &self.path
    }
}

impl FastPath {
    /// Has the kernel verify and take the program, with room for `subscribers` of that many workers and for so many counters
    /// of access lists' rules.
    ///
    /// # Errors
    /// [`FastPathError`].
    pub fn load(subscribers: u32, workers: u16, counters: u32) -> Result<Self, FastPathError> {
        let counters = counters.max(1);
        let spec = ProgramSpec {
            object: include_bytes!("../../bpf/fastpath.bpf.o"),
            layout: LAYOUT,
            session: size_of::<Session>(),
            // Its line, its IPv4 address, its WAN prefix, its delegated prefix.
            keys: 4,
            places: workers.max(1),
            maps: &[("places", 0), ("lists", 0), ("hits", counters.saturating_mul(fast_path::cpus()))],
            reasons: ["acl_denied", "subscriber_rate", "", ""],
        };
        Ok(Self { path: fast_path::FastPath::load(&spec, subscribers, workers)?, counters })
    }

    /// Whether the program has the access list of that number; of none (0) always.
    pub(super) fn has_list(&self, number: u16) -> bool {
        number == 0 || fast_path::has_list(self.own(LISTS), number)
    }

    /// Whether the program looks subscribers' prefixes of that length up.
    pub(super) fn has_length(&self, length: u8) -> bool {
        let word = self.own(PLACES).get(0).first().map_or(0, |word| word.load(Ordering::Relaxed));
        word.to_ne_bytes().iter().skip(4).any(|known| *known == length)
    }

    /// Packets and bytes that the rule of that counter has matched in the kernel.
    pub fn hits(&self, counter: u32) -> (u64, u64) {
        fast_path::hits(self.own(HITS), self.counters, counter)
    }

    /// A subscriber's record as the program has it now.
    pub fn session(&self, number: u32) -> Session {
        let mut bytes = [0; size_of::<Session>()];
        self.sessions().read(number as usize, 0, &mut bytes);
        zerocopy::transmute!(bytes)
    }

    /// A subscriber's directions there, downstream first.
    pub fn lanes(&self, number: u32) -> [Lane; 2] {
        const AT: usize = std::mem::offset_of!(Session, down);
        let mut bytes = [0; size_of::<[Lane; 2]>()];
        self.sessions().read(number as usize, AT, &mut bytes);
        zerocopy::transmute!(bytes)
    }
}

/// Keeps the program's tables as the gateway's are.
pub struct Publisher {
    tables: fast_path::Publisher<FastPath>,
    /// Access lists and places, as they were written last.
    lists: HashMap<u16, Vec<u8>>,
    places: Vec<u8>,
}

impl Publisher {
    /// Of these ports, by their numbers.
    pub fn new(path: Arc<FastPath>, ports: Vec<Option<FastPort>>) -> Self {
        Self { tables: fast_path::Publisher::new(path, ports), lists: HashMap::new(), places: Vec::new() }
    }

    /// The ports are these from now on, as of the next [`publish`](Self::publish): an interface was made again.
    pub fn set_ports(&mut self, ports: Vec<Option<FastPort>>) {
        self.tables.set_ports(ports);
    }

    /// The program and its maps, which workers share.
    pub fn path(&self) -> &Arc<FastPath> {
        self.tables.path()
    }

    /// The forwarding tables are these from now on.
    pub fn publish(&mut self, plan: &Plan, tables: &Forwarding) {
        self.tables.publish(plan, tables);
    }

    /// The access lists are these from now on. What has more rules than the program takes is not there.
    pub fn publish_lists(&mut self, lists: &AccessLists) {
        let path = self.path().clone();
        let entries = lists.iter().filter(|(number, _)| usize::from(*number) < path.own(LISTS).len());
        let entries = entries.map(|(number, list)| (number, List::from(list).as_bytes().to_vec()));
        let new: Vec<_> = entries.filter(|(number, bytes)| self.lists.get(number) != Some(bytes)).collect();
        let changed: Vec<_> =
            new.iter().map(|(number, bytes)| (path.own(LISTS), usize::from(*number), bytes.clone())).collect();
        fast_path::write(&path, &changed);
        self.lists.extend(new);
    }

    /// Whose addresses are whose, from now on; `lengths`: of subscribers' IPv6 prefixes, 0 behind the last.
    pub fn publish_places(&mut self, directory: &Directory, lengths: [u8; LENGTHS]) {
        let bytes = places(directory, lengths, self.path().counters).as_bytes().to_vec();
        if bytes != self.places {
            let path = self.path().clone();
            fast_path::write(&path, &[(path.own(PLACES), 0, bytes.clone())]);
            self.places = bytes;
        }
    }
}

/// What packets from subscribers are not forwarded to in the kernel, and where subscribers' prefixes are looked up; invalid
/// where the gateway has too many addresses of its own.
fn places(directory: &Directory, lengths: [u8; LENGTHS], counters: u32) -> Places {
    let mut places = Places::new_zeroed();
    places.counters = counters;
    let (near4, near6) = directory.near();
    places.near4.copy_from_slice(near4);
    places.near6.copy_from_slice(near6);
    let own4 = directory.own4().iter().filter(|(_, address)| !directory.is_near4(*address));
    let mut own4: Vec<u64> = own4.map(|(instance, address)| u64::from(*instance) << 32 | u64::from(*address)).collect();
    own4.sort_unstable();
    own4.dedup();
    // No packet is forwarded to a link-local address; many groups have the same.
    let is_link_local = |address: u128| address >> 118 == 0xfe80 >> 6;
    let own6 = directory.own6().iter().filter(|(_, address)| !is_link_local(*address));
    let own6 = own6.filter(|(_, address)| !directory.is_near6((address >> 64) as u64));
    let mut own6: Vec<[u64; 3]> =
        own6.map(|(instance, address)| [u64::from(*instance), (address >> 64) as u64, *address as u64]).collect();
    own6.sort_unstable();
    own6.dedup();
    places.valid = u32::from(own4.len() <= OWN && own6.len() <= OWN);
    if places.valid == 0 {
        tracing::warn!(
            target: "process", event = "config_warning", key = "port.fast_path",
            "no packets from subscribers are forwarded in the kernel: the gateway has more than {OWN} addresses of its own \
             outside of its subscribers' slices"
        );
    }
    (places.own4_count, places.own6_count) = (own4.len() as u32, own6.len() as u32); // OWN at most, or not valid
    places.own4 = [u64::MAX; OWN];
    places.own6 = [[u64::MAX; 3]; OWN];
    places.own4.iter_mut().zip(own4).for_each(|(to, own)| *to = own);
    places.own6.iter_mut().zip(own6).for_each(|(to, own)| *to = own);
    places.lengths = lengths;
    places
}
