//! What a reload changes while subscribers are served: routes, access lists, tiers, slices, limits, RADIUS servers.
//!
//! Profiles keep their numbers, by name, and access lists get numbers and counters that those before do not have: a packet is
//! held against the lists before or the new ones, as its subscriber's record says, never against parts of both. Records are
//! written anew a few in a turn of a worker.

use std::collections::HashMap;
use std::sync::Arc;

use dataplane::acl::{AccessLists, NotReplaced};
use dataplane::forward::Route;
use gateway::shell::reload::Live;

use super::Control;
use crate::config::{Config, ConfigError, Layout, Numbers, Profile, wrong};
use crate::gateway::{Command, Tables};
use crate::sessions;
use crate::steer::Directory;
use crate::subscribers::Rules;

/// Subscribers that a worker writes anew for one command: it carries out a few commands in a turn.
const REFRESHED: u32 = 16;

/// What a reload changes, made and checked but not applied.
pub struct Change {
    /// Profiles by their numbers.
    config: Config,
    routes: Option<Vec<Route>>,
    made: Option<Box<Made>>,
    /// Public addresses, and what workers are told of translation.
    nat: Option<gateway::nat::Reload>,
}

/// Tables of subscribers.
struct Made {
    layout: Layout,
    directory: Arc<Directory>,
    /// The lists in use and those that replace them; none: they stay.
    lists: Option<AccessLists>,
    sessions: Option<sessions::Change>,
}

impl Live<Config> for Control {
    type Change = Change;

    fn prepare(&mut self, config: &Config, keys: &[&str]) -> Result<Change, ConfigError> {
        if self.succession.has_begun() {
            let what = "another process takes over with a configuration of its own";
            return Err(wrong(&[&"gateway"], what, "reload that one: `weir reload` once it runs"));
        }
        let routes = || config.links().routes_over(self.neighbourhood.plan());
        let routes = keys.contains(&"route").then(routes).transpose()?;
        let (numbered, gone) = self.numbered(config);
        if keys.iter().all(|key| *key == "route") {
            return Ok(Change { config: numbered, routes, made: None, nat: None });
        }
        self.check_marks(config)?;
        self.check_gardens(config)?;
        self.check_shapes(config)?;
        if self.moves.is_busy() || self.crossing.is_taken() {
            return Err(wrong(
                &[&"group"],
                "a group moves to another worker or process",
                "try again when it has: `weir show groups`",
            ));
        }
        let (mut layout, lists) = self.prepare_lists(&numbered)?;
        // Groups stay where they have moved to.
        layout.groups.iter_mut().zip(&self.layout.groups).for_each(|(group, now)| group.worker = now.worker);
        self.check_rows(&numbered, &layout)?;
        let overlap = |_| wrong(&[&"group"], "groups of several workers share an IPv6 /64", "give each its own");
        let nat = if gateway::nat::is_changed(keys) {
            gateway::nat::prepare(self.nat.as_ref(), config.nat.as_ref(), &config.links())?
        } else {
            None
        };
        let addresses = nat.as_ref().map(|(addresses, _)| addresses).or(self.nat.as_ref());
        let directory = Arc::new(Directory::new(&numbered, &layout, addresses).map_err(overlap)?);
        let named = config.profile.iter().filter_map(|profile| {
            let at = numbered.profile.iter().position(|known| known.name == profile.name)?;
            Some((profile.name.clone(), at as u16)) // as many as profiles
        });
        let named: HashMap<String, u16> = named.collect();
        let sessions = match &self.sessions {
            Some(sessions) => Some(sessions.prepare((&numbered, &layout), &self.layout, named)?),
            None => None,
        };
        self.check_gone(&gone, &layout, sessions.as_ref())?;
        layout.lists = AccessLists::default();
        let made = Some(Box::new(Made { layout, directory, lists, sessions }));
        Ok(Change { config: numbered, routes, made, nat })
    }

