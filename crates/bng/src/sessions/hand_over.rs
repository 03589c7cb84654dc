//! Sessions on their way to another process: leases as the ledger has them with what was told of them, subscribers, what RADIUS
//! servers have granted and are owed, and requests that nobody has answered.
//!
//! ```text
//! L  | of each lease: VRF (2) | number in the ledger, 0: none (8) | granted (1) | ends (4) | mark (4) | record (4 + n)
//! A  | subscribers, timers and RADIUS, as JSON
//! P  | of each request: class (1) | group (2) | port (1) | S-VLAN (2) | C-VLAN (2) | subscriber (4) | frame (4 + n)
//! ```
//! The ledger itself is the other process's as soon as this one has ended.

use std::cmp::Reverse;
use std::collections::HashMap;

use access::lease::{Kind, LeaseRecord};
use access::option82::LineRate;
use access::pool::{Handed, Rests};
use access::subscriber::Identity;
use access::{Time, pool::State};
use gateway::records::Opening;
use gateway::shell::hand_over::octets::{In, NO_WORKER, garbled, put, section};
use serde::{Deserialize, Serialize};
use wire::Mac;

use super::aaa::hand_over::{AaaState, Named, identity, named};
use super::clock::{self, LeaseClock};
use super::line_rate::ToldRate;
use super::{Pending, ReplyPath, Requester, Session, Sessions, Stored, is_slaac, prefix_of};
use crate::config::Class;
use crate::control::Control;
use crate::hand_over::Numbers;
use crate::link::Line;
use crate::record::SubscriberSpec;
use crate::slow::ControlPacket;

/// A subscriber that came by itself.
#[derive(Debug, Serialize, Deserialize)]
struct Handled {
    of: Named,
    handle: u32,
    group: u16,
    profile: u16,
    mac: Option<[u8; 6]>,
    tags: Vec<u8>,
    packets6: u64,
    check: u64,
    /// kbit/s of its line, up and down, and numbers of its names.
    line: ([u32; 2], [u64; 2]),
}

/// An address that rests: VRF, until when, group, kind, address, and line and hardware address that it counts against.
type Resting = (usize, u32, u16, u8, std::net::Ipv6Addr, Named);

/// What is no lease.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    clock: clock::Parts,
    next_handle: u32,
    free: Vec<u32>,
    /// Subscribers whose usage is awaited.
    reporting: Vec<u32>,
    sessions: Vec<Handled>,
    resting: Vec<Resting>,
    aaa: Option<AaaState>,
}

/// Subscriber of a request: none.
const NOBODY: u32 = u32::MAX;

impl Sessions {
    /// Goes on keeping leases when the process before has let its ledger go.
    pub fn with_opening(self, opening: Option<Opening<Stored>>) -> Self {
        Self { opening, ..self }
    }

    /// Begins to wait for the ledger.
    ///
    /// # Errors
    /// There is no thread.
    pub fn begin_opening(&mut self) -> std::io::Result<()> {
        self.opening.as_mut().map_or(Ok(()), Opening::begin)
    }

