//! What a reload changes of sessions' side: limits, pools, names of networks. Sessions stay as they are.

use std::net::IpAddr;

use super::assemble::{limits, pools};
use super::networks::Networks;
use super::store::Key;
use super::{N4, gbr};
use crate::config::{self, Config, ConfigError, wrong};
use crate::control::{Control, PublicRange};
use crate::routes::{Route, cover};

/// Keys of `[n4]` that are applied while sessions live.
pub const LIVE: [&str; 15] = [
    "n4.allow",
    "n4.peer",
    "n4.associations_per_address",
    "n4.messages_per_second",
    "n4.heartbeat_seconds",
    "n4.silence_is_loss",
    "n4.session_retention_seconds",
    "n4.checkpoint_seconds",
    "n4.sessions",
    "n4.sessions_per_peer",
    "n4.rules_per_session",
    "n4.gbr_capacity",
    "n4.unknown_network_instance",
    "n4.pool",
    "n4.dnn",
];

impl N4 {
    /// Whether it can go by a configuration from now on.
    ///
    /// # Errors
    /// What it cannot, by key.
    pub(super) fn check_reconfiguration(&self, n4: &config::N4, config: &Config) -> Result<(), ConfigError> {
        if let Some((at, here)) =
            self.networks.moved_dnn(&Networks::of(config), |name| self.unknown_networks.is_assumed(name))
        {
            let what =
                format!("sessions of \"{}\" are in network instance \"{}\"", n4.dnn[at].name, self.networks.name(here));
            let help = "give the other instance a DNN of another name, or restart the gateway";
            return Err(wrong(&[&"n4", &"dnn", &at, &"instance"], what, help));
        }
        let new = pools(n4, config);
        if self.workers > 1 && self.pools.overlaps(&new) {
            let what = "a pool has addresses of another one, or of one that was taken out, in other parts by worker";
            return Err(wrong(&[&"n4", &"pool"], what, "take other addresses, or restart the gateway"));
        }
        Ok(())
    }

    /// An address is a subscriber's or translated to, not both: pools and public addresses that a reload took out count, too, as
    /// long as sessions have addresses of the pool. Public addresses stay the translator's until a restart.
    pub(super) fn check_public(
        &self,
        n4: &config::N4,
        config: &Config,
        public: &[PublicRange],
    ) -> Result<(), ConfigError> {
        let new = pools(n4, config);
        for (instance, first, last) in public {
            let (at, ends) = (*instance, ((*first).into(), (*last).into()));
            if new.has_any4(at, ends) {
                let what = format!("a pool has public addresses of translation: some of {} to {}", ends.0, ends.1);
                let help = "take other addresses; nat.pool's stay the translator's until a restart";
                return Err(wrong(&[&"n4", &"pool"], what, help));
            }
            if self.pools.has_any4(at, ends) {
                let what = format!("a pool that was taken out has addresses of {} to {}", ends.0, ends.1);
                let help =
                    "take other addresses, or reload when its sessions have ended; with several workers, restart";
                return Err(wrong(&[&"nat", &"pool"], what, help));
            }
        }
        Ok(())
    }

    /// Goes by a configuration that was checked. Workers learn whose the addresses of new pools are.
    pub(super) fn reconfigure(&mut self, n4: &config::N4, config: &Config, control: &mut Control) {
        self.limits = limits(n4);
        self.store.guaranteed.set_capacity(gbr::capacity(config));
        self.networks.follow(config);
        let new = pools(n4, config);
        for worker in 0..self.workers {
            let v4 = self.pools.added4(&new).flat_map(|(instance, pool)| {
                let (first, last) = pool.range(worker);
                cover(u32::from(first).into(), u32::from(last).into(), 32)
                    .map(|(first, len)| Route::new(*instance, IpAddr::V4((first as u32).into()), len)) // 32 bits
            });
            let v6 = self.pools.added6(&new).flat_map(|(instance, pool)| {
                let (first, last) = pool.range(worker);
                let prefix = |ip6: std::net::Ipv6Addr| ip6.to_bits() >> 64;
                cover(prefix(first), prefix(last), 64)
                    .map(|(first, len)| Route::new(*instance, IpAddr::V6((first << 64).into()), len))
            });
            control.steer_routes(worker, std::iter::empty(), v4.chain(v6));
        }
        let sessions = self.store.iter().flat_map(|(_, session)| session.keys());
        let addresses =
            sessions.filter_map(|key| if let Key::Ue(at, address) = key { Some((*at, *address)) } else { None });
        self.pools.replace(new, addresses);
    }
}
