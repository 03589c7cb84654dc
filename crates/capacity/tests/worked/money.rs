//! Bills and costs by year, with the arithmetic written out.

use capacity::bill::{BEST, Bill};
use capacity::years::{Kind, Tco};

use super::*;

/// 10 Gbit/s at the peak, 9 down and 1 up, half of it at night: 4,500 GB/h at the peak, 0.75 of that on average.
/// c5n.2xlarge carries 2.5 Gbit/s for 0.432 $/h, "own" 5 Gbit/s.
const PLAN: &str = "
gateway = 'upf'
[demand]
subscribers = 10_000
rate = '1 Mbit/s'
frame = '1000 B'
down_up = '9:1'
day = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5,
       1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
[[point]]
machine = 'c5n.2xlarge'
each = '2.5 Gbit/s'
from = 'measured'
[[point]]
machine = 'own'
each = '5 Gbit/s'
from = 'measured'
[[server]]
name = 'own'
sockets = 1
cores = 16
ports = 4
port_speed = '25 Gbit/s'
functions_per_port = 8
queues = 16
packets = '12 Mpps'
idle = '100 W'
power = '300 W'
pue = 2.0
capex = '10000 $'
life = '2 years'
rack = '1000 $/year'
";

const YEARS: &str = "
[years]
count = 3
subscriber_growth = 0.25
traffic_growth = 0.2
own_price_decline = 0.1
cloud_price_decline = 0.5
discount_rate = 0.1
[price]
energy = '0.1 $/kWh'
own_transfer = '0.001 $/GB'
transfer = '0.02 $/GB'
";

fn bill<'a>(answer: &'a Answer, machine: &str) -> &'a Bill {
    of(answer, machine);
    answer.bills.iter().find(|bill| bill.machine == machine).unwrap_or_else(|| panic!("{:?}", answer.bills))
}

fn part(bill: &Bill, what: &str) -> (f64, f64) {
    let part = bill.parts.iter().find(|part| part.what == what).unwrap_or_else(|| panic!("{what}: {bill:?}"));
    (part.usd_per_hour_at_peak, part.usd_per_hour_mean)
}

fn both((at_peak, mean): (f64, f64), wanted: (f64, f64)) {
    close(at_peak, wanted.0);
    close(mean, wanted.1);
}

#[test]
fn instances_follow_the_day() {
    let answer = answer(PLAN);
    let two = bill(&answer, "c5n.2xlarge");
    assert_eq!(two.machines, [vec![2; 12], vec![4; 12]].concat());
    // 4 × 0.432 at the peak; 12 h × 2 and 12 h × 4 are 72 instance hours, 3 on average.
    close(two.usd_per_hour_at_peak, 1.728);
    close(two.usd_per_hour_mean, 1.296);
    close(two.usd_per_month, 946.08);
    close(two.usd_per_subscriber_month.unwrap(), 0.094_608);
    close(answer.day.unwrap().elastic_usd_per_day, 31.104);
}

#[test]
fn the_committed_base_is_paid_all_day() {
    let answer = answer(&format!("{PLAN}[price]\ncommitment = 0.5\ncommitted = 0.5"));
    let two = bill(&answer, "c5n.2xlarge");
    // Half of 4 at 0.432 × 0.5, day and night; 2 more for 12 hours at 0.432: 24 hours a day.
    both(part(two, "instances, committed"), (0.432, 0.432));
    both(part(two, "instances, on demand"), (0.864, 24.0 * 0.432 / 24.0));
    close(two.usd_per_hour_at_peak, usd(of(&answer, "c5n.2xlarge")));
    close(two.usd_per_hour_mean, 0.864);
}

#[test]
fn a_scaling_group_keeps_its_least_and_its_spares() {
    let with = "[failure]\nspares = 2\n[autoscale]\nleast_machines = 3\nspares_at_night = 0";
    let answer = answer(&format!("{PLAN}{with}").replace("[0.5,", "[0.4,"));
    // 4 + 2 by day; at half of the peak it is day, 2 + 2; below half 2 without spares, and 3 at least.
    assert_eq!(bill(&answer, "c5n.2xlarge").machines, [vec![3], vec![4; 11], vec![6; 12]].concat());
}

