//! From leases to subscribers: what the ledger has is installed and answered, and what ends is taken out.

use std::cmp::Reverse;

use access::Time;
use access::lease::{Kind, LeaseRecord};
use access::subscriber::{Change, Identity};
use radius::Attribute;
use radius::dictionary::number;
use wire::Mac;

use super::line_rate::ToldRate;
use super::{Pending, ReplyPath, Requester, Session, Sessions, aaa, frames, is_slaac, line_back, prefix_of, upper};
use crate::control::Control;
use crate::record::SubscriberSpec;
use crate::subscribers::Usage;

impl Sessions {
    pub(super) fn put(&mut self, pending: Pending) {
        let mut record = self.clock.to_stored(pending.record);
        let vlans = self.served(record.group).map(|served| served.vlans);
        if let Some(identity) = vlans.map(|vlans| Identity::of(&record.key.client, vlans)) {
            let known = self.sessions.get(&identity).map(|session| session.line).unwrap_or_default();
            record.line_rate = known.updated(pending.path.line, identity.mac.is_some()).rate;
        }
        if let Err(pending) = self.store.put(&record, pending) {
            self.not_stored(&pending);
        }
    }

    pub(super) fn not_stored(&mut self, pending: &Pending) {
        self.counts.not_stored += 1;
        let Some(instance) = self.served(pending.record.group).map(|served| served.instance) else { return };
        let pools = &mut self.pools[instance];
        match pending.requester {
            Requester::V4(ticket) => self.dhcp4.not_stored(pools, ticket),
            Requester::V6(ticket) => self.dhcp6.not_stored(pools, ticket),
            Requester::Relay4(ticket) => self.relays.v4.not_stored(pools, ticket),
            Requester::Relay6(ticket) => self.relays.v6.not_stored(pools, ticket),
            Requester::Slaac => pools.find(&pending.record.key).into_iter().for_each(|slot| pools.not_stored(slot)),
        }
    }

    /// What has become durable is put to use: the subscriber first, then the reply.
    pub(super) fn finish(&mut self, control: &mut Control, now: Time) {
        while let Some((pending, done)) = self.store.durable() {
            let Pending { requester, record, path } = pending;
            if let Err(error) = done {
                if self.counts.not_stored == 0 {
                    tracing::error!(target: "sessions", event = "leases_not_stored", "no lease is granted any more: {error}");
                }
                self.not_stored(&Pending { requester, record, path });
                continue;
            }
            // It may have been given back meanwhile.
            let is_live = self.pools_of(record.group).is_some_and(|pools| {
                let slot = pools.find(&record.key);
                slot.is_some_and(|slot| {
                    let is_bound = pools.lease(slot).state() == access::pool::State::Bound;
                    is_bound && pools.address(slot) == record.address
                })
            });
            if is_live {
                self.granted(control, &record, path, now);
            }
            match requester {
                Requester::V4(ticket) => {
                    self.dhcp4.durable(ticket);
                    self.act4(control, Some(path), now);
                }
                Requester::V6(ticket) => {
                    self.dhcp6.durable(ticket);
                    self.act6(control, Some(path), now);
                }
                Requester::Relay4(ticket) => {
                    self.relays.v4.durable(ticket);
                    self.act_relay4(control, Some(path), now);
                }
                Requester::Relay6(ticket) => {
                    self.relays.v6.durable(ticket);
                    self.act_relay6(control, Some(path), now);
                }
                Requester::Slaac => {}
            }
        }
    }

