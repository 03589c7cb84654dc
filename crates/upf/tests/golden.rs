//! Every behaviour of the user plane as a folder under `tests/golden/upf`: packets in, packets out, all counters.
//! `WEIR_BLESS=1 cargo test -p upf --test golden` writes the folders.

/// A test for each case.
macro_rules! for_each_case {
    ($($name:ident)+) => {
        $(
            mod $name {
                #[test]
                fn case() {
                    let group = module_path!().rsplit("::").nth(1).expect("a path has two parts");
                    let case = super::$name().named(group, stringify!($name));
                    testkit::golden::judge::<crate::device::Device>(&crate::golden_cases::root(), &case);
                }
            }
        )+
    };
}

mod device;
mod golden_cases;

#[test]
fn no_folder_is_without_its_case() {
    let known = golden_cases::all();
    let folders = testkit::golden::Folder::all(&golden_cases::root());
    let strays: Vec<_> = folders.iter().filter(|name| !known.iter().any(|case| case.name == **name)).collect();
    assert!(strays.is_empty(), "no case describes {strays:?}");
}

/// Whatever the kernel makes of steering: when all packets come in by the queues of a worker that owns few subscribers
/// or none, everything is as with one worker.
#[test]
fn two_workers_do_as_one() {
    let judge =
        |case: &golden_cases::Case| testkit::golden::judge_shared::<device::Device>(&golden_cases::root(), case, 2);
    let cases: Vec<_> = golden_cases::all().into_iter().filter(fits_two_workers).collect();
    assert!(cases.len() > 195, "only {} cases fit two workers", cases.len());
    let (handed, faults): (Vec<_>, Vec<_>) = cases.iter().map(judge).partition(Result::is_ok);
    let faults: Vec<_> = faults.into_iter().filter_map(Result::err).collect();
    assert!(faults.is_empty(), "{} cases:\n{}", faults.len(), faults.join("\n"));
    let handed: u64 = handed.into_iter().flatten().sum();
    assert!(handed > 300, "only {handed} packets were handed over");
}

/// Not those with sessions or networks beside the configured ones, which only PFCP's side of control steers, and those
/// with a single public address, which can not be divided.
fn fits_two_workers(case: &golden_cases::Case) -> bool {
    let what = |step: &testkit::golden::Step| step.what.get("do").and_then(toml::Value::as_str).map(str::to_owned);
    let beside = |step| what(step).is_some_and(|what| ["sessions", "behind"].contains(&&*what));
    !case.config.contains_key("nat") && !case.steps.iter().any(beside)
}
