//! Anything in any order, against a map and the log.

use super::*;

use crate::drops;

/// What happens in the model.
#[derive(Clone, Debug)]
enum Act {
    /// A subscriber sends from a port.
    Out { ue: u8, port: u16, protocol: usize },
    /// Someone outside sends to a public end: one that was seen, or any.
    In { which: prop::sample::Index, port: u16, protocol: usize },
    /// Seconds pass.
    Wait(u64),
    /// A session ends.
    End(u8),
    /// Another process begins to take over; from then on it gets a little after each step.
    Follow,
    /// It goes on.
    Switch,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        20 => (0u8..12, 0u16..200, 0usize..3).prop_map(|(ue, port, protocol)| Act::Out { ue, port, protocol }),
        10 => (any::<prop::sample::Index>(), any::<u16>(), 0usize..3)
            .prop_map(|(which, port, protocol)| Act::In { which, port, protocol }),
        2 => (1u64..100).prop_map(Act::Wait),
        1 => (0u8..12).prop_map(Act::End),
        1 => Just(Act::Follow),
        1 => Just(Act::Switch),
    ]
}

/// A mapping of the model.
#[derive(Clone, Copy, Debug)]
struct Known {
    public: (u32, u16),
    last: u64,
    answered: bool,
}

impl Known {
    fn life(&self, protocol: usize) -> u64 {
        match protocol {
            0 => 240,
            1 if self.answered => 300,
            1 => 120,
            _ => 60,
        }
    }
}

fn sent(src: Ipv4Addr, dst: Ipv4Addr, port: u16, protocol: usize, out: bool) -> Vec<u8> {
    let (from, to) = if out { (port, 9) } else { (9, port) };
    match protocol {
        0 => ip4(src, dst).tcp(from, to).filled(3).build(),
        1 => ip4(src, dst).udp(from, to).filled(3).build(),
        _ => ip4(src, dst).ping(port, 1).filled(3).build(),
    }
}

fn end_of(packet: &[u8], protocol: usize, out: bool) -> (u32, u16) {
    let ip = L3L4::parse(packet).expect("a packet");
    let port = match (protocol, out) {
        (2, _) => u16::from_be_bytes([packet[24], packet[25]]),
        (_, true) => ip.src_port,
        _ => ip.dst_port,
    };
    (if out { ip.src } else { ip.dst }, port)
}

/// The log as its reader keeps it: who has which block, and since when it is nobody's.
#[derive(Default)]
struct Model {
    given: BTreeMap<(Ipv4Addr, u16), Ipv4Addr>,
    ended: BTreeMap<(Ipv4Addr, u16), u64>,
}

impl Model {
    fn read(&mut self, log: &mut Consumer<BlockEvent>) {
        while let Some(event) = log.pop() {
            let block = (event.public, event.first_port);
            if event.ended.is_some() {
                assert_eq!(self.given.remove(&block), Some(event.private), "it was the subscriber's");
                self.ended.insert(block, event.at);
            } else {
                assert_eq!(self.given.insert(block, event.private), None, "it was nobody's");
                let held = self.ended.get(&block).map(|at| event.at - at);
                assert!(held.is_none_or(|ns| ns >= 119 * SECOND), "held {held:?}");
            }
        }
    }

