//! Filter groups and classifiers of mixed kinds, as operators have them: addresses with prefixes, protocols, ranges of
//! ports, types of service, Ethernet addresses. Plain data: a gateway is configured by it, and packets are shaped to
//! match it.
//!
//! No field is in all rules of a list, so a gateway can neither look all of them up by one key, nor tell by one
//! comparison that a packet matches none.

use std::net::Ipv4Addr;

use super::workload::{CLASSIFIER_RULES, FILTER_GROUPS, FILTER_RULES, Next};
use crate::direction::Direction;

/// The protocol value that means TCP or UDP (CM-SP-MULPI, classifier encodings).
pub const TCP_OR_UDP: u16 = 257;

/// What a rule compares (CM-SP-MULPI, TLV 22 and 23; DOCS-SUBMGT3-MIB). What is left out matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    /// Type of service: low, high, mask.
    pub tos: Option<[u8; 3]>,
    /// IP protocol; [`TCP_OR_UDP`] is both.
    pub protocol: Option<u16>,
    /// IPv4 source prefix.
    pub source: Option<(Ipv4Addr, u8)>,
    /// IPv4 destination prefix.
    pub destination: Option<(Ipv4Addr, u8)>,
    /// IPv6 destination prefix, as written in a configuration. Packets of the workload are IPv4: it matches none.
    pub destination6: Option<String>,
    /// First and last TCP or UDP source port.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub destination_ports: Option<(u16, u16)>,
    /// Ethernet destination with its mask, as written in a configuration. It is a group address: it matches none.
    pub destination_mac: Option<&'static str>,
}

/// A rule of a filter group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterRule {
    /// What it compares.
    pub fields: Pattern,
    /// Whether a packet that matches passes.
    pub permits: bool,
}

/// Headers that rules compare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headers {
    tos: u8,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    ports: [u16; 2],
}

impl Headers {
    /// Of a packet of the workload in that direction, from or to a host behind a modem.
    pub fn of(next: &Next, direction: Direction, host: Ipv4Addr) -> Self {
        let (source, destination) = match direction {
            Direction::Downlink => (next.server, host),
            Direction::Uplink => (host, next.server),
        };
        Self { tos: next.tos, source, destination, ports: [next.src_port, next.dst_port] }
    }
}

fn mask(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

/// Rules over addresses of servers are over these networks, one for each kind of rule and each filter group.
pub(super) const SERVERS: [u8; 2] = [198, 19];
/// The hosts behind modems.
const HOSTS: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 0, 0, 0), 8);

impl Pattern {
    fn udp(source_ports: Option<(u16, u16)>, destination_ports: Option<(u16, u16)>) -> Self {
        Self { protocol: Some(17), source_ports, destination_ports, ..Self::default() }
    }

    fn tcp(destination_ports: (u16, u16)) -> Self {
        Self { protocol: Some(6), destination_ports: Some(destination_ports), ..Self::default() }
    }

    fn protocol(number: u16) -> Self {
        Self { protocol: Some(number), ..Self::default() }
    }

    fn tos(low: u8, high: u8, mask: u8) -> Self {
        Self { tos: Some([low, high, mask]), ..Self::default() }
    }

    fn from(self, source: (Ipv4Addr, u8)) -> Self {
        Self { source: Some(source), ..self }
    }

    fn to(self, destination: (Ipv4Addr, u8)) -> Self {
        Self { destination: Some(destination), ..self }
    }

    /// Whether a UDP packet over IPv4, to an Ethernet address of one host, matches.
    pub(super) fn fits(&self, seen: &Headers) -> bool {
        let within = |prefix: Option<(Ipv4Addr, u8)>, it: Ipv4Addr| {
            prefix.is_none_or(|(base, len)| (u32::from(base) ^ u32::from(it)) & mask(len) == 0)
        };
        let has = |range: Option<(u16, u16)>, port: u16| range.is_none_or(|(low, high)| (low..=high).contains(&port));
        self.tos.is_none_or(|[low, high, mask]| (low..=high).contains(&(seen.tos & mask)))
            && self.protocol.is_none_or(|protocol| matches!(protocol, 17 | TCP_OR_UDP))
            && within(self.source, seen.source)
            && within(self.destination, seen.destination)
            && self.destination6.is_none()
            && has(self.source_ports, seen.ports[0])
            && has(self.destination_ports, seen.ports[1])
            && self.destination_mac.is_none()
    }

