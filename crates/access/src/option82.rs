//! Option 82, the relay agent information (RFC 3046): the line's name as TR-101 writes it, and its rates.
//!
//! ```text
//! | 1 | length | Agent Circuit ID |   RFC 3046, TR-101 R-124
//! | 2 | length | Agent Remote ID |
//! | 9 | length | enterprise, 4 = 3561 | length, 1 | sub-options: type, length, value |   RFC 4243, TR-101 clause 3.9
//! ```

/// The Broadband Forum's enterprise number.
pub const BBF: u32 = 3561;

/// Rates of an access line in kbit/s, by TR-101 clause 3.9; absent if the access node did not send them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineRates {
    /// Actual data rate upstream (sub-option 0x81).
    pub actual_up: Option<u32>,
    /// Actual data rate downstream (0x82).
    pub actual_down: Option<u32>,
    /// Minimum data rate upstream (0x83).
    pub minimum_up: Option<u32>,
    /// Minimum data rate downstream (0x84).
    pub minimum_down: Option<u32>,
    /// Attainable data rate upstream (0x85).
    pub attainable_up: Option<u32>,
    /// Attainable data rate downstream (0x86).
    pub attainable_down: Option<u32>,
    /// Maximum data rate upstream (0x87).
    pub maximum_up: Option<u32>,
    /// Maximum data rate downstream (0x88).
    pub maximum_down: Option<u32>,
}

/// What a line carries, as its access node has told it, in kbit/s; 0: not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineRate {
    /// Actual data rate upstream.
    pub up_kbps: u32,
    /// Actual data rate downstream.
    pub down_kbps: u32,
}

impl LineRate {
    /// As it was told now; what was not told stays.
    #[must_use]
    pub fn updated(self, told: Self) -> Self {
        let newest = |old, new| if new == 0 { old } else { new };
        Self { up_kbps: newest(self.up_kbps, told.up_kbps), down_kbps: newest(self.down_kbps, told.down_kbps) }
    }

    /// Whether neither direction was told.
    pub fn is_unknown(self) -> bool {
        self == Self::default()
    }
}

/// What an access node says of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayAgent<'a> {
    /// Agent Circuit ID (sub-option 1).
    pub circuit_id: Option<&'a [u8]>,
    /// Agent Remote ID (sub-option 2).
    pub remote_id: Option<&'a [u8]>,
    /// The line's rates (sub-option 9, enterprise 3561).
    pub rates: LineRates,
}

/// Option 82 ends within a sub-option; the offset in bytes where it is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("option 82 is cut off at byte {0}")]
pub struct CutOff(pub usize);

/// Type, value pairs with one byte of length.
struct Tlv<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Tlv<'a> {
    type Item = Result<(u8, &'a [u8]), CutOff>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let whole = match *rest {
            [kind, len, ref value @ ..] => value.get(..usize::from(len)).map(|value| (kind, value)),
            _ => None,
        };
        let Some((kind, value)) = whole else {
            let error = CutOff(self.at);
            self.at = self.bytes.len();
            return Some(Err(error));
        };
        self.at += 2 + value.len();
        Some(Ok((kind, value)))
    }
}

impl<'a> RelayAgent<'a> {
    /// Reads the option's content (without code and length). Of repeated sub-options the last counts; unknown ones are
    /// skipped.
    pub fn parse(content: &'a [u8]) -> Result<Self, CutOff> {
        let mut agent = Self::default();
        for item in (Tlv { bytes: content, at: 0 }) {
            match item? {
                (1, value) => agent.circuit_id = Some(value),
                (2, value) => agent.remote_id = Some(value),
                (9, value) => agent.rates.vendor(value)?,
                _ => {}
            }
        }
        Ok(agent)
    }

    /// The circuit ID as TR-101 writes it, if it is so written.
    pub fn circuit(&self) -> Option<Circuit<'a>> {
        self.circuit_id.and_then(|id| std::str::from_utf8(id).ok()).and_then(Circuit::parse)
    }
}

impl LineRates {
    /// The actual data rates.
    pub fn actual(&self) -> LineRate {
        LineRate { up_kbps: self.actual_up.unwrap_or(0), down_kbps: self.actual_down.unwrap_or(0) }
    }

    /// Reads a Vendor-specific Information option of DHCPv6 (RFC 8415, 21.17) with the same sub-options, as access nodes insert
    /// them (TR-177): enterprise number, then options with codes and lengths of 16 bits. Others' are left out.
    pub(crate) fn of_dhcp6(data: &[u8]) -> Self {
        let mut rates = Self::default();
        if let Some((enterprise, options)) = data.split_first_chunk::<4>()
            && u32::from_be_bytes(*enterprise) == BBF
        {
            let whole = crate::dhcp6::message::Options(options).map_while(Result::ok);
            whole.for_each(|(code, value)| rates.set(code, value));
        }
        rates
    }

