//! The tunnel header.

use engine::{Burst, Ctx, Drop, Punt, Stage};
use wire::gtpu::{Header, message_type};

use crate::lane::Upf;
use crate::record::NONE8;

/// Reads the GTP-U header and walks its extension headers (TS 29.281, 5; TS 38.415), asks for the session's place in
/// the index, and leaves the offset of the user's packet in `meta.l3`. Messages other than G-PDUs go to the slow path.
pub struct GtpuDecap;

impl Stage<Upf> for GtpuDecap {
    const NAME: &'static str = "gtpu_decap";

    #[inline]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        for i in burst.live() {
            let start = burst.frame(i).meta.l3;
            let payload = burst.bytes(i, arena).get(usize::from(start)..).unwrap_or_default();
            let header = match Header::parse(payload) {
                Ok(header) => header,
                Err(_) => {
                    burst.drop(i, Drop::GtpuMalformed, at);
                    continue;
                }
            };
            let teid = header.teid.0;
            burst.lane.teid[i] = teid;
            if header.message_type != message_type::G_PDU {
                match header.message_type {
                    message_type::ECHO_REQUEST | message_type::ECHO_RESPONSE => burst.punt(i, Punt::GtpEcho),
                    message_type::ERROR_INDICATION => burst.punt(i, Punt::GtpErrorIndication),
                    message_type::END_MARKER => burst.punt(i, Punt::GtpEndMarker),
                    message_type::SUPPORTED_EXTENSIONS => burst.punt(i, Punt::GtpExtensionNotice),
                    _ => burst.drop(i, Drop::GtpuUnsupported, at),
                }
                continue;
            }
            if header.unsupported != 0 {
                burst.drop(i, Drop::GtpuUnsupported, at);
                continue;
            }
            burst.lane.qfi[i] = header.qfi.unwrap_or(NONE8);
            burst.lane.hash[i] = cx.state.sessions.prefetch_teid(teid);
            burst.frame_mut(i).meta.l3 = start + header.payload_offset;
        }
    }
}
