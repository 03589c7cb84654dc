//! Two worked cases, exactly; and what must hold of any plan.

use capacity::card::{CARDS, Cards, equip};
use capacity::catalogue::{Catalogue, catalogue};
use capacity::limits::Limit;
use capacity::onprem::{SERVERS, Servers};
use capacity::plan::{Answer, Candidate, Planner, World};
use capacity::question::Question;
use capacity::scaling::Basis;
use capacity::site::{SITES, Sites};
use proptest::prelude::*;

#[path = "worked/money.rs"]
mod money;

const CMTS: &str = include_str!("../../../examples/plan-cmts.toml");
const UPF: &str = include_str!("../../../examples/plan-upf.toml");
const DECISION: &str = include_str!("../../../examples/plan-decision.toml");

fn world(question: &Question) -> World {
    let mut servers = toml::from_str::<Servers>(SERVERS).unwrap().server;
    servers.extend(question.server.clone());
    equip(&mut servers, &toml::from_str::<Cards>(CARDS).unwrap().card).unwrap();
    let sites = toml::from_str::<Sites>(SITES).unwrap().site;
    World::new(Catalogue::built_in(), &servers, sites, question)
}

fn answer(plan: &str) -> Answer {
    let question: Question = toml::from_str(plan).unwrap_or_else(|error| panic!("{error}"));
    let world = world(&question);
    Planner::new(question, world).and_then(|planner| planner.answer()).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn of<'a>(answer: &'a Answer, machine: &str) -> &'a Candidate {
    let refused = || answer.refused.iter().find(|refused| refused.machine == machine);
    answer.candidates.iter().find(|c| c.machine == machine).unwrap_or_else(|| panic!("{machine}: {:?}", refused()))
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} is not {b}");
}

fn usd(candidate: &Candidate) -> f64 {
    candidate.usd_per_hour.as_ref().unwrap().value.0
}

#[test]
fn case_a_24_service_groups() {
    let answer = answer(CMTS);
    let two = of(&answer, "c5n.2xlarge");
    assert_eq!((two.units, two.needed, two.machines), (1, 24, 25));
    close(usd(two), 10.80);

    let four = of(&answer, "c5n.4xlarge");
    assert_eq!((four.units, four.needed, four.machines), (3, 8, 9));
    close(usd(four), 7.776);
    close(four.each.bits.unwrap().gbps(), 2.80755);
    assert_eq!((100.0 * four.margin).round(), 12.0);
    close(four.unused.vcpus.unwrap(), 0.4375);
    assert_eq!((four.binding.limit, four.basis), (Limit::Interfaces, Basis::Point));
    assert_eq!(four.next.as_ref().map(|next| next.bound.limit), Some(Limit::Vcpus));

    let metal = of(&answer, "c5n.metal");
    assert_eq!((metal.units, metal.needed, metal.machines), (6, 4, 5));
    close(usd(metal), 19.44);
    assert_eq!((metal.binding.limit, metal.binding.why.as_str()), (Limit::Measured, "more than 6 were never measured"));
    assert_eq!(metal.next.as_ref().unwrap().bound.units(), Some(7.0), "interfaces allow the seventh");

    close(answer.traffic.transfer_gb_per_hour.unwrap(), 60.0 * 10.0 / 11.0 * 450.0);
    close((answer.traffic.transfer_usd_per_hour.unwrap().0 * 100.0).round(), 49_091.0);
    assert_eq!((answer.traffic.transfer_usd_per_hour.unwrap().0 / usd(four)).round(), 63.0);
    assert!(answer.notes.iter().any(|note| note.contains("63 times")), "{:?}", answer.notes);
    assert_eq!(answer.choices[0].machine, "c5n.4xlarge");
    let names: Vec<&str> = answer.candidates.iter().map(|c| c.machine.as_str()).collect();
    assert_eq!(names, ["c5n.4xlarge", "c5n.2xlarge", "c5n.metal"], "measured only: no other machine");
}

