//! NUMA nodes: a worker whose port's device is at another one reads every packet over the link between them.

use std::fs;
use std::path::Path;

/// Where the kernel tells of devices.
pub const SYS: &str = "/sys";

/// The node of a CPU; none: unknown, or the machine has no nodes.
pub fn of_cpu(sys: &Path, cpu: usize) -> Option<u32> {
    let entries = fs::read_dir(sys.join(format!("devices/system/cpu/cpu{cpu}"))).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).next()
}

/// The node of a port's device: an interface, or a PCI address of DPDK's. None: unknown, or it is at none.
pub fn of_port(sys: &Path, kind: &str, interface: &str) -> Option<u32> {
    let file = match kind {
        "dpdk" => {
            let is_short = interface.matches(':').count() == 1;
            let address = if is_short { format!("0000:{interface}") } else { interface.to_owned() };
            sys.join("bus/pci/devices").join(address).join("numa_node")
        }
        _ => sys.join("class/net").join(interface).join("device/numa_node"),
    };
    // -1: at none.
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Reports a worker on a CPU of another node than its port's device.
pub fn report(sys: &Path, (port, kind, interface): (&str, &str, &str), (worker, cpu): (usize, usize)) {
    let (Some(of_port), Some(of_cpu)) = (of_port(sys, kind, interface), of_cpu(sys, cpu)) else { return };
    if of_port != of_cpu {
        tracing::warn!(
            target: "port", event = "port_on_other_node", port, worker, cpu, port_node = of_port, cpu_node = of_cpu,
            "port \"{port}\" is at NUMA node {of_port}, CPU {cpu} of worker {worker} at node {of_cpu}: give the worker a \
             CPU of node {of_port} (workers.cpus)"
        );
    }
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
        let dpdk = |name: &str| of_port(&sys, "dpdk", name);
        assert_eq!([dpdk("0000:00:05.0"), dpdk("00:05.0"), dpdk("00:06.0")], [Some(1), Some(1), None]);
        assert_eq!([dpdk("net_ring0"), of_port(&sys, "packet-ring", "eth0")], [None, Some(0)]);
        fs::remove_dir_all(sys).unwrap();
    }
}
