//! A rule as an operator writes it.
//!
//! ```text
//! rule   = ("permit" | "deny") ["in" | "out"] protocol "from" end "to" end ["dscp" number]
//! end    = ("any" | address ["/" bits]) ["port" number ["-" number]]
//! ```
//!
//! The words are those of RFC 6733, 4.3.1, and of the filters of a BSD: `in` is from subscribers, `out` is to them,
//! neither is both ways. Protocols have names (`ip` is any) or numbers.

use std::net::IpAddr;
use std::str::FromStr;

use wire::protocol;

use super::rule::{Action, Direction, PortRange, Rule};

/// Error in the text of a rule: the word, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {expected}", if found.is_empty() { "at the end".to_owned() } else { format!("at \"{found}\"") })]
pub struct RuleError {
    /// The word; empty at the end.
    pub found: String,
    /// What would be right.
    pub expected: &'static str,
}

const PROTOCOLS: [(&str, Option<u8>); 8] = [
    ("ip", None),
    ("tcp", Some(protocol::TCP)),
    ("udp", Some(protocol::UDP)),
    ("icmp", Some(protocol::ICMP4)),
    ("icmp6", Some(protocol::ICMP6)),
    ("sctp", Some(protocol::SCTP)),
    ("gre", Some(47)),
    ("esp", Some(50)),
];

type Words<'a> = std::iter::Peekable<std::str::SplitAsciiWhitespace<'a>>;

fn wrong(found: Option<&str>, expected: &'static str) -> RuleError {
    RuleError { found: found.unwrap_or_default().chars().take(60).collect(), expected }
}

fn is(words: &mut Words<'_>, keyword: &str) -> bool {
    words.next_if(|word| word.eq_ignore_ascii_case(keyword)).is_some()
}

fn must(words: &mut Words<'_>, keyword: &str, expected: &'static str) -> Result<(), RuleError> {
    if is(words, keyword) { Ok(()) } else { Err(wrong(words.peek().copied(), expected)) }
}

/// A decimal number without sign.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let len = len.map_or(Some(most), number)?;
    (len <= most).then_some((address, len))
}

/// An end: its prefix and its ports.
type End = (Option<(IpAddr, u8)>, Option<PortRange>);

fn end(words: &mut Words<'_>, protocol: Option<u8>) -> Result<End, RuleError> {
    let word = words.next();
    let address = match word {
        Some(text) if text.eq_ignore_ascii_case("any") => None,
        Some(text) if prefix(text).is_some() => prefix(text),
        _ => return Err(wrong(word, "expected any, or an address such as 192.0.2.0/24 or 2001:db8::/32")),
    };
    let at = words.peek().copied();
    if !is(words, "port") {
        return Ok((address, None));
    }
    if !matches!(protocol, Some(protocol::TCP | protocol::UDP | protocol::SCTP | protocol::DCCP | protocol::UDP_LITE)) {
        return Err(wrong(at, "only tcp, udp, sctp, 33 and 136 have ports"));
    }
    let word = words.next();
    let (first, last) = word.map_or(("", ""), |text| text.split_once('-').unwrap_or((text, text)));
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok((address, Some(PortRange { first, last }))),
        _ => Err(wrong(word, "expected a port such as 53, or ports such as 1000-2000")),
    }
}

impl FromStr for Rule {
    type Err = RuleError;

    /// Reads a rule; its counter is 0.
    fn from_str(text: &str) -> Result<Self, RuleError> {
        let words = &mut text.split_ascii_whitespace().peekable();
        let action = if is(words, "permit") {
            Action::Permit
        } else {
            must(words, "deny", "expected permit or deny: a rule reads deny out udp from any to 10.0.0.0/8 port 53")?;
            Action::Deny
        };
        let direction = if is(words, "in") { Some(Direction::Up) } else { is(words, "out").then_some(Direction::Down) };
        let word = words.next();
        let named = |text: &str| PROTOCOLS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, n)| *n);
        let protocol = word
            .and_then(|text| named(text).or_else(|| number(text).map(Some)))
            .ok_or_else(|| wrong(word, "expected ip, tcp, udp, icmp, icmp6, sctp, gre, esp or a number up to 255"))?;
        must(words, "from", "expected from")?;
        let (src, src_ports) = end(words, protocol)?;
        must(words, "to", "expected to, or port and its number before it")?;
        let to = words.peek().copied();
        let (dst, dst_ports) = end(words, protocol)?;
        if src.zip(dst).is_some_and(|(src, dst)| src.0.is_ipv4() != dst.0.is_ipv4()) {
            return Err(wrong(to, "expected an address of the same family as the one behind from"));
        }
        let mut rule = Rule { direction, src, dst, protocol, src_ports, dst_ports, ..Rule::any(action, 0) };
        if is(words, "dscp") {
            let word = words.next();
            let dscp = word.and_then(number).filter(|dscp| *dscp <= 63);
            rule.dscp = Some(dscp.ok_or_else(|| wrong(word, "expected a code point of 0 to 63"))?);
        }
        match words.next() {
            None => Ok(rule),
            word => Err(wrong(word, "expected the end of the rule, or dscp and a number")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_as_they_are_written() {
        let rule: Rule = "deny out udp from any to 10.0.0.0/8 port 53".parse().unwrap();
        let port = |first, last| Some(PortRange { first, last });
        let ten = Some((IpAddr::from([10, 0, 0, 0]), 8));
        let any = Rule::any(Action::Deny, 0);
        let down = Some(Direction::Down);
        assert_eq!(rule, Rule { direction: down, protocol: Some(17), dst: ten, dst_ports: port(53, 53), ..any });
        let rule: Rule = "PERMIT tcp from 2001:db8::1 port 1-9 to any dscp 46".parse().unwrap();
        let host = Some(("2001:db8::1".parse().unwrap(), 128));
        let permit = Rule::any(Action::Permit, 0);
        assert_eq!(rule, Rule { protocol: Some(6), src: host, src_ports: port(1, 9), dscp: Some(46), ..permit });
        assert_eq!("permit in ip from any to any".parse(), Ok(Rule { direction: Some(Direction::Up), ..permit }));
        assert_eq!("deny 89 from any to any".parse(), Ok(Rule { protocol: Some(89), ..any }));
    }

    #[test]
    fn mistakes_are_shown_with_the_word() {
        for (text, found) in [
            ("", ""),
            ("allow ip from any to any", "allow"),
            ("deny both ip from any to any", "both"),
            ("deny udp from any", ""),
            ("deny udp from any to 10.0.0.0/33", "10.0.0.0/33"),
            ("deny udp from any to any port", ""),
            ("deny udp from any to any port 9-1", "9-1"),
            ("deny udp from any to any port +9", "+9"),
            ("deny icmp from any to any port 9", "port"),
            ("deny ip from 10.0.0.1 to ::1", "::1"),
            ("deny ip from any to any dscp 64", "64"),
            ("deny ip from any to any established", "established"),
        ] {
            assert_eq!(text.parse::<Rule>().unwrap_err().found, found, "{text}");
        }
    }
}
