//! Keys that a reload applies while subscribers are served.

use gateway::nat;
use gateway::shell::reload::{LiveKey, joined};

const fn key(key: &'static str, help: &'static str) -> LiveKey {
    LiveKey { key, help }
}

/// Keys and what happens when they are applied.
pub const KEYS: &[LiveKey] = &joined::<{ OWN.len() + nat::LIVE.len() }>(&[OWN, &nat::LIVE]);

const OWN: &[LiveKey] = &[
    key("route", "Forwarding tables are published anew; subscribers, leases and neighbours stay."),
    key(
        "acl",
        "Lists are published anew, and `weir show acl` counts anew. Each subscriber goes from its lists to the new ones as a \
         whole, within a few turns of its worker. A gateway started without any list needs a restart, and one takes at most \
         4,096 rules more than at its start.",
    ),
    key(
        "profile",
        "New subscribers, and those there are, have the new rates, access list and priorities; counters stay. A profile that \
         subscribers have cannot be taken out. Packets that wait go on waiting, under the new rates. Refused: the first `dscp`, \
         the first `garden` and the first `shape` of all profiles.",
    ),
    key("group.*.s_vlan_rate", "Counts for packets that wait, too."),
    key("group.*.overhead", "As `group.*.s_vlan_rate`."),
    key("group.*.line_framing", "As `group.*.s_vlan_rate`."),
    key("group.*.acl", "Counts for subscribers there are, too."),
    key(
        "group.*.profile",
        "Counts for static subscribers that name none, and for sessions that have the group's; those that RADIUS gave another \
         keep it.",
    ),
    key("subscriber.*.profile", "The subscribers have it at once."),
    key(
        "group.*.ipv4",
        "New slices are leased at once; their subscribers cost a hash lookup more than those of slices of the start. Refused: \
         to take out a slice that leases are in.",
    ),
    key(
        "group.*.ipv6_wan",
        "As `group.*.ipv4`. Refused, too: the first, or last, slice of IPv6 of a group that has sessions.",
    ),
    key("group.*.ipv6_pd", "As `group.*.ipv6_wan`. Refused, too: another `length` for a prefix of the start."),
    key("group.*.announce", "Its routes in the kernel are added or removed at once."),
    key("group.*.sessions.lease_seconds", "Counts for leases granted or renewed from now on."),
    key("group.*.sessions.ipv4_prefix_length", "Told with the next reply."),
    key("group.*.sessions.dns", "Told with the next reply."),
    key("group.*.sessions.domain", "Told with the next reply."),
    key("group.*.sessions.ntp", "Told with the next reply."),
    key("group.*.sessions.relayed", "Counts for messages from now on."),
    key("group.*.sessions.trust_option82", "Counts for messages from now on."),
    key("group.*.sessions.cap_by_line_rate", "Subscribers of the group have their rates by it at once."),
    key(
        "group.*.sessions.relay",
        "Counts for messages from now on. Leases stay, whoever has granted them: a client that the new server does not know is \
         refused by it when it renews.",
    ),
    key("sessions.leases_per_line", "Below what a line has: new leases are refused, and those there are stay."),
    key("sessions.leases_per_port", "As `sessions.leases_per_line`, for each port."),
    key("sessions.quarantine_seconds", "Counts for addresses found in use from now on."),
    key("sessions.offer_seconds", "Counts for offers from now on."),
    key("sessions.authoritative", "Counts for messages from now on."),
    key(
        "radius.server",
        "A server taken out gets no more requests, its unanswered ones go to the others, and its CoA- and \
         Disconnect-Requests are dropped. Refused: a server of another IP version than the first one at start.",
    ),
    key("radius.password", "Counts for requests from now on."),
    key("radius.nas_identifier", "Counts for requests from now on."),
    key("radius.interim_seconds", "Sessions to which no server gave an interval have the new one from now on."),
    key("radius.reject_seconds", "Counts for lines rejected from now on."),
    key("park", "Counts from the next second on; groups that have moved stay until it is time for others."),
    key("punt", "Workers have the new rates in their next turn; what was spent stays spent."),
];
