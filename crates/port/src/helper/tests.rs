use super::message::{self, Answer, Request};
use super::*;
use crate::bpf::XdpMode;
use crate::host_tap::{HostTapConfig, Prefix};

fn prefixes() -> Vec<Prefix> {
    vec![([192, 0, 2, 1].into(), 24), ([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), 64)]
}

fn every_request() -> Vec<Request> {
    let place = || Place::new("eth0", Some("inside"));
    vec![
        Request::Interface(Place::new("eth0", None)),
        Request::PacketSocket { place: place(), receive: 8 << 20, send: 1 },
        Request::Fit(place()),
        Request::Hush(place()),
        Request::XdpSocket(place()),
        Request::XdpRegister { socket: 7, place: place(), bytes: 1 << 20, chunk: 2048, headroom: 6 },
        Request::XdpBind { socket: 7, place: place(), ifindex: 3, queue: 1, flags: 2, patience_ms: 9 },
        Request::XdpAttach {
            socket: 7,
            place: place(),
            queue: 1,
            filter: "udp:2152".to_owned(),
            mode: XdpMode::Generic,
            keep_offloads: true,
            promiscuous: true,
        },
        Request::XdpReleased { place: place(), ifindex: 3, queue: 1, patience_ms: 9 },
        Request::XdpHook { place: place(), longest_ns: 400_000, share: 4, keep: true },
        Request::XdpEngage { place: place() },
        Request::Tun { place: place(), offloads: true },
        Request::TunMtu { place: place(), mtu: 1400 },
        Request::HostTap(HostTapConfig { place: place(), mac: [2, 0, 0, 0, 0, 9], mtu: 1500, addresses: prefixes() }),
        Request::HostRoutes { place: place(), add: true, prefixes: prefixes() },
        Request::Release(12),
        Request::Report,
        Request::Another,
    ]
}

#[test]
fn requests_are_read_as_they_were_written() {
    for (sequence, request) in (5..).zip(every_request()) {
        let octets = request.write(sequence);
        assert_eq!(Request::read(&octets), Ok((sequence, request.clone())));
        for cut in 0..octets.len() {
            assert!(Request::read(&octets[..cut]).is_err(), "{request:?} cut to {cut}");
        }
        assert!(Request::read(&[&octets[..], &[0]].concat()).is_err(), "{request:?} and more");
    }
}

#[test]
fn errors_cross_with_what_they_say() {
    let system = |errno| PortError::system("trying", "CAP_BPF", std::io::Error::from_raw_os_error(errno));
    let errors = [
        system(libc::EPERM),
        system(libc::ENODEV),
        PortError::NoNamespace { name: "n".into() },
        PortError::NoInterface { name: "a".into(), place: "here".into(), there: "lo".into() },
        PortError::Unsupported { what: "this".into(), advice: "do that".into() },
        crate::bpf::BpfError::Map { what: "x", source: std::io::Error::from_raw_os_error(libc::EPERM) }.into(),
    ];
    for error in errors {
        let (said, permission) = (error.to_string(), error.is_permission());
        let (sequence, reply) = message::read_reply(&message::write_reply(3, &Err(error))).ok().unwrap();
        let back = reply.unwrap_err();
        assert_eq!((sequence, back.to_string(), back.is_permission()), (3, said, permission));
    }
    let answer = Answer { number: 1, lease: 2, text: "three".into() };
    let (_, reply) = message::read_reply(&message::write_reply(4, &Ok(answer))).ok().unwrap();
    let back = reply.unwrap();
    assert_eq!((back.number, back.lease, &*back.text), (1, 2, "three"));
}

#[test]
fn only_configured_interfaces_are_touched() {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let helper = std::thread::spawn(move || {
        let scope = Scope { ports: vec!["packet:lo".parse().unwrap()], memory: None };
        serve(&theirs, &scope, &|| "I am the helper".to_owned(), &|_| ())
    });
    let client = Client::new(ours).unwrap();
    for request in every_request() {
        match request.place() {
            Some(_) => {
                let error = client.ask(&request).unwrap_err();
                assert!(error.to_string().contains("not one of this gateway's ports"), "{error}");
                assert!(error.to_string().contains("(other_interface)") && !error.is_permission(), "{error}");
            }
            None => drop(client.ask(&request).unwrap()),
        }
    }
    assert_eq!(client.report().unwrap(), "I am the helper");
    let [_netns, _control, _changes] = client.interface("lo", None).unwrap();
    drop(client);
    helper.join().unwrap().unwrap();
}

/// A helper for `lo`, until all sockets to it are closed.
fn helper() -> (Client, std::thread::JoinHandle<std::io::Result<()>>) {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let helper = std::thread::spawn(move || {
        let scope = Scope { ports: vec!["packet:lo".parse().unwrap()], memory: None };
        let end = serve(&theirs, &scope, &|| "I am the helper".to_owned(), &|_| ());
        drop(theirs);
        end
    });
    (Client::new(ours).unwrap(), helper)
}

/// Both ask all the time, with numbers that are alike: over one socket they would take each other's replies.
#[test]
fn each_process_has_replies_of_its_own() {
    let (old, helper) = helper();
    let new = Client::new(old.another().unwrap()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..300 {
                assert_eq!(old.report().unwrap(), "I am the helper");
            }
        });
        for _ in 0..300 {
            let (_, descriptors) = new.ask(&Request::Interface(Place::new("lo", None))).unwrap();
            assert_eq!(descriptors.len(), 3, "not the other's reply");
        }
    });
    // The helper goes on with the one that is left.
    drop(old);
    assert_eq!(new.report().unwrap(), "I am the helper");
    drop(new);
    helper.join().unwrap().unwrap();
}

#[test]
fn sockets_to_the_helper_are_few() {
    let (client, helper) = helper();
    let mut more: Vec<_> = (1..4).map(|_| client.another().unwrap()).collect();
    let error = client.another().unwrap_err().to_string();
    assert!(error.contains("more than 4 sockets") && error.contains("(too_many_sockets)"), "{error}");
    more.pop();
    // It is closed when the helper looks next.
    client.report().unwrap();
    more.push(client.another().unwrap());
    // One that says what cannot be read is no longer served.
    rustix::net::send(more.last().unwrap(), b"garbled", rustix::net::SendFlags::empty()).unwrap();
    client.report().unwrap();
    more.push(client.another().unwrap());
    drop((client, more));
    helper.join().unwrap().unwrap();
}

#[test]
fn places_are_written_with_their_namespace() {
    let places = ["eth0", "ns-1/eth0"].map(|text| text.parse::<Place>().unwrap());
    assert_eq!(places, [Place::new("eth0", None), Place::new("eth0", Some("ns-1"))]);
    assert_eq!(places.map(|place| place.to_string()), ["eth0", "ns-1/eth0"]);
    let of = |uri: &str| ScopedPort::of(&uri.parse().unwrap()).map(|port| port.to_string());
    assert_eq!(of("packet:eth0?netns=a&mode=slots"), Some("packet:a/eth0".to_owned()));
    assert_eq!((of("xdp:eth1?queue=1"), of("memory:x"), of("pcap:a.pcap")), (Some("xdp:eth1".to_owned()), None, None));
    for text in ["packet:a/eth0", "xdp:eth1", "tun:ogstun"] {
        assert_eq!(text.parse::<ScopedPort>().unwrap().to_string(), text);
    }
    assert!("eth0".parse::<ScopedPort>().is_err() && "memory:x".parse::<ScopedPort>().is_err());
}
