//! What a DPDK port costs beside dpdk-testpmd in its `io` mode, both in turns on one CPU: `weir bench io --port dpdk`.
//!
//! Packets go out by the port they came in by. Of a ring or of the null device they never leave memory: the difference
//! is the cost of the port itself. By shared memory another process, testpmd on another CPU, sends them back.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig, Batch, Link, Pool, Port};
use port::OpenContext;
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::BenchError;
use crate::experiment::{Progress, Steps};
use crate::host::Host;
use crate::text::Table;
use crate::thread::{cpus, pin};

/// What the port may cost, in nanoseconds a packet, with bursts of [`TARGET_BURST`].
pub const TARGET_NS: f64 = 15.0;
/// The bursts that the target is of.
pub const TARGET_BURST: usize = 32;
/// Packets of a round trip on their way.
const ON_THEIR_WAY: usize = 128;
/// Turns of each.
const TURNS: usize = 2;
/// A turn of a round trip that fails is tried so often: packets on their way may all be lost while the two ends begin.
const TRIES: usize = 3;
/// Of a turn, the times that are read.
const PARTS: u32 = 4;
/// The longest time until a link is up, or a peer has its socket.
const PATIENCE: Duration = Duration::from_secs(10);
/// So long testpmd takes to begin, and to see that its link is up.
const BEGINS: Duration = Duration::from_secs(2);
/// Packets of which none is back after this time are lost: the other end had not begun.
const LOST_AFTER: Duration = Duration::from_secs(1);
/// The device is made anew for each turn.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The cost of DPDK ports.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct IoCost {
    /// Where it was measured.
    pub host: Host,
    /// The version of DPDK that testpmd tells.
    pub dpdk: String,
    /// The CPU of both in turns.
    pub cpu: usize,
    /// The CPU of the process at the other end; none: there is one CPU, and no round trip was measured.
    pub peer_cpu: Option<usize>,
    /// What a port may cost beyond testpmd with bursts of 32, in nanoseconds a packet.
    pub target_ns: f64,
    /// Packets that stay in memory.
    pub in_memory: Vec<InMemory>,
    /// Packets that another process sends back.
    pub round_trips: Vec<RoundTrip>,
}

/// A device whose packets stay in memory; times are medians.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InMemory {
    /// DPDK's driver.
    pub driver: String,
    /// Packets in a burst.
    pub burst: usize,
    /// Packet buffers, or testpmd's mbufs: with many of them headers are in no cache.
    pub packet_buffers: u32,
    /// testpmd's time a packet, received and sent, in nanoseconds.
    pub testpmd_ns: f64,
    /// The port's.
    pub weir_ns: f64,
    /// The difference: what the port costs.
    pub port_ns: f64,
    /// Whether that is within the target; none: the target is of other bursts.
    pub is_met: Option<bool>,
}

/// A link to another process; times are medians.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RoundTrip {
    /// From which device to which.
    pub link: String,
    /// Time a packet with testpmd at this end, in nanoseconds.
    pub testpmd_ns: f64,
    /// Time a packet with the port.
    pub weir_ns: f64,
    /// The port's rate as a part of testpmd's.
    pub rate_ratio: f64,
}

/// A device that keeps its packets in memory: driver, bursts, buffers; packets that are put in at first.
const IN_MEMORY: [(&str, usize, u32, usize); 4] = [
    // As few as testpmd makes its pool of.
    ("net_ring", 32, 2048, 32),
    ("net_ring", 32, 65_536, 32),
    ("net_null", 64, 2048, 0),
    ("net_null", 64, 65_536, 0),
];

/// A link: its name, the device at the other end, the one here.
const ROUND_TRIPS: [(&str, &str, &str); 2] = [
    (
        "memif, client to server",
        "net_memif0,role=server,socket=SOCKET,socket-abstract=no",
        "net_memif,role=client,socket=SOCKET,socket-abstract=no",
    ),
    (
        "virtio-user to vhost-user",
        "net_vhost0,iface=SOCKET,queues=1",
        "net_virtio_user,path=SOCKET,queues=1,queue_size=512",
    ),
];

