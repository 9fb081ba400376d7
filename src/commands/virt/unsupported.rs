//! Verbs of virtctl that are not supported yet. They fail with a message and an exit code of their own.

use crate::error::{Error, ErrorKind, Result};

/// Arguments of an unsupported verb, which are ignored.
#[derive(Debug, clap::Args)]
pub(super) struct IgnoredArgs {
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(help = "Arguments and flags as virtctl takes them; none is read")]
    all: Vec<String>,
}

/// Not supported yet: export the volumes of a VM
#[derive(Debug, clap::Args)]
pub(super) struct VmExportArgs {
    #[command(flatten)]
    ignored: IgnoredArgs,
}

/// Not supported yet: open a shell with libguestfs on a PVC
#[derive(Debug, clap::Args)]
pub(super) struct GuestFsArgs {
    #[command(flatten)]
    ignored: IgnoredArgs,
}

/// Not supported yet: redirect a USB device to a VMI
#[derive(Debug, clap::Args)]
pub(super) struct UsbRedirArgs {
    #[command(flatten)]
    ignored: IgnoredArgs,
}

/// Not supported yet: process, create and convert templates of VMs
#[derive(Debug, clap::Args)]
pub(super) struct TemplateArgs {
    #[command(flatten)]
    ignored: IgnoredArgs,
}

/// Message for an unsupported verb, and a hint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsupported(&'static str, &'static str);

impl VmExportArgs {
    pub(super) const UNSUPPORTED: Unsupported = Unsupported(
        "vmexport: volumes of VMs cannot be exported by this version",
        "stop the VM, and make an image of its PVC: 'coracle build -t docker://HOST/REPO:TAG pvc/NAME'",
    );
}

impl GuestFsArgs {
    pub(super) const UNSUPPORTED: Unsupported =
        Unsupported("guestfs: this version has no libguestfs image", "mount the PVC in a pod of your own");
}

impl UsbRedirArgs {
    pub(super) const UNSUPPORTED: Unsupported = Unsupported(
        "usbredir: 'coracle virt' cannot redirect USB devices",
        "use KubeVirt's own 'virtctl usbredir', which clusters of this version serve",
    );
}

impl TemplateArgs {
    pub(super) const UNSUPPORTED: Unsupported = Unsupported(
        "template: there are no templates of VMs in this version",
        "print a manifest by 'create vm', and vary it with kustomize or Helm",
    );
}

impl Unsupported {
    /// Fails with the message.
    pub(super) fn refuse(self, IgnoredArgs { all: _ }: &IgnoredArgs) -> Result<()> {
        Err(Error::new(ErrorKind::Refused, self.0).with_hint(self.1))
    }
}

macro_rules! refusals {
    ($($verb:ident),+) => {
        $(impl $verb {
            pub(super) fn refuse(&self) -> Result<()> {
                Self::UNSUPPORTED.refuse(&self.ignored)
            }
        })+
    };
}
refusals!(VmExportArgs, GuestFsArgs, UsbRedirArgs, TemplateArgs);
