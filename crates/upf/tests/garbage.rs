//! Anything on both ports, while sessions come, change and go: nothing panics, nothing is lost, what leaves is sound.

use std::path::Path;

use proptest::prelude::*;

use crate::upf_pipeline::upf_pipeline;

#[test]
fn every_regression_stays_fixed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/upf_pipeline");
    for file in std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("a readable folder").path()) {
        println!("{}", file.display());
        upf_pipeline(&std::fs::read(&file).expect("a readable file"));
    }
}

/// A few in an ordinary run; `PROPTEST_CASES` asks for more.
fn cases() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok());
    // What is found becomes a golden case: scripts mean something else as soon as there are other templates.
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(asked.unwrap_or(192)) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_script_breaks_a_promise(script in prop::collection::vec(any::<u8>(), 0..3000)) {
        upf_pipeline(&script);
    }
}
