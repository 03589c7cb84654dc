//! A device with its queues, each of which a port has.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use frame::Pool;
use port::{Offloads, PortError};

use crate::config::{Buffers, Config};
use crate::flow::{Steering, Told};
use crate::packets::{self, Packets, Stock};
use crate::{eal, offload, sys};

/// Drivers that take mbufs of a layout of their own: packets are copied between the arena and mbufs of DPDK's.
///
/// `net_af_xdp` registers the whole mempool as UMEM and finds a packet at a fixed distance from its mbuf.
/// `net_virtio_user` tells the other end where DPDK's own memory is, and no other.
pub const COPYING: &[&str] = &["net_af_xdp", "net_virtio_user"];

/// Drivers that count a packet they do not accept as an error of sending.
const COUNT_REFUSED: &[&str] = &["net_memif", "net_vhost"];

/// Drivers whose start connects to another process, and waits while that one's queue of connections is full.
const WAIT_AT_START: &[&str] = &["net_memif"];
/// So long they may wait when a port is opened, in milliseconds.
const WAIT_OPENING: u32 = 1000;
/// So long when a worker starts a device again, whose other ports stand still meanwhile.
const WAIT_AGAIN: u32 = 10;

/// Mbufs of a copying device beside its rings.
const COPY_SPARE: u32 = 1024;
/// Slots beside the rings that starting a device takes.
const SPARE: usize = 128;
/// Bursts of received packets that are taken out of a device before it closes.
const DRAIN: usize = 64;

/// Open devices of this process, by name.
pub type Devices = HashMap<String, Weak<Device>>;

static DEVICES: Mutex<Option<Devices>> = Mutex::new(None);

/// The open devices; while this is held nobody opens or closes one.
pub fn lock() -> MutexGuard<'static, Option<Devices>> {
    DEVICES.lock().unwrap_or_else(|e| e.into_inner())
}

/// Mbufs of DPDK's own, for copying.
struct CopyPool(*mut sys::Mempool);

impl Drop for CopyPool {
    fn drop(&mut self) {
        // SAFETY: the device that used it is closed: see the order of `Device`'s fields.
        unsafe { sys::rte_mempool_free(self.0) };
    }
}

/// A device that has been started.
pub struct Device {
    /// Its number.
    pub port: u16,
    /// Its driver's name.
    pub driver: String,
    /// Its name.
    pub name: String,
    /// Queues each way.
    pub queues: u16,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Its MTU.
    pub mtu: u16,
    /// Mbufs of the arena that the driver has, over all queues.
    pub out: AtomicI64,
    /// Its queues have interrupts, if its driver does.
    pub interrupts: bool,
    /// What is left to it.
    pub offloads: Offloads,
    /// Held over calls into the driver: of [`Device::steer`] alone.
    steering: Mutex<Steering>,
    /// What is told of it, as of the last change that is done.
    told: Mutex<Told>,
    /// Held while a driver is asked for the state of its device: of two threads at a time each would read what is the other's.
    asking: Mutex<()>,
    /// The link, as it was told last.
    up: AtomicBool,
    /// It does not stand still.
    started: AtomicBool,
    closed: AtomicBool,
    copy: Option<CopyPool>,
    /// Packet buffers that a NIC's rings may keep: many drivers give back what was sent when the ring's entry is used again.
    keeps: u32,
    /// Packet buffers that the transmit ring of one queue may hold; 0 where packets are copied.
    keeps_sent: u32,
    packets: Arc<Packets>,
}

/// Whether rings of NICs that may keep so many of the packet buffers leave a quarter of them to packets on their way. With none
/// left nothing is received, and nothing sent that would give some back.
fn leaves_enough(keep: u32, buffers: u32) -> Result<(), (String, &'static str)> {
    if keep <= buffers / 4 * 3 {
        return Ok(());
    }
    let why = format!("rings of DPDK's NICs may keep {keep} packet buffers, and there are {buffers}");
    Err((why, "raise [frames] packet_buffers, or lower ring="))
}

