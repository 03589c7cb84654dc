use super::*;
use crate::subscribers::Usage;
use access::Line;

const NOW: Time = Time::from_secs(1_000_000);

fn identity(c_vlan: u16) -> Identity {
    Identity { line: Line { port: 0, s_vlan: 100, c_vlan }, mac: None }
}

/// Of one server, without sockets: what it decides is told by [`Aaa::answered`].
fn aaa(accounting_port: u16) -> Aaa {
    let text = format!(
        "[[server]]\naddress = \"192.0.2.1\"\nsecret = \"0123456789abcdef\"\naccounting_port = {accounting_port}"
    );
    let config: RadiusSection = toml::from_str(&text).expect("a section");
    Aaa::new(&config, Sockets::default(), NOW, ([], None), true)
}

/// A turn, before which all that the ledger is to keep comes to the disk.
fn turn(aaa: &mut Aaa, now: Time, steady: Time) -> Vec<Decision> {
    aaa.keeper().turn(|_| Ok(ledger::Ticket(0)), || ledger::Ticket(0));
    aaa.turn(now, steady)
}

#[test]
fn without_accounting_servers_nothing_waits() {
    let mut aaa = aaa(0);
    aaa.start(1, &identity(1), (None, Vec::new()), NOW);
    aaa.interim(1, None, &Usage::default(), NOW);
    aaa.stop(1, &Usage::default(), NOW);
    assert_eq!(aaa.next_due(NOW, NOW), None);
    turn(&mut aaa, NOW, NOW);
    assert_eq!((aaa.accounting.client.pending(), aaa.next_due(NOW, NOW)), ((0, 0), None));
}

#[test]
fn unwritable_report_is_counted_and_dropped() {
    let mut aaa = aaa(1813);
    aaa.start(1, &identity(1), (None, vec![Attribute::octets(number::NAS_PORT_ID, [7; 300])]), NOW);
    aaa.start(2, &identity(2), (None, Vec::new()), NOW);
    turn(&mut aaa, NOW, NOW);
    // The one of the gateway's start, and the second session's.
    assert_eq!((aaa.accounting.client.pending(), aaa.counts().reports_malformed), ((0, 2), 1));
    assert!(aaa.next_due(NOW, NOW).is_some_and(|due| due > NOW));
}

/// Asks about a subscriber, and has the server decide.
fn decide(aaa: &mut Aaa, of: Identity, code: Code) -> Vec<Decision> {
    aaa.ask(of, None, "line 7".to_owned(), Vec::new(), NOW);
    let attributes = vec![Attribute::octets(number::CLASS, b"gold")];
    let packet = Packet { code, id: 0, authenticator: [0; 16], attributes };
    let mut decisions = Vec::new();
    aaa.answered(aaa.next, Some(packet), NOW, &mut decisions);
    decisions
}

#[test]
fn restored_session_gets_its_name_back() {
    let (mut aaa, of) = (aaa(1813), identity(7));
    aaa.start(1, &of, (None, Vec::new()), NOW);
    aaa.restored(of);
    let name = |aaa: &Aaa| {
        let report = aaa.report_of(&aaa.accounts[&1], Status::Interim, NOW, None, None);
        let text = |code: u8| report.iter().find(|one| one.code == code).map(|one| one.value.clone());
        (text(number::USER_NAME), text(number::CLASS))
    };
    assert_eq!(name(&aaa), (None, None));
    assert_eq!(aaa.standing(&of, true, NOW), Standing::Restored);
    let decisions = decide(&mut aaa, of, Code::AccessAccept);
    assert!(matches!(decisions[..], [Decision::Accepted(whose, None)] if whose == of));
    aaa.adopt(1, &of, NOW);
    assert_eq!(name(&aaa), (Some(b"line 7".to_vec()), Some(b"gold".to_vec())));
    assert_eq!(aaa.standing(&of, true, NOW), Standing::Granted);
}

#[test]
fn name_that_a_session_began_with_stays() {
    let (mut aaa, of) = (aaa(1813), identity(7));
    aaa.start(1, &of, (Some("acc:100.7".to_owned()), Vec::new()), NOW);
    aaa.restored(of);
    decide(&mut aaa, of, Code::AccessAccept);
    aaa.adopt(1, &of, NOW);
    let stop = aaa.report_of(&aaa.accounts[&1], Status::Stop, NOW, None, None);
    let user: Vec<_> = stop.iter().filter(|one| one.code == number::USER_NAME).map(|one| &*one.value).collect();
    assert_eq!(user, [b"acc:100.7"]);
    assert_eq!(aaa.accounts[&1].grant.class, [b"gold"], "what was granted is its own");
}

