//! Keeping TCP segments small enough for the tunnels we add (RFC 9293, 3.7.1; the practice of RFC 4459, 3.2).
//!
//! Path MTU discovery is broken often enough that networks which make packets longer announce a smaller maximum
//! segment size in the subscriber's name: only SYNs carry it, so it costs the others one look at the protocol.

use engine::{Burst, Ctx, Kind, Stage};
use wire::{Fragment, L3L4, checksum, fast, protocol};

use crate::StageConfig;
use crate::parse::HasIp;

/// The SYN flag, in the header's fourteenth byte.
const SYN: u8 = 2;
/// The option: maximum segment size, four bytes in all.
const MSS: u8 = 2;
const NOP: u8 = 1;
const CHECKSUM: usize = 16;

/// The largest segment that fits a packet of `mtu` bytes, without options (RFC 6691).
pub const fn for_mtu(mtu: u16, version: u8) -> u16 {
    mtu.saturating_sub(if version == 4 { 40 } else { 60 })
}

/// Lowers the maximum segment size that the packet announces to `most`, in bytes; returns whether it did.
///
/// `h` was read from `ip`. A SYN that announces none is left alone: 536 or 1220 bytes are then assumed, which fit.
#[inline]
pub fn clamp(ip: &mut [u8], h: &L3L4, most: u16) -> bool {
    let may = h.protocol == protocol::TCP && h.fragment == Fragment::Whole;
    may && usize::try_from(h.total_len)
        .is_ok_and(|total| ip.get_mut(usize::from(h.l4)..total).is_some_and(|tcp| lower(tcp, most).is_some()))
}

/// `None` if there was nothing to lower; nothing is changed then.
fn lower(tcp: &mut [u8], most: u16) -> Option<()> {
    if fast::be8(tcp, 13)? & SYN == 0 {
        return None;
    }
    let header = usize::from(fast::be8(tcp, 12)? >> 4) * 4;
    let tcp = tcp.get_mut(..header)?;
    let mut at = 20;
    loop {
        match (fast::be8(tcp, at)?, fast::be8(tcp, at + 1)) {
            (0, _) => return None,
            (NOP, _) => at += 1,
            (MSS, Some(4)) => break,
            (_, Some(len @ 2..)) => at += usize::from(len),
            _ => return None,
        }
    }
    let old = fast::be16(tcp, at + 2).filter(|old| *old > most)?;
    let check = fast::be16(tcp, CHECKSUM)?;
    fast::put16(tcp, at + 2, most)?;
    // At an odd offset the field's bytes lie in two words, each on the other side.
    let (was, is) = if at % 2 == 0 { (old, most) } else { (old.swap_bytes(), most.swap_bytes()) };
    fast::put16(tcp, CHECKSUM, checksum::adjust16(check, was, is))
}

/// Lowers what subscribers' TCP segments may measure to what the port a packet came by, or leaves by, is configured for.
/// Stands behind the stage that chose the port, before the tunnel. `HELD`: for packets that were held, and no longer know
/// the port they came by.
#[derive(Clone, Debug, Default)]
pub struct ClampMss<const HELD: bool = false> {
    /// By port; 65,535: as it is. Empty where no port is configured.
    most: Box<[u16]>,
    /// The least of them, for packets that no longer know the port they came by.
    least: Option<u16>,
}

impl<const HELD: bool> ClampMss<HELD> {
    fn new(by_port: &[Option<u16>]) -> Self {
        if by_port.iter().all(Option::is_none) {
            return Self::default();
        }
        let least = by_port.iter().flatten().copied().min().filter(|_| HELD);
        Self { most: by_port.iter().map(|most| most.unwrap_or(u16::MAX)).collect(), least }
    }

    fn of(&self, port: u8) -> u16 {
        self.most.get(usize::from(port)).copied().unwrap_or(u16::MAX)
    }
}

