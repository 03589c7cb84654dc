//! The arena as a mempool: mbuf n is slot n. From DPDK's view all mbufs are allocated from the start; what a driver may
//! take lies in a port's [`Stock`].

use std::collections::HashMap;
use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use frame::{Arena, Pool};
use port::PortError;

use crate::{eal, sys};

/// Mempools of this process, by the address of their arena's memory.
static MEMPOOLS: Mutex<Option<HashMap<usize, Weak<Packets>>>> = Mutex::new(None);
/// Names are never used twice.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The mempool of an arena.
pub struct Packets {
    pool: NonNull<sys::Pool>,
    arena: Arc<Arena>,
    /// Registered as external memory, for devices that are to reach it.
    registered: Mutex<bool>,
}

// SAFETY: the mempool is made for use by several threads: what they share lies behind its lock or is constant.
unsafe impl Send for Packets {}
// SAFETY: as above.
unsafe impl Sync for Packets {}

/// A name that no other object has.
pub fn name(of: &str) -> CString {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    CString::new(format!("weir_{of}_{number}")).unwrap_or_default()
}

impl Packets {
    /// The mempool of that arena; made by the first who asks.
    ///
    /// # Errors
    /// [`PortError::Device`]: no memory for mbufs.
    pub fn of(arena: &Arc<Arena>) -> Result<Arc<Self>, PortError> {
        let mut all = MEMPOOLS.lock().unwrap_or_else(|e| e.into_inner());
        let all = all.get_or_insert_default();
        let key = arena.base() as usize;
        if let Some(packets) = all.get(&key).and_then(Weak::upgrade) {
            return Ok(packets);
        }
        let shape = arena.shape();
        eal::forget_log();
        // SAFETY: the memory is that of the arena, with `slots` slots of `stride` bytes, and outlives the mempool: it is kept
        // in `arena` until after `drop`. Making it writes nothing there.
        let pool = unsafe {
            let name = name("arena");
            sys::weir_pool_new(name.as_ptr(), arena.base(), shape.slots, shape.stride, shape.slot_bytes, shape.headroom)
        };
        let pool = NonNull::new(pool).ok_or_else(|| PortError::Device {
            doing: format!("making DPDK's mbufs for {} packet buffers", shape.slots),
            why: eal::why(0),
            advice: "raise memory= of the first dpdk: port, or lower [frames] packet_buffers".to_owned(),
        })?;
        let packets = Arc::new(Self { pool, arena: arena.clone(), registered: Mutex::new(false) });
        all.insert(key, Arc::downgrade(&packets));
        Ok(packets)
    }

    /// The arena.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// As DPDK knows it.
    pub fn mempool(&self) -> *mut sys::Mempool {
        // SAFETY: the mempool lives as long as `self`.
        unsafe { sys::weir_pool_mempool(self.pool.as_ptr()) }
    }

    /// Lets a device on a bus reach the arena.
    ///
    /// # Errors
    /// What DPDK says.
    pub fn map_for(&self, device: *mut sys::RteDevice) -> Result<(), String> {
        let (base, len) = (self.arena.base(), self.arena.bytes_len());
        let mut registered = self.registered.lock().unwrap_or_else(|e| e.into_inner());
        // SAFETY: the memory is the arena's, from a page's begin, and stays where it is until `drop` takes the registration
        // back; the device was told by DPDK.
        unsafe {
            if !*registered {
                match sys::rte_extmem_register(base.cast(), len, std::ptr::null_mut(), 0, 4096) {
                    0 => *registered = true,
                    code => return Err(eal::why(code)),
                }
            }
            match sys::rte_dev_dma_map(device, base.cast(), base as u64, len) {
                0 => Ok(()),
                code => Err(eal::why(code)),
            }
        }
    }
}

impl Drop for Packets {
    fn drop(&mut self) {
        // SAFETY: devices and stocks hold an `Arc` of this, so nobody uses the mempool.
        unsafe {
            if *self.registered.get_mut().unwrap_or_else(|e| e.into_inner()) {
                sys::rte_extmem_unregister(self.arena.base().cast(), self.arena.bytes_len());
            }
            sys::weir_pool_free(self.pool.as_ptr());
        }
    }
}

/// Free slots at hand for a port's driver: it allocates from here and frees to here.
pub struct Stock {
    raw: NonNull<sys::Stock>,
    packets: Arc<Packets>,
}

