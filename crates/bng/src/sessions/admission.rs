//! Who gets a session: requests from the queue, authentication, and what a RADIUS server changes later.

use std::net::Ipv4Addr;

use access::Time;
use access::dhcp4;
use access::dhcp6;
use access::lease::{Kind, LeaseKey};
use access::pool::State;
use access::queue::Class as Urgency;
use access::subscriber::{Identity, Vlans};
use radius::coa::ErrorCause;
use radius::dictionary::number;
use radius::{Attribute, Code, Packet};
use wire::Mac;

use super::aaa::{Decision, Standing};
use super::frames::Carried;
use super::{Served, Sessions, aaa, frames, line_of};
use crate::config::Class;
use crate::control::Control;
use crate::slow::ControlPacket;

/// The circuit ID that an access node has put into a request (option 82; option 18 of DHCPv6), if it is text.
fn circuit_of(frame: &[u8]) -> Option<String> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty()).map(str::to_owned);
    match frames::read(frame)? {
        Carried::Dhcp4(_, octets) => {
            let agent = dhcp4::Message::parse(octets).ok()?.agent?;
            text(access::option82::RelayAgent::parse(agent).ok()?.circuit_id?)
        }
        Carried::Dhcp6(_, octets) => text(dhcp6::Message::parse(octets).ok()?.agent()?.interface_id?),
        Carried::Solicitation => None,
    }
}

/// User-Name of a request's subscriber: what the access node calls its line, if there is one, or what we do. Otherwise the
/// subscriber could choose whom it is taken for.
fn user_of(has_access_node: bool, frame: &[u8], line: &str) -> String {
    Some(frame).filter(|_| has_access_node).and_then(circuit_of).unwrap_or_else(|| line.to_owned())
}

/// The hardware address of a request's client: the frame's source, or where relay agents are trusted, what they tell
/// (chaddr; option 79 of DHCPv6, RFC 6939), or chaddr where a router may have forwarded what a client sent from its address.
/// None: it is no station's; chaddr is not the source of a client's own frame, or a relay agent's message names no client.
pub(super) fn client_of(served: &Served, frame: &[u8]) -> Option<Mac> {
    let source = frames::source(frame);
    let client = match frames::read(frame) {
        Some(Carried::Dhcp4(from, octets)) => {
            let client = wire::fast::array(octets, 28).map(Mac)?;
            let is_relayed = octets.get(24..28).is_some_and(|giaddr| giaddr != [0; 4]);
            let is_told = served.relayed && (is_relayed || is_routed(from, octets));
            Some(client).filter(|client| is_told || *client == source)
        }
        Some(Carried::Dhcp6(_, octets)) if served.relayed && dhcp6::is_relayed(octets) => {
            let message = dhcp6::Message::parse(octets).ok()?;
            // An LDRA leaves the client's link header as it is (RFC 6221, 5.3.1); a line of one subscriber needs no address.
            let is_own = served.vlans == Vlans::OnePerLine || message.relays.iter().all(dhcp6::Relay::is_lightweight);
            message.client_mac().or(Some(source).filter(|_| is_own))
        }
        _ => Some(source),
    };
    client.filter(|mac| mac.0[0] & 1 == 0 && mac.0 != [0; 6])
}

/// Whether a DHCPv4 message may be of a client behind a router: it comes from the address that it says its client has.
fn is_routed(from: Ipv4Addr, octets: &[u8]) -> bool {
    !from.is_unspecified() && octets.get(12..16).is_some_and(|ciaddr| ciaddr == from.octets())
}

/// Whether a request gives back what its client has: no server is asked about it.
fn gives_back(frame: &[u8]) -> bool {
    match frames::read(frame) {
        Some(Carried::Dhcp4(_, octets)) => dhcp4::Message::parse(octets)
            .is_ok_and(|message| matches!(message.kind, dhcp4::Type::Release | dhcp4::Type::Decline)),
        Some(Carried::Dhcp6(_, octets)) => dhcp6::Message::parse(octets)
            .is_ok_and(|message| matches!(message.kind, Some(dhcp6::Type::Release | dhcp6::Type::Decline))),
        _ => false,
    }
}