    fn apply(&mut self, change: Change) {
        self.config = change.config;
        self.set_park();
        if let Some(routes) = change.routes {
            self.neighbourhood.set_routes(routes);
            self.publish_tables();
        }
        if let Some(made) = change.made {
            self.apply_tables(*made);
        }
        if let Some((addresses, changes)) = change.nat {
            self.nat = Some(addresses);
            for (link, change) in self.links.iter_mut().zip(changes) {
                link.post(Command::Nat(Box::new(change)));
            }
        }
    }
}

impl Control {
    /// Whether access lists can be replaced: workers hold packets against lists only where there were some at start.
    pub fn has_access_lists(&self) -> bool {
        self.lists.is_some()
    }

    /// A configuration whose profiles have the places, which are their numbers, that they had; and the places of those that it
    /// no longer has. New ones take places that were given up before.
    fn numbered(&self, config: &Config) -> (Config, Vec<u16>) {
        let (mut slots, mut gone): (Vec<Profile>, Vec<u16>) = (self.config.profile.clone(), Vec::new());
        for (slot, n) in slots.iter_mut().zip(0..) {
            match config.profile.iter().find(|profile| profile.name == slot.name) {
                Some(profile) => *slot = profile.clone(),
                None => {
                    slot.acl = None;
                    gone.push(n);
                }
            }
        }
        let mut free = gone.clone();
        for profile in &config.profile {
            if slots.iter().any(|slot| slot.name == profile.name) {
                continue;
            }
            match free.pop() {
                Some(n) => slots[usize::from(n)] = profile.clone(),
                None => slots.push(profile.clone()),
            }
        }
        (Config { profile: slots, ..config.clone() }, gone)
    }

    /// Workers mark packets only where a profile did at start.
    fn check_marks(&self, config: &Config) -> Result<(), ConfigError> {
        let marks = config.profile.iter().position(|profile| profile.dscp.is_some()).filter(|_| !self.marks);
        marks.map_or(Ok(()), |n| {
            let what = "no profile wrote DSCPs when this process was started";
            Err(wrong(&[&"profile", &n, &"dscp"], what, "leave it out, or restart the gateway"))
        })
    }

    /// Workers hold packets against walled gardens only where there was one at start.
    fn check_gardens(&self, config: &Config) -> Result<(), ConfigError> {
        let gardens = config.profile.iter().position(|profile| profile.garden.is_some()).filter(|_| !self.gardens);
        gardens.map_or(Ok(()), |n| {
            let what = "no profile had a walled garden when this process was started";
            Err(wrong(&[&"profile", &n, &"garden"], what, "leave it out, or restart the gateway"))
        })
    }

    /// Workers have queues only where a profile was shaped at start.
    fn check_shapes(&self, config: &Config) -> Result<(), ConfigError> {
        let shapes = config.profile.iter().position(|profile| profile.shape.is_some()).filter(|_| !self.shapes);
        shapes.map_or(Ok(()), |n| {
            let what = "no profile was shaped when this process was started";
            Err(wrong(&[&"profile", &n, &"shape"], what, "leave it out, or restart the gateway"))
        })
    }

    /// Everything in numbers, and the lists to publish, if they or what they are combined by has changed.
    fn prepare_lists(&mut self, config: &Config) -> Result<(Layout, Option<AccessLists>), ConfigError> {
        let (first, end) = self.layout.numbers;
        let Some(live) = &mut self.lists else { return Ok((config.layout_from(Numbers::FIRST)?, None)) };
        let now = Numbers { list: first, counter: live.first() };
        let layout = config.layout_from(now)?;
        if config.acl == self.config.acl && layout.pairs == self.layout.pairs {
            return Ok((layout, None));
        }
        let counters = layout.counters;
        let checked = if self.refreshing > 0 { Err(NotReplaced::InUse) } else { live.check(counters) };
        checked.map_err(|why| wrong(&[&"acl"], why.to_string(), why.help()))?;
        // Numbers that the lists in use do not have.
        let count = layout.numbers.1 - layout.numbers.0;
        let list = if first > count { 1 } else { end };
        let mut layout = config.layout_from(Numbers { list, counter: live.next_first() })?;
        let mut lists = self.config.access_lists(now, &self.layout.groups, &self.layout.profiles)?.lists;
        lists.extend(std::mem::take(&mut layout.lists));
        Ok((layout, Some(lists)))
    }

