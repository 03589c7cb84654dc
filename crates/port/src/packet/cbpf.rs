//! A small assembler for classic BPF with labels.
//!
//! Conditional jumps reach 255 instructions only, so each is "not so: skip one" before an unconditional one, which
//! reaches everywhere.

use libc::sock_filter;

/// Where a jump goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// What to compare A with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Equal(u32),
    Least(u32),
    Above(u32),
    Any(u32),
}

/// The most instructions the kernel takes.
const MOST: usize = 4096;

/// Loads from here on count from the network header (SKF_NET_OFF).
const NETWORK_HEADER: u32 = 0xfff0_0000;

const RET_K: u16 = 0x06;
const RET_A: u16 = 0x16;
const JA: u16 = 0x05;

/// A program in the making. A is the accumulator, X the index; loads of packet bytes count from X.
#[derive(Default)]
pub(crate) struct Assembler {
    code: Vec<sock_filter>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label stands here.
    pub(crate) fn here(&mut self, label: Label) -> &mut Self {
        self.labels[label.0] = Some(self.code.len());
        self
    }

    fn op(&mut self, code: u16, k: u32) -> &mut Self {
        self.code.push(sock_filter { code, jt: 0, jf: 0, k });
        self
    }

    /// A = the packet's link-layer protocol, what a removed tag hid.
    pub(crate) fn protocol(&mut self) -> &mut Self {
        self.op(0x28, 0xffff_f000)
    }

    /// A = four octets of a datagram's IP header, in a program of a UDP socket: loads from there are absolute.
    pub(crate) fn ip_word(&mut self, at: u32) -> &mut Self {
        self.op(0x20, NETWORK_HEADER.wrapping_add(at))
    }

    /// A = an octet of a datagram's IP header, in a program of a UDP socket.
    pub(crate) fn ip_byte(&mut self, at: u32) -> &mut Self {
        self.op(0x30, NETWORK_HEADER.wrapping_add(at))
    }

    pub(crate) fn byte(&mut self, at: u32) -> &mut Self {
        self.op(0x50, at)
    }

    pub(crate) fn half(&mut self, at: u32) -> &mut Self {
        self.op(0x48, at)
    }

    pub(crate) fn word(&mut self, at: u32) -> &mut Self {
        self.op(0x40, at)
    }

    /// X = k.
    pub(crate) fn x(&mut self, k: u32) -> &mut Self {
        self.op(0x01, k)
    }

    /// X = a scratch word.
    pub(crate) fn x_from(&mut self, scratch: u32) -> &mut Self {
        self.op(0x61, scratch)
    }

    pub(crate) fn keep_x(&mut self, scratch: u32) -> &mut Self {
        self.op(0x03, scratch)
    }

    pub(crate) fn keep(&mut self, scratch: u32) -> &mut Self {
        self.op(0x02, scratch)
    }

    /// A = a scratch word.
    pub(crate) fn recall(&mut self, scratch: u32) -> &mut Self {
        self.op(0x60, scratch)
    }

    pub(crate) fn x_is_a(&mut self) -> &mut Self {
        self.op(0x07, 0)
    }

    /// X += k. A is lost.
    pub(crate) fn step(&mut self, k: u32) -> &mut Self {
        self.op(0x87, 0).op(0x04, k).x_is_a()
    }

    pub(crate) fn add_x(&mut self) -> &mut Self {
        self.op(0x0c, 0)
    }

    pub(crate) fn xor_x(&mut self) -> &mut Self {
        self.op(0xac, 0)
    }

    pub(crate) fn and(&mut self, k: u32) -> &mut Self {
        self.op(0x54, k)
    }

    pub(crate) fn multiply(&mut self, k: u32) -> &mut Self {
        self.op(0x24, k)
    }

    pub(crate) fn modulo(&mut self, k: u32) -> &mut Self {
        self.op(0x94, k)
    }

    pub(crate) fn shift_left(&mut self, k: u32) -> &mut Self {
        self.op(0x64, k)
    }

    pub(crate) fn shift_right(&mut self, k: u32) -> &mut Self {
        self.op(0x74, k)
    }

    pub(crate) fn give(&mut self, k: u32) -> &mut Self {
        self.op(RET_K, k)
    }

    pub(crate) fn give_a(&mut self) -> &mut Self {
        self.op(RET_A, 0)
    }

