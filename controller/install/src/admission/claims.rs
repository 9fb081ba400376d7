//! virt-controller: what it changes of PVCs and PersistentVolumes.
//!
//! | right | bound |
//! |---|---|
//! | patch `persistentvolumeclaims` | annotations of CDI; the labels that name an instance type and a preference; the size of a DataVolume's PVC, which grows; the DataVolume of its name as the owner of a PVC that nobody looks after, and whose annotations say that it may be taken |
//! | create, delete `persistentvolumeclaims` | beside those of DataVolumes: `prime-UID`, owned by the PVC of that uid |
//! | create `persistentvolumeclaims` | `persistent-state-for-…`, of no more than [`SIZE`] and filled from nothing, owned by a VM or a VMI |
//! | patch `persistentvolumes` | the hand-over of a volume from `prime-UID` to the PVC of that uid, in one namespace; its reclaim policy, for that time |
//!
//! **A new owner deletes.** The garbage collector deletes a PVC whose owners are not there, and no policy can ask whether a DataVolume
//! of the uid in a patch is there. So the PVC itself must say, before the patch, that a DataVolume may take it:
//!
//! | annotation of the PVC | counts | virt-controller's account may write it |
//! |---|---|---|
//! | `allowClaimAdoption: "true"` | always | never |
//! | `storage.populatedFor: NAME`, its own name | not on a PVC that is filled by a `dataSourceRef` to CDI | on PVCs of DataVolumes; on those filled by a `dataSourceRef` to CDI, where it does not count |
//!
//! `allowClaimAdoption` and `storage.prePopulated` on the DataVolume alone are not enough: the same account makes DataVolumes.
//!
//! **An owner is taken away again** from a PVC alone that the same account gave it, as its note `storage.adoptedBy` says: the DataVolume of
//! that uid was deleted meanwhile. The note comes with the owner, in one update, and goes; so no other PVC loses its owner.
//!
//! **The reclaim policy** of a PersistentVolume, and the note of it, change together or not at all:
//!
//! ```text
//!  claimRef prime-UID, policy P ──one update──► claimRef of that uid, Retain, note P ──one update──► policy P, no note
//! ```
//!
//! PersistentVolumes are of the whole cluster: who may write their `claimRef` can bring the disk of one tenant to another, and who
//! may write their policy has the disks of others deleted. So what virt-controller's account may write there is this hand-over,
//! and nothing else.
//!
//! **Caveats.** Whoever has this account can still have a PVC deleted that was filled for a DataVolume and taken away from it
//! (`--cascade=orphan`), or whose annotations allow its adoption: take both annotations off a PVC that is to stay for good.

use super::controller::{base, is_owned};
use super::{Policy, differ_only, literal, rule, same};
use crate::Wishes;
use api::cdi::GROUP;
use api::cdi::annotations::{ADOPTED_BY, ALLOW_ADOPTION, POPULATED_FOR, RECLAIM_POLICY};
use cluster_model::objects::{ADOPTS, Kind, PRIME};
use cluster_model::state::{SIZE, STATE_FOR};

pub(super) fn policies(wishes: &Wishes) -> [Policy; 1] {
    let only_of_a_hand_over = format!(
        "{} && {} && {}",
        ["metadata.labels", "metadata.finalizers", "metadata.ownerReferences"].map(same).join(" && "),
        differ_only("metadata.?annotations", &format!("key == {}", literal(RECLAIM_POLICY))),
        differ_only("?spec", "key in ['claimRef', 'persistentVolumeReclaimPolicy']"),
    );
    [base(
        wishes,
        "kubevirt-controller-volumes",
        vec![rule("", &["persistentvolumes"], &["UPDATE"])],
        vec![
            (only_of_a_hand_over, "changes only the PVC of a PersistentVolume, and its reclaim policy"),
            (
                is_handed_over_at_most(),
                "hands a PersistentVolume over only from the PVC that was filled in the place of another, to that one",
            ),
            (
                is_kept_meanwhile(),
                "keeps a PersistentVolume while it is handed over, and gives it its own reclaim policy again",
            ),
        ],
    )]
}

/// The PVC of a PersistentVolume is what it was; or the volume leaves `prime-UID` for the PVC of that uid.
fn is_handed_over_at_most() -> String {
    let (new, old) = ("object.spec.?claimRef", "oldObject.spec.?claimRef");
    let text = |reference: &str, field: &str| format!("{reference}.?{field}.orValue('')");
    format!(
        "{} || {} == {} && {} != '' && {} == {} + {}",
        same("spec.claimRef"),
        text(new, "namespace"),
        text(old, "namespace"),
        text(new, "uid"),
        text(old, "name"),
        literal(PRIME),
        text(new, "uid"),
    )
}

