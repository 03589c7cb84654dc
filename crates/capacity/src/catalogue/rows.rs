//! The rows of the four tables. A blank cell is unknown, never zero and never unlimited.

use crate::tables::{row, words};

row! {
    /// A machine type: `machines.tsv`.
    MachineRow in "machines.tsv" by |row| row.machine.clone() => {
        /// What prices and measurements name it by, such as `c5n.4xlarge`.
        machine: String,
        /// `aws`, `azure`, `gcp`, or another cloud.
        provider: String,
        /// Types of a family share processor and network card.
        family: String,
        /// `x86_64`, `arm64`.
        arch: Option<String>,
        /// Hardware threads.
        vcpus: Option<u32>,
        cores: Option<u32>,
        threads_per_core: Option<u32>,
        /// The clock it is sold with.
        clock_ghz: Option<f64>,
        memory_gib: Option<f64>,
        bare_metal: Option<bool>,
        /// Nobody else is on its host.
        whole_host: Option<bool>,
        /// Bandwidth each way, all the time.
        baseline_gbps: Option<f64>,
        /// Bandwidth each way, for a while or at most.
        burst_gbps: Option<f64>,
        network_cards: Option<u32>,
        /// Network interfaces, the administration's among them.
        interfaces: Option<u32>,
        interfaces_of_default_card: Option<u32>,
        ipv4_per_interface: Option<u32>,
        ipv6_per_interface: Option<u32>,
        /// Queues of an interface by default.
        queues_by_default: Option<u32>,
        /// Queues of an interface that can be used: no more than vCPUs.
        queues: Option<u32>,
        queues_at_most: Option<u32>,
        queues_of_card: Option<u32>,
        flexible_queues: Option<String>,
        extra_flexible_interfaces: Option<u32>,
        ena_express: Option<String>,
        single_flow_gbps: Option<f64>,
        /// Of one flow, inside a cluster placement group.
        single_flow_cluster_gbps: Option<f64>,
        single_flow_express_gbps: Option<f64>,
        /// A row of `sources.tsv`.
        source: String,
        notes: Option<String>,
    }
}

words! {
    /// What a price is paid for.
    PriceKind {
        /// An instance of a type.
        Instance = "instance",
        /// A host of one's own for instances of a family.
        Host = "host",
    }
}

row! {
    /// A price on demand: `prices.tsv`. Of several days the newest counts.
    PriceRow in "prices.tsv" by |row| format!("{}\t{}\t{:?}\t{}", row.machine, row.region, row.kind, row.date) => {
        /// The type; of a host the family with its provider, such as `azure/Dsv6`.
        machine: String,
        /// The provider's name of it.
        region: String,
        kind: PriceKind,
        /// The day it was stated, as `2026-07-20`.
        date: Date,
        usd_per_hour: f64,
        /// A row of `sources.tsv`.
        source: String,
    }
}

words! {
    /// What packets were counted.
    Counting {
        /// Packets that the machine received, whether or not it sent them on.
        Receive = "receive",
        /// Packets that the machine sent, wherever they came from.
        Transmit = "transmit",
        /// Packets forwarded, each once.
        Forwarded = "forwarded",
        /// Packets received and packets sent, together.
        Bidirectional = "bidirectional",
        /// As many in each direction.
        Each = "each",
        /// The observer does not say.
        Unstated = "unstated",
    }
}

words! {
    /// What the packet rate is the rate of.
    Scope {
        /// One queue of an interface.
        Queue = "queue",
        /// One interface of the machine, both directions of it.
        Interface = "interface",
        /// The whole machine.
        Instance = "instance",
    }
}

words! {
    /// What a measurement is for.
    Role {
        /// The machine carries no more than this, whatever runs on it.
        Limit = "limit",
        /// What a gateway carried: a point of plans for such gateways.
        Point = "point",
        /// To know, and not calculated with.
        Note = "note",
    }
}

row! {
    /// A packet rate somebody measured: `measurements.tsv`. A machine has many.
    MeasurementRow in "measurements.tsv" by MeasurementRow::identity => {
        /// A type, a server, or with `clock_ghz` any name.
        machine: String,
        /// `upf`, `bng` or `cmts`: what ran, for a point.
        gateway: Option<String>,
        counting: Counting,
        scope: Scope,
        /// Units that ran, for a point.
        units: Option<u32>,
        /// The mean frame.
        frame_bytes: Option<f64>,
        /// Subscribers of each unit, for a point.
        subscribers: Option<f64>,
        /// Millions of packets a second, at least.
        low_mpps: Option<f64>,
        /// Millions of packets a second; for a point all units together.
        mpps: f64,
        /// Millions of packets a second, at most.
        high_mpps: Option<f64>,
        /// The clock it ran at, where `machine` is in no table.
        clock_ghz: Option<f64>,
        /// The architecture, where `machine` is in no table.
        arch: Option<String>,
        role: Role,
        /// When, as `2026-07-20` or `2021`.
        date: Option<Date>,
        /// A row of `sources.tsv`.
        source: String,
        note: Option<String>,
    }
}

impl MeasurementRow {
    fn identity(&self) -> String {
        let Self { machine, gateway, counting, scope, units, frame_bytes, subscribers, date, source, note, .. } = self;
        format!(
            "{machine}\t{gateway:?}\t{counting:?}\t{scope:?}\t{units:?}\t{frame_bytes:?}\t{subscribers:?}\t{date:?}\t\
             {source}\t{note:?}"
        )
    }

    /// Who says so, when.
    pub fn told(&self) -> String {
        let date = self.date.as_ref().map_or_else(String::new, |date| format!(" ({date})"));
        let note = self.note.as_ref().map_or_else(String::new, |note| format!(", {note}"));
        format!("{}{date}{note}", self.source)
    }
}

row! {
    /// Where rows are from: `sources.tsv`.
    SourceRow in "sources.tsv" by |row| row.source.clone() => {
        /// What other tables name it by.
        source: String,
        title: String,
        /// When it was published or generated.
        date: Option<Date>,
        /// Where it can be read again: repository, commit and file, or address.
        reference: String,
        about: Option<String>,
    }
}

/// A day, a month or a year: `2026-07-20`, `2026-07`, `2021`. Later ones compare greater.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Date(pub String);

impl std::fmt::Display for Date {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl crate::tables::Cell for Date {
    fn read(text: &str) -> Result<Self, String> {
        let mut parts = text.split('-');
        let mut part = |digits: usize, most: u32| match parts.next() {
            Some(part) => part.len() == digits && part.parse().is_ok_and(|n: u32| n >= 1 && n <= most),
            None => digits == 2,
        };
        let right = part(4, 9999) && part(2, 12) && part(2, 31) && parts.next().is_none();
        if right { Ok(Self(text.to_owned())) } else { Err("a day such as 2026-07-20, or a year".to_owned()) }
    }

    fn write(&self) -> String {
        self.0.clone()
    }
}