const PATH: &str = "
[price.path.nat]
gateways = 2
share = 0.1
[price.path.cross_zone]
share = 0.5
[price.path.transit]
attachments = 3
crossings = 2
[price.path.direct_connect]
speed = '10 Gbit/s'
[price.path.internet]
";

#[test]
fn every_part_of_the_path_is_on_the_bill() {
    let answer = answer(&format!("{PLAN}{PATH}"));
    let two = bill(&answer, "c5n.2xlarge");
    both(part(two, "NAT gateways"), (2.0 * 0.045, 2.0 * 0.045));
    // 4,500 GB/h × 0.1 × 0.045 $/GB, and 0.75 of that on average.
    both(part(two, "NAT, data"), (20.25, 15.1875));
    // 4,500 × 0.5 × 0.01, where it leaves a zone and where it enters the other.
    both(part(two, "cross-zone, both ends"), (45.0, 33.75));
    both(part(two, "transit attachments"), (0.15, 0.15));
    // 4,500 × 2 crossings × 0.02
    both(part(two, "transit, data"), (180.0, 135.0));
    // 9 Gbit/s fit through one port of 10 Gbit/s; 4,050 GB/h × 0.02.
    both(part(two, "Direct Connect ports"), (2.25, 2.25));
    both(part(two, "Direct Connect, data out"), (81.0, 60.75));
    // 450 GB/h × 0.75 × 730 h = 246,375 GB a month: 10,240 × 0.09 + 40,960 × 0.085 + 102,400 × 0.07 + 92,775 × 0.05
    //   = 921.6 + 3,481.6 + 7,168 + 4,638.75 = 16,209.95 $
    both(part(two, "to the internet"), (450.0 * 16_209.95 / 246_375.0, 16_209.95 / 730.0));
    let machines = 1.296;
    let path = 0.09 + 15.1875 + 33.75 + 0.15 + 135.0 + 2.25 + 60.75 + 16_209.95 / 730.0;
    close(two.usd_per_hour_mean, machines + path);
    close(two.usd_per_subscriber_month.unwrap(), (machines + path) * 730.0 / 10_000.0);
    close(two.usd_per_hour_at_peak, of(&answer, "c5n.2xlarge").total_usd_per_hour.unwrap().0);
    for charge in &answer.traffic.path {
        assert!(charge.usd_per_hour.source.contains("us-east-1, 2"), "{charge:?}");
    }
}

#[test]
fn what_a_plan_says_goes_before_what_is_published() {
    let own = "[price.path]\nnat = { hour = '0.1 $/h', gb = '0.2 $/GB' }\ncross_zone = { gb = '0 $/GB' }\n\
               direct_connect = { ports = 3, of = 'up', share = 0.5, hour = '1 $/h', gb = '0.1 $/GB' }\n\
               internet = { of = 'down', tier = [{ from_gb = 0, gb = '0.01 $/GB' }] }\n[failure]\nzones = 2";
    let answer = answer(&format!("{PLAN}{own}"));
    let two = bill(&answer, "c5n.2xlarge");
    both(part(two, "NAT gateways"), (0.2, 0.2));
    both(part(two, "NAT, data"), (900.0, 675.0));
    both(part(two, "cross-zone, both ends"), (0.0, 0.0));
    both(part(two, "Direct Connect ports"), (3.0, 3.0));
    // 450 GB/h up × 0.5 × 0.1 $/GB
    both(part(two, "Direct Connect, data out"), (22.5, 16.875));
    both(part(two, "to the internet"), (40.5, 30.375));
}

#[test]
fn the_bill_of_servers_has_their_energy_by_the_load() {
    let answer = answer(&format!("{PLAN}[price]\nenergy = '0.1 $/kWh'"));
    let own = bill(&answer, "own");
    both(part(own, "servers"), (2.0 * 10_000.0 / 17_520.0, 2.0 * 10_000.0 / 17_520.0));
    both(part(own, "rack and support"), (2000.0 / 8760.0, 2000.0 / 8760.0));
    // Two of 100 W and 200 W more when busy: all at the peak, three quarters on average; PUE 2.
    both(part(own, "energy"), (0.6 * 2.0 * 0.1, 0.5 * 2.0 * 0.1));
}

