//! Two results, or sets of results, beside each other: stage by stage, with confidence intervals.
//!
//! Results of the same workload are matched. Where a side has five results of it or more, each is a sample; else the windows
//! of its results are. The interval is that of the bootstrap of the logarithm of the ratio of medians: samples are drawn
//! anew, with repetition, [`DRAWS`] times from each side, and the middle 95 % of the ratios found is the interval. A metric
//! has changed if its whole interval lies outside the tolerance.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::window::median;

/// Draws of the bootstrap.
pub const DRAWS: usize = 4000;
/// Samples of a side that an interval needs.
pub const LEAST: usize = 5;

/// What has become of a metric from the first side to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Its interval lies within the tolerance, or over one of its ends.
    Same,
    /// Its whole interval is beyond the tolerance, for the better.
    Better,
    /// Its whole interval is beyond the tolerance, for the worse.
    Worse,
    /// There are too few samples for an interval.
    Unknown,
}

/// A metric of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Its name: `mpps`, `cost.tc_ns`, or `stage uplink.gtpu_decap` (cycles per packet).
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The first side's median.
    pub before: f64,
    /// The second side's median.
    pub after: f64,
    /// The second by the first, less 1.
    pub change_ratio: f64,
    /// 95 % confidence interval of `change_ratio`; none: too few samples.
    pub ci95_ratio: Option<[f64; 2]>,
    /// Samples of each side.
    pub samples: [usize; 2],
    /// What has become of it.
    pub verdict: Verdict,
    /// It decides the exit status: stages do not, as work moves between them.
    pub decides: bool,
}

/// A workload that both sides have measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Profile, port, workers, instances, subscribers.
    pub workload: String,
    /// Results of each side.
    pub results: [usize; 2],
    /// Its metrics.
    pub rows: Vec<Row>,
    /// What makes the sides differ beside what is compared.
    pub caveats: Vec<String>,
}

/// Both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of these keys: 1.
    pub schema: u32,
    /// The largest change that counts as none.
    pub tolerance_ratio: f64,
    /// Workloads of both sides.
    pub compared: Vec<Compared>,
    /// Workloads of one side only.
    pub unmatched: Vec<String>,
    /// Why power is not compared; none: it is, or these results measure none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_not_available: Option<String>,
}

impl Comparison {
    /// Metrics that decide and are worse.
    pub fn worse(&self) -> Vec<(&str, &Row)> {
        let rows =
            self.compared.iter().flat_map(|compared| compared.rows.iter().map(|row| (compared.workload.as_str(), row)));
        rows.filter(|(_, row)| row.decides && row.verdict == Verdict::Worse).collect()
    }
}

/// Compares two sides, each one or more JSON documents that `weir bench --json` wrote.
pub fn compare(before: &[Value], after: &[Value], tolerance: f64) -> Comparison {
    let (mut first, second) = (workloads(before), workloads(after));
    let (mut compared, mut unmatched) = (Vec::new(), Vec::new());
    for (workload, results) in second {
        match first.remove(&workload) {
            Some(earlier) => compared.push(pair(workload, &earlier, &results, tolerance)),
            None => unmatched.push(format!("{workload}: only the second side has it")),
        }
    }
    unmatched.extend(first.into_keys().map(|workload| format!("{workload}: only the first side has it")));
    let power_not_available = without_power(before, "before").or_else(|| without_power(after, "after"));
    Comparison { schema: 1, tolerance_ratio: tolerance, compared, unmatched, power_not_available }
}

/// Why a side has no power, if its results say so.
fn without_power(documents: &[Value], side: &str) -> Option<String> {
    let results = workloads(documents).into_values().flatten();
    let mut why = results.filter_map(|result| result.pointer("/power/not_available")?.as_str());
    why.find(|why| !why.is_empty()).map(|why| format!("{side}: {why}"))
}

