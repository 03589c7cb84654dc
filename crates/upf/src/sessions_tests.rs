use std::net::Ipv4Addr;

use dataplane::filter::{ENDS, Sdf};

use super::*;
use crate::compile::{CompileError, compile};
use crate::record::Meter;
use crate::rules::{Apply, Duplicate, Far, Interface, Mbr, Pdr, Qer, Session, TunnelEnd, Urr};

/// One bearer with that rate, both directions routed as they are.
fn session(mbr: Mbr) -> Session {
    let pdr = |id, source| Pdr {
        removes: None,
        id,
        precedence: 1,
        source,
        teid: (source == Interface::Access).then_some(7),
        qfi: None,
        filters: Vec::new(),
        far: 1,
        qers: vec![1],
        urrs: vec![1],
    };
    Session {
        ue4: Some(Ipv4Addr::new(10, 0, 0, 1)),
        pdrs: vec![pdr(1, Interface::Access), pdr(2, Interface::Core)],
        fars: vec![Far { id: 1, apply: Apply::Forward, tunnel: None, ..Far::default() }],
        qers: vec![Qer { id: 1, gate_up: true, gate_down: true, mbr, ..Qer::default() }],
        urrs: vec![Urr { id: 1, ..Urr::default() }],
        ..Session::default()
    }
}

fn install(sessions: &mut Sessions, mbr: Mbr, now: u64) -> Compiled {
    let compiled = compile(&session(mbr), 0, &mut |_, _| None).unwrap();
    sessions.install(0, &compiled, now).unwrap();
    compiled
}

/// The cells of the QER: up, down.
fn places(sessions: &Sessions) -> [u8; 2] {
    let (id, _) = sessions.find(0).unwrap();
    let lines = sessions.record(id).unwrap();
    let (qers, _) = record::rows(lines, record::head(lines).unwrap());
    [qers[0].up, qers[0].down]
}

fn meter(sessions: &mut Sessions, cell: u8) -> &mut Meter {
    let (id, _) = sessions.find(0).unwrap();
    &mut record::meters_in(sessions.window_mut(id).unwrap())[record::cell_at(cell)]
}

#[test]
fn only_limited_directions_have_buckets_and_changes_of_rate_keep_their_credit() {
    let mut sessions = Sessions::with_capacity(1, 4).unwrap();
    let rate = |up, down| Mbr { up, down };
    install(&mut sessions, rate(Some(8_000_000), None), 100);
    let [up, down] = places(&sessions);
    assert!(up != 0 && down == 0);
    let start = *meter(&mut sessions, up);
    assert_eq!((start.state.credit, start.state.last_ns), (start.config.depth, 100));
    meter(&mut sessions, up).state.credit = 5;

    // The downlink is limited now, and begins full; the uplink keeps what it has, and what it earned meanwhile.
    install(&mut sessions, rate(Some(16_000_000), Some(1_000_000)), 101);
    let [up, down] = places(&sessions);
    assert_eq!(meter(&mut sessions, up).state.credit, 5 + 8_000_000);
    let full = *meter(&mut sessions, down);
    assert_eq!((full.state.credit, full.state.last_ns), (full.config.depth, 101));

    // Neither is: no bucket is left, and the head, where position 0 is, is as compiled.
    let compiled = install(&mut sessions, rate(None, None), 102);
    assert_eq!(places(&sessions), [0, 0]);
    let (id, generation) = sessions.find(0).unwrap();
    let head = *sessions.head(id).unwrap();
    assert_eq!((head.ue4, head.lines, head.generation), (0x0a00_0001, compiled.lines.len() as u8, generation));
    assert_eq!(sessions.usage(0, 200).map(|usage| usage.len()), Some(1));
}

#[test]
fn records_begin_at_even_lines() {
    let mut sessions = Sessions::with_capacity(1, 4).unwrap();
    for (mbr, now) in [(Mbr { up: Some(1), down: Some(1) }, 1), (Mbr::default(), 2)] {
        assert!(install(&mut sessions, mbr, now).lines.len().is_multiple_of(2));
        assert!(sessions.find(0).unwrap().0.0.is_multiple_of(2));
    }
}

