//! What a PDI asks of packets: the tunnel or addresses they come by, and the filters they match (7.5.2.2-2).

use std::net::{IpAddr, Ipv6Addr};

use dataplane::filter::{FlowDescription, Prefix, Sdf, Tos};
use pfcp::group::{CreateTrafficEndpoint, Pdi};
use pfcp::ie::{FTeid, FramedIp6Route, FramedRoute, SdfFilter, UeIpAddress};

use crate::n4::change::Rules;
use crate::n4::problem::Problem;
use crate::routes::Route;
use crate::rules::Session;

/// What a PDI says of where packets come from.
pub(super) struct Endpoint<'a> {
    pub(super) teid: Option<FTeid>,
    pub(super) ue: &'a [UeIpAddress],
    pub(super) routes: Vec<(IpAddr, u8)>,
}

impl<'a> Endpoint<'a> {
    /// A PDI's tunnel and addresses: its own, or those of the traffic endpoint it names.
    pub(super) fn of(rules: &'a Rules, pdi: &'a Pdi) -> Result<Self, Problem> {
        let endpoint = endpoint_of(rules, pdi);
        let framed = endpoint.map(|e| (&e.framed_routes, &e.framed_ip6_routes));
        let (four, six) = match framed {
            Some(framed) if pdi.framed_routes.is_empty() && pdi.framed_ip6_routes.is_empty() => framed,
            _ => (&pdi.framed_routes, &pdi.framed_ip6_routes),
        };
        let four = four.iter().map(|route| {
            framed_route(&route.0).filter(|(to, _)| to.is_ipv4()).ok_or(Problem::incorrect::<FramedRoute>())
        });
        let six = six.iter().map(|route| {
            framed_route(&route.0).filter(|(to, _)| to.is_ipv6()).ok_or(Problem::incorrect::<FramedIp6Route>())
        });
        Ok(Self {
            teid: pdi.local_f_teid.or(endpoint.and_then(|e| e.local_f_teid)),
            ue: endpoint
                .map(|e| &*e.ue_ip_addresses)
                .filter(|_| pdi.ue_ip_addresses.is_empty())
                .unwrap_or(&pdi.ue_ip_addresses),
            routes: four.chain(six).collect::<Result<_, _>>()?,
        })
    }
}

/// The traffic endpoint a PDI names.
pub(super) fn endpoint_of<'a>(rules: &'a Rules, pdi: &Pdi) -> Option<&'a CreateTrafficEndpoint> {
    let named = |endpoint: &&CreateTrafficEndpoint| pdi.traffic_endpoint_ids.contains(&endpoint.traffic_endpoint_id);
    rules.create_traffic_endpoints.iter().find(named)
}

/// Enters a subscriber's address into the session; a second one of a family must be the same.
pub(super) fn claim(session: &mut Session, address: &UeIpAddress) -> Result<(), Problem> {
    if let Some(ip4) = address.ip4 {
        if session.ue4.is_some_and(|other| other != ip4) || ip4.is_unspecified() {
            return Err(Problem::incorrect::<UeIpAddress>());
        }
        session.ue4 = Some(ip4);
    }
    if let Some(ip6) = address.ip6 {
        let len = address.prefix_len();
        let prefix = Ipv6Addr::from(u128::from(ip6) & !u128::from(u64::MAX));
        if prefix.is_unspecified() || !(SHORTEST6..=128).contains(&len) {
            return Err(Problem::incorrect::<UeIpAddress>());
        }
        if len != 64 {
            behind(session, (ip6.into(), len));
        }
        // Others may have their addresses beside one that is longer.
        if len <= 64 {
            if session.ue6.is_some_and(|other| other != prefix) {
                return Err(Problem::incorrect::<UeIpAddress>());
            }
            session.ue6 = Some(prefix);
        }
    }
    Ok(())
}

/// Shorter prefixes than these are nobody's behind a subscriber, and take a worker long to enter.
const SHORTEST4: u8 = 8;
const SHORTEST6: u8 = 16;

/// Enters a network behind the subscriber, which several PDRs may name.
pub(super) fn behind(session: &mut Session, (address, len): (IpAddr, u8)) {
    let Route { address, len, .. } = Route::new(session.instance, address, len);
    if !session.routes.contains(&(address, len)) {
        session.routes.push((address, len));
    }
}

/// A filter that is only named is the one of that name elsewhere in the session (bidirectional filters, 5.2.1A.2A).
/// One that nothing in the session says more of is none: it would match whatever there is.
pub(super) fn whole<'a>(rules: &'a Rules, filter: &'a SdfFilter) -> Result<&'a SdfFilter, Problem> {
    if !filter.is_name() {
        return Ok(filter);
    }
    let all = rules.create_pdrs.iter().flat_map(|pdr| &pdr.pdi.sdf_filters);
    let said = all.filter(|other| other.id == filter.id).find(|other| !other.is_name());
    said.ok_or(Problem::incorrect::<SdfFilter>())
}

/// A filter as it is compiled later.
pub(super) fn sdf(filter: &SdfFilter) -> Result<Sdf, Problem> {
    let flow = filter.flow_description.as_deref().map(str::parse::<FlowDescription>).transpose();
    let flow = flow.map_err(|_| Problem::incorrect::<SdfFilter>())?;
    let tos = filter.traffic_class.map(|[value, mask]| Tos { value, mask });
    Ok(Sdf { flow, tos, spi: filter.spi, flow_label: filter.flow_label })
}

/// The prefix of a Framed-Route (RFC 2865, 5.22) or Framed-IPv6-Route (RFC 3162, 2.5): `10.1.0.0/16 0.0.0.0 1`.
fn framed_route(text: &str) -> Option<(IpAddr, u8)> {
    let prefix = text.split_whitespace().next()?;
    let (address, len) = match prefix.split_once('/') {
        Some((address, len)) => (address.parse().ok()?, len.parse().ok()?),
        None => {
            let address: IpAddr = prefix.parse().ok()?;
            (address, Prefix::bits(address))
        }
    };
    let shortest = if address.is_ipv4() { SHORTEST4 } else { SHORTEST6 };
    (shortest..=Prefix::bits(address)).contains(&len).then_some((address, len))
}
