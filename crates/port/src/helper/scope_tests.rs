//! What a process that was taken over cannot have from its helper. Needs root: interfaces are of a namespace of their own.

use std::cell::RefCell;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use frame::{Arena, ArenaConfig};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::message::{Answer, Request};
use super::*;
use crate::host_tap::{HostRoutes, HostTapConfig, PROTOCOL, Prefix};
use crate::iface::index_here;
use crate::xdp::registered_bytes;

const ARENA: ArenaConfig = ArenaConfig { slots: 64, slot_bytes: 2048, headroom: 262 };

fn scope(ports: &[&str]) -> Scope {
    let ports = ports.iter().map(|port| port.parse().unwrap()).collect();
    Scope { ports, memory: Some(registered_bytes(&ARENA)) }
}

/// Asks a helper in a namespace with the interfaces weir0 and weir1, whose numbers are given. Returns what it said of
/// refusals.
fn with_helper(scope: Scope, ask: impl FnOnce(&Client, [u32; 2])) -> Vec<&'static str> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let (tell, told) = mpsc::channel();
    let helper = std::thread::spawn(move || {
        // SAFETY: plain system call; concerns this thread only.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "root");
        let words = "link add weir0 type veth peer name weir1".split(' ');
        assert!(Command::new("ip").args(words).status().expect("ip").success());
        tell.send(["weir0", "weir1"].map(|name| index_here(name).expect("made"))).unwrap();
        let refusals = RefCell::new(Vec::new());
        serve(&theirs, &scope, &String::new, &|refusal| refusals.borrow_mut().push(refusal.name())).unwrap();
        refusals.into_inner()
    });
    let client = Client::new(ours).unwrap();
    ask(&client, told.recv().unwrap());
    drop(client);
    helper.join().unwrap()
}

/// The refusal of that name.
fn refused<T>(answer: Result<T, PortError>, name: &str) {
    match answer.map(drop) {
        Err(PortError::Helper { text, permission: false }) => assert!(text.contains(&format!("({name})")), "{text}"),
        other => panic!("{name}: {other:?}"),
    }
}

fn place(name: &str) -> Place {
    Place::new(name, None)
}

fn arena() -> Arc<Arena> {
    Arena::shared(ARENA).unwrap()
}

/// An AF_XDP socket for an interface: its lease, and this process's descriptor.
fn socket(client: &Client, name: &str) -> (u64, OwnedFd) {
    let (answer, socket) = client.descriptor(&Request::XdpSocket(place(name))).unwrap();
    (answer.lease, socket)
}

fn register(
    client: &Client,
    (socket, _): &(u64, OwnedFd),
    file: BorrowedFd<'_>,
    bytes: u64,
) -> Result<Answer, PortError> {
    let request = Request::XdpRegister { socket: *socket, place: place("weir0"), bytes, chunk: 2048, headroom: 6 };
    client.ask_with(&request, &[file]).map(|(answer, _)| answer)
}

/// A socket that could be bound: its memory is registered, its rings are there.
fn ready(client: &Client, name: &str, arena: &Arena) -> (u64, OwnedFd) {
    let made = socket(client, name);
    let request = Request::XdpRegister {
        socket: made.0,
        place: place(name),
        bytes: registered_bytes(&ARENA),
        chunk: 2048,
        headroom: 6,
    };
    client.ask_with(&request, &[arena.file().unwrap()]).unwrap();
    let entries = 64_u32;
    for ring in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
        // SAFETY: the option is a number of that size, which outlives the call.
        let got = unsafe {
            libc::setsockopt(
                made.1.as_raw_fd(),
                libc::SOL_XDP,
                ring,
                (&raw const entries).cast(),
                size_of::<u32>() as u32,
            )
        };
        assert_eq!(got, 0);
    }
    made
}

fn bind(client: &Client, socket: u64, name: &str, ifindex: u32, flags: u16) -> Result<Answer, PortError> {
    let request = Request::XdpBind { socket, place: place(name), ifindex, queue: 0, flags, patience_ms: 0 };
    client.ask(&request).map(|(answer, _)| answer)
}

