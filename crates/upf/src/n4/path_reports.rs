//! Reports about paths to GTP-U peers (User Plane Path Failure and Recovery Report, 3GPP TS 29.244, 7.4.5.1).

use std::collections::BTreeMap;
use std::net::IpAddr;

use pfcp::group::{UserPlanePathFailureReport, UserPlanePathRecoveryReport};
use pfcp::ie::{NodeReportType, RemoteGtpUPeer};
use pfcp::message::NodeReportRequest;

use super::paths::{Act, Path};
use super::{N4, Outgoing};
use crate::control::Control;

/// Peers in a report at most, so that it fits a packet.
const PEERS_A_REPORT: usize = 32;

impl N4 {
    /// Asks GTP-U peers whether they are there, and tells of those that are not (User Plane Path Failure Report,
    /// 7.4.5.1.2).
    pub(super) fn supervise_paths(&mut self, control: &mut Control, now: u64) {
        let mut failed: BTreeMap<u32, Vec<RemoteGtpUPeer>> = BTreeMap::new();
        for act in self.store.paths.act(now) {
            match act {
                Act::Echo(path, sequence) => control.echo(path.instance, path.peer, sequence),
                Act::Failed(path, whom) => {
                    self.counters.path_failures += 1;
                    tracing::warn!(
                        target: "gtpu", event = "path_failed",
                        peer = %path.peer, instance = self.networks.name(path.instance),
                        "the peer does not answer Echo Requests"
                    );
                    whom.into_iter().for_each(|peer| failed.entry(peer).or_default().push(remote(path)));
                }
            }
        }
        for (peer, remotes) in failed {
            for some in remotes.chunks(PEERS_A_REPORT) {
                let report = UserPlanePathFailureReport { remote_gtp_u_peers: some.to_vec(), ..Default::default() };
                let message = NodeReportRequest {
                    node_id: self.node.clone(),
                    node_report_type: NodeReportType::UPFR,
                    user_plane_path_failure_report: Some(report),
                    ..NodeReportRequest::default()
                };
                self.out.push_back(Outgoing::NodeReport { peer, message: message.into() });
            }
        }
    }

    /// A GTP-U peer has answered; one that had not before is told of (User Plane Path Recovery Report, 7.4.5.1.3).
    pub(super) fn path_answers(&mut self, path: Path, sequence: u16, now: u64) {
        let Some(whom) = self.store.paths.heard(path, sequence, now) else { return };
        self.counters.path_recoveries += 1;
        tracing::info!(
            target: "gtpu", event = "path_recovered",
            peer = %path.peer, instance = self.networks.name(path.instance), "the peer answers again"
        );
        for peer in whom {
            let remote_gtp_u_peers = vec![remote(path)];
            let report = UserPlanePathRecoveryReport { remote_gtp_u_peers, ..Default::default() };
            let message = NodeReportRequest {
                node_id: self.node.clone(),
                node_report_type: NodeReportType::UPRR,
                user_plane_path_recovery_report: Some(report),
                ..NodeReportRequest::default()
            };
            self.out.push_back(Outgoing::NodeReport { peer, message: message.into() });
        }
    }
}

/// A path's end, as control planes name it.
fn remote(path: Path) -> RemoteGtpUPeer {
    match path.peer {
        IpAddr::V4(ip4) => RemoteGtpUPeer { ip4: Some(ip4), ..RemoteGtpUPeer::default() },
        IpAddr::V6(ip6) => RemoteGtpUPeer { ip6: Some(ip6), ..RemoteGtpUPeer::default() },
    }
}
