//! PVCs whose disks a live migration copies into new PVCs: annotations, and the PVC as a value.
//!
//! ```text
//!                 the old PVC                     the new PVC
//!  target pod     -                               label `migrationJobUID`, owned by the migration
//!  hand-over      `moving-to: NEW`, `moving-by`   owned as the old one
//!  arrival        `moved-to: NEW`                 no label: virt-controller may not delete it any more
//!  failure        -                               deleted
//! ```
//!
//! A PVC that the VM itself names has `copied-into-by` from the hand-over until the guest has arrived. A failure leaves it there. After the
//! arrival it says whose disk it has, as a new PVC does from the beginning.
//!
//! **Guarantees.** A VMI does not start on a PVC that has one of these annotations (`vmi::needs` in virt-controller), whatever writes the
//! old name back into its VM. `moving-to` is written before the guest may leave.

use crate::objects::{
    IndexKey, Key, Kind, MIGRATION_JOB, MIGRATION_NAME, PersistentVolumeClaim, World, claim_of, names, owner,
};
use crate::state::STATE_FOR;
use api::meta::{ObjectMeta, OwnerReference};
use api::quantity::Quantity;
use api::vm::{DataVolumeTemplate, VirtualMachine};
use api::vmi::{VirtualMachineInstance, Volume};
use serde_json::{Map, Value, json};

/// Annotation of a PVC with the name of the PVC that a live migration copies its disk into.
pub const MOVING_TO: &str = "coracle.io/moving-to";
/// Annotation of that PVC with the uid of the migration: no other one takes both back.
pub const MOVING_BY: &str = "coracle.io/moving-by";
/// Annotation of a PVC with the name of the PVC that its guest runs on since a live migration.
pub const MOVED_TO: &str = "coracle.io/moved-to";
/// Annotation of a PVC with the name of the PVC that its disk was copied from.
pub const MOVED_FROM: &str = "coracle.io/moved-from";
/// Annotation of a PVC with the name of the first PVC that its disk had, through all migrations.
pub const ORIGIN: &str = "coracle.io/moved-origin";
/// Annotations of a PVC with the uids of those two PVCs, and of the VM whose disk it is.
pub const MOVED_FROM_UID: &str = "coracle.io/moved-from-uid";
pub const ORIGIN_UID: &str = "coracle.io/moved-origin-uid";
pub const MOVED_VM: &str = "coracle.io/moved-vm";
/// Annotation of a PVC that its VM names, and that a live migration copies a disk into: the uid of the VM. Its content is not whole.
pub const COPIED_INTO: &str = "coracle.io/copied-into-by";
/// Annotation of a VM whose volumes are being migrated: the PVCs that their disks are copied into, as `VOLUME=UID` with commas.
pub const DESTINATION_UIDS: &str = "coracle.io/volume-update-uids";
/// Annotation of a VMI with the reason why a live migration cannot copy one of its PVCs.
pub const NOT_COPIED: &str = "coracle.io/not-copied";
/// Reason of a VMI or a VM whose PVC has moved.
pub const RECOVERY: &str = "ManualRecoveryRequired";

/// The PVC that the disk of another one is copied into by a migration.
pub fn target(migration: &ObjectMeta, source: &PersistentVolumeClaim) -> Option<Key> {
    let name = names::moved(source.meta.name.as_deref()?, migration.uid.as_deref()?);
    Some(Key::new(Kind::PersistentVolumeClaim, source.meta.namespace.clone()?, name))
}

