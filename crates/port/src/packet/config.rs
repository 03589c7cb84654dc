//! What a `packet:` URI says.

use super::fanout::{Fanout, FanoutKind};
use super::ring::Geometry;
use crate::{PortError, Uri};

const KEYS: &[&str] = &[
    "mode", "netns", "fanout", "group", "member", "steer", "block", "blocks", "retire", "rcvbuf", "sndbuf", "vlan",
    "promisc", "offloads", "host",
];

/// How packets are received and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Slots where the interface's packets leave room for enough of them, else a ring of that geometry.
    Auto(Geometry),
    Ring(Geometry),
    Slots,
    Mmsg,
    Plain,
}

#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) name: String,
    pub(super) netns: Option<String>,
    pub(super) mode: Mode,
    pub(super) fanout: Option<Fanout>,
    pub(super) receive_buffer: usize,
    pub(super) send_buffer: usize,
    /// Restore the outer VLAN tag.
    pub(super) vlan: bool,
    pub(super) promiscuous: bool,
    /// Switch unfit offloads off.
    pub(super) fit: bool,
    /// Keep the host stack off.
    pub(super) quiet: bool,
}

impl Config {
    pub(super) fn read(uri: &Uri) -> Result<Self, PortError> {
        uri.only(KEYS)?;
        let on_off = |key, on, off| uri.choice(key, &[(on, true), (off, false)]);
        let geometry = Geometry {
            block: uri.bytes("block", 64 << 10)?,
            blocks: uri.number("blocks", 0, "a number of blocks")?,
            retire_ms: uri.milliseconds("retire", 1)?,
        };
        let modes = [
            ("auto", Mode::Auto(geometry)),
            ("tpacket3", Mode::Ring(geometry)),
            ("tpacket2", Mode::Slots),
            ("mmsg", Mode::Mmsg),
            ("plain", Mode::Plain),
        ];
        // Former names, read for one release.
        let mode = match uri.get("mode") {
            Some("ring") => Mode::Ring(geometry),
            Some("slots") => Mode::Slots,
            _ => uri.choice("mode", &modes)?,
        };
        let asks_for_ring = ["block", "blocks", "retire"].into_iter().any(|key| uri.get(key).is_some());
        let mode = match mode {
            Mode::Auto(mut geometry) | Mode::Ring(mut geometry) => {
                if !geometry.block.is_power_of_two() || !(4096..=4 << 20).contains(&geometry.block) {
                    return Err(uri.bad_value("block", "a power of two from 4k to 4M"));
                }
                if geometry.blocks == 0 {
                    geometry.blocks = (4 << 20 >> geometry.block.ilog2()).max(4);
                }
                if !(2..=1 << 16).contains(&geometry.blocks) || geometry.block * geometry.blocks > 1 << 30 {
                    return Err(uri.bad_value("blocks", "at least 2, and no more than 1 GiB in all"));
                }
                if !(1..=1000).contains(&geometry.retire_ms) {
                    return Err(uri.bad_value("retire", "1 to 1000 milliseconds"));
                }
                if matches!(mode, Mode::Auto(_)) && !asks_for_ring {
                    Mode::Auto(geometry)
                } else {
                    Mode::Ring(geometry)
                }
            }
            other => other,
        };
        let kinds = [
            ("none", None),
            ("qm", Some(FanoutKind::Queue)),
            ("hash", Some(FanoutKind::Hash)),
            ("subscriber", Some(FanoutKind::Subscriber)),
        ];
        let fanout = match uri.choice("fanout", &kinds)? {
            Some(kind) => Some(Fanout::read(uri, kind)?),
            None => match ["group", "member", "steer"].into_iter().find(|key| uri.get(key).is_some()) {
                Some(key) => return Err(uri.bad_value(key, "it only with fanout=qm, hash or subscriber")),
                None => None,
            },
        };
        Ok(Self {
            name: uri.target().to_owned(),
            netns: uri.get("netns").map(str::to_owned),
            mode,
            fanout,
            receive_buffer: uri.bytes("rcvbuf", 8 << 20)?,
            send_buffer: uri.bytes("sndbuf", 4 << 20)?,
            vlan: on_off("vlan", "restore", "off")?,
            promiscuous: uri.choice("promisc", &[("off", false), ("on", true)])?,
            fit: on_off("offloads", "off", "keep")?,
            quiet: on_off("host", "quiet", "shared")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, PortError> {
        Config::read(&text.parse().unwrap())
    }

    #[test]
    fn defaults() {
        let config = read("packet:eth0").unwrap();
        let geometry = Geometry { block: 65_536, blocks: 64, retire_ms: 1 };
        assert_eq!(config.mode, Mode::Auto(geometry));
        assert_eq!(read("packet:eth0?mode=ring").unwrap().mode, Mode::Ring(geometry));
        let asked = read("packet:eth0?retire=5").unwrap().mode;
        assert_eq!(asked, Mode::Ring(Geometry { retire_ms: 5, ..geometry }), "a key of the ring asks for one");
        assert!(config.vlan && config.fit && config.quiet && !config.promiscuous && config.fanout.is_none());
        let config = read("packet:eth0?mode=plain&vlan=off&host=shared&offloads=keep&promisc=on").unwrap();
        assert_eq!(config.mode, Mode::Plain);
        assert!(!config.vlan && !config.fit && !config.quiet && config.promiscuous);
    }

    #[test]
    fn senseless_values_are_refused() {
        for bad in [
            "mode=fast",
            "block=100k",
            "block=1k",
            "blocks=1",
            "retire=0",
            "fanout=random",
            "member=1/2",
            "vlan=on",
            "fanout=qm",
            "fanout=qm&group=7",
            "fanout=qm&group=7&member=2/2",
            "fanout=qm&group=x&member=0/2",
        ] {
            assert!(matches!(read(&format!("packet:eth0?{bad}")), Err(PortError::BadValue { .. })), "{bad}");
        }
        assert!(matches!(read("packet:eth0?queue=1"), Err(PortError::UnknownKey { .. })));
    }
}
