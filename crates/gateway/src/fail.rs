//! How a command ends: exit codes, and errors as people see them.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use crate::load::LoadError;

/// The command line or a configuration is wrong.
const USAGE: u8 = 2;
/// A changed key of the configuration needs a restart.
const RESTART: u8 = 3;

/// Prints what went wrong, if anything did, and gives the exit code: 0 all well, 1 failure, 2 a wrong command line or
/// configuration, 3 a reload that left out keys which need a restart.
pub fn exit(done: anyhow::Result<()>) -> ExitCode {
    let Err(error) = done else { return ExitCode::SUCCESS };
    if is_broken_pipe(&error) {
        return ExitCode::SUCCESS;
    }
    match error.chain().find_map(|cause| cause.downcast_ref::<LoadError>()) {
        Some(LoadError::Wrong(wrong)) => {
            let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            eprint!("{}", wrong.drawn(colour, 100));
            ExitCode::from(USAGE)
        }
        Some(other) => {
            eprintln!("weir: {other}");
            ExitCode::from(USAGE)
        }
        None if error.is::<Usage>() => {
            eprintln!("weir: {error}");
            ExitCode::from(USAGE)
        }
        None if error.is::<RestartNeeded>() => {
            eprintln!("weir: {error}");
            ExitCode::from(RESTART)
        }
        None => {
            eprintln!("weir: {}", sentence(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, each said once: many errors quote their cause.
fn sentence(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said += &format!(": {cause}");
        }
    }
    said
}

/// Options that contradict each other, in a sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// So many changed keys of a configuration take effect with a restart only.
#[derive(Debug, thiserror::Error)]
#[error("changed keys that need a restart, not applied: {0}")]
pub struct RestartNeeded(pub usize);

/// Whoever read our output has seen enough.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(broken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let error = |text: &str| anyhow::anyhow!(text.to_owned());
        assert_eq!(sentence(&error("no memory").context("starting")), "starting: no memory");
        assert_eq!(
            sentence(&error("no memory").context("starting: no memory; add some")),
            "starting: no memory; add some"
        );
    }
}
