//! `virt-launcher`: one virtual machine, with libvirt inside.
//!
//! ```text
//!  virt-launcher run --root DIR --socket PATH     runs one machine; told what to do through the socket
//!  virt-launcher node-info                        says what this host can do, as JSON
//! ```
//!
//! The only program that links libvirt. One thread runs everything that waits, one runs libvirt's events, and a few come
//! and go for what blocks.

mod args;
mod libvirt;
mod run;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let log = tracing_subscriber::EnvFilter::try_from_env("CORACLE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(log).with_writer(std::io::stderr).with_ansi(false).init();
    let done = match args.command {
        args::Command::Run(args) => run::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{}", launcher::error::chain(&e));
            ExitCode::FAILURE
        }
    }
}
