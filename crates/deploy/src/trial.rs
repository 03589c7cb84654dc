//! A trial of one gateway: sessions of a control plane, and the traffic of their subscribers.

use std::net::Ipv4Addr;

use crate::fleet::Fleet;

/// Subscribers of a trial, at most.
pub const SUBSCRIBERS: u64 = 1000;

/// Who takes part.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    pub subscribers: u64,
    pub ue_first: Ipv4Addr,
    /// The gateway's address on N3.
    pub upf_n3: Ipv4Addr,
    pub gnb: Ipv4Addr,
    /// The first server behind N6, and how many.
    pub servers: (Ipv4Addr, u32),
}

impl Trial {
    /// The trial of a gateway, from a gNB; none where the pool is too small for its number.
    pub fn of(fleet: &Fleet, ordinal: u32, upf_n3: Ipv4Addr, gnb: Ipv4Addr, servers: (Ipv4Addr, u32)) -> Option<Self> {
        let pool = fleet.pool(ordinal)?;
        let subscribers = SUBSCRIBERS.min(pool.size().saturating_sub(2)).max(1);
        Some(Self { subscribers, ue_first: pool.address(1)?, upf_n3, gnb, servers })
    }

    /// The file of `weir cp`.
    pub fn control(&self) -> String {
        let Self { subscribers, ue_first, upf_n3, gnb, .. } = self;
        format!(
            "upf = \"127.0.0.1\"   # told on the command line\nkind = \"smf\"\nsessions = {subscribers}\nrate = 500\n\n\
             [profile]\nue_first = \"{ue_first}\"\nupf_n3 = \"{upf_n3}\"\nteid_first = 0x01000000\ngnbs = 1\n\
             gnb_first = \"{gnb}\"\ngnb_teid_first = 0x02000000\nqfi = 9\n"
        )
    }

    /// The file of `weir gen`, behind the lines about its ports.
    pub fn traffic(&self, ports: &str) -> String {
        let Self { subscribers, ue_first, upf_n3, gnb, servers: (server_first, servers) } = self;
        format!(
            "{ports}\npps = 20000\nseconds = 20\n\n[profile]\nues = {subscribers}\nue_first = \"{ue_first}\"\n\
             uplink_teids = {{ first = 0x01000000 }}\ndownlink_teids = {{ first = 0x02000000 }}\ngnbs = 1\n\
             gnb_first = \"{gnb}\"\nupf_n3 = \"{upf_n3}\"\nservers = {servers}\nserver_first = \"{server_first}\"\nqfis = [9]\n\
             uplink_sizes = 128\ndownlink_sizes = 576\nratio = {{ up = 1, down = 3 }}\n"
        )
    }
}
