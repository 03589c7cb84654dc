//! Golden cases over ports that do what devices with checksum offloads do: they verify UDP checksums of packets that
//! come in, and make those over IPv6 that are left to them.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use frame::{Batch, Caps, Pool, Port, PortCounters, flags};
use port::memory::{Memory, Wire};
use wire::{Fragment, L3L4, Outer, checksum, protocol, udp};

use crate::golden::{Case, Subject, judge_with_doors};
use crate::rig::{Doors, PortSpec};

thread_local! {
    static COMPLETES: Cell<bool> = const { Cell::new(false) };
}

/// Whether ports that are made now complete UDP checksums over IPv6: for [`Caps::completes_udp6`] of a subject's ports.
pub fn completes_udp6() -> bool {
    COMPLETES.get()
}

/// Packets by what such ports did.
#[derive(Debug, Default)]
struct Done {
    verified: AtomicU64,
    made: AtomicU64,
}

/// Runs those cases over such ports: all is as recorded over memory ports, to the byte and the counter. Returns how
/// many packets were verified, and of how many the checksum was made.
///
/// # Panics
/// With all differences, when there are some.
pub fn judge_all<S: Subject>(root: &Path, cases: &[Case]) -> (u64, u64) {
    let done = Arc::new(Done::default());
    COMPLETES.set(true);
    let judge = |case: &Case| judge_with_doors::<S>(root, case, |_| doors(&done, false));
    let faults: Vec<String> = cases.iter().filter_map(|case| judge(case).err()).collect();
    COMPLETES.set(false);
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), cases.len(), faults.join("\n"));
    (done.verified.load(Ordering::Relaxed), done.made.load(Ordering::Relaxed))
}

/// Runs a case over ports whose devices find every checksum right.
///
/// # Errors
/// All differences from what is recorded.
pub fn judge_credulous<S: Subject>(root: &Path, case: &Case) -> Result<(), String> {
    judge_with_doors::<S>(root, case, |_| doors(&Arc::default(), true))
}

fn doors(done: &Arc<Done>, is_credulous: bool) -> Rc<Doors> {
    let done = done.clone();
    Rc::new(move |spec: &PortSpec, wire: &Wire, _: &mut Pool| {
        let memory = Memory::new(&*spec.name, spec.mac, wire);
        Box::new(Device { memory, done: done.clone(), is_credulous })
    })
}

struct Device {
    memory: Memory,
    done: Arc<Done>,
    /// It finds all checksums right.
    is_credulous: bool,
}

/// Whether a frame is a whole UDP datagram with a checksum that is right.
fn is_right(frame: &[u8]) -> Option<bool> {
    let outer = Outer::parse(frame).ok()?;
    let packet = frame.get(usize::from(outer.l3)..)?;
    let ip = L3L4::parse(packet).ok().filter(|ip| ip.protocol == protocol::UDP && ip.fragment == Fragment::Whole)?;
    let datagram = udp::Packet::new_checked(packet.get(usize::from(ip.l4)..ip.total_len as usize)?).ok()?;
    let pseudo = match ip.version {
        4 => checksum::pseudo4(ip.src, ip.dst, protocol::UDP, datagram.length()),
        _ => checksum::pseudo6(ip.src6(packet), ip.dst6(packet), protocol::UDP, datagram.length().into()),
    };
    Some(datagram.checksum() != 0 && datagram.is_checksum_right(pseudo))
}

impl Port for Device {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let before = out.len();
        let came = self.memory.rx_burst(pool, out);
        for frame in &mut out.frames_mut()[before..] {
            if self.is_credulous || is_right(pool.arena().bytes(frame)) == Some(true) {
                frame.meta.flags |= flags::UDP_VERIFIED;
                self.done.verified.fetch_add(1, Ordering::Relaxed);
            }
        }
        came
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        for frame in batch.frames_mut().iter_mut().filter(|frame| frame.meta.flags & flags::UDP_SUM_LEFT != 0) {
            assert!(port::complete_checksum(pool.arena().bytes_mut(frame)), "the pseudo header's sum is there");
            self.done.made.fetch_add(1, Ordering::Relaxed);
        }
        self.memory.tx_burst(pool, batch)
    }

    fn service(&mut self, pool: &mut Pool) {
        self.memory.service(pool);
    }

    fn caps(&self) -> Caps {
        Caps { completes_udp6: true, ..self.memory.caps() }
    }

    fn counters(&self) -> PortCounters {
        self.memory.counters()
    }
}