impl Sessions {
    /// Takes a control packet. False: it is not for us.
    pub(super) fn take_in(&mut self, packet: ControlPacket, steady: Time) -> bool {
        if !matches!(packet.class, Class::Dhcp4 | Class::Dhcp6 | Class::Nd) {
            return false;
        }
        let Some(served) = self.served(packet.group) else { return false };
        let urgency = match frames::read(&packet.frame) {
            Some(Carried::Dhcp4(_, octets))
                if !served.relayed && octets.get(24..28).is_some_and(|giaddr| giaddr != [0; 4]) =>
            {
                self.counts.relayed += 1;
                return true;
            }
            Some(Carried::Dhcp6(_, octets))
                if !served.relayed && !served.trust_option82 && dhcp6::is_relayed(octets) =>
            {
                self.counts.relayed += 1;
                return true;
            }
            Some(Carried::Dhcp4(_, octets)) => dhcp4::class(octets),
            Some(Carried::Dhcp6(_, octets)) => dhcp6::class(octets),
            Some(Carried::Solicitation) => Some(Urgency::Discover),
            // Of neighbour discovery only solicitations for routers are for us.
            None if packet.class == Class::Nd => return true,
            None => None,
        };
        let Some(urgency) = urgency else {
            self.counts.unreadable += 1;
            return true;
        };
        let client = client_of(served, &packet.frame).filter(|client| self.is_certain(served, *client, &packet));
        let Some(client) = client else {
            self.counts.unnamed += 1;
            return true;
        };
        let shared = served.vlans == Vlans::ManyPerLine;
        let identity = Identity { line: line_of(packet.line), mac: shared.then_some(client) };
        if self.fixed.contains(&identity) {
            self.counts.fixed += 1;
            return true;
        }
        // What is dropped is counted there.
        let _ = self.queue.push(steady, identity, urgency, packet);
        true
    }

    /// Whether a request is its client's: one that a router has forwarded comes from the address that the client has a lease
    /// of. A relay agent on the line could have named any client; no other station can.
    fn is_certain(&self, served: &Served, client: Mac, packet: &ControlPacket) -> bool {
        let Some(Carried::Dhcp4(from, octets)) = frames::read(&packet.frame) else { return true };
        let is_relayed = octets.get(24..28).is_some_and(|giaddr| giaddr != [0; 4]);
        if is_relayed || client == frames::source(&packet.frame) {
            return true;
        }
        let Ok(message) = dhcp4::Message::parse(octets) else { return false };
        let identifier = message.client_id.map_or(0, |id| access::identifier_hash(&[id]));
        let client = access::ClientKey { line: line_of(packet.line), mac: client.0, identifier };
        let Some(pools) = self.pools.get(served.instance) else { return false };
        let slot = pools.find(&LeaseKey { kind: Kind::Ip4, client });
        slot.is_some_and(|slot| pools.lease(slot).state() == State::Bound && pools.ip4(slot) == Some(from))
    }

    /// Serves a request, once its subscriber is known to the servers that decide about it.
    pub(super) fn admit(&mut self, control: &mut Control, packet: ControlPacket, now: Time, steady: Time) {
        let identity = self.identity_of(&packet);
        let has_session = self.sessions.contains_key(&identity);
        // A RELEASE comes up to three times: the second one is of a subscriber that is not known any more.
        let aaa = self.aaa.as_mut().filter(|_| !gives_back(&packet.frame));
        let Some(aaa) = aaa else { return self.serve(control, &packet, now) };
        match aaa.standing(&identity, has_session, steady) {
            Standing::Granted => self.serve(control, &packet, now),
            Standing::Denied => {}
            Standing::Waits => aaa.hold(identity, packet),
            standing @ (Standing::Unknown | Standing::Restored) => {
                let line = self.line_name(control, &identity);
                let is_trusted = self.served(packet.group).is_some_and(|served| served.trust_option82);
                let user = user_of(is_trusted, &packet.frame, &line);
                let client = self.client_in(&packet);
                let told = self.served(packet.group).map(|served| served.told_rate(&packet.frame)).unwrap_or_default();
                let mut about = aaa::about(Some(client.0), &line);
                about.extend(told.attributes());
                let is_served = standing == Standing::Restored;
                if is_served {
                    self.serve(control, &packet, now);
                }
                if let Some(aaa) = &mut self.aaa {
                    aaa.ask(identity, (!is_served).then_some(packet), user, about, steady);
                }
            }
        }
    }

    pub(super) fn identity_of(&self, packet: &ControlPacket) -> Identity {
        let shared = self.served(packet.group).is_some_and(|served| served.vlans == Vlans::ManyPerLine);
        Identity { line: line_of(packet.line), mac: shared.then(|| self.client_in(packet)) }
    }

    /// The hardware address of the client of a request that was taken in.
    pub(super) fn client_in(&self, packet: &ControlPacket) -> Mac {
        let client = self.served(packet.group).and_then(|served| client_of(served, &packet.frame));
        client.unwrap_or_else(|| frames::source(&packet.frame))
    }

