//! Fragments on their way to another process that goes on for this one.
//!
//! ```text
//! a packet:    state (1) | version (1) | protocol (1) | domain (2) | identification (4) | source (16) | destination (16)
//!              | key's owner (8) | owner (8) | tag (8) | until (8) | bytes of the whole (4), 2^32 - 1: not known
//!              | header (2) | code points of ECN (1) | fragments (2), each:
//! a fragment:  offset (4) | bytes of header (2) | bytes of data (2) | both
//! ```
//! Numbers are little-endian, `until` is nanoseconds of the workers' clock, which both processes share. Packets that are only
//! remembered come first, then complete ones, then those of which fragments are missing.

use super::super::blocks::NONE;
use super::super::piece::Key;
use super::{Datagram, Datagrams, Fragment, Stand, Whose};

/// Another process's fragments are not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// No record, or one that contradicts another.
    #[error("fragments that cannot be read")]
    Garbled,
    /// More than are configured.
    #[error("more fragments than [reassembly] has room for")]
    Full,
}

const UNKNOWN: u32 = u32::MAX;

impl Stand {
    const ALL: [Self; 4] = [Stand::Done, Stand::Condemned, Stand::Whole, Stand::Open];

    fn code(self) -> u8 {
        match self {
            Stand::Open => 0,
            Stand::Whole => 1,
            Stand::Done => 2,
            Stand::Condemned => 3,
        }
    }
}

/// What a reader has left.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Unfit> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(Unfit::Garbled)?;
        self.0 = rest;
        Ok(head)
    }

    fn octets<const N: usize>(&mut self) -> Result<[u8; N], Unfit> {
        self.take(N)?.try_into().map_err(|_| Unfit::Garbled)
    }

    fn octet(&mut self) -> Result<u8, Unfit> {
        self.octets().map(u8::from_le_bytes)
    }

    fn half(&mut self) -> Result<u16, Unfit> {
        self.octets().map(u16::from_le_bytes)
    }

    fn word(&mut self) -> Result<u32, Unfit> {
        self.octets().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Result<u64, Unfit> {
        self.octets().map(u64::from_le_bytes)
    }
}

impl Datagrams {
    /// Adds all packets, those that are only remembered too.
    pub fn export(&self, out: &mut Vec<u8>) {
        for stand in [Stand::Done, Stand::Whole, Stand::Open] {
            let mut at = self.lists[stand.list()].0;
            while let Some(datagram) = self.datagrams.get(at as usize) {
                self.export_one(datagram, out);
                at = datagram.newer;
            }
        }
    }

    fn export_one(&self, datagram: &Datagram, out: &mut Vec<u8>) {
        let Key { src, dst, ident, owner, domain, protocol, version } = datagram.key;
        out.extend([datagram.stand.code(), version, protocol]);
        out.extend(domain.to_le_bytes());
        out.extend(ident.to_le_bytes());
        [src, dst].iter().for_each(|address| out.extend(address.to_le_bytes()));
        [owner, datagram.owner, datagram.tag, datagram.until].iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.extend(datagram.total.unwrap_or(UNKNOWN).to_le_bytes());
        out.extend(datagram.header.to_le_bytes());
        out.push(datagram.ecn);
        let count_at = out.len();
        out.extend([0; 2]);
        let (mut at, mut count) = (datagram.first, 0u16);
        while let Some(fragment) = self.fragments.get(at as usize) {
            let bytes = usize::from(fragment.head) + usize::from(fragment.len);
            out.extend(fragment.offset.to_le_bytes());
            out.extend(fragment.head.to_le_bytes());
            out.extend(fragment.len.to_le_bytes());
            self.blocks.pieces(fragment.block, bytes, 0).for_each(|piece| out.extend(piece));
            (at, count) = (fragment.next, count + 1);
        }
        out[count_at..count_at + 2].copy_from_slice(&count.to_le_bytes());
    }

    /// Takes in what another process has exported; nothing is held here before.
    ///
    /// # Errors
    /// It is not taken in as a whole.
    pub fn import(&mut self, octets: &[u8]) -> Result<(), Unfit> {
        let mut input = Input(octets);
        while !input.0.is_empty() {
            self.import_one(&mut input)?;
        }
        Ok(())
    }

    fn import_one(&mut self, input: &mut Input<'_>) -> Result<(), Unfit> {
        let code = input.octet()?;
        let stand = Stand::ALL.into_iter().find(|stand| stand.code() == code).ok_or(Unfit::Garbled)?;
        let (version, protocol, domain, ident) = (input.octet()?, input.octet()?, input.half()?, input.word()?);
        let (src, dst) = (u128::from_le_bytes(input.octets()?), u128::from_le_bytes(input.octets()?));
        let key = Key { src, dst, ident, owner: input.long()?, domain, protocol, version };
        let (owner, tag, until) = (input.long()?, input.long()?, input.long()?);
        let (total, header, ecn) = (input.word()?, input.half()?, input.octet()?);
        let count = input.half()?;
        if self.find(&key).is_some() {
            return Err(Unfit::Garbled);
        }
        let id = self.open(key, Whose { domain, owner, tag }, 0).map_err(|_| Unfit::Full)?;
        let mut before = NONE;
        for _ in 0..count {
            before = self.import_fragment(id, before, input)?;
        }
        let datagram = &mut self.datagrams[id as usize];
        datagram.total = Some(total).filter(|total| *total != UNKNOWN);
        (datagram.header, datagram.ecn, datagram.count) = (header, ecn, count);
        self.stand(id, stand, until);
        Ok(())
    }

    /// Takes in a fragment that stands behind `before`, its packet's last one so far.
    fn import_fragment(&mut self, id: u32, before: u32, input: &mut Input<'_>) -> Result<u32, Unfit> {
        let (offset, head, len) = (input.word()?, input.half()?, input.half()?);
        let bytes = input.take(usize::from(head) + usize::from(len))?;
        // There are as many fragments as blocks.
        let block = self.blocks.store(bytes).ok_or(Unfit::Full)?;
        let at = self.free_fragment;
        let fragment = &mut self.fragments[at as usize];
        self.free_fragment = fragment.next;
        *fragment = Fragment { offset, len, head, block, next: NONE };
        match before {
            NONE => self.datagrams[id as usize].first = at,
            before => self.fragments[before as usize].next = at,
        }
        self.held += 1;
        self.datagrams[id as usize].got += u32::from(len);
        Ok(at)
    }
}
