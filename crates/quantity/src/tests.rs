use proptest::prelude::*;

use super::*;

#[test]
fn spellings_of_a_rate_are_one_rate() {
    for text in ["100M", "100Mbps", "100 Mbit/s", "100mbit/s", "100 MBPS", "0.1G", "100_000k", "100000000"] {
        assert_eq!(bit_rate(text), Some(100_000_000), "{text}");
    }
    assert_eq!(
        [bit_rate("1.5G"), bit_rate("400 Gbit/s"), bit_rate("401G")],
        [Some(1_500_000_000), Some(400_000_000_000), None]
    );
}

#[test]
fn rates_are_exact_and_bytes_are_no_bits() {
    assert_eq!([bit_rate("4.1M"), bit_rate("8.2 Gbit/s")], [Some(4_100_000), Some(8_200_000_000)]);
    assert_eq!([bit_rate("10 MB/s"), bit_rate("10 Mb/s")], [None, Some(10_000_000)]);
    assert!(Unit::Bytes.parse("5000000000.4").is_err() && Unit::Seconds.parse("1 ns").is_err());
}

#[test]
fn sizes_and_durations_are_read() {
    let bytes = ["512KiB", "512 kib", "524288", "524288 B", "0.5 MiB"].map(|text| Unit::Bytes.parse(text));
    assert!(bytes.iter().all(|size| *size == Ok(524_288)), "{bytes:?}");
    assert_eq!([Unit::Bytes.parse("1 kB"), Unit::Bytes.parse("1M")], [Ok(1000), Ok(1_000_000)]);
    let ms = ["10 ms", "10ms", "10", "0.01 s", "10000 us", "10000µs"].map(|text| Unit::Milliseconds.parse(text));
    assert!(ms.iter().all(|time| *time == Ok(10)), "{ms:?}");
    assert_eq!([Unit::Seconds.parse("5 min"), Unit::Seconds.parse("1h")], [Ok(300), Ok(3600)]);
}

#[test]
fn a_larger_unit_of_time_is_exact() {
    assert_eq!(Unit::Microseconds.parse("512693253953 ms"), Ok(512_693_253_953_000));
    assert_eq!(Unit::Milliseconds.parse("104249 d"), Ok(104_249 * 86_400_000));
}

#[test]
fn errors_name_value_and_allowed_units() {
    let said = Unit::Seconds.parse("soon").unwrap_err().to_string();
    let wanted =
        "\"soon\" is not a duration; allowed: a number of seconds, or text with a unit, such as \"30 s\" or \"5 min\"";
    assert_eq!(said, wanted);
    for text in ["", "-1", "1 parsec", "1.5", "10 ms", "1e3", "NaN", "inf", ".", "1 2"] {
        assert!(Unit::Seconds.parse(text).is_err(), "{text}");
    }
}

#[test]
fn counts_and_shares_are_read() {
    assert_eq!(["50k", "50_000", "0.05 M", "50000"].map(crate::count), [Some(50_000); 4]);
    assert!(["", "k", "50 kpps", "1.5", "-1", "1e3"].iter().all(|text| crate::count(text).is_none()));
    assert_eq!(["10 %", "10%", "0.1"].map(crate::share), [Some(0.1); 3]);
    assert!(["", "%", "1.5", "101 %", "-1", "NaN"].iter().all(|text| crate::share(text).is_none()));
}

const UNITS: [Unit; 6] =
    [Unit::BitsPerSecond, Unit::PacketsPerSecond, Unit::Bytes, Unit::Seconds, Unit::Milliseconds, Unit::Microseconds];

proptest! {
    #[test]
    fn what_is_shown_is_read_back(value in 0_u64..1 << 50, unit in 0_usize..UNITS.len()) {
        let unit = UNITS[unit];
        prop_assert_eq!(unit.parse(&unit.show(value)), Ok(value));
    }

    #[test]
    fn case_and_spaces_do_not_matter(value in 0_u64..1 << 40, unit in 0_usize..UNITS.len(), spaces in 0_usize..3) {
        let unit = UNITS[unit];
        let shown = unit.show(value);
        let (number, symbol) = shown.split_once(' ').unwrap();
        for symbol in [symbol.to_lowercase(), symbol.to_uppercase()] {
            let text = format!(" {number}{}{symbol} ", " ".repeat(spaces));
            prop_assert_eq!(unit.parse(&text), Ok(value), "{}", text);
        }
    }

    #[test]
    fn plain_numbers_count_in_the_keys_unit(value in any::<u64>(), unit in 0_usize..UNITS.len()) {
        prop_assert_eq!(UNITS[unit].parse(&value.to_string()), Ok(value));
    }

    #[test]
    fn no_text_panics(text in ".*", unit in 0_usize..UNITS.len()) {
        let _ = UNITS[unit].parse(&text);
    }
}
