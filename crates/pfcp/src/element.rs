//! What every information element is: a type number and a way to and from octets (8.1.1).

use crate::ie::Cause;
use std::cell::Cell;
use std::net::{Ipv4Addr, Ipv6Addr};

/// More IEs than this in one message are refused with Cause "no resources available".
pub const MAX_IES: u16 = 4096;

/// Types from here on are a vendor's; their content begins with an Enterprise ID (8.1.1).
const VENDOR: u16 = 0x8000;

/// What is wrong with a message, in the terms an answer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}, IE {ie}")]
pub struct Fault {
    /// Why the message is refused (8.2.1).
    pub cause: Cause,
    /// The type of the IE to blame, for the Offending IE (8.2.22); 0 if it is none in particular.
    pub ie: u16,
}

impl Fault {
    /// The IE `ie` that has to be there always is not.
    pub const fn missing(ie: u16) -> Fault {
        Fault { cause: Cause::MANDATORY_IE_MISSING, ie }
    }

    /// The IE `ie` that has to be there in this case is not.
    pub const fn missing_conditional(ie: u16) -> Fault {
        Fault { cause: Cause::CONDITIONAL_IE_MISSING, ie }
    }
}

/// An information element: what stands between its length and the next element.
pub trait Element: Sized {
    /// The type number (8.1.2).
    const TYPE: u16;
    /// Whether the content is a sequence of IEs.
    const GROUPED: bool = false;

    /// Reads the content. Octets behind what is known are ignored: later releases append (8.1.1).
    ///
    /// # Errors
    /// [`Cause::INVALID_LENGTH`] if there are too few, [`Cause::MANDATORY_IE_INCORRECT`] for values that mean nothing,
    /// and for groups whatever is wrong inside.
    fn parse(content: &mut Reader<'_>) -> Result<Self, Fault>;

    /// Appends the content.
    fn emit(&self, out: &mut Vec<u8>);

    /// Any value: what any octets mean, for those that are no groups.
    #[cfg(test)]
    fn sample(draw: &mut crate::tests::Draw) -> Self {
        draw.leaf()
    }
}

/// Appends an IE: type, length and what `content` writes.
pub(crate) fn put_ie(out: &mut Vec<u8>, ie: u16, content: impl FnOnce(&mut Vec<u8>)) {
    let [high, low] = ie.to_be_bytes();
    out.extend_from_slice(&[high, low, 0, 0]);
    let start = out.len();
    content(out);
    // One that is too long makes its message too long, which `Packet::emit` refuses.
    let len = u16::try_from(out.len() - start).unwrap_or(u16::MAX);
    out[start - 2..start].copy_from_slice(&len.to_be_bytes());
}

/// The octets of an IE's content still to be read; knows whose they are.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    ie: u16,
    /// How many more IEs the message may have.
    budget: &'a Cell<u16>,
}