/// Results by workload, wherever in the documents they are.
fn workloads(documents: &[Value]) -> BTreeMap<String, Vec<&Value>> {
    let mut found: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    let mut open: Vec<&Value> = documents.iter().rev().collect();
    while let Some(value) = open.pop() {
        match value {
            Value::Object(object) => {
                if let Some(workload) = workload(value) {
                    found.entry(workload).or_default().push(value);
                } else {
                    open.extend(object.values().rev());
                }
            }
            Value::Array(list) => open.extend(list.iter().rev()),
            _ => {}
        }
    }
    found
}

/// What a result is of; none: it is no result.
fn workload(value: &Value) -> Option<String> {
    let is_report = value.get("profile").is_some() && value.get("mpps").is_some();
    let is_cell = value.get("contender").is_some() && value.get("samples").is_some();
    let keys: &[&str] = match (is_report, is_cell) {
        (true, _) => &[
            "profile",
            "gateway",
            "port",
            "workers",
            "instances",
            "service_groups",
            "subscribers",
            "flows",
            "frame_bytes",
        ],
        (_, true) => &["contender", "path", "port", "sessions", "direction", "saturated"],
        _ => return None,
    };
    let word = |key: &&str| match value.get(*key)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(format!("{key} {number}")),
        Value::Bool(true) => Some((*key).to_owned()),
        _ => None,
    };
    let varied = value.get("varied").and_then(Value::as_object).into_iter().flatten();
    let varied = varied.filter(|(key, _)| !keys.contains(&key.as_str()));
    let varied = varied.map(|(key, value)| format!("{key} {}", value.as_str().unwrap_or_default()));
    Some(keys.iter().filter_map(word).chain(varied).collect::<Vec<_>>().join(", "))
}

/// How a metric is read.
struct Metric {
    name: &'static str,
    unit: &'static str,
    /// Where its value is.
    value: &'static str,
    /// Where its samples are.
    samples: &'static str,
    higher_is_better: bool,
}

const METRICS: &[Metric] = &[
    metric("mpps", "Mpps", "/mpps", "/windows/mpps", true),
    metric("cost.cycles_per_packet", "cycles", "/cost/cycles_per_packet", "/cost/samples/cycles_per_packet", false),
    metric("cost.tp_ns", "ns", "/cost/tp_ns", "/cost/samples/tp_ns", false),
    metric("cost.tc_ns", "ns", "/cost/tc_ns", "/cost/samples/tc_ns", false),
    metric("cost.tc_core_cycles", "core cycles", "/cost/tc_core_cycles", "/cost/samples/tc_core_cycles", false),
    metric("pps", "packets/s", "/pps", "/samples", true),
    // By packets: more packets take more power.
    metric("power.microjoules_per_packet", "µJ", "/power/microjoules_per_packet", "/power/samples_per_packet", false),
];

const fn metric(
    name: &'static str,
    unit: &'static str,
    value: &'static str,
    samples: &'static str,
    higher_is_better: bool,
) -> Metric {
    Metric { name, unit, value, samples, higher_is_better }
}

fn numbers(value: Option<&Value>) -> Vec<f64> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_f64).filter(|n| *n > 0.0).collect()
}

/// A result's value of a metric, and its windows' samples.
type Read = (Option<f64>, Vec<f64>);

/// A side's value and samples of one metric.
#[derive(Debug, Default, PartialEq)]
struct Side {
    value: f64,
    samples: Vec<f64>,
}

impl Side {
    /// Of each result its value and its windows' samples; none: no result has the metric.
    fn of(results: &[Read]) -> Option<Self> {
        let values: Vec<f64> = results.iter().filter_map(|(value, _)| *value).filter(|value| *value > 0.0).collect();
        if values.is_empty() {
            return None;
        }
        let windows: Vec<f64> = results.iter().flat_map(|(_, samples)| samples.clone()).collect();
        let samples = if values.len() >= LEAST || windows.is_empty() { values.clone() } else { windows };
        Some(Self { value: median(values), samples })
    }
}

