//! Why the cable gateway punts packets to the slow path.

pub use dataplane::punts::*;
use engine::Punt;

engine::reasons! {
    Punt from dataplane::punts::END;
    SERVICE_FLOW "service_flow" "Went into a service flow's queue, to be released by it.",
    DEPI "depi" "Went into a DEPI packet, with or without others.",
    UEPI "uepi" "A piece of an upstream burst; the frames in it go on by themselves.",
    BANDWIDTH_REQUEST "bandwidth_request" "Modems' requests for bandwidth, counted for their grants.",
    L2TP_CONTROL "l2tp_control" "An L2TPv3 control message; sessions are configured here.",
}
