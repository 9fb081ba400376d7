//! The source of a clone: the PVC that a DataVolume or its DataSource names, and the reasons why it cannot be
//! cloned yet.
//!
//! | the source | the clone |
//! |---|---|
//! | in another namespace, and the right is not shown | waits, and does not learn anything about the source |
//! | the target of a DataSource of another namespace, which does not exist, or the right is not shown | waits, and does not learn which of these |
//! | missing, not bound, not filled, being deleted | waits; fails if bytes of it were copied |
//! | being deleted, and a running source pod reads it | continues: the PVC stays as long as the pod |
//! | holds an archive | fails |
//!
//! A DataSource is resolved once: its target at the creation of the PVC is recorded in an annotation of the
//! PVC. A user who changes that annotation names a source that has to be permitted like any other. If that
//! source disappears before the first byte was copied (a newer image has taken its place), the DataSource is
//! resolved and recorded again. This does not hold for a clone by the storage, whose PVC names its source
//! permanently.

use super::super::outcome::Outcome;
use super::super::request::Request;
use super::super::size::Overhead;
use super::super::{NOT_SERVED, claim_annotations};
use super::method::{self, CloneMethod};
use super::permit::{check_permission, far_source, holds_token_of};
use super::{CLAIM, Stop, reader};
use crate::data_source;
use api::data_volume::{ConditionType, Phase, PvcSource};
use api::quantity::Quantity;
use cluster_model::clones::{self, CLONE_REQUEST};
use cluster_model::objects::{PersistentVolumeClaim, Work, names};
use cluster_model::uploads::CONTENT_TYPE;
use cluster_model::worker::PORT;

/// The reason of a clone whose DataSource leads nowhere.
const NO_DATA_SOURCE: &str = "DataSourceNotReady";

/// The source of a clone.
#[derive(Clone, Debug)]
pub(in super::super) struct Cloned<'a> {
    /// The PVC; `None` for a snapshot.
    pub(in super::super) claim: Option<&'a PersistentVolumeClaim>,
    pub(in super::super) namespace: String,
    pub(in super::super) name: String,
    /// Method of cloning; `None` until the PVC is created.
    pub(in super::super) way: Option<CloneMethod>,
}

/// The size of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Size {
    /// Bytes that the PVC requested; of a device, its capacity.
    pub(in super::super) claim: u64,
    /// Bytes of the disk in it, at most.
    pub(in super::super) disk: u64,
    pub(in super::super) is_block: bool,
}

impl<'a> Cloned<'a> {
    /// The size of the source, where that is known.
    pub(in super::super) fn size(&self) -> Option<Size> {
        let claim = self.claim?;
        let is_block = claim.is_block();
        let asked = claim.spec.storage().and_then(Quantity::bytes);
        let has = claim.status.capacity.get("storage").and_then(Quantity::bytes);
        let bytes = if is_block { has.or(asked) } else { asked.or(has) }?;
        let disk = if is_block { bytes } else { Overhead::default().disk_in(bytes) };
        Some(Size { claim: bytes, disk, is_block })
    }

    /// The address of the source pod for the importer pod of this PVC.
    pub(in super::super) fn address(&self, target: &PersistentVolumeClaim) -> api::job::Clone {
        let pod = names::cloner(target.meta.uid.as_deref().unwrap_or_default());
        let url = format!("https://{pod}.{}.svc:{PORT}{}", self.namespace, clones::PATH);
        api::job::Clone { url, tls: clones::CLIENT_FOLDER.into() }
    }

    /// The source by its namespace and name.
    pub(in super::super) fn display_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The object that a DataVolume names as its source.
enum NamedSource {
    Claim(String, String),
    Snapshot(String, String),
}

/// The source of a clone, if it can be cloned now; `Ok(None)` if the disk is not a clone. Also the outcome of
/// steps in the meantime: the source is recorded again, or a source pod without a reader is deleted.
pub(in super::super) fn resolve<'a>(request: &Request<'a>) -> (Outcome, Result<Option<Cloned<'a>>, Stop>) {
    if !request.is_clone() {
        return (Outcome::default(), Ok(None));
    }
    let claim = request.own_claim();
    // The annotation of a PVC whose source is gone does not count any more.
    let left = claim.filter(|claim| is_left(request, claim));
    let noted_on = claim.filter(|_| left.is_none());
    let (namespace, name, source) = match permitted_source(request, claim, noted_on) {
        Ok(PermittedSource::Claim(namespace, name, source)) => (namespace, name, source),
        Ok(PermittedSource::Snapshot(cloned)) => return (Outcome::default(), Ok(Some(cloned))),
        Err(stop) => return (Outcome::default(), Err(stop)),
    };
    let mut outcome = Outcome::default();
    if let Some(claim) = left {
        outcome = outcome.and(note_anew(request, claim, &format!("{namespace}/{name}")));
    }
    if let Some(claim) = claim {
        let (read, goes_on) = reader::check_reader(request, claim, source);
        outcome = outcome.and(read);
        if let Err(stop) = goes_on {
            return (outcome, Err(stop));
        }
    }
    let way = claim.map(method::of_claim);
    (outcome, Ok(Some(Cloned { claim: Some(source), namespace, name, way })))
}

