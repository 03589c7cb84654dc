//! From Ethernet frames to MAC frames: headers, CRC, encryption.

use crypto::{Crc, Job, KeyId};
use engine::{Burst, Ctx, Drop, Punt, Stage};
use frame::{Arena, Frame};
use wire::docsis::{BONDED_HEADER_LEN, Element, HEADER_LEN, Kind, Privacy, emit_bonded, emit_frame};

use crate::flow::NONE;
use crate::lane::Cmts;

/// Puts the DOCSIS header before each frame: privacy first, then the downstream service (CM-SP-MULPI).
pub struct Framing;

/// Bytes of Ethernet's CRC, which comes with encryption.
const CRC: usize = 4;

impl Stage<Cmts> for Framing {
    const NAME: &'static str = "docsis_framing";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let arena = cx.env.arena();
        for i in burst.live() {
            let Some(flow) = cx.state.scheduler.flows().get(burst.lane.flow[i] as usize) else {
                burst.drop(i, Drop::FlowGone, at);
                continue;
            };
            let security = cx.state.modems.security(flow.security);
            let half = security.map_or(0, |security| usize::from(security.active & 1));
            if security.is_some_and(|security| security.sequences[half] != security.active) {
                burst.drop(i, Drop::UnknownKey, at);
                continue;
            }
            burst.lane.key[i] = security.map_or(KeyId::CLEAR, |security| security.down[half]);
            let privacy = security.map(|security| Privacy::encrypted(security.active, security.said));
            let stream = Some((flow.dsid, burst.lane.sequence[i])).filter(|_| flow.dsid != NONE);
            let emitted = put(privacy, flow.priority, stream, burst.frame_mut(i), arena);
            burst.lane.payload[i] = emitted.unwrap_or_default();
            if emitted.is_none() {
                burst.drop(i, Drop::NoHeadroom, at);
            }
        }
    }
}

/// Puts the header before a frame; returns its length, in bytes.
#[inline(always)]
fn put(
    privacy: Option<Privacy>,
    priority: u8,
    stream: Option<(u32, u16)>,
    frame: &mut Frame,
    arena: &Arena,
) -> Option<u16> {
    let payload = frame.len() + CRC;
    let (Some(privacy), Some(stream)) = (privacy, stream) else {
        return put_any(privacy, priority, stream, frame, arena);
    };
    frame.push_front(BONDED_HEADER_LEN as u16).ok()?;
    let head = arena.bytes_mut(frame).first_chunk_mut()?;
    emit_bonded(privacy, priority, stream, payload, head).ok()?;
    Some(BONDED_HEADER_LEN as u16)
}

/// The same for frames that are not encrypted, or not numbered.
#[inline(never)]
fn put_any(
    privacy: Option<Privacy>,
    priority: u8,
    stream: Option<(u32, u16)>,
    frame: &mut Frame,
    arena: &Arena,
) -> Option<u16> {
    let payload = frame.len() + CRC;
    let stream = stream.map(|(dsid, sequence)| (dsid, Some(sequence)));
    let service = stream.map(|_| Element::DsService { priority, change: false, stream });
    let elements = [privacy.map(Element::BpDown), service];
    // One of them at most is there.
    let elements = elements.iter().flatten().next().map_or(&[][..], std::slice::from_ref);
    let len = HEADER_LEN + elements.iter().map(Element::len).sum::<usize>();
    frame.push_front(len as u16).ok()?; // a few bytes
    emit_frame(Kind::Packet, elements, payload, arena.bytes_mut(frame)).ok()?;
    Some(len as u16)
}

/// Gives the frames to the engine that adds CRC32 and encrypts: the end of this pipeline. They come back in this order.
pub struct Encrypt;

impl Stage<Cmts> for Encrypt {
    const NAME: &'static str = "crc_encryption";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        for i in burst.live() {
            let lane = &burst.lane;
            let job = Job { key: lane.key[i], at: lane.payload[i], crc: Crc::Done, tag: lane.channel[i].into() };
            match cx.state.modems.encrypt.push(burst.take(i), job) {
                Ok(()) => cx.env.stats.consumed(Punt::Depi),
                Err(frame) => {
                    burst.put_back(i, frame);
                    burst.drop(i, Drop::FlowQueueFull, at);
                }
            }
        }
        cx.state.modems.encrypt.run(cx.env.arena());
    }
}