fn option(answer: &Answer, kind: Kind) -> Tco {
    let by_year = answer.by_year.as_ref().unwrap();
    by_year.options.iter().find(|option| option.kind == kind).unwrap_or_else(|| panic!("{by_year:?}")).clone()
}

fn totals(option: &Tco, wanted: [f64; 3], npv: f64) {
    for (year, wanted) in option.years.iter().zip(wanted) {
        close(year.total_usd, wanted);
    }
    close(option.total_usd, wanted.iter().sum());
    close(option.npv_usd, npv);
}

/// Demand: 10, 15 and 22.5 Gbit/s, × 1.25 × 1.2 a year. Servers: 2, 3 and 5, used for two years each.
#[test]
fn servers_are_bought_when_needed_and_replaced() {
    let answer = answer(&format!("{PLAN}{YEARS}"));
    let own = option(&answer, Kind::Own);
    let bought: Vec<_> = own.years.iter().map(|year| (year.servers, year.added, year.replaced)).collect();
    assert_eq!(bought, [(2, 2, 0), (3, 1, 0), (5, 2, 2)]);
    let purchases: Vec<f64> = own.years.iter().map(|year| year.purchases_usd).collect();
    // 2 × 10,000; 1 × 9,000; 4 × 8,100
    assert_eq!(purchases.iter().map(|usd| usd.round()).collect::<Vec<_>>(), [20_000.0, 9_000.0, 32_400.0]);
    // 100 W each and 200 W more for each 5 Gbit/s of 7.5, 11.25, 16.875 on average, × PUE 2, × 8.76 h/kW × 0.1 $:
    //   (200 + 300) × 2 = 1,000 W; (300 + 450) × 2 = 1,500 W; (500 + 675) × 2 = 2,350 W
    let watts: Vec<f64> = own.years.iter().map(|year| year.power.unwrap().0.round()).collect();
    assert_eq!(watts, [1_000.0, 1_500.0, 2_350.0]);
    let energy = [876.0, 1_314.0, 2_058.6];
    // 4,050 GB/h down × 0.75 × 8,760 h × 0.001 $ = 26,608.5, × 1.5 a year
    let traffic = [26_608.5, 39_912.75, 59_869.125];
    let running = [0, 1, 2].map(|n| [2_000.0, 3_000.0, 5_000.0][n] + energy[n] + traffic[n]);
    let npv = 20_000.0 + running[0] / 1.1 + 9_000.0 / 1.1 + running[1] / 1.21 + 32_400.0 / 1.21 + running[2] / 1.331;
    totals(&own, [49_484.5, 53_226.75, 99_327.725], npv);
    // Four servers bought for 8,100 are half used.
    close(own.left_usd, 16_200.0);
    // 99,327.725 / 12 months / 15,625 subscribers
    close(own.years[2].usd_per_subscriber_month.unwrap(), 99_327.725 / 12.0 / 15_625.0);
    assert_eq!(answer.by_year.unwrap().demand[2].bits.unwrap().gbps(), 22.5);
}

/// Dedicated hosts of c5n have room for eight c5n.2xlarge; one costs 3.888 $/h × 1.1. 4, 6 and 9 instances at the peak,
/// 2, 3 and 5 for half a day: one host, one, and two for half a day.
#[test]
fn dedicated_hosts_are_paid_for_year_by_year() {
    let plan = format!("{PLAN}[placement]\nhost = 'dedicated'\n{YEARS}dedicated_premium = 0.1");
    let cloud = option(&answer(&plan), Kind::Cloud);
    let there: Vec<_> = cloud.years.iter().map(|year| (year.instances, year.hosts)).collect();
    assert_eq!(there, [(4, Some(1)), (6, Some(1)), (9, Some(2))]);
    let host = 3.888 * 1.1 * 8_760.0;
    for (year, hosts) in cloud.years.iter().zip([1.0, 1.0 / 2.0, 1.5 / 4.0]) {
        close(year.instances_usd, hosts * host);
    }
}

