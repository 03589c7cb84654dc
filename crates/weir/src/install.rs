//! What an installation takes beside the binary: manual pages and shell completions, made from the command line's own
//! description.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use clap_complete::Shell;

use crate::cli::Cli;

/// Completions of one shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir completions bash > /etc/bash_completion.d/weir
  weir completions zsh > /usr/local/share/zsh/site-functions/_weir
  weir completions fish > ~/.config/fish/completions/weir.fish

`make install` and the package do this for all three.")]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// Manual pages.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir man /usr/local/share/man/man1    weir.1, weir-run.1, weir-show.1, …
  weir man /tmp/man && man /tmp/man/weir-bench.1

`make install` and the package do this.")]
pub struct ManArgs {
    /// Folder to write to; it is made where there is none.
    folder: PathBuf,
}

/// Writes the completions to the standard output.
///
/// # Errors
/// It cannot be written to.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::of_all(), "weir", &mut out);
    Ok(io::stdout().write_all(&out)?)
}

/// Writes a manual page for weir and one for each command.
///
/// # Errors
/// The folder cannot be written to.
pub fn man(args: &ManArgs) -> anyhow::Result<()> {
    let at = || format!("{} cannot be written to", args.folder.display());
    fs::create_dir_all(&args.folder).with_context(at)?;
    clap_mangen::generate_to(Cli::of_all().disable_help_subcommand(true), &args.folder).with_context(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_manual_page() {
        let folder = std::env::temp_dir().join(format!("weir-man-{}", std::process::id()));
        man(&ManArgs { folder: folder.clone() }).unwrap();
        let page = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(page("weir.1").contains("weir\\-run(1)"), "{}", page("weir.1"));
        assert!(page("weir-show.1").contains(".SH SYNOPSIS"));
        for command in Cli::of_all().get_subcommands() {
            let name = format!("weir-{}.1", command.get_name());
            assert!(page(&name).contains(".SH NAME"), "{name}");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