// SAFETY: DPDK's devices may be used by several threads, each its own queue; the mempool of copies is made for several threads.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// The device of a configuration, with what the gateway leaves to it where it can do that: as it is open already, or
    /// probed and started with slots of `pool`. Received packets go into slots that `stock` has.
    ///
    /// # Errors
    /// [`PortError::Device`], saying what to do.
    pub fn of(
        all: &mut Devices,
        (config, offloads): (&Config, Offloads),
        packets: &Arc<Packets>,
        stock: &mut Stock,
        pool: &mut Pool,
    ) -> Result<Arc<Self>, PortError> {
        let refused = |why: String, advice: &str| PortError::Device {
            doing: format!("opening DPDK device {}", config.name()),
            why,
            advice: advice.to_owned(),
        };
        if let Some(device) = all.get(config.name()).and_then(Weak::upgrade) {
            if device.queues != config.queues || !Arc::ptr_eq(&device.packets, packets) {
                let why = format!("it is open with queues={}", device.queues);
                return Err(refused(why, "give all ports of a device the same number of queues"));
            }
            return Ok(device);
        }
        eal::forget_log();
        let port = probe(config)
            .map_err(|why| refused(why, "check its name and arguments (dpdk-devbind.py -s lists NICs)"))?;
        let mut device = Self {
            port,
            driver: String::new(),
            name: config.name().to_owned(),
            queues: config.queues,
            mac: [0; 6],
            mtu: 0,
            out: AtomicI64::new(0),
            interrupts: false,
            offloads,
            steering: Mutex::default(),
            told: Mutex::default(),
            asking: Mutex::default(),
            up: AtomicBool::new(false),
            started: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            copy: None,
            keeps: 0,
            keeps_sent: 0,
            packets: packets.clone(),
        };
        let others = all.values().filter_map(Weak::upgrade).map(|device| device.keeps).sum::<u32>();
        let begun = device.set_up(config, stock, pool);
        if let Err((why, advice)) =
            begun.and_then(|()| leaves_enough(others + device.keeps, packets.arena().shape().slots))
        {
            device.close(stock);
            return Err(refused(why, advice));
        }
        let device = Arc::new(device);
        all.insert(config.name().to_owned(), Arc::downgrade(&device));
        Ok(device)
    }

    /// From probed to started.
    fn set_up(&mut self, config: &Config, stock: &mut Stock, pool: &mut Pool) -> Result<(), (String, &'static str)> {
        let advice = "see the notes of DPDK's driver";
        let done = |code: i32| if code == 0 { Ok(()) } else { Err((eal::why(code), advice)) };
        let mut info = sys::DeviceInfo {
            driver: std::ptr::null(),
            device: std::ptr::null_mut(),
            most_queues: 0,
            rx_ring: config.ring,
            tx_ring: config.ring,
            offloads: 0,
        };
        // SAFETY: `port` is a probed device that nobody else uses; `info` has room. A driver's name is a constant text.
        done(unsafe { sys::weir_device_info(self.port, &raw mut info) })?;
        if !info.driver.is_null() {
            // SAFETY: as above.
            self.driver = unsafe { CStr::from_ptr(info.driver) }.to_string_lossy().into_owned();
        }
        if info.most_queues < config.queues {
            let why = format!("it has {} queues, not {}", info.most_queues, config.queues);
            return Err((why, "ask for fewer queues"));
        }
        let copies = match config.buffers {
            Buffers::Auto => COPYING.contains(&self.driver.as_str()),
            Buffers::Pinned => false,
            Buffers::Copy => true,
        };
        let mempool = if copies { self.copying(config)? } else { self.packets.mempool() };
        if !copies && config.is_pci() {
            let advice = "give it an IOMMU (vfio), or buffers=copy";
            self.packets.map_for(info.device).map_err(|why| (why, advice))?;
        }
        let wanted = if config.offloads { offload::wanted(self.offloads, &self.driver, copies) } else { 0 };
        info.offloads = wanted;
        // Not every device that has interrupts starts with one for each queue.
        if config.interrupts && self.begin(config, mempool, true, &mut info, stock, pool).is_ok() {
            self.interrupts = true;
        } else {
            eal::forget_log();
            info.offloads = wanted;
            self.begin(config, mempool, false, &mut info, stock, pool)?;
        }
        *self.started.get_mut() = true;
        self.keeps_sent = if copies { 0 } else { info.tx_ring.into() };
        if !copies && config.is_pci() {
            self.keeps = u32::from(config.queues) * (u32::from(info.rx_ring) + u32::from(info.tx_ring));
        }
        self.offloads = offload::granted(info.offloads);
        self.out.fetch_add(stock.take_out(), Ordering::Relaxed);
        self.look(config);
        Ok(())
    }

    /// From probed to started, with interrupts or without.
    fn begin(
        &mut self,
        config: &Config,
        mempool: *mut sys::Mempool,
        interrupts: bool,
        info: &mut sys::DeviceInfo,
        stock: &mut Stock,
        pool: &mut Pool,
    ) -> Result<(), (String, &'static str)> {
        let done = |code: i32| if code == 0 { Ok(()) } else { Err((eal::why(code), "see the notes of DPDK's driver")) };
        // Of each queue a driver takes as many as its ring has, some of them more than one for a packet.
        let copies = self.copy.is_some();
        let take = |stock: &mut Stock, pool: &mut Pool, ring: u16| {
            let wanted = if copies { 0 } else { usize::from(ring) * usize::from(config.queues) + SPARE };
            let missing = wanted.saturating_sub(stock.count());
            if stock.fill(pool, missing) == missing {
                return Ok(());
            }
            let why = format!("its receive rings take {wanted} packet buffers, and there are not so many");
            Err((why, "raise [frames] packet_buffers, or lower ring="))
        };
        take(stock, pool, info.rx_ring)?;
        // SAFETY: the mempool lives as long as `self`, which closes the device before; the stock is of this thread.
        done(unsafe {
            let (stock, info) = (stock.raw(), &raw mut *info);
            sys::weir_device_set_up(stock, self.port, config.queues, mempool, interrupts.into(), info)
        })?;
        if let Some(mtu) = config.mtu {
            // SAFETY: as above.
            done(unsafe { sys::rte_eth_dev_set_mtu(self.port, mtu) })
                .map_err(|(why, _)| (why, "choose another mtu="))?;
        }
        take(stock, pool, info.rx_ring)?;
        let most = if self.waits_at_start() { WAIT_OPENING } else { 0 };
        // SAFETY: as above.
        let code = unsafe { sys::weir_device_start(stock.raw(), self.port, most, 0) };
        let advice = "its server is to run before, and to accept connections";
        done(code).map_err(|(why, other)| (why, if most > 0 { advice } else { other }))
    }

    /// Mbufs of DPDK's own.
    fn copying(&mut self, config: &Config) -> Result<*mut sys::Mempool, (String, &'static str)> {
        let mbufs = 2 * u32::from(config.ring) * u32::from(config.queues) + COPY_SPARE;
        let mbufs = if self.driver == "net_af_xdp" { mbufs.max(16_384) } else { mbufs };
        let room = u16::try_from(self.packets.arena().room()).unwrap_or(u16::MAX - 256).max(2048);
        let name = packets::name("copies");
        // SAFETY: the name outlives the call.
        let pool = unsafe { sys::weir_copy_pool_new(name.as_ptr(), mbufs, room) };
        if pool.is_null() {
            return Err((eal::why(0), "raise memory= of the first dpdk: port"));
        }
        self.copy = Some(CopyPool(pool));
        Ok(pool)
    }

    /// What it is, and what packets it takes.
    fn look(&mut self, config: &Config) {
        // SAFETY: the device is ours and has started; the places outlive the calls. What a device does not support stays as it is.
        unsafe {
            sys::rte_eth_macaddr_get(self.port, &raw mut self.mac);
            sys::rte_eth_dev_get_mtu(self.port, &raw mut self.mtu);
            sys::rte_eth_allmulticast_enable(self.port);
            if config.promiscuous {
                sys::rte_eth_promiscuous_enable(self.port);
            }
        }
    }

    /// Mbufs to copy into; none where the device reads and writes the arena itself.
    #[inline]
    pub fn copies(&self) -> Option<*mut sys::Mempool> {
        self.copy.as_ref().map(|pool| pool.0)
    }

    /// Whether its errors of sending have the packets that it did not accept among them.
    pub fn counts_refused(&self) -> bool {
        COUNT_REFUSED.contains(&self.driver.as_str())
    }

    /// Looks at how it steers, or changes it; waits for others that do.
    pub fn steer<R>(&self, with: impl FnOnce(&mut Steering) -> R) -> R {
        let mut steering = self.steering.lock().unwrap_or_else(|e| e.into_inner());
        let done = with(&mut steering);
        *self.told.lock().unwrap_or_else(|e| e.into_inner()) = steering.told();
        done
    }

    /// What is told of how it steers. Waits for no driver.
    pub fn told(&self) -> Told {
        self.told.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Whether the link is up; while another thread asks, as it was last.
    pub fn is_up(&self) -> bool {
        if let Ok(_alone) = self.asking.try_lock() {
            // SAFETY: the device is open.
            self.up.store(unsafe { sys::weir_device_is_up(self.port) != 0 }, Ordering::Relaxed);
        }
        self.up.load(Ordering::Relaxed)
    }

    /// Packet buffers that the transmit ring of a queue may keep.
    pub fn keeps_sent(&self) -> u32 {
        self.keeps_sent
    }

    /// Whether it splits frames of its MTU among several buffers, as far as it says: those are lost (`rx_too_long`).
    pub fn splits_frames(&self) -> bool {
        // SAFETY: the device is open.
        unsafe { sys::weir_device_splits(self.port) != 0 }
    }

    /// What it has lost; none: another thread asks its driver just now.
    pub fn losses(&self) -> Option<sys::Losses> {
        let _alone = self.asking.try_lock().ok()?;
        let mut losses = sys::Losses::default();
        // SAFETY: the device is open; `losses` has room.
        unsafe { sys::weir_device_losses(self.port, &raw mut losses) };
        Some(losses)
    }

    /// Whether it is the client of another process, for which its start waits.
    fn waits_at_start(&self) -> bool {
        WAIT_AT_START.contains(&self.driver.as_str())
    }

    /// Starts it again, no other port having it, so that it looks for its other end. False: it has none, and stands still.
    pub fn start_again(&self, stock: &mut Stock) -> bool {
        let most = if self.waits_at_start() { WAIT_AGAIN } else { 0 };
        // SAFETY: the device is open and was set up; its only worker is here. What its driver has goes to the stock.
        let failed = unsafe { sys::weir_device_start(stock.raw(), self.port, most, 1) };
        eal::forget_log();
        self.started.store(failed == 0, Ordering::Relaxed);
        failed == 0
    }

    /// Closes it, no other port having it: what its driver has goes to the stock.
    pub fn close(&self, stock: &mut Stock) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.steer(|steering| steering.clear(self.port));
        let mut packets = [sys::Packet::default(); frame::BURST];
        let mut cut = 0;
        // Some drivers forget what waits to be received.
        for _ in 0..if self.started.load(Ordering::Relaxed) && self.copy.is_none() { DRAIN } else { 0 } {
            let mut slots = [0u32; frame::BURST];
            let mut got = 0;
            for queue in 0..self.queues {
                // SAFETY: the device is open, no worker uses it any more, and `packets` has room for a burst. Received slots go
                // to the stock: their right was the driver's.
                unsafe {
                    let n = sys::weir_rx(stock.raw(), self.port, queue, packets.as_mut_ptr(), 64, &raw mut cut);
                    (0..usize::from(n)).for_each(|i| slots[i] = packets[i].slot);
                    sys::weir_stock_put(stock.raw(), slots.as_ptr(), n.into());
                    got += n;
                }
            }
            if got == 0 {
                break;
            }
        }
        // SAFETY: as above. The driver's mbufs are freed to the stock; the port's number is not used after.
        unsafe { sys::weir_device_close(stock.raw(), self.port) };
        self.out.fetch_add(stock.take_out(), Ordering::Relaxed);
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if !*self.closed.get_mut()
            && let Ok(mut stock) = Stock::new(&self.packets)
        {
            // Its slots are lost until the arena ends: nobody is here to take them.
            self.close(&mut stock);
        }
    }
}

/// Has DPDK find or make the device; its number.
fn probe(config: &Config) -> Result<u16, String> {
    let text = |text: &str| CString::new(text).map_err(|_| "its name has a zero byte".to_owned());
    let (arguments, name) = (text(&config.device)?, text(config.name())?);
    let mut port = u16::MAX;
    // SAFETY: the layer has started, the lock of devices is held, and the texts outlive the calls.
    unsafe {
        if sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut port) == 0 {
            return Err("another device has its name".to_owned());
        }
        match sys::rte_dev_probe(arguments.as_ptr()) {
            0 => {}
            code => return Err(eal::why(code)),
        }
        match sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut port) {
            0 => Ok(port),
            _ => Err("it is no network device".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_leave_packet_buffers_for_packets() {
        assert_eq!(leaves_enough(0, 64), Ok(()));
        assert_eq!(leaves_enough(2048, 4096), Ok(()));
        let (why, advice) = leaves_enough(2048, 2048).unwrap_err();
        assert!(why.contains("2048 packet buffers, and there are 2048") && advice.contains("packet_buffers"), "{why}");
    }
}
