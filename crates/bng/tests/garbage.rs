//! Anything on all ports, while subscribers come and go: nothing panics, nothing is lost.

use proptest::prelude::*;

use crate::bng_pipeline::bng_pipeline;

#[test]
fn every_regression_stays_fixed() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/bng_pipeline");
    for file in std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("a readable folder").path()) {
        println!("{}", file.display());
        bng_pipeline(&std::fs::read(&file).expect("a readable file"));
    }
}

/// A few in an ordinary run; `PROPTEST_CASES` asks for more.
fn cases() -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok());
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(asked.unwrap_or(96)) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn no_script_breaks_a_promise(script in prop::collection::vec(any::<u8>(), 0..1500)) {
        bng_pipeline(&script);
    }
}