#[test]
fn sockets_are_bound_to_their_port_only() {
    let told = with_helper(scope(&["xdp:weir0"]), |client, [number, other]| {
        let arena = arena();
        let (socket, _fd) = ready(client, "weir0", &arena);
        refused(bind(client, socket, "weir0", other, libc::XDP_COPY), "other_number");
        refused(bind(client, socket, "weir0", number, libc::XDP_SHARED_UMEM), "bind_flags");
        bind(client, socket, "weir0", number, libc::XDP_COPY).unwrap();
        let released =
            |ifindex| client.ask(&Request::XdpReleased { place: place("weir0"), ifindex, queue: 0, patience_ms: 0 });
        refused(released(other), "other_number");
        assert_eq!(released(number).unwrap().0.number, 0, "the socket is open");
    });
    assert_eq!(told, ["other_number", "bind_flags"], "each is told once");
}

#[test]
fn a_socket_of_one_port_is_none_of_another() {
    with_helper(scope(&["xdp:weir0", "xdp:weir1"]), |client, [_, other]| {
        let arena = arena();
        let (socket, _fd) = ready(client, "weir0", &arena);
        refused(bind(client, socket, "weir1", other, libc::XDP_COPY), "no_socket");
    });
}

#[test]
fn registered_memory_is_bounded() {
    let mut told = with_helper(scope(&["xdp:weir0"]), |client, _| {
        let (arena, bytes) = (arena(), registered_bytes(&ARENA));
        let file = || arena.file().unwrap();
        let first = socket(client, "weir0");
        refused(register(client, &first, file(), bytes + 4096), "memory_size");
        let disk = std::fs::File::open("/proc/self/exe").unwrap();
        refused(register(client, &first, disk.as_fd(), bytes), "not_memory");
        register(client, &first, file(), bytes).unwrap();
        let second = socket(client, "weir0");
        refused(register(client, &second, self::arena().file().unwrap(), bytes), "other_memory");
        register(client, &second, file(), bytes).unwrap();
        // One port: its own socket and the next one. A lease that is given back does not close the other descriptor.
        client.ask(&Request::Release(first.0)).unwrap();
        let third = socket(client, "weir0");
        refused(register(client, &third, file(), bytes), "too_many_registrations");
        drop(first);
        // As often as it is opened again.
        let mut last = third;
        for _ in 0..20 {
            // A test beside this one that starts a program has copies of all descriptors until the program runs.
            let until = Instant::now() + Duration::from_secs(10);
            while let Err(refused) = register(client, &last, file(), bytes) {
                assert!(Instant::now() < until, "{refused}");
                std::thread::sleep(Duration::from_millis(5));
            }
            client.ask(&Request::Release(last.0)).unwrap();
            drop(last);
            last = socket(client, "weir0");
        }
    });
    told.dedup();
    assert_eq!(told, ["memory_size", "not_memory", "other_memory", "too_many_registrations"]);
}

#[test]
fn a_helper_without_memory_registers_none() {
    with_helper(Scope { memory: None, ..scope(&["xdp:weir0"]) }, |client, _| {
        let first = socket(client, "weir0");
        refused(register(client, &first, arena().file().unwrap(), 4096), "memory_size");
    });
}

#[test]
fn leases_are_bounded() {
    with_helper(scope(&["packet:weir0"]), |client, _| {
        let fit = || client.ask(&Request::Fit(place("weir0"))).map(|(answer, _)| answer.lease);
        let leases: Vec<u64> = (0..4).map(|_| fit().unwrap()).collect();
        refused(fit(), "too_many_leases");
        client.ask(&Request::Release(leases[0])).unwrap();
        fit().unwrap();
    });
}

