//! The tutorial quotes the sources as they are, and the gateway is as small as it says.

use std::fs;
use std::path::{Path, PathBuf};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(here(folder)).expect("a folder").map(|entry| entry.expect("an entry").path());
    let sources = entries.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    sources.map(|path| (path.clone(), fs::read_to_string(path).expect("text"))).collect()
}

/// The blocks of that language in a page.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("\n```").next().expect("a first part")).collect()
}

#[test]
fn excerpts_are_the_sources() {
    let page = fs::read_to_string(here("README.md")).expect("the tutorial");
    let sources: Vec<_> = ["src", "tests", "tests/workload", "benches"].into_iter().flat_map(files).collect();
    let quoted = blocks(&page, "rust");
    assert!(quoted.len() > 8, "only {} excerpts", quoted.len());
    for excerpt in quoted {
        assert!(sources.iter().any(|(_, text)| text.contains(excerpt)), "no source has\n{excerpt}");
    }
}

#[test]
fn every_source_file_is_in_the_table() {
    let page = fs::read_to_string(here("README.md")).expect("the tutorial");
    for (path, _) in files("src") {
        let name = format!("`src/{}`", path.file_name().and_then(|name| name.to_str()).expect("a plain name"));
        assert!(page.contains(&name), "{name} is not in the table");
    }
}

#[test]
fn gateway_has_at_most_300_lines() {
    let lines: usize = files("src").iter().map(|(_, text)| text.lines().count()).sum();
    assert!(lines <= 300, "{lines} lines, comments and empty ones among them");
}
