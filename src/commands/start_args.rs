//! Arguments for the start of a VM.

use super::registry_args::RegistryArgs;
use super::vm_args::{HomeArgs, LauncherArgs};
use api::launcher::Forward;
use local_vm::resolve::accelerator;
use local_vm::resolve::image::Policy;
use local_vm::resolve::network;
use std::path::PathBuf;

/// Accelerator that the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum AcceleratorChoice {
    /// KVM if it boots kernels, else emulation.
    Auto,
    /// KVM, without a probe.
    Kvm,
    /// Emulation by QEMU (TCG).
    Emulation,
}

impl From<AcceleratorChoice> for accelerator::Choice {
    fn from(choice: AcceleratorChoice) -> accelerator::Choice {
        match choice {
            AcceleratorChoice::Auto => accelerator::Choice::Auto,
            AcceleratorChoice::Kvm => accelerator::Choice::Kvm,
            AcceleratorChoice::Emulation => accelerator::Choice::Emulation,
        }
    }
}

/// Options for the start of a VM, shared by `run` and `test`.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    /// Name of the VM [default: from the manifest, or derived from SRC]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,

    /// Forward a port to the guest: HOST:GUEST or ADDRESS:HOST:GUEST, and /udp
    #[arg(short, long = "publish", value_name = "PORTS", value_parser = network::new_forward)]
    pub(super) publish: Vec<Forward>,

    /// Forward the ports of the interfaces in the manifest, too
    #[arg(short = 'P', long)]
    pub(super) publish_all: bool,

    /// Accelerator of the VM
    #[arg(long, value_enum, default_value = "auto", value_name = "HOW")]
    pub(super) accel: AcceleratorChoice,

    /// Program that changes the libvirt domain before each start: it is called
    /// with --vmi JSON and --domain XML, and prints the domain (repeatable)
    #[arg(long = "hook", value_name = "FILE", value_hint = clap::ValueHint::ExecutablePath)]
    pub(super) hooks: Vec<PathBuf>,

    /// Image pull policy [default: from the manifest]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(super) pull: Option<Pull>,

    /// Hide the progress bar
    #[arg(short, long)]
    pub(super) quiet: bool,

    #[command(flatten)]
    pub(super) home: HomeArgs,

    #[command(flatten)]
    pub(super) launcher: LauncherArgs,

    #[command(flatten)]
    pub(super) places: RegistryArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Pull {
    Always,
    Missing,
    Never,
}

impl Pull {
    pub(super) fn policy(self) -> Policy {
        match self {
            Pull::Always => Policy::Always,
            Pull::Missing => Policy::IfNotPresent,
            Pull::Never => Policy::Never,
        }
    }
}