/// The new PVC as an object: of the same class, modes and size. It has no labels or annotations of the old one, since tools that
/// prune objects find theirs by those. `vm`: uid of the VM whose disk it is. `state_of`: name of the VM whose EFI variables and TPM it keeps.
pub fn object(
    migration: &ObjectMeta,
    source: &PersistentVolumeClaim,
    key: &Key,
    vm: Option<&str>,
    state_of: Option<&str>,
) -> Value {
    let kind = Kind::VirtualMachineInstanceMigration;
    let spec = &source.spec;
    let mut wanted = json!({
        "accessModes": spec.access_modes,
        "volumeMode": spec.volume_mode.as_deref().unwrap_or("Filesystem"),
        "resources": {"requests": {"storage": size(source)}},
    });
    for (field, value) in [
        ("storageClassName", &spec.storage_class_name),
        ("volumeAttributesClassName", &spec.volume_attributes_class_name),
    ] {
        if let Some(value) = value {
            wanted[field] = json!(value);
        }
    }
    let origin = origin_notes(source, vm).into_iter();
    let mut annotations: Map<String, Value> =
        origin.filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))).collect();
    annotations.insert(MIGRATION_NAME.to_owned(), json!(migration.name));
    // By this label a VM finds the state that it keeps.
    let state = state_of.map(|vm| (STATE_FOR.to_owned(), json!(names::label(vm))));
    let labels: Map<String, Value> =
        state.into_iter().chain([(MIGRATION_JOB.to_owned(), json!(migration.uid))]).collect();
    json!({
        "apiVersion": Kind::PersistentVolumeClaim.api_version(),
        "kind": Kind::PersistentVolumeClaim.name(),
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": kind.api_version(), "kind": kind.name(), "name": migration.name, "uid": migration.uid,
                "controller": true,
            }],
        },
        "spec": wanted,
    })
}

/// Annotations of the PVC that the disk of another one is copied into, with their values. `vm`: uid of the VM whose disk it is.
pub fn origin_notes<'a>(
    source: &'a PersistentVolumeClaim,
    vm: Option<&'a str>,
) -> [(&'static str, Option<&'a str>); 5] {
    let (name, uid) = (source.meta.name.as_deref(), source.meta.uid.as_deref());
    [
        (MOVED_FROM, name),
        (ORIGIN, source.origin().or(name)),
        (MOVED_FROM_UID, uid),
        (ORIGIN_UID, source.note(ORIGIN_UID).or(uid)),
        (MOVED_VM, vm),
    ]
}

/// The size of the new PVC: the capacity of the old one, and at least its request.
fn size(source: &PersistentVolumeClaim) -> Option<Quantity> {
    let requests = source.spec.resources.as_ref().and_then(|wanted| wanted.requests.get("storage"));
    let capacity = source.status.capacity.get("storage");
    let bytes = |quantity: &&Quantity| quantity.bytes();
    [requests, capacity].into_iter().flatten().max_by_key(bytes).cloned()
}

/// The owner that a new PVC gets at the hand-over: the VM or the VMI that owns the old one, or its DataVolume. A PVC of a user has none.
pub fn lasting_owner(world: &World, source: &PersistentVolumeClaim) -> Option<OwnerReference> {
    let namespace = source.meta.namespace.as_deref().unwrap_or_default();
    let own = owner::controller(&source.meta)?;
    let owner = match own.kind == Kind::DataVolume.name() {
        true => owner::controller(&world.data_volumes.get(namespace, &own.name)?.metadata)?,
        false => own,
    };
    // The garbage collector deletes what an object that is gone owns.
    let uid = match owner.kind.as_str() {
        "VirtualMachine" => world.vms.get(namespace, &owner.name)?.metadata.uid.as_ref(),
        "VirtualMachineInstance" => world.vmis.get(namespace, &owner.name)?.metadata.uid.as_ref(),
        _ => None,
    };
    (uid == Some(&owner.uid)).then(|| owner.clone())
}

/// New PVCs of a migration that has not been forgotten: they have its label, and the name that follows from its uid.
pub fn targets_of<'a>(world: &'a World, uid: &'a str) -> impl Iterator<Item = &'a PersistentVolumeClaim> {
    let found = world.indexed_by(&IndexKey::MovedBy(uid.to_owned()));
    let found = found.filter_map(|key| world.pvcs.get(&key.namespace, &key.name));
    found.filter(move |claim| {
        let source = claim.moved_from().map(|source| names::moved(source, uid));
        source.is_some() && source == claim.meta.name
    })
}

/// The PVC that a live migration has copied the disk of this name into, where a VM's guest has run on it since. Another PVC that has the
/// name by now is empty, or as it was imported. The former PVC itself may be used: a person has removed its annotation.
pub fn copy_of<'a>(
    world: &'a World,
    namespace: &str,
    name: &str,
    vm: &str,
) -> Option<&'a PersistentVolumeClaim> {
    let now = world.pvcs.get(namespace, name);
    let found = world.indexed_by(&IndexKey::MovedFrom(namespace.to_owned(), name.to_owned()));
    let mut found = found.filter_map(|key| world.pvcs.get(&key.namespace, &key.name));
    found.find(|copy| {
        let is_former = now.is_some_and(|now| {
            let uids = [copy.note(MOVED_FROM_UID), copy.note(ORIGIN_UID)];
            uids == [None, None] || uids.contains(&now.meta.uid.as_deref())
        });
        let is_current = copy.moved_by().is_none() && copy.moved_to().is_none();
        is_current && !is_former && copy.note(MOVED_VM) == Some(vm)
    })
}