#[test]
fn a_session_is_told_from_the_next_of_its_handle() {
    let mut sessions = Sessions::with_capacity(1, 4).unwrap();
    install(&mut sessions, Mbr::default(), 1);
    let born = sessions.born(0);
    install(&mut sessions, Mbr::default(), 2);
    assert_eq!(sessions.born(0), born);
    sessions.remove(0, 200).unwrap();
    install(&mut sessions, Mbr::default(), 3);
    assert_ne!(sessions.born(0), born);
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut sessions = Sessions::with_capacity(1, 4).unwrap();
    install(&mut sessions, Mbr { up: Some(8_000_000), down: None }, 100);
    let [up, _] = places(&sessions);
    meter(&mut sessions, up).state.credit = 5;
    let (lines, leads) = (sessions.lines.in_use(), sessions.find(0));
    let mut other = session(Mbr::default());
    (other.pdrs[0].teid, other.ue4) = (Some(8), Some(Ipv4Addr::new(10, 0, 0, 2)));
    let mut more = session(Mbr::default());
    let pdr = Pdr { teid: Some(9), id: 3, ..more.pdrs[0].clone() };
    more.pdrs.push(pdr);
    for (room, why) in [
        (Room { lines: 0, keys: usize::MAX }, Refused::NoRecord),
        (Room { lines: usize::MAX, keys: 0 }, Refused::NoIndex),
    ] {
        sessions.set_room(room);
        for (handle, wanted) in [(0, &other), (0, &more), (1, &other)] {
            let compiled = compile(wanted, handle, &mut |_, _| None).unwrap();
            assert_eq!(sessions.install(handle, &compiled, 200), Err(why));
            assert_eq!((sessions.len(), sessions.lines.in_use(), sessions.find(0)), (1, lines, leads));
            let line = leads.map(|(line, _)| line);
            let by_teid = [7, 8, 9].map(|teid| sessions.get_teid(sessions.prefetch_teid(teid), teid).map(|at| at.line));
            assert_eq!(by_teid, [line, None, None]);
            assert_eq!([1, 2].map(|n| sessions.by_v4.get(0, 0x0a00_0000 + n).map(LineId)), [line, None]);
            assert_eq!(meter(&mut sessions, up).state.credit, 5);
        }
    }
    sessions.set_room(Room::default());
    install(&mut sessions, Mbr::default(), 300);
}

/// The pair of lines that a cell is in.
fn pair(cell: u8) -> usize {
    record::cell_at(cell) / record::CELLS / 2
}

#[test]
fn what_a_packet_touches_stands_together() {
    let rate = Mbr { up: Some(8_000_000), down: Some(8_000_000) };
    let alone = session(rate);
    let mut two = session(rate);
    for pdr in 0..2 {
        let first = two.pdrs[pdr].clone();
        two.pdrs.push(Pdr { id: 3 + first.id, precedence: 2, qers: vec![3, 2], urrs: vec![2], ..first });
        two.pdrs[pdr].qers.push(2);
    }
    two.urrs.push(Urr { id: 2, ..Urr::default() });
    two.qers.push(Qer { id: 2, session: true, ..two.qers[0].clone() });
    two.qers.push(Qer { id: 3, ..two.qers[0].clone() });
    for (session, of_session) in [(alone, false), (two, true)] {
        let mut sessions = Sessions::with_capacity(1, 16).unwrap();
        let compiled = compile(&session, 0, &mut |_, _| None).unwrap();
        sessions.install(0, &compiled, 0).unwrap();
        let window = sessions.window(sessions.find(0).unwrap().0).unwrap();
        for (uplink, here) in [(true, record::UP_PAIR), (false, record::DOWN_PAIR)] {
            let (filters, at) = (record::head_of(window, uplink).filters, record::deed_at(0, uplink));
            assert_eq!(
                (sessions.quads(filters).len(), at / 2),
                (1, here),
                "what is done stands in the direction's pair"
            );
            for treatment in record::quad_actions_in(window)[at].treatments.iter().filter(|t| t.action != 0) {
                assert_eq!(usize::from(treatment.action) / record::ACTIONS, at, "its action is in the same line");
                let ([flow, own], [count, none]) = (treatment.meters, treatment.tallies);
                assert_eq!((pair(flow) == here, own != 0, none), (!of_session, of_session, 0));
                if of_session {
                    assert_eq!(record::cell_at(flow) / record::CELLS, record::cell_at(count) / record::CELLS);
                    assert_eq!(pair(own), here, "the session's bucket is beside them");
                }
            }
        }
    }
}

/// One bearer of subscriber `n`, whose filter is that of many others, or its own.
fn subscriber(n: u32, own: bool) -> Session {
    let mut session = session(Mbr::default());
    session.ue4 = Some(Ipv4Addr::from(0x0a00_0000 + n));
    let text = format!("permit out 17 from any {} to assigned", if own { 1000 + n } else { 53 });
    for pdr in &mut session.pdrs {
        pdr.teid = pdr.teid.map(|teid| teid + n);
        pdr.filters = vec![Sdf { flow: Some(text.parse().unwrap()), ..Sdf::default() }];
    }
    session
}

