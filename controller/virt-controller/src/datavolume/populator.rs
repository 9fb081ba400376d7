//! A PVC with a `dataSourceRef` to one of our kinds: another one is filled in its place, and its volume is handed over.
//!
//! ```text
//!  target: PVC, dataSourceRef ─► VolumeImportSource, VolumeUploadSource, VolumeCloneSource
//!    │ its class waits for a consumer: until a pod is scheduled (selected-node), or it is wanted at once
//!    ▼
//!  prime-UID: PVC, owned by the target ─► filled, as a PVC without a DataVolume is (`alone`) ─► whole, and its pod is gone
//!    │ annotations: repeated on the target                                                        │
//!    ▼                                                                                            ▼
//!  target is bound ─► prime is deleted          PV: claimRef prime ──► target, reclaim policy Retain, and what it was
//!                  └► PV: its own reclaim policy again (`hand_back`, decided on under the key of the PV)
//! ```
//!
//! **Why.** Provisioners leave a PVC alone whose `dataSourceRef` is of a kind that they do not know, and nothing mounts a PVC
//! that is not bound: a pod may wait for the disk from the beginning, and sees it whole or not at all.
//! **Guarantees.** A volume passes from `prime-UID` to the PVC of that uid and namespace alone, when no pod of ours is there any
//! more and nobody's mounts the prime, for reading either (what is mounted is protected by its PVC, and the prime goes); each step
//! looks at the version that was decided on. While it passes its policy is Retain: whatever becomes of the two PVCs, the volume is not
//! reclaimed under the disk; afterwards, and where the target is gone, it has its own policy again, also when the KubeVirt object
//! is gone, or the CDI object. An admission policy holds virt-controller to this.
//! **Clones.** A VolumeCloneSource names a PVC of its own namespace, and the prime is filled as a DataVolume with `source.pvc` is: by a
//! source pod and an importer pod ([`super::clone`]).
//! **Caveats.** A VolumeCloneSource is never cloned by the storage, and one of a VolumeSnapshot is refused by name.

use super::claim::{AT_ONCE, WORKER_OBJECT};
use super::notes::{MESSAGE, REASON, RESTARTS, RUNNING};
use super::{NOT_SERVED, WAITS, alone};
use api::cdi::annotations::{
    CLONE_REQUEST, CLONE_TYPE, CONTENT_TYPE, POD_NAME, POD_PHASE, POD_READY, POPULATED_FOR, POPULATOR_KIND,
    POPULATOR_PROGRESS, PRIME, RECLAIM_POLICY, TARGET,
};
use api::claim::{ClaimSpec, DataReference};
use api::datavolume::{ContentType, DataVolume, PvcSource, Source};
use api::wire::Wire;
use cluster_model::objects::{
    Attempt, ClaimReference, Key, Kind, Mark, PersistentVolumeClaim, Work, World, key, owner,
};
use cluster_model::plan::{Plan, Step};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Where the scheduler says on which node the first pod of a PVC runs.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The reason of what is on its way.
const PENDING: &str = "Pending";
/// The reason of a volume that does not pass, because somebody's pod mounts it.
const IN_USE: &str = "InUse";
/// What the target repeats of the annotations of its prime.
const REPEATED: [&str; 9] =
    [RUNNING, REASON, MESSAGE, RESTARTS, POD_READY, POD_NAME, POD_PHASE, POPULATOR_PROGRESS, CLONE_TYPE];

/// The DataVolume that would have made a prime which is imported or cloned; nothing where it is none, takes an upload, or is not
/// wanted any more.
pub(super) fn volume(world: &World, prime: &PersistentVolumeClaim) -> Option<DataVolume> {
    let (namespace, target) = (prime.meta.namespace.as_deref()?, target(world, prime)?);
    let named = target.populator()?;
    if named.kind == Kind::VolumeImportSource.name() {
        let source = world.import_sources.get(namespace, &named.name)?.spec.source.clone()?;
        return Some(alone::of_source(prime, source.of_data_volume(), Work::Import));
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
    let mut volume = alone::of_source(prime, source, Work::Import);
    volume.spec.priority_class_name.clone_from(&spec.priority_class_name);
    Some(volume)
}

/// The PVC in whose place a prime is filled, as it is.
fn target<'a>(world: &'a World, prime: &PersistentVolumeClaim) -> Option<&'a PersistentVolumeClaim> {
    let owner = prime.target()?;
    let target = world.pvcs.get(prime.meta.namespace.as_deref()?, &owner.name)?;
    (target.meta.uid.as_ref() == Some(&owner.uid) && target.meta.deletion_timestamp.is_none())
        .then_some(target)
}

