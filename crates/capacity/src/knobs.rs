//! What a reader turns of a plan without writing it anew: by `weir plan --set` and by the sliders of its page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::known::Known;
use crate::plan::World;
use crate::quantity::{Quantity, Ratio};
use crate::question::Question;
use crate::wrong::Wrong;

/// What is turned; each left out stays as the plan has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Knobs {
    /// Factor on the demand of each subscriber, device or group.
    pub demand: Option<f64>,
    /// Factor on the price of every machine, a cloud's or one's own.
    pub price: Option<f64>,
    /// What neighbours on a shared host leave of a unit's throughput, instead of all factors of `placement.sharing`.
    pub sharing: Option<f64>,
    /// Growth a year, instead of `demand.growth_per_year`: 0.2 is 20 %.
    pub growth: Option<f64>,
}

impl Knobs {
    /// Each by its name, with the least and the most it may be.
    pub const ALL: [(&str, f64, f64); 4] =
        [("demand", 0.01, 100.0), ("price", 0.01, 100.0), ("sharing", 0.01, 1.0), ("growth", -0.9, 10.0)];

    /// Sets one by its name.
    ///
    /// # Errors
    /// A name that none has, or a value out of its range.
    pub fn set(&mut self, name: &str, value: f64) -> Result<(), String> {
        let Some((_, least, most)) = Self::ALL.into_iter().find(|(known, ..)| *known == name) else {
            let names = Self::ALL.map(|(name, ..)| name).join(", ");
            return Err(format!("\"{name}\" cannot be set; {names} can"));
        };
        if !(least..=most).contains(&value) {
            return Err(format!("{name} is {value}; it may be {least} to {most}"));
        }
        let field = match name {
            "demand" => &mut self.demand,
            "price" => &mut self.price,
            "sharing" => &mut self.sharing,
            _ => &mut self.growth,
        };
        *field = Some(value);
        Ok(())
    }

    /// Where each stands in a plan before it is turned; none for what would turn nothing there.
    pub fn standing(question: &Question) -> Self {
        let shared = question.placement.host == crate::question::Host::Shared;
        let left = || question.placement.sharing.iter().map(|known| known.value.0).product();
        let growth = question.demand.years.and(question.demand.growth_per_year.as_ref());
        Self {
            demand: Some(1.0),
            price: Some(1.0),
            sharing: shared.then(left),
            growth: growth.map(|growth| growth.value.0),
        }
    }

    /// Turns a plan and the machines it looks at.
    ///
    /// # Errors
    /// What would change nothing: growth of a plan that looks no years ahead.
    pub fn turn(&self, question: &mut Question, world: &mut World) -> Result<(), Wrong> {
        if let Some(by) = self.demand {
            question.demand.scale(by);
        }
        if let Some(by) = self.price {
            scale_all(world.machines.iter_mut().filter_map(|machine| machine.price.as_mut()), by);
        }
        if let Some(left) = self.sharing {
            question.placement.sharing = vec![Known::assumed(Ratio(left))];
        }
        if let Some(growth) = self.growth {
            if question.demand.years.is_none() {
                let what = "growth is set, and the plan looks no years ahead";
                return Err(Wrong::at("demand.years", what, "add years = 3 and growth_per_year"));
            }
            question.demand.growth_per_year = Some(Known::assumed(Ratio(growth)));
        }
        Ok(())
    }
}

pub(crate) fn scale<T: Quantity>(known: &mut Known<T>, by: f64) {
    *known = known.map(|value| T::new(value.get() * by));
}

pub(crate) fn scale_all<'k, T: Quantity + 'k>(all: impl Iterator<Item = &'k mut Known<T>>, by: f64) {
    all.for_each(|known| scale(known, by));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ranges() {
        let mut knobs = Knobs::default();
        assert_eq!(knobs.set("demand", 1.5), Ok(()));
        assert_eq!(knobs.set("growth", 0.2), Ok(()));
        assert_eq!((knobs.demand, knobs.growth, knobs.price), (Some(1.5), Some(0.2), None));
        assert!(knobs.set("sharing", 1.5).unwrap_err().contains("0.01 to 1"));
        assert!(knobs.set("subscribers", 1.0).unwrap_err().contains("demand, price, sharing, growth"));
    }
}
