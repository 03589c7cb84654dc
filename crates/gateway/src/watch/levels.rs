//! Pools and tables that are nearly full: reported once at 90 %, and once when they are below 80 % again.

use std::collections::BTreeSet;

const FULL_PERCENT: u64 = 90;
const RELIEVED_PERCENT: u64 = 80;

/// How much of a pool or table is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Name of the pool or table.
    pub pool: String,
    /// How much of it is used.
    pub used: u64,
    /// How much there is.
    pub capacity: u64,
}

/// Those that are nearly full.
#[derive(Debug, Default)]
pub struct Levels(BTreeSet<String>);

impl Levels {
    /// A look at pools and tables; those that are not among them stay as they were.
    pub fn look(&mut self, levels: &[Level]) {
        for Level { pool, used, capacity } in levels.iter().filter(|level| level.capacity > 0) {
            let percent = u128::from(*used) * 100 / u128::from(*capacity);
            let percent = percent.min(100) as u64;
            if percent >= FULL_PERCENT && self.0.insert(pool.clone()) {
                tracing::warn!(
                    target: "worker", event = "pool_nearly_full", pool, used, capacity, percent,
                    "{pool}: {percent} % in use"
                );
            }
            if percent < RELIEVED_PERCENT && self.0.remove(pool) {
                tracing::info!(
                    target: "worker", event = "pool_relieved", pool, used, capacity, percent,
                    "{pool}: {percent} % in use"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tests::emitted;

    #[test]
    fn a_level_is_reported_once_with_hysteresis() {
        let records = emitted("info", || {
            let mut levels = Levels::default();
            for used in [10, 899, 900, 950, 1000, 880, 905, 800, 799, 850, 10, 901] {
                let level = |pool: &str, used, capacity| Level { pool: pool.to_owned(), used, capacity };
                levels.look(&[level("sessions", used, 1000), level("tunnels", used, 1 << 32), level("none", 0, 0)]);
            }
        });
        let said: Vec<_> = records.iter().map(|record| record.logfmt(false)).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("event=pool_nearly_full pool=sessions used=900 capacity=1000 percent=90"), "{said:?}");
        assert!(said[1].contains("event=pool_relieved pool=sessions used=799"), "{said:?}");
        assert!(said[2].contains("event=pool_nearly_full pool=sessions used=901"), "{said:?}");
    }
}
