//! What a reload changes while workers run: routes, access lists, translation and limits of workers' slow paths.

use std::net::IpAddr;

use dataplane::acl::AccessLists;
use dataplane::nat;

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
    nat: Option<(nat::Addresses, Vec<nat::Change>)>,
}

/// Keys of translation.
pub const NAT: [&str; 10] = [
    "nat.pool",
    "nat.blocks_per_subscriber",
    "nat.block_idle_seconds",
    "nat.block_hold_seconds",
    "nat.tcp_seconds",
    "nat.tcp_opening_seconds",
    "nat.udp_seconds",
    "nat.udp_unanswered_seconds",
    "nat.icmp_seconds",
    "nat.refresh_from_outside",
];

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
        let nat = if NAT.iter().any(|key| keys.contains(key)) { self.prepare_nat(config)? } else { None };
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
        let nat = config.nat.as_ref().map(|nat| nat.stage(config, 1).steer(&mut steer, config.workers.count));
        nat.unwrap_or(Ok(())).map_err(|_| overlap("nat", "subscribers have public addresses too"))
    }

    fn prepare_nat(&self, config: &Config) -> Result<Option<(nat::Addresses, Vec<nat::Change>)>, ConfigError> {
        let (Some(addresses), Some(section)) = (&self.nat, &config.nat) else { return Ok(None) };
        // Whatever it is chosen by: workers keep theirs.
        let stage = section.stage(config, 1);
        let change = addresses.change(&stage);
        Ok(Some(change.map_err(|why| wrong(&[&"nat", &"pool"], why.to_string(), "restart the gateway for it"))?))
    }

    /// Translates by other addresses. Packets to new ones are brought to their worker.
    fn apply_nat(&mut self, addresses: nat::Addresses, changes: Vec<nat::Change>) {
        let before = self.nat.replace(addresses.clone());
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
        let (lists, counters) = acl::lists(config, self.other_set())?;
        let room = self.hits.len() / 2;
        if counters > room {
            let what = format!("{counters} access rules, and this process has counters for {room}");
            return Err(wrong(&[&"acl"], what, "fewer rules, or restart the gateway"));
        }
        // The other set of counters is free once no worker reads the lists that had it: those before the last.
        let waits = self.lists.as_mut().is_some_and(|lists| lists.reclaim() > 0);
        if waits {
            let what = "a worker has not taken up the access lists of the reload before";
            return Err(wrong(
                &[&"acl"],
                what,
                "reload again in a moment; `weir show threads` shows a worker that hangs",
            ));
        }
        Ok(lists)
    }

    /// The first of the counters that the lists in use do not have.
    fn other_set(&self) -> u32 {
        if self.first_hit == 0 { self.hits.len() / 2 } else { 0 }
    }

    /// Applies it: workers have the new tables in their next turn.
    pub fn apply(&mut self, change: Change) {
        if let Some(routes) = change.routes {
            self.neighbourhood.set_routes(routes);
            self.publish();
        }
        if let Some(lists) = change.lists {
            self.first_hit = self.other_set();
            let set = self.first_hit..self.first_hit + self.hits.len() / 2;
            self.hits_before = set.map(|counter| self.hits.of(counter)).collect();
            if let Some(publisher) = &mut self.lists {
                publisher.publish(lists);
            }
            self.links.iter().for_each(|link| link.waker.nudge());
        }
        if let Some((addresses, changes)) = change.nat {
            self.apply_nat(addresses, changes);
        }
        if let Some(limits) = change.limits {
            self.links.iter_mut().for_each(|link| link.post(Command::Limits(limits)));
        }
    }
}

#[cfg(test)]
mod tests {
    use dataplane::acl::Hits;
    use dataplane::forward::Plan;
    use table::snapshot::Publisher;
    use table::waker::Waker;

    use super::*;

    fn config(rules: &str) -> Config {
        let port = |name, role| format!("[[port]]\nname = \"{name}\"\nuri = \"memory:{name}\"\nrole = \"{role}\"\n");
        let ports = port("n3", "access") + &port("n6", "core");
        toml::from_str(&format!("gateway = \"upf\"\n{ports}[[acl]]\nrules = [{rules}]\n")).expect("a configuration")
    }

    #[test]
    fn late_hits_are_no_new_rules() {
        let first = config("\"permit in udp from any to any\"");
        let (lists, counters) = acl::lists(&first, 0).expect("rules");
        let (publisher, hits) = (Publisher::new(lists), Hits::new(2 * (counters + 2)));
        let (shard, mut reader) = (hits.shard().0, publisher.reader());
        let forwarding = Publisher::new(Plan::default().compile());
        let links = (Vec::new(), Waker::new().expect("a descriptor"));
        let control = Control::new(Plan::default(), forwarding, links, None);
        let mut control = control.with_lists(Some(publisher), Some(hits));
        let reload = |control: &mut Control, rules: &str| {
            let change = control.prepare(&config(rules), &["acl"])?;
            control.apply(change);
            Ok::<_, ConfigError>(())
        };
        // A worker's turn by the first lists: it counts by them until its end.
        let _ = reader.get();
        shard.inc(0);
        assert_eq!(control.acl_hits(0).0, 1);
        reload(&mut control, "\"deny in tcp from any to any\"").expect("in order");
        shard.inc(0);
        assert_eq!(control.acl_hits(0).0, 0, "the rule before it had that number");
        // Its counters are not used again while the worker may count by them.
        assert!(reload(&mut control, "\"deny in icmp from any to any\"").is_err());
        let _ = reader.get();
        reload(&mut control, "\"deny in icmp from any to any\"").expect("in order");
        assert_eq!(control.acl_hits(0).0, 0);
        shard.inc(0);
        assert_eq!(control.acl_hits(0).0, 1);
        assert!(reload(&mut control, &["\"permit in udp from any to any\""; 4].join(", ")).is_err(), "too many");
    }
}
