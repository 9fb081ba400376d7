//! Adoption of a PVC that existed before its DataVolume: the PVC is used as it is, and nothing is written to
//! it.
//!
//! ```text
//!  PVC of that name, without a controlling owner
//!    ├─ storage.populatedFor: NAME on it             a backup restored it, with the content of that DataVolume
//!    ├─ allowClaimAdoption: "true" on it             a user permits it
//!    │     └─► owner reference ─► Succeeded, without a pod
//!    └─ else ─► ErrResourceExists
//! ```
//!
//! The permission is an annotation of the PVC, because a DataVolume is quickly created, and a PVC is deleted
//! with its owner. An admission policy holds virt-controller to the same two annotations. With
//! `storage.prePopulated` on the DataVolume no PVC is created: the DataVolume waits for one.
//!
//! ```text
//!  DataVolume: finalizer ─► PVC: owner, note ─► is the DataVolume there, and not deleted? ─► Succeeded ─► note and finalizer go
//!                                                   └─ it is deleted: the PVC has its owners as before ─► finalizer goes
//!                                                      └─ no note on the PVC: the uid is refused on it ─► finalizer goes
//! ```
//!
//! With `storage.checkStaticVolume` on the DataVolume, a PVC is created for the PersistentVolume that is
//! reserved for it, and is adopted too.
//!
//! **Guarantees.** A PVC with another controlling owner is never adopted, nor one that is written, or has yet
//! to be ([`super::unfinished()`]). A PVC that is not bound yet, and whose source is a snapshot or another PVC,
//! is not marked as filled: VMIs do not start on it if Kubernetes binds it to another volume. A DataVolume adopts a PVC once: a PVC that a user took away
//! from a DataVolume that has succeeded or failed (`kubectl delete dv --cascade=orphan`) stays away. A PVC
//! whose owner is deleted is deleted too. So a finalizer holds the DataVolume until it is known that it was
//! not deleted before it had the PVC. If it was, the PVC is given back ([`finish`]), also while another
//! installation or none fills the disks. A request that gives it the PVC may still be on its way, of this
//! program or of the former leader, and bears a version of the PVC. So a PVC that is not known as adopted gets
//! another version before the finalizer goes ([`refuse`]). Objects that a backup restored have new uids: nothing here compares
//! one with an older one.
//! **Caveats.** A DataVolume that is deleted after it says `Succeeded` takes the PVC along, as every other
//! one does. So does one that is deleted in that moment with `--cascade=foreground`. Neither the content of
//! an adopted PVC nor its size is checked.

use super::claim_annotations;
use super::claim_name;
use super::outcome::Outcome;
use super::request::Request;
use super::unfinished::unfinished;
use crate::volume_origin::unknown;
use api::cdi::annotations::{
    ADOPTED_BY, ADOPTION_REFUSED, ALLOW_ADOPTION, CHECK_STATIC_VOLUME, POD_PHASE, POPULATED_FOR,
    PRE_POPULATED,
};
use api::data_volume::{DataVolume, Phase};
use api::meta::ObjectMeta;
use api::wire::Wire;
use cluster_model::objects::{ADOPTS, IndexKey, Key, Kind, PersistentVolumeClaim, World, owner};
use cluster_model::plan::{Plan, Step};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Reason to adopt a PVC that existed before the DataVolume; `None` if it is not adopted.
pub(super) fn reason(
    world: &World,
    volume: &DataVolume,
    claim: &PersistentVolumeClaim,
) -> Option<&'static str> {
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_ref());
    let name = volume.metadata.name.as_ref()?;
    let is_free = owner::controller(&claim.meta).is_none() && claim.meta.deletion_timestamp.is_none();
    let is_over = matches!(phase, Some(Phase::Succeeded | Phase::Failed));
    if is_over || !is_free || unfinished(world, claim).is_some() {
        return None;
    }
    let notes = &claim.meta.annotations;
    // A PVC with a dataSourceRef has this annotation even if there never was a DataVolume.
    if notes.get(POPULATED_FOR) == Some(name) && claim.populator().is_none() {
        Some("its content was written for a DataVolume of this name")
    } else if notes.get(ALLOW_ADOPTION).is_some_and(|value| value == "true") {
        Some("its adoption is allowed")
    } else {
        None
    }
}

/// The end of an adoption: the DataVolume has the PVC, or was deleted before and gives it back.
pub(super) fn finish(volume: &DataVolume, claim: Option<&PersistentVolumeClaim>) -> Plan {
    let mut plan = Plan::default();
    let meta = &volume.metadata;
    let has_it = volume.status.as_ref().and_then(|status| status.phase.as_ref()) == Some(&Phase::Succeeded);
    if !meta.finalizers.iter().any(|name| name == ADOPTS) || !has_it && meta.deletion_timestamp.is_none() {
        return plan;
    }
    let noted = claim
        .filter(|claim| meta.uid.is_some() && claim.meta.annotations.get(ADOPTED_BY) == meta.uid.as_ref());
    if let Some(claim) = noted {
        let of = |owners: Vec<Value>, annotations: &BTreeMap<String, String>| {
            let meta = json!({"ownerReferences": owners, "annotations": annotations});
            json!({"metadata": meta})
        };
        let owners = || claim.meta.owner_references.iter();
        let kept = owners().filter(|owner| has_it || Some(&owner.uid) != meta.uid.as_ref());
        let mut annotations = claim.meta.annotations.clone();
        annotations.remove(ADOPTED_BY);
        let is = of(owners().map(Wire::write).collect(), &claim.meta.annotations);
        let should = of(kept.map(Wire::write).collect(), &annotations);
        plan.update(Kind::PersistentVolumeClaim, &claim.meta, &is, &should, false);
    } else if !has_it {
        plan = plan.and(refuse(meta, claim));
    }
    set_finalizers(meta, other_finalizers(meta), &mut plan);
    plan
}

