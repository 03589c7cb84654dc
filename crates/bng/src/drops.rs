//! Why the broadband gateway drops packets.

pub use dataplane::drops::*;
use engine::Drop;

engine::reasons! {
    Drop from dataplane::drops::END;
    UNKNOWN_VLAN "unknown_vlan" "No subscriber group has the frame's outer VLAN on this port, or not with that many tags.",
    UNKNOWN_LINE "unknown_line" "No subscriber has the frame's port and VLANs, and hardware address where lines share VLANs.",
    CONTROL_FULL "control_full" "For the control thread, whose ring from this worker is full.",
    WALLED_GARDEN "walled_garden" "The subscriber's profile lets it reach listed destinations only, and this is none of them.",
    SUBSCRIBER_RATE "subscriber_rate" "Over the rate of the subscriber's profile.",
    DHCP_STRANGER "dhcp_stranger" "A DHCP message from the core to the gateway, whose source is none of the DHCP servers that groups relay to.",
    GROUP_ELSEWHERE "group_elsewhere" "Of a subscriber group that another process has: `weir show groups`.",
}
