//! The verb `coracle completions`.

use crate::error::Error;
use crate::ui;
use clap_complete::env::Shells;

/// Environment variable by which a shell requests completions.
pub(crate) const COMPLETE: &str = "COMPLETE";

/// Print a completion script for a shell
///
/// For bash: coracle completions bash > /etc/bash_completion.d/coracle
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell to print the completion script for
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> crate::error::Result<()> {
    print(&args.shell.to_string(), "coracle")
}

/// Prints the script by which a shell completes the arguments of a program.
pub(crate) fn print(shell: &str, program: &str) -> crate::error::Result<()> {
    let shells = Shells::builtins();
    let found = shells.completer(shell).ok_or_else(|| Error::failed(format!("{shell} completes nothing")))?;
    let mut script = Vec::new();
    // The script calls the program itself, so that names of VMs are completed too.
    found
        .write_registration(COMPLETE, program, program, program, &mut script)
        .map_err(|e| Error::io("cannot write the script", e))?;
    ui::out(&String::from_utf8_lossy(&script))
}
