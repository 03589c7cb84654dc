//! `PACKET_AUXDATA`: what the kernel tells beside a received packet.

use libc::{cmsghdr, tpacket_auxdata};

use super::line::Aside;

/// Room for one control message of auxiliary data, the only kind we ask for.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(super) struct Control {
    head: [usize; 2],
    data: [u32; 6],
}

const _: () = assert!(size_of::<cmsghdr>() == 16 && size_of::<tpacket_auxdata>() == 20);

impl Control {
    pub(super) const fn new() -> Self {
        Self { head: [0; 2], data: [0; 6] }
    }

    /// Has the kernel write here.
    pub(super) fn offer(&mut self, message: &mut libc::msghdr) {
        message.msg_control = (&raw mut *self).cast();
        message.msg_controllen = size_of::<Self>();
    }

    /// What the kernel wrote, of the length it told.
    #[inline]
    pub(super) fn read(&self, len: usize) -> Aside {
        // struct cmsghdr { len, (level, type) }; struct tpacket_auxdata { status, len, snaplen, mac:16 net:16,
        // tci:16 tpid:16 }.
        let kind = self.head[1].to_ne_bytes();
        let [a, b, c, d, e, f, g, h] = kind;
        let level = i32::from_ne_bytes([a, b, c, d]);
        let kind = i32::from_ne_bytes([e, f, g, h]);
        let whole = size_of::<cmsghdr>() + size_of::<tpacket_auxdata>();
        if len < whole || self.head[0] < whole || level != libc::SOL_PACKET || kind != libc::PACKET_AUXDATA {
            return Aside::default();
        }
        let [a, b, c, d] = self.data[4].to_ne_bytes();
        Aside { status: self.data[0], tci: u16::from_ne_bytes([a, b]), tpid: u16::from_ne_bytes([c, d]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_only_whole_auxiliary_data() {
        let mut control = Control::new();
        let kind = (libc::PACKET_AUXDATA as u64) << 32 | libc::SOL_PACKET as u64;
        control.head = [36, kind.to_le() as usize];
        control.data = [0x51, 60, 60, 0, u32::from_ne_bytes([0x07, 0x20, 0xa8, 0x88]), 0];
        if cfg!(target_endian = "little") {
            assert_eq!(control.read(40), Aside { status: 0x51, tci: 0x2007, tpid: 0x88a8 });
        }
        assert_eq!(control.read(16), Aside::default());
        control.head[0] = 20;
        assert_eq!(control.read(40), Aside::default());
        control.head = [36, 1];
        assert_eq!(control.read(40), Aside::default());
    }
}
