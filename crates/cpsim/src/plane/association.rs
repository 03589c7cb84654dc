//! The user plane comes, goes, and asks to be released (3GPP TS 29.244, 6.2.6 to 6.2.8).

use pfcp::ie::{Cause, PfcpAssociationReleaseRequest, UpFunctionFeatures};
use pfcp::message::AssociationUpdateRequest;
use pfcp::node::{AssociationId, Failure, Removal, Time};

use super::{ControlPlane, Overload, Stage, State};

impl ControlPlane {
    /// Who asks to be released (6.2.7.3) gets no new sessions; those there are stay until somebody moves them.
    pub(super) fn updated(&mut self, update: &AssociationUpdateRequest) {
        let flags = update.pfcp_association_release_request;
        if flags.is_some_and(|flags| flags.contains(PfcpAssociationReleaseRequest::SARR)) {
            self.asked_to_release = true;
            self.tally.counts.asked_to_release += 1;
        }
    }

    pub(super) fn associated(&mut self, id: AssociationId) {
        self.association = Some(id);
        self.asked_to_release = false;
        // Whoever begins anew counts anew.
        self.overload = Overload::default();
        let chooses = |features: UpFunctionFeatures| features.contains(UpFunctionFeatures::FTUP);
        let association = self.node.association(id);
        self.user_plane = association.map(|association| association.node_id.to_string()).unwrap_or_default();
        let features = association.and_then(|association| association.up_function_features);
        if self.stage != Stage::Associating {
            return;
        }
        self.stage = Stage::Working;
        if self.spec.profile.own_teids.is_none() && !features.is_some_and(chooses) {
            // It would refuse every session: better said once.
            self.stage = Stage::Failed(Failure::Rejected(Cause::INVALID_F_TEID_ALLOCATION_OPTION));
        }
    }

    pub(super) fn not_associated(&mut self, why: Failure, now: Time) {
        match self.stage {
            Stage::Associating if self.began.is_none() => self.stage = Stage::Failed(why),
            // It was there before, and may come again.
            Stage::Associating => _ = self.node.associate(self.spec.upf, now),
            _ => {}
        }
    }

    /// The association is gone, and with it all sessions.
    pub(super) fn gone(&mut self, why: Removal, now: Time) {
        self.association = None;
        for (i, subscriber) in (0..).zip(&mut self.subscribers) {
            if subscriber.is_free() {
                subscriber.state = State::Down;
                self.up -= 1;
                self.waiting.push_back(i);
            }
        }
        if self.stage == Stage::Working {
            self.tally.counts.lost += u64::from(why != Removal::Lost);
            self.stage = Stage::Associating;
            _ = self.node.associate(self.spec.upf, now);
        } else if self.stage == Stage::Ending {
            self.stage = Stage::Over;
        }
    }
}
