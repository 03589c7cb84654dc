//! Published figures of the workloads, from the planner's table.

/// A published figure.
pub struct Figure {
    /// The figure as the publication prints it.
    pub value: String,
    /// The unit that stands beside it.
    pub unit: String,
    /// What it is of.
    pub quantity: String,
    /// How it was measured.
    pub conditions: String,
    /// The publication, the figure's number in `weir plan reproduce`, and what that says of it where it is no plain
    /// measurement: that the publication contradicts itself, or that it was derived.
    pub source: String,
}

/// Those that an experiment is made after.
pub fn of(profile: &str) -> Vec<Figure> {
    ::bench::experiment::named(profile).map_or_else(Vec::new, |experiment| figures(&experiment.figures))
}

/// Those of these numbers; numbers that the table does not have are left out.
pub fn figures(ids: &[String]) -> Vec<Figure> {
    let rows: Vec<Vec<&str>> =
        capacity::reproduce::FIGURES.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let figure = |id: &String| {
        let row = rows.iter().find(|row| row.first() == Some(&id.as_str()))?;
        let cell = |n: usize| row.get(n).map_or("", |cell| cell.trim_matches('"')).to_owned();
        let verdict = cell(8);
        let is_plain =
            verdict.is_empty() || ["reproduced", "input", "anchor"].iter().any(|word| verdict.starts_with(word));
        let verdict = if is_plain { String::new() } else { format!(" ({verdict})") };
        let source = format!("{}, {id}{verdict}", cell(1));
        Some(Figure { value: cell(3), unit: cell(4), quantity: cell(2), conditions: cell(5), source })
    };
    ids.iter().filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_have_their_figures() {
        for profile in ["upf-128", "upf-embb", "vepc-embb", "fwa", "cmts-imix", "bng-600g"] {
            assert!(!of(profile).is_empty(), "{profile}");
        }
        assert!(of("forward").is_empty());
        let contradicts = figures(&["E16".to_owned()]);
        assert!(contradicts[0].source.contains("INCONSISTENT"), "{}", contradicts[0].source);
    }
}
