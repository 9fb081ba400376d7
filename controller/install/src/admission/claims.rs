//! virt-controller: its changes of PVCs and PersistentVolumes.
//!
//! | right | bound |
//! |---|---|
//! | patch `persistentvolumeclaims` | annotations of CDI; the labels that name an instance type and a preference; the size of a DataVolume's PVC, which grows; the DataVolume of its name as the owner of a PVC that has no controller, and whose annotations permit the adoption |
//! | create, delete `persistentvolumeclaims` | beside those of DataVolumes: `prime-UID`, owned by the PVC of that uid |
//! | create, delete `persistentvolumeclaims` | those that a live migration copies a disk into, by the label of the migration, which is removed when the guest runs there |
//! | patch `persistentvolumeclaims` | their owner, from the migration to a VM or a VMI or to none; the annotations that say where a disk has moved |
//! | create `persistentvolumeclaims` | `persistent-state-for-…`, of no more than [`SIZE`] and filled from nothing, owned by a VM or a VMI |
//! | patch `persistentvolumes` | the hand-over of a volume from `prime-UID` to the PVC of that uid, in one namespace; its reclaim policy, for that time |
//!
//! **A wrong owner deletes the PVC.** The garbage collector deletes a PVC whose owners do not exist, and no
//! policy can check that a DataVolume with the uid in a patch exists. So the PVC itself must permit the
//! adoption before the patch:
//!
//! | annotation of the PVC | counts | virt-controller's account may write it |
//! |---|---|---|
//! | `allowClaimAdoption: "true"` | always | never |
//! | `storage.populatedFor: NAME`, its own name | not on a PVC that is filled by a `dataSourceRef` to CDI | on PVCs of DataVolumes; on those filled by a `dataSourceRef` to CDI, where it does not count |
//!
//! `allowClaimAdoption` and `storage.prePopulated` on the DataVolume alone are not enough: the same account
//! creates DataVolumes.
//!
//! **An owner is removed** only if the same account added it, as recorded in the annotation
//! `storage.adoptedBy`: the DataVolume of that uid was deleted meanwhile. The annotation is added and removed
//! together with the owner, in one update, so no other PVC loses its owner.
//!
//! **The reclaim policy** of a PersistentVolume, and the annotation that records it, change together or not
//! at all:
//!
//! ```text
//!  claimRef prime-UID, policy P ──one update──► claimRef of that uid, Retain, note P ──one update──► policy P, no note
//! ```
//!
//! PersistentVolumes are cluster-scoped: write access to their `claimRef` would permit moving the disk of one
//! tenant to another, and write access to their policy would permit deleting the disks of others. So
//! virt-controller's account may write this hand-over there, and nothing else.
//!
//! **Caveats.** A stolen token of this account can still delete a PVC that was filled for a DataVolume and
//! orphaned by it (`--cascade=orphan`), or whose annotations permit its adoption: remove both annotations
//! from a PVC that must stay.

use super::controller::{base, is_owned};
use super::{Policy, differ_only, literal, rule, same};
use crate::InstallOptions;
use api::cdi::GROUP;
use api::cdi::annotations::{ADOPTED_BY, ALLOW_ADOPTION, CLONE_REQUEST, POPULATED_FOR, RECLAIM_POLICY};
use api::instancetype::DEFAULTS;
use cluster_model::claim_moves::{
    COPIED_INTO, MOVED_FROM, MOVED_FROM_UID, MOVED_TO, MOVED_VM, MOVING_BY, MOVING_TO, ORIGIN, ORIGIN_UID,
};
use cluster_model::objects::{ADOPTS, Kind, MIGRATION_JOB, MIGRATION_NAME, PRIME};
use cluster_model::state::{SIZE, STATE_FOR};

