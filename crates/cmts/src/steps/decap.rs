//! Upstream frames, decrypted: out of DOCSIS, back to IP.

use dataplane::forward::{is_martian4, is_martian6};
use dataplane::parse::{HasIp, malformed};
use engine::{Burst, Ctx, Stage};
use wire::{L3L4, Outer, docsis, ethertype, fast};

use crate::drops;
use crate::lane::{Cmts, UNTAGGED};

/// Takes the DOCSIS header and the CRC off and reads the packet.
#[derive(Default)]
pub struct DocsisDecap;

impl Stage<Cmts> for DocsisDecap {
    const NAME: &'static str = "docsis_decap";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let arena = cx.env.arena();
        for i in burst.live() {
            let header = match burst.bytes(i, arena) {
                [fc, parm, ..] if fc & 1 != 0 => docsis::HEADER_LEN as u16 + u16::from(*parm),
                _ => docsis::HEADER_LEN as u16,
            };
            let frame = burst.frame_mut(i);
            let cut = frame.pull_front(header).is_ok()
                && frame.len().checked_sub(docsis::CRC_LEN).is_some_and(|len| frame.truncate(len as u16).is_ok());
            if !cut {
                burst.drop(i, drops::DOCSIS_MALFORMED, at);
                continue;
            }
            let bytes = burst.bytes(i, arena);
            let Ok(outer) = Outer::parse(bytes) else {
                burst.drop(i, drops::MALFORMED, at);
                continue;
            };
            let packet = bytes.get(usize::from(outer.l3)..).unwrap_or_default();
            let parsed = match outer.ethertype {
                ethertype::IP4 => L3L4::parse4(packet),
                ethertype::IP6 => L3L4::parse6(packet),
                // ARP too: hosts are not learnt from, least of all for the ports' own networks.
                _ => {
                    burst.drop(i, drops::ETHER_TYPE, at);
                    continue;
                }
            };
            let ip = match parsed {
                Ok(ip) => ip,
                Err(why) => {
                    burst.drop(i, malformed(why), at);
                    continue;
                }
            };
            let modems = &cx.state.modems;
            let hash = if ip.version == 4 { modems.prefetch4(ip.src) } else { modems.prefetch6(ip.src6(packet)) };
            let end = outer.l3 + ip.total_len as u16; // fits: checked against the frame's length
            let (frame, lane) = burst.parts(i);
            (lane.hash[i], lane.tag[i]) = (hash, outer.outer_vlan().map_or(UNTAGGED, |tag| tag.0.into()));
            *lane.ip_mut(i) = ip;
            frame.meta.l3 = outer.l3;
            let _ = frame.truncate(end);
        }
    }
}

/// Lets pass only what comes from an address of a host behind the modem (source address verification).
#[derive(Default)]
pub struct CheckSource;

impl Stage<Cmts> for CheckSource {
    const NAME: &'static str = "cm_lookup";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Cmts>, cx: &mut Ctx<'_, Cmts>) {
        let at = cx.at();
        let arena = cx.env.arena();
        for i in burst.live() {
            let (hash, ip) = (burst.lane.hash[i], *burst.lane.ip(i));
            let l3 = usize::from(burst.frame(i).meta.l3);
            let modems = &mut cx.state.modems;
            let (host, martian) = if ip.version == 4 {
                (modems.host4(hash, ip.src), is_martian4(ip.src))
            } else {
                let from = fast::be128(burst.bytes(i, arena), l3 + L3L4::V6_SRC).unwrap_or(0);
                (modems.host6(hash, from), is_martian6(from))
            };
            let modem = burst.lane.modem[i];
            let owner = host.and_then(|host| modems.host(host)).map(|host| host.modem);
            if owner != Some(modem) {
                burst.drop(i, if martian { drops::MARTIAN_SOURCE } else { drops::SPOOFED_SOURCE }, at);
                continue;
            }
            if let Some(modem) = modems.modem_mut(modem) {
                modem.packets[1] += 1;
                modem.bytes[1] += u64::from(ip.total_len);
            }
        }
    }
}