/// What is to be done for a PVC: one with a `dataSourceRef`, or one that is filled in its place.
pub(super) fn decide(world: &World, claim: &PersistentVolumeClaim, now: Timestamp, plan: &mut Plan) {
    if cluster_model::config::permitted(world).is_none() {
        return;
    }
    if let Some(target) = target(world, claim) {
        told_of_target(claim, target, plan);
    }
    if claim.meta.deletion_timestamp.is_none()
        && let Some(named) = claim.populator()
        && let Some(name) = claim.prime()
    {
        Populated { world, claim, named, name, now, plan }.looks();
    }
}

/// People look at the PVC that they made.
fn told_of_target(prime: &PersistentVolumeClaim, target: &PersistentVolumeClaim, plan: &mut Plan) {
    let of_prime = key(Kind::PersistentVolumeClaim, &prime.meta);
    for step in &mut plan.steps {
        if let Step::Tell(note) = step
            && note.key == of_prime
        {
            note.key = key(Kind::PersistentVolumeClaim, &target.meta);
            note.uid = target.meta.uid.clone().unwrap_or_default();
        }
    }
}

/// One look at a PVC with a `dataSourceRef`.
struct Populated<'a> {
    world: &'a World,
    claim: &'a PersistentVolumeClaim,
    named: &'a DataReference,
    /// The name of its prime.
    name: String,
    now: Timestamp,
    plan: &'a mut Plan,
}

/// What a prime is filled with.
struct Wanted {
    content: Option<ContentType>,
    preallocates: bool,
    is_upload: bool,
    /// The PVC of the same namespace that is cloned.
    clone_of: Option<String>,
}

