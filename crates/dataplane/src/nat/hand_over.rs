//! Translation on its way to another process that goes on for this one.
//!
//! ```text
//! records:  0 | a block: instance (2) | public address (4) | first port (2) | state (1) | private address (4) | session (4) | since (4)
//!           1 | a mapping: number (4) | instance (2) | protocol (1) | seen (1) | session (4) | last (4)
//!                        | private address (4) | port (2) | public address (4) | port (2)
//!           2 | a mapping has ended: number (4)
//!           3 | a first fragment: number of its mapping (4) | instance (2) | source (4) | destination (4) | identification (2)
//!                        | protocol (1) | session (4) | until (8)
//!           4 | the end: mappings (4) | blocks of subscribers (4)
//! ```
//! Numbers are little-endian. Times are ticks, `until` nanoseconds, of the workers' clock, which both processes share. A block's
//! record stands before those of its mappings. A record tells all of what it is about, and replaces what was known of it.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use table::marks::Marks;
use table::records::LineId;
use table::wheel::Handle;

use super::blocks::{Block, Ended, NONE, Stand};
use super::expire::BLOCK;
use super::fragments::Whole;
use super::kind::Protocol;
use super::mapping::{Mapping, key};
use super::tables::{Nat, Subscriber, subscriber_key};
use crate::forward::InstanceId;

/// Kinds of records.
mod kind {
    pub const BLOCK: u8 = 0;
    pub const MAPPING: u8 = 1;
    pub const ENDED: u8 = 2;
    pub const FRAGMENT: u8 = 3;
    pub const END: u8 = 4;
}

/// What another process has does not fit here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// No record, or one that contradicts another.
    #[error("translation state that cannot be read")]
    Garbled,
    /// A subscriber has a block of ports that this worker does not have.
    #[error(
        "ports from {1} of public address {0} are not this worker's here: nat.pool, first_port or block_ports differ"
    )]
    Block(Ipv4Addr, u16),
    /// More mappings or subscribers than are configured.
    #[error("more mappings or subscribers than nat.mappings or nat.subscribers have room for")]
    Full,
}

/// Walks through all there is once, and notes what changes behind.
#[derive(Debug)]
pub(super) struct Changed {
    /// Blocks and mappings below these numbers were exported once.
    blocks_from: u32,
    mappings_from: u32,
    blocks: Marks,
    mappings: Marks,
}

/// Lines walked through in a call at most, that are no mappings; and blocks, that are free.
const WALKED: usize = 4096;
const FREE_BLOCKS: usize = 1 << 16;

/// What is found by what the other process names it by.
#[derive(Debug)]
pub(super) struct Imported {
    /// Mappings here, by their numbers there.
    own: Vec<u32>,
    /// Numbers of public addresses here, by domain and address.
    addresses: HashMap<(u16, u32), u32>,
}

impl Imported {
    /// The mapping with that name ([`Mapping::known_as`]) has ended.
    pub(super) fn forget(&mut self, known_as: u32) {
        if let Some(own) = known_as.checked_sub(1).and_then(|number| self.own.get_mut(number as usize)) {
            *own = NONE;
        }
    }

    fn get(&self, number: u32) -> Option<LineId> {
        self.own.get(number as usize).copied().filter(|own| *own != NONE).map(LineId)
    }

    fn set(&mut self, number: u32, own: LineId) {
        let at = number as usize;
        if at >= self.own.len() {
            self.own.resize(at + 1, NONE);
        }
        self.own[at] = own.0;
    }
}

/// What a reader has left.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn number<const N: usize>(&mut self) -> Result<u64, Unfit> {
        let (head, rest) = self.0.split_at_checked(N).ok_or(Unfit::Garbled)?;
        self.0 = rest;
        Ok(head.iter().rev().fold(0, |sum, octet| sum << 8 | u64::from(*octet)))
    }

    fn word(&mut self) -> Result<u32, Unfit> {
        self.number::<4>().map(|number| number as u32) // four octets
    }

    fn half(&mut self) -> Result<u16, Unfit> {
        self.number::<2>().map(|number| number as u16) // two octets
    }

    fn octet(&mut self) -> Result<u8, Unfit> {
        self.number::<1>().map(|number| number as u8) // one octet
    }
}

