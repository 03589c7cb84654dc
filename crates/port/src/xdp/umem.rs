//! How the arena looks to AF_XDP.
//!
//! A slot's stride is never a power of two, so the memory is registered in *unaligned* mode: chunks of a slot's size
//! may start anywhere, ours start every stride. There an address is `base | offset << 48`: the chunk's first byte and
//! the packet's distance from it.

use frame::{Frame, Shape};

const OFFSET_SHIFT: u32 = 48;
const BASE_MASK: u64 = (1 << OFFSET_SHIFT) - 1;
/// Bytes the kernel leaves before a packet it receives (`XDP_PACKET_HEADROOM`), before the UMEM's own headroom.
pub const KERNEL_HEADROOM: u16 = 256;
/// Slot sizes the kernel takes: a chunk is at least 2048 bytes and at most a page.
pub const SLOT_BYTES: std::ops::RangeInclusive<u16> = 2048..=4096;

/// Addresses of slots, and which of them the kernel can use.
#[derive(Clone, Copy, Debug)]
pub struct Umem {
    stride: u32,
    slots: u32,
    slot_bytes: u16,
    headroom: u16,
    /// Zero copy: the device sees contiguous memory only between multiples of this. 0: everywhere (copy mode).
    boundary: u64,
}

impl Umem {
    /// Of an arena of that shape. `boundary`: see [`Umem::usable`].
    pub fn new(shape: Shape, boundary: u64) -> Self {
        let headroom = shape.headroom.saturating_sub(KERNEL_HEADROOM);
        Self { stride: shape.stride, slots: shape.slots, slot_bytes: shape.slot_bytes, headroom, boundary }
    }

    /// Bytes to register.
    pub fn bytes(&self) -> u64 {
        (u64::from(self.stride) * u64::from(self.slots)).next_multiple_of(4096)
    }

    /// Chunk size to register.
    pub fn chunk(&self) -> u32 {
        self.slot_bytes.into()
    }

    /// Headroom to register, on top of the kernel's own: what the arena's frames have beyond it.
    pub fn headroom(&self) -> u32 {
        self.headroom.into()
    }

    /// Longest packet the kernel can receive into a slot.
    pub fn room(&self) -> usize {
        usize::from(self.slot_bytes).saturating_sub(usize::from(self.headroom) + usize::from(KERNEL_HEADROOM))
    }

    /// Bytes of a slot.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes.into()
    }

    /// How many packet buffers the memory has.
    pub fn slots(&self) -> usize {
        self.slots as usize
    }

    /// Whether every slot may be given to the device: in copy mode.
    pub fn uses_all(&self) -> bool {
        self.boundary == 0
    }

    /// Whether a device may be given the slot: in zero-copy mode one that lies across two pages is refused (and its
    /// descriptor swallowed) unless both are contiguous to the device, which is sure inside a huge page only.
    #[inline]
    pub fn usable(&self, slot: u32) -> bool {
        if self.boundary == 0 {
            return true;
        }
        let first = self.fill_address(slot);
        first / self.boundary == (first + u64::from(self.slot_bytes) - 1) / self.boundary
    }

    /// Whether a device may be given at least every fourth slot: of small ones every second lies across two pages, of those as
    /// long as a page nearly all.
    pub fn has_enough(&self) -> bool {
        let some = self.slots.min(4096);
        (0..some).filter(|slot| self.usable(*slot)).count() * 4 >= some as usize
    }

    /// Address of a free slot, for the fill ring.
    #[inline]
    pub(crate) fn fill_address(&self, slot: u32) -> u64 {
        u64::from(slot) * u64::from(self.stride)
    }

    /// Address of a frame's packet, for the transmit ring.
    #[inline]
    pub(crate) fn packet_address(&self, frame: &Frame) -> u64 {
        self.fill_address(frame.slot()) | (frame.headroom() as u64) << OFFSET_SHIFT
    }

    /// Distance of what a ring names from the arena's first byte, and its slot (which may be beyond the last in a
    /// corrupted ring).
    #[inline]
    pub fn locate(&self, address: u64) -> (u64, u32) {
        let at = (address & BASE_MASK) + (address >> OFFSET_SHIFT);
        // Strides are multiples of a cache line, and a 32-bit division costs half. An arena of 2³² lines would be
        // 256 GiB; beyond it, saturate into a slot nobody has.
        let lines = u32::try_from(at / 64).unwrap_or(u32::MAX);
        (at, lines / (self.stride / 64))
    }
}

#[cfg(test)]
mod tests {
    use frame::{Arena, ArenaConfig, Pool};
    use proptest::prelude::*;

    use super::*;

    fn shape(slots: u32, slot_bytes: u16, headroom: u16) -> Shape {
        let lines = u32::from(slot_bytes).div_ceil(64);
        let stride = (lines + u32::from(lines.is_multiple_of(2))) * 64;
        Shape { slots, stride, slot_bytes, headroom }
    }

    proptest! {
        #[test]
        fn addresses_lead_back_to_their_slot(slots in 1_u32..100_000, at in any::<u32>(), offset in 0_u64..2048) {
            let umem = Umem::new(shape(slots, 2048, 256), 0);
            let slot = at % slots;
            let base = umem.fill_address(slot);
            prop_assert_eq!(umem.locate(base), (base, slot));
            prop_assert_eq!(umem.locate(base | offset << 48), (base + offset, slot));
            prop_assert_eq!(umem.locate(base + offset), (base + offset, slot));
        }

        #[test]
        fn no_address_panics(address in any::<u64>()) {
            let (_, slot) = Umem::new(shape(100, 2048, 256), 0).locate(address);
            prop_assert!(u64::from(slot) <= u64::from(u32::MAX));
        }
    }

    #[test]
    fn a_packet_is_where_its_frame_says() {
        let arena = Arena::new(ArenaConfig { slots: 8, ..ArenaConfig::default() }).expect("memory");
        let mut pool = Pool::new(&arena, 8);
        let umem = Umem::new(arena.shape(), 0);
        let mut frame = pool.make(&[1; 100]).expect("a slot");
        frame.push_front(36).expect("headroom");
        assert_eq!(umem.locate(umem.packet_address(&frame)), (arena.offset(&frame), frame.slot()));
        pool.give(frame);
    }

    #[test]
    fn slots_across_huge_pages_are_not_for_devices() {
        let umem = Umem::new(shape(4096, 2048, 256), 2 << 20);
        let across: Vec<u32> = (0..4096).filter(|&slot| !umem.usable(slot)).collect();
        // Slot 992 ends exactly at 2 MiB.
        assert_eq!(across, [1985, 2978, 3971]);
        let copy = Umem::new(shape(4096, 2048, 256), 0);
        assert!((0..4096).all(|slot| copy.usable(slot)));
    }

    #[test]
    fn slots_as_long_as_a_page_need_huge_ones() {
        let has_enough = |slot_bytes, boundary| Umem::new(shape(16_384, slot_bytes, 256), boundary).has_enough();
        assert!(has_enough(2048, 4096) && has_enough(4096, 2 << 20) && has_enough(4096, 0));
        assert!(!has_enough(4096, 4096));
    }

    #[test]
    fn headroom_beyond_the_kernels_is_asked_for() {
        assert_eq!(Umem::new(shape(8, 2048, 256), 0).headroom(), 0);
        assert_eq!(Umem::new(shape(8, 2048, 128), 0).headroom(), 0);
        let large = Umem::new(shape(8, 4096, 512), 0);
        assert_eq!((large.headroom(), large.room()), (256, 4096 - 512));
    }
}
