//! A worker's port.

use frame::{Batch, Frame, Pool, Port};

use crate::clock::{Clock, Tsc};
use crate::drops;
use crate::stats::{Io, Stats};

/// A port with the frames that wait to leave by it.
pub(super) struct Door {
    pub port: Box<dyn Port>,
    pub name: String,
    pub out: Batch,
    /// The door whose port's device this one shares.
    pub on: Option<usize>,
    /// Whether others share its device.
    pub is_shared: bool,
    /// Cycles of sending before the turn's end, since they were last taken.
    pub amid: u64,
    /// The last turn in which nothing had come in.
    pub empty_at: u64,
}

impl Door {
    /// The doors of a worker's ports, in order.
    pub fn all(ports: Vec<Box<dyn Port>>) -> Vec<Self> {
        let mut doors: Vec<Self> = ports.into_iter().map(Self::new).collect();
        for id in 0..doors.len() {
            let on = doors[id].port.caps().on.map(usize::from).filter(|on| *on != id && *on < doors.len());
            doors[id].on = on;
            if let Some(device) = on.and_then(|on| doors.get_mut(on)) {
                device.is_shared = true;
            }
        }
        doors
    }

    fn new(port: Box<dyn Port>) -> Self {
        let name = port.caps().name;
        Self { name, port, out: Batch::new(), on: None, is_shared: false, amid: 0, empty_at: 0 }
    }
}

/// Has a frame wait at a door; where no more can, those before it leave first. Gives it back where there is no such door.
#[inline]
pub(super) fn queue(doors: &mut [Door], id: usize, frame: Frame, pool: &mut Pool, stats: &Stats) -> Result<(), Frame> {
    let Some(door) = doors.get_mut(id) else { return Err(frame) };
    if let Err(frame) = door.out.push(frame) {
        let begin = Tsc::cycles();
        send(doors, id, pool, stats);
        let door = &mut doors[id];
        door.amid += Tsc::cycles().wrapping_sub(begin);
        // Empty after sending: what the port refused was counted and given back.
        let _ = door.out.push(frame).map_err(|_| unreachable!("the queue was just emptied"));
    }
    Ok(())
}

/// Sends what waits at a door, by its own device or the one it shares. What that has no room for is dropped by name.
pub(super) fn send(doors: &mut [Door], id: usize, pool: &mut Pool, stats: &Stats) {
    let door = &mut doors[id];
    let bytes: usize = door.out.frames().iter().map(Frame::len).sum();
    let sent = match door.on {
        None => door.port.tx_burst(pool, &mut door.out),
        Some(on) => match doors.get_disjoint_mut([id, on]) {
            Ok([door, device]) => door.port.tx_burst_by(&mut *device.port, pool, &mut door.out),
            Err(_) => 0,
        },
    };
    let mut refused = 0;
    doors[id].out.drain(|frame| {
        refused += frame.len();
        stats.drop_outside(drops::TX_FULL, frame.len());
        pool.give(frame);
    });
    stats.add(Io::TxPackets, sent as u64);
    stats.add(Io::TxBytes, (bytes - refused) as u64);
}
