//! What a reader of results has to know: found in the results themselves.

use ::bench::report::Report;
use ::bench::searching::SearchReport;

use super::read::{Results, name};

/// Between what is said and the result it is said of.
const OF: &str = "\u{1f}";
/// Steal beyond this is worth a word.
const STEAL: f64 = 0.005;
/// The spread of windows, by their median, beyond which a machine is noisy.
const NOISY: f64 = 0.15;
/// Windows below which a median says little.
const FEW: usize = 5;

/// One sentence each. What is said of several results alike (`kind: result, figure`) is one sentence with a list.
pub fn caveats(results: &Results) -> Vec<String> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    let mut say = |what: String| {
        let (kind, of) = what.split_once(OF).map_or((what.as_str(), None), |(kind, of)| (kind, Some(of.to_owned())));
        let n = all.iter().position(|(known, _)| known == kind).unwrap_or_else(|| {
            all.push((kind.to_owned(), Vec::new()));
            all.len() - 1
        });
        let list = &mut all[n].1;
        if let Some(of) = of.filter(|of| !list.contains(of)) {
            list.push(of);
        }
    };
    machines(results, &mut say);
    results.every_report().for_each(|report| of_report(report, &mut say));
    results.searches.iter().for_each(|search| of_search(search, &mut say));
    for scale in &results.scales {
        let most = scale.rows.iter().map(|row| usize::from(row.count)).max().unwrap_or(0);
        if most > scale.gateway_cpus {
            say(format!(
                "extrapolated: the scale-out goes to {most} on {} CPUs; points beyond share CPUs, and the fit beyond the \
                 CPUs is no measurement",
                scale.gateway_cpus
            ));
        }
        if scale.rows.len() < 3 {
            say("few samples: a scale-out of fewer than 3 points cannot be fitted".to_owned());
        }
    }
    for one in &results.experiments {
        if !one.not_run.is_empty() {
            let points = gateway::tables::many(one.not_run.len(), "point");
            say(format!("not run on that machine{OF}{points} of {}", one.experiment));
        }
    }
    for unread in &results.unread {
        say(format!("not shown{OF}{unread}"));
    }
    let sentence =
        |(kind, of): (String, Vec<String>)| if of.is_empty() { kind } else { format!("{kind}: {}", of.join("; ")) };
    all.into_iter().map(sentence).collect()
}

fn machines(results: &Results, say: &mut impl FnMut(String)) {
    let hosts = results.every_report().map(|report| &report.host).chain(results.searches.iter().map(|one| &one.host));
    let mut known: Vec<String> = Vec::new();
    for host in hosts.filter(|host| !host.cpu.is_empty()) {
        let machine = format!("{} ({} cores, Linux {})", host.cpu, host.cores, host.kernel);
        if !known.contains(&machine) {
            known.push(machine);
        }
    }
    if known.len() > 1 {
        say(format!("results of {} machines: rates of different machines are not comparable", known.len()));
    }
}

fn of_report(report: &Report, say: &mut impl FnMut(String)) {
    let what = name(report);
    if report.host.steal_ratio > STEAL {
        say(format!(
            "steal, the hypervisor gave the processors to others{OF}{what}, {:.1} % of the time",
            report.host.steal_ratio * 100.0
        ));
    }
    if report.noise.is_disturbed {
        say(format!("disturbed{OF}{what}, {}", report.noise.why()));
    }
    let windows = &report.windows;
    if windows.count > 0 && windows.count < FEW {
        say(format!("few samples{OF}{what}, {} windows", windows.count));
    }
    // At a set rate windows differ by nothing but the load.
    let spread = (windows.mpps_max - windows.mpps_min) / report.mpps.max(1e-12);
    if windows.count > 1 && spread > NOISY && report.mpps > 0.0 {
        say(format!("noisy machine, windows spread by part of their median{OF}{what}, {:.0} %", spread * 100.0));
    }
    if report.frames_lost != 0 || report.packets_missing != 0 {
        say(format!(
            "{what}: {} packet buffers and {} packets are unaccounted for",
            report.frames_lost, report.packets_missing
        ));
    }
    if report.host.nic.contains("veth") {
        say("interfaces are virtual (veth): no figure here is of a network card".to_owned());
    }
    if report.port == "memory" {
        say("over memory there is no input and output: the figure is the gateway's own work".to_owned());
    }
    if !report.load.source.is_empty()
        && report.load.source == "kernel"
        && !report.load.saturates
        && report.paced.is_some()
    {
        say(format!("the load did not saturate the gateway, so its capacity is at least this{OF}{what}"));
    }
    if report.host.scheduling == "ordinary" {
        say(format!("threads shared their CPUs with other processes (no real-time priority){OF}{what}"));
    }
}

