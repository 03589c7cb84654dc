//! `weir show peers`: control planes, what they and we have said, and what happened to them.

use crate::product::protocol::{GuaranteedView, NewsView, PeersView};
use gateway::tables::{Style, Table, count, duration, si};

/// The page.
pub fn text(view: &PeersView, style: Style) -> String {
    let mut out = format!(
        "{} · {} · {} sessions, {} requests wait for a worker\n\n",
        style.strong(&format!("N4 at {}", view.address)),
        view.node_id,
        count(view.sessions),
        count(view.waiting),
    );
    let GuaranteedView { sessions, up_bps, down_bps } = view.guaranteed;
    if sessions > 0 {
        out += &format!(
            "guaranteed bit rates: {}bit/s up, {}bit/s down, of {} sessions\n\n",
            si(up_bps as f64),
            si(down_bps as f64),
            count(sessions)
        );
    }
    let mut table = Table::new(&["control plane", "node", "state", ">running for", ">sessions", "answers heartbeats"]);
    for peer in &view.peers {
        let state = match peer.lost_for {
            None => "up".to_owned(),
            Some(left) => format!("lost, sessions kept for {}", duration(left)),
        };
        let heartbeats = if peer.answers_heartbeats { "yes" } else { "not yet" };
        table.row([
            peer.address.clone(),
            peer.node_id.clone(),
            state,
            duration(peer.seconds),
            count(peer.sessions),
            heartbeats.to_owned(),
        ]);
    }
    out += &match view.peers.is_empty() {
        true => "  no control plane is associated\n".to_owned(),
        false => table.render(style),
    };
    for peer in view.peers.iter().filter(|peer| !peer.further_addresses.is_empty()) {
        out += &format!("  {} is one of a set, with {}\n", peer.address, peer.further_addresses.join(", "));
    }
    for peer in view.peers.iter().filter(|peer| peer.datagrams_lost > 0) {
        out += &format!("  {} of its datagrams lost: {}'s queue was full\n", count(peer.datagrams_lost), peer.address);
    }
    let mut table = Table::new(&["GTP-U peer", "network", ">sessions", ""]);
    for path in &view.paths {
        let state = if path.failed { "does not answer" } else { "" };
        table.row([path.peer.clone(), path.instance.clone(), count(path.sessions), state.to_owned()]);
    }
    if !table.is_empty() {
        out.push('\n');
        out += &table.render(style);
    }
    let mut table = Table::new(&["sessions and messages", ">so far", ""]);
    for (what, n, sentence) in view.counters.iter().filter(|(_, n, _)| *n > 0) {
        table.row([what.clone(), count(*n), sentence.clone()]);
    }
    if !table.is_empty() {
        out.push('\n');
        out += &table.render(style);
    }
    if !view.news.is_empty() {
        out.push('\n');
        for NewsView { seconds_ago, peer, event } in view.news.iter().rev().take(10).rev() {
            let line = format!("  {} ago: {peer} {event}\n", duration(*seconds_ago));
            out += &line;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::protocol::{PathView, PeerView};

    #[test]
    fn a_page_of_control_planes() {
        let peer = PeerView {
            address: "10.0.4.2:8805".into(),
            node_id: "smf.example".into(),
            seconds: 61.0,
            sessions: 2000,
            ..PeerView::default()
        };
        let lost = PeerView { lost_for: Some(7.0), ..peer.clone() };
        let view = PeersView {
            address: "10.0.4.1:8805".into(),
            node_id: "10.0.4.1".into(),
            sessions: 4000,
            waiting: 0,
            guaranteed: GuaranteedView { sessions: 2, up_bps: 3_000_000, down_bps: 5_000_000 },
            peers: vec![peer, lost],
            paths: vec![PathView { peer: "10.0.3.100".into(), sessions: 7, failed: true, ..PathView::default() }],
            counters: vec![("received".into(), 5, "Messages.".into()), ("malformed".into(), 0, "None.".into())],
            news: vec![NewsView { seconds_ago: 3.0, peer: "10.0.4.2:8805".into(), event: "associated".into() }],
        };
        let page = text(&view, Style::default());
        for part in [
            "10.0.3.100",
            "does not answer",
            "N4 at 10.0.4.1:8805",
            "smf.example",
            "1 min 1 s",
            "2,000",
            "kept for 7.0 s",
            "3.0 s ago: 10.0.4.2",
            "guaranteed bit rates",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("malformed"), "{page}");
        assert!(text(&PeersView::default(), Style::default()).contains("no control plane"));
    }
}
