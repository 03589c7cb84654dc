//! Frames of samples that were recorded of running gateways. `WEIR_BLESS=1` writes `golden/` anew.

use std::path::{Path, PathBuf};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde::Deserialize;

use super::*;
use crate::connected::{ConnectedPage, ConnectedView};
use crate::snapshot::Snapshot;
use crate::socket::PortView;

#[derive(Deserialize)]
struct Recorded {
    samples: Vec<RecordedSample>,
    connected: ConnectedPage,
}

#[derive(Clone, Deserialize)]
struct RecordedSample {
    snapshot: Snapshot,
    ports: Vec<PortView>,
}

impl From<RecordedSample> for Sample {
    fn from(RecordedSample { snapshot, ports }: RecordedSample) -> Self {
        Self { snapshot, ports }
    }
}

/// Names and samples of gateways, in the order of their names.
fn gateways() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/top/samples");
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(&path).unwrap())
    };
    let mut all: Vec<_> = paths.map(read).collect();
    all.sort();
    assert_eq!(all.len(), 3);
    all
}

fn recorded(text: &str) -> (Model, Screen) {
    let Recorded { samples, connected } = serde_json::from_str(text).unwrap();
    let (mut model, mut screen) = (Model::default(), Screen::new(Tab::Overview, 1.0));
    samples.into_iter().for_each(|sample| model.take(sample.into()));
    screen.sessions = Some(Ok(connected));
    (model, screen)
}

/// The screen of a terminal of that size.
fn frame(model: &Model, screen: &mut Screen, (columns, rows): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    let draw = |frame: &mut ratatui::Frame<'_>| {
        let area = frame.area();
        draw::draw(frame.buffer_mut(), area, model, screen);
    };
    terminal.draw(draw).unwrap();
    super::text(terminal.backend().buffer(), false)
}

#[test]
fn frames_of_every_gateway_are_as_recorded() {
    const SIZES: [(u16, u16); 3] = [(80, 24), (40, 10), (120, 44)];
    for (name, text) in gateways() {
        let (model, mut screen) = recorded(&text);
        let mut all = String::new();
        for size in SIZES {
            all += &format!("──── {}x{} ────\n{}", size.0, size.1, frame(&model, &mut screen, size));
        }
        for tab in &Tab::ALL[1..] {
            screen.tab = *tab;
            all += &format!("──── {} 100x16 ────\n{}", tab.name(), frame(&model, &mut screen, (100, 16)));
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/top/golden/{name}.txt"));
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&path, &all).unwrap();
        }
        let wanted = std::fs::read_to_string(&path).unwrap();
        assert_eq!(all, wanted, "{name}: WEIR_BLESS=1 writes it anew");
    }
}

#[test]
fn a_frame_fits_every_size() {
    let (model, mut screen) = recorded(&gateways()[0].1);
    for (columns, rows) in (1..=130).step_by(7).flat_map(|columns| (1..=50).step_by(3).map(move |rows| (columns, rows)))
    {
        for (n, tab) in Tab::ALL.into_iter().enumerate() {
            (screen.tab, screen.is_help) = (tab, n == 5 && rows % 2 == 0);
            screen.draft = (n == 4).then(|| "dnn=internet".to_owned());
            screen.lost = (n == 3).then(|| "connection closed by the running weir".to_owned());
            let drawn = frame(&model, &mut screen, (columns, rows));
            assert_eq!(drawn.lines().count(), usize::from(rows));
            assert!(
                drawn.lines().all(|line| line.chars().count() <= usize::from(columns)),
                "{columns}x{rows}\n{drawn}"
            );
        }
    }
}

#[test]
fn lost_connections_and_keys_are_shown() {
    let (model, mut screen) = recorded(&gateways()[2].1);
    take(&mut Model::default(), &mut screen, News::Lost("nothing answers at /run/weir.sock".to_owned()));
    let drawn = frame(&model, &mut screen, (80, 24));
    assert!(drawn.contains("connection lost, trying again: nothing answers"), "{drawn}");
    assert!(drawn.contains("receive"), "the last figures stay: {drawn}");
    screen.press(KeyEvent::new(KeyCode::Char('?'), KeyModifiers::NONE));
    let drawn = frame(&model, &mut screen, (40, 24));
    assert!(["PgUp", "pause", "filter", "Ctrl-C", "KEY=VALUE"].iter().all(|word| drawn.contains(word)), "{drawn}");
    let first = frame(&Model::default(), &mut Screen::new(Tab::Drops, 1.0), (80, 24));
    assert!(first.contains("waiting for the first sample"), "{first}");
}

