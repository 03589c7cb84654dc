//! A group's sessions on their way to another process: what was told of its leases, subscribers, what RADIUS servers have granted
//! and are owed, and requests that nobody has answered.
//!
//! The other process has all of it on its disk before this one lets go ([`Sessions::is_kept`]); a lease is one process's then as
//! the owner of its group is (`gateway::moves::owners`).

use std::collections::HashMap;

use access::Time;
use access::lease::LeaseRecord;
use access::option82::LineRate;
use access::pool::{Handed, Rests, State};
use access::subscriber::Identity;
use gateway::shell::hand_over::octets::{In, NO_WORKER, each_section, garbled, put, section};
use serde::{Deserialize, Serialize};
use wire::Mac;

use crate::slow::ControlPacket;

use super::aaa::crossing::GroupAaa;
use super::aaa::hand_over::{Named, identity, named};
use super::hand_over::{put_packet, requests as packets};
use super::line_rate::ToldRate;
use super::{Pending, ReplyPath, Requester, Session, Sessions, Tags, is_slaac, prefix_of};
use crate::control::Control;

/// A subscriber that came by itself.
#[derive(Debug, Serialize, Deserialize)]
struct Crossing {
    of: Named,
    handle: u32,
    profile: u16,
    mac: Option<[u8; 6]>,
    tags: Vec<u8>,
    packets6: u64,
    /// Milliseconds until it is looked at; none: it is not.
    check: Option<u64>,
    /// kbit/s of its line, up and down, and numbers of its names.
    line: ([u32; 2], [u64; 2]),
}

/// What is no lease.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    sessions: Vec<Crossing>,
    /// Addresses that rest: until when by the wall clock, kind, address, and whom they count against.
    resting: Vec<(u32, u8, std::net::Ipv6Addr, Named)>,
    aaa: Option<GroupAaa>,
}

/// What a group's state is made of here.
#[derive(Clone, Debug, Default)]
pub struct GroupNumbers {
    /// Its number here.
    pub group: u16,
    /// Its profiles' numbers here, by number there.
    pub profiles: Vec<Option<u16>>,
    /// Its subscribers' numbers here, by number there.
    pub handles: HashMap<u32, u32>,
    /// Requests that wait to be answered: once the group is here.
    pub packets: Vec<ControlPacket>,
}

impl Sessions {
    fn of_group(&self, group: u16) -> impl Iterator<Item = (&Identity, &Session)> {
        self.sessions.iter().filter(move |(_, session)| session.group == group)
    }

    /// Adds what there is of a group. Nothing is under way: see [`settle`](Self::settle).
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn export_group(&mut self, control: &mut Control, group: u16, out: &mut Vec<u8>) -> Result<(), String> {
        let now = self.clock.now();
        let of = |(of, session): (&Identity, &Session)| Crossing {
            of: named(of),
            handle: session.handle,
            profile: session.profile,
            mac: session.mac.map(|mac| mac.0),
            tags: session.tags.octets().to_vec(),
            packets6: session.packets6,
            check: (session.check != 0).then(|| session.check.saturating_sub(now.0)),
            line: ([session.line.rate.up_kbps, session.line.rate.down_kbps], session.line.circuits),
        };
        let instance = self.served(group).map_or(0, |served| served.instance);
        let resting = self.pools.get(instance).into_iter().flat_map(|pools| pools.resting());
        let resting = resting.filter(|rests| rests.pool.0 == group).map(|rests| {
            let Rests { until, pool: (_, kind), address, owner: (line, mac) } = rests;
            (self.to_wall(until), kind as u8, address, named(&Identity { line, mac: Some(Mac(mac)) }))
        });
        let handles = || self.of_group(group).map(|(identity, session)| (session.handle, identity));
        let note = Note {
            sessions: self.of_group(group).map(of).collect(),
            resting: resting.collect(),
            aaa: self.aaa.as_ref().map(|aaa| aaa.of_group(handles(), now)),
        };
        section(out, b'A', NO_WORKER, &serde_json::to_vec(&note).map_err(|error| error.to_string())?);
        section(out, b'L', NO_WORKER, &self.leases_of_group(group, instance));
        let mut octets = Vec::new();
        let held = self.aaa.as_mut().map(|aaa| aaa.take_held_of(group)).unwrap_or_default();
        let requests: Vec<_> = held.into_iter().chain(control.take_packets_of(group)).collect();
        requests.iter().for_each(|packet| put_packet(packet, &mut octets));
        section(out, b'P', NO_WORKER, &octets);
        // Should it stay here, they are still to be answered.
        control.add_packets(requests);
        Ok(())
    }

