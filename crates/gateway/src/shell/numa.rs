//! NUMA nodes: a worker whose port's device is at another one reads every packet over the link between them.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use port::Uri;

/// Where the kernel tells of devices.
pub const SYS: &str = "/sys";

/// Nodes of ports' devices and of CPUs. They are read before privileges are given up, with which /sys goes out of reach.
#[derive(Debug, Default)]
pub struct Nodes {
    ports: HashMap<String, u32>,
    cpus: HashMap<usize, u32>,
}

impl Nodes {
    /// Those of ports, each a name and a URI, and of all CPUs.
    pub fn read<'p>(sys: &Path, ports: impl Iterator<Item = (&'p str, &'p str)>) -> Self {
        let of_port = |(name, uri): (&str, &str)| Some((name.to_owned(), of_port(sys, &uri.parse().ok()?)?));
        let of_cpu = |name: &str| name.strip_prefix("cpu")?.parse().ok().and_then(|cpu| Some((cpu, of_cpu(sys, cpu)?)));
        let cpus = fs::read_dir(sys.join("devices/system/cpu")).into_iter().flatten();
        let names = cpus.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Self { ports: ports.filter_map(of_port).collect(), cpus: names.filter_map(|name| of_cpu(&name)).collect() }
    }

    /// Reports a worker on a CPU of another node than its port's device.
    pub fn report(&self, port: &str, worker: usize, cpu: usize) {
        let (Some(of_port), Some(of_cpu)) = (self.ports.get(port), self.cpus.get(&cpu)) else { return };
        if of_port != of_cpu {
            tracing::warn!(
                target: "port", event = "port_on_other_node", port, worker, cpu, port_node = of_port, cpu_node = of_cpu,
                "port \"{port}\" is at NUMA node {of_port}, CPU {cpu} of worker {worker} at node {of_cpu}: give the worker a \
                 CPU of node {of_port} (workers.cpus)"
            );
        }
    }
}

/// The node of a CPU; none: unknown, or the machine has no nodes.
fn of_cpu(sys: &Path, cpu: usize) -> Option<u32> {
    let entries = fs::read_dir(sys.join(format!("devices/system/cpu/cpu{cpu}"))).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next()
}

/// The node of a port's device: an interface, or a PCI address of DPDK's. None: unknown, or it is at none. An interface of
/// another network namespace is not to be seen here.
fn of_port(sys: &Path, uri: &Uri) -> Option<u32> {
    if uri.get("netns").is_some() {
        return None;
    }
    let mut parts = uri.target().split(',');
    let name = parts.next()?;
    let file = match (uri.kind(), parts.find_map(|part| part.strip_prefix("iface="))) {
        // Of other drivers it is the name of one that is made.
        ("dpdk", Some(interface)) if name.starts_with("net_af_packet") => interface_file(sys, interface),
        ("dpdk", _) => {
            let is_short = name.matches(':').count() == 1;
            let address = if is_short { format!("0000:{name}") } else { name.to_owned() };
            sys.join("bus/pci/devices").join(address).join("numa_node")
        }
        _ => interface_file(sys, name),
    };
    // -1: at none.
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn interface_file(sys: &Path, interface: &str) -> PathBuf {
    sys.join("class/net").join(interface).join("device/numa_node")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_cpus_and_devices_are_read() {
        let sys = std::env::temp_dir().join(format!("weir-numa-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = sys.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("devices/system/cpu/cpu3/node1/cpulist", "2-3\n");
        write("devices/system/cpu/cpu0/online", "1\n");
        write("bus/pci/devices/0000:00:05.0/numa_node", "1\n");
        write("bus/pci/devices/0000:00:06.0/numa_node", "-1\n");
        write("class/net/eth0/device/numa_node", "0\n");
        assert_eq!([of_cpu(&sys, 3), of_cpu(&sys, 0), of_cpu(&sys, 9)], [Some(1), None, None]);
        let of = |uri: &str| of_port(&sys, &uri.parse().unwrap());
        let dpdk = ["dpdk:0000:00:05.0", "dpdk:00:05.0,large_llq_hdr=1?queue=1", "dpdk:00:06.0", "dpdk:net_ring0"];
        assert_eq!(dpdk.map(of), [Some(1), Some(1), None, None]);
        let interfaces = ["packet:eth0?mode=auto", "dpdk:net_af_packet0,iface=eth0", "dpdk:net_tap0,iface=eth0"];
        assert_eq!(interfaces.map(of), [Some(0), Some(0), None]);
        assert_eq!(of("xdp:eth0?netns=other"), None);
        let ports = [("core", "packet:eth0"), ("access", "dpdk:net_null0")];
        let nodes = Nodes::read(&sys, ports.into_iter());
        assert_eq!((nodes.ports.get("core"), nodes.ports.get("access"), nodes.ports.len()), (Some(&0), None, 1));
        assert_eq!((nodes.cpus.get(&3), nodes.cpus.len()), (Some(&1), 1));
        fs::remove_dir_all(sys).unwrap();
    }
}
