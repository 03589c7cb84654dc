//! Load for `xdp_forward`, made and swallowed inside the kernel: live frames redirected into one interface, an XDP
//! program that counts and drops at another.
//!
//! ```text
//!   xdp_blast ─▶ b0 ═ a0 ─▶ xdp_forward ─▶ a1 ═ b1 ─▶ counted, dropped
//! ```
//! ```text
//! ip netns add lab
//! for n in 0 1; do ip -n lab link add a$n type veth peer name b$n; ip -n lab link set a$n up; ip -n lab link set b$n up; done
//! xdp_blast b0 b1 --netns lab --cpu 0 --seconds 5 --rate 2000000 &
//! xdp_forward a0 a1 --netns lab --cpu 1 --seconds 5
//! ```

use std::time::{Duration, Instant};

use port::bpf::{Asm, Cond, Helper, Map, Program, ProgramType, Reg::*, Width, XdpLink, XdpMode};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (mut ends, mut netns, mut seconds, mut len, mut cpu, mut gap, mut swallow) =
        (Vec::new(), None, 5, 128, None, 0, true);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
        match arg.as_str() {
            "--netns" => netns = Some(value()?),
            "--cpu" => cpu = Some(value()?.parse()?),
            "--seconds" => seconds = value()?.parse()?,
            "--rate" => gap = 1_000_000_000 / value()?.parse::<i32>()?,
            "--no-sink" => swallow = false,
            "--len" => len = value()?.parse()?,
            _ => ends.push(arg),
        }
    }
    let [from, to] = &ends[..] else { return Err("give two interfaces".into()) };
    let run = || blast(from, to, seconds, len, gap, swallow, cpu);
    match netns {
        Some(name) => port::netns::within(&name, run)?,
        None => run(),
    }
}

fn blast(
    from: &str,
    to: &str,
    seconds: u64,
    len: usize,
    gap: i32,
    swallow: bool,
    cpu: Option<usize>,
) -> Result<(), Box<dyn std::error::Error>> {
    let index = |name: &str| port::iface::index_here(name).ok_or_else(|| format!("no interface {name}"));
    let (from, to) = (index(from)?, index(to)?);

    let counts = Map::per_cpu_array(8, 1)?;
    let mut drop = Asm::new();
    let out = drop.label();
    drop.store(Width::Word, R10, -4, 0)
        .mov(R2, R10)
        .add(R2, -4)
        .load_map(R1, &counts)
        .call(Helper::MapLookup)
        .jump_if(Cond::Eq, R0, 0, out)
        .load(Width::Double, R1, R0, 0)
        .add(R1, 1)
        .store(Width::Double, R0, 0, R1)
        .place(out)
        .mov(R0, 1)
        .exit();
    let drop = Program::load("count_drop", ProgramType::Xdp, &drop.build()?)?;
    let _sink = swallow.then(|| XdpLink::attach(&drop, to, XdpMode::Native)).transpose()?;

    // A frame that is not due is dropped, which costs next to nothing: that is the pacing.
    let due = Map::array(8, 1)?;
    let mut redirect = Asm::new();
    let (early, late, send) = (redirect.label(), redirect.label(), redirect.label());
    redirect
        .store(Width::Word, R10, -4, 0)
        .mov(R2, R10)
        .add(R2, -4)
        .load_map(R1, &due)
        .call(Helper::MapLookup)
        .jump_if(Cond::Eq, R0, 0, early)
        .mov(R6, R0)
        .call(Helper::KtimeNs)
        .load(Width::Double, R7, R6, 0)
        .jump_if(Cond::Lt, R0, R7, early)
        // Behind by 20 µs at most, so that a pause is not made good in one lump.
        .add(R0, -20_000)
        .jump_if(Cond::Lt, R7, R0, late)
        .jump(send)
        .place(late)
        .mov(R7, R0)
        .place(send)
        .add(R7, gap)
        .store(Width::Double, R6, 0, R7)
        .mov(R1, from as i32)
        .mov(R2, 0)
        .call(Helper::Redirect)
        .exit()
        .place(early)
        .mov(R0, 1)
        .exit();
    let redirect = Program::load("blast", ProgramType::Xdp, &redirect.build()?)?;
    let mut packet = vec![0; len];
    packet[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);

    // One call for all of it: between two the kernel waits for a grace period or two, which a busy thread of real-time
    // priority on another CPU can keep from it for seconds. Nothing is sent meanwhile, and it looks like a port's fault.
    let running = std::thread::spawn(move || {
        if let Some(cpu) = cpu {
            pin(cpu);
        }
        redirect.run_live(&packet, 0, u32::MAX)
    });
    let (start, mut before) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs(seconds) && !running.is_finished() {
        let second = Instant::now();
        std::thread::sleep(Duration::from_secs(1));
        let [now] = counts.sum::<1>(0)?;
        println!("{:>9.0} pps arrived", (now - before) as f64 / second.elapsed().as_secs_f64());
        before = now;
    }
    // The end of the process ends the call, if there still is one.
    if running.is_finished() {
        running.join().expect("no panic")?;
    }
    Ok(())
}

fn pin(cpu: usize) {
    // SAFETY: a cpu_set of zeroes is valid, and the set outlives the call; 0 means this thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}
