//! Service flows, classifiers and filter groups of modems, while traffic flows.

use wire::Mac;

use super::{Control, Purpose, Refusal};
use crate::assemble::shares;
use crate::config::{FlowEntry, Named, RuleEntry, WrongFlow, rules};
use crate::flow::FlowSpec;
use crate::gateway::Command;
use crate::modems::MAX_FLOWS;
use crate::rules::RuleSet;

impl Control {
    /// A modem's service flow as it is written now.
    ///
    /// # Errors
    /// When there is no such modem or service flow.
    pub fn flow(&self, mac: Mac, name: &str) -> Result<&FlowEntry, Refusal> {
        let named = self.find(mac)?;
        let at = flow_at(named, name)?;
        named.flows[at].as_ref().ok_or_else(|| Refusal(format!("modem {mac} has no service flow \"{name}\"")))
    }

    /// Gives a modem another service flow. Without a bonding group it goes by the primary's.
    ///
    /// # Errors
    /// When there is no such modem, it has that many flows or one of that name, or what is written is wrong.
    pub fn add_flow(&mut self, mac: Mac, entry: &FlowEntry) -> Result<(), Refusal> {
        let named = self.find(mac)?;
        if named.flow(&entry.name).is_some() {
            return Err(Refusal(format!("modem {mac} has a service flow \"{}\" already", entry.name)));
        }
        let at = named.flows.iter().position(Option::is_none).unwrap_or(named.flows.len());
        if at >= MAX_FLOWS {
            return Err(Refusal(format!("modem {mac} has {MAX_FLOWS} service flows, and no room for more")));
        }
        // Numbers nobody had lately: whoever waits for packets of an old flow must not take the new one's for late.
        let dsid = self.fresh_dsids();
        let spec = self.flow_spec(mac, entry, dsid)?;
        let named = self.find_mut(mac)?;
        if at == named.flows.len() {
            named.flows.push(None);
            named.spec.flows.push(None);
        }
        (named.flows[at], named.spec.flows[at]) = (Some(entry.clone()), Some(spec));
        self.post_change(mac)
    }

    /// Has a modem's service flow be as written from now on; what waits in it stays, and its packets are numbered on.
    ///
    /// # Errors
    /// When there is no such modem or service flow, or what is written is wrong.
    pub fn change_flow(&mut self, mac: Mac, entry: &FlowEntry) -> Result<(), Refusal> {
        let named = self.find(mac)?;
        let at = flow_at(named, &entry.name)?;
        let before = named.spec.flows[at];
        let dsid = match before.and_then(|flow| flow.dsid) {
            Some(dsid) => dsid,
            None => self.fresh_dsids(),
        };
        let spec = self.flow_spec(mac, entry, dsid)?;
        let named = self.find_mut(mac)?;
        (named.flows[at], named.spec.flows[at]) = (Some(entry.clone()), Some(spec));
        self.post_change(mac)
    }

    /// Takes a service flow from a modem, what waits in it, and the classifiers that choose it. Returns how many
    /// classifiers went with it.
    ///
    /// # Errors
    /// When there is no such modem or service flow, or it is the primary.
    pub fn remove_flow(&mut self, mac: Mac, name: &str) -> Result<usize, Refusal> {
        let named = self.find(mac)?;
        let at = flow_at(named, name)?;
        if at == 0 {
            return Err(Refusal(format!("\"{name}\" is the primary service flow of modem {mac}, which stays")));
        }
        let all = self.classifiers(mac)?;
        let chooses = |rule: &RuleEntry| rule.flow.as_deref() == Some(name);
        let left: Vec<_> = all.iter().filter(|(_, rule)| !chooses(rule)).cloned().collect();
        let gone = all.len() - left.len();
        if gone > 0 {
            self.set_classifiers(mac, left)?;
        }
        let named = self.find_mut(mac)?;
        (named.flows[at], named.spec.flows[at]) = (None, None);
        self.post_change(mac)?;
        Ok(gone)
    }

    /// A modem's classifiers, with their identifiers: those of its profile are numbered from 1 on.
    ///
    /// # Errors
    /// When there is no such modem.
    pub fn classifiers(&self, mac: Mac) -> Result<Vec<(u16, RuleEntry)>, Refusal> {
        let named = self.find(mac)?;
        if let Some(own) = &named.classifiers {
            return Ok(own.clone());
        }
        let of_profile = self.config.profile[named.profile].classifiers.as_deref();
        let set = self.config.classifiers.iter().find(|set| Some(set.name.as_str()) == of_profile);
        let rules = set.map(|set| set.rule.as_slice()).unwrap_or_default();
        Ok((1..).zip(rules.iter().cloned()).collect())
    }

    /// Gives a modem a classifier, by that identifier or the next that is free. Returns the identifier.
    ///
    /// # Errors
    /// When there is no such modem or service flow, the identifier is taken, or what is written is wrong.
    pub fn add_classifier(&mut self, mac: Mac, id: Option<u16>, rule: &RuleEntry) -> Result<u16, Refusal> {
        let mut all = self.classifiers(mac)?;
        if let Some(name) = &rule.flow {
            flow_at(self.find(mac)?, name)?;
        }
        let taken = |id: u16| all.iter().any(|(other, _)| *other == id);
        let id = id.or_else(|| (1..=u16::MAX).find(|id| !taken(*id))).unwrap_or(0);
        if id == 0 || taken(id) {
            let what = if id == 0 { "is none".to_owned() } else { format!("is there already, of modem {mac}") };
            return Err(Refusal(format!("classifier {id} {what}; identifiers are 1 to 65535")));
        }
        all.push((id, rule.clone()));
        self.set_classifiers(mac, all)?;
        Ok(id)
    }

