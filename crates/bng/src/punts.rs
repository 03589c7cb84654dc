//! Why the broadband gateway punts packets to the slow path.

pub use dataplane::punts::*;
use engine::Punt;

engine::reasons! {
    Punt from dataplane::punts::END;
    DHCP4 "dhcp4" "A DHCPv4 message of an access line.",
    DHCP6 "dhcp6" "A DHCPv6 message of an access line.",
    PPPOE "pppoe" "A PPPoE discovery or session frame of an access line.",
    GROUP_MEMBERSHIP "group_membership" "An IGMP or MLD message of an access line.",
    QUEUED "queued" "A packet to a shaped subscriber waits in the queue of its class: it leaves by the scheduler.",
    REDIRECT "redirect" "A request of a subscriber in a walled garden is answered with the address of its portal.",
    HYBRID_ACCESS "hybrid_access" "A subscriber's packet among the core's in a burst of a hybrid port: it goes on in a burst of its own.",
    DHCP_SERVER "dhcp_server" "A DHCP server's message to the gateway as relay agent.",
}