#[test]
fn names_from_devices_control_no_terminal() {
    let (model, mut screen) = recorded(&gateways()[2].1);
    let hostile = "\x1b]0;owned\x07\x1b[2J\u{202e}\r\nnet".to_owned();
    let entry = ConnectedView { dnn: Some(hostile.clone()), imsi: Some(hostile), ..ConnectedView::default() };
    screen.sessions =
        Some(Ok(ConnectedPage { entries: vec![entry], kind: "sessions".into(), ..ConnectedPage::default() }));
    screen.tab = Tab::Sessions;
    let drawn = frame(&model, &mut screen, (100, 20));
    assert!(drawn.contains("]0;owned") && !drawn.chars().any(|c| c.is_control() && c != '\n'), "{drawn:?}");
    screen.sessions = Some(Err("\x1b[2Jno".into()));
    assert!(!frame(&model, &mut screen, (100, 20)).contains('\x1b'));
}

#[test]
fn rates_are_of_the_time_between_two_samples() {
    let Recorded { samples, .. } = serde_json::from_str(&gateways()[0].1).unwrap();
    let mut model = Model::default();
    model.take(samples[0].clone().into());
    let first = model.view().unwrap();
    assert!(first.history.seconds.is_empty() && first.seconds == first.uptime_seconds, "a mean since the start");
    model.take(samples[1].clone().into());
    // Right behind it: no time for a rate.
    model.take(samples[1].clone().into());
    let (before, now) = (&samples[0].snapshot, &samples[1].snapshot);
    let view = model.view().unwrap();
    let received = (now.io(engine::Io::RxPackets) - before.io(engine::Io::RxPackets)) as f64;
    let seconds = now.uptime - before.uptime;
    assert!((view.rates.rx_packets_per_second - received / seconds).abs() < 1e-6);
    assert_eq!((view.history.seconds.len(), view.history.rx_packets_per_second.len()), (1, 1));
    let shares: f64 = view.stages.iter().map(|stage| stage.cost_ratio).sum();
    assert!((0.95..=1.0001).contains(&shares), "stages make up the cost: {shares}");
    let received: f64 = view.ports.iter().map(|port| port.rx_packets_per_second).sum();
    assert!((received / view.rates.rx_packets_per_second - 1.0).abs() < 0.05, "ports and workers agree");
    let spoofed = view.drops.iter().find(|drop| drop.reason == "spoofed_source").expect("they were dropped");
    assert!(spoofed.rate > 0.0 && spoofed.packets as f64 > spoofed.rate, "{spoofed:?}");
    let worker = &view.workers[0];
    assert!((worker.busy_ratio + worker.idle_ratio - 1.0).abs() < 1e-9 && worker.cpu_ratio > worker.busy_ratio / 2.0);
    // Another process: counters began anew.
    let mut other: Sample = samples[0].clone().into();
    other.snapshot.pid += 1;
    model.take(other);
    assert!(model.view().unwrap().history.seconds.is_empty());
}

#[test]
fn history_is_bounded() {
    let mut model = Model::default();
    for second in 0..2 * model::HISTORY {
        let snapshot = Snapshot { pid: 1, uptime: second as f64, ..Snapshot::default() };
        model.take(Sample { snapshot, ports: Vec::new() });
    }
    assert_eq!(model.view().unwrap().history.busy_ratio.len(), model::HISTORY);
}

#[test]
fn sparklines_have_the_newest_on_the_right() {
    assert_eq!(body::sparkline(&[0.0, 1.0, 8.0], 5, 1, 8.0), ["   ▁█"]);
    assert_eq!(body::sparkline(&[4.0, 8.0], 2, 2, 8.0), [" █", "██"]);
    assert_eq!(body::sparkline(&[1.0, 2.0, 3.0], 2, 1, 0.0), ["  "]);
    assert_eq!(body::sparkline(&[0.001, 9.0], 2, 1, 9.0), ["▁█"], "little is not nothing");
}
