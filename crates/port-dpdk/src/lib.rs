//! DPDK ports: `dpdk:net_pcap0,rx_pcap=in.pcap`, `dpdk:0000:00:05.0?queue={worker}&queues={workers}`.
//!
//! Built with the feature `dpdk` only; without it there is [`register`], which does nothing, and [`BUILT`].
//!
//! | key | |
//! |---|---|
//! | `queues=1` | queues of the device each way; all its ports have the same |
//! | `queue=0` | the queue of this port |
//! | `ring=512` | entries of each ring, adjusted to what the device allows |
//! | `mtu=1500` | the MTU to set; without, the device's |
//! | `promisc=off\|on` | receive packets to other hardware addresses |
//! | `buffers=auto\|pinned\|copy` | the device reads and writes the arena itself, or packets are copied |
//! | `interrupts=auto\|off` | a worker without packets sleeps until the device interrupts, where it can |
//! | `offloads=on\|off` | checksums that the device verifies or makes, where it can and the gateway has use for it |
//! | `netns=NAME` | the network namespace of the interface that the device stands on |
//! | `pages=plain\|huge`, `memory=MiB` | memory of the environment layer, of the first port of a process |
//!
//! | file | content |
//! |---|---|
//! | `config.rs` | the URI |
//! | `eal.rs` | starting the environment layer, once for a process |
//! | `packets.rs` | the arena as a mempool; a port's stock of free buffers |
//! | `device.rs` | a device with its queues |
//! | `offload.rs`, `offload.h` | checksums that a device verifies or makes |
//! | `flow.rs`, `flow.c` | steering by the device |
//! | `interrupt.rs` | the interrupt of a receive queue |
//! | `connect.rs` | looking for the other end of shared memory |
//! | `port_of.rs` | the port |
//! | `sys.rs`, `shim.c` | what is called in C |

#[cfg(feature = "dpdk")]
mod config;
#[cfg(feature = "dpdk")]
mod connect;
#[cfg(feature = "dpdk")]
mod device;
#[cfg(feature = "dpdk")]
mod eal;
#[cfg(feature = "dpdk")]
mod flow;
#[cfg(feature = "dpdk")]
mod interrupt;
#[cfg(feature = "dpdk")]
mod offload;
#[cfg(feature = "dpdk")]
mod packets;
#[cfg(feature = "dpdk")]
mod port_of;
#[cfg(feature = "dpdk")]
mod sys;

#[cfg(feature = "dpdk")]
pub use port_of::DpdkPort;

/// Whether this build has DPDK ports.
pub const BUILT: bool = cfg!(feature = "dpdk");

/// Has [`port::open`] open `dpdk:` URIs from now on. Nothing without the feature `dpdk`.
pub fn register() {
    #[cfg(feature = "dpdk")]
    {
        port::set_dpdk_opener(|uri, cx| Ok(Box::new(DpdkPort::open(uri, cx)?)));
        port::flows::set_steered(port::flows::Steered { is_on: flow::is_on, change: flow::change });
    }
}
