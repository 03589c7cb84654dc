//! The workload as an operator would write it: the gateway's configuration file.

use std::fmt::Write;

use traffic::cable::{
    CLASSIFIER_RULES, FILTER_GROUPS, FILTER_RULES, Pattern, TCP_OR_UDP, Workload, classifiers, filter_group,
};
use wire::Mac;

use super::limits::FlowRates;
use super::settings::{CMTS, CableSettings, Channels, IV, NEIGHBOURS, OURS, Rules};

/// A rule's fields, one a line.
fn fields(pattern: &Pattern) -> String {
    let mut t = String::new();
    let mut key = |key: &str, value: String| {
        let _ = writeln!(t, "{key} = {value}");
    };
    if let Some([low, high, mask]) = pattern.tos {
        key("tos", format!("[{low}, {high}, {mask}]"));
    }
    match pattern.protocol {
        Some(17) => key("protocol", "\"udp\"".into()),
        Some(6) => key("protocol", "\"tcp\"".into()),
        Some(TCP_OR_UDP) => key("protocol", "\"tcp/udp\"".into()),
        Some(number) => key("protocol", number.to_string()),
        None => {}
    }
    for (name, prefix) in [("source", pattern.source), ("destination", pattern.destination)] {
        if let Some((address, len)) = prefix {
            key(name, format!("\"{address}/{len}\""));
        }
    }
    if let Some(prefix) = &pattern.destination6 {
        key("destination", format!("\"{prefix}\""));
    }
    for (name, ports) in [("source_ports", pattern.source_ports), ("destination_ports", pattern.destination_ports)] {
        match ports {
            Some((low, high)) if low == high => key(name, low.to_string()),
            Some((low, high)) => key(name, format!("\"{low}-{high}\"")),
            None => {}
        }
    }
    if let Some(mac) = pattern.destination_mac {
        key("destination_mac", format!("\"{mac}\""));
    }
    t
}

impl CableSettings {
    /// The gateway's configuration, as an operator would write it.
    pub fn text(&self, uris: [&str; 2]) -> String {
        let mut t = String::new();
        let (slots, slot_bytes) = (16_384 * u32::from(self.workers), self.slot_bytes());
        let _ = write!(
            t,
            "gateway = \"cmts\"\ncontrol_socket = \"/dev/null\"\nworkers = {{ count = {} }}\n\
             frames = {{ packet_buffers = {slots}, packet_buffer_bytes = {slot_bytes} }}\n\
             queues = {{ packets = 12288 }}\ndepi = {{ segments = {} }}\n\
             [[port]]\nname = \"rphy\"\nuri = \"{}\"\nrole = \"rpd\"\naddresses = [\"{OURS}/16\"]\nmtu = {}\n\
             [[port]]\nname = \"core\"\nuri = \"{}\"\nrole = \"network\"\naddresses = [\"198.18.255.1/16\"]\n\
             [[route]]\nto = \"0.0.0.0/0\"\nvia = \"198.18.255.254\"\n",
            self.workers, self.segments, uris[0], self.mtu, uris[1],
        );
        let mut neighbour = |port: &str, address: String, mac: Mac| {
            let _ = writeln!(t, "[[neighbour]]\nport = \"{port}\"\naddress = \"{address}\"\nmac = \"{mac}\"");
        };
        neighbour("core", "198.18.255.254".into(), NEIGHBOURS[1]);
        neighbour("core", "198.18.0.1".into(), NEIGHBOURS[1]);
        for g in 0..self.groups {
            neighbour("rphy", Self::device(g).to_string(), NEIGHBOURS[0]);
        }
        self.rules_text(&mut t);
        for sixth in 0..FILTER_GROUPS {
            self.profile(&mut t, &format!("p{sixth}"), sixth, false);
            if self.overloaded_of(sixth) > 0 {
                self.profile(&mut t, &format!("o{sixth}"), sixth, true);
            }
        }
        for g in 0..self.groups {
            self.group(g, &mut t);
        }
        t
    }

    /// Filter groups and classifiers.
    fn rules_text(&self, t: &mut String) {
        for group in 0..FILTER_GROUPS {
            let _ = writeln!(t, "[[filter_group]]\nname = \"f{group}\"");
            for rule in 0..FILTER_RULES {
                let (action, fields) = match self.rules {
                    Rules::Mixed => {
                        let rule = &filter_group(group)[usize::from(rule)];
                        (if rule.permits { "permit" } else { "deny" }, fields(&rule.fields))
                    }
                    Rules::Ports => {
                        let port = Workload::filter_port(group, rule);
                        ("permit", format!("protocol = \"udp\"\nsource_ports = {port}\n"))
                    }
                };
                let priority = 100 + FILTER_RULES - rule;
                let _ = write!(t, "[[filter_group.rule]]\npriority = {priority}\naction = \"{action}\"\n{fields}");
            }
        }
        let _ = writeln!(t, "[[classifiers]]\nname = \"c\"");
        let mixed = classifiers();
        for rule in 0..CLASSIFIER_RULES {
            let (class, fields) = match self.rules {
                Rules::Mixed => {
                    let (pattern, class) = &mixed[usize::from(rule)];
                    (*class, fields(pattern))
                }
                Rules::Ports => {
                    let (port, class) = (Workload::classifier_port(rule), Workload::classifier_class(rule));
                    (class, format!("protocol = \"udp\"\ndestination_ports = {port}\n"))
                }
            };
            let priority = 100 + CLASSIFIER_RULES - rule;
            let _ = write!(t, "[[classifiers.rule]]\npriority = {priority}\nflow = \"s{class}\"\n{fields}");
        }
    }