/// A volume that a VM has on another PVC than its VMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangedClaim<'a> {
    pub volume: &'a str,
    /// PVC of the VMI.
    pub source: &'a str,
    /// PVC that the VM names.
    pub destination: &'a str,
    /// The guest does not write to the disk.
    pub is_read_only: bool,
}

/// Volumes that a VM has on other PVCs than its VMI. An overlay (`ephemeral`) has no PVC of its own.
pub fn changed_claims<'a>(vm: &'a VirtualMachine, vmi: &'a VirtualMachineInstance) -> Vec<ChangedClaim<'a>> {
    fn claim(volume: &Volume) -> Option<&str> {
        claim_of(volume).filter(|_| volume.ephemeral.is_none())
    }
    let own = vm.spec.template.iter().flat_map(|template| &template.spec.volumes);
    let changed = own.filter_map(|volume| {
        let running = vmi.spec.volumes.iter().find(|running| running.name == volume.name)?;
        let (source, destination) = (claim(running)?, claim(volume)?);
        let is_read_only = is_read_only(vmi, &volume.name);
        (source != destination).then_some(ChangedClaim {
            volume: &volume.name,
            source,
            destination,
            is_read_only,
        })
    });
    changed.collect()
}

/// True for a disk that the guest does not write to.
pub fn is_read_only(vmi: &VirtualMachineInstance, volume: &str) -> bool {
    let disk = vmi.spec.domain.devices.disks.iter().find(|disk| disk.name == volume);
    disk.is_some_and(|disk| {
        disk.cdrom.is_some() || disk.disk.as_ref().is_some_and(|target| target.readonly == Some(true))
    })
}

/// Field by which a volume names its PVC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimReference {
    /// By `persistentVolumeClaim`.
    Claim,
    /// By `dataVolume`.
    DataVolume,
    /// By `dataVolume`, with an entry of `dataVolumeTemplates`.
    Template,
}

impl ClaimReference {
    /// The field of the one of these volumes that names the PVC.
    pub fn of(volumes: &[Volume], templates: &[DataVolumeTemplate], claim: &str) -> ClaimReference {
        let named = |volume: &Volume| volume.data_volume.as_ref().is_some_and(|data| data.name == claim);
        let made = |template: &DataVolumeTemplate| {
            template.metadata.as_ref().and_then(|meta| meta.name.as_deref()) == Some(claim)
        };
        match volumes.iter().any(named) {
            true if templates.iter().any(made) => ClaimReference::Template,
            true => ClaimReference::DataVolume,
            false => ClaimReference::Claim,
        }
    }

    /// The field of the volume of a VM that names the PVC.
    pub fn of_vm(vm: &VirtualMachine, claim: &str) -> ClaimReference {
        let volumes = vm.spec.template.as_ref().map_or(&[][..], |template| &template.spec.volumes);
        ClaimReference::of(volumes, &vm.spec.data_volume_templates, claim)
    }

    /// The field of the volume of a VMI that names the PVC.
    pub fn of_vmi(vmi: &VirtualMachineInstance, claim: &str) -> ClaimReference {
        ClaimReference::of(&vmi.spec.volumes, &[], claim)
    }

    /// Instruction to put the volume on the PVC `new` in place of `old`.
    pub fn replacement(self, old: &str, new: &str) -> String {
        let in_place = || {
            format!(
                "in the volume, write `persistentVolumeClaim: {{claimName: {new}}}` in place of `dataVolume: {{name: {old}}}`"
            )
        };
        match self {
            ClaimReference::Claim => format!("set the claimName of the volume to {new}"),
            ClaimReference::DataVolume => in_place(),
            ClaimReference::Template => {
                format!("{}, and remove {old} from dataVolumeTemplates", in_place())
            }
        }
    }
}

