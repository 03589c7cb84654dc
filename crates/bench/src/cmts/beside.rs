//! A bare forwarder on the same kind of ports, on links of its own, under packets of the workload's sizes: what the ports
//! and the kernel behind them allow.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use traffic::cable::Mix;
use traffic::{Profile, Ratio, Sizes};

use super::report::CableReport;
use super::settings::CableSettings;
use crate::bed::Bed;
use crate::cost::Cost;
use crate::error::BenchError;
use crate::options::{PortKind, ReceiveWork};
use crate::report::{Reference, together_traffic};
use crate::run::overload;
use crate::socket::SocketRig;
use crate::window::{How, Rig, Window};

/// Windows played again for one in which nothing was forwarded.
const TRIES: usize = 10;

/// The forwarder, and what it has done.
pub struct Beside {
    rig: Box<SocketRig>,
    kind: PortKind,
    windows: Vec<Window>,
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
        Ok(Self { rig, kind, windows: Vec::new(), _bed: bed })
    }

    /// Has it forward for so long.
    ///
    /// # Errors
    /// What broke, or [`BenchError::Interrupted`].
    pub fn window(&mut self, time: Duration, stop: &AtomicBool) -> Result<(), BenchError> {
        let how = How { warm: Duration::from_millis(60), ..How::most(time) };
        let mut window = self.rig.window(&how, stop)?;
        for _ in 0..TRIES {
            if window.traffic.mpps > 0.0 {
                break;
            }
            // The source had not begun: a busy machine takes its time.
            window = self.rig.window(&how, stop)?;
        }
        self.windows.push(window);
        Ok(())
    }

    /// Ends it; what it did goes into the report as the reference. The ratio is that of a gateway busy all the time: its
    /// far ends, which take every frame apart, cannot always keep it so.
    ///
    /// # Errors
    /// What broke.
    pub fn end(self, report: &mut CableReport) -> Result<(), BenchError> {
        let (bare, cost) = (together_traffic(&self.windows), Cost::of(&self.windows));
        report.common.reference = Reference {
            name: format!("bare forwarding, {}", self.kind.name()),
            mpps: bare.mpps,
            gbps_l2: bare.gbps_l2,
            ratio: if bare.mpps > 0.0 { report.common.load.busy_mpps / bare.mpps } else { 0.0 },
            trx_ns: cost.trx_ns,
            ttx_ns: cost.ttx_ns,
        };
        self.rig.close().map(drop)
    }
}

/// Packets as large as those of the workload, as many upstream for one downstream. They are forwarded as they are.
fn traffic(settings: &CableSettings) -> Profile {
    let mixes = settings.mixes();
    let up = settings.upstream * mixes[0].mean() / mixes[1].mean();
    let [downlink_sizes, uplink_sizes] = mixes.map(|mix: Mix| Sizes::mix(mix.shares()));
    Profile { downlink_sizes, uplink_sizes, ratio: Ratio { up, down: 1.0 }, ..Profile::default() }
}
