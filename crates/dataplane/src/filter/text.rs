//! Reading a filter rule's text (RFC 6733, 4.3.1).
//!
//! ```text
//! rule    = ("permit" | "deny") ("in" | "out") ("ip" | number | name) "from" end "to" end ["frag"]
//! end     = ("any" | "assigned" | ["!"] address ["/" bits]) [port ["-" port] {"," port ["-" port]}]
//! ```
//!
//! Keywords may be in either case. The options that look into TCP, ICMP or IP options are refused by name: no control
//! plane may send them (3GPP TS 29.212, 5.4.2), and ignoring one would widen the filter.

use std::net::IpAddr;
use std::str::FromStr;

use wire::protocol;

use super::rule::{Action, Address, Direction, End, FlowDescription, Ports, Prefix};

/// A rule could not be read: where, what stood there, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}, {}: {expected}", found_or_end(found))]
pub struct RuleError {
    /// Where the word begins, in bytes from the start of the text.
    pub at: usize,
    /// The word; empty at the end of the text.
    pub found: String,
    /// What would be right.
    pub expected: &'static str,
}

/// How much of a wrong word is repeated, in characters: the text comes from a peer.
const WORD_SHOWN: usize = 60;

fn found_or_end(found: &str) -> String {
    if found.is_empty() { "the end of the rule".into() } else { format!("{found:?}") }
}

/// A word and where it begins.
#[derive(Clone, Copy)]
struct Word<'a> {
    at: usize,
    text: &'a str,
}

impl Word<'_> {
    fn is(&self, keyword: &str) -> bool {
        self.text.eq_ignore_ascii_case(keyword)
    }

    fn wrong(&self, expected: &'static str) -> RuleError {
        RuleError { at: self.at, found: self.text.chars().take(WORD_SHOWN).collect(), expected }
    }
}

/// The words not yet read.
struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    /// The next word, left in place; empty at the end.
    fn peek(&self) -> Word<'a> {
        let rest = self.text.get(self.at..).unwrap_or("");
        let word = rest.trim_ascii_start();
        let at = self.at + (rest.len() - word.len());
        let end = word.bytes().position(|b| b.is_ascii_whitespace()).unwrap_or(word.len());
        Word { at, text: word.get(..end).unwrap_or(word) }
    }

    fn next(&mut self) -> Word<'a> {
        let word = self.peek();
        self.at = word.at + word.text.len();
        word
    }

    fn one_of<T: Copy>(&mut self, choices: &[(&str, T)], expected: &'static str) -> Result<T, RuleError> {
        let word = self.next();
        choices.iter().find(|(keyword, _)| word.is(keyword)).map(|(_, value)| *value).ok_or(word.wrong(expected))
    }
}

/// A decimal number without sign; `u16::from_str` would accept a plus.
fn number<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Protocols by the names they go by (IANA's keywords in lower case, and what else is written).
const NAMES: [(&str, u8); 12] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", 58),
    ("icmpv6", 58),
    ("ipv6-icmp", 58),
    ("ospf", 89),
    ("sctp", 132),
];

fn protocol_of(word: Word<'_>) -> Result<Option<u8>, RuleError> {
    if word.is("ip") {
        return Ok(None);
    }
    // The standard has numbers; control planes hand on what an application function wrote, names too.
    let named = NAMES.iter().find(|(name, _)| word.is(name)).map(|(_, number)| *number);
    let expected = "expected a protocol: a number from 0 to 255, a name such as udp, or \"ip\" for any";
    named.or_else(|| number(word.text)).map(Some).ok_or(word.wrong(expected))
}

fn address(word: Word<'_>) -> Result<Address, RuleError> {
    if word.is("any") {
        return Ok(Address::Any);
    }
    if word.is("assigned") {
        return Ok(Address::Assigned);
    }
    let (inverted, text) = word.text.strip_prefix('!').map_or((false, word.text), |text| (true, text));
    let (ip, len) = text.split_once('/').map_or((text, None), |(ip, len)| (ip, Some(len)));
    let Ok(ip) = ip.parse::<IpAddr>() else {
        return Err(word.wrong(if inverted {
            "expected an address behind \"!\", such as !192.0.2.0/24"
        } else {
            "expected any, assigned or an address such as 192.0.2.0/24 or 2001:db8::/32"
        }));
    };
    let bits = Prefix::bits(ip);
    let len = match len {
        None => bits,
        Some(len) => number(len).filter(|len| *len <= bits).ok_or(word.wrong(if bits == 32 {
            "expected a prefix length of 0 to 32"
        } else {
            "expected a prefix length of 0 to 128"
        }))?,
    };
    let prefix = Prefix { address: ip, len };
    Ok(if inverted { Address::NotIn(prefix) } else { Address::In(prefix) })
}

