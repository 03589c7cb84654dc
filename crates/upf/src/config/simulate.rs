//! `[simulate]`: sessions by formula, where there is no control plane.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigError, parse_rate, wrong};

/// A control plane that is not there: sessions by formula.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Simulate {
    /// How many subscribers.
    pub ues: u32,
    /// Subscriber `i` has this address plus `i`. Left out: 10.60.0.1, or no IPv4 where `ue6_first` is given.
    pub ue_first: Option<Ipv4Addr>,
    /// Subscriber `i` has this /64 plus `i`; none: no IPv6.
    pub ue6_first: Option<Ipv6Addr>,
    /// Subscriber `i`'s tunnel endpoint on our side is this plus `i`, for all its bearers (5G); or its bearer `b`'s is
    /// this plus `i` × bearers + `b`, when bearers have tunnels of their own (4G).
    pub teid_first: u32,
    /// Bearers have tunnels of their own.
    pub teid_per_bearer: bool,
    /// Subscriber `i`'s tunnel endpoint at its gNB is this plus `i`.
    pub gnb_teid_first: u32,
    /// How many gNBs; subscriber `i` is at gNB `i` mod this.
    pub gnbs: u32,
    /// gNB `n` has this address plus `n`.
    pub gnb_first: IpAddr,
    /// The aggregate rate of each subscriber, such as `"100 Mbit/s"`; none: no limit.
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub ambr_up: Option<String>,
    /// As `ambr_up`.
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub ambr_down: Option<String>,
    /// Bearers, or QoS flows: the last one is the default bearer and usually has no filters.
    pub bearer: Vec<Bearer>,
    /// Sessions removed and made anew per second while running.
    pub churn_per_second: u32,
    /// Subscribers that begin idle: their downlink is buffered.
    pub idle: u32,
    /// Milliseconds that paging takes: an idle subscriber's packets go on so long after the first one came; none: nobody
    /// is paged.
    #[serde(deserialize_with = "quantity::read::milliseconds::optional")]
    #[schemars(schema_with = "quantity::read::milliseconds::schema")]
    pub paging_ms: Option<u64>,
}

impl Default for Simulate {
    fn default() -> Self {
        Self {
            ues: 1000,
            ue_first: None,
            ue6_first: None,
            teid_first: 0x0100_0000,
            teid_per_bearer: false,
            gnb_teid_first: 0x0200_0000,
            gnbs: 1,
            gnb_first: Ipv4Addr::new(10, 0, 3, 100).into(),
            ambr_up: None,
            ambr_down: None,
            bearer: vec![Bearer::default()],
            churn_per_second: 0,
            idle: 0,
            paging_ms: None,
        }
    }
}

/// A bearer (4G) or QoS flow (5G).
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Bearer {
    /// QoS flow identifier; none: no PDU session container (4G).
    pub qfi: Option<u8>,
    /// SDF filters as flow descriptions: `permit out 17 from 10.0.6.0/24 5000-5003 to assigned`.
    pub filters: Vec<String>,
    /// Maximum bit rate; none: no limit.
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub mbr_up: Option<String>,
    /// As `mbr_up`.
    #[schemars(schema_with = "quantity::read::optional_rate_schema")]
    pub mbr_down: Option<String>,
    /// The gate is closed in both directions.
    pub gate_closed: bool,
    /// DSCP of the transport header towards the gNB.
    pub dscp: Option<u8>,
    /// DSCP of packets towards the data network.
    pub dscp_up: Option<u8>,
    /// DSCP that packets to the subscriber are marked with themselves.
    pub mark_down: Option<u8>,
    /// Packets to the subscriber ask it for reflective QoS (RQI).
    pub reflective: bool,
    /// Paging policy of packets to the subscriber (PPI).
    pub paging_policy: Option<u8>,
    /// Bearer is dropped by its FAR.
    pub far_drop: bool,
    /// No usage measurement.
    pub no_usage: bool,
    /// Address of a web page that the subscriber's HTTP requests are sent to; nothing else is forwarded.
    pub redirect: Option<String>,
}

impl Simulate {
    /// The first subscriber's IPv4 address, if they have such.
    pub(crate) fn first4(&self) -> Option<Ipv4Addr> {
        self.ue_first.or_else(|| self.ue6_first.is_none().then_some(Ipv4Addr::new(10, 60, 0, 1)))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let at = |key: &'static str| -> [&'static str; 2] { ["simulate", key] };
        let fail = |key, what: String, help: &str| {
            let [a, b] = at(key);
            Err(wrong(&[&a, &b], what, help))
        };
        let last = u64::from(self.ues.max(1) - 1);
        let tunnels = if self.teid_per_bearer { self.bearer.len() as u64 } else { 1 };
        if self.first4().is_some_and(|a| u64::from(u32::from(a)) + last > u64::from(u32::MAX)) {
            return fail("ue_first", format!("{} addresses do not fit behind it", self.ues), "begin lower");
        }
        if u64::from(self.teid_first) + (last + 1) * tunnels > u64::from(u32::MAX) || self.teid_first == 0 {
            return fail("teid_first", "TEIDs are 1 to 4294967295".into(), "leave it out");
        }
        if u64::from(self.gnb_teid_first) + (last + 1) * tunnels > u64::from(u32::MAX) {
            return fail("gnb_teid_first", "TEIDs are 1 to 4294967295".into(), "leave it out");
        }
        if self.gnbs == 0 {
            return fail("gnbs", "no gNB at all".into(), "at least 1");
        }
        if self.bearer.is_empty() {
            return fail("bearer", "no bearer at all".into(), "write [[simulate.bearer]] once at least");
        }
        for (key, rate) in [("ambr_up", &self.ambr_up), ("ambr_down", &self.ambr_down)] {
            if rate.as_ref().is_some_and(|r| parse_rate(r).is_none()) {
                return fail(key, "no rate".into(), "such as \"100 Mbit/s\"");
            }
        }
        for (n, bearer) in self.bearer.iter().enumerate() {
            let path =
                |key: &'static str| -> [String; 4] { ["simulate".into(), "bearer".into(), n.to_string(), key.into()] };
            let fail = |key, what: String, help: String| Err(ConfigError { path: path(key).to_vec(), what, help });
            if bearer.qfi.is_some_and(|q| q > 63) {
                return fail("qfi", "a QFI is 0 to 63".into(), "such as 9".into());
            }
            for (key, dscp) in [("dscp", bearer.dscp), ("dscp_up", bearer.dscp_up)] {
                if dscp.is_some_and(|d| d > 63) {
                    return fail(key, "a DSCP is 0 to 63".into(), "46 for expedited forwarding".into());
                }
            }
            for (key, rate) in [("mbr_up", &bearer.mbr_up), ("mbr_down", &bearer.mbr_down)] {
                if rate.as_ref().is_some_and(|r| parse_rate(r).is_none()) {
                    return fail(key, "no rate".into(), "such as \"10 Mbit/s\"".into());
                }
            }
            if bearer.redirect.as_ref().is_some_and(|url| dataplane::redirect::page(url).is_none()) {
                return fail("redirect", "no address of a web page".into(), "such as \"http://example.com/\"".into());
            }
            for (m, filter) in bearer.filters.iter().enumerate() {
                if let Err(error) = filter.parse::<dataplane::filter::FlowDescription>() {
                    let mut path = path("filters").to_vec();
                    path.push(m.to_string());
                    let help = "such as \"permit out 17 from 10.0.6.0/24 5000-5003 to assigned\"".to_owned();
                    return Err(ConfigError { path, what: error.to_string(), help });
                }
            }
        }
        Ok(())
    }
}
