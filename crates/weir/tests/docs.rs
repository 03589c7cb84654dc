//! The documents' commands run as they stand, and print what is shown beneath them.
//!
//! What begins with `$ ` in a block is typed into a shell, in a folder with `examples/` in it and `weir` on its path;
//! what stands beneath must be in its output, line by line, where `…` stands for lines left out. A block without a
//! command is more of what the first command printed. Commands for root are not run here: they measure, and take as
//! long as that takes. What they measured once is in `tests/golden/plan/bench`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A command and what is shown beneath it.
#[derive(Debug, Default, PartialEq)]
struct Typed {
    line: usize,
    command: String,
    shown: Vec<String>,
}

/// What is typed in a document's blocks that have no language.
fn typed(document: &str) -> Vec<Typed> {
    let (mut all, mut fence) = (Vec::<Typed>::new(), None);
    for (n, line) in document.lines().enumerate().map(|(n, line)| (n + 1, line)) {
        if let Some(language) = line.strip_prefix("```") {
            let opens = fence.is_none();
            fence = opens.then_some(language);
            if opens && language.is_empty() {
                all.push(Typed { line: n + 1, ..Typed::default() });
            }
        } else if fence == Some("") {
            let last = all.last_mut().expect("the fence began one");
            match line.strip_prefix("$ ") {
                Some(command) if last.command.is_empty() => last.command = command.to_owned(),
                Some(command) => all.push(Typed { line: n, command: command.to_owned(), ..Typed::default() }),
                // The shell would ask for more.
                None if last.command.contains("; do") && !last.command.ends_with("done") => {
                    last.command += &format!("\n{line}");
                }
                None => last.shown.push(line.trim_end().to_owned()),
            }
        }
    }
    all
}

/// Whether lines are in a text, `…` standing for any number of others; else the first that is not where it should be.
fn is_in(shown: &[String], text: &str) -> Result<(), String> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut from = 0;
    for part in shown.split(|line| line.trim() == "…").filter(|part| part.iter().any(|line| !line.is_empty())) {
        let at = lines[from..].windows(part.len()).position(|window| window.iter().eq(part.iter()));
        let Some(at) = at else {
            let missing = part.iter().find(|line| !lines[from..].contains(&line.as_str()));
            return Err(missing.unwrap_or(&part[0]).clone());
        };
        from += at + part.len();
    }
    Ok(())
}

/// Runs all of a document's commands.
fn run(document: &str) {
    let folder = std::env::temp_dir().join(format!("weir-docs-{}-{document}", std::process::id()));
    fs::create_dir_all(folder.join("bin")).unwrap();
    symlink(root().join("examples").canonicalize().unwrap(), folder.join("examples")).unwrap();
    symlink(env!("CARGO_BIN_EXE_weir"), folder.join("bin/weir")).unwrap();
    for result in ["small", "large", "many"] {
        let name = format!("{result}.json");
        fs::copy(root().join("tests/golden/plan/bench").join(&name), folder.join(&name)).unwrap();
    }
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let text = fs::read_to_string(root().join("docs").join(document)).unwrap();
    let (mut first, mut wrong, mut ran) = (None, Vec::new(), 0);
    for Typed { line, command, shown } in typed(&text) {
        if command.starts_with("sudo ") {
            continue;
        }
        let printed = if command.is_empty() {
            first.clone().expect("a command came before")
        } else {
            let mut shell = Command::new("bash");
            shell.arg("-c").arg(format!("{{ {command}\n}} 2>&1")).current_dir(&folder).env("PATH", &path);
            let out = shell.env("TMPDIR", &folder).output().expect("bash runs");
            ran += 1;
            String::from_utf8_lossy(&out.stdout).into_owned()
        };
        if let Err(missing) = is_in(&shown, &printed) {
            wrong.push(format!("{document}:{line}: `{command}` does not print\n  {missing}\nbut\n{printed}"));
        }
        first.get_or_insert(printed);
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(ran > 1, "{document} has commands");
}

#[test]
fn a_decision_is_walked_through_as_it_is_printed() {
    run("cloud-or-on-premise.md");
}

#[test]
fn predictions_and_published_plans_are_printed_as_told() {
    run("calibration.md");
}

#[test]
fn deployments_are_written_as_told() {
    run("deploy.md");
}

#[test]
fn blocks_are_commands_and_what_they_print() {
    let found = typed("```toml\nx = 1\n```\n```\n$ a\n$ for i in 1; do\n    b\n  done\n1\n…\n3\n```\n```\nmore\n```\n");
    let is = |line, command: &str, shown: &[&str]| Typed {
        line,
        command: command.into(),
        shown: shown.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(
        found,
        [is(5, "a", &[]), is(6, "for i in 1; do\n    b\n  done", &["1", "…", "3"]), is(14, "", &["more"]),]
    );
    let shown: Vec<String> = ["1", "…", "3"].map(str::to_owned).to_vec();
    assert_eq!(is_in(&shown, "0\n1\n2\n3\n4"), Ok(()));
    assert_eq!(is_in(&shown, "0\n3\n1\n2"), Err("3".to_owned()));
}
