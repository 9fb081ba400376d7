//! `coracle`: virtual machine disks as container images, and the VMs that boot from them.
//!
//! ```text
//! main ─► cli (arguments) ─► commands/VERB (one file each) ─► libraries
//!                                  └─► ui (the only place that prints) ─► terminal
//! ```
//!
//! `vm/` is what the verbs on VMs share. Libraries return values; [`ui`] prints them; [`error`] turns a kind into an exit code, once, here.

mod cli;
mod commands;
mod error;
mod ui;
mod vm;

use clap::{CommandFactory as _, Parser};
use std::process::ExitCode;

fn main() -> ExitCode {
    clap_complete::CompleteEnv::with_factory(cli::Cli::command).complete();
    let cli = cli::Cli::parse();
    ui::log(cli.verbose);
    let result = guard::confine::check_switch()
        .map_err(|e| cdi::Error::new(cdi::ErrorKind::Usage, e.to_string()))
        .and_then(|()| cli.command.run());
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            ui::failure(&e);
            error::exit_code(&e)
        }
    }
}