/// Plan after which no request that was sent earlier can give the PVC to a deleted DataVolume. It changes the version of the PVC, and each
/// such request names the version from before. A PVC that was adopted meanwhile has another version than is known here, so the plan ends.
fn refuse(volume: &ObjectMeta, claim: Option<&PersistentVolumeClaim>) -> Plan {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let Some(claim) = claim else {
        let key = Key::new(Kind::PersistentVolumeClaim, text(&volume.namespace), text(&volume.name));
        return Plan { steps: vec![Step::RequireAbsent { key, of: None }], ..Plan::default() };
    };
    let mut annotations = claim.meta.annotations.clone();
    // With the same uid as before nothing is written: the version is that of this annotation, or newer.
    annotations.insert(ADOPTION_REFUSED.to_owned(), text(&volume.uid));
    claim_annotations::write(claim, &annotations)
}

/// Finalizers of a DataVolume without that of an adoption.
fn other_finalizers(meta: &ObjectMeta) -> impl Iterator<Item = &str> {
    meta.finalizers.iter().map(String::as_str).filter(|name| *name != ADOPTS)
}

/// Sets the finalizers of a DataVolume.
fn set_finalizers<'a>(meta: &'a ObjectMeta, finalizers: impl Iterator<Item = &'a str>, plan: &mut Plan) {
    let whole = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    let wanted: Vec<&str> = finalizers.collect();
    plan.update(Kind::DataVolume, meta, &whole(json!(meta.finalizers)), &whole(json!(wanted)), false);
}

/// The PVC for a reserved volume with content, if the DataVolume requests it: bound to the volume, and
/// complete.
pub(super) fn of_reserved_volume(world: &World, volume: &ObjectMeta, mut claim: Value) -> Value {
    let (Some(namespace), Some(name)) = (&volume.namespace, &volume.name) else { return claim };
    let mark = IndexKey::PersistentVolumeClaim(namespace.clone(), name.clone());
    let keys = world.indexed_by(&mark).filter(|key| key.kind == Kind::PersistentVolume);
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

/// Outcome of an adoption: the DataVolume has succeeded. `None` if the PVC is not adopted.
pub(super) fn adopted(request: &Request<'_>, claim: &PersistentVolumeClaim) -> Option<Outcome> {
    if request.is_standalone() {
        return None;
    }
    if request.owns(claim) {
        return has_begun(request, claim).then(|| {
            let mut first = Plan::default();
            first.present(Kind::DataVolume, request.meta());
            taken(claim, first, "its adoption had begun")
        });
    }
    let why = reason(request.world, &request.volume, claim)?;
    let owners: Vec<Value> = claim.meta.owner_references.iter().map(Wire::write).collect();
    let ours = owner::reference(Kind::DataVolume, request.meta());
    let should: Vec<Value> = owners.iter().cloned().chain([ours]).collect();
    let is = json!({"metadata": {"ownerReferences": owners, "annotations": claim.meta.annotations}});
    let mut should = json!({"metadata": {"ownerReferences": should, "annotations": claim.meta.annotations}});
    // In the same request as the owner: a PVC of this DataVolume would be filled without it.
    should["metadata"]["annotations"][ADOPTED_BY] = json!(request.meta().uid);
    if unknown(request.world, claim).is_none() {
        should["metadata"]["annotations"][POD_PHASE] = json!("Succeeded");
    }
    let meta = request.meta();
    let mut first = Plan::default();
    first.present(Kind::DataVolume, meta);
    set_finalizers(meta, other_finalizers(meta).chain([ADOPTS]), &mut first);
    // Before the status: a DataVolume that does not own its PVC has not succeeded.
    first.update(Kind::PersistentVolumeClaim, &claim.meta, &is, &should, false);
    // A deletion of the DataVolume before this step was not meant for the PVC.
    first.present(Kind::DataVolume, meta);
    Some(taken(claim, first, why))
}

/// True if the PVC was given to the DataVolume, and the status does not say so yet.
fn has_begun(request: &Request<'_>, claim: &PersistentVolumeClaim) -> bool {
    let uid = request.meta().uid.as_ref();
    uid.is_some() && claim.meta.annotations.get(ADOPTED_BY) == uid
}

/// The DataVolume has succeeded with the PVC as it is, after these steps.
fn taken(claim: &PersistentVolumeClaim, first: Plan, why: &str) -> Outcome {
    let message = format!("PVC {} is adopted as it is: {why}", claim_name(claim));
    let outcome = Outcome::default().before_status(first).bound_condition(claim).complete(&message);
    outcome.enter_phase(Phase::Succeeded, false, "ClaimAdopted", message)
}

/// Outcome while the PVC is to be provided by another component, with its content. `None` if it is created
/// here.
pub(super) fn awaits_claim(request: &Request<'_>) -> Option<Outcome> {
    if !request.meta().annotations.contains_key(PRE_POPULATED) {
        return None;
    }
    let message = format!(
        "PVC {} does not exist yet, and is not created, because the annotation {PRE_POPULATED} says that it is \
         provided with its content",
        request.name()
    );
    let outcome = Outcome::default().not_found().wait("Pending", &message);
    Some(outcome.enter_phase(Phase::Pending, false, "Pending", message))
}