    /// Takes a lease into its subscriber; `path` leads back to the client, if a request caused it. Returns whose it is and what
    /// has changed.
    pub(super) fn apply_lease(
        &mut self,
        control: &Control,
        record: &LeaseRecord,
        path: Option<&ReplyPath>,
        now: Time,
    ) -> Option<(Identity, bool)> {
        let served = self.groups.get(usize::from(record.group))?.as_ref()?;
        let (profile, vlans) = (served.profile, served.vlans);
        let identity = Identity::of(&record.key.client, vlans);
        let profile = self.granted_profile(&identity).unwrap_or(profile);
        let slaac = is_slaac(&record.key);
        let change = if slaac {
            self.records.slaac(identity, Some(prefix_of(record.address)))
        } else {
            self.records.granted(identity, record)
        };
        let line = line_back(record.key.client.line);
        let tags = path.map(|path| path.tags);
        let tags = tags.unwrap_or_else(|| frames::tags_of(&control.header_of(record.group, line)));
        let told = path.map_or(ToldRate::stored(record.line_rate), |path| path.line);
        let mac = Some(Mac(record.key.client.mac)).filter(|mac| mac.0 != [0; 6]);
        let mut changed = change != Change::Same;
        match self.sessions.get_mut(&identity) {
            Some(session) => {
                session.tags = tags;
                // A session of DHCP knows its client best.
                let better = if slaac { session.mac.or(mac) } else { mac.or(session.mac) };
                let line = session.line.updated(told, identity.mac.is_some());
                changed |= (better, line.rate) != (session.mac, session.line.rate);
                (session.mac, session.line) = (better, line);
            }
            None => {
                let handle = self.free.pop().unwrap_or_else(|| {
                    self.next_handle += 1;
                    self.next_handle - 1
                });
                let (group, line) = (record.group, told);
                let session = Session { handle, group, profile, mac, tags, packets6: 0, check: 0, line };
                self.sessions.insert(identity, session);
                self.by_handle.insert(handle, identity);
                let about = self.about(control, &identity);
                // Where access nodes name lines, only a request says how.
                let is_named = self.served(record.group).is_none_or(|served| served.trust_option82);
                let user = (!is_named).then(|| self.line_name(control, &identity));
                if let Some(aaa) = &mut self.aaa {
                    aaa.start(handle, &identity, (user, about), now);
                }
            }
        }
        if changed {
            let about = self.about(control, &identity);
            if let Some((aaa, session)) = self.aaa.as_mut().zip(self.sessions.get(&identity)) {
                aaa.update(session.handle, &identity, about);
            }
        }
        self.start_advertisements(&identity, slaac.then_some(record), now);
        Some((identity, changed))
    }

    /// What accounting says of a subscriber: line, hardware address, addresses and prefixes.
    pub(super) fn about(&self, control: &Control, identity: &Identity) -> Vec<Attribute> {
        let (Some(session), Some(has)) = (self.sessions.get(identity), self.records.get(identity)) else {
            return Vec::new();
        };
        let mac = identity.mac.or(session.mac).map(|mac| mac.0);
        let mut about = aaa::about(mac, &self.line_name(control, identity));
        about.extend(session.line.attributes());
        about.extend(has.ip4.map(|address| Attribute::ip4(number::FRAMED_IP_ADDRESS, address)));
        about.extend(has.slaac.map(|prefix| Attribute::prefix6(number::FRAMED_IPV6_PREFIX, prefix, 64)));
        about.extend(has.na.map(|address| Attribute::octets(number::FRAMED_IPV6_ADDRESS, address.octets())));
        about.extend(has.pd.map(|(prefix, len)| Attribute::prefix6(number::DELEGATED_IPV6_PREFIX, prefix, len)));
        about
    }

    /// Advertises routers to a subscriber that has IPv6.
    pub(super) fn start_advertisements(&mut self, identity: &Identity, slaac: Option<&LeaseRecord>, now: Time) {
        let (Some(session), Some(has)) = (self.sessions.get(identity), self.records.get(identity)) else { return };
        let (handle, group) = (session.handle, session.group);
        let Some(Some(served)) = self.groups.get_mut(usize::from(group)) else { return };
        let is_new = has.na.is_some() || has.pd.is_some() || has.slaac.is_some();
        if served.link_local.is_some() && is_new && served.told.insert(handle, has.slaac) != Some(has.slaac) {
            served.adverts.add(handle, has.slaac, now);
            let at = now.0 + served.valid.as_millis() as u64 / 4;
            if slaac.is_some() {
                self.schedule_check(identity, at);
            }
        }
    }

    pub(super) fn schedule_check(&mut self, identity: &Identity, at: u64) {
        if let Some(session) = self.sessions.get_mut(identity) {
            session.check = at;
            self.checks.push(Reverse((at, session.handle)));
        }
    }

