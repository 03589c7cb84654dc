//! A subscriber: IPv4, IA_NA or SLAAC, and IA_PD of one line (or of one MAC on an N:1 line) as one record.

use crate::lease::{Kind, LeaseRecord};
use crate::{ClientKey, Line};
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::Mac;

/// How lines of a subscriber group identify subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vlans {
    /// 1:1: a line is one subscriber (TR-101 clause 3.1).
    OnePerLine,
    /// N:1: each MAC on a line is one.
    ManyPerLine,
}

/// Key of a subscriber: its line, and on N:1 lines its hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// Port and VLAN pair.
    pub line: Line,
    /// Hardware address; none: the line has one subscriber.
    pub mac: Option<Mac>,
}

impl Identity {
    /// The subscriber that a DHCP client belongs to.
    pub fn of(client: &ClientKey, vlans: Vlans) -> Self {
        let mac = (vlans == Vlans::ManyPerLine).then_some(Mac(client.mac));
        Self { line: client.line, mac }
    }
}

/// What a subscriber has. Of more leases of one kind (several hosts on a 1:1 line) the latest stands here; all are in the pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscriber {
    /// The MAC of its latest session: never learnt from ARP or ND.
    pub mac: Option<Mac>,
    /// Address leased by DHCPv4.
    pub ip4: Option<Ipv4Addr>,
    /// Address leased by DHCPv6 (IA_NA).
    pub na: Option<Ipv6Addr>,
    /// First address of the /64 that router advertisements announce.
    pub slaac: Option<Ipv6Addr>,
    /// Its delegated prefix and that prefix's length.
    pub pd: Option<(Ipv6Addr, u8)>,
}

impl Subscriber {
    /// Whether it has nothing: its session ends.
    pub fn is_gone(&self) -> bool {
        (self.ip4, self.na, self.slaac, self.pd) == (None, None, None, None)
    }
}

/// What a change did to a subscriber; one session of RADIUS and one of the packet path follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The first address or prefix: the session begins.
    Began,
    /// Another, or one of several gone: the session changes.
    Changed,
    /// The last is gone: the session ends.
    Ended,
    /// The subscriber has what it had before.
    Same,
}

/// Subscribers by their identity.
#[derive(Debug, Default)]
pub struct Subscribers {
    all: HashMap<Identity, Subscriber>,
}

impl Subscribers {
    /// Number of subscribers.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is no subscriber.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The subscriber with this identity.
    pub fn get(&self, identity: &Identity) -> Option<&Subscriber> {
        self.all.get(identity)
    }

    /// Takes in a lease that was granted, restored or renewed.
    pub fn granted(&mut self, identity: Identity, record: &LeaseRecord) -> Change {
        self.change(identity, |subscriber| {
            subscriber.mac = Some(Mac(record.key.client.mac));
            match record.key.kind {
                Kind::Ip4 => subscriber.ip4 = record.ip4(),
                Kind::Na => subscriber.na = Some(record.address),
                Kind::Pd => subscriber.pd = Some((record.address, record.prefix_len)),
            }
        })
    }

    /// Takes out a lease that ended, if it is the one that stands in the record.
    pub fn ended(&mut self, identity: Identity, record: &LeaseRecord) -> Change {
        self.change(identity, |subscriber| match record.key.kind {
            Kind::Ip4 if subscriber.ip4 == record.ip4() => subscriber.ip4 = None,
            Kind::Na if subscriber.na == Some(record.address) => subscriber.na = None,
            Kind::Pd if subscriber.pd == Some((record.address, record.prefix_len)) => subscriber.pd = None,
            _ => {}
        })
    }

    /// Sets or clears the prefix that is advertised for SLAAC.
    pub fn slaac(&mut self, identity: Identity, prefix: Option<Ipv6Addr>) -> Change {
        self.change(identity, |subscriber| subscriber.slaac = prefix)
    }

    fn change(&mut self, identity: Identity, with: impl FnOnce(&mut Subscriber)) -> Change {
        let before = self.all.get(&identity).copied();
        let mut after = before.unwrap_or_default();
        with(&mut after);
        match (before, after.is_gone()) {
            (None, true) => Change::Same,
            (Some(_), true) => {
                self.all.remove(&identity);
                Change::Ended
            }
            (Some(before), false) if before == after => Change::Same,
            (before, false) => {
                self.all.insert(identity, after);
                if before.is_some() { Change::Changed } else { Change::Began }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::LeaseKey;

    #[test]
    fn dual_stack_is_one_subscriber() {
        let line = Line { port: 1, s_vlan: 100, c_vlan: 7 };
        let client = ClientKey { line, mac: [2, 0, 0, 0, 0, 7], identifier: 0 };
        let record = |kind, address: &str, prefix_len| LeaseRecord {
            key: LeaseKey { kind, client },
            group: 1,
            address: address.parse().expect("an address"),
            prefix_len,
            expiry: 0,
        };
        let ip4 = record(Kind::Ip4, "::ffff:10.0.0.7", 128);
        let pd = record(Kind::Pd, "2001:db8:100::", 56);
        let mut subscribers = Subscribers::default();
        let identity = Identity::of(&client, Vlans::OnePerLine);
        assert_eq!(identity.mac, None);
        assert_eq!(subscribers.granted(identity, &ip4), Change::Began);
        assert_eq!(subscribers.granted(identity, &pd), Change::Changed);
        assert_eq!(subscribers.granted(identity, &pd), Change::Same);
        assert_eq!(subscribers.slaac(identity, Some("2001:db8:7::".parse().unwrap())), Change::Changed);
        let one = subscribers.get(&identity).expect("there");
        assert_eq!((one.ip4, one.pd.map(|pd| pd.1), one.na), (Some([10, 0, 0, 7].into()), Some(56), None));
        assert_eq!(subscribers.ended(identity, &ip4), Change::Changed);
        assert_eq!(subscribers.slaac(identity, None), Change::Changed);
        assert_eq!((subscribers.ended(identity, &pd), subscribers.len()), (Change::Ended, 0));
        assert_eq!(subscribers.ended(identity, &pd), Change::Same);
    }

    #[test]
    fn shared_lines_tell_subscribers_by_mac() {
        let client = |mac| ClientKey { line: Line::default(), mac: [mac; 6], identifier: 0 };
        let identity = |mac| Identity::of(&client(mac), Vlans::ManyPerLine);
        assert_ne!(identity(2), identity(4));
        assert_eq!(Identity::of(&client(2), Vlans::OnePerLine), Identity::of(&client(4), Vlans::OnePerLine));
    }
}
