//! StorageProfiles: the capabilities of the volumes of each StorageClass, as defaults for requests of
//! storage.
//!
//! ```text
//!  StorageClass ──► StorageProfile, of the same name
//!      │               │ spec: settings of the cluster's administrator
//!      │ known         ▼
//!      └──────────► resolve ──► status: provisioner, claimPropertySets, cloneStrategy, …, condition Recognized
//!                      │
//!                      └──────► datavolume: access modes and volume mode that spec.storage leaves out
//! ```
//!
//! **Flow.** One profile is created for each class, and its status follows the class and the spec. A set of
//! the spec comes first, then the row of the provisioner in `known`, then `ReadWriteOnce` and `Filesystem`,
//! which every provisioner supports.
//! **Guarantees.** The spec is never written. DataVolumes read the spec and the class, not the status. So
//! they need not wait for the status, and a client that may only write the status cannot change the spec of
//! PVCs. A profile is deleted with its class; a profile that was created before its class stays until then.
//! **Assumptions.** VolumeSnapshotClasses are not read: a clone that needs one uses the class that the spec
//! names.
//! **Caveats.** A profile that is deleted loses its spec, as upstream: an administrator who creates a class
//! again has to set the spec again. Without a KubeVirt object nothing is written, and existing profiles stay.

mod known;
#[cfg(test)]
mod tests;

use api::cdi::{
    ClaimPropertySet, CloneStrategy, RecognizedReason, SourceFormat, StorageProfile, StorageProfileSpec,
    StorageProfileStatus,
};
use api::wire::Wire;
use cluster_model::conditions::{self, stamp};
use cluster_model::objects::{Key, Kind, StorageClass, World};
use cluster_model::plan::Plan;
use jiff::Timestamp;
use known::{Clones, Knowledge, Modes, Provisioner};
use serde_json::{Value, json};

/// Annotation of a StorageClass with the clone strategy.
const CLONES: &str = "cdi.kubevirt.io/clone-strategy";
/// The label of the profiles that we have made, as upstream has it.
const MADE: (&str, &str) = ("app.kubernetes.io/managed-by", "cdi-controller");
/// The condition of a profile.
const RECOGNIZED: &str = "Recognized";

/// Plan for the profile of a class.
pub(crate) fn decide(world: &World, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if world.permissions().is_none() {
        return plan;
    }
    let class = world.storage_classes.get("", name).filter(|class| class.meta.deletion_timestamp.is_none());
    let key = Key::new(Kind::StorageProfile, "", name);
    match (class, world.storage_profiles.get("", name)) {
        (Some(_), None) => plan.create(key, object(name)),
        (None, Some(profile)) if is_ours(profile) && !is_going(profile) => {
            plan.delete(key, &profile.metadata);
        }
        (Some(class), Some(profile)) if !is_going(profile) => {
            let mut should = profile.clone();
            should.status = Some(status(world, class, profile, now));
            plan.update(Kind::StorageProfile, &profile.metadata, &profile.write(), &should.write(), true);
        }
        _ => {}
    }
    plan
}

/// Access modes and volume modes of the volumes of a class, best first; none where it makes no volumes.
pub(crate) fn claim_property_sets(world: &World, class: &StorageClass) -> Vec<ClaimPropertySet> {
    let name = class.meta.name.as_deref().unwrap_or_default();
    let spec = world.storage_profiles.get("", name).map(|profile| &profile.spec);
    resolve(class, spec).sets
}

/// Bytes of the smallest volume of a class: a smaller request gets as much.
pub(crate) fn smallest(class: &StorageClass) -> u64 {
    class.smallest().or_else(|| row(class).map(|row| row.smallest)).unwrap_or(0)
}

/// Clone strategy of a class: that of the CDI object, or else of its profile and the table.
pub(crate) fn clones(world: &World, class: &StorageClass) -> CloneStrategy {
    let over = world.disk_settings().clones.clone();
    over.unwrap_or_else(|| clone_strategy(class, &spec(world, class)))
}

/// The VolumeSnapshotClass for disks of a class.
pub(crate) fn snapshots(world: &World, class: &StorageClass) -> Option<String> {
    snapshot_class(&spec(world, class)).map(str::to_owned)
}

fn spec(world: &World, class: &StorageClass) -> StorageProfileSpec {
    let name = class.meta.name.as_deref().unwrap_or_default();
    world.storage_profiles.get("", name).map(|profile| profile.spec.clone()).unwrap_or_default()
}

fn is_going(profile: &StorageProfile) -> bool {
    profile.metadata.deletion_timestamp.is_some()
}

/// True if the profile was created for a class, or has belonged to one.
fn is_ours(profile: &StorageProfile) -> bool {
    let is_made = profile.metadata.labels.get(MADE.0).is_some_and(|value| value == MADE.1);
    is_made || profile.status.as_ref().is_some_and(|status| status.storage_class.is_some())
}

fn object(name: &str) -> Value {
    json!({
        "apiVersion": Kind::StorageProfile.api_version(),
        "kind": Kind::StorageProfile.name(),
        "metadata": {"name": name, "labels": {
            "app": "containerized-data-importer",
            "app.kubernetes.io/component": "storage",
            MADE.0: MADE.1,
            "cdi.kubevirt.io": "",
        }},
        "spec": {},
    })
}

