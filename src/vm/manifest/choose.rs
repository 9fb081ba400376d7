//! Choice of VMs in a manifest with several.

use super::{Objects, Written};
use api::vmi::VirtualMachineInstance;
use cdi::{Error, ErrorKind, Result};

/// VMs of a manifest that a verb acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Which {
    /// The only VM of the manifest; an error if there are several.
    Only,
    Named(String),
    All,
}

impl Objects {
    /// The selected VMs; `what` names the manifest in errors.
    pub(crate) fn choose(&self, what: &str, which: &Which) -> Result<Vec<&Written<VirtualMachineInstance>>> {
        let name = |vmi: &Written<VirtualMachineInstance>| vmi.object.metadata.name.clone();
        let names: Vec<String> = self.vmis.iter().filter_map(name).collect();
        let usage = |what: String| Err(Error::new(ErrorKind::Usage, what));
        match which {
            _ if self.vmis.is_empty() => {
                let what = format!("{what} has no VirtualMachine and no VirtualMachineInstance");
                Err(Error::refused(what))
            }
            Which::All => Ok(self.vmis.iter().collect()),
            Which::Only if self.vmis.len() > 1 => usage(format!(
                "{what} has {} VMs: {}; choose one with --name, or start all with --all",
                names.len(),
                names.join(", ")
            )),
            // A single VM may be renamed by the flag.
            Which::Only => Ok(self.vmis.iter().collect()),
            Which::Named(_) if self.vmis.len() == 1 => Ok(self.vmis.iter().collect()),
            Which::Named(wanted) => match self.vmis.iter().find(|vmi| name(vmi).as_ref() == Some(wanted)) {
                Some(vmi) => Ok(vec![vmi]),
                None => usage(format!("{what} has no VM {wanted:?}, but {}", names.join(", "))),
            },
        }
    }
}
