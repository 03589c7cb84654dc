//! Sessions that come, change and go while traffic flows.

use super::*;

testkit::cases! { removed, made_while_running, usage_and_credit_survive_new_rules, address_of_another }

fn removed() -> Case {
    let packet = up(&request(UE));
    let told = to_gnb(Over::V4).udp(2152, 2152).gtpu_message(26, 0).seq(0);
    let elements = [&[16][..], &TEID.to_be_bytes(), &[133, 0, 4], &N3.octets()].concat();
    case("A session that is removed is gone in both directions; its usage is told.")
        .send("n3", &packet)
        .expect("n6", &to_router(&request(UE).ttl(63)))
        .at(ms(10))
        .step(r#"do = "remove", ue = 0"#)
        .send("n3", &packet)
        .send("n6", &from_router(&response(UE)))
        .expect("n3", &told.payload(elements))
        .drops("worker.unknown_teid", 1)
        .drops("downlink.find_by_address.unknown_subscriber", 1)
        .counts("final.ue0.urr1.up_packets", 1)
        .counts("final.ue0.urr1.up_bytes", 60)
}

fn made_while_running() -> Case {
    let second = Ipv4Addr::new(10, 70, 0, 1);
    let tunnel_up = from_gnb(Over::V4).gtpu(77).container_up(3).carrying(&request(second));
    case("A session made while running serves at once.")
        .send("n6", &from_router(&response(second)))
        .at(ms(10))
        .step(r#"do = "sessions", simulate = { ues = 1, ue_first = "10.70.0.1", teid_first = 77, gnb_teid_first = 88, bearer = [{ qfi = 3 }] }"#)
        .send("n6", &from_router(&response(second)))
        .send("n3", &tunnel_up)
        .expect("n3", &tunnel(Over::V4, 88).container_down(3).carrying(&response(second).ttl(63)))
        .expect("n6", &to_router(&request(second).ttl(63)))
        .drops("downlink.find_by_address.unknown_subscriber", 1)
        .counts("control.made", 1)
}

fn usage_and_credit_survive_new_rules() -> Case {
    let packet = ip4(UE, SERVER).udp(40_000, 50_000).filled(972);
    let many = |case: Case, count, pass| {
        let case = (0..count).fold(case, |case, _| case.send("n3", &up(&packet)));
        (0..pass).fold(case, |case, _| case.expect("n6", &to_router(&packet.clone().ttl(63))))
    };
    case("New rules go on with what was measured, and give no new burst.")
        .with("simulate.bearer = [{ qfi = 9, mbr_up = \"1 Mbit/s\" }]")
        .then(|case| many(case, 12, 12))
        .step(r#"do = "rules", ue = 0, simulate = { bearer = [{ qfi = 9, mbr_up = "1 Mbit/s", dscp = 10 }] }"#)
        .at(ms(1))
        .then(|case| many(case, 5, 3))
        .drops("uplink.gate_and_police.flow_rate", 2)
        .counts("usage.ue0.urr1.up_packets", 15)
        .counts("usage.ue0.urr1.up_bytes", 15_000)
}

fn address_of_another() -> Case {
    case("A session with another's address or tunnel is refused, and harms nothing.")
        .step(r#"do = "sessions", simulate = { ues = 1, ue_first = "10.60.0.1", teid_first = 77 }"#)
        .step(r#"do = "sessions", simulate = { ues = 1, ue_first = "10.70.0.1" }"#)
        .at(ms(1))
        .send("n3", &up(&request(UE)))
        .send("n6", &from_router(&response(UE)))
        .expect("n6", &to_router(&request(UE).ttl(63)))
        .expect("n3", &down(&response(UE).ttl(63)))
        .counts("control.refused", 2)
}