    /// Takes a classifier from a modem.
    ///
    /// # Errors
    /// When there is no such modem or classifier.
    pub(crate) fn remove_classifier(&mut self, mac: Mac, id: u16) -> Result<(), Refusal> {
        let mut all = self.classifiers(mac)?;
        let at = all.iter().position(|(other, _)| *other == id);
        let at = at.ok_or_else(|| Refusal(format!("modem {mac} has no classifier {id}")))?;
        all.remove(at);
        self.set_classifiers(mac, all)
    }

    /// Gives a modem other filter groups, by name; what is none stays.
    ///
    /// # Errors
    /// When there is no such modem or filter group, or there are more than four.
    pub fn set_filters(&mut self, mac: Mac, down: Option<&[String]>, up: Option<&[String]>) -> Result<(), Refusal> {
        let of = |names: &[String]| {
            self.config.filters(names).map_err(|(what, help)| Refusal(format!("modem {mac}: {what}; {help}")))
        };
        let (down, up) = (down.map(of).transpose()?, up.map(of).transpose()?);
        let spec = &mut self.find_mut(mac)?.spec;
        spec.filters_down = down.unwrap_or(spec.filters_down);
        spec.filters_up = up.unwrap_or(spec.filters_up);
        self.post_change(mac)
    }

    /// What is written, checked, for that modem.
    fn flow_spec(&self, mac: Mac, entry: &FlowEntry, dsid: u32) -> Result<FlowSpec, Refusal> {
        let said = |(key, what, help)| Refusal(format!("modem {mac}: {key}: {what}; {help}"));
        entry.check().map_err(said)?;
        let named = self.find(mac)?;
        let g = usize::from(named.spec.service_group);
        let group = &self.config.service_group[g];
        let (first, _) = self.layout.groups_of[g];
        let primary = named.spec.flows.iter().flatten().next().map_or(first, |flow| flow.qos.group);
        entry.spec(group, (first, &self.layout.groups), primary, dsid).map_err(|wrong| {
            let WrongFlow::NoGroup(name) = &wrong else {
                return Refusal(format!("modem {mac}: bonded: {wrong}; {}", wrong.help()));
            };
            let names: Vec<_> = group.bonding_group.iter().map(|bonding| bonding.name.as_str()).collect();
            let names = if names.is_empty() { "it has one, without a name".to_owned() } else { names.join(", ") };
            Refusal(format!("service group {} has no bonding group \"{name}\": {names}", group.name))
        })
    }

    /// Publishes a modem's own classifiers. One that had its profile's until now has a set of its own from now on.
    fn set_classifiers(&mut self, mac: Mac, all: Vec<(u16, RuleEntry)>) -> Result<(), Refusal> {
        let named = self.find(mac)?;
        let flow = |name: &str| named.flow(name).map(|at| at as u8); // at most 16
        let entries: Vec<RuleEntry> = all.iter().map(|(_, rule)| rule.clone()).collect();
        let compiled = rules("classifier", 0, &entries, Some(&flow)).map_err(|wrong| {
            let key = wrong.path.last().map_or("", String::as_str);
            Refusal(format!("modem {mac}: {key}: {}; {}", wrong.what, wrong.help))
        })?;
        let (own, before) = (named.classifiers.is_some(), named.spec.classifiers);
        let sets = &mut self.layout.rules.classifiers;
        let set = match own {
            true => before,
            false => self.free_sets.pop().unwrap_or(sets.len() as u32),
        };
        if set as usize == sets.len() {
            sets.push(RuleSet::default());
        }
        sets[set as usize] = RuleSet::new(&compiled);
        self.rules.publish(self.layout.rules.clone());
        let named = self.find_mut(mac)?;
        named.classifiers = Some(all);
        named.spec.classifiers = set;
        if own { Ok(()) } else { self.post_change(mac) }
    }

    /// A modem that is about to change.
    fn find_mut(&mut self, mac: Mac) -> Result<&mut Named, Refusal> {
        let handle = self.find(mac)?.spec.handle;
        self.edition += 1;
        Ok(&mut self.layout.modems[handle as usize])
    }

    /// Tells the modem's workers.
    fn post_change(&mut self, mac: Mac) -> Result<(), Refusal> {
        let spec = self.find(mac)?.spec.clone();
        for (worker, spec) in shares(&self.config, &spec) {
            self.links[usize::from(worker)].post(Command::Change(spec), Purpose::Modem);
        }
        Ok(())
    }
}

/// The place of a modem's service flow.
fn flow_at(named: &Named, name: &str) -> Result<usize, Refusal> {
    named.flow(name).ok_or_else(|| {
        let names: Vec<_> = named.flows.iter().flatten().map(|flow| flow.name.as_str()).collect();
        Refusal(format!("modem {} has no service flow \"{name}\"; it has {}", named.mac, names.join(", ")))
    })
}