/// A workload of both sides.
fn pair(workload: String, before: &[&Value], after: &[&Value], tolerance: f64) -> Compared {
    let mut rows = Vec::new();
    for metric in METRICS {
        let side = |results: &[&Value]| {
            let read = |result: &&Value| {
                (result.pointer(metric.value).and_then(Value::as_f64), numbers(result.pointer(metric.samples)))
            };
            Side::of(&results.iter().map(read).collect::<Vec<_>>())
        };
        if let Some((before, after)) = side(before).zip(side(after)) {
            let name = (metric.name.to_owned(), metric.unit);
            rows.push(row(name, &before, &after, (metric.higher_is_better, true), tolerance));
        }
    }
    let (mut first, second) = (stages(before), stages(after));
    for (name, results) in second {
        let Some(earlier) = first.remove(&name) else { continue };
        if let Some((before, after)) = Side::of(&earlier).zip(Side::of(&results)) {
            rows.push(row((format!("stage {name}"), "cycles"), &before, &after, (false, false), tolerance));
        }
    }
    Compared { workload, results: [before.len(), after.len()], caveats: caveats(before, after, &rows), rows }
}

/// Cycles per packet of stages, by `pipeline.stage`: of each result its value and its samples.
fn stages(results: &[&Value]) -> BTreeMap<String, Vec<Read>> {
    let mut found: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for stage in results.iter().filter_map(|result| result.pointer("/cost/stages")?.as_array()).flatten() {
        let text = |key: &str| stage.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = format!("{}.{}", text("direction"), text("name"));
        let value = stage.get("cycles_per_packet").and_then(Value::as_f64);
        found.entry(name).or_default().push((value, numbers(stage.get("samples"))));
    }
    found
}

fn row(
    (metric, unit): (String, &str),
    before: &Side,
    after: &Side,
    (higher_is_better, decides): (bool, bool),
    tolerance: f64,
) -> Row {
    let ci = interval(&before.samples, &after.samples);
    let verdict = match ci {
        None => Verdict::Unknown,
        Some([low, _]) if low > tolerance => {
            if higher_is_better {
                Verdict::Better
            } else {
                Verdict::Worse
            }
        }
        Some([_, high]) if high < -tolerance => {
            if higher_is_better {
                Verdict::Worse
            } else {
                Verdict::Better
            }
        }
        Some(_) => Verdict::Same,
    };
    Row {
        metric,
        unit: unit.to_owned(),
        before: before.value,
        after: after.value,
        change_ratio: after.value / before.value - 1.0,
        ci95_ratio: ci,
        samples: [before.samples.len(), after.samples.len()],
        verdict,
        decides,
    }
}

/// 95 % confidence interval of the ratio of medians, less 1; none: too few samples.
fn interval(before: &[f64], after: &[f64]) -> Option<[f64; 2]> {
    if before.len() < LEAST || after.len() < LEAST {
        return None;
    }
    // The same for the same samples.
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut draw = |from: &[f64]| {
        let drawn: Vec<f64> = (0..from.len()).map(|_| from[random.below(from.len())]).collect();
        median(drawn)
    };
    let mut ratios: Vec<f64> = (0..DRAWS).map(|_| (draw(after) / draw(before)).ln()).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |part: f64| ratios[((DRAWS - 1) as f64 * part).round() as usize].exp() - 1.0;
    Some([at(0.025), at(0.975)])
}

/// Numbers that the bootstrap draws by (SplitMix64): the same in every run, so that a comparison is repeatable.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ z >> 31) * end as u128) >> 64) as usize // below `end`
    }
}

