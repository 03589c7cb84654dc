//! Frames on a wire: sizes, mixes of sizes, and the two conventions of counting bits.
//!
//! A publication's "packets per second at 100 Gbit/s" may count what a frame occupies on the wire (layer 1: 20 bytes
//! more, for preamble, start delimiter and the gap between frames; IEEE 802.3, 4.4.2) or the frame alone (layer 2).
//! Both are in use, sometimes in one table; neither is converted silently here.

use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

use crate::quantity::{BitRate, FrameSize, PacketRate, Quantity};

/// Preamble and start delimiter (8 bytes) and the least gap (12 bytes) around each frame.
pub const AROUND_A_FRAME: FrameSize = FrameSize(20.0);

/// Which bytes count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// All that passes the wire.
    L1,
    /// The frame.
    L2,
}

/// Frames a second that fill a line.
pub fn line_rate(line: BitRate, frame: FrameSize, layer: Layer) -> PacketRate {
    match layer {
        Layer::L1 => line / (frame + AROUND_A_FRAME),
        Layer::L2 => line / frame,
    }
}

/// The bits a second that frames occupy.
pub fn occupied(rate: PacketRate, frame: FrameSize, layer: Layer) -> BitRate {
    match layer {
        Layer::L1 => rate * (frame + AROUND_A_FRAME),
        Layer::L2 => rate * frame,
    }
}

/// Sizes of frames and how often each occurs, by packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    parts: Vec<(FrameSize, f64)>,
}

impl Mix {
    /// All of one size.
    pub fn of(size: FrameSize) -> Self {
        Self { parts: vec![(size, 1.0)] }
    }

    /// Sizes with their weights; only the weights' proportions matter.
    pub fn weighted(parts: &[(f64, f64)]) -> Self {
        Self { parts: parts.iter().map(|(size, weight)| (FrameSize(*size), *weight)).collect() }
    }

    /// `Σ weight·size / Σ weight`.
    pub fn mean(&self) -> FrameSize {
        let weights: f64 = self.parts.iter().map(|(_, weight)| weight).sum();
        FrameSize(self.parts.iter().map(|(size, weight)| size.0 * weight).sum::<f64>() / weights)
    }

    /// Reads `128 B`, or sizes with their weights as in `84:15,256:10,1280:75`.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            |what: &str| format!("\"{text}\": {what}; write \"128 B\", or size:weight as in \"84:15,256:10,1280:75\"");
        let part = |part: &str| -> Option<(FrameSize, f64)> {
            let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
            let size = size.trim().trim_end_matches('B').trim().parse().ok()?;
            Some((FrameSize(size), weight.trim().parse().ok()?))
        };
        let parts: Option<Vec<_>> = text.split(',').map(part).collect();
        let parts = parts.ok_or_else(|| wrong("these are no frame sizes"))?;
        if let Some((size, _)) = parts.iter().find(|(size, _)| !(60.0..=65_536.0).contains(&size.get())) {
            return Err(wrong(&format!("no Ethernet frame has {size} (60 B without FCS is the least)")));
        }
        if parts.iter().any(|(_, weight)| !(weight.is_finite() && *weight >= 0.0)) || parts.iter().all(|p| p.1 == 0.0) {
            return Err(wrong("weights are positive numbers"));
        }
        Ok(Self { parts })
    }
}

impl Serialize for Mix {
    /// As [`Mix::parse`] reads it.
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let parts = self.parts.iter().map(|(size, weight)| format!("{}:{weight}", size.0));
        to.serialize_str(&parts.collect::<Vec<_>>().join(","))
    }
}

impl<'de> Deserialize<'de> for Mix {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_mixes() {
        let up = Mix::parse("84:65,256:18,1280:17").unwrap();
        let down = Mix::parse("84:15,256:10,1280:75").unwrap();
        assert!((up.mean().0 - 318.28).abs() < 1e-9 && (down.mean().0 - 998.2).abs() < 1e-9);
        assert_eq!(Mix::parse("128 B").unwrap(), Mix::of(FrameSize(128.0)));
    }

    #[test]
    fn both_conventions() {
        let (line, frame) = (BitRate(100e9), FrameSize(64.0));
        assert!((line_rate(line, frame, Layer::L1).mpps() - 148.81).abs() < 0.01);
        assert!((line_rate(line, frame, Layer::L2).mpps() - 195.31).abs() < 0.01);
        let rate = line_rate(line, frame, Layer::L1);
        assert!((occupied(rate, frame, Layer::L1).0 - 100e9).abs() < 1.0);
    }

    #[test]
    fn impossible_frames_are_refused() {
        for text in ["12 B", "84:x", "", "84:0", "84:-1,100:2", "100000"] {
            assert!(Mix::parse(text).unwrap_err().contains("84:15,256:10,1280:75"), "{text}");
        }
    }
}