impl Stand {
    fn code(self) -> u8 {
        match self {
            Stand::Free => 0,
            Stand::Given => 1,
            Stand::Ending(Ended::Idle) => 2,
            Stand::Ending(Ended::Session) => 3,
            Stand::Held => 4,
        }
    }

    fn of(code: u8) -> Result<Self, Unfit> {
        [Stand::Free, Stand::Given, Stand::Ending(Ended::Idle), Stand::Ending(Ended::Session), Stand::Held]
            .into_iter()
            .find(|stand| stand.code() == code)
            .ok_or(Unfit::Garbled)
    }
}

/// The process that hands over.
impl Nat {
    /// Notes from now on what changes, or no longer; all there is counts as changed.
    pub fn follow(&mut self, on: bool) {
        self.changed = on.then(|| {
            let (blocks, mappings) = (Marks::new(self.blocks.blocks.len()), Marks::new(self.mappings.capacity()));
            Box::new(Changed { blocks_from: 0, mappings_from: 0, blocks, mappings })
        });
    }

    /// A block is not as it was exported.
    #[inline]
    pub(super) fn block_changed(&mut self, block: u32) {
        if let Some(changed) = self.changed.as_mut().filter(|changed| block < changed.blocks_from) {
            changed.blocks.mark(block);
        }
    }

    /// A mapping is not as it was exported.
    #[inline(always)]
    pub(super) fn mapping_changed(&mut self, id: LineId) {
        if let Some(changed) = &mut self.changed {
            changed.mapping(id);
        }
    }

    /// Adds some of what has changed since it was added last, `most` records at most. How many are left, as far as is known.
    pub fn export(&mut self, most: usize, out: &mut Vec<u8>) -> usize {
        let Some(mut changed) = self.changed.take() else { return 0 };
        let mut room = most;
        // A mapping's block is known before it.
        while room > 0
            && let Some(block) = changed.blocks.take()
        {
            self.export_block(block, out);
            room -= 1;
        }
        let blocks = self.blocks.blocks.len() as u32; // fewer than there are timers
        let mut walked = 0;
        while room > 0 && walked < FREE_BLOCKS.max(most) && changed.blocks_from < blocks {
            walked += 1;
            if self.blocks.blocks[changed.blocks_from as usize].stand != Stand::Free {
                self.export_block(changed.blocks_from, out);
                room -= 1;
            }
            changed.blocks_from += 1;
        }
        if changed.blocks_from < blocks {
            room = 0;
        }
        while room > 0
            && let Some(number) = changed.mappings.take()
        {
            self.export_mapping(LineId(number), out);
            room -= 1;
        }
        let (lines, mut walked) = (self.mappings.capacity() as u32, 0); // fewer than 2^32
        while room > 0 && walked < WALKED.max(most) && changed.mappings_from < lines {
            let id = LineId(changed.mappings_from);
            if self.mappings.is_record(id) {
                self.export_mapping(id, out);
                room -= 1;
            }
            changed.mappings_from += 1;
            walked += 1;
        }
        let left = changed.blocks.left() + changed.mappings.left();
        let unwalked = (blocks - changed.blocks_from) as usize + (lines - changed.mappings_from) as usize;
        self.changed = Some(changed);
        left + unwalked
    }

    /// Adds all that is left, and what only one that stands still can tell.
    pub fn export_rest(&mut self, now: u64, out: &mut Vec<u8>) {
        while self.export(usize::MAX, out) > 0 {}
        for (whole, mapping, session, until) in self.fragments.each(now) {
            out.push(kind::FRAGMENT);
            out.extend(mapping.0.to_le_bytes());
            out.extend(self.blocks.instance(whole.domain).to_le_bytes());
            out.extend(whole.src.to_le_bytes());
            out.extend(whole.dst.to_le_bytes());
            out.extend(whole.ident.to_le_bytes());
            out.push(whole.protocol);
            out.extend(session.to_le_bytes());
            out.extend(until.to_le_bytes());
        }
        out.push(kind::END);
        out.extend((self.mappings() as u32).to_le_bytes()); // no more than there are lines
        out.extend((self.blocks.given as u32).to_le_bytes());
    }

