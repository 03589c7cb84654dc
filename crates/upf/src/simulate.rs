//! Sessions by formula: the control plane that is not there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dataplane::filter::Sdf;
use dataplane::forward::InstanceId;

use crate::config::{ConfigError, Simulate, parse_rate};
use crate::rules::{Apply, Far, Interface, Mbr, Pdr, Qer, Session, TunnelEnd, Urr};

/// Makes the rules of any simulated subscriber; everything that is the same for all is parsed once.
#[derive(Clone, Debug)]
pub struct Simulator {
    config: Simulate,
    bearers: Vec<Bearer>,
    ambr: Mbr,
    access: InstanceId,
    core: InstanceId,
}

#[derive(Clone, Debug)]
struct Bearer {
    filters: Vec<Sdf>,
    mbr: Mbr,
}

/// FAR IDs: one towards the core for each bearer, one towards access for each.
const FAR_UP: u32 = 1;
const FAR_DOWN: u32 = 101;
/// The QER of the session's aggregate rate; those of bearers follow.
const QER_SESSION: u32 = 1;
const QER_BEARER: u32 = 2;

impl Simulator {
    /// Sessions of a data network (`core`) whose gNBs are in `access`.
    ///
    /// # Errors
    /// What [`crate::config::Config::check`] finds in the section.
    pub fn new(config: &Simulate, access: InstanceId, core: InstanceId) -> Result<Self, ConfigError> {
        let rate = |text: &Option<String>| text.as_deref().and_then(parse_rate);
        let bearer = |(n, bearer): (usize, &crate::config::Bearer)| {
            let parse = |(m, text): (usize, &String)| {
                text.parse::<dataplane::filter::FlowDescription>().map(Sdf::from).map_err(
                    |error: dataplane::filter::RuleError| {
                        crate::config::wrong(
                            &[&"simulate", &"bearer", &n, &"filters", &m],
                            error.to_string(),
                            "such as \"permit out 17 from 10.0.6.0/24 5000-5003 to assigned\"",
                        )
                    },
                )
            };
            let filters = bearer.filters.iter().enumerate().map(parse).collect::<Result<_, _>>()?;
            Ok(Bearer { filters, mbr: Mbr { up: rate(&bearer.mbr_up), down: rate(&bearer.mbr_down) } })
        };
        Ok(Self {
            bearers: config.bearer.iter().enumerate().map(bearer).collect::<Result<_, ConfigError>>()?,
            ambr: Mbr { up: rate(&config.ambr_up), down: rate(&config.ambr_down) },
            config: config.clone(),
            access,
            core,
        })
    }

    /// How many subscribers there are.
    pub fn count(&self) -> u32 {
        self.config.ues
    }

    /// The section it was made from.
    pub fn config(&self) -> &Simulate {
        &self.config
    }

    /// Subscriber `i`'s IPv4 address.
    pub fn ue4(&self, i: u32) -> Option<Ipv4Addr> {
        self.config.first4().map(|first| Ipv4Addr::from(u32::from(first).wrapping_add(i)))
    }

    /// Subscriber `i`'s IPv6 prefix.
    pub fn ue6(&self, i: u32) -> Option<Ipv6Addr> {
        self.config.ue6_first.map(|first| Ipv6Addr::from(u128::from(first).wrapping_add(u128::from(i) << 64)))
    }

    /// The tunnel endpoint on our side of subscriber `i`'s bearer `b`.
    pub fn teid(&self, i: u32, b: u32) -> u32 {
        self.config.teid_first.wrapping_add(self.tunnel(i, b))
    }

    /// The tunnel endpoint at the gNB of subscriber `i`'s bearer `b`.
    pub(crate) fn gnb_teid(&self, i: u32, b: u32) -> u32 {
        self.config.gnb_teid_first.wrapping_add(self.tunnel(i, b))
    }

    fn tunnel(&self, i: u32, b: u32) -> u32 {
        if self.config.teid_per_bearer { i.wrapping_mul(self.bearers.len() as u32).wrapping_add(b) } else { i }
    }

    /// The subscriber whose packets go to that tunnel endpoint of a gNB.
    pub(crate) fn by_gnb_teid(&self, gnb: IpAddr, teid: u32) -> Option<u32> {
        let tunnels = if self.config.teid_per_bearer { self.bearers.len() as u32 } else { 1 };
        let i = teid.checked_sub(self.config.gnb_teid_first)? / tunnels;
        (i < self.count() && self.gnb(i) == gnb).then_some(i)
    }

    /// The gNB subscriber `i` is at.
    pub fn gnb(&self, i: u32) -> IpAddr {
        let n = i % self.config.gnbs.max(1);
        match self.config.gnb_first {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).wrapping_add(n)).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).wrapping_add(n.into())).into(),
        }
    }

    /// Subscriber `i`'s rules; `idle`: downlink packets are buffered.
    pub fn session(&self, i: u32, idle: bool) -> Session {
        let mut session = Session { instance: self.core, ue4: self.ue4(i), ue6: self.ue6(i), ..Session::default() };
        let limited = self.ambr != Mbr::default();
        if limited {
            session.qers.push(Qer {
                id: QER_SESSION,
                gate_up: true,
                gate_down: true,
                mbr: self.ambr,
                session: true,
                ..Qer::default()
            });
        }
        let count = self.bearers.len();
        for (n, (bearer, config)) in self.bearers.iter().zip(&self.config.bearer).enumerate() {
            let b = n as u32; // a handful
            let open = !config.gate_closed;
            session.qers.push(Qer {
                id: QER_BEARER + b,
                gate_up: open,
                gate_down: open,
                mbr: bearer.mbr,
                qfi: config.qfi,
                reflective: config.reflective,
                paging_policy: config.paging_policy,
                mark: config.mark_down,
                ..Qer::default()
            });
            if !config.no_usage {
                session.urrs.push(Urr { id: 1 + b, ..Urr::default() });
            }
            let end = TunnelEnd::gtpu(self.gnb(i), self.gnb_teid(i, b));
            let forward = if config.far_drop { Apply::Drop } else { Apply::Forward };
            session.fars.push(Far {
                id: FAR_UP + b,
                apply: if config.redirect.is_some() { Apply::Redirect } else { forward },
                tunnel: None,
                page: config.redirect.as_deref().map(Box::from),
                keep: 0,
                to_control: false,
                to_access: false,
                duplicates: Vec::new(),
                instance: self.core,
                dscp: config.dscp_up,
            });
            session.fars.push(Far {
                id: FAR_DOWN + b,
                apply: if idle { Apply::Buffer } else { forward },
                tunnel: Some(end),
                page: None,
                keep: 0,
                to_control: false,
                to_access: false,
                duplicates: Vec::new(),
                instance: self.access,
                dscp: config.dscp,
            });
            let mut qers = vec![QER_BEARER + b];
            if limited {
                qers.push(QER_SESSION);
            }
            let urrs: Vec<u32> = (!config.no_usage).then_some(1 + b).into_iter().collect();
            for (source, far) in [(Interface::Access, FAR_UP + b), (Interface::Core, FAR_DOWN + b)] {
                let uplink = source == Interface::Access;
                session.pdrs.push(Pdr {
                    removes: None,
                    id: (1 + 2 * n + usize::from(!uplink)) as u16, // a handful
                    precedence: if n + 1 == count { 255 } else { 10 + b },
                    source,
                    teid: uplink.then(|| self.teid(i, b)),
                    qfi: if uplink { config.qfi } else { None },
                    filters: bearer.filters.clone(),
                    far,
                    qers: qers.clone(),
                    urrs: urrs.clone(),
                });
            }
        }
        session
    }
}
