//! What a DPDK port should be.

use port::{PortError, Uri};

/// Who moves packets between the device and the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// The device itself, unless its driver is known to refuse.
    Auto,
    /// The device itself.
    Pinned,
    /// The port copies.
    Copy,
}

/// What the URI says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The device as DPDK names it, with its arguments: `net_pcap0,rx_pcap=in.pcap`.
    pub device: String,
    /// Queues of the device each way.
    pub queues: u16,
    /// The port's.
    pub queue: u16,
    /// Wanted entries of each ring.
    pub ring: u16,
    /// The MTU to set.
    pub mtu: Option<u16>,
    /// Receive packets to other hardware addresses.
    pub promiscuous: bool,
    /// Who copies.
    pub buffers: Buffers,
    /// Ask the device for interrupts, to sleep until one comes.
    pub interrupts: bool,
    /// Leave checksums to the device, where it has that and the gateway has use for it.
    pub offloads: bool,
    /// The environment layer rests on huge pages.
    pub huge: bool,
    /// Memory of the environment layer in MiB.
    pub memory: Option<u32>,
    /// The network namespace, by name, in which the device is opened; none: the opening thread's.
    pub netns: Option<String>,
}

const KEYS: &[&str] =
    &["queues", "queue", "ring", "mtu", "promisc", "buffers", "interrupts", "offloads", "pages", "memory", "netns"];

impl Config {
    /// Reads a URI.
    ///
    /// # Errors
    /// [`PortError`] naming the key.
    pub fn from_uri(uri: &Uri) -> Result<Self, PortError> {
        uri.only(KEYS)?;
        let device = uri.target().to_owned();
        if device.is_empty() || device.starts_with(',') {
            let what = "it names no device".to_owned();
            return Err(PortError::BadUri { uri: uri.to_string(), what });
        }
        let read = Self {
            device,
            queues: uri.number("queues", 1, "a number of queues from 1 to 64")?,
            queue: uri.number("queue", 0, "the number of a queue, from 0")?,
            ring: uri.number("ring", 512, "a number of packets from 64 to 32768")?,
            mtu: uri.get("mtu").map(|_| uri.number("mtu", 0, "a number of bytes from 576 to 16000")).transpose()?,
            promiscuous: uri.choice("promisc", &[("off", false), ("on", true)])?,
            buffers: uri
                .choice("buffers", &[("auto", Buffers::Auto), ("pinned", Buffers::Pinned), ("copy", Buffers::Copy)])?,
            interrupts: uri.choice("interrupts", &[("auto", true), ("off", false)])?,
            offloads: uri.choice("offloads", &[("on", true), ("off", false)])?,
            huge: uri.choice("pages", &[("plain", false), ("huge", true)])?,
            memory: uri.get("memory").map(|_| uri.number("memory", 0, "a number of MiB from 16")).transpose()?,
            netns: uri.get("netns").map(str::to_owned),
        };
        read.checked()
    }

    fn checked(self) -> Result<Self, PortError> {
        let bad = |key: &str, value: u32, want: String| {
            Err(PortError::BadValue { key: key.to_owned(), value: value.to_string(), want })
        };
        if !(1..=64).contains(&self.queues) {
            return bad("queues", self.queues.into(), "a number of queues from 1 to 64".to_owned());
        }
        if self.queue >= self.queues {
            let want = format!("0 to {}: the device has queues={}", self.queues - 1, self.queues);
            return bad("queue", self.queue.into(), want);
        }
        if !(64..=32_768).contains(&self.ring) {
            return bad("ring", self.ring.into(), "a number of packets from 64 to 32768".to_owned());
        }
        if let Some(mtu) = self.mtu.filter(|mtu| !(576..=16_000).contains(mtu)) {
            return bad("mtu", mtu.into(), "a number of bytes from 576 to 16000".to_owned());
        }
        if let Some(memory) = self.memory.filter(|memory| *memory < 16) {
            return bad("memory", memory, "a number of MiB from 16".to_owned());
        }
        Ok(self)
    }

    /// The device's name, without arguments.
    pub fn name(&self) -> &str {
        self.device.split(',').next().unwrap_or_default()
    }

    /// Whether a device of that driver looks for its other end when it starts, and then no more: the client of a shared memory
    /// interface. A device with several queues is not started again: other workers may be in it.
    pub fn connects_once(&self, driver: &str) -> bool {
        let serves = self.device.split(',').any(|argument| matches!(argument, "role=server" | "role=master"));
        driver == "net_memif" && !serves && self.queues == 1
    }