    /// The sockets of RADIUS, for another process; none: it is not configured.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn descriptors(&self) -> std::io::Result<Vec<std::os::fd::OwnedFd>> {
        self.aaa.as_ref().map_or_else(|| Ok(Vec::new()), super::Aaa::descriptors)
    }

    /// Goes on with a ledger that was read, and sets it right from the leases there are. False: it is not there yet.
    pub(super) fn open_taken(&mut self) -> bool {
        let Some(opening) = &mut self.opening else { return true };
        let Some(mut stored) = opening.take() else { return false };
        let waker = opening.waker().clone();
        if let Err(error) = self.store.keep(&mut stored, move || waker.call()) {
            tracing::error!(target: "ledger", event = "ledger_not_open", %error, "the ledger takes no changes: sessions wait");
            // Without a thread it is tried no more: requests stay unanswered, and packets are forwarded.
            let _ = opening.begin();
            return false;
        }
        self.opening = None;
        let missing = self.store.set_right(&stored);
        for pools in 0..self.pools.len() {
            let slots: Vec<_> = self.pools[pools].granted().collect();
            for slot in slots {
                let record = self.pools[pools].record(slot);
                let vlans = self.served(record.group).map(|served| served.vlans).filter(|_| missing(&record.key));
                let session = vlans.and_then(|vlans| self.sessions.get(&Identity::of(&record.key.client, vlans)));
                if let Some(tags) = session.map(|session| session.tags) {
                    let path = ReplyPath { tags, ..ReplyPath::none(record.group) };
                    self.put(Pending { requester: Requester::Slaac, record, path });
                }
            }
        }
        true
    }

    /// Finishes what was begun without taking in more. Whether nothing is under way.
    pub(crate) fn settle(&mut self, control: &mut Control) -> bool {
        if self.opening.is_some() {
            return false;
        }
        let now = self.clock.now();
        control.put_back(self.queue.take_all());
        self.store.flush();
        self.finish(control, now);
        self.take_removed(control, now);
        for (handle, usage) in control.usage_news() {
            self.on_usage(handle, &usage, now);
        }
        self.keep_accounting();
        let is_kept = self.aaa.as_mut().is_none_or(|aaa| aaa.keeper().is_settled());
        is_kept && self.store.waiting() == 0 && !self.store.is_behind()
    }

    /// Adds all there is.
    pub(crate) fn export(&self, out: &mut Vec<u8>) -> Result<(), String> {
        let leases = self.export_leases();
        let of = |(of, session): (&Identity, &Session)| Handled {
            of: named(of),
            handle: session.handle,
            group: session.group,
            profile: session.profile,
            mac: session.mac.map(|mac| mac.0),
            tags: session.tags.octets().to_vec(),
            packets6: session.packets6,
            check: session.check,
            line: ([session.line.rate.up_kbps, session.line.rate.down_kbps], session.line.circuits),
        };
        let resting = (0..).zip(&self.pools).flat_map(|(instance, pools)| {
            pools.resting().map(move |rests| {
                let Rests { until, pool: (group, kind), address, owner: (line, mac) } = rests;
                let owner = Identity { line, mac: Some(Mac(mac)) };
                (instance, until, group, kind as u8, address, named(&owner))
            })
        });
        let note = Note {
            clock: self.clock.parts(),
            next_handle: self.next_handle,
            free: self.free.clone(),
            reporting: self.reporting.iter().copied().collect(),
            sessions: self.sessions.iter().map(of).collect(),
            resting: resting.collect(),
            aaa: self.aaa.as_ref().map(super::Aaa::handed),
        };
        // Subscribers stand before their leases.
        section(out, b'A', NO_WORKER, &serde_json::to_vec(&note).map_err(|error| error.to_string())?);
        section(out, b'L', NO_WORKER, &leases);
        Ok(())
    }

    /// All leases; those of a subscriber stand in the order in which it got them.
    fn export_leases(&self) -> Vec<u8> {
        let (mut octets, mut places) = (Vec::new(), HashMap::new());
        for lease in self.sessions.keys().flat_map(|identity| self.records.leases(identity)) {
            places.insert(lease.key, places.len());
        }
        for (instance, pools) in (0u16..).zip(&self.pools) {
            let mut all: Vec<_> = pools.handed().collect();
            all.sort_by_key(|handed| places.get(&handed.record.key).copied());
            for Handed { record, is_granted, expiry, mark } in all {
                octets.extend(instance.to_le_bytes());
                octets.extend(self.store.number(&record.key).unwrap_or(0).to_le_bytes());
                octets.push(u8::from(is_granted));
                octets.extend(expiry.to_le_bytes());
                octets.extend(mark.to_le_bytes());
                put(&mut octets, &record.encode());
            }
        }
        octets
    }

    /// Adds requests that nobody has answered: those that wait for a server's decision, and `waiting`.
    pub(crate) fn export_requests<'a>(&'a self, waiting: impl Iterator<Item = &'a ControlPacket>, out: &mut Vec<u8>) {
        let mut octets = Vec::new();
        for packet in self.aaa.iter().flat_map(super::Aaa::held_requests).chain(waiting) {
            put_packet(packet, &mut octets);
        }
        section(out, b'P', NO_WORKER, &octets);
    }

    /// Takes in what another process has [exported](Self::export), but for leases.
    ///
    /// # Errors
    /// It does not fit; a sentence.
    pub(crate) fn take_in_sessions(&mut self, octets: &[u8], numbers: &Numbers, clock_ns: u64) -> Result<(), String> {
        let note: Note = serde_json::from_slice(octets).map_err(|_| garbled())?;
        self.clock = LeaseClock::of_parts(note.clock);
        (self.next_handle, self.free) = (note.next_handle, note.free);
        self.reporting = note.reporting.into_iter().collect();
        for handled in note.sessions {
            let (identity, handle) = (identity(handled.of), handled.handle);
            let ([up_kbps, down_kbps], circuits) = handled.line;
            let session = Session {
                handle,
                group: handled.group,
                profile: numbers.profile(handled.profile)?,
                mac: handled.mac.map(Mac),
                tags: super::Tags::of_octets(&handled.tags),
                packets6: handled.packets6,
                check: handled.check,
                line: ToldRate { rate: LineRate { up_kbps, down_kbps }, circuits },
            };
            if session.check != 0 {
                self.checks.push(Reverse((session.check, handle)));
            }
            self.sessions.insert(identity, session);
            self.by_handle.insert(handle, identity);
        }
        for (instance, until, group, kind, address, owner) in note.resting {
            let kind = [Kind::Ip4, Kind::Na, Kind::Pd].into_iter().find(|known| *known as u8 == kind);
            let owner = identity(owner);
            let owner = (owner.line, owner.mac.unwrap_or(Mac([0; 6])).0);
            if let Some((kind, pools)) = kind.zip(self.pools.get_mut(instance)) {
                pools.let_rest(&Rests { until, pool: (group, kind), address, owner });
            }
        }
        if let Some((aaa, state)) = self.aaa.as_mut().zip(note.aaa) {
            aaa.go_on_with(state, Time(clock_ns / 1_000_000));
        }
        Ok(())
    }

    /// Takes in another process's leases, after its subscribers. Returns its subscribers.
    ///
    /// # Errors
    /// One is in no slice here; a sentence.
    pub(crate) fn take_in_leases(&mut self, control: &Control, octets: &[u8]) -> Result<Vec<SubscriberSpec>, String> {
        let (mut input, now) = (In(octets), self.clock.now());
        while !input.0.is_empty() {
            let mut read = || {
                let (instance, number) = (input.number::<2>()?, input.number::<8>()?);
                let is_granted = input.number::<1>()? != 0;
                let (expiry, mark) = (input.number::<4>()? as u32, input.number::<4>()? as u32);
                let record = LeaseRecord::decode(input.text()?).ok()?;
                Some((instance as usize, number, Handed { record, is_granted, expiry, mark }))
            };
            let (instance, number, handed) = read().ok_or_else(garbled)?;
            let record = handed.record;
            let pools = self.pools.get_mut(instance).ok_or_else(garbled)?;
            let slot = pools.take_in(&handed, now).map_err(|why| format!("a lease does not fit: {why}"))?;
            if number != 0 {
                self.store.know(record.key, number);
            }
            if pools.lease(slot).state() != State::Bound {
                continue;
            }
            let Some(vlans) = self.served(record.group).map(|served| served.vlans) else { continue };
            let identity = Identity::of(&record.key.client, vlans);
            if is_slaac(&record.key) {
                self.records.slaac(identity, Some(prefix_of(record.address)));
            } else {
                self.records.granted(identity, &record);
            }
        }
        let all: Vec<_> = self.sessions.keys().copied().collect();
        for identity in &all {
            let about = self.about(control, identity);
            if let Some((aaa, session)) = self.aaa.as_mut().zip(self.sessions.get(identity)) {
                aaa.update(session.handle, identity, about);
            }
            self.start_advertisements(identity, None, now);
        }
        Ok(all.iter().filter_map(|identity| self.spec(identity)).collect())
    }
}

