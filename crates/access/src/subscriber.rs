//! A subscriber: IPv4, IA_NA or SLAAC, and IA_PD of one line (or of one MAC on an N:1 line) as one record.

use crate::lease::{Kind, LeaseRecord};
use crate::{ClientKey, Line};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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

/// What a subscriber has. Of more leases of one kind (several hosts on a 1:1 line) the latest stands here, and when that
/// ends, the latest of those that are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscriber {
    /// The MAC of the client of its latest lease: never learnt from ARP or ND.
    pub mac: Option<Mac>,
    /// Address leased by DHCPv4.
    pub ip4: Option<Ipv4Addr>,
    /// Address leased by DHCPv6 (IA_NA).
    pub na: Option<Ipv6Addr>,
    /// First address of the /64 that router advertisements announce.
    pub slaac: Option<Ipv6Addr>,
    /// Its delegated prefix and that prefix's length.
    pub pd: Option<(Ipv6Addr, u8)>,
    /// Servers of the core that have granted its latest leases of IPv4 and of IPv6; none: the gateway has.
    pub servers: [Option<IpAddr>; 2],
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

/// A subscriber, and the leases that it has.
#[derive(Debug, Default)]
struct SubscriberLeases {
    subscriber: Subscriber,
    /// The latest last; [`Limits::per_line`](crate::pool::Limits::per_line) bounds them.
    leases: Vec<LeaseRecord>,
}

impl SubscriberLeases {
    /// Puts the latest lease of each kind into the subscriber.
    fn refresh(&mut self) {
        let latest = |kind: Kind| self.leases.iter().rev().find(|lease| lease.key.kind == kind);
        let mac = self.leases.iter().rev().map(|lease| Mac(lease.key.client.mac)).find(|mac| mac.0 != [0; 6]);
        self.subscriber = Subscriber {
            mac,
            ip4: latest(Kind::Ip4).and_then(LeaseRecord::ip4),
            na: latest(Kind::Na).map(|lease| lease.address),
            slaac: self.subscriber.slaac,
            pd: latest(Kind::Pd).map(|lease| (lease.address, lease.prefix_len)),
            servers: [latest(Kind::Ip4), latest(Kind::Na).or_else(|| latest(Kind::Pd))]
                .map(|lease| lease.and_then(|lease| lease.server)),
        };
    }
}

/// Subscribers by their identity.
#[derive(Debug, Default)]
pub struct Subscribers {
    all: HashMap<Identity, SubscriberLeases>,
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
        self.all.get(identity).map(|entry| &entry.subscriber)
    }

    /// Its leases, but for prefixes that are advertised; the latest last.
    pub fn leases(&self, identity: &Identity) -> &[LeaseRecord] {
        self.all.get(identity).map_or(&[], |entry| &entry.leases)
    }

    /// Takes in a lease that was granted, restored or renewed.
    pub fn granted(&mut self, identity: Identity, record: &LeaseRecord) -> Change {
        self.change(identity, |entry| {
            entry.leases.retain(|lease| lease.key != record.key);
            entry.leases.push(*record);
        })
    }

    /// Takes out a lease that ended. The subscriber keeps what its other leases give.
    pub fn ended(&mut self, identity: Identity, record: &LeaseRecord) -> Change {
        self.change(identity, |entry| {
            let is_it = |lease: &LeaseRecord| lease.key == record.key && lease.address == record.address;
            entry.leases.retain(|lease| !is_it(lease));
        })
    }

    /// Sets or clears the prefix that is advertised for SLAAC.
    pub fn slaac(&mut self, identity: Identity, prefix: Option<Ipv6Addr>) -> Change {
        self.change(identity, |entry| entry.subscriber.slaac = prefix)
    }

    fn change(&mut self, identity: Identity, with: impl FnOnce(&mut SubscriberLeases)) -> Change {
        let is_new = !self.all.contains_key(&identity);
        let entry = self.all.entry(identity).or_default();
        let before = entry.subscriber;
        with(entry);
        entry.refresh();
        let after = entry.subscriber;
        if after.is_gone() {
            self.all.remove(&identity);
        }
        match (is_new, after.is_gone()) {
            (true, true) => Change::Same,
            (false, true) => Change::Ended,
            (true, false) => Change::Began,
            (false, false) if before == after => Change::Same,
            (false, false) => Change::Changed,
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
            server: None,
            line_rate: Default::default(),
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
    fn ended_lease_leaves_the_lines_other_leases() {
        let line = Line { port: 1, s_vlan: 100, c_vlan: 7 };
        let record = |kind, host: u8, address: &str| LeaseRecord {
            key: LeaseKey { kind, client: ClientKey { line, mac: [host; 6], identifier: 0 } },
            group: 1,
            address: address.parse().expect("an address"),
            prefix_len: 128,
            expiry: 0,
            server: None,
            line_rate: Default::default(),
        };
        let (first, second) = (record(Kind::Ip4, 2, "::ffff:10.0.0.7"), record(Kind::Ip4, 4, "::ffff:10.0.0.8"));
        let other = record(Kind::Na, 6, "2001:db8::1");
        let identity = Identity::of(&first.key.client, Vlans::OnePerLine);
        let mut subscribers = Subscribers::default();
        [&first, &other, &second].into_iter().for_each(|lease| _ = subscribers.granted(identity, lease));
        let has = |subscribers: &Subscribers| {
            subscribers.get(&identity).map(|has| (has.mac.map(|mac| mac.0[0]), has.ip4, has.na.is_some()))
        };
        assert_eq!(has(&subscribers), Some((Some(4), second.ip4(), true)));
        assert_eq!(subscribers.ended(identity, &second), Change::Changed);
        assert_eq!(has(&subscribers), Some((Some(6), first.ip4(), true)));
        assert_eq!(subscribers.ended(identity, &other), Change::Changed);
        assert_eq!(has(&subscribers), Some((Some(2), first.ip4(), false)));
        assert_eq!(subscribers.ended(identity, &second), Change::Same, "it has ended before");
        assert_eq!((subscribers.ended(identity, &first), subscribers.len()), (Change::Ended, 0));
    }

    #[test]
    fn shared_lines_tell_subscribers_by_mac() {
        let client = |mac| ClientKey { line: Line::default(), mac: [mac; 6], identifier: 0 };
        let identity = |mac| Identity::of(&client(mac), Vlans::ManyPerLine);
        assert_ne!(identity(2), identity(4));
        assert_eq!(Identity::of(&client(2), Vlans::OnePerLine), Identity::of(&client(4), Vlans::OnePerLine));
    }
}
