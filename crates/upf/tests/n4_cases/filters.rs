//! What an SDF filter may ask for beside addresses, ports and type of service.

use super::super::*;

/// An ESP packet of a security association.
fn esp(packet: Wire, spi: u32) -> Wire {
    packet.says(50).payload([&spi.to_be_bytes()[..], &[0; 20]].concat())
}

fn update(id: u16, source_interface: SourceInterface, filter: SdfFilter) -> UpdatePdr {
    let pdi = Pdi { source_interface, sdf_filters: vec![filter], ..Pdi::default() };
    UpdatePdr { pdr_id: PdrId(id), pdi: Some(pdi), ..UpdatePdr::default() }
}

#[test]
fn ipsec_goes_by_its_security_parameter_index() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    const SPI: u32 = 0xc0de_0017;
    const OTHER: u32 = 0x0017_c0de;
    // Given once, for both directions.
    let filter = SdfFilter { spi: Some(SPI), id: Some(7), ..SdfFilter::default() };
    let named = SdfFilter { id: Some(7), ..SdfFilter::default() };
    let update_pdrs = vec![update(1, SourceInterface::Core, named), update(2, SourceInterface::Access, filter)];
    let change = SessionModificationRequest { update_pdrs, ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    bench.send("n3", &up(teid, &request(UE)));
    let (sent, answered) = (|spi| esp(ip4(UE, SERVER), spi), |spi| esp(ip4(SERVER, UE), spi));
    for spi in [OTHER, SPI] {
        bench.send("n3", &up(teid, &sent(spi)));
        bench.send("n6", &from_router(&answered(spi)).build());
    }
    assert_eq!(bench.received("n6"), [to_router(&sent(SPI).ttl(63)).build()]);
    assert_eq!(bench.received("n3"), [down(&answered(SPI).ttl(63))]);
    bench.close();
}

#[test]
fn ipv6_goes_by_its_flow_label() {
    let mut bench = Bench::new("");
    let prefix: Ipv6Addr = "2001:db8:60:1::".parse().expect("address");
    let mut session = Session { cp_seid: 1, ip6: Some(prefix), ..Session::default() };
    let established = bench.establish(&session, &smf());
    session.established(&established).expect("accepted");
    let Some(FTeid::Given { teid, .. }) = session.uplink_f_teid else { panic!("a tunnel was chosen") };
    let filter = SdfFilter { flow_label: Some(0xabcde), ..SdfFilter::default() };
    let update_pdrs = vec![update(2, SourceInterface::Access, filter)];
    let change = SessionModificationRequest { update_pdrs, ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    let ue: Ipv6Addr = "2001:db8:60:1::5".parse().expect("address");
    let packet = |label| ip6(ue, SERVER_6).flow_label(label).udp(40_000, 50_000).filled(8);
    bench.send("n3", &up(teid.0, &packet(0xabcdf)));
    bench.send("n3", &up(teid.0, &packet(0xabcde)));
    assert_eq!(bench.received("n6"), [to_router(&packet(0xabcde).ttl(63)).build()]);
    bench.close();
}

#[test]
fn a_filter_given_once_outlives_its_rule_and_a_name_of_none_is_refused() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let flow = "permit out 17 from 198.51.100.7 50000 to assigned";
    let filter = SdfFilter { id: Some(7), ..SdfFilter::flow(flow) };
    let named = SdfFilter { id: Some(7), ..SdfFilter::default() };
    let by_name = update(2, SourceInterface::Access, named);
    let change = SessionModificationRequest { update_pdrs: vec![by_name.clone()], ..Default::default() };
    let refused = bench.modify(&session, change);
    assert_eq!((refused.cause, refused.offending_ie), (Cause::MANDATORY_IE_INCORRECT, Some(OffendingIe(23))));
    assert_eq!(refused.failed_rule_id, Some(FailedRuleId::Pdr(2)));

    let update_pdrs = vec![update(1, SourceInterface::Core, filter), by_name];
    let change = SessionModificationRequest { update_pdrs, ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    let remove_pdrs = vec![RemovePdr { pdr_id: PdrId(1), ..RemovePdr::default() }];
    let change = SessionModificationRequest { remove_pdrs, ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    let of_the_flow = ip4(UE, SERVER).udp(40_000, 50_000).filled(8);
    let another = ip4(UE, SERVER).udp(40_000, 50_001).filled(8);
    bench.send("n3", &up(teid, &another));
    bench.send("n3", &up(teid, &of_the_flow));
    assert_eq!(bench.received("n6"), [to_router(&of_the_flow.ttl(63)).build()]);
    bench.close();
}