    /// Changes a packet in that direction so that it matches, where its fields allow that.
    pub(super) fn shape(&self, next: &mut Next, direction: Direction, random: u32) {
        if let Some([low, high, mask]) = self.tos {
            next.tos = next.tos & !mask | if random & 1 == 0 { low } else { high };
        }
        let server = match direction {
            Direction::Downlink => self.source,
            Direction::Uplink => self.destination,
        };
        if let Some((base, len)) = server.filter(|(base, _)| base.octets()[..2] == SERVERS) {
            next.server = Ipv4Addr::from(u32::from(base) | (1 + random % 100) & !mask(len));
        }
        let ports = [(self.source_ports, &mut next.src_port), (self.destination_ports, &mut next.dst_port)];
        for (range, port) in ports {
            if let Some((low, high)) = range.filter(|(low, high)| !(*low..=*high).contains(port)) {
                *port = low + (random % (u32::from(high - low) + 1)) as u16; // at most the range's length
            }
        }
    }
}

/// A network of servers: by the kind of rule, and the filter group.
fn servers(kind: u8, group: u16, len: u8) -> (Ipv4Addr, u8) {
    (Ipv4Addr::new(SERVERS[0], SERVERS[1], kind * 16 + group as u8, 0), len) // six groups
}

/// The rules of a filter group, the highest priority first. Ten permit what packets of the workload can match, by
/// different fields; six are what operators deny or permit beside them.
pub fn filter_group(group: u16) -> [FilterRule; FILTER_RULES as usize] {
    let at = 30_000 + group * 100;
    let precedence = (group as u8 + 1) << 5; // 1 to 6
    let any_port = Some((1024, u16::MAX));
    let tcp_or_udp = || Pattern::protocol(TCP_OR_UDP);
    let permits = |fields| FilterRule { fields, permits: true };
    let denies = |fields| FilterRule { fields, permits: false };
    [
        denies(Pattern::tcp((135, 139))),
        permits(Pattern::udp(Some((at, at)), None)),
        permits(Pattern::udp(None, None).from(servers(1, group, 24))),
        permits(Pattern::udp(None, None).to(servers(1, group, 24))),
        denies(Pattern::tcp((445, 445))),
        permits(Pattern::tos(precedence, precedence, 0xe0)),
        permits(Pattern { source_ports: any_port, ..tcp_or_udp() }.from(servers(2, group, 25))),
        permits(Pattern { source_ports: any_port, ..tcp_or_udp() }.to(servers(2, group, 25))),
        denies(Pattern::tcp((25, 25)).from((Ipv4Addr::new(192, 0, 2, 0), 24))),
        permits(Pattern::udp(Some((at + 10, at + 29)), None)),
        permits(tcp_or_udp().from(servers(3, group, 26)).to(HOSTS)),
        permits(tcp_or_udp().from(HOSTS).to(servers(3, group, 26))),
        permits(Pattern::udp(Some((at + 50, at + 59)), any_port)),
        permits(Pattern { destination6: Some(format!("2001:db8:{group:x}::/48")), ..Pattern::default() }),
        permits(Pattern::protocol(50)),
        denies(Pattern { destination_mac: Some("01:00:5e:00:00:00/ff:ff:ff:80:00:00"), ..Pattern::default() }),
    ]
}

/// Classifiers with the service flow, by number, that each leads to; the highest priority first.
pub fn classifiers() -> [(Pattern, u32); CLASSIFIER_RULES as usize] {
    let any_port = Some((1024, u16::MAX));
    let to = |low, high| Pattern::udp(None, Some((low, high)));
    [
        (Pattern::tcp((5060, 5061)), 1),
        (to(20_000, 20_000), 1),
        (to(20_010, 20_019), 2),
        (Pattern::tos(0x04, 0x04, 0x1c), 3),
        (Pattern::protocol(1), 3),
        (Pattern::tos(0x08, 0x0c, 0x1c), 1),
        (to(20_030, 20_039).to(HOSTS), 2),
        (Pattern::udp(any_port, Some((20_045, 20_045))), 3),
        (Pattern { protocol: Some(6), source_ports: Some((443, 443)), ..Pattern::default() }, 2),
        (Pattern { destination_ports: Some((20_060, 20_069)), ..Pattern::protocol(TCP_OR_UDP) }.to(HOSTS), 1),
        (Pattern { tos: Some([0x14, 0x18, 0x1c]), ..Pattern::udp(None, any_port) }, 2),
        (Pattern { destination6: Some("2001:db8::/32".into()), ..Pattern::default() }, 1),
        (to(20_080, 20_080), 3),
        (to(20_090, 20_099).from((Ipv4Addr::new(198, 18, 0, 0), 15)), 1),
        (Pattern::protocol(47), 2),
        (to(20_110, 20_149), 3),
    ]
}

