//! The cable gateway as lists of stages. What holds packets stands between them.
//!
//! ```text
//! network ─► Downstream ─► queues ─► Mac ─► CRC and cipher ─► PSP packets ─► Depi ─► device
//! device ─► Bursts ─► data units, segments, frames ─► decipher ─► Upstream ─► network
//! ```

use dataplane::rewrite::RewriteL2;
use dataplane::route::Route;
use engine::{Layout, StageSpan, pipeline};

use crate::lane::Cmts;
use crate::steps::{
    CheckSource, Classify, DocsisDecap, Encrypt, Enqueue, Filter, FindModem, Framing, ManageSubscriber, Mark,
    ReceiveNetwork, ReceiveRpd, TakeIn,
};

pipeline! {
    /// From the network into the queue of a service flow.
    pub struct Downstream("downstream") for Cmts {
        rx: ReceiveNetwork, lookup: FindModem, subscriber: ManageSubscriber, filter: Filter, classify: Classify,
        qos: Enqueue,
    }
}

pipeline! {
    /// From the queues, as the channels have room, to where CRC32 and encryption are done.
    pub struct Mac("mac") for Cmts { framing: Framing, encrypt: Encrypt }
}

pipeline! {
    /// DEPI packets of our own, to the Remote-PHY devices.
    pub struct Depi("depi_tx") for Cmts { route: Route, out: RewriteL2 }
}

pipeline! {
    /// From a Remote-PHY device, to where bursts are put together.
    pub struct Bursts("bursts") for Cmts { rx: ReceiveRpd, uepi: TakeIn }
}

pipeline! {
    /// Frames out of bursts, decrypted, to the network.
    pub struct Upstream("upstream") for Cmts {
        decap: DocsisDecap, lookup: CheckSource, filter: Filter, mark: Mark, route: Route, out: RewriteL2,
    }
}

pipeline! {
    /// Answers of our own, to the network.
    pub struct Answers("answers") for Cmts { route: Route, out: RewriteL2 }
}

/// All of them.
pub struct Pipelines {
    /// From the network.
    pub downstream: Downstream,
    /// From the queues.
    pub mac: Mac,
    /// To the devices.
    pub depi: Depi,
    /// From the devices.
    pub bursts: Bursts,
    /// To the network.
    pub upstream: Upstream,
    /// From us to the network.
    pub answers: Answers,
    /// What stands between them: [`BETWEEN`].
    pub between: StageSpan,
}

/// What holds packets, in the order it is charged.
pub const BETWEEN: &[&str] = &["upper_lower_mac_xfer", "depi_encap", "segment_reassembly", "decryption"];

impl Pipelines {
    /// Assembles the pipelines, their stages entered in `layout`. `mtu`: the largest IP packet towards modems.
    pub fn new(l: &mut Layout, mtu: u32) -> Self {
        Self {
            downstream: Downstream::new(
                l,
                ReceiveNetwork,
                FindModem,
                ManageSubscriber { mtu },
                Filter::DOWN,
                Classify,
                Enqueue,
            ),
            mac: Mac::new(l, Framing, Encrypt),
            depi: Depi::new(l, Route::default(), RewriteL2),
            bursts: Bursts::new(l, ReceiveRpd, TakeIn),
            upstream: Upstream::new(l, DocsisDecap, CheckSource, Filter::UP, Mark, Route::default(), RewriteL2),
            answers: Answers::new(l, Route::default(), RewriteL2),
            between: l.add("between", BETWEEN),
        }
    }
}
