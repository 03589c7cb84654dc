//! Whose packet it is, downstream.

use dataplane::forward::NONE;
use dataplane::parse::HasIp;
use dataplane::route::decrement_ttl;
use engine::{Burst, Ctx, Stage};
use wire::ethernet::{HEADER_LEN, MIN_FRAME};
use wire::{L3L4, ethertype, fast};

use crate::gateway::Limits;
use crate::lane::Cmts;
use crate::{drops, punts};

/// Finds the host behind a modem by the destination address. Packets to unknown hosts are dropped.
#[derive(Default)]
pub struct FindModem;

impl Stage<Cmts> for FindModem {
    const NAME: &'static str = "cm_lookup";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let arena = cx.env.arena();
        let (modems, mut unmatched) = (&cx.state.modems, 0);
        let live = burst.live();
        for i in live {
            let (hash, ip) = (burst.lane.hash[i], *burst.lane.ip(i));
            let found = if ip.version == 4 {
                modems.host4(hash, ip.dst)
            } else {
                let l3 = usize::from(burst.frame(i).meta.l3);
                let to = fast::be128(burst.bytes(i, arena), l3 + L3L4::V6_DST);
                modems.host6(hash, to.unwrap_or(0))
            };
            match found {
                Some(host) => {
                    modems.prefetch_host(host);
                    burst.lane.host[i] = host;
                }
                None => {
                    unmatched += 1;
                    let to_many = burst.bytes(i, arena).first().is_some_and(|byte| byte & 1 == 1);
                    burst.drop(i, if to_many { drops::MULTICAST } else { drops::UNKNOWN_SUBSCRIBER }, at);
                }
            }
        }
        for i in burst.live() {
            let modem = modems.host(burst.lane.host[i]).map_or(NONE, |host| host.modem);
            burst.lane.modem[i] = modem;
            modems.prefetch_modem(modem);
        }
        cx.state.counts.lookup_unmatched += unmatched;
        cx.state.counts.lookup_matched += u64::from(live.count()) - unmatched;
    }
}

/// Makes the packet the host's: one hop less to live, the host's Ethernet header, at least the shortest frame.
#[derive(Default)]
pub struct ManageSubscriber {
    /// Largest IP packet towards modems, in bytes.
    mtu: u32,
}

impl Stage<Cmts> for ManageSubscriber {
    const NAME: &'static str = "sub_mgmt";

    fn build(limits: &Limits) -> Self {
        Self { mtu: limits.mtu }
    }

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let arena = cx.env.arena();
        for i in burst.live() {
            let modems = &mut cx.state.modems;
            let Some(host) = modems.host(burst.lane.host[i]).copied() else { continue };
            let (version, ttl, total) = {
                let ip = burst.lane.ip(i);
                (ip.version, ip.ttl, ip.total_len)
            };
            let Some(modem) = modems.modem_mut(host.modem) else {
                burst.drop(i, drops::UNKNOWN_SUBSCRIBER, at);
                continue;
            };
            if ttl <= 1 {
                burst.punt(i, punts::TTL_EXPIRED);
                continue;
            }
            if total > self.mtu {
                burst.punt(i, punts::OVERSIZE);
                continue;
            }
            modem.packets[0] += 1;
            modem.bytes[0] += u64::from(total);
            let cmts_mac = modem.cmts_mac;
            let frame = burst.frame_mut(i);
            if frame.move_front(frame.meta.l3, HEADER_LEN as u16).is_err() {
                burst.drop(i, drops::NO_HEADROOM, at);
                continue;
            }
            frame.meta.l3 = HEADER_LEN as u16;
            let len = frame.len();
            if len < MIN_FRAME {
                arena.set_len(frame, MIN_FRAME);
                arena.bytes_mut(frame)[len..].fill(0);
            }
            let bytes = arena.bytes_mut(frame);
            if let Some((head, packet)) = bytes.split_first_chunk_mut::<HEADER_LEN>() {
                head[..6].copy_from_slice(&host.mac.0);
                head[6..12].copy_from_slice(&cmts_mac.0);
                let kind = if version == 4 { ethertype::IP4 } else { ethertype::IP6 };
                head[12..].copy_from_slice(&kind.to_be_bytes());
                decrement_ttl(packet, version);
            }
        }
    }
}
