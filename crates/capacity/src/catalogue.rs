//! What the planner knows of machines: four tables, `machines`, `prices`, `measurements` and `sources`. Those that come with
//! weir and those of an operator are read by the same code; an operator's rows replace those of the same key.
//!
//! Packets per second are nowhere promised by a cloud; what was observed stands in `measurements`, because observers count
//! differently (received, sent, both, forwarded) and of different things (instance, interface, queue). Here all are brought
//! to one: packets *forwarded* a second, each counted once.

mod measured;
mod rows;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Serialize;

use crate::known::{Known, Provenance};
use crate::machine::{Machine, Place};
use crate::quantity::{BitRate, Clock, Hourly, Memory};
use crate::tables::{self, Entry, Row, TableError};

pub use rows::{Counting, Date, MachineRow, MeasurementRow, PriceKind, PriceRow, Role, Scope, SourceRow};

/// The machine types that come with weir.
pub const MACHINES: &str = include_str!("../data/machines.tsv");
/// Their prices on demand, by region and day.
pub const PRICES: &str = include_str!("../data/prices.tsv");
/// The packet rates observed on them.
pub const MEASUREMENTS: &str = include_str!("../data/measurements.tsv");
/// Where the other tables' rows are from.
pub const SOURCES: &str = include_str!("../data/sources.tsv");

/// The four tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    pub machines: Vec<Entry<MachineRow>>,
    pub prices: Vec<Entry<PriceRow>>,
    pub measurements: Vec<Entry<MeasurementRow>>,
    pub sources: Vec<Entry<SourceRow>>,
}

/// The rows of the four tables.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Rows<'a> {
    pub machines: Vec<&'a MachineRow>,
    pub prices: Vec<&'a PriceRow>,
    pub measurements: Vec<&'a MeasurementRow>,
    pub sources: Vec<&'a SourceRow>,
}

/// A table's name for errors and its text; none where there is no such table.
pub type Found = Option<(String, String)>;

/// The region whose prices count, by provider.
pub type Regions = BTreeMap<String, String>;

/// The region whose price stands for a provider where the plan names none: where the lists begin.
const BASE: [(&str, &str); 3] = [("aws", "us-east-1"), ("azure", "eastus"), ("gcp", "us-central1")];

/// A price elsewhere by that of the base region: P10, P50 and P90 of 2,263 prices in the lists of Azure (2026-06-18) and GCP
/// (2026-08-03), of one type in two regions each.
const ELSEWHERE: [f64; 3] = [1.04, 1.2, 1.56];

static BUILT_IN: LazyLock<Result<Catalogue, TableError>> = LazyLock::new(|| {
    Catalogue::read(&|file| {
        let text = match file {
            MachineRow::FILE => MACHINES,
            PriceRow::FILE => PRICES,
            MeasurementRow::FILE => MEASUREMENTS,
            _ => SOURCES,
        };
        Ok(Some((file.to_owned(), text.to_owned())))
    })
});

/// The machines that come with weir, at the prices of their providers' base regions.
pub fn catalogue() -> Vec<Machine> {
    let built_in = Catalogue::built_in();
    let mut machines = built_in.machines(&Regions::new());
    built_in.measured(&mut machines);
    machines
}

impl Catalogue {
    /// The tables that come with weir.
    ///
    /// # Panics
    /// Never: a test reads them.
    pub fn built_in() -> &'static Self {
        match &*BUILT_IN {
            Ok(catalogue) => catalogue,
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads tables: `text` gives a table's name for errors and its text, or none where there is no such table.
    ///
    /// # Errors
    /// What `text` says, or [`TableError`].
    pub fn read<E: From<TableError>>(text: &dyn Fn(&str) -> Result<Found, E>) -> Result<Self, E> {
        fn table<R: Row, E: From<TableError>>(text: &dyn Fn(&str) -> Result<Found, E>) -> Result<Vec<Entry<R>>, E> {
            match text(R::FILE)? {
                Some((name, text)) => Ok(tables::read(&name, &text)?),
                None => Ok(Vec::new()),
            }
        }
        Ok(Self { machines: table(text)?, prices: table(text)?, measurements: table(text)?, sources: table(text)? })
    }

    /// Puts other tables over these.
    pub fn merge(&mut self, over: Self) {
        tables::merge(&mut self.machines, over.machines);
        tables::merge(&mut self.prices, over.prices);
        tables::merge(&mut self.measurements, over.measurements);
        tables::merge(&mut self.sources, over.sources);
    }

    /// Whether rows name what there is. `servers`: names of machines that are in no table.
    ///
    /// # Errors
    /// A row that names a machine or a source that is not there, or says too little.
    pub fn check<'n>(&'n self, servers: impl Iterator<Item = &'n str>) -> Result<(), TableError> {
        let sources: HashSet<&str> = self.sources.iter().map(|entry| entry.row.source.as_str()).collect();
        let mut machines: HashSet<&str> = self.machines.iter().map(|entry| entry.row.machine.as_str()).collect();
        let families: HashSet<String> = self.machines.iter().map(|entry| entry.row.family_of_provider()).collect();
        let family = |name: &str| families.contains(name);
        for entry in &self.machines {
            known(entry, "source", &entry.row.source, &sources)?;
        }
        for entry in &self.prices {
            known(entry, "source", &entry.row.source, &sources)?;
            match entry.row.kind {
                PriceKind::Instance => known(entry, "machine", &entry.row.machine, &machines)?,
                PriceKind::Host if family(&entry.row.machine) => {}
                PriceKind::Host => {
                    let what = format!("there is no family \"{}\" in machines.tsv", entry.row.machine);
                    return Err(entry.wrong("machine", what, "provider and family, such as azure/Dsv6"));
                }
            }
        }
        machines.extend(servers);
        for entry in &self.measurements {
            known(entry, "source", &entry.row.source, &sources)?;
            if entry.row.clock_ghz.is_none() || entry.row.role != Role::Point {
                known(entry, "machine", &entry.row.machine, &machines)?;
            }
            entry.row.check().map_err(|(column, what, help)| entry.wrong(column, what, help))?;
        }
        Ok(())
    }

