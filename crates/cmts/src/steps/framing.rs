//! From Ethernet frames to MAC frames: headers, CRC, encryption.

use crypto::{Crc, Job, KeyId};
use engine::{Burst, Ctx, Drop, Punt, Stage};
use wire::docsis::{Element, Kind, MAX_EXTENDED, Privacy, emit_frame};

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
            let privacy = security.map(|s| Element::BpDown(Privacy::encrypted(s.active, s.said)));
            let service = flow.spec.dsid.map(|dsid| Element::DsService {
                priority: flow.spec.priority,
                change: false,
                stream: Some((dsid, Some(burst.lane.sequence[i]))),
            });
            let both;
            let one;
            let elements: &[Element<'_>] = match (privacy, service) {
                (Some(privacy), Some(service)) => {
                    both = [privacy, service];
                    &both
                }
                (Some(element), None) | (None, Some(element)) => {
                    one = [element];
                    &one
                }
                (None, None) => &[],
            };
            let len = wire::docsis::HEADER_LEN + elements.iter().map(Element::len).sum::<usize>();
            debug_assert!(len <= MAX_EXTENDED);
            let frame = burst.frame_mut(i);
            let payload = frame.len() + CRC;
            let emitted = frame.push_front(len as u16).is_ok()
                && emit_frame(Kind::Packet, elements, payload, arena.bytes_mut(frame)).is_ok();
            if !emitted {
                burst.drop(i, Drop::NoHeadroom, at);
                continue;
            }
            burst.lane.payload[i] = len as u16;
        }
    }
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
                    *burst.frame_mut(i) = frame;
                    burst.drop(i, Drop::FlowQueueFull, at);
                }
            }
        }
        cx.state.modems.encrypt.run(cx.env.arena());
    }
}
