//! What types do not check.

use dataplane::config::{ConfigError, Links, parse_rate, wrong};
use dataplane::forward::InstanceId;

use gateway::shell::Sections;

use super::{Config, FlowEntry, Port, Role, ServiceGroup};
use crate::depi::{ChannelWord, MAX_SEGMENTS};

impl Config {
    /// Checks everything that types do not.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_sections::<crate::product::CmtsGateway>()?;
        self.check_ports()?;
        self.channel_word()?;
        if !(1..=MAX_SEGMENTS).contains(&self.depi.segments) {
            return Err(wrong(&[&"depi", &"segments"], "no such number of segments", "1 to 16; leave it out for 8"));
        }
        let spare = u64::from(self.frames.packet_buffers) / u64::from(self.workers.count.max(1));
        if self.queues.packets as u64 + 1024 > spare {
            let what = format!("{} packets may wait, but a worker has {spare} packet buffers", self.queues.packets);
            let help = format!(
                "{} or fewer, or more [frames] packet_buffers: ports need 1024 of their own",
                spare.saturating_sub(1024)
            );
            return Err(wrong(&[&"queues", &"packets"], what, help));
        }
        if !(576..=2000).contains(&self.queues.mtu) {
            return Err(wrong(&[&"queues", &"mtu"], "no DOCSIS frame carries that", "1500, at most 2000"));
        }
        self.check_times()?;
        self.check_names()?;
        self.check_standby()?;
        self.check_flows()?;
        // Names, numbers and addresses are found out by doing it.
        self.layout().map(|_| ())
    }

    fn check_times(&self) -> Result<(), ConfigError> {
        let (depi, queues, upstream) = (&self.depi, &self.queues, &self.upstream);
        let times: [(&str, &str, u64, std::ops::RangeInclusive<u64>, &str); 3] = [
            ("depi", "hold_us", depi.hold_us, 0..=100_000, "at most 100000; 50 if left out"),
            ("queues", "ahead_us", queues.ahead_us, 1..=100_000, "1 to 100000; 250 if left out"),
            ("upstream", "wait_ms", upstream.wait_ms, 1..=1000, "1 to 1000; 18 if left out"),
        ];
        for (section, key, value, range, help) in times {
            if !range.contains(&value) {
                return Err(wrong(&[&section, &key], format!("{value} is no such time"), help));
            }
        }
        for (key, value) in [("grant_bytes", upstream.grant_bytes), ("request_unit", upstream.request_unit)] {
            if value == 0 {
                return Err(wrong(&[&"upstream", &key], "no bytes at all", "1 or more, or leave it out"));
            }
        }
        Ok(())
    }

    /// What is called by its name has one of its own.
    fn check_names(&self) -> Result<(), ConfigError> {
        let unique = |key: &'static str, what: &str, names: Vec<&String>| {
            let twice = (1..names.len()).find(|n| names[..*n].contains(&names[*n]));
            twice.map_or(Ok(()), |n| {
                let what = format!("two {what} are called \"{}\"", names[n]);
                Err(wrong(&[&key, &n, &"name"], what, "give each its own name"))
            })
        };
        unique("filter_group", "filter groups", self.filter_group.iter().map(|group| &group.name).collect())?;
        unique("classifiers", "sets of classifiers", self.classifiers.iter().map(|set| &set.name).collect())?;
        unique("profile", "profiles", self.profile.iter().map(|profile| &profile.name).collect())
    }

    fn check_standby(&self) -> Result<(), ConfigError> {
        let Some(standby) = &self.standby else { return Ok(()) };
        if !(1..=100).contains(&standby.interval_ms) {
            let what = format!("{} ms between tellings", standby.interval_ms);
            return Err(wrong(&[&"standby", &"interval_ms"], what, "1 to 100; 20 if left out"));
        }
        if standby.silence_ms < 4 * standby.interval_ms {
            let what = format!("{} ms of silence are no sign of death", standby.silence_ms);
            return Err(wrong(&[&"standby", &"silence_ms"], what, "four intervals or more; 500 if left out"));
        }
        Ok(())
    }

    fn check_ports(&self) -> Result<(), ConfigError> {
        let role = |role| self.port.iter().any(|p| p.role == role);
        if !role(Role::Rpd) || !role(Role::Network) {
            let help = "write [[port]] twice: one with role = \"rpd\", one with role = \"network\"";
            return Err(wrong(&[&"port"], "a cable gateway needs a port on either side", help));
        }
        for (n, port) in self.port.iter().enumerate() {
            let Some(name) = port.instance.as_deref() else { continue };
            let key: [&dyn ToString; 3] = [&"port", &n, &"instance"];
            if port.role == Role::Rpd && name != Role::Rpd.name() {
                let what = format!("a port towards devices can't be in network instance \"{name}\"");
                return Err(wrong(&key, what, "leave it out: all devices are reached in one"));
            }
            if name.is_empty() || (port.role == Role::Network && name == Role::Rpd.name()) {
                let what = format!("no network instance is called \"{name}\"");
                return Err(wrong(&key, what, "a name of its own, or leave it out for \"network\""));
            }
        }
        self.links().check()?;
        for (n, group) in self.service_group.iter().enumerate() {
            let mut networks = self.port.iter().filter(|port| port.role == Role::Network).map(Port::instance);
            if !networks.clone().any(|network| network == group.instance()) {
                let what = format!("no port is in network instance \"{}\"", group.instance());
                // There is one: see above.
                let help = format!("such as \"{}\", which a port is in", networks.next().unwrap_or_default());
                return Err(wrong(&[&"service_group", &n, &"instance"], what, help));
            }
        }
        Ok(())
    }

    /// Network instances by number: the devices', the one that is meant where none is named, and those that ports name.
    pub fn instances(&self) -> Vec<String> {
        let mut instances = vec![Role::Rpd.name().to_owned(), Role::Network.name().to_owned()];
        for port in &self.port {
            if !instances.iter().any(|name| name == port.instance()) {
                instances.push(port.instance().to_owned());
            }
        }
        instances
    }

    /// The network instance of what modems of each service group send.
    pub fn networks(&self) -> Vec<InstanceId> {
        let instances = self.instances();
        let number = |group: &ServiceGroup| {
            let name = group.instance();
            // Checked to be there, and there are fewer than 256 ports.
            instances.iter().position(|one| one == name).map_or(Role::Network.instance(), |n| n as InstanceId)
        };
        self.service_group.iter().map(number).collect()
    }

    /// The links around it.
    pub fn links(&self) -> Links<'_> {
        self.links_among(self.instances(), Role::Network.name())
    }

    fn check_flows(&self) -> Result<(), ConfigError> {
        for (n, profile) in self.profile.iter().enumerate() {
            let count = profile.flow.len();
            if count == 0 || count > crate::modems::MAX_FLOWS {
                let what = format!("profile \"{}\" has {count} service flows", profile.name);
                return Err(wrong(&[&"profile", &n], what, "1 to 16 [[profile.flow]], the primary first"));
            }
            for (m, flow) in profile.flow.iter().enumerate() {
                flow.check().map_err(|(key, what, help)| wrong(&[&"profile", &n, &"flow", &m, &key], what, help))?;
                if profile.flow[..m].iter().any(|other| other.name == flow.name) {
                    let what = format!("two service flows are called \"{}\"", flow.name);
                    return Err(wrong(&[&"profile", &n, &"flow", &m, &"name"], what, "give each its own name"));
                }
            }
        }
        Ok(())
    }

    /// What stands behind the table of segments.
    ///
    /// # Errors
    /// When it is not one of the words, nor a number.
    pub fn channel_word(&self) -> Result<ChannelWord, ConfigError> {
        match self.depi.channel_word.as_str() {
            "observed" => Ok(ChannelWord::Observed),
            "none" => Ok(ChannelWord::None),
            text => {
                let number =
                    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u16::from_str_radix(hex, 16).ok());
                number.map(ChannelWord::Fixed).ok_or_else(|| {
                    let what = format!("\"{text}\" is no 16-bit word");
                    wrong(&[&"depi", &"channel_word"], what, "observed, none, or a number such as 0x0010")
                })
            }
        }
    }
}

