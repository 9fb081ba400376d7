//! The command line.

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Run one VM, with libvirt inside this process.
#[derive(Debug, Parser)]
#[command(name = "virt-launcher", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one VM; the VM is handed over through the socket
    Run(Run),
    /// Join the terminal to the VM's serial console; Ctrl-] leaves it
    Console(Console),
    /// Ask the guest for a probe of the pod: the guest agent, or a program in the guest
    Probe(Probe),
    /// Freeze the file systems of the guest, for a backup; without a guest agent nothing is done
    Freeze(Freeze),
    /// Thaw the file systems of the guest; without a guest agent nothing is done
    Thaw(Thaw),
    /// Print the capabilities of this host as JSON
    NodeInfo(NodeInfo),
    /// Child process of `node-info`
    #[command(hide = true)]
    ProbeKvm,
}

/// Print the capabilities of this host as JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeInfo {
    /// Folder with libvirt's cache of host capabilities, kept for the next VM
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Write the JSON to this file, which appears whole or not at all
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Join the terminal to the VM's serial console.
#[derive(Debug, clap::Args)]
pub(crate) struct Console {
    /// Socket of the launcher
    #[arg(long, value_name = "PATH", default_value = "/var/run/kubevirt/sockets/launcher-sock")]
    pub(crate) socket: PathBuf,
    /// Only read: typed keys are dropped
    #[arg(long)]
    pub(crate) read: bool,
    /// Take the keyboard from another client that types now
    #[arg(long, conflicts_with = "read")]
    pub(crate) take: bool,
}

/// Freeze the file systems of the guest.
#[derive(Debug, clap::Args)]
pub(crate) struct Freeze {
    /// Socket of the launcher
    #[arg(long, value_name = "PATH", default_value = "/var/run/kubevirt/sockets/launcher-sock")]
    pub(crate) socket: PathBuf,
    /// Seconds after which the launcher thaws the file systems by itself, if no thaw comes before
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) thaw_after: u64,
}

/// Thaw the file systems of the guest.
#[derive(Debug, clap::Args)]
pub(crate) struct Thaw {
    /// Socket of the launcher
    #[arg(long, value_name = "PATH", default_value = "/var/run/kubevirt/sockets/launcher-sock")]
    pub(crate) socket: PathBuf,
}

/// Ask the guest for a probe of the pod.
#[derive(Debug, clap::Args)]
pub(crate) struct Probe {
    /// Socket of the launcher
    #[arg(long, value_name = "PATH", default_value = "/var/run/kubevirt/sockets/launcher-sock")]
    pub(crate) socket: PathBuf,
    /// Time limit of the probe, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    pub(crate) timeout: u64,
    /// Ask whether the guest agent answers
    #[arg(long, required_unless_present = "command", conflicts_with = "command")]
    pub(crate) ping: bool,
    /// A program in the guest and its arguments; its exit code becomes the exit code of this command
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Run one VM; the VM is handed over through the socket.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// Folder of the VM's files; a new launcher with the same folder takes a running VM over
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
    /// Socket to listen on
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// URI of a libvirt daemon, used instead of libvirt inside this process
    #[arg(long, value_name = "URI")]
    pub(crate) libvirt_uri: Option<String>,
    /// Folder with libvirt's cache of host capabilities, kept for the next VM
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// The VM that is handed over runs under another launcher: the libvirt there connects to this socket, and migrates it here
    #[arg(long, value_name = "PATH", conflicts_with = "libvirt_uri")]
    pub(crate) receive: Option<PathBuf>,
    /// End when the VM has ended
    #[arg(long)]
    pub(crate) once: bool,
    /// With --once: do not end when the VM has failed, so that its files can be looked at; a signal ends the launcher
    #[arg(long, requires = "once")]
    pub(crate) keep_after_failure: bool,
    /// File of the container's termination message: how the VM has ended is left there, for the status of the pod
    #[arg(long, value_name = "FILE")]
    pub(crate) termination_log: Option<PathBuf>,
    /// Fail at once, before a VM is taken, for tests of what comes after a launcher that fails
    #[arg(long)]
    pub(crate) simulate_crash: bool,
    /// End when standard input, a pipe, ends before a VM was handed over: the program that started the launcher is gone
    #[arg(long)]
    pub(crate) lifeline: bool,
}
