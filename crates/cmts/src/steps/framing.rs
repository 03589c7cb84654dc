//! From Ethernet frames to MAC frames: headers, CRC, encryption.

use crypto::{Crc, Job, KeyId};
use dataplane::hqos::{Flow, NONE};
use engine::{Burst, Ctx, Drop, Stage};
use frame::{Arena, Frame};
use wire::docsis::{BONDED_HEADER_LEN, BondedPrivacy, Element, HEADER_LEN, Kind, Privacy, emit_bonded, emit_frame};

use crate::flow::FlowLabel;
use crate::lane::Cmts;
use crate::modems::Security;
use crate::{drops, punts};

/// Puts the DOCSIS header before each frame: privacy first, then the downstream service (CM-SP-MULPI).
#[derive(Default)]
pub struct Framing;

/// Bytes of Ethernet's CRC, which comes with encryption.
const CRC: usize = 4;

impl Stage<Cmts> for Framing {
    const NAME: &'static str = "docsis_framing";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let (flows, modems) = (cx.state.scheduler.flows(), &cx.state.modems);
        for i in burst.live() {
            let Some(flow) = flows.get(burst.lane.flow[i] as usize) else {
                burst.drop(i, drops::FLOW_GONE, at);
                continue;
            };
            let (frame, lane) = burst.parts(i);
            let put = match modems.sends(flow.label.security) {
                Some(sends) if flow.label.dsid != NONE => {
                    lane.key[i] = sends.key;
                    let stream = (flow.label.dsid, lane.sequence[i]);
                    put_bonded(&sends.privacy, flow.priority, stream, frame, arena).ok_or(drops::NO_HEADROOM)
                }
                _ => put_any(flow, modems.security(flow.label.security), i, burst, arena),
            };
            match put {
                Ok(len) => burst.lane.payload[i] = len,
                Err(reason) => burst.drop(i, reason, at),
            }
        }
    }
}

/// Puts the header before a frame that is encrypted and numbered; returns its length, in bytes.
#[inline(always)]
fn put_bonded(
    privacy: &BondedPrivacy,
    priority: u8,
    stream: (u32, u16),
    frame: &mut Frame,
    arena: &Arena,
) -> Option<u16> {
    let payload = frame.len() + CRC;
    frame.push_front(BONDED_HEADER_LEN as u16).ok()?;
    let head = arena.bytes_mut(frame).first_chunk_mut()?;
    emit_bonded(privacy, priority, stream, payload, head).ok()?;
    Some(BONDED_HEADER_LEN as u16)
}

/// The same for any frame. Apart, so that the usual ones have the registers to themselves.
#[inline(never)]
fn put_any(
    flow: &Flow<FlowLabel>,
    security: Option<&Security>,
    i: usize,
    burst: &mut Burst<Cmts>,
    arena: &Arena,
) -> Result<u16, Drop> {
    let half = security.map_or(0, |security| usize::from(security.active & 1));
    if security.is_some_and(|security| security.sequences[half] != security.active) {
        return Err(drops::UNKNOWN_KEY);
    }
    let (frame, lane) = burst.parts(i);
    lane.key[i] = security.map_or(KeyId::CLEAR, |security| security.down[half]);
    let privacy = security.map(|security| Privacy::encrypted(security.active, security.said));
    let payload = frame.len() + CRC;
    let stream = (flow.label.dsid != NONE).then_some((flow.label.dsid, Some(lane.sequence[i])));
    let service = stream.map(|_| Element::DsService { priority: flow.priority, change: false, stream });
    let elements = [privacy.map(Element::BpDown), service];
    // One of them at most is there.
    let elements = elements.iter().flatten().next().map_or(&[][..], std::slice::from_ref);
    let len = HEADER_LEN + elements.iter().map(Element::len).sum::<usize>();
    let put = frame.push_front(len as u16).is_ok() // a few bytes
        && emit_frame(Kind::Packet, elements, payload, arena.bytes_mut(frame)).is_ok();
    if put { Ok(len as u16) } else { Err(drops::NO_HEADROOM) }
}

/// Gives the frames to the engine that adds CRC32 and encrypts: the end of this pipeline. They come back in this order.
#[derive(Default)]
pub struct Encrypt;

impl Stage<Cmts> for Encrypt {
    const NAME: &'static str = "crc_encryption";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let engine = &mut cx.state.modems.encrypt;
        let pushed = burst.give_away(at, |i, frame, lane| {
            let job = Job { key: lane.key[i], at: lane.payload[i], crc: Crc::Done, tag: lane.channel[i].into() };
            engine.push(frame.take(), job).map_err(|back| {
                *frame = back;
                drops::FLOW_QUEUE_FULL
            })
        });
        cx.env.stats.terminated_all(punts::DEPI, pushed);
        engine.run(cx.env.arena());
    }
}