    /// Workers divide the prefixes of a slice as they did at start.
    fn check_rows(&self, config: &Config, layout: &Layout) -> Result<(), ConfigError> {
        for (n, group) in layout.groups.iter().enumerate() {
            for (m, slice) in group.v6.iter().enumerate() {
                let meets = |(instance, row): &&(u16, crate::config::Slice6)| {
                    *instance == group.instance && row.first <= slice.last && slice.first <= row.last
                };
                let Some((_, row)) = self.rows.iter().find(meets).filter(|(_, row)| row.length != slice.length) else {
                    continue;
                };
                let (key, at) = if m < group.wan_slices { ("ipv6_wan", m) } else { ("ipv6_pd", m - group.wan_slices) };
                let what =
                    format!("group \"{}\": the slice was divided into /{} at start", config.group[n].name, row.length);
                return Err(wrong(
                    &[&"group", &n, &key, &at],
                    what,
                    "leave its length as it is, or restart the gateway",
                ));
            }
        }
        Ok(())
    }

    /// No subscriber has a profile that is gone.
    fn check_gone(
        &self,
        gone: &[u16],
        layout: &Layout,
        sessions: Option<&sessions::Change>,
    ) -> Result<(), ConfigError> {
        let after = |spec: &crate::record::SubscriberSpec| {
            let fixed = layout.subscribers.get(spec.handle as usize).map(|fixed| fixed.profile);
            fixed.or_else(|| sessions?.tier(spec.handle)).unwrap_or(spec.profile)
        };
        for n in gone {
            let count = self.subscribers().filter(|spec| after(spec) == *n).count();
            if count > 0 {
                let name = &self.config.profile[usize::from(*n)].name;
                let what = format!("{count} subscribers have profile \"{name}\", which the file no longer has");
                let help = "keep it until they have ended or have another one (CoA, or subscriber.profile)";
                return Err(wrong(&[&"profile"], what, help));
            }
        }
        Ok(())
    }

    fn apply_tables(&mut self, made: Made) {
        let Made { mut layout, directory, lists, sessions } = made;
        let fixed = std::mem::take(&mut layout.subscribers);
        self.layout = layout;
        let lengths = self.prefix_lengths();
        if let Some(fast) = &mut self.fast {
            fast.publisher.publish_places(&directory, lengths);
        }
        if let Some((live, lists)) = self.lists.as_mut().zip(lists) {
            // Both before: subscribers go by them from when they are written anew.
            if let Some(fast) = &mut self.fast {
                let (path, first) = (fast.publisher.path().clone(), live.next_first());
                // What these counters stand at while no list has them.
                fast.hits_before = (first..first + self.layout.counters).map(|counter| path.hits(counter)).collect();
                fast.publisher.publish_lists(&lists);
            }
            live.replace(lists);
        }
        self.sort_passage(&directory);
        self.steer_ports();
        let profiles: Arc<[_]> = self.layout.profiles.clone().into();
        let end = self.subscribers.len() as u32; // handles are u32
        for link in &mut self.links {
            let Layout { pairs, groups, .. } = &self.layout;
            let rules = Rules { profiles: profiles.clone(), pairs: pairs.clone(), groups: groups.clone() };
            let tables = Tables { directory: directory.clone(), rules, punt: self.config.punt.clone() };
            link.post(Command::Tables(Box::new(tables)));
            for first in (0..end).step_by(REFRESHED as usize) {
                self.refreshing += 1;
                link.post(Command::Refresh(first..end.min(first + REFRESHED)));
            }
        }
        for spec in fixed {
            if self.subscribers.get(spec.handle as usize) != Some(&Some(spec)) {
                let _ = self.install(spec); // its group is there
            }
        }
        if let Some((mut serving, change)) = self.sessions.take().zip(sessions) {
            serving.apply(self, change);
            self.sessions = Some(serving);
        }
    }
}
