//! More load than anything can forward: frames prepared once and sent again and again by the kernel itself, into the
//! gateway's interfaces as if a wire had brought them.
//!
//! A program of ours is run on live frames (`BPF_PROG_TEST_RUN`), millions in one system call: it writes the next
//! prepared packet's headers into the frame, cuts it to length and redirects it. Frames over the rate asked for are
//! dropped inside the program, which costs next to nothing.

use std::sync::Arc;
use std::time::Duration;

use port::bpf::{Alu, Asm, Cond, Helper, Map, Program, ProgramType, Reg::*, Width};
use traffic::{Direction, Generator, Plan};

use crate::crew::{Left, Player, Slice};
use crate::error::BenchError;
use crate::lab::{Lab, Side};
use crate::score::{Part, Score};
use crate::window::How;

/// Bytes written into each frame: all headers and the signature, eight at a time.
const HEAD: usize = 168;
/// Of an entry: interface, bytes to cut off, direction, unused.
const BEFORE: usize = 16;
/// Prepared packets, both directions together, at most.
pub(crate) const MOST: usize = 1 << 17;

/// Where the time of sending is in a [`traffic::Signature`].
const SENT_IN_SIGNATURE: i16 = 10;

/// Nanoseconds that a source of packets may be behind its rate and make good. Where packets are received on its CPU as well
/// it is interrupted for longer.
const BEHIND: i32 = 20_000;
const STAMPED_BEHIND: i32 = 100_000;

/// Frames a second that no processor we know can send, and that none can look at and drop.
const SENT_AT_MOST: f64 = 6e6;
const DROPPED_AT_MOST: f64 = 15e6;

/// State of the program, in one map entry.
mod state {
    pub const NEXT: i16 = 0;
    pub const DUE: i16 = 8;
    pub const UNTIL: i16 = 16;
    pub const GAP: i16 = 24;
    pub const SENT: i16 = 32;
    pub const LENGTH: i16 = 48;
    pub const BYTES: usize = 56;
}

/// A source of live frames into the N3 and N6 of one or several gateways.
pub struct Blast {
    program: Program,
    state: Arc<Map>,
    frame: Vec<u8>,
    netns: String,
    mean: [f64; 2],
    _frames: Map,
}

/// What a [`Blast`] has sent; to be read from any thread.
#[derive(Clone)]
pub struct Sent {
    state: Arc<Map>,
    /// Mean length of the packets, as N6-side Ethernet frames: up, down.
    pub mean: [f64; 2],
}

impl Blast {
    /// Prepares packets of a plan for each gateway: `plans` are gateways' numbers in the lab with what they serve.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn new(lab: &Lab, plans: &[(usize, Arc<Plan>)]) -> Result<Self, BenchError> {
        Self::made(lab, plans, None)
    }

    /// The same for one gateway, each packet's signature with the kernel's monotonic clock in nanoseconds as the time it
    /// was sent. Users' UDP must have no checksum ([`traffic::Profile::user_checksums`] off), and the links no VLAN tag.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn stamped(lab: &Lab, link: usize, plan: &Arc<Plan>) -> Result<Self, BenchError> {
        let plain = 14 + 20 + 8 + SENT_IN_SIGNATURE;
        let up = plain + plan.profile().tunnel_bytes() as i16;
        Self::made(lab, &[(link, plan.clone())], Some([up, plain]))
    }

    fn made(lab: &Lab, plans: &[(usize, Arc<Plan>)], stamps: Option<[i16; 2]>) -> Result<Self, BenchError> {
        let entries = prepare(lab, plans)?;
        let longest = entries.iter().map(|entry| entry.len).max().unwrap_or(0).max(HEAD);
        let frames = Map::array(BEFORE + HEAD, entries.len() as u32)?;
        for (n, entry) in entries.iter().enumerate() {
            frames.update(&(n as u32).to_ne_bytes(), &entry.value(longest))?;
        }
        let tunnel = plans.first().map_or(0, |(_, plan)| plan.profile().tunnel_bytes());
        let mean = [tunnel, 0].map(|more| more as f64);
        let mean = std::array::from_fn(|way| {
            let lens: Vec<f64> = entries.iter().filter(|e| e.way == way).map(|e| e.len as f64 - mean[way]).collect();
            lens.iter().sum::<f64>() / lens.len().max(1) as f64
        });
        let state = Arc::new(Map::array(state::BYTES, 1)?);
        let program = program(&frames, &state, entries.len() as i32, stamps)?;
        let netns = lab.load().to_owned();
        Ok(Self { program, state, frame: vec![0; longest], netns, mean, _frames: frames })
    }

    /// From now on for so long, at most `pps`.
    fn aim(&self, length: Duration, pps: Option<f64>) -> Result<(), BenchError> {
        let mut value = [0; state::BYTES];
        self.state.lookup(&[0; 4], &mut value)?;
        let gap = pps.map_or(0, |pps| (1e9 / pps.max(1.0)) as u64);
        // The time begins with the first frame.
        let length = length.as_nanos() as u64;
        for (at, number) in [(state::DUE, 0), (state::UNTIL, 0), (state::LENGTH, length), (state::GAP, gap)] {
            let at = at as usize;
            value[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        }
        self.state.update(&[0; 4], &value)?;
        Ok(())
    }

    /// Sends for so long, at most `pps` packets a second, on the calling thread. `looks` is how many frames the program is
    /// run on: too few, and sending ends early; too many, and the call lasts longer. Sends in one system call, for between
    /// two the kernel would send nothing for tens of milliseconds.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn send(&self, length: Duration, pps: Option<f64>, looks: u32) -> Result<(), BenchError> {
        let within = port::netns::within(&self.netns, || {
            self.aim(length, pps)?;
            Ok(self.program.run_live(&self.frame, 0, looks)?)
        });
        within.map_err(|source| BenchError::Port { uri: format!("namespace {}", self.netns), source })?
    }

    /// To see what it has sent.
    pub fn counter(&self) -> Sent {
        Sent { state: self.state.clone(), mean: self.mean }
    }
}

