//! A user plane's part of the file.

use super::Places;
use crate::fleet::Fleet;

pub fn lines(fleet: &Fleet, places: &Places, line: &mut impl FnMut(String)) {
    let ports = [
        ("n3", "access", &places.access_interface, &places.access_address, 1),
        ("n6", "core", &places.core_interface, &places.core_address, 2),
    ];
    for (name, role, interface, address, group) in ports {
        line(format!("\n[[port]]\nname = \"{name}\"\nuri = \"{}\"", fleet.uri(interface, group)));
        // The interface is the gateway's alone, but the cloud or cluster may have given the host an address on it.
        line(format!("role = \"{role}\"\naddresses = [\"{address}\"]\nclaim_interface = true"));
    }
    line(format!("\n[[route]]\nto = \"0.0.0.0/0\"\nnext_hop = \"{}\"", places.core_router));
    line(format!("\n[[route]]\nto = \"0.0.0.0/0\"\nnext_hop = \"{}\"\ninstance = \"access\"", places.access_router));
    line(format!("\n[n4]\naddress = \"{}\"", places.n4_address));
    let allow: Vec<String> = places.peers.iter().map(|network| format!("\"{network}\"")).collect();
    line(format!("allow = [{}]", allow.join(", ")));
    line(format!("sessions = {}", fleet.sessions()));
    line(format!("ledger = \"{}\"", places.ledger));
    line(format!("pool = [{{ v4 = \"{}\" }}]", fleet.settings.ue_pool));
}
