//! From the access network's priority to the core's.

use dataplane::parse::HasIp;
use engine::{Burst, Ctx, Stage};
use wire::{checksum, fast};

use crate::lane::Bng;
use crate::pipeline::Choices;

/// Writes the DSCP that the subscriber's profile has for the priority code point of the outer tag (RFC 2474; IEEE 802.1Q,
/// 6.9). Off where no profile has some.
#[derive(Default)]
pub struct Mark {
    on: bool,
}

impl Stage<Bng> for Mark {
    const NAME: &'static str = "mark";

    fn build(choices: &Choices) -> Self {
        Self { on: choices.marks }
    }

    #[inline]
    fn is_on(&self) -> bool {
        self.on
    }

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<Bng>, cx: &mut Ctx<'_, Bng>) {
        let arena = cx.env.arena();
        let subscribers = &cx.state.subscribers;
        for i in burst.live() {
            let profile = subscribers.head(burst.lane.record[i]).and_then(|head| subscribers.profile(head.profile));
            let Some(table) = profile.and_then(|profile| profile.dscp) else { continue };
            let (l3, ip) = (usize::from(burst.frame(i).meta.l3), *burst.lane.ip(i));
            let bytes = burst.bytes_mut(i, arena);
            // Untagged frames have the default priority.
            let priority = if l3 > 14 { fast::be8(bytes, 14).unwrap_or(0) >> 5 } else { 0 };
            let tos = table[usize::from(priority)] << 2 | ip.ecn();
            let Some(packet) = bytes.get_mut(l3..) else { continue };
            write_tos(packet, ip.version, tos);
            burst.lane.ip_mut(i).tos = tos;
        }
    }
}

/// Writes the type of service or traffic class, mending IPv4's checksum (RFC 1624).
fn write_tos(packet: &mut [u8], version: u8, tos: u8) -> Option<()> {
    let word = fast::be16(packet, 0)?;
    if version == 4 {
        let (new, check) = (word & 0xff00 | u16::from(tos), fast::be16(packet, 10)?);
        fast::put16(packet, 10, checksum::adjust16(check, word, new))?;
        fast::put16(packet, 0, new)
    } else {
        fast::put16(packet, 0, word & 0xf00f | u16::from(tos) << 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_header_keeps_a_valid_checksum() {
        let mut packet = [0x45, 0x03, 0, 20, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let check = checksum::of(&packet);
        fast::put16(&mut packet, 10, check);
        write_tos(&mut packet, 4, 0xbb);
        assert_eq!((packet[1], checksum::is_valid(checksum::sum(&packet))), (0xbb, true));
        let mut packet = [0x60, 0x0f, 0xff, 0xff];
        write_tos(&mut packet, 6, 0xb8);
        assert_eq!(packet, [0x6b, 0x8f, 0xff, 0xff]);
    }
}