/// The message about a PVC that a VMI must not start on, since its disk has moved or may have; `None` if it may. `reference`: the
/// field of the volume that names it.
pub fn moved_message(claim: &PersistentVolumeClaim, reference: ClaimReference) -> Option<String> {
    let [namespace, name] =
        [&claim.meta.namespace, &claim.meta.name].map(|text| text.as_deref().unwrap_or_default());
    if let Some(new) = claim.moved_to() {
        return Some(format!(
            "a live migration has copied PVC {namespace}/{name} into PVC {new}, and the guest has run on that one since: {}; \
             or, to go back to the content of that time, stop the VM, remove its updateVolumesStrategy, and remove the annotation {MOVED_TO} from PVC {name}",
            reference.replacement(name, new)
        ));
    }
    if claim.copied_into_by().is_some() {
        return Some(format!(
            "a live migration copies another disk into PVC {namespace}/{name}, or has ended before it was whole: name the PVC that the volume \
             had before, or, to use PVC {name} with what it has, remove the annotation {COPIED_INTO} from it"
        ));
    }
    let new = claim.moving_to()?;
    Some(format!(
        "a live migration copies PVC {namespace}/{name} into PVC {new}, or has ended without a result: once no launcher pod uses \
         either, {} if the guest has run there; otherwise remove the annotation {MOVING_TO} from PVC {name}",
        reference.replacement(name, new)
    ))
}

impl PersistentVolumeClaim {
    /// Name of the PVC that the guest of this one runs on since a live migration.
    pub fn moved_to(&self) -> Option<&str> {
        self.name_in(MOVED_TO)
    }

    /// Name of the PVC that a live migration copies this one into.
    pub fn moving_to(&self) -> Option<&str> {
        self.name_in(MOVING_TO)
    }

    /// UID of the migration that copies this one into another PVC.
    pub fn moving_by(&self) -> Option<&str> {
        self.note(MOVING_BY)
    }

    /// UID of the VM whose disk a live migration copies into this PVC, which that VM names.
    pub fn copied_into_by(&self) -> Option<&str> {
        self.note(COPIED_INTO).filter(|uid| !uid.is_empty())
    }

    /// True if a live migration copies a disk of the VM of this uid into this PVC, for which the VM names it.
    pub fn is_copied_for(&self, vm: Option<&str>) -> bool {
        vm.is_some() && self.copied_into_by() == vm && self.moved_to().is_none()
    }

    /// Name of the PVC that this one was copied from.
    pub fn moved_from(&self) -> Option<&str> {
        self.name_in(MOVED_FROM)
    }

    /// Name of the first PVC that the disk of this one had.
    pub fn origin(&self) -> Option<&str> {
        self.name_in(ORIGIN)
    }

    /// UID of the migration that copies another PVC into this one, until the guest runs on it.
    pub fn moved_by(&self) -> Option<&str> {
        self.meta.labels.get(MIGRATION_JOB).map(String::as_str)
    }

    fn note(&self, annotation: &str) -> Option<&str> {
        self.meta.annotations.get(annotation).map(String::as_str)
    }

