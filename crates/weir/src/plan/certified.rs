//! A capacity certificate as a machine: its limits, and points of what gateways carried on it.

use std::path::Path;

use capacity::catalogue::{Catalogue, Counting, Date, MeasurementRow, Role, Scope, SourceRow};
use capacity::known::{Known, Provenance};
use capacity::onprem::{Server, Servers};
use capacity::quantity::{Clock, PacketRate};
use capacity::tables::{Cell as _, Entry};
use certificate::{Certificate, Task};
use gateway::fail::Usage;
use gateway::load::{LoadError, Text};
use serde_json::Value;

use super::calibrate::Measured;

/// A machine that a certificate is of.
#[derive(Clone, Debug)]
pub struct Certified {
    /// What plans name it: its type, else the host's name.
    pub machine: String,
    certificate: Certificate,
}

/// What rows name as their source.
const SOURCE: &str = "weir-probe";

/// That source as a row.
pub fn source() -> SourceRow {
    SourceRow {
        source: SOURCE.to_owned(),
        title: "Capacity certificates of weir probe".to_owned(),
        date: None,
        reference: "weir probe quick --json CERT.json, weir plan --from CERT.json --append-to DIR".to_owned(),
        about: Some("receive, transmit and forward of bare ports, one direction, by queues and frame size".to_owned()),
    }
}

/// Whether a document is a certificate, right or wrong.
pub fn is_certificate(value: &Value) -> bool {
    ["content_sha256", "signature", "public_key"].iter().all(|key| value.get(key).is_some())
}

impl Certified {
    /// Reads a certificate; hash and signature must be right.
    ///
    /// # Errors
    /// It was changed, or is of another version.
    pub fn read(file: &Path, measured_on: Option<&str>) -> anyhow::Result<Self> {
        let certificate = crate::probe::read(file, None)?;
        let host = &certificate.host;
        let machine = measured_on.or(host.machine_type.as_deref()).unwrap_or(&host.hostname).to_owned();
        if machine.is_empty() {
            return Err(Usage(format!("{} names no machine; say --measured-on MACHINE", file.display())).into());
        }
        Ok(Self { machine, certificate })
    }

    fn told(&self) -> String {
        format!("{}, {}, {}", self.certificate.run.command, self.certificate.run.port, self.certificate.date)
    }

    /// What weir's gateways carried on it.
    pub fn points(&self) -> Vec<Measured> {
        let Certificate { host, gateways, .. } = &self.certificate;
        let point = |one: &certificate::GatewayRate| {
            let units = u32::from(one.workers.max(1));
            let each = |mpps: f64| PacketRate(mpps * 1e6 / f64::from(units));
            let source = format!("weir probe, {}, {}", one.profile, self.certificate.date);
            let mut caveats = Vec::new();
            if host.steal_ratio > 0.02 {
                caveats.push(format!("{:.0} % of the processors' time went to others", 100.0 * host.steal_ratio));
            }
            if !self.certificate.run.is_complete {
                caveats.push("the certificate is incomplete".to_owned());
            }
            Measured {
                machine: self.machine.clone(),
                gateway: ["upf", "bng"].into_iter().find(|name| *name == one.gateway),
                day: self.day().map(|day| day.0),
                units,
                each: Known {
                    low: each(one.mpps.low),
                    value: each(one.mpps.mid),
                    high: each(one.mpps.high),
                    from: Provenance::Measured,
                    source: source.clone(),
                },
                frame_bytes: one.frame_bytes_mean,
                subscribers: one.subscribers as f64 / f64::from(units),
                cost_ns: [0.0, 0.0, 0.0, 0.0, one.cycles_per_packet / host.tsc_ghz.max(1e-9)],
                clock: Clock(host.tsc_ghz * 1e9),
                arch: self.arch(),
                source,
                crowded: host.cpus > 1 && units as usize > host.cpus - 1,
                caveats,
            }
        };
        gateways.iter().filter(|one| one.mpps.mid > 0.0).map(point).collect()
    }

