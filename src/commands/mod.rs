//! One file per verb: its arguments with their help, and what it does with the libraries.

pub(crate) mod build;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod copy;
mod disk;
pub(crate) mod inspect;
mod places;
pub(crate) mod pull;
pub(crate) mod push;
mod source;
pub(crate) mod store;
mod transfer;
pub(crate) mod verify;

use crate::cli::Command;

/// Does what was asked.
pub(crate) fn run(command: Command) -> cdi::Result<()> {
    match command {
        Command::Build(args) => build::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Push(args) => push::run(&args),
        Command::Pull(args) => pull::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Tag(args) => store::tag(&args),
        Command::Images(args) => store::images(&args),
        Command::Rmi(args) => store::rmi(&args),
        Command::Prune(args) => store::prune(&args),
        Command::Completions(args) => completions::run(&args),
    }
}
