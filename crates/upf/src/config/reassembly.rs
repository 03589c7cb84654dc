//! `[reassembly]`: users' fragments put together before rules look at them.

use dataplane::reassemble;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, ConfigError, wrong};

/// Users' fragments are put together where this section stands, so that rules with ports, translation and access lists
/// see whole packets. What does not fit a link is cut again behind them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Reassembly {
    /// Bytes held, per worker and direction.
    #[serde(deserialize_with = "quantity::read::bytes::deserialize")]
    #[schemars(schema_with = "quantity::read::bytes::schema")]
    pub bytes: usize,
    /// Packets that may be incomplete, per worker and direction.
    pub packets: usize,
    /// Packets of one subscriber that may be incomplete.
    pub packets_per_subscriber: u32,
    /// Fragments a packet may have.
    pub fragments_per_packet: u16,
    /// Seconds until an incomplete packet is given up.
    #[serde(deserialize_with = "quantity::read::seconds::deserialize")]
    #[schemars(schema_with = "quantity::read::seconds::schema")]
    pub seconds: u32,
}

impl Default for Reassembly {
    fn default() -> Self {
        let usual = reassemble::Config::default();
        Self {
            bytes: usual.bytes,
            packets: usual.packets,
            packets_per_subscriber: usual.packets_per_owner,
            fragments_per_packet: usual.fragments_per_packet,
            seconds: (usual.timeout_ns / 1_000_000_000) as u32, // a few
        }
    }
}

impl Reassembly {
    /// What the stages are configured with.
    pub fn stage(&self, config: &Config) -> reassemble::Config {
        reassemble::Config {
            bytes: self.bytes,
            packets: self.packets,
            packets_per_owner: self.packets_per_subscriber,
            fragments_per_packet: self.fragments_per_packet,
            timeout_ns: u64::from(self.seconds) * 1_000_000_000,
            largest: usize::from(config.frames.packet_buffer_bytes).saturating_sub(frame::HEADROOM.into()),
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for (key, is, least) in [
            ("bytes", self.bytes, 65_536),
            ("packets", self.packets, 16),
            ("packets_per_subscriber", self.packets_per_subscriber as usize, 1),
            ("fragments_per_packet", self.fragments_per_packet.into(), 2),
            ("seconds", self.seconds as usize, 1),
        ] {
            if is < least {
                let help = format!("{least} or more; leave it out, or take [reassembly] out");
                return Err(wrong(&[&"reassembly", &key], "too little to put a packet together", help));
            }
        }
        Ok(())
    }
}
