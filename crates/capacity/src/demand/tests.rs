use super::*;

fn of(text: &str) -> Result<Demand, Wrong> {
    Demand::of(&toml::from_str(text).unwrap_or_else(|error| panic!("{error}")))
}

fn close(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 1e-9, "{a} is not {b}");
}

#[test]
fn what_no_network_carries_is_impossible() {
    let wrong = of("subscribers = 1e30\npackets = '10 pps'").unwrap_err();
    assert!(wrong.to_string().starts_with("demand.subscribers: this comes to 1e31 packets a second"), "{wrong}");
    let wrong = of("groups = 4\neach = '2.5 Tbit/s'\ngrowth_per_year = 5\nyears = 50").unwrap_err();
    assert!(wrong.path == ["demand", "groups"] && wrong.what.ends_with("bits a second"), "{wrong}");
    assert!(of("subscribers = 8e9\nrate = '1 Mbit/s'").is_ok(), "everybody at once");
}

#[test]
fn packets_of_both_directions_or_of_each() {
    let both = of("subscribers = 250000\npackets = '10 pps'\nframe = '128 B'").unwrap();
    close(both.packets().unwrap().0, 2.5e6);
    close(both.packets_of_one().unwrap().0, 1.25e6);
    close(both.bits().unwrap().0, 2.56e9);
    let each = of("subscribers = 250000\npackets = '10 pps'\npackets_are = 'each'").unwrap();
    close(each.packets().unwrap().0, 5e6);
    assert_eq!(each.bits(), None, "nobody said how large they are");
}

#[test]
fn a_matrix_of_markets_and_densities() {
    let demand = of("market = [{ name = 'phones', packets = '20 pps', share = 0.6 }, \
                     { name = 'meters', packets = '1 pps', share = 0.4 }]\n\
                     density = [{ name = 'city', devices = 2000, areas = 100 }, \
                     { name = 'land', devices = 100, areas = 500 }]")
    .unwrap();
    close(demand.subscribers.unwrap().0, 250e3);
    close(demand.packets().unwrap().0, 250e3 * 12.4);
}

#[test]
fn groups_with_a_ratio_and_sizes() {
    let demand = of("groups = 24\neach = '2.5 Gbit/s'\ndown_up = '10:1'\nframe_up = '84:65,256:18,1280:17'\n\
                     frame_down = '84:15,256:10,1280:75'")
    .unwrap();
    close(demand.bits().unwrap().0, 60e9);
    close(demand.down.bits.unwrap().0, 60e9 * 10.0 / 11.0);
    close(demand.down.frame().unwrap().0, 998.2);
}

#[test]
fn every_step_multiplies() {
    let demand = of("subscribers = 1000\nrate = '1 Mbit/s'\nstated_at = 'mean'\nbusy_hour_over_mean = 2\n\
                     peak_over_busy_hour = 1.5\ngrowth_per_year = 0.1\nyears = 2\nheadroom = 0.2")
    .unwrap();
    close(demand.bits().unwrap().0, 1e9 * 2.0 * 1.5 * 1.21 * 1.2);
    assert_eq!(demand.steps.len(), 6);
}

#[test]
fn erlang_b_says_how_many_are_active() {
    let demand = of("subscribers = 1000\npackets = '10 pps'\nerlangs = 0.1\nblocking = 0.01").unwrap();
    assert_eq!(demand.active, Some(Count(117.0)));
    close(demand.packets().unwrap().0, 1170.0);
}

#[test]
fn ranges_stay_ranges() {
    let demand = of("subscribers = '900..1100'\nrate = '1 Mbit/s'\nheadroom = '0..0.5'").unwrap();
    // P10 and P90 of a product: logarithms add up in squares, not both inputs at their ends.
    let both = |a: f64, b: f64| a.ln().hypot(b.ln());
    close(demand.low, (-both(0.9, 1.0 / 1.25)).exp());
    close(demand.high, both(1.1, 1.5 / 1.25).exp());
    let one = of("subscribers = '900..1100'\nrate = '1 Mbit/s'").unwrap();
    close(one.low, 0.9);
    close(one.high, 1.1);
}

#[test]
fn what_is_wrong_is_said_at_its_key() {
    let cases = [
        ("frame = '128 B'", "demand", "no demand"),
        ("groups = 3", "demand.groups", "of what"),
        ("rate = '1 Mbit/s'", "demand.rate", "how many subscribers"),
        ("groups = 3\neach = '1 Gbit/s'\npackets = '3 pps'", "demand.packets", "more than once"),
        ("groups = 0\neach = '1 Gbit/s'", "demand.groups", "no group"),
        ("groups = 2\neach = '0 Gbit/s'", "demand.each", "is invalid"),
        ("subscribers = -5\nrate = '1 Mbit/s'", "demand.subscribers", "is invalid"),
        ("subscribers = 5\nrate = '1 Mbit/s'\npackets = '1 Mpps'", "demand.packets", "frames of"),
        (
            "subscribers = 5\nrate = '1 Mbit/s'\npackets = '1000 pps'\nframe = '1400 B'",
            "demand.packets",
            "but frame is",
        ),
        ("subscribers = 5\nrate = '1 Mbit/s'\npeak_over_busy_hour = 2", "demand.peak_over_busy_hour", "nothing"),
        ("subscribers = 5\nrate = '1 Mbit/s'\ngrowth_per_year = 0.2", "demand.growth_per_year", "how many years"),
        ("subscribers = 5\nrate = '1 Mbit/s'\nerlangs = 0.1\nblocking = 1.5", "demand.blocking", "probability"),
        ("subscribers = 5\nrate = '1 Mbit/s'\nday = [1, 2]", "demand.day", "2 hours"),
        ("subscribers = 5\npackets = '9 pps'\npackets_are = 'each'\ndown_up = '9:1'", "demand.down_up", "contradict"),
    ];
    for (text, path, words) in cases {
        let wrong = of(text).unwrap_err();
        assert_eq!(wrong.path.join("."), path, "{wrong}");
        assert!(wrong.to_string().contains(words), "{wrong} does not say {words}");
    }
}