#[test]
fn restored_session_is_served_until_rejected() {
    let (mut aaa, of) = (aaa(1813), identity(7));
    aaa.restored(of);
    aaa.ask(of, None, "line 7".to_owned(), Vec::new(), NOW);
    assert_eq!(aaa.standing(&of, true, NOW), Standing::Granted);
    assert_eq!(aaa.standing(&of, false, NOW), Standing::Waits);
    aaa.answered(aaa.next, None, NOW, &mut Vec::new());
    assert_eq!(aaa.standing(&of, true, NOW), Standing::Restored);
    assert!(decide(&mut aaa, of, Code::AccessReject).is_empty());
    assert_eq!(aaa.standing(&of, true, NOW), Standing::Denied);
    let later = NOW + Duration::from_secs(30);
    assert_eq!(aaa.standing(&of, true, later), Standing::Unknown);
}

#[test]
fn requests_that_are_not_asked_about_are_counted() {
    let mut aaa = aaa(1813);
    // A circuit ID of an access node may be longer than a User-Name.
    aaa.ask(identity(1), None, "x".repeat(255), Vec::new(), NOW);
    assert_eq!((aaa.counts().not_asked, aaa.standing(&identity(1), false, NOW)), (1, Standing::Unknown));
    let line = crate::link::Line::default();
    let packet =
        |n| ControlPacket { class: crate::config::Class::Dhcp4, line, group: 0, subscriber: None, frame: vec![n] };
    aaa.ask(identity(2), Some(packet(1)), "line 2".to_owned(), Vec::new(), NOW);
    aaa.hold(identity(2), packet(2));
    assert_eq!((aaa.counts().not_asked, aaa.counts().superseded), (1, 1));
}

#[test]
fn many_rejected_subscribers_are_not_looked_at_each_turn() {
    let mut aaa = aaa(1813);
    let until = NOW.0 + 30_000;
    aaa.denied.extend((0..4000).chain(10_000..16_000).map(|c_vlan| (identity(c_vlan), until)));
    aaa.turn(NOW, NOW);
    assert_eq!((aaa.denied.len(), aaa.denied_limit), (10_000, 20_000));
    let later = NOW + Duration::from_secs(30);
    aaa.turn(later, later);
    assert_eq!(aaa.denied.len(), 10_000);
    aaa.denied.extend((20_000..31_000).map(|c_vlan| (identity(c_vlan), until + 30_000)));
    aaa.turn(later, later);
    assert_eq!((aaa.denied.len(), aaa.denied_limit), (11_000, 22_000));
}

#[test]
fn grants_without_a_session_end() {
    let mut aaa = aaa(1813);
    let (taken, left) = (identity(1), identity(2));
    [taken, left].iter().for_each(|of| drop(decide(&mut aaa, *of, Code::AccessAccept)));
    aaa.sweep(NOW + Duration::from_secs(59), |of| *of == taken);
    assert_eq!(aaa.grants.len(), 2);
    aaa.sweep(NOW + Duration::from_secs(60), |of| *of == taken);
    assert!(aaa.grant(&left).is_none() && aaa.grant(&taken).is_some() && aaa.fresh.is_empty());
}

#[test]
fn wall_clock_is_for_time_stamps_only() {
    let mut aaa = aaa(1813);
    aaa.start(1, &identity(1), (None, Vec::new()), NOW);
    let of = |aaa: &Aaa, code: u8| {
        let report = aaa.report_of(&aaa.accounts[&1], Status::Interim, NOW + Duration::from_secs(60), None, None);
        report.iter().find(|one| one.code == code).and_then(Attribute::to_integer)
    };
    for ahead in [0, 3600, -3600] {
        aaa.set_wall_clock(ahead * 1000);
        let stamp = u32::try_from(i64::from(NOW.secs()) + 60 + ahead).ok();
        assert_eq!((of(&aaa, number::EVENT_TIMESTAMP), of(&aaa, number::ACCT_SESSION_TIME)), (stamp, Some(60)));
        assert!(aaa.due(NOW + Duration::from_secs(599)).is_empty());
    }
    assert_eq!(aaa.due(NOW + Duration::from_secs(600)), [1]);
}