fn of_search(search: &SearchReport, say: &mut impl FnMut(String)) {
    let what = format!("search of {} over {}", search.profile, search.port);
    if search.host.steal_ratio > STEAL {
        say(format!(
            "steal, the hypervisor gave the processors to others{OF}{what}, {:.1} % of the time",
            search.host.steal_ratio * 100.0
        ));
    }
    if search.search.repeated_trials > 0 {
        say(format!("{what}: {} disturbed trials were repeated", search.search.repeated_trials));
    }
    let disturbed = search.trials.iter().filter(|trial| !trial.found.disturbed.is_empty()).count();
    if disturbed > 0 {
        say(format!("{what}: {disturbed} of {} trials stayed disturbed after repetitions", search.trials.len()));
    }
    if let Some(ended) = &search.search.ended {
        say(format!("{what} ended early ({ended}): bounds are wider than the goals ask"));
    }
    if search.results.iter().any(|at| at.found.generator_limited || at.found.mpps_upper.is_none()) {
        say(format!("{what}: some rates are limits of the generator or of the search's range, not of the gateway"));
    }
    for skipped in &search.skipped {
        say(format!("{what}: {} B not measured: {}", skipped.frame_bytes, skipped.why));
    }
    for note in &search.notes {
        say(format!("{note}{OF}{what}"));
    }
}

#[cfg(test)]
mod tests {
    use ::bench::report::Windows;

    use super::*;

    fn with(change: impl FnOnce(&mut Report)) -> Vec<String> {
        let windows = Windows { count: 20, mpps_min: 4.9, mpps_max: 5.1, ..Windows::default() };
        let mut report = Report { profile: "fwa".into(), port: "xdp".into(), mpps: 5.0, windows, ..Report::default() };
        change(&mut report);
        caveats(&Results { reports: vec![report], ..Results::default() })
    }

    #[test]
    fn a_quiet_run_has_no_caveats() {
        assert!(with(|_| {}).is_empty(), "{:?}", with(|_| {}));
    }

    #[test]
    fn noise_steal_and_few_samples_are_found() {
        assert!(with(|report| report.host.steal_ratio = 0.02)[0].contains("2.0 % of the time"));
        assert!(with(|report| report.windows.mpps_min = 3.0)[0].contains("noisy machine"));
        assert!(with(|report| report.windows.count = 3)[0].contains("few samples"));
        let disturbed = with(|report| {
            report.noise.is_disturbed = true;
            (report.noise.windows, report.noise.disturbed_windows) = (20, 4);
            report.noise.causes.insert("preempted".to_owned(), 4);
        });
        assert_eq!(disturbed, ["disturbed: fwa over xdp, 4 of 20 windows (preempted 4)"]);
        assert!(with(|report| report.frames_lost = 1)[0].contains("unaccounted"));
        let report = Report { port: "xdp".into(), ..Report::default() };
        let few = |profile: &str| Report {
            profile: profile.into(),
            windows: Windows { count: 2, ..Windows::default() },
            ..report.clone()
        };
        let both = caveats(&Results { reports: vec![few("a"), few("b"), few("b")], ..Results::default() });
        assert_eq!(both, ["few samples: a over xdp, 2 windows; b over xdp, 2 windows"]);
        assert!(with(|report| report.host.nic = "veth".into())[0].contains("virtual"));
    }
}