    pub fn rows(&self) -> Rows<'_> {
        Rows {
            machines: self.machines.iter().map(|entry| &entry.row).collect(),
            prices: self.prices.iter().map(|entry| &entry.row).collect(),
            measurements: self.measurements.iter().map(|entry| &entry.row).collect(),
            sources: self.sources.iter().map(|entry| &entry.row).collect(),
        }
    }

    /// The tables as files: name and text.
    pub fn files(&self) -> [(&'static str, String); 4] {
        [
            (MachineRow::FILE, tables::write(&self.machines)),
            (PriceRow::FILE, tables::write(&self.prices)),
            (MeasurementRow::FILE, tables::write(&self.measurements)),
            (SourceRow::FILE, tables::write(&self.sources)),
        ]
    }

    /// Regions in which a provider's types have prices.
    pub fn regions(&self, provider: &str) -> Vec<&str> {
        let of: HashSet<&str> =
            self.machines.iter().filter(|m| m.row.provider == provider).map(|m| m.row.machine.as_str()).collect();
        let priced = self.prices.iter().filter(|entry| of.contains(entry.row.machine.as_str()));
        let regions: std::collections::BTreeSet<&str> = priced.map(|entry| entry.row.region.as_str()).collect();
        regions.into_iter().collect()
    }

    /// All types as machines, without packet rates.
    pub fn machines(&self, regions: &Regions) -> Vec<Machine> {
        let mut prices: HashMap<(&str, PriceKind), Vec<&PriceRow>> = HashMap::new();
        for entry in &self.prices {
            prices.entry((&entry.row.machine, entry.row.kind)).or_default().push(&entry.row);
        }
        let all = self.machines.iter().map(|entry| {
            let mut machine = entry.row.machine();
            let wanted = regions.get(&machine.provider).map(String::as_str);
            let price =
                |name: &str, kind: PriceKind| in_region(prices.get(&(name, kind))?, &entry.row.provider, wanted);
            machine.price = price(&machine.name, PriceKind::Instance);
            machine.host_price = price(&machine.family, PriceKind::Host);
            machine
        });
        all.collect()
    }
}

fn known<R: Row>(entry: &Entry<R>, column: &str, name: &str, all: &HashSet<&str>) -> Result<(), TableError> {
    if all.contains(name) {
        return Ok(());
    }
    let table = if column == "source" { "sources.tsv" } else { "machines.tsv" };
    let help = crate::check::near(name, all.iter().copied());
    Err(entry.wrong(column, format!("\"{name}\" is not in {table}"), help))
}

/// The price of a region, or what another region's says of it.
fn in_region(prices: &[&PriceRow], provider: &str, wanted: Option<&str>) -> Option<Known<Hourly>> {
    let newest = |region: &str| prices.iter().filter(|row| row.region == region).max_by(|a, b| a.date.cmp(&b.date));
    let told = |row: &PriceRow| format!("on demand, {}, {}", row.region, row.date);
    let base = BASE.iter().find(|(name, _)| *name == provider).and_then(|(_, region)| newest(region));
    if let Some(row) = wanted.map_or(base, newest) {
        return Some(Known::exactly(Hourly(row.usd_per_hour), Provenance::Published, told(row)));
    }
    let cheapest = || prices.iter().min_by(|a, b| a.usd_per_hour.total_cmp(&b.usd_per_hour));
    let row = base.or_else(cheapest)?;
    let Some(wanted) = wanted else {
        // Only there, and the plan asks for no other.
        return Some(Known::exactly(Hourly(row.usd_per_hour), Provenance::Published, told(row)));
    };
    let [low, value, high] = ELSEWHERE.map(|by| Hourly(row.usd_per_hour * by));
    let source = format!("{}, times 1.04 to 1.56: no price of {wanted} is known", told(row));
    Some(Known { low, value, high, from: Provenance::Assumed, source })
}

impl MachineRow {
    /// `aws/c5n`.
    fn family_of_provider(&self) -> String {
        format!("{}/{}", self.provider, self.family)
    }

    fn machine(&self) -> Machine {
        let gbps = |gbps: Option<f64>| gbps.map(|gbps| BitRate(gbps * 1e9));
        Machine {
            name: self.machine.clone(),
            place: Place::Cloud,
            provider: self.provider.clone(),
            family: self.family_of_provider(),
            arch: self.arch.clone(),
            vcpus: self.vcpus,
            numa_nodes: 1,
            clock: self.clock_ghz.map(|ghz| Clock(ghz * 1e9)),
            memory: self.memory_gib.map(|gib| Memory(gib * 1024.0_f64.powi(3))),
            l3: None,
            interfaces: self.interfaces,
            queues: self.queues,
            baseline: gbps(self.baseline_gbps),
            burst: gbps(self.burst_gbps),
            single_flow: gbps(self.single_flow_gbps),
            single_flow_cluster: gbps(self.single_flow_cluster_gbps),
            packets: None,
            packets_per_interface: None,
            whole_host: self.bare_metal == Some(true) || self.whole_host == Some(true),
            through_gateway: false,
            price: None,
            host_price: None,
            rack_units: None,
            power: None,
            notes: self.notes.clone().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests;
