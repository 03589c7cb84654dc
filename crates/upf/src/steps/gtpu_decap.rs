//! The tunnel header.

use engine::{At, Burst, Ctx, Drop, Punt, Stage};
use frame::Arena;
use wire::Teid;
use wire::gtpu::{Header, message_type};

use crate::lane::Upf;
use crate::record::NONE8;

/// Reads the GTP-U header and walks its extension headers (TS 29.281, 5; TS 38.415), asks for the session's place in
/// the index, and leaves the offset of the user's packet in `meta.l3`. Messages other than G-PDUs go to the slow path.
pub struct GtpuDecap;

impl Stage<Upf> for GtpuDecap {
    const NAME: &'static str = "gtpu_decap";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        for i in burst.live() {
            let start = burst.frame(i).meta.l3;
            let found = burst.bytes(i, arena).get(usize::from(start)..).and_then(Header::usual);
            let found = found.or_else(|| parse(burst, i, arena, at));
            let Some((teid, qfi, header)) = found else { continue };
            burst.lane.teid[i] = teid.0;
            burst.lane.qfi[i] = qfi.unwrap_or(NONE8);
            burst.lane.hash[i] = cx.state.sessions.prefetch_teid(teid.0);
            burst.frame_mut(i).meta.l3 = start + header;
        }
    }
}

/// Any header: the endpoint, the QoS flow and where the payload begins. None: the packet has left the pipeline.
#[inline(never)]
fn parse(burst: &mut Burst<Upf>, i: usize, arena: &Arena, at: At<'_>) -> Option<(Teid, Option<u8>, u16)> {
    let start = burst.frame(i).meta.l3;
    let payload = burst.bytes(i, arena).get(usize::from(start)..).unwrap_or_default();
    let Ok(header) = Header::parse(payload) else {
        burst.drop(i, Drop::GtpuMalformed, at);
        return None;
    };
    burst.lane.teid[i] = header.teid.0;
    match header.message_type {
        message_type::G_PDU if header.unsupported == 0 => {
            return Some((header.teid, header.qfi, header.payload_offset));
        }
        message_type::ECHO_REQUEST | message_type::ECHO_RESPONSE => burst.punt(i, Punt::GtpEcho),
        message_type::ERROR_INDICATION => burst.punt(i, Punt::GtpErrorIndication),
        message_type::END_MARKER => burst.punt(i, Punt::GtpEndMarker),
        message_type::SUPPORTED_EXTENSIONS => burst.punt(i, Punt::GtpExtensionNotice),
        _ => burst.drop(i, Drop::GtpuUnsupported, at),
    }
    None
}