    fn name_in(&self, annotation: &str) -> Option<&str> {
        // Texts of users are not repeated in conditions.
        self.note(annotation).filter(|name| names::is_name(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn put(world: &mut World, kind: Kind, object: Value) {
        world.put(kind, object, Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn a_new_pvc_is_as_large_as_the_old_one_and_has_none_of_its_labels() {
        let mut world = World::default();
        for (capacity, expected) in [("2Gi", "2Gi"), ("1Gi", "1500Mi"), ("", "1500Mi")] {
            let status = match capacity {
                "" => json!({}),
                _ => json!({"capacity": {"storage": capacity}}),
            };
            let meta = json!({"namespace": "n", "name": "disk", "uid": "old", "labels": {"app": "db"}, "annotations": {"a": "b"}});
            let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeName": "pv-1",
                "volumeMode": "Block", "resources": {"requests": {"storage": "1500Mi"}}});
            put(
                &mut world,
                Kind::PersistentVolumeClaim,
                json!({"metadata": meta, "spec": spec, "status": status}),
            );
            let source = world.pvcs.get("n", "disk").unwrap();
            let text = |text: &str| Some(text.to_owned());
            let migration = ObjectMeta { name: text("move"), uid: text("u"), ..ObjectMeta::default() };
            let key = target(&migration, source).unwrap();
            let object = object(&migration, source, &key, Some("vm"), None);
            let wanted = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "volumeMode": "Block",
                "resources": {"requests": {"storage": expected}}});
            assert_eq!(object["spec"], wanted);
            assert_eq!(object["metadata"]["labels"], json!({MIGRATION_JOB: "u"}));
            let notes = json!({
                MIGRATION_NAME: "move", MOVED_FROM: "disk", ORIGIN: "disk", MOVED_FROM_UID: "old", ORIGIN_UID: "old", MOVED_VM: "vm",
            });
            assert_eq!((&object["metadata"]["annotations"], key.namespace.as_str()), (&notes, "n"));
        }
    }

    #[test]
    fn a_new_pvc_gets_the_owner_of_the_old_one_or_of_its_data_volume() {
        let mut world = World::default();
        let of = |kind: &str, name: &str, uid: &str| json!([{"apiVersion": "a", "kind": kind, "name": name, "uid": uid, "controller": true}]);
        put(
            &mut world,
            Kind::VirtualMachine,
            json!({"metadata": {"namespace": "n", "name": "web", "uid": "vm"}, "spec": {}}),
        );
        let vm = of("VirtualMachine", "web", "vm");
        for (name, owners) in [("made", vm.clone()), ("users", json!([]))] {
            let meta = json!({"namespace": "n", "name": name, "uid": name, "ownerReferences": owners});
            put(&mut world, Kind::DataVolume, json!({"metadata": meta, "spec": {}}));
        }
        for (owners, expected) in [
            (vm, Some("vm")),
            (of("VirtualMachine", "web", "another"), None),
            (of("DataVolume", "made", "made"), Some("vm")),
            (of("DataVolume", "users", "users"), None),
            (of("Backup", "b", "b"), None),
            (json!([]), None),
        ] {
            let meta = json!({"namespace": "n", "name": "disk", "ownerReferences": owners});
            put(&mut world, Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": {}}));
            let owner = lasting_owner(&world, world.pvcs.get("n", "disk").unwrap());
            assert_eq!(owner.as_ref().map(|owner| owner.uid.as_str()), expected, "{owners}");
        }
    }

    #[test]
    fn the_message_says_what_to_write_in_place_of_the_old_name() {
        let mut claim = PersistentVolumeClaim::default();
        (claim.meta.namespace, claim.meta.name) = (Some("n".into()), Some("disk".into()));
        let by_claim = json!({"name": "root", "persistentVolumeClaim": {"claimName": "disk"}});
        let by_data_volume = json!({"name": "root", "dataVolume": {"name": "disk"}});
        let in_place = "in the volume, write `persistentVolumeClaim: {claimName: new}` in place of `dataVolume: {name: disk}`";
        let of_template = format!("{in_place}, and remove disk from dataVolumeTemplates");
        for (volume, templates, expected) in [
            (by_claim, json!([]), "set the claimName of the volume to new"),
            (by_data_volume.clone(), json!([{"metadata": {"name": "other"}, "spec": {}}]), in_place),
            (by_data_volume, json!([{"metadata": {"name": "disk"}, "spec": {}}]), &of_template),
        ] {
            let spec = json!({"dataVolumeTemplates": templates, "template": {"spec": {"domain": {"devices": {}}, "volumes": [volume]}}});
            let vm: VirtualMachine =
                api::wire::read(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
            let reference = ClaimReference::of_vm(&vm, "disk");
            for annotation in [MOVED_TO, MOVING_TO] {
                claim.meta.annotations.clear();
                claim.meta.annotations.insert(annotation.into(), "new".into());
                let message = moved_message(&claim, reference).unwrap();
                assert!(message.contains(expected), "{message}");
                assert_eq!(message.contains("claimName of the volume"), reference == ClaimReference::Claim);
            }
        }
    }

    #[test]
    fn the_message_names_both_pvcs() {
        for (annotation, is_told) in [(MOVED_TO, true), (MOVING_TO, true), (MOVED_FROM, false)] {
            for (name, is_name) in [("disk-moved-abcde", true), ("\u{1b}[2J", false)] {
                let mut claim = PersistentVolumeClaim::default();
                (claim.meta.namespace, claim.meta.name) = (Some("n".into()), Some("disk".into()));
                claim.meta.annotations.insert(annotation.into(), name.into());
                let message = moved_message(&claim, ClaimReference::Claim);
                assert_eq!(message.is_some(), is_told && is_name, "{annotation} {name:?}");
                let has = |message: String| {
                    message.contains("PVC n/disk ") && message.contains("PVC disk-moved-abcde")
                };
                assert!(message.is_none_or(has), "{annotation}");
            }
        }
    }
}
