//! Facts about the machine from firmware and kernel, for certificates.

use std::fs::read_to_string;

use certificate::Host;

/// The firmware's name of the machine (DMI): a cloud's instance type, such as `c5n.4xlarge`, or a server's product.
/// None where the firmware tells none, as in containers and small virtual machines.
pub fn machine_type() -> Option<String> {
    let read = |key: &str| {
        let text = read_to_string(format!("/sys/class/dmi/id/{key}")).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    of_firmware(&read)
}

/// EC2 has the instance type as the product's name; Google's and Azure's firmware names no type, only the product.
fn of_firmware(read: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let product = read("product_name")?;
    let vague = [
        "To Be Filled",
        "System Product Name",
        "Standard PC",
        "Default string",
        "None",
        "Google Compute Engine",
        "Virtual Machine",
        "KVM",
        "VMware",
        "VirtualBox",
        "HVM domU",
        "OpenStack",
        "Alibaba Cloud ECS",
        "Bochs",
    ];
    (!vague.iter().any(|word| product.starts_with(word))).then_some(product)
}

/// This machine; `interface` and `queues` are those that carried packets.
pub fn host(interface: String, queues: u16, steal_ratio: f64) -> Host {
    let this = crate::host::Host::this();
    Host {
        hostname: read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned(),
        cpu: this.cpu,
        arch: std::env::consts::ARCH.to_owned(),
        cpus: this.cores,
        tsc_ghz: table::hint::tsc_hz() as f64 / 1e9,
        kernel: this.kernel,
        interface,
        queues,
        machine_type: machine_type(),
        steal_ratio,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_type_is_the_product_name() {
        let firmware = |product: &str| {
            let product = product.to_owned();
            of_firmware(&move |key| (key == "product_name").then(|| product.clone()))
        };
        assert_eq!(firmware("c5n.4xlarge").as_deref(), Some("c5n.4xlarge"));
        assert_eq!(firmware("Standard PC (Q35 + ICH9, 2009)"), None, "says nothing of the machine");
        assert_eq!(of_firmware(&|_| None), None);
    }

    #[test]
    fn this_machine_is_described() {
        let host = host("veth".into(), 2, 0.0);
        assert!(!host.hostname.is_empty() && host.cpus > 0 && host.tsc_ghz > 0.1, "{host:?}");
    }
}