/// A source that may be cloned, and can be now.
enum PermittedSource<'a> {
    /// Namespace, name and the PVC.
    Claim(String, String, &'a PersistentVolumeClaim),
    Snapshot(Cloned<'a>),
}

/// The source, where the creator of the DataVolume may clone it and it is ready. `noted_on`: the PVC whose annotation has the source.
fn permitted_source<'a>(
    request: &Request<'a>,
    claim: Option<&'a PersistentVolumeClaim>,
    noted_on: Option<&'a PersistentVolumeClaim>,
) -> Result<PermittedSource<'a>, Stop> {
    let far = far_message(request, noted_on);
    let over = |veil: &Option<String>, stop: Stop| {
        veil.clone().map_or(stop, |message| Stop::Waits(NO_DATA_SOURCE, message))
    };
    // The state of a DataSource is told to a creator who may clone all of its namespace, but not that of other namespaces.
    let may_know = match far_source(request).filter(|_| far.is_some()) {
        Some(source) => holds_token_of(request, source)?,
        None => false,
    };
    let veil = if may_know { None } else { far.clone() };
    let (namespace, name) = match source_in_spec(request, noted_on).map_err(|stop| over(&veil, stop))? {
        NamedSource::Claim(namespace, name) => (namespace, name),
        NamedSource::Snapshot(namespace, name) => {
            let cloned = method::snapshot(request.namespace(), namespace, name);
            return cloned.map(PermittedSource::Snapshot).map_err(|stop| over(&veil, stop));
        }
    };
    // A source that is served already was permitted when its source pod was made.
    let is_served = claim.is_some_and(|claim| is_served(request, claim, &namespace, &name));
    if !is_served {
        check_permission(request, &namespace, &name).map_err(|stop| over(&far, stop))?;
    }
    let source = check_source(request, &namespace, &name, claim)?;
    Ok(PermittedSource::Claim(namespace, name, source))
}

/// The only message about a DataSource of another namespace. A user who may not clone from it must not learn
/// if it exists, if it is ready, and where it points to ([`holds_token_of`] checks the right). `None` if the
/// DataVolume names no such DataSource, or was permitted when its PVC was created.
fn far_message(request: &Request<'_>, claim: Option<&PersistentVolumeClaim>) -> Option<String> {
    let (home, source) = far_source(request)?;
    let (group, plural, part) = clones::RIGHT;
    claim.and_then(PersistentVolumeClaim::clone_source).is_none().then(|| {
        format!(
            "DataSource {home}/{source} is not ready, or the author of this DataVolume may not clone the PVC that it \
             points to: when it is ready, let a user who may create {plural}/{part} ({group}) in the namespace of \
             its PVC delete the DataVolume and create it again"
        )
    })
}

/// The source that the spec names.
fn source_in_spec(request: &Request<'_>, claim: Option<&PersistentVolumeClaim>) -> Result<NamedSource, Stop> {
    let spec = &request.volume.spec;
    let own = request.namespace().to_owned();
    let within =
        |other: &str, else_in: &str| if other.is_empty() { else_in.to_owned() } else { other.to_owned() };
    if let Some(source) = &spec.source {
        let at = |source: &PvcSource| (within(&source.namespace, &own), source.name.clone());
        return match (&source.pvc, &source.snapshot) {
            (Some(pvc), _) => Ok(at(pvc)).map(|(namespace, name)| NamedSource::Claim(namespace, name)),
            (None, Some(snapshot)) => {
                Ok(at(snapshot)).map(|(namespace, name)| NamedSource::Snapshot(namespace, name))
            }
            (None, None) => Stop::never(NOT_SERVED, "spec.source names no PVC"),
        };
    }
    if let Some((namespace, name)) = claim.and_then(PersistentVolumeClaim::clone_source) {
        return Ok(NamedSource::Claim(namespace.to_owned(), name.to_owned()));
    }
    let Some(named) = &spec.source_ref else {
        return Stop::never(NOT_SERVED, "spec.sourceRef names nothing");
    };
    let home = within(named.namespace.as_deref().unwrap_or_default(), &own);
    let why = match data_source::resolved(request.world, &home, &named.name) {
        Ok(source) => {
            let claim = source
                .pvc
                .as_ref()
                .map(|pvc| NamedSource::Claim(within(&pvc.namespace, &home), pvc.name.clone()));
            let snapshot = || {
                let snapshot = source.snapshot.as_ref()?;
                Some(NamedSource::Snapshot(within(&snapshot.namespace, &home), snapshot.name.clone()))
            };
            match claim.or_else(snapshot) {
                Some(named) => return Ok(named),
                None => ("NoSource".to_owned(), "it names nothing".to_owned()),
            }
        }
        Err(why) => why,
    };
    let (word, sentence) = why;
    let message = format!("DataSource {home}/{} is not ready ({word}: {sentence})", named.name);
    Stop::wait(NO_DATA_SOURCE, message)
}

