//! What the commands around gateways print with `--json`, for `weir schema`. `docs/schema/output` and `docs/outputs.md`
//! are written from it.

use ::bench::agent::HostsTrial;
use ::bench::bursts::Bursts;
use ::bench::cmts::CableReport;
use ::bench::compare::Comparison;
use ::bench::experiment::{ExperimentReport, Listed};
use ::bench::io::IoCost;
use ::bench::modes::Modes;
use ::bench::pfcp_sessions::PfcpSessions;
use ::bench::real::RealReport;
use ::bench::report::Report;
use ::bench::scale::Scale;
use ::bench::searching::SearchReport;
use ::bench::suite::Suite;
use bng::product::BngReply;
use capacity::calibration::Calibration;
use capacity::catalogue::{MachineRow, MeasurementRow, PriceRow, SourceRow};
use capacity::plan::Answer;
use capacity::reproduce::Figure;
use certificate::Certificate;
use cmts::product::CableReply;
use gateway::fast_path::{Cleared, KernelPaths};
use gateway::outputs::Output;
use ledger::{Health, Record, Salvaged};
use schemars::JsonSchema;
use traffic::TrialResult;

use crate::bench::DayReport;
use crate::generate::{BroadbandResult, CableResult};
use crate::lab::LabView;
use crate::plan::{Everything, Measured, Verdict};

/// One report, or one for each kind of port and number of service groups.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code)] // its schema is what it is for
enum CableReports {
    /// Of one kind of port and one number of service groups.
    One(Box<CableReport>),
    /// Of each.
    Many(Vec<CableReport>),
}

