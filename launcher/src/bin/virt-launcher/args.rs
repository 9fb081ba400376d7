//! The command line.

use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// One virtual machine, with libvirt inside.
#[derive(Debug, Parser)]
#[command(name = "virt-launcher", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one machine, which is named through the socket
    Run(Run),
    /// Join the terminal to the machine's serial console; Ctrl-] leaves it
    Console(Console),
    /// Ask the guest for a probe of the pod: its agent, or a program in it
    Probe(Probe),
    /// Say what this host can do, as JSON
    NodeInfo(NodeInfo),
    /// The child that `node-info` starts
    #[command(hide = true)]
    ProbeKvm,
}

/// Say what this host can do, as JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeInfo {
    /// Where what libvirt found out about this host is kept for the next machine
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Write the JSON to this file, which appears whole or not at all
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Join the terminal to the machine's serial console.
#[derive(Debug, clap::Args)]
pub(crate) struct Console {
    /// Where the launcher listens
    #[arg(long, value_name = "PATH", default_value = "/var/run/kubevirt/sockets/launcher-sock")]
    pub(crate) socket: PathBuf,
    /// Only look: what is typed goes nowhere
    #[arg(long)]
    pub(crate) read: bool,
    /// Type instead of whoever types there now, who is sent away
    #[arg(long, conflicts_with = "read")]
    pub(crate) take: bool,
}

/// Ask the guest for a probe of the pod.
#[derive(Debug, clap::Args)]
pub(crate) struct Probe {
    /// Where the launcher listens
    #[arg(long, value_name = "PATH", default_value = "/var/run/kubevirt/sockets/launcher-sock")]
    pub(crate) socket: PathBuf,
    /// How long the guest may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    pub(crate) timeout: u64,
    /// Ask whether the guest's agent answers
    #[arg(long, required_unless_present = "command", conflicts_with = "command")]
    pub(crate) ping: bool,
    /// A program in the guest, and its arguments; its exit code is ours
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Run one machine, which is named through the socket.
#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// The folder that holds all of the machine; a new launcher on the same folder takes a running machine over
    #[arg(long, value_name = "DIR")]
    pub(crate) root: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: PathBuf,
    /// Speak to this libvirt instead of running it inside
    #[arg(long, value_name = "URI")]
    pub(crate) libvirt_uri: Option<String>,
    /// Where what libvirt found out about this host is kept for the next machine
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// End when the machine has ended
    #[arg(long)]
    pub(crate) once: bool,
    /// End when standard input, a pipe, ends before a machine was named: whoever would have named it is gone
    #[arg(long)]
    pub(crate) lifeline: bool,
}
