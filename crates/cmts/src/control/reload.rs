//! What a reload changes while modems talk: routes, filter groups, classifiers, and what profiles give.
//!
//! Filter groups keep their numbers, by name, and sets of classifiers their places: modems go by the new rules as soon as these
//! are published. A modem follows its profile in what it has as the profile had it; what was changed for it alone stays.

use dataplane::forward::{Plan, Route};
use gateway::shell::reload::Live;

use super::{Control, Purpose};
use crate::assemble::shares;
use crate::config::{Config, ConfigError, FilterGroup, Named, Profile, Role, wrong};
use crate::flow::FlowSpec;
use crate::gateway::Command;
use crate::rules::Rules;

/// What a reload changes, made and checked but not applied.
pub struct Change {
    /// Filter groups by their numbers, less 1.
    config: Config,
    routes: Option<Vec<Route>>,
    rules: Option<Rules>,
    /// Modems as they are to be.
    modems: Vec<Named>,
}

/// Filter groups of a direction.
type Names = fn(&Profile) -> &[String];

impl Live<Config> for Control {
    type Change = Change;

    fn prepare(&mut self, config: &Config, keys: &[&str]) -> Result<Change, ConfigError> {
        if self.is_taken_over() {
            let what = "another process takes over with a configuration of its own";
            return Err(wrong(&[&"gateway"], what, "reload that one: `weir reload` once it runs"));
        }
        let routes = if keys.contains(&"route") { Some(self.prepare_routes(config)?) } else { None };
        if keys.iter().all(|key| *key == "route") {
            let config = Config { route: config.route.clone(), ..self.config.clone() };
            return Ok(Change { config, routes, rules: None, modems: Vec::new() });
        }
        for (n, (old, new)) in self.config.profile.iter().zip(&config.profile).enumerate() {
            let names = |profile: &Profile| profile.flow.iter().map(|flow| flow.name.clone()).collect::<Vec<_>>();
            if names(old) != names(new) {
                let what = format!("profile \"{}\" would have other service flows, or in another order", old.name);
                let help = "change what its flows have only, add flows to modems (`weir cmts`), or restart the gateway";
                return Err(wrong(&[&"profile", &n, &"flow"], what, help));
            }
        }
        let (numbered, gone) = self.numbered(config)?;
        let mut rules = numbered.rules()?;
        // Behind those of the configuration are modems' own.
        rules.classifiers.extend(self.layout.rules.classifiers.iter().skip(rules.classifiers.len()).cloned());
        let modems = self.all().filter_map(|modem| self.followed(modem, &numbered).transpose());
        let modems = modems.collect::<Result<Vec<_>, _>>()?;
        self.check_gone(&gone, &modems)?;
        Ok(Change { config: numbered, routes, rules: Some(rules), modems })
    }

    fn apply(&mut self, change: Change) {
        self.config = change.config;
        self.edition += 1;
        if let Some(routes) = change.routes {
            self.neighbourhood.set_routes(routes);
            self.publish_tables();
        }
        if let Some(rules) = change.rules {
            self.layout.rules = rules;
            self.rules.publish(self.layout.rules.clone());
            self.links.iter().for_each(|link| link.waker.nudge());
        }
        for modem in change.modems {
            for (worker, spec) in shares(&self.config, &modem.spec) {
                self.links[usize::from(worker)].post(Command::Change(spec), Purpose::Modem);
            }
            let handle = modem.spec.handle as usize;
            self.layout.modems[handle] = modem;
        }
    }
}

impl Control {
    /// Routes of a configuration.
    ///
    /// # Errors
    /// A gateway on no link, or a Remote-PHY device that would be reached by another port: its pseudowires have that port's
    /// address.
    fn prepare_routes(&self, config: &Config) -> Result<Vec<Route>, ConfigError> {
        let routes = config.links().routes_over(self.neighbourhood.plan())?;
        let old = self.neighbourhood.plan();
        let mut new = old.clone();
        new.routes.clone_from(&routes);
        let port = |plan: &Plan, rpd| plan.next_hop(Role::Rpd.instance(), rpd).map(|(port, _)| port);
        for group in &self.config.service_group {
            if port(old, group.rpd) != port(&new, group.rpd) {
                let what = format!("the Remote-PHY device {} would be reached by another port, or by none", group.rpd);
                return Err(wrong(&[&"route"], what, "restart the gateway, or leave its route as it is"));
            }
        }
        Ok(routes)
    }

