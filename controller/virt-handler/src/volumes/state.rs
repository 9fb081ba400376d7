//! Folders for EFI variables and the TPM in the PVC that keeps them after the VMI, with upstream's names:
//!
//! ```text
//!  nvram/NAMESPACE_NAME_VARS.fd        swtpm/UUID/tpm2/
//! ```
//!
//! The content of the PVC is the tenant's, and may be hostile: no file of it is opened here, and a link or a
//! file in place of a folder is refused. The launcher reads the files with its own rights.

use super::Parts;
use crate::error::{Error, Result};
use api::launcher::StatePlace;
use cluster_model::state::{TPM, VARIABLES};
use std::path::Path;

impl Parts<'_> {
    /// Prepares the place of the persistent state; `None` if the VMI keeps none.
    pub(super) fn state(&self) -> Result<Option<StatePlace>> {
        if !self.machine.keeps_state() {
            return Ok(None);
        }
        self.refuse_shared_state()?;
        let mount = self.layout().state.as_deref().ok_or_else(|| self.not_there("vm-state"))?;
        let folder = self.open_mount(mount)?.alone()?;
        self.refuse_host_disk(&folder, "for EFI variables and the TPM")?;
        let tpm = format!("{TPM}/{}/tpm2", self.machine.firmware.uuid);
        for path in [VARIABLES, tpm.as_str()] {
            folder.create_all(path).map_err(|e| {
                let what = "the PVC for EFI variables and the TPM of the VM cannot be used";
                Error::new(e.kind(), what).because(e)
            })?;
        }
        let variables = format!("{VARIABLES}/{}_VARS.fd", self.machine.domain_name());
        let mount = Path::new(mount);
        Ok(Some(StatePlace { variables: mount.join(variables), tpm: mount.join(tpm) }))
    }

    /// A guest that migrates here brings its state along into a PVC of its own: the one at its source is in use. An older virt-controller
    /// creates none.
    fn refuse_shared_state(&self) -> Result<()> {
        let status = self.vmi.status.as_ref();
        let mut migrated = status.into_iter().flat_map(|status| &status.migrated_volumes);
        if !self.receives || migrated.any(|one| !self.machine.has_disk(&one.volume_name)) {
            return Ok(());
        }
        Err(Error::refused(
            "virt-controller has made no PVC that EFI variables and TPM of the VM can move into: migrate the VM when the upgrade of \
             virt-controller has ended",
        ))
    }
}
