//! `coracle completions`.

use crate::ui;
use cdi::Error;
use clap_complete::env::Shells;

/// The variable by which a shell asks.
pub(crate) const COMPLETE: &str = "COMPLETE";

/// Print a completion script for a shell
///
/// For bash: coracle completions bash > /etc/bash_completion.d/coracle
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell to print the completion script for
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> cdi::Result<()> {
    let shells = Shells::builtins();
    let name = args.shell.to_string();
    let shell = shells.completer(&name).ok_or_else(|| Error::failed(format!("{name} completes nothing")))?;
    let mut script = Vec::new();
    // The script asks the program itself, so that names of VMs complete too.
    shell
        .write_registration(COMPLETE, "coracle", "coracle", "coracle", &mut script)
        .map_err(|e| Error::io("cannot write the script", e))?;
    ui::out(&String::from_utf8_lossy(&script))
}