impl Sent {
    /// Packets so far: up, down.
    pub fn packets(&self) -> [u64; 2] {
        let mut value = [0; state::BYTES];
        if self.state.lookup(&[0; 4], &mut value).is_err() {
            return [0; 2];
        }
        [0, 8].map(|offset| {
            let at = state::SENT as usize + offset;
            u64::from_ne_bytes(value[at..at + 8].try_into().expect("eight bytes"))
        })
    }
}

/// A prepared packet.
struct PreparedPacket {
    index: u32,
    way: usize,
    head: Vec<u8>,
    len: usize,
}

impl PreparedPacket {
    fn value(&self, longest: usize) -> Vec<u8> {
        let cut = (longest - self.len) as u32;
        let counter = self.way as u64 * 8;
        [&self.index.to_ne_bytes()[..], &cut.to_ne_bytes(), &counter.to_ne_bytes(), &self.head].concat()
    }
}

fn prepare(lab: &Lab, plans: &[(usize, Arc<Plan>)]) -> Result<Vec<PreparedPacket>, BenchError> {
    let each = MOST / plans.len().max(1);
    let mut lists = Vec::new();
    for (n, plan) in plans {
        let index = [lab.load_index(Side::N3, *n)?, lab.load_index(Side::N6, *n)?];
        let mut generators = [Generator::new(plan, Direction::Uplink)?, Generator::new(plan, Direction::Downlink)?];
        let share = plan.profile().ratio.share(Direction::Uplink);
        let count = each.min(2 * plan.flow_count() as usize).max(64);
        let mut space = vec![0; generators.iter().map(Generator::largest).max().unwrap_or(0).max(HEAD)];
        let (mut up, mut list) = (0.0, Vec::with_capacity(count));
        for i in 0..count {
            // The direction that is behind its share goes next.
            let direction = if up < share * (i + 1) as f64 { Direction::Uplink } else { Direction::Downlink };
            up += f64::from(u8::from(direction == Direction::Uplink));
            space.fill(0);
            let way = direction.index();
            if let Some(len) = generators[way].next(&mut space, 0) {
                list.push(PreparedPacket { index: index[way], way, head: space[..HEAD].to_vec(), len });
            }
        }
        lists.push(list.into_iter());
    }
    // The gateways in turns.
    let mut entries = Vec::new();
    while let [Some(first), rest @ ..] = &mut lists.iter_mut().map(Iterator::next).collect::<Vec<_>>()[..] {
        entries.push(std::mem::replace(first, PreparedPacket { index: 0, way: 0, head: vec![], len: 0 }));
        entries.extend(rest.iter_mut().filter_map(Option::take));
    }
    Ok(entries)
}