#[test]
fn clock_set_back_delays_no_request() {
    let (mut aaa, steady) = (aaa(1813), Time::from_secs(100));
    aaa.ask(identity(1), None, "line 1".to_owned(), Vec::new(), steady);
    turn(&mut aaa, NOW, steady);
    let back = Time::from_secs(500_000);
    // The first retransmission, by either clock.
    assert_eq!(aaa.next_due(back, steady), Some(back + Duration::from_secs(1)));
    // No server has answered any transmission.
    (101..200).for_each(|seconds| drop(aaa.turn(back, Time::from_secs(seconds))));
    assert_eq!((aaa.counts().unanswered, aaa.standing(&identity(1), false, steady)), (1, Standing::Unknown));
}

#[test]
fn reload_asks_another_server_and_forgets_nothing() {
    let mut aaa = aaa(1813);
    aaa.ask(identity(1), None, "line 1".to_owned(), Vec::new(), NOW);
    aaa.start(7, &identity(2), (None, Vec::new()), NOW);
    turn(&mut aaa, NOW, NOW);
    let mut section = aaa.config.clone();
    section.server[0].address = "192.0.2.9".parse().expect("an address");
    (section.interim_seconds, section.password) = (60, "other".to_owned());
    aaa.check(&section).expect("in order");
    aaa.follow(section);
    assert_eq!(aaa.next_due(NOW, NOW), Some(Time(0)), "at once");
    aaa.turn(NOW, NOW);
    assert_eq!(aaa.authentication.client.pending(), (0, 1), "the request is sent again");
    assert_eq!(aaa.accounting.client.pending(), (0, 2));
    assert_eq!(aaa.standing(&identity(1), false, NOW), Standing::Waits);
    let due = Time(NOW.0 + 60_000);
    assert_eq!((aaa.due(Time(due.0 - 1)), aaa.due(due)), (vec![], vec![7]));
    // Without interim reports nothing is due, and again.
    let section = RadiusSection { interim_seconds: 0, ..aaa.config.clone() };
    aaa.follow(section);
    aaa.turn(due, NOW);
    assert_eq!(aaa.due(Time(u64::MAX)), Vec::<u32>::new());
}

/// What the ledger has, and a process that reads it after a crash.
#[derive(Default)]
struct Disk {
    records: std::collections::BTreeMap<u64, Vec<u8>>,
    run: Option<u32>,
}

impl Disk {
    /// All changes come to the disk.
    fn sync(&mut self, aaa: &mut Aaa) {
        let write = |changes: Vec<ledger::Change>| {
            for change in changes {
                match change {
                    ledger::Change::Checkpoint { key, bytes } => drop(self.records.insert(key, bytes)),
                    ledger::Change::DropCheckpoint { key } => drop(self.records.remove(&key)),
                    ledger::Change::Recovery(run) => self.run = Some(run),
                    other => panic!("{other:?}"),
                }
            }
            Ok(ledger::Ticket(1))
        };
        aaa.keeper().turn(write, || ledger::Ticket(1));
    }

    fn started(&self, now: Time) -> Aaa {
        let config = aaa(1813).config;
        let kept = self.records.iter().map(|(key, record)| (*key, Kept::decode(record).expect("a record")));
        Aaa::new(&config, Sockets::default(), now, (kept, self.run), true)
    }
}

/// Status, session, input octets and time stamp of each report that the client has.
fn reports(aaa: &Aaa) -> Vec<(u32, String, u32, u32)> {
    let number = |report: &[Attribute], code: u8| {
        report.iter().find(|one| one.vendor == 0 && one.code == code).and_then(Attribute::to_integer).unwrap_or(0)
    };
    let of = |pending: radius::client::Pending| {
        let report = pending.attributes;
        let id = report.iter().find(|one| one.code == number::ACCT_SESSION_ID).and_then(Attribute::to_text);
        let (status, input) = (number(&report, number::ACCT_STATUS_TYPE), number(&report, number::ACCT_INPUT_OCTETS));
        (status, id.unwrap_or_default().to_owned(), input, number(&report, number::EVENT_TIMESTAMP))
    };
    aaa.accounting.client.pending_accounts().into_iter().map(of).collect()
}

