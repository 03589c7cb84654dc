//! A program under construction.

use super::insn::{Alu, Cond, Helper, Insn, Operand, Reg, Width, class};
use super::map::Map;

/// A place in a program that jumps lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// A program that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AsmError {
    /// A jump to a label that was never placed.
    #[error("instruction {0} jumps to a label that was never placed")]
    Unplaced(usize),
    /// A jump farther than 16 bits reach.
    #[error("instruction {0} jumps too far")]
    TooFar(usize),
    /// Nothing in it.
    #[error("there is no instruction in it")]
    Empty,
}

/// Builds a program instruction by instruction. Jumps go to [`Label`]s, forward or back. What the kernel's verifier
/// demands (bounds checks before packet access, no use of R1–R5 after a call) is the author's business.
#[derive(Default)]
pub struct Asm {
    insns: Vec<Insn>,
    places: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Asm {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// A new label, to be placed later.
    pub fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// The label means the next instruction.
    pub fn place(&mut self, label: Label) -> &mut Self {
        self.places[label.0] = Some(self.insns.len());
        self
    }

    fn emit(&mut self, code: u8, dst: Reg, src: u8, off: i16, imm: i32) -> &mut Self {
        self.insns.push(Insn { code, regs: dst as u8 | (src << 4), off, imm });
        self
    }

    fn emit_operand(&mut self, code: u8, dst: Reg, operand: Operand, off: i16) -> &mut Self {
        match operand {
            Operand::Reg(src) => self.emit(code | class::SOURCE_REG, dst, src as u8, off, 0),
            Operand::Imm(imm) => self.emit(code, dst, 0, off, imm),
        }
    }

    /// `dst = dst op operand` on 64 bits.
    pub fn alu(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.emit_operand(class::ALU64 | op as u8, dst, operand.into(), 0)
    }

    /// `dst = dst op operand` on the lower 32 bits; the upper become 0.
    pub fn alu32(&mut self, op: Alu, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.emit_operand(class::ALU | op as u8, dst, operand.into(), 0)
    }

    /// `dst = operand`.
    pub fn mov(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.alu(Alu::Mov, dst, operand)
    }

    /// `dst += operand`.
    pub fn add(&mut self, dst: Reg, operand: impl Into<Operand>) -> &mut Self {
        self.alu(Alu::Add, dst, operand)
    }

    /// Between the host's order and network order, on the lower `bits` (16, 32 or 64); the rest become 0.
    pub fn to_network(&mut self, dst: Reg, bits: i32) -> &mut Self {
        self.emit(class::ALU | class::END | class::SOURCE_REG, dst, 0, 0, bits)
    }

    /// `dst = *(width *)(src + off)`, zero-extended.
    pub fn load(&mut self, width: Width, dst: Reg, src: Reg, off: i16) -> &mut Self {
        self.emit(class::LDX | class::MEM | width as u8, dst, src as u8, off, 0)
    }

    /// `*(width *)(dst + off) = operand`.
    pub fn store(&mut self, width: Width, dst: Reg, off: i16, operand: impl Into<Operand>) -> &mut Self {
        match operand.into() {
            Operand::Reg(src) => self.emit(class::STX | class::MEM | width as u8, dst, src as u8, off, 0),
            Operand::Imm(imm) => self.emit(class::ST | class::MEM | width as u8, dst, 0, off, imm),
        }
    }

    /// `*(width *)(dst + off) += src` in one piece; Word or Double.
    pub fn atomic_add(&mut self, width: Width, dst: Reg, off: i16, src: Reg) -> &mut Self {
        self.emit(class::STX | class::ATOMIC | width as u8, dst, src as u8, off, 0)
    }

    /// Socket filters only: R0 = packet bytes at `offset` in the host's order; ends the program with 0 beyond the
    /// packet. The context must be in R6; R1–R5 are lost.
    pub fn load_packet(&mut self, width: Width, offset: i32) -> &mut Self {
        self.emit(class::LD | class::ABS | width as u8, Reg::R0, 0, 0, offset)
    }

    /// As [`Asm::load_packet`], at `src + offset`.
    pub fn load_packet_at(&mut self, width: Width, src: Reg, offset: i32) -> &mut Self {
        self.emit(class::LD | class::IND | width as u8, Reg::R0, src as u8, 0, offset)
    }

    /// `dst = value`, all 64 bits.
    pub fn load_constant(&mut self, dst: Reg, value: u64) -> &mut Self {
        self.wide(dst, 0, value)
    }

    /// `dst = &map`, for helpers. The map must live until the program is loaded; from then on the program keeps it.
    pub fn load_map(&mut self, dst: Reg, map: &Map) -> &mut Self {
        // A descriptor is not negative.
        self.wide(dst, class::PSEUDO_MAP_FD, map.raw_fd() as u32 as u64)
    }

    fn wide(&mut self, dst: Reg, src: u8, value: u64) -> &mut Self {
        // The two halves, cut on purpose.
        self.emit(class::LD | class::IMM | Width::Double as u8, dst, src, 0, value as u32 as i32);
        self.insns.push(Insn { imm: (value >> 32) as u32 as i32, ..Insn::default() });
        self
    }

    /// Goes on at `to`.
    pub fn jump(&mut self, to: Label) -> &mut Self {
        self.jumps.push((self.insns.len(), to));
        self.emit(class::JMP | class::JA, Reg::R0, 0, 0, 0)
    }

    /// Goes on at `to` when `dst cond operand`.
    pub fn jump_if(&mut self, cond: Cond, dst: Reg, operand: impl Into<Operand>, to: Label) -> &mut Self {
        self.jumps.push((self.insns.len(), to));
        self.emit_operand(class::JMP | cond as u8, dst, operand.into(), 0)
    }

    /// Calls a kernel function.
    pub fn call(&mut self, helper: Helper) -> &mut Self {
        self.emit(class::JMP | class::CALL, Reg::R0, 0, 0, helper as i32)
    }

    /// Ends the program with what is in R0.
    pub fn exit(&mut self) -> &mut Self {
        self.emit(class::JMP | class::EXIT, Reg::R0, 0, 0, 0)
    }

    /// The finished program.
    ///
    /// # Errors
    /// [`AsmError`] when it is empty or a jump leads nowhere.
    pub fn build(&self) -> Result<Vec<Insn>, AsmError> {
        if self.insns.is_empty() {
            return Err(AsmError::Empty);
        }
        let mut insns = self.insns.clone();
        for &(at, label) in &self.jumps {
            let place = self.places[label.0].filter(|&place| place < insns.len()).ok_or(AsmError::Unplaced(at))?;
            let distance = place as i64 - (at as i64 + 1);
            insns[at].off = i16::try_from(distance).map_err(|_| AsmError::TooFar(at))?;
        }
        Ok(insns)
    }
}

#[cfg(test)]
mod tests {
    use super::Reg::*;
    use super::*;

