//! From measurements to limits of machines, and to points of plans.

use std::collections::HashMap;

use super::{Catalogue, Counting, MeasurementRow, Role, Scope};
use crate::frames::Mix;
use crate::known::{Known, Provenance};
use crate::machine::Machine;
use crate::quantity::{Clock, FrameSize, PacketRate, Quantity};
use crate::question::{Directions, Gateway, PointInput};

/// What was counted, and what that says about packets forwarded: `(at least, at most, is it about forwarding)` as
/// shares. Clouds give one budget to both ways, so a rate received alone may be twice what can be forwarded.
fn as_forwarded(counting: Counting, scope: Scope) -> (f64, f64, bool) {
    match (counting, scope) {
        // Of a unit's two interfaces each sees every packet once, in or out.
        (Counting::Bidirectional, Scope::Interface | Scope::Queue) | (Counting::Forwarded, _) => (1.0, 1.0, true),
        (Counting::Each, Scope::Interface | Scope::Queue) => (2.0, 2.0, true),
        (Counting::Each, Scope::Instance) => (1.0, 1.0, true),
        (Counting::Bidirectional, Scope::Instance) => (0.5, 0.5, true),
        // Received only, sent only, or not said.
        (Counting::Receive | Counting::Transmit | Counting::Unstated, _) => (0.5, 1.0, false),
    }
}

/// A packet rate forwarded, and whether forwarding is what was observed.
type Seen = (Known<PacketRate>, bool);

/// Several observations of a machine become one range; its value is the most cautious of those that forwarded, and
/// where none did, the most cautious reading of all.
fn together(seen: &[Seen]) -> Option<Known<PacketRate>> {
    let extreme = |of: &dyn Fn(&Known<PacketRate>) -> f64, pick: fn(f64, f64) -> f64, only: bool| {
        seen.iter().filter(|(_, forwards)| !only || *forwards).map(|(known, _)| of(known)).reduce(pick)
    };
    let value = extreme(&|k| k.value.get(), f64::min, true).or(extreme(&|k| k.value.get(), f64::min, false))?;
    let sources: Vec<&str> = seen.iter().map(|(known, _)| known.source.as_str()).collect();
    Some(Known {
        low: PacketRate(extreme(&|k| k.low.get(), f64::min, false)?),
        value: PacketRate(value),
        high: PacketRate(extreme(&|k| k.high.get(), f64::max, false)?),
        from: Provenance::Published,
        source: sources.join("; "),
    })
}

impl MeasurementRow {
    /// # Errors
    /// The column, what is wrong, what would be right.
    pub(super) fn check(&self) -> Result<(), (&'static str, String, &'static str)> {
        let wrong = |column, what: &str, help| Err((column, what.to_owned(), help));
        let low = self.low_mpps.unwrap_or(self.mpps);
        let high = self.high_mpps.unwrap_or(self.mpps);
        if self.mpps <= 0.0 {
            return wrong("mpps", "nothing was carried", "more than 0");
        }
        if !(low <= self.mpps && self.mpps <= high) {
            let what = format!("{low} to {high} without {}", self.mpps);
            return Err(("low_mpps", what, "low_mpps at most mpps, high_mpps at least mpps"));
        }
        if self.role != Role::Point {
            return Ok(());
        }
        if self.gateway().is_none() {
            return wrong("gateway", "which gateway carried it?", "upf, bng or cmts");
        }
        if self.units.is_none_or(|units| units == 0) {
            return wrong("units", "how many units carried it?", "at least 1");
        }
        match (self.counting, self.scope) {
            (Counting::Forwarded, Scope::Instance) => Ok(()),
            _ => wrong("counting", "a point is what a gateway forwarded", "forwarded, with instance as scope"),
        }
    }

    fn gateway(&self) -> Option<Gateway> {
        match self.gateway.as_deref()? {
            "upf" => Some(Gateway::Upf),
            "bng" => Some(Gateway::Bng),
            "cmts" => Some(Gateway::Cmts),
            _ => None,
        }
    }

    fn seen(&self) -> Seen {
        let (least, most, forwards) = as_forwarded(self.counting, self.scope);
        let mpps = |mpps: Option<f64>, share: f64| PacketRate(mpps.unwrap_or(self.mpps) * 1e6 * share);
        let known = Known {
            low: mpps(self.low_mpps, least),
            value: mpps(None, least),
            high: mpps(self.high_mpps, most),
            from: Provenance::Published,
            source: self.told(),
        };
        (known, forwards)
    }

    /// As a plan's point; for a row that passed its check.
    fn point(&self) -> PointInput {
        let units = self.units.unwrap_or(1).max(1);
        let each = |mpps: f64| PacketRate(mpps * 1e6 / f64::from(units));
        PointInput {
            machine: self.machine.clone(),
            units,
            each: None,
            each_packets: Some(Known {
                low: each(self.low_mpps.unwrap_or(self.mpps)),
                value: each(self.mpps),
                high: each(self.high_mpps.unwrap_or(self.mpps)),
                from: Provenance::Measured,
                source: self.told(),
            }),
            directions: Directions::Both,
            frame: self.frame_bytes.map(|bytes| Mix::of(FrameSize(bytes))),
            subscribers: self.subscribers,
            from: Provenance::Measured,
            source: self.told(),
            clock: self.clock_ghz.map(|ghz| Known::exactly(Clock(ghz * 1e9), Provenance::Measured, self.told())),
            arch: self.arch.clone(),
        }
    }
}

impl Catalogue {
    /// Gives machines the packet rates that were measured on them, where they have none of their own.
    pub fn measured(&self, machines: &mut [Machine]) {
        let mut all: HashMap<(&str, Scope), Vec<Seen>> = HashMap::new();
        for row in self.measurements.iter().map(|entry| &entry.row).filter(|row| row.role == Role::Limit) {
            all.entry((&row.machine, row.scope)).or_default().push(row.seen());
        }
        for machine in machines {
            let name = machine.name.clone();
            let of = |scope: Scope| all.get(&(name.as_str(), scope)).and_then(|seen| together(seen));
            // What each queue carries, all queues of an interface carry together at most.
            let of_queues = || {
                let queues = f64::from(machine.queues?);
                let mut known = of(Scope::Queue)?.map(|each| each * queues);
                known.source = format!("{queues} queues: {}", known.source);
                Some(known)
            };
            let of_interface = of(Scope::Interface).or_else(of_queues);
            machine.packets = machine.packets.take().or_else(|| of(Scope::Instance));
            machine.packets_per_interface = machine.packets_per_interface.take().or(of_interface);
        }
    }

    /// What gateways of a kind carried: points of a plan for them.
    pub fn points(&self, gateway: Gateway) -> Vec<PointInput> {
        let rows = self.measurements.iter().map(|entry| &entry.row);
        rows.filter(|row| row.role == Role::Point && row.gateway() == Some(gateway))
            .map(MeasurementRow::point)
            .collect()
    }
}
