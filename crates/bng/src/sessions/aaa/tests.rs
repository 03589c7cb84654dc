use super::*;
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
    Aaa::new(&config, Sockets::default(), NOW)
}

#[test]
fn without_accounting_servers_nothing_waits() {
    let mut aaa = aaa(0);
    aaa.start(1, &identity(1), Vec::new(), NOW);
    aaa.interim(1, &Usage::default(), NOW);
    aaa.stop(1, &Usage::default(), NOW);
    assert_eq!(aaa.next_due(), None);
    aaa.turn(NOW);
    assert_eq!((aaa.accounting.client.pending(), aaa.next_due()), ((0, 0), None));
}

#[test]
fn unwritable_report_is_counted_and_dropped() {
    let mut aaa = aaa(1813);
    aaa.start(1, &identity(1), vec![Attribute::octets(number::NAS_PORT_ID, [7; 300])], NOW);
    aaa.start(2, &identity(2), Vec::new(), NOW);
    aaa.turn(NOW);
    // The one of the gateway's start, and the second session's.
    assert_eq!((aaa.accounting.client.pending(), aaa.counts().reports_malformed), ((0, 2), 1));
    assert!(aaa.next_due().is_some_and(|due| due > NOW));
}
