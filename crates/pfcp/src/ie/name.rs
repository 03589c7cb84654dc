//! Names of networks, sent as labels or as plain text.

use crate::{Element, Fault, Reader};

/// The dotted text of a sequence of labels, each after its length (RFC 1035, 3.1, without the final zero).
///
/// `None` if that is not what the octets are.
pub(super) fn text_of_labels(mut octets: &[u8]) -> Option<Box<str>> {
    // As long as what is read, but for the first label's length.
    let mut text = String::with_capacity(octets.len().saturating_sub(1));
    while let [len, rest @ ..] = octets {
        // A trailing zero, which should not be there, is tolerated.
        if *len == 0 && rest.is_empty() && !text.is_empty() {
            break;
        }
        let (label, rest) = rest.split_at_checked(usize::from(*len))?;
        if !(1..=63).contains(len) || !label.iter().all(|octet| octet.is_ascii_graphic() && *octet != b'.') {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(std::str::from_utf8(label).ok()?);
        octets = rest;
    }
    (!text.is_empty()).then(|| text.into())
}

/// Appends dotted text as labels; labels are cut at 63 octets, empty ones left out.
pub(super) fn put_labels(text: &str, out: &mut Vec<u8>) {
    for label in text.split('.').map(str::as_bytes).filter(|label| !label.is_empty()) {
        let label = &label[..label.len().min(63)];
        out.push(label.len() as u8);
        out.extend(label);
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $number:literal, labels: $labels:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name {
                /// The name in dotted form, however it came.
                pub text: Box<str>,
                /// It came, or is to be sent, as labels; else as plain text.
                pub labels: bool,
            }

            impl From<&str> for $name {
                fn from(text: &str) -> $name {
                    $name { text: text.into(), labels: $labels }
                }
            }

            impl Element for $name {
                const TYPE: u16 = $number;

                fn parse(content: &mut Reader<'_>) -> Result<$name, Fault> {
                    let octets = content.rest();
                    if let Some(text) = text_of_labels(octets) {
                        return Ok($name { text, labels: true });
                    }
                    let text = std::str::from_utf8(octets).map_err(|_| content.incorrect())?;
                    Ok($name { text: text.into(), labels: false })
                }

                fn emit(&self, out: &mut Vec<u8>) {
                    if self.labels { put_labels(&self.text, out) } else { out.extend(self.text.as_bytes()) }
                }
            }
        )*
    };
}

names! {
    /// Network Instance (8.2.4): which network; addresses of different ones may overlap. Peers send both forms.
    NetworkInstance = 22, labels: true;
    /// APN/DNN (8.2.117): the data network the subscriber asked for.
    ApnDnn = 159, labels: true;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn both_forms_of_a_name_are_read() {
        let read = |octets: &[u8]| NetworkInstance::parse(&mut Reader::new(octets, &Cell::new(1)));
        let labels = read(b"\x08internet\x03mnc").expect("labels");
        assert_eq!((&*labels.text, labels.labels), ("internet.mnc", true));
        let plain = read(b"internet.mnc").expect("text");
        assert_eq!((&*plain.text, plain.labels), ("internet.mnc", false));
        assert!(read(b"\x80\xff").is_err());
    }
}
