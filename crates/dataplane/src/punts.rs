//! Why the stages of this crate punt packets to the slow path.

use engine::Punt;

engine::reasons! {
    Punt from 0;
    ARP "arp" "An ARP request or reply.",
    NEIGHBOUR "neighbour" "IPv6 neighbour or router discovery.",
    PING "ping" "An ICMP echo request to one of our addresses.",
    ICMP_OTHER "icmp_other" "Another ICMP message to one of our addresses.",
    TTL_EXPIRED "ttl_expired" "To be answered with ICMP time exceeded.",
    OVERSIZE "oversize" "To be fragmented, or answered with packet too big.",
    RESOLVE "resolve" "Waits for its next hop's hardware address.",
    NO_ROUTE "no_route" "To be answered with ICMP destination unreachable.",
    ROUTER_SOLICITATION "router_solicitation" "A subscriber requests its IPv6 prefix.",
    HAIRPIN "hairpin" "Translated on both sides: from one subscriber to the public address of another.",
    REASSEMBLE "reassemble" "A fragment waits for the others of its packet.",
    ROUTING "routing" "A message of a routing protocol to the gateway.",
    HOST "host" "To an address of ours where nothing of the gateway's listens: to the host.",
}
