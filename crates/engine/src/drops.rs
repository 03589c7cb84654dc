//! Why the engine drops packets, and what ports lose.

use crate::{Drop, reasons};

impl Drop {
    /// What ports lose before a worker receives it.
    pub const BEFORE_RECEIVED: [Self; 5] = [PORT_RING_FULL, PORT_NO_FRAME, PORT_TOO_LONG, PORT_INVALID, PORT_ABANDONED];
    /// What ports lose after a worker has sent it.
    pub const AFTER_SENT: [Self; 2] = [PORT_REFUSED, PORT_LOST];
}

reasons! {
    Drop from 0;
    MALFORMED "malformed" "A header does not fit the packet or contradicts itself.",
    NO_ROUTE "no_route" "No route to the destination.",
    TUNNEL_LOOP "tunnel_loop" "Forwarding action rules send the packet round in a circle, from tunnel to tunnel of ours.",
    NO_HEADROOM "no_headroom" "No room before the packet for the header to be added.",
    NO_FRAME "no_frame" "No free slot to hold what should have been sent.",
    OUT_QUEUE_FULL "out_queue_full" "More replies of our own than the queue to the port holds.",
    TX_FULL "tx_full" "The port could not take it: ring or socket buffer full.",
    HAND_OFF_FULL "hand_off_full" "The ring to the subscriber's worker was full.",
    NO_OWNER "no_owner" "No worker owns this subscriber.",
    PANICKED "panicked" "A stage failed on this burst; the burst was lost, the worker went on.",
    PORT_RING_FULL "port_ring_full" "Lost before it was received: the port's ring, or the kernel's queue before it, was full.",
    PORT_NO_FRAME "port_no_frame" "Lost before it was received: there was no free slot for it.",
    PORT_TOO_LONG "port_too_long" "Lost before it was received: larger than a slot.",
    PORT_INVALID "port_invalid" "Lost before it was received: broken, or of a kind the port does not know.",
    PORT_REFUSED "port_refused" "Refused by the kernel or device for what it is, such as larger than the interface's MTU.",
    PORT_LOST "port_lost" "Taken for sending by the kernel or device, and dropped there.",
    MOVE_FULL "move_full" "More packets came for a group on its way to this worker than may wait for it.",
    PORT_ABANDONED "port_abandoned" "Lost before it was received: it waited in a port that a process which took over had used and left behind.",
}