    fn export_block(&self, block: u32, out: &mut Vec<u8>) {
        let record = &self.blocks.blocks[block as usize];
        let (domain, public) = self.blocks.address_of(block);
        let subscriber = Some(LineId(record.subscriber)).filter(|_| record.stand == Stand::Given);
        let session = subscriber.and_then(|id| self.subscriber(id)).map_or(0, |subscriber| subscriber.session);
        out.push(kind::BLOCK);
        out.extend(self.blocks.instance(domain).to_le_bytes());
        out.extend(public.to_le_bytes());
        out.extend(self.blocks.first_port(block).to_le_bytes());
        out.push(record.stand.code());
        out.extend(record.private.to_le_bytes());
        out.extend(session.to_le_bytes());
        out.extend(record.idle_since.to_le_bytes());
    }

    fn export_mapping(&self, id: LineId, out: &mut Vec<u8>) {
        let Some(mapping) = self.mapping(id).filter(|_| self.mappings.is_record(id)) else {
            out.push(kind::ENDED);
            out.extend(id.0.to_le_bytes());
            return;
        };
        let (domain, _) = self.blocks.address_of(mapping.block);
        out.push(kind::MAPPING);
        out.extend(id.0.to_le_bytes());
        out.extend(self.blocks.instance(domain).to_le_bytes());
        out.extend([mapping.number, mapping.seen]);
        out.extend(mapping.session.to_le_bytes());
        out.extend(mapping.last.to_le_bytes());
        out.extend(mapping.private.to_le_bytes());
        out.extend(mapping.private_port.to_le_bytes());
        out.extend(mapping.public.to_le_bytes());
        out.extend(mapping.public_port.to_le_bytes());
    }
}

impl Changed {
    #[cold]
    fn mapping(&mut self, id: LineId) {
        if id.0 < self.mappings_from {
            self.mappings.mark(id.0);
        }
    }
}

/// The process that takes over.
impl Nat {
    /// Takes in what another process's worker has exported, in that order. No packets are translated meanwhile.
    ///
    /// # Errors
    /// It does not fit; what was taken in so far stays.
    pub fn import(&mut self, octets: &[u8]) -> Result<(), Unfit> {
        if self.imported.is_none() {
            let addresses = (0..).zip(self.blocks.addresses()).map(|(number, address)| (address, number));
            self.imported = Some(Box::new(Imported { own: Vec::new(), addresses: addresses.collect() }));
        }
        let mut input = Input(octets);
        while !input.0.is_empty() {
            match input.octet()? {
                kind::BLOCK => self.import_block(&mut input)?,
                kind::MAPPING => self.import_mapping(&mut input)?,
                kind::ENDED => {
                    let number = input.word()?;
                    self.known(number).into_iter().for_each(|id| self.evict(id));
                }
                kind::FRAGMENT => self.import_fragment(&mut input)?,
                kind::END => {
                    let (mappings, blocks) = (input.word()?, input.word()?);
                    self.imported = None;
                    if (mappings as usize, blocks as usize) != (self.mappings(), self.blocks.given) {
                        return Err(Unfit::Garbled);
                    }
                }
                _ => return Err(Unfit::Garbled),
            }
        }
        Ok(())
    }

    fn known(&self, number: u32) -> Option<LineId> {
        self.imported.as_ref()?.get(number)
    }

    fn domain_of(&self, instance: InstanceId, public: u32, port: u16) -> Result<u16, Unfit> {
        self.blocks.domain(instance).ok_or(Unfit::Block(public.into(), port))
    }

    /// The block of a public port, if the address is one of this worker's.
    fn block_of(&self, domain: u16, public: u32, port: u16) -> Option<u32> {
        let number = *self.imported.as_ref()?.addresses.get(&(domain, public))?;
        self.blocks.of_port(number, port)
    }

