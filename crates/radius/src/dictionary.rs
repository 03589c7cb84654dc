//! Attributes by name and number, from FreeRADIUS's dictionary files (see `dictionaries/README.md`).

use std::collections::HashMap;
use std::sync::LazyLock;

const FILES: &[&str] = &[
    include_str!("../dictionaries/dictionary.rfc2865"),
    include_str!("../dictionaries/dictionary.rfc2866"),
    include_str!("../dictionaries/dictionary.rfc2869"),
    include_str!("../dictionaries/dictionary.rfc3162"),
    include_str!("../dictionaries/dictionary.rfc3576"),
    include_str!("../dictionaries/dictionary.rfc4679"),
    include_str!("../dictionaries/dictionary.rfc4818"),
    include_str!("../dictionaries/dictionary.rfc5176"),
    include_str!("../dictionaries/dictionary.rfc6911"),
];

/// How an attribute's value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8 text (`text`, RFC 8044, 3.4).
    Text,
    /// Octets without a meaning here.
    Octets,
    /// 32 bits, big-endian; also dates, in seconds since 1970.
    Integer,
    /// An IPv4 address (`ipv4addr`, RFC 8044, 3.8).
    Ip4,
    /// An IPv6 address (`ipv6addr`, RFC 8044, 3.9).
    Ip6,
    /// A reserved octet, the prefix's length, and as many octets as it needs (RFC 3162 clause 2.3).
    Prefix6,
}

/// Definition of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Name as in the dictionary: `User-Name`.
    pub name: &'static str,
    /// The vendor's enterprise number; 0: a standard attribute.
    pub vendor: u32,
    /// Type of the attribute, or of the vendor's attribute (RFC 2865, 5 and 5.26).
    pub code: u8,
    /// Format of the value.
    pub kind: Kind,
}

/// Definitions of attributes, by number and by name.
#[derive(Debug, Default)]
pub struct Dictionary {
    names: HashMap<&'static str, Definition>,
    codes: HashMap<(u32, u8), &'static str>,
    values: HashMap<(&'static str, u32), &'static str>,
}

static EMBEDDED: LazyLock<Dictionary> = LazyLock::new(|| {
    let mut dictionary = Dictionary::default();
    FILES.iter().for_each(|file| dictionary.read(file));
    dictionary
});

impl Dictionary {
    /// The dictionary of all attributes that this crate has definitions of.
    pub fn embedded() -> &'static Self {
        &EMBEDDED
    }

    fn read(&mut self, file: &'static str) {
        let (mut vendors, mut vendor) = (HashMap::new(), 0);
        for line in file.lines() {
            let words: Vec<&'static str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            match *words {
                ["VENDOR", name, number, ..] => _ = vendors.insert(name, number.parse().unwrap_or(0)),
                ["BEGIN-VENDOR", name, ..] => vendor = vendors.get(name).copied().unwrap_or(0),
                ["END-VENDOR", ..] => vendor = 0,
                // Numbers with a dot are inside another attribute, which the codec leaves as octets.
                ["ATTRIBUTE", name, number, kind, ..] => {
                    let Ok(code) = number.parse() else { continue };
                    self.names.insert(name, Definition { name, vendor, code, kind: kind_of(kind) });
                    self.codes.insert((vendor, code), name);
                }
                ["VALUE", attribute, name, number, ..] => {
                    let Ok(number) = number.parse() else { continue };
                    self.values.insert((attribute, number), name);
                }
                _ => {}
            }
        }
    }

    /// The definition of an attribute by its name in the dictionary.
    pub fn by_name(&self, name: &str) -> Option<&Definition> {
        self.names.get(name)
    }

    /// An attribute by its vendor (0: standard) and number.
    pub fn by_code(&self, vendor: u32, code: u8) -> Option<&Definition> {
        self.codes.get(&(vendor, code)).and_then(|name| self.names.get(name))
    }

    /// Name of an enumerated value, such as `Framed-User` of `Service-Type` 2.
    pub fn value(&self, attribute: &str, number: u32) -> Option<&'static str> {
        let name = self.names.get(attribute)?.name;
        self.values.get(&(name, number)).copied()
    }
}

fn kind_of(word: &str) -> Kind {
    match word.split('[').next().unwrap_or("") {
        "string" => Kind::Text,
        "integer" | "date" => Kind::Integer,
        "ipaddr" => Kind::Ip4,
        "ipv6addr" => Kind::Ip6,
        "ipv6prefix" => Kind::Prefix6,
        _ => Kind::Octets,
    }
}

