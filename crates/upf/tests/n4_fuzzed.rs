//! Scripts of nearly right messages from several control planes: what fuzzing found stays fixed, and some at random.

use std::path::Path;

use proptest::prelude::*;

use crate::n4_script::n4_sessions;

#[test]
fn every_script_that_failed_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for part in ["regressions/n4_sessions", "seeds/n4_sessions"] {
        for file in
            std::fs::read_dir(folder.join(part)).into_iter().flatten().map(|e| e.expect("a readable folder").path())
        {
            println!("{}", file.display());
            n4_sessions(&std::fs::read(&file).expect("a readable file"));
        }
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
    fn no_script_of_messages_breaks_a_promise(script in prop::collection::vec(any::<u8>(), 0..3000)) {
        n4_sessions(&script);
    }
}
