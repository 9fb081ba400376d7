//! Which VMs of a manifest are meant.

use super::{Objects, Written};
use api::vmi::VirtualMachineInstance;
use cdi::{Error, ErrorKind, Result};

/// Which of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Which {
    /// The only one.
    Only,
    /// This one.
    Named(String),
    /// All.
    All,
}

impl Objects {
    /// The VMs that are meant; `what` is what a person calls the manifest.
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
            // One VM may be given another name.
            Which::Only => Ok(self.vmis.iter().collect()),
            Which::Named(_) if self.vmis.len() == 1 => Ok(self.vmis.iter().collect()),
            Which::Named(wanted) => match self.vmis.iter().find(|vmi| name(vmi).as_ref() == Some(wanted)) {
                Some(vmi) => Ok(vec![vmi]),
                None => usage(format!("{what} has no VM {wanted:?}, but {}", names.join(", "))),
            },
        }
    }
}