    fn to_wall(&self, seconds: u32) -> u32 {
        (i64::from(seconds) + self.clock.ahead_secs()).clamp(0, u32::MAX.into()) as u32
    }

    fn of_wall(&self, seconds: u32) -> u32 {
        (i64::from(seconds) - self.clock.ahead_secs()).clamp(0, u32::MAX.into()) as u32
    }

    /// Leases by the wall clock; those of a subscriber stand in the order in which it got them.
    fn leases_of_group(&self, group: u16, instance: usize) -> Vec<u8> {
        let (mut octets, mut places) = (Vec::new(), HashMap::new());
        for lease in self.of_group(group).flat_map(|(identity, _)| self.records.leases(identity)) {
            places.insert(lease.key, places.len());
        }
        let pools = self.pools.get(instance).into_iter();
        let mut all: Vec<_> =
            pools.flat_map(|pools| pools.handed()).filter(|handed| handed.record.group == group).collect();
        all.sort_by_key(|handed| places.get(&handed.record.key).copied());
        for Handed { record, is_granted, expiry, mark } in all {
            octets.push(u8::from(is_granted));
            octets.extend(self.to_wall(expiry).to_le_bytes());
            octets.extend(mark.to_le_bytes());
            put(&mut octets, &LeaseRecord { expiry: self.to_wall(record.expiry.max(1)), ..record }.encode());
        }
        octets
    }

    /// Takes in what another process has exported, of a group that nobody has here. Leases and accounted sessions are on
    /// their way to the ledger. Fills in the numbers of subscribers.
    ///
    /// # Errors
    /// It does not fit; a sentence.
    pub(crate) fn take_in_group(
        &mut self,
        control: &mut Control,
        octets: &[u8],
        numbers: &mut GroupNumbers,
    ) -> Result<(), String> {
        self.forget_group(numbers.group);
        each_section(octets, |kind, _, octets| match kind {
            b'A' => self.take_in_note(octets, numbers),
            b'L' => self.take_in_group_leases(control, octets, numbers.group),
            b'P' => {
                let mut all = packets(octets)?;
                for packet in &mut all {
                    packet.group = numbers.group;
                    packet.subscriber = packet.subscriber.and_then(|there| numbers.handles.get(&there).copied());
                }
                numbers.packets = all;
                Ok(())
            }
            _ => Err(garbled()),
        })?;
        self.keep_accounting();
        Ok(())
    }

    fn take_in_note(&mut self, octets: &[u8], numbers: &mut GroupNumbers) -> Result<(), String> {
        let (note, now): (Note, _) = (serde_json::from_slice(octets).map_err(|_| garbled())?, self.clock.now());
        for crossing in note.sessions {
            let profile = numbers.profiles.get(usize::from(crossing.profile)).copied().flatten();
            let profile = profile.ok_or("subscribers have a profile that is not configured there")?;
            let handle = self.free.pop().unwrap_or_else(|| {
                self.next_handle += 1;
                self.next_handle - 1
            });
            let (identity, ([up_kbps, down_kbps], circuits)) = (identity(crossing.of), crossing.line);
            let session = Session {
                handle,
                group: numbers.group,
                profile,
                mac: crossing.mac.map(Mac),
                tags: Tags::of_octets(&crossing.tags),
                packets6: crossing.packets6,
                check: 0,
                line: ToldRate { rate: LineRate { up_kbps, down_kbps }, circuits },
            };
            numbers.handles.insert(crossing.handle, handle);
            self.sessions.insert(identity, session);
            self.by_handle.insert(handle, identity);
            if let Some(ms) = crossing.check {
                self.schedule_check(&identity, now.0 + ms + 1);
            }
        }
        let instance = self.served(numbers.group).map_or(0, |served| served.instance);
        for (until, kind, address, owner) in note.resting {
            let kinds = [access::lease::Kind::Ip4, access::lease::Kind::Na, access::lease::Kind::Pd];
            let Some(kind) = kinds.into_iter().find(|known| *known as u8 == kind) else { continue };
            let owner = identity(owner);
            let owner = (owner.line, owner.mac.unwrap_or(Mac([0; 6])).0);
            let rests = Rests { until: self.of_wall(until), pool: (numbers.group, kind), address, owner };
            self.pools.get_mut(instance).into_iter().for_each(|pools| pools.let_rest(&rests));
        }
        if let Some((aaa, state)) = self.aaa.as_mut().zip(note.aaa) {
            aaa.take_in_group(state, |there| numbers.handles.get(&there).copied(), now);
        }
        Ok(())
    }