    fn import_block(&mut self, input: &mut Input<'_>) -> Result<(), Unfit> {
        let (instance, public, first_port) = (input.half()?, input.word()?, input.half()?);
        let stand = Stand::of(input.octet()?)?;
        let (private, session, since) = (input.word()?, input.word()?, input.word()?);
        let unknown = Unfit::Block(public.into(), first_port);
        let domain = self.domain_of(instance, public, first_port)?;
        let found = self.block_of(domain, public, first_port);
        let Some(block) = found.filter(|block| self.blocks.first_port(*block) == first_port) else {
            // What no subscriber has may be left out of the configuration.
            return if matches!(stand, Stand::Free | Stand::Held) { Ok(()) } else { Err(unknown) };
        };
        let known = self.blocks.blocks[block as usize];
        let owner = self.subscriber(LineId(known.subscriber)).filter(|_| known.stand == Stand::Given);
        let is_same = owner.is_some_and(|owner| (known.private, owner.session) == (private, session));
        if stand == Stand::Given && is_same {
            self.blocks.blocks[block as usize].idle_since = since;
            return Ok(());
        }
        self.clear_block(block);
        let mut record = Block { stand, private, idle_since: since, ..Block::FREE };
        let after = match stand {
            Stand::Free => return Ok(()),
            Stand::Given => {
                let (id, next) = self.subscriber_with(block, domain, private, session)?;
                (record.subscriber, record.next) = (id.0, next);
                self.block_idle
            }
            Stand::Ending(_) => 0,
            Stand::Held => self.block_hold,
        };
        record.timer = self.wheel.insert(u64::from(since) + u64::from(after), BLOCK | block);
        self.blocks.claim(block, record);
        Ok(())
    }

    /// The subscriber's record, which has one more block from now on, and the block it had before.
    fn subscriber_with(&mut self, block: u32, domain: u16, private: u32, session: u32) -> Result<(LineId, u32), Unfit> {
        let address = self.blocks.address_number(block);
        let found = self.find_subscriber(domain, private);
        if let Some(id) = found
            && let Some(known) = self.subscriber_mut(id)
            && (known.session, known.address) == (session, address)
        {
            let next = std::mem::replace(&mut known.first_block, block);
            known.blocks += 1;
            return Ok((id, next));
        }
        // Its blocks are another's by now: their records come, too.
        while let Some(before) = self.find_subscriber(domain, private).and_then(|id| self.subscriber(id)) {
            self.clear_block(before.first_block);
        }
        if self.subscribers() >= self.most_subscribers {
            return Err(Unfit::Full);
        }
        let id = self.subscribers.alloc(1).ok_or(Unfit::Full)?;
        let key = subscriber_key(domain, private);
        if self.by_address.insert(key, id.0).is_err() {
            self.subscribers.free(id, 1);
            return Err(Unfit::Full);
        }
        let new = Subscriber { key, session, address, first_block: block, blocks: 1, rest: [0; 5] };
        self.subscriber_mut(id).into_iter().for_each(|subscriber| *subscriber = new);
        Ok((id, NONE))
    }

    /// Makes a block a free one, without a word to the log.
    fn clear_block(&mut self, block: u32) {
        let stand = self.blocks.blocks[block as usize].stand;
        if stand == Stand::Free {
            return;
        }
        if stand == Stand::Given {
            self.end_mappings(block);
            self.take_from_subscriber(block);
            self.blocks.given -= 1;
        }
        if let Some(timer) = self.blocks.blocks[block as usize].timer.take() {
            self.wheel.cancel(timer);
        }
        self.blocks.free(block);
    }

    /// Takes out a mapping; its block is as it was.
    fn evict(&mut self, id: LineId) {
        if let Some(mapping) = self.mapping(id).copied().filter(|_| self.mappings.is_record(id)) {
            self.wheel.cancel(Handle(mapping.timer));
            let idle_since = self.blocks.blocks[mapping.block as usize].idle_since;
            self.remove(id, &mapping);
            self.blocks.blocks[mapping.block as usize].idle_since = idle_since;
        }
    }

