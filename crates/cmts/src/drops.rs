//! Why the cable gateway drops packets.

pub use dataplane::drops::*;
use engine::Drop;

engine::reasons! {
    Drop from dataplane::drops::END;
    NOT_L2TP "not_l2tp" "A packet to one of our pseudowire addresses that is not L2TPv3.",
    L2TP_MALFORMED "l2tp_malformed" "The L2TPv3 header is broken, or the cookie is not the session's.",
    UNKNOWN_PSEUDOWIRE "unknown_pseudowire" "No pseudowire of ours has this L2TPv3 session identifier.",
    UNKNOWN_RPD "unknown_rpd" "A packet of a pseudowire from another address than that of its Remote-PHY device.",
    PSP_MALFORMED "psp_malformed" "The table of segments of a PSP packet does not fit the packet.",
    UEPI_MALFORMED "uepi_malformed" "A data unit of an upstream burst is broken, too long, or begins or ends where none can.",
    SEGMENT_LOST "segment_lost" "Part of a burst or frame whose other parts were lost on the way.",
    SEGMENT_LATE "segment_late" "An upstream segment that came twice, or after the wait for it was over.",
    UNKNOWN_SID "unknown_sid" "No modem of the service group has this service identifier.",
    DOCSIS_MALFORMED "docsis_malformed" "A DOCSIS header contradicts itself, or its frame is shorter or longer than one can be.",
    DOCSIS_HCS "docsis_hcs" "The check sequence of a DOCSIS header or an upstream segment is wrong.",
    UNKNOWN_KEY "unknown_key" "The frame is encrypted with a key we do not have, or not encrypted where it must be.",
    FRAME_CRC "frame_crc" "The CRC32 of the Ethernet frame in a DOCSIS frame is wrong.",
    FILTER_DENIED "filter_denied" "A rule of the subscriber's filter groups denies it, or none permits it.",
}