/// A TCP connection of a namespace of its own, with so much to send that the other end has no room for it.
fn full_connection() -> [TcpStream; 2] {
    let made = std::thread::spawn(|| {
        // SAFETY: plain system call; concerns this thread only.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "root");
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip").success());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        while near.write(&[0; 65536]).is_ok() {}
        near.set_nonblocking(false).unwrap();
        [near, far]
    });
    made.join().unwrap()
}

#[test]
fn a_lingering_descriptor_does_not_stop_the_helper() {
    with_helper(scope(&["packet:weir0"]), |client, _| {
        // The third is one more than any request has.
        for before in [0, 2] {
            let [near, _far] = full_connection();
            sockopt::set_socket_linger(&near, Some(Duration::from_secs(20))).unwrap();
            let file = std::fs::File::open("/proc/self/exe").unwrap();
            let descriptors = [vec![file.as_fd(); before], vec![near.as_fd()]].concat();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
            let octets = Request::Report.write(0);
            sendmsg(client.socket(), &[IoSlice::new(&octets)], &mut control, SendFlags::NOSIGNAL).unwrap();
            drop(near);
            let begin = Instant::now();
            client.report().unwrap();
            assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        }
    });
}

#[test]
fn a_tun_is_opened_only_for_tun_ports() {
    with_helper(scope(&["packet:weir2", "tun:weir3"]), |client, _| {
        let tun = |name| client.ask(&Request::Tun { place: place(name), offloads: false });
        refused(tun("weir2"), "other_kind");
        refused(client.ask(&Request::TunMtu { place: place("weir2"), mtu: 1400 }), "other_kind");
        assert!(matches!(client.interface("weir2", None), Err(PortError::NoInterface { .. })), "none was made");
        let _queue = tun("weir3").unwrap();
        client.interface("weir3", None).unwrap();
        refused(client.ask(&Request::XdpSocket(place("weir3"))), "other_kind");
    });
}

#[test]
fn routes_are_changed_by_host_interfaces_only() {
    let refusals = with_helper(scope(&["packet:weir0", "host:core0"]), |client, _| {
        let prefix = ([203, 0, 113, 0].into(), 24);
        let change = |name, add, prefixes: &[Prefix]| {
            client.ask(&Request::HostRoutes { place: place(name), add, prefixes: prefixes.to_vec() })
        };
        refused(change("weir0", true, &[prefix]), "other_kind");
        refused(change("weir1", true, &[prefix]), "other_interface");
        refused(change("core0", true, &[prefix, ([64, 0, 0, 0].into(), 7)]), "wide_route");
        refused(change("core0", true, &[([0x2000, 0, 0, 0, 0, 0, 0, 0].into(), 15)]), "wide_route");
        let addresses = vec![([192, 0, 2, 1].into(), 24), ([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), 64)];
        let config = HostTapConfig { place: place("core0"), mac: [2, 0, 0, 0, 0, 9], mtu: 1500, addresses };
        let (answer, descriptors) = client.ask(&Request::HostTap(config)).unwrap();
        let [_queue, changes, asks] = <[OwnedFd; 3]>::try_from(descriptors).unwrap();
        let routes = HostRoutes::new(changes, asks, answer.number as u32);
        let list = || routes.list(10).unwrap().0.into_iter().map(|route| (route.to, route.len, route.protocol));
        assert_eq!(list().count(), 0, "those of the interface's own addresses are the kernel's");
        let six = ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0].into(), 48);
        // What is there already is as wanted.
        for _ in 0..2 {
            change("core0", true, &[prefix, six]).unwrap();
            let ours = [prefix, six].map(|(to, len)| (to, len, PROTOCOL));
            assert_eq!(list().collect::<Vec<_>>(), ours);
        }
        assert_eq!(routes.list(1).unwrap().1, 2, "the others are counted");
        for _ in 0..2 {
            change("core0", false, &[prefix, six]).unwrap();
            assert_eq!(list().count(), 0);
        }
    });
    assert_eq!(refusals, ["other_kind", "other_interface", "wide_route"]);
}
