//! `coracle`: virtual machine disks as container images, and the machines that boot from them.
//!
//! ```text
//! main ─► cli (arguments) ─► commands/VERB (one file each) ─► libraries
//!                                  └─► ui (the only place that prints) ─► terminal
//! ```
//!
//! Libraries return values; [`ui`] prints them; [`error`] turns a kind into an exit code, once, here.

mod cli;
mod commands;
mod error;
mod ui;
#[allow(dead_code, unused_imports)]
mod vm;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    ui::log(cli.verbose);
    let result = commands::run(cli.command);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            ui::failure(&e);
            error::exit_code(&e)
        }
    }
}