/// What makes the sides differ beside what is compared.
fn caveats(before: &[&Value], after: &[&Value], rows: &[Row]) -> Vec<String> {
    let mut caveats = Vec::new();
    for (key, what) in [
        ("/host/cpu", "processor"),
        ("/host/kernel", "kernel"),
        ("/host/nic", "interface"),
        ("/version", "version"),
        ("/load/source", "load"),
        ("/host/scheduling", "scheduling"),
    ] {
        let texts = |results: &[&Value]| -> Vec<String> {
            let text = |result: &&Value| result.pointer(key)?.as_str().map(str::to_owned);
            let mut texts: Vec<String> = results.iter().filter_map(text).collect();
            texts.sort();
            texts.dedup();
            texts
        };
        let (one, other) = (texts(before), texts(after));
        if one != other {
            caveats.push(format!("{what}: {} and {}", one.join(", "), other.join(", ")));
        }
    }
    let hz = |results: &[&Value]| median(results.iter().filter_map(|one| one.pointer("/cost/tsc_hz")?.as_f64()));
    let (one, other) = (hz(before), hz(after));
    if one > 0.0 && other > 0.0 && (one / other - 1.0).abs() > 0.01 {
        caveats.push(format!("a cycle is not the same time: {:.2} and {:.2} GHz", one / 1e9, other / 1e9));
    }
    for (side, results) in [("first", before), ("second", after)] {
        let steal = results.iter().filter_map(|one| one.pointer("/host/steal_ratio")?.as_f64()).fold(0.0, f64::max);
        if steal > 0.01 {
            caveats.push(format!("{side} side: the hypervisor took {:.1} % of the time", steal * 100.0));
        }
    }
    for (side, results) in [("first", before), ("second", after)] {
        let is = |one: &&&Value| one.pointer("/noise/is_disturbed").and_then(Value::as_bool) == Some(true);
        let disturbed = results.iter().filter(is).count();
        if disturbed > 0 {
            caveats.push(format!("{side} side: {disturbed} of {} results are disturbed", results.len()));
        }
    }
    if rows.iter().any(|row| row.verdict == Verdict::Unknown) {
        caveats.push(format!("fewer than {LEAST} samples: no interval for some metrics"));
    }
    if before.len().min(after.len()) < LEAST && rows.iter().any(|row| row.ci95_ratio.is_some()) {
        let what = "intervals are those of windows of one run, without the spread between runs";
        caveats.push(format!("{what}: give {LEAST} results of each side or more"));
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A result whose windows spread by ±1 %.
    fn result(mpps: f64, tc_ns: f64, seed: u64) -> Value {
        let mut random = Random(seed);
        let mut samples =
            |middle: f64| -> Vec<f64> { (0..20).map(|_| middle * (0.99 + random.below(2001) as f64 / 1e5)).collect() };
        let (rates, times, cycles) = (samples(mpps), samples(tc_ns), samples(tc_ns * 2.0));
        json!({
            "profile": "upf-embb", "gateway": "upf", "port": "memory", "workers": 1, "mpps": mpps,
            "windows": { "mpps": rates },
            "cost": {
                "tc_ns": tc_ns, "tsc_hz": 2e9, "samples": { "tc_ns": times },
                "stages": [{ "direction": "uplink", "name": "decap", "cycles_per_packet": tc_ns * 2.0, "samples": cycles }],
            },
            "host": { "cpu": "x", "steal_ratio": 0.0 },
        })
    }

    fn verdicts(comparison: &Comparison) -> Vec<(&str, Verdict)> {
        comparison.compared[0].rows.iter().map(|row| (row.metric.as_str(), row.verdict)).collect()
    }

    #[test]
    fn equal_results_are_the_same() {
        let found = compare(&[result(5.0, 100.0, 1)], &[result(5.01, 100.2, 2)], 0.02);
        assert!(found.compared[0].rows.iter().all(|row| row.verdict == Verdict::Same), "{found:?}");
        assert!(found.worse().is_empty() && found.unmatched.is_empty());
    }

    #[test]
    fn a_slower_result_is_worse_in_its_metrics() {
        let found = compare(&[result(5.0, 100.0, 1)], &[result(4.7, 106.0, 2)], 0.02);
        let expected =
            [("mpps", Verdict::Worse), ("cost.tc_ns", Verdict::Worse), ("stage uplink.decap", Verdict::Worse)];
        assert_eq!(verdicts(&found), expected);
        assert_eq!(found.worse().len(), 2, "stages do not decide");
        let row = &found.compared[0].rows[1];
        let [low, high] = row.ci95_ratio.unwrap();
        assert!(low > 0.05 && high < 0.07 && (row.change_ratio - 0.06).abs() < 1e-9, "{row:?}");
        let back = compare(&[result(4.7, 106.0, 2)], &[result(5.0, 100.0, 1)], 0.02);
        assert!(back.worse().is_empty() && back.compared[0].rows[0].verdict == Verdict::Better);
    }

    #[test]
    fn power_is_compared_or_said_to_be_missing() {
        let with = |power: Value| {
            let mut result = result(5.0, 100.0, 1);
            result["power"] = power;
            result
        };
        let watts = |watts: f64| {
            let each = watts / 5.0;
            with(json!({ "watts": watts, "microjoules_per_packet": each, "samples_per_packet": vec![each; 5] }))
        };
        let found = compare(&[watts(50.0)], &[watts(60.0)], 0.02);
        let row =
            found.compared[0].rows.iter().find(|row| row.metric == "power.microjoules_per_packet").expect("power");
        assert_eq!((row.verdict, found.power_not_available.as_deref()), (Verdict::Worse, None));
        let found = compare(&[watts(50.0)], &[with(json!({ "watts": null, "not_available": "no RAPL" }))], 0.02);
        assert_eq!(found.power_not_available.as_deref(), Some("after: no RAPL"));
    }

    #[test]
    fn an_interval_over_the_tolerance_is_no_change() {
        let found = compare(&[result(5.0, 100.0, 1)], &[result(4.9, 102.0, 2)], 0.02);
        assert!(found.worse().is_empty(), "{found:?}");
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        // 200 pairs of the same truth, each of 12 samples that spread by ±5 %: 95 % of the intervals hold 0.
        let mut random = Random(7);
        let mut samples = || (0..12).map(|_| 0.95 + random.below(10_001) as f64 / 1e5).collect::<Vec<f64>>();
        let holds = (0..200).filter(|_| {
            let [low, high] = interval(&samples(), &samples()).unwrap();
            (low..=high).contains(&0.0)
        });
        let holds = holds.count();
        assert!((180..=200).contains(&holds), "{holds} of 200");
    }

    #[test]
    fn few_samples_give_no_interval() {
        let plain = |mpps: f64| json!({ "profile": "fwa", "port": "memory", "mpps": mpps, "host": { "cpu": "y" } });
        let found = compare(&[plain(5.0)], &[plain(3.0)], 0.02);
        assert_eq!(verdicts(&found), [("mpps", Verdict::Unknown)]);
        assert!(found.worse().is_empty() && found.compared[0].caveats[0].contains("fewer than 5"));
        // Five results of each side are samples.
        let (before, after): (Vec<_>, Vec<_>) =
            (0..5).map(|n| f64::from(n) * 0.01).map(|d| (plain(5.0 + d), plain(3.0 + d))).unzip();
        let found = compare(&before, &after, 0.02);
        assert_eq!((verdicts(&found), found.compared[0].results), (vec![("mpps", Verdict::Worse)], [5, 5]));
    }

    #[test]
    fn results_are_matched_wherever_they_are() {
        let suite = json!({ "results": [result(5.0, 100.0, 1)], "cable": null });
        let mut other = result(5.0, 100.0, 3);
        other["port"] = "xdp".into();
        other["host"]["cpu"] = "z".into();
        let found = compare(&[suite, other.clone()], &[result(5.0, 100.0, 2)], 0.02);
        assert_eq!(found.compared.len(), 1);
        assert_eq!(found.unmatched, ["upf-embb, upf, xdp, workers 1: only the first side has it"]);
        other["port"] = "memory".into();
        let found = compare(&[result(5.0, 100.0, 1)], &[other], 0.02);
        assert!(found.compared[0].caveats.contains(&"processor: x and z".to_owned()), "{found:?}");
    }
}
