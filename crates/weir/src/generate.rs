//! stub
use clap::Args;
/// `weir gen`.
#[derive(Debug, Args)]
#[command(after_help = "weir gen")]
pub struct GenArgs {}
pub fn run(_args: &GenArgs) -> anyhow::Result<()> {
    Ok(())
}
