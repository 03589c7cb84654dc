//! `weir show frames`: where every packet buffer is. Conservation: free + in ports + in bursts = packet buffers.

use engine::Io;
use schemars::JsonSchema;
use serde::Serialize;

use crate::snapshot::Snapshot;
use crate::tables::{Style, Table, bytes, count};

/// Where the packet buffers are.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Accounts {
    /// All there are.
    #[serde(rename = "packet_buffers")]
    pub slots: u64,
    /// Free in no worker's pool.
    pub depot: u64,
    /// What each worker has.
    pub workers: Vec<WorkerSlots>,
    /// In no account at that moment: in bursts under way, or moved while the others were read.
    pub in_bursts: i64,
    /// Bytes of packet memory.
    pub bytes: u64,
    /// Usable bytes of a packet buffer.
    #[serde(rename = "packet_buffer_bytes")]
    pub slot_bytes: u64,
    /// Bytes of it before a packet.
    #[serde(rename = "headroom_bytes")]
    pub headroom: u64,
    /// The pages it rests on.
    pub pages: String,
}

/// Packet buffers of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WorkerSlots {
    /// Its number.
    pub worker: u16,
    /// In its pool.
    pub free: u64,
    /// In its ports' rings.
    pub ports: u64,
    /// Packets that wait there for something, in memory of their own.
    #[serde(rename = "held_packets")]
    pub held: u64,
}

/// Where every packet buffer is.
pub fn accounts(snapshot: &Snapshot) -> Accounts {
    let frames = &snapshot.frames;
    let workers: Vec<WorkerSlots> = snapshot
        .workers
        .iter()
        .map(|worker| WorkerSlots {
            worker: worker.worker,
            free: worker.io(Io::FreeSlots),
            ports: worker.io(Io::PortSlots),
            held: worker.io(Io::Held),
        })
        .collect();
    let known: u64 = frames.depot + workers.iter().map(|worker| worker.free + worker.ports).sum::<u64>();
    Accounts {
        slots: frames.slots,
        depot: frames.depot,
        workers,
        in_bursts: frames.slots as i64 - known as i64,
        bytes: frames.bytes,
        slot_bytes: frames.slot_bytes,
        headroom: frames.headroom,
        pages: frames.pages.clone(),
    }
}

/// `weir show frames` as text.
pub fn text(snapshot: &Snapshot, style: Style) -> String {
    let accounts = accounts(snapshot);
    let mut out = format!(
        "{} · {} packet buffers of {} bytes, {} of them headroom · {} on {}\n\n",
        style.strong("packet memory"),
        count(accounts.slots),
        count(accounts.slot_bytes),
        accounts.headroom,
        bytes(accounts.bytes),
        accounts.pages,
    );
    let heads = ["where", ">free", ">in ports", ">all", ">held"];
    let mut table = Table::new(&heads);
    let (mut free, mut ports, mut held) = (accounts.depot, 0, 0);
    for worker in &accounts.workers {
        (free, ports, held) = (free + worker.free, ports + worker.ports, held + worker.held);
        let all = count(worker.free + worker.ports);
        let name = format!("worker {}", worker.worker);
        table.row([name, count(worker.free), count(worker.ports), all, count(worker.held)]);
    }
    table.row(["depot".into(), count(accounts.depot), "0".into(), count(accounts.depot), String::new()]);
    table.rule();
    table.row(["all".into(), count(free), count(ports), count(free + ports), count(held)]);
    out += &table.render(style);
    out += &format!(
        "\n  {} free + {} in ports + {} in bursts = {} packet buffers\n",
        count(free),
        count(ports),
        accounts.in_bursts,
        count(accounts.slots)
    );
    if held > 0 {
        out += "  held packets wait for a paged subscriber or a neighbour's address, in memory of their own\n";
    }
    out
}