/// Adds a request.
pub(super) fn put_packet(packet: &ControlPacket, octets: &mut Vec<u8>) {
    octets.push(packet.class as u8);
    octets.extend(packet.group.to_le_bytes());
    octets.push(packet.line.port);
    octets.extend(packet.line.s_vlan.to_le_bytes());
    octets.extend(packet.line.c_vlan.to_le_bytes());
    octets.extend(packet.subscriber.unwrap_or(NOBODY).to_le_bytes());
    put(octets, &packet.frame);
}

/// Requests that another process has [exported](Sessions::export_requests).
///
/// # Errors
/// They cannot be read.
pub(crate) fn requests(octets: &[u8]) -> Result<Vec<ControlPacket>, String> {
    let (mut input, mut all) = (In(octets), Vec::new());
    while !input.0.is_empty() {
        let mut read = || {
            let class = input.number::<1>()?;
            let class = Class::ALL.iter().copied().find(|known| *known as u64 == class)?;
            let (group, port) = (input.number::<2>()? as u16, input.number::<1>()? as u8);
            let (s_vlan, c_vlan) = (input.number::<2>()? as u16, input.number::<2>()? as u16);
            let subscriber = Some(input.number::<4>()? as u32).filter(|handle| *handle != NOBODY);
            let line = Line { port, s_vlan, c_vlan };
            Some(ControlPacket { class, line, group, subscriber, frame: input.text()?.to_vec() })
        };
        all.push(read().ok_or_else(garbled)?);
    }
    Ok(all)
}
