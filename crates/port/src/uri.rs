//! How a port is named: `kind:target?key=value&key=value`.

use std::fmt;
use std::str::FromStr;

use crate::PortError;

/// The name of a port. `?`, `&`, `#` and `%` inside a target or value are written `%3F`, `%26`, `%23`, `%25`.
///
/// ```
/// let uri: port::Uri = "packet:eth0?mode=tpacket3&member=0/2".parse().unwrap();
/// assert_eq!((uri.kind(), uri.target(), uri.get("member")), ("packet", "eth0", Some("0/2")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    kind: String,
    target: String,
    keys: Vec<(String, String)>,
}

impl Uri {
    /// A name without keys; add some by [`Uri::with`].
    pub fn new(kind: &str, target: &str) -> Self {
        Self { kind: kind.to_owned(), target: target.to_owned(), keys: Vec::new() }
    }

    /// The same with `key` set to `value`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl fmt::Display) -> Self {
        self.keys.retain(|(k, _)| k != key);
        self.keys.push((key.to_owned(), value.to_string()));
        self
    }

    /// The same without `key`.
    #[must_use]
    pub fn without(mut self, key: &str) -> Self {
        self.keys.retain(|(k, _)| k != key);
        self
    }

    /// `memory`, `pcap`, `packet`, `xdp`, …
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The interface, file or name after the kind.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.keys.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The value of a key as a number, or another type that reads itself; `default` when it is not there.
    ///
    /// # Errors
    /// [`PortError::BadValue`], telling `want`.
    pub fn number<T: FromStr>(&self, key: &str, default: T, want: &str) -> Result<T, PortError> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| self.bad_value(key, want)),
        }
    }

    /// The value of a key among `words`, as the thing beside it; the first when it is not there.
    ///
    /// # Errors
    /// [`PortError::BadValue`], telling the words.
    pub fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<T, PortError> {
        let Some(value) = self.get(key) else { return Ok(words[0].1) };
        let names = || words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(" or ");
        words.iter().find(|(word, _)| *word == value).map(|(_, v)| *v).ok_or_else(|| self.bad_value(key, &names()))
    }

    /// The value of a key as a number of bytes, such as `65536`, `64 KiB` or `4MiB`; `default` when it is not there.
    /// Prefixes alone are binary here: `64k` is 64 KiB, as sizes of rings and blocks are powers of two.
    ///
    /// # Errors
    /// [`PortError::BadValue`].
    pub fn bytes(&self, key: &str, default: usize) -> Result<usize, PortError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        let is_prefix = |letter: char| "kKmMgG".contains(letter);
        let binary = if value.ends_with(is_prefix) { format!("{value}iB") } else { value.to_owned() };
        let bytes = quantity::Unit::Bytes.parse(&binary).ok().and_then(|bytes| usize::try_from(bytes).ok());
        bytes.ok_or_else(|| self.bad_value(key, "a number of bytes such as 65536, 64KiB or 4MiB"))
    }

    /// The value of a key as a duration in milliseconds, such as `10`, `10ms` or `1s`; `default` when it is not there.
    ///
    /// # Errors
    /// [`PortError::BadValue`].
    pub fn milliseconds<T: TryFrom<u64>>(&self, key: &str, default: T) -> Result<T, PortError> {
        let Some(value) = self.get(key) else { return Ok(default) };
        let read = quantity::Unit::Milliseconds.parse(value).ok().and_then(|ms| T::try_from(ms).ok());
        read.ok_or_else(|| self.bad_value(key, "a number of milliseconds such as 10, 10ms or 1s"))
    }

    /// Refuses any key not in `known` and not a wrapper's.
    ///
    /// # Errors
    /// [`PortError::UnknownKey`], telling the known ones.
    pub fn only(&self, known: &[&str]) -> Result<(), PortError> {
        let all = || known.iter().chain(WRAPPER_KEYS);
        match self.keys.iter().find(|(key, _)| !all().any(|k| k == key)) {
            None => Ok(()),
            Some((key, _)) => Err(PortError::UnknownKey {
                key: key.clone(),
                kind: self.kind.clone(),
                known: all().copied().collect::<Vec<_>>().join(", "),
            }),
        }
    }

    pub(crate) fn bad_value(&self, key: &str, want: &str) -> PortError {
        let value = self.get(key).unwrap_or_default().to_owned();
        PortError::BadValue { key: key.to_owned(), value, want: want.to_owned() }
    }
}

