//! `coracle`: virtual machine disks as container images, and the VMs that boot from them.
//!
//! ```text
//!  main ─► cli (arguments) ─► commands/VERB (one file each) ─► libraries
//!                                   └─► ui (the only place that prints) ─► terminal
//! ```
//!
//! Verbs on VMs of this computer share the library `local-vm`, those on VMs of a cluster `virt/`. Called as
//! `virtctl` or `kubectl-virt`, the program consists of the verb `virt` alone. [`verbs`] builds the arguments
//! of the used verb alone. Libraries return values; [`ui`] prints them; [`error`] turns a kind into an exit
//! code, once, here.

mod allocator;
mod cli;
mod commands;
mod console;
mod error;
mod flag_spelling;
mod output_file;
mod page;
mod relative_time;
mod relay;
mod terminal;
mod ui;
mod verbs;
mod virt;
mod vm_disk;

use crate::error::{Error, ErrorKind, Result};
use clap::{CommandFactory as _, Parser as _};
use std::process::ExitCode;

fn main() -> ExitCode {
    allocator::return_large_buffers();
    local_vm::disk_files::protect_disks();
    let result = match commands::virt::called(std::env::args_os().next().as_deref()) {
        Some(name) => commands::virt::main(&name),
        None => coracle(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            ui::failure(&e);
            error::exit_code(&e)
        }
    }
}

fn coracle() -> Result<()> {
    clap_complete::CompleteEnv::with_factory(cli::Cli::command).complete();
    let line = flag_spelling::completed(std::env::args_os());
    let cli = verbs::parsed(cli::by_name(), line.clone());
    let cli =
        cli.unwrap_or_else(|| cli::Cli::try_parse_from(line).unwrap_or_else(|e| cli::with_tips(e).exit()));
    ui::log(cli.log.verbose);
    guard::confine::check_switch()
        .map_err(|e| Error::new(ErrorKind::Usage, e.to_string()))
        .and_then(|()| cli.command.run())
}
