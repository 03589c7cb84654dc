//! Addresses and packets of the measurement. UEs 0 to `sessions` − 1 are in the cells; the last few are kept for the checks
//! of usage, rate and gate.

use std::net::Ipv4Addr;
use std::sync::Arc;

use traffic::{Plan, Profile, Ratio, Teids};

use super::options::{Flow, RealOptions};
use crate::error::BenchError;

/// The gateway's address on N3; gNBs are in the same /16.
pub const N3: Ipv4Addr = Ipv4Addr::new(172, 20, 255, 1);
/// The gateway's address on N6.
pub const N6: Ipv4Addr = Ipv4Addr::new(172, 22, 0, 1);
/// The router towards the data network.
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(172, 22, 0, 2);
/// gNBs.
pub const GNBS: u32 = 8;
/// QoS flow of all packets.
pub const QFI: u8 = 9;
/// Sessions beyond those of the cells whose usage is compared packet by packet.
pub const AUDITED: u32 = 16;
/// Sessions beyond those with a low bit rate.
pub const POLICED: u32 = 4;
/// The last sessions have a closed gate.
pub const CLOSED: u32 = 2;

/// Which UEs a load is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Those of the cells.
    Cells,
    /// Those whose usage is audited.
    Audited,
    /// Those with a low bit rate.
    Policed,
    /// Those with a closed gate.
    Closed,
}

impl Of {
    /// Their numbers.
    pub fn ues(self, sessions: u32) -> std::ops::Range<u32> {
        let [cells, audited, policed] = [sessions, sessions + AUDITED, sessions + AUDITED + POLICED];
        match self {
            Self::Cells => 0..cells,
            Self::Audited => cells..audited,
            Self::Policed => audited..policed,
            Self::Closed => policed..policed + CLOSED,
        }
    }
}

/// Sessions in all.
pub(crate) fn all_sessions(sessions: u32) -> u32 {
    Of::Closed.ues(sessions).end
}

/// Addresses, identifiers and sizes of all UEs: 128-byte frames on N6, 44 bytes more in the tunnel on N3.
pub fn profile(options: &RealOptions, flow: Flow) -> Profile {
    let (up, down) = match flow {
        Flow::Mixed => (1.0, 1.0),
        Flow::Uplink => (1.0, 0.0),
        Flow::Downlink => (0.0, 1.0),
    };
    Profile {
        ues: all_sessions(options.sessions),
        ue_first: Ipv4Addr::new(10, 60, 0, 1),
        qfis: vec![QFI],
        uplink_teids: Teids::from(1),
        downlink_teids: Teids::from(0x0200_0000),
        gnbs: GNBS,
        gnb_first: Ipv4Addr::new(172, 20, 0, 1).into(),
        upf_n3: N3.into(),
        ratio: Ratio { up, down },
        // So that the time can be written into a packet on its way out of the kernel.
        user_checksums: false,
        ..Profile::default()
    }
}

/// The packets of some UEs.
///
/// # Errors
/// More sessions than there are addresses.
pub fn plan(options: &RealOptions, of: Of, flow: Flow) -> Result<Arc<Plan>, BenchError> {
    Ok(Plan::subset(profile(options, flow), of.ues(options.sessions), 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ues_follow_each_other() {
        let mut next = 0;
        for of in [Of::Cells, Of::Audited, Of::Policed, Of::Closed] {
            let ues = of.ues(100);
            assert_eq!(ues.start, next);
            next = ues.end;
        }
        assert_eq!((next, all_sessions(100)), (122, 122));
    }

    #[test]
    fn every_direction_makes_a_plan() {
        let options = RealOptions { sessions: 50, ..RealOptions::new("weir".into()) };
        for flow in [Flow::Mixed, Flow::Uplink, Flow::Downlink] {
            assert_eq!(plan(&options, Of::Cells, flow).map(|plan| plan.ues()).ok(), Some(50), "{flow:?}");
        }
    }
}