impl FlowEntry {
    /// Checks what types do not.
    ///
    /// # Errors
    /// The key, what is wrong with it, what would be right.
    pub fn check(&self) -> Result<(), (&'static str, String, String)> {
        if self.name.is_empty() {
            return Err(("name", "a service flow without a name".into(), "classifiers call it by its name".into()));
        }
        for (key, rate) in [("rate", &self.rate), ("peak", &self.peak), ("reserved", &self.reserved)] {
            if let Some(text) = rate.as_deref().filter(|text| parse_rate(text).is_none_or(|rate| rate == 0)) {
                return Err((key, format!("\"{text}\" is no rate"), "such as \"100 Mbit/s\"".into()));
            }
        }
        if self.priority > 7 {
            return Err(("priority", "no such priority".into(), "0 to 7, higher first".into()));
        }
        let [rate, peak, reserved] =
            [&self.rate, &self.peak, &self.reserved].map(|text| text.as_deref().and_then(parse_rate));
        if let (Some(rate), Some(peak)) = (rate, peak)
            && peak < rate
        {
            return Err(("peak", "the peak rate is lower than the sustained rate".into(), "that rate or more".into()));
        }
        if let (Some(rate), Some(reserved)) = (rate, reserved)
            && reserved > rate
        {
            return Err(("reserved", "more is reserved than the flow may have".into(), "its rate or less".into()));
        }
        if self.buffer < 2048 {
            let what = format!("a buffer of {} bytes holds no large frame", self.buffer);
            return Err(("buffer", what, "2048 or more; 262144 if left out".into()));
        }
        if self.aqm && !(1..=1000).contains(&self.aqm_target_ms) {
            let what = format!("{} ms is no target", self.aqm_target_ms);
            return Err(("aqm_target_ms", what, "1 to 1000; 10 if left out".into()));
        }
        if self.rate.is_some() && self.burst < 2048 {
            let what = format!("a burst of {} bytes lets no large frame pass", self.burst);
            return Err(("burst", what, "2048 or more; 3044 if left out".into()));
        }
        Ok(())
    }
}
