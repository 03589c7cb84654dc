//! A reload: control and the end of N4 go by another configuration, both or none.

use std::sync::MutexGuard;

use engine::WallClock;
use gateway::shell::reload::Live;

use super::n4::N4;
use crate::config::{Config, ConfigError};
use crate::control::{Change, Control};
use crate::n4::reconfigure::LIVE;

/// What a reload changes, locked.
pub(super) struct Both<'a> {
    /// The end of N4, if control planes are configured.
    pub n4: Option<MutexGuard<'a, N4>>,
    /// Control.
    pub control: MutexGuard<'a, Control>,
    /// What time it is.
    pub clock: WallClock,
}

impl Live<Config> for Both<'_> {
    /// What control changes, and the configuration that N4 goes by, if a key of its own has changed.
    type Change = (Change, Option<Config>);

    fn prepare(&mut self, config: &Config, keys: &[&str]) -> Result<Self::Change, ConfigError> {
        let change = self.control.prepare(config, keys)?;
        let of_n4 = LIVE.iter().any(|key| keys.contains(key));
        if let Some(n4) = self.n4.as_ref().filter(|_| of_n4 || keys.contains(&"nat.pool")) {
            n4.endpoint().check_reconfiguration(config, &self.control.public_ranges(&change))?;
        }
        Ok((change, of_n4.then(|| config.clone())))
    }

    fn apply(&mut self, (change, config): Self::Change) {
        self.control.apply(change);
        if let (Some(n4), Some(config)) = (&mut self.n4, &config) {
            n4.reconfigure(config, &mut self.control, &self.clock);
        }
    }
}
