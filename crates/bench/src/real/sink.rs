//! The far end of a contender's links: an XDP program that counts packets by direction and form, enters their latency in a
//! histogram, copies some of them out for checks, and drops them. It runs in the far ends' NAPI threads.
//!
//! Sending and receiving read the same clock of the kernel, so a latency is what passed between the load's program and this
//! one: two links, the gateway, and the wake-ups between.

use port::bpf::{Alu, Asm, BpfError, Cond, Helper, Label, Map, Program, ProgramType, Reg::*, Width, XdpLink, XdpMode};
use traffic::{Direction, Signature};

use super::histogram::{BINS, Histogram};
use crate::error::BenchError;
use crate::lab::{Lab, Side, interface_index};

/// Bytes of a frame that are copied out.
pub const HEAD: usize = 128;
/// Frames kept, the latest of their place.
const SAMPLES: u32 = 64;
/// A sample: the bytes, then direction and form.
const SAMPLE: usize = HEAD + 8;

/// Where the counters are in the map's value, by direction and form; then those of other packets; then the histograms.
const OTHER: i32 = 32;
const BINS_AT: i32 = 40;
const VALUE: usize = BINS_AT as usize + 2 * BINS * 8;

/// Where a signature can be: in a plain packet, in a tunnel without and with a PDU Session Container.
const PLAIN: i16 = 14 + 28;
const TUNNELS: [i16; 2] = [PLAIN + 36, PLAIN + 44];

/// What has arrived.
#[derive(Clone, Debug, Default)]
pub struct Arrived {
    /// Packets by direction (uplink, downlink) and form (plain, in a tunnel).
    pub packets: [[u64; 2]; 2],
    /// Packets that are none of the load's.
    pub other: u64,
    /// Latencies by direction.
    pub latency: [Histogram; 2],
}

impl Arrived {
    /// What came since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut now = self.clone();
        for way in 0..2 {
            for form in 0..2 {
                now.packets[way][form] -= before.packets[way][form];
            }
            now.latency[way].subtract(&before.latency[way]);
        }
        now.other -= before.other;
        now
    }

    /// Packets of the load: uplink, downlink.
    pub(crate) fn by_direction(&self) -> [u64; 2] {
        self.packets.map(|forms| forms.iter().sum())
    }
}

/// A frame as it arrived.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Its first bytes.
    pub head: [u8; HEAD],
}

/// The program on both far ends of a contender's links. Detached when dropped.
pub struct Sink {
    state: Map,
    samples: Map,
    _program: Program,
    _links: [XdpLink; 2],
}

impl Sink {
    /// Attaches it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach(lab: &Lab, link: usize) -> Result<Self, BenchError> {
        Self::on(lab.load(), Side::BOTH.map(|side| side.load(link)))
    }

    /// Attaches it to the gateway's ends, where no gateway is.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach_near(lab: &Lab, link: usize) -> Result<Self, BenchError> {
        Self::on(lab.gateway(), Side::BOTH.map(|side| side.gateway(link)))
    }

    /// Attaches it to two interfaces of a namespace.
    fn on(netns: &str, names: [String; 2]) -> Result<Self, BenchError> {
        let state = Map::array(VALUE, 1)?;
        let samples = Map::array(SAMPLE, SAMPLES)?;
        let program = program(&state, &samples)?;
        let on = |name: &str| -> Result<XdpLink, BenchError> {
            let index = interface_index(netns, name)?;
            let attached = port::netns::within(netns, || XdpLink::attach(&program, index, XdpMode::Native));
            let attached = attached.map_err(|source| BenchError::Port { uri: format!("namespace {netns}"), source })?;
            Ok(attached?)
        };
        let links = [on(&names[0])?, on(&names[1])?];
        Ok(Self { state, samples, _program: program, _links: links })
    }

    /// What has arrived so far.
    pub fn arrived(&self) -> Arrived {
        let mut value = vec![0; VALUE];
        if self.state.lookup(&[0; 4], &mut value).is_err() {
            return Arrived::default();
        }
        let words: Vec<u64> = value.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let bins = |way: usize| Histogram::of(&words[BINS_AT as usize / 8 + way * BINS..][..BINS]);
        Arrived {
            packets: [[words[0], words[1]], [words[2], words[3]]],
            other: words[OTHER as usize / 8],
            latency: [bins(0), bins(1)],
        }
    }

    /// Packets copied out since last asked.
    pub(crate) fn take_samples(&self) -> Vec<Sample> {
        let mut taken = Vec::new();
        let mut value = [0; SAMPLE];
        for n in 0..SAMPLES {
            let key = n.to_ne_bytes();
            if !matches!(self.samples.lookup(&key, &mut value), Ok(true)) || value[HEAD] == 0 {
                continue;
            }
            if let Some(head) = value.first_chunk() {
                taken.push(Sample { head: *head });
            }
            // One that arrives between is lost; another follows.
            let _ = self.samples.update(&key, &[0; SAMPLE]);
        }
        taken
    }
}

