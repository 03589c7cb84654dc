//! Subscribers by name.

use wire::Mac;

use super::Control;
use crate::config::parse_mac;
use crate::record::SubscriberSpec;

impl Control {
    /// A subscriber's name: its entry's, or its group and line.
    pub fn name(&self, spec: &SubscriberSpec) -> String {
        let entries = &self.layout.entries;
        let at = entries.partition_point(|first| *first <= spec.handle).checked_sub(1);
        let entry = at.and_then(|at| Some((self.config.subscriber.get(at)?, entries[at])));
        match entry.and_then(|(entry, first)| Some((entry.name.as_ref()?, entry.count, spec.handle - first))) {
            Some((name, 1, 0)) => name.clone(),
            Some((name, count, n)) if count > 1 && n < count => format!("{name}{}", n + 1),
            _ => {
                let group = &self.config.group[usize::from(spec.group)].name;
                let port = &self.config.port[usize::from(spec.line.port)].name;
                let name = format!("{group}/{port}:{}.{}", spec.line.s_vlan, spec.line.c_vlan);
                match spec.mac.filter(|_| self.layout.groups[usize::from(spec.group)].shared) {
                    Some(mac) => format!("{name}/{}", Mac(mac)),
                    None => name,
                }
            }
        }
    }

    /// The subscriber of that name. Names are taken apart, not made: there may be very many subscribers.
    pub fn find(&self, name: &str) -> Option<&SubscriberSpec> {
        let entries = self.config.subscriber.iter().zip(&self.layout.entries);
        let mut named = entries.filter_map(|(entry, first)| {
            let rest = name.strip_prefix(entry.name.as_deref()?)?;
            match (entry.count, rest) {
                (1, "") => Some(*first),
                (1, _) => None,
                (count, rest) => {
                    let n: u32 = rest.parse().ok().filter(|n| (1..=count).contains(n))?;
                    Some(first + n - 1)
                }
            }
        });
        let by_entry = named.find_map(|handle| self.subscribers.get(handle as usize)?.as_ref());
        by_entry.or_else(|| self.find_line(name)).filter(|spec| self.name(spec) == name)
    }

    /// The subscriber with a name of the form `group/port:s_vlan.c_vlan`, and `/mac` where lines share VLANs.
    fn find_line(&self, name: &str) -> Option<&SubscriberSpec> {
        let (rest, mac) = match name.rsplit_once('/') {
            Some((rest, text)) if text.matches(':').count() == 5 => (rest, Some(parse_mac(text)?)),
            _ => (name, None),
        };
        let (place, vlans) = rest.rsplit_once(':')?;
        let (s_vlan, c_vlan) = vlans.split_once('.')?;
        let (s_vlan, c_vlan): (u16, u16) = (s_vlan.parse().ok()?, c_vlan.parse().ok()?);
        let is_it = |spec: &&SubscriberSpec| {
            (spec.line.s_vlan, spec.line.c_vlan) == (s_vlan, c_vlan) && mac.is_none_or(|mac| spec.mac == Some(mac)) && {
                let group = &self.config.group[usize::from(spec.group)].name;
                let port = &self.config.port[usize::from(spec.line.port)].name;
                place.strip_prefix(group.as_str()).and_then(|rest| rest.strip_prefix('/')) == Some(port.as_str())
            }
        };
        self.subscribers().find(is_it)
    }
}
