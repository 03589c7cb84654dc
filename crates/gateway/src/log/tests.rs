use std::sync::{Arc, Mutex};

use tracing_subscriber::layer::SubscriberExt;

use super::levels::Levels;
use super::output::Style;
use super::*;

/// What a piece of code emits, as records, through the levels given.
pub fn emitted(levels: &str, run: impl FnOnce()) -> Vec<Record> {
    let mut all = Levels::default();
    all.set(levels, &["n4"]).unwrap();
    let shared = Arc::new(Shared {
        ring: Mutex::new(Ring::new(KEPT)),
        limiter: Mutex::default(),
        output: Output::to(Style { json: false, journal: false }, std::io::sink()).unwrap(),
    });
    let subscriber = Registry::default().with(all.filter()).with(Events(shared.clone()));
    testkit::events::want_all();
    tracing::subscriber::with_default(subscriber, run);
    lock(&shared.ring).after(0)
}

#[test]
fn an_event_is_one_line_whatever_peers_say() {
    let records = emitted("info", || {
        let (node, address) = ("smf \"7\"\n\u{1b}[2J", std::net::SocketAddr::from(([10, 0, 4, 2], 8805)));
        tracing::warn!(target: "n4", event = "association_lost", node_id = node, from = %address, sessions = 7u64, "no answer");
        tracing::debug!(target: "n4", event = "quiet", "not at this level");
    });
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!((record.sequence, record.level, record.target.as_str()), (1, Level::Warn, "n4"));
    let line = record.logfmt(false);
    let expected = "level=warn target=n4 event=association_lost node_id=\"smf \\\"7\\\"\\n\\u001b[2J\" from=10.0.4.2:8805 \
                    sessions=7 msg=\"no answer\"";
    assert_eq!(line, expected);
    let json: serde_json::Value = serde_json::from_str(&record.json(true)).unwrap();
    assert_eq!(
        (&json["event"], &json["sessions"], &json["msg"]),
        (&"association_lost".into(), &7.into(), &"no answer".into())
    );
    assert_eq!(json["node_id"], "smf \"7\"\n\u{1b}[2J");
    assert!(record.json(true).lines().count() == 1 && json["ts"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn an_event_has_bounds() {
    let records = emitted("info", || {
        tracing::info!(target: "n4", event = "long", text = "x".repeat(1 << 20), shown = ?vec![7; 1 << 16], level = 3, "y");
    });
    let line = records[0].logfmt(true);
    assert!(line.len() < 2048 && line.contains(" level_=3 "), "{} {}", line.len(), &line[..200]);
}

#[test]
fn levels_are_by_target_and_change() {
    let mut levels = Levels::default();
    levels.set("n4=debug", &["n4"]).unwrap();
    levels.set("port=error,warn", &["n4"]).unwrap();
    assert_eq!(levels.to_string(), "warn,port=error");
    levels.set("n4=trace", &["n4"]).unwrap();
    assert_eq!(levels.to_string(), "warn,n4=trace,port=error");
    for (text, what) in
        [("loud", "unknown level"), ("n5=info", "unknown target \"n5\"; allowed: process"), (" ,", "no level")]
    {
        let said = levels.set(text, &["n4"]).unwrap_err();
        assert!(said.contains(what), "{said}");
    }
    let records = emitted("error,n4=debug", || {
        tracing::debug!(target: "n4", event = "a", "");
        tracing::warn!(target: "port", event = "b", "");
        tracing::error!(target: "port", event = "c", "");
    });
    assert_eq!(records.iter().map(|record| record.event.as_str()).collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn a_storm_is_told_by_its_number() {
    let records = emitted("info", || {
        (0..500).for_each(|n| tracing::warn!(target: "port", event = "path_failed", n, "no answer"));
        tracing::warn!(target: "port", event = "path_recovered", "answers");
    });
    assert_eq!((records.len(), records[50].event.as_str()), (51, "path_recovered"));
    let said = Record::suppressed("path_failed", 450, Default::default()).logfmt(false);
    assert!(said.contains("event=events_suppressed of=path_failed suppressed=450"), "{said}");
}

#[test]
fn the_ring_holds_the_last_thousand() {
    let mut ring = Ring::new(KEPT);
    let record = Record::suppressed("x", 1, Default::default());
    (0..2500).for_each(|_| drop(ring.push(record.clone())));
    let kept = ring.after(0);
    assert_eq!((kept.len(), kept[0].sequence, ring.newest()), (1000, 1501, 2500));
    assert_eq!(ring.after(2498).iter().map(|record| record.sequence).collect::<Vec<_>>(), [2499, 2500]);
}
