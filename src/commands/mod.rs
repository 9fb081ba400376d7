//! One file per verb: its arguments with their help, and what it does with the libraries.

pub(crate) mod apart;
pub(crate) mod build;
pub(crate) mod completions;
pub(crate) mod console;
pub(crate) mod convert;
pub(crate) mod copy;
mod disk;
pub(crate) mod guest;
pub(crate) mod host;
pub(crate) mod inspect;
pub(crate) mod logs;
mod machine;
pub(crate) mod manifests;
mod places;
pub(crate) mod power;
pub(crate) mod ps;
pub(crate) mod pull;
pub(crate) mod push;
pub(crate) mod run;
mod source;
pub(crate) mod store;
pub(crate) mod test;
mod transfer;
pub(crate) mod verify;
pub(crate) mod vnc;

use crate::cli::Command;

/// Does what was asked.
pub(crate) fn run(command: Command) -> cdi::Result<()> {
    match command {
        Command::Apart(args) => apart::run(&args),
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
        Command::Run(args) => run::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Ps(args) => ps::run(&args),
        Command::Console(args) => console::run(&args),
        Command::Logs(args) => logs::run(&args),
        Command::Vnc(args) => vnc::run(&args),
        Command::Ssh(args) => guest::ssh(&args),
        Command::Exec(args) => guest::exec(&args),
        Command::Stop(args) => power::stop(&args),
        Command::Kill(args) => power::kill(&args),
        Command::Restart(args) => power::restart(&args),
        Command::Pause(args) => power::pause(&args),
        Command::Unpause(args) => power::unpause(&args),
        Command::Rm(args) => power::rm(&args),
        Command::Status(args) => ps::status(&args),
        Command::Host(args) => host::run(&args),
        Command::Manifests(args) => manifests::run(&args),
        Command::Completions(args) => completions::run(&args),
    }
}