    /// A line's name: `port:s_vlan.c_vlan`, and the hardware address where lines share VLANs.
    pub(super) fn line_name(&self, control: &Control, identity: &Identity) -> String {
        let access::Line { port, s_vlan, c_vlan } = identity.line;
        let port = control.config().port.get(usize::from(port)).map_or("", |port| port.name.as_str());
        match identity.mac {
            Some(mac) => format!("{port}:{s_vlan}.{c_vlan}/{mac}"),
            None => format!("{port}:{s_vlan}.{c_vlan}"),
        }
    }

    /// Subscribers that their workers have taken out: what they had used is reported.
    pub(super) fn take_removed(&mut self, control: &mut Control, now: Time) {
        for (handle, usage) in control.removed() {
            if self.by_handle.contains_key(&handle) {
                continue;
            }
            self.free.push(handle);
            if let Some(aaa) = &mut self.aaa {
                aaa.stop(handle, &usage, now);
            }
        }
    }

    /// What RADIUS servers have decided, and what is to be reported to them.
    pub(super) fn authenticate(&mut self, control: &mut Control, now: Time, steady: Time) {
        self.take_removed(control, now);
        self.keep_accounting();
        let Some(aaa) = &mut self.aaa else { return };
        aaa.sweep(steady, |identity| self.sessions.contains_key(identity));
        let due = if control.is_arriving() { Vec::new() } else { aaa.due(now) };
        for decision in aaa.turn(now, steady) {
            match decision {
                Decision::Accepted(identity, packet) => {
                    self.change_profile(control, &identity);
                    if let Some((aaa, session)) = self.aaa.as_mut().zip(self.sessions.get(&identity)) {
                        aaa.adopt(session.handle, &identity, now);
                    }
                    if let Some(packet) = packet {
                        self.serve(control, &packet, now);
                    }
                }
                Decision::Change(ticket, packet) => {
                    let result = self.change(control, &packet);
                    if let Some(aaa) = &mut self.aaa {
                        aaa.answer(ticket, result);
                    }
                }
            }
        }
        if !due.is_empty() {
            control.ask_usage(&due);
            self.reporting.extend(due);
        }
    }

    /// A CoA- or Disconnect-Request (RFC 5176).
    pub(super) fn change(&mut self, control: &mut Control, packet: &Packet) -> Result<(), ErrorCause> {
        let handle = self.aaa.as_ref().and_then(|aaa| aaa.named(packet)).ok_or(ErrorCause::SessionContextNotFound)?;
        if packet.code == Code::DisconnectRequest {
            return if self.clear(control, handle) { Ok(()) } else { Err(ErrorCause::SessionContextNotFound) };
        }
        let name = packet.get(number::FILTER_ID).and_then(Attribute::to_text).ok_or(ErrorCause::MissingAttribute)?;
        let profile = *self.profiles.get(name).ok_or(ErrorCause::InvalidAttributeValue)?;
        let identity = *self.by_handle.get(&handle).ok_or(ErrorCause::SessionContextNotFound)?;
        self.set_profile(control, &identity, profile);
        if let Some(aaa) = &mut self.aaa {
            aaa.regrant(handle, &identity, name);
        }
        Ok(())
    }

    /// A subscriber has the tier that a server named.
    pub(super) fn change_profile(&mut self, control: &mut Control, identity: &Identity) {
        if self.sessions.contains_key(identity)
            && let Some(profile) = self.granted_profile(identity)
        {
            self.set_profile(control, identity, profile);
        }
    }

    pub(super) fn granted_profile(&self, identity: &Identity) -> Option<u16> {
        let name = self.aaa.as_ref()?.grant(identity)?.profile.as_ref()?;
        self.profiles.get(name).copied()
    }