/// Measures. `testpmd`: the program; `seconds`: of a turn.
///
/// # Errors
/// What cannot be run, or [`BenchError::Interrupted`].
pub fn io_cost(
    testpmd: &Path,
    seconds: f64,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<IoCost, BenchError> {
    let all = cpus();
    let cpu = *all.last().unwrap_or(&0);
    let peer_cpu = all.first().copied().filter(|first| *first != cpu);
    let place = Place { testpmd, cpu, turn: Duration::from_secs_f64(seconds), stop };
    let links = if peer_cpu.is_some() { ROUND_TRIPS.len() } else { 0 };
    let mut steps = Steps::new(2 * TURNS * (IN_MEMORY.len() + links), show, stop);
    let dpdk = place.version()?;
    let mut cost = IoCost {
        host: Host { scheduling: "ordinary".to_owned(), ..Host::this() },
        dpdk,
        cpu,
        peer_cpu,
        target_ns: TARGET_NS,
        in_memory: Vec::new(),
        round_trips: Vec::new(),
    };
    for (driver, burst, buffers, packets) in IN_MEMORY {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            steps.next(format!("testpmd, {driver}, {buffers} mbufs"))?;
            let first = if packets > 0 { "start tx_first 1" } else { "start" };
            times[0].extend(place.testpmd(&format!("{driver}0"), buffers, burst, first)?);
            steps.next(format!("weir, {driver}, {buffers} packet buffers"))?;
            times[1].extend(place.weir(driver, "", buffers, packets)?);
        }
        cost.in_memory.push(InMemory::new((driver, burst, buffers), times.map(median)));
    }
    for (link, theirs, ours) in peer_cpu.iter().flat_map(|_| ROUND_TRIPS) {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            steps.next(format!("testpmd, {link}"))?;
            times[0].extend(tried(|| {
                let far = FarEnd::start(&place, peer_cpu.unwrap_or(cpu), theirs)?;
                let (driver, arguments) = far.device(ours);
                place.testpmd(&format!("{driver}0,{arguments}"), 8192, 32, "start tx_first 4")
            })?);
            steps.next(format!("weir, {link}"))?;
            times[1].extend(tried(|| {
                let far = FarEnd::start(&place, peer_cpu.unwrap_or(cpu), theirs)?;
                let (driver, arguments) = far.device(ours);
                place.weir(&driver, &arguments, 8192, ON_THEIR_WAY)
            })?);
        }
        let [testpmd_ns, weir_ns] = times.map(median);
        cost.round_trips.push(RoundTrip {
            link: link.to_owned(),
            testpmd_ns,
            weir_ns,
            rate_ratio: testpmd_ns / weir_ns,
        });
    }
    Ok(cost)
}

