//! Which packets are ours and which the host's.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// What the XDP program takes off an interface; the rest goes on to the host's stack.
///
/// As text: `all`, or terms joined with `+`: `udp:2152`, `ip:10.1.0.0/16` (or a single address, v4 or v6), `neighbours`
/// (ARP and IPv6 neighbour discovery), `vlan` (everything tagged). A packet that any term matches is ours.
///
/// ```
/// # use port::xdp::Filter;
/// let filter: Filter = "udp:2152+neighbours".parse().unwrap();
/// assert_eq!(filter.to_string(), "udp:2152+neighbours");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// Everything: an interface that is the gateway's alone. The host sees nothing of it.
    #[default]
    All,
    /// What any of these matches.
    Any(Terms),
}

/// The terms of a [`Filter`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// UDP to these ports, over IPv4 or IPv6. UDP fragments without a port (all but the first) come along: they can
    /// only be reassembled in one place. IPv6 extension headers other than the fragment header are the host's.
    pub udp: Vec<u16>,
    /// Packets to these prefixes; more can be added at run time.
    pub prefixes: Vec<(IpAddr, u8)>,
    /// ARP and IPv6 neighbour discovery.
    pub neighbours: bool,
    /// Everything with a VLAN tag.
    pub vlan: bool,
}

/// A filter that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no filter term; write `all`, or some of udp:PORT, ip:PREFIX, neighbours, vlan joined with +")]
pub struct BadFilter(pub String);

impl FromStr for Filter {
    type Err = BadFilter;

    fn from_str(text: &str) -> Result<Self, BadFilter> {
        if text == "all" {
            return Ok(Self::All);
        }
        let mut terms = Terms::default();
        for term in text.split('+') {
            let bad = || BadFilter(term.to_owned());
            match term.split_once(':').unwrap_or((term, "")) {
                ("udp", port) => terms.udp.push(port.parse().map_err(|_| bad())?),
                ("ip", prefix) => terms.prefixes.push(read_prefix(prefix).ok_or_else(bad)?),
                ("neighbours", "") => terms.neighbours = true,
                ("vlan", "") => terms.vlan = true,
                _ => return Err(bad()),
            }
        }
        Ok(Self::Any(terms))
    }
}

fn read_prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
    (bits <= most).then_some((address, bits))
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Any(terms) = self else { return f.write_str("all") };
        let mut words: Vec<String> = terms.udp.iter().map(|port| format!("udp:{port}")).collect();
        words.extend(terms.prefixes.iter().map(|(address, bits)| format!("ip:{address}/{bits}")));
        words.extend(terms.neighbours.then(|| "neighbours".to_owned()));
        words.extend(terms.vlan.then(|| "vlan".to_owned()));
        f.write_str(&words.join("+"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_shown_again() {
        for text in ["all", "udp:2152", "udp:2152+udp:53", "ip:10.0.0.0/8+ip:2001:db8::/32+neighbours+vlan"] {
            assert_eq!(text.parse::<Filter>().expect(text).to_string(), text);
        }
        assert_eq!("ip:10.0.0.1".parse::<Filter>().expect("an address").to_string(), "ip:10.0.0.1/32");
    }

    #[test]
    fn nonsense_is_named() {
        for (text, term) in
            [("udp:x", "udp:x"), ("vlan+frogs", "frogs"), ("ip:10.0.0.0/33", "ip:10.0.0.0/33"), ("", "")]
        {
            assert_eq!(text.parse::<Filter>(), Err(BadFilter(term.to_owned())));
        }
    }
}
