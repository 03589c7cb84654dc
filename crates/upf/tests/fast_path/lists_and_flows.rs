//! Access lists and translation in the kernel: random lists and flows, what is left to workers and why.

use std::net::Ipv4Addr;

use gateway::snapshot::KernelFlows;

use super::*;
use crate::golden_cases::{
    Case, Packet, SERVER, SERVER_6, UE, UE_6, case, from_router, ip4, ip6, ms, request, response, up,
};

const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
/// Two blocks of ports, of which each subscriber gets one.
const FIRST_PORT: u16 = 65_408;
const NAT: &str = r#"
[nat]
pool = [{ addresses = "203.0.113.1/32" }]
first_port = 65408
block_ports = 64
mappings = 256
subscribers = 64
seed = 1
udp_unanswered_seconds = 1
udp_seconds = 2
tcp_opening_seconds = 1
tcp_seconds = 3
icmp_seconds = 1
"#;

const TWO_ROUTES: &str = r#"
route = [{ to = "0.0.0.0/0", via = "10.0.6.254" }, { to = "0.0.0.0/0", via = "10.0.6.253" }, { to = "::/0", via = "fd00:6::254" }]
neighbour = [
  { port = "n3", address = "10.0.3.100", mac = "02:00:00:00:03:64" },
  { port = "n6", address = "10.0.6.254", mac = "02:00:00:00:06:fe" },
  { port = "n6", address = "10.0.6.253", mac = "02:00:00:00:06:fd" },
  { port = "n6", address = "fd00:6::254", mac = "02:00:00:00:06:fe" },
]
"#;