    fn import_mapping(&mut self, input: &mut Input<'_>) -> Result<(), Unfit> {
        let (number, instance) = (input.word()?, input.half()?);
        let protocol = input.octet()?;
        let protocol = Protocol::ALL.into_iter().find(|known| *known as u8 == protocol).ok_or(Unfit::Garbled)?;
        let (seen, session, last) = (input.octet()?, input.word()?, input.word()?);
        let (private, private_port, public, public_port) = (input.word()?, input.half()?, input.word()?, input.half()?);
        let domain = self.domain_of(instance, public, public_port)?;
        let (out_key, in_key) =
            (key(domain, protocol, private, private_port), key(domain, protocol, public, public_port));
        let known = self.known(number);
        if let Some(id) = known
            && let Some(mapping) = self.mapping_mut(id)
            && (mapping.out_key, mapping.in_key, mapping.session) == (out_key, in_key, session)
        {
            let is_seen_anew = std::mem::replace(&mut mapping.seen, seen) != seen;
            mapping.last = last;
            if is_seen_anew {
                self.rearm_at(id);
            }
            return Ok(());
        }
        known.into_iter().for_each(|id| self.evict(id));
        self.inside.get(out_key).into_iter().for_each(|id| self.evict(LineId(id)));
        self.outside.get(in_key).into_iter().for_each(|id| self.evict(LineId(id)));
        let block = self.block_of(domain, public, public_port);
        let block = block.filter(|block| self.blocks.blocks[*block as usize].stand == Stand::Given);
        let block = block.ok_or(Unfit::Block(public.into(), public_port))?;
        if self.mappings() >= self.most_mappings {
            return Err(Unfit::Full);
        }
        if !self.blocks.claim_port(block, protocol, public_port) {
            return Err(Unfit::Garbled);
        }
        let known_as = number.checked_add(1).ok_or(Unfit::Garbled)?;
        let number_of_protocol = protocol as u8;
        let mapping = Mapping {
            out_key,
            in_key,
            private,
            public,
            private_port,
            public_port,
            number: number_of_protocol,
            seen,
            session,
            block,
            last,
            known_as,
            ..Mapping::NONE
        };
        self.put(number, mapping).ok_or(Unfit::Full)
    }

    /// Enters a mapping whose port is taken in all tables.
    fn put(&mut self, number: u32, mapping: Mapping) -> Option<()> {
        if !self.cache_is_quiet() {
            return None;
        }
        let id = self.mappings.alloc(1)?;
        self.inside.insert(mapping.out_key, id.0).ok()?;
        self.outside.insert(mapping.in_key, id.0).ok()?;
        let at = u64::from(mapping.last) + u64::from(mapping.life(&self.lives));
        let timer = self.wheel.insert(at, id.0)?.0;
        *self.mapping_mut(id)? = Mapping { timer, ..mapping };
        self.cache_enters(id);
        self.imported.as_mut()?.set(number, id);
        Some(())
    }

    /// Has a mapping's timer fire when it has lived as long as it may.
    fn rearm_at(&mut self, id: LineId) {
        let Some(mapping) = self.mapping(id).copied() else { return };
        self.wheel.cancel(Handle(mapping.timer));
        let at = u64::from(mapping.last) + u64::from(mapping.life(&self.lives));
        if let (Some(timer), Some(mapping)) = (self.wheel.insert(at, id.0), self.mapping_mut(id)) {
            mapping.timer = timer.0;
        }
    }

    fn import_fragment(&mut self, input: &mut Input<'_>) -> Result<(), Unfit> {
        let (number, instance) = (input.word()?, input.half()?);
        let (src, dst, ident, protocol) = (input.word()?, input.word()?, input.half()?, input.octet()?);
        let (session, until) = (input.word()?, input.number::<8>()?);
        let domain = self.domain_of(instance, dst, 0)?;
        // The mapping may have ended since its first fragment came.
        if let Some(id) = self.known(number) {
            self.fragments.learn_until(Whole { src, dst, domain, ident, protocol }, id, session, until);
        }
        Ok(())
    }
}
