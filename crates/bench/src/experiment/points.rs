//! Points: combinations of what is varied, and which of them this machine can run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::{Axes, Experiment, Measure};
use super::keys::{self, SCALING, Wrong};
use crate::thread::cpus;

/// One combination of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Keys and values, in the order of the file.
    pub values: Vec<(String, String)>,
}

/// A point that was not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotRun {
    /// The point's keys and values, as in a row.
    pub what: String,
    /// What this machine or the workload lacks for it.
    pub why: String,
}

impl Point {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// A key's number; `other` where it is not varied.
    pub fn count(&self, key: &str, other: u16) -> u16 {
        self.get(key).and_then(|value| keys::number(key, value).ok()).unwrap_or(other)
    }

    /// Values that say how much work there is, without those that say how many share it.
    pub fn workload(&self) -> Vec<&(String, String)> {
        self.values.iter().filter(|(key, _)| !SCALING.contains(&key.as_str())).collect()
    }

    /// As people read it: `ratio=1:9, workers=2`.
    pub fn text(&self) -> String {
        self.values.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
    }
}

/// All points of an experiment in the order of its file, each once.
///
/// # Errors
/// A range that is none.
pub fn all(experiment: &Experiment) -> Result<Vec<Point>, Wrong> {
    let mut points: Vec<Point> = Vec::new();
    for Axes(axes) in &experiment.vary {
        let mut section = vec![Point::default()];
        for (key, values) in axes {
            let values = keys::expand(key, values)?;
            let with = |point: &Point, value: &String| {
                let mut values = point.values.clone();
                values.push((key.clone(), value.clone()));
                Point { values }
            };
            section = section.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect();
        }
        points.extend(section);
    }
    for point in points.iter_mut().filter(|point| point.get("observer") == Some("none")) {
        // Nobody reads: neither somewhere nor at an interval.
        point.values.retain(|(key, _)| !matches!(key.as_str(), "place" | "interval_ms"));
    }
    let mut seen: Vec<Vec<(String, String)>> = Vec::new();
    points.retain(|point| {
        let mut values = point.values.clone();
        values.sort();
        let new = !seen.contains(&values);
        if new {
            seen.push(values);
        }
        new
    });
    Ok(points)
}

/// `workers`: where they are not varied. Divides points into those that this machine runs and those that it does not; `ours`: CPUs that gateways may have.
pub fn fitting(
    experiment: &Experiment,
    points: Vec<Point>,
    (ours, workers): (usize, u16),
) -> (Vec<Point>, Vec<NotRun>) {
    let (mut run, mut not) = (Vec::new(), Vec::new());
    for point in points {
        let wanted = match experiment.measure {
            Measure::ForwardPps => usize::from(point.count("queues", 1)),
            Measure::ControlPlane => usize::from(point.count("gateways", 1)),
            _ => usize::from(point.count("instances", 1)) * usize::from(point.count("workers", workers)),
        };
        if wanted > ours && !experiment.run.share_cpus && wanted > 1 {
            let why = format!(
                "a worker takes a CPU, and this machine has {ours} of {} for workers: share_cpus = true in [run], or \
                 --set share_cpus=true, has workers share",
                cpus().len()
            );
            not.push(NotRun { what: point.text(), why });
        } else {
            run.push(point);
        }
    }
    (run, not)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(vary: &[&[(&str, &[&str])]]) -> Experiment {
        let axes = |section: &&[(&str, &[&str])]| {
            let axis = |(key, values): &(&str, &[&str])| {
                ((*key).to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
            };
            Axes(section.iter().map(axis).collect())
        };
        Experiment { vary: vary.iter().map(axes).collect(), ..Experiment::default() }
    }

    #[test]
    fn sections_are_combined_and_points_are_unique() {
        let found = all(&experiment(&[
            &[("ratio", &["1:1", "1:9"]), ("workers", &["1..2"])],
            &[("workers", &["2"]), ("ratio", &["1:9", "5:5"])],
        ]));
        let texts: Vec<String> = found.unwrap().iter().map(Point::text).collect();
        let all = ["ratio=1:1, workers=1", "ratio=1:1, workers=2", "ratio=1:9, workers=1", "ratio=1:9, workers=2"];
        assert_eq!(texts[..4], all);
        assert_eq!(texts[4..], ["workers=2, ratio=5:5"]);
    }

    #[test]
    fn nobody_reads_counters_in_one_place_only() {
        let found = all(&experiment(&[&[("observer", &["none", "top"]), ("place", &["idle-cpu", "worker-cpu"])]]));
        let texts: Vec<String> = found.unwrap().iter().map(Point::text).collect();
        assert_eq!(texts, ["observer=none", "observer=top, place=idle-cpu", "observer=top, place=worker-cpu"]);
    }

    #[test]
    fn points_beyond_the_cpus_are_named() {
        let of = experiment(&[&[("instances", &["1", "2"]), ("workers", &["1", "2"])]]);
        let (run, not) = fitting(&of, all(&of).unwrap(), (2, 1));
        assert_eq!((run.len(), not.len()), (3, 1));
        assert!(not[0].what == "instances=2, workers=2" && not[0].why.contains("share_cpus"), "{not:?}");
        let mut sharing = of;
        sharing.run.share_cpus = true;
        assert_eq!(fitting(&sharing, all(&sharing).unwrap(), (2, 1)).1, []);
        let instances = experiment(&[&[("instances", &["1", "2"])]]);
        let (run, not) = fitting(&instances, all(&instances).unwrap(), (4, 4));
        assert_eq!((run.len(), not.len()), (1, 1), "two gateways of four workers each");
    }
}
