//! What a reload changes while workers run: routes, access lists, translation and limits of workers' slow paths.

use std::net::IpAddr;

use dataplane::acl::AccessLists;
use dataplane::nat;
pub use dataplane::nat::PublicRange;

use super::Control;
use crate::config::{Config, ConfigError, acl, wrong};
use crate::gateway::Command;
use crate::routes::{Route, cover};
use crate::slow::LiveLimits;

/// What a reload changes, made and checked but not applied.
pub struct Change {
    routes: Option<Vec<dataplane::forward::Route>>,
    lists: Option<AccessLists>,
    limits: Option<LiveLimits>,
    nat: Option<gateway::nat::Reload>,
}

/// Keys of workers' limits.
pub const LIMITS: [&str; 3] = ["gtpu.error_indications_per_second", "buffer.packets_per_subscriber", "buffer.seconds"];

impl Control {
    /// Whether access lists can be replaced: workers read published lists only where there were some at start.
    pub fn has_access_lists(&self) -> bool {
        self.lists.is_some()
    }

    /// Makes what a reload changes by `keys` of a configuration.
    ///
    /// # Errors
    /// What is invalid, by key.
    pub fn prepare(&mut self, config: &Config, keys: &[&str]) -> Result<Change, ConfigError> {
        let routes = || config.links().routes_over(self.neighbourhood.plan());
        let routes = keys.contains(&"route").then(routes).transpose()?;
        let lists = if keys.contains(&"acl") { Some(self.prepare_lists(config)?) } else { None };
        let limits = LIMITS.iter().any(|key| keys.contains(key)).then(|| LiveLimits::of(config));
        if ["n4.pool", "nat.pool"].iter().any(|key| keys.contains(key)) {
            self.check_apart(config)?;
        }
        let nat = if gateway::nat::is_changed(keys) {
            gateway::nat::prepare(self.nat.as_ref(), config.nat.as_ref(), &config.links())?
        } else {
            None
        };
        Ok(Change { routes, lists, limits, nat })
    }

    /// With several workers an address is one worker's: no pool has those of another.
    fn check_apart(&self, config: &Config) -> Result<(), ConfigError> {
        if self.links.len() < 2 {
            return Ok(());
        }
        let overlap = |key: &'static str, what| wrong(&[&key, &"pool"], what, "give each its own range");
        let mut steer =
            crate::n4::assemble::steer(config).map_err(|_| overlap("n4", "pools of subscribers overlap"))?;
        let nat = config.nat.as_ref().map(|nat| nat.stage(&config.links(), 1).steer(&mut steer, config.workers.count));
        nat.unwrap_or(Ok(())).map_err(|_| overlap("nat", "subscribers have public addresses too"))
    }

    /// All public addresses that are the translator's once a change is applied.
    pub fn public_ranges(&self, change: &Change) -> Vec<PublicRange> {
        let addresses = change.nat.as_ref().map(|(addresses, _)| addresses).or(self.nat.as_ref());
        addresses.map(nat::Addresses::ranges).unwrap_or_default()
    }

    /// Translates by other addresses. Packets to new ones are brought to their worker.
    fn apply_nat(&mut self, addresses: nat::Addresses, changes: Vec<nat::Change>) {
        let before = self.nat.replace(addresses.clone());
        // Before a worker gives ports of new ones.
        if let Some(fast) = &mut self.fast {
            fast.publish_ranges(&addresses.ranges());
        }
        for (worker, instance, first, last) in before.iter().flat_map(|before| addresses.since(before)) {
            let routes = cover(first.into(), last.into(), 32)
                .map(|(first, len)| Route::new(instance, IpAddr::V4((first as u32).into()), len)); // 32 bits
            self.steer_routes(worker, std::iter::empty(), routes);
        }
        for (link, change) in self.links.iter_mut().zip(changes) {
            link.post(Command::Nat(Box::new(change)));
        }
    }

    fn prepare_lists(&mut self, config: &Config) -> Result<AccessLists, ConfigError> {
        let Some(live) = &mut self.lists else { return Ok(AccessLists::default()) };
        let (lists, counters) = acl::lists(config, live.next_first())?;
        live.check(counters).map_err(|why| wrong(&[&"acl"], why.to_string(), why.help()))?;
        Ok(lists)
    }

    /// Applies it: workers have the new tables in their next turn.
    pub fn apply(&mut self, change: Change) {
        if let Some(routes) = change.routes {
            self.neighbourhood.set_routes(routes);
            self.publish();
        }
        if let Some(lists) = change.lists {
            if let Some(live) = &mut self.lists {
                if let Some(fast) = &mut self.fast {
                    fast.publish_lists(&lists, live.next_first(), live.hits().len() / 2);
                }
                live.replace(lists);
            }
            self.links.iter().for_each(|link| link.waker.nudge());
            if self.fast.is_some() {
                self.links.iter_mut().for_each(|link| link.post(Command::Lists));
            }
        }
        if let Some((addresses, changes)) = change.nat {
            self.apply_nat(addresses, changes);
        }
        if let Some(limits) = change.limits {
            self.links.iter_mut().for_each(|link| link.post(Command::Limits(limits)));
        }
    }
}
