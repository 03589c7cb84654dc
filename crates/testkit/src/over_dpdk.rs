//! Golden cases over DPDK's `net_pcap`: packets come in from a capture file and leave into one by a `dpdk:` port.
//!
//! The program of the tests has to have `dpdk:` ports: crate `port-dpdk`, with its feature.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use frame::{BURST, Batch, Caps, Frame, Pool, Port, PortCounters};
use port::memory::{Memory, Wire};
use port::{OpenContext, Uri};

use crate::golden::{Case, Subject, judge_with_doors};
use crate::pcap::{self, Seen};
use crate::rig::{Doors, PortSpec};

/// Devices have names of their own in a process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Runs those cases with every port a `dpdk:net_pcap` one; all is as recorded over memory ports, to the byte and the counter.
///
/// # Panics
/// With all differences, when there are some.
pub fn judge_all<S: Subject>(root: &Path, cases: &[Case]) {
    let folder = std::env::temp_dir().join(format!("weir-over-dpdk-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for captures");
    let judge = |case: &Case| judge_with_doors::<S>(root, case, |inputs| doors(&folder, inputs));
    let faults: Vec<String> = cases.iter().filter_map(|case| judge(case).err()).collect();
    let _ = std::fs::remove_dir_all(&folder);
    assert!(faults.is_empty(), "{} of {} cases:\n{}", faults.len(), cases.len(), faults.join("\n"));
}

/// Ports whose packets come from files of these.
fn doors(folder: &Path, inputs: &BTreeMap<String, Vec<Seen>>) -> Rc<Doors> {
    let (folder, inputs) = (folder.to_owned(), inputs.clone());
    Rc::new(move |spec: &PortSpec, wire: &Wire, pool: &mut Pool| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let [from, to] = ["in", "out"].map(|end| folder.join(format!("{number}.{end}.pcap")));
        let packets = inputs.get(&spec.name).map_or(&[][..], Vec::as_slice);
        pcap::write(&from, packets).expect("a capture file is written");
        let device = format!("net_pcap{number},rx_pcap={},tx_pcap={}", from.display(), to.display());
        let uri = Uri::new("dpdk", &device).with("ring", 64);
        let dpdk = port::open(&uri, &mut OpenContext::new(pool)).unwrap_or_else(|error| panic!("{uri}: {error}"));
        Box::new(Through { dpdk, memory: Memory::new(&*spec.name, spec.mac, wire), to, sent: Cell::new(0) })
    })
}

/// A `dpdk:` port that receives a packet when its wire has one, and lays on the wire what it wrote to its file.
struct Through {
    dpdk: Box<dyn Port>,
    memory: Memory,
    to: PathBuf,
    /// Packets of the file that were on the wire.
    sent: Cell<usize>,
}

impl Port for Through {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let mut due = Batch::new();
        let count = self.memory.rx_burst(pool, &mut due);
        // Of the file the same packets come: no more than these, as the places before are taken.
        let mut got = Batch::new();
        (count..BURST).for_each(|_| assert!(got.push(Frame::none()).is_ok()));
        assert_eq!(self.dpdk.rx_burst(pool, &mut got), count, "packets of the capture file");
        got.drain_front(BURST - count, drop);
        for (frame, wanted) in got.frames().iter().zip(due.frames()) {
            assert_eq!(pool.arena().bytes(frame), pool.arena().bytes(wanted), "a packet of the capture file");
        }
        pool.give_all(&mut due);
        got.drain(|frame| {
            if let Err(frame) = out.push(frame) {
                pool.give(frame);
            }
        });
        count
    }

    fn tx_burst(&mut self, pool: &mut Pool, batch: &mut Batch) -> usize {
        let count = self.dpdk.tx_burst(pool, batch);
        let written = pcap::read(&self.to).expect("the capture file is readable");
        let mut copies = Batch::new();
        for packet in &written[self.sent.replace(written.len())..] {
            let frame = pool.make(&packet.bytes).expect("a free packet buffer");
            assert!(copies.push(frame).is_ok(), "a burst at a time");
        }
        assert_eq!((copies.len(), self.memory.tx_burst(pool, &mut copies)), (count, count), "packets that were sent");
        count
    }

    fn service(&mut self, pool: &mut Pool) {
        self.dpdk.service(pool);
    }

    fn caps(&self) -> Caps {
        self.memory.caps()
    }

    fn counters(&self) -> PortCounters {
        self.dpdk.counters()
    }

    fn held(&self) -> usize {
        self.dpdk.held()
    }

    fn close(&mut self, pool: &mut Pool) {
        self.dpdk.close(pool);
    }
}
