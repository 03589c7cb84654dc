//! Keys that a reload applies while sessions live.

use gateway::nat;
use gateway::shell::reload::{LiveKey, joined};

const fn key(key: &'static str, help: &'static str) -> LiveKey {
    LiveKey { key, help }
}

/// Keys and what happens when they are applied.
pub const KEYS: &[LiveKey] = &joined::<{ OWN.len() + nat::LIVE.len() }>(&[OWN, &nat::LIVE]);

const OWN: &[LiveKey] = &[
    key("route", "Forwarding tables are published anew; sessions, tunnels and neighbours stay."),
    key(
        "acl",
        "Lists are published anew, and `weir show acl` counts anew. A gateway started without any list needs a restart, and \
         one takes at most 4,096 rules more than at its start.",
    ),
    key(
        "n4.allow",
        "A control plane outside the new networks gets no new session and is asked for release (association update with \
         SARR). Its association and sessions end when it releases, or after `n4.session_retention_seconds`.",
    ),
    key(
        "n4.peer",
        "As `n4.allow` for a Node ID that has other addresses now. One that is taken out has the limits of any other peer, and \
         stays as long as `n4.allow` has its address.",
    ),
    key("n4.associations_per_address", "Counts for new associations."),
    key("n4.messages_per_second", "Counts from the next message; that of `n4.peer` too."),
    key("n4.heartbeat_seconds", "The next heartbeats are sent after the new interval."),
    key("n4.silence_is_loss", "Counts from the next heartbeat without an answer."),
    key("n4.session_retention_seconds", "Counts for control planes lost, or no longer allowed, from now on."),
    key("n4.checkpoint_seconds", "Counts from the next checkpoint."),
    key("n4.sessions", "Below the number of sessions there are: new ones are refused (cause 75), and all stay."),
    key("n4.sessions_per_peer", "As `n4.sessions`, for each peer."),
    key("n4.rules_per_session", "Counts for requests from now on; sessions with more rules stay, and can get fewer."),
    key("n4.gbr_capacity", "Below what is set aside: new guaranteed rates are refused, and those there are stay."),
    key("n4.unknown_network_instance", "Counts for requests from now on."),
    key(
        "n4.pool",
        "A pool taken out gives no more addresses; sessions keep theirs. With several workers a new pool must not overlap one \
         there is, or was; each packet from the core then costs one prefix lookup more until a restart. Refused: public \
         addresses of `nat.pool`, those taken out, too.",
    ),
    key(
        "n4.dnn",
        "New sessions that name a DNN taken out are refused (cause 69); sessions that have it go on, and can be modified. One \
         that means another instance than before needs another name.",
    ),
    key("gtpu.error_indications_per_second", "Workers have the new rate in their next turn."),
    key("buffer.packets_per_subscriber", "Counts for packets from now on; those held stay."),
    key("buffer.seconds", "Counts for packets that are held already, too."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_applied_by_a_part() {
        let parts = [
            &["route", "acl"][..],
            &crate::n4::reconfigure::LIVE,
            &gateway::nat::LIVE.map(|live| live.key),
            &crate::control::LIMITS,
        ];
        let (mut applied, mut told) = (parts.concat(), KEYS.iter().map(|key| key.key).collect::<Vec<_>>());
        applied.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, applied);
    }
}
