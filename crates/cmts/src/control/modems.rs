//! Modems and their keys, while traffic flows.

use crypto::Key;
use engine::Steer;
use gateway::shell::flows::{change, is_any_steered};
use wire::Mac;

use super::{Control, Purpose, Refusal};
use crate::assemble::{flows, shares, steer};
use crate::config::{ModemEntry, Named};
use crate::gateway::Command;

/// The next block of downstream service identifiers, of 20 bits; 0 is unused.
pub(super) fn following(first: u32, step: u32) -> u32 {
    if first + 2 * step > 1 << 20 { 1 } else { first + step }
}

impl Control {
    /// Adds modems of a pattern to a service group, by its name. All or none.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub fn add_modems(&mut self, service_group: &str, entry: &ModemEntry) -> Result<Vec<Mac>, Refusal> {
        let g = self.config.service_group.iter().position(|group| group.name == service_group);
        let g = g.ok_or_else(|| Refusal(format!("there is no service group \"{service_group}\"")))?;
        let mut fresh = Vec::new();
        let mut next = self.layout.modems.len() as u32;
        let mut free = self.free.clone();
        for i in 0..u64::from(entry.count) {
            let handle = free.pop().unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            let dsid = self.fresh_dsids();
            let named = self.config.modem(g, entry, i, (handle, dsid), &self.layout);
            let named = named.map_err(|(key, what, help)| Refusal(format!("{key}: {what}; {help}")))?;
            self.check_new(&named)?;
            fresh.push(named);
        }
        // Before the modems: their first packets are to find their workers.
        let steer = steer(&self.config, &self.layout, self.all().chain(&fresh)).map_err(|_| {
            Refusal("hosts of several workers share the first 64 bits of their addresses; use others".into())
        })?;
        self.edition += 1;
        self.free = free;
        self.publish_steer(steer);
        let macs = fresh.iter().map(|named| named.mac).collect();
        for named in fresh {
            let handle = named.spec.handle as usize;
            self.by_mac.insert(named.mac, named.spec.handle);
            for (worker, spec) in shares(&self.config, &named.spec) {
                self.links[usize::from(worker)].post(Command::Install(spec), Purpose::Modem);
            }
            if handle < self.layout.modems.len() {
                self.layout.modems[handle] = named;
            } else {
                self.layout.modems.push(named);
            }
        }
        Ok(macs)
    }

    /// Downstream service identifiers for a modem that no other has, nor has had for long: whoever still waits for the
    /// packets of an old one must not take the new one's for late.
    pub(super) fn fresh_dsids(&mut self) -> u32 {
        let step = crate::modems::MAX_FLOWS as u32;
        let used = |first: u32| {
            let mut dsids = self.all().flat_map(|modem| modem.spec.flows.iter().flatten()).filter_map(|flow| flow.dsid);
            dsids.any(|dsid| (first..first + step).contains(&dsid))
        };
        let mut next = self.next_dsid;
        while used(next) {
            next = following(next, step);
        }
        self.next_dsid = following(next, step);
        next
    }

    /// Addresses and identifiers of a new modem must be unused.
    fn check_new(&self, named: &Named) -> Result<(), Refusal> {
        let mac = named.mac;
        if self.by_mac.contains_key(&mac) {
            return Err(Refusal(format!("there is a modem {mac} already")));
        }
        for other in self.all() {
            let address = named.spec.hosts.iter().find(|host| other.spec.hosts.iter().any(|its| its.0 == host.0));
            if let Some((address, _)) = address {
                return Err(Refusal(format!("modem {mac}: {address} is modem {}'s", other.mac)));
            }
            let sids = |named: &Named| named.spec.clusters.iter().flat_map(|c| c.sids.clone()).collect::<Vec<_>>();
            let same = other.spec.service_group == named.spec.service_group;
            if let Some(sid) = sids(named).into_iter().find(|sid| same && sids(other).contains(sid)) {
                return Err(Refusal(format!("modem {mac}: service identifier {sid} is modem {}'s", other.mac)));
            }
        }
        Ok(())
    }

    /// Takes a modem out.
    ///
    /// # Errors
    /// When there is none of that address.
    pub fn remove_modem(&mut self, mac: Mac) -> Result<(), Refusal> {
        let spec = self.find(mac)?.spec.clone();
        for (worker, _) in shares(&self.config, &spec) {
            self.links[usize::from(worker)].post(Command::Remove(spec.handle), Purpose::Modem);
        }
        self.edition += 1;
        self.by_mac.remove(&mac);
        self.free.push(spec.handle);
        if self.layout.modems[spec.handle as usize].classifiers.take().is_some() {
            self.free_sets.push(spec.classifiers);
        }
        if let Ok(steer) = steer(&self.config, &self.layout, self.all()) {
            self.publish_steer(steer);
        }
        Ok(())
    }

    /// Gives a modem another key, beside the one in use; `sequence` says which of the two it replaces.
    ///
    /// # Errors
    /// When there is no such modem, it does not encrypt, or the key would replace the one in use.
    pub fn set_key(&mut self, mac: Mac, sequence: u8, key: &Key) -> Result<(), Refusal> {
        let spec = self.encrypted(mac)?;
        if let Some(security) = &mut spec.security {
            if security.active & 1 == sequence & 1 {
                let active = security.active;
                return Err(Refusal(format!("key {active} is in use and has the same parity; use the other half")));
            }
            security.keys[usize::from(sequence & 1)] = Some((sequence & 0x0f, *key));
        }
        let spec = spec.clone();
        for (worker, _) in shares(&self.config, &spec) {
            let command = Command::SetKey(spec.handle, sequence, Box::new(*key));
            self.links[usize::from(worker)].post(command, Purpose::Modem);
        }
        Ok(())
    }

    /// Has frames to a modem encrypted by another of its keys from now on.
    ///
    /// # Errors
    /// When there is no such modem, or no such key.
    pub fn use_key(&mut self, mac: Mac, sequence: u8) -> Result<(), Refusal> {
        let spec = self.encrypted(mac)?;
        let known = spec.security.as_ref().and_then(|s| s.keys[usize::from(sequence & 1)]);
        if known.is_none_or(|(number, _)| number != sequence) {
            return Err(Refusal(format!("modem {mac} has no key {sequence}")));
        }
        if let Some(security) = &mut spec.security {
            security.active = sequence;
        }
        let spec = spec.clone();
        for (worker, _) in shares(&self.config, &spec) {
            self.links[usize::from(worker)].post(Command::UseKey(spec.handle, sequence), Purpose::Modem);
        }
        Ok(())
    }

    fn encrypted(&mut self, mac: Mac) -> Result<&mut crate::modems::ModemSpec, Refusal> {
        let handle = self.find(mac)?.spec.handle;
        self.edition += 1;
        let spec = &mut self.layout.modems[handle as usize].spec;
        if spec.security.is_none() {
            return Err(Refusal(format!("modem {mac} does not encrypt, by its profile")));
        }
        Ok(spec)
    }

    /// All modems.
    pub fn all(&self) -> impl Iterator<Item = &Named> {
        self.by_mac.values().filter_map(|handle| self.modem(*handle))
    }

    fn publish_steer(&mut self, steer: Steer) {
        if self.links.len() > 1 {
            self.steer_devices(&steer);
            self.steer.publish(steer);
        }
    }

    /// Has devices that steer go by those owners.
    fn steer_devices(&self, steer: &Steer) {
        let uris = || self.config.port.iter().map(|port| &*port.uri);
        if !is_any_steered(uris()) {
            return;
        }
        if let Err(error) = change(uris(), &flows(&self.config, steer)) {
            tracing::warn!(
                target: "worker", event = "ports_not_steered", %error,
                "a device does not give each worker its own packets any more, and workers hand them over: {error}"
            );
        }
    }
}
