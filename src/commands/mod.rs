//! One file per verb: its arguments with their help, and what it does with the libraries.

pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod inspect;
mod source;

use crate::cli::Command;

/// Does what was asked.
pub(crate) fn run(command: Command) -> cdi::Result<()> {
    match command {
        Command::Convert(args) => convert::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}
