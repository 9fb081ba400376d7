//! VMs of all homes that share disks with this one: several homes may have one pool (`XDG_DATA_HOME`), and a VM of another home may
//! have a file in a folder of this one. Each start notes its home in `raw-disks.json` (`raw_disks`): in the lists of its home, of the
//! home that the environment names, and of those that own its disks (`disk_owners`). The first two are read here, and that of the pool.
//!
//! The VMs of a home that is not there are not known (`absent_homes`).

use crate::disk_owners::list_of_pool;
use crate::error::{Error, Result};
use crate::path::file_at;
use crate::place::{Home, is_own_folder};
use crate::raw_disks;
use crate::record::Vm;
use std::fmt;
use std::path::PathBuf;

/// A VM of this home or of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VmOfHome {
    pub(crate) name: String,
    /// Folder of the VMs of another home; unset for this one.
    pub(crate) vms: Option<PathBuf>,
}

/// VMs of this home and of the homes noted here, with an error for each record that cannot be read. `None`: the list of the homes
/// itself.
pub(crate) fn all_vms(home: &Home) -> Result<Vec<(Option<VmOfHome>, Result<Vm>)>> {
    let own = |name| Some(VmOfHome { name, vms: None });
    let mut found: Vec<_> = Vm::all(home)?.into_iter().map(|(name, vm)| (own(name), vm)).collect();
    let others = match others(home) {
        Ok(others) => others,
        Err(e) => {
            found.push((None, Err(e)));
            return Ok(found);
        }
    };
    for other in others {
        let of = |name| Some(VmOfHome { name, vms: Some(other.vms()) });
        match Vm::all(&other) {
            Ok(vms) => found.extend(vms.into_iter().map(|(name, vm)| (of(name), vm))),
            Err(e) => found.push((None, Err(e))),
        }
    }
    Ok(found)
}

/// Homes whose lists of disks count here.
pub(crate) fn lists(home: &Home) -> Vec<Home> {
    let mut lists = vec![home.clone(), list_of_pool(home)];
    lists.extend(home.environment().cloned());
    lists
}

/// Other homes that are noted in these lists, and that of the environment.
fn others(home: &Home) -> Result<Vec<Home>> {
    let own = file_at(&home.vms())?;
    let mut all: Vec<PathBuf> = home.environment().map(Home::vms).into_iter().collect();
    for list in lists(home) {
        all.extend(raw_disks::noted_homes(&list)?);
    }
    all.sort();
    all.dedup();
    // A home that cannot be looked at has its error in the list of its VMs. What another user has put at the path of one is not read.
    all.retain(|vms| is_own_folder(vms) || file_at(vms).is_err());
    all.retain(|vms| *vms != home.vms() && !matches!(file_at(vms), Ok(Some(there)) if own == Some(there)));
    Ok(all.iter().map(|vms| home.with_vms(vms)).collect())
}

impl VmOfHome {
    /// A sentence about a record that cannot be read: `file` may be a disk of its VM.
    pub(crate) fn may_have(vm: Option<&VmOfHome>, file: impl fmt::Display, e: &Error) -> String {
        match vm {
            Some(vm) => format!("{file} may be the disk of {vm}: {e}"),
            None => format!("{file} may be the disk of a VM: {e}"),
        }
    }
}

impl fmt::Display for VmOfHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.vms {
            Some(vms) => write!(f, "{} in {}", self.name, vms.display()),
            None => write!(f, "{}", self.name),
        }
    }
}
