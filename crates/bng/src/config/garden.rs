//! Walled gardens: what subscribers of a tier may reach until they have logged in or paid.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use dataplane::redirect;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, parse_prefix, wrong};

/// Destinations of a garden at most: each packet is held against them one after another.
const MOST: usize = 64;

/// A walled garden: the tier's subscribers reach the destinations of `allow` and no others. A server's CoA-Request with
/// another tier's name (Filter-Id) lets them out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GardenSection {
    /// The page that HTTP requests (TCP port 80) to other destinations are sent to: `"http://portal.example/"`.
    pub portal: String,
    /// Prefixes that subscribers may reach and be reached from, such as those of DNS servers and of the portal:
    /// `["192.0.2.53/32", "2001:db8:5e::/64"]`; at most 64.
    #[serde(default)]
    pub allow: Vec<String>,
}

/// A garden in numbers.
#[derive(Clone, Debug)]
pub struct GardenPlan {
    v4: Vec<RangeInclusive<u32>>,
    v6: Vec<RangeInclusive<u128>>,
    /// What HTTP requests are answered with, as of [`redirect::page`].
    pub page: Box<[u8]>,
}

impl GardenPlan {
    /// Whether an IPv4 address is in it.
    pub fn has4(&self, address: u32) -> bool {
        self.v4.iter().any(|range| range.contains(&address))
    }

    /// As [`has4`](Self::has4).
    pub fn has6(&self, address: u128) -> bool {
        self.v6.iter().any(|range| range.contains(&address))
    }
}

fn range4(address: Ipv4Addr, len: u8) -> RangeInclusive<u32> {
    let host = u32::MAX.checked_shr(len.into()).unwrap_or(0);
    let first = address.to_bits() & !host;
    first..=first | host
}

fn range6(address: Ipv6Addr, len: u8) -> RangeInclusive<u128> {
    let host = u128::MAX.checked_shr(len.into()).unwrap_or(0);
    let first = address.to_bits() & !host;
    first..=first | host
}

impl Config {
    /// The garden of a profile; none: its subscribers reach everything.
    pub(super) fn garden_plan(&self, n: usize) -> Result<Option<Arc<GardenPlan>>, ConfigError> {
        let Some(garden) = &self.profile[n].garden else { return Ok(None) };
        let page = redirect::page(&garden.portal).ok_or_else(|| {
            let what = format!("\"{}\" is no address of a web page", garden.portal);
            wrong(&[&"profile", &n, &"garden", &"portal"], what, "such as \"http://portal.example/\"")
        })?;
        if garden.allow.len() > MOST {
            let what = format!("{} destinations", garden.allow.len());
            return Err(wrong(&[&"profile", &n, &"garden", &"allow"], what, format!("at most {MOST}")));
        }
        let mut plan = GardenPlan { v4: Vec::new(), v6: Vec::new(), page };
        for (m, text) in garden.allow.iter().enumerate() {
            match parse_prefix(text) {
                Some((IpAddr::V4(address), len)) => plan.v4.push(range4(address, len)),
                Some((IpAddr::V6(address), len)) => plan.v6.push(range6(address, len)),
                None => {
                    let what = format!("\"{text}\" is no prefix");
                    let help = "such as 192.0.2.53/32 or 2001:db8:5e::/64";
                    return Err(wrong(&[&"profile", &n, &"garden", &"allow", &m], what, help));
                }
            }
        }
        Ok(Some(Arc::new(plan)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_any_length_are_ranges() {
        let address = Ipv4Addr::new(192, 0, 2, 53);
        assert_eq!(range4(address, 0), 0..=u32::MAX);
        assert_eq!(range4(address, 24), 0xc000_0200..=0xc000_02ff);
        assert_eq!(range4(address, 32), 0xc000_0235..=0xc000_0235);
        assert_eq!(range6(Ipv6Addr::LOCALHOST, 0), 0..=u128::MAX);
        assert_eq!(range6(Ipv6Addr::LOCALHOST, 128), 1..=1);
    }
}
