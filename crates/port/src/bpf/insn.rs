//! What an eBPF instruction is made of. Encodings follow the kernel's `Documentation/bpf/standardization/instruction-set`.

/// One instruction as the kernel reads it; `lddw` takes two.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Insn {
    /// Class, operation, source kind.
    pub code: u8,
    /// Destination register in the low nibble, source in the high.
    pub regs: u8,
    /// Offset of a jump (from the next instruction) or of a memory access.
    pub off: i16,
    /// Immediate operand.
    pub imm: i32,
}

/// A register. R0 is the result, R1–R5 arguments (lost by a call), R6–R9 kept, R10 the frame pointer (read only,
/// 512 bytes of stack below it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// How much a load or store moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Width {
    /// One byte.
    Byte = 0x10,
    /// Two bytes.
    Half = 0x08,
    /// Four bytes.
    Word = 0x00,
    /// Eight bytes.
    Double = 0x18,
}

/// Arithmetic on 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Shl = 0x60,
    Shr = 0x70,
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
}

/// When a conditional jump is taken; comparisons are unsigned unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cond {
    /// Equal.
    Eq = 0x10,
    /// Greater.
    Gt = 0x20,
    /// Greater or equal.
    Ge = 0x30,
    /// Any common bit.
    AnyBit = 0x40,
    /// Not equal.
    Ne = 0x50,
    /// Greater, signed.
    SignedGt = 0x60,
    /// Greater or equal, signed.
    SignedGe = 0x70,
    /// Less.
    Lt = 0xa0,
    /// Less or equal.
    Le = 0xb0,
}

/// A right-hand side: a register or a constant (sign-extended to 64 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A constant.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Self {
        Self::Imm(imm)
    }
}

/// Kernel functions a program may call, by their number in `enum bpf_func_id`. Arguments go in R1–R5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Helper {
    /// (map, &key) → &value or 0.
    MapLookup = 1,
    /// (map, &key, &value, flags).
    MapUpdate = 2,
    /// (map, &key).
    MapDelete = 3,
    /// () → nanoseconds since boot.
    KtimeNs = 5,
    /// () → a random u32.
    RandomU32 = 7,
    /// () → number of the CPU.
    CpuId = 8,
    /// (skb, offset, &from, len, flags).
    SkbStoreBytes = 9,
    /// (ctx, program array, index): does not return unless the slot is empty.
    TailCall = 12,
    /// (skb, protocol, tci).
    SkbVlanPush = 18,
    /// (skb).
    SkbVlanPop = 19,
    /// (ifindex, flags) → verdict.
    Redirect = 23,
    /// (skb, offset, &to, len).
    SkbLoadBytes = 26,
    /// (ctx, delta).
    XdpAdjustHead = 44,
    /// (map, key, flags) → verdict; the low bits of flags are the verdict when the map has no such key.
    RedirectMap = 51,
    /// (ctx, delta).
    XdpAdjustTail = 65,
}

pub(crate) mod class {
    pub const LD: u8 = 0x00;
    pub const LDX: u8 = 0x01;
    pub const ST: u8 = 0x02;
    pub const STX: u8 = 0x03;
    pub const ALU: u8 = 0x04;
    pub const JMP: u8 = 0x05;
    pub const ALU64: u8 = 0x07;

    pub const IMM: u8 = 0x00;
    pub const ABS: u8 = 0x20;
    pub const IND: u8 = 0x40;
    pub const MEM: u8 = 0x60;
    pub const ATOMIC: u8 = 0xc0;

    pub const SOURCE_REG: u8 = 0x08;
    pub const JA: u8 = 0x00;
    pub const CALL: u8 = 0x80;
    pub const EXIT: u8 = 0x90;
    pub const END: u8 = 0xd0;

    /// Source register of `lddw` whose constant is a map's file descriptor.
    pub const PSEUDO_MAP_FD: u8 = 1;
}
