//! Pages made present before whoever needs them gets there.
//!
//! The first touch of a huge page takes what clearing 2 MiB takes, and where a hypervisor has to find the memory first,
//! milliseconds: packets that wait for a worker meanwhile are lost. So what grows asks early, and a thread does it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use crate::region::{HUGE, Mapping};

/// A part of a mapping that will be needed.
struct Wish {
    mapping: Arc<Mapping>,
    at: usize,
    len: usize,
}

/// None: there is no such thread, and pages come when they are touched.
static THREAD: OnceLock<Option<Sender<Wish>>> = OnceLock::new();

/// Starts a thread that makes pages present before they are used, if there is none yet. It takes its processors and its
/// priority from whoever calls first: call it before threads are bound to processors, or made urgent.
pub fn prepare_growth() {
    THREAD.get_or_init(start);
}

fn start() -> Option<Sender<Wish>> {
    if cfg!(miri) {
        return None;
    }
    let (sender, wishes) = channel();
    std::thread::Builder::new().name("weir-pages".into()).spawn(move || work(&wishes)).ok().map(|_| sender)
}

fn work(wishes: &Receiver<Wish>) {
    while let Ok(Wish { mapping, at, len }) = wishes.recv() {
        // By the page: where nobody else has it any more, it goes.
        for at in (at..at.saturating_add(len)).step_by(HUGE) {
            if Arc::strong_count(&mapping) == 1 || mapping.populate_beside(at, HUGE).is_err() {
                break;
            }
        }
    }
}

/// Asks for a part of a mapping. Nothing comes of it where there is no thread.
pub(crate) fn wish(mapping: &Arc<Mapping>, at: usize, len: usize) {
    if let Some(Some(thread)) = THREAD.get() {
        let _ = thread.send(Wish { mapping: mapping.clone(), at, len });
    }
}
