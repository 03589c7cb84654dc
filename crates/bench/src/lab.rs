//! A network of its own: two namespaces with pairs of virtual interfaces between, gone when it is dropped.
//!
//! ```text
//!        namespace weir-bench-PID-N-gw          namespace weir-bench-PID-N-load
//!   gateway 0   n3-0 ════════════════════════════ l3-0   gNBs
//!               n6-0 ════════════════════════════ l6-0   servers
//!   gateway 1   n3-1 ════════════════════════════ l3-1   …
//! ```
//! Names carry the number of the process, so that what a killed one left behind is recognised and removed by the next.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use wire::Mac;

use crate::error::BenchError;
use crate::far_end::{self, FarCpu};

const PREFIX: &str = "weir-bench-";

/// What the pairs of interfaces are like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Largest IP packet.
    pub mtu: u16,
    /// Queues of each interface.
    pub queues: u16,
}

/// Two namespaces and the links between. Dropped, they are gone.
#[derive(Debug)]
pub struct Lab {
    gateway: String,
    load: String,
    shape: Shape,
    /// What the kernel counts of the interfaces: the gateways', the load's.
    counters: [Mutex<File>; 2],
}

/// Packets that the kernel gave up on the way over a gateway's links, by side: N3, N6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkDrops {
    /// Sent by gNBs or servers.
    pub to_gateway: [u64; 2],
    /// Sent by the gateway.
    pub to_load: [u64; 2],
}

impl LinkDrops {
    /// What came since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |now: [u64; 2], before: [u64; 2]| [0, 1].map(|side| now[side].saturating_sub(before[side]));
        Self { to_gateway: less(self.to_gateway, before.to_gateway), to_load: less(self.to_load, before.to_load) }
    }
}

/// One side of one gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Towards the radio network.
    N3,
    /// Towards the data network.
    N6,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::N3, Self::N6];

    fn digit(self) -> char {
        if self == Self::N3 { '3' } else { '6' }
    }

    /// Name of a gateway's interface.
    pub fn gateway(self, n: usize) -> String {
        format!("n{}-{n}", self.digit())
    }

    /// Name of the interface at the load's end.
    pub fn load(self, n: usize) -> String {
        format!("l{}-{n}", self.digit())
    }
}