pub(super) fn policies(options: &InstallOptions) -> [Policy; 1] {
    let only_of_a_hand_over = format!(
        "{} && {} && {}",
        ["metadata.labels", "metadata.finalizers", "metadata.ownerReferences"].map(same).join(" && "),
        differ_only("metadata.?annotations", &format!("key == {}", literal(RECLAIM_POLICY))),
        differ_only("?spec", "key in ['claimRef', 'persistentVolumeReclaimPolicy']"),
    );
    [base(
        options,
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

/// True if the PVC of a PersistentVolume is unchanged, or the volume moves from `prime-UID` to the PVC of
/// that uid.
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

/// True if the update that hands a PersistentVolume over sets its reclaim policy to Retain and records the
/// former policy, or a later update restores both. Every other update must change neither.
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

/// Value of an annotation of an object.
fn note(object: &str, name: &str) -> String {
    format!("{object}.metadata.?annotations[?{}].orValue('')", literal(name))
}

/// True for a PVC that is filled in place of its owner.
pub(super) fn is_prime(object: &str) -> String {
    format!(
        "{object}.metadata.?ownerReferences.orValue([]).exists(owner, owner.kind == {} && owner.apiVersion == {} && \
         {object}.metadata.name == {} + owner.uid)",
        literal(Kind::PersistentVolumeClaim.name()),
        literal(Kind::PersistentVolumeClaim.api_version()),
        literal(PRIME)
    )
}

/// True for a PVC for EFI variables and the TPM of a VM: small, and filled from nothing.
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

/// True if the finalizers of a PVC are unchanged, and only annotations and labels of virt-controller's own are not.
pub(super) fn is_noted_at_most() -> String {
    let annotations = format!(
        "key.startsWith('cdi.kubevirt.io/') || key == {} || key in {}",
        literal(CLONE_REQUEST),
        literal([
            MOVING_TO,
            MOVING_BY,
            MOVED_TO,
            COPIED_INTO,
            MIGRATION_NAME,
            MOVED_FROM,
            MOVED_FROM_UID,
            ORIGIN,
            ORIGIN_UID,
            MOVED_VM,
        ])
    );
    let labels = format!("key.startsWith({}) || key == {}", literal(DEFAULTS), literal(MIGRATION_JOB));
    format!(
        "{} && {} && {}",
        same("metadata.finalizers"),
        differ_only("metadata.?annotations", &annotations),
        differ_only("metadata.?labels", &labels)
    )
}

/// True for a PVC that its live migration owns, and that is filled from nothing else.
pub(super) fn is_made_for_migration(object: &str) -> String {
    let kind = Kind::VirtualMachineInstanceMigration;
    format!(
        "{} && {object}.metadata.?ownerReferences.orValue([]).all(owner, owner.kind == {} && owner.apiVersion == {} && \
         owner.uid == {}) && {} && !has({object}.spec.dataSource) && !has({object}.spec.dataSourceRef) && \
         !has({object}.spec.volumeName)",
        is_of_migration(object),
        literal(kind.name()),
        literal(kind.api_version()),
        label(object),
        is_owned(object, kind),
    )
}

/// True for a PVC that a live migration copies a disk into.
pub(super) fn is_of_migration(object: &str) -> String {
    format!("{} != '' && {} != ''", label(object), note(object, MOVED_FROM))
}

/// True if the label of a live migration is unchanged, or removed, and a PVC that has it is not marked as made by that migration: such
/// a PVC may be deleted.
pub(super) fn is_let_go_at_most() -> String {
    format!(
        "{} in ['', {}] && ({} == '' || {} == {})",
        label("object"),
        label("oldObject"),
        label("oldObject"),
        note("object", MOVED_FROM),
        note("oldObject", MOVED_FROM)
    )
}

/// The uid of the live migration that copies a disk into a PVC.
fn label(object: &str) -> String {
    format!("{object}.metadata.?labels[?{}].orValue('')", literal(MIGRATION_JOB))
}

/// True if a PVC that a live migration owned has a VM or a VMI as its owner now, or none.
fn is_kept_for_good(new: &str, old: &str) -> String {
    let (vm, vmi) = (Kind::VirtualMachine, Kind::VirtualMachineInstance);
    format!(
        "{} && {old}.all(owner, owner.uid == {}) && {new}.size() <= 1 && {new}.all(owner, owner.kind in {} && owner.apiVersion == {})",
        is_of_migration("oldObject"),
        label("oldObject"),
        literal([vm.name(), vmi.name()]),
        literal(vm.api_version()),
    )
}

/// True if the spec of a PVC is unchanged, or requests more storage for a PVC that a DataVolume owns.
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

/// True if the owners of a PVC are unchanged, or the DataVolume of its name is added to a PVC without a
/// controller that permitted the adoption before.
pub(super) fn is_adopted_at_most() -> String {
    let owners = |object: &str| format!("{object}.metadata.?ownerReferences.orValue([])");
    let (new, old) = (owners("object"), owners("oldObject"));
    format!(
        "{new} == {old} || {} || {} || ({}) && {new}.size() == {old}.size() + 1 && {old}.all(owner, owner in {new} && \
         !owner.?controller.orValue(false)) && {new}.all(owner, owner in {old} || owner.kind == {} && owner.apiVersion == {} && \
         owner.name == object.metadata.name)",
        is_given_back(&new, &old),
        is_kept_for_good(&new, &old),
        may_be_taken("oldObject"),
        literal(Kind::DataVolume.name()),
        literal(Kind::DataVolume.api_version()),
    )
}

/// True if the only removed owner is the DataVolume in the annotation, which is removed with it.
fn is_given_back(new: &str, old: &str) -> String {
    let (noted, was_noted) = (note("object", ADOPTED_BY), note("oldObject", ADOPTED_BY));
    format!(
        "{was_noted} != '' && {noted} == '' && {new}.all(owner, owner in {old}) && \
         {old}.all(owner, owner in {new} || owner.uid == {was_noted})"
    )
}

/// True if the annotation of an adoption is unchanged or removed, or is added with the owner that it names.
pub(super) fn is_noted_with_its_owner() -> String {
    let (noted, was_noted) = (note("object", ADOPTED_BY), note("oldObject", ADOPTED_BY));
    let is_owned = |object: &str| {
        format!("{object}.metadata.?ownerReferences.orValue([]).exists(owner, owner.uid == {noted})")
    };
    format!("{noted} == {was_noted} || {noted} == '' || {} && !{}", is_owned("object"), is_owned("oldObject"))
}

/// True if the finalizers of a DataVolume are unchanged, except that of an adoption.
pub(super) fn is_held_for_adoption_at_most() -> String {
    let held = |object: &str| format!("{object}.metadata.?finalizers.orValue([])");
    let within = |one: &str, other: &str| {
        format!("{}.all(name, name == {} || name in {})", held(one), literal(ADOPTS), held(other))
    };
    format!("{} && {}", within("object", "oldObject"), within("oldObject", "object"))
}

/// True for a PVC that permits its adoption by the DataVolume of its name.
fn may_be_taken(object: &str) -> String {
    format!(
        "{} == 'true' || {} == {object}.metadata.name && !({})",
        note(object, ALLOW_ADOPTION),
        note(object, POPULATED_FOR),
        is_populated(object),
    )
}

/// True if the permissions of a PVC for its adoption are unchanged. `populatedFor` may also be set where it
/// has no effect, or where a DataVolume owns the PVC already.
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

/// True for a PVC that is filled by a `dataSourceRef` to one of our kinds.
fn is_populated(object: &str) -> String {
    format!("{object}.spec.?dataSourceRef.?apiGroup.orValue('') == {}", literal(GROUP))
}
