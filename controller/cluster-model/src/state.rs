//! The PVC that keeps EFI variables and the TPM of a VM beyond its VMIs ("backend storage" upstream). Names
//! and label are upstream's.

/// Name prefix of the PVC, and its label with the name of the VM.
pub const STATE_FOR: &str = "persistent-state-for";
/// Requested size of the PVC.
pub const SIZE: &str = "10Mi";

/// Mount path in the launcher. The variables are at `nvram/DOMAIN_VARS.fd` in it, the TPM at
/// `swtpm/UUID/tpm2`.
pub const MOUNT: &str = "/var/run/kubevirt-private/vm-state";
/// Folder of the variables.
pub const VARIABLES: &str = "nvram";
/// Folder of the TPM's state.
pub const TPM: &str = "swtpm";
