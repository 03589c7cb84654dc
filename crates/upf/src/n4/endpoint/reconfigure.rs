//! What a reload changes of the endpoint: peers, limits, and what sessions may name.

use std::time::Duration;

use pfcp::ie::{GracefulReleasePeriod, PfcpAssociationReleaseRequest};
use pfcp::message::AssociationUpdateRequest;
use pfcp::node::{Association, AssociationId, Role, State};

use super::super::assemble::behaviour;
use super::super::metering::WallClock;
use super::under_way::NO_SESSION;
use super::{Endpoint, features, time};
use crate::config::{Config, ConfigError};
use crate::control::{Control, PublicRange};

impl Endpoint {
    /// Whether it can go by a configuration from now on, with `public` addresses of translation: those that are taken out, too.
    ///
    /// # Errors
    /// What it cannot, by key.
    pub fn check_reconfiguration(&self, config: &Config, public: &[PublicRange]) -> Result<(), ConfigError> {
        let Some(n4) = &config.n4 else { return Ok(()) };
        self.n4.check_reconfiguration(n4, config)?;
        self.n4.check_public(n4, config, public)
    }

    /// Goes by a configuration that was checked: what it has in the keys of [`LIVE`](super::super::reconfigure::LIVE). A peer
    /// whose address it does not admit any more is asked for release (6.2.7.3), and gets no new session.
    pub fn reconfigure(&mut self, config: &Config, control: &mut Control, clock: &WallClock) {
        let Some(n4) = &config.n4 else { return };
        self.checkpoint_every(Duration::from_secs(n4.checkpoint_seconds.into()));
        self.n4.reconfigure(n4, config, control);
        let mut new = behaviour(n4);
        let before = self.node.config().role;
        new.role = Role::UserPlane(features(n4.choose_f_teid, self.n4.has_pools()));
        new.user_plane_ip_resources = self.node.config().user_plane_ip_resources.clone();
        if new.role != before {
            self.update_features(new.role, clock);
        }
        for id in self.node.reconfigure(new, time(clock)) {
            self.ask_for_release(id, n4.session_retention_seconds, clock);
        }
    }

    /// Tells peers what we can do from now on.
    fn update_features(&mut self, role: Role, clock: &WallClock) {
        let Role::UserPlane(features) = role else { return };
        let up = self.node.associations().filter(|(_, peer)| peer.state == State::Up);
        let up: Vec<_> = up.map(|(_, peer)| peer.address).collect();
        for to in up {
            let request = AssociationUpdateRequest {
                node_id: self.node.config().node_id.clone(),
                up_function_features: Some(features),
                user_plane_ip_resource_information: self.node.config().user_plane_ip_resources.clone(),
                ..AssociationUpdateRequest::default()
            };
            // One that does not take it goes on by what it was told at setup.
            self.unanswered += u64::from(self.node.request(to, None, request.into(), NO_SESSION, time(clock)).is_err());
        }
    }

    fn ask_for_release(&mut self, id: AssociationId, seconds: u32, clock: &WallClock) {
        let Some(Association { node_id, address, state, sessions, .. }) = self.node.association(id).cloned() else {
            return;
        };
        tracing::warn!(
            target: "n4", event = "association_not_allowed", %node_id, %address, sessions, seconds,
            "n4.allow and n4.peer no longer have the control plane's address: release requested"
        );
        self.tell(id, &format!("no longer allowed: release requested, its sessions end in {seconds} s"), clock);
        if state != State::Up {
            return;
        }
        let request = AssociationUpdateRequest {
            node_id: self.node.config().node_id.clone(),
            pfcp_association_release_request: Some(PfcpAssociationReleaseRequest::SARR),
            user_plane_ip_resource_information: self.node.config().user_plane_ip_resources.clone(),
            graceful_release_period: Some(GracefulReleasePeriod::at_least(seconds)),
            ..AssociationUpdateRequest::default()
        };
        // Without an answer the association ends all the same.
        self.unanswered +=
            u64::from(self.node.request(address, None, request.into(), NO_SESSION, time(clock)).is_err());
    }
}
