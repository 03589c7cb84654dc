//! `weir probe gateway` and `weir probe broadband`: weir's gateways or somebody else's, through sessions that they give.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ::bench::BenchError;
use ::bench::probe::gateway::{GatewayProbe, Overload, Probed, gateway};
use ::bench::search::{Outcome, Trial};
use ::certificate::Host;
use anyhow::{Context, bail};
use clap::Args;
use cpsim::CpArgs;
use gateway::fail::Usage;
use gateway::signals;
use traffic::{LatencySummary, Profile};

use super::{OutArgs, measure_until, minutes, open_key};
use crate::generate::{BroadbandResult, Driver, GenArgs, LineArgs, hosts, spec};

/// `weir probe gateway`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo weir agent 10.0.0.2:4780 --secret FILE --port packet:eth1    on the access side's host
  sudo weir agent 10.0.0.3:4780 --secret FILE --port packet:eth1    on the core side's host
  weir probe gateway gen.toml --access 10.0.0.2:4780 --core 10.0.0.3:4780 --secret FILE --cp cp.toml

gen.toml is a profile of weir gen, cp.toml one of weir cp: with --cp this process is the control
plane, establishes the sessions by PFCP, and deletes them at the end.")]
pub struct GatewayArgs {
    /// The traffic: a profile of weir gen.
    #[arg(value_name = "PROFILE.toml")]
    pub file: PathBuf,
    /// The agent at the access side (N3).
    #[arg(long, value_name = "HOST:PORT")]
    pub access: String,
    /// The agent at the core side (N6).
    #[arg(long, value_name = "HOST:PORT")]
    pub core: String,
    /// The agent on the gateway's own host: processor, steal, and processor time with its --socket.
    #[arg(long, value_name = "HOST:PORT")]
    pub gateway: Option<String>,
    /// A file with the secret of the agents.
    #[arg(long, value_name = "FILE")]
    pub secret: PathBuf,
    /// Be the control plane of this profile of weir cp while the probe lasts.
    #[arg(long, value_name = "CP.toml", conflicts_with = "sessions")]
    pub cp: Option<PathBuf>,
    /// Sessions that are up: a file of weir cp --sessions-out.
    #[arg(long, value_name = "FILE")]
    pub sessions: Option<PathBuf>,
    /// Name of the gateway's host in the certificate, where no agent tells it.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Minutes that all steps are to take.
    #[arg(long, value_name = "N", default_value = "15", value_parser = minutes)]
    pub minutes: f64,
    /// Where the certificate goes, and who signs it.
    #[command(flatten)]
    pub out: OutArgs,
}

/// `weir probe broadband`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo weir probe broadband --access 'packet:line0?promisc=on' --core packet:core0 --name bng1

Subscribers get their leases by DHCP, resolve their router by ARP, then send and receive signed
packets behind their VLAN tags, two unless --tags says otherwise. Both ports are of this host.")]
pub struct ProbeBroadbandArgs {
    /// Subscribers and ports.
    #[command(flatten)]
    pub lines: LineArgs,
    /// Name of the gateway's host in the certificate.
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Minutes that all steps are to take.
    #[arg(long, value_name = "N", default_value = "15", value_parser = minutes)]
    pub minutes: f64,
    /// Where the certificate goes, and who signs it.
    #[command(flatten)]
    pub out: OutArgs,
}

/// Time in which another session comes up, or none will.
const NEXT: Duration = Duration::from_secs(20);

/// A control plane of this process, until it is dropped.
struct ControlPlane {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// The file that it writes.
    sessions: PathBuf,
}

impl ControlPlane {
    /// Starts one; returns once all its sessions are up.
    fn start(file: &std::path::Path, stop: &AtomicBool) -> anyhow::Result<Self> {
        let sessions = std::env::temp_dir().join(format!("weir-probe-{}.sessions", std::process::id()));
        let args = CpArgs {
            file: Some(file.to_owned()),
            sessions_out: Some(sessions.clone()),
            quiet: true,
            ..CpArgs::default()
        };
        let (sender, said) = channel();
        let own = Arc::new(AtomicBool::new(false));
        let run = {
            let own = own.clone();
            move || {
                let up = sender.clone();
                let ended = cpsim::serve_still(&args, &own, &mut || _ = up.send(Ok(())));
                // Nobody waits any more once sessions are up.
                let _ = sender.send(ended.map(drop));
            }
        };
        let thread = std::thread::Builder::new().name("control-plane".into()).spawn(run)?;
        let plane = Self { stop: own, thread: Some(thread), sessions };
        let (mut latest, mut size) = (Instant::now(), 0);
        while latest.elapsed() < NEXT {
            let written = std::fs::metadata(&plane.sessions).map_or(0, |file| file.len());
            if written > size {
                (latest, size) = (Instant::now(), written);
            }
            match said.recv_timeout(Duration::from_millis(100)) {
                Ok(Ok(())) => return Ok(plane),
                Ok(Err(error)) => return Err(error.context("--cp")),
                Err(RecvTimeoutError::Timeout) if !stop.load(Ordering::Relaxed) => {}
                Err(RecvTimeoutError::Timeout) => bail!("--cp: interrupted"),
                Err(RecvTimeoutError::Disconnected) => bail!("--cp: the control plane ended by itself"),
            }
        }
        bail!("--cp: not all sessions came up, and none did for {} s", NEXT.as_secs())
    }
}