/// True if the recorded source is gone and nothing of it was copied, so that the DataSource is resolved
/// again. Not for a clone by the storage, which cannot change its source.
fn is_left(request: &Request<'_>, target: &PersistentVolumeClaim) -> bool {
    let refers = request.volume.spec.source_ref.is_some() && request.volume.spec.source.is_none();
    let Some((namespace, name)) = target.clone_source().filter(|_| refers) else { return false };
    matches!(method::of_claim(target), CloneMethod::Copy(_))
        && source(request, namespace, name, Some(target)).is_none()
        && !has_copied(request, target)
}

/// Writes the new source on the PVC. An importer pod that has not started has the address of the former source.
fn note_anew(request: &Request<'_>, target: &PersistentVolumeClaim, source: &str) -> Outcome {
    if target.meta.annotations.get(CLONE_REQUEST).is_some_and(|noted| noted == source) {
        return Outcome::default();
    }
    let mut should = target.meta.annotations.clone();
    should.insert(CLONE_REQUEST.to_owned(), source.to_owned());
    Outcome::default()
        .before_status(claim_annotations::write(target, &should))
        .deletes(request.world.worker_for(target, Work::Import))
        .event(
            false,
            "CloneSourceChanged",
            format!("PVC {source} is cloned, because the previous source is gone"),
        )
}

/// True if the PVC may have bytes of the source: an importer pod runs, or has run.
fn has_copied(request: &Request<'_>, target: &PersistentVolumeClaim) -> bool {
    if request.is_standalone() {
        // Less is known of a PVC without a DataVolume.
        return matches!(request.phase, Phase::CloneScheduled | Phase::CloneInProgress);
    }
    let is_transfer = |said: &api::data_volume::Condition| said.r#type == ConditionType::Transferring;
    request.phase == Phase::CloneInProgress
        || request.status.conditions.iter().any(is_transfer)
        || request.world.worker_for(target, Work::Import).is_some_and(reader::has_run)
}

/// The source, if it exists. A source that is being deleted stays as long as a running pod reads it for the
/// clone into `target`.
fn source<'a>(
    request: &Request<'a>,
    namespace: &str,
    name: &str,
    target: Option<&PersistentVolumeClaim>,
) -> Option<&'a PersistentVolumeClaim> {
    let source = request.world.pvcs.get(namespace, name)?;
    let is_read = || {
        let target = target?;
        let uid = target.meta.uid.as_deref().unwrap_or_default();
        let pod = request.world.pods.get(namespace, &names::cloner(uid))?;
        let runs = pod.container(Work::Serve.container()).is_some_and(|container| container.running);
        Some(runs && !pod.is_going() && super::serve::is_source_pod(pod, source, target))
    };
    (source.meta.deletion_timestamp.is_none() || is_read() == Some(true)).then_some(source)
}

/// The source, where it can be cloned now. `target`: the PVC of its clone.
fn check_source<'a>(
    request: &Request<'a>,
    namespace: &str,
    name: &str,
    target: Option<&PersistentVolumeClaim>,
) -> Result<&'a PersistentVolumeClaim, Stop> {
    let shown = format!("{namespace}/{name}");
    let Some(source) = source(request, namespace, name, target) else {
        return match target.is_some_and(|target| has_copied(request, target)) {
            true => Stop::never("CloneSourceGone", format!("PVC {shown} was deleted while it was cloned")),
            false => Stop::wait(
                "CloneSourceNotFound",
                format!("{CLAIM} {shown}, which is to be cloned, does not exist"),
            ),
        };
    };
    if source.meta.uid == request.claim.and_then(|claim| claim.meta.uid.clone()) {
        return Stop::never(NOT_SERVED, format!("PVC {shown} would be a clone of itself"));
    }
    if source.meta.annotations.get(CONTENT_TYPE).is_some_and(|content| content == "archive") {
        let message = format!("PVC {shown} holds the files of an archive: only disks can be cloned yet");
        return Stop::never(NOT_SERVED, message);
    }
    if !source.is_bound() {
        return Stop::wait(
            "CloneSourceNotReady",
            format!("PVC {shown}, which is to be cloned, has no volume yet"),
        );
    }
    if let Err((reason, message)) = data_source::check_disk(request.world, namespace, name) {
        let message = format!("PVC {shown}, which is to be cloned, is not filled yet ({reason}: {message})");
        return Stop::wait("CloneSourceNotReady", message);
    }
    let filled_by = request.world.worker_of(source).filter(|pod| !pod.has_ended());
    if filled_by.is_some() {
        return Stop::wait(
            "CloneSourceNotReady",
            format!("a pod still writes to PVC {shown}, which is to be cloned"),
        );
    }
    Ok(source)
}

/// True if a source pod of this source serves the clone into this PVC.
fn is_served(request: &Request<'_>, claim: &PersistentVolumeClaim, namespace: &str, name: &str) -> bool {
    let uid = claim.meta.uid.as_deref().unwrap_or_default();
    let pod = request.world.pods.get(namespace, &names::cloner(uid));
    let source = request.world.pvcs.get(namespace, name);
    pod.zip(source).is_some_and(|(pod, source)| super::serve::is_source_pod(pod, source, claim))
}