/// Rules that packets are shaped by: those of each filter group that packets of a direction can match, and classifiers.
#[derive(Clone, Debug)]
pub(super) struct Shapes {
    direction: Direction,
    filters: Vec<Vec<Pattern>>,
    classifiers: Vec<(Pattern, u32)>,
}

impl Shapes {
    /// Of the rules above.
    pub fn new(direction: Direction) -> Self {
        let host = HOSTS.0;
        let can_match = |fields: &Pattern| {
            let mut next = Next::default();
            fields.shape(&mut next, direction, 1);
            fields.fits(&Headers::of(&next, direction, host))
        };
        let permitted = |group| filter_group(group).into_iter().filter(|rule| rule.permits).map(|rule| rule.fields);
        Self {
            direction,
            filters: (0..FILTER_GROUPS).map(|group| permitted(group).filter(can_match).collect()).collect(),
            classifiers: classifiers().into_iter().filter(|(fields, _)| can_match(fields)).collect(),
        }
    }

    /// Makes the packet match a rule of a filter group.
    pub fn filter(&self, next: &mut Next, group: u16, random: u32) {
        let rules = self.filters.get(usize::from(group)).map(Vec::as_slice).unwrap_or_default();
        if let Some(fields) = rules.get(random as usize % rules.len().max(1)) {
            fields.shape(next, self.direction, random / 16);
            next.filtered = true;
        }
    }

    /// Makes the packet match a classifier.
    pub fn classify(&self, next: &mut Next, random: u32) {
        if let Some((fields, class)) = self.classifiers.get(random as usize % self.classifiers.len().max(1)) {
            fields.shape(next, self.direction, random / 16);
            next.class = *class;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);

    /// The outcome of the first rule of a list that fits.
    fn first<T: Copy>(rules: impl IntoIterator<Item = (Pattern, T)>, seen: &Headers) -> Option<T> {
        rules.into_iter().find(|(fields, _)| fields.fits(seen)).map(|(_, then)| then)
    }

    #[test]
    fn shaped_packets_match_what_they_are_shaped_for() {
        for direction in [Direction::Downlink, Direction::Uplink] {
            let shapes = Shapes::new(direction);
            let mut kinds = std::collections::BTreeSet::new();
            for random in 0..5000u32 {
                let (group, random) = ((random % 6) as u16, random.wrapping_mul(0x9e37_79b9) >> 7);
                let mut next = Next { src_port: 10_000, dst_port: 10_001, ..Next::default() };
                let classified = random % 3 == 0;
                shapes.filter(&mut next, group, random);
                if classified {
                    shapes.classify(&mut next, random / 7);
                }
                let seen = Headers::of(&next, direction, HOST);
                let rules = |group| filter_group(group).map(|rule| (rule.fields, rule.permits));
                assert_eq!(first(rules(group), &seen), Some(true), "{next:?}");
                assert_eq!(first(rules((group + 1) % 6), &seen), None, "{next:?}");
                if direction == Direction::Downlink {
                    assert_eq!(first(classifiers(), &seen), classified.then_some(next.class), "{next:?}");
                }
                kinds.insert(filter_group(group).iter().position(|rule| rule.fields.fits(&seen)));
            }
            assert_eq!(kinds.len(), 7, "{direction:?}: kinds of rules that packets match");
        }
    }

    #[test]
    fn other_packets_match_nothing() {
        for direction in [Direction::Downlink, Direction::Uplink] {
            let seen = Headers::of(&Next::default(), direction, HOST);
            for group in 0..FILTER_GROUPS {
                assert!(filter_group(group).iter().all(|rule| !rule.fields.fits(&seen)));
            }
            assert_eq!(first(classifiers(), &seen), None);
        }
    }

    /// Every list has rules without each of the fields: none of them alone decides.
    #[test]
    fn no_field_is_in_all_rules() {
        let filters = filter_group(0).map(|rule| rule.fields);
        for rules in [filters, classifiers().map(|(fields, _)| fields)] {
            let without: [fn(&Pattern) -> bool; 6] = [
                |rule| rule.tos.is_none(),
                |rule| rule.protocol.is_none(),
                |rule| rule.source.is_none(),
                |rule| rule.destination.is_none(),
                |rule| rule.source_ports.is_none(),
                |rule| rule.destination_ports.is_none(),
            ];
            for lacks in without {
                let lacking = rules.iter().filter(|rule| lacks(rule)).count();
                assert!((1..16).contains(&lacking), "{lacking}");
            }
        }
    }
}