impl ControlPlane {
    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.sessions);
    }
}

/// The mean frame of a profile, both directions, with FCS.
fn frame_bytes(profile: &Profile) -> u32 {
    let share = profile.ratio.up / (profile.ratio.up + profile.ratio.down);
    let mean = profile.uplink_sizes.mean() * share + profile.downlink_sizes.mean() * (1.0 - share);
    mean.round() as u32 + 4
}

/// What was run, as it would be typed, without the secret.
fn command(args: &GatewayArgs) -> String {
    let mut words = format!("weir probe gateway {} --minutes {}", args.file.display(), args.minutes);
    words += &format!(" --access {} --core {}", args.access, args.core);
    args.gateway.iter().for_each(|at| words += &format!(" --gateway {at}"));
    args.cp.iter().for_each(|file| words += &format!(" --cp {}", file.display()));
    args.sessions.iter().for_each(|file| words += &format!(" --sessions {}", file.display()));
    args.name.iter().for_each(|name| words += &format!(" --name {name}"));
    words
}

fn broadband_command(args: &ProbeBroadbandArgs) -> String {
    let LineArgs { access, core, subscribers, tags, s_vlan, c_vlan, c_vlans, tpid, server, servers, .. } = &args.lines;
    let LineArgs { gateway, size, setup_rate, ipv6, server6, .. } = &args.lines;
    let mut words = format!(
        "weir probe broadband --name {} --minutes {} --access {access} --core {core} --subscribers {subscribers} \
         --setup-rate {setup_rate} --tags {tags} --server {server} --servers {servers} --gateway {gateway} --size {size}",
        args.name, args.minutes
    );
    s_vlan.iter().for_each(|id| words += &format!(" --s-vlan {id}"));
    c_vlan.iter().for_each(|id| words += &format!(" --c-vlan {id}"));
    c_vlans.iter().for_each(|number| words += &format!(" --c-vlans {number}"));
    tpid.iter().for_each(|tpid| words += &format!(" --tpid {tpid:#x}"));
    words += if *ipv6 { " --ipv6" } else { "" };
    server6.iter().for_each(|address| words += &format!(" --server6 {address}"));
    words
}

/// Runs `weir probe gateway`.
///
/// # Errors
/// An agent or the gateway is not there, or sessions do not come up.
pub fn run(args: &GatewayArgs) -> anyhow::Result<()> {
    if args.name.is_none() && args.gateway.is_none() {
        bail!(Usage("--name NAME or --gateway HOST:PORT: a certificate names the gateway's host".to_owned()));
    }
    let key = open_key(&args.out)?;
    let stop = signals::stop_flag().context("no signal handlers")?;
    let plane = args.cp.as_deref().map(|file| ControlPlane::start(file, &stop)).transpose()?;
    let ends = GenArgs {
        file: Some(args.file.clone()),
        n3: Some(format!("agent:{}", args.access)),
        n6: Some(format!("agent:{}", args.core)),
        gateway_agent: args.gateway.clone(),
        secret: Some(args.secret.clone()),
        sessions: plane.as_ref().map(|plane| plane.sessions.clone()).or_else(|| args.sessions.clone()),
        ..GenArgs::default()
    };
    let spec = spec(&ends)?;
    let mut hosts = hosts::connect(&ends, &spec, &stop)?;
    let probe = GatewayProbe {
        minutes: args.minutes,
        name: args.name.clone(),
        kind: "upf".to_owned(),
        profile: args.file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        subscribers: spec.profile.ues.into(),
        frame_bytes: frame_bytes(&spec.profile),
        command: command(args),
        place: "agents at both sides of the gateway".to_owned(),
    };
    let has_ended = || plane.as_ref().is_some_and(ControlPlane::has_ended);
    let found = measure_until(&key, &args.out, &stop, |stop, show| {
        let mut found = gateway(&mut hosts, &probe, stop, show)?;
        if spec.profile.ratio.up != spec.profile.ratio.down {
            found.notes.push(
                "as many packets as can be sent are not in the profile's ratio: each end sends what it can; the rates found \
                 with little loss are"
                    .to_owned(),
            );
        }
        if has_ended() {
            found.run.is_complete = false;
            found
                .notes
                .push("ended early: the control plane lost its association, and with it the sessions".to_owned());
        }
        Ok(found)
    });
    drop(plane);
    found
}