    /// What modems of a sixth are given: the ordinary ones, or the `overloaded`.
    fn profile(&self, t: &mut String, name: &str, sixth: u16, overloaded: bool) {
        let [one, two] = [sixth, (sixth + 1) % FILTER_GROUPS];
        let _ = writeln!(
            t,
            "[[profile]]\nname = \"{name}\"\nfilters_down = [\"f{one}\", \"f{two}\"]\n\
             filters_up = [\"f{one}\", \"f{two}\"]\nclassifiers = \"c\"\nencrypt = {}",
            self.encrypt
        );
        for flow in 0..8 {
            let (rates, buffer) = match overloaded && flow == 0 {
                true => (self.overloaded_rates(), self.overloaded_buffer()),
                false => (self.tier(), self.limits.buffer),
            };
            let priority = if self.limits.priorities { flow % 4 } else { 0 };
            let _ = writeln!(
                t,
                "[[profile.flow]]\nname = \"s{flow}\"\npriority = {priority}\nbuffer = {buffer}\naqm = {}",
                self.limits.aqm
            );
            let FlowRates { sustained, peak, burst } = rates;
            if let Some(rate) = sustained {
                let _ = writeln!(t, "rate = \"{rate} bit/s\"\nburst = {burst}");
            }
            if let Some(peak) = peak {
                let _ = writeln!(t, "peak = \"{peak} bit/s\"");
            }
        }
    }

    fn group(&self, g: u16, t: &mut String) {
        let first = 0x1000 * (u32::from(g) + 1);
        let _ = writeln!(
            t,
            "[[service_group]]\nname = \"sg{g}\"\nrpd = \"{}\"\nmac = \"{CMTS}\"\ndown_worker = {}",
            Self::device(g),
            self.worker_of(g)
        );
        let mut channel = |name: &str, count: u32, capacity: &str, session: u32| {
            let _ = writeln!(
                t,
                "[[service_group.channel]]\nname = \"{name}\"\ncount = {count}\ncapacity = \"{capacity}\"\nsession = \
                 {session}"
            );
        };
        let groups: Vec<String> = match self.channels {
            Channels::Ofdm6 => {
                channel("ofdm", 6, "1.89 Gbit/s", first);
                vec!["\"ofdm0..2\"".into(), "\"ofdm3..5\"".into()]
            }
            Channels::Ofdm2Scqam32 => {
                channel("ofdm", 2, "1.89 Gbit/s", first);
                channel("scqam", 32, "42.24 Mbit/s", first + 2);
                (0..4).map(|n| format!("\"ofdm{}\", \"scqam{}..{}\"", n / 2, n * 8, n * 8 + 7)).collect()
            }
        };
        for (n, channels) in groups.iter().enumerate() {
            let _ = writeln!(t, "[[service_group.bonding_group]]\nname = \"b{n}\"\nchannels = [{channels}]");
        }
        let _ = writeln!(
            t,
            "[[service_group.upstream_channel]]\nsession = {}\ncount = 4\ncapacity = \"500 Mbit/s\"\n\
             [[service_group.upstream_channel]]\nsession = {}\ncarries = \"requests\"",
            first + 0x800,
            first + 0x900
        );
        for sixth in 0..FILTER_GROUPS {
            let (all, overloaded) = (self.sixth(sixth), self.overloaded_of(sixth));
            let middle = all.start + overloaded;
            self.modems_text(t, g, sixth, &format!("o{sixth}"), all.start..middle);
            self.modems_text(t, g, sixth, &format!("p{sixth}"), middle..all.end);
        }
    }

    /// Some modems of a sixth of service group `g`, by their numbers in it.
    fn modems_text(&self, t: &mut String, g: u16, sixth: u16, profile: &str, range: std::ops::Range<u16>) {
        if range.is_empty() {
            return;
        }
        let (address, host_mac) = self.first_host(g, range.start);
        let [high, low] = range.start.to_be_bytes();
        let _ = writeln!(
            t,
            "[[service_group.modem]]\ncount = {}\nmac = \"{}\"\nprofile = \"{profile}\"\nhosts = {}\nipv4 = \
             \"{address}\"\n\
             host_mac = \"{host_mac}\"\nsid = {}\nsaid = {}\nkey = \"{:032x}\"\niv = \"{:032x}\"",
            range.len(),
            Mac([2, 0xca, g as u8, sixth as u8, high, low]), // at most 8 groups, 6 sixths
            self.hosts,
            range.start + 1,
            range.start + 0x1001,
            Self::key(g, range.start),
            u128::from_be_bytes(IV),
        );
    }
}
