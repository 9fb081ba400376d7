//! virt-controller: what it changes of PVCs and PersistentVolumes.
//!
//! | right | bound |
//! |---|---|
//! | patch `persistentvolumeclaims` | annotations of CDI; the size of a DataVolume's PVC, which grows; the DataVolume of its name as the owner of a PVC that nobody looks after |
//! | create, delete `persistentvolumeclaims` | beside those of DataVolumes: `prime-UID`, owned by the PVC of that uid |
//! | patch `persistentvolumes` | the hand-over of a volume from `prime-UID` to the PVC of that uid, in one namespace; its reclaim policy, for that time |
//!
//! PersistentVolumes are of the whole cluster: who may write their `claimRef` can bring the disk of one tenant to another. So
//! what virt-controller's account may write there is this hand-over, and nothing else.

use super::controller::{base, is_owned};
use super::{Policy, differ_only, literal, rule, same};
use crate::Wishes;
use api::cdi::annotations::RECLAIM_POLICY;
use kubernetes::objects::{Kind, PRIME};

pub(super) fn policies(wishes: &Wishes) -> [Policy; 1] {
    let (new, old) = ("object.spec.?claimRef", "oldObject.spec.?claimRef");
    let text = |reference: &str, field: &str| format!("{reference}.?{field}.orValue('')");
    let policy = |object: &str| format!("{object}.spec.?persistentVolumeReclaimPolicy.orValue('')");
    let noted =
        |object: &str| format!("{object}.metadata.?annotations[?{}].orValue('')", literal(RECLAIM_POLICY));
    [base(
        wishes,
        "kubevirt-controller-volumes",
        vec![rule("", &["persistentvolumes"], &["UPDATE"])],
        vec![
            (
                format!(
                    "{} && {} && {}",
                    ["metadata.labels", "metadata.finalizers", "metadata.ownerReferences"]
                        .map(same)
                        .join(" && "),
                    differ_only("metadata.?annotations", &format!("key == {}", literal(RECLAIM_POLICY))),
                    differ_only("?spec", "key in ['claimRef', 'persistentVolumeReclaimPolicy']"),
                ),
                "changes only the PVC of a PersistentVolume, and its reclaim policy",
            ),
            (
                format!(
                    "{} || {} == {} && {} != '' && {} == {} + {}",
                    same("spec.claimRef"),
                    text(new, "namespace"),
                    text(old, "namespace"),
                    text(new, "uid"),
                    text(old, "name"),
                    literal(PRIME),
                    text(new, "uid"),
                ),
                "hands a PersistentVolume over only from the PVC that was filled in the place of another, to that one",
            ),
            (
                format!(
                    "{new} == {old} || {new} == 'Retain' && {noted_new} == {old} || {old} == 'Retain' && {noted_old} == {new}",
                    new = policy("object"),
                    old = policy("oldObject"),
                    noted_new = noted("object"),
                    noted_old = noted("oldObject"),
                ),
                "keeps a PersistentVolume while it is handed over, and gives it its own reclaim policy again",
            ),
        ],
    )]
}

/// An object of which it is true is a PVC that is filled in the place of its owner.
pub(super) fn is_prime(object: &str) -> String {
    format!(
        "{object}.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == {} && owner.apiVersion == {} && \
         {object}.metadata.name == {} + owner.uid)",
        literal(Kind::PersistentVolumeClaim.name()),
        literal(Kind::PersistentVolumeClaim.api_version()),
        literal(PRIME)
    )
}

/// The spec of a PVC is as it was, or asks for more, of a PVC that a DataVolume looks after.
pub(super) fn grows_at_most() -> String {
    let size = |object: &str| format!("quantity(string({object}.spec.resources.requests.storage))");
    format!(
        "{} || {} && {} && {} && {} && {}.isGreaterThan({})",
        same("spec"),
        is_owned("oldObject", Kind::DataVolume),
        differ_only("?spec", "key == 'resources'"),
        differ_only("spec.?resources", "key == 'requests'"),
        differ_only("spec.?resources.?requests", "key == 'storage'"),
        size("object"),
        size("oldObject"),
    )
}

/// The owners of a PVC are those that were, or the DataVolume of its name beside them, where none looked after it.
pub(super) fn is_adopted_at_most() -> String {
    let owners = |object: &str| format!("{object}.metadata.?ownerReferences.orValue([])");
    let (new, old) = (owners("object"), owners("oldObject"));
    format!(
        "{new} == {old} || {new}.size() == {old}.size() + 1 && {old}.all(owner, owner in {new} && \
         !owner.?controller.orValue(false)) && {new}.all(owner, owner in {old} || owner.kind == {} && owner.apiVersion == {} && \
         owner.name == object.metadata.name)",
        literal(Kind::DataVolume.name()),
        literal(Kind::DataVolume.api_version()),
    )
}
