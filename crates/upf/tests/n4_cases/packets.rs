//! Packets counted out (Packet Rate, 3GPP TS 29.244, 8.2.63).

use super::super::*;

fn limit(unit: RateUnit, packets: u16) -> Option<PacketLimit> {
    Some(PacketLimit { unit, packets })
}

/// The session's QER changes.
fn rate(rate: PacketRate) -> SessionModificationRequest {
    let update = UpdateQer { qer_id: QerId(1), packet_rate: Some(rate), ..Default::default() };
    SessionModificationRequest { update_qers: vec![update], ..Default::default() }
}

#[test]
fn so_many_packets_pass_in_a_time() {
    let mut bench = Bench::new("gtpu.echo_seconds = 0");
    let (session, teid) = connected(&mut bench, &smf());
    let uplink = |bench: &mut Bench| {
        bench.send_many("n3", &up(teid, &request(UE)), 10);
        bench.received("n6").len()
    };
    let downlink = |bench: &mut Bench| {
        bench.send_many("n6", &from_router(&response(UE)).build(), 10);
        bench.received("n3").len()
    };
    assert_eq!((uplink(&mut bench), downlink(&mut bench)), (10, 10));
    let asked =
        PacketRate { uplink: limit(RateUnit::Minute, 3), downlink: limit(RateUnit::SixMinutes, 7), additional: None };
    assert_eq!(bench.modify(&session, rate(asked)).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!((uplink(&mut bench), downlink(&mut bench)), (3, 7));
    bench.turn_to(secs(59));
    assert_eq!((uplink(&mut bench), downlink(&mut bench)), (0, 0));
    bench.turn_to(secs(61));
    assert_eq!((uplink(&mut bench), downlink(&mut bench)), (3, 0));
    // A change of other rules gives nobody new ones; more of them do.
    assert_eq!(bench.modify(&session, rate(asked)).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!((uplink(&mut bench), downlink(&mut bench)), (0, 0));
    let more = PacketRate { uplink: limit(RateUnit::Minute, 5), ..asked };
    assert_eq!(bench.modify(&session, rate(more)).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!((uplink(&mut bench), downlink(&mut bench)), (2, 0));
    // Exceptions: one a minute are six in six minutes.
    let additional = [PacketLimit { unit: RateUnit::Minute, packets: 1 }; 2];
    let more = PacketRate { additional: Some(additional), ..more };
    assert_eq!(bench.modify(&session, rate(more)).cause, Cause::REQUEST_ACCEPTED);
    assert_eq!((uplink(&mut bench), downlink(&mut bench)), (1, 6));
    bench.turn_to(secs(600));
    assert_eq!((uplink(&mut bench), downlink(&mut bench)), (6, 10));
    bench.close();
}

#[test]
fn packets_over_a_bit_rate_are_not_counted() {
    let mut bench = Bench::new("");
    let (session, teid) = connected(&mut bench, &smf());
    let update = UpdateQer {
        qer_id: QerId(1),
        maximum_bitrate: Some(Mbr { uplink: 64, downlink: 64 }),
        packet_rate: Some(PacketRate { uplink: limit(RateUnit::Day, 260), ..PacketRate::default() }),
        ..Default::default()
    };
    let change = SessionModificationRequest { update_qers: vec![update], ..Default::default() };
    assert_eq!(bench.modify(&session, change).cause, Cause::REQUEST_ACCEPTED);
    // A burst of 15,000 octets is 250 packets; ten more may pass when the rate lets them.
    bench.send_many("n3", &up(teid, &request(UE)), 300);
    assert_eq!(bench.received("n6").len(), 250);
    bench.turn_to(secs(10));
    bench.send_many("n3", &up(teid, &request(UE)), 100);
    assert_eq!(bench.received("n6").len(), 10);
    bench.close();
}