impl<'a> Reader<'a> {
    /// Over all IEs of a message; `budget` is how many there may be.
    pub fn new(ies: &'a [u8], budget: &'a Cell<u16>) -> Reader<'a> {
        Reader { rest: ies, ie: 0, budget }
    }

    /// The next IE of a group: its type and its content. `None` at the end.
    ///
    /// # Errors
    /// [`Cause::INVALID_LENGTH`] if it is longer than what it stands in; [`Cause::NO_RESOURCES_AVAILABLE`] if there
    /// are too many.
    #[inline]
    pub fn next_ie(&mut self) -> Result<Option<(u16, Reader<'a>)>, Fault> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let ie = self.u16()?;
        let len = self.u16()?;
        let content = self.take(usize::from(len)).map_err(|fault| Fault { ie, ..fault })?;
        let left = self.budget.get();
        if left == 0 {
            return Err(Fault { cause: Cause::NO_RESOURCES_AVAILABLE, ie });
        }
        self.budget.set(left - 1);
        Ok(Some((ie, Reader { rest: content, ie, budget: self.budget })))
    }

    /// The type of the IE whose content this is.
    pub fn ie(&self) -> u16 {
        self.ie
    }

    /// Whether all has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many octets are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// The content has too few octets.
    pub fn short(&self) -> Fault {
        Fault { cause: Cause::INVALID_LENGTH, ie: self.ie }
    }

    /// The content means nothing.
    pub fn incorrect(&self) -> Fault {
        Fault { cause: Cause::MANDATORY_IE_INCORRECT, ie: self.ie }
    }

    /// The next `len` octets.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(self.short())?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next octets, as many as the array has.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(self.short())?;
        self.rest = rest;
        Ok(*taken)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// One octet.
    pub fn u8(&mut self) -> Result<u8, Fault> {
        self.array().map(|[octet]| octet)
    }

    /// Two octets.
    pub fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four octets.
    pub fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_be_bytes)
    }

    /// Five octets, as bit rates have.
    pub fn u40(&mut self) -> Result<u64, Fault> {
        self.array().map(|[a, b, c, d, e]| u64::from_be_bytes([0, 0, 0, a, b, c, d, e]))
    }

    /// Eight octets.
    pub fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_be_bytes)
    }

    /// An IPv4 address.
    pub fn ip4(&mut self) -> Result<Ipv4Addr, Fault> {
        self.array::<4>().map(Ipv4Addr::from)
    }

    /// An IPv6 address.
    pub fn ip6(&mut self) -> Result<Ipv6Addr, Fault> {
        self.array::<16>().map(Ipv6Addr::from)
    }

    /// What `read` finds, if `present`.
    #[inline]
    pub fn when<T>(
        &mut self,
        present: bool,
        read: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        present.then(|| read(self)).transpose()
    }

    /// `len` octets of text.
    pub fn text(&mut self, len: usize) -> Result<Box<str>, Fault> {
        let octets = self.take(len)?;
        std::str::from_utf8(octets).map(Box::from).map_err(|_| self.incorrect())
    }

    /// Text after its length in two octets.
    pub(crate) fn text16(&mut self) -> Result<Box<str>, Fault> {
        let len = self.u16()?;
        self.text(usize::from(len))
    }

    /// Octets after their length in one octet.
    pub fn octets8(&mut self) -> Result<Box<[u8]>, Fault> {
        let len = self.u8()?;
        self.take(usize::from(len)).map(Box::from)
    }
}

/// An IE kept as it came, because it is unknown, a vendor's, or not used by anyone here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawIe {
    /// The type number.
    pub ie: u16,
    /// The content, with the Enterprise ID if it has one.
    pub content: Box<[u8]>,
}

impl RawIe {
    /// Whose IE this is, if a vendor's (8.1.1).
    pub fn enterprise(&self) -> Option<u16> {
        let id = self.content.first_chunk()?;
        (self.ie >= VENDOR).then(|| u16::from_be_bytes(*id))
    }

    /// Appends the IE, its type and length included.
    pub fn emit(&self, out: &mut Vec<u8>) {
        put_ie(out, self.ie, |out| out.extend(&self.content));
    }
}

/// Where a group keeps the IEs of one type while it is read.
pub(crate) trait Slot {
    /// Reads one more. Optional IEs that are wrong count as absent (7.6), unless they are groups.
    fn fill(&mut self, content: Reader<'_>, optional: bool) -> Result<(), Fault>;
}

impl<T: Element> Slot for Option<T> {
    /// Of repeated ones the first counts (7.6).
    #[inline]
    fn fill(&mut self, content: Reader<'_>, optional: bool) -> Result<(), Fault> {
        if self.is_none() {
            *self = read(content, optional)?;
        }
        Ok(())
    }
}

impl<T: Element> Slot for Vec<T> {
    #[inline]
    fn fill(&mut self, content: Reader<'_>, optional: bool) -> Result<(), Fault> {
        self.extend(read(content, optional)?);
        Ok(())
    }
}

#[inline]
fn read<T: Element>(mut content: Reader<'_>, optional: bool) -> Result<Option<T>, Fault> {
    match T::parse(&mut content) {
        Ok(element) => Ok(Some(element)),
        Err(_) if optional && !T::GROUPED => Ok(None),
        Err(fault) => Err(fault),
    }
}
