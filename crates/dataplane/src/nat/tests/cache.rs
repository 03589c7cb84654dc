//! Packets translated elsewhere, by copies of mappings.

use std::sync::{Arc, Mutex};

use table::records::LineId;

use super::*;

/// What a cache was told, and what it has to tell.
#[derive(Default)]
struct Seen {
    flows: BTreeMap<u32, Flow>,
    /// Public ends of flows that are removed, not quiet yet.
    removed: BTreeSet<u64>,
    used: BTreeMap<u32, LastUse>,
    /// Flows that there is room for; none: any number.
    most: Option<usize>,
    waiting: Vec<u32>,
    /// A packet is under way.
    is_busy: bool,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Seen>>);

impl Fake {
    fn rig(config: &Config) -> (Rig, Self) {
        let (mut rig, fake) = (Rig::new(config), Self::default());
        rig.nat.set_cache(Box::new(fake.clone()));
        (rig, fake)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.lock().expect("no panic before")
    }

    /// Flows that it has, and those that wait.
    fn counts(&self) -> (usize, usize) {
        let seen = self.seen();
        (seen.flows.len(), seen.waiting.len())
    }

    /// All flows have a packet at that time.
    fn use_all(&self, out: Option<u64>, inward: Option<u64>) {
        let mut seen = self.seen();
        let numbers: Vec<u32> = seen.flows.keys().copied().collect();
        seen.used.extend(numbers.into_iter().map(|number| (number, LastUse { out, inward })));
    }
}

impl FlowCache for Fake {
    fn prepare(&mut self, numbers: u32) {
        assert!(numbers > 0 && self.seen().flows.is_empty());
    }

    fn next_waiting(&self) -> Option<u32> {
        let seen = self.seen();
        seen.waiting.first().copied().filter(|_| seen.most.is_none_or(|most| seen.flows.len() < most))
    }

    fn enter(&mut self, number: u32, flow: &Flow) {
        let mut seen = self.seen();
        let is_first = seen.waiting.first().is_none_or(|first| *first == number);
        if !is_first || seen.most.is_some_and(|most| seen.flows.len() >= most) {
            return seen.waiting.push(number);
        }
        seen.waiting.retain(|waiting| *waiting != number);
        assert!(seen.flows.insert(number, *flow).is_none(), "a number is one flow's");
        assert!(!seen.removed.contains(&flow.in_key), "its port may be in use yet");
        assert_eq!((flow.out_key >> 50, flow.in_key >> 50), (INSTANCE.into(), INSTANCE.into()));
    }

    fn remove(&mut self, number: u32) {
        let mut seen = self.seen();
        if seen.waiting.contains(&number) {
            return seen.waiting.retain(|waiting| *waiting != number);
        }
        let flow = seen.flows.remove(&number).expect("it was there");
        seen.removed.insert(flow.in_key);
        seen.used.remove(&number);
    }

    fn last_use(&mut self, number: u32, _now: u64) -> LastUse {
        self.seen().used.remove(&number).unwrap_or_default()
    }

    fn quiesce(&mut self) -> bool {
        let mut seen = self.seen();
        if !seen.is_busy {
            seen.removed.clear();
        }
        !seen.is_busy
    }
}

#[test]
fn a_flow_in_use_elsewhere_lives_on() {
    let (mut rig, fake) = Fake::rig(&config());
    let end = rig.udp((ue(1), 1000)).expect("a mapping");
    for minute in 1..20 {
        // Now: no packet comes later than it is asked for.
        fake.use_all(Some((minute - 1) * 60 * SECOND), None);
        rig.until(minute * 60);
        assert_eq!(rig.nat.mappings(), 1, "minute {minute}");
    }
    assert_eq!(fake.seen().flows.len(), 1);
    assert_eq!(rig.udp((ue(1), 1000)), Ok(end));
    // Two minutes behind the last one it ends.
    rig.until(19 * 60 + 119);
    assert_eq!(rig.nat.mappings(), 1);
    rig.until(19 * 60 + 122);
    assert_eq!((rig.nat.mappings(), fake.seen().flows.len()), (0, 0));
}

#[test]
fn an_answer_elsewhere_is_an_answer() {
    let (mut rig, fake) = Fake::rig(&config());
    rig.udp((ue(1), 1000)).expect("a mapping");
    fake.use_all(None, Some(SECOND));
    rig.until(298);
    assert_eq!(rig.nat.mappings(), 1, "answered: five minutes");
    rig.until(302);
    assert_eq!(rig.nat.mappings(), 0, "and not refreshed from outside");
}

