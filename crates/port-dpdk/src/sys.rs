//! What is called in C: functions of DPDK that are no more than that, and those of `shim.c`.

use std::ffi::{c_char, c_int, c_void};

/// A mempool over an arena.
#[repr(C)]
pub struct Pool {
    _opaque: [u8; 0],
}

/// Free slots that a port keeps for its driver.
#[repr(C)]
pub struct Stock {
    _opaque: [u8; 0],
}

/// `struct rte_mempool`.
#[repr(C)]
pub struct Mempool {
    _opaque: [u8; 0],
}

/// `struct rte_device`.
#[repr(C)]
pub struct RteDevice {
    _opaque: [u8; 0],
}

/// A packet: `len` bytes from `head` of a slot.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Packet {
    pub slot: u32,
    pub head: u16,
    pub len: u16,
    /// Received: the device's word on its UDP checksum.
    pub verdict: u8,
    /// To be sent: bytes of the link header, where the device is to make the UDP checksum over IPv6; or 0.
    pub l2_len: u8,
}

/// What a device is.
#[repr(C)]
pub struct DeviceInfo {
    pub driver: *const c_char,
    pub device: *mut RteDevice,
    pub most_queues: u16,
    pub rx_ring: u16,
    pub tx_ring: u16,
    /// Wanted, then those that the device has.
    pub offloads: u8,
}

/// `struct rte_flow`.
#[repr(C)]
pub struct Flow {
    _opaque: [u8; 0],
}

/// Packets that go to a queue.
#[repr(C)]
pub struct FlowRule {
    pub kind: u8,
    pub tags: u8,
    pub queue: u16,
    pub value: u64,
    pub mask: u64,
}

/// Packets that a device has lost.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Losses {
    pub rx_missed: u64,
    pub rx_errors: u64,
    pub rx_no_mbuf: u64,
    pub tx_errors: u64,
}

/// `struct rte_eth_xstat_name`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct XstatName(pub [u8; 64]);

/// `struct rte_eth_xstat`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Xstat {
    pub id: u64,
    pub value: u64,
}

unsafe extern "C" {
    pub fn rte_eal_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub fn rte_strerror(error: c_int) -> *const c_char;
    pub fn rte_thread_register() -> c_int;
    pub fn rte_thread_unregister();
    pub fn rte_dev_probe(devargs: *const c_char) -> c_int;
    pub fn rte_dev_dma_map(device: *mut RteDevice, at: *mut c_void, iova: u64, len: usize) -> c_int;
    pub fn rte_extmem_register(at: *mut c_void, len: usize, iovas: *mut u64, pages: u32, page: usize) -> c_int;
    pub fn rte_extmem_unregister(at: *mut c_void, len: usize) -> c_int;
    pub fn rte_mempool_free(mempool: *mut Mempool);
    pub fn rte_eth_dev_get_port_by_name(name: *const c_char, port: *mut u16) -> c_int;
    pub fn rte_eth_macaddr_get(port: u16, mac: *mut [u8; 6]) -> c_int;
    pub fn rte_eth_dev_get_mtu(port: u16, mtu: *mut u16) -> c_int;
    pub fn rte_eth_dev_set_mtu(port: u16, mtu: u16) -> c_int;
    pub fn rte_eth_promiscuous_enable(port: u16) -> c_int;
    pub fn rte_eth_allmulticast_enable(port: u16) -> c_int;
    pub fn rte_eth_dev_rx_intr_enable(port: u16, queue: u16) -> c_int;
    pub fn rte_eth_dev_rx_intr_disable(port: u16, queue: u16) -> c_int;
    pub fn rte_eth_xstats_get_names(port: u16, names: *mut XstatName, room: u32) -> c_int;
    pub fn rte_eth_xstats_get(port: u16, values: *mut Xstat, room: u32) -> c_int;

    pub fn weir_log_keep() -> c_int;
    pub fn weir_log_take(to: *mut c_char, room: usize);
    pub fn weir_thread_shares_cpu();
    pub fn weir_built_for() -> u32;
    pub fn weir_runs_with() -> u32;
    pub fn weir_errno() -> c_int;
    pub fn weir_ops_register() -> c_int;

    pub fn weir_pool_new(
        name: *const c_char,
        base: *mut u8,
        slots: u32,
        stride: u32,
        slot_bytes: u16,
        headroom: u16,
    ) -> *mut Pool;
    pub fn weir_pool_free(pool: *mut Pool);
    pub fn weir_pool_mempool(pool: *mut Pool) -> *mut Mempool;
    pub fn weir_copy_pool_new(name: *const c_char, mbufs: u32, room: u16) -> *mut Mempool;

    pub fn weir_stock_new(pool: *mut Pool) -> *mut Stock;
    pub fn weir_stock_free(stock: *mut Stock);
    pub fn weir_stock_count(stock: *const Stock) -> u32;
    pub fn weir_stock_take_out(stock: *mut Stock) -> i64;
    pub fn weir_stock_put(stock: *mut Stock, slots: *const u32, n: u32);
    pub fn weir_stock_get(stock: *mut Stock, slots: *mut u32, n: u32) -> u32;
    pub fn weir_stock_gather(stock: *mut Stock);

    pub fn weir_rx(stock: *mut Stock, port: u16, queue: u16, packets: *mut Packet, most: u16, cut: *mut u64) -> u16;
    pub fn weir_tx(stock: *mut Stock, port: u16, queue: u16, packets: *const Packet, n: u16, made: *mut u64) -> u16;
    pub fn weir_tx_done(stock: *mut Stock, port: u16, queue: u16);
    pub fn weir_rx_copy(
        base: *mut u8,
        stride: u32,
        port: u16,
        queue: u16,
        packets: *mut Packet,
        most: u16,
        room: u16,
        cut: *mut u64,
    ) -> u16;
    pub fn weir_tx_copy(
        mempool: *mut Mempool,
        base: *const u8,
        stride: u32,
        port: u16,
        queue: u16,
        packets: *const Packet,
        n: u16,
    ) -> u16;

    pub fn weir_device_info(port: u16, out: *mut DeviceInfo) -> c_int;
    pub fn weir_device_set_up(
        stock: *mut Stock,
        port: u16,
        queues: u16,
        mempool: *mut Mempool,
        interrupts: c_int,
        out: *mut DeviceInfo,
    ) -> c_int;
    pub fn weir_device_start(stock: *mut Stock, port: u16, ms: u32, again: c_int) -> c_int;
    pub fn weir_device_close(stock: *mut Stock, port: u16) -> c_int;
    pub fn weir_device_losses(port: u16, out: *mut Losses) -> c_int;
    pub fn weir_device_is_up(port: u16) -> c_int;
    pub fn weir_device_splits(port: u16) -> c_int;

    pub fn weir_interrupt_open(port: u16, queue: u16) -> c_int;
    pub fn weir_interrupt_close(port: u16, queue: u16, epoll: c_int);
    pub fn weir_interrupt_take(epoll: c_int) -> c_int;

    pub fn weir_flow_create(
        port: u16,
        rule: *const FlowRule,
        only_ask: c_int,
        why: *mut c_char,
        room: usize,
    ) -> *mut Flow;
    pub fn weir_flow_destroy(port: u16, flow: *mut Flow) -> c_int;
}
