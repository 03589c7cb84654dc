use super::told;
use crate::product::protocol::{PeerView, PeersView, SessionsView, WorkerSessions};
use gateway::metrics::{Known, page};
use gateway::snapshot::{DropCounters, FrameMemory, PuntCounters, Snapshot, StageCounters, WorkerCounters};
use gateway::socket::PortView;

fn views() -> (SessionsView, PeersView) {
    let of = |worker| WorkerSessions { worker, sessions: 250, bytes: 1000 };
    let sessions = SessionsView { workers: vec![of(0), of(1)], control: Vec::new() };
    let peers = PeersView {
        sessions: 500,
        peers: vec![PeerView::default(), PeerView { lost_for: Some(1.0), ..PeerView::default() }],
        counters: vec![("established".into(), 500, "Sessions.".into())],
        ..PeersView::default()
    };
    (sessions, peers)
}

/// A user plane with those sessions, of a thousand.
fn known((sessions, peers): (SessionsView, PeersView)) -> Known {
    let drop = |stage: &str| DropCounters {
        stage: stage.into(),
        reason: "no_session".into(),
        sentence: "Nobody's.".into(),
        packets: 3,
        bytes: 300,
    };
    let worker = |worker| WorkerCounters {
        worker,
        io: engine::Io::ALL.iter().map(|io| (io.name().to_owned(), 1)).collect(),
        stages: vec![StageCounters {
            pipeline: "uplink".into(),
            name: "gtpu_decap".into(),
            calls: 1,
            packets: 1,
            cycles: 500,
        }],
        drops: vec![drop("uplink.find_session"), drop("worker")],
        punted: vec![PuntCounters { reason: "echo".into(), sentence: "An echo.".into(), packets: 2 }],
        ..WorkerCounters::default()
    };
    let port = PortView {
        name: "n3".into(),
        role: "access".into(),
        link: "up".into(),
        counters: vec![("rx_packets".into(), 7), ("rx_bytes".into(), 700), ("tx_full".into(), 1)],
        ..PortView::default()
    };
    let (own, used) = told(Some(&sessions), Some(&peers), Some(1000));
    Known {
        snapshot: Snapshot {
            gateway: "upf".into(),
            tsc_hz: 1e9,
            workers: vec![worker(0), worker(1)],
            frames: FrameMemory { slots: 16384, ..FrameMemory::default() },
            ..Snapshot::default()
        },
        ports: vec![port],
        own,
        used,
        utilisation: vec![0.2, 0.4],
        draining: false,
        unready: Vec::new(),
        started: 1.5,
    }
}

#[test]
fn every_family_has_its_head_once_and_samples_of_its_own_name() {
    let text = page(&known(views()));
    let mut families: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!families.contains(&name), "{name} twice");
            assert!(help.ends_with('.'), "{name}: {help}");
            families.push(name);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(Some(&name), families.last());
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        } else {
            let name = line.split(['{', ' ']).next().unwrap();
            assert_eq!(Some(&name), families.last(), "{line}");
        }
    }
    for line in [
        "weir_port_receive_bytes_total{port=\"n3\",role=\"access\",worker=\"0\"} 700",
        "weir_port_lost_packets_total{port=\"n3\",role=\"access\",worker=\"0\",reason=\"tx_full\"} 1",
        "weir_drops_packets_total{worker=\"1\",stage=\"uplink.find_session\",reason=\"no_session\"} 3",
        "weir_stage_seconds_total{worker=\"0\",pipeline=\"uplink\",stage=\"gtpu_decap\"} 0.0000005",
        "weir_worker_utilisation_ratio{worker=\"1\"} 0.4",
        "weir_sessions{worker=\"0\"} 250",
        "weir_pfcp_associations{state=\"lost\"} 1",
        "weir_load_ratio 0.5",
        "weir_ready 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
}

#[test]
fn load_is_what_is_nearest_to_its_end() {
    let mut known = known(views());
    assert_eq!(known.load(), 0.5, "half the sessions there may be");
    known.utilisation = vec![0.9, 0.1];
    assert_eq!(known.load(), 0.9, "a busy worker");
    known.utilisation.clear();
    known.used = 0.0;
    assert_eq!(known.load(), 0.0, "nothing known");
}

#[test]
fn there_are_no_more_series_with_more_sessions() {
    let few = page(&known(views())).lines().count();
    let (mut sessions, mut peers) = views();
    (peers.sessions, peers.peers) = (256_000, vec![PeerView::default(); 100]);
    sessions.workers.iter_mut().for_each(|worker| worker.sessions = 128_000);
    assert_eq!(page(&known((sessions, peers))).lines().count(), few);
}
