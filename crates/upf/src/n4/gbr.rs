//! Capacity for guaranteed bit rates (GBR, 3GPP TS 29.244, 8.2.9), as configured.

use sessions::gbr::Capacity;
pub use sessions::gbr::GuaranteedView;

use super::N4;
use crate::config::{Config, GbrCapacity, parse_rate};

/// As configured; mistakes were found before.
pub(super) fn capacity(config: &Config) -> Capacity {
    let rate = |text: &Option<String>| text.as_deref().and_then(parse_rate);
    let capacities = config.n4.iter().flat_map(|n4| &n4.gbr_capacity);
    let of_one = |one: &GbrCapacity| (config.instance(one.instance.as_deref()), [rate(&one.up), rate(&one.down)]);
    capacities.map(of_one).collect()
}

impl N4 {
    /// What is set aside for guaranteed bit rates.
    pub fn guaranteed(&self) -> GuaranteedView {
        self.store.guaranteed.view()
    }
}
