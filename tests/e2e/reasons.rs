//! What keeps a VMI waiting is told on the VMI.

use crate::{tiny, with_disks, with_spec};
use tests::cluster::Space;

/// The message of a condition, once it holds this.
pub(crate) fn told(space: &Space, condition: &str, words: &str) {
    let path = format!(".status.conditions[?(@.type==\"{condition}\")].message");
    tests::cluster::until(
        || space.look("vmi/web", &path).contains(words),
        || format!("{words:?} is not in {condition}: {}", space.look("vmi/web", ".status.conditions")),
    );
}

#[test]
fn an_image_that_is_not_there() {
    let Some(space) = Space::new("noimage") else { return };
    space.apply(&tiny("web", "Always").replace("registry:5000/tiny:1", "registry:5000/nothing:1"));
    told(&space, "Synchronized", "registry:5000/nothing:1");
    space.says("vm/web", ".status.printableStatus", "ImagePullBackOff");
}

#[test]
fn a_secret_that_is_not_there() {
    let Some(space) = Space::new("nosecret") else { return };
    let seed = "{name: seed, cloudInitNoCloud: {secretRef: {name: missing}}}";
    let disks = [("{name: seed, disk: {bus: virtio}}", seed)];
    space.apply(&with_disks(&tiny("web", "Always"), &disks));
    told(&space, "Synchronized", "secret \"missing\" not found");
}

#[test]
fn a_guest_that_is_too_big_for_every_node() {
    let Some(space) = Space::new("toobig") else { return };
    space.apply(&tiny("web", "Always").replace("256Mi", "900Gi"));
    told(&space, "PodScheduled", "Insufficient memory");
    space.says("vm/web", ".status.printableStatus", "ErrorUnschedulable");
}

#[test]
fn a_node_that_nobody_has() {
    let Some(space) = Space::new("nonode") else { return };
    space.apply(&with_spec(&tiny("web", "Always"), "      nodeSelector: {disk: quick}\n"));
    told(&space, "PodScheduled", "node affinity/selector");
    space.says("vm/web", ".status.printableStatus", "ErrorUnschedulable");
}
