//! GTP-U's optional fields and extension headers (TS 29.281, 5).

use super::*;

testkit::cases! {
    sequence_number, n_pdu_number, all_optional_fields, pdcp_number, long_pdcp_number, long_container, udp_port,
    optional_unknown, chain_of_all, second_container_is_ignored,
}

fn passes(text: &str, change: impl FnOnce(Packet) -> Packet) -> Case {
    let packet = change(from_gnb(Over::V4).gtpu(TEID)).carrying(&request(UE));
    case(text).send("n3", &packet).expect("n6", &to_router(&request(UE).ttl(63)))
}

fn sequence_number() -> Case {
    passes("A sequence number is tolerated.", |p| p.seq(0x1234).container_up(QFI))
}

fn n_pdu_number() -> Case {
    passes("An N-PDU number is tolerated.", |p| p.n_pdu(3).container_up(QFI))
}

fn all_optional_fields() -> Case {
    passes("Optional fields without extension header: a 4G bearer.", |p| p.seq(1).n_pdu(2))
        .with("simulate.bearer = [{}]")
}

fn pdcp_number() -> Case {
    passes("A PDCP PDU number before the container is walked.", |p| p.extension(0xc0, [0x12, 0x34]).container_up(QFI))
}

fn long_pdcp_number() -> Case {
    let number = [0, 0x12, 0x34, 0x56, 0, 0];
    passes("A long PDCP PDU number behind the container is walked.", |p| p.container_up(QFI).extension(0x82, number))
}

fn long_container() -> Case {
    // QMP: three time stamps of 8 bytes follow; padded to 4 n - 2 bytes.
    let mut content = [0; 26];
    (content[0], content[1]) = (0x18, QFI);
    passes("A container with time stamps is read.", |p| p.extension(0x85, content))
}

fn udp_port() -> Case {
    passes("A UDP port, which belongs in Error Indications, is passed over.", |p| {
        p.extension(0x40, [8, 0x68]).container_up(QFI)
    })
}

fn optional_unknown() -> Case {
    passes("Extension headers that need no comprehension are passed over.", |p| {
        p.extension(0x01, [1, 2]).extension(0x7f, [1; 10]).container_up(QFI)
    })
}

fn chain_of_all() -> Case {
    passes("Eight extension headers are walked.", |p| {
        let p = p.seq(1).n_pdu(1).extension(0x20, [0; 2]).extension(0xc0, [0; 2]).extension(0x82, [0; 6]);
        let p = p.extension(0x40, [8, 0x68]).extension(0x01, [0; 2]).extension(0x02, [0; 2]).extension(0x03, [0; 2]);
        p.container_up(QFI)
    })
}

fn second_container_is_ignored() -> Case {
    passes("Of two containers the first counts.", |p| p.container_up(QFI).container_up(QFI + 1))
}
