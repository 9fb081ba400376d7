//! PersistentVolumeClaim (PVC). Its filling is decided under the key of the DataVolume of the same name, even
//! if there is no DataVolume.

use super::pod::owners_of_strays;
use crate::clones::{CLONE_INTO, CLONE_REQUEST};
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, meta};
use crate::objects::{About, IndexKey, Key, Kind, Selector, Use, World, names, owner};
use crate::state::STATE_FOR;
use crate::uploads::{POD_PHASE, TARGET};
use api::cdi::GROUP;
use api::cdi::annotations::{PREALLOCATION, PREALLOCATION_REQUESTED};
use api::claim::{ClaimSpec, ClaimStatus, DataReference};
use api::meta::{ObjectMeta, OwnerReference};
use api::wire;
use serde_json::Value;

/// Annotation of a new PVC with the name of its VirtualMachineInstanceMigration.
pub const MIGRATION_NAME: &str = "kubevirt.io/migrationJobName";
/// Name prefix of a PVC that is filled in place of another one. The uid of that PVC follows.
pub const PRIME: &str = "prime-";

pub(crate) const ABOUT: About = About {
    kept: kept!(pvcs),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["create", "delete", "get", "patch"]), (Some("finalizers"), &["update"])],
        ..Use::NONE
    },
    // An upload targets one PVC, whose annotations tell whether its pod accepts it.
    proxy: Use { verbs: &[(None, &["get"])], ..Use::NONE },
    touches: |world, key| {
        // VMIs of a PVC wait until the storage has cloned it.
        let pvc = world.pvcs.get(&key.namespace, &key.name);
        let source = pvc.and_then(PersistentVolumeClaim::cloned_from);
        let source = source.map(|name| Key::new(Kind::DataVolume, &*key.namespace, name));
        let waiting = source.iter().flat_map(|source| users(world, source));
        let state = pvc.and_then(PersistentVolumeClaim::state_of);
        let state = state.map(|name| Key::new(Kind::VirtualMachineInstance, &*key.namespace, name));
        let users = users(world, key);
        let inferring = inferring(world, &users);
        let own = users.into_iter().chain(disks(world, &key.namespace, &key.name));
        // An announcement of a clone is removed under the key of its DataVolume.
        let announced = pvc.into_iter().flat_map(PersistentVolumeClaim::announced_clones);
        let announced = announced.map(|(_, name)| Key::new(Kind::DataVolume, &*key.namespace, name));
        let strays = owners_of_strays(world, key);
        let moves = pvc.into_iter().flat_map(|pvc| migration(world, pvc));
        own.chain(waiting).chain(state).chain(inferring).chain(announced).chain(strays).chain(moves).collect()
    },
    ..About::new("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
};

/// The migration that copies a disk into the PVC, and the objects that use the PVC that it is copied from.
fn migration(world: &World, pvc: &PersistentVolumeClaim) -> Vec<Key> {
    let namespace = pvc.meta.namespace.as_deref().unwrap_or_default();
    let sources = [pvc.moved_from(), pvc.origin()].into_iter().flatten();
    let sources = sources.map(|name| Key::new(Kind::PersistentVolumeClaim, namespace, name));
    let name = pvc.moved_by().and_then(|_| pvc.meta.annotations.get(MIGRATION_NAME));
    let migration = name.map(|name| Key::new(Kind::VirtualMachineInstanceMigration, namespace, name));
    sources.flat_map(|source| users(world, &source)).chain(migration).collect()
}

/// The VMs, VMIs and other objects that use the PVC, or the PVC of the DataVolume, of this name.
pub(super) fn users(world: &World, key: &Key) -> Vec<Key> {
    world
        .indexed_by(&IndexKey::PersistentVolumeClaim(key.namespace.clone(), key.name.clone()))
        .cloned()
        .collect()
}

/// The VMs that infer an instance type or a preference from clones of a source. `namers` are the objects that
/// reference the source.
pub(super) fn inferring(world: &World, namers: &[Key]) -> Vec<Key> {
    let of = |kind| namers.iter().filter(move |key| key.kind == kind);
    let named = of(Kind::DataSource);
    let by_name = named
        .flat_map(|key| world.indexed_by(&IndexKey::DataSource(key.namespace.clone(), key.name.clone())));
    let clones = of(Kind::DataVolume).chain(by_name.filter(|key| key.kind == Kind::DataVolume));
    let vms = clones.flat_map(|clone| users(world, clone)).filter(|key| key.kind == Kind::VirtualMachine);
    vms.filter(|key| world.vms.get(&key.namespace, &key.name).is_some_and(super::virtual_machine::infers))
        .collect()
}