/// A machine too small to fill one unit runs one all the same: the next limit is as far away as the binding one says.
#[test]
fn the_margin_to_the_next_limit_counts_from_what_binds() {
    let plan = "gateway = 'upf'\npoints = 'extrapolate'\ncandidates.machines = ['c5n.large']\n\
                demand = { subscribers = 1000, rate = '100 Mbit/s', frame = '1000 B' }\n\
                [[point]]\nmachine = 'c5n.2xlarge'\neach = '40 Gbit/s'";
    let answer = answer(plan);
    let one = of(&answer, "c5n.large");
    let (binding, next) = (one.binding.units().unwrap(), one.next.as_ref().unwrap());
    assert_eq!((one.binding.limit, next.bound.limit), (Limit::Bandwidth, Limit::Interfaces));
    assert!(binding < 0.5, "{binding}");
    close(next.margin, 1.0 / binding - 1.0);
}

#[test]
fn a_flow_that_fits_nowhere_is_what_refuses_a_machine() {
    let plan = UPF.replacen("[failure]", "[placement]\nlargest_flow = '12 Gbit/s'\n\n[failure]", 1);
    let answer = answer(&plan);
    let refused = answer.refused.iter().find(|refused| refused.machine == "c5n.2xlarge").unwrap();
    assert_eq!(refused.why, "single flow: 10 Gbit/s for one flow of 12 Gbit/s");
}

#[test]
fn case_b_a_quarter_million_subscribers() {
    let answer = answer(UPF);
    let two = of(&answer, "c5n.2xlarge");
    assert_eq!((two.units, two.needed, two.machines), (1, 7, 8));
    close(usd(two), 3.456);
    close(answer.demand.packets_of_one().unwrap().mpps(), 1.25);
    close(answer.traffic.transit_gb_per_hour.unwrap(), 2304.0);
    close(answer.traffic.transit_usd_per_hour.unwrap().0, 46.08);
    assert_eq!(two.assumed[0].limit, Limit::Packets, "nobody measured its packet rate");
    assert!(two.assumed[0].why.contains("assumed") && two.unknown.is_empty(), "{two:?}");
    assert_eq!(two.machines_range.p10, two.machines_range.p90, "neither the demand nor the measurement has a range");
    assert_eq!(answer.candidates.len(), 1);
}

#[test]
fn bolder_policies_answer_for_more_machines_and_say_so() {
    let bold = answer(&UPF.replace("measured-only", "extrapolate"));
    assert!(bold.candidates.len() > 100, "{}", bold.candidates.len());
    let measured = of(&bold, "c5n.2xlarge");
    assert_eq!((measured.basis, measured.machines), (Basis::Point, 8));
    let other = of(&bold, "c6in.4xlarge");
    assert_eq!(other.basis, Basis::Translated);
    let range = other.machines_range;
    assert!(range.p10.unwrap() < range.p50.unwrap() && range.p50.unwrap() < range.p90.unwrap(), "{range:?}");
    assert!(
        other.rests_on.iter().any(|line| line.contains("c5n.2xlarge") && line.contains('×')),
        "{:?}",
        other.rests_on
    );
    let arm = bold.refused.iter().find(|refused| refused.machine == "c7gn.2xlarge").unwrap();
    assert!(arm.why.contains("arm64"), "{}", arm.why);
}

/// A million subscribers of fixed wireless access: a machine whose packet rate nobody measured is not better than the
/// same hardware under another name, whose rate is known.
#[test]
fn unknown_is_not_unlimited() {
    let plan = "gateway = 'upf'\npoints = 'extrapolate'\n[demand]\nsubscribers = 1_000_000\nrate = '2 Mbit/s'\n\
                frame = '564 B'\n[[point]]\nmachine = 'c5n.2xlarge'\neach_packets = '2 Mpps'\nframe = '564 B'\n\
                from = 'published'";
    let answer = answer(plan);
    let (metal, large) = (of(&answer, "c5n.metal"), of(&answer, "c5n.18xlarge"));
    assert_eq!((metal.binding.limit, metal.machines), (Limit::Packets, large.machines));
    assert!(metal.assumed.is_empty() && metal.unknown.is_empty());
    for one in &answer.candidates {
        let packets = one.bounds.iter().find(|bound| bound.limit == Limit::Packets).unwrap();
        assert!(packets.units().is_some(), "{}: {packets:?}", one.machine);
    }
    let guessed = of(&answer, "c6in.32xlarge");
    assert_eq!(guessed.binding.limit, Limit::Packets);
    assert!(guessed.machines > large.machines / 3 && guessed.machines_range.p10.unwrap() < guessed.machines);
}