impl Populated<'_> {
    fn looks(&mut self) {
        let namespace = self.claim.meta.namespace.as_deref().unwrap_or_default();
        let prime = self.world.pvcs.get(namespace, &self.name);
        let is_ours = |prime: &&PersistentVolumeClaim| {
            prime.target().map(|owner| owner.uid.as_str()) == self.claim.meta.uid.as_deref()
        };
        let ours = prime.filter(is_ours);
        if self.claim.is_bound() {
            return self.is_bound(ours);
        }
        if prime.is_some() && ours.is_none() {
            let why = format!(
                "PVC {} is there already, and not made in the place of this one: delete it",
                self.name
            );
            return self.says("ErrResourceExists", &why, true);
        }
        if let Some(prime) = ours {
            return self.is_filled(prime);
        }
        match self.wanted(namespace) {
            Ok(wanted) if self.may_begin() => self.makes(&wanted),
            Ok(_) => {
                let why = format!(
                    "it is filled when a pod uses it: its StorageClass waits for that, to make the volume on the node of that pod; \
                     {AT_ONCE} on the PVC fills it at once"
                );
                self.says(WAITS, &why, false);
            }
            Err((reason, why)) => self.says(reason, &why, true),
        }
    }

    /// What fills it; or why nothing does.
    fn wanted(&self, namespace: &str) -> Result<Wanted, (&'static str, String)> {
        let DataReference { kind, name, namespace: other, .. } = self.named;
        if other.as_deref().is_some_and(|other| !other.is_empty() && other != namespace) {
            let why = "spec.dataSourceRef.namespace: only a source in the namespace of the PVC fills it";
            return Err((NOT_SERVED, why.to_owned()));
        }
        let missing = || ("NotFound", format!("spec.dataSourceRef: there is no {kind} {namespace}/{name}"));
        if kind == Kind::VolumeImportSource.name() {
            let spec = &self.world.import_sources.get(namespace, name).ok_or_else(missing)?.spec;
            let preallocates = spec.preallocation == Some(true);
            Ok(Wanted { content: spec.content_type.clone(), preallocates, is_upload: false, clone_of: None })
        } else if kind == Kind::VolumeUploadSource.name() {
            let spec = &self.world.upload_sources.get(namespace, name).ok_or_else(missing)?.spec;
            let preallocates = spec.preallocation == Some(true);
            Ok(Wanted { content: spec.content_type.clone(), preallocates, is_upload: true, clone_of: None })
        } else if kind == Kind::VolumeCloneSource.name() {
            let spec = &self.world.clone_sources.get(namespace, name).ok_or_else(missing)?.spec;
            // The webhook said so, if it was there.
            if let Some((_, why)) = spec.unserved() {
                return Err((NOT_SERVED, format!("{kind} {namespace}/{name}: {why}")));
            }
            let source = spec.source.name.clone();
            if self.claim.meta.name.as_ref() == Some(&source) {
                let why = format!(
                    "{kind} {namespace}/{name}: spec.source.name: PVC {source} would be a clone of itself"
                );
                return Err((NOT_SERVED, why));
            }
            let preallocates = spec.preallocation == Some(true);
            Ok(Wanted { content: None, preallocates, is_upload: false, clone_of: Some(source) })
        } else {
            let why = format!(
                "spec.dataSourceRef: a {kind} is not served; VolumeImportSource, VolumeUploadSource and VolumeCloneSource are"
            );
            Err((NOT_SERVED, why))
        }
    }

    /// A volume that waits for its consumer is made where that runs.
    fn may_begin(&self) -> bool {
        let class = self.claim.spec.storage_class_name.as_deref();
        let class = class.and_then(|name| self.world.storage_classes.get("", name));
        let notes = &self.claim.meta.annotations;
        class.is_none_or(|class| !class.waits_for_consumer)
            || notes.contains_key(SELECTED_NODE)
            || notes.contains_key(AT_ONCE)
    }

    fn makes(&mut self, wanted: &Wanted) {
        let meta = &self.claim.meta;
        let own = key(Kind::DataVolume, meta);
        let namespace = meta.namespace.clone().unwrap_or_default();
        let failed = self.world.failures.get(&own);
        if let Some(failed) =
            failed.filter(|failed| failed.about == Attempt::Make(Kind::PersistentVolumeClaim))
        {
            let why = format!("PVC {} cannot be made: {}", self.name, failed.message);
            self.says(super::claim_refused(&failed.message), &why, true);
        } else {
            let why = format!("PVC {} is made, and filled in the place of this one", self.name);
            self.says(PENDING, &why, false);
        }
        let key = Key::new(Kind::PersistentVolumeClaim, namespace, &*self.name);
        self.plan.create(key, prime(self.claim, &self.name, &self.named.kind, wanted));
    }

    /// The prime is there: what it says is repeated; and when it is whole, its volume is handed over.
    fn is_filled(&mut self, prime: &PersistentVolumeClaim) {
        let mut notes: BTreeMap<String, String> = (REPEATED.into_iter())
            .filter_map(|name| Some((name.to_owned(), prime.meta.annotations.get(name)?.clone())))
            .collect();
        let is_whole = prime.is_filled();
        if is_whole {
            // The target is not, until it is bound.
            notes.remove(POD_PHASE);
        }
        notes.insert(PRIME.to_owned(), self.name.clone());
        let passes = is_whole && self.world.worker_of(prime).is_none() && !self.is_used();
        let failed = self.world.failures.get(&key(Kind::DataVolume, &self.claim.meta));
        // Somebody's pod mounted it when that was asked last.
        let held =
            failed.filter(|failed| passes && failed.about == Attempt::Make(Kind::PersistentVolumeClaim));
        if let Some(held) = held {
            notes.insert(REASON.to_owned(), IN_USE.to_owned());
            notes.insert(MESSAGE.to_owned(), held.message.clone());
        }
        self.notes(notes, &[]);
        match held {
            Some(held) if held.retry > self.now => self.plan.look_again(held.retry),
            _ if passes => self.hands_over(prime),
            _ => {}
        }
    }

    /// A VMI names the prime itself: its disk would be that of two PVCs.
    fn is_used(&self) -> bool {
        let namespace = self.claim.meta.namespace.clone().unwrap_or_default();
        let mark = Mark::PersistentVolumeClaim(namespace, self.name.clone());
        self.world.marked(&mark).any(|key| key.kind == Kind::VirtualMachineInstance)
    }

    fn hands_over(&mut self, prime: &PersistentVolumeClaim) {
        let volume = prime.spec.volume_name.as_deref().and_then(|name| self.world.volumes.get("", name));
        let Some(volume) = volume else { return };
        let meta = &self.claim.meta;
        let is_its = |claim: &ClaimReference| {
            Some(&claim.uid) == prime.meta.uid.as_ref()
                && Some(&claim.namespace) == meta.namespace.as_ref()
                && claim.name == self.name
        };
        if !volume.claim.as_ref().is_some_and(is_its) {
            // It is handed over already, and waits to be bound.
            return;
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
        // Of the pods of others there is no picture.
        self.plan.unmounted(&prime.meta);
        self.plan.steps.push(Step::Patch {
            key: key(Kind::PersistentVolume, &volume.meta),
            version: volume.meta.resource_version.clone().unwrap_or_default(),
            change,
            part: None,
        });
    }

    /// It has a volume: that of its prime, which has gone over, or another one.
    fn is_bound(&mut self, prime: Option<&PersistentVolumeClaim>) {
        let meta = &self.claim.meta;
        if meta.annotations.contains_key(PRIME) {
            let is_ours = prime.is_none_or(PersistentVolumeClaim::is_filled);
            let said = |name: &str, text: &str| (name.to_owned(), text.to_owned());
            let own = meta.name.as_deref().unwrap_or_default();
            let notes = match is_ours {
                true => BTreeMap::from([
                    said(POD_PHASE, "Succeeded"),
                    said(POD_READY, "false"),
                    said(RUNNING, "false"),
                    said(POPULATOR_PROGRESS, "100.0%"),
                    said(POPULATED_FOR, own),
                ]),
                false => BTreeMap::new(),
            };
            self.notes(notes, &[PRIME]);
            if !is_ours {
                let why = "it was bound to a volume that is not filled from its dataSourceRef";
                self.plan.tell(Kind::PersistentVolumeClaim, meta, true, "ErrClaimNotValid", why);
            }
        }
        if let Some(prime) = prime.filter(|prime| prime.meta.deletion_timestamp.is_none()) {
            self.plan.delete(key(Kind::PersistentVolumeClaim, &prime.meta), &prime.meta);
        }
    }

    /// Says how it is, on the PVC; and tells it once.
    fn says(&mut self, reason: &'static str, message: &str, warning: bool) {
        let said = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let notes = BTreeMap::from([said(RUNNING, "false"), said(REASON, reason), said(MESSAGE, message)]);
        let is_new = self.claim.meta.annotations.get(REASON).map(String::as_str) != Some(reason);
        self.notes(notes, &[]);
        // Of what is done the prime tells.
        if is_new && reason != PENDING {
            self.plan.tell(Kind::PersistentVolumeClaim, &self.claim.meta, warning, reason, message);
        }
    }

    /// Writes annotations, and takes others away.
    fn notes(&mut self, notes: BTreeMap<String, String>, gone: &[&str]) {
        let is = &self.claim.meta.annotations;
        let mut should = is.clone();
        should.extend(notes);
        should.retain(|name, _| !gone.contains(&name.as_str()));
        let whole = |annotations| json!({"metadata": {"annotations": annotations}});
        let meta = &self.claim.meta;
        self.plan.update(Kind::PersistentVolumeClaim, meta, &whole(is), &whole(&should), false);
    }
}

/// The policy of a volume that nobody reclaims.
const RETAIN: &str = "Retain";

/// The PVC that is filled in the place of another.
fn prime(target: &PersistentVolumeClaim, name: &str, kind: &str, wanted: &Wanted) -> Value {
    let content = match &wanted.content {
        Some(ContentType::Archive) => "archive",
        _ => "kubevirt",
    };
    let mut annotations = Map::new();
    annotations.insert(AT_ONCE.to_owned(), json!(""));
    annotations.insert(POPULATOR_KIND.to_owned(), json!(kind));
    annotations.insert(CONTENT_TYPE.to_owned(), json!(content));
    if wanted.is_upload {
        annotations.insert(TARGET.to_owned(), json!(""));
    }
    if wanted.preallocates {
        annotations.insert(alone::PREALLOCATION.to_owned(), json!("true"));
    }
    if let Some(source) = &wanted.clone_of {
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

/// What is to be done for a volume that was handed over: it gets its own reclaim policy again, when its PVC is bound or gone. Also
/// where there is no KubeVirt object any more: nobody else knows that policy.
pub(crate) fn hand_back(world: &World, name: &str) -> Plan {
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
