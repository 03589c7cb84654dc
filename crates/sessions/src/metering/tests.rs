use super::*;
use crate::store::tests::Plain;

type Metering = super::Metering<Plain>;

fn usage(up: u64, down: u64, first: u64, last: u64) -> Usage {
    let (up_packets, down_packets) = (up / 100, down / 100);
    Usage { urr: 7, up_bytes: up, down_bytes: down, up_packets, down_packets, first_ns: first, last_ns: last }
}

#[test]
fn a_threshold_is_met_again_and_no_octet_reported_twice() {
    let volume_threshold = Some(Volumes { total: Some(1000), ..Volumes::default() });
    let terms = Terms { asked: Causes::VOLUME_THRESHOLD, volume_threshold, ..Terms::default() };
    let mut meter = Metering::new(7, 0);
    let mut total = 0;
    for step in 1..=5 {
        let counted = usage(700 * step, 400 * step, SECOND / 2, step * SECOND);
        meter.look(&counted, step * SECOND);
        assert_eq!(meter.due(&terms, &counted, step * SECOND).report, Causes::VOLUME_THRESHOLD);
        let Closing { closed, .. } = meter.close(&terms, &counted, Causes::VOLUME_THRESHOLD, step * SECOND);
        assert_eq!((closed.urr, closed.sequence, closed.ended), (7, step as u32 - 1, step * SECOND));
        total += closed.bytes[0] + closed.bytes[1];
        assert_eq!(meter.due(&terms, &counted, step * SECOND), Due::default());
        assert_eq!(meter.bounds(&terms).0.total, Some(1100 * step + 1000));
    }
    assert_eq!(total, 5 * 1100);
}

#[test]
fn a_quota_that_is_used_up_stops_whether_or_not_it_reports() {
    let terms = Terms { time_quota: Some(5), holding: Some(60), ..Terms::default() };
    let mut meter = Metering::new(7, 0);
    let counted = usage(100, 0, SECOND, 2 * SECOND);
    meter.look(&counted, 2 * SECOND);
    assert_eq!(meter.next_look(&terms), Some(6 * SECOND));
    let due = meter.due(&terms, &counted, 6 * SECOND);
    assert_eq!(due, Due { report: Causes::NONE, spent: Causes::TIME_QUOTA });
    meter.use_up(due.spent, &counted);
    assert_eq!(meter.bounds(&terms).1.total, Some(0));
    let acts = Terms { has_quota_action: true, ..terms };
    assert_eq!(meter.bounds(&acts).1.total, Some(u64::MAX - 1), "the other rule says what passes");
    meter.grant(Given { time: true, ..Given::default() }, &terms, 7 * SECOND);
    assert!(!meter.is_exhausted());
}

#[test]
fn what_was_counted_before_a_monitoring_time_goes_with_the_next_report() {
    let volume_threshold = Some(Volumes { total: Some(1000), ..Volumes::default() });
    let terms = Terms { asked: Causes::VOLUME_THRESHOLD, volume_threshold, ..Terms::default() };
    let mut meter = Metering::new(7, 0);
    meter.split(&terms, &usage(400, 200, 1, 2), SECOND, |closed| closed.bytes[0] + closed.bytes[1]);
    assert_eq!((meter.unreported(&usage(400, 300, 1, 3)), meter.bounds(&terms).0.total), (700, Some(1000)));
    let Closing { before, closed, .. } = meter.close(&terms, &usage(700, 300, 1, 3), Causes::QUERY, 2 * SECOND);
    assert_eq!((before, closed.bytes, closed.begun), (vec![600], [300, 100], SECOND));
    assert_eq!(meter.bounds(&terms).0.total, Some(2000));
}
