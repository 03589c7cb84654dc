//! What cannot be had says why.

use frame::{Arena, ArenaConfig, Pool, Port};
use port::PortError;
use port::bpf::{Asm, BpfError, Program, ProgramType, Reg, XdpLink, XdpMode};
use port::xdp::{Copying, Steering, XdpConfig, XdpError, XdpPort};

use super::bench::{Memory, Net, packet};

fn refused(memory: &mut Memory, config: XdpConfig) -> PortError {
    XdpPort::open(config, &mut memory.pool).err().expect("refused")
}

#[test]
fn what_can_not_be_says_why() {
    let net = Net::new("errors");
    net.pair(0, 1);
    let mut memory = Memory::new(1024);
    assert!(matches!(refused(&mut memory, net.config("nope")), PortError::NoInterface { .. }));
    let error = refused(&mut memory, XdpConfig { queue: 3, ..net.config("a0") });
    assert!(matches!(error, PortError::Xdp(XdpError::NoQueue { queue: 3, .. })), "{error}");
    let error = refused(&mut memory, XdpConfig { copy: Copying::Zero, ..net.config("a0") });
    assert!(matches!(error, PortError::Unsupported { .. }), "veth has no zero copy: {error}");
    assert!(matches!(Steering::of("a0", Some(&net.name)).err(), Some(PortError::Xdp(XdpError::NotOpen { .. }))));

    let mut port = memory.open(net.config("a0"));
    assert!(port.caps().detail.starts_with("copy mode, native program, queue 0, filter all"), "{:?}", port.caps());
    let error = refused(&mut memory, net.config("a0"));
    assert!(matches!(error, PortError::Xdp(XdpError::QueueBusy { queue: 0, .. })), "{error}");
    port.close(&mut memory.pool);
    drop(port);
    assert_eq!(memory.free(), 1024, "refused ones keep nothing");

    net.ip("link set a0 mtu 3000");
    let error = refused(&mut memory, net.config("a0"));
    assert!(matches!(error, PortError::Xdp(XdpError::Mtu { mtu: 3000, room: 1786, .. })), "{error}");
    let large = Arena::new(ArenaConfig { slots: 64, slot_bytes: 9216, headroom: 256 }).expect("memory");
    let error = XdpPort::open(net.config("a0"), &mut Pool::new(&large, 64)).err().expect("refused");
    assert!(matches!(error, PortError::Xdp(XdpError::SlotSize { slot_bytes: 9216 })), "{error}");
}

#[test]
fn larger_slots_take_larger_packets() {
    let net = Net::new("large");
    net.pair(0, 1);
    net.ip("link set a0 mtu 3400");
    net.ip("link set b0 mtu 3400");
    let arena = Arena::new(ArenaConfig { slots: 512, slot_bytes: 4096, headroom: 512 }).expect("memory");
    let pool = frame::Pool::new(&arena, 512);
    let mut memory = Memory { arena, pool };
    let mut port = memory.open(XdpConfig { fill: 64, ..net.config("a0") });
    let tap = net.tap("b0");
    let packet = packet(1, 3300);
    tap.send(&packet);
    let mut batch = frame::Batch::new();
    super::bench::until("received", || port.rx_burst(&mut memory.pool, &mut batch) == 1);
    assert_eq!(batch.frames()[0].headroom(), 512, "more headroom than the kernel's own was asked for");
    assert_eq!(memory.arena.bytes(&batch.frames()[0]), packet);
    memory.pool.give_all(&mut batch);
    port.close(&mut memory.pool);
    assert_eq!(memory.free(), 512);
}

#[test]
fn filters_must_agree() {
    let net = Net::new("agree");
    net.pair(0, 2);
    let mut memory = Memory::new(2048);
    let mut port = memory.open(net.config("a0"));
    let other = XdpConfig { queue: 1, filter: "udp:2152".parse().expect("a filter"), ..net.config("a0") };
    let error = refused(&mut memory, other.clone());
    assert!(matches!(error, PortError::Xdp(XdpError::OtherFilter { .. })), "{error}");
    port.close(&mut memory.pool);
    let mut port = memory.open(other);
    port.close(&mut memory.pool);
}

#[test]
fn someone_elses_program_stays() {
    let net = Net::new("occupied");
    net.pair(0, 1);
    let mut memory = Memory::new(1024);
    let mut pass = Asm::new();
    pass.mov(Reg::R0, 2).exit();
    let program = Program::load("pass", ProgramType::Xdp, &pass.build().expect("built")).expect("loads");
    let link = port::netns::within(&net.name, || {
        let index = port::iface::index_here("a0").expect("a0");
        XdpLink::attach(&program, index, XdpMode::Auto).expect("attached")
    });
    let error = refused(&mut memory, net.config("a0"));
    assert!(matches!(error, PortError::Bpf(BpfError::Occupied { .. })), "{error}");
    assert_eq!(memory.free(), 1024, "what the socket had to receive into is back");
    drop(link);
    assert!(XdpPort::open(net.config("a0"), &mut memory.pool).is_ok());
}

/// Gives up CAP_IPC_LOCK, on this thread only.
fn without_ipc_lock() {
    const VERSION_3: u32 = 0x2008_0522;
    const IPC_LOCK: u32 = 1 << 14;
    let mut header = [VERSION_3, 0];
    let mut data = [[0_u32; 3]; 2];
    // SAFETY: a header and two data blocks, as version 3 wants; 0 means this thread.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_capget, header.as_mut_ptr(), data.as_mut_ptr()), 0);
        data[0][0] &= !IPC_LOCK;
        assert_eq!(libc::syscall(libc::SYS_capset, header.as_mut_ptr(), data.as_mut_ptr()), 0);
    }
}

#[test]
fn little_locked_memory_suffices_for_a_small_arena_and_is_named_for_a_large_one() {
    let net = Net::new("memlock");
    net.pair(0, 1);
    let (mut small, mut large) = (Memory::new(1024), Memory::new(65_536));
    without_ipc_lock();
    let mut port = small.open(net.config("a0"));
    assert_eq!(
        small.arena.backing().as_str() == "huge pages",
        std::fs::read_to_string("/proc/sys/vm/nr_hugepages").is_ok_and(|n| n.trim() != "0")
    );
    port.close(&mut small.pool);
    assert_eq!(small.free(), 1024);
    // 132 MiB: where the limit is lower and cannot be raised, the error says how much it takes.
    match XdpPort::open(net.config("a0"), &mut large.pool) {
        Ok(_) => {}
        Err(PortError::LockedMemory { bytes, .. }) => assert_eq!(bytes, 65_536 * 2112),
        Err(error) => panic!("{error}"),
    }
}
