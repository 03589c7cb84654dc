//! The frame token.

use std::fmt;

/// Bits of [`Meta::flags`].
pub mod flags {
    /// The packet is followed: every stage records what it did to it.
    pub const TRACE: u16 = 1 << 0;
    /// The sender left the transport checksum to the hardware: it covers the pseudo header only.
    pub const PARTIAL_CHECKSUM: u16 = 1 << 1;
    /// The frame was made here (ICMP error, echo response), not received.
    pub const ORIGINATED: u16 = 1 << 2;
    /// The user's packet is IPv6: for what counts by family after the packet has waited, without a look at its bytes.
    pub const IPV6: u16 = 1 << 3;
    /// The packet is one that a subscriber has sent to another: it has not left the gateway.
    pub const INSIDE: u16 = 1 << 4;
    /// The device has found the checksum of the outermost UDP header right.
    pub const UDP_VERIFIED: u16 = 1 << 5;
    /// The checksum of the outermost UDP header, over IPv6, is left to the port: it covers the pseudo header only. Only for
    /// ports that say so ([`crate::Caps::completes_udp6`]).
    pub const UDP_SUM_LEFT: u16 = 1 << 6;
    /// How often the packet has come in again, sent to ourselves: a number of two bits.
    pub(crate) const PASSES: u16 = 0b11 << 14;
}

/// What later stages need to know of a packet without touching its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Index of the port it came in by, among its worker's ports.
    pub port: u8,
    /// Offset of the user's network header from the frame's first byte.
    pub l3: u16,
    /// See [`flags`].
    pub flags: u16,
}

impl Meta {
    /// The packet was sent to ourselves and comes in again. False: it has three times before, and goes in a circle.
    pub fn pass_again(&mut self) -> bool {
        let goes = self.flags & flags::PASSES != flags::PASSES;
        self.flags &= !flags::UDP_VERIFIED;
        self.flags += u16::from(goes) << 14;
        goes
    }
}

/// Exclusive right to one slot of an arena: the packet's bytes are `len` bytes from `head`. Move-only; give it to a
/// port, a ring or back to a [`crate::Pool`], never drop it.
#[must_use = "a dropped frame is a lost slot: give it back to its pool"]
pub struct Frame {
    pub(crate) slot: u32,
    pub(crate) head: u16,
    pub(crate) len: u16,
    pub(crate) arena: u16,
    /// Free for stages to read and write.
    pub meta: Meta,
}

/// There is not that much room before the packet's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHeadroom;

/// The packet is shorter than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short;

impl Frame {
    pub(crate) const NONE: u32 = u32::MAX;
    /// The number no arena has: a token with it owns no slot, whatever else it says.
    pub(crate) const NOWHERE: u16 = u16::MAX;

    /// The absence of a frame, for array places. Owns nothing; touching its bytes panics.
    pub const fn none() -> Self {
        Self { slot: Self::NONE, head: 0, len: 0, arena: Self::NOWHERE, meta: Meta { port: 0, l3: 0, flags: 0 } }
    }

    /// Whether there is no frame.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.arena == Self::NOWHERE
    }

    /// Moves the frame out, leaving none.
    #[inline]
    pub fn take(&mut self) -> Self {
        let arena = std::mem::replace(&mut self.arena, Self::NOWHERE);
        Self { slot: self.slot, head: self.head, len: self.len, arena, meta: self.meta }
    }

    /// Packet length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Whether the packet has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes free before the packet.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.head.into()
    }

    /// The slot's number, for ports that hand it to a kernel ring and for traces.
    #[inline]
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Grows the packet by `n` bytes at its front; their content is whatever was there.
    ///
    /// # Errors
    /// [`NoHeadroom`] when fewer than `n` bytes are free before it; the frame is unchanged.
    #[inline]
    pub fn push_front(&mut self, n: u16) -> Result<(), NoHeadroom> {
        let head = self.head.checked_sub(n).ok_or(NoHeadroom)?;
        self.head = head;
        self.len += n;
        Ok(())
    }

    /// Cuts `n` bytes off the packet's front. [`Meta`] offsets are the caller's to mend.
    ///
    /// # Errors
    /// [`Short`] when the packet has fewer; the frame is unchanged.
    #[inline]
    pub fn pull_front(&mut self, n: u16) -> Result<(), Short> {
        let len = self.len.checked_sub(n).ok_or(Short)?;
        self.len = len;
        self.head += n;
        Ok(())
    }

    /// Moves the packet's front so that the byte at offset `from` is at offset `to`: what stood before it goes, and there
    /// is room for `to` bytes before it, whose content is whatever was there. [`Meta`] offsets are the caller's to mend.
    ///
    /// # Errors
    /// [`NoHeadroom`] when there is not that much room, or no such byte; the frame is unchanged.
    #[inline]
    pub fn move_front(&mut self, from: u16, to: u16) -> Result<(), NoHeadroom> {
        let end = u32::from(self.head) + u32::from(self.len);
        let head = (u32::from(self.head) + u32::from(from)).checked_sub(to.into()).ok_or(NoHeadroom)?;
        if from > self.len {
            return Err(NoHeadroom);
        }
        // The end stays where it is, in the slot, whose size is a u16.
        (self.head, self.len) = (head as u16, (end - head) as u16);
        Ok(())
    }

    /// Cuts the packet's end off, leaving `len` bytes.
    ///
    /// # Errors
    /// [`Short`] when the packet has fewer already; the frame is unchanged.
    #[inline]
    pub fn truncate(&mut self, len: u16) -> Result<(), Short> {
        if len > self.len {
            return Err(Short);
        }
        self.len = len;
        Ok(())
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("Frame(none)");
        }
        write!(f, "Frame(slot {} +{} len {} {:?})", self.slot, self.head, self.len, self.meta)
    }
}

const _: () = assert!(size_of::<Frame>() == 16, "a frame token is 16 bytes: four to a cache line");