/// The keys under which a PVC is decided: its own, that of the PVC in whose place it is filled, and that of
/// the PVC that is filled in its place.
pub(super) fn disks(world: &World, namespace: &str, name: &str) -> Vec<Key> {
    let of = |name: &str| Key::new(Kind::DataVolume, namespace, name);
    let claim = world.pvcs.get(namespace, name);
    let target = claim.and_then(PersistentVolumeClaim::target).map(|owner| of(&owner.name));
    let prime = claim.filter(|claim| claim.populator().is_some()).and_then(PersistentVolumeClaim::prime);
    [of(name)].into_iter().chain(target).chain(prime.map(|prime| of(&prime))).collect()
}

/// The keys of the PVCs that are filled from an object.
pub(super) fn filled_from(world: &World, key: &Key) -> Vec<Key> {
    let mark = IndexKey::FilledFrom(key.kind.name().to_owned(), key.namespace.clone(), key.name.clone());
    let claims = world.indexed_by(&mark).filter(|key| key.kind == Kind::PersistentVolumeClaim);
    claims.flat_map(|claim| disks(world, &claim.namespace, &claim.name)).collect()
}

/// The part of a PersistentVolumeClaim that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersistentVolumeClaim {
    pub meta: ObjectMeta,
    pub spec: ClaimSpec,
    pub status: ClaimStatus,
}

impl PersistentVolumeClaim {
    /// True if the PVC has a volume.
    pub fn is_bound(&self) -> bool {
        self.status.phase.as_deref() == Some("Bound")
    }

    /// True if the control plane chose the volume of the PVC, and its spec did not name it.
    pub fn was_given_a_free_volume(&self) -> bool {
        self.meta.annotations.contains_key(super::persistent_volume::BOUND_BY_CONTROLLER)
    }

    /// True if the PVC accepts an upload and belongs to no DataVolume.
    pub fn is_upload_target(&self) -> bool {
        let is_of_volume =
            owner::controller(&self.meta).is_some_and(|owner| owner.kind == Kind::DataVolume.name());
        self.meta.annotations.contains_key(TARGET) && !is_of_volume
    }

    /// True if the disk on the PVC was written completely.
    pub fn is_filled(&self) -> bool {
        self.meta.annotations.get(POD_PHASE).is_some_and(|phase| phase == "Succeeded")
    }

    /// True if all blocks of the disk are allocated: an annotation says so, or preallocation was requested
    /// and the disk is filled.
    pub fn is_preallocated(&self) -> bool {
        let says = |name: &str| self.meta.annotations.get(name).is_some_and(|text| text == "true");
        says(PREALLOCATION) || says(PREALLOCATION_REQUESTED) && self.is_filled()
    }

    /// Reason why the disk is incomplete, as the end of a sentence about the PVC. `None` if it is complete,
    /// or if no worker pod ever started to write to it. A running pod is not required: between two pods, or
    /// after the DataVolume was deleted but not the PVC, a partial disk exists without a pod.
    pub fn not_whole(&self) -> Option<String> {
        let phase = self.meta.annotations.get(POD_PHASE);
        if self.is_filled() {
            return None;
        }
        if self.is_upload_target() {
            return Some("waits for an upload".to_owned());
        }
        // Any user with write access to the PVC can set this annotation, so it is sanitized.
        let word: String = phase?.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        Some(format!(
            "is not whole: its annotation {POD_PHASE} is \"{word}\", not \"Succeeded\". Where nothing fills the PVC any more, delete \
             it and have it filled anew; where its content is known to be whole, remove the annotation"
        ))
    }

    /// The `dataSourceRef` that fills the PVC, if it is one of CDI's kinds.
    pub fn populator(&self) -> Option<&DataReference> {
        let named = self.spec.data_source_ref.as_ref()?;
        (named.api_group.as_deref() == Some(GROUP)).then_some(named)
    }

    /// The PVC in the same namespace that the storage clones into this one.
    pub fn cloned_from(&self) -> Option<&str> {
        let named = self.spec.data_source.as_ref()?;
        let is_claim = named.kind == Kind::PersistentVolumeClaim.name()
            && named.api_group.as_deref().unwrap_or_default().is_empty();
        is_claim.then_some(named.name.as_str())
    }

    /// Namespace and name of the PVC that this one is a clone of, by its annotation: for a DataSource, where it led when the PVC
    /// was made.
    pub fn clone_source(&self) -> Option<(&str, &str)> {
        names::namespaced(self.meta.annotations.get(CLONE_REQUEST)?)
    }

    /// Uids and names of the DataVolumes that announced a clone of this PVC by its storage.
    pub fn announced_clones(&self) -> impl Iterator<Item = (&str, &str)> {
        let notes = self.meta.annotations.iter();
        notes
            .filter_map(|(note, name)| Some((note.strip_prefix(CLONE_INTO)?, name.as_str())))
            .filter(|(_, name)| names::is_name(name))
    }

    /// Name of the PVC that is filled in place of this one.
    pub fn prime(&self) -> Option<String> {
        self.meta.uid.as_ref().map(|uid| format!("{PRIME}{uid}"))
    }

