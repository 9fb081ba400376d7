//! Announcement of a clone by the storage: an annotation of the source, before the PVC of the clone is created.
//!
//! ```text
//!  no pod writes to the source? ─► annotation of the source ─► no pod writes to it? ─► the PVC of the clone is created
//!                                         │                                                  └─► the annotation goes
//!                                         └─► no VMI starts on the source, and one whose pod is there gives way
//! ```
//!
//! The request that creates the PVC may be slow, or of a leader that is being replaced: a VMI could start
//! after the last look at the pods, and the driver would copy the disk under its guest. So each side announces
//! itself before it looks: a VMI by its launcher pod, a clone by the annotation. One of the two looks sees the
//! other side.
//!
//! Each clone has an annotation of its own, with the uid of its DataVolume: other clones of the same source
//! neither wait for it nor overwrite it. It counts while the DataVolume may create its PVC
//! ([`World::awaits_clone`]). It is removed under the key of the DataVolume, also where that is gone.

use super::super::claim_annotations;
use super::super::request::Request;
use cluster_model::clones::CLONE_INTO;
use cluster_model::objects::{IndexKey, Kind, PersistentVolumeClaim, World};
use cluster_model::plan::Plan;

/// Plan that announces the clone on its source and requires that no pod writes to the source. Nothing is
/// announced while a pod does.
pub(super) fn announce(request: &Request<'_>, source: &PersistentVolumeClaim) -> Plan {
    let mut plan = Plan::default();
    let name = format!("{CLONE_INTO}{}", request.meta().uid.as_deref().unwrap_or_default());
    let mut should = source.meta.annotations.clone();
    if should.insert(name, request.name().to_owned()).as_deref() != Some(request.name()) {
        plan.unused(&source.meta);
        plan = plan.and(claim_annotations::write(source, &should));
    }
    plan.unused(&source.meta);
    plan
}

/// Removes the announcements of clones for the DataVolume of this name that do not count any more.
pub(in super::super) fn withdraw(world: &World, namespace: &str, name: &str) -> Plan {
    let mark = IndexKey::CloneAnnounced(namespace.to_owned(), name.to_owned());
    let sources = world.indexed_by(&mark).filter(|key| key.kind == Kind::PersistentVolumeClaim);
    let sources = sources.filter_map(|key| world.pvcs.get(&key.namespace, &key.name));
    sources.fold(Plan::default(), |plan, source| {
        let mut should = source.meta.annotations.clone();
        for (uid, of) in source.announced_clones() {
            if of == name && !world.awaits_clone(namespace, uid, name) {
                should.remove(&format!("{CLONE_INTO}{uid}"));
            }
        }
        plan.and(claim_annotations::write(source, &should))
    })
}
