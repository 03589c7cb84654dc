//! From the radio network to the data network.

use super::*;

cases! { ipv4_over_ipv4, ipv6_over_ipv4, ipv4_over_ipv6, ipv6_over_ipv6 }

fn goes_up(user: IpAddr, over: Over) -> Case {
    let packet = from_gnb(over).gtpu(TEID).container_up(QFI).carrying(&request(user));
    let text = format!("A subscriber's IPv{} packet leaves its tunnel over IP{over:?}", if user.is_ipv4() { 4 } else { 6 });
    case(&text).send("n3", &packet).expect("n6", &to_router(&request(user).ttl(63)))
}

fn ipv4_over_ipv4() -> Case {
    goes_up(UE.into(), Over::V4)
}

fn ipv6_over_ipv4() -> Case {
    goes_up(UE_6.into(), Over::V4)
}

fn ipv4_over_ipv6() -> Case {
    goes_up(UE.into(), Over::V6)
}

fn ipv6_over_ipv6() -> Case {
    goes_up(UE_6.into(), Over::V6)
}
