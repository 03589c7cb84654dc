//! The chart with its own values is the manifests. What `helm lint` and `helm template` say is in docs/deploy.md.

mod fleets;

use deploy::File;
use deploy::kubernetes::files;
use deploy::settings::{Attachment, Scaler};

/// A template filled in, for the few constructs that the chart has.
fn filled(template: &str, values: &str) -> String {
    let value = |name: &str| {
        let line = values.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("{name} is among the values")).to_owned()
    };
    let mut out = String::new();
    for line in template.lines().filter(|line| !line.starts_with("{{- ")) {
        let line = match line.split_once("{{ .Values.") {
            Some((before, rest)) => {
                let name = rest.trim_end_matches(" }}");
                let (name, quoted) = name.strip_suffix(" | quote").map_or((name, false), |name| (name, true));
                let value = value(name);
                let value = if quoted { format!("\"{}\"", value.trim_matches('"')) } else { value };
                format!("{before}{value}")
            }
            None => line.replace("{{ \"{{\" }}", "{{"),
        };
        out += &line;
        out.push('\n');
    }
    out
}

/// Quotes make no difference between the two.
fn plain(text: &str) -> String {
    text.replace('"', "")
}

#[test]
fn the_chart_with_its_values_is_the_manifests() {
    let mut keda = fleets::upf();
    keda.settings.kubernetes.scaler = Scaler::Keda;
    keda.settings.kubernetes.storage_class = Some("fast".to_owned());
    let mut sriov = fleets::large();
    sriov.settings.kubernetes.attachment = Attachment::Sriov;
    for fleet in [fleets::upf(), keda, sriov, fleets::cmts(), fleets::bng()] {
        let all: Vec<File> = files(&fleet).expect("files");
        let file = |name: &str| all.iter().find(|file| file.name == name).map(|file| file.text.as_str());
        let values = file("chart/values.yaml").expect("values");
        let mut compared = 0;
        for template in all.iter().filter(|file| file.name.starts_with("chart/templates/")) {
            let name = template.name.trim_start_matches("chart/templates/");
            let manifest = file(name).or_else(|| file(&name.replacen('-', "/", 1))).expect(name);
            assert_eq!(plain(&filled(&template.text, values)), plain(manifest), "{name}");
            compared += 1;
        }
        assert!(compared >= 5, "{compared}");
        let scaled = ["leastReplicas", "mostReplicas"];
        let scaled = &scaled[..if fleet.fixed().is_none() { 2 } else { 0 }];
        for name in ["image", "cpu", "memory", "hugepages"].iter().chain(scaled) {
            assert!(values.contains(&format!("{name}: ")), "{name}: {values}");
        }
    }
}

/// What comes from other projects is there only if it is asked for.
#[test]
fn definitions_of_other_projects_are_asked_for() {
    let all = files(&fleets::upf()).expect("files");
    for file in all.iter().filter(|file| file.name.starts_with("chart/templates/monitoring")) {
        assert!(file.text.starts_with("{{- if .Values.monitoring }}\n"), "{}", file.name);
    }
    let values = all.iter().find(|file| file.name == "chart/values.yaml").expect("values");
    assert!(values.text.contains("monitoring: false") && values.text.contains("traffic: false"), "{}", values.text);
}
