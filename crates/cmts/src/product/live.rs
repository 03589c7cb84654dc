//! Keys that a reload applies while modems talk.

use gateway::shell::reload::LiveKey;

const fn key(key: &'static str, help: &'static str) -> LiveKey {
    LiveKey { key, help }
}

/// Keys and what happens when they are applied. With a standby all need a restart: both processes have one configuration.
pub const KEYS: &[LiveKey] = &[
    key(
        "route",
        "Forwarding tables are published anew. Refused where a Remote-PHY device would be reached by another port. With a \
         `[standby]` this key, and each below, needs a restart: both must have one configuration.",
    ),
    key("filter_group", "Modems have the new rules at once. A group that modems have cannot be taken out."),
    key("filter_default", "Counts for the next packet."),
    key("classifiers.*.rule", "Modems have the new rules at once; those with classifiers of their own keep them."),
    key(
        "profile.*.filters_down",
        "Counts for modems that come, and for those there are, but for modems that `weir cmts` gave others.",
    ),
    key("profile.*.filters_up", "As `profile.*.filters_down`."),
    key(
        "profile.*.flow",
        "Rates, bursts, priorities and queues of modems that come and of those there are; what waits stays. A flow that \
         `weir cmts` changed stays as it is. Refused: other flows, or another order.",
    ),
];
