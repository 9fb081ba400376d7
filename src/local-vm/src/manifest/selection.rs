//! Choice of VMs in a manifest with several.

use super::{Located, Objects};
use crate::error::{Error, ErrorKind, Result};
use api::vmi::VirtualMachineInstance;

/// VMs of a manifest that a verb acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The only VM of the manifest; an error if there are several.
    Only,
    Named(String),
    All,
}

impl Objects {
    /// The selected VMs; `what` names the manifest in errors.
    pub fn choose(&self, what: &str, which: &Selection) -> Result<Vec<&Located<VirtualMachineInstance>>> {
        let name = |vmi: &Located<VirtualMachineInstance>| vmi.object.metadata.name.clone();
        let names: Vec<String> = self.vmis.iter().filter_map(name).collect();
        let usage = |what: String| Err(Error::new(ErrorKind::Usage, what));
        match which {
            _ if self.vmis.is_empty() => {
                let what = format!("{what} has no VirtualMachine and no VirtualMachineInstance");
                Err(Error::refused(what))
            }
            Selection::All => Ok(self.vmis.iter().collect()),
            Selection::Only if self.vmis.len() > 1 => usage(format!(
                "{what} has {} VMs: {}; choose one with --name, or start all with --all",
                names.len(),
                names.join(", ")
            )),
            // A single VM may be renamed by the flag.
            Selection::Only => Ok(self.vmis.iter().collect()),
            Selection::Named(_) if self.vmis.len() == 1 => Ok(self.vmis.iter().collect()),
            Selection::Named(wanted) => match self.vmis.iter().find(|vmi| name(vmi).as_ref() == Some(wanted))
            {
                Some(vmi) => Ok(vec![vmi]),
                None => usage(format!("{what} has no VM {wanted:?}, but {}", names.join(", "))),
            },
        }
    }
}
