//! `virt-launcher`: runs one VM, with libvirt inside.
//!
//! ```text
//!  virt-launcher run --root DIR --socket PATH     runs one VM; requests come through the socket
//!  virt-launcher console                          joins the terminal to the VM's serial console
//!  virt-launcher probe -- COMMAND                 asks the guest for a probe of the pod; --ping asks the guest agent alone
//!  virt-launcher freeze, thaw                     freezes and thaws the guest's file systems, for a backup
//!  virsh …                                        the same program by that name: see virsh
//!  /etc/libvirt/hooks/qemu …                      the same program by that name: see launcher::hypervisor::receiver::hook
//!  passt …                                        the same program by that name: see launcher::hypervisor::passt
//!  virt-launcher node-info                        prints the capabilities of this host as JSON
//! ```
//!
//! The only program that links libvirt. One thread runs everything that waits, one runs libvirt's events, and a few more
//! exist only while a call blocks.

mod args;
mod ask;
mod console;
mod init;
mod libvirt;
mod memory;
mod node;
mod probe;
mod quiesce;
mod remains;
mod run;
mod virsh;

use clap::Parser;
use launcher::error::{Error, Result};
use launcher::hypervisor::receiver::hook;
use launcher::hypervisor::{embed, passt};
use launcher::root::Root;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if passt::is_meant(&words) {
        // libvirt reports the output of a program that fails to start.
        drop(writeln!(std::io::stderr(), "{}", passt::enter(&words).chain()));
        return ExitCode::FAILURE;
    }
    if hook::is_meant(&words) {
        return match hook::run(&words) {
            Ok(()) => ExitCode::SUCCESS,
            // libvirt passes it on to the source of the migration.
            Err(e) => {
                drop(writeln!(std::io::stderr(), "{}", e.chain()));
                ExitCode::FAILURE
            }
        };
    }
    if virsh::is_meant(&words) {
        return virsh::run(&words);
    }
    let args = args::Args::parse();
    let log = tracing_subscriber::EnvFilter::try_from_env("CORACLE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let entries = || printable::Entries(std::io::stderr());
    let log = tracing_subscriber::fmt().with_env_filter(log).with_writer(entries).with_ansi(false);
    // An entry that cannot be written, on a full disk, is lost. To tell that on the same file would end the thread.
    log.log_internal_errors(false).init();
    let done = match args.command {
        args::Command::Run(args) => match init::split() {
            Ok(Some(ended)) => return ended,
            Ok(None) => run::run(&args),
            Err(e) => Err(e),
        },
        args::Command::Console(args) => console::run(&args),
        args::Command::Probe(args) => return ExitCode::from(ask::run(&args)),
        args::Command::Freeze(args) => quiesce::freeze(&args),
        args::Command::Thaw(args) => quiesce::thaw(&args),
        args::Command::NodeInfo(args) => node::run(&args),
        args::Command::ProbeKvm => {
            probe::kvm::run();
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tracing::error!("{}", e.chain());
            ExitCode::FAILURE
        }
    }
}

/// Sets the environment of libvirt's driver in this process, before the first thread starts.
#[allow(unsafe_code)] // the environment of this process
fn surroundings(root: &Root) -> Result<()> {
    embed::ready(root).map_err(|e| Error::io("cannot write libvirt's settings", e))?;
    for (name, value) in embed::environment(root) {
        // SAFETY: this process has one thread still.
        unsafe { std::env::set_var(name, value) };
    }
    Ok(())
}