/// Numbers used by this crate; a test compares them with the dictionaries.
#[allow(missing_docs, reason = "the names of the RFCs")]
pub mod number {
    macro_rules! numbers {
        ($($name:ident = $code:literal $text:literal;)*) => {
            $(pub const $name: u8 = $code;)*
            #[cfg(test)]
            pub(super) const ALL: &[(u8, &str)] = &[$(($code, $text),)*];
        };
    }
    numbers! {
        USER_NAME = 1 "User-Name";
        USER_PASSWORD = 2 "User-Password";
        NAS_IP_ADDRESS = 4 "NAS-IP-Address";
        FRAMED_IP_ADDRESS = 8 "Framed-IP-Address";
        FILTER_ID = 11 "Filter-Id";
        REPLY_MESSAGE = 18 "Reply-Message";
        FRAMED_ROUTE = 22 "Framed-Route";
        STATE = 24 "State";
        CLASS = 25 "Class";
        VENDOR_SPECIFIC = 26 "Vendor-Specific";
        SESSION_TIMEOUT = 27 "Session-Timeout";
        IDLE_TIMEOUT = 28 "Idle-Timeout";
        NAS_IDENTIFIER = 32 "NAS-Identifier";
        ACCT_STATUS_TYPE = 40 "Acct-Status-Type";
        ACCT_INPUT_OCTETS = 42 "Acct-Input-Octets";
        ACCT_OUTPUT_OCTETS = 43 "Acct-Output-Octets";
        ACCT_SESSION_ID = 44 "Acct-Session-Id";
        ACCT_SESSION_TIME = 46 "Acct-Session-Time";
        ACCT_INPUT_PACKETS = 47 "Acct-Input-Packets";
        ACCT_OUTPUT_PACKETS = 48 "Acct-Output-Packets";
        ACCT_TERMINATE_CAUSE = 49 "Acct-Terminate-Cause";
        ACCT_INPUT_GIGAWORDS = 52 "Acct-Input-Gigawords";
        ACCT_OUTPUT_GIGAWORDS = 53 "Acct-Output-Gigawords";
        EVENT_TIMESTAMP = 55 "Event-Timestamp";
        MESSAGE_AUTHENTICATOR = 80 "Message-Authenticator";
        ACCT_INTERIM_INTERVAL = 85 "Acct-Interim-Interval";
        NAS_PORT_ID = 87 "NAS-Port-Id";
        FRAMED_POOL = 88 "Framed-Pool";
        FRAMED_IPV6_PREFIX = 97 "Framed-IPv6-Prefix";
        FRAMED_IPV6_ROUTE = 99 "Framed-IPv6-Route";
        FRAMED_IPV6_POOL = 100 "Framed-IPv6-Pool";
        ERROR_CAUSE = 101 "Error-Cause";
        DELEGATED_IPV6_PREFIX = 123 "Delegated-IPv6-Prefix";
        FRAMED_IPV6_ADDRESS = 168 "Framed-IPv6-Address";
        DELEGATED_IPV6_PREFIX_POOL = 171 "Delegated-IPv6-Prefix-Pool";
    }
    /// Vendor of the Broadband Forum's attributes (RFC 4679).
    pub const BBF: u32 = 3561;
    /// Agent-Circuit-Id of [`BBF`] (RFC 4679, 3.3.1).
    pub const BBF_CIRCUIT_ID: u8 = 1;
    /// Agent-Remote-Id of [`BBF`] (RFC 4679, 3.3.2).
    pub const BBF_REMOTE_ID: u8 = 2;
    /// Actual-Data-Rate-Upstream of [`BBF`], bit/s.
    pub const BBF_ACTUAL_UP: u8 = 129;
    /// Actual-Data-Rate-Downstream of [`BBF`], bit/s.
    pub const BBF_ACTUAL_DOWN: u8 = 130;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_dictionaries() {
        let dictionary = Dictionary::embedded();
        for (code, name) in number::ALL {
            let found = dictionary.by_name(name).unwrap_or_else(|| panic!("{name} is in no dictionary"));
            assert_eq!((found.vendor, found.code), (0, *code), "{name}");
        }
        let rate = dictionary.by_name("Actual-Data-Rate-Upstream").expect("RFC 4679");
        assert_eq!((rate.vendor, rate.code, rate.kind), (number::BBF, number::BBF_ACTUAL_UP, Kind::Integer));
        assert_eq!(dictionary.value("Error-Cause", 503), Some("Session-Context-Not-Found"));
        assert_eq!(dictionary.by_code(0, 97).map(|d| d.kind), Some(Kind::Prefix6));
    }
}
