//! The first stage of a gateway whose ports carry plain IP.

use engine::{Burst, Ctx, Drop, Kind, Punt, Stage};
use wire::L3L4;

use crate::forward::{Forwarding, NONE, PortView, is_martian4, is_martian6};
use crate::parse::{self, HasIp, Network};
use crate::route::{HasForwarding, HasHop};
use crate::{drops, punts};

/// Checks a frame against its port (hardware address, VLAN, source; RFC 1812, 5.2 and 5.3.7) and fills in the lane: headers,
/// the port's routing domain, no hop yet. What is to the gateway itself goes to the slow path.
#[derive(Default)]
pub struct ReceiveIp;

impl<K: Kind> Stage<K> for ReceiveIp
where
    K::Lane: HasHop,
    K::State: HasForwarding,
{
    const NAME: &'static str = "rx";

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<K>, cx: &mut Ctx<'_, K>) {
        let (at, arena, tables) = (cx.at(), cx.env.arena(), cx.state.forwarding());
        for i in burst.live() {
            let port = tables.port(burst.frame(i).meta.port);
            match read(burst.bytes(i, arena), port, tables) {
                Err(reason) => burst.drop(i, reason, at),
                Ok(Received { ip, l3, end, punt }) => {
                    let (frame, lane) = burst.parts(i);
                    *lane.ip_mut(i) = ip;
                    lane.set_instance(i, port.instance);
                    lane.set_hop(i, NONE);
                    frame.meta.l3 = l3;
                    let _ = frame.truncate(end);
                    if let Some(punt) = punt {
                        burst.punt(i, punt);
                    }
                }
            }
        }
    }
}

struct Received {
    ip: L3L4,
    l3: u16,
    /// Where the frame ends without what the link padded.
    end: u16,
    punt: Option<Punt>,
}

fn read(bytes: &[u8], port: &PortView, tables: &Forwarding) -> Result<Received, Drop> {
    let (kind, l3) = parse::link(bytes, port)?;
    let packet = bytes.get(usize::from(l3)..).unwrap_or_default();
    let ip = match parse::network(kind, packet, port)? {
        Network::Ip(ip) => ip,
        Network::Arp => {
            let end = bytes.len() as u16; // a frame is shorter than 64 KiB
            return Ok(Received { ip: L3L4::default(), l3, end, punt: Some(punts::ARP) });
        }
        Network::IsIs => {
            let end = bytes.len() as u16; // a frame is shorter than 64 KiB
            return Ok(Received { ip: L3L4::default(), l3, end, punt: Some(punts::ROUTING) });
        }
    };
    let punt = if ip.version == 4 { to4(&ip, packet, port, tables) } else { to6(&ip, packet, port, tables) }?;
    let end = l3 + ip.total_len as u16; // fits: checked against the frame's length
    Ok(Received { ip, l3, end, punt })
}

/// Where a packet goes that is not forwarded.
fn to4(ip: &L3L4, packet: &[u8], port: &PortView, tables: &Forwarding) -> Result<Option<Punt>, Drop> {
    let is_ours = |view: &PortView| view.instance == port.instance && view.is_mine4(ip.dst);
    match () {
        () if port.host.is_some() && parse::is_routing(ip, packet, port, port.is_mine4(ip.dst)) => {
            Ok(Some(punts::ROUTING))
        }
        () if tables.ports.iter().any(is_ours) => {
            parse::local_or_host(ip, packet, port, port.is_mine4(ip.dst)).map(Some)
        }
        () if ip.dst >= 0xe000_0000 => Err(drops::MULTICAST),
        () if is_martian4(ip.src) => Err(drops::MARTIAN_SOURCE),
        () => Ok(None),
    }
}

/// As [`to4`].
fn to6(ip: &L3L4, packet: &[u8], port: &PortView, tables: &Forwarding) -> Result<Option<Punt>, Drop> {
    let (src, dst) = (ip.src6(packet), ip.dst6(packet));
    let is_ours = |view: &PortView| view.instance == port.instance && view.is_mine6(dst);
    match () {
        () if parse::is_discovery(ip, packet) => Ok(Some(punts::NEIGHBOUR)),
        () if port.host.is_some() && parse::is_routing(ip, packet, port, port.is_mine6(dst)) => {
            Ok(Some(punts::ROUTING))
        }
        () if tables.ports.iter().any(is_ours) => parse::local_or_host(ip, packet, port, port.is_mine6(dst)).map(Some),
        // fe80::/10 stays on the link.
        () if dst >> 120 == 0xff || dst >> 118 == 0xfe80 >> 6 => Err(drops::MULTICAST),
        () if is_martian6(src) => Err(drops::MARTIAN_SOURCE),
        () => Ok(None),
    }
}