    fn vendor(&mut self, mut value: &[u8]) -> Result<(), CutOff> {
        while !value.is_empty() {
            let &[a, b, c, d, len, ref rest @ ..] = value else { return Err(CutOff(0)) };
            let data = rest.get(..usize::from(len)).ok_or(CutOff(5))?;
            if u32::from_be_bytes([a, b, c, d]) == BBF {
                self.read(data)?;
            }
            value = &rest[usize::from(len)..];
        }
        Ok(())
    }

    fn read(&mut self, data: &[u8]) -> Result<(), CutOff> {
        for item in (Tlv { bytes: data, at: 0 }) {
            let (kind, value) = item?;
            self.set(kind.into(), value);
        }
        Ok(())
    }

    /// Notes a sub-option; others, and values of another length, are left out.
    fn set(&mut self, kind: u16, value: &[u8]) {
        let Ok(bytes) = <[u8; 4]>::try_from(value) else { return };
        let place = match kind {
            0x81 => &mut self.actual_up,
            0x82 => &mut self.actual_down,
            0x83 => &mut self.minimum_up,
            0x84 => &mut self.minimum_down,
            0x85 => &mut self.attainable_up,
            0x86 => &mut self.attainable_down,
            0x87 => &mut self.maximum_up,
            0x88 => &mut self.maximum_down,
            _ => return,
        };
        // kbit/s here; bit/s in the RADIUS attributes of the same names (RFC 4679).
        *place = Some(u32::from_be_bytes(bytes));
    }
}

/// A circuit ID `Access-Node-ID eth SLOT/PORT[/ONU][:VLAN]` or `… atm SLOT/PORT:VPI.VCI` (TR-101 R-124, TR-156 R-100).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circuit<'a> {
    /// Access-Node-ID: name of the access node.
    pub node: &'a str,
    /// `eth`, `atm` or another access type.
    pub access: &'a str,
    /// Slot, port and what follows, up to the colon.
    pub place: &'a str,
    /// What follows the colon: VLAN IDs, or VPI and VCI.
    pub tags: Option<&'a str>,
}

impl<'a> Circuit<'a> {
    /// Splits a circuit ID; `None` if it is of another form.
    pub fn parse(id: &'a str) -> Option<Self> {
        let (head, rest) = id.trim().rsplit_once(' ')?;
        let (node, access) = head.trim_end().rsplit_once(' ')?;
        let (place, tags) = match rest.split_once(':') {
            Some((place, tags)) => (place, Some(tags)),
            None => (rest, None),
        };
        let well_formed = place.contains('/') && !node.trim().is_empty() && !access.is_empty();
        well_formed.then_some(Self { node: node.trim(), access, place, tags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circuit_id_and_rates_are_read() {
        let mut content = vec![1, 17];
        content.extend_from_slice(b"olt7 eth 1/3/12:5");
        content.extend_from_slice(&[2, 3, b'c', b'p', b'e', 9, 17, 0, 0, 0x0d, 0xe9, 12]);
        content.extend_from_slice(&[0x81, 4, 0, 0, 0x27, 0x10, 0x82, 4, 0, 0, 0xc3, 0x50]);
        let agent = RelayAgent::parse(&content).expect("well-formed");
        assert_eq!(agent.remote_id, Some(&b"cpe"[..]));
        assert_eq!((agent.rates.actual_up, agent.rates.actual_down), (Some(10_000), Some(50_000)));
        let circuit = agent.circuit().expect("TR-101 form");
        assert_eq!((circuit.node, circuit.access, circuit.place, circuit.tags), ("olt7", "eth", "1/3/12", Some("5")));
    }

    #[test]
    fn cut_off_sub_option_is_an_error() {
        assert_eq!(RelayAgent::parse(&[2, 1, b'x', 1, 9, b'a']), Err(CutOff(3)));
        assert_eq!(RelayAgent::parse(&[1]), Err(CutOff(0)));
    }

    #[test]
    fn rates_are_read_from_dhcp6_too() {
        let option = |code: u8, value: u32| [&[0, code, 0, 4][..], &value.to_be_bytes()].concat();
        let data = [&BBF.to_be_bytes()[..], &option(0x81, 10_000), &[0, 1, 0, 1, 9], &option(0x82, 50_000)].concat();
        let told = LineRate { up_kbps: 10_000, down_kbps: 50_000 };
        assert_eq!(LineRates::of_dhcp6(&data).actual(), told);
        assert_eq!(LineRates::of_dhcp6(&data[..16]).actual(), LineRate { down_kbps: 0, ..told }, "cut off");
        assert_eq!(LineRates::of_dhcp6(&[&[0, 0, 0, 9][..], &data[4..]].concat()).actual(), LineRate::default());
        let later = LineRate { up_kbps: 0, down_kbps: 40_000 };
        assert_eq!(told.updated(later), LineRate { up_kbps: 10_000, down_kbps: 40_000 });
    }
}
