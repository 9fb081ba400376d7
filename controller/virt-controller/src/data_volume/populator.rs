//! A PVC with a `dataSourceRef` to one of our kinds. Another PVC (the prime) is filled in its place, and its
//! volume is handed over.
//!
//! ```text
//!  target: PVC, dataSourceRef ─► VolumeImportSource, VolumeUploadSource, VolumeCloneSource
//!    │ its class waits for a consumer: until a pod is scheduled (selected-node), or immediate binding is requested
//!    ▼
//!  prime-UID: PVC, owned by the target ─► filled, as a PVC without a DataVolume is (`request`)─► complete, and its pod is gone
//!    │ annotations: repeated on the target                                                        │
//!    ▼                                                                                            ▼
//!  target is bound ─► prime is deleted          PV: claimRef prime ──► target, reclaim policy Retain, and what it was
//!                  └► PV: its own reclaim policy again (`hand_back`, decided on under the key of the PV)
//! ```
//!
//! [`decide`] matches the state of a PVC and of its prime; each case returns the steps for it.
//!
//! **Why.** Provisioners ignore a PVC whose `dataSourceRef` is of a kind that they do not know, and no pod
//! mounts a PVC that is not bound. So a pod may wait for the disk from the beginning, and sees it complete or
//! not at all.
//! **Guarantees.** A volume passes from `prime-UID` only to the PVC of that uid and namespace, and only when
//! neither a pod of ours nor any other pod mounts the prime. That includes readers, since a PVC protects a
//! volume while it is mounted, and the prime is deleted. Each step requires the version that was decided on.
//! While the volume passes, its policy is Retain: whatever happens to the two PVCs, the volume is not
//! reclaimed under the disk. Afterwards, and if the target is gone, it has its own policy again, also if the
//! KubeVirt object or the CDI object is gone. An admission policy holds virt-controller to this.
//! **Clones.** A VolumeCloneSource names a PVC of its own namespace, and the prime is filled like a
//! DataVolume with `source.pvc`, by a source pod and an importer pod ([`super::clone`]).
//! **Caveats.** A VolumeCloneSource is never cloned by the storage, and a VolumeCloneSource of a
//! VolumeSnapshot is refused by name.

use super::claim::{AT_ONCE, WORKER_OBJECT};
use super::claim_annotations::{self, MESSAGE, REASON, RESTARTS, RUNNING};
use super::{NOT_SERVED, WAITS, standalone_claim};
use crate::volume_origin::{has_free_volume, has_volume_of};
use api::cdi::annotations::{
    CLONE_REQUEST, CLONE_TYPE, CONTENT_TYPE, POD_NAME, POD_PHASE, POD_READY, POPULATED_FOR, POPULATOR_KIND,
    POPULATOR_PROGRESS, PRIME, RECLAIM_POLICY, TARGET,
};
use api::claim::{ClaimSpec, DataReference};
use api::data_volume::{ContentType, DataVolume, PvcSource, Source};
use api::wire::Wire;
use cluster_model::objects::{
    Attempt, ClaimReference, Failure, IndexKey, Key, Kind, PersistentVolumeClaim, Work, World, key, owner,
};
use cluster_model::plan::{Plan, Step};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Annotation of the scheduler: the node on which the first pod of a PVC runs.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Reason of a PVC that is being filled.
const PENDING: &str = "Pending";
/// Reason of a PVC that was bound to another volume than the one that was filled for it.
const MISBOUND: &str = "ErrClaimNotValid";
/// Reason of a volume that is not handed over, because a pod mounts it.
const IN_USE: &str = "InUse";
/// Annotations of the prime that the target repeats.
const REPEATED: [&str; 9] =
    [RUNNING, REASON, MESSAGE, RESTARTS, POD_READY, POD_NAME, POD_PHASE, POPULATOR_PROGRESS, CLONE_TYPE];

