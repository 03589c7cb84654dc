//! Why the user plane drops packets.

pub use dataplane::drops::*;
use engine::Drop;

engine::reasons! {
    Drop from dataplane::drops::END;
    NOT_GTPU "not_gtpu" "A packet to one of our tunnel addresses that is not GTP-U.",
    GTPU_MALFORMED "gtpu_malformed" "The GTP-U header or its extension chain is broken.",
    GTPU_UNSUPPORTED "gtpu_unsupported" "A GTP-U message type or mandatory extension header we do not support.",
    UNKNOWN_TEID "unknown_teid" "No session has this tunnel endpoint identifier.",
    GTP_IN_GTP "gtp_in_gtp" "A subscriber's packet is addressed to our own tunnel endpoint.",
    NO_PDR "no_pdr" "No packet detection rule of the session matches.",
    RULE_MISSING "rule_missing" "A rule or filter that the session's record names lies outside the record: a defect of this program, please report it.",
    GATE_CLOSED "gate_closed" "The gate of a QER is closed in this direction.",
    FLOW_RATE "flow_rate" "Over the flow's maximum bit rate.",
    QUOTA_EXHAUSTED "quota_exhausted" "The subscriber's volume quota is used up.",
    SESSION_RATE "session_rate" "Over the session's aggregate maximum bit rate.",
    FAR_DROP "far_drop" "The forwarding action rule is DROP.",
    FAR_INCOMPLETE "far_incomplete" "The forwarding action rule names a tunnel or peer that is not there (yet).",
    NO_CONTROL_PATH "no_control_path" "For the control plane, and no path leads there: no GTP-U socket at the N4 address, or a forwarding action rule without the control plane's tunnel.",
    CONTROL_BUSY "control_busy" "For the control plane, and more than its rate limit or the queue to control takes.",
    BUFFER_FULL "buffer_full" "The subscriber is idle and its buffer, or all buffers together, are full.",
    BUFFER_DISCARDED "buffer_discarded" "Was buffered for an idle subscriber whose session ended, dropped or timed out.",
    ECN_ILLEGAL "ecn_illegal" "Congestion was marked on the tunnel of a packet that is not ECN-capable.",
    UDP_CHECKSUM "udp_checksum" "The UDP checksum of a tunnel packet is wrong.",
    REDIRECTED "redirected" "The forwarding action rule sends the subscriber to a web page, and this is no request for one.",
    PACKET_RATE "packet_rate" "As many packets as a QER lets pass in a time have passed.",
}