#[test]
fn filters_stand_once_for_all_sessions_that_have_them() {
    let mut sessions = Sessions::with_capacity(16, 16).unwrap();
    let install = |sessions: &mut Sessions, n: u32, own: bool| {
        sessions.install(n, &compile(&subscriber(n, own), n, &mut |_, _| None).unwrap(), 0)
    };
    let lists = |sessions: &Sessions, n: u32| {
        let window = sessions.window(sessions.find(n).unwrap().0).unwrap();
        [true, false].map(|uplink| record::head_of(window, uplink).filters)
    };
    for n in 0..8 {
        install(&mut sessions, n, n >= 6).unwrap();
    }
    let shared = lists(&sessions, 0);
    assert_eq!((shared[0], lists(&sessions, 5)), (shared[1], shared));
    assert!(lists(&sessions, 6) != shared && lists(&sessions, 6) != lists(&sessions, 7));
    assert_eq!(sessions.filters.in_use(), 3 * 2);
    // Rules change, a change is refused, sessions end: what nobody names is gone, and nothing else.
    install(&mut sessions, 6, false).unwrap();
    assert_eq!((lists(&sessions, 6), sessions.filters.in_use()), (shared, 2 * 2));
    sessions.set_room(Room { lines: 0, ..Room::default() });
    assert_eq!(install(&mut sessions, 5, true), Err(Refused::NoRecord));
    sessions.set_room(Room { keys: 0, ..Room::default() });
    assert_eq!(install(&mut sessions, 9, true), Err(Refused::NoIndex));
    assert_eq!((lists(&sessions, 5), sessions.filters.in_use()), (shared, 2 * 2));
    (0..7).for_each(|n| drop(sessions.remove(n, 1).unwrap()));
    assert_eq!((sessions.len(), sessions.filters.in_use()), (1, 2));
    sessions.remove(7, 1).unwrap();
    assert_eq!((sessions.lines.in_use(), sessions.filters.in_use()), (0, 0));
}

#[test]
fn endpoints_beyond_those_that_filters_tell_apart_have_rules_of_their_own() {
    for count in [ENDS, ENDS + 1] {
        let mut session = session(Mbr::default());
        let first = session.pdrs[0].clone();
        let more = (1..count as u16).map(|n| Pdr { id: 2 + n, teid: Some(7 + u32::from(n)), ..first.clone() });
        session.pdrs.extend(more);
        let compiled = compile(&session, 0, &mut |_, _| None).unwrap();
        assert_eq!(compiled.filters.each_ref().map(|list| list.is_empty()), [count > ENDS; 2]);
        let mut sessions = Sessions::with_capacity(1, 16).unwrap();
        sessions.install(0, &compiled, 0).unwrap();
        for n in 0..count {
            let found = sessions.get_teid(sessions.prefetch_teid(7 + n as u32), 7 + n as u32).unwrap();
            assert_eq!((found.line, usize::from(found.end)), (sessions.find(0).unwrap().0, n.min(ENDS - 1)));
        }
    }
}

#[test]
fn more_actions_than_can_be_told_apart_are_refused() {
    let mut session = session(Mbr::default());
    let copy = Duplicate { tunnel: TunnelEnd::gtpu([10, 0, 0, 9].into(), 1), instance: 0, dscp: None };
    session.fars[0].duplicates = vec![copy; record::MAX_DUPLICATES];
    for id in 3..40 {
        session.pdrs.push(Pdr { id, ..session.pdrs[1].clone() });
    }
    let refused = compile(&session, 0, &mut |_, _| Some(1)).unwrap_err();
    assert!(matches!(refused, CompileError::TooLarge { lines } if lines > table::records::MAX_RECORD), "{refused}");
}

#[test]
fn state_of_another_process_is_taken_on_by_rule() {
    let rate = Mbr { up: Some(8_000_000), down: Some(1_000_000) };
    let mut sessions = Sessions::with_capacity(1, 4).unwrap();
    install(&mut sessions, rate, 100);
    let [up, down] = places(&sessions);
    meter(&mut sessions, up).state = table::bucket::State { credit: 5, last_ns: 150 };
    let urr = |sessions: &Sessions| {
        let (id, _) = sessions.find(0).unwrap();
        let lines = sessions.record(id).unwrap();
        record::rows(lines, record::head(lines).unwrap()).1[0].down
    };
    let cell = urr(&sessions);
    let (id, _) = sessions.find(0).unwrap();
    record::tallies_in(sessions.window_mut(id).unwrap())[record::cell_at(cell)].count(1000, 7);
    let (mut state, mut none) = (Vec::new(), Vec::new());
    sessions.export_state(0, &mut state);
    sessions.export_state(9, &mut none);
    assert!(none.is_empty());

    let mut other = Sessions::with_capacity(1, 4).unwrap();
    install(&mut other, rate, 900);
    assert!(other.import_state(0, &state));
    let moved = meter(&mut other, up).state;
    assert_eq!((moved.credit, moved.last_ns), (5, 150));
    assert_eq!(meter(&mut other, down).state.last_ns, 100);
    assert_eq!(other.usage(0, 900).unwrap()[0].down_bytes, 1000);
    assert!(!other.import_state(1, &state), "no such session");
    assert!(!other.import_state(0, &state[..state.len() - 1]), "cut short");
    install(&mut other, Mbr::default(), 901);
    assert!(!other.import_state(0, &state), "another rule");
}
