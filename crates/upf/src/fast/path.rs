//! The program, with what it has of the user plane function's own.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dataplane::forward::{Forwarding, Plan};
use gateway::fast_path::{self, Before, FastPathError, FastPort, ProgramSpec};
use port::bpf::SharedWords;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::record::{CELLS, LAYOUT, Meter, Session, Session6, Tally, Tunnel, ZERO_SUM};

/// Places of its own maps.
const SESSIONS6: usize = 0;
const TUNNELS: usize = 1;
/// The most tunnels there is room for.
const MOST_TUNNELS: u32 = 16_384;

/// The in-kernel path of a user plane function: one for all its workers and ports.
#[derive(Debug)]
pub struct FastPath(fast_path::FastPath);

impl Deref for FastPath {
    type Target = fast_path::FastPath;

    fn deref(&self) -> &fast_path::FastPath {
        &self.0
    }
}

impl AsRef<fast_path::FastPath> for FastPath {
    fn as_ref(&self) -> &fast_path::FastPath {
        self
    }
}

impl FastPath {
    /// Has the kernel verify and take the program, with room for `sessions` sessions of that many workers.
    ///
    /// # Errors
    /// [`FastPathError`].
    pub fn load(sessions: u32, workers: u16) -> Result<Self, FastPathError> {
        let spec = ProgramSpec {
            object: include_bytes!("../../bpf/fastpath.bpf.o"),
            layout: LAYOUT,
            session: size_of::<Session>(),
            keys: 3,
            places: 1,
            maps: &[("sessions6", sessions.max(1)), ("tunnels", MOST_TUNNELS)],
            reasons: ["gate_closed", "flow_rate", "session_rate"],
        };
        fast_path::FastPath::load(&spec, sessions, workers).map(Self)
    }

    /// Puts a session in its place: see [`fast_path::FastPath::enter`].
    pub fn enter(&self, number: u32, (session, half): (&Session, &Session6), stood: u32) -> bool {
        let half = half.as_bytes().get(..if half.prefix == 0 { Session6::HEAD } else { size_of::<Session6>() });
        self.own(SESSIONS6).write(number as usize, 0, half.unwrap_or_default());
        self.0.enter(number, session, stood)
    }

    /// Takes a session out: its packets are the user-space path's when this returns, and its buckets and counts final.
    pub fn leave(&self, number: u32) -> ([Meter; CELLS], [Tally; CELLS]) {
        self.0.leave(number);
        self.state(number)
    }

    /// A session's buckets and counts as they are.
    pub fn state(&self, number: u32) -> ([Meter; CELLS], [Tally; CELLS]) {
        state(self.sessions(), number)
    }

    /// Adds to what a session has counted in the kernel, and takes from its buckets, what it had there in a process before.
    pub fn add(&self, number: u32, meters: &[Meter; CELLS], more: &[Tally; CELLS]) {
        const METERS: usize = std::mem::offset_of!(Session, meters) / 8;
        const TALLIES: usize = std::mem::offset_of!(Session, tallies) / 8;
        const WORDS: usize = size_of::<Tally>() / 8;
        const { assert!(size_of::<Meter>() == size_of::<Tally>()) };
        let words = self.sessions().get(number as usize);
        for (n, (meter, tally)) in meters.iter().zip(more).enumerate() {
            if let Some(word) = words.get(METERS + n * WORDS).filter(|_| meter.depth != 0) {
                word.fetch_max(meter.full_at, Ordering::SeqCst);
            }
            if let Some([bytes, _, packets, _]) = words.get(TALLIES + n * WORDS..TALLIES + (n + 1) * WORDS) {
                bytes.fetch_add(tally.bytes, Ordering::SeqCst);
                packets.fetch_add(tally.packets, Ordering::SeqCst);
            }
        }
    }