    fn take_in_group_leases(&mut self, control: &mut Control, octets: &[u8], group: u16) -> Result<(), String> {
        let (mut input, now) = (In(octets), self.clock.now());
        let instance = self.served(group).map_or(0, |served| served.instance);
        let vlans = self.served(group).map(|served| served.vlans).ok_or("the group has no sessions there")?;
        while !input.0.is_empty() {
            let mut read = || {
                let is_granted = input.number::<1>()? != 0;
                let (expiry, mark) = (input.number::<4>()? as u32, input.number::<4>()? as u32);
                let record = LeaseRecord::decode(input.text()?).ok()?;
                Some(Handed { record, is_granted, expiry, mark })
            };
            let mut handed = read().ok_or_else(garbled)?;
            handed.expiry = self.of_wall(handed.expiry);
            let expiry = self.of_wall(handed.record.expiry).max(handed.expiry);
            handed.record = LeaseRecord { expiry, group, ..handed.record };
            let pools = self.pools.get_mut(instance).ok_or_else(garbled)?;
            let slot = pools.take_in(&handed, now).map_err(|why| format!("a lease does not fit: {why}"))?;
            if pools.lease(slot).state() != State::Bound {
                continue;
            }
            let record = handed.record;
            let identity = Identity::of(&record.key.client, vlans);
            if is_slaac(&record.key) {
                self.records.slaac(identity, Some(prefix_of(record.address)));
            } else {
                self.records.granted(identity, &record);
            }
            let tags = self.sessions.get(&identity).map(|session| session.tags).unwrap_or_default();
            self.put(Pending {
                requester: Requester::Slaac,
                record,
                path: ReplyPath { tags, ..ReplyPath::none(group) },
            });
        }
        self.begin_group(control, group, now);
        Ok(())
    }

    /// Subscribers that were taken in are control's, too.
    fn begin_group(&mut self, control: &mut Control, group: u16, now: Time) {
        let all: Vec<_> = self.of_group(group).map(|(identity, _)| *identity).collect();
        for identity in &all {
            let about = self.about(control, identity);
            if let Some((aaa, session)) = self.aaa.as_mut().zip(self.sessions.get(identity)) {
                aaa.update(session.handle, identity, about);
            }
            self.start_advertisements(identity, None, now);
            if let Some(spec) = self.spec(identity) {
                control.take_on(spec);
            }
        }
    }

    /// Whether everything that was taken in is on the disk.
    pub(crate) fn is_kept(&mut self) -> bool {
        let is_settled = self.aaa.as_mut().is_none_or(|aaa| aaa.keeper().is_settled());
        is_settled && self.store.waiting() == 0 && !self.store.is_behind() && self.opening.is_none()
    }

    /// Leases that the ledger did not take.
    pub(crate) fn refused_by_ledger(&self) -> u64 {
        self.counts.not_stored
    }

    /// Another process has a group: its sessions go on there.
    pub(crate) fn let_group_go(&mut self, control: &mut Control, group: u16) {
        let all: Vec<_> = self.of_group(group).map(|(identity, session)| (*identity, session.handle)).collect();
        if let Some(aaa) = &mut self.aaa {
            drop(aaa.take_held_of(group));
            aaa.let_go(all.iter().map(|(identity, handle)| (*handle, identity)));
        }
        for (identity, handle) in &all {
            let leases: Vec<_> = self.records.leases(identity).to_vec();
            for record in leases {
                self.records.ended(*identity, &record);
            }
            self.records.slaac(*identity, None);
            self.sessions.remove(identity);
            self.by_handle.remove(handle);
            self.reporting.remove(handle);
            if let Some(Some(served)) = self.groups.get_mut(usize::from(group)) {
                served.told.remove(handle);
                served.adverts.remove(*handle);
            }
            control.let_go(*handle);
            self.free.push(*handle);
        }
        self.forget_group(group);
        drop(control.take_packets_of(group));
        self.keep_accounting();
    }

    /// Erases a group's leases.
    fn forget_group(&mut self, group: u16) {
        let Some(instance) = self.served(group).map(|served| served.instance) else { return };
        let Some(pools) = self.pools.get_mut(instance) else { return };
        let granted: Vec<_> = pools.granted().filter(|slot| pools.group(*slot) == group).collect();
        let keys: Vec<_> = granted.iter().map(|slot| pools.lease(*slot).key()).collect();
        granted.iter().for_each(|slot| self.relays.cancel(pools, *slot));
        pools.let_go(group);
        keys.iter().for_each(|key| self.store.erase(key));
        self.store.flush();
    }
}
