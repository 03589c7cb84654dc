//! Keys that have no effect beside others: refused, since a result would seem to be theirs.

use super::file::{Axes, Experiment, GatewayKind, Measure};
use super::keys::Wrong;

/// Keys that change something only while another one is on.
struct Needs {
    gateway: GatewayKind,
    keys: &'static [&'static str],
    /// The other one.
    on: &'static str,
    /// Whether it is on where nothing sets it.
    by_default: bool,
}

const NEEDS: [Needs; 5] = [
    Needs { gateway: GatewayKind::Bng, keys: &["fill"], on: "shape", by_default: false },
    Needs { gateway: GatewayKind::Upf, keys: &["session_rate"], on: "functions", by_default: false },
    Needs {
        gateway: GatewayKind::Cmts,
        keys: &["peak_rate", "overload", "overload_rate", "overload_factor"],
        on: "rate",
        by_default: true,
    },
    Needs { gateway: GatewayKind::Cmts, keys: &["overload_rate", "overload_factor"], on: "overload", by_default: true },
    Needs {
        gateway: GatewayKind::Cmts,
        // Channels, queues and their rates are downstream's.
        keys: &[
            "upstream",
            "channels",
            "segments",
            "rate",
            "peak_rate",
            "priorities",
            "aqm",
            "buffer",
            "overload",
            "overload_rate",
            "overload_factor",
        ],
        on: "downstream",
        by_default: true,
    },
];

/// Whether a value switches its key off.
fn is_off(value: &str) -> bool {
    matches!(value, "off" | "false") || quantity::share(value) == Some(0.0)
}

/// Where a key without effect stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In `[set]`, or a `--set`.
    Set(String),
    /// In a section `[[vary]]`, by its number, or a `--vary`.
    Vary(usize, String),
}