/// An account has two hosts in a region: 50 % more each year needs a third in the fifth.
#[test]
fn more_dedicated_hosts_than_there_are_are_refused_by_their_year() {
    let plan = format!("{PLAN}[placement]\nhost = 'dedicated'\n{YEARS}dedicated_premium = 0.1");
    let answer = answer(&plan.replace("count = 3", "count = 5"));
    let by_year = answer.by_year.as_ref().unwrap();
    let refused = by_year.refused.iter().find(|one| one.machine == "c5n.2xlarge").unwrap();
    assert!(refused.why.starts_with("year 5: 3 dedicated hosts, an account has 2"), "{}", refused.why);
}

#[test]
fn instances_become_cheaper_and_more() {
    let cloud = option(&answer(&format!("{PLAN}{YEARS}")), Kind::Cloud);
    // 12 × (2 + 4), 12 × (3 + 6), 12 × (5 + 9) instance hours a day at 0.432 × 0.5 a year
    let instances = [72.0 * 0.432 * 365.0, 108.0 * 0.216 * 365.0, 168.0 * 0.108 * 365.0];
    // 4,050 GB/h × 0.75 × 0.02 $ × 8,760 h, × 1.5 a year
    let traffic = [532_170.0, 798_255.0, 1_197_382.5];
    let all = [0, 1, 2].map(|n| instances[n] + traffic[n]);
    totals(&cloud, all, all[0] / 1.1 + all[1] / 1.21 + all[2] / 1.331);
    assert_eq!(cloud.years.iter().map(|year| year.instances).collect::<Vec<_>>(), [4, 6, 9]);
}

/// A base for half of the peak: 1, 2 and 3 servers carry 5, 10 and 15 Gbit/s, the cloud 5, 5 and 7.5 for 12 hours.
#[test]
fn servers_for_the_valley_and_instances_for_the_peak() {
    let hybrid = option(&answer(&format!("{PLAN}{YEARS}")), Kind::Hybrid);
    assert_eq!(hybrid.base_ratio, Some(0.5));
    let there: Vec<_> = hybrid.years.iter().map(|y| (y.servers, y.added, y.replaced, y.instances)).collect();
    assert_eq!(there, [(1, 1, 0, 2), (2, 1, 0, 2), (3, 1, 1, 3)]);
    let instances = [24.0 * 0.432 * 365.0, 24.0 * 0.216 * 365.0, 36.0 * 0.108 * 365.0];
    // Gbit/s on average: 2.5, 2.5, 3.75 in the cloud; 7.5, 11.25, 16.875 less that at home
    let (cloud, home) = ([2.5, 2.5, 3.75], [5.0, 8.75, 13.125]);
    let traffic = [0, 1, 2].map(|n| (cloud[n] * 0.02 + home[n] * 0.001) * 405.0 * 8_760.0);
    // 100 W each, 200 W more for each 5 Gbit/s, PUE 2
    let watts = [0, 1, 2].map(|n| 2.0 * (100.0 * [1.0, 2.0, 3.0][n] + 200.0 * home[n] / 5.0));
    let running = [0, 1, 2].map(|n| instances[n] + 1_000.0 * [1.0, 2.0, 3.0][n] + watts[n] * 0.876 + traffic[n]);
    let bought = [10_000.0, 9_000.0, 16_200.0];
    let npv =
        bought[0] + running[0] / 1.1 + bought[1] / 1.1 + running[1] / 1.21 + bought[2] / 1.21 + running[2] / 1.331;
    totals(&hybrid, [0, 1, 2].map(|n| bought[n] + running[n]), npv);
}

