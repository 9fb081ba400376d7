//! Index of the World: finds objects by the names that they reference, without a scan.

use super::Key;
use std::collections::{BTreeMap, BTreeSet};

/// A property by which objects are indexed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexKey {
    /// The controlling owner has this uid.
    Owner(String),
    /// The object uses the PersistentVolumeClaim (or the DataVolume that creates it) of this namespace and
    /// name, or is cloned from it.
    PersistentVolumeClaim(String, String),
    /// The object names the DataSource of this namespace and name.
    DataSource(String, String),
    /// The object was made for the DataImportCron of this namespace and name.
    DataImportCron(String, String),
    /// The PVC is filled from the object of this kind, namespace and name. If that is a PVC, its storage
    /// clones it.
    FilledFrom(String, String, String),
    /// The VM names the instance type, the preference or the ControllerRevision of this kind, namespace and
    /// name.
    Instancetype(String, String, String),
    /// The PVC keeps EFI variables and the TPM of the VM of this namespace and name (as the value of a
    /// label).
    StateOf(String, String),
    /// The migration moves the VMI of this namespace and name.
    MigratedVmi(String, String),
    /// The migration of this uid copies a disk into the PVC.
    MovedBy(String),
    /// A live migration has copied the PVC of this namespace and name into the PVC, at the last or at the first of its moves.
    MovedFrom(String, String),
    /// The VMI runs on the node of this name.
    Node(String),
    /// A launcher pod of the VMI has, or would have, this namespace and name.
    LauncherPod(String, String),
    /// The VMI has not been handed over to a node yet.
    Waiting,
    /// The VMI has a launcher pod of another version than new ones.
    Outdated,
    /// The pod serves a disk to the clone into the PVC of this namespace and name.
    CloneInto(String, String),
    /// The PVC is a clone of the PVC of this namespace and name, by its annotation.
    CloneOf(String, String),
    /// The storage is about to clone the PVC for the DataVolume of this namespace and name.
    CloneAnnounced(String, String),
    /// The pod moves the bytes of a disk.
    Worker,
}

/// Index from marks to objects, and back.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    keys: BTreeMap<IndexKey, BTreeSet<Key>>,
    marks: BTreeMap<Key, Vec<IndexKey>>,
}

impl Index {
    /// Replaces the marks of an object.
    pub(super) fn set(&mut self, key: &Key, marks: Vec<IndexKey>) {
        for mark in self.marks.remove(key).into_iter().flatten() {
            if let Some(keys) = self.keys.get_mut(&mark) {
                keys.remove(key);
                if keys.is_empty() {
                    self.keys.remove(&mark);
                }
            }
        }
        if marks.is_empty() {
            return;
        }
        for mark in &marks {
            self.keys.entry(mark.clone()).or_default().insert(key.clone());
        }
        self.marks.insert(key.clone(), marks);
    }

    /// The objects that have a mark, in the order of their keys.
    pub(super) fn get<'a>(&'a self, mark: &IndexKey) -> impl Iterator<Item = &'a Key> + use<'a> {
        self.keys.get(mark).into_iter().flatten()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.marks.is_empty()
    }
}