    pub(super) fn granted(&mut self, control: &mut Control, record: &LeaseRecord, path: ReplyPath, now: Time) {
        if let Some((identity, true)) = self.apply_lease(control, record, Some(&path), now)
            && let Some(spec) = self.spec(&identity)
            && let Err(why) = control.install(spec)
        {
            tracing::warn!(target: "sessions", event = "not_installed", "{why}");
        }
    }

    /// A subscriber as workers have it.
    pub(super) fn spec(&self, identity: &Identity) -> Option<SubscriberSpec> {
        let (session, has) = (self.sessions.get(identity)?, self.records.get(identity)?);
        Some(SubscriberSpec {
            handle: session.handle,
            line: line_back(identity.line),
            group: session.group,
            mac: identity.mac.or(session.mac).map(|mac| mac.0),
            ipv4: has.ip4.map(u32::from),
            wan: has.na.or(has.slaac).map(upper),
            pd: has.pd.map(|(prefix, len)| (upper(prefix), len)),
            profile: session.profile,
            line_rate: self.served(session.group).map(|served| served.bound_by(session.line)).unwrap_or_default(),
        })
    }

    /// A lease has ended: its subscriber has less, or is gone.
    pub(super) fn ended(&mut self, control: &mut Control, record: &LeaseRecord, now: Time) {
        self.store.erase(&record.key);
        let Some(vlans) = self.served(record.group).map(|served| served.vlans) else { return };
        let identity = Identity::of(&record.key.client, vlans);
        let change = if is_slaac(&record.key) {
            self.records.slaac(identity, None)
        } else {
            self.records.ended(identity, record)
        };
        match change {
            Change::Ended => self.leave(control, &identity, now),
            Change::Changed | Change::Began => {
                // The client whose lease ended may have been another than the one whose lease is left.
                let mac = self.records.get(&identity).and_then(|has| has.mac);
                self.sessions.get_mut(&identity).into_iter().for_each(|session| session.mac = mac);
                let about = self.about(control, &identity);
                if let Some((aaa, session)) = self.aaa.as_mut().zip(self.sessions.get(&identity)) {
                    aaa.update(session.handle, &identity, about);
                }
                self.start_advertisements(&identity, None, now);
                if let Some(spec) = self.spec(&identity) {
                    let _ = control.install(spec); // its group is there
                }
            }
            Change::Same => {}
        }
    }

    /// The last of a subscriber is gone.
    pub(super) fn leave(&mut self, control: &mut Control, identity: &Identity, now: Time) {
        let Some(session) = self.sessions.remove(identity) else { return };
        self.by_handle.remove(&session.handle);
        if let Some(aaa) = &mut self.aaa {
            aaa.forget(identity);
        }
        if let Some(Some(served)) = self.groups.get_mut(usize::from(session.group)) {
            served.told.remove(&session.handle);
            if let Some(farewell) = served.adverts.remove(session.handle) {
                self.send_advertisement(control, identity, &session, &farewell);
            }
        }
        // Its number is free when its worker has answered; if it never had it, at once.
        if control.remove(session.handle).is_err() {
            self.free.push(session.handle);
            if let Some(aaa) = &mut self.aaa {
                aaa.stop(session.handle, &Usage::default(), now);
            }
        }
    }

    /// Ends everything that a subscriber has. False: it did not come by itself.
    pub fn clear(&mut self, control: &mut Control, handle: u32) -> bool {
        let now = self.clock.now();
        let Some(identity) = self.by_handle.get(&handle).copied() else { return false };
        let Some(group) = self.sessions.get(&identity).map(|session| session.group) else { return false };
        let Some(served) = self.served(group) else { return false };
        let (vlans, instance) = (served.vlans, served.instance);
        let pools = &mut self.pools[instance];
        let keys: Vec<_> = pools.granted().map(|slot| pools.lease(slot).key()).collect();
        for key in keys.iter().filter(|key| Identity::of(&key.client, vlans) == identity) {
            pools.find(key).into_iter().for_each(|slot| self.relays.cancel(pools, slot));
            match key.kind {
                Kind::Ip4 => self.dhcp4.end(pools, key),
                Kind::Na | Kind::Pd => self.dhcp6.end(pools, key),
            };
        }
        self.act4(control, None, now);
        self.act6(control, None, now);
        true
    }
}
