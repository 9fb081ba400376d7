//! Clones that have begun to read their source, and need it until they are complete: also between two source
//! pods, while nothing reads.

use super::super::request::requests;
use super::permit::check_permission;
use api::data_volume::Phase;
use cluster_model::clones::CLONE_SOURCE_UID;
use cluster_model::objects::{IndexKey, Kind, PersistentVolumeClaim, World};
use jiff::Timestamp;

/// True if a clone of this PVC by pods has begun and is not complete. Annotations of a PVC are those of its
/// tenant, so a clone counts only while it is requested, by a user who may clone the PVC.
pub(crate) fn is_begun_clone(world: &World, source: &PersistentVolumeClaim, now: Timestamp) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (text(&source.meta.namespace), text(&source.meta.name));
    let mark = IndexKey::CloneOf(namespace.clone(), name.clone());
    let targets = world.indexed_by(&mark).filter(|key| key.kind == Kind::PersistentVolumeClaim);
    let mut targets = targets.filter_map(|key| Some((key, world.pvcs.get(&key.namespace, &key.name)?)));
    targets.any(|(key, target)| {
        let has_begun = target.meta.annotations.contains_key(CLONE_SOURCE_UID);
        let is_open = has_begun && !target.is_filled() && target.meta.deletion_timestamp.is_none();
        is_open
            && requests(world, &key.namespace, &key.name, now).iter().any(|request| {
                request.is_clone()
                    && !request.is_deleted()
                    && !matches!(request.phase, Phase::Succeeded | Phase::Failed)
                    && request.own_claim().is_some()
                    && check_permission(request, &namespace, &name).is_ok()
            })
    })
}