    /// The bytes of a program, as the kernel sees them on a little-endian machine.
    fn bytes(asm: &Asm) -> Vec<u8> {
        let insns = asm.build().expect("well formed");
        insns
            .iter()
            .flat_map(|i| {
                let mut raw = vec![i.code, i.regs];
                raw.extend(i.off.to_le_bytes());
                raw.extend(i.imm.to_le_bytes());
                raw
            })
            .collect()
    }

    fn one(build: impl FnOnce(&mut Asm) -> &mut Asm) -> Vec<u8> {
        let mut asm = Asm::new();
        build(&mut asm);
        bytes(&asm)
    }

    #[test]
    fn encodings_are_those_of_the_instruction_set() {
        // Each right-hand side is what clang and llvm-mc write for the assembly in the comment.
        type Case = (fn(&mut Asm) -> &mut Asm, &'static [u8]);
        let cases: [Case; 20] = [
            // r1 = r2
            (|a| a.mov(R1, R2), &[0xbf, 0x21, 0, 0, 0, 0, 0, 0]),
            // r0 = 2
            (|a| a.mov(R0, 2), &[0xb7, 0x00, 0, 0, 2, 0, 0, 0]),
            // w3 = -1
            (|a| a.alu32(Alu::Mov, R3, -1), &[0xb4, 0x03, 0, 0, 0xff, 0xff, 0xff, 0xff]),
            // r2 += -4
            (|a| a.add(R2, -4), &[0x07, 0x02, 0, 0, 0xfc, 0xff, 0xff, 0xff]),
            // r4 += r5
            (|a| a.add(R4, R5), &[0x0f, 0x54, 0, 0, 0, 0, 0, 0]),
            // r3 &= 15
            (|a| a.alu(Alu::And, R3, 15), &[0x57, 0x03, 0, 0, 15, 0, 0, 0]),
            // r3 <<= 2
            (|a| a.alu(Alu::Shl, R3, 2), &[0x67, 0x03, 0, 0, 2, 0, 0, 0]),
            // r9 = *(u16 *)(r7 + 12)
            (|a| a.load(Width::Half, R9, R7, 12), &[0x69, 0x79, 12, 0, 0, 0, 0, 0]),
            // r1 = *(u8 *)(r2 + 0)
            (|a| a.load(Width::Byte, R1, R2, 0), &[0x71, 0x21, 0, 0, 0, 0, 0, 0]),
            // r1 = *(u32 *)(r6 + 16)
            (|a| a.load(Width::Word, R1, R6, 16), &[0x61, 0x61, 16, 0, 0, 0, 0, 0]),
            // *(u32 *)(r10 - 4) = 0
            (|a| a.store(Width::Word, R10, -4, 0), &[0x62, 0x0a, 0xfc, 0xff, 0, 0, 0, 0]),
            // *(u64 *)(r10 - 8) = r1
            (|a| a.store(Width::Double, R10, -8, R1), &[0x7b, 0x1a, 0xf8, 0xff, 0, 0, 0, 0]),
            // lock *(u64 *)(r0 + 8) += r1
            (|a| a.atomic_add(Width::Double, R0, 8, R1), &[0xdb, 0x10, 8, 0, 0, 0, 0, 0]),
            // r2 = be16 r2
            (|a| a.to_network(R2, 16), &[0xdc, 0x02, 0, 0, 16, 0, 0, 0]),
            // r0 = *(u32 *)skb[48]
            (|a| a.load_packet(Width::Word, 48), &[0x20, 0, 0, 0, 48, 0, 0, 0]),
            // r0 = *(u16 *)skb[r3 + 2]
            (|a| a.load_packet_at(Width::Half, R3, 2), &[0x48, 0x30, 0, 0, 2, 0, 0, 0]),
            // call 51
            (|a| a.call(Helper::RedirectMap), &[0x85, 0, 0, 0, 51, 0, 0, 0]),
            // exit
            (|a| a.exit(), &[0x95, 0, 0, 0, 0, 0, 0, 0]),
            // r1 -= r2
            (|a| a.alu(Alu::Sub, R1, R2), &[0x1f, 0x21, 0, 0, 0, 0, 0, 0]),
            // r1 ^= 7
            (|a| a.alu(Alu::Xor, R1, 7), &[0xa7, 0x01, 0, 0, 7, 0, 0, 0]),
        ];
        for (at, (build, wanted)) in cases.iter().enumerate() {
            assert_eq!(one(build), *wanted, "case {at}");
        }
    }

    #[test]
    fn a_wide_constant_takes_two_instructions() {
        let got = one(|a| a.load_constant(R1, 0x1122_3344_5566_7788));
        assert_eq!(got, [0x18, 1, 0, 0, 0x88, 0x77, 0x66, 0x55, 0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11]);
    }

    #[test]
    fn jumps_count_from_the_next_instruction_in_both_directions() {
        let mut asm = Asm::new();
        let (back, out) = (asm.label(), asm.label());
        asm.place(back)
            .jump_if(Cond::Eq, R1, 5, out)
            .load_constant(R2, 1)
            .jump_if(Cond::Gt, R1, R2, back)
            .place(out)
            .exit();
        let insns = asm.build().expect("well formed");
        assert_eq!((insns[0].code, insns[0].off), (0x15, 3), "over the wide constant and the jump");
        assert_eq!((insns[3].code, insns[3].regs, insns[3].off), (0x2d, 0x21, -4));
    }

    #[test]
    fn a_jump_to_nowhere_is_named() {
        let mut asm = Asm::new();
        assert_eq!(asm.build(), Err(AsmError::Empty));
        let lost = asm.label();
        asm.mov(R0, 0).jump(lost).exit();
        assert_eq!(asm.build(), Err(AsmError::Unplaced(1)));
        asm.place(lost);
        assert_eq!(asm.build(), Err(AsmError::Unplaced(1)), "a label behind the last instruction leads out");
        asm.exit();
        assert_eq!(asm.build().expect("well formed")[1].off, 1);
    }

    #[test]
    fn a_jump_too_far_is_named() {
        let mut asm = Asm::new();
        let far = asm.label();
        asm.jump(far);
        for _ in 0..40_000 {
            asm.mov(R0, 0);
        }
        asm.place(far).exit();
        assert_eq!(asm.build(), Err(AsmError::TooFar(0)));
    }
}
