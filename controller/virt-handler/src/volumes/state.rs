//! Folders for EFI variables and the TPM in the PVC in which those outlive the VMI, by upstream's names:
//!
//! ```text
//!  nvram/NAMESPACE_NAME_VARS.fd        swtpm/UUID/tpm2/
//! ```
//!
//! The content of the PVC is the tenant's, and may be hostile: nothing of it is opened here, and a link or a file in the
//! place of a folder is refused. What is in the folders, the launcher reads with its own rights.

use super::Parts;
use crate::error::{Error, Result};
use api::launcher::StatePlace;
use cluster_model::state::{TPM, VARIABLES};
use std::path::Path;

impl Parts<'_> {
    /// Where what outlives the VMI is kept, made ready.
    pub(super) fn state(&self) -> Result<Option<StatePlace>> {
        if !self.machine.keeps_state() {
            return Ok(None);
        }
        let mount = self.layout().state.as_deref().ok_or_else(|| self.not_there("vm-state"))?;
        let folder = self.mounted(mount)?.alone()?;
        self.is_no_host_disk(&folder, "for EFI variables and the TPM")?;
        let tpm = format!("{TPM}/{}/tpm2", self.machine.firmware.uuid);
        for path in [VARIABLES, tpm.as_str()] {
            folder.made(path).map_err(|e| {
                let what = "the PVC for EFI variables and the TPM of the VM cannot be used";
                Error::new(e.kind(), what).because(e)
            })?;
        }
        let variables = format!("{VARIABLES}/{}_VARS.fd", self.machine.domain_name());
        let mount = Path::new(mount);
        Ok(Some(StatePlace { variables: mount.join(variables), tpm: mount.join(tpm) }))
    }
}