/// The same points for all machines; each point has one cheapest machine, or a part of one where several cost the same.
#[test]
fn machines_are_ranked_by_what_they_cost_at_p90() {
    let bold = answer(&UPF.replace("measured-only", "extrapolate").replace("\"10 pps\"", "\"8..14 pps\""));
    let p90 = |one: &Candidate| one.total_usd_per_hour_range.p90.unwrap_or(f64::INFINITY);
    assert!(bold.candidates.windows(2).all(|pair| p90(&pair[0]) <= p90(&pair[1])));
    close(bold.candidates.iter().map(|one| one.cheapest_ratio).sum::<f64>(), 1.0);
    let best = bold.candidates.iter().max_by(|a, b| a.cheapest_ratio.total_cmp(&b.cheapest_ratio)).unwrap();
    assert!(best.cheapest_ratio > 0.2, "{} {}", best.machine, best.cheapest_ratio);
    let again = answer(&UPF.replace("measured-only", "extrapolate").replace("\"10 pps\"", "\"8..14 pps\""));
    assert_eq!(bold.candidates, again.candidates, "a fixed seed");
}

/// What everything is at its most likely value is in the middle: without ranges all points are the same.
#[test]
fn without_ranges_all_points_agree_with_the_count() {
    let answer = answer(CMTS);
    for one in &answer.candidates {
        let range = one.machines_range;
        assert_eq!([range.p10, range.p50, range.p90], [Some(one.machines); 3], "{}", one.machine);
        close(one.total_usd_per_hour_range.p50.unwrap(), one.total_usd_per_hour.unwrap().0);
        // A packet rate that was assumed may be far lower than its P10.
        assert!(one.feasible_ratio > 0.99, "{}", one.feasible_ratio);
    }
}

/// What a check failed is not recommended: there is nobody who runs hardware, so there are no servers of one's own.
#[test]
fn what_a_check_failed_is_not_recommended() {
    let answer = answer(DECISION);
    let refused = answer.refused.iter().find(|one| one.machine == "dual-6338n").unwrap();
    assert_eq!(refused.refusal, capacity::fit::Refusal::Site);
    assert_eq!(refused.why, "own hardware: skill: it takes people who run hardware, which there is not");
    let own = |name: &str| name.starts_with("dual-");
    assert!(!own(answer.headline.machine.as_ref().unwrap()), "{:?}", answer.headline);
    assert!(answer.candidates.iter().all(|one| !own(&one.machine)) && answer.hybrid.is_none());
    assert!(answer.choices.iter().all(|choice| !own(&choice.machine)));
    let skilled = self::answer(&DECISION.replace("have_skill = false", "have_skill = true"));
    assert!(own(skilled.headline.machine.as_ref().unwrap()), "{:?}", skilled.headline);
    assert_eq!(skilled.headline.site.as_deref(), Some("own hardware"));
}

#[test]
fn a_bound_refuses_before_anything_is_ranked() {
    let bounded = |bounds: &str| {
        let plan = format!("{}\n[bounds]\n{bounds}", DECISION.replace("have_skill = false", "have_skill = true"));
        answer(&plan)
    };
    let why = |bounds: &str, machine: &str| {
        let answer = bounded(bounds);
        let refused = answer.refused.into_iter().find(|one| one.machine == machine);
        refused.map(|one| (one.refusal, one.why)).unwrap_or_else(|| panic!("{machine} is within {bounds}"))
    };
    for (bounds, machine, words) in [
        ("machines = 8", "c5n.large", "machines at P90, bounds.machines is 8"),
        ("budget = '200 $/h'", "c5n.4xlarge", "$/h at P90, bounds.budget is 200 $/h"),
        ("power = '500 W'", "dual-6148", "at P90, bounds.power is 500 W"),
        ("rack_units = 1", "dual-6148", "rack units at P90, bounds.rack_units is 1"),
    ] {
        let (refusal, why) = why(bounds, machine);
        assert_eq!(refusal, capacity::fit::Refusal::OutOfBounds, "{bounds}");
        assert!(why.contains(words), "{bounds}: {why}");
    }
    let none = bounded("machines = 1\nbudget = '1 $/h'");
    assert!(none.candidates.is_empty() && none.headline.machine.is_none(), "{:?}", none.headline);
    assert!(none.headline.text.starts_with("no machine can be recommended: all "), "{}", none.headline.text);
    let cloud = bounded("rack_units = 1");
    assert!(cloud.candidates.iter().any(|one| one.machine == "c5n.large"), "a cloud's racks are its own");
}

