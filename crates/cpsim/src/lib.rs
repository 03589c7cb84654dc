//! `weir cp`: a control plane as a tool. It associates with any user plane and drives the lives of many sessions.
//!
//! ```no_run
//! use clap::Parser;
//!
//! #[derive(Parser)]
//! struct Cli {
//!     #[command(flatten)]
//!     cp: cpsim::CpArgs,
//! }
//! let cli = Cli::parse_from(["cp", "--upf", "10.0.4.1", "--address", "10.0.4.2", "--sessions", "100"]);
//! cpsim::run(&cli.cp)?; // until all sessions were established, used and deleted
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! | file | content |
//! |---|---|
//! | `spec.rs` | options and files |
//! | `plane.rs` | the control plane, without socket and clock |
//! | `subscriber.rs` | one session, and the requests that wait for an answer |
//! | `charging.rs`, `kept.rs` | usage reports as charging records, on the disk before they are acknowledged |
//! | `pace.rs` | actions at a rate |
//! | `tally.rs` | counts of what was done, refused and reported |
//! | `view.rs` | the live table and the summary |

#![forbid(unsafe_code)]

mod charging;
mod kept;
mod pace;
mod plane;
mod spec;
mod subscriber;
mod tally;
#[cfg(test)]
mod tests;
mod view;

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use pfcp::ie::{Cause, RecoveryTimeStamp};
use pfcp::node::{Failure, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use gateway::signals;
use gateway::tables::{Style, count, duration, many};
use kept::Kept;
use plane::{ControlPlane, Stage};
pub use spec::CpArgs;
use spec::Spec;
pub use spec::nth;
pub use subscriber::Line;
use view::Live;
pub use view::Summary;

/// The longest message there is.
const LONGEST: usize = 65_535;
/// Datagrams taken in a turn: what is due must not wait for more.
const DATAGRAMS: usize = 256;
/// Between turns while something is to be done at a rate.
const REST: Duration = Duration::from_millis(1);
/// Between turns at most: signals are looked at after a turn.
const QUIET: Duration = Duration::from_millis(50);
/// How often the live table is drawn.
const PICTURE: Duration = Duration::from_secs(1);

/// Plays it.
///
/// # Errors
/// What kept it from starting, that there is no user plane, or that requests were refused or not answered.
pub fn run(args: &CpArgs) -> anyhow::Result<()> {
    let stop = signals::stop_flag().context("no signal handlers")?;
    let summary = serve(args, &stop, &mut || {})?;
    args.json.print(&summary, || summary.text(Style::of_stdout()))?;
    let failed = summary.counts.refused + summary.counts.unanswered;
    if failed > 0 {
        bail!("{} not granted", many(failed as usize, "request"));
    }
    Ok(())
}

/// The same until `stop` is set, without a word on standard output: `is_up` is called once all sessions are up and stand in
/// the file of `--sessions-out`.
///
/// # Errors
/// What kept it from starting, or that there is no user plane.
pub fn serve(args: &CpArgs, stop: &AtomicBool, is_up: &mut dyn FnMut()) -> anyhow::Result<Summary> {
    play_all(args, spec::spec(args)?, stop, is_up)
}

/// The same with sessions to which nothing happens: whatever the file says of their lives and how long they stay.
///
/// # Errors
/// As [`serve`].
pub fn serve_still(args: &CpArgs, stop: &AtomicBool, is_up: &mut dyn FnMut()) -> anyhow::Result<Summary> {
    let mut spec = spec::spec(args)?;
    spec.hold = None;
    let life = &mut spec.life;
    (life.idle, life.idle_again) = (0.0, None);
    (life.handovers, life.limits, life.queries, life.churn) = (0.0, 0.0, 0.0, 0.0);
    play_all(args, spec, stop, is_up)
}

fn play_all(args: &CpArgs, spec: Spec, stop: &AtomicBool, is_up: &mut dyn FnMut()) -> anyhow::Result<Summary> {
    let mut out = args.sessions_out.as_deref().map(Sessions::create).transpose()?;
    let mut live = Live::new(args.quiet);
    let mut kept = spec.ledger.as_deref().map(Kept::open).transpose()?;
    // Without a door it works as well; who asks for records meanwhile is told that the ledger is in use.
    let _door =
        kept.as_ref().and_then(|kept| kept.open_door().inspect_err(|why| live.say(&format!("weir cp: {why}"))).ok());
    let mut wire = Wire::open(&spec)?;
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let begin = Instant::now();
    live.say(&format!("weir cp: {} requests an association of {}", wire.address, spec.upf));
    let mut plane = ControlPlane::new(spec, wire.address, RecoveryTimeStamp::from_unix(started), Time::ZERO);
    play(&mut plane, &mut wire, &mut out, &mut kept, &mut live, stop, begin, args.keep, is_up)?;
    let records = kept.map(Kept::close).transpose()?;
    if let Stage::Failed(why) = plane.stage() {
        bail!(no_user_plane(why, &plane));
    }
    Ok(Summary { records, ..Summary::of(&plane, begin.elapsed().as_secs_f64()) })
}

/// Turn after turn, until nothing is left to do.
#[allow(clippy::too_many_arguments, reason = "each is one thing, once")]
fn play(
    plane: &mut ControlPlane,
    wire: &mut Wire,
    out: &mut Option<Sessions>,
    kept: &mut Option<Kept>,
    live: &mut Live,
    stop: &AtomicBool,
    begin: Instant,
    keep: bool,
    is_up: &mut dyn FnMut(),
) -> anyhow::Result<()> {
    let (mut drawn, mut is_complete, mut is_ending) = (Duration::ZERO, false, false);
    loop {
        let now = begin.elapsed();
        wire.receive(plane, now);
        // Before their lives begin: idle ones are at no gNB.
        for i in plane.take_fresh() {
            if let Some(out) = out {
                out.write(plane, i)?;
            }
        }
        plane.turn(now);
        charge(plane, kept.as_mut(), now)?;
        wire.send(plane);
        if let (false, (Some(began), Some(complete))) = (is_complete, plane.bring_up()) {
            is_complete = true;
            out.as_mut().map_or(Ok(()), Sessions::flush)?;
            let took = duration(complete.saturating_sub(began).as_secs_f64());
            live.say(&format!("{} sessions up after {took}", count(plane.up().0.into())));
            is_up();
        }
        if now.saturating_sub(drawn) >= PICTURE {
            drawn = now;
            live.tell(plane, now.as_secs_f64());
        }
        let over = plane.spec().hold.zip(plane.bring_up().1).is_some_and(|(hold, complete)| now > complete + hold);
        if !is_ending && (over || stop.load(Ordering::Relaxed)) {
            is_ending = true;
            plane.end(keep);
        }
        if matches!(plane.stage(), Stage::Over | Stage::Failed(_)) {
            return out.as_mut().map_or(Ok(()), Sessions::flush);
        }
        wire.wait(match kept {
            Some(kept) if kept.is_waiting() => REST / 5,
            _ => plane.idle_for(now).clamp(REST, QUIET),
        });
    }
}

/// Usage is acknowledged when its records are on the disk, or at once where none are kept.
fn charge(plane: &mut ControlPlane, kept: Option<&mut Kept>, now: Time) -> anyhow::Result<()> {
    let batches = plane.take_batches();
    match kept {
        None => batches.into_iter().filter_map(|(_, answer)| answer).for_each(|answer| plane.acknowledge(answer, now)),
        Some(kept) => {
            batches.into_iter().try_for_each(|batch| kept.take(batch))?;
            kept.let_go(|answer| plane.acknowledge(answer, now))?;
        }
    }
    Ok(())
}

/// Why there is none, and what to look at.
fn no_user_plane(why: Failure, plane: &ControlPlane) -> String {
    let upf = plane.spec().upf;
    match why {
        Failure::NoAnswer => format!(
            "{upf} does not answer: does a user plane listen there (`[n4] address` of `weir run`), \
             and may this address speak to it (`[n4] allow`)?"
        ),
        Failure::Rejected(Cause::INVALID_F_TEID_ALLOCATION_OPTION) => {
            format!("{upf} does not choose tunnels (no FTUP): give --upf-n3 its address on N3, and we choose them")
        }
        other => format!("{upf} wants no association: {other}"),
    }
}

/// The socket.
struct Wire {
    socket: UdpSocket,
    address: IpAddr,
    space: Box<[u8]>,
}

/// Octets of datagrams that may wait in the kernel.
const ROOM: usize = 8 << 20;

impl Wire {
    fn open(spec: &Spec) -> anyhow::Result<Self> {
        let address = match spec.address {
            Some(address) => address,
            None => towards(spec.upf).with_context(|| format!("no route to {}", spec.upf))?,
        };
        let at = SocketAddr::new(address, spec.port);
        let open = || {
            let socket = UdpSocket::bind(at)?;
            socket.set_nonblocking(true)?;
            port::udp::set_receive_buffer(&socket, ROOM);
            Ok::<_, std::io::Error>(socket)
        };
        let socket = open().with_context(|| {
            format!("no PFCP at {at}: is that port taken (by `weir run` on this host)? --address names another")
        })?;
        Ok(Self { socket, address, space: vec![0; LONGEST].into() })
    }

    fn receive(&mut self, plane: &mut ControlPlane, now: Time) {
        for _ in 0..DATAGRAMS {
            match self.socket.recv_from(&mut self.space) {
                Ok((len, from)) => plane.receive(from, &self.space[..len], now),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Nothing more; or an ICMP error about something we sent, which is sent again.
                Err(_) => break,
            }
        }
    }

    fn send(&self, plane: &mut ControlPlane) {
        // What is lost here is sent again.
        plane.drain(|to, datagram| _ = self.socket.send_to(datagram, to));
    }

    /// Until something comes, or so long.
    fn wait(&self, rest: Duration) {
        let time = Timespec { tv_sec: 0, tv_nsec: rest.subsec_nanos().into() };
        // Interrupted or not, the next turn follows.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&time));
    }
}

/// Our address on the way to another.
fn towards(there: SocketAddr) -> std::io::Result<IpAddr> {
    let any = if there.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    // Nothing is sent by that.
    socket.connect(there)?;
    Ok(socket.local_addr()?.ip())
}

/// The file for the traffic generator.
struct Sessions(BufWriter<File>);

impl Sessions {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(Self(BufWriter::new(file)))
    }

    fn write(&mut self, plane: &ControlPlane, i: u32) -> anyhow::Result<()> {
        let Some(subscriber) = plane.subscribers().get(i as usize) else { return Ok(()) };
        serde_json::to_writer(&mut self.0, &subscriber.line(i, &plane.spec().profile))?;
        writeln!(self.0)?;
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(self.0.flush()?)
    }
}

/// Reads and checks a file of `weir cp`.
///
/// # Errors
/// What is wrong with it.
pub fn check_file(path: &Path) -> anyhow::Result<()> {
    spec::spec(&CpArgs { file: Some(path.to_owned()), ..CpArgs::default() }).map(drop)
}
