//! Mistakes in a cable gateway's file, as an operator sees them: file, line, key, what is wrong, what would be right.

use gateway::load::Text;

use super::*;

const EXAMPLE: &str = include_str!("../../../../examples/cmts.toml");

/// What is said of the example with `from` replaced by `to`, once.
fn said(from: &str, to: &str) -> String {
    assert!(EXAMPLE.contains(from), "{from}");
    let text = EXAMPLE.replacen(from, to, 1);
    match Loaded::of(Text { name: "cable.toml".into(), text }) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{to} was taken"),
    }
}

/// The line in which `what` stands first in the example with `from` replaced by `to`, from 1.
fn line(from: &str, to: &str, what: &str) -> usize {
    let text = EXAMPLE.replacen(from, to, 1);
    1 + text.lines().position(|line| line.contains(what)).expect("it stands there")
}

#[test]
fn mistakes_of_classifiers_name_file_line_and_key() {
    for (from, to, words) in [
        (
            "priority = 50",
            "priority = 300",
            "classifiers.0.rule.0.priority: 300 is no priority of a classifier; 0 to 255",
        ),
        ("priority = 50", "priority = -1", "priority: "),
        ("priority = 50", "position = 1", "unknown key `position`"),
        (
            "flow = \"voice\"",
            "flow = \"vocie\"",
            "classifiers.0.rule.0.flow: no profile with these classifiers has a service flow \"vocie\"",
        ),
        (
            "tos = [0xb8, 0xb8, 0xfc]",
            "tos = [0xb8, 0x00, 0xfc]",
            "classifiers.0.rule.0.tos: matches nothing; [low, high, mask]",
        ),
    ] {
        let (told, at) = (said(from, to), line(from, to, to));
        assert!(told.starts_with(&format!("cable.toml:{at}: ")) && told.contains(words), "line {at}: {told}");
    }
}

#[test]
fn a_classifier_that_is_never_asked_is_shown_where_it_stands() {
    let again = "[[classifiers.rule]]\npriority = 50\nflow = \"best-effort\"\ntos = [0xb8, 0xb8, 0xfc]\n\n[[profile]]";
    let told = said("[[profile]]", again);
    let second = line("[[profile]]", again, "flow = \"best-effort\"") - 1;
    assert!(told.starts_with(&format!("cable.toml:{second}: classifiers.0.rule.1.priority: ")), "{told}");
    assert!(told.contains("rule 1 matches what rule 0 does, at the same priority"), "{told}");
}

#[test]
fn mistakes_of_patterns_name_the_modem() {
    let told = said("profile = \"home\"", "profile = \"hme\"");
    let at = line("profile = \"home\"", "profile = \"hme\"", "profile = \"hme\"");
    assert!(
        told.starts_with(&format!("cable.toml:{at}: service_group.0.modem.0.profile: modem 02:cb:00:00:00:01: ")),
        "{told}"
    );
}