#[test]
fn the_headline_names_what_is_not_known() {
    let upf = answer(UPF);
    assert_eq!(upf.headline.open, ["assumed: packets/s"]);
    assert!(upf.headline.text.starts_with("8 × c5n.2xlarge: 49.54 $/h with traffic; the cheapest at 100 % of points"));
    assert!(upf.headline.text.ends_with("assumed: packets/s"), "{}", upf.headline.text);
    let bold = answer(&UPF.replace("measured-only", "extrapolate"));
    let best = &bold.candidates[0];
    for bound in best.unknown.iter().chain(&best.assumed) {
        assert!(bold.headline.text.contains(&bound.limit.to_string()), "{}", bold.headline.text);
    }
}

#[test]
fn nothing_beats_what_is_on_the_pareto_front() {
    let answer = answer(&DECISION.replace("have_skill = false", "have_skill = true"));
    let front = &answer.pareto;
    assert!(front.iter().any(|one| one.best_in.contains(&"cost")), "{front:?}");
    for aspect in ["failure domain", "power", "margin"] {
        assert!(front.iter().any(|one| one.best_in.contains(&aspect)), "{aspect}: {front:?}");
    }
    for one in front {
        let better = |other: &&Candidate| {
            other.total_usd_per_hour_range.p90.is_some_and(|usd| usd < one.usd_per_hour)
                && other.lost_with_one.share < one.lost_ratio
                && other.margin > one.margin
                && other.place == capacity::machine::Place::Cloud
        };
        assert!(answer.candidates.iter().find(better).is_none(), "{one:?}");
    }
    assert!(front.len() < answer.candidates.len());
}

#[test]
fn target_load_spares_and_fleet_bounds_are_of_one_plan() {
    let with = |auto: &str| format!("{}\n[autoscale]\n{auto}", DECISION);
    let plain = answer(DECISION);
    let aimed = answer(&with("target_load = 0.7"));
    let machine = plain.headline.machine.as_ref().unwrap();
    let (one, other) = (of(&plain, machine), of(&aimed, machine));
    assert!(other.needed > one.needed, "{} for {}: no unit is planned beyond its target", other.needed, one.needed);
    let few = answer(&with("most_machines = 30"));
    assert!(few.candidates.iter().all(|one| one.machines_range.p90.unwrap() <= 30));
    let refused = few.refused.iter().find(|one| one.why.contains("autoscale.most_machines is 30"));
    assert!(refused.is_some());
    let night = answer(&with("spares_at_night = 0\nleast_machines = 3"));
    let (day, night) = (plain.day.unwrap(), night.day.unwrap());
    let at = |day: &capacity::day::Day, hour: usize| day.machines[hour];
    assert_eq!(at(&day, 20), at(&night, 20));
    assert!(at(&night, 4) < at(&day, 4) && night.machines.iter().all(|machines| *machines >= 3));
    for (auto, key) in [
        ("target_load = 1.5", "autoscale.target_load"),
        ("least_machines = 9\nmost_machines = 8", "autoscale.least_machines"),
        ("spares_at_night = 7", "autoscale.spares_at_night"),
    ] {
        let question: Question = toml::from_str(&with(auto)).unwrap();
        let world = world(&question);
        assert_eq!(Planner::new(question, world).unwrap_err().path.join("."), key);
    }
}

