//! One interface, several workers: PACKET_FANOUT groups and a member's seat in one.
//!
//! The kernel numbers a group's members by the order they join, so they must be opened in order, 0 first, by one process
//! or several; after the interface went away each waits for the ones before it. A member that closes moves the last one
//! to its place: members leave together.

use std::collections::HashMap;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard};

use libc::sock_filter;

use super::socket::Socket;
use super::steer::{Look, Steer};
use crate::claim::{self, Claim};
use crate::iface::Iface;
use crate::shared::Key;
use crate::{PortError, Uri};

/// How a group's packets are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FanoutKind {
    /// By the queue they came in by.
    Queue,
    /// By the kernel's flow hash of the outer headers.
    Hash,
    /// By the subscriber's inner address.
    Subscriber,
}

/// A member's place in a group.
#[derive(Clone, Debug)]
pub(super) struct Fanout {
    pub(super) kind: FanoutKind,
    group: u16,
    pub(super) member: u16,
    pub(super) members: u16,
    look: Look,
}

const WORDS: [(FanoutKind, &str, u32); 3] = [
    (FanoutKind::Queue, "fanout qm", libc::PACKET_FANOUT_QM),
    (FanoutKind::Hash, "fanout hash", libc::PACKET_FANOUT_HASH),
    (FanoutKind::Subscriber, "fanout subscriber", libc::PACKET_FANOUT_CBPF),
];

impl Fanout {
    pub(super) fn read(uri: &Uri, kind: FanoutKind) -> Result<Self, PortError> {
        let want = "member/members, as in 0/2, with at most 256 members";
        let parts = uri.get("member").and_then(|value| value.split_once('/'));
        let parts = parts.and_then(|(member, members)| Some((member.parse().ok()?, members.parse().ok()?)));
        let Some((member, members @ 1..=256)) = parts.filter(|(member, members)| member < members) else {
            return Err(uri.bad_value("member", want));
        };
        let looks = [("auto", Look::Auto), ("source", Look::Source), ("destination", Look::Destination)];
        let group = uri.number("group", 0, "a number below 65536, the same for all members")?;
        Ok(Self { kind, group, member, members, look: uri.choice("steer", &looks)? })
    }

    /// What it takes of the interface.
    pub(super) fn claim(&self) -> Claim {
        Claim::Member { group: self.group, member: self.member }
    }

    /// Members of the group that have joined, without this one.
    pub(super) fn others(&self, iface: &Iface, key: Key) -> Result<u16, PortError> {
        let members = claim::members(iface, key, self.group)?;
        Ok(members.iter().filter(|member| **member != self.member).count() as u16) // at most 256 members
    }

    /// For people.
    pub(super) fn words(&self) -> String {
        format!("{} {}/{}", self.entry().1, self.member, self.members)
    }

    fn entry(&self) -> (FanoutKind, &'static str, u32) {
        *WORDS.iter().find(|(kind, ..)| *kind == self.kind).expect("every kind is in the list")
    }

    /// Joins the group of a bound socket that lets nothing through yet.
    /// `others` are the members that have joined, of other processes too.
    pub(super) fn join(
        &self,
        socket: &Socket,
        key: Key,
        others: u16,
        steer: &Steer,
    ) -> Result<FanoutMember, PortError> {
        let program = match self.kind {
            FanoutKind::Subscriber => {
                let latest = steered().latest.clone();
                Some(latest.as_ref().unwrap_or(steer).program(self.members, self.look)?)
            }
            _ => None,
        };
        let seat = (key, self.group);
        let mut seats = SEATS.lock().unwrap_or_else(|e| e.into_inner());
        let seats = seats.get_or_insert_default();
        let joined = seats.get(&seat).copied().unwrap_or(0).max(others);
        if joined != self.member {
            return Err(PortError::FanoutOrder { group: self.group, member: self.member, joined });
        }
        let system = |e| PortError::system(format!("joining fanout group {}", self.group), "CAP_NET_RAW", e);
        self.enter(socket).map_err(system)?;
        if let Some(program) = program {
            socket.fanout_program(&program).map_err(system)?;
            self.remember(seat, socket).map_err(system)?;
        }
        *seats.entry(seat).or_insert(0) += 1;
        Ok(FanoutMember(seat, self.member))
    }

