//! What the documents point at is there: the tests that SPECIFICATION.md names beside its promises, and all links.

use std::fs;
use std::path::{Path, PathBuf};

fn house() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// `a/{b,c}` stands for `a/b` and `a/c`.
fn each(text: &str) -> Vec<String> {
    match text.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (list, after))) => {
            list.split(',').flat_map(|one| each(&format!("{before}{one}{after}"))).collect()
        }
        None => vec![text.to_owned()],
    }
}

/// Whether a folder has an entry of that name; a `*` in it stands for anything.
fn has_entry(path: &Path) -> bool {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return false;
    };
    let Some((start, end)) = name.split_once('*') else { return path.exists() };
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).any(|name| name.starts_with(start) && name.ends_with(end))
}

/// Whether what is named is there: `crates/X/tests/y.rs::z`, `::z` of the file named before, `golden:a/b`, `make x`, a path,
/// or a target of the fuzzer.
fn is_there(named: &str, file: &mut String) -> bool {
    if let Some(case) = named.strip_prefix("golden:") {
        let has_own = ["cmts/", "bng/"].iter().any(|gateway| case.starts_with(gateway));
        let gateway = if has_own { "tests/golden" } else { "tests/golden/upf" };
        return has_entry(&house().join(gateway).join(case));
    }
    if let Some(target) = named.strip_prefix("make ") {
        return read(&house().join("Makefile")).lines().any(|line| line.starts_with(&format!("{target}:")));
    }
    let (path, test) = named.split_once("::").unwrap_or((named, ""));
    if !path.contains('/') && !path.is_empty() {
        return house().join("fuzz/targets").join(path).with_extension("rs").exists();
    }
    if !path.is_empty() {
        path.clone_into(file);
    }
    let whole = house().join(&*file);
    whole.exists() && (test.is_empty() || read(&whole).contains(&format!("fn {test}(")))
}

#[test]
fn every_promise_names_tests_that_are_there() {
    let text = read(&house().join("SPECIFICATION.md"));
    let (mut promises, mut wrong) = (0, Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let Some((_, tests)) = line.trim_end_matches([' ', '|']).rsplit_once('|').filter(|_| line.starts_with('|'))
        else {
            continue;
        };
        if tests.trim() == "test" || tests.starts_with("---") {
            continue;
        }
        promises += 1;
        let mut file = String::new();
        let named: Vec<String> = tests.split('`').skip(1).step_by(2).flat_map(each).collect();
        if named.is_empty() {
            wrong.push(format!("line {number} names no test"));
        }
        for name in named {
            if !is_there(&name, &mut file) {
                wrong.push(format!("line {number}: there is no {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(promises > 150, "only {promises} promises were found");
}

/// All Markdown files below a folder.
fn documents_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "md"));
    files.chain(folders.iter().flat_map(|folder| documents_below(folder))).collect()
}

#[test]
fn links_lead_somewhere() {
    let top = ["README.md", "SPECIFICATION.md", "CONTRIBUTING.md"].map(|name| house().join(name));
    let (mut links, mut wrong) = (0, Vec::new());
    for document in documents_below(&house().join("docs")).into_iter().chain(top) {
        for (to, _) in read(&document).split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let path = to.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            links += 1;
            if !document.with_file_name(path).exists() {
                wrong.push(format!("{}: {to}", document.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(links > 10, "only {links} links were found");
}

/// The names of all reasons for drops, as the crates declare them: `CONSTANT "name" "sentence",`.
fn reasons() -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(house().join("crates")).expect("a folder") {
        let file = entry.expect("an entry").path().join("src/drops.rs");
        let text = if file.exists() { read(&file) } else { continue };
        let name = |line: &str| Some(line.strip_prefix("    ")?.split_once(" \"")?.1.split_once("\" \"")?.0.to_owned());
        found.extend(text.lines().filter_map(name));
    }
    found
}

#[test]
fn every_drop_reason_has_a_cure() {
    let page = read(&house().join("docs/troubleshooting.md"));
    let reasons = reasons();
    assert!(reasons.len() > 70, "only {} reasons were found", reasons.len());
    let missing: Vec<_> = reasons.iter().filter(|id| !page.contains(&format!("`{id}`"))).collect();
    assert!(missing.is_empty(), "docs/troubleshooting.md does not explain {missing:?}");
}

#[test]
fn every_decision_is_listed() {
    let index = read(&house().join("docs/decisions/README.md"));
    let pages = documents_below(&house().join("docs/decisions"));
    let names = pages.iter().filter_map(|page| page.file_name()?.to_str()).filter(|name| *name != "README.md");
    let missing: Vec<&str> = names.filter(|name| !index.contains(&format!("({name})"))).collect();
    assert!(missing.is_empty(), "docs/decisions/README.md does not list {missing:?}");
}

/// Words of the first version that plain ones have replaced: no comment of a source and no page has them.
const FORMER_WORDS: [&str; 17] = [
    "packet's way",
    "whose worker is whose",
    "count has a trip",
    "ahead of use",
    "a gateway's estate",
    "bequeath",
    "no two speakers",
    "hands full",
    "none of the words there are",
    "can not be",
    "to be had",
    "ended the conversation",
    "no law goes through",
    "handed in",
    "handed out",
    "frame_slots",
    "consumed by the slow path",
];

#[test]
fn comments_and_pages_are_in_plain_language() {
    let is_source = |path: &Path| path.extension().is_some_and(|kind| kind == "rs");
    let is_page = |path: &Path| path.extension().is_some_and(|kind| kind == "md");
    // Decisions and the change log name what was before; this file lists the words.
    let left_out = ["docs/decisions", "CHANGELOG.md", "testkit/tests/promises.rs"];
    let (mut open, mut wrong, mut read_files) = (vec![house().join("crates"), house().join("docs")], Vec::new(), 0);
    open.extend(["README.md", "CONTRIBUTING.md", "SPECIFICATION.md"].map(|page| house().join(page)));
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).expect("readable").map(|entry| entry.expect("readable").path()));
            continue;
        }
        let is_left_out = left_out.iter().any(|part| path.to_string_lossy().contains(part));
        if is_left_out || !is_source(&path) && !is_page(&path) {
            continue;
        }
        read_files += 1;
        for (number, line) in (1..).zip(read(&path).lines()) {
            let said = if is_page(&path) { line } else { line.split_once("//").map_or("", |(_, comment)| comment) };
            wrong.extend(FORMER_WORDS.iter().filter(|word| said.contains(**word)).map(|word| {
                let place = path.strip_prefix(house()).unwrap_or(&path).display().to_string();
                format!("{place}:{number}: \"{word}\"")
            }));
        }
    }
    assert!(read_files > 500, "{read_files}");
    assert!(wrong.is_empty(), "former words (CONTRIBUTING.md has the rules):\n{}", wrong.join("\n"));
}
