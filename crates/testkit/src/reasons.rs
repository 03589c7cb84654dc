//! A gateway's tables of reasons for drops and punts.

use std::collections::HashSet;

use engine::{Kind, Reason};

/// Asserts that a gateway's reasons have names of their own and sentences, and numbers without gaps.
pub fn judge<K: Kind>() {
    let drops = K::DROPS.concat();
    let punts = K::PUNTS.concat();
    check(&drops, |id| id.number());
    check(&punts, |id| id.number());
}

fn check<T: Copy>(all: &[Reason<T>], number: impl Fn(T) -> usize) {
    assert!(!all.is_empty());
    let mut seen = HashSet::new();
    for (n, reason) in all.iter().enumerate() {
        let (name, sentence) = (reason.name(), reason.sentence());
        assert_eq!(number(reason.id), n, "{name} is not at its place");
        assert!(seen.insert(name), "{name} twice");
        assert!(sentence.ends_with('.') && sentence.len() > 15, "{name}: {sentence}");
    }
}
