//! The rules of a session, the same for every user plane: uplink and downlink PDR and FAR, one QER with MBR, gate and QFI,
//! one URR with volume threshold and measurement period.

use std::net::{IpAddr, Ipv4Addr};

use pfcp::control::{OwnTeids, Profile, Session};
use pfcp::ie::{GateStatus, Mbr, MeasurementInformation, NodeId, OuterHeaderCreation, Qfi, SdfFilter};
use pfcp::message::SessionEstablishmentRequest;
use traffic::Direction;
use wire::Teid;

use super::traffic::{N3, Of, QFI};

/// MBR of all sessions but the policed ones, in kbit/s: more than a session gets in any cell, and what user planes that
/// keep bit/s in 32 bits can hold.
pub const OPEN_KBITS: u64 = 1_000_000;
/// MBR of the policed sessions, in kbit/s.
pub const LOW_KBITS: u64 = 1_000;
/// Volume threshold in octets, and measurement period in seconds, of the sessions in the cells: reports are seldom due.
const SELDOM: (u64, u32) = (100 << 20, 300);
/// The same of the audited sessions: both come due in the audit.
pub const OFTEN: (u64, u32) = (8 << 10, 1);
/// A filter that every packet matches.
const FILTER: &str = "permit out ip from any to assigned";

/// What makes the rules of UE `i`.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Sessions in the cells.
    pub sessions: u32,
    /// PDRs have an SDF filter.
    pub sdf: bool,
    /// Every Nth session of the cells has a rule that the in-kernel path does not carry: a URR that counts before QoS.
    pub user_space_every: Option<u32>,
}

impl Rules {
    fn of(&self, ue: u32) -> Of {
        let all = [Of::Audited, Of::Policed, Of::Closed];
        all.into_iter().find(|of| of.ues(self.sessions).contains(&ue)).unwrap_or(Of::Cells)
    }

    /// The request that brings up UE `i`'s session; the control plane is at `address` and numbers it `i` + 1.
    pub fn establish(&self, ue: u32, traffic: &traffic::Profile, address: IpAddr) -> SessionEstablishmentRequest {
        let of = self.of(ue);
        let kbits = if of == Of::Policed { LOW_KBITS } else { OPEN_KBITS };
        let (octets, seconds) = if of == Of::Audited { OFTEN } else { SELDOM };
        let profile = Profile {
            dnn: "internet".into(),
            own_teids: Some(OwnTeids { address: N3.into(), first: traffic.teid(Direction::Uplink, 0, 0) }),
            maximum_bitrate: Some(Mbr { uplink: kbits, downlink: kbits }),
            qfi: Some(Qfi(QFI)),
            volume_threshold: Some(octets),
            measurement_period: Some(seconds),
            ..Profile::default()
        };
        let session = Session {
            cp_seid: u64::from(ue) + 1,
            ip4: Some(traffic.ue4(ue)),
            access: Some(tunnel(traffic, ue)),
            ..Session::default()
        };
        let mut request = session.establish(&profile, &NodeId::from(address), address);
        request.create_bar = None;
        for pdr in &mut request.create_pdrs {
            if self.sdf {
                pdr.pdi.sdf_filters = vec![SdfFilter::flow(FILTER)];
            }
        }
        let is_kept = |every: u32| of == Of::Cells && ue.is_multiple_of(every);
        if self.user_space_every.is_some_and(is_kept) {
            for urr in &mut request.create_urrs {
                let information = urr.measurement_information.get_or_insert_default();
                *information |= MeasurementInformation::MBQE;
            }
        }
        let is_closed = of == Of::Closed;
        for qer in &mut request.create_qers {
            qer.gate_status = GateStatus { uplink_closed: is_closed, downlink_closed: is_closed };
        }
        request
    }
}

/// Where packets to a UE go.
fn tunnel(traffic: &traffic::Profile, ue: u32) -> OuterHeaderCreation {
    let gnb = match traffic.gnb(traffic.gnb_of(ue)) {
        IpAddr::V4(gnb) => gnb,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    OuterHeaderCreation::gtp_u(Teid(traffic.teid(Direction::Downlink, ue, 0)), Some(gnb), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real::options::{Flow, RealOptions};
    use crate::real::traffic::profile;
    use pfcp::{Header, Packet};

    #[test]
    fn requests_carry_all_functions() {
        let options = RealOptions { sessions: 10, ..RealOptions::new("weir".into()) };
        let traffic = profile(&options, Flow::Mixed);
        let rules = Rules { sessions: 10, sdf: true, user_space_every: Some(5) };
        let at = |ue| rules.establish(ue, &traffic, Ipv4Addr::LOCALHOST.into());
        let first = at(0);
        assert_eq!((first.create_pdrs.len(), first.create_urrs.len(), first.create_qers.len()), (2, 1, 1));
        assert!(first.create_pdrs.iter().all(|pdr| pdr.pdi.sdf_filters.len() == 1 && pdr.urr_ids.len() == 1));
        assert_eq!(first.create_qers[0].maximum_bitrate.map(|mbr| mbr.uplink), Some(OPEN_KBITS));
        let is_kept = |ue| {
            let information = at(ue).create_urrs[0].measurement_information.unwrap_or_default();
            information.contains(MeasurementInformation::MBQE)
        };
        assert_eq!((0..20).filter(|ue| is_kept(*ue)).collect::<Vec<_>>(), [0, 5], "sessions of the cells only");
        let policed = at(Of::Policed.ues(10).start);
        assert_eq!(policed.create_qers[0].maximum_bitrate.map(|mbr| mbr.uplink), Some(LOW_KBITS));
        assert!(at(Of::Closed.ues(10).start).create_qers[0].gate_status.uplink_closed);
        let packet = Packet { header: Header::session(0, 1), message: first.into() };
        assert_eq!(Packet::parse(&packet.to_vec().expect("short")), Ok(packet));
    }
}
