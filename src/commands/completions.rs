//! `coracle completions`.

use crate::{cli::Cli, ui};
use clap::CommandFactory;

/// Print a completion script for a shell
///
/// For bash: coracle completions bash > /etc/bash_completion.d/coracle
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> cdi::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "coracle", &mut script);
    ui::out(&String::from_utf8_lossy(&script))
}