    /// A configuration whose filter groups have the numbers that they had; and the numbers of those that it no longer has.
    fn numbered(&self, config: &Config) -> Result<(Config, Vec<u8>), ConfigError> {
        let (mut slots, mut gone): (Vec<FilterGroup>, Vec<u8>) = (self.config.filter_group.clone(), Vec::new());
        for (slot, number) in slots.iter_mut().zip(1..) {
            match config.filter_group.iter().find(|group| group.name == slot.name) {
                Some(group) => *slot = group.clone(),
                None => {
                    slot.rule.clear();
                    gone.push(number);
                }
            }
        }
        let mut free = gone.clone();
        for group in &config.filter_group {
            if slots.iter().any(|slot| slot.name == group.name) {
                continue;
            }
            match free.pop() {
                Some(number) => slots[usize::from(number) - 1] = group.clone(),
                None => slots.push(group.clone()),
            }
        }
        Ok((Config { filter_group: slots, ..config.clone() }, gone))
    }

    /// A modem that follows its profile; none: nothing of it changes.
    fn followed(&self, modem: &Named, new: &Config) -> Result<Option<Named>, ConfigError> {
        let (Some(before), Some(after)) = (self.config.profile.get(modem.profile), new.profile.get(modem.profile))
        else {
            return Ok(None);
        };
        let mut followed = modem.clone();
        let spec = &mut followed.spec;
        let names: [Names; 2] = [|profile| &profile.filters_down, |profile| &profile.filters_up];
        let filters = [("filters_down", &mut spec.filters_down), ("filters_up", &mut spec.filters_up)];
        for ((key, filters), names) in filters.into_iter().zip(names) {
            let of = |config: &Config, profile| {
                config
                    .filters(names(profile))
                    .map_err(|(what, help)| wrong(&[&"profile", &modem.profile, &key], what, help))
            };
            if *filters == of(&self.config, before)? {
                *filters = of(new, after)?;
            }
        }
        for n in 0..followed.flows.len().min(before.flow.len()) {
            if followed.flows[n].as_ref() == Some(&before.flow[n]) && before.flow[n] != after.flow[n] {
                followed.spec.flows[n] = Some(self.flow_after((modem, n), &before.flow[n], new)?);
                followed.flows[n] = Some(after.flow[n].clone());
            }
        }
        let old = &modem.spec;
        let flows = |spec: &crate::modems::ModemSpec| spec.flows.clone();
        let is_same = (old.filters_down, old.filters_up) == (followed.spec.filters_down, followed.spec.filters_up)
            && flows(old) == flows(&followed.spec)
            && modem.flows == followed.flows;
        Ok((!is_same).then_some(followed))
    }

    /// Service flow `n` of a modem as its profile has it now; its number for reassembly stays, and its bonding group, where the
    /// profile names none.
    fn flow_after(
        &self,
        (modem, n): (&Named, usize),
        before: &crate::config::FlowEntry,
        new: &Config,
    ) -> Result<FlowSpec, ConfigError> {
        let entry = &new.profile[modem.profile].flow[n];
        let g = usize::from(modem.spec.service_group);
        let (first, _) = self.layout.groups_of[g];
        let known = modem.spec.flows[n];
        let primary = modem.spec.flows.iter().flatten().next().map_or(first, |flow| flow.qos.group);
        let own = known.filter(|_| before.group.is_none()).map(|flow| flow.qos.group);
        let dsid = known
            .and_then(|flow| flow.dsid)
            .unwrap_or(modem.spec.handle * crate::modems::MAX_FLOWS as u32 + 1 + n as u32);
        let spec = entry.spec(&new.service_group[g], (first, &self.layout.groups), own.unwrap_or(primary), dsid);
        spec.map_err(|why| wrong(&[&"profile", &modem.profile, &"flow", &n], why.to_string(), why.help()))
    }

    /// No modem has a filter group that is gone; `changed` are modems as they are to be.
    fn check_gone(&self, gone: &[u8], changed: &[Named]) -> Result<(), ConfigError> {
        let is_changed = |modem: &&Named| changed.iter().any(|other| other.spec.handle == modem.spec.handle);
        for number in gone {
            let has =
                |modem: &&Named| modem.spec.filters_down.contains(number) || modem.spec.filters_up.contains(number);
            let rest = self.all().filter(|modem| !is_changed(modem));
            let count = changed.iter().chain(rest).filter(has).count();
            if count > 0 {
                let name = &self.config.filter_group[usize::from(*number) - 1].name;
                let what = format!("{count} modems have filter group \"{name}\", which the file no longer has");
                return Err(wrong(&[&"filter_group"], what, "keep it, or give them others: `weir cmts filters`"));
            }
        }
        Ok(())
    }
}
