//! Quick look at the in-memory cost per packet.
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use bench::profiles::Settings;
use engine::*;
use frame::*;
use traffic::*;

#[global_allocator]
static ALLOC: pages::Counting = pages::Counting;

struct Load { generator: Generator, got: Checker, clock: table::hint::TscClock, c: PortCounters, left: u64 }
impl Port for Load {
    fn rx_burst(&mut self, pool: &mut Pool, out: &mut Batch) -> usize {
        let n = out.room().min(self.left as usize);
        let n = self.generator.fill(pool, out, n, self.clock.now_ns());
        self.left -= n as u64;
        n
    }
    fn tx_burst(&mut self, pool: &mut Pool, b: &mut Batch) -> usize {
        let now = self.clock.now_ns();
        let n = b.len();
        let arena = pool.arena().clone();
        b.drain(|f| { self.got.check(arena.bytes(&f), now); pool.give(f); });
        self.c.tx_packets += n as u64;
        n
    }
    fn service(&mut self, _: &mut Pool) {}
    fn caps(&self) -> Caps { Caps { kind: "memory", mac: [2,0,0,0,0,0], mtu: 1600, ..Caps::default() } }
    fn counters(&self) -> PortCounters { self.c }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut s = Settings::named(&args[1]).unwrap();
    let mut packets = 20_000_000u64;
    let mut burst = 64;
    for kv in &args[2..] { let (k, v) = kv.split_once('=').unwrap(); if k == "packets" { packets = v.parse().unwrap() } else if k == "burst" { burst = v.parse().unwrap() } else { s.set(k, v).unwrap() } }
    let t = Instant::now();
    let mut config = s.gateway(1, ["memory:n3", "memory:n6"]);
    config.neighbour.push(upf::config::Neighbour { port: "n6".into(), address: "172.17.0.2".parse().unwrap(), mac: "02:00:00:00:06:01".into() });
    for g in 0..s.gnbs { config.neighbour.push(upf::config::Neighbour { port: "n3".into(), address: std::net::Ipv4Addr::from(u32::from(std::net::Ipv4Addr::new(172,16,1,1)) + g).into(), mac: "02:00:00:00:03:01".into() }); }
    let profile = s.traffic();
    let caps = |mac| Caps { mac, mtu: 1600, ..Caps::default() };
    let (_control, mut seats) = upf::assemble::assemble(&config, &[caps(profile.access.gateway.0), caps(profile.core.gateway.0)]).unwrap();
    println!("assembled in {:?}; {} B a subscriber", t.elapsed(), seats[0].plane.sessions().bytes() / s.ues as usize);
    let plan = Plan::new(profile).unwrap();
    let load = |sent: Direction, got: Direction| -> Box<dyn Port> { Box::new(Load { generator: Generator::new(&plan, sent).unwrap(), got: Checker::new(&plan, got, Verify::default()), clock: table::hint::TscClock::start(), c: PortCounters::default(), left: packets / 2 }) };
    let arena = Arena::new(ArenaConfig { slots: 2048, ..ArenaConfig::default() }).unwrap();
    let pool = Pool::new(&arena, 2048);
    let seat = seats.remove(0);
    let mut w = Worker::new(seat.plane, seat.layout, pool, vec![load(Direction::Uplink, Direction::Downlink), load(Direction::Downlink, Direction::Uplink)], WorkerConfig { idle: Idle::POLL, burst, ..WorkerConfig::default() });
    let stop = Arc::new(AtomicBool::new(false));
    let view = w.env().stats.view();
    let a0 = pages::allocations_on_this_thread();
    let mut last = 0; let t = Instant::now();
    loop { w.turn(); let n = view.io(Io::RxPackets); if n == last { break } last = n; if t.elapsed() > Duration::from_secs(60) { break } }
    let _ = stop;
    println!("{} packets in {:?}, {} allocations", last, t.elapsed(), pages::allocations_on_this_thread() - a0);
    let hz = table::hint::tsc_hz() as f64;
    let n = last as f64;
    for r in view.stages() { if r.packets > 0 { println!("{:>9}.{:<18} {:6.1} cycles {:6.2} ns  per call {:.1}", r.stage.pipeline, r.stage.name, r.cycles as f64 / r.packets as f64, r.cycles as f64 / r.packets as f64 / hz * 1e9, r.packets as f64 / r.calls as f64); } }
    let stages: u64 = view.stages().iter().map(|r| r.cycles).sum();
    println!("Tc {:.1} ns ({:.0} cycles); pipeline {:.1} rx {:.1} tx {:.1} other {:.1}", stages as f64 / n / hz * 1e9, stages as f64 / n, view.io(Io::PipelineCycles) as f64 / n / hz * 1e9, view.io(Io::RxCycles) as f64 / n / hz * 1e9, view.io(Io::TxCycles) as f64 / n / hz * 1e9, view.io(Io::OtherCycles) as f64 / n / hz * 1e9);
    println!("drops {:?} punts {:?} missing {} tx {}", view.drops(), view.punts(), view.missing(), view.io(Io::TxPackets));
}