impl Lab {
    /// Makes the namespaces, and removes those of processes that are no more.
    ///
    /// # Errors
    /// What the system refused: this wants root, or `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`.
    pub fn new(shape: Shape) -> Result<Self, BenchError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        sweep();
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = |side: &str| format!("{PREFIX}{}-{n}-{side}", std::process::id());
        let (gateway, load) = (name("gw"), name("load"));
        // From here on the guard removes whatever was made.
        let guard = Guard([gateway.clone(), load.clone()]);
        for name in &guard.0 {
            ip(&["netns", "add", name])?;
            // No neighbour discovery, no router solicitations: only packets of the trial.
            within(name, || {
                for what in ["all", "default"] {
                    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{what}/disable_ipv6"), "1");
                }
            })?;
        }
        let open = |netns: &str| -> Result<_, BenchError> {
            within(netns, || File::open("/proc/thread-self/net/dev"))?
                .map(Mutex::new)
                .map_err(|error| BenchError::system("reading interface counters", error))
        };
        let counters = [open(&gateway)?, open(&load)?];
        std::mem::forget(guard);
        Ok(Self { gateway, load, shape, counters })
    }

    /// The gateways' namespace.
    pub fn gateway(&self) -> &str {
        &self.gateway
    }

    /// The load's namespace.
    pub fn load(&self) -> &str {
        &self.load
    }

    /// Makes the `n`-th gateway's pair of links; `macs` are the gateway's hardware addresses on N3 and N6.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn links(&self, n: usize, macs: [Mac; 2]) -> Result<(), BenchError> {
        let (mtu, queues) = (self.shape.mtu.to_string(), self.shape.queues.to_string());
        for (side, mac) in Side::BOTH.into_iter().zip(macs) {
            let (near, far, mac) = (side.gateway(n), side.load(n), mac.to_string());
            let queues = ["numrxqueues", &queues, "numtxqueues", &queues];
            let mut add = vec!["-n", &self.gateway, "link", "add", &near, "mtu", &mtu, "address", &mac];
            add.extend(queues);
            add.extend(["type", "veth", "peer", "name", &far, "mtu", &mtu]);
            add.extend(queues);
            add.extend(["netns", &self.load]);
            ip(&add)?;
            for (netns, name) in [(&self.gateway, &near), (&self.load, &far)] {
                // Nothing that joins packets or leaves checksums out.
                offloads_off(netns, name)?;
                ip(&["-n", netns, "link", "set", name, "up"])?;
            }
        }
        Ok(())
    }

    /// As [`Lab::links`], with so many Ethernet bridges in the load's namespace between its ends and the gateway's.
    ///
    /// # Errors
    /// What `ip` said.
    pub(crate) fn links_behind(&self, n: usize, macs: [Mac; 2], bridges: u16) -> Result<(), BenchError> {
        self.links(n, macs)?;
        for side in Side::BOTH {
            // The load's end becomes the first bridge's port; the end behind the last bridge takes its name.
            let (mut near, load) = (side.load(n), side.load(n));
            for bridge in 0..bridges {
                let name = format!("b{}-{n}-{bridge}", side.digit());
                let (port, next) =
                    (format!("p{}-{n}-{bridge}", side.digit()), format!("q{}-{n}-{bridge}", side.digit()));
                if bridge == 0 {
                    let first = format!("f{}-{n}", side.digit());
                    ip(&["-n", &self.load, "link", "set", &near, "down"])?;
                    ip(&["-n", &self.load, "link", "set", &near, "name", &first])?;
                    near = first;
                }
                self.bridge(&name, &near, (&port, &next))?;
                near = next;
            }
            if bridges > 0 {
                ip(&["-n", &self.load, "link", "set", &near, "down"])?;
                ip(&["-n", &self.load, "link", "set", &near, "name", &load])?;
                ip(&["-n", &self.load, "link", "set", &load, "up"])?;
            }
        }
        Ok(())
    }

    /// Makes a bridge in the load's namespace with a port that is there and one of a new pair, whose other end is free.
    fn bridge(&self, name: &str, near: &str, (port, free): (&str, &str)) -> Result<(), BenchError> {
        let mtu = self.shape.mtu.to_string();
        let load = self.load.as_str();
        ip(&["-n", load, "link", "add", name, "mtu", &mtu, "type", "bridge", "forward_delay", "0"])?;
        ip(&["-n", load, "link", "add", port, "mtu", &mtu, "type", "veth", "peer", "name", free, "mtu", &mtu])?;
        for end in [near, port] {
            ip(&["-n", load, "link", "set", end, "master", name])?;
        }
        for end in [port, free] {
            offloads_off(load, end)?;
        }
        for end in [name, near, port, free] {
            ip(&["-n", load, "link", "set", end, "up"])?;
        }
        Ok(())
    }

    /// Gives the load's ends of a gateway's links hardware addresses, on N3 and N6: for gateways that are told them.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn load_addresses(&self, n: usize, macs: [Mac; 2]) -> Result<(), BenchError> {
        let set = |(side, mac): (Side, Mac)| {
            ip(&["-n", &self.load, "link", "set", &side.load(n), "address", &mac.to_string()])
        };
        Side::BOTH.into_iter().zip(macs).try_for_each(set)
    }

    /// Joins the two namespaces by a link that the kernel's own hosts talk over: name and address of each end.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn hosts(&self, gateway: (&str, &str), load: (&str, &str)) -> Result<(), BenchError> {
        let pair = ["type", "veth", "peer", "name", load.0, "netns", &self.load];
        ip(&[&["-n", &self.gateway, "link", "add", gateway.0][..], &pair].concat())?;
        for (netns, (name, address)) in [(&self.gateway, gateway), (&self.load, load)] {
            ip(&["-n", netns, "address", "add", address, "dev", name])?;
            ip(&["-n", netns, "link", "set", name, "up"])?;
        }
        Ok(())
    }

    /// Has the kernel receive on a gateway's interfaces the way a source of live frames needs it.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn receive_live(&self, n: usize) -> Result<(), BenchError> {
        Side::BOTH.into_iter().try_for_each(|side| set_gro(&self.gateway, &side.gateway(n), true))
    }

    /// Moves the receive work of a gateway's interfaces to a CPU.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn receive_on(&self, n: usize, cpu: usize) -> Result<(), BenchError> {
        for side in Side::BOTH {
            let path = format!("/sys/class/net/{}/queues/rx-0/rps_cpus", side.gateway(n));
            let command = format!("echo {:x} > {path}", 1u64 << (cpu % 64));
            exec(&self.gateway, "sh", &["-c", &command])?;
        }
        Ok(())
    }

    /// Has the load's ends of a gateway's links received on a CPU, or by whoever sends to them.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn far_ends(&self, n: usize, far: Option<FarCpu>) -> Result<(), BenchError> {
        Side::BOTH.into_iter().try_for_each(|side| match far {
            Some(far) => far_end::given_to(far, &self.load, &side.load(n)),
            None => far_end::left_to_sender(&self.load, &side.load(n)),
        })
    }

    /// The kernel's number of a load-side interface.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn load_index(&self, side: Side, n: usize) -> Result<u32, BenchError> {
        interface_index(&self.load, &side.load(n))
    }

    /// Packets that have arrived at the load's end of a gateway's links: N3, N6.
    pub fn arrived(&self, n: usize) -> [u64; 2] {
        let text = self.text(1);
        Side::BOTH.map(|side| counter(&text, &side.load(n), RX_PACKETS))
    }

    /// Packets lost on the `n`-th gateway's links so far: the receiving end's queue was full.
    pub fn link_drops(&self, n: usize) -> LinkDrops {
        let [gateway, load] = [0, 1].map(|end| self.text(end));
        LinkDrops {
            to_gateway: Side::BOTH.map(|side| counter(&load, &side.load(n), TX_DROPS)),
            to_load: Side::BOTH.map(|side| counter(&gateway, &side.gateway(n), TX_DROPS)),
        }
    }

    fn text(&self, end: usize) -> String {
        let mut text = String::new();
        if let Ok(mut file) = self.counters[end].lock() {
            let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
        }
        text
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        drop(Guard([self.gateway.clone(), self.load.clone()]));
    }
}