impl Random {
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn is(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    fn rule(&mut self) -> String {
        const V4: &[&str] =
            &["10.60.0.0/16", "10.60.0.1", "198.51.100.0/24", "198.51.100.7", "203.0.113.1", "0.0.0.0/0"];
        const V6: &[&str] = &["2001:db8::/32", "2001:db8:60:1::/64", "2001:db8:5e::7", "::/0"];
        let ends = if self.is(4) { V6 } else { V4 };
        let protocol = self.one(&["ip", "ip", "tcp", "udp", "udp", "icmp"]);
        let end = |random: &mut Self| {
            let prefix = if random.is(2) { "any" } else { random.one(ends) };
            let is_ported = ["tcp", "udp"].contains(&protocol) && random.is(3);
            let ports = ["40000", "40001-40003", "50000-50002", "53", "443", "1-65535", "65408-65439"];
            if is_ported { format!("{prefix} port {}", random.one(&ports)) } else { prefix.to_owned() }
        };
        let (from, to) = (end(self), end(self));
        let action = self.one(&["permit", "permit", "deny"]);
        let direction = self.one(&["", "in ", "out "]);
        let dscp = self.one(&["", "", "", " dscp 0", " dscp 46"]);
        format!("\"{action} {direction}{protocol} from {from} to {to}{dscp}\"")
    }

    /// What is behind an IP header, between those ports.
    fn transport(&mut self, packet: Packet, from: u16, to: u16) -> Packet {
        const FLAGS: &[u8] = &[0x10, 0x10, 0x10, 0x18, 0x02, 0x12, 0x11, 0x04];
        let packet = match self.below(8) {
            0..4 => packet.udp(from, to),
            4..7 => packet.tcp(from, to).flags(self.one(FLAGS)),
            _ => return packet.says(47).filled(20),
        };
        // Some are wrong, some are none, and stay so.
        let packet = if self.is(4) { packet.checksum(self.one(&[0, 0xffff, 0x1234])) } else { packet };
        packet.filled(self.one(&[0, 1, 9, 32]))
    }

    fn header(&mut self, packet: Packet) -> Packet {
        let packet = packet.tos(self.one(&[0, 0, 0x28, 0xb8, 1]));
        if self.is(20) { packet.ttl(1) } else { packet }
    }

    /// What one of two subscribers sends.
    fn sent_by_ue(&mut self) -> Vec<u8> {
        let (ue, to) = (u8::from(self.is(3)), self.one(&[SERVER, SERVER, Ipv4Addr::new(198, 51, 100, 8), PUBLIC]));
        let (from, port) = (40_000 + self.below(6) as u16, self.one(&[50_000, 50_001, 53, 443, FIRST_PORT + 29]));
        let source = Ipv4Addr::new(10, 60, 0, 1 + if self.is(30) { 9 } else { ue });
        let user = match self.below(8) {
            0 => {
                let head = self.header(ip6(UE_6, SERVER_6));
                self.transport(head, from, port)
            }
            1 => self.header(ip4(source, to)).ping(from, 1).filled(8),
            _ => {
                let head = self.header(ip4(source, to));
                self.transport(head, from, port)
            }
        };
        let tunnel = golden_cases::from_gnb(golden_cases::Over::V4).gtpu(golden_cases::TEID + u32::from(ue));
        tunnel.container_up(golden_cases::QFI).carrying(&user).build()
    }

    /// What comes from the core.
    fn sent_to_ue(&mut self, is_translated: bool) -> Vec<u8> {
        let from = self.one(&[SERVER, SERVER, Ipv4Addr::new(198, 51, 100, 8)]);
        let public = FIRST_PORT + self.below(128) as u16;
        let is_public = is_translated && !self.is(10);
        let (to, port) = if is_public { (PUBLIC, public) } else { (UE, 40_000 + self.below(6) as u16) };
        let user = match self.below(10) {
            0 => {
                let head = self.header(ip6(SERVER_6, UE_6));
                self.transport(head, 53, 40_000)
            }
            1 => self.header(ip4(from, to)).pong(port, 1).filled(8),
            2 => ip4(from, to).icmp4(3, 4, 1400).payload(ip4(to, from).udp(port, 53).filled(8).build()),
            _ => {
                let (head, sent) = (self.header(ip4(from, to)), self.one(&[50_000, 53, 443]));
                self.transport(head, sent, port)
            }
        };
        from_router(&user).build()
    }

    /// A gateway with a random list, or translation, or both; and packets both ways, some of them changed.
    fn story(&mut self, count: usize) -> Case {
        let mut case = case("random lists and flows").with("simulate.ues = 2");
        let is_translated = !self.is(3);
        if is_translated {
            case = case.with(NAT);
        }
        if !is_translated || self.is(2) {
            let most = if self.is(6) { 20 } else { 17 };
            let rules: Vec<_> = (0..self.below(most)).map(|_| self.rule()).collect();
            let default = self.one(&["permit", "permit", "permit", "deny"]);
            case = case.with(&format!("acl = [{{ default = \"{default}\", rules = [{}] }}]", rules.join(", ")));
        }
        if self.is(2) {
            // Flows are spread by the addresses they leave with.
            case = case.with(TWO_ROUTES);
        }
        let mut now = 0;
        for _ in 0..count {
            now += if self.is(40) { ms(300 + self.below(1500) as u64) } else { ms(1) };
            let (port, packet) =
                if self.is(2) { ("n3", self.sent_by_ue()) } else { ("n6", self.sent_to_ue(is_translated)) };
            let packet = if self.is(12) { self.change(&packet) } else { packet };
            case.inputs.entry(port.to_owned()).or_default().push(Seen { at: now, bytes: packet });
        }
        case.until = now + ms(10);
        case
    }
}

/// `WEIR_STORIES="COUNT SEED"`: so many gateways, each with 300 packets.
#[test]
fn random_lists_and_flows_come_out_the_same_through_the_kernel() {
    let asked = std::env::var("WEIR_STORIES").ok();
    let mut words = asked.iter().flat_map(|text| text.split_whitespace()).map(|word| word.parse().expect("a number"));
    let (count, seed): (u64, u64) = (words.next().unwrap_or(12), words.next().unwrap_or(1));
    let (mut taken, mut faults) = (0, Vec::new());
    for n in 0..count {
        let mut random = Random(((seed << 24) + n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let story = random.story(300);
        let (said, here) = compare(&story, &story.inputs);
        let acl = story.config.get("acl").map(ToString::to_string);
        faults.extend(said.into_iter().map(|fault| format!("seed {seed}, story {n}, acl {acl:?}: {fault}")));
        taken += here;
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    println!("{taken} of {} packets were the kernel's", count * 300);
    assert!(taken > count * 30, "only {taken} of {} packets were the kernel's", count * 300);
}

fn started(change: &str) -> WithKernel {
    let mut device = WithKernel::start(&case("").with(change).config).expect("a gateway");
    device.publish(0);
    device
}

fn said_of(device: &mut WithKernel) -> String {
    let mut said = None;
    device.user_space.rig().each_gateway(|gateway| said = gateway.sessions().kernel_in_words(0).or(said.take()));
    said.expect("there is an in-kernel path")
}

#[test]
fn a_list_of_seventeen_rules_keeps_sessions_with_their_worker() {
    let list = |count: usize| {
        let rules: Vec<_> = (1..=count).map(|n| format!("\"deny in udp from any to any port {n}\"")).collect();
        format!("acl = [{{ rules = [{}] }}]", rules.join(", "))
    };
    let mut device = started(&list(16));
    assert_eq!(said_of(&mut device), "in the kernel");
    assert!(is_redirected(&device, &up(&request(UE)).build()));
    let mut device = started(&list(17));
    assert_eq!(said_of(&mut device), "by its worker: the network instance's access list has more than 16 rules");
    assert!(!is_redirected(&device, &up(&request(UE)).build()));
}

/// A flow's packets are the kernel's once its worker has a mapping, and no more when it has none; others of the session that
/// only translation has to see bring it back for the shortest time.
#[test]
fn flows_are_the_kernels_as_long_as_they_have_a_mapping() {
    let mut device = started(NAT);
    let usual = up(&request(UE)).build();
    assert!(!is_redirected(&device, &usual), "there is no mapping yet");
    device.user_space.send("n3", &usual);
    device.user_space.settle();
    let sent = device.user_space.received("n6");
    let port = u16::from_be_bytes([sent[0][34], sent[0][35]]);
    device.enter();
    assert!(is_redirected(&device, &usual));
    // In, by the public end only.
    device.publish(1);
    let answer = |to, port| from_router(&ip4(SERVER, to).udp(50_000, port).filled(32)).build();
    assert!(is_redirected(&device, &answer(PUBLIC, port)));
    assert!(!is_redirected(&device, &answer(PUBLIC, port ^ 1)), "nobody's");
    assert!(!is_redirected(&device, &from_router(&response(UE)).build()), "not from outside");
    assert!(device.path.is_taken(0), "what is nobody's takes no session along");
    // Its session ends: its mapping does, too.
    device.user_space.step(&"do = \"remove\"\nue = 0".parse().expect("TOML")).expect("it can end");
    device.user_space.settle();
    assert!(!is_redirected(&device, &answer(PUBLIC, port)));
}

#[test]
fn first_packets_bring_a_session_back_for_a_short_time() {
    let mut device = started(NAT);
    for n in 0..12 {
        let first = up(&ip4(UE, SERVER).udp(41_000 + n, 50_000).filled(8)).build();
        assert!(!is_redirected(&device, &first), "a new flow");
        device.user_space.send("n3", &first);
        device.user_space.settle();
        assert!(!device.path.is_taken(0));
        // As if it had not come back before: for other packets it would stay for 1.3 s by now.
        let until = Instant::now() + Duration::from_millis(600);
        while !device.path.is_taken(0) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
            let later = device.user_space.now() + 2_000_000;
            device.user_space.turn_to(later);
            device.user_space.settle();
        }
        assert!(device.path.is_taken(0), "it is back after flow {n}");
        assert!(is_redirected(&device, &first));
    }
}

/// With two places, the third flow keeps its session with its worker, and does not have it go there and come back all the time;
/// it gets the place of one that ends.
#[test]
fn a_flow_without_a_place_keeps_its_session_with_its_worker() {
    let mut device = started(&format!("{NAT}\n[fast_path]\nflows = 2"));
    let flow = |n: u16| up(&ip4(UE, SERVER).udp(41_000 + n, 50_000).filled(8)).build();
    let send = |device: &mut WithKernel, n| {
        device.user_space.send("n3", &flow(n));
        device.user_space.settle();
    };
    let pass = |device: &mut WithKernel, by: u64| {
        std::thread::sleep(Duration::from_millis(2));
        let later = device.user_space.now() + by;
        device.user_space.turn_to(later);
        device.user_space.settle();
    };
    (0..3).for_each(|n| send(&mut device, n));
    let flows = |taken, waiting| KernelFlows { places: 2, taken, waiting, waited: 1 };
    assert_eq!(device.path.flows(), Some(flows(2, 1)));
    for _ in 0..100 {
        pass(&mut device, ms(2));
        assert!(!device.path.is_taken(0));
    }
    let said = said_of(&mut device);
    assert_eq!(said, "by its worker: a translated flow of it has no place in the kernel (fast_path.flows)");
    let handed_back = device.path.counts().handed_back;
    // The others end after a second.
    for _ in 0..6 {
        send(&mut device, 2);
        pass(&mut device, ms(300));
    }
    assert_eq!(device.path.flows(), Some(flows(1, 0)));
    let until = Instant::now() + Duration::from_millis(600);
    while !device.path.is_taken(0) && Instant::now() < until {
        pass(&mut device, ms(2));
    }
    assert!(is_redirected(&device, &flow(2)), "{:?}", said_of(&mut device));
    assert_eq!(device.path.counts().handed_back, handed_back);
}