/// Whether rules may name ports for a protocol (RFC 6733 lists TCP, UDP and SCTP; the others have them too).
fn has_ports(number: Option<u8>) -> bool {
    use protocol::{DCCP, SCTP, TCP, UDP, UDP_LITE};
    matches!(number, None | Some(TCP | UDP | SCTP | DCCP | UDP_LITE))
}

fn ports(word: Word<'_>) -> Result<Vec<Ports>, RuleError> {
    let mut list = Vec::new();
    let mut at = word.at;
    for text in word.text.split(',') {
        let item = Word { at, text };
        at += text.len() + 1;
        let (lo, hi) = text.split_once('-').unwrap_or((text, text));
        let (Some(lo), Some(hi)) = (number(lo), number(hi)) else {
            return Err(item.wrong("expected ports such as 80 or 1000-2000, listed with commas and no spaces"));
        };
        if lo > hi {
            return Err(item.wrong("the range ends before it begins"));
        }
        list.push(Ports { lo, hi });
    }
    Ok(list)
}

/// Reads an end; `closing` is the keyword that follows one without ports.
fn end(words: &mut Words<'_>, protocol: Option<u8>) -> Result<End, RuleError> {
    let mut end = End { address: address(words.next())?, ports: Vec::new() };
    let word = words.peek();
    if word.text.starts_with(|c: char| c.is_ascii_digit()) {
        if !has_ports(protocol) {
            return Err(word.wrong("this protocol has no ports; only 6, 17, 33, 132, 136 and \"ip\" may be given any"));
        }
        end.ports = ports(words.next())?;
    }
    Ok(end)
}

impl FromStr for FlowDescription {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<FlowDescription, RuleError> {
        let words = &mut Words { text, at: 0 };
        let action = words.one_of(
            &[("permit", Action::Permit), ("deny", Action::Deny)],
            "expected \"permit\" or \"deny\": a rule reads permit out 17 from any 53 to assigned",
        )?;
        let direction =
            words.one_of(&[("in", Direction::In), ("out", Direction::Out)], "expected \"in\" or \"out\"")?;
        let protocol = protocol_of(words.next())?;
        words.one_of(&[("from", ())], "expected \"from\"")?;
        let from = end(words, protocol)?;
        words.one_of(&[("to", ())], "expected \"to\", or ports such as 80,1000-2000 before it")?;
        let to_word = words.peek();
        let to = end(words, protocol)?;
        if let (Some(a), Some(b)) = (from.address.is_ipv4(), to.address.is_ipv4())
            && a != b
        {
            return Err(to_word.wrong("expected an address of the same family as the one behind \"from\""));
        }
        let mut rule = FlowDescription { action, direction, protocol, from, to, later_fragments: false };
        option(words, &mut rule)?;
        Ok(rule)
    }
}

/// Reads the options; one is honoured.
fn option(words: &mut Words<'_>, rule: &mut FlowDescription) -> Result<(), RuleError> {
    const REFUSED: [&str; 6] = ["ipoptions", "tcpoptions", "established", "setup", "tcpflags", "icmptypes"];
    loop {
        let word = words.next();
        if word.text.is_empty() {
            return Ok(());
        }
        if word.is("frag") {
            if !rule.from.ports.is_empty() || !rule.to.ports.is_empty() {
                return Err(word.wrong("\"frag\" cannot be combined with ports: later fragments do not carry them"));
            }
            rule.later_fragments = true;
        } else if REFUSED.iter().any(|name| word.is(name)) {
            return Err(word.wrong("this option is not supported; leave it out"));
        } else {
            return Err(word.wrong("expected the end of the rule, or the option \"frag\""));
        }
    }
}
