//! `weir show sessions | modems | subscribers` over running gateways on memory ports: pages, filters, and that neither
//! workers nor control are held up by many.

use std::time::{Duration, Instant};

use gateway::connected::{ConnectedPage, ConnectedRequest, Top, answer};
use gateway::load::Text;
use gateway::shell::{Gateway, Loaded, Process, Product};
use port::Wires;

use crate::shell_tests::GATEWAY;

/// An example's gateway on memory ports.
pub fn start<G: Gateway>(config: &str, wires: &Wires) -> Process<G::Product> {
    let mut ports = 0;
    let line = |line: &str| {
        if !line.starts_with("uri = ") {
            return line.to_owned();
        }
        ports += 1;
        format!("uri = \"memory:{ports}?mac=02:00:00:00:00:0{ports}\"")
    };
    let text = config.lines().map(line).collect::<Vec<_>>().join("\n");
    let text = Text { name: "gateway.toml".into(), text };
    let loaded = Loaded::of(text).unwrap_or_else(|error| panic!("{error}"));
    G::started_from(&loaded, wires).unwrap()
}

fn ask(product: &impl Product, request: &ConnectedRequest) -> ConnectedPage {
    answer(product.connected().expect("it has some"), request).unwrap()
}

fn with(name: &str, value: &str) -> ConnectedRequest {
    let mut request = ConnectedRequest::default();
    request.filter.set(name, value).unwrap();
    request
}

/// Turns control until `over`, and gives the longest time from one turn's begin to the next.
fn longest_gap(product: &impl Product, over: &std::sync::atomic::AtomicBool) -> Duration {
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while !over.load(std::sync::atomic::Ordering::Relaxed) {
        product.turn();
        std::thread::sleep(Duration::from_micros(200));
        let now = Instant::now();
        longest = longest.max(now.duration_since(last));
        last = now;
    }
    longest
}

#[test]
fn many_sessions_hold_up_neither_workers_nor_control() {
    let many = GATEWAY.replace("ues = 10\n", "ues = 256000\n");
    let wires = Wires::default();
    let process = start::<upf::product::UpfGateway>(&many, &wires);
    let (product, over) = (process.observer().clone(), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        let control = scope.spawn(|| longest_gap(&*product, &over));
        let turns = || process.shell().turns()[0];
        let before = turns();
        let page = ask(&*product, &ConnectedRequest::default());
        assert_eq!((page.total, page.entries.len(), page.next), (256_000, 50, Some(49)));
        let page = ask(&*product, &ConnectedRequest { after: Some(255_990), ..ConnectedRequest::default() });
        assert_eq!((page.entries.len(), page.next), (9, None));
        let page = ask(&*product, &with("address", "10.63.231.255"));
        assert_eq!(page.entries.first().map(|entry| entry.number), Some(255_998), "{page:?}");
        // Looks at all of them, in as many requests as it takes.
        let (mut asked, mut found) = (with("teid", "0x0103e7ff"), Vec::new());
        loop {
            let page = ask(&*product, &asked);
            found.extend(page.entries.iter().map(|entry| entry.number));
            asked.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        assert_eq!(found, [255_999]);
        let top = ConnectedRequest { top: Some(Top::Bytes), ..ConnectedRequest::default() };
        let begin = Instant::now();
        assert!(ask(&*product, &top).entries.is_empty(), "nothing was carried");
        println!("counters of all read within {:?}, {} turns", begin.elapsed(), turns() - before);
        assert!(turns() - before > 4000, "no more than 64 sessions a turn");
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        let gap = control.join().unwrap();
        println!("longest time between turns of control: {gap:?}");
        // Two CPUs with much else to do: the scheduler alone may take tens of milliseconds.
        assert!(gap < Duration::from_millis(250), "{gap:?}");
    });
    assert_eq!(process.stop().crashed, 0);
}

#[test]
fn sessions_with_the_most_traffic_come_first() {
    let wires = Wires::default();
    let process = crate::shell_tests::gateway(&wires);
    let product = process.observer().clone();
    for (ue, packets) in [(3, 5), (7, 9)] {
        (0..packets).for_each(|_| wires.wire("n3").send(crate::shell_tests::uplink_of(ue)));
    }
    let top = ConnectedRequest { top: Some(Top::Bytes), ..ConnectedRequest::default() };
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let page = ask(&*product, &top);
        let rows: Vec<_> = page.entries.iter().map(|entry| (entry.number, entry.up_packets)).collect();
        if rows == [(7, 9), (3, 5)] {
            break;
        }
        assert!(Instant::now() < end, "{rows:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(process.stop().crashed, 0);
}

#[test]
fn modems_are_listed_by_page_and_found() {
    let wires = Wires::default();
    let process = start::<cmts::product::CmtsGateway>(include_str!("../../../examples/cmts.toml"), &wires);
    let product = process.observer().clone();
    let page = ask(&*product, &ConnectedRequest::default());
    assert_eq!((page.kind.as_str(), page.total, page.entries.len()), ("modems", 301, 50));
    for (name, value) in [("mac", "02:CB:00:00:00:01"), ("address", "10.64.0.1")] {
        let page = ask(&*product, &with(name, value));
        let macs: Vec<_> = page.entries.iter().filter_map(|entry| entry.mac.as_deref()).collect();
        assert_eq!(macs, ["02:cb:00:00:00:01"], "{name}");
    }
    let refused = answer(product.connected().unwrap(), &with("imsi", "1")).unwrap_err();
    assert_eq!(refused, "modems have no imsi; allowed: mac, address, group, profile");
    assert_eq!(process.stop().crashed, 0);
}

#[test]
fn subscribers_are_listed_by_page_and_found() {
    let wires = Wires::default();
    let process = start::<bng::product::BngGateway>(include_str!("../../../examples/bng.toml"), &wires);
    let product = process.observer().clone();
    let page = ask(&*product, &ConnectedRequest { limit: 5, ..ConnectedRequest::default() });
    assert_eq!((page.kind.as_str(), page.entries.len()), ("subscribers", 5));
    assert!(page.total > 5 && page.next.is_some(), "{page:?}");
    let last = page.entries.last().unwrap();
    let (name, address) = (last.name.clone().unwrap(), last.addresses[0].split('/').next().unwrap().to_owned());
    for (field, value) in [("name", name.as_str()), ("address", &address)] {
        let found = ask(&*product, &with(field, value));
        assert_eq!(found.entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), [last.number], "{field}");
    }
    assert_eq!(process.stop().crashed, 0);
}
