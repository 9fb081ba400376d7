//! The input of this reconciler: one disk to fill, independent of the kind of object that requests it.
//!
//! | requesting object | DataVolume of the request | the status is written to |
//! |---|---|---|
//! | a DataVolume with a source | itself | its status; annotations of its PVC, for clients of uploads |
//! | a DataVolume whose PVC names what fills it ([`super::external`]) | itself | its status |
//! | a PVC, annotated as the target of an upload ([`super::standalone_claim`]) | the one that would have made the PVC | annotations of the PVC |
//! | a PVC that is filled in the place of one with a `dataSourceRef` ([`super::populator`]) | the one that would have made the PVC | annotations of the PVC |
//!
//! All steps read a [`Request`] and nothing else of the requesting object. A request does not change: a step
//! returns its findings as a [`super::outcome::Outcome`].

use super::terms::{self, Terms};
use super::{adopt, populator, standalone_claim};
use api::data_volume::{DataVolume, Phase, Status};
use api::meta::ObjectMeta;
use cluster_model::objects::{Key, Kind, PersistentVolumeClaim, Work, World, key, owner};
use jiff::Timestamp;
use std::borrow::Cow;

/// Request to fill a disk.
#[derive(Clone, Debug)]
pub(super) struct Request<'a> {
    pub(super) world: &'a World,
    pub(super) now: Timestamp,
    /// The DataVolume. Of a PVC without one, the DataVolume that would have made the PVC.
    pub(super) volume: Cow<'a, DataVolume>,
    /// The kind of the object that asks: DataVolume, or PersistentVolumeClaim without a DataVolume.
    pub(super) asked_by: Kind,
    /// The object that gets the events.
    pub(super) events_on: (Kind, &'a ObjectMeta),
    pub(super) work: Work,
    /// The PVC of that name, also one of another owner.
    pub(super) claim: Option<&'a PersistentVolumeClaim>,
    /// The status as it was written last.
    pub(super) status: Status,
    pub(super) phase: Phase,
}

/// The requests for the disk of a name: that of the DataVolume, and that of the PVC where it is filled without one.
pub(super) fn requests<'a>(
    world: &'a World,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> Vec<Request<'a>> {
    let claim = world.pvcs.get(namespace, name);
    let volume = world.data_volumes.get(namespace, name);
    let is_adopted = |claim: &&PersistentVolumeClaim| {
        volume.is_some_and(|volume| adopt::reason(world, volume, claim).is_some())
    };
    let of_volume = volume.map(|volume| Request::of_volume(world, volume, now));
    let populated = claim.and_then(|claim| {
        let volume = populator::volume_of_prime(world, claim)?;
        Some(Request::of_claim(world, claim, volume, Work::Import, now))
    });
    // Any user may annotate a PVC as the target of an upload. The annotation does not count where the PVC has another source.
    let uploaded = claim
        .filter(|claim| populated.is_none() && claim.is_upload_target() && !is_adopted(claim))
        .map(|claim| Request::of_claim(world, claim, standalone_claim::uploaded(claim), Work::Upload, now));
    of_volume.into_iter().chain(uploaded).chain(populated).collect()
}

impl<'a> Request<'a> {
    /// The request of a DataVolume.
    pub(super) fn of_volume(world: &'a World, volume: &'a DataVolume, now: Timestamp) -> Request<'a> {
        let is_upload = volume.spec.source.as_ref().is_some_and(|source| source.upload.is_some());
        let work = if is_upload { Work::Upload } else { Work::Import };
        let events_on = (Kind::DataVolume, &volume.metadata);
        Request::new(world, Cow::Borrowed(volume), Kind::DataVolume, events_on, work, now)
    }

    /// The request of a PVC without a DataVolume. `volume`: the DataVolume that would have made the PVC.
    fn of_claim(
        world: &'a World,
        claim: &'a PersistentVolumeClaim,
        volume: DataVolume,
        work: Work,
        now: Timestamp,
    ) -> Request<'a> {
        // Users look at the PVC that they created, not at the one that is filled in its place.
        let shown = populator::target(world, claim).unwrap_or(claim);
        let events_on = (Kind::PersistentVolumeClaim, &shown.meta);
        Request::new(world, Cow::Owned(volume), Kind::PersistentVolumeClaim, events_on, work, now)
    }

    fn new(
        world: &'a World,
        volume: Cow<'a, DataVolume>,
        asked_by: Kind,
        events_on: (Kind, &'a ObjectMeta),
        work: Work,
        now: Timestamp,
    ) -> Request<'a> {
        let meta = &volume.metadata;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let claim = world.pvcs.get(&text(&meta.namespace), &text(&meta.name));
        let status = volume.status.clone().unwrap_or_default();
        let phase = status.phase.clone().unwrap_or_default();
        Request { world, now, volume, asked_by, events_on, work, claim, status, phase }
    }

    pub(super) fn meta(&self) -> &ObjectMeta {
        &self.volume.metadata
    }

    pub(super) fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }

    /// The key under which the disk is decided on, and under which failures of its plans are kept.
    pub(super) fn key(&self) -> Key {
        key(Kind::DataVolume, self.meta())
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    /// True if the request may be worked on. Without a KubeVirt object nothing is created, and the PVC of a
    /// deleted DataVolume is deleted with it.
    pub(super) fn is_served(&self) -> bool {
        !self.is_deleted() && self.world.permissions().is_some()
    }

    /// True if a PVC without a DataVolume is the requesting object.
    pub(super) fn is_standalone(&self) -> bool {
        self.asked_by == Kind::PersistentVolumeClaim
    }

    /// True if the PVC is the one of this request: owned by the DataVolume, or the PVC that asks.
    pub(super) fn owns(&self, claim: &PersistentVolumeClaim) -> bool {
        let uid = self.meta().uid.as_deref();
        match self.is_standalone() {
            true => claim.meta.uid.as_deref() == uid,
            false => owner::controller(&claim.meta).is_some_and(|owner| Some(owner.uid.as_str()) == uid),
        }
    }

    /// The PVC of this request, where it exists.
    pub(super) fn own_claim(&self) -> Option<&'a PersistentVolumeClaim> {
        self.claim.filter(|claim| self.owns(claim))
    }

    /// True if the disk is filled from another PVC, or from a snapshot of one.
    pub(super) fn is_clone(&self) -> bool {
        let spec = &self.volume.spec;
        let source = spec.source.as_ref();
        spec.source_ref.is_some()
            || source.is_some_and(|source| source.pvc.is_some() || source.snapshot.is_some())
    }

    /// True if the PVC itself names its source.
    pub(super) fn is_populated_externally(&self) -> bool {
        self.volume.spec.is_populated_externally()
    }

    pub(super) fn terms(&self) -> &'static Terms {
        if self.is_clone() { &terms::CLONE } else { terms::of_work(self.work) }
    }

    /// The image that the node pulls instead of the worker.
    pub(super) fn node_image(&self) -> Option<&str> {
        self.volume.spec.source.as_ref()?.registry.as_ref()?.of_node()
    }
}