/// Keys any port has.
pub(crate) const WRAPPER_KEYS: &[&str] =
    &["tap", "loss", "dup", "reorder", "corrupt", "truncate", "seed", "faults", "pace"];

impl FromStr for Uri {
    type Err = PortError;

    fn from_str(text: &str) -> Result<Self, PortError> {
        let bad = |what: &str| PortError::BadUri { uri: text.to_owned(), what: what.to_owned() };
        let (kind, rest) = text.split_once(':').ok_or_else(|| bad("no kind before a colon"))?;
        if kind.is_empty() || !kind.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
            return Err(bad("a kind is a word of small letters"));
        }
        let (target, query) = rest.split_once('?').unwrap_or((rest, ""));
        let plain = |part: &str| decode(part).ok_or_else(|| bad("a percent sign is not followed by two hex digits"));
        let mut uri = Self::new(kind, &plain(target)?);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| bad("a key has no value"))?;
            if key.is_empty() {
                return Err(bad("a value has no key"));
            }
            if uri.get(key).is_some() {
                return Err(bad("a key is given twice"));
            }
            uri.keys.push((plain(key)?, plain(value)?));
        }
        Ok(uri)
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, encode(&self.target))?;
        for (i, (key, value)) in self.keys.iter().enumerate() {
            write!(f, "{}{}={}", if i == 0 { '?' } else { '&' }, encode(key).replace('=', "%3D"), encode(value))?;
        }
        Ok(())
    }
}

fn encode(text: &str) -> String {
    text.replace('%', "%25").replace('?', "%3F").replace('&', "%26").replace('#', "%23")
}

fn decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uri(text: &str) -> Uri {
        text.parse().expect("a URI")
    }

    #[test]
    fn parts() {
        let u = uri("packet:eth0?mode=ring&fanout=qm&member=0/2&block=64k");
        assert_eq!((u.kind(), u.target()), ("packet", "eth0"));
        assert_eq!(u.get("fanout"), Some("qm"));
        assert_eq!(u.bytes("block", 0).unwrap(), 65_536);
        for same in ["65536", "64K", "64KiB", "64 kib", "65536B", "0.0625M", "65.536kB"] {
            assert_eq!(uri(&format!("packet:e?block={same}")).bytes("block", 0).unwrap(), 65_536, "{same}");
        }
        let wait = |text: &str| uri(&format!("packet:e?retire={text}")).milliseconds("retire", 1u32);
        assert_eq!([wait("7").unwrap(), wait("7ms").unwrap(), wait("0.007 s").unwrap()], [7; 3]);
        assert!(wait("soon").unwrap_err().to_string().contains("10ms or 1s"));
        assert_eq!(u.number("group", 7u16, "a number").unwrap(), 7);
        assert_eq!(u.choice("mode", &[("plain", 1), ("ring", 2)]).unwrap(), 2);
        assert_eq!(u.to_string(), "packet:eth0?mode=ring&fanout=qm&member=0/2&block=64k");
        assert_eq!(uri("pcap:").target(), "");
        assert_eq!(uri("dpdk:0000:00:05.0").target(), "0000:00:05.0");
    }

    #[test]
    fn errors_say_what_is_known() {
        let u = uri("packet:eth0?mode=rign&blok=3");
        let error = u.choice("mode", &[("plain", 1), ("ring", 2)]).unwrap_err();
        assert_eq!(error.to_string(), "`mode=rign` is invalid; give plain or ring");
        let error = u.only(&["mode", "block"]).unwrap_err().to_string();
        assert!(error.starts_with("`blok` is not a key of packet ports; known are: mode, block, tap, "), "{error}");
        for bad in ["eth0", ":eth0", "Packet:eth0", "packet:e?mode", "packet:e?=x", "packet:e?a=1&a=2", "pcap:%4"] {
            let error = bad.parse::<Uri>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{bad}` does not name a port: ")), "{error}");
        }
        assert!(uri("packet:e?block=12parsec").bytes("block", 0).is_err());
        assert!(uri("packet:e?block=99999999999999999999M").bytes("block", 0).is_err());
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(target in ".{0,20}", key in "[a-z=?&%#]{1,6}", value in ".{0,20}") {
            let one = Uri::new("pcap", &target).with(&key, &value);
            prop_assert_eq!(uri(&one.to_string()), one);
        }

        #[test]
        fn any_text_is_a_uri_or_an_error(text in ".{0,40}") {
            let _ = text.parse::<Uri>();
        }
    }
}