/// The status as it should be.
fn status(
    world: &World,
    class: &StorageClass,
    profile: &StorageProfile,
    now: Timestamp,
) -> StorageProfileStatus {
    let spec = &profile.spec;
    let mut status = profile.status.clone().unwrap_or_default();
    let resolved = resolve(class, Some(spec));
    let (is, reason, message) = recognized(class, &resolved);
    let message = resolved.faults.iter().fold(message, |message, fault| format!("{message}; {fault}"));
    status.storage_class.clone_from(&class.meta.name);
    status.provisioner = Some(class.provisioner.clone());
    status.claim_property_sets = resolved.sets;
    status.snapshot_class = snapshot_class(spec).map(str::to_owned);
    let over = world.disk_settings().clones.clone();
    status.clone_strategy = Some(over.unwrap_or_else(|| clone_strategy(class, spec)));
    status.data_import_cron_source_format = Some(source_format(class, spec));
    conditions::set(
        &mut status.conditions,
        RECOGNIZED.to_owned(),
        (is, reason.as_str(), &message),
        &stamp(now),
    );
    status
}

/// The sets that hold for a class.
struct Resolved {
    sets: Vec<ClaimPropertySet>,
    /// True if they come from the spec.
    is_said: bool,
    /// Problems of the other sets of the spec.
    faults: Vec<String>,
}

fn resolve(class: &StorageClass, spec: Option<&StorageProfileSpec>) -> Resolved {
    let said = spec.map_or(&[][..], |spec| &spec.claim_property_sets);
    let (mut sets, mut faults) = (Vec::new(), Vec::new());
    for (at, set) in said.iter().enumerate() {
        match fault(at, set) {
            None => sets.push(set.clone()),
            Some(fault) => faults.push(fault),
        }
    }
    let is_said = !sets.is_empty();
    if !is_said {
        sets = row(class).map_or(known::LEAST, |row| row.modes).iter().map(set).collect();
    }
    Resolved { sets, is_said, faults }
}

/// Row of the class's provisioner, if known.
fn row(class: &StorageClass) -> Option<&'static Provisioner> {
    match known::look_up(class) {
        Knowledge::Of(row) => Some(row),
        Knowledge::Nothing | Knowledge::NotByParameters => None,
    }
}

fn set((access, volume): &Modes) -> ClaimPropertySet {
    ClaimPropertySet {
        access_modes: vec![(*access).to_owned()],
        volume_mode: (*volume).to_owned(),
        ..ClaimPropertySet::default()
    }
}

/// Message about a set of the spec that a PVC cannot request.
fn fault(at: usize, set: &ClaimPropertySet) -> Option<String> {
    const ACCESS: [&str; 4] = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
    let field = format!("spec.claimPropertySets[{at}]");
    if set.access_modes.is_empty() {
        return Some(format!("{field} is ignored: it has no accessModes"));
    }
    if let Some(mode) = set.access_modes.iter().find(|mode| !ACCESS.contains(&mode.as_str())) {
        return Some(format!("{field} is ignored: the access mode {mode:?} does not exist"));
    }
    let is_known = ["Filesystem", "Block"].contains(&set.volume_mode.as_str());
    (!is_known).then(|| format!("{field} is ignored: volumeMode is neither Filesystem nor Block"))
}

fn snapshot_class(spec: &StorageProfileSpec) -> Option<&str> {
    spec.snapshot_class.as_deref().filter(|name| !name.is_empty())
}

/// Clone strategy by the spec, the class, the table, in this order. The default is a copy.
fn clone_strategy(class: &StorageClass, spec: &StorageProfileSpec) -> CloneStrategy {
    let said = || {
        let said = CloneStrategy::from(class.meta.annotations.get(CLONES)?.as_str());
        (!matches!(said, CloneStrategy::Other(_))).then_some(said)
    };
    if let Some(said) = spec.clone_strategy.clone().or_else(said) {
        return said;
    }
    let has_snapshots = snapshot_class(spec).is_some();
    match row(class).and_then(|row| row.clones) {
        Some(Clones::Csi) => CloneStrategy::CsiClone,
        Some(Clones::Copy) => CloneStrategy::Copy,
        Some(Clones::Snapshot) | None if has_snapshots => CloneStrategy::Snapshot,
        Some(Clones::Snapshot) | None => CloneStrategy::Copy,
    }
}

/// Format of the images of a DataImportCron: by the spec, the table, in this order. The default is a PVC.
fn source_format(class: &StorageClass, spec: &StorageProfileSpec) -> SourceFormat {
    let keeps_snapshots = row(class).is_some_and(|row| row.keeps_snapshots);
    match &spec.data_import_cron_source_format {
        Some(said) => said.clone(),
        None if keeps_snapshots && snapshot_class(spec).is_some() => SourceFormat::Snapshot,
        None => SourceFormat::Pvc,
    }
}

/// Condition Recognized: true if the capabilities of the class are known.
fn recognized(class: &StorageClass, resolved: &Resolved) -> (&'static str, RecognizedReason, String) {
    let provisioner = &class.provisioner;
    let taken = match resolved.is_said {
        true => "those of spec.claimPropertySets are used",
        false => {
            "ReadWriteOnce with Filesystem is used; set spec.claimPropertySets of the StorageProfile to the modes \
             that it supports"
        }
    };
    match known::look_up(class) {
        Knowledge::Of(row) if row.makes_none() => {
            let message = format!("the provisioner {provisioner} creates no volumes for disks");
            ("True", RecognizedReason::RecognizedProvisioner, message)
        }
        Knowledge::Of(_) => {
            let message = format!("access modes and volume modes of {provisioner} are known");
            ("True", RecognizedReason::RecognizedProvisioner, message)
        }
        Knowledge::Nothing => {
            let message = format!("access modes and volume modes of {provisioner} are not known: {taken}");
            ("False", RecognizedReason::UnrecognizedProvisioner, message)
        }
        Knowledge::NotByParameters => {
            let message = format!(
                "with these parameters of the StorageClass, access modes and volume modes of {provisioner} are not \
                 known: {taken}"
            );
            ("False", RecognizedReason::UnrecognizedStorageClassParameters, message)
        }
    }
}
