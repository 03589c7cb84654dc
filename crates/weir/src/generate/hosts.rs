//! `weir gen --n3 agent:HOST:PORT --n6 agent:HOST:PORT`: both ends of a gateway on hosts of their own.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::bench::agent::{Agents, Hosts, HostsTrial, OpenEnd, Side};
use anyhow::{Context, bail};
use frame::{Arena, ArenaConfig, Pool};
use gateway::fail::Usage;
use gateway::signals;
use gateway::tables::{Style, Table, count};
use port::{Uri, Wires};
use traffic::{Downlink, Load, LoadOptions, Plan, Verify};

use super::options::{self, Checks, GenArgs, Mirror, Spec};
use super::{report, resolve};
use crate::agent;

/// What ports on another host begin with.
const SCHEME: &str = "agent:";
/// The clocks of two hosts are apart by less, once they were compared.
const CLOCK_SKEW: Duration = Duration::from_millis(100);

/// Whether one of the ports is on another host.
pub fn are_wanted(spec: &Spec) -> bool {
    [&spec.n3, &spec.n6].into_iter().flatten().any(|uri| uri.starts_with(SCHEME))
}

/// The agents of a specification.
///
/// # Errors
/// One end is local, or an option has no effect over agents.
pub fn agents(args: &GenArgs, spec: &Spec) -> anyhow::Result<Agents> {
    let end = |option: &str, uri: &Option<String>| {
        let at = uri.as_deref().and_then(|uri| uri.strip_prefix(SCHEME));
        let at = at.ok_or_else(|| {
            Usage(format!(
                "{option}: both ends are at agents, or none is; allowed: {option} agent:HOST:PORT (on this host too: \
                 weir agent :4780 --port URI)"
            ))
        })?;
        agent::address(option, at)
    };
    let unread = [
        ("--mirror", spec.mirror != Mirror::None),
        ("--responder", args.responder),
        ("--packets", spec.packets.is_some()),
        ("--ramp", spec.ramp > 0.0),
        ("--cpu", spec.cpu.is_some()),
        ("--each-second", args.each_second),
    ];
    if let Some((option, _)) = unread.iter().find(|(_, given)| *given) {
        bail!(Usage(format!("{option} has no effect where both ends are at agents")));
    }
    Ok(Agents {
        access: end("--n3", &spec.n3)?,
        core: end("--n6", &spec.n6)?,
        gateway: args.gateway_agent.as_deref().map(|at| agent::address("--gateway-agent", at)).transpose()?,
    })
}

/// Connects to the agents and opens both ends.
///
/// # Errors
/// As [`agents`]; an agent is not there or cannot open its end.
pub fn connect(args: &GenArgs, spec: &Spec, stop: &Arc<AtomicBool>) -> anyhow::Result<Hosts> {
    let agents = agents(args, spec)?;
    let secret = args.secret.as_deref().ok_or_else(|| Usage("--secret FILE: agents ask for it".to_owned()))?;
    let secret = agent::secret(secret)?;
    // What is wrong with the traffic is told here, where the file is.
    Plan::new(spec.profile.clone()).map_err(|error| options::wrong(args, &error))?;
    let end = |side: Side, mac: Option<wire::Mac>, answers: &[std::net::IpAddr]| {
        let mut end = OpenEnd::new(side, &spec.profile);
        (end.upf_n6, end.mac, end.answers) = (spec.upf_n6, mac.map(|mac| mac.0), answers.to_vec());
        end.packet_buffers = spec.packet_buffers;
        end.checks = match spec.verify {
            Checks::None => None,
            Checks::Tunnel => Some(false),
            Checks::All => Some(true),
        };
        end
    };
    let ends = [end(Side::Access, spec.macs[0], &spec.answer_n3), end(Side::Core, spec.macs[1], &spec.answer_n6)];
    let mut hosts = Hosts::connect(&agents, &secret, [&ends[0], &ends[1]], stop)?;
    hosts.warm()?;
    Ok(hosts)
}

/// Sends and checks over agents.
///
/// # Errors
/// As [`connect`]; more loss than `--max-loss` allows.
pub fn run(args: &GenArgs, spec: &Spec) -> anyhow::Result<()> {
    let stop = signals::stop_flag().context("no signal handlers")?;
    let mut hosts = connect(args, spec, &stop)?;
    if spec.seconds > 3600.0 {
        bail!(Usage(format!("--seconds {}: allowed over agents: up to 3600", spec.seconds)));
    }
    if spec.pps.is_none() && spec.profile.ratio.up != spec.profile.ratio.down {
        bail!(Usage("--ratio over agents wants a rate: each end sends as much as it can; add --pps".to_owned()));
    }
    let seconds = spec.seconds;
    let is_quiet = args.quiet || args.json.is_on_stdout() || !std::io::stderr().is_terminal();
    let is_over = AtomicBool::new(false);
    let trial = std::thread::scope(|scope| {
        if !is_quiet {
            scope.spawn(|| show_time(seconds, &is_over));
        }
        let trial = hosts.trial(spec.pps, seconds);
        is_over.store(true, Ordering::Relaxed);
        trial
    })?;
    args.json.print(&trial, || text(&trial, Style::of_stdout()))?;
    match args.max_loss {
        Some(most) if trial.result.loss_ratio > most => bail!("loss of {:.6} is over {most}", trial.result.loss_ratio),
        _ => Ok(()),
    }
}