#[test]
fn accounting_goes_on_after_a_crash() {
    const ON: u32 = 7;
    let (mut disk, of) = (Disk::default(), identity(1));
    let used = |bytes: u64| Usage { up_bytes: [bytes, 0], ..Usage::default() };
    let mut first = disk.started(NOW);
    decide(&mut first, of, Code::AccessAccept);
    first.start(1, &of, (None, Vec::new()), NOW);
    first.turn(NOW, NOW);
    assert!(reports(&first).is_empty(), "a server knows nothing that is not on the disk");
    disk.sync(&mut first);
    first.turn(NOW, NOW);
    let [on, start] = &reports(&first)[..] else { panic!("{:?}", reports(&first)) };
    assert_eq!((on.0, start.0), (ON, 1));
    let later = NOW + Duration::from_secs(600);
    first.interim(1, Some(&of), &used(1000), later);
    disk.sync(&mut first);

    // No server has answered: the same report of the start again, none of a start of the gateway.
    let mut second = disk.started(later);
    let [sent] = &second.backlog.parts().0.map(|(report, _)| report.clone()).collect::<Vec<_>>()[..] else {
        panic!("one report")
    };
    assert_eq!(sent.iter().find(|one| one.code == 1).and_then(Attribute::to_text), Some("line 7"));
    second.start(4, &of, (None, Vec::new()), later);
    second.end_others(later);
    disk.sync(&mut second);
    second.turn(later, NOW);
    assert_eq!(reports(&second), std::slice::from_ref(start));
    assert_eq!(second.grant(&of).map(|grant| grant.class.clone()), Some(vec![b"gold".to_vec()]));
    second.interim(4, Some(&of), &used(20), later);
    second.interim(4, Some(&of), &used(300), later);
    disk.sync(&mut second);

    // It goes on a third time, and ends.
    let mut third = disk.started(later);
    third.start(2, &of, (None, Vec::new()), later);
    third.end_others(later);
    third.stop(2, &used(7), later);
    disk.sync(&mut third);
    let mut fourth = disk.started(later);
    assert!(fourth.kept.is_empty(), "its report has taken its place");
    disk.sync(&mut fourth);
    fourth.turn(later, NOW);
    let [again, stop] = &reports(&fourth)[..2] else { panic!("{:?}", reports(&fourth)) };
    assert_eq!((again, stop.0, &stop.1, stop.2), (start, 2, &start.1, 1307));
    assert!(fourth.run > third.run && third.run > second.run, "identifiers of runs of one second differ");

    // A server has taken them: nothing is left.
    let numbers: Vec<u64> = fourth.keeper.given().map(|(number, _)| number).collect();
    numbers.into_iter().for_each(|number| fourth.keeper.acknowledged(number));
    disk.sync(&mut fourth);
    assert!(disk.records.is_empty(), "{:?}", disk.records);
}

fn port_id(line: &[u8]) -> Vec<Attribute> {
    vec![Attribute::octets(number::NAS_PORT_ID, line)]
}

/// What servers tell sessions by, beside the identifier: User-Name and NAS-Port-Id of each report that the client has.
fn lines(aaa: &Aaa) -> Vec<[Option<String>; 2]> {
    let text = |report: &[Attribute], code: u8| {
        report.iter().find(|one| one.code == code).and_then(Attribute::to_text).map(str::to_owned)
    };
    let of = |report: Vec<Attribute>| [number::USER_NAME, number::NAS_PORT_ID].map(|code| text(&report, code));
    aaa.accounting.client.pending_accounts().into_iter().map(|pending| of(pending.attributes)).collect()
}

/// Of two records of one subscriber the newer one goes on, whatever the order they are read in.
#[test]
fn newer_of_two_sessions_of_a_line_goes_on() {
    let (mut disk, of) = (Disk::default(), identity(1));
    let mut first = disk.started(NOW);
    first.start(1, &of, (None, port_id(b"older")), NOW);
    first.start(2, &of, (None, port_id(b"newer")), NOW);
    disk.sync(&mut first);
    let kept = disk.records.iter().rev().map(|(key, record)| (*key, Kept::decode(record).expect("a record")));
    let mut second = Aaa::new(&first.config, Sockets::default(), NOW, (kept, disk.run), true);
    second.start(7, &of, (None, port_id(b"newer")), NOW);
    second.end_others(NOW);
    disk.sync(&mut second);
    second.turn(NOW, NOW);
    let [older, newer, stop] = &reports(&second)[..] else { panic!("{:?}", reports(&second)) };
    assert_eq!((older.0, newer.0, stop.0), (1, 1, 2));
    assert_eq!((&older.1, &newer.1), (&stop.1, &second.accounts[&7].id));
    let lines = lines(&second);
    assert_eq!(lines[0], lines[2]);
}

