//! Checksums that a device verifies or makes.
//!
//! Only what saves work is asked of a device: the sum over a whole packet that the gateway would make itself. IPv4
//! header sums cover twenty bytes of a cache line that is read anyway, and are verified and made in software.
//!
//! A device's good verdict is taken; a bad one, and none, are not: the packet is summed in software before it is
//! dropped.

use frame::{Arena, Frame, flags};
use port::Offloads;

/// Verified by the device: bit of [`crate::sys::DeviceInfo::offloads`].
const VERIFY_UDP: u8 = 1;
/// Made by the device.
const COMPLETE_UDP6: u8 = 2;
/// Verdicts of a received packet.
pub const GOOD: u8 = 1;
/// As above.
pub const BAD: u8 = 2;

/// Drivers whose other end, another process of this host, would leave checksums of its own packets unfinished as soon
/// as verification is asked for, and takes ours as they are.
const NOT_ASKED: &[&str] = &["net_virtio", "net_virtio_user", "net_vhost"];

/// What the device of that driver is asked for, in the shim's bits. One that packets are copied for is asked for
/// nothing.
pub fn wanted(offloads: Offloads, driver: &str, copies: bool) -> u8 {
    if copies || NOT_ASKED.contains(&driver) {
        return 0;
    }
    (u8::from(offloads.verify_udp) * VERIFY_UDP) | (u8::from(offloads.complete_udp6) * COMPLETE_UDP6)
}

/// What a device does, of the shim's bits.
pub fn granted(bits: u8) -> Offloads {
    Offloads { verify_udp: bits & VERIFY_UDP != 0, complete_udp6: bits & COMPLETE_UDP6 != 0 }
}

/// What is said of them in a port's detail.
pub fn words(offloads: Offloads) -> &'static str {
    match (offloads.verify_udp, offloads.complete_udp6) {
        (false, false) => "",
        (true, false) => ", verifies UDP checksums",
        (false, true) => ", makes UDP checksums over IPv6",
        (true, true) => ", verifies UDP checksums, makes those over IPv6",
    }
}

/// Packets of which a device has verified, or is to make, a checksum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Received, verified, right.
    pub good: u64,
    /// Received, and wrong by the device's word.
    pub bad: u64,
    /// Sent, the checksum made by the device.
    pub left: u64,
    /// Its unfinished checksum could not be completed: it is wrong, and so the receiver finds it.
    pub unfinished: u64,
}

impl Counts {
    /// Tells those of what a device does.
    pub fn tell(&self, of: Offloads, tell: &mut dyn FnMut(&'static str, u64)) {
        if of.verify_udp {
            tell("rx_checksum_good", self.good);
            tell("rx_checksum_bad", self.bad);
        }
        if of.complete_udp6 {
            tell("tx_checksum_left", self.left);
        }
        if self.unfinished > 0 {
            tell("tx_checksum_unfinished", self.unfinished);
        }
    }

    /// The length of the link header of a frame to be sent whose checksum is left to the device. 0: it was made here,
    /// the device or the frame not being such.
    #[cold]
    pub fn leave(&mut self, arena: &Arena, frame: &mut Frame, of: Offloads) -> u8 {
        let bytes = arena.bytes_mut(frame);
        let at = udp6_at(bytes).filter(|_| of.complete_udp6);
        if at.is_none() {
            self.unfinished += u64::from(!port::complete_checksum(bytes));
            frame.meta.flags &= !flags::UDP_SUM_LEFT;
        }
        at.unwrap_or(0)
    }
}

/// Where IPv6 begins in an Ethernet frame with up to four tags, if UDP is right behind its header.
fn udp6_at(frame: &[u8]) -> Option<u8> {
    let half = |at: usize| frame.get(at..at + 2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    let (mut at, mut kind) = (14, half(12)?);
    while matches!(kind, 0x8100 | 0x88a8 | 0x9100) && at < 30 {
        (at, kind) = (at + 4, half(at + 2)?);
    }
    let is_udp6 = kind == 0x86dd && frame.get(at + 6) == Some(&17) && frame.len() >= at + 48;
    is_udp6.then_some(at as u8) // 30 at most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drivers_of_wires_are_asked() {
        let both = Offloads { verify_udp: true, complete_udp6: true };
        assert_eq!(granted(wanted(both, "net_ice", false)), both);
        for (driver, copies) in [("net_ice", true), ("net_virtio_user", false), ("net_vhost", false)] {
            assert_eq!(wanted(both, driver, copies), 0, "{driver}");
        }
        let one = Offloads { complete_udp6: true, ..Offloads::default() };
        assert_eq!(granted(wanted(one, "net_ice", false)), one);
    }

    #[test]
    fn udp_over_ipv6_is_found_behind_tags() {
        let packet = |tags: &[u8], next: u8| {
            let mut bytes = [&[2; 12][..], tags, &[0x86, 0xdd]].concat();
            let at = bytes.len();
            bytes.extend([0; 48]);
            bytes[at + 6] = next;
            (bytes, at as u8)
        };
        for tags in [&[][..], &[0x81, 0, 0, 7], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9]] {
            let (bytes, at) = packet(tags, 17);
            assert_eq!(udp6_at(&bytes), Some(at));
            assert_eq!(udp6_at(&bytes[..bytes.len() - 1]), None, "no whole UDP header");
            assert_eq!(udp6_at(&packet(tags, 6).0), None, "TCP");
        }
        assert_eq!(udp6_at(&[8; 100]), None);
    }
}