/// The DataVolume that would have made a prime which is imported or cloned. `None` where the PVC is not a prime, takes an upload, or is
/// not wanted any more.
pub(super) fn volume_of_prime(world: &World, prime: &PersistentVolumeClaim) -> Option<DataVolume> {
    let (namespace, target) = (prime.meta.namespace.as_deref()?, target(world, prime)?);
    let named = target.populator()?;
    if named.kind == Kind::VolumeImportSource.name() {
        let source = world.import_sources.get(namespace, &named.name)?.spec.source.clone()?;
        return Some(standalone_claim::with_source(prime, source.of_data_volume(), Work::Import));
    }
    if named.kind != Kind::VolumeCloneSource.name() {
        return None;
    }
    let spec = &world
        .clone_sources
        .get(namespace, &named.name)
        .filter(|source| source.spec.unserved().is_none())?
        .spec;
    let pvc =
        PvcSource { namespace: namespace.to_owned(), name: spec.source.name.clone(), ..PvcSource::default() };
    let source = Source { pvc: Some(pvc), ..Source::default() };
    let mut volume = standalone_claim::with_source(prime, source, Work::Import);
    volume.spec.priority_class_name.clone_from(&spec.priority_class_name);
    Some(volume)
}

/// The PVC in whose place a prime is filled, as it is.
pub(super) fn target<'a>(
    world: &'a World,
    prime: &PersistentVolumeClaim,
) -> Option<&'a PersistentVolumeClaim> {
    let owner = prime.target()?;
    let target = world.pvcs.get(prime.meta.namespace.as_deref()?, &owner.name)?;
    (target.meta.uid.as_ref() == Some(&owner.uid) && target.meta.deletion_timestamp.is_none())
        .then_some(target)
}

/// The plan for a PVC with a `dataSourceRef` to one of our kinds; an empty one for other PVCs.
pub(super) fn decide(world: &World, claim: &PersistentVolumeClaim, now: Timestamp) -> Plan {
    let is_served = world.permissions().is_some();
    let (Some(source), Some(prime_name)) = (claim.populator(), claim.prime()) else {
        return Plan::default();
    };
    if !is_served || claim.meta.deletion_timestamp.is_some() {
        return Plan::default();
    }
    let target = Target { world, claim, source, prime_name, now };
    let prime = world.pvcs.get(target.namespace(), &target.prime_name);
    let own = prime.filter(|prime| prime.is_in_place_of(claim));
    if target.claim.is_bound() {
        return finish_bound(&target, own);
    }
    match (own, prime) {
        (Some(prime), _) => follow_prime(&target, prime),
        (None, Some(_)) => {
            let why = format!(
                "PVC {} exists already, and was not created in the place of this one: delete it",
                target.prime_name
            );
            reported(&target, "ErrResourceExists", &why, true)
        }
        (None, None) => match prime_settings(&target) {
            Ok(settings) if may_begin(&target) => make_prime(&target, &settings),
            Ok(_) => {
                let why = format!(
                    "it is filled when a pod uses it: its StorageClass creates the volume on the node of that pod; \
                     {AT_ONCE} on the PVC fills it at once"
                );
                reported(&target, WAITS, &why, false)
            }
            Err((reason, why)) => reported(&target, reason, &why, true),
        },
    }
}

/// The input: a PVC with a `dataSourceRef`.
struct Target<'a> {
    world: &'a World,
    claim: &'a PersistentVolumeClaim,
    source: &'a DataReference,
    prime_name: String,
    now: Timestamp,
}

impl<'a> Target<'a> {
    fn namespace(&self) -> &'a str {
        self.claim.meta.namespace.as_deref().unwrap_or_default()
    }

    /// The last failure of a plan for this PVC.
    fn failure(&self) -> Option<&'a Failure> {
        let failed = self.world.failures.get(&key(Kind::DataVolume, &self.claim.meta));
        failed.filter(|failed| failed.about == Attempt::Make(Kind::PersistentVolumeClaim))
    }
}

/// Settings of a prime that follow from its source.
struct PrimeSettings {
    content: Option<ContentType>,
    preallocates: bool,
    is_upload: bool,
    /// The PVC of the same namespace that is cloned.
    clone_of: Option<String>,
}