/// The kernel's number of an interface in a namespace.
///
/// # Errors
/// When it is not there.
pub(crate) fn interface_index(netns: &str, name: &str) -> Result<u32, BenchError> {
    let index = within(netns, || port::iface::index_here(name))?;
    index.ok_or_else(|| BenchError::Lab { command: format!("looking for {name}"), said: "it does not exist".into() })
}

struct Guard([String; 2]);

impl Drop for Guard {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = ip(&["netns", "del", name]);
        }
    }
}

/// Removes the namespaces of processes that are no more. Returns how many there were.
pub fn sweep() -> usize {
    remove_of(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// Removes all namespaces that this process has made: it is to end at once.
pub fn remove_own() {
    remove_of(|pid| pid == std::process::id());
}

fn remove_of(is_wanted: impl Fn(u32) -> bool) -> usize {
    let Ok(list) = std::fs::read_dir("/run/netns") else { return 0 };
    let names = list.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let ours = names.filter(|name| owner(name).is_some_and(&is_wanted));
    ours.filter(|name| ip(&["netns", "del", name]).is_ok()).count()
}

/// The process a namespace belongs to, by its name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Columns of `/proc/net/dev`.
const RX_PACKETS: usize = 1;
const TX_DROPS: usize = 11;

/// A counter of an interface in the text of `/proc/net/dev`.
fn counter(text: &str, name: &str, column: usize) -> u64 {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().nth(column)?.parse().ok()).unwrap_or(0)
}

fn within<R>(netns: &str, f: impl FnOnce() -> R) -> Result<R, BenchError> {
    port::netns::within(netns, f).map_err(|source| BenchError::Port { uri: format!("namespace {netns}"), source })
}

fn offloads_off(netns: &str, name: &str) -> Result<(), BenchError> {
    port::offload::switch_off(name, Some(netns)).map_err(|source| BenchError::Port { uri: name.to_owned(), source })
}

/// Has the kernel join packets that an interface receives, or not.
pub(crate) fn set_gro(netns: &str, name: &str, on: bool) -> Result<(), BenchError> {
    let done = port::offload::set_gro(name, Some(netns), on);
    done.map_err(|source| BenchError::Port { uri: name.to_owned(), source })
}

pub(crate) fn exec(netns: &str, program: &str, args: &[&str]) -> Result<(), BenchError> {
    let mut all = vec!["netns", "exec", netns, program];
    all.extend(args);
    ip(&all)
}

fn ip(args: &[&str]) -> Result<(), BenchError> {
    run("ip", args)
}

pub(crate) fn run(program: &str, args: &[&str]) -> Result<(), BenchError> {
    let command = format!("{program} {}", args.join(" "));
    let done = Command::new(program).args(args).output();
    let done = done.map_err(|error| BenchError::Lab { command: command.clone(), said: error.to_string() })?;
    if done.status.success() {
        return Ok(());
    }
    let mut said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    if said.contains("Operation not permitted") || said.contains("Permission denied") {
        said += " (making a network needs root: try sudo)";
    }
    Err(BenchError::Lab { command, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_whose_they_are() {
        assert_eq!((owner("weir-bench-17-0-gw"), owner("weir-17"), owner("blue")), (Some(17), None, None));
        assert_eq!(Side::N6.gateway(3), "n6-3");
    }

    #[test]
    fn counters_are_found_by_name() {
        let text = "Inter-|   Receive\n face |bytes    packets\n  l3-0: 1000 12 0 0 0 0 0 0 900 10 0 3\n l3-01:5 6 7\n";
        let packets = ["l3-0", "l3-01", "x"].map(|name| counter(text, name, RX_PACKETS));
        assert_eq!((packets, counter(text, "l3-0", TX_DROPS)), ([12, 6, 0], 3));
    }
}