/// Subscribers behind two tags as a device of searches.
struct Broadband<'a> {
    driver: Driver<'a>,
    size: u16,
    stop: &'a AtomicBool,
}

impl Broadband<'_> {
    fn trial(&mut self, pps: Option<f64>, seconds: f64) -> Result<BroadbandResult, BenchError> {
        self.driver.traffic(pps, seconds, self.stop, &mut |_, _| {});
        if self.stop.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(self.driver.result(seconds)) }
    }
}

impl Trial for Broadband<'_> {
    type Error = BenchError;

    fn measure(&mut self, load: f64, duration: Duration) -> Result<Outcome, BenchError> {
        let begin = Instant::now();
        let found = self.trial(Some(load), duration.as_secs_f64())?;
        let both = [&found.uplink, &found.downlink];
        let sent: u64 = both.iter().map(|counts| counts.sent_packets).sum();
        let received: u64 = both.iter().map(|counts| counts.received_packets).sum();
        Ok(Outcome {
            elapsed_seconds: begin.elapsed().as_secs_f64(),
            latency_us: ::bench::search::slower(both.map(|counts| LatencySummary {
                p50: counts.latency_us_p50,
                p99: counts.latency_us_p99,
                p999: counts.latency_us_max,
                max: counts.latency_us_max,
            })),
            ..Outcome::of(load, duration.as_secs_f64(), (sent, received))
        })
    }
}

impl Probed for Broadband<'_> {
    fn overload(&mut self, seconds: f64) -> Result<Overload, BenchError> {
        let found = self.trial(None, seconds)?;
        let received = found.uplink.received_packets + found.downlink.received_packets;
        Ok(Overload {
            forwarded: received as f64 / seconds.max(1e-9),
            frame_bytes_mean: f64::from(self.size) + 14.0,
            ..Overload::default()
        })
    }

    fn host(&mut self) -> Result<Option<Host>, BenchError> {
        Ok(None)
    }
}

/// Runs `weir probe broadband`.
///
/// # Errors
/// A port cannot be opened, or no subscriber gets a lease.
pub fn run_broadband(args: &ProbeBroadbandArgs) -> anyhow::Result<()> {
    let key = open_key(&args.out)?;
    let stop = signals::stop_flag().context("no signal handlers")?;
    let driver = Driver::connected(&args.lines, &stop, &mut |_, _| {})?;
    let up = driver.result(0.0).routers_resolved;
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    if up == 0 {
        bail!("no subscriber got a lease and a router: does the gateway run, and has it these VLANs?");
    }
    let mut device = Broadband { driver, size: args.lines.size, stop: &stop };
    let probe = GatewayProbe {
        minutes: args.minutes,
        name: Some(args.name.clone()),
        kind: "bng".to_owned(),
        profile: ["subscribers without tags", "subscribers behind a VLAN tag", "subscribers behind two VLAN tags"]
            [usize::from(args.lines.tags.min(2))]
        .to_owned()
            + if args.lines.ipv6 { ", dual stack, DHCP" } else { ", DHCP" },
        subscribers: up,
        frame_bytes: u32::from(args.lines.size) + 14 + 4,
        command: broadband_command(args),
        place: "both ports of this host".to_owned(),
    };
    let found = measure_until(&key, &args.out, &stop, |stop, show| gateway(&mut device, &probe, stop, show));
    device.driver.close();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_the_mean_of_both_directions() {
        let profile = Profile {
            uplink_sizes: traffic::Sizes::Fixed(100),
            downlink_sizes: traffic::Sizes::Fixed(500),
            ratio: traffic::Ratio { up: 1.0, down: 3.0 },
            ..Profile::default()
        };
        assert_eq!(frame_bytes(&profile), 404);
    }
}
