//! One workload over every kind of socket, side by side.

use schemars::JsonSchema;
use serde::Serialize;

use crate::options::ReceiveWork;
use crate::report::Report;
use crate::text::{Table, micros, rate};
use crate::window::median;

/// The published experiment: 128-byte packets, recvfrom and sendto, two cores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Published {
    /// What it is.
    pub name: &'static str,
    /// Receiving and sending.
    pub tn_ns: f64,
    /// Processing.
    pub tc_ns: f64,
    /// The rest.
    pub other_ns: f64,
    /// What comes of it.
    pub mpps: f64,
}

/// Its figures.
pub const PUBLISHED: Published =
    Published { name: "published: recvfrom/sendto", tn_ns: 3147.0, tc_ns: 259.0, other_ns: 288.0, mpps: 0.270 };

/// All reports in one object.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Modes {
    /// Version of these keys.
    pub schema: u32,
    /// One for each kind of socket.
    pub results: Vec<Report>,
    /// To compare with.
    pub published: Published,
}

impl Modes {
    /// Of reports.
    pub fn new(results: Vec<Report>) -> Self {
        Self { schema: 1, results, published: PUBLISHED }
    }

    /// How many times the plain mode's packets a report has for the gateway's time (a second of it, where it was busy
    /// all the time): the median over rounds, since all modes took turns.
    pub(crate) fn times_plain(&self, report: &Report) -> f64 {
        let Some(plain) = self.results.iter().find(|r| r.port == "packet-plain") else { return 0.0 };
        let pairs = report.windows.busy_mpps.iter().zip(&plain.windows.busy_mpps).filter(|(_, plain)| **plain > 0.0);
        median(pairs.map(|(this, plain)| this / plain))
    }

    /// The table.
    pub fn text(&self) -> String {
        let mut out = self.results.first().map_or(String::new(), |r| {
            format!(
                "{}: {} subscribers, one worker with a CPU of its own, {:.1} s each, in turns\n\n",
                r.profile, r.subscribers, r.seconds
            )
        });
        let heads = [
            "", "gateway", "busy", "× plain", "bare", "of bare", "Trx", "Tc", "Ttx", "other", "Tp ns", "p50", "p99",
            "lost",
        ];
        let mut table = Table::new(&heads);
        for r in &self.results {
            let c = &r.cost;
            let ns = |ns: f64| format!("{ns:.0}");
            let worst = |of: fn(&traffic::LatencySummary) -> f64| {
                micros(of(&r.directions.uplink.latency_us).max(of(&r.directions.downlink.latency_us)))
            };
            table.row([
                r.port.clone(),
                rate(r.mpps),
                format!("{:.0} %", r.worker_utilisation.first().unwrap_or(&0.0) * 100.0),
                format!("{:.2}", self.times_plain(r)),
                rate(r.reference.mpps),
                format!("{:.1} %", r.reference.ratio * 100.0),
                ns(c.trx_ns),
                ns(c.tc_ns),
                ns(c.ttx_ns),
                ns(c.other_ns),
                ns(c.tp_ns),
                worst(|l| l.p50),
                worst(|l| l.p99),
                r.paced.as_ref().map_or("-".to_owned(), |p| format!("{:.3} %", p.loss_ratio_median * 100.0)),
            ]);
        }
        table.rule();
        let p = &self.published;
        table.row([
            p.name.to_owned(),
            rate(p.mpps),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            format!("Tn {:.0}", p.tn_ns),
            format!("{:.0}", p.tc_ns),
            String::new(),
            format!("{:.0}", p.other_ns),
            format!("{:.0}", p.tn_ns + p.tc_ns + p.other_ns),
        ]);
        out += &table.text();
        out += "\n  Rates: forwarded under overload, both directions together. Latency and loss: at 80 % of that, every\n  \
                packet checked, the median window. Bare: a forwarder on the same kind of ports that does nothing else.\n";
        let all = || self.results.iter();
        if all().any(|r| r.load.receive_work == ReceiveWork::Load.word()) {
            out += "  What the gateway sends is taken in on the load's CPU, as beyond a wire.\n";
        }
        if all().any(|r| !r.load.saturates) {
            out += "  Where the load had no more to give (busy below 100 %), × plain and of bare are by the time the \
                    gateway\n  was busy.\n";
        }
        if let Some(r) = self.results.first() {
            out += &format!(
                "  {}, Linux {}, {} cores; machine busy {:.0} %, stolen {:.1} %, scheduling {}\n",
                r.host.cpu,
                r.host.kernel,
                r.host.cores,
                r.host.busy_ratio * 100.0,
                r.host.steal_ratio * 100.0,
                r.host.scheduling
            );
        }
        out
    }
}