    fn arch(&self) -> &'static str {
        if self.certificate.host.arch == "aarch64" { "arm64" } else { "x86_64" }
    }

    fn day(&self) -> Option<Date> {
        self.certificate.date.get(..10).and_then(|day| Date::read(day).ok())
    }

    /// Its rates as rows: with one queue those of a queue, with all of them those of an interface and, forwarded, of
    /// the machine. Small frames are limits; others, and what the generator limited, are notes.
    pub fn rows(&self) -> Vec<MeasurementRow> {
        let rates = &self.certificate.rates;
        let host = &self.certificate.host;
        let most = host.queues.max(1);
        // Of virtual links, or with CPUs left over, a rate is no limit of the machine.
        let is_whole = !host.interface.starts_with("veth") && usize::from(most) + 1 >= host.cpus;
        let smallest = rates.iter().map(|rate| rate.frame_bytes).min().unwrap_or(0);
        let mut rows = Vec::new();
        for rate in rates.iter().filter(|rate| rate.mpps.low > 0.0) {
            let counting = match rate.task {
                Task::Receive => Counting::Receive,
                Task::Transmit => Counting::Transmit,
                Task::Forward => Counting::Forwarded,
            };
            let scopes = [
                (Scope::Queue, rate.queues == 1),
                (Scope::Interface, rate.queues == most),
                (Scope::Instance, rate.queues == most && rate.task == Task::Forward),
            ];
            let is_limit = is_whole && rate.frame_bytes == smallest && !rate.is_generator_limited;
            let limited = if rate.is_generator_limited { "; all that the generator sent" } else { "" };
            for (scope, _) in scopes.into_iter().filter(|(_, is)| *is) {
                rows.push(MeasurementRow {
                    machine: self.machine.clone(),
                    gateway: None,
                    counting,
                    scope,
                    units: None,
                    frame_bytes: Some(f64::from(rate.frame_bytes)),
                    subscribers: None,
                    low_mpps: Some(rate.mpps.low),
                    mpps: rate.mpps.mid,
                    high_mpps: Some(rate.mpps.high),
                    clock_ghz: None,
                    arch: None,
                    role: if is_limit { Role::Limit } else { Role::Note },
                    date: self.day(),
                    source: SOURCE.to_owned(),
                    note: Some(format!("{}, {} queues{limited}", self.told(), rate.queues)),
                });
            }
        }
        rows
    }

    /// A server for it, where no table has a machine of its name: without a price, until its section is completed.
    pub fn section(&self) -> String {
        let host = &self.certificate.host;
        let text = |text: &str| toml::Value::String(text.to_owned()).to_string();
        format!(
            "[[server]]\nname = {}\nabout = {}\narch = {}\nsockets = 1\ncores = {}\nthreads_per_core = 1\n\
             clock = {{ value = \"{:.3} GHz\", from = \"measured\", source = \"time stamp counter\" }}\nqueues = {}\n",
            text(&self.machine),
            text(&format!("{}, certificate of {}; CPUs counted as cores", host.cpu, self.certificate.date)),
            text(self.arch()),
            host.cpus.max(1),
            host.tsc_ghz,
            host.queues.max(1),
        )
    }

    /// Adds its rows to a catalogue, and a server where neither catalogue nor servers have the machine.
    ///
    /// # Errors
    /// None of a certificate that [`Certified::read`] has read.
    pub fn add(&self, catalogue: &mut Catalogue, servers: &mut Vec<Server>) -> Result<(), LoadError> {
        let entries = self.rows().into_iter().map(|row| Entry { row, file: "certificate".into(), line: 0 });
        catalogue.measurements.extend(entries);
        if !catalogue.sources.iter().any(|entry| entry.row.source == SOURCE) {
            catalogue.sources.push(Entry { row: source(), file: "certificate".into(), line: 0 });
        }
        if !is_known(&self.machine, catalogue, servers) {
            let text = Text { name: format!("certificate of {}", self.machine), text: self.section() };
            servers.extend(text.parse::<Servers>()?.server);
        }
        Ok(())
    }
}

/// A table has it.
pub fn is_known(machine: &str, catalogue: &Catalogue, servers: &[Server]) -> bool {
    let in_table = catalogue.machines.iter().any(|entry| entry.row.machine == machine);
    in_table || servers.iter().any(|server| server.name == machine)
}
