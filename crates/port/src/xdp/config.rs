//! What an AF_XDP port should be.

use crate::bpf::XdpMode;
use crate::uri::Uri;
use crate::{PortError, xdp::Filter};

/// Who moves packets between the device and our memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copying {
    /// The device if it can, else the kernel.
    #[default]
    Auto,
    /// The kernel copies.
    Copy,
    /// The device itself; opening fails where it cannot.
    Zero,
}

/// What an AF_XDP port should be. As a URI: `xdp:eth0?queue=0&copy=auto|yes|zero&mode=auto|native|generic&filter=all&
/// fill=512&ring=4096&offloads=off|keep&promisc=off|on&netns=NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpConfig {
    /// Interface.
    pub interface: String,
    /// Network namespace by name; none: the opening thread's.
    pub netns: Option<String>,
    /// Which of the interface's queues. A packet can only be had on the queue it arrived at.
    pub queue: u32,
    /// Who copies.
    pub copy: Copying,
    /// Where the XDP program runs.
    pub mode: XdpMode,
    /// What is ours. All ports of an interface have the same.
    pub filter: Filter,
    /// Slots kept ready to receive at first. The fill ring is first in, first out, and drags them all through the cache:
    /// few. Doubled, up to `ring` and an eighth of all slots, whenever the kernel found none: on a processor shared with
    /// others the pauses are longer than the stock lasts.
    pub fill: u32,
    /// Entries of each ring, a power of two, at least `fill`.
    pub ring: u32,
    /// Leave offloads as they are.
    pub keep_offloads: bool,
    /// Also take frames to other hardware addresses.
    pub promiscuous: bool,
}

impl Default for XdpConfig {
    fn default() -> Self {
        Self {
            interface: String::new(),
            netns: None,
            queue: 0,
            copy: Copying::Auto,
            mode: XdpMode::Auto,
            filter: Filter::All,
            fill: 512,
            ring: 4096,
            keep_offloads: false,
            promiscuous: false,
        }
    }
}

impl XdpConfig {
    /// The defaults on that interface.
    pub fn new(interface: impl Into<String>) -> Self {
        Self { interface: interface.into(), ..Self::default() }
    }

    /// Reads a URI.
    ///
    /// # Errors
    /// [`PortError`] naming the key.
    pub fn from_uri(uri: &Uri) -> Result<Self, PortError> {
        uri.only(&["queue", "copy", "mode", "filter", "fill", "ring", "offloads", "promisc", "netns"])?;
        let default = Self::new(uri.target());
        let filter = match uri.get("filter") {
            None => Filter::All,
            Some(text) => text.parse().map_err(|bad: super::BadFilter| uri.bad_value("filter", &bad.to_string()))?,
        };
        Self {
            netns: uri.get("netns").map(str::to_owned),
            queue: uri.number("queue", 0, "the number of a queue")?,
            copy: uri.choice("copy", &[("auto", Copying::Auto), ("yes", Copying::Copy), ("zero", Copying::Zero)])?,
            mode: uri.choice(
                "mode",
                &[("auto", XdpMode::Auto), ("native", XdpMode::Native), ("generic", XdpMode::Generic)],
            )?,
            filter,
            fill: uri.number("fill", default.fill, "a number of slots")?,
            ring: uri.number("ring", default.ring, "a power of two")?,
            keep_offloads: uri.choice("offloads", &[("off", false), ("keep", true)])?,
            promiscuous: uri.choice("promisc", &[("off", false), ("on", true)])?,
            ..default
        }
        .checked()
    }

    /// The same when it can be.
    pub(crate) fn checked(self) -> Result<Self, PortError> {
        let bad = |key: &str, value: u32, want: String| {
            Err(PortError::BadValue { key: key.to_owned(), value: value.to_string(), want })
        };
        if !self.ring.is_power_of_two() || !(32..=32_768).contains(&self.ring) {
            return bad("ring", self.ring, "a power of two from 32 to 32768".to_owned());
        }
        if self.fill == 0 || self.fill > self.ring {
            return bad("fill", self.fill, format!("1 to {}, the size of the ring", self.ring));
        }
        if self.queue >= super::program::QUEUES {
            return bad("queue", self.queue, format!("0 to {}", super::program::QUEUES - 1));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<XdpConfig, PortError> {
        XdpConfig::from_uri(&text.parse()?)
    }

    #[test]
    fn a_uri_says_it_all() {
        assert_eq!(read("xdp:eth0").expect("defaults"), XdpConfig::new("eth0"));
        let config =
            read("xdp:eth0?queue=3&copy=zero&mode=native&filter=udp:2152+vlan&fill=256&ring=256&promisc=on&netns=n1");
        let wanted = XdpConfig {
            interface: "eth0".into(),
            netns: Some("n1".into()),
            queue: 3,
            copy: Copying::Zero,
            mode: XdpMode::Native,
            filter: "udp:2152+vlan".parse().expect("a filter"),
            fill: 256,
            ring: 256,
            keep_offloads: false,
            promiscuous: true,
        };
        assert_eq!(config.expect("read"), wanted);
    }

    #[test]
    fn nonsense_names_its_key() {
        for (uri, key) in [
            ("xdp:e?ring=1000", "ring"),
            ("xdp:e?fill=0", "fill"),
            ("xdp:e?fill=8192", "fill"),
            ("xdp:e?queue=256", "queue"),
            ("xdp:e?copy=maybe", "copy"),
            ("xdp:e?filter=frogs", "filter"),
            ("xdp:e?wings=2", "wings"),
        ] {
            let said = read(uri).expect_err(uri).to_string();
            assert!(said.contains(&format!("`{key}")), "{said}");
        }
    }
}
