//! Why the user plane punts packets to the slow path.

pub use dataplane::punts::*;
use engine::Punt;

engine::reasons! {
    Punt from dataplane::punts::END;
    GTP_ECHO "gtp_echo" "A GTP-U echo request or response.",
    GTP_ERROR_INDICATION "gtp_error_indication" "A GTP-U peer does not know a TEID we send to.",
    GTP_END_MARKER "gtp_end_marker" "A GTP-U end marker: the last packet on an old path.",
    GTP_EXTENSION_NOTICE "gtp_extension_notice" "A GTP-U peer lists the extension headers it supports.",
    UNKNOWN_TEID "unknown_teid" "To be answered with an error indication.",
    BUFFER "buffer" "Waits for an idle subscriber to be paged.",
    UNKNOWN_EXTENSION "unknown_extension" "To be answered with the extension headers we support.",
    CONTROL_PLANE "control_plane" "To be sent to the control plane's function by GTP-U.",
    REDIRECT "redirect" "A subscriber's request is answered with the page it is sent to.",
}