/// The settings of the prime; or a reason and a message where the source is not supported.
fn prime_settings(target: &Target<'_>) -> Result<PrimeSettings, (&'static str, String)> {
    let (world, namespace) = (target.world, target.namespace());
    let DataReference { kind, name, namespace: other, .. } = target.source;
    if other.as_deref().is_some_and(|other| !other.is_empty() && other != namespace) {
        let why = "spec.dataSourceRef.namespace: only a source in the namespace of the PVC fills it";
        return Err((NOT_SERVED, why.to_owned()));
    }
    let missing = || ("NotFound", format!("spec.dataSourceRef: {kind} {namespace}/{name} does not exist"));
    if kind == Kind::VolumeImportSource.name() {
        let spec = &world.import_sources.get(namespace, name).ok_or_else(missing)?.spec;
        let (content, preallocates) = (spec.content_type.clone(), spec.preallocation == Some(true));
        Ok(PrimeSettings { content, preallocates, is_upload: false, clone_of: None })
    } else if kind == Kind::VolumeUploadSource.name() {
        let spec = &world.upload_sources.get(namespace, name).ok_or_else(missing)?.spec;
        let (content, preallocates) = (spec.content_type.clone(), spec.preallocation == Some(true));
        Ok(PrimeSettings { content, preallocates, is_upload: true, clone_of: None })
    } else if kind == Kind::VolumeCloneSource.name() {
        let spec = &world.clone_sources.get(namespace, name).ok_or_else(missing)?.spec;
        // The webhook refuses it too, where it is installed.
        if let Some((_, why)) = spec.unserved() {
            return Err((NOT_SERVED, format!("{kind} {namespace}/{name}: {why}")));
        }
        let source = spec.source.name.clone();
        if target.claim.meta.name.as_ref() == Some(&source) {
            let why = format!(
                "{kind} {namespace}/{name}: spec.source.name: PVC {source} would be a clone of itself"
            );
            return Err((NOT_SERVED, why));
        }
        let preallocates = spec.preallocation == Some(true);
        Ok(PrimeSettings { content: None, preallocates, is_upload: false, clone_of: Some(source) })
    } else {
        let why = format!(
            "spec.dataSourceRef: a {kind} is not supported; use a VolumeImportSource, VolumeUploadSource or \
             VolumeCloneSource"
        );
        Err((NOT_SERVED, why))
    }
}

/// True if the volume may be created now. A volume that waits for its consumer is created on the consumer's
/// node.
fn may_begin(target: &Target<'_>) -> bool {
    let class = target.claim.spec.storage_class_name.as_deref();
    let class = class.and_then(|name| target.world.storage_classes.get("", name));
    let annotations = &target.claim.meta.annotations;
    class.is_none_or(|class| !class.waits_for_consumer)
        || annotations.contains_key(SELECTED_NODE)
        || annotations.contains_key(AT_ONCE)
}

/// Creates the prime, and reports it on the target.
fn make_prime(target: &Target<'_>, settings: &PrimeSettings) -> Plan {
    let name = &target.prime_name;
    let mut plan = match target.failure() {
        Some(failed) => {
            let why = format!("PVC {name} cannot be created: {}", failed.message);
            reported(target, super::claim_refused(&failed.message), &why, true)
        }
        None => {
            let why = format!("PVC {name} is created, and filled in the place of this one");
            reported(target, PENDING, &why, false)
        }
    };
    let key = Key::new(Kind::PersistentVolumeClaim, target.namespace(), &**name);
    plan.create(key, prime(target.claim, name, &target.source.kind, settings));
    plan
}

/// The prime exists: its annotations are repeated, and its volume is handed over when it is complete.
fn follow_prime(target: &Target<'_>, prime: &PersistentVolumeClaim) -> Plan {
    let mut annotations: BTreeMap<String, String> = (REPEATED.into_iter())
        .filter_map(|name| Some((name.to_owned(), prime.meta.annotations.get(name)?.clone())))
        .collect();
    let is_complete = prime.is_filled();
    if is_complete {
        // The target is complete only when it is bound.
        annotations.remove(POD_PHASE);
    }
    annotations.insert(PRIME.to_owned(), target.prime_name.clone());
    let may_pass = is_complete && target.world.worker_of(prime).is_none() && !is_used(target);
    // A pod mounted the prime when the API server was asked last.
    let held = target.failure().filter(|_| may_pass);
    if let Some(held) = held {
        annotations.insert(REASON.to_owned(), IN_USE.to_owned());
        annotations.insert(MESSAGE.to_owned(), held.message.clone());
    }
    let mut plan = annotated(target, annotations, &[]);
    if is_complete {
        plan = plan.and(claim_annotations::of_image(target.claim, &prime.meta.labels));
    }
    match held {
        Some(held) if held.retry > target.now => {
            plan.look_again(held.retry);
            plan
        }
        _ if may_pass => plan.and(hand_over(target, prime)),
        _ => plan,
    }
}

