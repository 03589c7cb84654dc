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
    /// The publication, and the figure's number in `weir plan reproduce`.
    pub source: String,
}

/// Figures that a workload is made after, by their numbers.
const OF: [(&str, &[&str]); 6] = [
    ("upf-128", &["E05", "E13", "E14"]),
    ("upf-embb", &["U03", "U04"]),
    ("vepc-embb", &["U01", "U02"]),
    ("fwa", &["U07", "U08"]),
    ("cmts-imix", &["V03", "V04", "V06"]),
    ("bng-600g", &["B01"]),
];

/// Those of a workload.
pub fn of(profile: &str) -> Vec<Figure> {
    let ids = OF.iter().find(|(known, _)| *known == profile).map_or(&[][..], |(_, ids)| ids);
    let rows: Vec<Vec<&str>> =
        capacity::reproduce::FIGURES.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    let figure = |id: &&str| {
        let row = rows.iter().find(|row| row.first() == Some(id))?;
        let cell = |n: usize| row.get(n).map_or("", |cell| cell.trim_matches('"')).to_owned();
        let source = format!("{}, {id}", cell(1));
        Some(Figure { value: cell(3), unit: cell(4), quantity: cell(2), conditions: cell(5), source })
    };
    ids.iter().filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_named_here_is_in_the_table() {
        for (profile, ids) in OF {
            assert_eq!(of(profile).len(), ids.len(), "{profile}");
        }
        assert!(of("forward").is_empty());
    }
}
