//! A cable gateway's part of the file: one service group, its device, its channels, its modems.

use super::{MODEM_KEY, Places};
use crate::fleet::{FIRST_ADDRESS, Fleet};
use crate::settings::Cmts;

/// The first L2TPv3 session of downstream channels, of bursts, and of requests, as devices are set up.
const SESSIONS: [u32; 3] = [0x1000, 0x2000, 0x3000];

pub fn lines(fleet: &Fleet, places: &Places, ordinal: u32, line: &mut impl FnMut(String)) -> Option<()> {
    let its = &fleet.settings.cmts;
    line(format!("\n[queues]\npackets = {}", fleet.settings.packet_buffers / 2));
    let ports = [
        ("nsi", "network", &places.core_interface, &places.core_address, 2),
        ("cin", "rpd", &places.access_interface, &places.access_address, 1),
    ];
    for (name, role, interface, address, group) in ports {
        line(format!("\n[[port]]\nname = \"{name}\"\nuri = \"{}\"", fleet.uri(interface, group)));
        line(format!("role = \"{role}\"\naddresses = [\"{address}\"]\nclaim_interface = true"));
    }
    line(format!("\n[[route]]\nto = \"0.0.0.0/0\"\nnext_hop = \"{}\"", places.core_router));
    let devices = its.devices;
    line(format!("\n[[route]]\nto = \"{devices}\"\nnext_hop = \"{}\"\ninstance = \"rpd\"", places.access_router));
    line(format!("\n[[profile]]\nname = \"home\"\nencrypt = {}", its.encrypt));
    line(format!("\n[[profile.flow]]\nname = \"best-effort\"\nrate = \"{}\"\naqm = true", its.rate));
    group(its, fleet, ordinal, line)
}

fn group(its: &Cmts, fleet: &Fleet, ordinal: u32, line: &mut impl FnMut(String)) -> Option<()> {
    let device = its.devices.address(u64::from(FIRST_ADDRESS) + u64::from(ordinal))?;
    line(format!("\n[[service_group]]\nname = \"sg{ordinal}\"\nrpd = \"{device}\""));
    let [down, bursts, requests] = SESSIONS;
    let (count, capacity) = (its.ofdm_channels, &its.ofdm_capacity);
    line("\n[[service_group.channel]]\nname = \"ofdm\"".to_owned());
    line(format!("count = {count}\ncapacity = \"{capacity}\"\nsession = {down:#x}"));
    // Modems are spread over both.
    let half = count.div_ceil(2);
    for (name, first, last) in [("low", 0, half), ("high", half, count)].into_iter().filter(|(_, a, b)| a < b) {
        let channels: Vec<String> = match count {
            1 => vec!["\"ofdm\"".to_owned()],
            _ => (first..last).map(|n| format!("\"ofdm{n}\"")).collect(),
        };
        line(format!("\n[[service_group.bonding_group]]\nname = \"{name}\"\nchannels = [{}]", channels.join(", ")));
    }
    line(format!("\n[[service_group.upstream_channel]]\nsession = {bursts:#x}"));
    line(format!("count = {}\ncapacity = \"{}\"", its.upstream_channels, its.upstream_capacity));
    line(format!("\n[[service_group.upstream_channel]]\nsession = {requests:#x}\ncarries = \"requests\""));
    let first = fleet.pool(ordinal)?.address(1)?;
    line(format!("\n[[service_group.modem]]\ncount = {}\nprofile = \"home\"", its.modems));
    line(format!("mac = \"{}\"\nhosts = {}\nipv4 = \"{first}\"", mac(its, ordinal)?, its.hosts));
    line("sid = 1\nsaid = 1".to_owned());
    if its.encrypt {
        line(format!("key = \"{MODEM_KEY}\"\niv = \"00000000000000000000000000000000\""));
    }
    Some(())
}

/// The hardware address of the first modem of a group.
fn mac(its: &Cmts, ordinal: u32) -> Option<String> {
    let mut octets = its.modem_mac.split(':').map(|text| u64::from_str_radix(text, 16).ok().filter(|it| *it < 256));
    let first = octets.by_ref().take(6).try_fold(0, |all, octet| Some(all << 8 | octet?))?;
    let mac = first + u64::from(ordinal) * u64::from(its.modems);
    let text: Vec<String> = mac.to_be_bytes()[2..].iter().map(|octet| format!("{octet:02x}")).collect();
    (its.modem_mac.len() == 17 && octets.next().is_none() && mac < 1 << 48).then(|| text.join(":"))
}