/// The time that has passed, on one line.
fn show_time(seconds: f64, is_over: &AtomicBool) {
    let begun = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let passed = begun.elapsed().as_secs_f64();
        // Whoever closed standard error has seen enough.
        let _ = write!(std::io::stderr(), "\r\x1b[K{passed:.0} s of {seconds:.0}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let _ = write!(std::io::stderr(), "\r\x1b[K");
}

fn text(trial: &HostsTrial, style: Style) -> String {
    let mut out = report::text(&trial.result, style);
    out += &format!(
        "\nlatencies are of one way and off by at most {:.0} µs (clocks compared before and after)\n\n",
        trial.latency_error_us
    );
    let mut table =
        Table::new(&["host", "name", ">CPUs", ">busy", ">stolen", ">clock behind", ">round trip", ">loses", ">drift"]);
    for host in &trial.hosts {
        let mut row = vec![
            host.role.clone(),
            host.hostname.clone(),
            host.cpus.to_string(),
            format!("{:.0} %", host.busy_ratio * 100.0),
            format!("{:.1} %", host.steal_ratio * 100.0),
        ];
        let us = |us: f64| format!("{us:.1} µs");
        let clock = [
            us(host.clock_offset_us),
            us(host.clock_round_trip_us),
            format!("{:.1} ppm", host.clock_gain_ppm),
            us(host.clock_drift_us),
        ];
        row.extend(clock.map(|text| if host.role == "gateway" { String::new() } else { text }));
        table.row(row);
    }
    out += &table.render(style);
    if let Some(gateway) = &trial.gateway {
        out += &format!(
            "\n{} {}, {} workers: {:.2} CPU seconds, {:.2} µs a packet; received {}\n",
            gateway.gateway,
            gateway.version,
            gateway.workers,
            gateway.cpu_seconds,
            gateway.cpu_us_per_packet,
            count(gateway.rx_packets)
        );
        for (reason, packets) in &gateway.drops {
            out += &format!("  dropped {reason}: {}\n", count(*packets));
        }
    }
    if !trial.disturbed.is_empty() {
        out += "\nDISTURBED, do not rely on it: a hypervisor gave the processors to others\n";
    }
    out
}

/// At an agent: opens its port as an end of a gateway.
///
/// # Errors
/// The port cannot be opened, the gateway does not answer, or the traffic does not fit the port.
pub fn end_of_agent(uri: &str, wanted: &OpenEnd, stop: &AtomicBool) -> anyhow::Result<Load> {
    let is_access = wanted.side == Side::Access;
    let mac = wanted.mac.map(wire::Mac);
    let mut spec = Spec {
        profile: wanted.profile(),
        upf_n6: wanted.upf_n6,
        packet_buffers: wanted.packet_buffers.clamp(64, 1 << 20),
        macs: if is_access { [mac, None] } else { [None, mac] },
        ..Spec::default()
    };
    let answers = if is_access { &mut spec.answer_n3 } else { &mut spec.answer_n6 };
    answers.clone_from(&wanted.answers);
    let slot_bytes = spec.slot_bytes();
    let arena = Arena::new(ArenaConfig { slots: spec.packet_buffers, slot_bytes, headroom: frame::HEADROOM })
        .context("no memory for packets")?;
    let mut pool = Pool::new(&arena, spec.packet_buffers as usize);
    let port = super::open("--port", Some(uri), &mut pool, &Wires::default())?;
    let (mut n3, mut n6) = if is_access { (port, None) } else { (None, port) };
    resolve::addresses(&mut spec, [n3.as_deref_mut(), n6.as_deref_mut()], &mut pool, stop)?;
    let plan = Plan::new(spec.profile)?;
    let verify = match wanted.checks {
        None => Verify::NONE,
        Some(false) => Verify::default(),
        Some(true) => Verify::ALL,
    };
    let downlink = if wanted.is_returned { Downlink::Returned } else { Downlink::Generated };
    let options = LoadOptions { verify, downlink, clock_skew: CLOCK_SKEW, ..LoadOptions::default() };
    Ok(Load::new(&plan, n3, n6, pool, options)?)
}

/// Whether a port's URI can be read.
///
/// # Errors
/// What is wrong with it.
pub fn check_port(option: &str, uri: &str) -> anyhow::Result<()> {
    uri.parse::<Uri>().map(drop).map_err(|error| Usage(format!("{option}: {error}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(n3: &str, n6: &str) -> Spec {
        Spec { n3: Some(n3.into()), n6: Some(n6.into()), ..Spec::default() }
    }

    #[test]
    fn both_ends_are_at_agents_or_none() {
        let args = GenArgs::default();
        assert!(!are_wanted(&spec("packet:a", "packet:b")) && are_wanted(&spec("agent::1", "packet:b")));
        let both = agents(&args, &spec("agent::4780", "agent:127.0.0.1:4781")).unwrap();
        assert_eq!((both.access.port(), both.core.port(), both.gateway), (4780, 4781, None));
        let said = agents(&args, &spec("agent::4780", "packet:b")).unwrap_err();
        assert!(said.is::<Usage>() && said.to_string().contains("--n6 agent:HOST:PORT"), "{said}");
        let mirror = Spec { mirror: Mirror::Here, ..spec("agent::1", "agent::2") };
        assert!(agents(&args, &mirror).unwrap_err().to_string().contains("--mirror has no effect"));
    }
}