    /// The PVC in whose place this one is filled: its owner, if the uid in its name matches.
    pub fn target(&self) -> Option<&OwnerReference> {
        let uid = self.meta.name.as_deref()?.strip_prefix(PRIME)?;
        let owner = owner::controller(&self.meta)?;
        (owner.kind == Kind::PersistentVolumeClaim.name() && owner.uid == uid).then_some(owner)
    }

    /// True if this PVC is the one that is filled in place of `other`.
    pub fn is_in_place_of(&self, other: &PersistentVolumeClaim) -> bool {
        self.target().is_some_and(|owner| Some(&owner.uid) == other.meta.uid.as_ref())
    }

    /// Name of the VM whose EFI variables and TPM are on the PVC, from its label.
    pub fn state_of(&self) -> Option<&str> {
        self.meta.labels.get(STATE_FOR).map(String::as_str)
    }

    /// True if the PVC is a block device that several nodes may write to at the same time. Kubernetes attaches
    /// a volume by its own access modes, which are in the status of the PVC.
    pub fn is_shared_device(&self) -> bool {
        let mut modes = self.spec.access_modes.iter().chain(&self.status.access_modes);
        self.is_block() && modes.any(|mode| mode == "ReadWriteMany")
    }

    /// True if the driver of the storage fills the volume as it creates it, from a VolumeSnapshot or a PVC.
    pub fn is_filled_by_driver(&self) -> bool {
        let kind = self.spec.data_source.as_ref().map(|source| source.kind.as_str());
        kind.is_some_and(|kind| kind == "VolumeSnapshot" || kind == Kind::PersistentVolumeClaim.name())
    }

    /// True if the PVC is a block device, not a file system.
    pub fn is_block(&self) -> bool {
        self.spec.is_block()
    }
}

impl StoredObject for PersistentVolumeClaim {
    fn parse(mut object: Value) -> Option<Self> {
        let mut part =
            |name: &str| object.get_mut(name).map_or_else(|| Value::Object(Default::default()), Value::take);
        let (spec, status) = (part("spec"), part("status"));
        let faults = &mut Vec::new();
        Some(PersistentVolumeClaim {
            meta: meta(&object)?,
            spec: wire::read_in_part(spec, faults).unwrap_or_default(),
            status: wire::read_in_part(status, faults).unwrap_or_default(),
        })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn index_keys(&self) -> Vec<IndexKey> {
        let namespace = self.meta.namespace.clone().unwrap_or_default();
        let named = self
            .populator()
            .map(|named| IndexKey::FilledFrom(named.kind.clone(), namespace.clone(), named.name.clone()));
        let kind = Kind::PersistentVolumeClaim.name();
        let cloned = self
            .cloned_from()
            .map(|name| IndexKey::FilledFrom(kind.to_owned(), namespace.clone(), name.to_owned()));
        let state = self.state_of().map(|name| IndexKey::StateOf(namespace.clone(), name.to_owned()));
        let source = self.clone_source().map(|(at, name)| IndexKey::CloneOf(at.to_owned(), name.to_owned()));
        let announced = self
            .announced_clones()
            .map(|(_, name)| IndexKey::CloneAnnounced(namespace.clone(), name.to_owned()));
        let moved = self.moved_by().map(|uid| IndexKey::MovedBy(uid.to_owned()));
        let copied = [self.moved_from(), self.origin()].into_iter().flatten();
        let copied = copied.map(|name| IndexKey::MovedFrom(namespace.clone(), name.to_owned()));
        let own = owner::mark(&self.meta).into_iter().chain(named).chain(cloned).chain(state);
        own.chain(source).chain(announced).chain(moved).chain(copied).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_a_pod_began_is_whole_when_that_is_said_and_not_before() {
        let claim = |notes: &[(&str, &str)]| {
            let notes = notes.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            let meta = ObjectMeta { annotations: notes.collect(), ..ObjectMeta::default() };
            PersistentVolumeClaim { meta, ..PersistentVolumeClaim::default() }
        };
        for (notes, expected) in [
            (vec![], None),
            (vec![(POD_PHASE, "Succeeded")], None),
            (vec![(TARGET, ""), (POD_PHASE, "Succeeded")], None),
            (vec![(TARGET, "")], Some("waits for an upload")),
            (vec![(TARGET, ""), (POD_PHASE, "Running")], Some("waits for an upload")),
            (vec![(POD_PHASE, "Pending")], Some("\"Pending\"")),
            (vec![(POD_PHASE, "Running")], Some("\"Running\"")),
            (vec![(POD_PHASE, "Failed")], Some("\"Failed\"")),
            (vec![(POD_PHASE, "\u{1b}[2J")], Some("\"2J\"")),
            (vec![(POD_PHASE, "")], Some("\"\"")),
        ] {
            let why = claim(&notes).not_whole();
            match expected {
                None => assert_eq!(why, None, "{notes:?}"),
                Some(part) => {
                    assert!(why.as_ref().is_some_and(|why| why.contains(part)), "{notes:?}: {why:?}")
                }
            }
        }
    }
}
