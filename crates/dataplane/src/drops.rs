//! Why the stages of this crate drop packets.

use engine::Drop;
pub use engine::drops::*;

engine::reasons! {
    Drop from engine::drops::END;
    ETHER_TYPE "ether_type" "The frame carries a protocol this port does not handle.",
    WRONG_VLAN "wrong_vlan" "The frame's VLAN tag is not this port's.",
    HEADER_CHECKSUM "header_checksum" "The IPv4 header checksum is wrong.",
    NOT_FOR_US "not_for_us" "The packet is addressed to none of our addresses.",
    OUTER_FRAGMENT "outer_fragment" "A fragment of a tunnel packet: the tunnel's MTU is set too large at the peer.",
    UNKNOWN_SUBSCRIBER "unknown_subscriber" "No session has this destination address.",
    SPOOFED_SOURCE "spoofed_source" "The subscriber sent from an address that is not its own.",
    SESSION_GONE "session_gone" "The session ended while the packet was in flight.",
    TTL_EXPIRED "ttl_expired" "The TTL or hop limit ran out here.",
    NEIGHBOUR_UNRESOLVED "neighbour_unresolved" "The next hop does not answer ARP or neighbour discovery.",
    NEIGHBOUR_QUEUE_FULL "neighbour_queue_full" "Too many packets wait for the next hop's hardware address.",
    TOO_BIG "too_big" "Larger than the outgoing MTU and not to be fragmented; the sender was told.",
    LIMITED "limited" "More exceptions than we answer: the rate limit for messages to this worker's slow path.",
    MARTIAN_SOURCE "martian_source" "The source address is no host's, or of no host beyond its own link.",
    MULTICAST "multicast" "To a multicast or broadcast address of the network or the link: not forwarded.",
    NO_SERVICE "no_service" "To an address of our own where nothing listens for it.",
    NAT_NO_PORT "nat_no_port" "The subscriber has all the public ports it may have, or its public address has none left.",
    NAT_NO_MAPPING "nat_no_mapping" "From outside to a public address and port that no subscriber has.",
    NAT_TABLE_FULL "nat_table_full" "As many translations or translated subscribers as there may be.",
    NAT_LOG_FULL "nat_log_full" "A block of public ports was not given out, as the log of blocks is behind.",
    NAT_PROTOCOL "nat_protocol" "A protocol without ports, whose packets cannot share a public address.",
    NAT_FRAGMENT "nat_fragment" "A fragment that cannot be translated: its first one was not seen before it, or is too short.",
    ACL_DENIED "acl_denied" "A rule of the network instance's access list denies it.",
    REASSEMBLY_FULL "reassembly_full" "A fragment found no room: the subscriber's or all memory for reassembly is taken.",
    REASSEMBLY_TIMEOUT "reassembly_timeout" "A fragment waited for the others of its packet in vain.",
    REASSEMBLY_OVERLAP "reassembly_overlap" "Fragments of the packet overlap or contradict each other; all of them are dropped.",
    REASSEMBLY_DUPLICATE "reassembly_duplicate" "A copy of a fragment that came before, or of one whose packet is complete.",
    REASSEMBLY_TOO_BIG "reassembly_too_big" "The packet put together would be larger than a packet or a frame can be.",
    FLOW_QUEUE_FULL "flow_queue_full" "The service flow's queue, or the memory of all queues, is full.",
    FLOW_LONGEST "flow_longest" "The port's buffer or the memory of all queues is full, and the packet waited in, or was for, the longest queue.",
    FLOW_AQM "flow_aqm" "Active queue management kept the service flow's latency down.",
    HOST_REFUSED "host_refused" "The host interface did not take a packet for the host: its queue is full, or it is down.",
    FLOW_GONE "flow_gone" "The service flow ended while the packet waited in it.",
    HOST_LIMITED "host_limited" "More packets to services of the host than the port's host_packets_per_second.",
    NAT_PORTS_IN_USE "nat_ports_in_use" "A CPU was in the midst of a packet of a flow that has ended, so that no port could be given again.",
}