    /// The socket of a shared memory interface, and whether it is an abstract one, as the driver reads its arguments.
    pub fn socket(&self) -> (&str, bool) {
        let value = |key: &str| self.device.split(',').skip(1).filter_map(|argument| argument.strip_prefix(key)).last();
        (value("socket=").unwrap_or("/run/memif.sock"), value("socket-abstract=") != Some("no"))
    }

    /// What an ENA device is to be told, without which packets with long headers take its slow way; none: it was.
    pub fn ena_advice(&self, driver: &str) -> Option<&'static str> {
        let has = |argument: &str| self.device.split(',').skip(1).any(|given| given == argument);
        // The devices write the first 96 bytes of a packet to the NIC; 224 with large headers (DPDK, ENA poll mode driver).
        (driver == "net_ena" && !has("large_llq_hdr=1")).then_some(
            "without large_llq_hdr=1: headers of more than 96 bytes are slow; vfio-pci needs write combining",
        )
    }

    /// Whether the name is a PCI address, such as `0000:00:05.0`.
    pub fn is_pci(&self) -> bool {
        let mut parts = self.name().rsplit(':');
        let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        let function = parts.next().and_then(|last| last.split_once('.'));
        let bus: Vec<&str> = parts.collect();
        function.is_some_and(|(device, function)| is_hex(device) && is_hex(function))
            && (1..=2).contains(&bus.len())
            && bus.into_iter().all(is_hex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, PortError> {
        Config::from_uri(&text.parse()?)
    }

    #[test]
    fn dpdk_uri_names_a_device_and_its_arguments() {
        let config = read("dpdk:net_pcap0,rx_pcap=/a/in.pcap,tx_pcap=b?queue=1&queues=2&ring=256&mtu=9000").unwrap();
        assert_eq!(config.device, "net_pcap0,rx_pcap=/a/in.pcap,tx_pcap=b");
        assert_eq!((config.name(), config.is_pci()), ("net_pcap0", false));
        assert_eq!((config.queue, config.queues, config.ring, config.mtu), (1, 2, 256, Some(9000)));
        for name in ["0000:00:05.0", "00:05.1", "0000:af:1f.7,llq=1"] {
            assert!(read(&format!("dpdk:{name}")).unwrap().is_pci(), "{name}");
        }
        assert!(!read("dpdk:net_memif,role=client").unwrap().is_pci());
    }

    #[test]
    fn clients_of_shared_memory_connect_once() {
        let once = |uri: &str, driver: &str| read(uri).unwrap().connects_once(driver);
        assert!(once("dpdk:net_memif0,socket=/x", "net_memif") && once("dpdk:net_memif0,role=client", "net_memif"));
        assert!(!once("dpdk:net_memif0,role=server", "net_memif") && !once("dpdk:net_null0", "net_null"));
        assert!(!once("dpdk:net_memif0?queues=2", "net_memif"));
    }

    #[test]
    fn sockets_of_shared_memory_are_read() {
        assert_eq!(read("dpdk:net_memif0,role=client").unwrap().socket(), ("/run/memif.sock", true));
        let other = read("dpdk:net_memif0,socket=/x,socket-abstract=no?queue=0").unwrap();
        assert_eq!(other.socket(), ("/x", false));
    }

    #[test]
    fn ena_without_large_headers_is_told() {
        let advice = |device: &str, driver: &str| read(&format!("dpdk:{device}")).unwrap().ena_advice(driver).is_some();
        assert!(advice("0000:00:05.0", "net_ena") && advice("0000:00:05.0,large_llq_hdr=0", "net_ena"));
        assert!(!advice("0000:00:05.0,large_llq_hdr=1", "net_ena") && !advice("0000:00:05.0", "net_ixgbe"));
    }

    #[test]
    fn nonsense_in_a_dpdk_uri_names_its_key() {
        for (uri, said) in [
            ("dpdk:", "names no device"),
            ("dpdk:net_null0?queues=0", "`queues=0`"),
            ("dpdk:net_null0?queue=1", "`queue=1`"),
            ("dpdk:net_null0?ring=8", "`ring=8`"),
            ("dpdk:net_null0?mtu=80", "`mtu=80`"),
            ("dpdk:net_null0?mtu=big", "`mtu=big`"),
            ("dpdk:net_null0?pages=tiny", "plain or huge"),
            ("dpdk:net_null0?interrupts=some", "auto or off"),
            ("dpdk:net_null0?offloads=some", "on or off"),
            ("dpdk:net_null0?wings=2", "`wings`"),
        ] {
            let error = read(uri).expect_err(uri).to_string();
            assert!(error.contains(said), "{uri}: {error}");
        }
    }
}
