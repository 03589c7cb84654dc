//! Why the toy gateway drops packets, beside the reasons of the engine and of the shared stages.

pub use dataplane::drops::*;
use engine::Drop;

engine::reasons! {
    Drop from dataplane::drops::END;
    SOURCE_RATE "source_rate" "Over the rate of the packet's source prefix.",
}