/// vbng-600g-2023: 48 workers of one server were measured together; 32 queues are those of one of its eight ports.
#[test]
fn a_server_measured_as_a_whole_has_its_queues() {
    let plan = "gateway = 'bng'\n[demand]\nsubscribers = 256_000\nrate = '2.35 Mbit/s'\nframe = '1400 B'\n\
                [unit]\nshare_interfaces = true\ninterfaces = 8\n[[point]]\nmachine = 'dual-6338n'\nunits = 48\n\
                each = '12.541 Gbit/s'\nframe = '1400 B'\nfrom = 'published'\nsource = 'vbng-600g-2023'";
    let answer = answer(plan);
    let one = of(&answer, "dual-6338n");
    assert_eq!((one.units, one.needed), (48, 1), "{:?}", one.bounds);
    let queues = one.bounds.iter().find(|bound| bound.limit == Limit::Queues).unwrap();
    assert_eq!(queues.why, "32 queues an interface, 1 a unit; 48 ran when it was measured");
}

#[test]
fn a_group_no_machine_carries_is_an_error_at_its_key() {
    let question: Question = toml::from_str(&CMTS.replace("each = \"2.5 Gbit/s\"", "each = \"9 Gbit/s\"")).unwrap();
    let world = world(&question);
    let wrong = Planner::new(question, world).unwrap().answer().unwrap_err();
    assert_eq!(wrong.path.join("."), "demand.each");
    assert!(wrong.what.contains("9 Gbit/s"), "{wrong}");
}

/// All types and servers for a million subscribers, at 1,024 points each. The comparison is with reading the catalogue's
/// own text, on the same machine at the same moment, so that no clock of a slow or busy machine decides: it is some 10
/// times, on two threads. In a release build it is to take less than 100 ms on a machine with two free processors:
/// `cargo test -p capacity --release --test worked whole_catalogue -- --nocapture` prints it.
#[test]
fn the_whole_catalogue_takes_no_time() {
    let plan = UPF.replace("measured-only", "extrapolate").replace("250_000", "1_000_000");
    let best = |what: &dyn Fn()| {
        let time = || {
            let start = std::time::Instant::now();
            what();
            start.elapsed()
        };
        (0..5).map(|_| time()).min().unwrap()
    };
    let question: Question = toml::from_str(&plan).unwrap();
    let world = world(&question);
    let files = Catalogue::built_in().files();
    let text = |file: &str| {
        let found = files.iter().find(|(name, _)| *name == file);
        Ok::<_, capacity::tables::TableError>(found.map(|(name, text)| ((*name).to_owned(), text.clone())))
    };
    let reading = best(&|| drop(Catalogue::read(&text).unwrap()));
    let answering = best(&|| {
        let planner = Planner::new(question.clone(), world.clone()).unwrap();
        assert!(planner.answer().unwrap().candidates.len() > 100);
    });
    println!(
        "{} machines at {} points each: tables read in {reading:?}, answered in {answering:?}",
        world.machines.len(),
        capacity::sample::POINTS
    );
    assert!(answering < reading * 100, "{answering:?} for what takes {reading:?} to read");
}

/// An edge zone of a cloud has four types, at a price of its own; nothing else of a cloud is near enough.
#[test]
fn a_near_site_has_few_types_at_its_own_price() {
    let site = "[site]\nlatency = '4 ms'\nhave_power = false\n[[site.option]]\nname = 'edge zone'\nlatency = '1 ms'\nneeds_power = false\n";
    let answer = answer(&format!("{UPF}\n{site}").replace("measured-only", "extrapolate"));
    let edge = of(&answer, "r5.2xlarge");
    let site = edge.site.as_ref().unwrap();
    assert_eq!((site.site.as_str(), site.gateway), ("edge zone", Some(capacity::site::Outlet::Carrier)));
    let each = edge.usd_per_hour.as_ref().unwrap();
    let in_region = catalogue().into_iter().find(|m| m.name == "r5.2xlarge").unwrap().price.unwrap();
    close(each.value.0, in_region.value.0 * 1.25 * f64::from(edge.machines));
    assert!(each.source.contains("edge zone: times"), "{}", each.source);
    let refused = answer.refused.iter().find(|refused| refused.machine == "c5n.18xlarge").unwrap();
    assert!(refused.why.starts_with("region: latency: "), "{}", refused.why);
}