    /// Whether a tunnel is one the program can put packets in.
    pub(super) fn has_tunnel(&self, id: u32) -> bool {
        const VERSION: usize = std::mem::offset_of!(Tunnel, version);
        let word = self.own(TUNNELS).get(id as usize).get(VERSION / 8).map_or(0, |word| word.load(Ordering::Relaxed));
        word.to_ne_bytes()[VERSION % 8] != 0
    }
}

fn state(sessions: &SharedWords, number: u32) -> ([Meter; CELLS], [Tally; CELLS]) {
    const AT: usize = std::mem::offset_of!(Session, meters);
    let mut bytes = [0; size_of::<[Meter; CELLS]>() + size_of::<[Tally; CELLS]>()];
    sessions.read(number as usize, AT, &mut bytes);
    let (meters, tallies) = bytes.split_at(size_of::<[Meter; CELLS]>());
    let read = |bytes| FromBytes::read_from_bytes(bytes).unwrap_or([Meter::CLOSED; CELLS]);
    (read(meters), FromBytes::read_from_bytes(tallies).unwrap_or([Tally::NONE; CELLS]))
}

/// The buckets and counts of a session that was in the kernel in a process before: of that handle, with these tunnel
/// endpoints and that address.
pub(crate) fn state_before(
    before: &Before,
    handle: u32,
    teids: &[u32],
    ue4: u32,
) -> Option<([Meter; CELLS], [Tally; CELLS])> {
    let number = before.find(handle, |head: &[u8; Session::HEAD]| {
        let words: [u32; Session::HEAD / 4] = zerocopy::transmute!(*head);
        let [_, address, its_handle, _, ends @ ..] = words;
        let ends = ends.iter().copied().filter(|teid| *teid != 0);
        (address, its_handle) == (ue4, handle) && ends.eq(teids.iter().copied())
    })?;
    Some(state(before.sessions(), number))
}

/// Keeps the program's tables as the forwarding tables are, tunnels too.
pub struct Publisher {
    path: Arc<FastPath>,
    tables: fast_path::Publisher<FastPath>,
    zero_sum6: bool,
}

impl Publisher {
    /// Of these ports, by their numbers.
    pub fn new(path: Arc<FastPath>, ports: Vec<Option<FastPort>>) -> Self {
        Self { tables: fast_path::Publisher::new(path.clone(), ports), path, zero_sum6: false }
    }

    /// Tunnels over IPv6 go without UDP checksum (RFC 6935), or with one.
    #[must_use]
    pub fn with_zero_sum6(self, zero_sum6: bool) -> Self {
        Self { zero_sum6, ..self }
    }

    /// The ports are these from now on, as of the next [`publish`](Self::publish): an interface was made again.
    pub fn set_ports(&mut self, ports: Vec<Option<FastPort>>) {
        self.tables.set_ports(ports);
    }

    /// The program and its maps, which workers share.
    pub fn path(&self) -> &Arc<FastPath> {
        &self.path
    }

    /// The tables are these from now on.
    pub fn publish(&mut self, plan: &Plan, tables: &Forwarding) {
        let tunnels = tables.tunnels.iter().enumerate().map(|(id, tunnel)| (id, self.tunnel(tunnel, tables)));
        let tunnels = tunnels.map(|(at, entry)| (at, entry.as_bytes().to_vec())).collect();
        self.tables.publish_with(plan, tables, Some((TUNNELS, tunnels)));
    }

    fn tunnel(&self, tunnel: &dataplane::forward::Tunnel, tables: &Forwarding) -> Tunnel {
        let mut entry = Tunnel::new_zeroed();
        match tunnel.version {
            4 => entry.header.copy_from_slice(&tunnel.header[..20]),
            6 => entry.header6.copy_from_slice(&tunnel.header[..40]),
            _ => return entry,
        }
        entry.next = self.tables.next(tables.hop(tunnel.hop), tunnel.version);
        entry.flags = if self.zero_sum6 { ZERO_SUM } else { 0 };
        Tunnel { version: tunnel.version, sum: tunnel.sum, ..entry }
    }
}