impl Experiment {
    fn value(&self, key: &str) -> Option<&str> {
        self.set.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    fn is_varied(&self, key: &str) -> bool {
        self.vary.iter().any(|Axes(axes)| axes.iter().any(|(known, _)| known == key))
    }

    /// What keeps a key from having an effect: another one that is off. `axes`: the section that the key is varied in.
    fn hindered(&self, key: &str, axes: Option<&[(String, Vec<String>)]>) -> Option<Wrong> {
        let needs = NEEDS.iter().filter(|needs| Some(needs.gateway) == self.gateway && needs.keys.contains(&key));
        let off = |needs: &&Needs| {
            let varied = axes.and_then(|axes| axes.iter().find(|(known, _)| known == needs.on));
            match varied {
                Some((_, values)) => values.iter().all(|value| is_off(value)),
                // Each section's points are varied from `[set]`.
                None if axes.is_none() && self.is_varied(needs.on) => false,
                None => self.value(needs.on).map_or(!needs.by_default, is_off),
            }
        };
        let on = needs.into_iter().find(off)?.on;
        let what = match self.value(on) {
            Some(value) => format!("{key} has no effect with {on} = {value}"),
            None => format!("{key} has no effect without {on}"),
        };
        Some(Wrong { what, help: format!("leave {key} out, or switch {on} on") })
    }

    /// The first key that has no effect beside the others, of those in `[set]` that `given` holds for, and of those that
    /// are varied.
    pub fn without_effect(&self, given: impl Fn(&str) -> bool) -> Option<(Place, Wrong)> {
        let set = self.set.0.iter().filter(|(key, value)| given(key) && !is_off(value));
        let of_set = |(key, _): &(String, String)| Some((Place::Set(key.clone()), self.hindered(key, None)?));
        set.into_iter().find_map(of_set).or_else(|| {
            let sections = self.vary.iter().enumerate();
            sections.into_iter().find_map(|(n, Axes(axes))| {
                let found = axes.iter().find_map(|(key, _)| {
                    let wrong = self.hindered(key, Some(axes)).or_else(|| self.unwatched(key, axes))?;
                    Some((key, wrong))
                });
                found.map(|(key, wrong)| (Place::Vary(n, key.clone()), wrong))
            })
        })
    }

    /// Where and how often nobody reads counters.
    fn unwatched(&self, key: &str, axes: &[(String, Vec<String>)]) -> Option<Wrong> {
        let reads = |(key, values): &(String, Vec<String>)| key == "observer" && values.iter().any(|who| who != "none");
        let is_of_observers = self.measure == Measure::Telemetry && matches!(key, "place" | "interval_ms");
        (is_of_observers && !axes.iter().any(reads)).then(|| Wrong {
            what: format!("{key} has no effect without an observer"),
            help: "add observer = [\"top\", \"metrics\"] to the section".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use gateway::load::{LoadError, Text};

    use super::*;
    use crate::cmts::CableSettings;
    use crate::experiment::named;

    fn read(text: &str) -> Result<Experiment, LoadError> {
        Experiment::read(&Text { name: "mine.toml".into(), text: text.to_owned() })
    }

    #[test]
    fn errors_point_at_the_key_without_effect() {
        let head = |gateway: &str| format!("name = \"mine\"\ntitle = \"x\"\ngateway = \"{gateway}\"\n");
        for (text, key, says) in [
            (head("upf") + "[set]\nsession_rate = true", "set.session_rate", "without functions"),
            (head("cmts") + "[set]\nrate = \"off\"\noverload = 0.1", "set.overload", "rate = off"),
            (head("cmts") + "[set]\noverload = 0\noverload_rate = \"1 Mbit/s\"", "set.overload_rate", "overload = 0"),
            (
                head("cmts") + "[set]\ndownstream = false\n[[vary]]\nupstream = [0.1, 1]",
                "vary.0.upstream",
                "downstream",
            ),
            (
                head("upf") + "[[vary]]\nfunctions = [true, false]\n[[vary]]\nsession_rate = [true, false]",
                "vary.1.session_rate",
                "without functions",
            ),
            (
                head("upf") + "measure = \"telemetry\"\n[[vary]]\nobserver = \"none\"\nplace = \"idle-cpu\"",
                "vary.0.place",
                "without an observer",
            ),
        ] {
            let Err(LoadError::Wrong(wrong)) = read(&text) else { panic!("{text}") };
            assert!(wrong.key == key && wrong.what.contains(says), "{text}: {wrong:?}");
        }
        for text in [
            head("upf") + "[set]\nfunctions = false\nsession_rate = false",
            head("upf") + "[set]\nsession_rate = true\n[[vary]]\nfunctions = [true, false]",
            head("cmts") + "[set]\nrate = \"off\"\noverload = 0",
            head("cmts") + "[set]\ndownstream = false\nencrypt = false\nsize = 256",
        ] {
            assert!(read(&text).is_ok(), "{text}");
        }
    }

    #[test]
    fn only_what_is_given_is_refused() {
        let mut cable = named("cmts-imix").expect("an experiment");
        cable.assign("downstream", "off").expect("a key");
        assert_eq!(cable.without_effect(|key| key == "downstream"), None, "the file's own keys are its defaults");
        cable.assign("upstream", "0.5").expect("a key");
        let (place, _) = cable.without_effect(|key| key == "upstream").expect("it has none");
        assert_eq!(place, Place::Set("upstream".into()));
    }

    /// Two values of each key that is said to need another one.
    fn samples(key: &str) -> [&'static str; 2] {
        match key {
            "session_rate" | "peak_rate" | "priorities" | "aqm" => ["true", "false"],
            "fill" => ["3", "5"],
            "overload" | "upstream" => ["0.1", "0.2"],
            "overload_factor" => ["2", "3"],
            "rate" | "overload_rate" => ["30 Mbit/s", "40 Mbit/s"],
            "buffer" => ["4kB", "8kB"],
            "channels" => ["ofdm6", "ofdm2-scqam32"],
            "segments" => ["4", "8"],
            _ => panic!("{key} has no samples"),
        }
    }

    /// What is measured: configuration and traffic.
    fn measured(gateway: GatewayKind, pairs: &[(&str, &str)]) -> String {
        if gateway == GatewayKind::Upf {
            let mut settings = crate::profiles::Settings::default();
            pairs.iter().for_each(|(key, value)| settings.set(key, value).expect("a setting"));
            return format!("{:?}", settings.gateway(1, ["a", "b"]));
        }
        if gateway == GatewayKind::Bng {
            let mut settings = crate::bng::Settings { subscribers: 100, ..Default::default() };
            pairs.iter().for_each(|(key, value)| settings.set(key, value).expect("a setting"));
            return format!("{:?}", settings.config(1).expect("a configuration"));
        }
        let mut settings = CableSettings::default();
        pairs.iter().for_each(|(key, value)| settings.set(key, value).expect("a setting"));
        let offered = settings.is_overloaded().then(|| settings.excess(1).rate);
        format!("{} {} {offered:?}", settings.text(["a", "b"]), settings.upstream)
    }

    /// A key changes what is measured beside the one that it needs, so that none is refused for nothing, and nothing
    /// without it. (What is downstream's only stands in the configuration without traffic downstream, too.)
    #[test]
    fn keys_have_an_effect_exactly_beside_what_they_need() {
        for Needs { gateway, keys, on, .. } in NEEDS {
            let switch = |is_on| match (on, is_on) {
                ("overload", true) => "0.1",
                ("overload", false) => "0",
                (_, true) => "true",
                (_, false) => "false",
            };
            for key in keys.iter().filter(|key| **key != on) {
                let differs = |is_on| {
                    let of = |value| measured(gateway, &[(on, switch(is_on)), (*key, value)]);
                    let [one, two] = samples(key).map(of);
                    one != two
                };
                assert!(differs(true), "{key} with {on}");
                assert!(on == "downstream" || !differs(false), "{key} without {on}");
            }
        }
    }
}
