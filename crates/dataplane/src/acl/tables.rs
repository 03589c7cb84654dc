//! The rules of one direction and version, compiled.

use std::collections::BTreeSet;

use table::lpm::{Address, Lpm, Prefix};
use wire::L3L4;

use super::rule::{PortRange, Ports, Rule};
use super::vectors::{SetId, Vectors};

/// Fields of a packet that lead to sets of rules.
const FIELDS: usize = 6;

/// Sets by address: that of the longest prefix among the rules' holds all rules whose prefix covers it.
struct Addresses<A> {
    prefixes: Lpm<A>,
    /// For addresses in no prefix.
    other: SetId,
}

impl<A: Address> Addresses<A> {
    fn new(rules: &[&Rule], of: impl Fn(&Rule) -> Option<Prefix<A>>, vectors: &mut Vectors) -> Self {
        let all: Vec<_> = rules.iter().map(|rule| of(rule)).collect();
        let mut prefixes = Lpm::new();
        for prefix in all.iter().flatten().collect::<BTreeSet<_>>() {
            let covers = |rule: &Option<Prefix<A>>| {
                rule.is_none_or(|rule| rule.len() <= prefix.len() && rule.covers(prefix.address()))
            };
            prefixes.insert(*prefix, vectors.enter(all.iter().map(covers)));
        }
        Self { prefixes, other: vectors.enter(all.iter().map(Option::is_none)) }
    }

    #[inline(always)]
    fn of(&self, address: A) -> SetId {
        self.prefixes.lookup(address).unwrap_or(self.other)
    }
}

/// Sets by port: between two borders all ports are in the same ranges.
struct PortSets {
    /// First port of each interval but the first.
    borders: Box<[u16]>,
    sets: Box<[SetId]>,
    hidden: SetId,
    none: SetId,
}

impl PortSets {
    fn new(rules: &[&Rule], of: impl Fn(&Rule) -> Option<PortRange>, vectors: &mut Vectors) -> Self {
        let ranges = rules.iter().filter_map(|rule| of(rule));
        let borders = ranges.flat_map(|range| [Some(range.first), range.last.checked_add(1)]);
        let borders: BTreeSet<u16> = borders.flatten().filter(|port| *port > 0).collect();
        let mut set = |ports| vectors.enter(rules.iter().map(|rule| rule.has_ports(of(rule), ports)));
        Self {
            sets: std::iter::once(&0).chain(&borders).map(|first| set(Ports::Are(*first))).collect(),
            hidden: set(Ports::Hidden),
            none: set(Ports::None),
            borders: borders.into_iter().collect(),
        }
    }

    #[inline(always)]
    fn of(&self, ports: Ports) -> SetId {
        match ports {
            Ports::Are(port) => {
                let at = self.borders.partition_point(|first| *first <= port);
                self.sets.get(at).copied().unwrap_or(self.none)
            }
            Ports::Hidden => self.hidden,
            Ports::None => self.none,
        }
    }
}

/// The rules of one direction and version. Rules are numbered among themselves.
pub(super) struct Table<A> {
    vectors: Vectors,
    src: Addresses<A>,
    dst: Addresses<A>,
    src_ports: PortSets,
    dst_ports: PortSets,
    protocols: Box<[SetId; 256]>,
    dscps: [SetId; 64],
    /// Their places in the whole list.
    places: Box<[u32]>,
}

impl<A: Address> Table<A> {
    /// Compiles `rules`, given with their places in the list; `prefix` makes an address of this version.
    pub(super) fn new(rules: &[(u32, &Rule)], prefix: impl Fn(&Rule, bool) -> Option<Prefix<A>>) -> Self {
        let (places, rules): (Vec<u32>, Vec<&Rule>) = rules.iter().copied().unzip();
        let mut vectors = Vectors::new(rules.len());
        let v = &mut vectors;
        let mut protocols = Box::new([0; 256]);
        for (number, set) in protocols.iter_mut().enumerate() {
            *set = v.enter(rules.iter().map(|rule| rule.protocol.is_none_or(|only| usize::from(only) == number)));
        }
        let mut dscps = [0; 64];
        for (dscp, set) in dscps.iter_mut().enumerate() {
            *set = v.enter(rules.iter().map(|rule| rule.dscp.is_none_or(|only| usize::from(only) == dscp)));
        }
        let src = Addresses::new(&rules, |rule| prefix(rule, true), v);
        let dst = Addresses::new(&rules, |rule| prefix(rule, false), v);
        let src_ports = PortSets::new(&rules, |rule| rule.src_ports, v);
        let dst_ports = PortSets::new(&rules, |rule| rule.dst_ports, v);
        vectors.freeze();
        Self { vectors, src, dst, src_ports, dst_ports, protocols, dscps, places: places.into() }
    }

    /// The first rule that matches, by its place in the whole list.
    #[inline]
    pub(super) fn first(&self, ip: &L3L4, src: A, dst: A) -> Option<u32> {
        let sets: [SetId; FIELDS] = [
            self.dst.of(dst),
            self.dst_ports.of(Ports::of(ip, ip.dst_port)),
            self.src.of(src),
            self.src_ports.of(Ports::of(ip, ip.src_port)),
            self.protocols[usize::from(ip.protocol)],
            self.dscps[usize::from(ip.dscp() & 63)],
        ];
        self.places.get(self.vectors.first_of(sets)?).copied()
    }

    pub(super) fn bytes(&self) -> usize {
        self.vectors.bytes() + self.src.prefixes.bytes() + self.dst.prefixes.bytes()
    }
}