#[test]
fn two_dedicated_hosts_are_the_most_unless_more_are_granted() {
    let dedicated = |more: &str| {
        let plan = CMTS.replace("host = \"shared\"", &format!("host = \"dedicated\"\n{more}"));
        assert_ne!(plan, CMTS);
        answer(&plan)
    };
    let two = dedicated("");
    let refused = two.refused.iter().find(|refused| refused.machine == "c5n.4xlarge").unwrap();
    assert!(refused.why.contains("dedicated hosts at P90, an account has 2 in a region"), "{}", refused.why);
    let four = dedicated("hosts = 4");
    let (machine, hosts) = (of(&four, "c5n.4xlarge"), of(&four, "c5n.4xlarge").hosts.unwrap());
    assert!(hosts > 2, "{hosts}");
    // The host costs what c5n.metal does and a premium, which is assumed where the plan says none.
    let fee = machine.usd_per_hour.as_ref().unwrap();
    close(fee.value.0, 3.888 * 1.1 * f64::from(hosts));
    assert_eq!(fee.from, capacity::known::Provenance::Assumed);
    assert!(of(&two, "c5n.metal").hosts.is_none(), "a whole host is none of the two");
}

/// Azure publishes what a host of a family costs.
#[test]
fn a_published_host_fee_goes_before_a_premium() {
    let plan = UPF.replace("measured-only", "extrapolate") + "\n[placement]\nhost = 'dedicated'\n";
    let answer = answer(&plan);
    let one = of(&answer, "Standard_D8s_v6");
    let fee = one.usd_per_hour.as_ref().unwrap();
    close(fee.value.0, 10.645 * f64::from(one.hosts.unwrap()));
    assert!(fee.source.contains("eastus"), "{}", fee.source);
}

fn needed(plan: &str) -> Vec<(String, u32)> {
    let answer = answer(plan);
    let mut needed: Vec<_> = answer.candidates.iter().map(|c| (c.machine.clone(), c.machines)).collect();
    needed.sort();
    needed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn more_demand_never_needs_fewer_machines(subscribers in 1_000u32..3_000_000, more in 0u32..3_000_000) {
        let plan = |n: u32| UPF.replace("250_000", &n.to_string()).replace("measured-only", "extrapolate");
        let (few, many) = (needed(&plan(subscribers)), needed(&plan(subscribers + more)));
        for (machine, machines) in few {
            let now = many.iter().find(|(other, _)| *other == machine).map(|(_, n)| *n);
            prop_assert!(now.is_none_or(|now| now >= machines), "{machine}: {machines} for less, {now:?} for more");
        }
    }

    #[test]
    fn larger_groups_never_need_fewer_machines(each in 0.1f64..4.0, more in 0.0f64..2.0) {
        let plan = |gbps: f64| CMTS.replace("2.5 Gbit/s", &format!("{gbps:.3} Gbit/s"));
        // Groups too large for every machine are an error, not an answer.
        let few = needed(&plan(each));
        let question: Question = toml::from_str(&plan(each + more)).unwrap();
        let world = world(&question);
        let Ok(many) = Planner::new(question, world).unwrap().answer() else { return Ok(()) };
        for (machine, machines) in few {
            let now = many.candidates.iter().find(|c| c.machine == machine).map(|c| c.machines);
            prop_assert!(now.is_none_or(|now| now >= machines), "{machine}: {machines} for less, {now:?} for more");
        }
    }

    #[test]
    fn the_range_holds_the_answer(low in 1.0f64..9.0, wide in 0.0f64..5.0) {
        let range = format!("packets = \"{low:.3}..{:.3} pps\"", low + wide);
        let answer = answer(&UPF.replace("packets = \"10 pps\"", &range));
        for candidate in &answer.candidates {
            let range = candidate.machines_range;
            prop_assert!(range.p10 <= Some(candidate.machines) && Some(candidate.machines) <= range.p90, "{range:?}");
            prop_assert!(range.p10 <= range.p50 && range.p50 <= range.p90, "{range:?}");
        }
    }

    #[test]
    fn what_is_needed_carries_what_is_asked(subscribers in 1_000u32..3_000_000) {
        let answer = answer(&UPF.replace("250_000", &subscribers.to_string()).replace("measured-only", "extrapolate"));
        for candidate in &answer.candidates {
            prop_assert!(candidate.margin >= -1e-9, "{candidate:?}");
            prop_assert!(candidate.machines > candidate.needed, "a spare was asked for");
        }
    }
}
