//! A PVC that was there before its DataVolume: when it is taken as it is, and nothing is written to it.
//!
//! ```text
//!  PVC of that name, without a controlling owner
//!    ├─ storage.populatedFor: NAME on it             a backup brought it back, with the content of that DataVolume
//!    ├─ storage.prePopulated on the DataVolume, and the PVC was filled: the same
//!    ├─ allowClaimAdoption: "true" on either         somebody says so
//!    │     └─► owner reference ─► Succeeded, without a pod
//!    └─ else ─► ErrResourceExists
//! ```
//!
//! With `storage.checkStaticVolume` on the DataVolume a PVC is made for the PersistentVolume that is reserved for it, and taken as it
//! is too.
//!
//! **Guarantees.** A PVC that somebody else looks after is never taken, nor one that a pod of ours still writes to. The uids of
//! objects that a backup brought back are new: nothing here compares one with an older one.
//! **Caveats.** What is in a PVC that is taken nobody looks at, nor whether it is as large as the DataVolume asks for.

use super::{Round, claim_name};
use api::cdi::annotations::{ALLOW_ADOPTION, CHECK_STATIC_VOLUME, POD_PHASE, POPULATED_FOR, PRE_POPULATED};
use api::datavolume::{ConditionType, Phase};
use api::meta::ObjectMeta;
use api::wire::Wire;
use kubernetes::objects::{Kind, Mark, PersistentVolumeClaim, World, owner};
use serde_json::{Value, json};

/// Why a DataVolume takes a PVC that was there before it.
pub(super) fn reason(
    world: &World,
    volume: &ObjectMeta,
    claim: &PersistentVolumeClaim,
) -> Option<&'static str> {
    let says =
        |meta: &ObjectMeta, name: &str| meta.annotations.get(name).is_some_and(|value| value == "true");
    let is_free = owner::controller(&claim.meta).is_none() && claim.meta.deletion_timestamp.is_none();
    if !is_free || volume.name.is_none() || world.worker_of(claim).is_some_and(|pod| !pod.has_ended()) {
        return None;
    }
    let was_for = claim.meta.annotations.get(POPULATED_FOR);
    if was_for.is_some() && was_for == volume.name.as_ref() {
        Some("its content was written for a DataVolume of this name")
    } else if volume.annotations.contains_key(PRE_POPULATED) && claim.is_filled() {
        Some("the DataVolume says that it is populated already")
    } else if says(volume, ALLOW_ADOPTION) || says(&claim.meta, ALLOW_ADOPTION) {
        Some("its adoption is allowed")
    } else {
        None
    }
}

/// The PVC of a DataVolume, as it is made where a volume with its content is reserved for it: bound to that, and whole. Only
/// where the DataVolume asks for it.
pub(super) fn of_reserved_volume(world: &World, volume: &ObjectMeta, mut claim: Value) -> Value {
    let (Some(namespace), Some(name)) = (&volume.namespace, &volume.name) else { return claim };
    let mark = Mark::PersistentVolumeClaim(namespace.clone(), name.clone());
    let keys = world.marked(&mark).filter(|key| key.kind == Kind::PersistentVolume);
    let mut volumes = keys.filter_map(|key| world.volumes.get("", &key.name));
    let reserved = volumes
        .find(|one| one.phase == "Available" && one.claim.as_ref().is_some_and(|claim| claim.uid.is_empty()));
    if let Some(reserved) = reserved.filter(|_| volume.annotations.contains_key(CHECK_STATIC_VOLUME)) {
        claim["spec"]["volumeName"] = json!(reserved.meta.name);
        claim["spec"]["storageClassName"] = json!(reserved.class);
        for (note, text) in [(POPULATED_FOR, name.as_str()), (POD_PHASE, "Succeeded")] {
            claim["metadata"]["annotations"][note] = json!(text);
        }
    }
    claim
}

impl Round<'_> {
    /// Takes a PVC that was there before, where it may: the DataVolume has succeeded.
    pub(super) fn adopts(&mut self, claim: &PersistentVolumeClaim) -> bool {
        if self.is_alone() || self.is_ours(claim) {
            return false;
        }
        let Some(why) = reason(self.world, &self.volume.metadata, claim) else { return false };
        let owners: Vec<Value> = claim.meta.owner_references.iter().map(Wire::write).collect();
        let ours = owner::reference(Kind::DataVolume, &self.volume.metadata);
        let should: Vec<Value> = owners.iter().cloned().chain([ours]).collect();
        let whole = |owners: &[Value]| json!({"metadata": {"ownerReferences": owners}});
        // First: one that is not its owner has not succeeded.
        self.before.update(Kind::PersistentVolumeClaim, &claim.meta, &whole(&owners), &whole(&should), false);
        self.say_bound(claim);
        let message = format!("PVC {} is taken as it is: {why}", claim_name(claim));
        self.is_whole(&message);
        self.go(Phase::Succeeded, Some((false, "ClaimAdopted", message)));
        true
    }

    /// The PVC comes from elsewhere, with its content, and is not there yet.
    pub(super) fn awaits_its_claim(&mut self, name: &str) -> bool {
        let awaits = self.volume.metadata.annotations.contains_key(PRE_POPULATED);
        if awaits {
            self.say(ConditionType::Bound, "False", "NotFound", "No PVC found");
            let message = format!(
                "PVC {name} is not there yet: by the annotation {PRE_POPULATED} it comes from elsewhere with its content, and \
                 none is made"
            );
            self.waits("Pending", &message);
            self.go(Phase::Pending, Some((false, "Pending", message)));
        }
        awaits
    }

    /// The disk is whole, and no pod says so.
    pub(super) fn is_whole(&mut self, message: &str) {
        self.say(ConditionType::Running, "False", "Completed", message);
        self.say(ConditionType::Ready, "True", "", "");
        self.say(ConditionType::Transferring, "False", "Completed", message);
        self.next.progress = Some("100.0%".to_owned());
    }
}
