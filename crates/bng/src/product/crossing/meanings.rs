//! What two processes must have alike for a group to move between them.

use gateway::moves::owners::Owners;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::Config;
use crate::control::Control;

/// What numbers mean in what follows, and what has to be alike.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Meanings {
    /// The workers' clock.
    pub(super) clock: (u64, u64),
    /// Names, sides and VRFs of ports.
    ports: Vec<(String, String, String)>,
    instances: Vec<String>,
    /// What the group's configuration says, but for what may differ.
    group: Value,
    radius: bool,
    sessions: bool,
    /// Names the DHCPv6 server.
    own_mac: [u8; 6],
    owners: String,
    pub(super) profiles: Vec<String>,
    /// Configured subscribers of the group, by number, and what tells them apart.
    pub(super) fixed: Vec<u32>,
    digest: u64,
}

/// Keys of a group that may differ.
const MAY_DIFFER: [&str; 8] =
    ["worker", "active", "announce", "acl", "profile", "s_vlan_rate", "overhead", "line_framing"];
const SESSIONS_MAY_DIFFER: [&str; 5] = ["lease_seconds", "dns", "domain", "ntp", "advertisement_seconds"];

/// The group's configuration without what may differ.
fn alike(config: &Config, group: u16) -> Value {
    let mut value = config.group.get(usize::from(group)).map(|group| json!(group)).unwrap_or_default();
    if let Some(keys) = value.as_object_mut() {
        MAY_DIFFER.iter().for_each(|key| drop(keys.remove(*key)));
        if let Some(sessions) = keys.get_mut("sessions").and_then(Value::as_object_mut) {
            SESSIONS_MAY_DIFFER.iter().for_each(|key| drop(sessions.remove(*key)));
        }
    }
    value
}

impl Meanings {
    pub(super) fn of(control: &Control, group: u16, clock: (u64, u64), owners: &Owners) -> Self {
        let config = control.config();
        let port =
            |port: &crate::config::Port| (port.name.clone(), port.role.name().to_owned(), port.instance().to_owned());
        let (fixed, digest) = control.fixed_of(group);
        Self {
            clock,
            ports: config.port.iter().map(port).collect(),
            instances: config.instances(),
            group: alike(config, group),
            radius: config.radius.is_some() && config.has_sessions(),
            sessions: config.has_sessions(),
            own_mac: control.own_mac().0,
            owners: owners.folder().display().to_string(),
            profiles: config.profile.iter().map(|profile| profile.name.clone()).collect(),
            fixed,
            digest,
        }
    }

    /// Why a group with these cannot come to a process with `here`; a sentence.
    pub(super) fn differs(&self, here: &Self) -> Option<String> {
        let of = |what: &str, there: String, here: String| Some(format!("{what} differ: {there} there, {here} here"));
        if self.ports != here.ports {
            return of("names, roles or instances of ports", words(&self.ports), words(&here.ports));
        }
        if self.instances != here.instances {
            return of("network instances", self.instances.join(", "), here.instances.join(", "));
        }
        if let Some(key) = first_difference(&self.group, &here.group) {
            let of_key = |group: &Value| group.get(&key).unwrap_or(&Value::Null).to_string();
            return Some(format!(
                "the group's configuration differs: {key} is {} there, {} here",
                of_key(&self.group),
                of_key(&here.group)
            ));
        }
        if (self.fixed.len(), self.digest) != (here.fixed.len(), here.digest) {
            let (there, here) = (self.fixed.len(), here.fixed.len());
            return Some(format!(
                "[[subscriber]] of the group differs: {there} there, {here} here, or other lines or addresses"
            ));
        }
        if (self.radius, self.sessions) != (here.radius, here.sessions) {
            return Some("[radius] is configured in one of the two processes only".to_owned());
        }
        if self.own_mac != here.own_mac {
            return Some(
                "the DHCPv6 server has another identity there: the first group with a `mac` has another one".to_owned(),
            );
        }
        (self.owners != here.owners)
            .then(|| format!("[moves] owners differs: {} there, {} here", self.owners, here.owners))
    }
}

fn words(ports: &[(String, String, String)]) -> String {
    let word = |(name, role, instance): &(String, String, String)| format!("{name} ({role}, {instance})");
    ports.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The first key that two objects do not have alike.
fn first_difference(there: &Value, here: &Value) -> Option<String> {
    let (there, here) = (there.as_object()?, here.as_object()?);
    there.keys().chain(here.keys()).find(|key| there.get(*key) != here.get(*key)).cloned()
}