#[test]
fn ports_come_with_the_demand() {
    // 9, 13.5 and 20.25 Gbit/s down: 1, 2 and 3 ports of 10 Gbit/s, or more if the plan has more.
    for (stated, ports) in [("", [1.0, 2.0, 3.0]), ("ports = 2\n", [2.0, 2.0, 3.0])] {
        let path = PATH.replace("speed =", &format!("{stated}speed ="));
        let cloud =
            option(&answer(&format!("{PLAN}{}{path}", YEARS.replace("\ntransfer = '0.02 $/GB'", ""))), Kind::Cloud);
        let by_the_hour = 0.09 + 0.15;
        let month = |n: i32| 246_375.0 * 1.5_f64.powi(n);
        let tiers = |gb: f64| 12.0 * (921.6 + 3_481.6 + 7_168.0 + (gb - 153_600.0) * 0.05);
        for (n, year) in cloud.years.iter().enumerate() {
            let gigabytes = (15.1875 + 33.75 + 135.0 + 60.75) * 8_760.0 * 1.5_f64.powi(n as i32);
            let all = (ports[n] * 2.25 + by_the_hour) * 8_760.0 + gigabytes + tiers(month(n as i32));
            close(year.traffic_usd, all);
        }
    }
}

/// Without years of its own, the growth the demand has; the first year is what is stated, not what is planned for.
#[test]
fn growth_of_the_demand_is_growth_by_year() {
    let plan = PLAN.replace("frame =", "growth_per_year = 0.5\nyears = 2\nframe =");
    let answer = answer(&format!("{plan}[years]\ncount = 3"));
    let gbps: Vec<f64> = answer.by_year.unwrap().demand.iter().map(|year| year.bits.unwrap().gbps()).collect();
    gbps.iter().zip([10.0, 15.0, 22.5]).for_each(|(gbps, wanted)| close(*gbps, wanted));
    close(answer.demand.bits().unwrap().gbps(), 22.5);
}

#[test]
fn a_bound_that_growth_exceeds_is_said() {
    let answer = answer(&format!("{PLAN}{YEARS}[bounds]\nmachines = 8"));
    let refused = &answer.by_year.as_ref().unwrap().refused;
    assert_eq!(
        (refused[0].machine.as_str(), refused[0].why.as_str()),
        ("c5n.2xlarge", "9 machines in year 3, bounds.machines is 8")
    );
}

#[test]
fn costs_are_of_the_best_twenty() {
    let answer = answer(&DECISION.replace("have_skill = false", "have_skill = true").replace("families = [", "#"));
    assert!(answer.candidates.len() > 100);
    let by_year = answer.by_year.as_ref().unwrap();
    assert_eq!(answer.bills.len(), BEST);
    let alone = by_year.options.iter().filter(|option| option.kind != Kind::Hybrid).count();
    assert_eq!(alone + by_year.refused.len(), BEST);
    assert!(by_year.options.windows(2).all(|pair| pair[0].npv_usd <= pair[1].npv_usd));
    for bill in answer.bills.iter().filter(|bill| bill.place == capacity::machine::Place::Cloud) {
        close(bill.usd_per_hour_at_peak, of(&answer, &bill.machine).total_usd_per_hour.unwrap().0);
        assert!(bill.usd_per_hour_mean < bill.usd_per_hour_at_peak);
    }
}

#[test]
fn a_day_without_a_curve_is_the_peak() {
    let plan: Vec<&str> = PLAN.lines().filter(|line| !line.starts_with("day") && !line.starts_with(' ')).collect();
    let answer = answer(&plan.join("\n"));
    let two = bill(&answer, "c5n.2xlarge");
    close(two.usd_per_hour_mean, two.usd_per_hour_at_peak);
}

