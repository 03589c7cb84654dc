use std::path::{Path, PathBuf};

use super::*;
use gateway::load::LoadError;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn example(name: &str) -> Answer {
    read::Plan::read(&root().join("examples").join(name)).unwrap().answer(&[]).unwrap_or_else(|error| panic!("{error}"))
}

/// What is printed stays what it was; `WEIR_BLESS=1` writes it anew.
fn golden(name: &str, text: &str) {
    let path = root().join("tests/golden/plan").join(name);
    if std::env::var_os("WEIR_BLESS").is_some_and(|value| value != "0") {
        std::fs::write(&path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = wanted.lines().zip(text.lines()).position(|(a, b)| a != b);
    assert!(
        wanted == text,
        "{name} differs from line {:?} on; WEIR_BLESS=1 writes it anew:\n{text}",
        differs.map(|n| n + 1)
    );
}

#[test]
fn tables_stay_what_they_were() {
    for plan in ["cmts", "upf", "decision"] {
        let answer = example(&format!("plan-{plan}.toml"));
        golden(&format!("{plan}.txt"), &tables::answer(&answer, false, Style::default()));
    }
}

#[test]
fn figures_stay_what_they_were() {
    let figures = capacity::reproduce::reproduce(&capacity::reproduce::Inputs::default());
    golden("reproduce.txt", &reproduce::text(&figures, Style::default()));
}

#[test]
fn a_page_is_complete_in_itself() {
    for plan in ["plan-cmts.toml", "plan-upf.toml", "plan-bng.toml", "plan-decision.toml"] {
        let page = html::plan::page(&example(plan), None);
        for outside in ["src=", "href=", "url(", "@import", "<script", "NaN", "inf"] {
            // The name space of SVG is a name, not a place to load from.
            let page = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!page.contains(outside), "{plan} has {outside}");
        }
        assert!(page.contains("What it costs over the day, machines and traffic"), "{plan}");
        assert_eq!(page.contains("By year, discounted at 8 % a year"), plan == "plan-decision.toml", "{plan}");
        let opened = page.matches("<svg").count();
        assert!(opened >= 2 && opened == page.matches("</svg>").count(), "{plan}: {opened} plots");
    }
}

/// The module of the page is built by hand, and its sources are written down beside it.
#[test]
fn the_planner_of_the_page_is_of_these_sources() {
    let checked = std::process::Command::new(root().join("scripts/planner-wasm")).arg("check").output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn the_planner_of_the_page_says_what_the_command_says() {
    for (plan, sets) in [
        ("plan-decision.toml", ["demand=1.5", "growth=0.35"]),
        ("plan-upf.toml", ["demand=0.5", "sharing=0.8"]),
        ("plan-cmts.toml", ["price=0.9", "demand=1.1"]),
        ("plan-bng.toml", ["demand=2", "price=1.3"]),
    ] {
        let set = knobs(&sets.map(str::to_owned)).unwrap();
        let mut plan = read::Plan::read(&root().join("examples").join(plan)).unwrap();
        let mut asked: serde_json::Value = serde_json::from_str(&plan.asked(&[]).unwrap()).unwrap();
        asked["knobs"] = serde_json::to_value(set).unwrap();
        let said: serde_json::Value = serde_json::from_str(&planner_wasm::say(asked.to_string().as_bytes())).unwrap();
        plan.turn(&set).unwrap();
        let body = html::plan::body(&plan.answer(&[]).unwrap());
        assert_eq!(said["error"], serde_json::Value::Null);
        assert!(said["body"] == body.as_str(), "{sets:?}: the page differs from the command");
    }
    let why = knobs(&["load=2".to_owned()]).unwrap_err().to_string();
    assert!(why.contains("demand, price, sharing, growth"), "{why}");
}

#[test]
fn sliders_are_those_that_turn_something() {
    let page = |plan: &str| {
        let plan = read::Plan::read(&root().join("examples").join(plan)).unwrap();
        let (begin, asked) = (Knobs::standing(&plan.question), plan.asked(&[]).unwrap());
        let live = Live { module: PLANNER, asked: &asked, file: "plan.toml", begin, set: Knobs::default() };
        html::plan::page(&plan.answer(&[]).unwrap(), Some(&live))
    };
    let decision = page("plan-decision.toml");
    for slider in ["demand", "price", "sharing", "growth"] {
        assert!(decision.contains(&format!("<input type='range' id='{slider}'")), "{slider}");
    }
    assert!(!page("plan-upf.toml").contains("id='growth'"), "it looks no years ahead");
    for outside in ["src=", "href=", "url(http", "@import", "fetch("] {
        assert!(!decision.contains(outside), "{outside}");
    }
}

fn wrong(plan: &str) -> String {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let n = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weir-plan-{}-{n}.toml", std::process::id()));
    std::fs::write(&path, plan).unwrap();
    let answered = read::Plan::read(&path).map_err(anyhow::Error::from).and_then(|plan| plan.answer(&[]));
    std::fs::remove_file(&path).unwrap();
    let error = answered.err().unwrap_or_else(|| panic!("taken: {plan}"));
    match error.downcast_ref::<LoadError>() {
        Some(LoadError::Wrong(wrong)) => {
            let text = wrong.to_string();
            text.split_once(".toml:").map_or(text.clone(), |(_, rest)| rest.to_owned())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn mistakes_are_shown_with_line_and_key() {
    let cmts = std::fs::read_to_string(root().join("examples/plan-cmts.toml")).unwrap();
    let line = |what: &str| 1 + cmts.lines().position(|line| line.starts_with(what)).unwrap();
    let spoilt = |from: &str, to: &str| {
        assert!(cmts.contains(from), "{from}");
        wrong(&cmts.replacen(from, to, 1))
    };
    let cases = [
        ("each = \"2.5 Gbit/s\"", "each = \"2.5 Gb\"", "each", "demand.each: ", "write it such as \"2.5 Gbit/s\""),
        ("each = \"2.5 Gbit/s\"", "each = \"0 Gbit/s\"", "each", "demand.each: ", "more than nothing"),
        ("each = \"2.5 Gbit/s\"", "each = \"9 Gbit/s\"", "each", "demand.each: ", "no machine does this"),
        ("groups = 24", "groups = 0", "groups", "demand.groups: ", "at least 1"),
        ("groups = 24", "subscribers = 24", "each", "demand.each: ", "of how many groups"),
        ("down_up = \"10:1\"", "down_up = \"10\"", "down_up", "demand.down_up: ", "such as \"10:1\""),
        ("spares = 1", "spares = 1\nzones = 1\nsurvive_zone = true", "spares", "failure.survive_zone: ", "zones = 2"),
        ("vcpus = 3 ", "vcpu = 3 ", "vcpus", "unit.vcpu: ", "did you mean `vcpus`"),
    ];
    for (from, to, at, key, words) in cases {
        let text = spoilt(from, to);
        let (number, rest) = text.split_once(": ").unwrap();
        let extra = if to.contains("survive_zone") { 2 } else { 0 };
        assert_eq!(number.parse::<usize>().unwrap(), line(at) + extra, "{text}");
        assert!(rest.starts_with(key), "{text}");
        assert!(rest.contains(words), "{text} does not say {words}");
    }
    let machine = spoilt("machine = \"c5n.2xlarge\"", "machine = \"c5n.3xlarge\"");
    assert!(machine.contains("point.0.machine: no machine is called \"c5n.3xlarge\"; there is c5n."), "{machine}");
    assert!(wrong("gateway = \"upf\"\n[demand]\nframe = \"128 B\"").starts_with("2: demand: there is no demand"));
}

/// What the bench writes.
fn report(workers: u16, frame: f64, users: u64, mpps: f64) -> ::bench::report::Report {
    let mut report =
        ::bench::report::Report { schema: 1, profile: "upf-128".into(), port: "xdp".into(), ..Default::default() };
    (report.workers, report.instances, report.mpps, report.subscribers) = (workers, 1, mpps, users);
    (report.host.cpu, report.cost.tsc_hz) = ("A processor".into(), 2.0e9);
    for direction in [&mut report.directions.uplink, &mut report.directions.downlink] {
        (direction.frame_bytes_mean, direction.forwarded_packets) = (frame, 1_000_000);
    }
    report
}

fn measured(value: &impl serde::Serialize, on: Option<&str>) -> anyhow::Result<Vec<calibrate::Measured>> {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let n = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weir-plan-{}-{n}.json", std::process::id()));
    std::fs::write(&path, serde_json::to_string(value)?)?;
    let read = calibrate::read(std::slice::from_ref(&path), on);
    std::fs::remove_file(&path)?;
    read
}

#[test]
fn results_of_the_bench_become_points() {
    let one = &measured(&report(2, 128.0, 1000, 3.0), None).unwrap()[0];
    assert_eq!((one.machine.as_str(), one.units, one.each.value.0), ("A processor", 2, 1.5e6));
    assert_eq!((one.frame_bytes, one.subscribers), (128.0, 500.0));
    let several =
        serde_json::json!({ "axis": "fanout", "results": [report(1, 128.0, 10, 1.0), report(2, 128.0, 10, 1.8)] });
    assert_eq!(measured(&several, None).unwrap().len(), 2);
    let text = calibrate::text(&measured(&several, None).unwrap(), Style::default());
    assert!(text.contains("USL λ 1.000 Mpps") && text.contains("[[point]]"), "{text}");
    let nothing = measured(&serde_json::json!({ "a": 1 }), None).unwrap_err().to_string();
    assert!(nothing.contains("holds no result of weir bench"), "{nothing}");
}

/// Two workers on one processor say what sharing costs, not what a second processor brings.
#[test]
fn more_workers_than_processors_are_no_point_of_a_plan() {
    let with = |workers: u16, port: &str, cores: usize| {
        let mut report = report(workers, 128.0, 1000, 1.0);
        (report.port, report.host.cores) = (port.into(), cores);
        report
    };
    let several = [with(1, "xdp", 2), with(2, "xdp", 2), with(2, "memory", 2), with(3, "xdp", 4)];
    let measured = measured(&several, None).unwrap();
    assert_eq!(measured.iter().map(|one| one.crowded).collect::<Vec<_>>(), [false, true, false, false]);
    let text = calibrate::text(&measured, Style::default());
    assert!(text.contains("! 2 workers had 1 processor between them: no point of a plan"), "{text}");
    assert_eq!(text.matches("[[point]]").count(), 3, "{text}");
}

fn folder(files: &[(&str, &str)]) -> PathBuf {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let n = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("weir-catalogue-{}-{n}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    folder
}

/// What a folder's mistake is called, without its path.
fn mistake(files: &[(&str, &str)]) -> String {
    let folder = folder(files);
    let plan = root().join("examples/plan-upf.toml");
    let error = read::Plan::read_with(&plan, Some(&folder)).err().unwrap_or_else(|| panic!("taken: {files:?}"));
    std::fs::remove_dir_all(&folder).unwrap();
    error.to_string().replace(&folder.display().to_string(), "own")
}

#[test]
fn mistakes_in_a_catalogue_name_file_line_and_column() {
    let head = "machine\tregion\tkind\tdate\tusd_per_hour\tsource\n";
    let price = |row: &str| mistake(&[("prices.tsv", &format!("{head}{row}\n"))]);
    let cheap = price("c5n.4xlarge\tus-east-1\tinstance\t2026-09-01\tcheap\tkarpenter-aws");
    assert!(cheap.starts_with("own/prices.tsv:2: usd_per_hour: \"cheap\" is invalid; a number from 0"), "{cheap}");
    let unknown = price("c5n.3xlarge\tus-east-1\tinstance\t2026-09-01\t1\tkarpenter-aws");
    assert!(
        unknown.starts_with("own/prices.tsv:2: machine: \"c5n.3xlarge\" is not in machines.tsv; there is"),
        "{unknown}"
    );
    assert!(mistake(&[("price.tsv", head)]).contains("price.tsv is no table; a folder with some of machines.tsv"));
    assert!(mistake(&[]).contains("no table is in it"));
    let card = "[[server]]\nname = 'own'\nsockets = 1\ncores = 8\ncards = ['e810']\n";
    let card = mistake(&[("servers.toml", card)]);
    assert!(card.starts_with("own/servers.toml:5: server.0.cards.0: no network card is called \"e810\""), "{card}");
}

#[test]
fn a_catalogue_goes_over_the_built_in_one() {
    let prices =
        "machine\tregion\tkind\tdate\tusd_per_hour\tsource\nc5n.2xlarge\tus-east-1\tinstance\t2026-09-01\t0.1\tours\n";
    let sources = "source\ttitle\treference\nours\tAn offer\tcontract 7\n";
    let folder = folder(&[("prices.tsv", prices), ("sources.tsv", sources)]);
    let plan = root().join("examples/plan-upf.toml");
    let answer = read::Plan::read_with(&plan, Some(&folder)).unwrap().answer(&[]).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let one = answer.candidates.iter().find(|one| one.machine == "c5n.2xlarge").unwrap();
    let usd = one.usd_per_hour.as_ref().unwrap();
    assert!((usd.value.0 - 0.1 * f64::from(one.machines)).abs() < 1e-9 && usd.source.contains("2026-09-01"), "{usd:?}");
}

#[test]
fn an_exported_catalogue_is_the_same_again() {
    let folder = folder(&[]);
    let args = |catalogue: Option<PathBuf>, to: Option<PathBuf>| catalogue::CatalogueArgs {
        table: None,
        catalogue,
        to,
        json: gateway::json::JsonOutput::default(),
    };
    catalogue::run(&args(None, Some(folder.clone()))).unwrap();
    let twice = catalogue::run(&args(None, Some(folder.clone()))).unwrap_err().to_string();
    assert!(twice.contains("machines.tsv is there already"), "{twice}");
    let plan = root().join("examples/plan-decision.toml");
    let [built_in, exported] =
        [None, Some(folder.as_path())].map(|folder| read::Plan::read_with(&plan, folder).unwrap().answer(&[]).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(built_in, exported);
}

/// What the bench measured here becomes rows of a catalogue, and rows become points of every plan for such a gateway.
#[test]
fn results_are_kept_as_measurements() {
    let folder = folder(&[]);
    let mut report = report(2, 128.0, 1000, 3.0);
    report.date = "2026-11-20 10:00:00".into();
    let measured = measured(&report, None).unwrap();
    for _ in 0..2 {
        let rows = measured.iter().map(|one| one.row().unwrap()).collect();
        catalogue::append(rows, vec![calibrate::source()], &[], &folder).unwrap();
    }
    let table = std::fs::read_to_string(folder.join("measurements.tsv")).unwrap();
    assert_eq!(table.lines().count(), 2, "the same result is there once: {table}");
    assert!(table.contains("2026-11-20\tweir-bench"), "{table}");
    let plan = root().join("examples/plan-upf.toml");
    let plan = read::Plan::read_with(&plan, Some(&folder)).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let point = plan.question.point.iter().find(|point| point.machine == "A processor").unwrap();
    assert_eq!((point.units, point.each_packets.as_ref().unwrap().value.0), (2, 1.5e6));
    assert!(plan.answer(&[]).is_ok());
}

#[test]
fn printed_points_are_points_of_a_plan() {
    let text = calibrate::text(&measured(&report(1, 128.0, 1000, 2.0), None).unwrap(), Style::default());
    let points = text.split_once("[[point]]").unwrap().1;
    let plan = format!(
        "gateway = 'upf'\npoints = 'extrapolate'\n[demand]\nsubscribers = 1000\npackets = '100 pps'\nframe = '128 B'\n[[point]]{points}"
    );
    let question: capacity::question::Question = toml::from_str(&plan).unwrap();
    assert_eq!(question.point[0].each_packets.as_ref().unwrap().value.0, 2e6);
}

#[test]
fn what_was_measured_here_goes_before_what_was_published() {
    let measured = measured(&report(1, 128.0, 1000, 1.0), None).unwrap();
    let mut plan = read::Plan::read(&root().join("examples/plan-upf.toml")).unwrap();
    plan.question = toml::from_str(&plan.text.text.replace("measured-only", "extrapolate")).unwrap();
    let answer = plan.answer(&measured).unwrap();
    let rests_on = |machine: &str| {
        let one = answer.candidates.iter().find(|one| one.machine == machine).unwrap();
        one.rests_on.join("; ")
    };
    assert!(rests_on("c6in.2xlarge").contains("A processor: 2 GHz → 3.5 GHz"), "{}", rests_on("c6in.2xlarge"));
    assert!(rests_on("c5n.4xlarge").contains("c5n.2xlarge: the same family"), "{}", rests_on("c5n.4xlarge"));
}

/// Calibrated with two sizes and two numbers of users, a plan for a third of each is answered by the law through them.
#[test]
fn a_plan_is_calibrated_by_results() {
    let mpps = |frame: f64, users: f64| 1e3 / (100.0 + 0.1 * frame + 10.0 * users.log2());
    let results: Vec<_> = [(128.0, 1024), (512.0, 1024), (128.0, 65_536), (1400.0, 1 << 20)]
        .into_iter()
        .map(|(frame, users)| report(1, frame, users, mpps(frame, users as f64)))
        .collect();
    let measured = measured(&results, Some("c5n.2xlarge")).unwrap();
    let mut plan = read::Plan::read(&root().join("examples/plan-upf.toml")).unwrap();
    let text = plan
        .text
        .text
        .replace("measured-only", "extrapolate")
        .replace("128 B", "512 B")
        .replace("250_000", "1_000_000");
    plan.question = toml::from_str(&text).unwrap();
    plan.question.point.clear();
    let answer = plan.answer(&measured).unwrap();
    let one = answer.candidates.iter().find(|one| one.machine == "c5n.2xlarge").unwrap();
    let users = 1e6 / f64::from(one.needed);
    let expected = mpps(512.0, users);
    let found = one.each.packets.unwrap().mpps();
    assert!((found / expected - 1.0).abs() < 0.03, "{found} for {expected}: {:?}", one.rests_on);
}

/// A certificate of a machine of that name in a folder of its own.
fn certificate_of(name: &str, machine_type: Option<&str>) -> (PathBuf, PathBuf) {
    let folder = std::env::temp_dir().join(format!("weir-certified-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut full = crate::probe::tests::full();
    full.host.machine_type = machine_type.map(str::to_owned);
    full.host.hostname = "rack4".into();
    let file = folder.join("certificate.json");
    std::fs::write(&file, certificate::Key::from_seed([5; 32]).sign(&full).text()).unwrap();
    (folder, file)
}

#[test]
fn a_certificate_is_a_machine_with_points_and_limits() {
    for (name, machine_type, machine) in [("known", Some("c5n.4xlarge"), "c5n.4xlarge"), ("new", None, "rack4")] {
        let (folder, file) = certificate_of(name, machine_type);
        let (measured, certified) = from(std::slice::from_ref(&file), None).unwrap();
        assert_eq!((measured.len(), measured[0].machine.as_str(), measured[0].gateway), (1, machine, Some("upf")));
        assert!((measured[0].cost_ns[4] - 1000.0).abs() < 1e-6, "3,000 cycles at 3 GHz");
        let plan = root().join("examples/plan-upf.toml");
        let plan = read::Plan::read_certified(&plan, None, &certified).unwrap();
        let found = plan.world.machines.iter().find(|one| one.name == machine).expect("it is a machine");
        let packets = found.packets.as_ref().expect("it has a limit");
        // 2 queues forwarded 3.125 Mpps of 64 B.
        let is_certified = packets.source.contains("weir probe quick") && packets.high.mpps() >= 3.1;
        assert!(is_certified, "{packets:?}");
        let points = plan.answer(&measured);
        assert!(points.is_ok(), "{:?}", points.err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn certificates_become_rows_of_a_catalogue() {
    let (folder, file) = certificate_of("rows", None);
    let (measured, certified) = from(std::slice::from_ref(&file), None).unwrap();
    let tables = folder.join("tables");
    append(&measured, &certified, &tables).unwrap();
    append(&measured, &certified, &tables).unwrap();
    let rows = std::fs::read_to_string(tables.join("measurements.tsv")).unwrap();
    let of = |words: [&str; 3]| {
        rows.lines().filter(|line| words.iter().all(|word| line.split('\t').any(|cell| cell == *word))).count()
    };
    for counting in ["receive", "transmit", "forwarded"] {
        assert_eq!(of(["rack4", counting, "queue"]), 2, "{rows}");
        assert_eq!(of(["rack4", counting, "interface"]), 2, "{rows}");
    }
    assert_eq!((of(["forwarded", "instance", "limit"]), of(["upf", "instance", "point"])), (1, 1), "{rows}");
    assert_eq!(of(["receive", "queue", "limit"]), 0, "the generator was the limit");
    assert!(rows.lines().skip(1).all(|line| line.contains("2026-01-31")), "{rows}");
    let servers = std::fs::read_to_string(tables.join("servers.toml")).unwrap();
    assert_eq!(servers.matches("name = \"rack4\"").count(), 1, "once");
    let plan = root().join("examples/plan-upf.toml");
    assert!(read::Plan::read_with(&plan, Some(&tables)).unwrap().answer(&[]).is_ok());
    std::fs::remove_dir_all(folder).unwrap();
}

/// What was measured over virtual links is no limit of a machine's network.
#[test]
fn rates_over_virtual_links_are_notes() {
    let (folder, file) = certificate_of("veth", Some("c5n.4xlarge"));
    let mut signed: certificate::Certificate = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    signed.host.interface = "veth".into();
    std::fs::write(&file, certificate::Key::from_seed([5; 32]).sign(&signed).text()).unwrap();
    let (measured, certified) = from(std::slice::from_ref(&file), None).unwrap();
    append(&measured, &certified, &folder.join("tables")).unwrap();
    let rows = std::fs::read_to_string(folder.join("tables/measurements.tsv")).unwrap();
    assert!(!rows.contains("\tlimit\t") && rows.contains("\tnote\t"), "{rows}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_changed_certificate_is_no_machine() {
    let (folder, file) = certificate_of("changed", None);
    let text = std::fs::read_to_string(&file).unwrap().replace("\"cpus\": 3", "\"cpus\": 64");
    std::fs::write(&file, text).unwrap();
    let error = from(std::slice::from_ref(&file), None).unwrap_err().to_string();
    assert!(error.contains("certificate.json was changed after it was signed: `host` differs"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}
