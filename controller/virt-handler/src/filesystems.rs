//! File systems of a guest, as its guest agent reports them.
//!
//! They are exported as metrics only. The guest chooses their names, and monitoring systems keep each name
//! for ever. So a VMI has at most [`MOST`] names: the first ones seen since virt-handler has managed the VMI.
//! The file systems of a guest that mounts under ever new names are reported in part.

use super::bounds;
use api::launcher::GuestFilesystem;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Most file systems of a VMI that are reported, during the run of virt-handler.
const MOST: usize = 64;
/// Characters of a disk's name, and of a type.
const NAME: usize = 64;
/// Characters of a mount point.
const PATH: usize = 256;

/// Names under which file systems of a VMI were reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filesystems(Arc<Mutex<BTreeSet<Name>>>);

/// Disk, mount point and type.
pub(crate) type Name = [String; 3];

/// Total and used bytes by file system.
pub(crate) type FilesystemUsage = BTreeMap<Name, (Option<u64>, Option<u64>)>;

impl Filesystems {
    /// File systems that are exported as metrics, with names cut to the limit.
    pub(crate) fn to_metrics(&self, said: Vec<GuestFilesystem>) -> FilesystemUsage {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told = FilesystemUsage::new();
        for found in said {
            let name = [
                bounds::text(&found.name, NAME),
                bounds::text(&found.mountpoint, PATH),
                bounds::text(&found.kind, NAME),
            ];
            if known.contains(&name) || known.len() < MOST {
                known.insert(name.clone());
                told.insert(name, (found.total_bytes, found.used_bytes));
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(mountpoint: &str) -> GuestFilesystem {
        GuestFilesystem {
            name: "vda1".into(),
            mountpoint: mountpoint.into(),
            kind: "ext4".into(),
            used_bytes: Some(3),
            total_bytes: Some(7),
        }
    }

    #[test]
    fn a_guest_that_mounts_under_ever_new_names_is_told_in_part() {
        let filesystems = Filesystems::default();
        assert_eq!(filesystems.to_metrics(vec![found("/")]).len(), 1);
        let mut names = BTreeSet::new();
        for look in 0..50 {
            let said = (0..100).map(|at| found(&format!("/{look}/{at}"))).collect();
            names.extend(filesystems.to_metrics(said).into_keys());
        }
        assert_eq!(names.len(), MOST - 1);
        assert_eq!(
            filesystems.to_metrics(vec![found("/"), found("/new")]).len(),
            1,
            "what is known is told on"
        );
        // A launcher that reconnects is listed with the same memory.
        assert!(filesystems.clone().to_metrics(vec![found("/new")]).is_empty());
    }

    #[test]
    fn long_names_are_cut() {
        let said = GuestFilesystem { kind: "k".repeat(5000), ..found(&"x".repeat(5000)) };
        let told = Filesystems::default().to_metrics(vec![said]);
        assert!(told.keys().flatten().all(|name| name.chars().count() <= PATH + 1), "{told:?}");
    }
}
