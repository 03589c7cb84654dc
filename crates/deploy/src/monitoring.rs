//! Alerts and a dashboard for a fleet's monitoring: those of `deploy/prometheus` and `deploy/grafana`.

use crate::File;

const RULES: &str = include_str!("../../../deploy/prometheus/weir.rules.yml");
const DASHBOARD: &str = include_str!("../../../deploy/grafana/weir.json");

/// What stands before a group, and the job that the rules are for.
const GROUP: &str = "  - name: weir-";
const JOB: &str = "job=\"weir\"";

/// The groups of rules that a gateway of this kind fires, for targets of that job; indented as in a file of rules.
pub fn groups(gateway: &str, job: &str) -> String {
    let wanted = |group: &&str| ["all", gateway].contains(&group.lines().next().unwrap_or_default());
    let groups = RULES.split(GROUP).skip(1).filter(wanted);
    groups
        .map(|group| format!("{GROUP}{}\n", group.trim_end()))
        .collect::<String>()
        .replace(JOB, &format!("job=\"{job}\""))
}

/// The dashboard, as Grafana imports it.
pub fn dashboard() -> &'static str {
    DASHBOARD
}

/// Both as files, for a Prometheus and a Grafana that are there.
pub fn files(gateway: &str) -> [File; 2] {
    let rules = format!("groups:\n{}", groups(gateway, "weir"));
    [File::new("weir.rules.yml", rules), File::new("grafana.json", DASHBOARD)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_has_its_own_rules_and_those_of_all() {
        let groups = groups("upf", "north");
        assert!(groups.contains("alert: WeirDown") && groups.contains("alert: WeirControlPlaneLost"));
        assert!(groups.contains("up{job=\"north\"} == 0") && !groups.contains("WeirChannelNearlyFull"));
        assert!(groups.lines().all(|line| line.starts_with("  ")), "{groups}");
    }
}