/// With `stamps`, the time is written into each frame there: up, down.
fn program(frames: &Map, state: &Map, entries: i32, stamps: Option<[i16; 2]>) -> Result<Program, BenchError> {
    let mut a = Asm::new();
    let [drop, late, send, wrap, uplink, counted, begun, look, next] = std::array::from_fn(|_| a.label());
    a.mov(R6, R1);
    a.store(Width::Word, R10, -4, 0).mov(R2, R10).add(R2, -4).load_map(R1, state).call(Helper::MapLookup);
    a.jump_if(Cond::Eq, R0, 0, drop).mov(R7, R0);
    // Without a rate the clock, which takes longer than the rest, is looked at before one frame in sixteen.
    a.load(Width::Double, R1, R7, state::GAP).jump_if(Cond::Ne, R1, 0, look);
    a.load(Width::Double, R1, R7, state::NEXT).alu(Alu::And, R1, 15).jump_if(Cond::Ne, R1, 0, next);
    // Is it time?
    a.place(look);
    a.call(Helper::KtimeNs);
    a.load(Width::Double, R1, R7, state::UNTIL).jump_if(Cond::Ne, R1, 0, begun);
    a.load(Width::Double, R1, R7, state::LENGTH).add(R1, R0).store(Width::Double, R7, state::UNTIL, R1);
    a.place(begun).jump_if(Cond::Ge, R0, R1, drop);
    a.load(Width::Double, R2, R7, state::DUE).jump_if(Cond::Lt, R0, R2, drop);
    // Behind by so much at most, so that a pause is not made good in one lump.
    a.add(R0, -(if stamps.is_some() { STAMPED_BEHIND } else { BEHIND })).jump_if(Cond::Lt, R2, R0, late).jump(send);
    a.place(late).mov(R2, R0);
    a.place(send).load(Width::Double, R1, R7, state::GAP).add(R2, R1).store(Width::Double, R7, state::DUE, R2);
    // The next prepared packet.
    a.place(next);
    a.load(Width::Double, R1, R7, state::NEXT).store(Width::Word, R10, -8, R1);
    a.add(R1, 1).jump_if(Cond::Lt, R1, entries, wrap).mov(R1, 0);
    a.place(wrap).store(Width::Double, R7, state::NEXT, R1);
    a.mov(R2, R10).add(R2, -8).load_map(R1, frames).call(Helper::MapLookup);
    a.jump_if(Cond::Eq, R0, 0, drop).mov(R8, R0);
    if stamps.is_some() {
        a.call(Helper::KtimeNs).mov(R9, R0).to_network(R9, 64);
    }
    a.load(Width::Word, R2, R6, 0).load(Width::Word, R3, R6, 4);
    a.mov(R4, R2).add(R4, HEAD as i32).jump_if(Cond::Gt, R4, R3, drop);
    for at in (0..HEAD as i16).step_by(8) {
        a.load(Width::Double, R1, R8, BEFORE as i16 + at).store(Width::Double, R2, at, R1);
    }
    // The program's counters by direction; the verifier wants constants.
    a.load(Width::Double, R1, R8, 8).jump_if(Cond::Eq, R1, 0, uplink);
    if let Some([_, down]) = stamps {
        a.store(Width::Double, R2, down, R9);
    }
    a.load(Width::Double, R1, R7, state::SENT + 8)
        .add(R1, 1)
        .store(Width::Double, R7, state::SENT + 8, R1)
        .jump(counted);
    a.place(uplink);
    if let Some([up, _]) = stamps {
        a.store(Width::Double, R2, up, R9);
    }
    a.load(Width::Double, R1, R7, state::SENT).add(R1, 1).store(Width::Double, R7, state::SENT, R1);
    a.place(counted);
    a.load(Width::Word, R1, R8, 4).mov(R2, 0).alu(Alu::Sub, R2, R1).mov(R1, R6).call(Helper::XdpAdjustTail);
    a.load(Width::Word, R1, R8, 0).mov(R2, 0).call(Helper::Redirect).exit();
    a.place(drop).mov(R0, 1).exit();
    let insns = a.build().map_err(port::bpf::BpfError::from)?;
    Ok(Program::load("weir_blast", ProgramType::Xdp, &insns)?)
}

impl Player for Blast {
    fn play(&mut self, how: &How, score: &Score) -> Slice {
        // Longer than the window: what ends it is the program's own clock, checked for every frame.
        let length = how.warm + how.measure + Duration::from_millis(20);
        // One call lasts the whole window: between two the kernel would send nothing for tens of milliseconds.
        let most = if how.pps.is_some() { DROPPED_AT_MOST } else { SENT_AT_MOST };
        let each = most * length.as_secs_f64();
        let blow = || -> Result<(), BenchError> {
            self.aim(length, how.pps)?;
            while !score.is_past(Part::Measure) {
                // A dropped frame costs a tenth of a sent one: this many are through soon after the end.
                self.program.run_live(&self.frame, 0, each as u32)?;
            }
            Ok(())
        };
        let done = match port::netns::within(&self.netns, blow) {
            Ok(done) => done,
            Err(source) => Err(BenchError::Port { uri: format!("namespace {}", self.netns), source }),
        };
        score.during(Part::Drain, || {
            std::thread::yield_now();
            false
        });
        Slice { failed: done.err().map(|error| error.to_string()), ..Slice::default() }
    }

    fn close(self: Box<Self>) -> Left {
        Left::default()
    }
}