fn tried<T>(mut turn: impl FnMut() -> Result<T, BenchError>) -> Result<T, BenchError> {
    let mut tries = 1;
    loop {
        match turn() {
            Err(BenchError::Lab { .. } | BenchError::Load(_)) if tries < TRIES => tries += 1,
            done => return done,
        }
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

impl InMemory {
    fn new((driver, burst, packet_buffers): (&str, usize, u32), [testpmd_ns, weir_ns]: [f64; 2]) -> Self {
        let port_ns = weir_ns - testpmd_ns;
        let is_met = (burst == TARGET_BURST).then_some(port_ns <= TARGET_NS);
        Self { driver: driver.to_owned(), burst, packet_buffers, testpmd_ns, weir_ns, port_ns, is_met }
    }
}

impl IoCost {
    /// As tables.
    pub fn text(&self) -> String {
        let ns = |value: f64| format!("{value:.1}");
        let mut memory =
            Table::new(&["in memory, ns a packet", "burst", "buffers", "testpmd io", "weir", "the port", ""]).words(6);
        for row in &self.in_memory {
            let verdict = row.is_met.map(|is_met| if is_met { "at most" } else { "MORE THAN" });
            let verdict = verdict.map_or_else(String::new, |words| format!("{words} {TARGET_NS}"));
            let cells = [row.driver.clone(), row.burst.to_string(), row.packet_buffers.to_string()];
            let times = [row.testpmd_ns, row.weir_ns, row.port_ns].map(ns);
            memory.row(cells.into_iter().chain(times).chain([verdict]));
        }
        let mut trips = Table::new(&["round trips, ns a packet", "testpmd io", "weir", "rate"]);
        for row in &self.round_trips {
            trips.row([row.link.clone(), ns(row.testpmd_ns), ns(row.weir_ns), format!("{:.2}", row.rate_ratio)]);
        }
        let Host { cpu, kernel, .. } = &self.host;
        let trips =
            if self.peer_cpu.is_some() { trips.text() } else { "no round trips: there is one CPU\n".to_owned() };
        format!("{}\n{trips}\n{}, CPU {} of {cpu}, Linux {kernel}\n", memory.text(), self.dpdk, self.cpu)
    }
}

/// Where and how long.
struct Place<'a> {
    testpmd: &'a Path,
    cpu: usize,
    turn: Duration,
    stop: &'a AtomicBool,
}

impl Place<'_> {
    /// testpmd with its forwarding on that CPU and its main thread on any.
    fn command(&self, cpu: usize, memory: &str) -> Command {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map_or("0", str::trim);
        let mut command = Command::new(self.testpmd);
        command.args(["--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "-m", memory, "--lcores"]);
        command.arg(format!("0@({allowed}),1@{cpu}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn spawn(&self, command: &mut Command) -> Result<Child, BenchError> {
        command.spawn().map_err(|source| {
            let doing = format!("running {} (scripts/setup dpdk installs it)", self.testpmd.display());
            BenchError::System { doing, source }
        })
    }

    /// What a testpmd writes, its errors last; one that does not end after its input does is ended.
    fn hear(&self, command: &mut Command, steer: impl FnOnce(ChildStdin)) -> Result<String, BenchError> {
        let mut child = Peer(self.spawn(command)?);
        let (input, output, errors) = (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
        let (said, complaints, ended) = std::thread::scope(|scope| {
            let (said, complaints) = (scope.spawn(|| all_of(output)), scope.spawn(|| all_of(errors)));
            let _ = input.map(steer);
            let ended = self.ends(&mut child.0);
            if !ended {
                let _ = child.0.kill();
            }
            (said.join(), complaints.join(), ended)
        });
        let died = |_| BenchError::Died("reader of testpmd");
        let said = said.map_err(died)? + &complaints.map_err(died)?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        let hung = || failed(self.testpmd, &format!("{said}\nit did not end in {} s", PATIENCE.as_secs()));
        if ended { Ok(said) } else { Err(hung()) }
    }

    /// Waits for its end; not for ever.
    fn ends(&self, child: &mut Child) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE && !self.stop.load(Ordering::Relaxed) {
            if !matches!(child.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// What it is a testpmd of.
    fn version(&self) -> Result<String, BenchError> {
        let mut command = self.command(self.cpu, "64");
        command.arg("-v").args(["--vdev", "net_null0", "--", "-i", "--total-num-mbufs=2048"]);
        let said = self.hear(&mut command, drop)?;
        let version = said.split_once("RTE Version: '").and_then(|(_, rest)| rest.split_once('\''));
        version.map(|(version, _)| version.to_owned()).ok_or_else(|| failed(self.testpmd, &said))
    }

    /// testpmd's ns a packet in each part of a turn.
    fn testpmd(&self, device: &str, mbufs: u32, burst: usize, start: &str) -> Result<Vec<f64>, BenchError> {
        let mut command = self.command(self.cpu, "512");
        command.args(["--vdev", device, "--", "-i", "--forward-mode=io", "--nb-cores=1"]);
        command.args([format!("--burst={burst}"), format!("--total-num-mbufs={mbufs}")]);
        // It ends when its input does.
        let said = self.hear(&mut command, |input| drop(self.steer(input, start)))?;
        let rates = rates(&said);
        times(&rates).ok_or_else(|| failed(self.testpmd, &format!("{said}\nit received {rates:?} packets a second")))
    }

    fn steer(&self, mut input: ChildStdin, start: &str) -> std::io::Result<()> {
        self.wait(BEGINS);
        writeln!(input, "{start}")?;
        for _ in 0..=PARTS {
            self.wait(self.turn / PARTS);
            writeln!(input, "show port stats all")?;
        }
        writeln!(input, "quit")
    }

    /// Waits; not for long once it is told to stop.
    fn wait(&self, time: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < time && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(50).min(time));
        }
    }

    /// The port's ns a packet in each part of a turn. `packets` are put in at first.
    fn weir(&self, driver: &str, arguments: &str, buffers: u32, packets: usize) -> Result<Vec<f64>, BenchError> {
        // A device's name is its driver's and a number.
        let device = format!("{driver}{}", NEXT.fetch_add(1, Ordering::Relaxed) + 100);
        let glue = if arguments.is_empty() { "" } else { "," };
        // Of the first port: mbufs of the largest arena have room.
        let uri = format!("dpdk:{device}{glue}{arguments}?memory=512&interrupts=off");
        let measure = || {
            pin(self.cpu);
            self.forward(&uri, buffers, packets)
        };
        std::thread::scope(|scope| scope.spawn(measure).join()).map_err(|_| BenchError::Died("forwarder"))?
    }

    fn forward(&self, uri: &str, buffers: u32, packets: usize) -> Result<Vec<f64>, BenchError> {
        let port_error = |source| BenchError::Port { uri: uri.to_owned(), source };
        let arena = Arena::new(ArenaConfig { slots: buffers, ..ArenaConfig::default() });
        let arena = arena.map_err(|source| BenchError::System { doing: "packet buffers".to_owned(), source })?;
        let mut pool = Pool::new(&arena, buffers as usize);
        let mut port =
            port::open(&uri.parse().map_err(port_error)?, &mut OpenContext::new(&mut pool)).map_err(port_error)?;
        let found = self.turn_of(&mut *port, &mut pool, packets);
        port.close(&mut pool);
        found
    }

    fn turn_of(&self, port: &mut dyn Port, pool: &mut Pool, packets: usize) -> Result<Vec<f64>, BenchError> {
        let mut batch = Batch::new();
        let begin = Instant::now();
        while port.caps().link != Link::Up {
            if self.stop.load(Ordering::Relaxed) {
                return Err(BenchError::Interrupted);
            }
            if begin.elapsed() > PATIENCE {
                return Err(BenchError::Load("the link does not come up".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(10));
            port.service(pool);
        }
        self.put_in(port, pool, &mut batch, packets)?;
        let mut times = Vec::new();
        for _ in 0..PARTS {
            let (begin, mut count) = (Instant::now(), 0);
            let spent = loop {
                count += self.rounds(port, pool, &mut batch)?;
                let spent = begin.elapsed();
                if spent >= self.turn / PARTS && count > 0 {
                    break spent;
                }
                if spent > PATIENCE {
                    return Err(BenchError::Load("the other end sends nothing any more".to_owned()));
                }
            };
            times.push(spent.as_nanos() as f64 / count as f64);
        }
        Ok(times)
    }

    /// Has the packets go round. The other end may take its time to begin, and loses what came before.
    fn put_in(
        &self,
        port: &mut dyn Port,
        pool: &mut Pool,
        batch: &mut Batch,
        packets: usize,
    ) -> Result<(), BenchError> {
        let begin = Instant::now();
        while packets == ON_THEIR_WAY && begin.elapsed() < BEGINS {
            // The other end is to see that the link is up, which may be lost meanwhile, and return. A memif client gives
            // it buffers to send into only when it receives: before, what comes back at once is dropped there.
            self.wait(Duration::from_millis(10));
            self.rounds(port, pool, batch)?;
        }
        let (begin, mut sent) = (Instant::now(), None);
        loop {
            if sent.is_none_or(|at: Instant| at.elapsed() > LOST_AFTER) && port.caps().link == Link::Up {
                sent = Some(Instant::now());
                for n in 0..packets {
                    let frame = pool.make(&[n as u8; 60]);
                    let _ = frame.map(|frame| batch.push(frame));
                    if batch.room() == 0 || n + 1 == packets {
                        port.tx_burst(pool, batch);
                        pool.give_all(batch);
                    }
                }
            }
            if self.rounds(port, pool, batch)? > 0 {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                let now = port.counters();
                let (sent, refused, losses) = (now.tx_packets, now.tx_full, now.link_losses);
                let what = format!("no packet comes back: {sent} sent, {refused} refused, {losses} losses of the link");
                return Err(BenchError::Load(what));
            }
        }
    }

    /// Sends what it receives, for a while; returns how many packets that were.
    fn rounds(&self, port: &mut dyn Port, pool: &mut Pool, batch: &mut Batch) -> Result<u64, BenchError> {
        let mut count = 0;
        for _ in 0..256 {
            port.service(pool);
            count += port.rx_burst(pool, batch) as u64;
            port.tx_burst(pool, batch);
            pool.give_all(batch);
        }
        if self.stop.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(count) }
    }
}

/// What a program writes until it ends.
fn all_of(pipe: Option<impl std::io::Read>) -> String {
    let mut said = Vec::new();
    // What was read before an error is enough.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut said));
    String::from_utf8_lossy(&said).into_owned()
}

/// Packets that testpmd received a second, each time it was asked.
fn rates(said: &str) -> Vec<u64> {
    let of_line = |line: &str| line.split_once("Rx-pps:")?.1.split_whitespace().next()?.parse().ok();
    said.lines().filter_map(of_line).collect()
}

/// Nanoseconds a packet in each part of a turn; none if testpmd did not tell, or in a part received nothing.
fn times(rates: &[u64]) -> Option<Vec<f64>> {
    // The first is since its start.
    let parts = rates.get(1..).filter(|parts| parts.len() == PARTS as usize && !parts.contains(&0))?;
    Some(parts.iter().map(|rate| 1e9 / *rate as f64).collect())
}

fn failed(testpmd: &Path, said: &str) -> BenchError {
    BenchError::Lab { command: testpmd.display().to_string(), said: last_lines(said) }
}

fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

/// A testpmd, ended when dropped.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends by itself when its input does; that would take longer.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A testpmd at the other end of a socket, which is removed with it.
struct FarEnd {
    _peer: Peer,
    folder: PathBuf,
}

impl FarEnd {
    fn start(place: &Place<'_>, cpu: usize, device: &str) -> Result<Self, BenchError> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-bench-io-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|source| BenchError::System { doing: format!("making {}", folder.display()), source })?;
        let socket = folder.join("socket");
        let mut command = place.command(cpu, "256");
        command.arg("--vdev").arg(device.replace("SOCKET", &socket.display().to_string()));
        command.args(["--", "--forward-mode=io", "--nb-cores=1", "--auto-start", "--total-num-mbufs=8192"]);
        let errors = folder.join("errors");
        let file = std::fs::File::create(&errors)
            .map_err(|source| BenchError::System { doing: format!("making {}", errors.display()), source })?;
        command.stdout(Stdio::null()).stderr(file);
        let far = Self { _peer: Peer(place.spawn(&mut command)?), folder };
        let begin = Instant::now();
        while !socket.exists() {
            if begin.elapsed() > PATIENCE || place.stop.load(Ordering::Relaxed) {
                let said = std::fs::read_to_string(&errors).unwrap_or_default();
                return Err(failed(place.testpmd, &format!("{said}\nit makes no socket")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(far)
    }

    /// A device here: its driver, its arguments.
    fn device(&self, device: &str) -> (String, String) {
        let device = device.replace("SOCKET", &self.folder.join("socket").display().to_string());
        let (driver, arguments) = device.split_once(',').unwrap_or((&device, ""));
        (driver.to_owned(), arguments.to_owned())
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_testpmd_are_read() {
        let said = "  RX-packets: 12\n  Rx-pps:            0          Rx-bps:  0\n  Rx-pps:     52631578  Rx-bps: 1\n";
        assert_eq!(rates(said), [0, 52_631_578]);
        assert!(rates("Rx-pps:").is_empty());
        assert_eq!(times(&[0, 1000, 2000, 4000, 5000]), Some(vec![1e6, 5e5, 2.5e5, 2e5]));
        assert_eq!(times(&[0, 1000, 0, 4000, 5000]), None, "a part without packets");
        assert_eq!(times(&[1000, 1000, 1000, 1000]), None, "a part of which nothing was told");
    }

    #[test]
    fn the_port_costs_the_difference() {
        let row = InMemory::new(("net_ring", 32, 2048), [median(vec![21.0, 19.0, 20.0]), median(vec![30.0])]);
        assert_eq!((row.testpmd_ns, row.weir_ns, row.port_ns, row.is_met), (20.0, 30.0, 10.0, Some(true)));
        let more = InMemory::new(("net_ring", 32, 65_536), [20.0, 36.0]);
        assert_eq!(more.is_met, Some(false));
        assert_eq!(InMemory::new(("net_null", 64, 2048), [5.0, 40.0]).is_met, None, "other bursts");
        let trip = RoundTrip { link: "memif".into(), testpmd_ns: 180.0, weir_ns: 240.0, rate_ratio: 0.75 };
        let cost = IoCost {
            host: Host::this(),
            dpdk: "DPDK 22.11.11".into(),
            cpu: 1,
            peer_cpu: Some(0),
            target_ns: TARGET_NS,
            in_memory: vec![row, more],
            round_trips: vec![trip],
        };
        let text = cost.text();
        for part in ["at most 15", "MORE THAN 15", "memif", "0.75", "DPDK 22.11.11, CPU 1"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let alone = IoCost { peer_cpu: None, round_trips: Vec::new(), ..cost };
        assert!(alone.text().contains("there is one CPU"), "{}", alone.text());
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = io_cost(Path::new("/nowhere/testpmd"), 0.1, &AtomicBool::new(false), &mut |_| {});
        let error = error.expect_err("no program").to_string();
        assert!(error.contains("/nowhere/testpmd") && error.contains("scripts/setup dpdk"), "{error}");
    }
}
