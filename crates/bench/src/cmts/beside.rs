//! A bare forwarder on the same kind of ports, on links of its own, under packets of the workload's sizes: what the ports
//! and the kernel behind them allow.

use std::sync::atomic::AtomicBool;

use traffic::cable::Mix;
use traffic::{Profile, Ratio, Sizes};

use super::settings::CableSettings;
use crate::bed::Bed;
use crate::error::BenchError;
use crate::options::{PortKind, ReceiveWork};
use crate::run::overload;
use crate::socket::SocketRig;
use crate::window::{Closing, How, Rig, Window};

/// Windows played again for one in which nothing was forwarded.
const TRIES: usize = 10;

/// The forwarder.
pub struct Beside {
    rig: Box<SocketRig>,
    /// Goes last: the rig's threads are on it.
    _bed: Bed,
}

impl Beside {
    /// Sets one up, with more to forward than it can.
    ///
    /// # Errors
    /// What the system refused.
    pub fn new(settings: &CableSettings, kind: PortKind) -> Result<Self, BenchError> {
        let traffic = traffic(settings);
        let mut bed = Bed::new(&traffic, 1, true, ReceiveWork::Senders)?;
        let mut rig = Box::new(bed.bare(&traffic, kind)?);
        overload(&mut rig)?;
        Ok(Self { rig, _bed: bed })
    }
}

impl Rig for Beside {
    fn window(&mut self, how: &How, stop: &AtomicBool) -> Result<Window, BenchError> {
        let mut window = self.rig.window(how, stop)?;
        for _ in 0..TRIES {
            if window.traffic.mpps > 0.0 {
                break;
            }
            // The source had not begun: a busy machine takes its time.
            window = self.rig.window(how, stop)?;
        }
        Ok(window)
    }

    fn close(self: Box<Self>) -> Result<Closing, BenchError> {
        self.rig.close()
    }
}

/// Packets as large as those of the workload, as many upstream for one downstream. They are forwarded as they are.
fn traffic(settings: &CableSettings) -> Profile {
    let mixes = settings.mixes();
    let up = settings.upstream * mixes[0].mean() / mixes[1].mean();
    let [downlink_sizes, uplink_sizes] = mixes.map(|mix: Mix| Sizes::mix(mix.shares()));
    Profile { downlink_sizes, uplink_sizes, ratio: Ratio { up, down: 1.0 }, ..Profile::default() }
}
