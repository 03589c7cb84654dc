//! `weir agent`: this host's part in measurements that another host asks for.

use std::fs;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ::bench::agent::{GatewayUse, HostUse, InterfaceUse, Offer, OpenEnd, SECRET_BYTES, serve};
use ::bench::host::CpuTime;
use ::bench::probe::machine_facts;
use anyhow::{Context, bail};
use clap::Args;
use engine::Io;
use gateway::fail::Usage;
use gateway::signals;
use gateway::socket::{Client, Reply, Request};
use traffic::Load;

use crate::generate;

/// `weir agent`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir agent 10.0.0.2:4780 --secret FILE       on the other host, then
  weir probe burst --agent 10.0.0.2:4780 --secret FILE --minutes 60

  sudo weir agent 10.0.0.2:4780 --secret FILE --port packet:eth1
                                               on the hosts at both sides of a gateway, then
  weir gen gen.toml --n3 agent:10.0.0.2:4780 --n6 agent:10.0.0.3:4780 --secret FILE

Both hosts have the same secret in a file of mode 0600; it is never sent: both sides prove that they
have it. Without --port the agent sends packets only to the host that asks. It serves one client at
a time, and ends with Ctrl-C.")]
pub struct AgentArgs {
    /// Where to listen: an address of this host, or :PORT for loopback only.
    #[arg(value_name = "ADDRESS:PORT")]
    pub listen: String,
    /// A file with the secret that both have.
    #[arg(long, value_name = "FILE")]
    pub secret: PathBuf,
    /// A port that clients with the secret may use as one end of a gateway, such as packet:eth1.
    #[arg(long, value_name = "URI")]
    pub port: Option<String>,
    /// The control socket of a gateway on this host, for its processor time and counters.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// Runs `weir agent` until it is told to stop.
///
/// # Errors
/// The secret is not readable, or the address is taken.
pub fn run(args: &AgentArgs) -> anyhow::Result<()> {
    let secret = secret(&args.secret)?;
    let at = address("ADDRESS:PORT", &args.listen)?;
    if let Some(port) = &args.port {
        generate::check_port("--port", port)?;
    }
    let stop = signals::stop_flag().context("no signal handlers")?;
    let listener = TcpListener::bind(at).with_context(|| format!("listening on {at}"))?;
    eprintln!("weir agent listens on {}", listener.local_addr()?);
    let mut offer = Offered { port: args.port.as_deref(), socket: args.socket.as_deref() };
    serve(&listener, &secret, &mut offer, &stop, &mut |line| eprintln!("{line}")).context("weir agent")
}

/// What this host offers.
struct Offered<'a> {
    port: Option<&'a str>,
    socket: Option<&'a Path>,
}

impl Offer for Offered<'_> {
    fn open(&mut self, wanted: &OpenEnd, stop: &AtomicBool) -> anyhow::Result<(Load, String)> {
        let Some(uri) = self.port else {
            bail!("this agent offers no port; start it with --port, such as --port packet:eth1");
        };
        let load = generate::end_of_agent(uri, wanted, stop)?;
        Ok((load, uri.to_owned()))
    }

    fn used(&mut self) -> anyhow::Result<HostUse> {
        Ok(HostUse {
            machine: machine_facts::host(String::new(), 1, 0.0),
            cpu: CpuTime::now(),
            gateway: self.socket.map(gateway_of).transpose()?,
            interface: self.port.and_then(InterfaceUse::of),
        })
    }
}

/// What the gateway at a control socket has done so far.
fn gateway_of(socket: &Path) -> anyhow::Result<GatewayUse> {
    let Reply::Counters(snapshot) = Client::connect(socket)?.ask(&Request::Counters)? else {
        bail!("unexpected reply of the gateway; are they of different versions?");
    };
    let mut used = GatewayUse {
        gateway: snapshot.gateway.clone(),
        version: snapshot.version.clone(),
        workers: snapshot.workers.len(),
        cpu_seconds: cpu_seconds(snapshot.pid).unwrap_or(0.0),
        ..GatewayUse::default()
    };
    for worker in &snapshot.workers {
        used.rx_packets += worker.io.get(Io::RxPackets.name()).copied().unwrap_or(0);
        for drop in &worker.drops {
            *used.drops.entry(format!("{}.{}", drop.stage, drop.reason)).or_default() += drop.packets;
        }
    }
    Ok(used)
}

/// Processor time of all threads of a process so far, user and system (proc(5), `stat`).
fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // Fields 14 and 15, of which the third is the first here.
    let ticks = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// A secret without the white space around it.
///
/// # Errors
/// The file cannot be read, others can read it, or it is too short.
pub fn secret(path: &Path) -> anyhow::Result<Vec<u8>> {
    use std::os::unix::fs::PermissionsExt as _;
    let wrong = |error: &dyn std::fmt::Display| Usage(format!("--secret {}: {error}", path.display()));
    let mode = fs::metadata(path).map_err(|error| wrong(&error))?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        let why = format!("has mode {mode:04o}: others can read it; allowed: 0600");
        return Err(wrong(&why).into());
    }
    let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let text = text.trim().as_bytes().to_vec();
    if text.len() < SECRET_BYTES {
        return Err(wrong(&format!("a secret has at least {SECRET_BYTES} characters")).into());
    }
    Ok(text)
}

/// The address in an option; `:PORT` is of loopback.
///
/// # Errors
/// It is none, or a name that nobody knows.
pub fn address(option: &str, text: &str) -> anyhow::Result<SocketAddr> {
    let full = if text.starts_with(':') { format!("127.0.0.1{text}") } else { text.to_owned() };
    let found =
        full.to_socket_addrs().map_err(|error| Usage(format!("{option} {text}: {error}; allowed: HOST:PORT")))?;
    Ok(found.into_iter().next().ok_or_else(|| Usage(format!("{option} {text}: no address")))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_of_this_process_is_known() {
        let used = cpu_seconds(std::process::id());
        assert!(used.is_some_and(|seconds| (0.0..1e6).contains(&seconds)), "{used:?}");
        assert_eq!(cpu_seconds(u32::MAX), None);
    }

    #[test]
    fn an_agent_without_a_port_opens_none() {
        let wanted = OpenEnd::new(::bench::agent::Side::Core, &traffic::Profile::default());
        let mut offered = Offered { port: None, socket: None };
        let said = offered.open(&wanted, &AtomicBool::new(false)).err().expect("refused").to_string();
        assert!(said.contains("--port packet:eth1"), "{said}");
        assert!(offered.used().unwrap().machine.cpus > 0);
    }
}