    pub(crate) fn jump(&mut self, to: Label) -> &mut Self {
        self.jumps.push((self.code.len(), to));
        self.op(JA, 0)
    }

    /// Goes to the label when A compares so.
    pub(crate) fn compare(&mut self, with: Next, to: Label) -> &mut Self {
        let (code, k) = match with {
            Next::Equal(k) => (0x15, k),
            Next::Above(k) => (0x25, k),
            Next::Least(k) => (0x35, k),
            Next::Any(k) => (0x45, k),
        };
        self.code.push(sock_filter { code, jt: 0, jf: 1, k });
        self.jump(to)
    }

    pub(crate) fn equal(&mut self, k: u32, to: Label) -> &mut Self {
        self.compare(Next::Equal(k), to)
    }

    pub(crate) fn least(&mut self, k: u32, to: Label) -> &mut Self {
        self.compare(Next::Least(k), to)
    }

    /// Goes to the label when A has any of these bits.
    pub(crate) fn any(&mut self, bits: u32, to: Label) -> &mut Self {
        self.compare(Next::Any(bits), to)
    }

    /// Goes to the label unless A is k.
    pub(crate) fn other(&mut self, k: u32, to: Label) -> &mut Self {
        self.code.push(sock_filter { code: 0x15, jt: 1, jf: 0, k });
        self.jump(to)
    }

    /// The program, or none when it is longer than the kernel takes.
    ///
    /// # Panics
    /// On a label that stands nowhere or behind its jump: classic BPF only jumps ahead.
    pub(crate) fn finish(mut self) -> Option<Vec<sock_filter>> {
        for (from, label) in &self.jumps {
            let to = self.labels[label.0].expect("every label stands somewhere");
            let skip = to.checked_sub(from + 1).expect("jumps go ahead");
            self.code[*from].k = u32::try_from(skip).ok()?;
        }
        (self.code.len() <= MOST).then_some(self.code)
    }
}

/// A program that lets nothing through, for a socket not yet set up.
pub(crate) const NOTHING: [sock_filter; 1] = [sock_filter { code: RET_K, jt: 0, jf: 0, k: 0 }];

/// Runs a program over a packet of that protocol, as the kernel would: a load past the end gives 0.
#[cfg(test)]
pub(crate) fn run(code: &[sock_filter], protocol: u16, packet: &[u8]) -> u32 {
    let (mut a, mut x, mut scratch, mut pc) = (0u32, 0u32, [0u32; 16], 0usize);
    let load = |at: u32, len: usize| -> Option<u32> {
        let bytes = packet.get(at as usize..at as usize + len)?;
        Some(bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
    };
    loop {
        let sock_filter { code: op, jt, jf, k } = code[pc];
        pc += 1;
        let mut branch = |so: bool| pc += usize::from(if so { jt } else { jf });
        match op {
            0x28 if k == 0xffff_f000 => a = protocol.into(),
            // The packet is taken to begin with its network header.
            0x20 | 0x30 => match load(k.wrapping_sub(NETWORK_HEADER), if op == 0x20 { 4 } else { 1 }) {
                Some(value) => a = value,
                None => return 0,
            },
            0x40 | 0x48 | 0x50 => match load(x.wrapping_add(k), [4, 2, 1][usize::from(op - 0x40) / 8]) {
                Some(value) => a = value,
                None => return 0,
            },
            0x01 => x = k,
            0x61 => x = scratch[k as usize],
            0x60 => a = scratch[k as usize],
            0x02 => scratch[k as usize] = a,
            0x03 => scratch[k as usize] = x,
            0x07 => x = a,
            0x87 => a = x,
            0x04 => a = a.wrapping_add(k),
            0x0c => a = a.wrapping_add(x),
            0xac => a ^= x,
            0x54 => a &= k,
            0x24 => a = a.wrapping_mul(k),
            0x94 => a %= k,
            0x64 => a <<= k,
            0x74 => a >>= k,
            JA => pc += k as usize,
            0x15 => branch(a == k),
            0x25 => branch(a > k),
            0x35 => branch(a >= k),
            0x45 => branch(a & k != 0),
            RET_K => return k,
            RET_A => return a,
            other => panic!("instruction {other:#x}"),
        }
    }
}
