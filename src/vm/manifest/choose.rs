//! Which machines of a manifest are meant.

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
    /// The machines that are meant; `what` is what a person calls the manifest.
    pub(crate) fn choose(&self, what: &str, which: &Which) -> Result<Vec<&Written<VirtualMachineInstance>>> {
        let name = |machine: &Written<VirtualMachineInstance>| machine.object.metadata.name.clone();
        let names: Vec<String> = self.machines.iter().filter_map(name).collect();
        let usage = |what: String| Err(Error::new(ErrorKind::Usage, what));
        match which {
            _ if self.machines.is_empty() => {
                let what = format!("{what} has no VirtualMachine and no VirtualMachineInstance");
                Err(Error::refused(what))
            }
            Which::All => Ok(self.machines.iter().collect()),
            Which::Only if self.machines.len() > 1 => usage(format!(
                "{what} has {} VMs: {}; choose one with --name, or start all with --all",
                names.len(),
                names.join(", ")
            )),
            // One machine may be given another name.
            Which::Only => Ok(self.machines.iter().collect()),
            Which::Named(_) if self.machines.len() == 1 => Ok(self.machines.iter().collect()),
            Which::Named(wanted) => {
                match self.machines.iter().find(|machine| name(machine).as_ref() == Some(wanted)) {
                    Some(machine) => Ok(vec![machine]),
                    None => usage(format!("{what} has no VM {wanted:?}, but {}", names.join(", "))),
                }
            }
        }
    }
}
