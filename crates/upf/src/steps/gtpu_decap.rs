//! The tunnel header.

use engine::{At, Burst, Ctx, Stage};
use frame::Arena;
use wire::Teid;
use wire::gtpu::{Header, message_type};

use crate::lane::{Lane, Upf};
use crate::record::NONE8;
use crate::sessions::Sessions;
use crate::{drops, punts};

/// Reads the GTP-U header and walks its extension headers (TS 29.281, 5; TS 38.415), asks for the session's place in
/// the index, and leaves the offset of the user's packet in `meta.l3`. Messages other than G-PDUs go to the slow path.
#[derive(Default)]
pub struct GtpuDecap;

impl Stage<Upf> for GtpuDecap {
    const NAME: &'static str = "gtpu_decap";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Upf>, cx: &mut Ctx<'_, Upf>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let sessions = &cx.state.sessions;
        for i in burst.live() {
            let (frame, lane) = burst.parts(i);
            let start = frame.meta.l3;
            let payload = arena.bytes(frame).get(usize::from(start)..);
            let usual = payload.and_then(|payload| {
                Header::with_usual(payload, |teid, qfi, header| {
                    enter(lane, i, sessions, teid, qfi);
                    start + header
                })
            });
            match usual {
                Some(l3) => frame.meta.l3 = l3,
                None => parse(burst, i, sessions, arena, at),
            }
        }
    }
}

/// Takes note of the endpoint and the QoS flow; begins the lookup.
#[inline(always)]
fn enter(lane: &mut Lane, i: usize, sessions: &Sessions, teid: Teid, qfi: Option<u8>) {
    lane.teid[i] = teid.0;
    lane.qfi[i] = qfi.unwrap_or(NONE8);
    lane.hash[i] = sessions.prefetch_teid(teid.0);
}

/// Any header.
#[inline(never)]
fn parse(burst: &mut Burst<Upf>, i: usize, sessions: &Sessions, arena: &Arena, at: At<'_>) {
    let start = burst.frame(i).meta.l3;
    let payload = burst.bytes(i, arena).get(usize::from(start)..).unwrap_or_default();
    let Ok(header) = Header::parse(payload) else {
        return burst.drop(i, drops::GTPU_MALFORMED, at);
    };
    burst.lane.teid[i] = header.teid.0;
    match header.message_type {
        // Who tells what it supports is not told in turn.
        message_type::SUPPORTED_EXTENSIONS => burst.punt(i, punts::GTP_EXTENSION_NOTICE),
        known if header.unsupported != 0 && message_type::is_known(known) => burst.punt(i, punts::UNKNOWN_EXTENSION),
        message_type::G_PDU => {
            enter(&mut burst.lane, i, sessions, header.teid, header.qfi);
            burst.frame_mut(i).meta.l3 = start + header.payload_offset;
        }
        message_type::ECHO_REQUEST | message_type::ECHO_RESPONSE => burst.punt(i, punts::GTP_ECHO),
        message_type::ERROR_INDICATION => burst.punt(i, punts::GTP_ERROR_INDICATION),
        message_type::END_MARKER => burst.punt(i, punts::GTP_END_MARKER),
        _ => burst.drop(i, drops::GTPU_UNSUPPORTED, at),
    }
}