impl<K: Kind, const HELD: bool> Stage<K> for ClampMss<HELD>
where
    K::Lane: HasIp,
    K::Config: StageConfig,
{
    const NAME: &'static str = "clamp_mss";

    fn build(config: &K::Config) -> Self {
        Self::new(config.mss())
    }

    #[inline]
    fn is_on(&self) -> bool {
        !self.most.is_empty()
    }

    #[inline(never)]
    fn run(&mut self, burst: &mut Burst<K>, cx: &mut Ctx<'_, K>) {
        let arena = cx.env.arena();
        for i in burst.live() {
            let ip = *burst.lane.ip(i);
            if ip.protocol != protocol::TCP {
                continue;
            }
            let (from, l3) = (burst.frame(i).meta.port, usize::from(burst.frame(i).meta.l3));
            let most = self.least.unwrap_or(self.of(from).min(self.of(burst.out(i))));
            if most == u16::MAX {
                continue;
            }
            let most = most.saturating_sub(if ip.version == 4 { 0 } else { 20 });
            clamp(burst.bytes_mut(i, arena).get_mut(l3..).unwrap_or_default(), &ip, most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 packet with a TCP header of these flags and options (padded), the checksum right.
    fn segment(flags: u8, options: &[u8]) -> Vec<u8> {
        let mut tcp = vec![0, 80, 0, 90, 1, 2, 3, 4, 0, 0, 0, 0, 0, flags, 0xff, 0xff, 0, 0, 0, 0];
        tcp.extend(options);
        tcp.resize(tcp.len().next_multiple_of(4), 0);
        tcp[12] = (tcp.len() / 4 * 16) as u8;
        tcp.extend(b"data");
        let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let len = (20 + tcp.len()) as u16;
        fast::put16(&mut ip, 2, len).unwrap();
        let check = checksum::of(&ip);
        fast::put16(&mut ip, 10, check).unwrap();
        ip.extend(tcp);
        let check = checksum::finish(sum(&ip));
        fast::put16(&mut ip, 36, check).unwrap();
        ip
    }

    fn sum(ip: &[u8]) -> u16 {
        let pseudo = checksum::pseudo4(0x0a00_0001, 0x0a00_0002, 6, (ip.len() - 20) as u16);
        checksum::combine(pseudo, checksum::sum(&ip[20..]))
    }

    fn clamped(ip: &[u8], most: u16) -> Option<Vec<u8>> {
        let mut ip = ip.to_vec();
        let h = L3L4::parse(&ip).unwrap();
        let before = ip.clone();
        let did = clamp(&mut ip, &h, most);
        assert!(did || ip == before);
        did.then_some(ip)
    }

    #[test]
    fn lowers_at_even_and_odd_offsets() {
        for options in [&[2, 4, 5, 0xb4][..], &[1, 2, 4, 5, 0xb4], &[3, 3, 7, 2, 4, 5, 0xb4, 4, 2]] {
            let ip = segment(SYN, options);
            let lower = clamped(&ip, 1400).unwrap();
            assert!(checksum::is_valid(sum(&lower)), "{options:?}");
            assert!(lower.windows(4).any(|w| w == [2, 4, 0x05, 0x78]));
            assert_eq!(clamped(&lower, 1400), None);
            assert_eq!(clamped(&ip, 1460), None);
        }
        assert_eq!((for_mtu(1400, 4), for_mtu(1400, 6), for_mtu(20, 6)), (1360, 1340, 0));
    }

    #[test]
    fn leaves_everything_else_alone() {
        assert_eq!(clamped(&segment(0x10, &[2, 4, 5, 0xb4]), 100), None, "no SYN");
        for options in [&[][..], &[0, 2, 4, 5], &[2, 3, 5], &[9, 0, 2, 4], &[9, 1, 2, 4], &[9, 40, 2, 4], &[1, 1, 1, 2]]
        {
            assert_eq!(clamped(&segment(SYN, options), 100), None, "{options:?}");
        }
        let mut esp = segment(SYN, &[2, 4, 5, 0xb4]);
        esp[9] = 50;
        esp[11] = esp[11].wrapping_sub(44);
        assert!(L3L4::parse(&esp).is_ok());
        assert_eq!(clamped(&esp, 100), None);
    }

    proptest! {
        #[test]
        fn nothing_panics_and_checksums_stay_right(options in prop::collection::vec(prop_oneof![0u8..6, any::<u8>()], 0..40), most: u16) {
            if let Some(ip) = clamped(&segment(SYN, &options), most) {
                // All zeroes and all ones are the same sum; only here can both appear.
                prop_assert!(checksum::is_valid(sum(&ip)));
            }
        }

        #[test]
        fn nothing_panics(mut tcp in prop::collection::vec(any::<u8>(), 0..60), most: u16) {
            let _ = lower(&mut tcp, most);
        }
    }
}
