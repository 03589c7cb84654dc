//! What an hour costs: machines on demand or under commitment, and the traffic that leaves or crosses a transit gateway.

use schemars::JsonSchema;
use serde::Serialize;

use crate::demand::Demand;
use crate::known::Known;
use crate::path::{Charge, Level, leaving};
use crate::quantity::{BitRate, HOURS_A_MONTH, Hourly, PerGigabyte};
use crate::question::PriceInput;

/// An hour of one machine, after what a commitment takes off.
pub fn machine(on_demand: &Known<Hourly>, price: &PriceInput) -> Known<Hourly> {
    let Some(off) = &price.commitment else { return on_demand.clone() };
    let share = price.committed.unwrap_or(1.0);
    let left = |off: f64| 1.0 - share * off;
    Known {
        low: on_demand.low * left(off.high.0),
        value: on_demand.value * left(off.value.0),
        high: on_demand.high * left(off.low.0),
        from: on_demand.from.max(off.from),
        source: format!("{}, {} % under commitment at −{} %", on_demand.source, 100.0 * share, 100.0 * off.value.0),
    }
}

/// Traffic that costs money, by the hour at the demand planned for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Traffic {
    /// What leaves, gigabytes an hour.
    pub transfer_gb_per_hour: Option<f64>,
    /// What that costs.
    pub transfer_usd_per_hour: Option<Hourly>,
    /// What crosses transit gateways, gigabytes an hour, each crossing counted.
    pub transit_gb_per_hour: Option<f64>,
    /// What that costs.
    pub transit_usd_per_hour: Option<Hourly>,
    /// What carrying the same on premise costs.
    pub own_usd_per_hour: Option<Hourly>,
    /// What else a cloud takes for the path of the traffic.
    pub path: Vec<Charge>,
}

impl Traffic {
    pub fn of(demand: &Demand, price: &PriceInput) -> Self {
        let leaves = leaving(demand, price.transfer_of);
        let crosses = price.transit_crossings.zip(demand.bits()).map(|(times, bits)| bits * f64::from(times));
        let cost = |bits: Option<BitRate>, each: Option<&Known<PerGigabyte>>| Some(bits? * each?.value);
        Self {
            transfer_gb_per_hour: leaves.filter(|_| price.transfer.is_some()).map(BitRate::gigabytes_an_hour),
            transfer_usd_per_hour: cost(leaves, price.transfer.as_ref()),
            transit_gb_per_hour: crosses.map(BitRate::gigabytes_an_hour),
            transit_usd_per_hour: cost(crosses, price.transit.as_ref()),
            own_usd_per_hour: cost(leaves, price.own_transfer.as_ref()),
            path: Vec::new(),
        }
    }

    /// What a cloud takes for traffic, as far as the plan has prices.
    pub fn cloud(&self) -> Hourly {
        let path: Hourly = self.path.iter().map(|charge| charge.usd_per_hour.value).sum();
        self.by_the_gigabyte() + path
    }

    fn by_the_gigabyte(&self) -> Hourly {
        [self.transfer_usd_per_hour, self.transit_usd_per_hour].into_iter().flatten().sum()
    }

    /// The same at another level of demand, dollars an hour.
    pub fn cloud_at(&self, level: Level) -> f64 {
        self.by_the_gigabyte().0 * level.now + self.path.iter().map(|charge| charge.usd(level)).sum::<f64>()
    }

    /// What traffic on premise takes, as far as the plan has prices.
    pub fn own(&self) -> Hourly {
        self.own_usd_per_hour.unwrap_or_default()
    }
}

/// A month of 730 hours.
pub fn month(hour: Hourly) -> f64 {
    hour.0 * HOURS_A_MONTH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::Provenance;
    use crate::quantity::Ratio;

    #[test]
    fn a_commitment_takes_its_share_off() {
        let on_demand = Known::exactly(Hourly(1.0), Provenance::Published, "");
        let half =
            PriceInput { commitment: Some(Known::assumed(Ratio(0.4))), committed: Some(0.5), ..PriceInput::default() };
        let price = machine(&on_demand, &half);
        assert!((price.value.0 - 0.8).abs() < 1e-12 && price.from == Provenance::Assumed);
        assert_eq!(machine(&on_demand, &PriceInput::default()), on_demand);
    }

    #[test]
    fn without_a_price_there_is_no_cost_not_a_cost_of_nothing() {
        let demand = Demand::of(&toml::from_str("groups = 1\neach = '11 Gbit/s'\ndown_up = '10:1'").unwrap()).unwrap();
        assert_eq!(Traffic::of(&demand, &PriceInput::default()), Traffic::default());
        let price: PriceInput = toml::from_str("transfer = '0.02 $/GB'").unwrap();
        assert!((Traffic::of(&demand, &price).transfer_usd_per_hour.unwrap().0 - 90.0).abs() < 1e-9);
    }
}