/// True if a VMI names the prime PVC itself: its disk would be that of two PVCs.
fn is_used(target: &Target<'_>) -> bool {
    let mark = IndexKey::PersistentVolumeClaim(target.namespace().to_owned(), target.prime_name.clone());
    target.world.indexed_by(&mark).any(|key| key.kind == Kind::VirtualMachineInstance)
}

/// Binds the volume of the prime to the target.
fn hand_over(target: &Target<'_>, prime: &PersistentVolumeClaim) -> Plan {
    let mut plan = Plan::default();
    let volume = prime.spec.volume_name.as_deref().and_then(|name| target.world.volumes.get("", name));
    let Some(volume) = volume else { return plan };
    let meta = &target.claim.meta;
    let is_of_prime = |claim: &ClaimReference| {
        Some(&claim.uid) == prime.meta.uid.as_ref()
            && Some(&claim.namespace) == meta.namespace.as_ref()
            && claim.name == target.prime_name
    };
    if !volume.claim.as_ref().is_some_and(is_of_prime) {
        // It was handed over already, and is not bound yet.
        return plan;
    }
    let mut change = json!({"spec": {"claimRef": {
        "apiVersion": Kind::PersistentVolumeClaim.api_version(),
        "kind": Kind::PersistentVolumeClaim.name(),
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": null,
    }}});
    if volume.reclaim_policy != RETAIN {
        change["metadata"] = json!({"annotations": {RECLAIM_POLICY: volume.reclaim_policy}});
        change["spec"]["persistentVolumeReclaimPolicy"] = json!(RETAIN);
    }
    // The World holds pods of the installation only, so other pods are looked up at the API server.
    plan.unmounted(&prime.meta);
    plan.steps.push(Step::Patch {
        key: key(Kind::PersistentVolume, &volume.meta),
        version: volume.meta.resource_version.clone().unwrap_or_default(),
        change,
        part: None,
    });
    plan
}

/// The target has a volume: that of its prime, which was handed over, or another one.
fn finish_bound(target: &Target<'_>, prime: Option<&PersistentVolumeClaim>) -> Plan {
    if let Some(prime) = prime.filter(|prime| prime.is_filled() && !has_volume_of(target.claim, prime)) {
        return misbound(target, prime);
    }
    let meta = &target.claim.meta;
    let mut plan = Plan::default();
    if meta.annotations.contains_key(PRIME) {
        let is_of_prime = match prime {
            Some(prime) => prime.is_filled(),
            // It was deleted, in the hand-over at the earliest: a free volume was not handed over.
            None => match has_free_volume(target.world, target.claim) {
                Some(is_free) => !is_free,
                // The volume touches this key when it is known.
                None => return plan,
            },
        };
        let entry = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let annotations = match is_of_prime {
            true => BTreeMap::from([
                entry(POD_PHASE, "Succeeded"),
                entry(POD_READY, "false"),
                entry(RUNNING, "false"),
                entry(POPULATOR_PROGRESS, "100.0%"),
                entry(POPULATED_FOR, meta.name.as_deref().unwrap_or_default()),
            ]),
            false => BTreeMap::new(),
        };
        plan = annotated(target, annotations, &[PRIME]);
        if !is_of_prime {
            let why = "it was bound to a volume that is not filled from its dataSourceRef";
            plan.record_event(Kind::PersistentVolumeClaim, meta, true, MISBOUND, why);
        }
    }
    if let Some(prime) = prime.filter(|prime| prime.meta.deletion_timestamp.is_none()) {
        plan.delete(key(Kind::PersistentVolumeClaim, &prime.meta), &prime.meta);
    }
    plan
}

/// The target was bound to another volume before that of its filled prime was handed over. The prime stays, since its volume has the
/// content, and goes with the target.
fn misbound(target: &Target<'_>, prime: &PersistentVolumeClaim) -> Plan {
    let volume = target.claim.spec.volume_name.as_deref().unwrap_or_default();
    let why = format!(
        "it was bound to the volume {volume} before it got the one that was filled for it, which is that of PVC {}: delete \
         this PVC and create it again, and keep free volumes out of its StorageClass",
        prime.meta.name.as_deref().unwrap_or_default()
    );
    reported_without(target, MISBOUND, &why, true, &[PRIME])
}

/// Writes a reason and a message on the PVC, and sends an event where the reason is new.
fn reported(target: &Target<'_>, reason: &'static str, message: &str, is_warning: bool) -> Plan {
    reported_without(target, reason, message, is_warning, &[])
}

