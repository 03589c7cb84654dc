//! `weir gen`: signed traffic into a gateway from outside, and what became of it.
//!
//! | file | idea |
//! |---|---|
//! | `options.rs` | what the command line and the file say |
//! | `hosts.rs` | both ends on other hosts, at agents |
//! | `resolve.rs` | asking for the gateway's hardware addresses |
//! | `sessions.rs` | the sessions a control plane brought up |
//! | `report.rs` | a line each second, tables at the end |
//! | `broadband.rs` | subscribers behind two VLAN tags, of a broadband gateway |
//! | `cable.rs` | a Remote-PHY device with its modems, of a cable gateway |
//! | `end.rs` | a port at one side of those |

mod broadband;
mod cable;
mod end;
pub(crate) mod hosts;
mod options;
mod report;
mod resolve;
pub(crate) mod sessions;
#[cfg(test)]
mod tests;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};
use frame::{Arena, ArenaConfig, Pool, Port};
use port::{OpenContext, PortError, Uri, Wires};
use traffic::{Clock, Load, LoadOptions, Plan, Schedule, TrialResult};

pub use broadband::drive::Driver;
pub use broadband::{BroadbandCounts, BroadbandResult, LineArgs};
pub use cable::CableResult;
pub use hosts::{check_port, end_of_agent};
pub use options::{GenArgs, Spec, spec};
use options::{GenCommand, Mirror};

use gateway::fail::Usage;
use gateway::shell::pin;
use gateway::signals;
use gateway::tables::Style;

/// Sends and checks, or mirrors.
///
/// # Errors
/// A wrong option or profile, a port that cannot be opened, or more loss than `--max-loss` allows.
pub fn run(args: &GenArgs) -> anyhow::Result<()> {
    match &args.command {
        Some(GenCommand::Broadband(broadband)) => return broadband::run(broadband, &args.json),
        Some(GenCommand::Cable(cable)) => return cable::run(cable, &args.json),
        None => {}
    }
    let spec = spec(args)?;
    if hosts::are_wanted(&spec) {
        return hosts::run(args, &spec);
    }
    for (option, given) in [("--secret", args.secret.is_some()), ("--gateway-agent", args.gateway_agent.is_some())] {
        if given {
            bail!(Usage(format!(
                "{option} has no effect without agents; add --n3 agent:HOST:PORT --n6 agent:HOST:PORT"
            )));
        }
    }
    let stop = signals::stop_flag()?;
    if let Some(cpu) = spec.cpu
        && !pin::pin(cpu)
    {
        bail!(Usage(format!("this process may not run on CPU {cpu}; there are {:?}", pin::cpus())));
    }
    let mut live = report::Live::new(args.json.is_on_stdout() || args.quiet, args.responder);
    let mut tell = |result: &TrialResult| {
        if args.each_second {
            // Nobody reads: nothing is lost.
            let _ = serde_json::to_string(result).map(|line| println!("{line}"));
        }
        live.tell(result);
    };
    let result = drive(args, spec, &Wires::default(), &stop, &mut tell)?;
    args.json.print(&result, || live.end(&result, Style::of_stdout()))?;
    match args.max_loss {
        Some(most) if result.loss_ratio > most => bail!("loss of {:.6} is over {most}", result.loss_ratio),
        _ => Ok(()),
    }
}

/// Opens the ports, runs the trial and closes them.
fn drive(
    args: &GenArgs,
    mut spec: Spec,
    wires: &Wires,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&TrialResult),
) -> anyhow::Result<TrialResult> {
    let slot_bytes = spec.slot_bytes();
    let arena = Arena::new(ArenaConfig { slots: spec.packet_buffers, slot_bytes, headroom: frame::HEADROOM })
        .context("no memory for packets")?;
    let mut pool = Pool::new(&arena, spec.packet_buffers as usize);
    let mut n3 = open("n3", spec.n3.as_deref().filter(|_| !args.responder), &mut pool, wires)?;
    let mut n6 = open("n6", spec.n6.as_deref().filter(|_| spec.mirror != Mirror::Elsewhere), &mut pool, wires)?;
    if !args.responder {
        resolve::addresses(&mut spec, [n3.as_deref_mut(), n6.as_deref_mut()], &mut pool, stop)?;
    } else if let Some(port) = &n6 {
        spec.profile.core.own = wire::Mac(port.caps().mac);
    }
    let plan = Plan::new(spec.profile.clone()).map_err(|error| options::wrong(args, &error))?;
    let options = LoadOptions {
        send: !args.responder,
        receive: !args.responder,
        downlink: spec.mirror.into(),
        verify: spec.verify.into(),
        clock: Clock::monotonic(),
        ..LoadOptions::default()
    };
    let mut load = Load::new(&plan, n3, n6, pool, options).map_err(|error| options::wrong(args, &error))?;
    let ramp = Duration::from_secs_f64(spec.ramp);
    let schedule = Schedule { pps: spec.pps, packets: spec.packets, ramp, ..Schedule::default() };
    load.start(&schedule);
    if !ramp.is_zero() {
        load.run(ramp, stop, &mut *tell);
        // What the ramp sent is not what was asked for.
        load.mark();
    }
    load.run(Duration::from_secs_f64(spec.seconds), stop, &mut *tell);
    let result = load.stop_and_drain(Duration::from_millis(200), Duration::from_secs(2));
    load.close();
    Ok(result)
}

fn open(name: &str, uri: Option<&str>, pool: &mut Pool, wires: &Wires) -> anyhow::Result<Option<Box<dyn Port>>> {
    let Some(uri) = uri else { return Ok(None) };
    let failed = |error: PortError| match error {
        PortError::BadUri { .. } | PortError::UnknownKey { .. } | PortError::BadValue { .. } => {
            anyhow::Error::new(Usage(format!("{name}: {error}")))
        }
        other => anyhow::Error::new(other).context(name.to_owned()),
    };
    let mut cx = OpenContext { wires: wires.clone(), ..OpenContext::new(pool) };
    let port = port::open(&uri.parse::<Uri>().map_err(failed)?, &mut cx).map_err(failed)?;
    Ok(Some(port))
}

impl From<Mirror> for traffic::Downlink {
    fn from(mirror: Mirror) -> Self {
        match mirror {
            Mirror::None => Self::Generated,
            Mirror::Here => Self::Mirrored,
            Mirror::Elsewhere => Self::MirroredElsewhere,
        }
    }
}

/// Whether a file is valid, for the test of the examples.
#[cfg(test)]
pub fn check_file(path: &std::path::Path) -> anyhow::Result<()> {
    options::spec(&GenArgs { file: Some(path.to_owned()), ..GenArgs::default() }).map(drop)
}
