//! The verb `console`.

use super::args::VmiArg;
use crate::error::{ErrorKind, Result};
use crate::terminal;
use crate::ui;
use crate::virt::client::Cluster;
use crate::virt::console::Console;
use std::time::Duration;

/// Connect the terminal to the serial console of a VMI; Ctrl-] leaves it
///
/// A console that breaks is opened again while the VM runs or restarts.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    vmi: VmiArg,

    /// Minutes to wait until the VMI runs
    #[arg(long, value_name = "MINUTES", default_value_t = 5)]
    timeout: u32,

    /// Watch the console without typing; another client keeps the keyboard
    #[arg(long)]
    read_only: bool,
}

pub(super) async fn run(args: &Args, cluster: &Cluster) -> Result<()> {
    ui::on_signal(|| {
        terminal::restore();
        ui::leave(i32::from(crate::error::code_of(ErrorKind::Interrupted)));
    })?;
    let console = Console {
        name: args.vmi.name.clone(),
        timeout: Duration::from_secs(u64::from(args.timeout) * 60),
        read_only: args.read_only,
    };
    console.attach(cluster).await
}