#[test]
fn a_connection_is_established_elsewhere_and_opens_anew_here() {
    let (mut rig, fake) = Fake::rig(&config());
    let open = || segment((ue(1), 1000), (REMOTE, 80), flag::SYN);
    rig.outward(1, &mut open()).expect("it goes out");
    fake.use_all(Some(2 * SECOND), Some(SECOND));
    rig.until(1000);
    assert_eq!(rig.nat.mappings(), 1, "established: two hours");
    // What was seen before the new connection is not the new one's.
    fake.use_all(Some(1001 * SECOND), Some(1001 * SECOND));
    rig.until(1002);
    rig.outward(1, &mut open()).expect("it goes out");
    let number = *fake.seen().flows.keys().next().expect("a flow");
    let mapping = rig.nat.mapping(LineId(number)).expect("its mapping");
    assert_eq!((mapping.seen, mapping.last), (0, rig.nat.now), "it is opening");
    assert_eq!(fake.seen().used.len(), 0);
}

/// Ports come and go, of a subscriber's only block: none is given while packets of the mapping before may be under way.
#[test]
fn ports_are_given_again_once_all_is_quiet() {
    let config = Config { blocks_per_subscriber: 1, ..config() };
    let (mut rig, fake) = Fake::rig(&config);
    for round in 0..20_u64 {
        let ports = (0..64).filter_map(|port| rig.udp((ue(1), 1000 + round as u16 * 64 + port)).ok()).count();
        assert_eq!((ports, fake.seen().flows.len()), (64, 64));
        rig.until((round + 1) * 130);
        assert_eq!((rig.nat.mappings(), fake.seen().flows.len()), (0, 0));
        assert_eq!(fake.seen().removed.len(), 64, "nobody waits before a port is to be given");
    }
}

#[test]
fn mappings_that_are_there_already_are_copied() {
    let mut rig = Rig::new(&config());
    rig.udp((ue(1), 1000)).expect("a mapping");
    rig.udp((ue(2), 1000)).expect("a mapping");
    let fake = Fake::default();
    rig.nat.set_cache(Box::new(fake.clone()));
    let flows: Vec<_> = fake.seen().flows.values().map(|flow| flow.out_key as u32).collect();
    assert_eq!(flows, [u32::from(ue(1)), u32::from(ue(2))]);
}

/// Of three flows two have room; the third one gets it when one of them ends.
#[test]
fn a_flow_without_room_gets_it_when_there_is_some() {
    let (mut rig, fake) = Fake::rig(&config());
    fake.seen().most = Some(2);
    for port in 1..=3 {
        rig.udp((ue(1), 1000 + port)).expect("a mapping");
    }
    assert_eq!(fake.counts(), (2, 1));
    // The first two go on for one minute, and for two; the third one for all the time.
    let of = |fake: &Fake, port: u64| {
        let is_it = |flow: &Flow| flow.out_key >> 32 & 0xffff == port;
        fake.seen().flows.values().any(is_it)
    };
    for minute in 1..4 {
        rig.until(minute * 60);
        rig.udp((ue(1), 1003)).expect("its mapping");
        if minute == 1 {
            rig.udp((ue(1), 1002)).expect("its mapping");
        }
    }
    assert!(!of(&fake, 1001) && of(&fake, 1003), "the first has ended");
    assert_eq!(fake.counts().1, 0);
    // What waits and ends is forgotten.
    fake.seen().most = Some(1);
    rig.udp((ue(1), 1004)).expect("a mapping");
    rig.until(3 * 60 + 400);
    assert_eq!((rig.nat.mappings(), fake.counts()), (0, (0, 0)));
}

#[test]
fn no_port_is_given_again_while_a_packet_is_under_way() {
    let (mut rig, fake) = Fake::rig(&config());
    rig.udp((ue(1), 1000)).expect("a mapping");
    fake.seen().is_busy = true;
    rig.udp((ue(1), 1001)).expect("nothing was removed: a mapping");
    rig.until(130);
    assert_eq!(rig.nat.mappings(), 0);
    assert_eq!(rig.udp((ue(1), 1002)), Err(drops::NAT_PORTS_IN_USE));
    fake.seen().is_busy = false;
    assert_eq!(rig.udp((ue(1), 1002)), Err(drops::NAT_PORTS_IN_USE), "it is not asked again at once");
    rig.until(131);
    rig.udp((ue(1), 1002)).expect("a mapping");
}
