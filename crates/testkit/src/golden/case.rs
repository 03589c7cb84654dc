//! A case as it is written in Rust.

use std::collections::BTreeMap;

use crate::packet::Packet;
use crate::pcap::Seen;

/// Microseconds, in nanoseconds.
pub const fn us(n: u64) -> u64 {
    n * 1_000
}

/// Milliseconds, in nanoseconds.
pub const fn ms(n: u64) -> u64 {
    n * 1_000_000
}

/// Seconds, in nanoseconds.
pub const fn secs(n: u64) -> u64 {
    n * 1_000_000_000
}

/// Something control does at a time. What the keys mean is the gateway's.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// When, in nanoseconds from the start.
    pub at: u64,
    /// What.
    pub what: toml::Table,
}

/// What comes in, and what must come out.
///
/// Reads as a story: [`Case::at`] sets the time, [`Case::send`] lets a packet come in, [`Case::expect`] says what must
/// have left by then. Expected packets must leave in that order on each port, at that time, and no others may.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Its folder, `group/name`.
    pub name: String,
    /// What it shows, in a line.
    pub text: String,
    /// The gateway's configuration.
    pub config: toml::Table,
    /// What comes in by each port.
    pub inputs: BTreeMap<String, Vec<Seen>>,
    /// What control does.
    pub steps: Vec<Step>,
    /// How long to go on after the last event, in nanoseconds from the start.
    pub until: u64,
    /// What must leave by each port.
    pub outputs: BTreeMap<String, Vec<(u64, Packet)>>,
    /// What must be dropped, as `pipeline.stage.reason`.
    pub drops: BTreeMap<String, u64>,
    /// What the slow path must consume.
    pub punts: BTreeMap<String, u64>,
    /// What the gateway must have counted beside; names not here are not asked for.
    pub counts: BTreeMap<String, u64>,
    now: u64,
}

impl Case {
    /// A case with that configuration (TOML).
    ///
    /// # Panics
    /// When the configuration is no TOML.
    pub fn new(text: &str, config: &str) -> Self {
        let config = config.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        Self { text: text.to_owned(), config, until: ms(10), ..Self::default() }
    }

    /// The same under a name.
    pub fn named(mut self, group: &str, name: &str) -> Self {
        self.name = format!("{group}/{name}");
        self
    }

    /// Changes the configuration: tables are merged, everything else is replaced.
    ///
    /// # Panics
    /// When `toml` is none.
    pub fn with(mut self, toml: &str) -> Self {
        let change: toml::Table = toml.parse().unwrap_or_else(|error| panic!("{}: {error}", self.text));
        merge(&mut self.config, change);
        self
    }

    /// What follows happens at that time, in nanoseconds from the start.
    pub fn at(mut self, now: u64) -> Self {
        self.now = now;
        self.until = self.until.max(now + ms(10));
        self
    }

    /// A packet comes in by a port.
    pub fn send(mut self, port: &str, packet: &Packet) -> Self {
        let seen = Seen { at: self.now, bytes: packet.build() };
        self.inputs.entry(port.to_owned()).or_default().push(seen);
        self
    }

    /// A packet must have left by a port.
    pub fn expect(mut self, port: &str, packet: &Packet) -> Self {
        self.outputs.entry(port.to_owned()).or_default().push((self.now, packet.clone()));
        self
    }

    /// That many packets must be dropped in that stage (`uplink.check_source`) under that name.
    pub fn drops(mut self, place: &str, count: u64) -> Self {
        *self.drops.entry(place.to_owned()).or_default() += count;
        self
    }

    /// The slow path must consume that many for that reason.
    pub fn punts(mut self, why: &str, count: u64) -> Self {
        *self.punts.entry(why.to_owned()).or_default() += count;
        self
    }

    /// The gateway must have counted that.
    pub fn counts(mut self, what: &str, value: u64) -> Self {
        self.counts.insert(what.to_owned(), value);
        self
    }

    /// Control does something (an inline table without braces: `do = "remove", ue = 3`).
    ///
    /// # Panics
    /// When that is no TOML.
    pub fn step(mut self, what: &str) -> Self {
        let table: toml::Table = format!("step = {{ {what} }}").parse().unwrap_or_else(|e| panic!("{what}: {e}"));
        let what = table["step"].as_table().expect("an inline table").clone();
        self.steps.push(Step { at: self.now, what });
        self
    }

    /// Any change, for loops and conditions in the middle of a story.
    pub fn then(self, change: impl FnOnce(Self) -> Self) -> Self {
        change(self)
    }
}

fn merge(into: &mut toml::Table, change: toml::Table) {
    for (key, value) in change {
        match (into.get_mut(&key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) => merge(old, new),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}
