//! `weir reload`.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use super::{Effect, ReloadView};
use crate::cli::At;
use crate::fail::{RestartNeeded, Usage};
use crate::socket::{Client, ClientError, Reply, Request};
use crate::tables::many;

/// `weir reload`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir reload --check          what would change: key, value that runs, value in the file
  weir reload                  apply it
  weir reload east             the gateway with the control socket /run/weir/east.sock

Sessions and packets are not touched. A file with an error is refused as a whole. SIGHUP does the
same; the result is the event config_reloaded or config_refused. docs/reload.md has the keys.

Exit codes:
  0  applied, or nothing differs      1  no gateway answers
  2  refused: nothing has changed     3  a changed key needs a restart; all others are applied")]
pub struct ReloadArgs {
    /// The gateway's name: its control socket is /run/weir/NAME.sock.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Show the differences, apply nothing.
    #[arg(long)]
    pub check: bool,
    /// Where it runs, how to print.
    #[command(flatten)]
    pub at: At,
}

/// Has a gateway read its configuration again.
///
/// # Errors
/// No gateway runs there, the configuration is refused, or a changed key needs a restart.
pub fn reload(args: &ReloadArgs) -> anyhow::Result<()> {
    let named = args.name.as_ref().map(|name| PathBuf::from(format!("/run/weir/{name}.sock")));
    let mut client = Client::connect(named.as_ref().unwrap_or(&args.at.socket))?;
    let view = match client.ask(&Request::Reload { check: args.check }) {
        Ok(Reply::Reload(view)) => view,
        Ok(_) => bail!("the running weir answered something else; are they of different versions?"),
        Err(ClientError::Said(refused)) => bail!(Usage(format!("nothing has changed: {refused}"))),
        Err(error) => bail!(error),
    };
    args.at.json.print(&view, || text(&view))?;
    match view.count(Effect::Restart) {
        0 => Ok(()),
        keys => bail!(RestartNeeded(keys)),
    }
}

fn text(view: &ReloadView) -> String {
    if view.changes.is_empty() {
        return format!("{}: nothing differs from what runs\n", view.file);
    }
    let mut out = String::new();
    for change in &view.changes {
        let line = change.line.map_or_else(String::new, |line| format!(":{line}"));
        out += &format!("{}{line}: {change}\n", view.file);
    }
    let (live, verb) = (view.count(Effect::Live), if view.check { "would be applied" } else { "applied" });
    out + &format!("{} {verb}\n", many(live, "change"))
}