/// With the update that hands a PersistentVolume over its reclaim policy becomes Retain, and what it was is noted; with a later
/// one both are as before. In every other update neither changes.
fn is_kept_meanwhile() -> String {
    let policy = |object: &str| format!("{object}.spec.?persistentVolumeReclaimPolicy.orValue('')");
    let (new, old) = (policy("object"), policy("oldObject"));
    let (noted, was_noted) = (note("object", RECLAIM_POLICY), note("oldObject", RECLAIM_POLICY));
    format!(
        "{} ? ({new} == {old} && {noted} == {was_noted} || {was_noted} != '' && {noted} == '' && {new} == {was_noted} && \
         ({old} == 'Retain' || {old} == {new})) : ({new} == 'Retain' && ({old} == 'Retain' ? {noted} == {was_noted} : {noted} == {old}))",
        same("spec.claimRef"),
    )
}

/// What an annotation of an object says.
fn note(object: &str, name: &str) -> String {
    format!("{object}.metadata.?annotations[?{}].orValue('')", literal(name))
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

/// An object of which it is true is a PVC for EFI variables and the TPM of a VM: small, and empty.
pub(super) fn is_state(object: &str) -> String {
    format!(
        "{object}.metadata.name.startsWith({}) && ({} || {}) && !has({object}.spec.dataSource) && \
         !has({object}.spec.dataSourceRef) && !has({object}.spec.volumeName) && \
         quantity(string({object}.spec.resources.requests.storage)).compareTo(quantity({})) <= 0",
        literal(format!("{STATE_FOR}-")),
        is_owned(object, Kind::VirtualMachine),
        is_owned(object, Kind::VirtualMachineInstance),
        literal(SIZE),
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

/// The owners of a PVC are those that were, or the DataVolume of its name beside them, where none looked after it and the PVC
/// said before that it may be taken.
pub(super) fn is_adopted_at_most() -> String {
    let owners = |object: &str| format!("{object}.metadata.?ownerReferences.orValue([])");
    let (new, old) = (owners("object"), owners("oldObject"));
    format!(
        "{new} == {old} || {} || ({}) && {new}.size() == {old}.size() + 1 && {old}.all(owner, owner in {new} && \
         !owner.?controller.orValue(false)) && {new}.all(owner, owner in {old} || owner.kind == {} && owner.apiVersion == {} && \
         owner.name == object.metadata.name)",
        is_given_back(&new, &old),
        may_be_taken("oldObject"),
        literal(Kind::DataVolume.name()),
        literal(Kind::DataVolume.api_version()),
    )
}

/// Of the owners none is missing but the DataVolume of the note, which goes with it.
fn is_given_back(new: &str, old: &str) -> String {
    let (noted, was_noted) = (note("object", ADOPTED_BY), note("oldObject", ADOPTED_BY));
    format!(
        "{was_noted} != '' && {noted} == '' && {new}.all(owner, owner in {old}) && \
         {old}.all(owner, owner in {new} || owner.uid == {was_noted})"
    )
}

/// The note of an adoption is as it was, or goes, or comes with the owner that it names.
pub(super) fn is_noted_with_its_owner() -> String {
    let (noted, was_noted) = (note("object", ADOPTED_BY), note("oldObject", ADOPTED_BY));
    let is_owned = |object: &str| {
        format!("{object}.metadata.?ownerReferences.orValue([]).exists(owner, owner.uid == {noted})")
    };
    format!("{noted} == {was_noted} || {noted} == '' || {} && !{}", is_owned("object"), is_owned("oldObject"))
}

/// The finalizers of a DataVolume are what they were, but for that of an adoption.
pub(super) fn is_held_for_adoption_at_most() -> String {
    let held = |object: &str| format!("{object}.metadata.?finalizers.orValue([])");
    let within = |one: &str, other: &str| {
        format!("{}.all(name, name == {} || name in {})", held(one), literal(ADOPTS), held(other))
    };
    format!("{} && {}", within("object", "oldObject"), within("oldObject", "object"))
}

/// A PVC of which it is true says itself that the DataVolume of its name may take it.
fn may_be_taken(object: &str) -> String {
    format!(
        "{} == 'true' || {} == {object}.metadata.name && !({})",
        note(object, ALLOW_ADOPTION),
        note(object, POPULATED_FOR),
        is_populated(object),
    )
}

/// What a PVC says of being taken is what it said; or, where it does not count or a DataVolume has the PVC already, for whom its
/// content was written.
pub(super) fn is_marked_at_most() -> String {
    let kept = |name: &str| format!("{} == {}", note("object", name), note("oldObject", name));
    format!(
        "{} && ({} || {} == object.metadata.name && ({} || {}))",
        kept(ALLOW_ADOPTION),
        kept(POPULATED_FOR),
        note("object", POPULATED_FOR),
        is_owned("object", Kind::DataVolume),
        is_populated("object"),
    )
}

/// A PVC of which it is true is filled by a `dataSourceRef` to one of our kinds.
fn is_populated(object: &str) -> String {
    format!("{object}.spec.?dataSourceRef.?apiGroup.orValue('') == {}", literal(GROUP))
}