    /// The place of a socket that another process joined.
    pub(super) fn adopt(&self, key: Key, socket: &Socket) -> FanoutMember {
        let seat = (key, self.group);
        if self.kind == FanoutKind::Subscriber {
            // Without it the group keeps its program.
            let _ = self.remember(seat, socket);
        }
        *SEATS.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert_default().entry(seat).or_insert(0) += 1;
        FanoutMember(seat, self.member)
    }

    /// Keeps the member's socket for [`steer_anew`].
    fn remember(&self, seat: (Key, u16), socket: &Socket) -> io::Result<()> {
        let member =
            Steered { seat, member: self.member, members: self.members, look: self.look, socket: socket.again()? };
        steered().members.push(member);
        Ok(())
    }

    fn enter(&self, socket: &Socket) -> io::Result<()> {
        // The group has a hook of its own, which needs its own word to ignore what the interface sends.
        let word = (self.entry().2 | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING) << 16 | u32::from(self.group);
        socket.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &word)
    }
}

/// A member of a group whose members are chosen by a program.
struct Steered {
    seat: (Key, u16),
    member: u16,
    members: u16,
    look: Look,
    socket: Socket,
}

/// What [`steer_anew`] has to do with.
struct AllSteered {
    members: Vec<Steered>,
    /// What groups go by that are opened from now on; none: what their ports are opened with.
    latest: Option<Steer>,
}

static STEERED: Mutex<AllSteered> = Mutex::new(AllSteered { members: Vec::new(), latest: None });

fn steered() -> MutexGuard<'static, AllSteered> {
    STEERED.lock().unwrap_or_else(|e| e.into_inner())
}

/// Has all groups `fanout=subscriber` of this process choose members by other owners from now on, those that are opened
/// later too; returns how many groups. Packets that were received before stay where they are. Returns when no packet goes by
/// the owners before any more, which takes some milliseconds (the kernel waits for all its CPUs).
///
/// # Errors
/// [`PortError::Unsupported`]: there are more ranges than a program can hold. [`PortError::System`]. The other groups are
/// changed.
pub fn steer_anew(steer: &Steer) -> Result<usize, PortError> {
    let mut groups: Vec<(u16, Socket, Vec<sock_filter>)> = Vec::new();
    let failed = |group: u16, e| PortError::system(format!("changing fanout group {group}"), "CAP_NET_RAW", e);
    {
        let mut all = steered();
        all.latest = Some(steer.clone());
        let mut seen: Vec<(Key, u16)> = Vec::new();
        for member in &all.members {
            if !seen.contains(&member.seat) {
                seen.push(member.seat);
                let socket = member.socket.again().map_err(|e| failed(member.seat.1, e))?;
                groups.push((member.seat.1, socket, steer.program(member.members, member.look)?));
            }
        }
    }
    // Each waits for the kernel: together they wait once.
    let change = |(group, socket, program): &(u16, Socket, Vec<sock_filter>)| {
        socket.fanout_program(program).map_err(|e| failed(*group, e))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = groups.iter().map(|group| scope.spawn(move || change(group))).collect();
        let each = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        each.fold(Ok(()), Result::and)
    })?;
    Ok(groups.len())
}

static SEATS: Mutex<Option<HashMap<(Key, u16), u16>>> = Mutex::new(None);

/// A place in a group, left when dropped (after its socket closed).
#[derive(Debug)]
pub(super) struct FanoutMember((Key, u16), u16);

impl Drop for FanoutMember {
    fn drop(&mut self) {
        // The group's share of a socket that is kept open would be nobody's.
        steered().members.retain(|member| (member.seat, member.member) != (self.0, self.1));
        let mut seats = SEATS.lock().unwrap_or_else(|e| e.into_inner());
        let seats = seats.get_or_insert_default();
        if let Some(joined) = seats.get_mut(&self.0) {
            *joined -= 1;
            if *joined == 0 {
                seats.remove(&self.0);
            }
        }
    }
}