/// Reports as [`reported`], and removes annotations.
fn reported_without(
    target: &Target<'_>,
    reason: &'static str,
    message: &str,
    is_warning: bool,
    removed: &[&str],
) -> Plan {
    let entry = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let annotations =
        BTreeMap::from([entry(RUNNING, "false"), entry(REASON, reason), entry(MESSAGE, message)]);
    let is_new = target.claim.meta.annotations.get(REASON).map(String::as_str) != Some(reason);
    let mut plan = annotated(target, annotations, removed);
    // The prime sends the events of its filling.
    if is_new && reason != PENDING {
        plan.record_event(Kind::PersistentVolumeClaim, &target.claim.meta, is_warning, reason, message);
    }
    plan
}

/// Sets annotations of the PVC, and removes others.
fn annotated(target: &Target<'_>, annotations: BTreeMap<String, String>, removed: &[&str]) -> Plan {
    let mut should = target.claim.meta.annotations.clone();
    should.extend(annotations);
    should.retain(|name, _| !removed.contains(&name.as_str()));
    claim_annotations::write(target.claim, &should)
}

/// Reclaim policy of a volume that is being handed over.
const RETAIN: &str = "Retain";

/// The PVC that is filled in the place of the target.
fn prime(target: &PersistentVolumeClaim, name: &str, kind: &str, settings: &PrimeSettings) -> Value {
    let content = match &settings.content {
        Some(ContentType::Archive) => "archive",
        _ => "kubevirt",
    };
    let mut annotations = Map::new();
    annotations.insert(AT_ONCE.to_owned(), json!(""));
    annotations.insert(POPULATOR_KIND.to_owned(), json!(kind));
    annotations.insert(CONTENT_TYPE.to_owned(), json!(content));
    if settings.is_upload {
        annotations.insert(TARGET.to_owned(), json!(""));
    }
    if settings.preallocates {
        annotations.insert(standalone_claim::PREALLOCATION.to_owned(), json!("true"));
    }
    if let Some(source) = &settings.clone_of {
        let namespace = target.meta.namespace.as_deref().unwrap_or_default();
        annotations.insert(CLONE_REQUEST.to_owned(), json!(format!("{namespace}/{source}")));
        annotations.insert(CLONE_TYPE.to_owned(), json!("copy"));
    }
    if let Some(node) = target.meta.annotations.get(SELECTED_NODE) {
        annotations.insert(SELECTED_NODE.to_owned(), json!(node));
    }
    let mut labels: Map<String, Value> =
        WORKER_OBJECT.iter().map(|(label, value)| ((*label).to_owned(), json!(value))).collect();
    labels.insert("velero.io/exclude-from-backup".to_owned(), json!("true"));
    let spec = ClaimSpec { data_source: None, data_source_ref: None, ..target.spec.clone() };
    json!({
        "apiVersion": Kind::PersistentVolumeClaim.api_version(),
        "kind": Kind::PersistentVolumeClaim.name(),
        "metadata": {
            "name": name,
            "namespace": target.meta.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner::reference(Kind::PersistentVolumeClaim, &target.meta)],
        },
        "spec": spec.write(),
    })
}

/// The plan for a volume that was handed over: it gets its own reclaim policy again when its PVC is bound or gone. Also where there is
/// no KubeVirt object any more, since only the annotation holds that policy.
pub(crate) fn restore_reclaim_policy(world: &World, name: &str) -> Plan {
    let mut plan = Plan::default();
    let Some(volume) = world.volumes.get("", name) else { return plan };
    let (Some(policy), Some(claim)) = (volume.meta.annotations.get(RECLAIM_POLICY), &volume.claim) else {
        return plan;
    };
    let there = world.pvcs.get(&claim.namespace, &claim.name);
    let there = there.filter(|there| there.meta.uid.as_ref() == Some(&claim.uid));
    let is_passing =
        there.is_some_and(|there| !(there.is_bound() && there.spec.volume_name.as_deref() == Some(name)));
    if is_passing {
        return plan;
    }
    plan.steps.push(Step::Patch {
        key: key(Kind::PersistentVolume, &volume.meta),
        version: volume.meta.resource_version.clone().unwrap_or_default(),
        change: json!({
            "metadata": {"annotations": {RECLAIM_POLICY: null}},
            "spec": {"persistentVolumeReclaimPolicy": policy},
        }),
        part: None,
    });
    plan
}
