//! The cable gateway as lists of stages. What holds packets stands between them.
//!
//! ```text
//! network ─► Downstream ─► queues ─► Mac ─► CRC and cipher ─► PSP packets ─► Depi ─► device
//! device ─► Bursts ─► data units, segments, frames ─► decipher ─► Upstream ─► network
//! ```

use dataplane::rewrite::RewriteL2;
use dataplane::route::Route;
use engine::pipelines;

use crate::lane::Cmts;
use crate::steps::{
    CheckSource, Classify, DocsisDecap, Encrypt, Enqueue, Filter, FindModem, Framing, ManageSubscriber, Mark,
    ReceiveNetwork, ReceiveRpd, TakeIn,
};

const UPSTREAM: bool = true;
const DOWNSTREAM: bool = false;

pipelines! {
    /// All pipelines of the cable gateway, and what holds packets between them.
    pub struct Pipelines for Cmts {
        /// From the network into the queue of a service flow.
        downstream: Downstream("downstream") {
            rx: ReceiveNetwork, lookup: FindModem, subscriber: ManageSubscriber, filter: Filter<DOWNSTREAM>,
            classify: Classify, qos: Enqueue,
        }
        /// From the queues, as the channels have room, to where CRC32 and encryption are done.
        mac: Mac("mac") { framing: Framing, encrypt: Encrypt }
        /// DEPI packets of our own, to the Remote-PHY devices.
        depi: Depi("depi_tx") { route: Route, out: RewriteL2 }
        /// From a Remote-PHY device, to where bursts are put together.
        bursts: Bursts("bursts") { rx: ReceiveRpd, uepi: TakeIn }
        /// Frames out of bursts, decrypted, to the network.
        upstream: Upstream("upstream") {
            decap: DocsisDecap, lookup: CheckSource, filter: Filter<UPSTREAM>, mark: Mark, route: Route, out: RewriteL2,
        }
        /// Answers of our own, to the network.
        answers: Answers("answers") { route: Route, out: RewriteL2 }
    }
    between("between") {
        scheduler: "upper_lower_mac_xfer", depi_encap: "depi_encap",
        reassembly: "segment_reassembly", decryption: "decryption",
    }
}