    fn owner(&self, (public, port): (u32, u16)) -> Option<Ipv4Addr> {
        self.given.get(&(public.into(), (port - 1024) / 64 * 64 + 1024)).copied()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn it_does_what_a_plain_translator_would(acts in prop::collection::vec(act(), 0..400), seed: u128) {
        let mut rig = Rig::new(&Config { seed, ..config() });
        let (mut known, mut book) = (BTreeMap::<(u8, u16, usize), Known>::new(), Model::default());
        let mut now = 0;
        let mut heir = None::<Rig>;
        for act in acts {
            if let Some(heir) = &mut heir {
                let mut octets = Vec::new();
                rig.nat.export(5, &mut octets);
                prop_assert_eq!(heir.nat.import(&octets), Ok(()));
            }
            match act {
                Act::Follow => {
                    rig.nat.follow(true);
                    heir = Some(Rig::new(&Config { seed: seed ^ 5, ..config() }));
                }
                Act::Switch => {
                    let Some(mut next) = heir.take() else { continue };
                    let mut octets = Vec::new();
                    rig.nat.export_rest(now * SECOND, &mut octets);
                    prop_assert_eq!(next.nat.import(&octets), Ok(()));
                    book.read(&mut rig.log);
                    next.nat.set_now(now * SECOND);
                    rig = next;
                }
                Act::Out { ue: n, port, protocol } => {
                    let mut packet = sent(ue(n), REMOTE, port, protocol, true);
                    let done = rig.outward(n.into(), &mut packet);
                    book.read(&mut rig.log);
                    if let Err(why) = done {
                        // Three protocols at 128 ports each: only who has all of them is refused.
                        prop_assert_eq!(why, drops::NAT_NO_PORT);
                        prop_assert!(known.keys().filter(|k| (k.0, k.2) == (n, protocol)).count() >= 128 - 1);
                        continue;
                    }
                    let public = end_of(&packet, protocol, true);
                    prop_assert_eq!(book.owner(public), Some(ue(n)), "the log names the subscriber");
                    let others = known.iter().filter(|(k, _)| **k != (n, port, protocol));
                    for (other, entry) in others {
                        prop_assert!(other.2 != protocol || entry.public != public, "no port twice");
                        prop_assert!(other.0 != n || entry.public.0 == public.0, "addresses are paired");
                    }
                    let entry = known.entry((n, port, protocol)).or_insert(Known { public, last: now, answered: false });
                    prop_assert_eq!(entry.public, public, "endpoint-independent");
                    entry.last = now;
                }
                Act::In { which, port, protocol } => {
                    let list: Vec<_> = known.iter().filter(|(k, _)| k.2 == protocol).map(|(k, e)| (*k, e.public)).collect();
                    let public = match list.len() {
                        0 => (FIRST.into(), port),
                        count => list[which.index(count)].1,
                    };
                    let mut packet = sent(REMOTE, public.0.into(), public.1, protocol, false);
                    let done = rig.inward(&mut packet);
                    let entry = list.iter().find(|(_, end)| *end == public);
                    match entry {
                        None => prop_assert_eq!(done, Err(drops::NAT_NO_MAPPING)),
                        Some((key, _)) => {
                            prop_assert_eq!(done, Ok(()));
                            prop_assert_eq!(end_of(&packet, protocol, false), (ue(key.0).into(), key.1));
                            known.entry(*key).and_modify(|entry| entry.answered = true);
                        }
                    }
                }
                Act::Wait(seconds) => {
                    now += seconds;
                    rig.until(now);
                    book.read(&mut rig.log);
                    // Ticks are an eighth of a second, so what is near its end may or may not be there.
                    known.retain(|key, entry| {
                        let left = (entry.last + entry.life(key.2)).saturating_sub(now);
                        let there = rig.nat.inside.get(super::mapping::key(0, Protocol::ALL[key.2], ue(key.0).into(), key.1));
                        assert!(left <= 1 || there.is_some(), "{key:?} ended {left} s too soon");
                        assert!(left > 0 || there.is_none() || entry.last + entry.life(key.2) + 1 >= now, "{key:?} lives on");
                        there.is_some()
                    });
                }
                Act::End(n) => {
                    rig.nat.end_session(INSTANCE, ue(n), now * SECOND);
                    book.read(&mut rig.log);
                    known.retain(|key, _| key.0 != n);
                    prop_assert!(!book.given.values().any(|owner| *owner == ue(n)));
                }
            }
            prop_assert_eq!(rig.nat.mappings(), known.len());
            prop_assert_eq!(rig.nat.blocks(), book.given.len());
            let owners: BTreeSet<_> = book.given.values().collect();
            prop_assert_eq!(rig.nat.subscribers(), owners.len());
        }
        rig.until(now + 10_000);
        book.read(&mut rig.log);
        prop_assert!(book.given.is_empty() && rig.nat.wheel.is_empty(), "time ends everything");
        prop_assert_eq!(rig.nat.mappings.in_use() + rig.nat.subscribers.in_use(), 0);
    }

    /// Anything at all, both ways: no panic, and a packet remains a packet.
    #[test]
    fn garbage_is_refused_or_stays_a_packet(
        packets in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..90)), 0..60),
    ) {
        let mut rig = Rig::new(&config());
        let public = rig.udp((ue(1), 1)).expect("a port");
        for (out, payload) in packets {
            let (src, dst) = if out { (ue(1), REMOTE) } else { (REMOTE, public.0) };
            let number = [1, 6, 17, 50][payload.len() % 4];
            let mut packet = ip4(src, dst).payload(&payload).poke(9, [number]).build();
            wire::ip4::Packet::new_checked(&mut packet[..]).expect("IPv4").fill_checksum();
            let Ok(mut ip) = L3L4::parse(&packet) else { continue };
            let side = if out { End::Source } else { End::Destination };
            let mut ticket = rig.nat.look(0, &ip, &packet, side);
            rig.nat.find(&mut ticket, side);
            let done = match out {
                true => rig.nat.outward(&ticket, 1, &mut ip, &mut packet).is_ok(),
                false => rig.nat.inward(&ticket, &mut ip, &mut packet).is_ok(),
            };
            prop_assert!(!done || L3L4::parse(&packet).is_ok());
        }
    }
}
