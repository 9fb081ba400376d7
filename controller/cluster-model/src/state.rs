//! The PVC in which EFI variables and the TPM of a VM outlive its VMIs: how it is called and found, as upstream has it
//! ("backend storage").

/// How its name begins, and the label that says whose it is.
pub const STATE_FOR: &str = "persistent-state-for";
/// What it asks for.
pub const SIZE: &str = "10Mi";

/// Where a launcher sees it, and what is where in it: the variables as `nvram/DOMAIN_VARS.fd`, the TPM as
/// `swtpm/UUID/tpm2`.
pub const MOUNT: &str = "/var/run/kubevirt-private/vm-state";
/// The folder of the variables in it.
pub const VARIABLES: &str = "nvram";
/// The folder of TPMs in it.
pub const TPM: &str = "swtpm";