// SAFETY: a stock is owned by one port and used by the thread that has it.
unsafe impl Send for Stock {}

/// Slots that move at once between a stock and the worker's pool.
const BULK: usize = 256;
/// Below, the stock is filled.
const LOW: usize = 128;
/// Above, it is emptied to the half.
const HIGH: usize = 512;

impl Stock {
    /// Slots that [`level`](Self::level) leaves in it at most.
    pub const MOST: u32 = HIGH as u32;

    /// An empty stock.
    ///
    /// # Errors
    /// [`PortError::Device`]: no memory.
    pub fn new(packets: &Arc<Packets>) -> Result<Self, PortError> {
        // SAFETY: the mempool lives as long as `packets`, which the stock keeps.
        let raw = NonNull::new(unsafe { sys::weir_stock_new(packets.pool.as_ptr()) });
        let no_memory = || PortError::Device {
            doing: "making a stock of packet buffers".to_owned(),
            why: "there is no memory".to_owned(),
            advice: "lower [frames] packet_buffers".to_owned(),
        };
        Ok(Self { raw: raw.ok_or_else(no_memory)?, packets: packets.clone() })
    }

    /// For calls into the shim.
    #[inline]
    pub fn raw(&self) -> *mut sys::Stock {
        self.raw.as_ptr()
    }

    /// Slots in it.
    #[inline]
    pub fn count(&self) -> usize {
        // SAFETY: the stock is alive, and this thread has it.
        unsafe { sys::weir_stock_count(self.raw()) as usize }
    }

    /// What the driver took more than it gave back since the last call.
    #[inline]
    pub fn take_out(&self) -> i64 {
        // SAFETY: as in `count`.
        unsafe { sys::weir_stock_take_out(self.raw()) }
    }

    /// Keeps the stock between its marks.
    #[inline]
    pub fn level(&mut self, pool: &mut Pool) {
        // SAFETY: as in `count`.
        unsafe { sys::weir_stock_gather(self.raw()) };
        let count = self.count();
        if count < LOW {
            self.fill(pool, BULK - count);
        } else if count > HIGH {
            self.give(pool, count - HIGH / 2);
        }
    }

    /// Adds up to `n` slots of the pool; returns how many.
    ///
    /// # Panics
    /// When the pool is of another arena.
    pub fn fill(&mut self, pool: &mut Pool, n: usize) -> usize {
        assert!(Arc::ptr_eq(pool.arena(), self.packets.arena()), "a pool of another arena");
        let mut slots = [0u32; BULK];
        let mut added = 0;
        while added < n {
            let mut some = 0;
            while some < BULK.min(n - added) {
                let Some(frame) = pool.take() else { break };
                slots[some] = frame.slot();
                some += 1;
            }
            if some == 0 {
                break;
            }
            // SAFETY: the slots are of this arena, and their tokens were given up here: the stock has the only right to them.
            unsafe { sys::weir_stock_put(self.raw(), slots.as_ptr(), some as u32) };
            added += some;
        }
        added
    }

    /// Gives `n` slots, at most all, to the pool.
    ///
    /// # Panics
    /// When the pool is of another arena.
    pub fn give(&mut self, pool: &mut Pool, n: usize) {
        assert!(Arc::ptr_eq(pool.arena(), self.packets.arena()), "a pool of another arena");
        let mut slots = [0u32; BULK];
        let mut left = n;
        while left > 0 {
            // SAFETY: `slots` has room for so many.
            let got = unsafe { sys::weir_stock_get(self.raw(), slots.as_mut_ptr(), BULK.min(left) as u32) } as usize;
            if got == 0 {
                break;
            }
            for slot in &slots[..got] {
                // SAFETY: the stock had the only right to the slot and has just given it up.
                unsafe { pool.give_slot(*slot) };
            }
            left -= got;
        }
    }

    /// Gives all slots back, those that other threads freed too.
    pub fn empty(&mut self, pool: &mut Pool) {
        // SAFETY: as in `count`.
        unsafe { sys::weir_stock_gather(self.raw()) };
        self.give(pool, self.count());
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        // SAFETY: nobody else has it. Slots still in it are lost until the arena ends.
        unsafe { sys::weir_stock_free(self.raw()) };
    }
}