#[test]
fn sessions_that_go_on_report_at_different_times() {
    let mut disk = Disk::default();
    let mut first = disk.started(NOW);
    (0..200).for_each(|n| first.start(n, &identity(n as u16), (None, port_id(b"line")), NOW));
    disk.sync(&mut first);
    let mut second = disk.started(NOW);
    (0..200).for_each(|n| second.start(n, &identity(n as u16), (None, port_id(b"line")), NOW));
    let due: Vec<u64> = second.accounts.values().map(|account| account.interim - NOW.0).collect();
    assert!(due.iter().all(|due| (1..=600_000).contains(due)), "{due:?}");
    let early = due.iter().filter(|due| **due < 300_000).count();
    assert!((50..150).contains(&early), "{early} of 200 in the first half");
}

#[test]
fn what_changes_of_a_session_is_kept() {
    let (mut disk, of) = (Disk::default(), identity(1));
    let mut first = disk.started(NOW);
    first.start(1, &of, (None, port_id(b"line 1")), NOW);
    let usage = Usage { up_bytes: [500, 0], ..Usage::default() };
    first.interim(1, Some(&of), &usage, NOW);
    first.update(1, &of, port_id(b"line 2"));
    disk.sync(&mut first);
    first.update(1, &of, port_id(b"line 2"));
    assert!(!first.keeper.is_due(), "nothing has changed");
    let mut second = disk.started(NOW);
    second.end_others(NOW);
    disk.sync(&mut second);
    second.turn(NOW, NOW);
    assert_eq!(lines(&second)[1][1].as_deref(), Some("line 2"));
    assert_eq!(reports(&second)[1].2, 500, "usage is not less than was reported");
}

#[test]
fn what_a_session_had_used_when_the_process_ended_is_kept() {
    let (mut disk, of) = (Disk::default(), identity(1));
    let used = |bytes: u64| Usage { up_bytes: [bytes, 0], ..Usage::default() };
    let mut first = disk.started(NOW);
    first.start(1, &of, (None, port_id(b"line 1")), NOW);
    first.interim(1, Some(&of), &used(500), NOW);
    first.regrant(1, &of, "fast");
    disk.sync(&mut first);
    first.pause(1, &of, &used(500));
    assert!(!first.keeper.is_due(), "its record says so");
    first.pause(1, &of, &used(700));
    disk.sync(&mut first);
    let mut second = disk.started(NOW);
    second.start(1, &of, (None, port_id(b"line 1")), NOW);
    second.end_others(NOW);
    let tier = |aaa: &Aaa| aaa.grant(&of).and_then(|grant| grant.profile.clone());
    assert_eq!((tier(&second).as_deref(), tier(&first)), (Some("fast"), tier(&second)));
    second.pause(1, &of, &used(30));
    disk.sync(&mut second);
    let mut third = disk.started(NOW);
    third.end_others(NOW);
    disk.sync(&mut third);
    third.turn(NOW, NOW);
    let sent = reports(&third);
    assert_eq!(sent.last().map(|stop| (stop.0, stop.2)), Some((2, 730)));
}

#[test]
fn session_that_is_gone_after_a_crash_has_ended() {
    let (mut disk, of) = (Disk::default(), identity(1));
    let mut first = disk.started(NOW);
    decide(&mut first, of, Code::AccessAccept);
    first.start(1, &of, (None, port_id(b"acc:100.1")), NOW);
    let usage = Usage { up_bytes: [500, 0], ..Usage::default() };
    first.interim(1, Some(&of), &usage, NOW);
    disk.sync(&mut first);
    let later = NOW + Duration::from_secs(5);
    let mut second = disk.started(later);
    second.end_others(later);
    disk.sync(&mut second);
    second.turn(later, NOW);
    let [start, stop] = &reports(&second)[..] else { panic!("{:?}", reports(&second)) };
    assert_eq!((start.0, stop.0, &stop.1, stop.2), (1, 2, &start.1, 500));
    let lines = lines(&second);
    assert_eq!(lines[0], lines[1], "the same session to a server");
    assert_eq!(lines[1], [Some("line 7".to_owned()), Some("acc:100.1".to_owned())]);
    assert_eq!(disk.started(later).accounts.len(), 0);
}