/// In the order of the commands.
pub const OUTPUTS: &[Output] = &[
    Output::of::<CableReply>("cmts", "weir cmts … --json", "Modems, service flows, classifiers, or what was done"),
    Output::of::<BngReply>(
        "subscriber",
        "weir subscriber NAME … --json",
        "The subscriber, or that its leases have ended",
    ),
    Output::of::<BngReply>(
        "move group",
        "weir move group NAME … --json",
        "The group that moved: workers, time taken, pause",
    ),
    Output::of::<Vec<Record>>("cdr list", "weir cdr list --json", "Charging records"),
    Output::of::<Record>("cdr export", "weir cdr export", "A charging record a line"),
    Output::of::<Health>(
        "ledger check",
        "weir ledger check --json",
        "What is readable of a ledger, and what is damaged",
    ),
    Output::of::<Salvaged>("ledger salvage", "weir ledger salvage --json", "What was saved of a damaged ledger"),
    Output::of::<KernelPaths>(
        "fastpath show",
        "weir fastpath show --json",
        "In-kernel paths that stay when their process ends: whether it lives, sessions, packets",
    ),
    Output::of::<Cleared>("fastpath clear", "weir fastpath clear --json", "Interfaces cleared, and those left alone"),
    Output::of::<cpsim::Summary>("cp", "weir cp --json", "Sessions, requests, response times, usage, refusals"),
    Output::of::<cpsim::Line>("cp sessions", "weir cp --sessions-out FILE", "A session a line: addresses and tunnel"),
    Output::of::<HostsTrial>(
        "gen hosts",
        "weir gen --n3 agent:… --n6 agent:… --json",
        "The same over agents: packets, latencies of one way, hosts and their clocks, the gateway",
    ),
    Output::of::<TrialResult>("gen", "weir gen --json", "Packets sent, received and lost, and latencies, by direction"),
    Output::of::<BroadbandResult>(
        "gen broadband",
        "weir gen broadband --json",
        "Leases, packets sent and received with their checks, by direction",
    ),
    Output::of::<CableResult>(
        "gen cable",
        "weir gen cable CONFIG --json",
        "Frames sent and received with their checks, by direction",
    ),
    Output::of::<Report>(
        "bench",
        "weir bench PROFILE --json",
        "upf-128, upf-embb, vepc-embb, fwa, fwa-full, bng-600g: rates, cost of a packet by stage, losses, latencies",
    ),
    Output::of::<Vec<Listed>>("bench list", "weir bench --list --json", "Experiments with their publications"),
    Output::of::<ExperimentReport>(
        "bench experiment",
        "weir bench EXPERIMENT --json",
        "Experiments that vary something, and --vary: a row for each point, and the reports behind",
    ),
    Output::of::<Modes>("bench all", "weir bench PROFILE --port all --json", "A report for each kind of port"),
    Output::of::<Scale>(
        "bench scale",
        "weir bench PROFILE --instances N --json",
        "Reports by gateways; with --fanout by workers",
    ),
    Output::of::<Bursts>(
        "bench bursts",
        "weir bench PROFILE --bursts SIZES --json",
        "Processing time by packets a burst",
    ),
    Output::of::<SearchReport>(
        "bench search",
        "weir bench PROFILE --search KINDS --json",
        "Rates by goal and frame size, latency and loss by rate, every trial",
    ),
    Output::of::<CableReports>("bench cmts-imix", "weir bench cmts-imix --json", "A report, or several in a list"),
    Output::of::<PfcpSessions>(
        "bench pfcp-sessions",
        "weir bench pfcp-sessions --json",
        "Sessions a second, response times",
    ),
    Output::of::<IoCost>(
        "bench io",
        "weir bench io --port dpdk --json",
        "What a DPDK port costs beside dpdk-testpmd, by device and link",
    ),
    Output::of::<DayReport>("bench day", "weir bench day --json", "CPU time over a day of load, groups parked or not"),
    Output::of::<RealReport>(
        "bench real",
        "weir bench real --json",
        "Cells and checks of a gateway process on live frames",
    ),
    Output::of::<Suite>(
        "bench suite",
        "weir bench suite --json",
        "Every target with its verdict, and the reports behind",
    ),
    Output::of::<Certificate>(
        "probe quick",
        "weir probe quick --json",
        "A signed certificate: rates by queues, sizes and flows, latency, spread",
    ),
    Output::of::<Certificate>(
        "probe gateway",
        "weir probe gateway … --json",
        "A signed certificate: rate, latency and spread of a user plane between two agents",
    ),
    Output::of::<Certificate>(
        "probe broadband",
        "weir probe broadband … --json",
        "A signed certificate: rate, latency and spread of a broadband gateway",
    ),
    Output::of::<Certificate>(
        "probe burst",
        "weir probe burst --agent HOST:PORT --json",
        "A signed certificate: peak, baseline, depth and refill of bytes and packets, in and out",
    ),
    Output::of::<Certificate>(
        "probe check",
        "weir probe check CERT.json --json",
        "The certificate, whose hash and signature are right",
    ),
    Output::of::<Comparison>(
        "compare",
        "weir compare A.json B.json --json",
        "Metrics and stages of both sides, changes with confidence intervals",
    ),
    Output::of::<Answer>(
        "plan",
        "weir plan PLAN.toml --json",
        "Machines that carry a network, their limits and prices",
    ),
    Output::of::<Vec<Measured>>(
        "plan points",
        "weir plan --from RESULT.json --json",
        "Points of a plan from measurements",
    ),
    Output::of::<Everything>("plan catalogue", "weir plan catalogue --json", "All tables and lists of the planner"),
    Output::of::<Vec<MachineRow>>(
        "plan catalogue machines",
        "weir plan catalogue machines --json",
        "Rows of machines.tsv: machine types of clouds",
    ),
    Output::of::<Vec<PriceRow>>(
        "plan catalogue prices",
        "weir plan catalogue prices --json",
        "Rows of prices.tsv: prices by type, region and day",
    ),
    Output::of::<Vec<MeasurementRow>>(
        "plan catalogue measurements",
        "weir plan catalogue measurements --json",
        "Rows of measurements.tsv: packet rates, and what gateways carried",
    ),
    Output::of::<Vec<SourceRow>>(
        "plan catalogue sources",
        "weir plan catalogue sources --json",
        "Rows of sources.tsv: where the other tables' rows are from",
    ),
    Output::of::<Vec<Figure>>(
        "plan reproduce",
        "weir plan reproduce --json",
        "Published figures beside those computed",
    ),
    Output::of::<Calibration>(
        "plan calibration",
        "weir plan calibration --json",
        "Measurements beside what the planner predicts of them from others",
    ),
    Output::of::<Verdict>(
        "plan verify",
        "weir plan verify --json",
        "Predicted rates and machines beside measured ones, round by round",
    ),
    Output::of::<Vec<LabView>>("lab", "weir lab … --json", "Networks of examples: namespaces, and commands to try"),
];