/// A signature's magic number as the program loads it.
fn magic(direction: Direction) -> i32 {
    i32::from(u16::from_ne_bytes(Signature::magic(direction).to_be_bytes()))
}

/// R6 context, then time; R7 state; R8 start of the packet; R9 offset of the packet's counter.
fn program(state: &Map, samples: &Map) -> Result<Program, BenchError> {
    let mut a = Asm::new();
    let [found, other, drop] = std::array::from_fn(|_| a.label());
    a.mov(R6, R1).load(Width::Word, R8, R6, 0).load(Width::Word, R5, R6, 4);
    for (form, at) in [(0, PLAIN), (1, TUNNELS[0]), (1, TUNNELS[1])] {
        let next = a.label();
        look(&mut a, at, form, found, other, next);
    }
    a.place(other).mov(R9, OTHER).mov(R1, 0);
    a.place(found).store(Width::Double, R10, -16, R1);
    a.store(Width::Word, R10, -4, 0).mov(R2, R10).add(R2, -4).load_map(R1, state).call(Helper::MapLookup);
    a.jump_if(Cond::Eq, R0, 0, drop).mov(R7, R0);
    a.mov(R1, R7).alu(Alu::Add, R1, R9).mov(R2, 1).atomic_add(Width::Double, R1, 0, R2);
    a.jump_if(Cond::Eq, R9, OTHER, drop);
    latency(&mut a, drop);
    sample(&mut a, samples, drop);
    a.place(drop).mov(R0, 1).exit();
    let insns = a.build().map_err(BpfError::from)?;
    Ok(Program::load("weir_sink", ProgramType::Xdp, &insns)?)
}

/// Is there a signature at that place? Then R1 has its time and R9 says which counter.
fn look(a: &mut Asm, at: i16, form: i32, found: Label, other: Label, next: Label) {
    let downlink = a.label();
    a.mov(R2, R8).add(R2, i32::from(at) + Signature::LEN as i32).jump_if(Cond::Gt, R2, R5, other);
    a.load(Width::Half, R3, R8, at).load(Width::Double, R1, R8, at + 10).to_network(R1, 64);
    a.jump_if(Cond::Ne, R3, magic(Direction::Uplink), downlink).mov(R9, form * 8).jump(found);
    a.place(downlink).jump_if(Cond::Ne, R3, magic(Direction::Downlink), next).mov(R9, 16 + form * 8).jump(found);
    a.place(next);
}

/// The latency's bin, as [`super::histogram`] numbers them. R6 is the time from here on.
fn latency(a: &mut Asm, drop: Label) {
    let [fits, uplink] = std::array::from_fn(|_| a.label());
    // The context is needed for the sample.
    a.store(Width::Double, R10, -24, R6);
    a.call(Helper::KtimeNs).mov(R6, R0);
    a.load(Width::Double, R1, R10, -16).jump_if(Cond::Eq, R1, 0, drop);
    a.mov(R2, R6).alu(Alu::Sub, R2, R1);
    // A second and more is all the same; so is a clock that went back.
    a.jump_if(Cond::Le, R2, 1 << 30, fits).mov(R2, 1 << 30).place(fits);
    a.mov(R3, 0);
    for shift in [16, 8, 4, 2, 1] {
        let small = a.label();
        a.jump_if(Cond::Lt, R2, 32 << shift, small).alu(Alu::Shr, R2, shift).add(R3, shift * 32).place(small);
    }
    a.alu(Alu::Add, R2, R3).alu(Alu::And, R2, BINS as i32 - 1).alu(Alu::Shl, R2, 3);
    a.jump_if(Cond::Lt, R9, 16, uplink).add(R2, BINS as i32 * 8).place(uplink);
    a.mov(R1, R7).alu(Alu::Add, R1, R2).mov(R2, 1).atomic_add(Width::Double, R1, BINS_AT as i16, R2);
}

/// Copies one packet in about 64 out, which ones the clock decides.
fn sample(a: &mut Asm, samples: &Map, drop: Label) {
    a.mov(R1, R6).alu(Alu::Shr, R1, 4).alu(Alu::And, R1, 63).jump_if(Cond::Ne, R1, 0, drop);
    a.mov(R1, R6).alu(Alu::Shr, R1, 10).alu(Alu::And, R1, SAMPLES as i32 - 1).store(Width::Word, R10, -4, R1);
    a.mov(R2, R10).add(R2, -4).load_map(R1, samples).call(Helper::MapLookup);
    a.jump_if(Cond::Eq, R0, 0, drop);
    a.load(Width::Double, R6, R10, -24).load(Width::Word, R2, R6, 0).load(Width::Word, R3, R6, 4);
    a.mov(R4, R2).add(R4, HEAD as i32).jump_if(Cond::Gt, R4, R3, drop);
    for at in (0..HEAD as i16).step_by(8) {
        a.load(Width::Double, R1, R2, at).store(Width::Double, R0, at, R1);
    }
    a.store(Width::Double, R0, HEAD as i16, 1);
}