    pub(super) fn set_profile(&mut self, control: &mut Control, identity: &Identity, profile: u16) {
        let Some(session) = self.sessions.get_mut(identity).filter(|session| session.profile != profile) else {
            return;
        };
        session.profile = profile;
        self.reinstall(control, identity);
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{Link, Tags};
    use super::*;

    #[test]
    fn only_access_nodes_name_the_user() {
        let mut discover = vec![1, 1, 6, 0, 9, 9, 9, 9];
        discover.resize(236, 0);
        discover.extend_from_slice(&[99, 130, 83, 99, 53, 1, 1, 82, 7, 1, 5]);
        discover.extend_from_slice(b"admin\xff");
        let link = Link { from: Mac([2; 6]), to: Mac([0xff; 6]), tags: Tags::default() };
        let (from, to) = ((Ipv4Addr::UNSPECIFIED, 68), (Ipv4Addr::BROADCAST, 67));
        let frame = frames::datagram4(&link, from, to, &discover).expect("a frame");
        assert_eq!(user_of(false, &frame, "acc:100.7"), "acc:100.7");
        assert_eq!(user_of(true, &frame, "acc:100.7"), "admin");
    }

    #[test]
    fn no_server_is_asked_about_a_release() {
        let link = Link { from: Mac([2; 6]), to: Mac([0xff; 6]), tags: Tags::default() };
        let dhcp4 = |kind: u8| {
            let mut body = vec![1, 1, 6];
            body.resize(236, 0);
            body.extend_from_slice(&[99, 130, 83, 99, 53, 1, kind, 255]);
            frames::datagram4(&link, (Ipv4Addr::UNSPECIFIED, 68), (Ipv4Addr::BROADCAST, 67), &body).expect("a frame")
        };
        let dhcp6 = |kind: u8| {
            let to = "ff02::1:2".parse().expect("an address");
            frames::datagram6(&link, (std::net::Ipv6Addr::LOCALHOST, 546), (to, 547), &[kind, 1, 2, 3])
                .expect("a frame")
        };
        let asked = |frame: Vec<u8>| !gives_back(&frame);
        assert_eq!([1, 3, 4, 7, 8].map(|kind| asked(dhcp4(kind))), [true, true, false, false, true]);
        assert_eq!([1, 3, 5, 8, 9].map(|kind| asked(dhcp6(kind))), [true, true, true, false, false]);
    }

    const CONFIG: &str = r#"
        gateway = "bng"
        profile = [ { name = "home" } ]
        port = [ { name = "acc", uri = "memory:acc", role = "access" }, { name = "core", uri = "memory:core", role = "core" } ]
        [[group]]
        name = "shared"
        ports = ["acc"]
        s_vlans = 200
        model = "N:1"
        ipv4 = ["100.65.0.0/24"]
        gateways = ["100.65.0.1"]
        profile = "home"
        [group.sessions]
        relayed = true
    "#;

    #[test]
    fn relayed_clients_are_told_apart() {
        let config: crate::config::Config = toml::from_str(CONFIG).expect("a configuration");
        let served = Served::new(&config, &config.layout().expect("a layout"), 0).expect("it has sessions");
        let (relay, client) = (Mac([2; 6]), Mac([4; 6]));
        let link = Link { from: relay, to: Mac([0xff; 6]), tags: Tags::default() };
        let dhcp4 = |giaddr: u8, chaddr: Mac| {
            let mut body = vec![0; 240];
            body[24] = giaddr;
            body[28..34].copy_from_slice(&chaddr.0);
            frames::datagram4(&link, (Ipv4Addr::UNSPECIFIED, 68), (Ipv4Addr::BROADCAST, 67), &body).expect("a frame")
        };
        assert_eq!(client_of(&served, &dhcp4(10, client)), Some(client));
        assert_eq!(client_of(&served, &dhcp4(0, relay)), Some(relay));
        assert_eq!(client_of(&served, &dhcp4(0, client)), None, "a client's own frame has its address");
        assert_eq!(client_of(&served, &dhcp4(10, Mac([0xff; 6]))), None);
        let routed = |from: Ipv4Addr| {
            let mut body = vec![0; 240];
            body[12..16].copy_from_slice(&[100, 65, 0, 9]);
            body[28..34].copy_from_slice(&client.0);
            frames::datagram4(&link, (from, 68), (Ipv4Addr::new(100, 65, 0, 1), 67), &body).expect("a frame")
        };
        let own = routed(Ipv4Addr::new(100, 65, 0, 9));
        assert_eq!(client_of(&served, &own), Some(client));
        assert_eq!(client_of(&served, &routed(Ipv4Addr::new(100, 65, 0, 8))), None, "from another's address");
        let dhcp6 = |link_address: u8, option: &[u8]| {
            let mut body = vec![12, 0];
            body.extend([0; 15]);
            body.push(link_address);
            body.extend("fe80::7".parse::<std::net::Ipv6Addr>().expect("an address").octets());
            body.extend([0, 18, 0, 1, b'7']);
            body.extend_from_slice(option);
            body.extend([0, 9, 0, 4, 1, 1, 2, 3]);
            let to = "ff02::1:2".parse().expect("an address");
            frames::datagram6(&link, (std::net::Ipv6Addr::LOCALHOST, 547), (to, 547), &body).expect("a frame")
        };
        let option = [0, 79, 0, 8, 0, 1, 4, 4, 4, 4, 4, 4];
        assert_eq!(client_of(&served, &dhcp6(1, &option)), Some(client));
        assert_eq!(client_of(&served, &dhcp6(1, &[])), None, "the relay agent's address is no client's");
        assert_eq!(client_of(&served, &dhcp6(0, &[])), Some(relay), "an LDRA leaves the link header as it is");
        let untrusted = Served { relayed: false, ..served };
        assert_eq!(client_of(&untrusted, &own), None);
        assert_eq!(client_of(&untrusted, &dhcp6(1, &option)), Some(relay));
    }
}