#[test]
fn mistakes_in_money_point_at_the_key() {
    let wrong = |more: &str| {
        let question: Question = toml::from_str(&format!("{PLAN}{more}")).unwrap();
        let world = world(&question);
        Planner::new(question, world).unwrap_err().path.join(".")
    };
    for (more, key) in [
        ("[years]\ncount = 0", "years.count"),
        ("[years]\ncount = 3\ndiscount_rate = 1.5", "years.discount_rate"),
        ("[years]\ncount = 3\ncloud_price_decline = 1.0", "years.cloud_price_decline"),
        ("[years]\ncount = 3\ntraffic_growth = -1.0", "years.traffic_growth"),
        ("[price]\ntransit = '0.02 $/GB'\npath.transit = {}", "price.path.transit"),
        ("[price]\ntransfer = '0.02 $/GB'\npath.internet = {}", "price.path.internet"),
        ("[price.path]\ncross_zone = {}", "price.path.cross_zone"),
        ("[price.path]\nnat = { share = 1.5 }", "price.path.nat.share"),
        ("[price.path]\nnat = { gateways = 0 }", "price.path.nat.gateways"),
        ("[price.path]\nnat = { gb = '-1 $/GB' }", "price.path.nat.gb"),
        ("[price.path]\ndirect_connect = { speed = '25 Gbit/s' }", "price.path.direct_connect.speed"),
        ("[price.path]\ndirect_connect = { speed = '1 Gbit/s', ports = 8 }", "price.path.direct_connect.ports"),
        ("[price.path]\ndirect_connect = { of = 'both' }\ninternet = {}", "price.path.internet.share"),
        ("[price.path]\ninternet = { tier = [{ from_gb = 5, gb = '1 $/GB' }] }", "price.path.internet.tier"),
    ] {
        assert_eq!(wrong(more), key, "{more}");
    }
    let grown = PLAN.replace("frame =", "growth_per_year = 0.5\nyears = 2\nframe =");
    let question: Question = toml::from_str(&format!("{grown}[years]\ncount = 3\ntraffic_growth = 0.1")).unwrap();
    let world = world(&question);
    assert_eq!(
        Planner::new(question, world).unwrap_err().to_string().split(';').next().unwrap(),
        "years.traffic_growth: growth is stated twice"
    );
    let packets = PLAN.replace("rate = '1 Mbit/s'\nframe = '1000 B'", "packets = '100 pps'");
    let packets = packets
        .replace("each = '2.5 Gbit/s'", "each_packets = '1 Mpps'")
        .replace("each = '5 Gbit/s'", "each_packets = '1 Mpps'");
    let question: Question = toml::from_str(&format!("{packets}[price.path]\nnat = {{}}")).unwrap();
    let world = self::world(&question);
    assert_eq!(Planner::new(question, world).unwrap_err().path.join("."), "price.path");
}

/// With years, a day and a path, of the whole catalogue: little more than without, and not much more where a limit on what
/// is lost has every hour fitted by itself.
#[test]
fn years_take_no_time() {
    let day = "day = [0.5, 0.3, 0.2, 0.21, 0.22, 0.23, 0.3, 0.5, 0.6, 0.61, 0.62, 0.63, 0.7, 0.71, 0.72, 0.73, \
               0.74, 0.8, 0.9, 0.95, 1.0, 0.99, 0.8, 0.6]";
    let more = "[years]\ncount = 10\ntraffic_growth = 0.2\n[price.path]\nnat = {}\ndirect_connect = {}\ninternet = {}";
    let bold = UPF
        .replace("measured-only", "extrapolate")
        .replace("frame = \"128 B\"\n\n[unit]", &format!("frame = \"128 B\"\n{day}\n\n[unit]"));
    let groups = CMTS.replace("measured-only", "extrapolate").replace("groups = 24", &format!("groups = 24\n{day}"));
    let lost = bold.replace("[failure]", "[failure]\nmost_lost = 0.2");
    for (name, plan) in [("divided", &bold), ("most_lost", &lost), ("groups", &groups)] {
        let plan = plan.replace("transfer = \"0.02 $/GB\"", "#").replace("transfer_of", "#");
        let time = |plan: &str| {
            let question: Question = toml::from_str(plan).unwrap();
            let world = world(&question);
            let planner = Planner::new(question, world).unwrap();
            let one = || {
                let start = std::time::Instant::now();
                let answer = planner.answer().unwrap();
                (start.elapsed(), answer)
            };
            (0..5).map(|_| one()).min_by_key(|(time, _)| *time).unwrap()
        };
        let (without, _) = time(&plan);
        let (with, answer) = time(&format!("{plan}\n{more}"));
        println!("{name}: {} machines in {without:?}, with ten years {with:?}", answer.candidates.len());
        assert!(with < without * 6, "{name}: {with:?}, {without:?} without");
    }
}
