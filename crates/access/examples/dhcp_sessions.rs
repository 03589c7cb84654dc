//! CPU time of a DHCPv4 session (DISCOVER, OFFER, REQUEST, ACK) without a store, and memory of a lease.
//!
//! ```text
//! cargo run --release -p access --example dhcp_sessions -- 256000
//! ```

use access::dhcp4::{Config, Destination, Dhcp4Server, Group, Options, Request};
use access::pool::{Limits, Pools, Range};
use access::{Action, Line, Time};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use wire::Mac;

const SERVER: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);

fn octets(mac: Mac, kind: u8, options: &[u8]) -> Vec<u8> {
    let mut out = vec![1, 1, 6, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    out.resize(28, 0);
    out.extend_from_slice(&mac.0);
    out.resize(236, 0);
    out.extend_from_slice(&[99, 130, 83, 99, 53, 1, kind]);
    out.extend_from_slice(options);
    out.extend_from_slice(&[82, 12, 1, 10]);
    out.extend_from_slice(b"olt 1/1/1:");
    out.push(255);
    out
}

fn main() {
    let sessions: u32 = std::env::args().nth(1).map_or(256_000, |n| n.parse().expect("a number of sessions"));
    let first = u32::from(Ipv4Addr::new(100, 64, 0, 2));
    let range = Range::ip4(1, first.into(), (first + sessions - 1).into());
    let options = Options { prefix_len: 10, routers: vec![SERVER], dns: vec![SERVER], ..Options::default() };
    let group = Group { server: SERVER, lease: Duration::from_secs(3600), options };
    let mut server = Dhcp4Server::new(Config::default(), [(1, group)]).expect("good options");
    let mut pools = Pools::new(&[range], Limits::default()).expect("a good pool");
    let now = Time::from_secs(1_700_000_000);
    let begin = Instant::now();
    let mut acknowledged = 0;
    for n in 0..sessions {
        let line = Line { port: 1, s_vlan: (n / 4000) as u16, c_vlan: (n % 4000) as u16 };
        let [_, a, b, c] = n.to_be_bytes();
        let mac = Mac([2, 0, 0, a, b, c]);
        let discover = octets(mac, 1, &[]);
        server.receive(
            &mut pools,
            now,
            &Request { line, group: 1, source: mac, from: Ipv4Addr::UNSPECIFIED, routed: false, octets: &discover },
        );
        let Some(Action::Send(offer)) = server.next_action() else { panic!("no OFFER to session {n}") };
        let mut selecting = vec![50, 4];
        selecting.extend_from_slice(&offer.address.octets());
        selecting.extend_from_slice(&[54, 4]);
        selecting.extend_from_slice(&SERVER.octets());
        let request = octets(mac, 3, &selecting);
        server.receive(
            &mut pools,
            now,
            &Request { line, group: 1, source: mac, from: Ipv4Addr::UNSPECIFIED, routed: false, octets: &request },
        );
        while let Some(action) = server.next_action() {
            match action {
                Action::Store(ticket, _) => server.durable(ticket),
                Action::Send(ack) => acknowledged += u32::from(matches!(ack.to, Destination::Unicast(..))),
                Action::Erase(_) => {}
            }
        }
    }
    let time = begin.elapsed();
    assert_eq!((acknowledged, pools.bound()), (sessions, sessions as usize));
    println!("sessions          {sessions}");
    println!("time per session  {} ns", time.as_nanos() / u128::from(sessions.max(1)));
    println!("memory per lease  {} bytes", pools.memory() / pools.bound().max(1));
}
