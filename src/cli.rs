//! The command line. Help texts are the doc comments; each verb's arguments stand in its own file.

use crate::commands;
use clap::{Parser, Subcommand};

/// Virtual machine disks as container images, and the VMs that boot from them
#[derive(Debug, Parser)]
#[command(name = "coracle", version = VERSION, max_term_width = 80, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 refused input, 4 not found,\n\
    5 authentication, 130 interrupted.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Increase log verbosity (-vv: maximum); RUST_LOG overrides it
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("CORACLE_COMMIT"), ")");

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(hide = true)]
    Apart(commands::apart::Args),
    Build(Box<commands::build::Args>),
    Convert(Box<commands::convert::Args>),
    Inspect(Box<commands::inspect::Args>),
    Push(commands::push::Args),
    Pull(commands::pull::Args),
    Copy(commands::copy::Args),
    Verify(Box<commands::verify::Args>),
    Tag(commands::store::TagArgs),
    Images(commands::store::ImagesArgs),
    Rmi(commands::store::RmiArgs),
    Prune(commands::store::PruneArgs),
    Run(Box<commands::run::Args>),
    Test(Box<commands::test::Args>),
    Ps(commands::ps::Args),
    Console(commands::console::Args),
    Logs(commands::logs::Args),
    Vnc(commands::vnc::Args),
    Ssh(commands::guest::SshArgs),
    Exec(commands::guest::ExecArgs),
    Stop(commands::power::StopArgs),
    Kill(commands::power::KillArgs),
    Restart(commands::power::RestartArgs),
    Pause(commands::power::PauseArgs),
    Unpause(commands::power::UnpauseArgs),
    Rm(commands::power::RmArgs),
    Status(commands::ps::StatusArgs),
    Host(commands::host::Args),
    Manifests(commands::manifests::Args),
    Completions(commands::completions::Args),
}
